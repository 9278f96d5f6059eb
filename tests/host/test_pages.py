"""Pages: all of a session, from any place, once."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ekiden.host import copies
from ekiden.host.importing import import_all
from ekiden.host.pages import NOT_JUDGED, Pages
from ekiden.host.side_files import with_side_files
from ekiden.host.store import FileRow, Store, file_of, put_files, put_gone
from ekiden.host.unpacked import Opener
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.transcript.items import Item, ItemKind, Reference, Source, Text, ToolState

from .line_vendor import LineVendor, row


@pytest.fixture
def pages(store: Store, opener: Opener, vendor: LineVendor) -> Pages:
    return Pages(store, opener, lambda _: vendor)


@pytest.fixture
def known(store: Store, vendor: LineVendor) -> Callable[[], list[FileRow]]:
    """Notes all files in the store and returns their rows."""

    def note() -> list[FileRow]:
        return store.write(
            lambda connection: put_files(connection, "line", list(vendor.discovery.files()))
        ).result()

    return note


def index(store: Store, opener: Opener, vendor: LineVendor, copy_bytes_max: int = 2**30) -> None:
    import_all(store, opener, {"line": vendor}, copy_bytes_max=copy_bytes_max)


def again(store: Store, native_id: str = "s", thread: str = "") -> FileRow:
    found = store.read(lambda connection: file_of(connection, "line", native_id, thread))
    assert found is not None
    return found


def all_backwards(pages: Pages, of: FileRow, limit: int) -> list[Item]:
    items: list[Item] = []
    before = ""
    while True:
        page = pages.page(of, before=before, limit=limit)
        items = [*page.items, *items]
        before = page.before
        if not before:
            return items


def conversation(count: int, noise: int = 0) -> bytes:
    rows: list[bytes] = []
    for number in range(count):
        rows.append(row("user", f"u{number}", f"question {number}"))
        rows.append(row("call", f"c{number}", f"run {number}"))
        rows.extend(row("noise", f"n{number}", "x" * 500) for _ in range(noise))
        rows.append(row("result", f"c{number}", f"out {number}"))
        rows.append(row("say", f"a{number}", f"answer {number}"))
    return b"".join(rows)


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("noise", [0, 40])
@pytest.mark.parametrize("limit", [1, 7, 50])
def test_the_union_of_pages_is_everything_once_in_order(
    pages: Pages, known: Callable, store: Store, opener: Opener, vendor: LineVendor, root: Path,
    imported: bool, noise: int, limit: int,
) -> None:  # fmt: skip
    """Whatever the page size and however much bookkeeping lies between, each call has its result."""
    (root / "s.jsonl").write_bytes(conversation(60, noise))
    [of] = known()
    if imported:
        index(store, opener, vendor)
        of = again(store)
    items = all_backwards(pages, of, limit)
    expected = [name for n in range(60) for name in (f"question {n}", f"run {n}", f"answer {n}")]
    assert [item.tool.title if item.tool else item.text() for item in items] == expected
    assert all(item.tool is None or item.tool.state is ToolState.COMPLETED for item in items)


def test_pages_forwards_meet_pages_backwards(pages: Pages, known: Callable, root: Path) -> None:
    """From any page on, `after` gives the rest."""
    (root / "s.jsonl").write_bytes(conversation(30))
    [of] = known()
    whole = [item.id for item in all_backwards(pages, of, 1000)]
    page = pages.page(of, limit=40)
    page = pages.page(of, before=page.before, limit=20)
    seen = [item.id for item in page.items]
    after = page.after
    while after:
        page = pages.page(of, after=after, limit=9)
        seen += [item.id for item in page.items if item.id not in seen]
        after = page.after
    assert seen == whole[-len(seen) :]
    assert len(seen) == 60


def test_a_call_without_result_is_open_only_while_somebody_runs_it(
    pages: Pages, known: Callable, root: Path
) -> None:
    """Else its outcome counts as not recorded."""
    (root / "s.jsonl").write_bytes(row("user", "1", "a") + row("call", "2", "run"))
    [of] = known()
    states = [pages.page(of, running=running).items[-1].tool.state for running in (True, False)]  # type: ignore[union-attr]
    assert states == [ToolState.PENDING, ToolState.UNRECORDED]


def test_an_idle_open_line_is_on_the_newest_page_as_provisional(pages: Pages, known: Callable, root: Path) -> None:
    """And not before it has been idle."""
    (root / "s.jsonl").write_bytes(row("user", "1", "a") + row("say", "2", "b")[:-1])
    [of] = known()
    assert [item.text() for item in pages.page(of).items] == ["a"]
    items = pages.page(of, idle_open_line=True).items
    assert [(item.text(), item.provisional) for item in items] == [("a", False), ("b", True)]


def test_a_huge_bookkeeping_tail_is_read_through_in_bounded_steps(
    pages: Pages, known: Callable, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages before megabytes of other rows are reached by the cursors, also when one window has none."""
    monkeypatch.setattr("ekiden.host.pages.PAGE_WINDOW_BYTES", 4096)
    monkeypatch.setattr("ekiden.host.pages.PAGE_WINDOW_BYTES_MAX", 64 * 1024)
    (root / "s.jsonl").write_bytes(conversation(5) + row("noise", "n", "x" * 500) * 2000)
    [of] = known()
    assert len(all_backwards(pages, of, 50)) == 15


def test_a_fork_by_reference_continues_in_its_parent(
    pages: Pages, known: Callable, store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """Up to the row that it branched at and not further; through a fork of a fork as well."""
    (root / "p.jsonl").write_bytes(b"".join(row("user", f"{n}", f"p{n}") for n in range(10)))
    (root / "c.jsonl").write_bytes(
        row("noise", "m", base=["p", 4]) + row("user", "x", "c4") + row("user", "y", "c5")
    )
    (root / "d.jsonl").write_bytes(row("noise", "m", base=["c", 6]) + row("user", "z", "d6"))
    known()
    index(store, opener, vendor)
    of = again(store, "d")
    for limit in (1, 2, 50):
        texts = [item.text() for item in all_backwards(pages, of, limit)]
        assert texts == ["p0", "p1", "p2", "p3", "c4", "d6"]


def test_parents_that_go_in_a_circle_end(
    pages: Pages, known: Callable, store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """Two files that name each other as parent."""
    (root / "a.jsonl").write_bytes(row("noise", "m", base=["b", 2]) + row("user", "1", "a"))
    (root / "b.jsonl").write_bytes(row("noise", "m", base=["a", 2]) + row("user", "1", "b"))
    known()
    index(store, opener, vendor)
    assert len(all_backwards(pages, again(store, "a"), 1)) <= 4


def test_one_page_shows_a_fork_with_its_history_before_anything_is_imported(
    pages: Pages, known: Callable, root: Path
) -> None:
    """As much of the parents as fits the page, from files that nobody has read yet; and an item of a parent is
    found under the fork."""
    (root / "p.jsonl").write_bytes(b"".join(row("user", f"{n}", f"p{n}") for n in range(6)))
    (root / "c.jsonl").write_bytes(row("noise", "m", base=["p", 4]) + row("user", "x", "c4"))
    (root / "d.jsonl").write_bytes(row("noise", "m", base=["c", 6]) + row("user", "z", "d6"))
    of = next(one for one in known() if one.native_id == "d")
    texts = ["p0", "p1", "p2", "p3", "c4", "d6"]
    for limit in range(1, 8):
        page = pages.page(of, limit=limit)
        assert [item.text() for item in page.items] == texts[-limit:]
        assert [item.text() for item in all_backwards(pages, of, limit)] == texts
        assert bool(page.before) == (limit < len(texts))
    first = pages.page(of).items[0]
    assert pages.item(of, first.id) == first


def test_earlier_messages_stay_as_an_earlier_revision(
    pages: Pages, known: Callable, store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """After a rewrite the new file is read first, and what was there before can still be read."""
    path = root / "s.jsonl"
    path.write_bytes(b"".join(row("user", f"{n}", f"old {n}") for n in range(10)))
    known()
    index(store, opener, vendor)
    path.write_bytes(b"".join(row("user", f"{n}", f"new {n}") for n in range(3)))
    known()
    index(store, opener, vendor)
    of = again(store)
    assert of.revision == 1
    page = pages.page(of)
    assert [item.text() for item in page.items] == ["new 0", "new 1", "new 2"]
    page = pages.page(of, before=page.before, limit=4)
    assert [item.text() for item in page.items] == ["old 6", "old 7", "old 8", "old 9"]
    assert "earlier_revision" in page.notices
    assert page.from_copy


def test_a_session_whose_file_is_gone_is_read_from_the_copy(
    pages: Pages, known: Callable, store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """In pages of any size, with its calls' results, and item by item."""
    path = root / "s.jsonl"
    path.write_bytes(conversation(300))
    [of] = known()
    index(store, opener, vendor)
    with path.open("ab") as file:
        file.write(row("call", "late", "late run"))
    known()
    index(store, opener, vendor)
    with path.open("ab") as file:
        file.write(row("result", "late", "late out"))
    known()
    index(store, opener, vendor)
    expected = [item.id for item in all_backwards(pages, again(store), 1000)]
    path.unlink()
    store.write(lambda connection: put_gone(connection, [of.id], "2026-01-01T00:00:00.000Z")).result()
    gone = again(store)
    for limit in (1, 100, 1000):
        assert [item.id for item in all_backwards(pages, gone, limit)] == expected
    newest = pages.page(gone)
    assert (newest.from_copy, "source_gone" in newest.notices) == (True, True)
    tool = pages.item(gone, newest.items[-1].id).tool
    assert tool is not None
    assert tool.output == "late out"
    with pytest.raises(NotFound):
        pages.raw(gone)


def test_a_file_that_never_was_copied_and_is_gone_is_not_found(pages: Pages, known: Callable, root: Path) -> None:
    """No empty page for what cannot be read."""
    path = root / "s.jsonl"
    path.write_bytes(conversation(1))
    [of] = known()
    path.unlink()
    with pytest.raises(NotFound):
        pages.page(of)


@pytest.mark.parametrize("cursor", ["x", "a.b.c", "copy.x", "copy.999.0", "copy.1.2.3", "..", "copy.1.-1"])
def test_a_cursor_from_elsewhere_is_refused(pages: Pages, known: Callable, root: Path, cursor: str) -> None:
    """Never a page of something else."""
    (root / "s.jsonl").write_bytes(conversation(1))
    [of] = known()
    with pytest.raises(Invalid):
        pages.page(of, before=cursor)


def test_one_item_is_found_whole_with_and_without_the_import(
    pages: Pages, known: Callable, store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """By its place where that is known, else by looking."""
    (root / "s.jsonl").write_bytes(conversation(50, noise=20))
    [of] = known()
    wanted = all_backwards(pages, of, 1000)[1]
    assert pages.item(of, wanted.id) == wanted
    index(store, opener, vendor)
    found = pages.item(again(store), wanted.id)
    assert (found.id, found.tool) == (wanted.id, wanted.tool)
    with pytest.raises(NotFound):
        pages.item(again(store), "itm_none")


def test_raw_pages_show_every_line_with_its_number(
    pages: Pages, known: Callable, store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """Lines that no reader understands, an open one, and one that is too long to be shown whole."""
    lines = [b"not json", b"\xff\xfe", b"x" * 100_000, "喜欢".encode(), b"open"]
    (root / "s.jsonl").write_bytes(b"\n".join(lines))
    known()
    index(store, opener, vendor)
    of = again(store)
    shown = []
    before = ""
    while True:
        page = pages.raw(of, before=before, limit=2)
        shown = [*page.lines, *shown]
        before = page.before
        if not before:
            break
    assert [line.line for line in shown] == [1, 2, 3, 4, 5]
    assert [line.text for line in shown][3:] == ["喜欢", "open"]
    assert shown[2].cut_bytes == 100_000 - len(shown[2].text)


def test_what_the_vendor_dropped_stands_where_it_was_seen(
    pages: Pages, known: Callable, store: Store, root: Path
) -> None:
    """Text that was seen live before an interrupt stays in its place in the pages."""
    path = root / "s.jsonl"
    path.write_bytes(row("user", "1", "a"))
    position = path.stat().st_size
    kept = Item(id="itm_kept", kind=ItemKind.MESSAGE, source=Source("", 0), content=(Text("half"),))
    store.write(lambda connection: copies.keep_dropped(connection, "line", "s", kept, position)).result()
    with path.open("ab") as file:
        file.write(row("user", "2", "b"))
    [of] = known()
    for limit in (1, 10):
        assert [item.text() for item in all_backwards(pages, of, limit)] == ["a", "half", "b"]


def test_a_compressed_session_has_pages_too(pages: Pages, known: Callable, root: Path) -> None:
    """With a notice that it is compressed."""
    import zstandard

    (root / "s.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(conversation(40)))
    [of] = known()
    assert len(all_backwards(pages, of, 17)) == 120
    assert "compressed" in pages.page(of).notices


def test_the_newest_page_of_a_large_file_reads_little(
    pages: Pages, known: Callable, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read does not grow with the file."""
    path = root / "s.jsonl"
    with path.open("wb") as file:
        file.write(conversation(1))
        file.seek(64 * 1024 * 1024)
        file.write(b"\n" + conversation(2000))
    [of] = known()
    read = 0
    pread = os.pread

    def counting(descriptor: int, length: int, position: int) -> bytes:
        nonlocal read
        data = pread(descriptor, length, position)
        read += len(data)
        return data

    monkeypatch.setattr(os, "pread", counting)
    page = pages.page(of, limit=50)
    assert len(page.items) == 50
    assert read < 4 * 1024 * 1024


@pytest.mark.parametrize(
    "named", ["../../../outside.txt", "link", "pipe", "sparse", "none", "/etc/hostname", "a\0b", "../../evil/x"]
)
def test_only_a_sessions_own_side_files_are_read(root: Path, known: Callable, named: str) -> None:
    """Paths in a transcript are data: what leaves the session's folder, is no plain file or is too large stays a
    reference."""
    (root / "s.jsonl").write_bytes(conversation(1))
    [of] = known()
    folder = root / "s" / "tool-results"
    folder.mkdir(parents=True)
    (folder / "good.txt").write_text("the whole output")
    (root.parent / "outside.txt").write_text("secret")
    (folder / "link").symlink_to(root.parent / "outside.txt")
    os.mkfifo(folder / "pipe")
    with (folder / "sparse").open("wb") as file:
        file.truncate(5 * 1024**3)
    item = Item(
        id="itm_x",
        kind=ItemKind.MESSAGE,
        source=Source(""),
        content=(
            Reference("good", "tool-results/good.txt"),
            Reference("also", str(folder / "good.txt")),
            Reference("bad", f"tool-results/{named}"),
            Reference("bad", named),
        ),
    )
    whole = with_side_files(of, item)
    assert whole.content == (Text("the whole output"), Text("the whole output"), item.content[2], item.content[3])


def test_a_page_that_nobody_has_read_whole_says_that_its_tree_is_not_judged(
    pages: Pages, known: Callable, store: Store, opener: Opener, vendor: LineVendor, root: Path
) -> None:
    """Until the import has been there. A small file is read whole for each of its pages, also while it runs."""
    (root / "s.jsonl").write_bytes(conversation(60, noise=40))
    (root / "small.jsonl").write_bytes(conversation(60))
    large, small = sorted(known(), key=lambda row: -row.size)
    newest = pages.page(large, limit=7)
    assert NOT_JUDGED in newest.notices
    assert NOT_JUDGED in pages.page(large, limit=7, before=newest.before).notices
    for running in (False, True):
        newest = pages.page(small, limit=7, running=running)
        assert newest.notices == ()
        assert pages.page(small, limit=7, before=newest.before).notices == ()
    index(store, opener, vendor)
    assert pages.page(again(store), limit=7).notices == ()
