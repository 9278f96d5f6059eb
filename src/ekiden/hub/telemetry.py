"""Traces by OpenTelemetry, for those who have a collector: spans of requests, log writes and questions to hosts.

They are made if `OTEL_EXPORTER_OTLP_ENDPOINT` is set and the extra `ekiden[telemetry]` is installed; otherwise
nothing is imported, and a span is one shared object that does nothing. Spans hold templates of paths and names of
verbs: no ids, no text, no keys.
"""

import contextlib
import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

_log = logging.getLogger("ekiden.hub")
_NOTHING: AbstractContextManager[Any] = contextlib.nullcontext()
_tracer: Any = None


def begin(environment: Mapping[str, str]) -> bool:
    """Begins to trace if the environment asks for it; whether it does."""
    global _tracer
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
    return True


def span(name: str, **attributes: str) -> AbstractContextManager[Any]:
    """A span around what is done in it."""
    if _tracer is None:
        return _NOTHING
    return _tracer.start_as_current_span(name, attributes=attributes)
