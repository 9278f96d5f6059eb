"""What events said that are redacted is not in the memory of a hub either."""

import asyncio

import msgspec

from ekiden.hub import frames
from ekiden.hub.live import Live
from ekiden.hub.ring import Ring
from ekiden.log.port import Actor, Event
from ekiden.testing.clock import StillClock


class All:
    def takes(self, frame: frames.Frame) -> bool:
        return True


def event(seq: int, text: str, name: str = "Ada") -> Event:
    return Event(seq, "test.said", ("team",), "2026-01-01T00:00:00.000Z", Actor("pri_1", "", name), text.encode())


def test_a_frame_keeps_who_and_when_and_loses_what() -> None:
    name = 'x","body":{"forged":1} \\'
    frame = frames.redacted(frames.stored(event(7, '{"text":"secret"}', name), "abcdefgh"), "0" * 64)
    assert b"secret" not in frame.data
    identity, _, data = frame.data.partition(b"\n")
    assert identity == b"id: abcdefgh.7"
    assert data.endswith(b"\n\n")
    read = msgspec.json.decode(data.removeprefix(b"data: "))
    assert (read["seq"], read["kind"], read["actor"]["name"]) == (7, "test.said", name)
    assert read["body"] == {"redacted": True, "digest": "0" * 64}


def test_a_replaced_frame_is_what_everybody_gets_from_then_on() -> None:
    async def run() -> None:
        ring, choice = Ring(), All()
        ring.begin(0)
        for seq in range(1, 4):
            ring.put(frames.stored(event(seq, f'{{"text":"secret{seq}"}}'), "abcdefgh"))
        shared, _ = ring.chunk(0, choice)
        assert b"secret2" in shared
        ring.replace(2, lambda frame: frames.redacted(frame, "0" * 64))
        data, head = ring.chunk(0, choice)
        assert b"secret2" not in data
        assert b"secret1" in data
        assert b"secret3" in data
        assert head == 3
        for absent in (0, 9):
            ring.replace(absent, lambda frame: frames.redacted(frame, "0" * 64))
        assert ring.chunk(0, choice)[0] == data

    asyncio.run(run())


def test_the_bytes_of_a_ring_are_counted_after_a_replacement() -> None:
    async def run() -> None:
        ring = Ring(bytes_max=3_000)
        ring.begin(0)
        ring.put(frames.stored(event(1, '"' + "x" * 2_000 + '"'), "abcdefgh"))
        ring.replace(1, lambda frame: frames.redacted(frame, "0" * 64))
        ring.put(frames.stored(event(2, '"' + "y" * 2_000 + '"'), "abcdefgh"))
        assert ring.tail == 0, "both fit now"

    asyncio.run(run())


def test_a_hub_redacts_what_it_holds() -> None:
    """The follower of the log does it, so every node does."""

    class Log:
        log_id = "abcdefgh"

    async def run() -> None:
        live = Live("tem_1", Log(), StillClock(), lambda *_: None)  # pyright: ignore
        live.ring.begin(0)
        live.take([event(1, '{"text":"secret"}')])
        told = Event(2, "log.redacted", ("log",), "", Actor("hub"), b'{"events":[[1,"' + b"0" * 64 + b'"]]}')
        live.take([told])
        assert b"secret" not in live.ring.chunk(0, All())[0]

    asyncio.run(run())
