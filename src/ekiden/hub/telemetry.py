"""Traces by OpenTelemetry, for those who have a collector: spans of requests, log writes and questions to hosts.

They are made if `OTEL_EXPORTER_OTLP_ENDPOINT` is set and the extra `ekiden[telemetry]` is installed; otherwise
nothing is imported, and a span is one shared object that does nothing. Spans hold templates of paths, names of
verbs and codes of errors: no ids, no text, no keys. An error's own words may quote what a person wrote: they are
left out, and so is where it arose.
"""

import contextlib
import logging
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from ekiden.kernel.errors import EkidenError

_log = logging.getLogger("ekiden.hub")
_NOTHING: AbstractContextManager[Any] = contextlib.nullcontext()
_tracer: Any = None
_failed: Any = None


def begin(environment: Mapping[str, str]) -> bool:
    """Begins to trace if the environment asks for it; whether it does."""
    global _tracer, _failed
    if not environment.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        return False
    try:
        import importlib

        trace = importlib.import_module("opentelemetry.trace")
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        resources = importlib.import_module("opentelemetry.sdk.resources")
        otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
    except ImportError:
        _log.warning("OTEL_EXPORTER_OTLP_ENDPOINT is set, but: pip install 'ekiden[telemetry]'")
        return False
    provider = sdk.TracerProvider(resource=resources.Resource.create({"service.name": "ekiden"}))
    provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    _tracer = trace.get_tracer("ekiden")
    _failed = trace.Status(trace.StatusCode.ERROR)
    return True


def span(name: str, **attributes: str) -> AbstractContextManager[Any]:
    """A span around what is done in it."""
    if _tracer is None:
        return _NOTHING
    return _traced(name, attributes)


@contextlib.contextmanager
def _traced(name: str, attributes: Mapping[str, str]) -> Generator[Any]:
    quiet = {"record_exception": False, "set_status_on_exception": False}
    with _tracer.start_as_current_span(name, attributes=attributes, **quiet) as made:
        try:
            yield made
        except Exception as error:
            made.set_attribute(
                "error.type", error.code if isinstance(error, EkidenError) else type(error).__name__
            )
            made.set_status(_failed)
            raise
