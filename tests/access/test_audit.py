"""The audit trail: every change of rights and every refusal, bounded."""

from dataclasses import dataclass

import msgspec
import pytest

from ekiden.access import routes
from ekiden.access.routes import NewKey
from ekiden.access.rules import Kind
from ekiden.kernel import limits
from ekiden.kernel.errors import Invalid
from ekiden.log.port import Actor

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Refused:
    reason: str = "not_allowed"
    method: str = "DELETE"
    path: str = "/v1/keys/{key_id}"
    key_id: str = "key_x"
    principal_id: str = "pri_x"
    name: str = "Agent"
    peer: str = "10.0.0.9"
    team_id: str = ""
    verb: str = ""
    resource: str = ""


async def read(room, **query):
    return await routes.read_audit(room.call(query=query))


async def test_a_refusal_says_who_what_and_why(room):
    await room.gate.record([Refused()], 0)
    line = (await read(room)).lines[0]
    assert (line.kind, line.actor) == ("access.refused", {"id": "pri_x", "name": "Agent"})
    assert msgspec.json.decode(line.body) == {
        "reason": "not_allowed",
        "method": "DELETE",
        "path": "/v1/keys/{key_id}",
        "peer": "10.0.0.9",
        "dropped": 0,
    }


async def test_what_a_key_was_not_allowed_is_explained_as_it_stood_then(room):
    made = await routes.make_key(room.call(), NewKey("Agent", Kind.AGENT, {"channel:*": ["read"]}))
    await room.gate.record([Refused(key_id=made.key_id, verb="post", resource="channel:build")], 0)
    body = msgspec.json.decode((await read(room)).lines[0].body)
    assert (body["verb"], body["resource"]) == ("post", "channel:build")
    assert (body["near"], body["pattern"], body["verbs"]) == ("other_verbs", "channel:*", ["read"])
    assert body["would_allow"] == {"pattern": "channel:build", "verb": "post"}


async def test_pages_show_every_line_once_newest_first(room):
    for number in range(7):
        await routes.make_key(room.call(), NewKey(f"Agent {number}", Kind.AGENT))
    whole = [line.seq for line in (await read(room)).lines]
    assert whole == sorted(whole, reverse=True)
    seen, before = [], ""
    while True:
        page = await read(room, limit="3", **({"before": before} if before else {}))
        seen += [line.seq for line in page.lines]
        # What comes while paging is newer than the page's start and disturbs nothing.
        await room.gate.record([Refused()], 0)
        before = page.next
        if not before:
            break
    assert seen == whole


async def test_only_access_is_in_it(room):
    async def verb(tx):
        tx.append("session.reported", {}, topics=["session:ses_1", "team"], actor=Actor("pri_1"))

    await room.log.write(room.team_id, verb)
    assert {line.kind for line in (await read(room)).lines} == {"key.made", "key.used_first"}


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "-1"}, {"limit": "x"}, {"before": "x"}, {"before": "otherlog.5"}]
)
async def test_a_question_of_another_form_is_refused(room, query):
    with pytest.raises(Invalid):
        await read(room, **query)


async def test_knocking_for_a_day_is_bounded_and_what_is_left_out_is_counted(room, monkeypatch):
    monkeypatch.setattr(limits, "REFUSALS_RECORDED_PER_DAY_MAX", 5)
    for _ in range(4):
        await room.gate.record([Refused(), Refused(peer="10.0.0.8")], 3)

    async def refusals():
        return [
            msgspec.json.decode(line.body) for line in (await read(room)).lines if line.kind == "access.refused"
        ]

    assert len(await refusals()) == 5
    room.clock.advance(24 * 3600)
    await room.gate.record([Refused()], 0)
    told = await refusals()
    assert len(told) == 6
    assert len(told) + sum(line["dropped"] for line in told) == 4 * (2 + 3) + 1


async def test_a_text_from_outside_cannot_forge_a_second_line(room):
    hostile = 'x"}\n{"kind":"key.made"}\u2028\r\n'
    await room.gate.record([Refused(name=hostile, peer=hostile)], 0)
    lines = (await read(room)).lines
    assert len(lines) == 3
    assert lines[0].actor["name"] == hostile
    assert b"\n" not in bytes(lines[0].body)
