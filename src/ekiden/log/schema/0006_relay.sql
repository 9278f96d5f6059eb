-- The relay room: channels, messages, mentions, receipts, status and leases. Projections of the log, written in the
-- transaction of the events that they come from. JSON columns hold the shapes of `ekiden.relay.wire`.

-- `channel` is the Channel without what is counted. A deleted channel keeps its name, so that a name is one thing.
-- Private names are apart from the others: that one is taken would tell that it is there.
CREATE TABLE channels (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    name text NOT NULL,
    private bigint NOT NULL,
    state text NOT NULL,
    channel text NOT NULL,
    PRIMARY KEY (team_id, channel_id)
);

CREATE UNIQUE INDEX channels_by_name ON channels (team_id, name, private);

-- What changes with every message, apart so that the row stays narrow. `spoken_seq` is of the last word of a person
-- outside threads, `members` how many follow the channel.
CREATE TABLE channel_heads (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    first_number bigint NOT NULL,
    last_number bigint NOT NULL,
    spoken_seq bigint NOT NULL,
    members bigint NOT NULL,
    PRIMARY KEY (team_id, channel_id)
);

CREATE TABLE channel_members (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    principal_id text NOT NULL,
    name text NOT NULL,
    kind text NOT NULL,
    role text NOT NULL,
    joined_at text NOT NULL,
    PRIMARY KEY (team_id, channel_id, principal_id)
);

CREATE INDEX channel_members_by_principal ON channel_members (team_id, principal_id, channel_id);

-- `message` is the whole Message; `words` is what of it is searched. `seq` is of the event that told of it, `edit_seq` of
-- its last edit (0: none); `digest` of what was sent, to know a repeated post by.
CREATE TABLE channel_messages (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    number bigint NOT NULL,
    message_id text NOT NULL,
    thread_id text NOT NULL,
    sender_id text NOT NULL,
    sender_key text NOT NULL,
    at text NOT NULL,
    seq bigint NOT NULL,
    edit_seq bigint NOT NULL,
    words text NOT NULL,
    message text NOT NULL,
    digest text NOT NULL,
    PRIMARY KEY (team_id, channel_id, number)
);

CREATE UNIQUE INDEX channel_messages_by_id ON channel_messages (team_id, message_id);
CREATE INDEX channel_messages_by_thread ON channel_messages (team_id, thread_id, number) WHERE thread_id <> '';
CREATE INDEX channel_messages_by_sender ON channel_messages (team_id, sender_id, channel_id, number);
CREATE INDEX channel_messages_by_seq ON channel_messages (team_id, seq);

-- `thread` is the Thread without what is counted; `wakes` the account of who woke whom in it since a person spoke.
-- `named`: 1 if somebody gave it its title, 0 if that is of its first message; `told` the seqs of the events that said it.
CREATE TABLE channel_threads (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    thread_id text NOT NULL,
    root_number bigint NOT NULL,
    state text NOT NULL,
    replies bigint NOT NULL,
    last_number bigint NOT NULL,
    last_at text NOT NULL,
    thread text NOT NULL,
    named bigint NOT NULL,
    told text NOT NULL,
    wakes text NOT NULL,
    PRIMARY KEY (team_id, thread_id)
);

CREATE INDEX channel_threads_newest ON channel_threads (team_id, channel_id, last_number);

-- The account of who woke whom outside threads; see `relay.loops`. It counts while no person has spoken after `since`
-- (a seq).
CREATE TABLE channel_wakes (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    since bigint NOT NULL,
    wakes text NOT NULL,
    PRIMARY KEY (team_id, channel_id)
);

-- How many wake-ups lie between an agent and the last word of a person, wherever it was woken; when it was woken last.
CREATE TABLE agent_wakes (
    team_id text NOT NULL,
    principal_id text NOT NULL,
    hops bigint NOT NULL,
    seq bigint NOT NULL,
    at_s bigint NOT NULL,
    PRIMARY KEY (team_id, principal_id)
);

-- One row for each principal that a message mentions. `waits`: 1 it waits and may wake, 2 it waits without waking,
-- 0 it is done with. `seq` is of the event that made it; `delivery` is the Delivery without what changes.
CREATE TABLE deliveries (
    team_id text NOT NULL,
    principal_id text NOT NULL,
    message_id text NOT NULL,
    channel_id text NOT NULL,
    number bigint NOT NULL,
    sender_id text NOT NULL,
    waits bigint NOT NULL,
    rank bigint NOT NULL,
    seq bigint NOT NULL,
    state text NOT NULL,
    at text NOT NULL,
    attempt bigint NOT NULL,
    reason text NOT NULL,
    expires_at text NOT NULL,
    delivery text NOT NULL,
    PRIMARY KEY (team_id, principal_id, message_id)
);

CREATE INDEX deliveries_waiting ON deliveries (team_id, principal_id, rank, seq) WHERE waits > 0;
CREATE INDEX deliveries_by_number ON deliveries (team_id, principal_id, channel_id, number);
CREATE INDEX deliveries_of_message ON deliveries (team_id, message_id);
CREATE INDEX deliveries_expiring ON deliveries (team_id, expires_at) WHERE waits > 0 AND expires_at <> '';

-- Receipts: all up to `acked_to`, and what lies above it in ranges. `follows`: 1 while its principal is a member.
CREATE TABLE receipts (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    principal_id text NOT NULL,
    acked_to bigint NOT NULL,
    at text NOT NULL,
    follows bigint NOT NULL,
    PRIMARY KEY (team_id, channel_id, principal_id)
);

CREATE INDEX receipts_behind ON receipts (team_id, channel_id, acked_to, principal_id) WHERE follows = 1;
CREATE INDEX receipts_by_principal ON receipts (team_id, principal_id, channel_id) WHERE follows = 1;

CREATE TABLE receipt_ranges (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    principal_id text NOT NULL,
    low bigint NOT NULL,
    high bigint NOT NULL,
    PRIMARY KEY (team_id, channel_id, principal_id, low)
);

CREATE INDEX receipt_ranges_above ON receipt_ranges (team_id, channel_id, high);

-- Bytes by their hash, as base64, and which messages have them. A use without a message: put in that channel.
CREATE TABLE attachments (
    team_id text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    media_type text NOT NULL,
    made_at text NOT NULL,
    data text NOT NULL,
    PRIMARY KEY (team_id, sha256)
);

CREATE TABLE attachment_uses (
    team_id text NOT NULL,
    sha256 text NOT NULL,
    channel_id text NOT NULL,
    message_id text NOT NULL,
    PRIMARY KEY (team_id, sha256, channel_id, message_id)
);

CREATE INDEX attachment_uses_by_message ON attachment_uses (team_id, message_id);

-- The newest line of each key; `status` is the Status. `present` is 0 for a key that was cleared. `expires_ms` is in
-- milliseconds of the log's steady clock, 0 for a value without a time, or one whose end was told.
CREATE TABLE statuses (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    key text NOT NULL,
    version bigint NOT NULL,
    present bigint NOT NULL,
    expires_ms bigint NOT NULL,
    status text NOT NULL,
    PRIMARY KEY (team_id, channel_id, key)
);

CREATE INDEX statuses_expiring ON statuses (team_id, expires_ms) WHERE expires_ms > 0;

-- Every version of every key.
CREATE TABLE status_changes (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    key text NOT NULL,
    version bigint NOT NULL,
    seq bigint NOT NULL,
    by_key text NOT NULL,
    at text NOT NULL,
    status text NOT NULL,
    PRIMARY KEY (team_id, channel_id, key, version)
);

CREATE INDEX status_changes_by_seq ON status_changes (team_id, channel_id, seq);
CREATE INDEX status_changes_by_key ON status_changes (team_id, by_key, seq);

-- One row a channel: its StatusRules.
CREATE TABLE status_rules (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    rules text NOT NULL,
    PRIMARY KEY (team_id, channel_id)
);

-- `expires_ms` is in milliseconds of the log's steady clock, 0 when free; `lasts_ms` is how long the lease was taken for.
-- `lease` is the Lease.
CREATE TABLE channel_leases (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    name text NOT NULL,
    fence bigint NOT NULL,
    holder_id text NOT NULL,
    holder_key text NOT NULL,
    expires_ms bigint NOT NULL,
    lasts_ms bigint NOT NULL,
    seq bigint NOT NULL,
    lease text NOT NULL,
    PRIMARY KEY (team_id, channel_id, name)
);

CREATE INDEX channel_leases_by_key ON channel_leases (team_id, holder_key);
CREATE INDEX channel_leases_expiring ON channel_leases (team_id, expires_ms) WHERE expires_ms > 0;

-- Signed notes of what was purged; `purged` is the Purged. The log is redacted up to `upto_seq`.
CREATE TABLE purges (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    last_number bigint NOT NULL,
    upto_seq bigint NOT NULL,
    purged text NOT NULL,
    PRIMARY KEY (team_id, channel_id, last_number)
);

-- The directory of member keys: signed entries, append-only, each with the hash of the one before.
CREATE TABLE directory (
    team_id text NOT NULL,
    position bigint NOT NULL,
    principal_id text NOT NULL,
    member_key_id text NOT NULL,
    hash text NOT NULL,
    entry text NOT NULL,
    PRIMARY KEY (team_id, position)
);

CREATE INDEX directory_by_principal ON directory (team_id, principal_id, position);
CREATE INDEX directory_by_key ON directory (team_id, member_key_id, position);

-- Epochs of encrypted channels, and the epoch's key wrapped to each member key.
CREATE TABLE epochs (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    epoch bigint NOT NULL,
    statement text NOT NULL,
    PRIMARY KEY (team_id, channel_id, epoch)
);

CREATE TABLE epoch_keys (
    team_id text NOT NULL,
    channel_id text NOT NULL,
    epoch bigint NOT NULL,
    member_key_id text NOT NULL,
    principal_id text NOT NULL,
    wrapped text NOT NULL,
    PRIMARY KEY (team_id, channel_id, epoch, member_key_id)
);

CREATE INDEX epoch_keys_by_key ON epoch_keys (team_id, member_key_id, channel_id, epoch);
CREATE INDEX epoch_keys_by_principal ON epoch_keys (team_id, channel_id, principal_id, epoch);

-- One-time invites. The hub knows the digest of the code, never what proves the inviter to the guest.
CREATE TABLE invites (
    team_id text NOT NULL,
    invite_id text NOT NULL,
    code_digest text NOT NULL,
    made_by_key text NOT NULL,
    state text NOT NULL,
    expires_at text NOT NULL,
    invite text NOT NULL,
    PRIMARY KEY (team_id, invite_id)
);

CREATE UNIQUE INDEX invites_by_code ON invites (code_digest);
CREATE INDEX invites_open ON invites (team_id, expires_at) WHERE state = 'open';

-- The hub's signing key of a team, and its signed checkpoints over the log's hash chain.
CREATE TABLE team_keys (
    team_id text NOT NULL,
    seed text NOT NULL,
    public_key text NOT NULL,
    made_at text NOT NULL,
    PRIMARY KEY (team_id)
);

CREATE TABLE checkpoints (
    team_id text NOT NULL,
    seq bigint NOT NULL,
    checkpoint text NOT NULL,
    PRIMARY KEY (team_id, seq)
);

-- Keys that are not trusted since a time and of whose writings some are still to be marked.
CREATE TABLE taints (
    team_id text NOT NULL,
    key_id text NOT NULL,
    since text NOT NULL,
    PRIMARY KEY (team_id, key_id)
);

-- The sessions that are agents: which principal a session is, and the key that its tools call with. `released`: the
-- host has let the session go, so that its key ended with that and not by somebody's will.
CREATE TABLE seats (
    team_id text NOT NULL,
    principal_id text NOT NULL,
    session_id text NOT NULL,
    host_id text NOT NULL,
    key_id text NOT NULL,
    released bigint NOT NULL,
    PRIMARY KEY (team_id, principal_id)
);

CREATE UNIQUE INDEX seats_by_session ON seats (team_id, session_id);

-- Keys that were made with another one, or replaced it: what ends with what.
ALTER TABLE keys ADD COLUMN parent_key text NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN suspect_since text NOT NULL DEFAULT '';
ALTER TABLE keys ADD COLUMN replaced_by text NOT NULL DEFAULT '';

CREATE INDEX keys_by_parent ON keys (team_id, parent_key) WHERE parent_key <> '';
