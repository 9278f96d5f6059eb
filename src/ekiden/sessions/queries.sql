-- The statements of the sessions room. Every one is of one team.

-- name: host
-- One computer, or nothing.
SELECT host_id, name, report, here, seen_at FROM hosts WHERE team_id = :team_id AND host_id = :host_id;

-- name: hosts
-- All computers, by name.
SELECT host_id, name, report, here, seen_at FROM hosts WHERE team_id = :team_id ORDER BY name, host_id;

-- name: put_host
-- Keeps what a computer says of itself and whether it is here.
INSERT INTO hosts (team_id, host_id, name, report, here, seen_at)
VALUES (:team_id, :host_id, :name, :report, :here, :seen_at)
ON CONFLICT (team_id, host_id) DO UPDATE
SET name = excluded.name, report = excluded.report, here = excluded.here, seen_at = excluded.seen_at;

-- name: marks_of_host
-- How far the items of each session of a computer were told.
SELECT session_id, mark FROM sessions WHERE team_id = :team_id AND host_id = :host_id;

-- name: session
-- One session with its computer, or nothing.
SELECT s.session_id, s.host_id, s.report, s.mark, s.approvals_open, s.messages_waiting, s.updated_at,
       h.name AS host_name, h.here AS host_here, h.seen_at AS host_seen_at
FROM sessions s JOIN hosts h ON h.team_id = s.team_id AND h.host_id = s.host_id
WHERE s.team_id = :team_id AND s.session_id = :session_id;

-- name: put_session
-- Keeps a session as it is now.
INSERT INTO sessions (team_id, session_id, host_id, vendor, project, words, state, updated_at, report, waits,
                      mark, approvals_open, messages_waiting)
VALUES (:team_id, :session_id, :host_id, :vendor, :project, :words, :state, :updated_at, :report, :waits,
        :mark, :approvals_open, :messages_waiting)
ON CONFLICT (team_id, session_id) DO UPDATE
SET vendor = excluded.vendor, project = excluded.project, words = excluded.words, state = excluded.state,
    updated_at = excluded.updated_at, report = excluded.report, waits = excluded.waits,
    mark = excluded.mark, approvals_open = excluded.approvals_open, messages_waiting = excluded.messages_waiting;

-- name: set_counts
-- Keeps what is counted of a session, and how far its items were told; nothing that the list is sorted or searched by.
UPDATE sessions SET mark = :mark, approvals_open = :approvals_open, messages_waiting = :messages_waiting
WHERE team_id = :team_id AND session_id = :session_id;

-- name: set_mark
-- Keeps how far a session's items were told.
UPDATE sessions SET mark = :mark WHERE team_id = :team_id AND session_id = :session_id;

-- name: thread_marks_of_host
-- How far the items of each sub-agent's thread of a computer's sessions were told.
SELECT t.session_id, t.thread, t.mark FROM thread_marks t
JOIN sessions s ON s.team_id = t.team_id AND s.session_id = t.session_id
WHERE s.team_id = :team_id AND s.host_id = :host_id;

-- name: thread_mark
-- How far the items of one sub-agent's thread were told, or nothing.
SELECT mark FROM thread_marks WHERE team_id = :team_id AND session_id = :session_id AND thread = :thread;

-- name: count_threads
-- How many sub-agents' threads of a session were told of.
SELECT COUNT(*) AS threads FROM thread_marks WHERE team_id = :team_id AND session_id = :session_id;

-- name: set_thread_mark
-- Keeps how far the items of a sub-agent's thread were told.
INSERT INTO thread_marks (team_id, session_id, thread, mark) VALUES (:team_id, :session_id, :thread, :mark)
ON CONFLICT (team_id, session_id, thread) DO UPDATE SET mark = excluded.mark;

-- name: add_move
-- Remembers where a session stood in the list before an event moved it.
INSERT INTO session_moves (team_id, session_id, seq, updated_at)
VALUES (:team_id, :session_id, :seq, :updated_at)
ON CONFLICT (team_id, session_id, seq) DO NOTHING;

-- name: forget_moves
-- Drops the moves that no page can ask for any more.
DELETE FROM session_moves WHERE team_id = :team_id AND seq < :before;

-- name: newest_sessions
-- The first page of the list. Empty filters let everything pass; `pattern` is for LIKE with escape '\'.
SELECT s.session_id, s.host_id, s.report, s.approvals_open, s.messages_waiting, s.updated_at AS place,
       h.name AS host_name, h.here AS host_here, h.seen_at AS host_seen_at
FROM sessions s JOIN hosts h ON h.team_id = s.team_id AND h.host_id = s.host_id
WHERE s.team_id = :team_id
  AND (:vendor = '' OR s.vendor = :vendor)
  AND (:project = '' OR s.project = :project)
  AND (:state = '' OR :state =
       CASE WHEN h.here = 0 AND s.state IN ('running', 'waiting') THEN 'lost' ELSE s.state END)
  AND (:pattern = '' OR s.words LIKE :pattern ESCAPE '\')
ORDER BY s.updated_at DESC, s.session_id DESC
LIMIT :most;

-- name: older_sessions
-- A further page of the list as it stood at the event `as_of`: a session that moved since then keeps its place.
SELECT p.session_id, p.host_id, p.report, p.approvals_open, p.messages_waiting, p.place,
       h.name AS host_name, h.here AS host_here, h.seen_at AS host_seen_at
FROM (
    SELECT s.*, COALESCE((SELECT m.updated_at FROM session_moves m
                          WHERE m.team_id = s.team_id AND m.session_id = s.session_id AND m.seq > :as_of
                          ORDER BY m.seq LIMIT 1), s.updated_at) AS place
    FROM sessions s WHERE s.team_id = :team_id
) p JOIN hosts h ON h.team_id = p.team_id AND h.host_id = p.host_id
WHERE (p.place < :place OR (p.place = :place AND p.session_id < :session_id))
  AND (:vendor = '' OR p.vendor = :vendor)
  AND (:project = '' OR p.project = :project)
  AND (:state = '' OR :state =
       CASE WHEN h.here = 0 AND p.state IN ('running', 'waiting') THEN 'lost' ELSE p.state END)
  AND (:pattern = '' OR p.words LIKE :pattern ESCAPE '\')
ORDER BY p.place DESC, p.session_id DESC
LIMIT :most;

-- name: count_sessions
-- How many sessions pass the filters.
SELECT count(*) AS total
FROM sessions s JOIN hosts h ON h.team_id = s.team_id AND h.host_id = s.host_id
WHERE s.team_id = :team_id
  AND (:vendor = '' OR s.vendor = :vendor)
  AND (:project = '' OR s.project = :project)
  AND (:state = '' OR :state =
       CASE WHEN h.here = 0 AND s.state IN ('running', 'waiting') THEN 'lost' ELSE s.state END)
  AND (:pattern = '' OR s.words LIKE :pattern ESCAPE '\');

-- name: session_ids
-- The ids of all sessions that pass the filters, in no order.
SELECT s.session_id
FROM sessions s JOIN hosts h ON h.team_id = s.team_id AND h.host_id = s.host_id
WHERE s.team_id = :team_id
  AND (:vendor = '' OR s.vendor = :vendor)
  AND (:project = '' OR s.project = :project)
  AND (:state = '' OR :state =
       CASE WHEN h.here = 0 AND s.state IN ('running', 'waiting') THEN 'lost' ELSE s.state END)
  AND (:pattern = '' OR s.words LIKE :pattern ESCAPE '\');

-- name: sessions_in_motion
-- Sessions of which something waits for a person or runs: for the inbox.
SELECT s.session_id, s.host_id, s.report, s.approvals_open, s.messages_waiting, s.waits,
       h.name AS host_name, h.here AS host_here, h.seen_at AS host_seen_at
FROM sessions s JOIN hosts h ON h.team_id = s.team_id AND h.host_id = s.host_id
WHERE s.team_id = :team_id
  AND (s.state IN ('running', 'waiting', 'lost') OR s.waits = 1 OR s.approvals_open > 0)
ORDER BY s.updated_at DESC, s.session_id DESC
LIMIT :most;

-- name: sessions_of_host_in_motion
-- The sessions of a computer that the loss of it changes.
SELECT s.session_id FROM sessions s
WHERE s.team_id = :team_id AND s.host_id = :host_id
  AND (s.state IN ('running', 'waiting') OR s.approvals_open > 0
       OR EXISTS (SELECT 1 FROM turns t
                  WHERE t.team_id = s.team_id AND t.session_id = s.session_id AND t.state = 'running'))
ORDER BY s.session_id;

-- name: turn
-- One turn, or nothing.
SELECT turn_id, state, reason, proof_at, interrupt_by FROM turns
WHERE team_id = :team_id AND session_id = :session_id AND turn_id = :turn_id;

-- name: running_turn
-- The one turn of a session that runs; or nothing.
SELECT turn_id, state, reason, proof_at, interrupt_by FROM turns
WHERE team_id = :team_id AND session_id = :session_id AND state = 'running'
ORDER BY seq DESC LIMIT 1;

-- name: newest_turn
-- The turn of a session that began last; or nothing.
SELECT turn_id, state, reason, proof_at, interrupt_by FROM turns
WHERE team_id = :team_id AND session_id = :session_id
ORDER BY seq DESC LIMIT 1;

-- name: put_turn
-- Keeps a turn as it is now, with the place at which it was first told.
INSERT INTO turns (team_id, session_id, turn_id, state, reason, proof_at, interrupt_by, seq)
VALUES (:team_id, :session_id, :turn_id, :state, :reason, :proof_at, :interrupt_by, :seq)
ON CONFLICT (team_id, session_id, turn_id) DO UPDATE
SET state = excluded.state, reason = excluded.reason, proof_at = excluded.proof_at,
    interrupt_by = excluded.interrupt_by;

-- name: interrupts_of_host
-- The turns of a computer that somebody wants to stop and that are not seen to have ended.
SELECT t.session_id, t.turn_id, t.interrupt_by
FROM turns t JOIN sessions s ON s.team_id = t.team_id AND s.session_id = t.session_id
WHERE t.team_id = :team_id AND s.host_id = :host_id AND t.interrupt_by <> '' AND t.state IN ('running', 'lost')
ORDER BY t.seq;

-- name: approval
-- One approval with its computer, or nothing.
SELECT body, host_id FROM approvals WHERE team_id = :team_id AND approval_id = :approval_id;

-- name: put_approval
-- Keeps an approval as it is now, with the place at which it was asked.
INSERT INTO approvals (team_id, approval_id, session_id, host_id, turn_id, state, seq, body)
VALUES (:team_id, :approval_id, :session_id, :host_id, :turn_id, :state, :seq, :body)
ON CONFLICT (team_id, approval_id) DO UPDATE SET state = excluded.state, body = excluded.body;

-- name: approvals_shown
-- The approvals of a session that have not ended, in the order in which they were asked.
SELECT body FROM approvals
WHERE team_id = :team_id AND session_id = :session_id AND state IN ('open', 'answered', 'unknown') ORDER BY seq;

-- name: approvals_open
-- Open approvals of all sessions, in the order in which they were asked.
SELECT session_id, body FROM approvals WHERE team_id = :team_id AND state = 'open' ORDER BY seq LIMIT :most;

-- name: approvals_answered_of_host
-- The answers that a computer has not been seen to take, in the order in which the requests were asked.
SELECT body FROM approvals
WHERE team_id = :team_id AND host_id = :host_id AND state = 'answered' ORDER BY seq;

-- name: message
-- One message with its computer, or nothing.
SELECT body, host_id FROM messages WHERE team_id = :team_id AND message_id = :message_id;

-- name: put_message
-- Keeps a message as it is now, with its place.
INSERT INTO messages (team_id, message_id, session_id, host_id, state, seq, body)
VALUES (:team_id, :message_id, :session_id, :host_id, :state, :seq, :body)
ON CONFLICT (team_id, message_id) DO UPDATE SET state = excluded.state, body = excluded.body;

-- name: messages_shown
-- The newest messages of a session that are not among its items, newest first.
SELECT body FROM messages
WHERE team_id = :team_id AND session_id = :session_id AND state IN ('stored', 'placed', 'failed')
ORDER BY seq DESC LIMIT :most;

-- name: messages_seen
-- The newest messages of a session that its model has seen and that are more than a receipt, newest first.
SELECT body FROM messages
WHERE team_id = :team_id AND session_id = :session_id AND state = 'seen' AND seq > 0
ORDER BY seq DESC LIMIT :most;

-- name: messages_stored_of_host
-- The messages that a computer has still to place, in their order.
SELECT body FROM messages
WHERE team_id = :team_id AND host_id = :host_id AND state = 'stored' ORDER BY seq;

-- name: turns_ended
-- Turns that ended long ago; of each session the newest stays.
SELECT t.session_id, t.turn_id, t.seq FROM turns t
WHERE t.team_id = :team_id AND t.state IN ('completed', 'interrupted', 'failed') AND t.seq < :before
  AND EXISTS (SELECT 1 FROM turns n
              WHERE n.team_id = t.team_id AND n.session_id = t.session_id AND n.seq > t.seq)
ORDER BY t.seq LIMIT :most;

-- name: drop_turn
-- Lets go of one that is still what it was.
DELETE FROM turns
WHERE team_id = :team_id AND session_id = :session_id AND turn_id = :turn_id AND seq = :seq
  AND state IN ('completed', 'interrupted', 'failed');

-- name: approvals_ended
-- Approvals that ended long ago and are more than a receipt.
SELECT seq, body FROM approvals
WHERE team_id = :team_id AND state IN ('settled', 'withdrawn') AND seq > 0 AND seq < :before
ORDER BY seq LIMIT :most;

-- name: thin_approval
-- Makes a receipt of one that is still what it was.
UPDATE approvals SET seq = 0, body = :body
WHERE team_id = :team_id AND approval_id = :approval_id AND seq = :seq AND state IN ('settled', 'withdrawn');

-- name: messages_ended
-- Messages that ended long ago and are more than a receipt.
SELECT seq, body FROM messages
WHERE team_id = :team_id AND state IN ('seen', 'cancelled') AND seq > 0 AND seq < :before
ORDER BY seq LIMIT :most;

-- name: thin_message
-- Makes a receipt of one that is still what it was.
UPDATE messages SET seq = 0, body = :body
WHERE team_id = :team_id AND message_id = :message_id AND seq = :seq AND state IN ('seen', 'cancelled');
