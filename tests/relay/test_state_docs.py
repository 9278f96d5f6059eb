"""The example in docs/relay.md works as it stands there."""

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ekiden.client.plain import PlainClient
from relay.test_linear import hub_of

DOCS = Path(__file__).resolve().parents[2] / "docs" / "relay.md"
NOT_GOOD = 14


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The script of the page, in a folder of its own."""
    [text] = re.findall(r"```sh\n(# deploy.*?)```", DOCS.read_text(), re.DOTALL)
    path = tmp_path / "work" / "deploy.sh"
    path.parent.mkdir()
    path.write_text(text)
    return path


def run(script: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    programs = Path(sys.executable).parent
    return subprocess.run(
        arguments,
        cwd=script.parent,
        env={"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home.parent), "EKIDEN_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_script_checks_a_ticket_and_refuses_who_was_overtaken(tmp_path: Path, script: Path) -> None:
    home = tmp_path / "data"
    with hub_of(home, "") as (url, key), contextlib.closing(PlainClient(url, key)) as client:
        client.post("/v1/channels", {"name": "build"})
        first = run(script, home, "sh", str(script), "build", "deploy")
        assert first.stdout == "deploying with fence 1\n", first.stderr
        again = run(script, home, "sh", str(script), "build", "deploy")
        assert again.returncode != 0
        assert "holds 'deploy'" in again.stderr
        ticket = json.loads((script.parent / "ticket.json").read_text())
        assert (ticket["name"], ticket["channel_name"], ticket["fence"]) == ("deploy", "build", 1)
        client.delete("/v1/channels/build/leases/deploy", {"fence": 1})
        old = run(script, home, "ekiden", "lease", "take", "build", "deploy", "--ticket").stdout.strip()
        client.delete("/v1/channels/build/leases/deploy", {"fence": 2})
        second = run(script, home, "sh", str(script), "build", "deploy")
        assert second.stdout == "deploying with fence 3\n", second.stderr
    # The hub is gone: a ticket is checked all the same.
    check = ("ekiden", "lease", "check", old, "--name", "deploy")
    assert run(script, home, *check).returncode == 0
    assert run(script, home, *check, "--at-least", "3").returncode == NOT_GOOD
    assert run(script, home, *check[:3], old[:-3] + "AAA").returncode == NOT_GOOD
