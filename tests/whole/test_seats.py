"""Owned sessions of the real Claude Code and Codex as agents in a channel, with nothing set up for it."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from ekiden.client.plain import PlainClient
from whole.computer import Computer, environments, wait_for

pytestmark = [pytest.mark.vendors, pytest.mark.timeout(180)]
VENDORS = ["claude", "codex"]


def begun(computer: Computer, client: PlainClient, vendor: str) -> tuple[str, str]:
    """A session that Ekiden began, at rest: its id, and what its agent is called."""
    host = client.get("/v1/hosts")["hosts"][0]["host_id"]
    body = {"host_id": host, "vendor": vendor, "cwd": str(computer.project), "message": "hello @@text ready"}
    session_id = client.post("/v1/sessions", body)["session_id"]
    wait_for(
        lambda: _state(client, session_id) == "idle" and _said(client, session_id), "its first turn has ended"
    )
    ending = session_id[-4:]
    names = wait_for(
        lambda: [key["name"] for key in client.get("/v1/keys")["keys"] if key["name"].endswith(ending)],
        "the session has a seat",
    )
    return session_id, names[0]


def _state(client: PlainClient, session_id: str) -> str:
    return client.get(f"/v1/sessions/{session_id}")["session"]["state"]


def _said(client: PlainClient, session_id: str) -> list[Any]:
    return client.get(f"/v1/sessions/{session_id}/items")["items"]


def _posted(client: PlainClient, sender: str) -> list[Any]:
    page = client.get("/v1/channels/build/messages")
    return [message for message in page["messages"] if message["sender"] == sender]


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_mention_is_answered_by_the_session_through_its_own_tools(computer: Computer, vendor: str) -> None:
    """No person but the one who asks; the sender knows the way before it waits, and sees that the mention has
    reached the model."""
    computer.up()
    with computer.client() as client:
        client.post("/v1/channels", {"name": "build"})
        session_id, name = begun(computer, client, vendor)
        answer = json.dumps({"channel": "build", "text": "It is green."})
        posted = client.post(
            "/v1/channels/build/messages",
            {"text": f"@{name} is it green? @@raw mcp__ekiden__post {answer} @@final told them"},
        )
        assert [(entry["name"], entry["way"]) for entry in posted["deliveries"]] == [(name, "session")]
        [message] = wait_for(lambda: _posted(client, name), "the agent has answered")
        assert (message["text"], message["authority"]) == ("It is green.", "agent")
        laggards = wait_for(
            lambda: (
                found
                if (found := client.get("/v1/channels/build/acks", message=posted["message"]["message_id"]))[
                    "deliveries"
                ][0]["state"]
                != "stored"
                else None
            ),
            "the mention has surfaced",
        )
        assert laggards["deliveries"][0]["state"] in ("surfaced", "acked", "answered")
        assert client.get(f"/v1/sessions/{session_id}")["session"].get("approvals_open", 0) == 0


@pytest.mark.parametrize("vendor", VENDORS)
def test_no_key_stands_in_an_argument_list_or_in_what_an_agent_runs_with(computer: Computer, vendor: str) -> None:
    computer.up()
    with computer.client() as client:
        begun(computer, client, vendor)
    seats = list((Path(computer.environment["EKIDEN_HOME"])).rglob("seats/*.json"))
    assert [path.stat().st_mode & 0o777 for path in seats] == [0o600]
    key = json.loads(seats[0].read_bytes())["key"].encode()
    assert key.startswith(b"ekd_")
    for pid, environment in environments():
        assert key not in environment
        with contextlib.suppress(OSError):  # it has ended meanwhile
            assert key not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_two_products_talk_without_a_person_in_between(computer: Computer) -> None:
    """Claude Code is asked, asks Codex, and Codex answers: each in its own session, by its own tools."""
    computer.up()
    with computer.client() as client:
        client.post("/v1/channels", {"name": "build"})
        _, claude = begun(computer, client, "claude")
        _, codex = begun(computer, client, "codex")
        answer = json.dumps({"channel": "build", "text": "Yes: build 7."})
        question = f"@{codex} is build 7 green? %%raw mcp__ekiden__post {answer} %%final answered"
        asked = json.dumps({"channel": "build", "text": question})
        # In a span of code, where the other's name wakes nobody.
        client.post(
            "/v1/channels/build/messages",
            {"text": f"@{claude} find out `@@raw mcp__ekiden__post {asked} @@final asked`"},
        )
        [said] = wait_for(lambda: _posted(client, codex), "Codex has answered")
        assert said["text"] == "Yes: build 7."
        [relayed] = _posted(client, claude)
        assert [mention["name"] for mention in relayed["mentions"]] == [codex]
