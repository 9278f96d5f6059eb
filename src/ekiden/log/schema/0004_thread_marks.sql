-- How far the items of each sub-agent's thread of a session were told; the main conversation's is the session's own.
CREATE TABLE thread_marks (
    team_id text NOT NULL,
    session_id text NOT NULL,
    thread text NOT NULL,
    mark text NOT NULL,
    PRIMARY KEY (team_id, session_id, thread)
);
