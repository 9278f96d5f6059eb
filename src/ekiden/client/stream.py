"""Following the door's stream: frames in order, watched by its beats, opened again as the caller wants.

A stream that falls silent for `CLIENT_BEATS_MISSED_MAX` beats is lost, like one whose connection breaks. With
a `Reconnect` it is opened again after the last cursor, and the follower is told by a `client.lost` frame and
then a new `stream.hello`; without one the loss is raised.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import msgspec

from ekiden.client.frames import LOST, Frame, FrameParser, Hello, Lost
from ekiden.client.problems import error_from
from ekiden.client.requests import stream_request
from ekiden.client.transport import Answer, Transport
from ekiden.kernel.errors import EkidenError, Unavailable
from ekiden.kernel.limits import CLIENT_BEATS_MISSED_MAX, STREAM_BEAT_S

FINAL_REASONS = frozenset({"revoked", "expired"})
"""Reasons of `stream.end` after which opening the stream again cannot help."""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Waits `first_s` before the first try, twice as long before each next one up to `max_s`; a stream that
    said hello starts the count anew. `tries_max` None means for ever."""

    first_s: float = 0.1
    max_s: float = 5.0
    tries_max: int | None = None

    def wait_s(self, tries: int) -> float | None:
        """How long to wait after `tries` failures in a row, or None to give up."""
        if self.tries_max is not None and tries > self.tries_max:
            return None
        return min(self.max_s, self.first_s * 2 ** min(tries - 1, 16))


class Stream:
    """One stream as an async iterator of frames. Close it (`aclose`, or `async with`)."""

    def __init__(
        self,
        transport: Transport,
        key: Callable[[], str],
        topics: tuple[str, ...],
        after: str,
        reconnect: Reconnect | None,
    ) -> None:
        self._transport = transport
        self._key = key
        self._topics = topics
        self._reconnect = reconnect
        self._answer: Answer | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._parser = FrameParser()
        self._ready: deque[Frame] = deque()
        self._silence_s = STREAM_BEAT_S * CLIENT_BEATS_MISSED_MAX
        self._tries = 0
        self._wait_s = 0.0
        self._ended = False
        self.cursor = after
        """The position after the last stored frame that was handed out: where to resume."""

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Frame:
        while not self._ready:
            if self._ended:
                await self.aclose()
                raise StopAsyncIteration
            try:
                await self._read()
            except EkidenError as error:
                await self._let_go()
                self._lost(error)
        frame = self._ready.popleft()
        self._note(frame)
        return frame

    def _note(self, frame: Frame) -> None:
        """Takes from a frame what resuming depends on. The loss of what lies before it is the follower's to
        repair (gap, reset), so the cursor moves with the frame."""
        if frame.id:
            self.cursor = frame.id
        match frame.kind:
            case "stream.hello":
                hello = frame.read(Hello)
                self._tries = 0
                if not self.cursor:
                    self.cursor = hello.cursor
                if hello.beat_s > 0:
                    self._silence_s = hello.beat_s * CLIENT_BEATS_MISSED_MAX
            case "stream.gap":
                self.cursor = str(frame.read(dict[str, Any]).get("to") or self.cursor)
            case "stream.reset":
                self.cursor = str(frame.read(dict[str, Any]).get("cursor") or self.cursor)
            case "stream.end":
                reason = str(frame.read(dict[str, Any]).get("reason", ""))
                self._ended = self._reconnect is None or reason in FINAL_REASONS
            case _:
                pass

    async def _read(self) -> None:
        """Fills `_ready` from the next piece of the stream, which it opens if need be."""
        if self._wait_s:
            wait_s, self._wait_s = self._wait_s, 0.0
            await asyncio.sleep(wait_s)
        if self._chunks is None:
            await self._open()
        assert self._chunks is not None
        try:
            async with asyncio.timeout(self._silence_s):
                piece = await anext(self._chunks)
        except TimeoutError as error:
            raise Unavailable(f"The stream was silent for {self._silence_s:g} s.") from error
        except StopAsyncIteration as error:
            raise Unavailable("The door closed the stream.") from error
        self._ready.extend(self._parser.feed(piece))

    async def _open(self) -> None:
        answer = await self._transport.open(stream_request(self._key(), self._topics, self.cursor))
        try:
            if answer.status >= 400:
                raise error_from(answer.status, b"".join([piece async for piece in answer.chunks()]))
        except BaseException:
            await answer.close()
            raise
        self._answer = answer
        self._parser = FrameParser()
        self._chunks = answer.chunks()

    def _lost(self, error: EkidenError) -> None:
        self._tries += 1
        wait_s = self._reconnect.wait_s(self._tries) if self._reconnect and error.retry_helps else None
        if wait_s is None:
            self._ended = True
            raise error
        self._wait_s = wait_s
        body = msgspec.json.encode(Lost(reason=error.message, again_in_s=wait_s))
        self._ready.append(Frame(id="", kind=LOST, body=msgspec.Raw(body)))

    async def _let_go(self) -> None:
        chunks, self._chunks = self._chunks, None
        answer, self._answer = self._answer, None
        try:
            close_chunks = getattr(chunks, "aclose", None)
            if close_chunks is not None:
                await close_chunks()
        finally:
            if answer is not None:
                await answer.close()

    async def aclose(self) -> None:
        """Ends the stream and its connection."""
        self._ended = True
        self._ready.clear()
        await self._let_go()

    async def __aenter__(self) -> "Stream":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
