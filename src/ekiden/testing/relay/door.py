"""The kit's own plain client: it sends what it is told to, sensible or not, and shows the answer as it came."""

import http.client
import json
import queue
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ekiden.kernel.ids import Prefix, new_id

WAIT_S = 20.0
_QUIET_S = 0.25


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: its status and its body, decoded."""

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        """Whether the relay did what it was asked."""
        return 200 <= self.status < 300

    def __getitem__(self, name: str) -> Any:
        return self.body[name]


class Door:
    """A relay at `url` as the bearer of `key` sees it."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url.rstrip("/")
        self.key = key

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        command_id: str = "",
        **query: Any,
    ) -> Answer:
        """One request on a connection of its own. Query values that are None or empty are left out."""
        parts = urlsplit(self.url)
        told = {name: value for name, value in query.items() if value not in (None, "")}
        target = parts.path + path + (f"?{urlencode(told)}" if told else "")
        sent = {"authorization": f"Bearer {self.key}", "accept": "application/json"} | dict(headers or {})
        payload = None
        if method != "GET":
            sent |= {"content-type": "application/json", "command-id": command_id or new_id(Prefix.COMMAND)}
            payload = json.dumps({} if body is None else body).encode()
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=WAIT_S)
        try:
            connection.request(method, target, payload, sent)
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        return Answer(answer.status, json.loads(text) if text else None)

    def get(self, path: str, **query: Any) -> Answer:
        """A GET."""
        return self.ask("GET", path, **query)

    def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        """A POST."""
        return self.ask("POST", path, body, **more)

    def put(self, path: str, body: Any = None, **more: Any) -> Answer:
        """A PUT."""
        return self.ask("PUT", path, body, **more)

    def patch(self, path: str, body: Any = None, **more: Any) -> Answer:
        """A PATCH."""
        return self.ask("PATCH", path, body, **more)

    def delete(self, path: str, body: Any = None, **more: Any) -> Answer:
        """A DELETE."""
        return self.ask("DELETE", path, body, **more)

    def follow(self, *topics: str, after: str = "") -> "Follower":
        """A stream of these topics, opened before this returns."""
        return Follower(self, topics, after)

    def stall(self, *topics: str) -> "Follower":
        """A stream that is open, of which nothing is read until `go_on`."""
        return Follower(self, topics, "", reads=False)

    def cursor(self, *topics: str) -> str:
        """Where a stream that begins now begins."""
        with self.follow(*topics) as stream:
            return str(stream.hello.get("body", {}).get("cursor", ""))


def channel_path(name: str, *rest: str) -> str:
    """The path of a channel, or of something in it."""
    return "/v1/channels/" + "/".join(quote(part, safe="") for part in (name, *rest))


class Follower:
    """An open stream. Its frames are read by a thread of its own, which ends with `close`."""

    def __init__(self, door: Door, topics: tuple[str, ...], after: str, *, reads: bool = True) -> None:
        parts = urlsplit(door.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connection = kind(parts.hostname or "", parts.port, timeout=WAIT_S)
        headers = {"authorization": f"Bearer {door.key}", "accept": "text/event-stream"}
        if after:
            headers["last-event-id"] = after
        self._connection.request(
            "GET", f"{parts.path}/v1/stream?topics={quote(','.join(topics))}", headers=headers
        )
        self._socket = self._connection.sock
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.ended = threading.Event()
        self._frames: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.hello: dict[str, Any] = {}
        self.reading = False
        if self.status == http.client.OK and reads:
            self.go_on()
            self.hello = self.next("stream.hello") or {}

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def go_on(self) -> None:
        """Begins to read."""
        self.reading = True
        threading.Thread(target=self._read, daemon=True).start()

    def next(self, kind: str, within_s: float = WAIT_S) -> dict[str, Any] | None:
        """The next frame of a kind; what comes before it is dropped. None when the stream ended or the time is
        over."""
        while True:
            try:
                frame = self._frames.get(timeout=within_s)
            except queue.Empty:
                return None
            if frame.get("kind") == kind:
                return frame
            if not frame:
                return None

    def quiet(self) -> list[dict[str, Any]]:
        """What has come, once nothing comes any more for a moment."""
        found: list[dict[str, Any]] = []
        while True:
            try:
                frame = self._frames.get(timeout=_QUIET_S)
            except queue.Empty:
                return found
            if not frame:
                return found
            found.append(frame)

    def close(self) -> None:
        """Ends the stream from this side."""
        try:
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the relay was first
        if not self.reading:
            self._connection.close()

    def _read(self) -> None:
        data: list[str] = []
        cursor = ""
        try:
            for line in self._answer:
                text = line.decode().rstrip("\r\n")
                if text.startswith("data:"):
                    data.append(text[5:].removeprefix(" "))
                elif text.startswith("id:"):
                    cursor = text[3:].strip()
                elif not text and data:
                    self._frames.put({**json.loads("\n".join(data)), "cursor": cursor})
                    data, cursor = [], ""
        except (OSError, ValueError, http.client.HTTPException):
            pass  # a cut stream is an ended one
        # Closed by who reads: a connection that is closed under a reading thread breaks it.
        self._connection.close()
        self.ended.set()
        self._frames.put({})
