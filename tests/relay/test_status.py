"""Status: who wins, what history says, when a value's time is over, and who may write what."""

from typing import Any

import pytest

from ekiden.kernel import limits
from ekiden.kernel.errors import EkidenError, Forbidden, Invalid, NotFound, TooLarge, TooMany
from ekiden.relay.rules import Archived
from ekiden.relay.status_rules import RuleBroken, VersionMoved
from ekiden.relay.wire import Authority, ChannelState, Sealed
from ekiden.relay.wire_state import Evidence, StatusKind, StatusRule
from relay.state_desk import open_desk

pytestmark = pytest.mark.anyio


async def refused(awaitable: Any, kind: type[EkidenError]) -> EkidenError:
    with pytest.raises(kind) as caught:
        await awaitable
    return caught.value


async def test_what_is_set_is_read_with_who_set_it_when(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await desk.principal(ada, "person")
        line = await ada.set("tests.unit", {"passed": 812, "failed": 0})
        assert line == await ada.get("tests.unit")
        assert (line.version, line.kind, line.by, line.by_id) == (1, "set", "Ada", ada.actor.principal_id)
        assert (line.authority, line.at) == (Authority.PERSON, "2026-01-01T00:00:00.000Z")
        assert (await desk.caller("robot").set("tests.unit", None)).authority is Authority.AGENT


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, "\U0001f600 \u2028 \x00 <b>", 1.5, [[{"a": [1]}]]])
async def test_every_json_value_comes_back_as_it_was(log_place: str, value: Any) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await ada.set("k", value)
        assert (await ada.get("k")).value == value
        assert (await ada.list()).statuses[0].value == value


async def test_of_several_who_saw_one_version_one_wins_and_the_others_learn_who(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada, bob = desk.caller(), desk.caller("Bob")
        first = await ada.set("owner", "nobody", if_version=0)
        assert (await bob.set("owner", "bob", if_version=first.version)).version == 2
        lost = await refused(ada.set("owner", "ada", if_version=first.version), VersionMoved)
        assert lost.status == 409
        assert (lost.details["version"], lost.details["by"]) == (2, "Bob")
        assert (await refused(ada.set("owner", "ada", if_version=0), VersionMoved)).details["version"] == 2
        assert (await ada.get("owner")).value == "bob"
        await refused(ada.set("owner", "ada", if_version=-1), Invalid)


async def test_without_a_version_the_last_one_stands(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        for number in range(3):
            await ada.set("n", number)
        assert ((await ada.get("n")).value, (await ada.get("n")).version) == (2, 3)


async def test_clearing_leaves_a_line_and_zero_then_means_no_value(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await refused(ada.clear("k"), NotFound)
        await ada.set("k", 1)
        await refused(ada.clear("k", if_version=7), VersionMoved)
        gone = await ada.clear("k", if_version=1)
        assert (gone.kind, gone.version, gone.value) == (StatusKind.CLEARED, 2, None)
        assert await ada.clear("k") == gone, "nothing to clear is no new line"
        assert (await ada.list()).statuses == ()
        assert (await ada.get("k")).kind is StatusKind.CLEARED
        assert (await ada.set("k", 2, if_version=0)).version == 3
        assert [line.kind for line in (await ada.history("k")).statuses] == ["set", "cleared", "set"]


async def test_history_has_every_line_once_over_pages(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        for number in range(7):
            await ada.set("k", number)
            await ada.set("other", number)
        versions: list[int] = []
        after = ""
        while True:
            page = await ada.history("k", after=after, limit=3)
            versions += [line.version for line in page.statuses]
            after = page.next
            if not after:
                break
        assert versions == [7, 6, 5, 4, 3, 2, 1]
        seen: list[tuple[str, int]] = []
        after = ""
        while True:
            changes = await ada.changes(after=after, limit=4)
            seen += [(line.key, line.version) for line in changes.statuses]
            if not changes.next:
                break
            after = changes.next
        assert seen == [(key, version) for version in range(1, 8) for key in ("k", "other")]
        assert (await ada.changes(after=changes.cursor)).statuses == ()
        await ada.set("k", "new")
        assert [line.value for line in (await ada.changes(after=changes.cursor)).statuses] == ["new"]


async def test_lists_are_pages_by_key_with_a_prefix(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        keys = [f"tests.{number:02}" for number in range(9)]
        for key in [*keys, "testing", "build", "tests"]:
            await ada.set(key, 1)
        found: list[str] = []
        after = ""
        while True:
            page = await ada.list(prefix="tests.", after=after, limit=4)
            assert len(page.statuses) <= 4
            found += [status.key for status in page.statuses]
            after = page.next
            if not after:
                break
        assert found == keys
        assert (await ada.list(prefix="100%")).statuses == ()


async def test_a_page_is_bounded_in_bytes_and_goes_on(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        count = limits.STATUS_PAGE_BYTES_MAX // 30_000 + 3
        for number in range(count):
            await ada.set(f"k{number:03}", "x" * 30_000)
        page = await ada.list(limit=1_000)
        assert 0 < len(page.statuses) < count
        rest = await ada.list(limit=1_000, after=page.next)
        assert [status.key for status in (*page.statuses, *rest.statuses)] == [f"k{n:03}" for n in range(count)]


async def test_a_value_whose_time_is_over_is_expired_before_and_after_it_is_told(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await ada.set("k", "up", expires_s=30)
        desk.clock.advance(29.9)
        assert (await ada.get("k")).value == "up"
        desk.clock.advance(0.2)
        for shown in (await ada.get("k"), (await ada.list()).statuses[0]):
            assert (shown.kind, shown.value, shown.version) == (StatusKind.EXPIRED, None, 1)
            assert shown.expires_at == "2026-01-01T00:00:30.000Z"
        head = await desk.head()
        await desk.tidy()
        [told] = await desk.events(head)
        assert (told.kind, told.topics[0], told.actor.principal_id) == ("status.changed", "channel:build", "hub")
        assert ((await ada.get("k")).kind, (await ada.get("k")).version) == (StatusKind.EXPIRED, 2)
        assert (await ada.list()).statuses[0].kind is StatusKind.EXPIRED
        assert [line.kind for line in (await ada.history("k")).statuses] == ["expired", "set"]
        await desk.tidy()
        assert await desk.head() == told.seq, "an end is told once"


@pytest.mark.parametrize("told", [True, False])
async def test_who_saw_an_expired_value_may_write_on_that(log_place: str, told: bool) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await ada.set("k", 1, expires_s=5)
        desk.clock.advance(6)
        if told:
            await desk.tidy()
        seen = await ada.get("k")
        assert (await ada.set("k", 2, if_version=seen.version)).version == 3
        assert [line.kind for line in (await ada.history("k")).statuses] == ["set", "expired", "set"]
        await refused(ada.set("k", 3, if_version=seen.version), VersionMoved)


async def test_a_clock_that_steps_makes_nothing_expire_and_nothing_last(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await ada.set("k", 1, expires_s=60)
        desk.clock.step(3_600)
        assert (await ada.get("k")).value == 1
        desk.clock.step(-7_200)
        assert (await ada.get("k")).value == 1
        desk.clock.sleep(61)
        assert (await ada.get("k")).kind is StatusKind.EXPIRED


@pytest.mark.parametrize("expires_s", [-1, 10**12, limits.STATUS_EXPIRES_S_MAX + 1])
async def test_times_out_of_bounds_are_refused(log_place: str, expires_s: int) -> None:
    async with open_desk(log_place) as desk:
        await refused(desk.caller().set("k", 1, expires_s=expires_s), Invalid)
        assert await desk.head() == 0


@pytest.mark.parametrize("key", ["", ".x", "a b", "a\nb", "é", "x" * 129, "a/b", "a*", "\u202ea"])
async def test_keys_of_another_form_are_refused(log_place: str, key: str) -> None:
    async with open_desk(log_place) as desk:
        await refused(desk.caller().set(key, 1), Invalid)


async def test_values_and_keys_are_bounded(log_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await refused(ada.set("k", "x" * (32 * 1024 + 1)), TooLarge)
        for huge in (10**400, 2**64, -(2**70)):
            await refused(ada.set("k", huge), Invalid)
        monkeypatch.setattr(limits, "STATUS_KEYS_PER_CHANNEL_MAX", 2)
        await ada.set("a", 1)
        await ada.set("b", 1)
        await refused(ada.set("c", 1), TooMany)
        await ada.set("a", 2)


async def test_each_key_of_a_map_writes_only_what_its_patterns_say(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ci = desk.caller("ci", {"channel:build": ["read", "status:tests.*"]})
        await ci.set("tests.unit", "green")
        error = await refused(ci.set("deploy", "done"), Forbidden)
        assert error.details["verb"] == "status:deploy"
        await refused(ci.set("tests", "green"), Forbidden)
        await desk.caller().set("deploy", "waits")
        await refused(ci.clear("deploy"), Forbidden)
        await refused(ci.rules(), Forbidden)
        reader = desk.caller("reader", {"channel:*": ["read"]})
        await refused(reader.set("tests.unit", "green"), Forbidden)
        blind = desk.caller("blind", {"channel:build": ["status:tests.*"]})
        await blind.set("tests.blind", "written")
        await refused(blind.get("tests.blind"), NotFound)
        assert {status.by for status in (await reader.list()).statuses} == {"ci", "Ada", "blind"}


async def test_an_archived_channel_can_be_read_only(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await ada.set("k", 1)
        await desk.channel(state=ChannelState.ARCHIVED)
        await refused(ada.set("k", 2), Archived)
        await refused(ada.clear("k"), Archived)
        await refused(ada.rules(), Archived)
        assert (await ada.get("k")).value == 1


async def test_an_encrypted_channel_takes_sealed_values_only_and_the_reverse(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        sealed = Sealed(epoch=1, nonce="AAAA", data="BBBB")
        await refused(desk.caller().set("k", sealed=sealed), Invalid)
        await desk.channel("vault", encrypted=True, epoch=1)
        ada = desk.caller(channel="vault")
        await refused(ada.set("k", "in the clear"), Invalid)
        await refused(ada.set("k", "in the clear", sealed=sealed), Invalid)
        await refused(ada.set("k", sealed=sealed, evidence=Evidence(run="r1")), Invalid)
        await ada.set("k", sealed=sealed)
        assert (await ada.get("k")).sealed == sealed
        await refused(ada.rules(StatusRule("*", schema={"type": "string"})), Invalid)


# --- rules -------------------------------------------------------------------------------------------------

GREEN = {
    "type": "object",
    "properties": {"passed": {"type": "integer", "minimum": 0}, "failed": {"const": 0}},
    "required": ["passed", "failed"],
    "additionalProperties": False,
}


async def test_a_value_is_held_to_its_schema(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await ada.rules(StatusRule("tests.*", schema=GREEN), StatusRule("tests.unit", evidence=("commit", "run")))
        broken = await refused(ada.set("tests.fuzz", {"passed": 3, "failed": 1}), RuleBroken)
        assert (broken.details["place"], broken.details["pattern"]) == ("failed", "tests.*")
        await refused(ada.set("tests.fuzz", "green"), RuleBroken)
        await ada.set("tests.fuzz", {"passed": 3, "failed": 0})
        await ada.set("deploy", "anything")
        bare = await refused(ada.set("tests.unit", {"passed": 3, "failed": 0}), RuleBroken)
        assert bare.details["needs"] == ["commit", "run"]
        evidence = Evidence(commit="0d1f2e3", run="https://ci.example/run/7")
        line = await ada.set("tests.unit", {"passed": 3, "failed": 0}, evidence=evidence)
        assert line.evidence == evidence
        assert (await desk.events(0))[0].kind == "status.rules_changed"


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(commit="main"),
        Evidence(commit="0D1F2E3"),
        Evidence(link="javascript:alert(1)"),
        Evidence(run="x" * 2_000),
    ],
)
async def test_evidence_has_the_form_of_what_it_is(log_place: str, evidence: Evidence) -> None:
    async with open_desk(log_place) as desk:
        await refused(desk.caller().set("k", 1, evidence=evidence), Invalid)


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array"}
    for _ in range(depth):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"$dynamicRef": "#a"},
        {"properties": {"a": {"pattern": "(a+)+$"}}},
        {"patternProperties": {"(a+)+$": {}}},
        {"uniqueItems": True},
        {"allOf": [{"anyOf": [{"pattern": "x"}]}]},
        {"type": "no-type"},
        {"minimum": "1"},
        {"$schema": "http://json-schema.org/draft-04/schema#"},
        {"enum": ["x" * 20_000]},
        nested(40),
        {"unknown-word": 1},
    ],
)
async def test_schemas_whose_cost_has_no_bound_are_refused(log_place: str, schema: dict[str, Any]) -> None:
    async with open_desk(log_place) as desk:
        await refused(desk.caller().rules(StatusRule("*", schema=schema)), Invalid)


async def test_schema_and_value_together_are_bounded(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await ada.rules(StatusRule("*", schema={"items": {"anyOf": [{"const": n} for n in range(200)]}}))
        await ada.set("k", [199] * 20)
        await refused(ada.set("k", [199] * 5_000), Invalid)


@pytest.mark.parametrize(
    "rules",
    [
        (StatusRule("a*b"),),
        (StatusRule("a"), StatusRule("a")),
        (StatusRule(""),),
        (StatusRule("*", evidence=("promise",)),),
        tuple(StatusRule(f"k{n}") for n in range(65)),
    ],
)
async def test_rules_of_another_form_are_refused(log_place: str, rules: tuple[StatusRule, ...]) -> None:
    async with open_desk(log_place) as desk:
        await refused(desk.caller().rules(*rules), Invalid)


async def test_a_rule_that_comes_while_a_value_is_on_its_way_holds(log_place: str) -> None:
    """What the value was held to before the write is compared with what stands in it."""
    from ekiden.relay import status

    async with open_desk(log_place) as desk:
        ada = desk.caller()
        known = await desk.log.ask("tem_00000000000000000001", lambda r: status.load_rules(r, "cha_x"))
        await ada.rules(StatusRule("*", evidence=("commit",)))
        channel = await desk.channel()

        async def verb(tx: Any) -> Any:
            from ekiden.relay.wire_state import SetStatus

            return await status.set_status(tx, channel, "k", SetStatus("bare"), known, actor=ada.actor)

        await refused(desk.log.write("tem_00000000000000000001", verb), RuleBroken)


# --- what is hidden ----------------------------------------------------------------------------------------


async def test_a_channel_that_may_not_be_read_is_like_none(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await desk.channel("secret", private=True)
        owner = desk.caller(channel="secret")
        await owner.set("k", 1)
        await owner.take("l")
        for permissions in ({"channel:*": ["read", "admin", "status:*", "lease"]}, {}):
            stranger = desk.caller("stranger", permissions, "secret")
            nowhere = desk.caller("stranger", permissions, "nowhere")
            for one, other in zip(every_door(stranger), every_door(nowhere), strict=True):
                hidden = await refused(one, NotFound)
                absent = await refused(other, NotFound)
                assert (hidden.message, hidden.hint, hidden.details) == (
                    absent.message,
                    absent.hint,
                    absent.details,
                )


def every_door(caller: Any) -> list[Any]:
    return [
        caller.get("k"),
        caller.set("k", 2),
        caller.set("k", 2, if_version=9),
        caller.clear("k"),
        caller.list(),
        caller.history("k"),
        caller.changes(),
        caller.rules(),
        caller.take("l"),
        caller.take("l", fence=1),
        caller.release("l", 1),
        caller.lease("l"),
        caller.leases(),
    ]
