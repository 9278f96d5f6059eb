-- What status, leases and keeping ask of the tables of the relay room.

-- name: state_channel
-- One channel by its id or name, with how far its numbers reach.
SELECT c.channel, h.first_number, h.last_number
FROM channels AS c LEFT JOIN channel_heads AS h ON h.team_id = c.team_id AND h.channel_id = c.channel_id
WHERE c.team_id = :team_id AND (c.channel_id = :channel OR c.name = :channel) AND c.state <> 'deleted';

-- name: state_channel_by_id
-- One channel by its id, also if it is deleted.
SELECT c.channel, h.first_number, h.last_number
FROM channels AS c LEFT JOIN channel_heads AS h ON h.team_id = c.team_id AND h.channel_id = c.channel_id
WHERE c.team_id = :team_id AND c.channel_id = :channel_id;

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
INSERT INTO status_changes (team_id, channel_id, key, version, seq, by_key, status)
VALUES (:team_id, :channel_id, :key, :version, :seq, :by_key, :status);

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
