"""The description of the door is made from the code, and the door keeps to it."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ekiden.hub import openapi
from ekiden.hub.schemas import REFERENCE, Schemas
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import ENDPOINTS as REAL_ENDPOINTS
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from ekiden.sessions.wire import Approval, Feed, SessionView
from ekiden.testing.bridge import Bridge
from hub.door_kit import OWNER, SESSION, House, KeyRing, open_house

pytestmark = pytest.mark.anyio


def references(value: Any) -> set[str]:
    """Every `$ref` in a description."""
    match value:
        case dict():
            found = {value["$ref"]} if "$ref" in value else set()
            return found.union(*(references(part) for part in value.values()))
        case list():
            return set().union(*(references(part) for part in value))
        case _:
            return set()


def component(description: Any, reference: str) -> Any:
    return description["components"]["schemas"][reference.removeprefix(REFERENCE)]


def fits(value: Any, schema: Any, description: Any) -> bool:
    """Whether a JSON value is of the form that a schema of ours tells (the words of it that we use)."""
    if "$ref" in schema:
        return fits(
            value, description["components"]["schemas"][schema["$ref"].removeprefix(REFERENCE)], description
        )
    if "anyOf" in schema:
        return any(fits(value, one, description) for one in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    match schema.get("type"):
        case None:
            return True
        case "object":
            properties = schema.get("properties", {})
            return (
                isinstance(value, dict)
                and all(name in value for name in schema.get("required", ()))
                and all(
                    fits(part, properties[name], description) for name, part in value.items() if name in properties
                )
                and (not properties or set(value) <= set(properties))
            )
        case "array":
            return isinstance(value, list) and all(
                fits(one, schema.get("items", {}), description) for one in value
            )
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int)
        case "number":
            return isinstance(value, int | float)
        case "null":
            return value is None
        case other:
            raise AssertionError(f"no such type: {other}")


async def test_the_description_is_open_and_whole() -> None:
    """It is served without a key, is OpenAPI 3.1, and every reference in it leads somewhere."""
    async with open_house() as house:
        told = await house.json("GET", "/v1/openapi.json", key="")
    assert told["openapi"].startswith("3.1.")
    assert {reference.removeprefix(REFERENCE) for reference in references(told)} <= set(
        told["components"]["schemas"]
    )
    operations = [operation for place in told["paths"].values() for operation in place.values()]
    names = [operation["operationId"] for operation in operations]
    assert len(names) == len(set(names))


async def test_every_place_answers_as_its_description_says() -> None:
    """Each endpoint is knocked at: without a key it is closed unless it is described as open, and with one the
    answer has the status and form of the description, or is a problem."""
    bodies = {"/v1/pair": {"text": ""}, "/v1/hosts/{host_id}/feed": {"entries": []}}
    async with open_house() as house:
        told = await house.json("GET", "/v1/openapi.json", key="")
        problem = told["components"]["schemas"]["Problem"]
        for place, operations in told["paths"].items():
            if place == "/v1/stream":
                continue
            for method, operation in operations.items():
                target = place.replace("{session_id}", SESSION).replace("{host_id}", "hos_0000000000000000000h")
                body = bodies.get(place, {"text": "x"}) if "requestBody" in operation else None
                closed, _, refused = await house.ask(method.upper(), target, body, key="")
                assert (closed == 401) == bool(operation["security"]), place
                if closed == 401:
                    assert fits(msgspec.json.decode(refused), problem, told)
                key = "ekd_host" if operation["x-ekiden-audience"] == "host" else OWNER
                status, headers, data = await house.ask(method.upper(), target, body, key=key)
                answer = msgspec.json.decode(data)
                if str(status) in operation["responses"]:
                    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
                    if schema != {"type": "object"}:
                        assert fits(answer, schema, told), (place, answer)
                else:
                    assert headers["content-type"] == "application/problem+json", place
                    assert fits(answer, problem, told)


def test_the_real_rooms_are_described_whole() -> None:
    """Every endpoint of every room, each path parameter, each shape; a secret that becomes a cookie is in none."""
    data = openapi.describe(REAL_ENDPOINTS)
    told = msgspec.json.decode(data)
    assert b"set_cookie_key" not in data
    for endpoint in REAL_ENDPOINTS:
        operation = told["paths"][endpoint.path][endpoint.method.lower()]
        named = [one["name"] for one in operation["parameters"] if one["in"] == "path"]
        assert named == re.findall(r"\{(\w+)\}", endpoint.path)
        assert ("requestBody" in operation) == (endpoint.body is not None)
        assert str(endpoint.status) in operation["responses"]
    assert {reference.removeprefix(REFERENCE) for reference in references(told)} <= set(
        told["components"]["schemas"]
    )


def test_a_shape_with_json_of_its_own_as_default_can_be_described() -> None:
    """Approvals and items carry such fields; unions tell their variants apart by their tag."""
    schemas = Schemas()
    schemas.of(SessionView)
    schemas.of(Feed)
    assert schemas.components["Approval"]["properties"]["detail"] == {}
    entries = schemas.components["Feed"]["properties"]["entries"]["items"]
    assert entries["discriminator"]["propertyName"] == "entry"
    assert set(entries["discriminator"]["mapping"]) >= {"session", "items", "turn", "grew", "grown"}
    approval = Approval("apr_1", "ses_1", "trn_1", "q", "t", "tool")
    told = {"components": {"schemas": schemas.components}}
    assert fits(msgspec.json.decode(msgspec.json.encode(approval)), schemas.of(Approval), told)


async def test_the_real_rooms_answer_as_they_are_described(tmp_path: Path) -> None:
    """Every place of the real hub that can be read without more is read, on fresh data; the rest is closed to
    whoever has no key, or does not know the thing."""
    hub = await open_hub(Settings(tmp_path / "data"), SystemClock())
    await hub.start()
    house = House(hub, KeyRing(), Bridge(hub))
    key = (tmp_path / "data" / "local.key").read_text().strip()
    try:
        told = await house.json("GET", "/v1/openapi.json", key="")
        read = 0
        for endpoint in hub.endpoints:
            target = re.sub(r"\{\w+\}", "ses_00000000000000000000", endpoint.path)
            if endpoint.path == "/v1/stream":
                continue
            closed, _, _ = await house.ask(endpoint.method, target, {} if endpoint.body else None, key="")
            assert (closed == 401) == (endpoint.audience != "open"), endpoint.path
            if endpoint.method == "GET":
                at_once = f"{target}?seconds=1" if target.endswith("/wait") else target
                status, headers, data = await house.ask("GET", at_once, key=key)
                schema = told["components"]["schemas"]["Problem"]
                if status == endpoint.status:
                    read += 1
                    responses = told["paths"][endpoint.path]["get"]["responses"]
                    schema = responses[str(status)]["content"]["application/json"]["schema"]
                else:
                    assert headers["content-type"] == "application/problem+json"
                    assert status < 500, endpoint.path
                assert fits(msgspec.json.decode(data), schema, told), endpoint.path
        assert read >= 8
    finally:
        await house.bridge.close()
        await hub.stop()
