"""Hearing of changes below roots that are there, come, go and come again."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.host.watch import Changes, Watcher

from .conftest import until

pytestmark = pytest.mark.anyio


class Heard:
    """All that a watcher told."""

    def __init__(self) -> None:
        self.watcher = Watcher(self._take)
        self.paths: set[str] = set()
        self.created: set[str] = set()

    def _take(self, changes: Changes) -> None:
        self.paths |= changes.paths
        self.created |= changes.created
        for folder in changes.new_folders:
            found = {str(path) for path in Path(folder).rglob("*") if path.is_file()}
            self.paths |= found
            self.created |= found


@pytest.fixture
async def heard() -> AsyncIterator[Heard]:
    made = Heard()
    yield made
    made.watcher.close()


async def test_a_root_that_is_made_later_is_heard_from_its_first_file(heard: Heard, tmp_path: Path) -> None:
    """However many of the folders that lead to it were missing, and whether they come one by one or at once."""
    for depth in range(4):
        base = tmp_path / str(depth)
        base.mkdir()
        root = base.joinpath(*"abc"[:depth], "root")
        heard.watcher.follow([root])
        root.mkdir(parents=True)
        (root / "first").write_text("x")
        await until(lambda root=root: str(root / "first") in heard.created)
        (root / "deep").mkdir()
        (root / "deep" / "second").write_text("x")
        await until(lambda root=root: str(root / "deep" / "second") in heard.created)


async def test_a_root_that_is_moved_into_its_place_is_heard(heard: Heard, tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "root").mkdir(parents=True)
    (tmp_path / "elsewhere" / "root" / "kept").write_text("x")
    root = tmp_path / "store" / "root"
    heard.watcher.follow([root])
    (tmp_path / "elsewhere").rename(tmp_path / "store")
    await until(lambda: str(root / "kept") in heard.created)


@pytest.mark.parametrize("lost", ["store", "store/root"])
async def test_a_root_that_goes_and_comes_again_is_heard_again(heard: Heard, tmp_path: Path, lost: str) -> None:
    """Also when the folders above it went with it."""
    root = tmp_path / "store" / "root"
    root.mkdir(parents=True)
    heard.watcher.follow([root])
    for number in range(3):
        shutil.rmtree(tmp_path / lost)
        await until(lambda: not heard.watcher.watches(root))
        root.mkdir(parents=True)
        (root / f"file{number}").write_text("x")
        await until(lambda number=number: str(root / f"file{number}") in heard.created)


async def test_what_else_happens_beside_the_way_to_a_root_is_not_told(heard: Heard, tmp_path: Path) -> None:
    """A person's own folder is full of changes that are nobody's business: only the one name is looked at."""
    root = tmp_path / "store" / "root"
    heard.watcher.follow([root])
    for number in range(50):
        (tmp_path / f"other{number}").write_text("x")
        (tmp_path / f"folder{number}").mkdir()
    root.mkdir(parents=True)
    (root / "mine").write_text("x")
    await until(lambda: str(root / "mine") in heard.paths)
    assert {Path(path).parent for path in heard.paths} == {root}
    assert heard.watcher.count == 1


async def test_growth_is_no_creation(heard: Heard, tmp_path: Path) -> None:
    """A file that was there before is told as changed, one that is new as created."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("x")
    heard.watcher.follow([tmp_path])
    with old.open("a") as file:
        file.write("y")
    new.write_text("x")
    await until(lambda: {str(old), str(new)} <= heard.paths)
    assert heard.created == {str(new)}
