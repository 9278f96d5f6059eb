"""Real Claude Code and real Codex with the tools, each given them as a person would: they agree on a thing across
a channel, ack, set status and take a lease, and no person speaks."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripted_model import ScriptedModel
from whole.computer import Computer

pytestmark = [pytest.mark.vendors, pytest.mark.timeout(240)]


def script(*calls: tuple[str, dict[str, Any]]) -> str:
    """A prompt by which the scripted model calls these tools, one after the other."""
    raw = (f"@@raw mcp__ekiden__{tool} {json.dumps(given)}" for tool, given in calls)
    return "\n".join(("Work with the team.", *raw, "@@final all done"))


def claude(computer: Computer, prompt: str) -> str:
    """One turn of Claude Code that may use the tools."""
    words = ("claude", "-p", prompt, "--output-format", "json", "--allowedTools", "mcp__ekiden")
    return json.loads(computer.run(*words, timeout_s=90))["result"]


def codex(computer: Computer, prompt: str) -> str:
    """One turn of Codex."""
    return computer.run("codex", "exec", "--json", "--skip-git-repo-check", prompt, timeout_s=90)


def heard(model: ScriptedModel, text: str) -> bool:
    """Whether a model was told this, in whatever form its program tells results of tools."""
    return any(text in json.dumps(body, ensure_ascii=False) for body in model.bodies)


def test_two_products_agree_without_a_person(computer: Computer, model: ScriptedModel) -> None:
    computer.up()
    computer.ekiden("mcp", "install", "--yes")
    with computer.client() as person:
        person.post("/v1/channels", {"name": "ops"})
    ask = {"channel": "ops", "text": "@codex shall we freeze the interface at v2?", "asks": "answer"}
    # An agent has its key, and so its name, from its first call on.
    codex(computer, script(("channels", {"do": "join", "channel": "ops"})))
    assert claude(computer, script(("channels", {"do": "join", "channel": "ops"}), ("post", ask))) == "all done"
    codex(
        computer,
        script(
            ("inbox", {}),
            ("lease", {"channel": "ops", "name": "interface", "seconds": 600}),
            ("set_status", {"channel": "ops", "key": "interface.version", "value": "v2", "if_version": 0}),
            ("post", {"channel": "ops", "text": "agreed: v2, it is frozen", "answers": "#1"}),
            ("ack", {"channel": "ops", "upto": 1}),
        ),
    )
    claude(
        computer,
        script(
            ("read", {"channel": "ops", "unread": True}), ("ack", {"channel": "ops", "upto": 2}), ("inbox", {})
        ),
    )
    for text in ("from agent claude-code", "asks for an answer", "from agent codex", "| agreed: v2", "Acked."):
        assert heard(model, text), text
    with computer.client() as person:
        said = person.get("/v1/channels/ops/messages")["messages"]
        assert [(message["sender"], message["authority"]) for message in said] == [
            ("claude-code", "agent"),
            ("codex", "agent"),
        ]
        asked = person.get("/v1/channels/ops/acks", message=said[0]["message_id"])
        assert [(entry["name"], entry["state"]) for entry in asked["deliveries"]] == [("codex", "answered")]
        status = person.get("/v1/channels/ops/status/interface.version")
        assert (status["value"], status["by"], status["version"]) == ("v2", "codex", 1)
        (lease,) = person.get("/v1/channels/ops/leases")["leases"]
        assert (lease["name"], lease["holder"], lease["held"]) == ("interface", "codex", True)
        members = person.get("/v1/channels/ops/members")["members"]
        acked = {member["name"]: member.get("acked_to", 0) for member in members}
        assert acked["claude-code"] == 2
        assert acked["codex"] >= 1
    computer.ekiden("mcp", "remove", "--yes")
    with computer.client() as person:
        ended = {key["name"]: key["revoked_at"] for key in person.get("/v1/keys")["keys"]}
        assert ended["claude-code"]
        assert ended["codex"]


def test_two_products_talk_so_that_the_hub_cannot_read_it(computer: Computer, model: ScriptedModel) -> None:
    """The same in an encrypted channel: each reads the other, and the hub's files hold none of it. The hub runs
    without a host: one that mirrors the sessions would be told by them what their tools said."""
    computer.up("--no-host")
    computer.ekiden("mcp", "install", "--yes")
    with computer.client() as person:
        person.post("/v1/channels", {"name": "vault", "encrypted": True})
    join = ("channels", {"do": "join", "channel": "vault"})
    codex(computer, script(join))
    ask = {"channel": "vault", "text": "@codex the word is zanzibar-7731", "mentions": ["codex"], "asks": "answer"}
    claude(computer, script(join, ("post", ask)))
    codex(
        computer,
        script(
            ("inbox", {}),
            ("post", {"channel": "vault", "text": "heard: quagga-1144", "answers": "#1"}),
            ("set_status", {"channel": "vault", "key": "word", "value": "okapi-5563"}),
            ("lease", {"channel": "vault", "name": "door", "seconds": 60}),
            ("ack", {"channel": "vault", "upto": 1}),
        ),
    )
    claude(computer, script(("read", {"channel": "vault"}), ("status", {"channel": "vault"})))
    for text in ("| @codex the word is zanzibar-7731", "from agent claude-code, verified", "| heard: quagga-1144"):
        assert heard(model, text), text
    assert heard(model, "from agent codex, verified")
    assert heard(model, "okapi-5563")
    with computer.client() as person:
        said = person.get("/v1/channels/vault/messages")["messages"]
        assert [bool(message.get("sealed")) for message in said] == [True, True]
        assert not any(message.get("text") for message in said)
    computer.kill_up()
    held = b"".join(
        path.read_bytes() for path in Path(computer.environment["EKIDEN_HOME"]).rglob("*") if path.is_file()
    )
    assert b"vault" in held
    for word in (b"zanzibar", b"quagga", b"okapi"):
        assert word not in held
