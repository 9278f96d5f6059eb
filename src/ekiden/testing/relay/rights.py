"""Who may do what: the sender is the key's, and what a key may not read is as if it did not exist."""

from typing import Any

from ekiden.kernel.ids import Prefix, new_id
from ekiden.testing.relay.checks import TALK, Agent, Checks, Kit, done, hold, soon
from ekiden.testing.relay.door import Answer, Door, channel_path

CHECKS = Checks()

WAYS: tuple[tuple[str, tuple[str, ...], dict[str, str], Any], ...] = (
    ("GET", (), {}, None),
    ("GET", ("messages",), {}, None),
    ("GET", ("messages",), {"thread": "{message}"}, None),
    ("GET", ("messages",), {"unread": "1"}, None),
    ("GET", ("messages",), {"mentions": "me"}, None),
    ("GET", ("messages", "{message}"), {}, None),
    ("GET", ("acks",), {"message": "{message}"}, None),
    ("GET", ("acks", "me"), {}, None),
    ("GET", ("members",), {}, None),
    ("GET", ("attachments", "ab" * 32), {}, None),
    ("GET", ("status-rules",), {}, None),
    ("GET", ("leases", "lock"), {}, None),
    ("GET", ("epochs",), {}, None),
    ("GET", ("threads",), {}, None),
    ("GET", ("threads", "{message}"), {}, None),
    ("GET", ("status",), {}, None),
    ("GET", ("status", "plan"), {}, None),
    ("GET", ("status", "plan", "changes"), {}, None),
    ("GET", ("status-changes",), {}, None),
    ("GET", ("leases",), {}, None),
    ("GET", ("export",), {}, None),
    ("GET", ("purges",), {}, None),
    ("POST", ("messages",), {}, {"text": "x"}),
    ("PATCH", ("messages", "{message}"), {}, {"text": "x"}),
    ("DELETE", ("messages", "{message}"), {}, None),
    ("POST", ("acks",), {}, {"upto": 1}),
    ("PUT", ("members", "me"), {}, {}),
    ("DELETE", ("members", "me"), {}, None),
    ("PATCH", ("threads", "{message}"), {}, {"done": True}),
    ("PUT", ("attachments", "ab" * 32), {}, {"data": ""}),
    ("PUT", ("status-rules",), {}, {"rules": []}),
    ("DELETE", ("status", "plan"), {}, None),
    ("DELETE", ("leases", "lock"), {}, {"fence": 1}),
    ("PUT", ("status", "plan"), {}, {"value": 1}),
    ("PUT", ("leases", "lock"), {}, {"lease_s": 60}),
    ("POST", ("purge",), {}, {"before_number": 1}),
    ("POST", ("epochs",), {}, None),
    ("POST", ("epochs", "1", "keys"), {}, {"wraps": []}),
    ("PATCH", (), {}, {"topic": "x"}),
    ("DELETE", (), {}, None),
)
"""Every way to what is in a channel: method, path below the channel, query, body."""


@CHECKS.add
def the_sender_comes_from_the_key(kit: Kit) -> None:
    """A body or header that names another sender is refused or has no say, and the refusal is in the audit log."""
    name = kit.channel()
    agent, other = kit.agent("a", name), kit.agent("b", name)
    for sender in (other.name, other.principal_id, "HumanOverseer"):
        answer = agent.door.post(channel_path(name, "messages"), {"text": "as you", "sender": sender})
        hold(answer.status == 403, f"sender {sender!r} was answered with {answer.status}")
    done(agent.door.post(channel_path(name, "messages"), {"text": "mine"}, headers={"x-sender": other.name}))
    told = [(message["sender"], message["authority"]) for message in kit.messages(name)]
    hold(told == [(agent.name, "agent")], f"stored as {told}")
    lines = done(kit.owner.get("/v1/audit", limit=50))["lines"]
    hold(any(line["actor"]["id"] == agent.principal_id for line in lines), "no audit line names who tried")


@CHECKS.add
def what_may_not_be_read_does_not_exist(kit: Kit) -> None:
    """Every way to a channel answers a key without rights, and one of a member of old, exactly as it answers for a
    name that never was."""
    hidden, shown = kit.channel("hidden"), kit.channel("shown")
    word = f"classified{kit.word}"
    message = done(kit.owner.post(channel_path(hidden, "messages"), {"text": word}))["message"]["message_id"]
    done(kit.owner.put(channel_path(hidden, "status", "plan"), {"value": word}))
    outside, former = kit.agent("outside", shown), kit.agent("former", hidden, shown)
    done(kit.owner.patch(f"/v1/keys/{former.key_id}", {"permissions": {f"channel:{shown}": list(TALK)}}))
    soon(lambda: former.door.get(channel_path(hidden)).status == 404, "a member of old still reads")
    for agent in (outside, former):
        _sees_nothing(kit, agent, hidden, message)
        found = done(agent.door.get("/v1/relay/search", text=word))
        hold(not found.body.get("hits"), "search shows it")
        hold(word not in str(done(agent.door.get("/v1/mentions")).body), "mentions show it")
        listed = done(agent.door.get("/v1/channels"))["channels"]
        hold([one["name"] for one in listed] == [shown], "the list shows it")
        with agent.door.follow(f"channel:{hidden}", f"channel:{shown}", "channels", "team") as stream:
            done(kit.owner.post(channel_path(hidden, "messages"), {"text": f"@{agent.name} {word}"}))
            done(kit.owner.post(channel_path(shown, "messages"), {"text": "seen"}))
            hold(stream.next("message.posted") is not None, "the stream is silent")
            hold(word not in str(stream.quiet()), "the stream shows it")


def _sees_nothing(kit: Kit, agent: Agent, hidden: str, message: str) -> None:
    nothing = f"kit-{kit.word}-nothing"
    missing = new_id(Prefix.MESSAGE)
    for method, rest, query, body in WAYS:
        answers: list[Answer] = []
        for name, message_id in ((hidden, message), (nothing, missing)):
            path = channel_path(name, *(part.format(message=message_id) for part in rest))
            asked: dict[str, Any] = {key: value.format(message=message_id) for key, value in query.items()}
            answers.append(agent.door.ask(method, path, body, **asked))
        real, never = answers
        hold(real.status in (404, 422), f"{method} {'/'.join(rest)} is answered with {real.status}")
        hold(
            (real.status, real.body) == (never.status, never.body),
            f"{method} {'/'.join(rest)} tells: {real.body} and {never.body}",
        )


@CHECKS.add
def a_status_is_written_by_who_may_write_its_key(kit: Kit) -> None:
    """A key that may write `tests.*` writes that and nothing else; others are refused, and the value stands."""
    name = kit.channel()
    ci = kit.agent("ci", name, verbs=("read", "status:tests.*"), join=False)
    other = kit.agent("other", name, verbs=("read", "post"), join=False)
    done(ci.door.put(channel_path(name, "status", "tests.unit"), {"value": "green"}))
    hold(
        ci.door.put(channel_path(name, "status", "release"), {"value": 1}).status == 403,
        "wrote beside its pattern",
    )
    hold(
        other.door.put(channel_path(name, "status", "tests.unit"), {"value": "red"}).status == 403,
        "wrote without the right",
    )
    told = done(kit.owner.get(channel_path(name, "status", "tests.unit")))
    hold((told["value"], told["version"]) == ("green", 1), "the value changed")


@CHECKS.add
def an_agent_hands_on_less_than_it_has(kit: Kit) -> None:
    """An agent can make a narrower key below its own, not a wider one; the narrower ends with it."""
    name, other = kit.channel(), kit.channel("b")
    agent = kit.agent("parent", name)
    made = done(
        agent.door.post(
            "/v1/keys",
            {"name": f"kit-{kit.word}-child", "kind": "agent", "permissions": {f"channel:{name}": ["read"]}},
        )
    )
    child = Door(kit.owner.url, made["key"])
    done(child.get(channel_path(name)))
    hold(
        child.post(channel_path(name, "messages"), {"text": "x"}).status == 403,
        "the child may more than it was given",
    )
    wider = agent.door.post(
        "/v1/keys",
        {"name": f"kit-{kit.word}-wide", "kind": "agent", "permissions": {f"channel:{other}": ["read"]}},
    )
    hold(wider.status == 403, f"a wider key was answered with {wider.status}")
    done(kit.owner.delete(f"/v1/keys/{agent.key_id}"))
    soon(lambda: child.get(channel_path(name)).status == 401, "the child outlives its parent")


@CHECKS.add
def a_key_is_replaced_without_a_pause(kit: Kit) -> None:
    """Rotation gives a new secret for the same principal; both work for the overlap, then the new one alone."""
    name = kit.channel()
    agent = kit.agent("turning", name)
    fresh = done(agent.door.post(f"/v1/keys/{agent.key_id}/rotate", {"overlap_s": 600}))
    kit.keys.append(fresh["key_id"])
    new = Door(kit.owner.url, fresh["key"])
    hold(done(new.get("/v1/me"))["principal_id"] == agent.principal_id, "another principal")
    done(agent.door.get(channel_path(name)))
    done(kit.owner.delete(f"/v1/keys/{agent.key_id}"))
    done(new.get(channel_path(name)))


@CHECKS.add
def what_a_stolen_key_wrote_is_put_back(kit: Kit) -> None:
    """Revoked since a time, a key's later messages are marked and each status stands at its last clean value."""
    name = kit.channel()
    agent = kit.agent("stolen", name)
    done(kit.owner.put(channel_path(name, "status", "tests"), {"value": "red"}))
    before = done(kit.owner.get(channel_path(name, "status", "tests")))["at"]
    done(agent.door.put(channel_path(name, "status", "tests"), {"value": "green"}))
    agent.post(name, "all is well")
    told = done(kit.owner.post(f"/v1/keys/{agent.key_id}/revoke", {"since": before}))
    hold(told.body is not None, "nothing says what was affected")
    status = done(kit.owner.get(channel_path(name, "status", "tests")))
    hold((status["value"], status["kind"]) == ("red", "reverted"), f"stands at {status['value']}")
    hold(kit.messages(name)[0].get("suspect") is True, "the message is not marked")


@CHECKS.add
def a_refusal_can_be_explained(kit: Kit) -> None:
    """The owner can ask why a key may not do a thing and what would let it."""
    name = kit.channel()
    agent = kit.agent("asking", name, verbs=("read",))
    hold(agent.door.post(channel_path(name, "messages"), {"text": "x"}).status == 403, "not refused")
    told = done(kit.owner.get("/v1/access/explain", key=agent.key_id, verb="post", resource=f"channel:{name}"))
    hold(told["allowed"] is False, "said to be allowed")
    told = done(kit.owner.get("/v1/access/explain", key=agent.key_id, verb="read", resource=f"channel:{name}"))
    hold(told["allowed"] is True, "said to be refused")
