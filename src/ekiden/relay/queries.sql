-- The statements of the relay room: channels, messages, mentions, receipts. Every one is of one team.

-- name: channel_by_name
-- The channels of a name: one that is open to all, and a private one.
SELECT c.channel_id, c.state, c.channel, h.first_number, h.last_number, h.spoken_seq, h.members
FROM channels c JOIN channel_heads h ON h.team_id = c.team_id AND h.channel_id = c.channel_id
WHERE c.team_id = :team_id AND c.name = :ref ORDER BY c.private;

-- name: channel_by_id
-- One channel, or nothing.
SELECT c.channel_id, c.state, c.channel, h.first_number, h.last_number, h.spoken_seq, h.members
FROM channels c JOIN channel_heads h ON h.team_id = c.team_id AND h.channel_id = c.channel_id
WHERE c.team_id = :team_id AND c.channel_id = :ref;

-- name: channel_by_name_to_post
-- The channels of a name with all that a post needs to know: whether the sender follows it, the account of wakes, how
-- the sender was woken, and the message of that id, should it be there already.
SELECT c.channel_id, c.state, c.channel, h.first_number, h.last_number, h.spoken_seq, h.members,
       r.follows, w.since AS wakes_since, w.wakes, m.digest, g.hops AS woken_hops, g.seq AS woken_seq, g.at_s AS woken_at_s
FROM channels c JOIN channel_heads h ON h.team_id = c.team_id AND h.channel_id = c.channel_id
LEFT JOIN receipts r ON r.team_id = c.team_id AND r.channel_id = c.channel_id AND r.principal_id = :principal_id
LEFT JOIN channel_wakes w ON w.team_id = c.team_id AND w.channel_id = c.channel_id
LEFT JOIN agent_wakes g ON g.team_id = c.team_id AND g.principal_id = :principal_id
LEFT JOIN channel_messages m ON m.team_id = c.team_id AND m.message_id = :message_id
WHERE c.team_id = :team_id AND c.name = :ref ORDER BY c.private;

-- name: channel_by_id_to_post
-- The same by id.
SELECT c.channel_id, c.state, c.channel, h.first_number, h.last_number, h.spoken_seq, h.members,
       r.follows, w.since AS wakes_since, w.wakes, m.digest, g.hops AS woken_hops, g.seq AS woken_seq, g.at_s AS woken_at_s
FROM channels c JOIN channel_heads h ON h.team_id = c.team_id AND h.channel_id = c.channel_id
LEFT JOIN receipts r ON r.team_id = c.team_id AND r.channel_id = c.channel_id AND r.principal_id = :principal_id
LEFT JOIN channel_wakes w ON w.team_id = c.team_id AND w.channel_id = c.channel_id
LEFT JOIN agent_wakes g ON g.team_id = c.team_id AND g.principal_id = :principal_id
LEFT JOIN channel_messages m ON m.team_id = c.team_id AND m.message_id = :message_id
WHERE c.team_id = :team_id AND c.channel_id = :ref;

-- name: channel_taken
-- Whether a name is taken, by a deleted channel too.
SELECT channel_id, state FROM channels WHERE team_id = :team_id AND name = :name AND private = :private;

-- name: count_channels
-- How many channels there are, deleted ones too.
SELECT count(*) AS count FROM channels WHERE team_id = :team_id;

-- name: add_channel
-- Makes a channel.
INSERT INTO channels (team_id, channel_id, name, private, state, channel)
VALUES (:team_id, :channel_id, :name, :private, :state, :channel);

-- name: put_channel
-- Keeps a channel as it is now.
UPDATE channels SET state = :state, channel = :channel WHERE team_id = :team_id AND channel_id = :channel_id;

-- name: add_head
-- Where a new channel's numbers begin.
INSERT INTO channel_heads (team_id, channel_id, first_number, last_number, spoken_seq, members)
VALUES (:team_id, :channel_id, 1, 0, 0, 0);

-- name: move_head
-- The number of the newest message, and of the last word of a person.
UPDATE channel_heads SET last_number = :last_number, spoken_seq = :spoken_seq
WHERE team_id = :team_id AND channel_id = :channel_id;

-- name: count_member
-- One member more or less.
UPDATE channel_heads SET members = members + :more WHERE team_id = :team_id AND channel_id = :channel_id;

-- name: channels_after
-- Channels by name, with what one principal has acked in each.
SELECT c.channel_id, c.name, c.private, c.state, c.channel, h.first_number, h.last_number, h.spoken_seq, h.members,
       r.follows, r.acked_to
FROM channels c JOIN channel_heads h ON h.team_id = c.team_id AND h.channel_id = c.channel_id
LEFT JOIN receipts r ON r.team_id = c.team_id AND r.channel_id = c.channel_id AND r.principal_id = :principal_id
WHERE c.team_id = :team_id AND c.state <> 'deleted'
  AND (c.name > :name OR (c.name = :name AND c.private > :private))
ORDER BY c.name, c.private LIMIT :most;

-- name: channels_followed
-- The channels that a principal follows and has not wholly acked.
SELECT c.channel_id, c.state, c.channel, h.first_number, h.last_number, h.spoken_seq, h.members, r.acked_to
FROM receipts r
JOIN channel_heads h ON h.team_id = r.team_id AND h.channel_id = r.channel_id
JOIN channels c ON c.team_id = r.team_id AND c.channel_id = r.channel_id
WHERE r.team_id = :team_id AND r.principal_id = :principal_id AND r.follows = 1
  AND h.last_number > r.acked_to AND c.state <> 'deleted'
ORDER BY c.name, c.private;

-- name: own_between
-- How many messages of a principal lie between two numbers, both counted.
SELECT count(*) AS count FROM channel_messages
WHERE team_id = :team_id AND sender_id = :principal_id AND channel_id = :channel_id
  AND number >= :low AND number <= :high;

-- name: acked_and_own
-- Of what lies above a number: how many messages are in acked ranges, and how many of the principal's own are not.
-- Cast, since Postgres makes a decimal of a sum of whole numbers, which would be told as text.
SELECT
    (SELECT CAST(COALESCE(sum(r.high - r.low + 1), 0) AS BIGINT) FROM receipt_ranges r
     WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.principal_id = :principal_id) AS acked,
    (SELECT count(*) FROM channel_messages m
     WHERE m.team_id = :team_id AND m.sender_id = :principal_id AND m.channel_id = :channel_id AND m.number > :above
       AND NOT EXISTS (SELECT 1 FROM receipt_ranges r
                       WHERE r.team_id = :team_id AND r.channel_id = :channel_id
                         AND r.principal_id = :principal_id AND r.low <= m.number AND r.high >= m.number)) AS own;

-- name: oldest_unread
-- The oldest message above a number that a principal has neither sent nor acked.
SELECT m.number FROM channel_messages m
WHERE m.team_id = :team_id AND m.channel_id = :channel_id AND m.number > :above AND m.sender_id <> :principal_id
  AND NOT EXISTS (SELECT 1 FROM receipt_ranges r
                  WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.principal_id = :principal_id
                    AND r.low <= m.number AND r.high >= m.number)
ORDER BY m.number LIMIT 1;

-- name: member
-- One member, or nothing.
SELECT principal_id, name, kind, role, joined_at FROM channel_members
WHERE team_id = :team_id AND channel_id = :channel_id AND principal_id = :principal_id;

-- name: members_after
-- Members in the order of their ids, with what each has acked.
SELECT m.principal_id, m.name, m.kind, m.role, m.joined_at, r.acked_to
FROM channel_members m
LEFT JOIN receipts r
    ON r.team_id = m.team_id AND r.channel_id = m.channel_id AND r.principal_id = m.principal_id
WHERE m.team_id = :team_id AND m.channel_id = :channel_id AND m.principal_id > :after
ORDER BY m.principal_id LIMIT :most;

-- name: members_of_role
-- Members with a role.
SELECT principal_id, name, kind FROM channel_members
WHERE team_id = :team_id AND channel_id = :channel_id AND role = :role ORDER BY principal_id LIMIT :most;

-- name: put_member
-- Keeps a member.
INSERT INTO channel_members (team_id, channel_id, principal_id, name, kind, role, joined_at)
VALUES (:team_id, :channel_id, :principal_id, :name, :kind, :role, :joined_at)
ON CONFLICT (team_id, channel_id, principal_id) DO UPDATE
SET name = excluded.name, role = excluded.role;

-- name: drop_member
-- Forgets a member.
DELETE FROM channel_members
WHERE team_id = :team_id AND channel_id = :channel_id AND principal_id = :principal_id;

-- name: follow
-- A principal follows a channel (again), or no longer; what it has acked stays.
INSERT INTO receipts (team_id, channel_id, principal_id, acked_to, at, follows)
VALUES (:team_id, :channel_id, :principal_id, 0, '', :follows)
ON CONFLICT (team_id, channel_id, principal_id) DO UPDATE SET follows = excluded.follows;

-- name: add_message
-- Stores a message.
INSERT INTO channel_messages (team_id, channel_id, number, message_id, thread_id, sender_id, sender_key, at, seq,
                              edit_seq, words, message, digest)
VALUES (:team_id, :channel_id, :number, :message_id, :thread_id, :sender_id, :sender_key, :at, :seq,
        0, :words, :message, :digest);

-- name: change_message
-- Keeps a message that was edited or deleted.
UPDATE channel_messages SET edit_seq = :edit_seq, words = :words, message = :message
WHERE team_id = :team_id AND channel_id = :channel_id AND number = :number;

-- name: message
-- One message of a channel, or nothing.
SELECT m.number, m.seq, m.edit_seq, m.sender_key, m.message, m.digest, t.replies
FROM channel_messages m
LEFT JOIN channel_threads t ON t.team_id = m.team_id AND t.thread_id = m.message_id
WHERE m.team_id = :team_id AND m.message_id = :message_id AND m.channel_id = :channel_id;

-- name: message_anywhere
-- One message with its channel, or nothing.
SELECT channel_id, number, message FROM channel_messages WHERE team_id = :team_id AND message_id = :message_id;

-- name: messages_after
-- Messages above a number, oldest first; empty filters let everything pass.
SELECT m.number, m.message, t.replies
FROM channel_messages m
LEFT JOIN channel_threads t ON t.team_id = m.team_id AND t.thread_id = m.message_id
WHERE m.team_id = :team_id AND m.channel_id = :channel_id AND m.number > :number
  AND (:not_of = '' OR (m.sender_id <> :not_of AND NOT EXISTS (
       SELECT 1 FROM receipt_ranges r
       WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.principal_id = :not_of
         AND r.low <= m.number AND r.high >= m.number)))
ORDER BY m.number LIMIT :most;

-- name: messages_before
-- Messages below a number, newest first; see `messages_after`. `above` ends it.
SELECT m.number, m.message, t.replies
FROM channel_messages m
LEFT JOIN channel_threads t ON t.team_id = m.team_id AND t.thread_id = m.message_id
WHERE m.team_id = :team_id AND m.channel_id = :channel_id AND m.number < :number AND m.number > :above
  AND (:not_of = '' OR (m.sender_id <> :not_of AND NOT EXISTS (
       SELECT 1 FROM receipt_ranges r
       WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.principal_id = :not_of
         AND r.low <= m.number AND r.high >= m.number)))
ORDER BY m.number DESC LIMIT :most;

-- name: thread_messages_after
-- The message that a thread began with and its replies above a number, oldest first.
SELECT m.number, m.message, t.replies FROM (
    SELECT number, message_id, sender_id, message FROM channel_messages
    WHERE team_id = :team_id AND message_id = :thread_id AND channel_id = :channel_id AND number > :number
    UNION ALL
    SELECT number, message_id, sender_id, message FROM channel_messages
    WHERE team_id = :team_id AND thread_id = :thread_id AND thread_id <> '' AND channel_id = :channel_id
      AND number > :number
) m
LEFT JOIN channel_threads t ON t.team_id = :team_id AND t.thread_id = m.message_id
WHERE (:not_of = '' OR (m.sender_id <> :not_of AND NOT EXISTS (
       SELECT 1 FROM receipt_ranges r
       WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.principal_id = :not_of
         AND r.low <= m.number AND r.high >= m.number)))
ORDER BY m.number LIMIT :most;

-- name: thread_messages_before
-- The same below a number, newest first.
SELECT m.number, m.message, t.replies FROM (
    SELECT number, message_id, sender_id, message FROM channel_messages
    WHERE team_id = :team_id AND message_id = :thread_id AND channel_id = :channel_id
      AND number < :number AND number > :above
    UNION ALL
    SELECT number, message_id, sender_id, message FROM channel_messages
    WHERE team_id = :team_id AND thread_id = :thread_id AND thread_id <> '' AND channel_id = :channel_id
      AND number < :number AND number > :above
) m
LEFT JOIN channel_threads t ON t.team_id = :team_id AND t.thread_id = m.message_id
WHERE (:not_of = '' OR (m.sender_id <> :not_of AND NOT EXISTS (
       SELECT 1 FROM receipt_ranges r
       WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.principal_id = :not_of
         AND r.low <= m.number AND r.high >= m.number)))
ORDER BY m.number DESC LIMIT :most;

-- name: sender_messages_after
-- Messages of one sender above a number, oldest first.
SELECT m.number, m.message, t.replies
FROM channel_messages m
LEFT JOIN channel_threads t ON t.team_id = m.team_id AND t.thread_id = m.message_id
WHERE m.team_id = :team_id AND m.sender_id = :sender_id AND m.channel_id = :channel_id AND m.number > :number
ORDER BY m.number LIMIT :most;

-- name: sender_messages_before
-- Messages of one sender below a number, newest first.
SELECT m.number, m.message, t.replies
FROM channel_messages m
LEFT JOIN channel_threads t ON t.team_id = m.team_id AND t.thread_id = m.message_id
WHERE m.team_id = :team_id AND m.sender_id = :sender_id AND m.channel_id = :channel_id
  AND m.number < :number AND m.number > :above
ORDER BY m.number DESC LIMIT :most;

-- name: mentioning_messages_after
-- Messages above a number that mention a principal, oldest first.
SELECT m.number, m.message, t.replies
FROM deliveries d
JOIN channel_messages m ON m.team_id = d.team_id AND m.channel_id = d.channel_id AND m.number = d.number
LEFT JOIN channel_threads t ON t.team_id = m.team_id AND t.thread_id = m.message_id
WHERE d.team_id = :team_id AND d.principal_id = :principal_id AND d.channel_id = :channel_id
  AND d.number > :number AND d.sender_id <> :principal_id
  AND (:not_of = '' OR NOT EXISTS (
       SELECT 1 FROM receipt_ranges r
       WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.principal_id = :not_of
         AND r.low <= d.number AND r.high >= d.number))
ORDER BY d.number LIMIT :most;

-- name: mentioning_messages_before
-- Messages below a number that mention a principal, newest first.
SELECT m.number, m.message, t.replies
FROM deliveries d
JOIN channel_messages m ON m.team_id = d.team_id AND m.channel_id = d.channel_id AND m.number = d.number
LEFT JOIN channel_threads t ON t.team_id = m.team_id AND t.thread_id = m.message_id
WHERE d.team_id = :team_id AND d.principal_id = :principal_id AND d.channel_id = :channel_id
  AND d.number < :number AND d.number > :above AND d.sender_id <> :principal_id
  AND (:not_of = '' OR NOT EXISTS (
       SELECT 1 FROM receipt_ranges r
       WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.principal_id = :not_of
         AND r.low <= d.number AND r.high >= d.number))
ORDER BY d.number DESC LIMIT :most;

-- name: search_floor
-- Where a walk back over so many messages ends.
SELECT seq, at FROM channel_messages WHERE team_id = :team_id AND seq < :before
ORDER BY seq DESC LIMIT 1 OFFSET :skip;

-- name: search_oldest
-- The oldest message there is.
SELECT seq, at FROM channel_messages WHERE team_id = :team_id AND seq < :before ORDER BY seq LIMIT 1;

-- name: search_messages
-- Where words stand in the messages of a stretch of the log, newest first. `pattern` is for LIKE with escape '\'.
SELECT channel_id, number, seq, words FROM channel_messages
WHERE team_id = :team_id AND seq < :before AND seq >= :floor AND words LIKE :pattern ESCAPE '\'
ORDER BY seq DESC;

-- name: message_at
-- The message of a number, or nothing.
SELECT m.number, m.message, m.at, t.replies
FROM channel_messages m
LEFT JOIN channel_threads t ON t.team_id = m.team_id AND t.thread_id = m.message_id
WHERE m.team_id = :team_id AND m.channel_id = :channel_id AND m.number = :number;

-- name: put_wakes
-- Keeps the account of who woke whom outside threads.
INSERT INTO channel_wakes (team_id, channel_id, since, wakes) VALUES (:team_id, :channel_id, :since, :wakes)
ON CONFLICT (team_id, channel_id) DO UPDATE SET since = excluded.since, wakes = excluded.wakes;

-- name: put_woken
-- An agent was woken. A chain does not become shorter by another wake-up, but by a person's word (`anew`, or after
-- `spoken_seq`), or when it is forgotten.
INSERT INTO agent_wakes (team_id, principal_id, hops, seq, at_s) VALUES (:team_id, :principal_id, :hops, :seq, :at_s)
ON CONFLICT (team_id, principal_id) DO UPDATE
SET hops = CASE WHEN :anew = 1 OR agent_wakes.seq < :spoken_seq OR agent_wakes.at_s < :forgotten_s
                     OR agent_wakes.hops < excluded.hops THEN excluded.hops ELSE agent_wakes.hops END,
    seq = excluded.seq, at_s = excluded.at_s;

-- name: thread
-- One thread, or nothing.
SELECT thread_id, channel_id, root_number, state, replies, last_number, last_at, thread, named, told, wakes
FROM channel_threads WHERE team_id = :team_id AND thread_id = :thread_id AND channel_id = :channel_id;

-- name: put_thread
-- Keeps a thread as it is now.
INSERT INTO channel_threads (team_id, channel_id, thread_id, root_number, state, replies, last_number, last_at,
                             thread, named, told, wakes)
VALUES (:team_id, :channel_id, :thread_id, :root_number, :state, :replies, :last_number, :last_at, :thread, :named,
        :told, :wakes)
ON CONFLICT (team_id, thread_id) DO UPDATE
SET state = excluded.state, replies = excluded.replies, last_number = excluded.last_number,
    last_at = excluded.last_at, thread = excluded.thread, named = excluded.named, told = excluded.told,
    wakes = excluded.wakes;

-- name: threads_before
-- Threads of a channel whose newest message lies below a number, newest first; `state` may be empty.
SELECT thread_id, channel_id, root_number, state, replies, last_number, last_at, thread, named, told, wakes
FROM channel_threads
WHERE team_id = :team_id AND channel_id = :channel_id AND last_number < :number
  AND (:state = '' OR state = :state)
ORDER BY last_number DESC LIMIT :most;

-- name: add_delivery
-- A mention is on its way. Told a second time, it stays as it is.
INSERT INTO deliveries (team_id, principal_id, message_id, channel_id, number, sender_id, waits, rank, seq, state, at,
                        attempt, reason, expires_at, delivery)
VALUES (:team_id, :principal_id, :message_id, :channel_id, :number, :sender_id, :waits, :rank, :seq, :state, :at,
        0, :reason, :expires_at, :delivery)
ON CONFLICT (team_id, principal_id, message_id) DO UPDATE
SET waits = excluded.waits, seq = excluded.seq, state = excluded.state, at = excluded.at, reason = excluded.reason,
    delivery = excluded.delivery;

-- name: move_delivery
-- A mention came to another state, or was offered again.
UPDATE deliveries SET waits = :waits, state = :state, at = :at, attempt = :attempt, reason = :reason
WHERE team_id = :team_id AND principal_id = :principal_id AND message_id = :message_id;

-- name: delivery
-- One mention on its way, or nothing.
SELECT principal_id, message_id, channel_id, number, sender_id, waits, rank, seq, state, at, attempt, reason,
       expires_at, delivery
FROM deliveries WHERE team_id = :team_id AND principal_id = :principal_id AND message_id = :message_id;

-- name: deliveries_of_message
-- All mentions of one message, but for the notice to its own sender.
SELECT principal_id, message_id, channel_id, number, sender_id, waits, rank, seq, state, at, attempt, reason,
       expires_at, delivery
FROM deliveries WHERE team_id = :team_id AND message_id = :message_id AND principal_id <> sender_id
ORDER BY principal_id LIMIT :most;

-- name: deliveries_waiting
-- What waits for a principal after a place in the list, the most important first.
SELECT d.principal_id, d.message_id, d.channel_id, d.number, d.sender_id, d.waits, d.rank, d.seq, d.state, d.at,
       d.attempt, d.reason, d.expires_at, d.delivery, m.message
FROM deliveries d
JOIN channel_messages m ON m.team_id = d.team_id AND m.message_id = d.message_id
WHERE d.team_id = :team_id AND d.principal_id = :principal_id AND d.waits > 0 AND d.seq > :newer_than
  AND d.rank >= :rank AND (d.rank > :rank OR d.seq > :seq)
ORDER BY d.rank, d.seq LIMIT :most;

-- name: count_waiting
-- How many mentions wait for a principal in each channel after a place in the list.
SELECT channel_id, count(*) AS count FROM deliveries
WHERE team_id = :team_id AND principal_id = :principal_id AND waits > 0 AND seq > :newer_than
  AND rank >= :rank AND (rank > :rank OR seq > :seq) GROUP BY channel_id;

-- name: wakes_after
-- Whether something waits for a principal that may wake it and came after a place in the log.
SELECT message_id, channel_id FROM deliveries
WHERE team_id = :team_id AND principal_id = :principal_id AND waits > 0 AND waits = 1 AND seq > :after LIMIT :most;

-- name: deliveries_upto
-- What waits for a principal in a channel up to a number.
SELECT principal_id, message_id, channel_id, number, sender_id, waits, rank, seq, state, at, attempt, reason,
       expires_at, delivery
FROM deliveries
WHERE team_id = :team_id AND principal_id = :principal_id AND channel_id = :channel_id AND number <= :number
  AND waits > 0 AND state <> 'acked'
ORDER BY number DESC LIMIT :most;

-- name: ack_deliveries_upto
-- The rest of them, without a word for each: acks whatever waits up to a number.
UPDATE deliveries SET state = 'acked', at = :at, waits = CASE WHEN rank = 0 THEN 2 ELSE 0 END
WHERE team_id = :team_id AND principal_id = :principal_id AND channel_id = :channel_id AND number <= :number
  AND waits > 0 AND state <> 'acked';

-- name: deliveries_expired
-- Mentions whose time is over, the longest first.
SELECT principal_id, message_id, channel_id, number, sender_id, waits, rank, seq, state, at, attempt, reason,
       expires_at, delivery
FROM deliveries
WHERE team_id = :team_id AND waits > 0 AND expires_at <> '' AND expires_at <= :now
ORDER BY expires_at LIMIT :most;

-- name: receipt
-- What a principal has acked in a channel, or nothing.
SELECT acked_to, at, follows FROM receipts
WHERE team_id = :team_id AND channel_id = :channel_id AND principal_id = :principal_id;

-- name: put_receipt
-- Keeps what a principal has acked.
INSERT INTO receipts (team_id, channel_id, principal_id, acked_to, at, follows)
VALUES (:team_id, :channel_id, :principal_id, :acked_to, :at, :follows)
ON CONFLICT (team_id, channel_id, principal_id) DO UPDATE SET acked_to = excluded.acked_to, at = excluded.at;

-- name: receipt_ranges
-- What a principal has acked above its watermark.
SELECT low, high FROM receipt_ranges
WHERE team_id = :team_id AND channel_id = :channel_id AND principal_id = :principal_id ORDER BY low;

-- name: drop_range
-- Forgets a range that was joined with others.
DELETE FROM receipt_ranges
WHERE team_id = :team_id AND channel_id = :channel_id AND principal_id = :principal_id AND low = :low;

-- name: put_range
-- Keeps a range.
INSERT INTO receipt_ranges (team_id, channel_id, principal_id, low, high)
VALUES (:team_id, :channel_id, :principal_id, :low, :high)
ON CONFLICT (team_id, channel_id, principal_id, low) DO UPDATE SET high = excluded.high;

-- name: count_lagging
-- How many members have not acked a number, its sender left out.
SELECT
    (SELECT count(*) FROM receipts r
     WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.follows = 1 AND r.acked_to < :number) AS behind,
    (SELECT count(*) FROM receipt_ranges g
     JOIN receipts f ON f.team_id = g.team_id AND f.channel_id = g.channel_id AND f.principal_id = g.principal_id
     WHERE g.team_id = :team_id AND g.channel_id = :channel_id AND g.high >= :number AND g.low <= :number
       AND f.follows = 1) AS covered;

-- name: is_lagging
-- Whether one member counts among those who have not acked a number.
SELECT count(*) AS count FROM receipts r
WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.principal_id = :principal_id AND r.follows = 1
  AND r.acked_to < :number AND NOT EXISTS (
    SELECT 1 FROM receipt_ranges g
    WHERE g.team_id = r.team_id AND g.channel_id = r.channel_id AND g.principal_id = r.principal_id
      AND g.low <= :number AND g.high >= :number);

-- name: lagging_after
-- Members who have not acked a number, the furthest behind first, after a place in that order.
SELECT r.principal_id, r.acked_to, r.at, m.name
FROM receipts r JOIN channel_members m
    ON m.team_id = r.team_id AND m.channel_id = r.channel_id AND m.principal_id = r.principal_id
WHERE r.team_id = :team_id AND r.channel_id = :channel_id AND r.follows = 1 AND r.acked_to < :number
  AND r.acked_to >= :acked_to AND (r.acked_to > :acked_to OR r.principal_id > :principal_id)
  AND r.principal_id <> :sender_id
  AND NOT EXISTS (SELECT 1 FROM receipt_ranges g
                  WHERE g.team_id = r.team_id AND g.channel_id = r.channel_id AND g.principal_id = r.principal_id
                    AND g.low <= :number AND g.high >= :number)
ORDER BY r.acked_to, r.principal_id LIMIT :most;

-- name: attachment_here
-- An attachment that was put in a channel or used there, without its bytes.
SELECT a.size, a.media_type FROM attachments a
WHERE a.team_id = :team_id AND a.sha256 = :sha256 AND EXISTS (
    SELECT 1 FROM attachment_uses u
    WHERE u.team_id = a.team_id AND u.sha256 = a.sha256 AND u.channel_id = :channel_id);

-- name: attachment_bytes
-- The same with its bytes.
SELECT a.data, a.media_type FROM attachments a
WHERE a.team_id = :team_id AND a.sha256 = :sha256 AND EXISTS (
    SELECT 1 FROM attachment_uses u
    WHERE u.team_id = a.team_id AND u.sha256 = a.sha256 AND u.channel_id = :channel_id);

-- name: add_attachment
-- Keeps bytes under their hash.
INSERT INTO attachments (team_id, sha256, size, media_type, made_at, data)
VALUES (:team_id, :sha256, :size, :media_type, :made_at, :data)
ON CONFLICT (team_id, sha256) DO NOTHING;

-- name: use_attachment
-- A message of a channel has an attachment; without a message it was put there.
INSERT INTO attachment_uses (team_id, sha256, channel_id, message_id)
VALUES (:team_id, :sha256, :channel_id, :message_id)
ON CONFLICT (team_id, sha256, channel_id, message_id) DO NOTHING;

-- name: unuse_attachments
-- A message no longer has attachments.
DELETE FROM attachment_uses WHERE team_id = :team_id AND message_id = :message_id;

-- name: unused_attachments
-- Bytes that were put before a time and that no message has, with the channels in which they were put.
SELECT a.sha256 FROM attachments a
WHERE a.team_id = :team_id AND a.made_at < :before AND NOT EXISTS (
    SELECT 1 FROM attachment_uses u
    WHERE u.team_id = a.team_id AND u.sha256 = a.sha256 AND u.message_id <> '')
LIMIT :most;

-- name: drop_attachment
-- Forgets bytes.
DELETE FROM attachments WHERE team_id = :team_id AND sha256 = :sha256;

-- name: drop_attachment_uses
-- Forgets where they were put.
DELETE FROM attachment_uses WHERE team_id = :team_id AND sha256 = :sha256;
