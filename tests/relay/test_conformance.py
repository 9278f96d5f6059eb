"""The black-box suite for relays, `ekiden.testing.relay`, against real hubs: one process with a file, and three
nodes on Postgres behind a round-robin. Each check is a test of its own; what it promises stands in its docstring.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Person
from ekiden.hub.wiring import ENDPOINTS
from ekiden.testing.relay import CHECKS, Check, carry_out, defects, rights, signed, streams, talk
from relay.addresses import Address, door_of, one_hub, three_nodes

SPREAD = [
    *(check for check in defects.CHECKS if check.name != "a_mention_behind_a_thousand_others_is_found"),
    *rights.CHECKS,
    *talk.CHECKS,
    *streams.CHECKS,
    *signed.CHECKS,
]
"""What depends on who hears of what: also tried where each request may come to another node."""


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    """Somebody with a hub of their own, for all tests of this file."""
    with one_hub(tmp_path_factory.mktemp("hub")) as person:
        yield person


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Three nodes, for all tests of this file."""
    with three_nodes(tmp_path_factory.mktemp("nodes")) as nodes:
        yield nodes


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_one_hub_keeps(check: Check, person: Person) -> None:
    hub = door_of(person)
    carry_out(check, hub.url, hub.key)


@pytest.mark.parametrize("check", SPREAD, ids=lambda check: check.name)
def test_three_nodes_keep(check: Check, nodes: Address) -> None:
    carry_out(check, nodes.url, nodes.key)


def test_every_way_to_a_channel_is_tried_with_a_key_that_may_not_read_it() -> None:
    """An endpoint that comes later is missed here until the suite knows it."""
    paths = {(method, len(rest), rest[0] if rest else "") for method, rest, _, _ in rights.WAYS}
    for endpoint in ENDPOINTS:
        if endpoint.path.startswith("/v1/channels/{channel}"):
            rest = endpoint.path.split("/")[4:]
            assert (endpoint.method, len(rest), rest[0] if rest else "") in paths, (endpoint.method, endpoint.path)


def test_the_suite_runs_as_its_page_says(person: Person) -> None:
    """The command in docs/relay.md, as it is written there: exit code 0, a line for each check that was asked for;
    1 where a relay does not keep one."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "relay.md").read_text()
    shown = re.search(r"^    python -m (ekiden\.testing\.relay) (\S+) --key-file (\S+)$", page, re.MULTILINE)
    assert shown is not None
    hub = door_of(person)
    names = [CHECKS[0].name, CHECKS[-1].name]
    asked = [word for name in names for word in ("--only", name)]

    def run(url: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", shown[1], url, "--key-file", person.data / Path(shown[3]).name, *asked],
            env=person.environment,
            cwd=person.work,
            capture_output=True,
            text=True,
            timeout=60,
        )

    held = run(hub.url)
    assert (held.returncode, held.stderr) == (0, "")
    assert [line.split()[:2] for line in held.stdout.splitlines()] == [
        *(["ok", name] for name in names),
        ["All", "hold."],
    ]
    broken = run(f"{hub.url}/elsewhere")
    assert broken.returncode == 1
    assert "2 of 2 failed" in broken.stdout
