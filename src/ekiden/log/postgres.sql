-- The log's own statements where Postgres takes many rows at once, as arrays, or locks.

-- name: lock_team
-- Takes a team for one commit and gives its head; no row for a team that has none yet.
SELECT head FROM teams WHERE team_id = :team_id FOR UPDATE;

-- name: add_team
-- Gives a team its row.
INSERT INTO teams (team_id, head) VALUES (:team_id, 0) ON CONFLICT (team_id) DO NOTHING;

-- name: now_s
-- The database's clock, in seconds since the epoch: the one that all nodes follow.
SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision);

-- name: taken
-- How far a team is, with each of these commands that was answered before; one row at least.
-- The limit keeps each a look into the index: a plan that was made while the table was small may otherwise read all of
-- it, for as long as the connection lives.
SELECT t.head, f.principal_id, f.command_id, f.digest, f.answer, f.seq, f.done_at_s
FROM (SELECT (SELECT head FROM teams WHERE team_id = :team_id) AS head) AS t
LEFT JOIN (
    SELECT c.* FROM unnest(:principal_ids::text[], :command_ids::text[]) AS w (principal_id, command_id)
    CROSS JOIN LATERAL (
        SELECT * FROM commands AS k
        WHERE k.team_id = :team_id AND k.principal_id = w.principal_id AND k.command_id = w.command_id LIMIT 1
    ) AS c
) AS f ON true;

-- name: forget_answers
-- Drops answers of a team's commands that are too old to count and are given anew.
DELETE FROM commands AS c USING unnest(:principal_ids::text[], :command_ids::text[]) AS w (principal_id, command_id)
WHERE c.team_id = :team_id AND c.principal_id = w.principal_id AND c.command_id = w.command_id;

-- name: write_batch
-- Writes events with their topics, and answers; moves the team's head, and says which commit this is. Columns come
-- as one text each; of a column with one empty text nothing is left, hence the coalesces.
WITH given AS MATERIALIZED (
    SELECT :head_before + e.number AS seq, coalesce(e.kind, '') AS kind, e.topics, e.at,
        coalesce(e.actor_id, '') AS actor_id, coalesce(e.actor_key, '') AS actor_key,
        coalesce(e.actor_name, '') AS actor_name, coalesce(e.body, '') AS body
    FROM unnest(
        string_to_array(:kinds, :mark), string_to_array(:topics, :mark), string_to_array(:ats, :mark),
        string_to_array(:actor_ids, :mark), string_to_array(:actor_keys, :mark),
        string_to_array(:actor_names, :mark), string_to_array(:bodies, :mark)
    ) WITH ORDINALITY AS e (kind, topics, at, actor_id, actor_key, actor_name, body, number)
), said AS (
    INSERT INTO events (team_id, seq, kind, topics, at, actor_id, actor_key, actor_name, body)
    SELECT :team_id, g.* FROM given AS g
), found_by AS (
    INSERT INTO event_topics (team_id, topic, seq)
    SELECT :team_id, t.topic, g.seq FROM given AS g CROSS JOIN LATERAL unnest(string_to_array(g.topics, ' ')) AS t (topic)
), answered AS (
    INSERT INTO commands (team_id, principal_id, command_id, digest, answer, seq, done_at_s)
    SELECT :team_id, coalesce(a.principal_id, ''), coalesce(a.command_id, ''), coalesce(a.digest, ''),
        coalesce(a.answer, ''), a.seq, :at_s
    FROM unnest(
        string_to_array(:principal_ids, :mark), string_to_array(:command_ids, :mark),
        string_to_array(:digests, :mark), string_to_array(:answers, :mark),
        string_to_array(:answer_seqs, :mark)::bigint[]
    ) AS a (principal_id, command_id, digest, answer, seq)
), moved AS (
    UPDATE teams SET head = :head WHERE team_id = :team_id AND head <> :head
)
INSERT INTO batches (team_id, node_id, batch_id, at_s) VALUES (:team_id, :node_id, :batch_id, :at_s)
ON CONFLICT (team_id, node_id) DO UPDATE SET batch_id = excluded.batch_id, at_s = excluded.at_s;

-- name: last_batch
-- The last commit of a node for a team.
SELECT batch_id FROM batches WHERE team_id = :team_id AND node_id = :node_id;

-- name: forget_batches
-- Drops what nodes that are gone for long left.
DELETE FROM batches WHERE at_s < :before;

-- name: bounds
-- The seqs of a team's oldest event that is still held, and of its newest.
SELECT (SELECT min(seq) FROM events WHERE team_id = :team_id) AS oldest,
    (SELECT head FROM teams WHERE team_id = :team_id) AS head;
