-- What status, leases and keeping ask of the tables of the relay room.

-- name: state_kind
-- What kind of principal somebody is.
SELECT kind, name FROM principals WHERE team_id = :team_id AND principal_id = :principal_id;

-- name: status
-- The newest line of one key.
SELECT status, expires_ms FROM statuses WHERE team_id = :team_id AND channel_id = :channel_id AND key = :key;

-- name: statuses
-- The newest line of each key with a prefix that was not cleared, by key.
SELECT key, status, expires_ms FROM statuses
WHERE team_id = :team_id AND channel_id = :channel_id AND present = 1 AND key > :after
    AND substr(key, 1, length(CAST(:prefix AS text))) = CAST(:prefix AS text)
ORDER BY key LIMIT :most;

-- name: count_statuses
-- How many keys a channel has had.
SELECT count(*) AS count FROM statuses WHERE team_id = :team_id AND channel_id = :channel_id;

-- name: put_status
-- Keeps the newest line of a key.
INSERT INTO statuses (team_id, channel_id, key, version, present, expires_ms, status)
VALUES (:team_id, :channel_id, :key, :version, :present, :expires_ms, :status)
ON CONFLICT (team_id, channel_id, key) DO UPDATE
SET version = excluded.version, present = excluded.present, expires_ms = excluded.expires_ms,
    status = excluded.status;

-- name: add_status_change
-- Adds a line to a key's history.
INSERT INTO status_changes (team_id, channel_id, key, version, seq, by_key, at, status)
VALUES (:team_id, :channel_id, :key, :version, :seq, :by_key, :at, :status);

-- name: status_history
-- Lines of one key before a version, newest first.
SELECT version, status FROM status_changes
WHERE team_id = :team_id AND channel_id = :channel_id AND key = :key AND version < :before
ORDER BY version DESC LIMIT :most;

-- name: status_changes
-- Lines of all keys of a channel after a seq, in order.
SELECT seq, status FROM status_changes
WHERE team_id = :team_id AND channel_id = :channel_id AND seq > :after ORDER BY seq LIMIT :most;

-- name: expired_statuses
-- Values whose time is over.
SELECT channel_id, key, status, expires_ms FROM statuses
WHERE team_id = :team_id AND expires_ms > 0 AND expires_ms <= :now_ms ORDER BY expires_ms LIMIT :most;

-- name: status_rules
-- What values of a channel need.
SELECT rules FROM status_rules WHERE team_id = :team_id AND channel_id = :channel_id;

-- name: put_status_rules
-- Keeps what values of a channel need.
INSERT INTO status_rules (team_id, channel_id, rules) VALUES (:team_id, :channel_id, :rules)
ON CONFLICT (team_id, channel_id) DO UPDATE SET rules = excluded.rules;

-- name: lease
-- One lease, held or not.
SELECT fence, holder_id, holder_key, expires_ms, lasts_ms, lease FROM channel_leases
WHERE team_id = :team_id AND channel_id = :channel_id AND name = :name;

-- name: leases
-- Leases of a channel by name; those that were let go too.
SELECT name, fence, holder_id, holder_key, expires_ms, lasts_ms, lease FROM channel_leases
WHERE team_id = :team_id AND channel_id = :channel_id AND name > :after ORDER BY name LIMIT :most;

-- name: count_leases
-- How many names of leases a channel has had.
SELECT count(*) AS count FROM channel_leases WHERE team_id = :team_id AND channel_id = :channel_id;

-- name: put_lease
-- Keeps a lease.
INSERT INTO channel_leases (team_id, channel_id, name, fence, holder_id, holder_key, expires_ms, lasts_ms, seq, lease)
VALUES (:team_id, :channel_id, :name, :fence, :holder_id, :holder_key, :expires_ms, :lasts_ms, :seq, :lease)
ON CONFLICT (team_id, channel_id, name) DO UPDATE
SET fence = excluded.fence, holder_id = excluded.holder_id, holder_key = excluded.holder_key,
    expires_ms = excluded.expires_ms, lasts_ms = excluded.lasts_ms, seq = excluded.seq, lease = excluded.lease;

-- name: ended_leases
-- Leases whose time is over and which nobody was told of, and those that a clock put back would make last longer than
-- they were taken for.
SELECT channel_id, name, fence, holder_id, holder_key, expires_ms, lasts_ms, lease FROM channel_leases
WHERE team_id = :team_id AND expires_ms > 0 AND (expires_ms <= :now_ms OR expires_ms - lasts_ms > :ahead_ms)
ORDER BY expires_ms LIMIT :most;

-- name: team_key
-- The hub's signing key of a team.
SELECT seed, public_key, made_at FROM team_keys WHERE team_id = :team_id;

-- name: add_team_key
-- Keeps the hub's signing key of a team.
INSERT INTO team_keys (team_id, seed, public_key, made_at) VALUES (:team_id, :seed, :public_key, :made_at);

-- name: directory_of_key
-- The entries about one member key, in order.
SELECT entry FROM directory WHERE team_id = :team_id AND member_key_id = :member_key_id ORDER BY position;

-- name: directory_of_principal
-- The entries about the member keys of one principal, in order.
SELECT member_key_id, entry FROM directory
WHERE team_id = :team_id AND principal_id = :principal_id ORDER BY position;

-- name: directory_of_members
-- The entries about the member keys of all who are in a channel, in order.
SELECT d.principal_id, d.member_key_id, d.entry
FROM channel_members AS m JOIN directory AS d ON d.team_id = m.team_id AND d.principal_id = m.principal_id
WHERE m.team_id = :team_id AND m.channel_id = :channel_id ORDER BY d.position;

-- name: directory_head
-- The newest entry.
SELECT position, hash FROM directory WHERE team_id = :team_id ORDER BY position DESC LIMIT 1;

-- name: directory
-- Entries after a position, in order; of one principal, if it is named.
SELECT entry FROM directory
WHERE team_id = :team_id AND position > :after
    AND (CAST(:principal_id AS text) = '' OR principal_id = CAST(:principal_id AS text))
ORDER BY position LIMIT :most;

-- name: add_directory_entry
-- Adds an entry.
INSERT INTO directory (team_id, position, principal_id, member_key_id, hash, entry)
VALUES (:team_id, :position, :principal_id, :member_key_id, :hash, :entry);

-- name: is_member
-- Whether somebody is in a channel.
SELECT principal_id FROM channel_members
WHERE team_id = :team_id AND channel_id = :channel_id AND principal_id = :principal_id;

-- name: epochs_held_by
-- The newest epoch of each channel whose key a member key was given.
SELECT channel_id, max(epoch) AS epoch FROM epoch_keys
WHERE team_id = :team_id AND member_key_id = :member_key_id GROUP BY channel_id;

-- name: epoch
-- One epoch of a channel.
SELECT statement FROM epochs WHERE team_id = :team_id AND channel_id = :channel_id AND epoch = :epoch;

-- name: epochs
-- Epochs of a channel before one, newest first.
SELECT epoch, statement FROM epochs
WHERE team_id = :team_id AND channel_id = :channel_id AND epoch < :before ORDER BY epoch DESC LIMIT :most;

-- name: all_epochs
-- The epochs of a channel, in order.
SELECT statement FROM epochs WHERE team_id = :team_id AND channel_id = :channel_id ORDER BY epoch LIMIT :most;

-- name: add_epoch
-- Opens an epoch.
INSERT INTO epochs (team_id, channel_id, epoch, statement) VALUES (:team_id, :channel_id, :epoch, :statement);

-- name: epoch_holders
-- To whom an epoch's key is wrapped.
SELECT principal_id, member_key_id FROM epoch_keys
WHERE team_id = :team_id AND channel_id = :channel_id AND epoch = :epoch ORDER BY member_key_id;

-- name: epoch_wraps
-- The wraps of one principal from one epoch to another.
SELECT epoch, wrapped FROM epoch_keys
WHERE team_id = :team_id AND channel_id = :channel_id AND principal_id = :principal_id
    AND epoch >= :first AND epoch <= :last;

-- name: add_epoch_key
-- Keeps a wrap; the first to a key stays.
INSERT INTO epoch_keys (team_id, channel_id, epoch, member_key_id, principal_id, wrapped)
VALUES (:team_id, :channel_id, :epoch, :member_key_id, :principal_id, :wrapped)
ON CONFLICT (team_id, channel_id, epoch, member_key_id) DO NOTHING;

-- name: checkpoints
-- Checkpoints below a seq, newest first.
SELECT seq, checkpoint FROM checkpoints WHERE team_id = :team_id AND seq < :before ORDER BY seq DESC LIMIT :most;

-- name: add_checkpoint
-- Keeps a checkpoint; made twice, the first stays.
INSERT INTO checkpoints (team_id, seq, checkpoint) VALUES (:team_id, :seq, :checkpoint)
ON CONFLICT (team_id, seq) DO NOTHING;

-- name: drop_checkpoints
-- Drops checkpoints whose events are all forgotten.
DELETE FROM checkpoints WHERE team_id = :team_id AND seq < :before;

-- name: oldest_messages
-- The oldest messages of a channel.
SELECT number, at, seq, edit_seq, message FROM channel_messages
WHERE team_id = :team_id AND channel_id = :channel_id ORDER BY number LIMIT :most;

-- name: count_messages_within
-- How many messages lie below a number and before a time.
SELECT count(*) AS count FROM channel_messages
WHERE team_id = :team_id AND channel_id = :channel_id AND number < :below
    AND (CAST(:before AS text) = '' OR at < CAST(:before AS text));

-- name: drop_messages_upto
-- Takes messages away.
DELETE FROM channel_messages WHERE team_id = :team_id AND channel_id = :channel_id AND number <= :last;

-- name: unuse_attachments_upto
-- Messages that go have no attachments.
DELETE FROM attachment_uses WHERE team_id = :team_id AND message_id IN (
    SELECT m.message_id FROM channel_messages AS m
    WHERE m.team_id = :team_id AND m.channel_id = :channel_id AND m.number <= :last
);

-- name: drop_deliveries_upto
-- Takes away who was mentioned in messages that are gone.
DELETE FROM deliveries WHERE team_id = :team_id AND message_id IN (
    SELECT m.message_id FROM channel_messages AS m
    WHERE m.team_id = :team_id AND m.channel_id = :channel_id AND m.number <= :last
);

-- name: drop_threads_upto
-- Takes away threads whose last word is gone.
DELETE FROM channel_threads WHERE team_id = :team_id AND channel_id = :channel_id AND last_number <= :last;

-- name: threads_begun_upto
-- Threads that go on and whose first word is gone.
SELECT thread_id, thread FROM channel_threads
WHERE team_id = :team_id AND channel_id = :channel_id AND root_number <= :last AND last_number > :last
    AND thread LIKE '%"title":"%' AND thread NOT LIKE '%"title":""%';

-- name: retitle_thread
-- Changes what a thread is called.
UPDATE channel_threads SET thread = :thread WHERE team_id = :team_id AND thread_id = :thread_id;

-- name: set_first_number
-- Moves where a channel's messages begin.
UPDATE channel_heads SET first_number = CAST(:last AS bigint) + 1 WHERE team_id = :team_id AND channel_id = :channel_id;

-- name: thread_events
-- Events of a channel's threads between two seqs.
SELECT t.seq FROM event_topics AS t JOIN events AS e ON e.team_id = t.team_id AND e.seq = t.seq
WHERE t.team_id = :team_id AND t.topic = :topic AND t.seq > :after AND t.seq <= :upto AND e.kind = 'thread.changed'
ORDER BY t.seq;

-- name: redact_answers
-- What commands of a stretch of the log were answered about messages of a channel.
UPDATE commands SET answer = '{"redacted":true}'
WHERE team_id = :team_id AND seq >= :first AND seq <= :last AND answer LIKE :pattern AND answer LIKE '%"message_id":%';

-- name: add_purge
-- Keeps the note of a purge. `upto_seq`: how far the log was redacted.
INSERT INTO purges (team_id, channel_id, last_number, upto_seq, purged)
VALUES (:team_id, :channel_id, :last_number, :upto_seq, :purged);

-- name: newest_purge
-- The newest note of a channel.
SELECT upto_seq FROM purges WHERE team_id = :team_id AND channel_id = :channel_id ORDER BY last_number DESC LIMIT 1;

-- name: purges
-- Notes of a channel above a number, in order.
SELECT purged FROM purges
WHERE team_id = :team_id AND channel_id = :channel_id AND last_number > :after ORDER BY last_number LIMIT :most;

-- name: channels_with_heads
-- All channels that are not deleted.
SELECT c.channel_id, c.state, c.channel, h.first_number, h.last_number, h.spoken_seq, h.members
FROM channels AS c JOIN channel_heads AS h ON h.team_id = c.team_id AND h.channel_id = c.channel_id
WHERE c.team_id = :team_id AND c.state <> 'deleted' ORDER BY c.channel_id;

-- name: messages_to_export
-- Messages of a channel, or of one thread of it, above a number, in order.
SELECT number, message FROM channel_messages
WHERE team_id = :team_id AND channel_id = :channel_id AND number > :after
    AND (CAST(:thread_id AS text) = '' OR thread_id = CAST(:thread_id AS text) OR message_id = CAST(:thread_id AS text))
ORDER BY number LIMIT :most;

-- name: tainted_messages
-- Messages that a key sent at or after a time and that are not marked.
SELECT m.message FROM keys AS k
JOIN channel_messages AS m ON m.team_id = k.team_id AND m.sender_id = k.principal_id
WHERE k.team_id = :team_id AND k.key_id = :key_id AND m.sender_key = :key_id AND m.at >= :since
    AND m.message NOT LIKE '%"suspect":true%'
ORDER BY m.channel_id, m.number LIMIT :most;

-- name: mark_message
-- Keeps a message that is marked.
UPDATE channel_messages SET message = :message
WHERE team_id = :team_id AND channel_id = :channel_id AND number = :number;

-- name: tainted_statuses
-- Lines that a key wrote at or after a time and that are not marked.
SELECT status FROM status_changes
WHERE team_id = :team_id AND by_key = :key_id AND at >= :since AND status NOT LIKE '%"suspect":true%'
ORDER BY seq LIMIT :most;

-- name: count_tainted
-- How much of what a key wrote at or after a time is not marked.
SELECT
    (SELECT count(*) FROM keys AS k
        JOIN channel_messages AS m ON m.team_id = k.team_id AND m.sender_id = k.principal_id
        WHERE k.team_id = :team_id AND k.key_id = :key_id AND m.sender_key = :key_id AND m.at >= :since
            AND m.message NOT LIKE '%"suspect":true%') AS messages,
    (SELECT count(*) FROM status_changes AS s
        WHERE s.team_id = :team_id AND s.by_key = :key_id AND s.at >= :since
            AND s.status NOT LIKE '%"suspect":true%') AS statuses;

-- name: mark_status_change
-- Keeps a line that is marked.
UPDATE status_changes SET status = :status
WHERE team_id = :team_id AND channel_id = :channel_id AND key = :key AND version = :version;

-- name: leases_held_by
-- Leases that a key holds.
SELECT channel_id, name, fence, holder_id, holder_key, expires_ms, lasts_ms, lease FROM channel_leases
WHERE team_id = :team_id AND holder_key = :key_id AND expires_ms > 0;

-- name: add_taint
-- Notes that what a key wrote is still to be marked.
INSERT INTO taints (team_id, key_id, since) VALUES (:team_id, :key_id, :since)
ON CONFLICT (team_id, key_id) DO UPDATE SET since = CASE WHEN excluded.since < taints.since THEN excluded.since
    ELSE taints.since END;

-- name: next_taint
-- One key of which something is still to be marked.
SELECT key_id, since FROM taints WHERE team_id = :team_id ORDER BY key_id LIMIT 1;

-- name: drop_taint
-- Notes that all that a key wrote is marked.
DELETE FROM taints WHERE team_id = :team_id AND key_id = :key_id;
