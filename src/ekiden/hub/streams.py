"""Server-sent events: one stream per client, from a cursor on, without a gap or a double that is not named.

A stream first replays what is stored after its cursor (from the ring where that reaches back so far, else from
the log), then tells every growing item whole, then follows the ring. All three meet at one position, in one step
of the event loop, so nothing falls between them. A slow reader that the ring has passed is led through the log
again; one that takes nothing for `STREAM_STALL_S` is cut, and can resume. What a key may not read never reaches
its stream; when keys change, every stream is looked at anew.
"""

import asyncio
import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ekiden.hub.asgi import Receive, Send
from ekiden.hub.frames import Frame, passing, stored
from ekiden.hub.gate import Gate, Identity
from ekiden.hub.live import Live
from ekiden.kernel.canonical import encode
from ekiden.kernel.clock import Clock, iso
from ekiden.kernel.cursors import Cursor
from ekiden.kernel.errors import TooMany, Unauthenticated
from ekiden.kernel.limits import (
    REPLAY_PAGE_BYTES,
    REPLAY_PAGE_EVENTS_MAX,
    REPLAY_PAGE_EVENTS_MIN,
    STREAM_BEAT_S,
    STREAM_CHUNK_BYTES_MAX,
    STREAM_END_S,
    STREAM_PASSED_S,
    STREAM_REPLAY_EVENTS_MAX,
    STREAM_STALL_S,
    STREAM_TICK_S,
    STREAMS_PER_KEY_MAX,
    TOPIC_CHOICES_KEPT_MAX,
)


class Choice:
    """Which frames a stream gets: those of its topics whose first topic its key may read. A host gets as well
    what is addressed to its own work, and everybody what is addressed to the own inbox, whoever's it is."""

    __slots__ = ("__weakref__", "_allows", "_known", "_permissions", "topics")

    def __init__(
        self, topics: frozenset[str], permissions: Mapping[str, Sequence[str]], allows: Callable[..., bool]
    ) -> None:
        self.topics = topics
        self._permissions = permissions
        self._allows = allows
        self._known: dict[tuple[str, ...], bool] = {}

    def takes(self, frame: Frame) -> bool:
        """Whether this frame is for the stream."""
        known = self._known.get(frame.topics)
        if known is None:
            if len(self._known) >= TOPIC_CHOICES_KEPT_MAX:
                self._known.clear()
            known = self._known[frame.topics] = self._decide(frame.topics)
        return known

    def _decide(self, topics: tuple[str, ...]) -> bool:
        chosen = [topic for topic in topics if topic in self.topics]
        if not chosen:
            return False
        return self._allows(self._permissions, "read", topics[0]) or any(
            (topic.startswith("host:") and self._allows(self._permissions, "feed", topic))
            or (topic.startswith("inbox:") and self._allows(self._permissions, "read", topic))
            for topic in chosen
        )


class Stream:
    """One open stream. `run` ends when the client is gone or the stream was ended or cut."""

    def __init__(
        self,
        owner: "Streams",
        live: Live,
        identity: Identity,
        key: str,
        topics: Sequence[str],
        receive: Receive,
        send: Send,
        abort: Callable[[], None] | None,
    ) -> None:
        self.live = live
        self.identity = identity
        self.key = key
        self.topics = tuple(topics)
        self.choice = owner.choice(identity, self.topics)
        self.end_reason = ""
        self.end_asked_at = 0.0
        self.sending_since: float | None = None
        self.beat_at = owner.clock.monotonic() + STREAM_BEAT_S
        self._owner = owner
        self._receive = receive
        self._send = send
        self._abort = abort
        self._task: asyncio.Task[Any] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._gone = False
        self._position = 0
        self._seq = 0
        self._page_events = REPLAY_PAGE_EVENTS_MIN
        self._hosts_linked: list[str] = []

    # What others do to it

    def end(self, reason: str) -> None:
        """Asks the stream to say why and close."""
        if not self.end_reason:
            self.end_reason = reason
            self.end_asked_at = self._owner.clock.monotonic()
            self._poke()

    def cut(self) -> None:
        """Breaks the connection off, without waiting for a reader that takes nothing."""
        self._gone = True
        if self._abort is not None:
            self._abort()
        elif self._task is not None:
            self._task.cancel()
        self._poke()

    def passed_by(self) -> bool:
        """Whether the ring no longer holds what this stream has to send next."""
        return self._position < self.live.ring.tail

    def beat(self) -> None:
        """A beat is due."""
        self._poke()

    def _poke(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # Its own life

    async def run(self, after: Cursor | None) -> None:
        """Serves the stream; `after` is where to resume, None for from now on."""
        self._task = asyncio.current_task()
        watcher = asyncio.ensure_future(self._watch())
        try:
            await self._begin(after)
            await self._follow()
        except asyncio.CancelledError:
            if not self._gone:
                raise
        finally:
            watcher.cancel()
            for host_id in self._hosts_linked:
                self.live.hosts.closed(host_id)

    async def _watch(self) -> None:
        """Notices that the client went away."""
        with contextlib.suppress(asyncio.CancelledError):
            while (await self._receive())["type"] != "http.disconnect":
                pass
            self._gone = True
            self._poke()

    async def _write(self, data: bytes) -> None:
        self.sending_since = self._owner.clock.monotonic()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self.sending_since = None

    async def _begin(self, after: Cursor | None) -> None:
        log = self.live.log
        _, newest = await log.bounds(self.live.team_id)
        self.live.ring.begin(newest)
        seq = self.live.ring.seq or 0 if after is None else after.seq
        reset = ""
        if after is not None and after.log_id != log.log_id:
            reset, seq = "other_log", newest
        elif after is not None and seq > max(newest, self.live.ring.seq or 0):
            reset, seq = "future", newest
        hello = {
            "cursor": str(log.cursor(seq)),
            "boot_id": self._owner.boot_id,
            "beat_s": STREAM_BEAT_S,
            "topics": self.topics,
        }
        first = b"retry: 1000\n" + passing("stream.hello", hello).data
        if reset:
            first += passing("stream.reset", {"reason": reset, "cursor": str(log.cursor(seq))}).data
        await self._write(first)
        while not (self._gone or self.end_reason) and (self.live.ring.seq or 0) < seq:
            await self._wait()
        await self._catch_up(seq)

    async def _catch_up(self, seq: int) -> None:
        """Sends what is stored after `seq` up to the head, then the growing items, and stands at the head."""
        ring = self.live.ring
        while not self._gone and not self.end_reason:
            position = ring.position_after(seq)
            if position is None:
                seq = await self._replay(seq)
                continue
            data, position = ring.chunk(position, self.choice, stored_only=True)
            seq = ring.seq_before(position)
            self._position, self._seq = position, seq
            if data:
                await self._write(data)
            elif position == ring.head:
                await self._stand_at_head()
                return

    async def _stand_at_head(self) -> None:
        """Tells what is not stored. Nothing is awaited before it is put together, so it fits the position."""
        if not self._hosts_linked:
            self._link_hosts()
        now = [frame.data for frame in self.live.growing.frames(self.topics) if self.choice.takes(frame)]
        for host_id in self._hosts_linked:
            now.extend(frame.data for frame in self.live.hosts.open_requests(host_id))
        for piece in _pieces(now):
            await self._write(piece)

    def _link_hosts(self) -> None:
        for topic in self.topics:
            if topic.startswith("host:") and self._owner.gate.allows(self.identity.permissions, "feed", topic):
                host_id = topic.removeprefix("host:")
                self._hosts_linked.append(host_id)
                self.live.hosts.opened(host_id)

    async def _replay(self, seq: int) -> int:
        """Sends a page of the log after `seq`; returns the event after which to go on."""
        log, team_id = self.live.log, self.live.team_id
        known = self.live.ring.seq or 0
        if known - seq > STREAM_REPLAY_EVENTS_MAX:
            await self._write(
                passing("stream.reset", {"reason": "too_far", "cursor": str(log.cursor(known))}).data
            )
            return known
        limit = self._page_events
        page = await log.events(team_id, seq, topics=self.topics, limit=limit)
        # Where the very next event is still there, nothing before it is gone.
        oldest = seq + 1 if page and page[0].seq == seq + 1 else (await log.bounds(team_id))[0]
        if oldest > seq + 1:
            gap = {
                "from": str(log.cursor(seq)),
                "to": str(log.cursor(oldest - 1)),
                "missed": oldest - 1 - seq,
                "oldest": str(log.cursor(oldest)),
            }
            await self._write(passing("stream.gap", gap).data)
            return oldest - 1
        told = [
            frame for event in page if event.seq <= known and self.choice.takes(frame := stored(event, log.log_id))
        ]
        for piece in _pieces([frame.data for frame in told]):
            await self._write(piece)
        self._page_events = _next_page(limit, sum(len(event.body) for event in page))
        return known if len(page) < limit else min(known, page[-1].seq)

    async def _follow(self) -> None:
        ring = self.live.ring
        while not self._gone:
            if self.end_reason:
                body = {"reason": self.end_reason}
                if self.end_reason == "draining":
                    body["cursor"] = str(self.live.log.cursor(self._seq))
                await self._write(passing("stream.end", body).data)
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            if self._position < ring.tail:
                self._owner.overruns += 1
                await self._catch_up(self._seq)
                continue
            due = self._owner.clock.monotonic() >= self.beat_at
            if self._position == ring.head and not due:
                await self._wait()
                continue
            data, self._position = ring.chunk(self._position, self.choice)
            self._seq = ring.seq_before(self._position)
            if due:
                data += self._beat()
            if data:
                await self._write(data)

    def _beat(self) -> bytes:
        self.beat_at = self._owner.clock.monotonic() + STREAM_BEAT_S
        body = {"at": iso(self._owner.clock.now()), "cursor": str(self.live.log.cursor(self._seq))}
        return passing("stream.beat", body).data

    async def _wait(self) -> None:
        """Until there is something new in the ring, or somebody pokes."""
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        self.live.ring.wait(waiter)
        try:
            await waiter
        finally:
            self.live.ring.unwait(waiter)
            self._waiter = None


def _next_page(limit: int, size: int) -> int:
    """How many events to read at once next, after `limit` of them came to `size` bytes: small ones many at once,
    large ones few."""
    if size > REPLAY_PAGE_BYTES:
        return max(REPLAY_PAGE_EVENTS_MIN, limit // 4)
    return min(REPLAY_PAGE_EVENTS_MAX, limit * 4) if size < REPLAY_PAGE_BYTES // 4 else limit


def _pieces(parts: Sequence[bytes]) -> list[bytes]:
    """`parts` joined into pieces of about `STREAM_CHUNK_BYTES_MAX`."""
    pieces: list[bytes] = []
    piece: list[bytes] = []
    size = 0
    for part in parts:
        piece.append(part)
        size += len(part)
        if size >= STREAM_CHUNK_BYTES_MAX:
            pieces.append(b"".join(piece))
            piece, size = [], 0
    if piece:
        pieces.append(b"".join(piece))
    return pieces


class Streams:
    """All open streams of a hub, and the watch over them."""

    def __init__(self, gate: Gate, clock: Clock, boot_id: str) -> None:
        self.gate = gate
        self.clock = clock
        self.boot_id = boot_id
        self._open: dict[Stream, None] = {}
        self._per_key: Counter[str] = Counter()
        self._choices: weakref.WeakValueDictionary[tuple[frozenset[str], bytes, str], Choice] = (
            weakref.WeakValueDictionary()
        )
        self._keeper: asyncio.Task[None] | None = None
        self._empty = asyncio.Event()
        self._empty.set()
        self._closing = ""
        self.overruns = 0
        """How often a stream fell so far behind that it was led through the log again."""

    def __len__(self) -> int:
        return len(self._open)

    def choice(self, identity: Identity, topics: Sequence[str]) -> Choice:
        """The one choice object for these topics and rights."""
        wanted = frozenset(topics)
        # Bearers of the same rights share a choice, but not where an inbox is looked at: that is each one's own.
        inbox_of = identity.principal_id if any(topic.startswith("inbox:") for topic in wanted) else ""
        key = (wanted, encode(identity.permissions), inbox_of)
        choice = self._choices.get(key)
        if choice is None:
            choice = self._choices[key] = Choice(wanted, identity.permissions, self.gate.allows)
        return choice

    async def serve(
        self,
        live: Live,
        identity: Identity,
        key: str,
        topics: Sequence[str],
        after: Cursor | None,
        receive: Receive,
        send: Send,
        headers: Sequence[tuple[bytes, bytes]],
        abort: Callable[[], None] | None,
    ) -> None:
        """Serves one stream until its end.

        Raises:
            TooMany: if the key has `STREAMS_PER_KEY_MAX` streams open; then nothing was sent.
        """
        if self._per_key[identity.key_id] >= STREAMS_PER_KEY_MAX:
            raise TooMany(
                "This key has too many streams open.",
                hint="Close a page or a program that uses it.",
                max=STREAMS_PER_KEY_MAX,
                retry_after_s=1,
            )
        stream = Stream(self, live, identity, key, topics, receive, send, abort)
        self._open[stream] = None
        self._per_key[identity.key_id] += 1
        self._empty.clear()
        if self._closing:
            stream.end(self._closing)
        if self._keeper is None:
            self._keeper = asyncio.ensure_future(self._keep())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(headers)})
            await stream.run(after)
        finally:
            del self._open[stream]
            self._per_key[identity.key_id] -= 1
            if not self._per_key[identity.key_id]:
                del self._per_key[identity.key_id]
            if not self._open:
                self._empty.set()

    async def _keep(self) -> None:
        while self._open:
            await asyncio.sleep(STREAM_TICK_S)
            self.tick()
        self._keeper = None

    def tick(self) -> None:
        """Looks once at every stream: beats, expired keys, readers that take nothing."""
        now = self.clock.monotonic()
        wall = self.clock.now()
        for stream in list(self._open):
            expires_at = stream.identity.expires_at
            if expires_at is not None and expires_at <= wall:
                stream.end("expired")
            if now >= stream.beat_at:
                stream.beat()
            if stream.sending_since is None:
                continue
            stuck_s = now - stream.sending_since
            if (
                stuck_s >= STREAM_STALL_S
                or (stuck_s >= STREAM_PASSED_S and stream.passed_by())
                or (stream.end_reason and now - stream.end_asked_at >= STREAM_END_S)
            ):
                stream.cut()

    async def recheck(self, team_id: str) -> None:
        """Keys of the team have changed: ends what may go on no longer, narrows the rest."""
        streams = [stream for stream in self._open if stream.identity.team_id == team_id]
        for key in {stream.key for stream in streams}:
            ours = [stream for stream in streams if stream.key == key]
            try:
                identity = await self.gate.identify(key)
            except Unauthenticated:
                for stream in ours:
                    expires_at = stream.identity.expires_at
                    expired = expires_at is not None and expires_at <= self.clock.now()
                    stream.end("expired" if expired else "revoked")
                continue
            for stream in ours:
                stream.identity = identity
                stream.choice = self.choice(identity, stream.topics)

    async def close(self, within_s: float, reason: str = "shutting_down") -> None:
        """Tells every stream that the hub goes, and cuts those that take no end within `within_s`."""
        self._closing = self._closing or reason
        for stream in list(self._open):
            stream.end(self._closing)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._empty.wait()
        for stream in list(self._open):
            stream.cut()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await keeper
