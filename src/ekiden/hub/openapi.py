"""The description of the door: OpenAPI 3.1, made from the endpoints and the shapes that they carry.

Source: OpenAPI Specification 3.1.1; schemas are JSON Schema 2020-12 as msgspec derives them.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

import ekiden
from ekiden.hub.problems import Problem
from ekiden.hub.responses import COOKIE
from ekiden.kernel.canonical import encode
from ekiden.kernel.door import Endpoint

_PARAMETER = re.compile(r"\{(\w+)\}")
_REFERENCE = "#/components/schemas/{name}"


def describe(endpoints: Sequence[Endpoint]) -> bytes:
    """The whole description as canonical JSON."""
    shapes = [shape for endpoint in endpoints for shape in (endpoint.body, endpoint.answer) if shape is not None]
    unique = list(dict.fromkeys([*shapes, Problem]))
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REFERENCE)
    schema_of = dict(zip(unique, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schema_of)
    for component in components.values():
        _hide_secrets(component)
    return encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Ekiden",
                "version": ekiden.__version__,
                "description": "The one door of a hub. How the places hang together is told in docs/door.md.",
            },
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "key": {"type": "http", "scheme": "bearer"},
                    "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
                },
            },
        }
    )


def _hide_secrets(schema: dict[str, Any]) -> None:
    """`set_cookie_key` becomes a cookie on its way out; it is in no body."""
    schema.get("properties", {}).pop("set_cookie_key", None)
    if "set_cookie_key" in schema.get("required", ()):
        schema["required"] = [name for name in schema["required"] if name != "set_cookie_key"]


def _operation(endpoint: Endpoint, schema_of: dict[type, dict[str, Any]]) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(endpoint.path)
    ]
    parameters += [
        {"name": name, "in": "query", "description": meaning, "schema": {"type": "string"}}
        for name, meaning in endpoint.query
    ]
    if endpoint.method != "GET" and not endpoint.repeatable:
        parameters.append(
            {
                "name": "Command-Id",
                "in": "header",
                "description": "The client's own name for this write: the same again gets the same answer.",
                "schema": {"type": "string", "maxLength": 128},
            }
        )
    success: dict[str, Any] = {"description": HTTPStatus(endpoint.status).phrase}
    if endpoint.path == "/v1/stream":
        success["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    elif endpoint.answer is not None:
        success["content"] = {"application/json": {"schema": schema_of[endpoint.answer]}}
    else:
        success["content"] = {"application/json": {"schema": {"type": "object"}}}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": _operation_id(endpoint),
        "parameters": parameters,
        "responses": {
            str(endpoint.status): success,
            "default": {
                "description": "Refused or failed (RFC 9457).",
                "content": {"application/problem+json": {"schema": schema_of[Problem]}},
            },
        },
        "security": [] if endpoint.audience == "open" else [{"key": []}, {"cookie": []}],
        "x-ekiden-audience": endpoint.audience,
    }
    if endpoint.need is not None:
        operation["x-ekiden-need"] = {"verb": endpoint.need.verb, "resource": endpoint.need.resource}
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema_of[endpoint.body]}},
        }
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    words = re.findall(r"\w+", endpoint.path.removeprefix("/v1"))
    return "_".join((endpoint.method.lower(), *words))
