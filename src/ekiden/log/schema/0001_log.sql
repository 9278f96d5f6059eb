-- The log itself: what was said, in which order, and what commands were answered.
-- Times are RFC 3339 in UTC; the few that are compared are whole seconds since the epoch.

-- One row each: log_id, made_at.
CREATE TABLE meta (
    name text NOT NULL PRIMARY KEY,
    value text NOT NULL
);

-- `head` is the seq of the team's newest event. It stays when old events are forgotten.
CREATE TABLE teams (
    team_id text NOT NULL PRIMARY KEY,
    head bigint NOT NULL
);

-- `topics` are parted by spaces; the first is the event's own. `body` is JSON.
CREATE TABLE events (
    team_id text NOT NULL,
    seq bigint NOT NULL,
    kind text NOT NULL,
    topics text NOT NULL,
    at text NOT NULL,
    actor_id text NOT NULL,
    actor_key text NOT NULL,
    actor_name text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (team_id, seq)
);

-- The answers of commands, for as long as a repeated command may still come. `seq` is the head after it.
CREATE TABLE commands (
    team_id text NOT NULL,
    principal_id text NOT NULL,
    command_id text NOT NULL,
    digest text NOT NULL,
    answer text NOT NULL,
    seq bigint NOT NULL,
    done_at_s bigint NOT NULL,
    PRIMARY KEY (team_id, principal_id, command_id)
);

CREATE INDEX commands_by_age ON commands (done_at_s);
