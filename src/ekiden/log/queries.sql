-- The log's own statements. Engines bind them by position, in the order of first use.

-- name: meta
-- All that the database says of itself.
SELECT name, value FROM meta;

-- name: set_meta
-- Says one thing of the database.
INSERT INTO meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: head
-- The seq of a team's newest event; no row for a team without events.
SELECT head FROM teams WHERE team_id = :team_id;

-- name: set_head
-- Moves a team's head.
INSERT INTO teams (team_id, head) VALUES (:team_id, :head)
ON CONFLICT (team_id) DO UPDATE SET head = excluded.head;

-- name: heads
-- How far each team is.
SELECT team_id, head FROM teams;

-- name: oldest
-- The seq of the oldest event that is still held.
SELECT min(seq) AS oldest FROM events WHERE team_id = :team_id;

-- name: add_event
-- Adds one event.
INSERT INTO events (team_id, seq, kind, topics, at, actor_id, actor_key, actor_name, body)
VALUES (:team_id, :seq, :kind, :topics, :at, :actor_id, :actor_key, :actor_name, :body);

-- name: add_event_topic
-- Lets an event be found by one of its topics.
INSERT INTO event_topics (team_id, topic, seq) VALUES (:team_id, :topic, :seq);

-- name: events_after
-- Events of all topics after a seq, in order.
SELECT seq, kind, topics, at, actor_id, actor_key, actor_name, body
FROM events WHERE team_id = :team_id AND seq > :after ORDER BY seq LIMIT :most;

-- name: forget_events
-- Drops events before a seq.
DELETE FROM events WHERE team_id = :team_id AND seq < :before;

-- name: forget_event_topics
-- Drops what finds the events before a seq.
DELETE FROM event_topics WHERE team_id = :team_id AND seq < :before;

-- name: commands
-- What commands were answered, by team, principal and id.
WITH wanted (team_id, principal_id, command_id) AS (VALUES (:team_id, :principal_id, :command_id))
SELECT c.team_id, c.principal_id, c.command_id, c.digest, c.answer, c.seq, c.done_at_s
FROM wanted AS w JOIN commands AS c
    ON c.team_id = w.team_id AND c.principal_id = w.principal_id AND c.command_id = w.command_id;

-- name: add_command
-- Keeps what a command was answered; replaces an answer that was too old to count.
INSERT INTO commands (team_id, principal_id, command_id, digest, answer, seq, done_at_s)
VALUES (:team_id, :principal_id, :command_id, :digest, :answer, :seq, :done_at_s)
ON CONFLICT (team_id, principal_id, command_id) DO UPDATE
SET digest = excluded.digest, answer = excluded.answer, seq = excluded.seq, done_at_s = excluded.done_at_s;

-- name: forget_commands
-- Drops some of the answers that no repeated command may ask for any more.
DELETE FROM commands WHERE (team_id, principal_id, command_id) IN (
    SELECT team_id, principal_id, command_id FROM commands
    WHERE done_at_s < :before ORDER BY done_at_s LIMIT :most
);
