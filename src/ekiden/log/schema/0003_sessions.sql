-- The sessions room: computers, their sessions, turns, approvals and messages. Projections of the log, written in
-- the transaction of the events that they come from. JSON columns hold the shapes of `ekiden.sessions.wire`.

-- A computer on which agents run. `here` is 1 while it counts as connected; `seen_at` is when that last changed.
CREATE TABLE hosts (
    team_id text NOT NULL,
    host_id text NOT NULL,
    name text NOT NULL,
    report text NOT NULL,
    here bigint NOT NULL,
    seen_at text NOT NULL,
    PRIMARY KEY (team_id, host_id)
);

-- `report` is the host's SessionReport with what is known of its turn since; `state` is the report's. `words` is what
-- the list is searched by, `updated_at` the report's in one spelling that sorts. `waits` is 1 while a program outside
-- Ekiden asks its own person.
CREATE TABLE sessions (
    team_id text NOT NULL,
    session_id text NOT NULL,
    host_id text NOT NULL,
    vendor text NOT NULL,
    project text NOT NULL,
    words text NOT NULL,
    state text NOT NULL,
    updated_at text NOT NULL,
    report text NOT NULL,
    waits bigint NOT NULL,
    mark text NOT NULL,
    approvals_open bigint NOT NULL,
    messages_waiting bigint NOT NULL,
    PRIMARY KEY (team_id, session_id)
);

CREATE INDEX sessions_newest ON sessions (team_id, updated_at, session_id);
CREATE INDEX sessions_by_host ON sessions (team_id, host_id);
CREATE INDEX sessions_by_state ON sessions (team_id, state);

-- Where a session stood in the list before the event `seq` moved it: so that a reader of pages sees one list.
CREATE TABLE session_moves (
    team_id text NOT NULL,
    session_id text NOT NULL,
    seq bigint NOT NULL,
    updated_at text NOT NULL,
    PRIMARY KEY (team_id, session_id, seq)
);

CREATE INDEX session_moves_by_age ON session_moves (team_id, seq);

-- `interrupt_by` is the name of who asked first that the turn stop; `seq` is of the event that told of the turn.
CREATE TABLE turns (
    team_id text NOT NULL,
    session_id text NOT NULL,
    turn_id text NOT NULL,
    state text NOT NULL,
    reason text NOT NULL,
    proof_at text NOT NULL,
    interrupt_by text NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (team_id, session_id, turn_id)
);

CREATE INDEX turns_by_state ON turns (team_id, session_id, state);

-- `body` is the Approval; `seq` is of the event in which it was asked.
CREATE TABLE approvals (
    team_id text NOT NULL,
    approval_id text NOT NULL,
    session_id text NOT NULL,
    host_id text NOT NULL,
    turn_id text NOT NULL,
    state text NOT NULL,
    seq bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (team_id, approval_id)
);

CREATE INDEX approvals_of_session ON approvals (team_id, session_id, state);
CREATE INDEX approvals_by_state ON approvals (team_id, state);

-- `body` is the Message; `seq` is of the event in which it was stored: messages have this order and no other.
CREATE TABLE messages (
    team_id text NOT NULL,
    message_id text NOT NULL,
    session_id text NOT NULL,
    host_id text NOT NULL,
    state text NOT NULL,
    seq bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (team_id, message_id)
);

CREATE INDEX messages_of_session ON messages (team_id, session_id, state);
CREATE INDEX messages_of_host ON messages (team_id, host_id, state);
