"""Importing: facts, copy and search, resumable, bounded, never twice."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ekiden.host import copies
from ekiden.host.copies import find
from ekiden.host.importing import import_all, wanted_bytes, worker_command
from ekiden.host.store import FileRow, Store, file_of, files, indexed_share, newlines_of, put_files
from ekiden.host.unpacked import Opener
from ekiden.host.words import terms_of
from ekiden.kernel.errors import StoreNewer
from ekiden.transcript.items import Item, ItemKind, Source

from .line_vendor import LineVendor, item_id, row


def note(store: Store, vendor: LineVendor) -> None:
    store.write(lambda connection: put_files(connection, "line", list(vendor.discovery.files()))).result()


def run(store: Store, opener: Opener, vendor: LineVendor, copy_bytes_max: int = 2**30) -> None:
    note(store, vendor)
    import_all(store, opener, {"line": vendor}, copy_bytes_max=copy_bytes_max)


def found(store: Store, query: str) -> list[str]:
    return [
        hit.item_id
        for hit in store.read(lambda connection: find(connection, terms_of(query), limit=100, after=""))
    ]


def row_of(store: Store, native_id: str) -> FileRow:
    got = store.read(lambda connection: file_of(connection, "line", native_id))
    assert got is not None
    return got


def test_facts_lines_and_search_of_a_file(store: Store, opener: Opener, vendor: LineVendor, root: Path) -> None:
    """Everything that a list, a page and a search need comes from one reading."""
    (root / "s.jsonl").write_bytes(
        b"".join(row("user", f"{n}", f"word{n} 喜欢", cwd="/w") for n in range(1000)) + b"bad\n"
    )
    run(store, opener, vendor)
    of = row_of(store, "s")
    assert of.facts is not None
    assert (of.facts.messages, of.facts.rows, of.facts.unreadable_rows, of.facts.cwd) == (1000, 1001, 1, "/w")
    assert (of.wanted, of.facts_whole) == (False, True)
    _, index = store.read(lambda connection: newlines_of(connection, of.id))
    assert (index.rows, index.end) == (1001, of.size)
    assert set(found(store, "word77")) == {item_id("s", name) for name in ["77", *[f"77{n}" for n in range(10)]]}
    assert len(found(store, "喜")) == 100
    assert store.read(indexed_share) == 1.0


def test_running_again_and_appending_change_only_what_is_new(
    store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """Three imports of the same give the same; a result that comes later replaces its call in the search."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "1", "alpha") + row("call", "2", "runner"))
    for _ in range(3):
        run(store, opener, vendor)
    before = store.read(copies.copy_bytes)
    with path.open("ab") as file:
        file.write(row("result", "2", "outcome"))
    run(store, opener, vendor)
    assert found(store, "outcome") == found(store, "runner") == [item_id("s", "2")]
    assert store.read(copies.copy_bytes) == before
    assert store.read(lambda connection: connection.execute("SELECT COUNT(*) FROM items").fetchone()[0]) == 2


def test_an_import_that_is_stopped_at_any_slice_goes_on(
    store: Store, opener: Opener, vendor: LineVendor, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position and what was read are committed together."""
    monkeypatch.setattr("ekiden.host.importing.IMPORT_SLICE_BYTES", 2000)
    (root / "s.jsonl").write_bytes(b"".join(row("user", f"{n}", f"word{n}") for n in range(500)))
    note(store, vendor)
    rounds = 0
    while store.read(wanted_bytes):
        calls = iter([False, True])
        import_all(
            store, opener, {"line": vendor}, copy_bytes_max=2**30, stopped=lambda calls=calls: next(calls, True)
        )
        rounds += 1
    assert rounds > 5
    facts = row_of(store, "s").facts
    assert facts is not None
    assert (facts.messages, facts.rows) == (500, 500)
    assert store.read(lambda connection: connection.execute("SELECT COUNT(*) FROM items").fetchone()[0]) == 500


def test_newest_files_come_first(store: Store, opener: Opener, vendor: LineVendor, root: Path) -> None:
    """So what a person looks for is there at once."""
    for number in range(5):
        path = root / f"s{number}.jsonl"
        path.write_bytes(row("user", "1", "x"))
        os.utime(path, (1000 + number, 1000 + number))
    note(store, vendor)
    order: list[str] = []
    fold = vendor.fold
    vendor.fold = lambda file: (order.append(file.native_id), fold(file))[1]  # type: ignore[method-assign]
    import_all(store, opener, {"line": vendor}, copy_bytes_max=2**30)
    assert list(dict.fromkeys(order)) == ["s4", "s3", "s2", "s1", "s0"]


def test_a_reader_that_fails_on_one_file_does_not_hold_up_the_others(
    store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """The next call goes on as well."""
    for name in ("a", "b", "c"):
        (root / f"{name}.jsonl").write_bytes(row("user", "1", name))
    fold = vendor.fold

    def failing(file):  # type: ignore[no-untyped-def]
        if file.native_id == "b":
            raise RuntimeError("broken")
        return fold(file)

    vendor.fold = failing  # type: ignore[method-assign]
    run(store, opener, vendor)
    assert (found(store, "a"), found(store, "c")) == ([item_id("a", "1")], [item_id("c", "1")])
    assert store.read(wanted_bytes) == 0


def test_the_copy_stays_under_its_bound_and_says_what_it_dropped(
    store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """Oldest first, but what only the copy has is dropped last; what is dropped is not found any more."""
    for number in range(6):
        path = root / f"s{number}.jsonl"
        path.write_bytes(
            b"".join(row("user", f"{n}", os.urandom(30).hex()) for n in range(100))
            + row("say", "w", f"only{number}")
        )
        os.utime(path, (1000 + number, 1000 + number))
    run(store, opener, vendor)
    size = store.read(copies.copy_bytes)
    (root / "s0.jsonl").unlink()
    store.write(
        lambda connection: connection.execute("UPDATE files SET gone_at = 'x' WHERE native_id = 's0'")
    ).result()
    store.write(lambda connection: copies.trim(connection, size * 7 // 10)).result()
    trimmed = {of.native_id for of in store.read(lambda connection: list(files(connection))) if of.trimmed}
    assert trimmed == {"s1", "s2"}
    assert store.read(copies.copy_bytes) <= size * 7 // 10
    assert (found(store, "only0"), found(store, "only1")) == ([item_id("s0", "w")], [])


def test_the_search_index_holds_nothing_of_what_was_dropped(
    store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """Dropping a copy takes its words out of the index too, changed items included."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "1", "alpha 喜欢") + row("call", "2", "runner"))
    run(store, opener, vendor)
    with path.open("ab") as file:
        file.write(row("result", "2", "outcome"))
    run(store, opener, vendor)
    store.write(lambda connection: copies.trim(connection, 0)).result()
    left = store.read(
        lambda connection: [
            word
            for word in ("alpha", "喜", "runner", "outcome")
            if connection.execute("SELECT rowid FROM search WHERE search MATCH ?", (f'"{word}"',)).fetchall()
        ]
    )
    assert left == []


def test_embedded_history_costs_bounded_memory(tmp_path: Path, vendor: LineVendor, root: Path) -> None:
    """A file of many huge rows is imported as a stream by the importing process, whose memory stays small."""
    with (root / "s.jsonl").open("wb") as file:
        for number in range(30):
            file.write(row("user", f"{number}", f"small{number}"))
            file.write(row("noise", "n", "x" * 3_000_000))
        file.write(row("noise", "n", "x" * 17_000_000))
        file.write(row("user", "last", "at the end"))
    home = tmp_path / "home"
    store = Store(home / "host.db")
    note(store, vendor)
    script = (
        "import re, sys; from ekiden.host.importing import main; code = main(sys.argv[1:]);"
        # The kernel's own mark: `ru_maxrss` would start from the size of the process that began this one.
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]); sys.exit(code)"
    )
    peak_kib = _imported(script, home, root)
    assert found(store, "end") == [item_id("s", "last")]
    assert len(found(store, "small")) == 30
    assert peak_kib < 250_000
    store.close()


def _imported(script: str, home: Path, root: Path) -> int:
    """Runs the importing process to its end; its peak memory in KiB."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *worker_command(home, "tests.host.line_vendor:vendors_of", 2**30)[3:]],
        env={"PATH": "/usr/bin:/bin", "LINE_ROOT": str(root), "PYTHONPATH": os.getcwd()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        peak = int(process.stdout.readline())
        assert process.wait(30) == 0
        return peak
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def test_a_killed_importing_process_leaves_what_it_had_and_nothing_broken(
    tmp_path: Path, vendor: LineVendor, root: Path
) -> None:
    """SIGKILL at some moment; the next import finishes, and each item is there once."""
    for number in range(40):
        (root / f"s{number}.jsonl").write_bytes(
            b"".join(row("user", f"{n}", f"word{number}x{n}") for n in range(400))
        )
    home = tmp_path / "home"
    store = Store(home / "host.db")
    note(store, vendor)
    process = subprocess.Popen(
        worker_command(home, "tests.host.line_vendor:vendors_of", 2**30),
        env={"PATH": "/usr/bin:/bin", "LINE_ROOT": str(root), "PYTHONPATH": os.getcwd()},
        stdin=subprocess.PIPE,
    )
    deadline = time.monotonic() + 30
    while store.read(indexed_share) == 0 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdin is not None
    process.stdin.close()
    opener = Opener(home / "unpacked")
    import_all(store, opener, {"line": vendor}, copy_bytes_max=2**30)
    opener.close()
    count = store.read(lambda connection: connection.execute("SELECT COUNT(*) FROM items").fetchone()[0])
    assert count == 40 * 400
    assert store.read(indexed_share) == 1.0
    store.close()


def test_the_database_is_private_and_refuses_a_newer_one(tmp_path: Path) -> None:
    """0600 in a folder of 0700; a database from a later version is left alone."""
    path = tmp_path / "home" / "host.db"
    store = Store(path)
    store.write(lambda connection: connection.execute("PRAGMA user_version")).result()
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreNewer):
        Store(path)


def test_a_write_that_fails_spoils_no_other(store: Store) -> None:
    """Many writes share a transaction; each stands for itself."""
    good = store.write(lambda connection: connection.execute("INSERT INTO facts_of_store VALUES ('a', '1')"))
    bad = store.write(lambda connection: connection.execute("INSERT INTO nothing VALUES (1)"))
    also = store.write(lambda connection: connection.execute("INSERT INTO facts_of_store VALUES ('b', '2')"))
    good.result()
    also.result()
    assert bad.exception() is not None
    names = store.read(lambda connection: connection.execute("SELECT name FROM facts_of_store").fetchall())
    assert json.dumps(names) == '[["a"], ["b"]]'


def test_a_notice_that_only_the_end_gives_stands_before_its_row_in_the_copy(store: Store) -> None:
    """Also where its row was kept long before, in a chunk of its own; places in all other chunks stay."""

    def placed(start: int, *, notice: bool = False) -> copies.Placed:
        source = Source("s.jsonl", 1 + start // 10, start, start if notice else start + 9)
        kind = ItemKind.NOTICE if notice else ItemKind.MESSAGE
        return copies.Placed(Item(f"{kind}{start}", kind, source, note="gap" if notice else ""), start)

    for chunk in (0, 30, 60):
        rows = [placed(chunk + line) for line in (0, 10, 20)]
        store.write(lambda connection, rows=rows: copies.keep(connection, 1, 0, rows)).result()
    late = [placed(30, notice=True), placed(50, notice=True), placed(90)]
    for _ in range(2):
        store.write(lambda connection: copies.keep(connection, 1, 0, late)).result()
    shown: list[str] = []
    place: tuple[int, int] | None = None
    while True:
        items, place = store.read(lambda connection, at=place: copies.kept_page(connection, 1, 0, at, 2))
        shown = [item.id for item in items] + shown
        if place is None:
            break
    kept = [f"message{start}" for start in range(0, 100, 10)]
    assert shown == [*kept[:3], "notice30", *kept[3:5], "notice50", *kept[5:]]
    found = store.read(lambda connection: copies.notices_between(connection, 1, 0, 30, 50, frozenset({"gap"})))
    assert [one.start for one in found] == [30]
