"""Real hubs for tests from outside: where one is, and the key of its owner."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cli.conftest import Person
from whole.nodes import Nodes


@dataclass(frozen=True, slots=True)
class Address:
    """Where a relay is, and an owner's key."""

    url: str
    key: str


def door_of(person: Person) -> Address:
    """The hub that somebody has started."""
    return Address(person.link.split("/#")[0], (person.data / "local.key").read_text().strip())


@contextmanager
def one_hub(folder: Path) -> Iterator[Person]:
    """`ekiden up` in a HOME of its own."""
    person = Person(folder)
    try:
        person.up()
        yield person
    finally:
        person.close()


@contextmanager
def three_nodes(folder: Path) -> Iterator[Address]:
    """Three nodes on Postgres that hear of each other by its notifications, and no host."""
    home = folder / "home"
    home.mkdir()
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONWARNINGS": "error"}
    nodes = Nodes(folder, environment, over="notify")
    try:
        nodes.start(host=False)
        yield Address(nodes.url, (nodes.home(0) / "local.key").read_text().strip())
    finally:
        nodes.close()
