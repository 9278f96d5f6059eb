"""Several nodes of one hub: what crosses between them, over each bus, and what is left when a bus or node goes."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ekiden.hub import bells, hosts, neighbours, telemetry
from ekiden.hub.bus import Bus, Exchange, LocalBus
from ekiden.hub.bus_link import nats_bus, notify_bus
from ekiden.hub.bus_parts import Parts, parts_of
from ekiden.hub.settings import Settings
from ekiden.kernel.errors import Invalid, Unavailable
from ekiden.log.wakeups_nats import NatsWakeups
from ekiden.sessions.wire import FeedGrew, FeedGrown
from ekiden.transcript.items import ItemKind
from hub.door_kit import HOST_ID, HOST_KEY, SESSION, TEAM, House, open_house, until
from nats_server import NatsServer
from postgres_server import fresh_database

pytestmark = pytest.mark.anyio
TURN = "trn_00000000000000000000"
TOPIC = f"session:{SESSION}"
LOG_ID = "abcdefgh"


@pytest.fixture(scope="module")
def nats() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@dataclass
class Ground:
    """How buses of one kind are made."""

    kind: str
    url: str = ""

    def buses(self, count: int) -> Sequence[Bus]:
        if self.kind == "local":
            exchange = Exchange()
            return [LocalBus(exchange) for _ in range(count)]
        make = nats_bus if self.kind == "nats" else notify_bus
        return [make(self.url, LOG_ID) for _ in range(count)]

    @asynccontextmanager
    async def nodes(self, count: int = 3) -> AsyncIterator[list[House]]:
        async with open_house(buses=self.buses(count)) as house:
            await until(lambda: all(len(known(node)) == count - 1 for node in house.nodes))
            yield house.nodes


@pytest.fixture(params=["local", "nats", "notify"])
def ground(request: pytest.FixtureRequest) -> Ground:
    match request.param:
        case "nats":
            return Ground("nats", request.getfixturevalue("nats").url)
        case "notify":
            return Ground("notify", fresh_database())
        case kind:
            return Ground(kind)


def known(node: House) -> tuple[str, ...]:
    assert node.hub.neighbours is not None
    return node.hub.neighbours.node_ids


def grew(index: int, text: str, item: str = "itm_a") -> FeedGrew:
    return FeedGrew(SESSION, TURN, item, ItemKind.MESSAGE, index, text)


async def feed(node: House, *entries: Any) -> None:
    await node.json("POST", f"/v1/hosts/{HOST_ID}/feed", {"entries": entries}, HOST_KEY)


async def grown_at(node: House) -> dict[str, tuple[int, str]]:
    told = await node.json("GET", f"/v1/sessions/{SESSION}/growing")
    return {item["item_id"]: (item["count"], item["text"]) for item in told}


async def see(node: House, expected: dict[str, tuple[int, str]]) -> None:
    """Waits until the node knows exactly these growing items."""
    growing = node.hub.live(TEAM).growing
    await until(lambda: {one.item_id: (one.count, one.text) for one in growing.of(SESSION)} == expected)
    assert await grown_at(node) == expected


async def test_a_turn_is_seen_growing_at_every_node_and_whole_by_whoever_comes_late(ground: Ground) -> None:
    """Pieces are told to one node; a device at another hears them, and one that joins later gets all."""
    async with ground.nodes() as (a, b, c), b.follow(TOPIC) as early:
        await early.until("stream.hello")
        for index, text in enumerate(("Hel", "lo ", "\u4e16\u754c")):
            await feed(a, grew(index, text))
            assert (await early.until("item.grew"))["body"]["index"] == index
        await see(c, {"itm_a": (3, "Hello \u4e16\u754c")})
        async with c.follow(TOPIC) as late:
            whole = (await late.until("item.grown"))["body"]
            assert (whole["count"], whole["text"]) == (3, "Hello \u4e16\u754c")
            await feed(a, grew(3, "!"))
            piece = (await late.until("item.grew"))["body"]
            assert (piece["index"], piece["text"]) == (3, "!")


async def test_a_feed_that_changes_its_node_with_every_request_leaves_no_hole(ground: Ground) -> None:
    """A proxy sends each piece of a host to another node, before that one has heard of the piece before."""
    async with ground.nodes() as nodes:
        text = [f"{number} " for number in range(60)]
        for index, piece in enumerate(text):
            await feed(nodes[index % 3], grew(index, piece))
        for node in nodes:
            await see(node, {"itm_a": (60, "".join(text))})


async def test_a_text_larger_than_a_message_of_the_bus_crosses_whole(ground: Ground) -> None:
    """Two million characters, told at once; a node that starts later gets it from the others."""
    async with ground.nodes(2) as (a, b):
        text = "0123456789\u00fc" * 190_000
        await feed(a, FeedGrown(SESSION, TURN, "itm_a", ItemKind.MESSAGE, 7, text))
        await see(b, {"itm_a": (7, text)})


async def test_a_node_that_starts_takes_over_what_grows_before_it_answers() -> None:
    """Its first late joiner gets the whole text, and the hub is the same one to hosts."""
    exchange = Exchange()
    async with open_house(buses=[LocalBus(exchange)]) as first:
        await feed(first, grew(0, "Hel"), grew(1, "lo"))
        async with open_house(buses=[LocalBus(exchange)]) as second:
            assert await grown_at(second) == {"itm_a": (2, "Hello")}
            assert second.hub.facts.boot_id == first.hub.facts.boot_id == second.hub.streams.boot_id


async def test_what_no_node_has_makes_hosts_tell_it_again() -> None:
    """A piece was told to a node that was cut off from the others and died: the hub shows another boot id at every
    node, and what the host then tells anew heals all."""
    exchange = Exchange()
    buses = [LocalBus(exchange) for _ in range(3)]
    async with open_house(buses=buses) as house:
        a, b, c = house.nodes
        await feed(a, grew(0, "Hel"))
        await see(b, {"itm_a": (1, "Hel")})
        boot_id = b.hub.facts.boot_id
        buses[0].part()
        await feed(a, grew(1, "lo"))
        await feed(b, grew(2, "!"))
        await until(lambda: b.hub.facts.boot_id != boot_id)
        await until(lambda: c.hub.facts.boot_id == b.hub.facts.boot_id)
        assert await grown_at(b) == {"itm_a": (1, "Hel")}
        await feed(c, FeedGrown(SESSION, TURN, "itm_a", ItemKind.MESSAGE, 3, "Hello!"))
        await see(b, {"itm_a": (3, "Hello!")})


async def test_a_node_that_was_cut_off_is_told_what_it_missed() -> None:
    """As soon as the bus carries again, in both directions."""
    exchange = Exchange()
    buses = [LocalBus(exchange) for _ in range(2)]
    async with open_house(buses=buses) as house:
        a, b = house.nodes
        buses[1].part()
        await feed(a, grew(0, "a"))
        await feed(b, grew(0, "b", "itm_b"))
        assert await grown_at(b) == {"itm_b": (1, "b")}
        buses[1].join()
        for node in (a, b):
            await see(node, {"itm_a": (1, "a"), "itm_b": (1, "b")})


async def test_a_request_is_answered_wherever_it_is_asked_and_wherever_the_answer_is_given(ground: Ground) -> None:
    """Asked at one node, the host's stream at another, the answer posted to a third."""
    async with ground.nodes() as (a, b, c):
        assert (await a.ask("GET", "/v1/page"))[0] == 503
        async with b.follow(f"host:{HOST_ID}", HOST_KEY) as stream:
            await stream.until("stream.hello")
            await until(lambda: a.hub.live(TEAM).hosts.here(HOST_ID))
            asking = asyncio.ensure_future(a.json("GET", "/v1/page"))
            request = await stream.until("host.request")
            assert request["body"]["arguments"] == {"session_id": SESSION}
            elsewhere = c.hub.live(TEAM).hosts.elsewhere
            assert elsewhere is not None
            await until(lambda: bool(elsewhere.asking(HOST_ID)))
            result = {"text": "x" * 1_500_000}
            told = {"request_id": request["body"]["request_id"], "ok": True, "result": result}
            taken = await c.json("POST", f"/v1/hosts/{HOST_ID}/answers", told, HOST_KEY)
            assert taken == {"taken": True}
            assert await asking == result


async def test_an_answer_that_overtakes_its_question_arrives() -> None:
    """The host is quicker than the bus: it answers at a node that has not heard the question yet."""
    exchange = Exchange()
    buses = [LocalBus(exchange) for _ in range(3)]
    async with open_house(buses=buses) as house:
        a, b, c = house.nodes
        async with b.follow(f"host:{HOST_ID}", HOST_KEY) as stream:
            await stream.until("stream.hello")
            await until(lambda: a.hub.live(TEAM).hosts.here(HOST_ID))
            buses[2].part()
            asking = asyncio.ensure_future(a.json("GET", "/v1/page"))
            request = await stream.until("host.request")
            buses[2].join()
            told = {"request_id": request["body"]["request_id"], "ok": True, "result": 5}
            await c.json("POST", f"/v1/hosts/{HOST_ID}/answers", told, HOST_KEY)
            assert await asking == 5


async def test_a_host_moves_to_another_node_and_what_it_was_asked_goes_with_it() -> None:
    """It was never lost, and the one who asked at a third node gets the answer."""
    async with Ground("local").nodes() as (a, b, c):
        async with a.follow(f"host:{HOST_ID}", HOST_KEY) as stream:
            await stream.until("stream.hello")
            await until(lambda: c.hub.live(TEAM).hosts.here(HOST_ID))
            asking = asyncio.ensure_future(c.json("GET", "/v1/page"))
            first = await stream.until("host.request")
        async with b.follow(f"host:{HOST_ID}", HOST_KEY) as stream:
            again = await stream.until("host.request")
            assert again["body"] == first["body"]
            told = {"request_id": again["body"]["request_id"], "ok": True, "result": 5}
            await b.json("POST", f"/v1/hosts/{HOST_ID}/answers", told, HOST_KEY)
            assert await asking == 5
        assert a.hosts == [(HOST_ID, True)]


async def test_a_host_whose_node_has_died_is_lost_only_if_it_comes_to_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who asks meanwhile waits for it, and gets the answer of the one that came back, or that it is away."""
    monkeypatch.setattr(neighbours, "NODE_AWAY_AFTER_S", 0.3)
    monkeypatch.setattr(neighbours, "BUS_BEAT_S", 0.1)
    monkeypatch.setattr(neighbours, "HOST_GRACE_S", 0.4)
    monkeypatch.setattr(hosts, "HOST_GRACE_S", 60.0)
    exchange = Exchange()
    buses = [LocalBus(exchange) for _ in range(3)]
    async with open_house(buses=buses) as house:
        a, b, c = house.nodes
        async with a.follow(f"host:{HOST_ID}", HOST_KEY) as dying:
            await dying.until("stream.hello")
            await until(lambda: c.hub.live(TEAM).hosts.here(HOST_ID))
            boot_id = c.hub.facts.boot_id
            buses[0].part()
            asking = asyncio.ensure_future(c.json("GET", "/v1/page"))
            async with b.follow(f"host:{HOST_ID}", HOST_KEY) as stream:
                request = await stream.until("host.request")
                told = {"request_id": request["body"]["request_id"], "ok": True, "result": 5}
                await c.json("POST", f"/v1/hosts/{HOST_ID}/answers", told, HOST_KEY)
                assert await asking == 5
                await until(lambda: len(known(c)) == 1)
                await until(lambda: c.hub.facts.boot_id != boot_id)
                assert house.hosts == [(HOST_ID, True)]
                assert c.hub.live(TEAM).hosts.here(HOST_ID)
            buses[1].part()
            await until(lambda: house.hosts == [(HOST_ID, True), (HOST_ID, False)])
            status, _, body = await c.ask("GET", "/v1/page")
            assert (status, msgspec.json.decode(body)["code"]) == (503, "host_away")


async def test_silence_means_nothing_while_the_bus_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """NATS is stopped for longer than a node may be silent: no host is lost, and afterwards all is as before."""
    monkeypatch.setattr(neighbours, "NODE_AWAY_AFTER_S", 0.4)
    monkeypatch.setattr(neighbours, "BUS_BEAT_S", 0.1)
    with NatsServer() as server:
        async with (
            Ground("nats", server.url).nodes(2) as (a, b),
            a.follow(f"host:{HOST_ID}", HOST_KEY) as stream,
        ):
            await stream.until("stream.hello")
            await until(lambda: b.hub.live(TEAM).hosts.here(HOST_ID))
            assert b.hub.neighbours is not None
            bus = b.hub.neighbours.bus
            server.stop()
            await until(lambda: not bus.connected)
            await feed(a, grew(0, "told while NATS was away"))
            await asyncio.sleep(1)
            assert b.hub.live(TEAM).hosts.here(HOST_ID)
            assert (await b.ask("GET", "/readyz"))[0] == 200
            await asyncio.to_thread(server.start)
            await until(lambda: bus.connected)
            await see(b, {"itm_a": (1, "told while NATS was away")})
            assert a.hosts == [(HOST_ID, True)]


async def test_a_holder_puts_right_what_the_log_says_of_its_host() -> None:
    """Another node wrote that the host is lost, while its stream is here."""
    async with Ground("local").nodes(2) as (a, b), a.follow(f"host:{HOST_ID}", HOST_KEY) as stream:
        await stream.until("stream.hello")
        await until(lambda: a.hosts == [(HOST_ID, True)])
        a.hosts.append((HOST_ID, False))
        await b.tell("host.changed", {"host_id": HOST_ID, "here": False}, f"host:{HOST_ID}", "team")
        await until(lambda: a.hosts == [(HOST_ID, True), (HOST_ID, False), (HOST_ID, True)])


async def test_a_key_that_is_revoked_at_one_node_loses_its_stream_at_another_within_a_second(
    ground: Ground,
) -> None:
    """Even where the log itself is slow to tell: nodes tell each other that keys have changed."""
    async with ground.nodes(2) as (a, b):
        a.gate.give("ekd_phone", {"team": ["read"]})
        async with b.follow("team", "ekd_phone") as stream:
            await stream.until("stream.hello")
            assert b.hub._unfollow is not None
            b.hub._unfollow()
            async with asyncio.timeout(1):
                del a.gate.identities["ekd_phone"]
                await a.say("key_phone", "access", kind="key.revoked")
                assert (await stream.until("stream.end"))["body"] == {"reason": "revoked"}
        assert (await b.ask("GET", f"/v1/sessions/{SESSION}", None, "ekd_phone"))[0] == 401


async def test_a_stream_goes_on_at_another_node_from_its_cursor() -> None:
    """A cursor is of the log, not of a node."""
    async with Ground("local").nodes() as (a, b, c):
        async with a.follow("team") as stream:
            await stream.until("stream.hello")
            for text in "abc":
                await b.say(text)
            assert await stream.texts(3) == ["a", "b", "c"]
        await c.say("d")
        async with c.follow("team", after=stream.last_id) as again:
            assert await again.texts(1) == ["d"]


async def test_a_node_that_drains_says_so_first_and_sends_streams_on_with_their_cursor() -> None:
    """`/readyz` is no longer true while requests are still answered; what was written is there at the others."""
    async with Ground("local").nodes() as (a, b, _), a.follow("team") as stream:
        await stream.until("stream.hello")
        assert (await a.ask("GET", "/readyz"))[0] == 200
        draining = asyncio.ensure_future(a.hub.drain(0.3))
        await until(lambda: a.hub.draining)
        assert (await a.ask("GET", "/readyz"))[0] == 503
        assert (await a.ask("GET", "/healthz"))[0] == 200
        await a.json("POST", "/v1/say", {"text": "last"})
        end = await stream.until("stream.end")
        assert end["body"] == {"reason": "draining", "cursor": f"{a.hub.log.log_id}.1"}
        await draining
        async with b.follow("team", after=end["body"]["cursor"]) as again:
            await b.say("next")
            assert await again.texts(1) == ["next"]


async def test_figures_are_for_this_computer_or_for_a_key_that_may_read_the_team() -> None:
    """In the text form of Prometheus; a stranger from elsewhere gets nothing."""
    async with Ground("local").nodes(2) as (a, _):
        await a.json("POST", "/v1/say", {"text": "a"})
        async with a.follow("team") as stream:
            await stream.until("stream.hello")
            status, headers, body = await a.ask("GET", "/metrics", key="")
        assert (status, headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        told = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
        assert told["ekiden_streams_open"] == "1"
        assert told["ekiden_nodes"] == "2"
        assert told["ekiden_bus_up"] == told["ekiden_database_up"] == told["ekiden_ready"] == "1"
        assert told["ekiden_log_append_seconds_count"] == told["ekiden_lag_seconds_count"] == "1"
        assert (await a.ask("GET", "/metrics", key="", x_forwarded_for="10.0.0.1"))[0] == 401
        a.gate.give("ekd_one", {TOPIC: ["read"]})
        assert (await a.ask("GET", "/metrics", key="ekd_one", x_forwarded_for="10.0.0.1"))[0] == 404
        assert (await a.ask("GET", "/metrics", x_forwarded_for="10.0.0.1"))[0] == 200


def test_a_message_comes_together_again_from_its_parts_or_not_at_all() -> None:
    """One that misses a part is dropped, and spoils no other."""
    parts = Parts()
    whole = bytes(range(256)) * 40
    assert [parts.take(piece) for piece in parts_of(b"small", 1_000)] == [b"small"]
    pieces = list(parts_of(whole, 1_000))
    assert len(pieces) > 2
    assert all(len(piece) <= 1_000 for piece in pieces)
    assert [parts.take(piece) for piece in pieces][-1] == whole
    assert [parts.take(piece) for piece in (*pieces[:3], *pieces[4:])] == [None] * (len(pieces) - 1)
    assert parts.take(b"") is parts.take(b"?") is parts.take(b"+x") is None
    assert [parts.take(piece) for piece in parts_of(whole, 1_000)][-1] == whole


@pytest.mark.parametrize("value", ["soon", "-1", "inf", "nan"])
def test_a_setting_that_is_no_number_is_refused(value: str) -> None:
    """By the name of the variable; one that is not set keeps its default."""
    settings = Settings(Path("unused"))
    assert settings.told_by({}) == settings
    assert settings.told_by({"EKIDEN_EVENTS_KEPT_DAYS": "2"}).events_kept_s == 2 * 86_400
    with pytest.raises(Invalid, match="EKIDEN_DRAIN_S"):
        settings.told_by({"EKIDEN_DRAIN_S": value})


async def test_a_missing_client_for_nats_is_said_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the start, not at the first message."""
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(Unavailable) as refused:
        await NatsWakeups("nats://127.0.0.1:1").open(LOG_ID)
    assert "ekiden[nats]" in refused.value.hint


async def test_wake_ups_over_nats_reach_other_nodes(nats: NatsServer) -> None:
    """Team and seq, as they were told."""
    one, other = NatsWakeups(nats.url), NatsWakeups(nats.url)
    heard: list[tuple[str, int]] = []
    other.subscribe(lambda team_id, seq: heard.append((team_id, seq)))
    for wakeups in (one, other):
        await wakeups.open(LOG_ID)
        await until(lambda wakeups=wakeups: wakeups.connected)
    one.publish(TEAM, 7)
    await until(lambda: heard == [(TEAM, 7)])
    for wakeups in (one, other):
        await wakeups.close()


def test_nothing_is_traced_unless_a_collector_is_named() -> None:
    """A span is then one object that does nothing."""
    assert not telemetry.begin({})
    assert telemetry.span("request") is telemetry.span("log.write", verb="x")


async def test_who_waits_at_a_node_is_known_at_the_others(ground: Ground) -> None:
    """While it waits, also at a node that comes later; not any longer, and not where its node is gone."""
    place = (TEAM, "inbox:pri_a")
    async with ground.nodes(2) as (a, b):
        assert not b.hub.bells.waits(*place)
        with a.hub.bells.bell(*place, 60):
            await until(lambda: b.hub.bells.waits(*place))
            with a.hub.bells.bell(*place, 60):
                pass
            assert a.hub.bells.told() == {TEAM: ("inbox:pri_a",)}
            assert b.hub.bells.told() == {}, "nobody tells on what it heard"
        await until(lambda: not b.hub.bells.waits(*place))


async def test_a_node_that_comes_later_or_missed_something_hears_who_waits() -> None:
    exchange = Exchange()
    place = (TEAM, "inbox:pri_a")
    bus = LocalBus(exchange)
    async with open_house(buses=[LocalBus(exchange)]) as first:
        bell = first.hub.bells.bell(*place, 60)
        with bell:
            async with open_house(buses=[bus]) as second:
                await until(lambda: second.hub.bells.waits(*place))
                bus.part()
                first.hub.bells.take_down(bell)
                bus.join()
                await until(lambda: not second.hub.bells.waits(*place))
                with second.hub.bells.bell(*place, 60):
                    await until(lambda: first.hub.bells.waits(*place))
            await until(lambda: not first.hub.bells.waits(*place))


async def test_what_is_told_of_who_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bells, "WAITS_TOLD_MAX", 2)
    known_here = bells.Bells()
    with known_here.bell(TEAM, "a", 9), known_here.bell(TEAM, "b", 9), known_here.bell(TEAM, "c", 9):
        assert known_here.told() == {TEAM: ("a", "b")}
    known_here.hear("node", {TEAM: ("a", "b", "c")})
    known_here.hear_of("node", TEAM, "d", waits=True)
    assert [known_here.waits(TEAM, topic) for topic in "abcd"] == [True, True, False, False]
    known_here.hear_of("node", TEAM, "a", waits=False)
    known_here.hear_of("node", TEAM, "d", waits=True)
    assert [known_here.waits(TEAM, topic) for topic in "abcd"] == [False, True, False, True]
    known_here.forget("node")
    assert not known_here.waits(TEAM, "b")
