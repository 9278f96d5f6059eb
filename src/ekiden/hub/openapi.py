"""The description of the door: OpenAPI 3.1, made from the endpoints and the shapes that they carry.

Source: OpenAPI Specification 3.1.1; schemas are JSON Schema 2020-12 (`schemas`).
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import ekiden
from ekiden.hub.problems import Problem
from ekiden.hub.responses import COOKIE
from ekiden.hub.schemas import Schemas
from ekiden.kernel.canonical import encode
from ekiden.kernel.door import Endpoint
from ekiden.kernel.limits import COMMAND_ID_CHARS_MAX

_PARAMETER = re.compile(r"\{(\w+)\}")


def describe(endpoints: Sequence[Endpoint]) -> bytes:
    """The whole description as canonical JSON."""
    schemas = Schemas(hidden=("set_cookie_key",))
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
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
                "schemas": schemas.components,
                "securitySchemes": {
                    "key": {"type": "http", "scheme": "bearer"},
                    "cookie": {"type": "apiKey", "in": "cookie", "name": COOKIE},
                },
            },
        }
    )


def _operation(endpoint: Endpoint, schemas: Schemas) -> dict[str, Any]:
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
                "schema": {"type": "string", "maxLength": COMMAND_ID_CHARS_MAX},
            }
        )
    success: dict[str, Any] = {"description": HTTPStatus(endpoint.status).phrase}
    if endpoint.path == "/v1/stream":
        success["content"] = {"text/event-stream": {"schema": {"type": "string"}}}
    elif endpoint.answer is not None:
        success["content"] = {"application/json": {"schema": schemas.of(endpoint.answer)}}
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
                "content": {"application/problem+json": {"schema": schemas.of(Problem)}},
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
            "content": {"application/json": {"schema": schemas.of(endpoint.body)}},
        }
    return operation


def _operation_id(endpoint: Endpoint) -> str:
    words = re.findall(r"\w+", endpoint.path.removeprefix("/v1"))
    return "_".join((endpoint.method.lower(), *words))
