"""Law 11: what a key may not read answers exactly like what does not exist.

Every endpoint of the door that names a thing in its path is tried, those that come later too: once with the id of
a thing that is there and that the key may not read, once with an id of the same form that nobody has.
"""

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ekiden.client.client import Client
from ekiden.hub.wiring import ENDPOINTS
from ekiden.kernel.door import Endpoint
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.ids import Prefix, new_id
from ekiden.sessions.wire import Approval, ApprovalOption, FeedApproval, FeedTurn
from sessions.door import House, open_house

pytestmark = pytest.mark.anyio

SECRET = b"a hidden picture"
EPOCH = {
    "channel_id": "cha_x",
    "epoch": 1,
    "members": [],
    "commitment": "",
    "previous": "",
    "at": "",
    "signer": "mky_x",
}
BODIES: dict[str, Any] = {
    "POST /v1/sessions/{session_id}/messages": {"text": "hello"},
    "POST /v1/sessions/{session_id}/interrupt": {"turn_id": "trn_00000000000000000001"},
    "POST /v1/sessions/{session_id}/quote": {"vendor": "demo"},
    "POST /v1/approvals/{approval_id}/answer": {"option": "yes", "digest": "d"},
    "POST /v1/hosts/{host_id}/seats": {"vendor": "demo", "native_id": "hidden"},
    "PATCH /v1/keys/{key_id}": {"permissions": {"team": ["read"]}},
    "POST /v1/hosts/{host_id}/answers": {"request_id": "req_1", "ok": True},
    "POST /v1/hosts/{host_id}/feed": {"entries": []},
    "PUT /v1/hosts/{host_id}": {"name": "x", "platform": "linux", "ekiden_version": "0"},
    "POST /v1/channels/{channel}/messages": {"text": "hello"},
    "POST /v1/channels/{channel}/epochs": {"epoch": EPOCH, "wraps": []},
    "POST /v1/channels/{channel}/epochs/{epoch}/keys": {"wraps": []},
    "PATCH /v1/channels/{channel}/messages/{message_id}": {"text": "hello"},
    "POST /v1/channels/{channel}/acks": {"upto": 1},
    "PUT /v1/channels/{channel}/status/{key}": {"value": "a hidden value"},
    "PUT /v1/channels/{channel}/status-rules": {"rules": []},
    "PUT /v1/channels/{channel}/leases/{name}": {"lease_s": 60},
    "PUT /v1/channels/{channel}/attachments/{sha256}": {"data": base64.b64encode(SECRET).decode()},
}
QUERIES = {"GET /v1/channels/{channel}/acks": "message"}
"""What must be named in the query as well: the parameter, with the message's id."""


async def answer_of(client: Client, endpoint: Endpoint, path: str) -> tuple[Any, ...]:
    """(status, code, message, hint, details) of a refusal, or the answer itself."""
    body = BODIES.get(f"{endpoint.method} {endpoint.path}", {})
    try:
        match endpoint.method:
            case "GET":
                return ("answered", await client.get_bytes(path))
            case "POST":
                return ("answered", await client.post(path, body))
            case "PUT":
                return ("answered", await client.put(path, body))
            case "PATCH":
                return ("answered", await client._write("PATCH", path, body, None, None, False))
            case "DELETE":
                return ("answered", await client.delete(path))
            case other:
                raise AssertionError(other)
    except EkidenError as error:
        return (error.status, error.code, error.message, error.hint, error.details)


async def things_of(house: House) -> dict[str, str]:
    """One thing of each kind that a path may name, by the name of its parameter."""
    async with house.host() as host:
        session_id = await host.session("hidden", title="a hidden title")
        await host.tell(
            FeedTurn(session_id, "trn_00000000000000000001", "running"),
            FeedApproval(
                Approval(
                    approval_id=new_id(Prefix.APPROVAL),
                    session_id=session_id,
                    turn_id="trn_00000000000000000001",
                    question="run_command",
                    title="Run?",
                    tool="sh",
                    options=(ApprovalOption("yes", "Yes", "allow_once"),),
                    digest="d",
                )
            ),
        )
        message = await house.owner.post(f"/v1/sessions/{session_id}/messages", {"text": "a hidden word"})
        view = await house.owner.get(f"/v1/sessions/{session_id}")
        pairing = await house.owner.post("/v1/pairings", {"name": "hidden"})
        keys = await house.owner.get("/v1/keys")
        channel = await house.owner.post("/v1/channels", {"name": "hidden", "topic": "a hidden topic"})
        picture = hashlib.sha256(SECRET).hexdigest()
        await house.owner.put(
            f"/v1/channels/hidden/attachments/{picture}", {"data": base64.b64encode(SECRET).decode()}
        )
        posted = await house.owner.post(
            "/v1/channels/hidden/messages",
            {
                "text": "a hidden word",
                "title": "a hidden thread",
                "attachments": [{"sha256": picture, "size": len(SECRET)}],
            },
        )
        await house.owner.put("/v1/channels/hidden/status/tests.unit", {"value": "a hidden value"})
        await house.owner.put("/v1/channels/hidden/leases/deploy", {"lease_s": 60})
        invite = await house.owner.post("/v1/invites", {"channels": ["hidden"]})
        return {
            "channel": "hidden",
            "epoch": "1",
            "key": "tests.unit",
            "name": "deploy",
            "channel_id": channel["channel_id"],
            "posted_id": posted["message"]["message_id"],
            "thread_id": posted["message"]["message_id"],
            "principal_id": posted["message"]["sender_id"],
            "sha256": picture,
            "session_id": session_id,
            "host_id": host.host_id,
            "approval_id": view["approvals"][0]["approval_id"],
            "message_id": message["message_id"],
            "item_id": "itm_1",
            "pairing_id": pairing["pairing_id"],
            "invite_id": invite["invite_id"],
            "key_id": next(key["key_id"] for key in keys["keys"] if key["name"] == "Workstation"),
        }


def path_of(endpoint: Endpoint, things: dict[str, str]) -> str:
    """The path of a thing; a message is one of a session or of a channel."""
    if endpoint.path.startswith("/v1/channels/"):
        things = {**things, "message_id": things.get("posted_id", things.get("message_id", ""))}
    path = endpoint.path.format_map(things)
    name = QUERIES.get(f"{endpoint.method} {endpoint.path}")
    return f"{path}?{name}={things['posted_id']}" if name else path


def missing(name: str) -> str:
    """A name of that kind that nobody has."""
    if name in PREFIXES:
        return new_id(PREFIXES[name])
    return {"channel": "nowhere", "epoch": "1", "sha256": hashlib.sha256(SECRET).hexdigest()}.get(name, "itm_1")


PREFIXES = {
    "session_id": Prefix.SESSION,
    "host_id": Prefix.HOST,
    "approval_id": Prefix.APPROVAL,
    "message_id": Prefix.MESSAGE,
    "invite_id": Prefix.INVITE,
    "posted_id": Prefix.MESSAGE,
    "thread_id": Prefix.MESSAGE,
    "principal_id": Prefix.PRINCIPAL,
    "pairing_id": Prefix.PAIRING,
    "key_id": Prefix.KEY,
}
NAMING = [endpoint for endpoint in ENDPOINTS if "{" in endpoint.path]


async def test_law_11_every_endpoint_answers_alike_for_what_is_hidden_and_what_is_not_there(
    tmp_path: Path,
) -> None:
    """For a key that may read another session only, and for one that may do nothing at all."""
    assert len(NAMING) >= 15
    async with open_house(tmp_path) as house:
        things = await things_of(house)
        elsewhere = {f"session:{new_id(Prefix.SESSION)}": ["read", "steer", "approve", "start"]}
        for name, permissions in (("neighbour", elsewhere), ("bystander", {"host:hos_nobody": ["read"]})):
            stranger = await house.device(name, permissions)
            for endpoint in NAMING:
                names = [*re.findall(r"\{(\w+)\}", endpoint.path), "posted_id"]
                nobodys = path_of(endpoint, {name: missing(name) for name in names})
                told = await answer_of(stranger, endpoint, path_of(endpoint, things))
                assert told == await answer_of(stranger, endpoint, nobodys), (endpoint.method, endpoint.path)
                assert told[0] in (403, 404), (endpoint.method, endpoint.path, told)


async def test_law_11_lists_streams_and_searches_hold_no_word_of_what_is_hidden(tmp_path: Path) -> None:
    """No count, title or snippet leaks; a stream that asks for a hidden topic brings nothing of it."""
    async with open_house(tmp_path) as house:
        things = await things_of(house)
        async with house.host("Other") as host:
            seen = await host.session("shown", title="a title that may be read")
            stranger = await house.device("stranger", {"team": ["read"], f"session:{seen}": ["read"]})
            listed = await stranger.get("/v1/sessions")
            assert [session["report"]["session_id"] for session in listed["sessions"]] == [seen]
            assert listed["total"] == 1
            host.answers["search"] = lambda arguments: {"hits": []}
            said = await stranger.get_bytes("/v1/search", text="hidden") + await stranger.get_bytes("/v1/inbox")
            for path, query in (("channels", {}), ("mentions", {}), ("relay/search", {"text": "hidden"})):
                said += await stranger.get_bytes(f"/v1/{path}", **query)
            topics = f"team,channels,channel:hidden,session:{seen},session:{things['session_id']}"
            async with stranger.stream(topics, after=f"{listed['cursor'].split('.')[0]}.0") as stream:
                async for frame in stream:
                    if frame.kind != "stream.hello":
                        said += msgspec.json.encode(frame)
                    if frame.topic == f"session:{seen}":
                        break
            for word in (
                "hidden",
                *(things[name] for name in ("session_id", "approval_id", "channel_id", "posted_id")),
            ):
                assert word.encode() not in said
