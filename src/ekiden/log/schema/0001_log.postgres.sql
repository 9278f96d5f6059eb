-- What differs on Postgres.

-- Which events a topic has. Following a topic reads a range of this.
CREATE TABLE event_topics (
    team_id text NOT NULL,
    topic text NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (team_id, topic, seq)
);

-- The last commit of each node for each team. A node that lost its connection while it committed finds here whether
-- the commit took place. `at_s` only serves to forget nodes that are gone.
CREATE TABLE batches (
    team_id text NOT NULL,
    node_id text NOT NULL,
    batch_id text NOT NULL,
    at_s bigint NOT NULL,
    PRIMARY KEY (team_id, node_id)
);

-- One row of each is changed with every commit: room in the page keeps such a change in its place.
ALTER TABLE teams SET (fillfactor = 30);
ALTER TABLE batches SET (fillfactor = 30);
