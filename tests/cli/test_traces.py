"""Traces reach a collector over OTLP, and hold nothing that was said, asked for or shown as a key."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from cli.conftest import Person
from ekiden.client.plain import PlainClient
from ekiden.kernel.errors import EkidenError

WORD = "wintergreen"
"""Stands wherever a person may put text."""


class Collector:
    """Takes what is exported to `/v1/traces`."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        collector = self

        class Taker(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.path == "/v1/traces"
                collector.bodies.append(body)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self) -> list[Span]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.bodies]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


def of(span: Span) -> dict[str, Any]:
    return {attribute.key: attribute.value.string_value for attribute in span.attributes}


def test_a_collector_gets_spans_of_requests_without_a_secret_in_them(person: Person, collector: Collector) -> None:
    """Those that were done, those that were refused with words that quote the person, and what they wrote.
    What is left when the hub ends is sent then."""
    person.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
    person.environment["OTEL_EXPORTER_OTLP_COMPRESSION"] = "none"
    process = person.up("--no-host")
    key = (person.data / "local.key").read_text().strip()
    with PlainClient(person.link.partition("/#")[0], key) as client:
        made = client.post("/v1/keys", {"name": WORD, "kind": "device"})
        client.get("/v1/sessions", text=WORD)
        for path, query in ((f"/v1/sessions/{WORD}", {}), ("/v1/sessions", {"state": WORD})):
            with pytest.raises(EkidenError):
                client.get(path, **query)
    process.terminate()
    assert process.wait(30) == 0
    spans = collector.spans()
    requests = [of(span) | {"failed": span.status.code} for span in spans if span.name == "request"]
    ok, failed = Status.STATUS_CODE_UNSET, Status.STATUS_CODE_ERROR
    for expected in (
        {"method": "POST", "route": "/v1/keys", "failed": ok},
        {"method": "GET", "route": "/v1/sessions", "failed": ok},
        {"method": "GET", "route": "/v1/sessions", "failed": failed, "error.type": "invalid"},
        {"method": "GET", "route": "/v1/sessions/{session_id}", "failed": failed, "error.type": "not_found"},
    ):
        assert expected in requests
    writing = next(span for span in spans if span.name == "log.write")
    assert writing.parent_span_id in {span.span_id for span in spans if span.name == "request"}
    told = b"".join(collector.bodies)
    assert b"ekiden" in told
    for secret in (WORD, key, made["key"], made["key_id"]):
        assert secret.encode() not in told
    assert all(not span.events for span in spans)
