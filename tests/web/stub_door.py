"""A small door for the page's own tests: it serves the page and answers in the shapes of docs/door.md.

It holds its state in plain dictionaries, streams stored events with cursors and growing pieces without, and can be
told to ask, to grow, to go silent and to lose its past. It keeps nothing and checks no rights beyond the cookie.
"""

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

WEB = Path(__file__).parents[2] / "src" / "ekiden" / "web"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "manifest-src 'self'; worker-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
BEAT_S = 2.0
LOG = "k3f9a2b1"
Body = dict[str, Any]


def iso(age_s: float = 0.0) -> str:
    """A time `age_s` before now."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - age_s))


def abilities(*cannot: tuple[str, str]) -> list[Body]:
    """Every ability; those in `cannot` with their reason."""
    whys = dict(cannot)
    names = (
        "see_text",
        "see_items",
        "approve",
        "interrupt",
        "queue",
        "steer",
        "continue",
        "fork",
        "quote",
        "search",
    )
    return [{"name": name, "can": name not in whys, "why": whys.get(name, "")} for name in names]


@dataclass
class StubDoor:
    """The state behind the stub and what a test may do to it."""

    sessions: dict[str, Body] = field(default_factory=dict[str, Body])
    items: dict[str, list[Body]] = field(default_factory=dict[str, list[Body]])
    approvals: dict[str, Body] = field(default_factory=dict[str, Body])
    messages: dict[str, Body] = field(default_factory=dict[str, Body])
    growing: dict[str, Body] = field(default_factory=dict[str, Body])
    pairings: dict[str, Body] = field(default_factory=dict[str, Body])
    keys: list[Body] = field(default_factory=list[Body])
    hosts: dict[str, Body] = field(default_factory=dict[str, Body])
    requests: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    signed_in: bool = True
    claim_state: str = "confirmed"
    refuse_with: dict[str, tuple[int, Body]] = field(default_factory=dict[str, tuple[int, Body]])
    answered: dict[str, tuple[int, Any]] = field(default_factory=dict[str, tuple[int, Any]])
    log: list[tuple[int, list[str], Body]] = field(default_factory=list[tuple[int, list[str], Body]])
    streams: list[tuple[list[str], "queue.Queue[str | None]"]] = field(
        default_factory=list[tuple[list[str], "queue.Queue[str | None]"]]
    )
    lock: threading.RLock = field(default_factory=threading.RLock)
    url: str = ""
    silent: bool = False
    places_at_once: bool = False
    streams_opened: int = 0

    @property
    def cursor(self) -> str:
        return f"{LOG}.{len(self.log)}"

    def start(self) -> Callable[[], None]:
        """Serves on a free loopback port; returns what ends it."""
        door = self

        class Handler(_Handler):
            stub = door

        server = _Server(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()

        def stop() -> None:
            self.drop_streams()
            server.shutdown()
            server.server_close()
            thread.join()

        return stop

    def emit(self, kind: str, body: Body, *topics: str) -> None:
        """A stored event, to all who follow one of its topics."""
        with self.lock:
            seq = len(self.log) + 1
            frame = {
                "seq": seq,
                "kind": kind,
                "topic": topics[0],
                "at": iso(),
                "actor": {"id": "pri_1", "name": "stub"},
                "body": body,
            }
            self.log.append((seq, list(topics), frame))
            self._tell(topics, f"id: {LOG}.{seq}\ndata: {json.dumps(frame)}\n\n")

    def passing(self, kind: str, body: Body, *topics: str) -> None:
        """A frame that is not stored."""
        with self.lock:
            self._tell(topics, f"data: {json.dumps({'kind': kind, 'body': body})}\n\n")

    def grow(self, session_id: str, item_id: str, text: str, kind: str = "message") -> None:
        """The next piece of a growing item."""
        with self.lock:
            had = self.growing.setdefault(
                item_id,
                {
                    "session_id": session_id,
                    "turn_id": "trn_1",
                    "item_id": item_id,
                    "kind": kind,
                    "count": 0,
                    "text": "",
                },
            )
            piece = {**had, "index": had["count"], "text": text}
            had["count"] += 1
            had["text"] += text
            self.passing("item.grew", piece, f"session:{session_id}")

    def add(self, session_id: str, *items: Body) -> None:
        """Whole items, as the native file's reader would tell them."""
        with self.lock:
            for item in items:
                self.growing.pop(item["id"], None)
                known = self.items.setdefault(session_id, [])
                places = [at for at, had in enumerate(known) if had["id"] == item["id"]]
                if places:
                    known[places[0]] = item
                else:
                    known.append(item)
            self.emit("items.added", {"session_id": session_id, "items": list(items)}, f"session:{session_id}")

    def report(self, session_id: str, **changes: Any) -> None:
        """Changes a session's report and tells it."""
        with self.lock:
            session = self.sessions[session_id]
            session["report"].update(changes)
            if "state" in changes:
                session["state"] = changes["state"]
            self.emit("session.reported", session, f"session:{session_id}", "team")

    def ask(self, approval: Body) -> None:
        """A turn asks."""
        with self.lock:
            self.approvals[approval["approval_id"]] = approval
            self.emit("approval.asked", approval, f"session:{approval['session_id']}", "team")

    def answer(self, approval_id: str, option: str, by: str, message: str = "") -> tuple[int, Body]:
        """The first answer wins."""
        with self.lock:
            approval = self.approvals[approval_id]
            if approval["state"] != "open":
                details = {
                    "option": approval["answer"],
                    "by": approval["answered_by"],
                    "at": approval["answered_at"],
                }
                return 409, {"code": "already_answered", "title": "Already answered", "details": details}
            approval.update(state="answered", answer=option, answered_by=by, answered_at=iso(), reason=message)
            self.emit("approval.answered", approval, f"session:{approval['session_id']}", "team")
            return 200, approval

    def drop_streams(self) -> None:
        """Ends every stream, as a lost connection does."""
        with self.lock:
            for _, frames in self.streams:
                frames.put(None)
            self.streams.clear()

    def _tell(self, topics: tuple[str, ...] | list[str], frame: str) -> None:
        if self.silent:
            return
        for chosen, frames in self.streams:
            if set(chosen) & set(topics):
                frames.put(frame)

    def follow(self, topics: list[str], after: str) -> Iterator[str]:
        """Frames from `after` on, until the stream is dropped."""
        frames: queue.Queue[str | None] = queue.Queue()
        with self.lock:
            self.streams_opened += 1
            hello = {"cursor": self.cursor, "boot_id": "boot1", "beat_s": BEAT_S, "topics": topics}
            frames.put(f"data: {json.dumps({'kind': 'stream.hello', 'body': hello})}\n\n")
            if after:
                log_id, _, seq = after.partition(".")
                if log_id != LOG:
                    reset = {"reason": "other_log", "cursor": self.cursor}
                    frames.put(f"data: {json.dumps({'kind': 'stream.reset', 'body': reset})}\n\n")
                else:
                    for at, on, frame in self.log:
                        if at > int(seq) and set(on) & set(topics):
                            frames.put(f"id: {LOG}.{at}\ndata: {json.dumps(frame)}\n\n")
            for growing in self.growing.values():
                if f"session:{growing['session_id']}" in topics:
                    frames.put(f"data: {json.dumps({'kind': 'item.grown', 'body': growing})}\n\n")
            self.streams.append((topics, frames))
        while True:
            try:
                frame = frames.get(timeout=BEAT_S)
            except queue.Empty:
                if self.silent:
                    continue
                yield f"data: {json.dumps({'kind': 'stream.beat', 'body': {'at': iso()}})}\n\n"
                continue
            if frame is None:
                return
            yield frame


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that hangs up is no fault; anything else is printed as usual."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: StubDoor

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""

    def do_GET(self) -> None:
        self._run("GET")

    def do_POST(self) -> None:
        self._run("POST")

    def do_DELETE(self) -> None:
        self._run("DELETE")

    def _run(self, method: str) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"null") if length else None
        path = unquote(url.path)
        if path.startswith("/v1/"):
            self.stub.requests.append((method, self.path, body))
        try:
            if path == "/v1/stream":
                self._stream({name: values[0] for name, values in parse_qs(url.query).items()})
            elif path.startswith("/v1/"):
                self._door(
                    method,
                    path[4:].split("/"),
                    {name: values[0] for name, values in parse_qs(url.query).items()},
                    body,
                )
            else:
                self._file(path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _file(self, path: str) -> None:
        name = "index.html" if path == "/" else path.removeprefix("/assets/").removeprefix("/")
        file = (WEB / name).resolve()
        if not file.is_relative_to(WEB) or not file.is_file() or file.suffix not in TYPES:
            self._send(404, b"", "text/plain")
            return
        self._send(200, file.read_bytes(), TYPES[file.suffix])

    def _send(self, status: int, data: bytes, kind: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-cache")
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _json(self, status: int, value: Any, headers: tuple[tuple[str, str], ...] = ()) -> None:
        kind = "application/json" if status < 400 else "application/problem+json"
        self._send(status, json.dumps(value).encode(), kind, headers)

    def _stream(self, query: dict[str, str]) -> None:
        if not self.stub.signed_in:
            self._json(401, {"code": "unauthenticated"})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for frame in self.stub.follow(query["topics"].split(","), self.headers.get("Last-Event-ID", "")):
            self.wfile.write(frame.encode())
            self.wfile.flush()

    def _door(self, method: str, parts: list[str], query: dict[str, str], body: Any) -> None:
        stub = self.stub
        command = self.headers.get("Command-Id", "")
        with stub.lock:
            refused = stub.refuse_with.get("/".join(parts))
            if refused:
                self._json(*refused)
                return
            if parts[0] == "pairings" and parts[-1] in ("claim", "collect"):
                state = stub.claim_state
                if state == "gone":
                    self._json(
                        404, {"code": "not_found", "detail": "This code is not known, or was used already."}
                    )
                    return
                told = {
                    "pairing_id": "pai_1",
                    "state": state,
                    "claim": "secret",
                    "words": "amber otter velvet",
                }
                if state == "confirmed":
                    stub.signed_in = True
                self._json(200, told)
                return
            if not stub.signed_in:
                self._json(401, {"code": "unauthenticated", "title": "Not signed in"})
                return
            if command and command in stub.answered:
                self._json(*stub.answered[command])
                return
            status, value = self._answer(method, parts, query, body or {})
            if command:
                stub.answered[command] = (status, value)
        self._json(status, value)

    def _answer(self, method: str, parts: list[str], query: dict[str, str], body: Body) -> tuple[int, Any]:
        stub = self.stub
        match (method, *parts):
            case ("GET", "me"):
                return 200, {
                    "principal": {"id": "pri_1", "name": "phone"},
                    "permissions": {"*": ["read", "steer", "approve", "start", "admin"]},
                    "hub": {"version": "0.1.0", "url": stub.url},
                }
            case ("POST", "sign-out"):
                stub.signed_in = False
                return 200, {}
            case ("GET", "inbox"):
                entries = [
                    {
                        "kind": "approval",
                        "id": one["approval_id"],
                        "title": one["question"],
                        "at": one["asked_at"],
                        "approval": one,
                        "session": stub.sessions.get(one["session_id"]),
                    }
                    for one in stub.approvals.values()
                    if one["state"] == "open"
                ]
                running = [one for one in stub.sessions.values() if one["state"] in ("running", "waiting")]
                return 200, {"entries": entries, "running": running, "cursor": stub.cursor}
            case ("GET", "hosts"):
                return 200, {"hosts": list(stub.hosts.values())}
            case ("GET", "pairings"):
                return 200, {"pairings": list(stub.pairings.values())}
            case ("POST", "pairings"):
                return 201, {
                    "pairing_id": "pai_2",
                    "code": "K7QM-4TXR",
                    "link": f"{stub.url}/#pair=K7QM-4TXR",
                    "expires_at": iso(-600),
                }
            case ("POST", "pairings", pairing, "confirm" | "deny"):
                stub.pairings.pop(pairing)
                stub.emit("pairing.ended", {"pairing_id": pairing}, "access")
                return 200, {}
            case ("GET", "invites"):
                return 200, {"invites": []}
            case ("GET", "keys"):
                return 200, {"keys": stub.keys}
            case ("POST", "keys"):
                return 201, {"key_id": "key_9", "principal_id": "pri_9", "key": "ekd_shown_once"}
            case ("DELETE", "keys", key):
                for one in stub.keys:
                    if one["key_id"] == key:
                        one["revoked_at"] = iso()
                stub.emit("key.revoked", {"key_id": key}, "access")
                return 200, {}
            case ("GET", "sessions"):
                return 200, self._list(query)
            case ("GET", "search"):
                return 200, self._search(query["text"])
            case ("POST", "sessions"):
                return 201, {"session_id": next(iter(stub.sessions)), "verb": "start", "carried": ""}
            case ("POST", "approvals", approval, "answer"):
                return stub.answer(approval, body["option"], "phone", body.get("message", ""))
            case ("DELETE", "messages", message):
                stub.messages[message]["state"] = "cancelled"
                return 200, stub.messages[message]
            case (_, "sessions", session, *rest):
                if session not in stub.sessions:
                    return 404, {"code": "not_found", "title": "There is no such thing here."}
                return self._session(method, session, rest, query, body)
            case _:
                return 404, {"code": "not_found", "title": "There is no such thing here."}

    def _list(self, query: dict[str, str]) -> Body:
        def fits(one: Body) -> bool:
            report = one["report"]
            return (
                query.get("vendor", report["vendor"]) == report["vendor"]
                and query.get("state", one["state"]) == one["state"]
                and query.get("text", "").lower() in f"{report['title']} {report['cwd']}".lower()
            )

        found = sorted(
            filter(fits, self.stub.sessions.values()), key=lambda one: one["report"]["updated_at"], reverse=True
        )
        first = int(query.get("after") or 0)
        limit = int(query.get("limit", 50))
        more = str(first + limit) if first + limit < len(found) else ""
        return {
            "sessions": found[first : first + limit],
            "next": more,
            "cursor": self.stub.cursor,
            "total": len(found),
        }

    def _search(self, text: str) -> Body:
        hits: list[Body] = []
        for session_id, items in self.stub.items.items():
            for item in items:
                said = " ".join(block.get("text", "") for block in item.get("content", []))
                at = said.lower().find(text.lower())
                if at >= 0 and len(hits) < 20:
                    start = max(0, at - 30)
                    hits.append(
                        {
                            "session_id": session_id,
                            "item_id": item["id"],
                            "title": self.stub.sessions[session_id]["report"]["title"],
                            "at": item["at"],
                            "excerpt": said[start : at + 60],
                            "matches": [[at - start, at - start + len(text)]],
                        }
                    )
        return {"hits": hits, "next": "", "indexed_share": 0.8, "away": []}

    def _session(
        self, method: str, session: str, rest: list[str], query: dict[str, str], body: Body
    ) -> tuple[int, Any]:
        stub = self.stub
        match (method, *rest):
            case ("GET",):
                told = [one for one in stub.messages.values() if one["session_id"] == session]
                view = {
                    "session": stub.sessions[session],
                    "cursor": stub.cursor,
                    "approvals": [one for one in stub.approvals.values() if one["session_id"] == session],
                    "messages": [one for one in told if one["state"] not in ("seen", "cancelled")],
                    "seen": [one for one in told if one["state"] == "seen"],
                    "growing": [one for one in stub.growing.values() if one["session_id"] == session],
                }
                return 200, view
            case ("GET", "items"):
                thread = query.get("thread", "")
                known = [one for one in stub.items.get(session, []) if one.get("thread", "") == thread]
                end = int(query.get("before") or len(known))
                first = max(0, end - int(query.get("limit", 50)))
                return 200, {"items": known[first:end], "before": str(first) if first else ""}
            case ("GET", "items", item):
                for one in stub.items.get(session, []):
                    if one["id"] == item:
                        whole = one.get("whole", one)
                        return 200, {**whole, "cut": []}
                return 404, {"code": "not_found"}
            case ("GET", "raw"):
                lines = [{"line": at, "start": at * 10, "text": f'{{"odd": {at}}}'} for at in range(1, 4)]
                return 200, {"lines": lines, "before": ""}
            case ("POST", "messages"):
                message = {
                    "message_id": body["message_id"],
                    "session_id": session,
                    "text": body["text"],
                    "state": "stored",
                    "sent_by": "phone",
                    "sent_by_id": "pri_1",
                    "sent_at": iso(),
                    "steer": body.get("steer", False),
                }
                stub.messages[message["message_id"]] = message
                stub.emit("message.stored", message, f"session:{session}")
                stored = dict(message)
                if stub.places_at_once:
                    message.update(state="seen", how="new_turn")
                    stub.emit("message.changed", message, f"session:{session}")
                    time.sleep(0.3)  # the answer is slower than the stream
                return 201, stored
            case ("POST", "interrupt"):
                stub.report(session, state="idle")
                return 202, {}
            case ("POST", "continue"):
                stub.report(session, rung="owned", level=2, abilities=abilities(("continue", "already_owned")))
                return 200, {"session_id": session, "verb": "continue", "carried": "412 lines"}
            case ("POST", "release"):
                stub.report(session, rung="file", level=1)
                return 200, {"session_id": session, "verb": "release"}
            case ("POST", "fork" | "quote"):
                return 200, {
                    "session_id": next(iter(stub.sessions)),
                    "verb": rest[0],
                    "carried": "12 items",
                    "not_carried": ["thoughts"],
                }
            case _:
                return 404, {"code": "not_found"}
