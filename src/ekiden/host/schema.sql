-- What a host remembers of the session files on its computer. All of it but `copies` of files that are gone,
-- `runs`, `placings` and `asked` can be made again from the files.

CREATE TABLE IF NOT EXISTS facts_of_store (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- One row per native file. A session is vendor + native_id; its main file has an empty thread.
CREATE TABLE IF NOT EXISTS files (
    id           INTEGER PRIMARY KEY,
    vendor       TEXT NOT NULL,
    native_id    TEXT NOT NULL,
    thread       TEXT NOT NULL DEFAULT '',
    path         TEXT NOT NULL,
    size         INTEGER NOT NULL,
    modified_at  REAL NOT NULL,
    compressed   INTEGER NOT NULL DEFAULT 0,
    archived     INTEGER NOT NULL DEFAULT 0,
    head         TEXT NOT NULL DEFAULT '',     -- names the content by its first line
    revision     INTEGER NOT NULL DEFAULT 0,   -- counts rewrites: bytes of two revisions are never joined
    indexed_to   INTEGER NOT NULL DEFAULT 0,   -- always behind a newline
    fingerprint  TEXT NOT NULL DEFAULT '',     -- of the bytes before indexed_to
    rows         INTEGER NOT NULL DEFAULT 0,
    newlines     BLOB,                         -- starts of every so-many-th line, 8 bytes each
    wanted       INTEGER NOT NULL DEFAULT 1,   -- there is something to import
    facts        BLOB,                         -- JSON of transcript.reading.Facts
    facts_whole  INTEGER NOT NULL DEFAULT 0,   -- the facts are of the whole file, not of a look at its ends
    gone_at      TEXT NOT NULL DEFAULT '',
    trimmed      INTEGER NOT NULL DEFAULT 0,   -- a part of its copy was dropped to stay under the bound
    deleted_at   TEXT NOT NULL DEFAULT '',     -- a person deleted the session here: it stays deleted
    told         TEXT NOT NULL DEFAULT '',     -- digest of the report that the hub took last
    proof_at     REAL NOT NULL DEFAULT 0,      -- when the writer of a running turn was last proven alive
    told_from    INTEGER NOT NULL DEFAULT 0,   -- where telling live begins: what lies before was there already
    UNIQUE (vendor, native_id, thread)
) STRICT;
CREATE INDEX IF NOT EXISTS files_wanted ON files (wanted, modified_at);

-- The copy: visible items in file order, many to a chunk.
CREATE TABLE IF NOT EXISTS copies (
    file     INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    chunk    INTEGER NOT NULL,
    items    INTEGER NOT NULL,
    data     BLOB NOT NULL,                    -- zstd of a JSON array of items
    PRIMARY KEY (file, revision, chunk)
) STRICT;

-- One row per item: where it is in its file and in the copy. `id` is also its row in `search`.
CREATE TABLE IF NOT EXISTS items (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    file      INTEGER NOT NULL,
    revision  INTEGER NOT NULL,
    item      TEXT NOT NULL,
    chunk     INTEGER NOT NULL,
    start     INTEGER NOT NULL,                -- of the line that gave it first
    at        TEXT NOT NULL,
    abandoned INTEGER NOT NULL DEFAULT 0,
    newer     BLOB                             -- zstd of the item's JSON, when it changed after its chunk
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS items_of_file ON items (file, revision, item);
CREATE INDEX IF NOT EXISTS items_in_order ON items (file, revision, start);

CREATE VIRTUAL TABLE IF NOT EXISTS search USING fts5 (
    text, content = '', columnsize = 0, tokenize = "unicode61 remove_diacritics 2"
);

-- Processes that this host has started, so that none is forgotten after a crash.
CREATE TABLE IF NOT EXISTS runs (
    run_id     TEXT PRIMARY KEY,               -- in the environment of every process of the run
    vendor     TEXT NOT NULL,
    native_id  TEXT NOT NULL DEFAULT '',
    pid        INTEGER NOT NULL DEFAULT 0,
    started_at REAL NOT NULL DEFAULT 0,
    ended      INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Sessions that belong to Ekiden until they are released, whether or not a process is up for them now.
CREATE TABLE IF NOT EXISTS owned (
    vendor    TEXT NOT NULL,
    native_id TEXT NOT NULL,
    cwd       TEXT NOT NULL,
    model     TEXT NOT NULL DEFAULT '',
    origin    TEXT NOT NULL DEFAULT '',
    parent    TEXT NOT NULL DEFAULT '',
    title     TEXT NOT NULL DEFAULT '',
    turn_id   TEXT NOT NULL DEFAULT '',        -- the turn that runs, for a host that starts after a crash
    released  INTEGER NOT NULL DEFAULT 0,      -- origin and parent stay known after a release
    PRIMARY KEY (vendor, native_id)
) STRICT;

-- Messages on their way to a runtime. `state`: placing (outcome unknown until the next word), placed, failed.
CREATE TABLE IF NOT EXISTS placings (
    message_id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    state      TEXT NOT NULL,
    reason     TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE TABLE IF NOT EXISTS asked (
    approval_id TEXT PRIMARY KEY,
    session_id  TEXT NOT NULL
) STRICT;

-- What was seen of an item that the vendor then dropped (an answer cut off by an interrupt). `position` is the
-- size that the file had: the item belongs behind the lines before it.
CREATE TABLE IF NOT EXISTS dropped (
    vendor    TEXT NOT NULL,
    native_id TEXT NOT NULL,
    item      TEXT NOT NULL,
    position  INTEGER NOT NULL,
    data      BLOB NOT NULL,
    PRIMARY KEY (vendor, native_id, item)
) STRICT;
