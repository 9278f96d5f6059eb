"""One scripted model server on loopback that speaks the wire formats of the vendors' programs.

    POST /v1/messages          Anthropic Messages (stream or JSON); /v1/messages/count_tokens
    POST /v1/responses         OpenAI Responses (stream or JSON)
    GET  /v1/models, HEAD /    what the programs probe

What a turn says is written in the prompt: see `scripted_model.script`.
"""

import gzip
import json
import threading
import time
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scripted_model.script import DIRECTIVE, Turn

HOLD_S = 60.0


class ScriptedModel(ThreadingHTTPServer):
    """The server with all that it has seen. `log` grows with each request and each answer's end."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, delay_s: float) -> None:
        super().__init__(("127.0.0.1", port), Answer)
        self.delay_s = delay_s
        self.log: list[dict[str, Any]] = []
        self.bodies: list[dict[str, Any]] = []
        self.changed = threading.Condition()
        self._holds: dict[str, threading.Event] = {}
        self._errors_told: set[str] = set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is in the log already."""

    def note(self, what: str, **facts: Any) -> None:
        """Adds to the log and wakes those who wait."""
        with self.changed:
            self.log.append({"at": time.time(), "what": what, **facts})
            self.changed.notify_all()

    def wait_for(self, what: str, *, within_s: float = 30.0, **facts: Any) -> dict[str, Any]:
        """Waits until the log holds an entry with these facts and returns it."""

        def found() -> dict[str, Any] | None:
            for entry in self.log:
                if entry["what"] == what and all(entry.get(key) == value for key, value in facts.items()):
                    return entry
            return None

        with self.changed:
            if not self.changed.wait_for(lambda: found() is not None, within_s):
                raise TimeoutError(f"no {what} {facts} in {self.log}")
            entry = found()
        assert entry is not None
        return entry

    def gate(self, name: str) -> threading.Event:
        """The event behind `@@hold NAME`."""
        with self.changed:
            return self._holds.setdefault(name, threading.Event())

    def release(self, name: str) -> None:
        """Lets a `@@hold NAME` go on."""
        self.gate(name).set()

    def first_error(self, prompt: str) -> bool:
        """True the first time that this prompt asks for its error."""
        with self.changed:
            new = prompt not in self._errors_told
            self._errors_told.add(prompt)
            return new

    def close(self) -> None:
        """Stops serving; held answers are let go."""
        with self.changed:
            gates = list(self._holds.values())
        for gate in gates:
            gate.set()
        self.shutdown()
        self.server_close()


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedModel

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silent: the log is `ScriptedModel.log`."""

    def _body(self) -> dict[str, Any]:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            raw = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") == "gzip":
            raw = gzip.decompress(raw)
        return json.loads(raw or b"{}")

    def send_json(self, value: Any, status: int = 200) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def send_event(self, name: str, value: dict[str, Any]) -> None:
        raw = f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()

    def end_stream(self) -> None:
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def say(self, turn: Turn, send: Callable[[str], None]) -> None:
        """Sends the turn's text piece by piece; the last waits for `@@hold`."""
        parts = turn.parts()
        for number, part in enumerate(parts):
            if turn.hold and number == len(parts) - 1:
                gate = self.server.gate(turn.hold)
                self.server.note("hold", name=turn.hold)
                gate.wait(HOLD_S)
            time.sleep(turn.delay_s)
            send(part)

    def begin(self, facts: dict[str, Any], turn: Turn) -> bool:
        """Notes the start. False if the scripted error was answered instead."""
        prompt = DIRECTIVE.sub("", turn.prompt)[-80:].strip()
        facts.update(results=turn.results, tools=len(turn.tools), prompt=prompt)
        self.server.note("start", **facts)
        refusal = turn.refuse
        if turn.error and self.server.first_error(turn.prompt):
            refusal = turn.error
        if refusal:
            code, _, message = refusal.partition(" ")
            error = {"type": "scripted_error", "code": "scripted_error", "message": message or "scripted"}
            self.send_json({"type": "error", "error": error}, int(code))
            return False
        return True

    def do_HEAD(self) -> None:
        self.send_json({})

    def do_GET(self) -> None:
        self.server.note("get", path=self.path)
        if self.path.split("?")[0].endswith("/models"):
            models = [{"id": name, "object": "model", "type": "model"} for name in ("fake-model", "fake-small")]
            self.send_json({"object": "list", "data": models, "has_more": False})
        else:
            self.send_json({"error": "not here"}, 404)

    def do_POST(self) -> None:
        from scripted_model import anthropic, responses

        path = self.path.split("?")[0]
        body = self._body()
        self.server.bodies.append({"path": path, "body": body})
        if path.endswith("/messages/count_tokens"):
            self.send_json({"input_tokens": 42})
            return
        answer = {"/messages": anthropic.answer, "/responses": responses.answer}.get(path[path.rfind("/") :])
        if answer is None:
            self.server.note("unknown", path=path)
            self.send_json({"error": {"message": "unknown path"}}, 404)
            return
        facts: dict[str, Any] = {"path": path, "model": body.get("model")}
        try:
            answer(self, body, facts)
            self.server.note("done", **facts)
        except (BrokenPipeError, ConnectionResetError):
            self.server.note("client_gone", **facts)
            self.close_connection = True


def fresh_id(prefix: str) -> str:
    """An id as the model's makers spell them."""
    return prefix + uuid.uuid4().hex[:24]


def serve(port: int = 0, delay: float = 0.02) -> tuple[ScriptedModel, int]:
    """Starts a server in a thread: (server, its port). `delay` is in seconds before each piece of text.
    `server.close()` ends it."""
    server = ScriptedModel(port, delay)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server, int(server.server_address[1])
