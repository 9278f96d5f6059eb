"""Law 13. Text from outside is data: never markup, never terminal control, never a wake-up, never an instruction.
The server's side of it: framing, headers, problems, policies."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.hub.frames import one_line, passing, stored
from ekiden.hub.pages import own_pages
from ekiden.hub.problems import problem_of
from ekiden.kernel.errors import Invalid
from ekiden.log.port import Actor, Event
from hub.door_kit import HOST_ID, HOST_KEY, SESSION, open_house

texts = st.text() | st.sampled_from(
    [
        'hi\revent: approval\rdata: {"ok":true}\r\r',
        "\n\nid: 9\n\n",
        "<script>top.location='//evil.example'</script>",
        "\x1b]0;owned\x07\x1b[2J",
        "\u2028\u2029\u0085\x0b\x0c",
        "\u202eevil",
        "\x00",
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)


@given(text=texts, kind=texts, topic=texts, name=texts, body=json_values, pretty=st.booleans())
def test_whatever_an_event_holds_it_is_one_frame_with_that_content(
    text: str, kind: str, topic: str, name: str, body: Any, pretty: bool
) -> None:
    """In every field: one `id` line, one `data` line, an empty line; and what is decoded is what was told."""
    raw = msgspec.json.encode({"text": text, "body": body})
    if pretty:
        raw = msgspec.json.format(raw, indent=2)
    frame = stored(Event(7, kind, (topic,), "2026-01-01T00:00:00.000Z", Actor("pri_x", "", name), raw), "abcdefgh")
    told = frame.data.decode()
    assert told.splitlines() == told.split("\n")[:-1]
    first, second, third, fourth = told.split("\n")
    assert (first, third, fourth) == ("id: abcdefgh.7", "", "")
    decoded = msgspec.json.decode(second.removeprefix("data: "))
    assert decoded["body"] == {"text": text, "body": body}
    assert (decoded["kind"], decoded["topic"], decoded["actor"]["name"]) == (kind, topic, name)


@given(body=json_values)
def test_a_frame_that_is_not_stored_is_as_safe(body: Any) -> None:
    """Growing text goes the same way."""
    told = passing("item.grew", body, (f"session:{SESSION}",)).data.decode()
    assert told.splitlines() == told.split("\n")[:-1] == [told.split("\n")[0], ""]
    assert msgspec.json.decode(told.removeprefix("data: "))["body"] == body


@given(value=json_values, pretty=st.booleans())
def test_one_line_is_the_same_value(value: Any, pretty: bool) -> None:
    """Whatever is escaped, JSON readers see the same."""
    raw = msgspec.json.format(msgspec.json.encode(value), indent=3 if pretty else -1)
    assert msgspec.json.decode(one_line(raw)) == value


@given(text=texts)
def test_a_problem_quotes_text_as_json_and_never_breaks(text: str) -> None:
    """Even half a surrogate pair in a message."""
    told = msgspec.json.decode(msgspec.json.encode(problem_of(Invalid(text + "\ud800", hint=text))))
    assert told["detail"] == text + "\ufffd"


@pytest.mark.anyio
async def test_hostile_text_cannot_reach_a_header_or_another_type() -> None:
    """What a caller writes into paths, queries, topics and ids comes back as JSON, or not at all."""
    async with open_house() as house:
        for target in (
            "/v1/%3Cscript%3E%0d%0aset-cookie:%20x=1",
            f"/v1/sessions/{SESSION}%0d%0ax:%20y",
            "/v1/stream?topics=%3Cscript%3E",
            "/v1/stream?topics=team&after=%0d%0aid:%209",
        ):
            status, headers, body = await house.ask("GET", target)
            assert status in (404, 422)
            assert headers["content-type"] == "application/problem+json"
            assert "set-cookie" not in headers
            assert not re.search(rb"[\r\n]", body)
        status, headers, _ = await house.ask("POST", "/v1/pair", {"text": "ekd_a\r\nset-cookie: b=1"}, key="")
        assert (status, "set-cookie" in headers) == (500, False)


@pytest.mark.anyio
async def test_growing_text_with_line_ends_stays_one_frame_each() -> None:
    """From a host's feed to a follower."""
    hostile = 'x\rdata: {"kind":"stream.end"}\r\n\r\n'
    entry = {
        "entry": "grew",
        "session_id": SESSION,
        "turn_id": "trn_0",
        "item_id": "itm_0",
        "kind": "message",
        "index": 0,
        "text": hostile,
    }
    async with open_house() as house, house.follow(f"session:{SESSION}") as stream:
        await stream.until("stream.hello")
        await house.json("POST", f"/v1/hosts/{HOST_ID}/feed", {"entries": [entry]}, HOST_KEY)
        frame = await stream.frame()
        assert (frame["kind"], frame["body"]["text"]) == ("item.grew", hostile)
        assert await stream.quiet() == []


@pytest.mark.anyio
async def test_the_page_runs_under_a_policy_without_inline_script() -> None:
    """The own page has no script of its own in its HTML, so that none that slips in can run."""
    async with open_house(pages=own_pages()) as house:
        _, headers, body = await house.ask("GET", "/", key="")
    policy = headers["content-security-policy"]
    assert "'unsafe" not in policy
    assert "data:" not in policy.split("script-src")[1].split(";")[0]
    for tag in re.findall(rb"<script[^>]*>", body):
        assert b"src=" in tag or b"importmap" in tag
    assert not re.search(rb"\son\w+=", body)
