"""Law 2, for every write of the relay at the real door: sent again with its command id, it is answered again and
done once; with another body it is refused with 422 and changes nothing."""

import base64
import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ekiden.client.requests import Request
from ekiden.hub.wiring import ENDPOINTS
from ekiden.kernel.door import Endpoint
from ekiden.kernel.ids import Prefix, new_id
from sessions.door import House, open_house

pytestmark = pytest.mark.anyio

DATA = base64.b64encode(b"a picture").decode()
PICTURE = hashlib.sha256(b"a picture").hexdigest()
WRITES: dict[str, tuple[Any, Any]] = {
    "POST /v1/channels": ({"name": "build"}, {"name": "other"}),
    "PATCH /v1/channels/{channel}": ({"topic": "a"}, {"topic": "b"}),
    "PUT /v1/channels/{channel}/members/{principal_id}": ({"role": "reviewer"}, {"role": "tester"}),
    "PUT /v1/channels/{channel}/attachments/{sha256}": ({"data": DATA}, {"data": DATA, "media_type": "image/png"}),
    "POST /v1/channels/{channel}/messages": ({"text": "one"}, {"text": "two"}),
    "PATCH /v1/channels/{channel}/messages/{message_id}": ({"text": "again"}, {"text": "anew"}),
    "PATCH /v1/channels/{channel}/threads/{thread_id}": ({"title": "a"}, {"title": "b"}),
    "POST /v1/channels/{channel}/acks": ({"upto": 1}, {"messages": ["{message_id}"]}),
    "POST /v1/mentions/surfaced": ({"messages": ["{message_id}"]}, {"messages": []}),
    "PUT /v1/channels/{channel}/status-rules": ({"rules": []}, {"rules": [{"pattern": "tests.*"}]}),
    "PUT /v1/channels/{channel}/status/{key}": ({"value": "green"}, {"value": "red"}),
    "DELETE /v1/channels/{channel}/status/{key}": ({}, {"if_version": 1}),
    "PUT /v1/channels/{channel}/leases/{name}": ({"lease_s": 60}, {"lease_s": 61}),
    "DELETE /v1/channels/{channel}/leases/{name}": ({"fence": 1}, {"fence": 0}),
    "DELETE /v1/channels/{channel}/messages/{message_id}": ({}, {"x": 1}),
    "POST /v1/channels/{channel}/purge": ({"before_number": 2}, {"before_number": 1}),
    "DELETE /v1/channels/{channel}/members/{principal_id}": ({}, {"x": 1}),
    "DELETE /v1/channels/{channel}": ({}, {"x": 1}),
}
"""Each write in an order in which all can be done: its body, and another one."""

BY_MEMBERS = {
    "POST /v1/directory",
    "POST /v1/channels/{channel}/epochs",
    "POST /v1/channels/{channel}/epochs/{epoch}/keys",
}
"""What only a member's own program can put together: tried with signatures in `ekiden.testing.relay`."""


def belongs(endpoint: Endpoint) -> bool:
    """Whether an endpoint is a write of the relay."""
    rooms = ("/v1/channels", "/v1/mentions", "/v1/directory", "/v1/relay")
    return endpoint.method != "GET" and endpoint.path.startswith(rooms)


def test_law_02_every_write_of_the_relay_is_tried() -> None:
    """One that comes later is missed here."""
    named = {f"{endpoint.method} {endpoint.path}" for endpoint in ENDPOINTS if belongs(endpoint)}
    assert named == {*WRITES, *BY_MEMBERS}


async def ask(house: House, method: str, path: str, body: Any, command_id: str) -> tuple[int, Any]:
    """Status and body of one request, as it came."""
    headers = {
        "authorization": f"Bearer {house.owner.key}",
        "content-type": "application/json",
        "command-id": command_id,
    }
    answer = await house.owner.transport.open(Request(method, path, headers, msgspec.json.encode(body)))
    try:
        whole = b"".join([piece async for piece in answer.chunks()])
    finally:
        await answer.close()
    return answer.status, msgspec.json.decode(whole) if whole else None


def filled(value: Any, things: dict[str, str]) -> Any:
    """A body with the ids of what is there."""
    return msgspec.json.decode(
        msgspec.json.encode(value).replace(b"{message_id}", things.get("message_id", "").encode())
    )


async def test_law_02_a_write_of_the_relay_is_done_once_and_never_as_another(tmp_path: Path) -> None:
    """The log does not move for what is sent again, nor for what is refused."""
    async with open_house(tmp_path) as house:
        me = await house.owner.get("/v1/me")
        things = {
            "channel": "build",
            "principal_id": me["principal_id"],
            "sha256": PICTURE,
            "key": "tests.unit",
            "name": "deploy",
        }
        for named, bodies in WRITES.items():
            method, template = named.split(" ")
            path = template.format_map(things)
            body, other = (filled(one, things) for one in bodies)
            command_id = new_id(Prefix.COMMAND)
            first = await ask(house, method, path, body, command_id)
            assert first[0] in (200, 201), (named, first)
            if "message" in (first[1] or {}) and "message_id" not in things:
                things["message_id"] = things["thread_id"] = first[1]["message"]["message_id"]
            head = await house.hub.log.bounds(house.hub.rooms.team_id)
            assert await ask(house, method, path, body, command_id) == first, named
            status, problem = await ask(house, method, path, other, command_id)
            assert (status, problem["code"]) == (422, "command_reused"), (named, status, problem)
            assert await house.hub.log.bounds(house.hub.rooms.team_id) == head, named
            if named == "POST /v1/channels/{channel}/messages":
                await house.owner.post(path, {"text": "reply", "thread_id": things["thread_id"]})
