"""Who may come in, on every real place of the door: pages of strangers, no key, keys for something else."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from cases.desk import Desk, thread_id
from ekiden.kernel.errors import EkidenError
from hub.raw_http import raw_request
from vendors.claude.files import encode, user

pytestmark = pytest.mark.anyio

S1, S2 = thread_id(1), thread_id(2)
STRANGE: tuple[Mapping[str, str], ...] = (
    {"Host": "evil.example"},
    {"Host": "localhost.evil.example"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
)
OPEN = {"/healthz", "/v1/openapi.json", "/v1/pairings/claim", "/v1/pairings/collect", "/v1/invites/claim"}
METHODS = ("get", "post", "put", "patch", "delete")
EXAMPLES = {
    "session_id": "ses_x",
    "item_id": "itm_x",
    "message_id": "msg_x",
    "approval_id": "apr_x",
    "host_id": "hst_x",
    "key_id": "key_x",
    "pairing_id": "pai_x",
}
"""What stands for a name in a path; `x` for any other."""


async def places(desk: Desk) -> list[tuple[str, str]]:
    """(method, target) of every place, with ids filled in; the stream too."""
    described = (await desk.client.get("/v1/openapi.json"))["paths"]
    found = []
    for path, methods in described.items():
        target = re.sub(r"\{(\w+)\}", lambda found: EXAMPLES.get(found[1], "x"), path)
        found += [(method.upper(), target) for method in methods if method in METHODS]
    assert len(found) > 90
    return found


async def test_a_page_of_a_stranger_reaches_nothing(desk: Desk) -> None:
    """Each place, by each wrong name or origin, with a good key: refused before anything runs, and nothing is
    written; what a browser sends without asking first is no write."""
    await desk.up()
    assert desk.serving is not None
    hub = desk.serving.hub
    before = (await hub.log.bounds(hub.rooms.team_id))[1]
    refused = 0
    for method, target in await places(desk):
        for strange in STRANGE:
            if "Sec-Fetch-Site" in strange and not target.startswith("/v1/"):
                continue
            answer = await raw_request(
                desk.port, method, target, b"{}" if method != "GET" else b"", key=desk.client.key, headers=strange
            )
            assert (answer.status, answer.problem["code"]) == (403, "forbidden"), (method, target, strange)
            refused += 1
        if method in ("POST", "PUT", "PATCH"):
            answer = await raw_request(
                desk.port, method, target, b"{}", key=desk.client.key, headers={"Content-Type": "text/plain"}
            )
            assert answer.status == 415, (method, target)
    assert refused > 400
    events = await hub.log.events(hub.rooms.team_id, before, limit=1_000)
    assert {event.kind for event in events} <= {"access.refused", "host.changed"}


async def test_loopback_is_no_key(desk: Desk) -> None:
    """Every place but the open ones asks for a key from this computer as well."""
    await desk.up()
    for method, target in await places(desk):
        if target in OPEN or not target.startswith("/v1/"):
            continue
        answer = await raw_request(desk.port, method, target, b"{}" if method != "GET" else b"")
        assert (answer.status, answer.problem["code"]) == (401, "unauthenticated"), (method, target)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]"])
async def test_own_names_reach_the_real_rooms(desk: Desk, name: str) -> None:
    """With the port, with the own origin and without one."""
    await desk.up()
    for headers in ({}, {"Origin": f"http://{name}:{desk.port}"}):
        host = {"Host": f"{name}:{desk.port}"}
        answer = await raw_request(desk.port, "GET", "/v1/sessions", key=desk.client.key, headers=host | headers)
        assert answer.status == 200


async def test_what_a_key_may_not_read_looks_like_what_is_not_there(desk: Desk) -> None:
    """A key for one session: no place tells anything of the other one, by status, body, count, title or
    excerpt."""
    for native_id, word in ((S1, "public"), (S2, "secretive")):
        desk.claude(native_id, encode([user("u", None, f"{word} words")]))
    await desk.up()
    mine, other = await desk.read(S1), await desk.read(S2)
    await desk.until(lambda: desk.finds("secretive"))
    client = await desk.device("Phone", {"team": ["read"], f"session:{mine.session_id}": ["read"]})

    async def told(method: str, path: str, body: Any = None) -> tuple[int, str]:
        try:
            send = {"GET": client.get, "POST": client.post, "DELETE": client.delete}[method]
            answer = await (send(path) if body is None else send(path, body))
        except EkidenError as error:
            return error.status, f"{error.code} {error.message} {error.hint} {sorted(error.details)}"
        return 200, json.dumps(answer)

    for method, path, body in (
        ("GET", "/v1/sessions/{}", None),
        ("GET", "/v1/sessions/{}/items", None),
        ("GET", "/v1/sessions/{}/items/itm_x", None),
        ("GET", "/v1/sessions/{}/raw", None),
        ("POST", "/v1/sessions/{}/messages", {"text": "x"}),
        ("POST", "/v1/sessions/{}/interrupt", {"turn_id": "trn_x"}),
        ("POST", "/v1/sessions/{}/continue", None),
        ("POST", "/v1/sessions/{}/fork", None),
        ("POST", "/v1/sessions/{}/release", None),
        ("POST", "/v1/sessions/{}/quote", {"vendor": "demo"}),
    ):
        unknown = await told(method, path.format("ses_never"), body)
        assert await told(method, path.format(other.session_id), body) == unknown
        assert unknown[0] == 404
    for path in ("/v1/sessions", "/v1/search?text=secretive", "/v1/search?text=words", "/v1/inbox", "/v1/hosts"):
        status, answer = await told("GET", path)
        assert status == 200
        assert other.session_id not in answer
        assert "secretive" not in answer
    page = await client.get("/v1/sessions")
    assert (page["total"], len(page["sessions"])) == (1, 1)
    hits = (await client.get("/v1/search", text="words")).get("hits", ())
    assert [hit["session_id"] for hit in hits] == [mine.session_id]
