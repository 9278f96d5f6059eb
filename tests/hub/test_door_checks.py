"""What the door looks at before any code of a room runs."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from ekiden.hub import door, reading, refusals
from ekiden.hub.checks import Checks
from ekiden.hub.serve import Serving
from ekiden.hub.settings import Settings
from ekiden.kernel.errors import Forbidden
from hub.door_kit import HOST_KEY, OTHER_SESSION, OWNER, SESSION, TEAM, WAIT_S, House, open_house
from hub.raw_http import Answered, raw_request

pytestmark = pytest.mark.anyio


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as house:
        yield house


PLACES = (
    ("POST", "/v1/say", b'{"text":"x"}'),
    ("POST", f"/v1/sessions/{SESSION}/say", b'{"text":"x"}'),
    ("GET", "/v1/stream?topics=team", b""),
    ("GET", f"/v1/sessions/{SESSION}", b""),
    ("POST", "/v1/pair", b'{"text":"ekd_x"}'),
    ("GET", "/healthz", b""),
)


@pytest.mark.parametrize(("method", "target", "body"), PLACES)
@pytest.mark.parametrize(
    "strange",
    [
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example:7433"},
        {"Host": "evil.example:80@localhost"},
        {"Host": "127.0.0.1.nip.io"},
        {"Host": "localhost:x"},
        {"Host": ""},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": ""},
    ],
    ids=lambda strange: "-".join(f"{name}={value or 'empty'}" for name, value in strange.items()),
)
async def test_a_page_of_a_stranger_gets_403_and_no_room_runs(
    served: tuple[House, Serving], method: str, target: str, body: bytes, strange: dict[str, str]
) -> None:
    """A wrong Host or Origin is refused everywhere, for reads, writes, streams and open places."""
    house, serving = served
    answer = await raw_request(serving.port, method, target, body, key=OWNER, headers=strange)
    assert answer.status == 403
    assert answer.problem["code"] == "forbidden"
    assert (await house.hub.log.bounds(TEAM))[1] == 0
    assert len(house.hub.streams) == 0


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
@pytest.mark.parametrize("with_port", [True, False])
@pytest.mark.parametrize("with_origin", [True, False])
async def test_own_names_pass(
    served: tuple[House, Serving], host: str, with_port: bool, with_origin: bool
) -> None:
    """The loopback names, with the own port or none, with the own origin or none, are answered."""
    _, serving = served
    authority = f"{host}:{serving.port}" if with_port else host
    headers = {"Host": authority} | ({"Origin": f"http://{authority}"} if with_origin else {})
    answer = await raw_request(serving.port, "POST", "/v1/say", b'{"text":"x"}', key=OWNER, headers=headers)
    assert answer.status == 200


async def test_a_form_of_another_site_cannot_write(house: House) -> None:
    """What a browser sends without asking first (text/plain, a form, nothing) is no write."""
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
        "application/jsonx",
    ):
        status, _, body = await house.ask("POST", "/v1/say", b'{"text":"x"}', content_type=kind)
        assert (status, msgspec.json.decode(body)["code"]) == (415, "wrong_type")
    assert (await house.hub.log.bounds(TEAM))[1] == 0
    for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"):
        assert (await house.ask("POST", "/v1/say", b'{"text":"x"}', content_type=kind))[0] == 200


async def test_a_picture_of_another_site_cannot_read(house: House) -> None:
    """A browser says where a request comes from even when it sends no Origin."""
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        assert (await house.ask("GET", f"/v1/sessions/{SESSION}", sec_fetch_site=site))[0] == status


@pytest.mark.parametrize("target", [f"/v1/stream?topics=team&key={OWNER}", f"/v1/{OWNER}", "/v1/x?k=%65%6bd_x"])
async def test_a_key_in_a_url_is_refused_even_beside_a_good_one(house: House, target: str) -> None:
    """It is refused as such, in the path or the query, spelled out or encoded, and stands in no record."""
    status, _, body = await house.ask("GET", target)
    assert status == 422
    assert b"key does not belong in a URL" in body
    await house.hub._refusals.close()
    assert [refusal.reason for refusal in house.gate.recorded] == ["key_in_url"]
    assert "ekd_" not in str(house.gate.recorded)


async def test_nothing_that_reads_changes_anything_by_get(house: House) -> None:
    """A place that writes does not answer to GET, and says what it answers to."""
    status, headers, body = await house.ask("GET", "/v1/say")
    assert (status, headers["allow"]) == (405, "POST")
    assert msgspec.json.decode(body)["code"] == "method_not_allowed"
    for method in ("OPTIONS", "TRACE", "PATCH"):
        status, headers, _ = await house.ask(method, "/v1/say")
        assert status == 405
        assert not [name for name in headers if name.startswith("access-control")]


async def test_without_a_key_or_with_a_wrong_one_nobody_is_let_in(house: House) -> None:
    """Even on loopback, and the answer does not tell a key that never was from one that was revoked."""
    house.gate.give("ekd_gone", {"*": ["read"]})
    del house.gate.identities["ekd_gone"]
    told: set[bytes] = set()
    for headers in ({"authorization": "Bearer ekd_gone"}, {"authorization": "Bearer ekd_never"}):
        status, head, body = await house.ask("GET", f"/v1/sessions/{SESSION}", key="", **headers)
        assert (status, head["www-authenticate"]) == (401, "Bearer")
        told.add(body)
    assert len(told) == 1
    for headers in ({}, {"authorization": "Basic b3duZXI6"}, {"cookie": "other=1"}, {"cookie": "ekiden="}):
        assert (await house.ask("GET", f"/v1/sessions/{SESSION}", key="", **headers))[0] == 401


async def test_the_cookie_is_as_good_as_the_header(house: House) -> None:
    """The page signs in by its cookie; the header goes before it."""
    cookie = f"a=b; ekiden={OWNER}; c=d"
    assert (await house.ask("GET", f"/v1/sessions/{SESSION}", key="", cookie=cookie))[0] == 200
    status, _, _ = await house.ask("GET", f"/v1/sessions/{SESSION}", key="ekd_wrong", cookie=cookie)
    assert status == 401


async def test_what_may_not_be_read_answers_like_what_is_not_there(house: House) -> None:
    """Law 11: status, headers and body are the same, for reads and for writes."""
    house.gate.give("ekd_one", {f"session:{SESSION}": ["read"]})
    missing = "ses_0000000000000000000z"
    for method, tail in (("GET", ""), ("GET", "/growing"), ("POST", "/say")):
        hidden = await house.ask(method, f"/v1/sessions/{OTHER_SESSION}{tail}", None, "ekd_one")
        absent = await house.ask(method, f"/v1/sessions/{missing}{tail}", None, "ekd_one")
        assert hidden == absent
        assert hidden[0] == 404
    owner_asks = await house.ask("GET", f"/v1/sessions/{missing}")
    assert owner_asks == await house.ask("GET", f"/v1/sessions/{OTHER_SESSION}", None, "ekd_one")


async def test_what_may_be_read_but_not_done_is_said_so(house: House) -> None:
    """A key that may see a thing is told that it may not do this to it."""
    house.gate.give("ekd_one", {f"session:{SESSION}": ["read"]})
    status, _, body = await house.ask("POST", f"/v1/sessions/{SESSION}/say", {"text": "x"}, "ekd_one")
    assert (status, msgspec.json.decode(body)["code"]) == (403, "forbidden")


async def test_a_revoked_key_is_refused_with_the_next_request(house: House) -> None:
    """The door remembers who a key is, and forgets it as soon as keys change."""
    house.gate.give("ekd_one", {"*": ["read"]})
    for _ in range(5):
        assert (await house.ask("GET", f"/v1/sessions/{SESSION}", None, "ekd_one"))[0] == 200
    assert house.gate.asked == max(1, len(house.nodes))
    del house.gate.identities["ekd_one"]
    await house.say("key_one", "access", kind="key.revoked")
    assert (await house.ask("GET", f"/v1/sessions/{SESSION}", None, "ekd_one"))[0] == 401


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"more":' + b"[" * 100_000, "not JSON"),
        (b'{"text":1}', "$.text"),
        (b"{}", "text"),
        (b'"text"', "form"),
        (b'{"text":"\\ud800"}', "not JSON"),
    ],
)
async def test_a_body_of_another_form_is_refused_with_the_place(house: House, body: bytes, says: str) -> None:
    """Broken JSON, broken text, nesting without end and wrong fields are 422, never 500."""
    status, _, told = await house.ask("POST", "/v1/say", body)
    assert status == 422
    assert says in msgspec.json.decode(told)["detail"]


async def test_a_body_over_the_bound_is_refused_whether_it_says_so_or_not(
    served: tuple[House, Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A declared size is refused before the body is read; an undeclared one as soon as it is over."""
    monkeypatch.setattr(reading, "REQUEST_BODY_BYTES_MAX", 1_000)
    monkeypatch.setattr(door, "REQUEST_BODY_BYTES_MAX", 1_000)
    _, serving = served
    declared = await raw_request(
        serving.port, "POST", "/v1/say", b"", key=OWNER, headers={"Content-Length": "1000000"}
    )
    assert (declared.status, declared.problem["details"]["max"]) == (413, 1_000)
    chunked = b"".join(b"%x\r\n%b\r\n" % (400, b"x" * 400) for _ in range(4)) + b"0\r\n\r\n"
    streamed = await raw_request(
        serving.port, "POST", "/v1/say", chunked, key=OWNER, headers={"Transfer-Encoding": "chunked"}
    )
    assert streamed.status == 413


async def test_a_body_that_does_not_come_is_not_waited_for_for_ever(
    served: tuple[House, Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender that stops in the middle is told so and its connection ends."""
    monkeypatch.setattr(reading, "REQUEST_BODY_WAIT_S", 0.05)
    _, serving = served
    answer = await raw_request(
        serving.port, "POST", "/v1/say", b'{"te', key=OWNER, headers={"Content-Length": "12"}
    )
    assert (answer.status, answer.problem["code"]) == (408, "body_late")
    assert answer.headers["connection"] == "close"


async def test_the_same_command_gets_the_same_answer_and_another_body_is_refused(house: House) -> None:
    """Law 2 at the door: the first answer again with its mark, and 422 for the same name on something else."""
    first = await house.ask("POST", "/v1/say", {"text": "a"}, command_id="c1")
    again = await house.ask("POST", "/v1/say", {"text": "a"}, command_id="c1")
    assert first[2] == again[2]
    assert "command-repeated" not in first[1]
    assert again[1]["command-repeated"] == "true"
    status, _, body = await house.ask("POST", "/v1/say", {"text": "b"}, command_id="c1")
    assert (status, msgspec.json.decode(body)["code"]) == (422, "command_reused")
    assert (await house.ask("POST", f"/v1/sessions/{SESSION}/say", {"text": "a"}, command_id="c1"))[0] == 422
    assert (await house.hub.log.bounds(TEAM))[1] == 1
    for _ in range(2):
        await house.json("POST", "/v1/say", {"text": "a"})
    assert (await house.hub.log.bounds(TEAM))[1] == 3


@pytest.mark.parametrize("name", ["", "x" * 129, "a\tb", "\u00fc"])
async def test_a_command_id_is_short_and_plain(house: House, name: str) -> None:
    """Anything else is refused before the room runs."""
    status, _, _ = await house.ask("POST", "/v1/say", {"text": "a"}, command_id=name)
    assert status == 422


async def test_an_unforeseen_failure_tells_nothing_of_the_inside(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """The client learns that it failed, the log where; the exception's text may quote a key and goes nowhere."""
    with caplog.at_level(logging.ERROR, "ekiden.hub"):
        status, headers, body = await house.ask("GET", "/v1/boom")
    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in body.decode() + caplog.text
    assert "RuntimeError in GET /v1/boom" in caplog.text
    assert "in boom" in caplog.text


async def test_every_answer_carries_the_security_headers(house: House) -> None:
    """Successes, problems and streams alike; and no answer opens the door to other origins."""
    for method, target in (("POST", "/v1/say"), ("GET", "/v1/boom"), ("GET", "/v1/nowhere"), ("GET", "/healthz")):
        _, headers, _ = await house.ask(method, target, {"text": "x"} if method == "POST" else None)
        _check_security(headers)
    async with house.follow("team") as stream:
        await stream.frame()
        _check_security(dict(stream._answer.headers))


def _check_security(headers: dict[str, str]) -> None:
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert not [name for name in headers if name.startswith("access-control")]


async def test_a_paired_page_gets_its_key_as_a_cookie_and_nowhere_else(house: House) -> None:
    """The key is in the cookie, which scripts cannot read and other sites cannot send, and not in the body."""
    _, headers, body = await house.ask("POST", "/v1/pair", {"text": "ekd_fresh"}, key="")
    assert msgspec.json.decode(body) == {"state": "confirmed"}
    cookie = headers["set-cookie"]
    assert cookie.startswith("ekiden=ekd_fresh; ")
    for word in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="):
        assert word in cookie
    assert "Secure" not in cookie
    _, headers, body = await house.ask("POST", "/v1/pair", {"text": ""}, key="")
    assert "set-cookie" not in headers


async def test_behind_https_the_cookie_is_secure_and_only_https_pages_are_own() -> None:
    """A hub that people reach by https trusts no page that came by http under its name."""
    settings = Settings(Path("unused"), url="https://agents.example")
    async with open_house(settings=settings) as house:
        _, headers, _ = await house.ask("POST", "/v1/pair", {"text": "ekd_fresh"}, key="", host="agents.example")
        assert headers["set-cookie"].endswith("; Secure")
        for origin, status in (("https://agents.example", 200), ("http://agents.example", 403)):
            told = await house.ask("POST", "/v1/pair", {"text": ""}, key="", host="agents.example", origin=origin)
            assert told[0] == status


async def test_a_proxied_request_is_not_taken_for_one_of_this_computer(house: House) -> None:
    """Pairing confirms itself only for programs of this computer that came straight."""
    assert (await house.json("POST", "/v1/pair", {"text": ""}, ""))["state"] == "confirmed"
    for name in ("x_forwarded_for", "forwarded", "via", "x_real_ip"):
        told = await house.json("POST", "/v1/pair", {"text": ""}, "", **{name: "203.0.113.9"})
        assert told["state"] == "waiting"
    house.bridge._client = ("203.0.113.9", 1)
    assert (await house.json("POST", "/v1/pair", {"text": ""}, ""))["state"] == "waiting"


async def test_refusals_are_recorded_once_a_minute_and_within_a_bound(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who knocks a thousand times does not fill the disk, and that more was dropped is told."""
    monkeypatch.setattr(refusals, "REFUSALS_RECORDED_PER_MINUTE_MAX", 3)
    for number in range(50):
        house.gate.give(f"ekd_{number}", {})
        await house.ask("GET", f"/v1/sessions/{SESSION}", None, f"ekd_{number}")
        await house.ask("GET", f"/v1/sessions/{SESSION}", None, "ekd_wrong")
    await house.hub._refusals.close()
    assert [refusal.reason for refusal in house.gate.recorded] == ["not_allowed", "unknown_key", "not_allowed"]
    assert house.gate.recorded[0].path == "/v1/sessions/{session_id}"
    assert house.gate.recorded[0].key_id == "key_0"
    assert house.hub._refusals._dropped + house.gate.dropped == 97


async def test_a_host_key_may_do_a_hosts_work_and_nothing_else(house: House) -> None:
    """Its own feed is taken; what others may do is not there for it."""
    feed = {"entries": []}
    own, other = "hos_0000000000000000000h", "hos_0000000000000000000x"
    assert (await house.ask("POST", f"/v1/hosts/{own}/feed", feed, HOST_KEY))[0] == 200
    assert (await house.ask("POST", f"/v1/hosts/{other}/feed", feed, HOST_KEY))[0] == 404
    assert (await house.ask("POST", "/v1/say", {"text": "x"}, HOST_KEY))[0] == 404


async def test_a_name_that_was_allowed_by_setting_is_answered() -> None:
    """For a hub that others in the house reach: its names, with the port if one is said."""
    checks = Checks(("pc.lan", "192.168.1.7:7433"), secure=False)
    for host in (b"pc.lan", b"PC.lan:80", b"192.168.1.7:7433"):
        checks.address({b"host": host}, "/")
    for host in (b"192.168.1.7", b"192.168.1.7:80", b"pc.lan.evil", b"apc.lan"):
        with pytest.raises(Forbidden):
            checks.address({b"host": host}, "/")


async def test_requests_on_one_connection_stay_apart(served: tuple[House, Serving]) -> None:
    """Many at once over many sockets: each gets its own answer."""
    _, serving = served

    async def one(number: int) -> Answered:
        body = msgspec.json.encode({"text": str(number)})
        return await raw_request(serving.port, "POST", "/v1/say", body, key=OWNER)

    async with asyncio.timeout(WAIT_S):
        answers = await asyncio.gather(*(one(number) for number in range(40)))
    assert sorted(answer.json["seq"] for answer in answers) == list(range(1, 41))
