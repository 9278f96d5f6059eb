"""The copy of what is visible in each session, and the search over it. Functions on one open transaction.

Items lie in chunks in file order, compressed. An item that changes after its chunk was written (a tool's
result came later) gets its newer form beside it, and readers see only that.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import zstandard

from ekiden.host.words import Term, excerpt_of, indexed_text, match_expression, plain_text
from ekiden.transcript.items import Item, ItemKind, decode_item, encode_item

_decode_items = msgspec.json.Decoder(tuple[Item, ...]).decode
_FINDS_WEIGHED_MAX = 20_000


class Placed(msgspec.Struct, frozen=True, gc=False):
    """An item and where the line that gave it first begins."""

    item: Item
    start: int


def standing(placed: Placed) -> tuple[int, bool]:
    """The order of items in a file: a notice at a row has no length and stands before it."""
    return placed.start, placed.item.source.end > placed.item.source.start


@dataclass(frozen=True, slots=True)
class Find:
    """An item that a search found. `key` is where the next page begins."""

    vendor: str
    native_id: str
    item_id: str
    at: str
    excerpt: str
    matches: tuple[tuple[int, int], ...]
    key: str


def _pack(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(data)


def _unpack(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(data)


def _index(connection: sqlite3.Connection, row_id: int, item: Item) -> None:
    text = plain_text(item)
    if text:
        connection.execute("INSERT INTO search (rowid, text) VALUES (?, ?)", (row_id, indexed_text(text)))


def _unindex(connection: sqlite3.Connection, row_id: int, item: Item) -> None:
    text = plain_text(item)
    if text:
        connection.execute(
            "INSERT INTO search (search, rowid, text) VALUES ('delete', ?, ?)", (row_id, indexed_text(text))
        )


def keep(connection: sqlite3.Connection, file_id: int, revision: int, placed: Sequence[Placed]) -> None:
    """Adds items to the copy and the search, or puts them in the place of their earlier form."""
    known: dict[str, tuple[int, int]] = {}
    for values in connection.execute(
        "SELECT item, id, chunk FROM items WHERE file = ? AND revision = ?"
        " AND item IN (SELECT value FROM json_each(?))",
        (file_id, revision, msgspec.json.encode([entry.item.id for entry in placed]).decode()),
    ):
        known[values[0]] = (values[1], values[2])
    fresh = [entry for entry in placed if entry.item.id not in known]
    chunks: dict[int, dict[str, Item]] = {}
    for entry in placed:
        place = known.get(entry.item.id)
        if place is not None:
            row_id, chunk = place
            if chunk not in chunks:
                chunks[chunk] = {item.id: item for item in _chunk(connection, file_id, revision, chunk)}
            earlier = chunks[chunk].get(entry.item.id)
            if earlier is not None:
                _unindex(connection, row_id, earlier)
            chunks[chunk][entry.item.id] = entry.item
            connection.execute(
                "UPDATE items SET newer = ?, abandoned = ?, at = ? WHERE id = ?",
                (_pack(encode_item(entry.item)), entry.item.abandoned, entry.item.at, row_id),
            )
            _index(connection, row_id, entry.item)
    last = connection.execute(
        "SELECT MAX(start) FROM items WHERE file = ? AND revision = ?", (file_id, revision)
    ).fetchone()[0]
    late = [entry for entry in fresh if last is not None and entry.start <= last and not standing(entry)[1]]
    for entry in late:
        _insert(connection, file_id, revision, entry)
        fresh.remove(entry)
    if not fresh:
        return
    chunk = connection.execute(
        "SELECT COALESCE(MAX(chunk), -1) + 1 FROM items WHERE file = ? AND revision = ?", (file_id, revision)
    ).fetchone()[0]
    connection.execute(
        "INSERT INTO copies (file, revision, chunk, items, data) VALUES (?, ?, ?, ?, ?)",
        (file_id, revision, chunk, len(fresh), _pack(msgspec.json.encode([entry.item for entry in fresh]))),
    )
    _note(connection, file_id, revision, chunk, fresh)


def _note(
    connection: sqlite3.Connection, file_id: int, revision: int, chunk: int, placed: Sequence[Placed]
) -> None:
    """Puts new items of a chunk into the list and the search: one statement for all of them."""
    first_id = connection.execute(
        "SELECT COALESCE(MAX(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'items'"
    ).fetchone()[0]
    numbered = list(enumerate(placed, first_id))
    connection.executemany(
        "INSERT INTO items (id, file, revision, item, chunk, start, at, abandoned)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (row_id, file_id, revision, entry.item.id, chunk, entry.start, entry.item.at, entry.item.abandoned)
            for row_id, entry in numbered
        ],
    )
    texts = [(row_id, plain_text(entry.item)) for row_id, entry in numbered]
    connection.executemany(
        "INSERT INTO search (rowid, text) VALUES (?, ?)",
        [(row_id, indexed_text(text)) for row_id, text in texts if text],
    )


def _insert(connection: sqlite3.Connection, file_id: int, revision: int, entry: Placed) -> None:
    """Puts a notice that only the end of a reading gave before the row that it belongs to, in that one's chunk."""
    chunk, next_id = connection.execute(
        "SELECT chunk, item FROM items WHERE file = ? AND revision = ? AND start >= ? ORDER BY start, id LIMIT 1",
        (file_id, revision, entry.start),
    ).fetchone()
    row = connection.execute(
        "SELECT data FROM copies WHERE file = ? AND revision = ? AND chunk = ?", (file_id, revision, chunk)
    ).fetchone()
    if row is not None:
        held = list(_decode_items(_unpack(row[0])))
        held.insert(next((at for at, item in enumerate(held) if item.id == next_id), len(held)), entry.item)
        connection.execute(
            "UPDATE copies SET items = ?, data = ? WHERE file = ? AND revision = ? AND chunk = ?",
            (len(held), _pack(msgspec.json.encode(held)), file_id, revision, chunk),
        )
    _note(connection, file_id, revision, chunk, [entry])


def _chunk(connection: sqlite3.Connection, file_id: int, revision: int, chunk: int) -> list[Item]:
    row = connection.execute(
        "SELECT data FROM copies WHERE file = ? AND revision = ? AND chunk = ?", (file_id, revision, chunk)
    ).fetchone()
    if row is None:
        return []
    newer = {
        values[0]: decode_item(_unpack(values[1]))
        for values in connection.execute(
            "SELECT item, newer FROM items WHERE file = ? AND revision = ? AND newer IS NOT NULL AND chunk = ?",
            (file_id, revision, chunk),
        )
    }
    return [newer.get(item.id, item) for item in _decode_items(_unpack(row[0]))]


def revisions(connection: sqlite3.Connection, file_id: int) -> list[int]:
    """Revisions of a file of which something is kept, newest first."""
    return [
        values[0]
        for values in connection.execute(
            "SELECT DISTINCT revision FROM copies WHERE file = ? ORDER BY revision DESC", (file_id,)
        )
    ]


def kept_page(
    connection: sqlite3.Connection, file_id: int, revision: int, before: tuple[int, int] | None, limit: int
) -> tuple[list[Item], tuple[int, int] | None]:
    """Up to `limit` kept items before the place (chunk, index in it), or the newest; and the place to go on
    before, or None at the beginning."""
    items: list[Item] = []
    if before is None:
        newest = connection.execute(
            "SELECT MAX(chunk) FROM copies WHERE file = ? AND revision = ?", (file_id, revision)
        ).fetchone()[0]
        if newest is None:
            return [], None
        chunk, index = newest, -1
    else:
        chunk, index = before
    while True:
        held = _chunk(connection, file_id, revision, chunk)
        if index >= 0:
            held = held[:index]
        wanted = limit - len(items)
        items = held[-wanted:] + items
        if len(held) > wanted:
            return items, (chunk, len(held) - wanted)
        earlier = connection.execute(
            "SELECT MAX(chunk) FROM copies WHERE file = ? AND revision = ? AND chunk < ?",
            (file_id, revision, chunk),
        ).fetchone()[0]
        if earlier is None:
            return items, None
        chunk, index = earlier, -1
        if len(items) >= limit:
            held_after = connection.execute(
                "SELECT items FROM copies WHERE file = ? AND revision = ? AND chunk = ?",
                (file_id, revision, chunk),
            ).fetchone()[0]
            return items, (chunk, held_after)


def kept_item(connection: sqlite3.Connection, file_id: int, item_id: str) -> tuple[Item | None, int, int] | None:
    """(the kept item, or None if its copy was dropped; the start of its line; its revision), or None."""
    row = connection.execute(
        "SELECT chunk, start, revision FROM items WHERE file = ? AND item = ? ORDER BY revision DESC",
        (file_id, item_id),
    ).fetchone()
    if row is None:
        return None
    found = next((item for item in _chunk(connection, file_id, row[2], row[0]) if item.id == item_id), None)
    return found, row[1], row[2]


def marks_of(
    connection: sqlite3.Connection, file_id: int, revision: int, item_ids: Sequence[str]
) -> Mapping[str, bool]:
    """Item id -> whether it is abandoned, for those of the ids that a whole reading has seen."""
    return {
        values[0]: bool(values[1])
        for values in connection.execute(
            "SELECT item, abandoned FROM items WHERE file = ? AND revision = ?"
            " AND item IN (SELECT value FROM json_each(?))",
            (file_id, revision, msgspec.json.encode(list(item_ids)).decode()),
        )
    }


def notices_between(
    connection: sqlite3.Connection, file_id: int, revision: int, start: int, end: int, notes: frozenset[str]
) -> list[Placed]:
    """The kept notices with one of the `notes` whose row begins in `start`..`end`. Such a notice is no message and
    has no time, so few chunks are opened."""
    starts: dict[int, dict[str, int]] = {}
    for item_id, chunk, at in connection.execute(
        "SELECT item, chunk, start FROM items WHERE file = ? AND revision = ? AND at = ''"
        " AND start >= ? AND start < ?",
        (file_id, revision, start, end),
    ):
        starts.setdefault(chunk, {})[item_id] = at
    return [
        Placed(item, starts[chunk][item.id])
        for chunk in sorted(starts)
        for item in _chunk(connection, file_id, revision, chunk)
        if item.id in starts[chunk] and item.kind is ItemKind.NOTICE and item.note in notes
    ]


def keep_dropped(connection: sqlite3.Connection, vendor: str, native_id: str, item: Item, position: int) -> None:
    """Keeps an item that will never be in the native file."""
    connection.execute(
        "INSERT OR REPLACE INTO dropped (vendor, native_id, item, position, data) VALUES (?, ?, ?, ?, ?)",
        (vendor, native_id, item.id, position, _pack(encode_item(item))),
    )


def dropped(
    connection: sqlite3.Connection, vendor: str, native_id: str, first: int, end: int | None
) -> list[tuple[int, Item]]:
    """(position, item) of what the vendor dropped behind `first`, up to `end` if given."""
    return [
        (position, decode_item(_unpack(data)))
        for position, data in connection.execute(
            "SELECT position, data FROM dropped WHERE vendor = ? AND native_id = ? AND position > ?"
            " AND (? IS NULL OR position <= ?) ORDER BY position",
            (vendor, native_id, first, end, end),
        )
    ]


def copy_bytes(connection: sqlite3.Connection) -> int:
    """Bytes of all that is kept, compressed."""
    return int(connection.execute("SELECT TOTAL(LENGTH(data)) FROM copies").fetchone()[0])


def forget(connection: sqlite3.Connection, file_id: int) -> None:
    """Drops a file's copy and takes its items out of the search."""
    for revision, chunk in connection.execute(
        "SELECT revision, chunk FROM copies WHERE file = ?", (file_id,)
    ).fetchall():
        rows = dict(
            connection.execute(
                "SELECT item, id FROM items WHERE file = ? AND revision = ? AND chunk = ?",
                (file_id, revision, chunk),
            ).fetchall()
        )
        for item in _chunk(connection, file_id, revision, chunk):
            if item.id in rows:
                _unindex(connection, rows[item.id], item)
    connection.execute("DELETE FROM copies WHERE file = ?", (file_id,))
    connection.execute("DELETE FROM items WHERE file = ?", (file_id,))


def trim(connection: sqlite3.Connection, bytes_max: int) -> list[int]:
    """Brings the copy under `bytes_max`; returns the ids of the files whose copy was dropped.

    Oldest sessions first; those whose file still exists before those that only the copy has.
    """
    over = copy_bytes(connection) - bytes_max
    dropped: list[int] = []
    if over <= 0:
        return dropped
    for file_id, size in connection.execute(
        "SELECT files.id, SUM(LENGTH(copies.data)) FROM files JOIN copies ON copies.file = files.id"
        " GROUP BY files.id ORDER BY files.gone_at <> '', files.modified_at"
    ).fetchall():
        if over <= 0:
            break
        forget(connection, file_id)
        connection.execute("UPDATE files SET trimmed = 1 WHERE id = ?", (file_id,))
        dropped.append(file_id)
        over -= size
    return dropped


def find(connection: sqlite3.Connection, terms: Sequence[Term], *, limit: int, after: str) -> list[Find]:
    """Up to `limit` items that hold all terms, newest first, after the key `after` (empty for the first)."""
    at, _, row_id = after.rpartition("~")
    rows = connection.execute(
        "SELECT items.id, items.at, items.item, items.revision, items.chunk, items.file,"
        " files.vendor, files.native_id"
        " FROM items JOIN files ON files.id = items.file"
        " WHERE items.id IN (SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT ?)"
        " AND files.deleted_at = ''"
        " AND (? = '' OR items.at < ? OR (items.at = ? AND items.id < ?))"
        " ORDER BY items.at DESC, items.id DESC LIMIT ?",
        (match_expression(terms), _FINDS_WEIGHED_MAX, after, at, at, int(row_id or 0), limit),
    ).fetchall()
    chunks: dict[tuple[int, int, int], dict[str, Item]] = {}
    finds: list[Find] = []
    for found_id, found_at, item_id, revision, chunk, file_id, vendor, native_id in rows:
        place = (file_id, revision, chunk)
        if place not in chunks:
            chunks[place] = {item.id: item for item in _chunk(connection, *place)}
        item = chunks[place].get(item_id)
        excerpt, matches = excerpt_of(plain_text(item), terms) if item is not None else ("", ())
        finds.append(Find(vendor, native_id, item_id, found_at, excerpt, matches, f"{found_at}~{found_id}"))
    return finds
