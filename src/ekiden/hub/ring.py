"""The newest frames of one team, encoded once and shared by all who follow.

A follower holds a position, nothing else: it costs no memory for what it has not read yet. The ring is bounded
in frames and in bytes; a position that it has passed is told apart, so that nobody goes on with a hole. All
frames between two positions leave as one piece, and followers with the same choice and position share it.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from ekiden.hub.frames import Frame
from ekiden.kernel.limits import (
    RING_BYTES_MAX,
    RING_FRAMES_MAX,
    SHARED_CHUNKS_BYTES_MAX,
    SHARED_CHUNKS_MAX,
    STREAM_CHUNK_BYTES_MAX,
)


class Choice(Protocol):
    """Which frames a follower gets. Equal choices are one object."""

    def takes(self, frame: Frame) -> bool: ...


class Ring:
    """Frames by position. Positions count from 0 and never come back; `tail <= position <= head`."""

    def __init__(self, *, frames_max: int = RING_FRAMES_MAX, bytes_max: int = RING_BYTES_MAX) -> None:
        self._frames_max = frames_max
        self._bytes_max = bytes_max
        self._slots: list[Frame | None] = [None] * frames_max
        self._seqs: list[int] = [0] * frames_max
        self._bytes = 0
        self._shared: dict[tuple[Choice, int, bool], tuple[bytes, int]] = {}
        self._shared_bytes = 0
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._bell: asyncio.Handle | None = None
        self.head = 0
        self.tail = 0
        self.seq: int | None = None
        """Of the newest stored frame; None before the first and before `begin`."""
        self._floor = 0

    def begin(self, seq: int) -> None:
        """Says that the log's head is `seq`, unless frames have told so already."""
        if self.seq is None:
            self.seq = self._floor = seq

    def put(self, frame: Frame) -> None:
        """Adds a frame at the head and wakes those who wait. A stored frame that is here already is left out."""
        if frame.seq:
            if self.seq is None:
                self._floor = frame.seq - 1
            elif frame.seq <= self.seq:
                return
            self.seq = frame.seq
        while self.head - self.tail >= self._frames_max:
            self._drop_oldest()
        at = self.head % self._frames_max
        self._slots[at] = frame
        self._seqs[at] = self.seq or 0
        self._bytes += len(frame.data)
        self.head += 1
        while self._bytes > self._bytes_max and self.head - self.tail > 1:
            self._drop_oldest()
        if self._waiting and self._bell is None:
            self._bell = asyncio.get_running_loop().call_soon(self._ring)

    def replace(self, seq: int, change: Callable[[Frame], Frame]) -> None:
        """Puts another frame in the place of the stored frame `seq`, if it is still here. Nobody is given the
        old one from now on."""
        position = self.position_after(seq - 1)
        if position is None or position >= self.head:
            return
        at = position % self._frames_max
        frame = self._slots[at]
        if frame is None or frame.seq != seq:
            return
        fresh = change(frame)
        self._slots[at] = fresh
        self._bytes += len(fresh.data) - len(frame.data)
        self._shared.clear()
        self._shared_bytes = 0

    def _drop_oldest(self) -> None:
        at = self.tail % self._frames_max
        frame = self._slots[at]
        assert frame is not None
        self._slots[at] = None
        self._floor = self._seqs[at]
        self._bytes -= len(frame.data)
        self.tail += 1

    def _ring(self) -> None:
        self._bell = None
        waiting, self._waiting = self._waiting, {}
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def wait(self, waiter: asyncio.Future[None]) -> None:
        """Lets `waiter` be resolved once there is something new after the head of this moment."""
        self._waiting[waiter] = None

    def unwait(self, waiter: asyncio.Future[None]) -> None:
        """Forgets a waiter that was woken by something else."""
        self._waiting.pop(waiter, None)

    def position_after(self, seq: int) -> int | None:
        """Where to go on after the stored event `seq`, or None if the ring does not reach back so far."""
        if self.seq is None or seq < self._floor:
            return None
        low, high = self.tail, self.head
        while low < high:
            middle = (low + high) // 2
            if self._seqs[middle % self._frames_max] > seq:
                high = middle
            else:
                low = middle + 1
        return low

    def seq_before(self, position: int) -> int:
        """The newest stored event that lies before `position`."""
        if position <= self.tail:
            return self._floor
        return self._seqs[(position - 1) % self._frames_max]

    def chunk(self, position: int, choice: Choice, *, stored_only: bool = False) -> tuple[bytes, int]:
        """All that `choice` takes from `position` on, joined, up to about `STREAM_CHUNK_BYTES_MAX`; and the
        position after it. `position` must not lie before `tail`."""
        assert self.tail <= position <= self.head
        key = (choice, position, stored_only)
        shared = self._shared.get(key)
        if shared is not None:
            return shared
        slots, frames_max, takes = self._slots, self._frames_max, choice.takes
        parts: list[bytes] = []
        size = 0
        start = position
        while position < self.head and size < STREAM_CHUNK_BYTES_MAX:
            frame = slots[position % frames_max]
            assert frame is not None
            position += 1
            if (frame.seq or not stored_only) and takes(frame):
                parts.append(frame.data)
                size += len(frame.data)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if position > start:
            self._share(key, data, position)
        return data, position

    def _share(self, key: tuple[Choice, int, bool], data: bytes, position: int) -> None:
        """Keeps a piece for others who are at the same place; the oldest go first."""
        shared = self._shared
        shared[key] = (data, position)
        self._shared_bytes += len(data)
        while len(shared) > SHARED_CHUNKS_MAX or self._shared_bytes > SHARED_CHUNKS_BYTES_MAX:
            oldest = next(iter(shared))
            self._shared_bytes -= len(shared.pop(oldest)[0])
