-- What differs on SQLite: this table is all key, so it is its own index.

-- Which events a topic has. Following a topic reads a range of this.
CREATE TABLE event_topics (
    team_id text NOT NULL,
    topic text NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (team_id, topic, seq)
) WITHOUT ROWID;
