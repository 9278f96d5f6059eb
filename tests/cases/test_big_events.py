"""Events of every size from a runtime and from a file: none ends a reader, a turn, a host or a stream."""

import sys
from pathlib import Path

import pytest

from cases.desk import Desk, thread_id
from ekiden.kernel.limits import GROWING_TEXT_BYTES_MAX
from ekiden.sessions.wire import Growing
from vendors.claude.files import assistant, encode, user
from vendors.codex.files import joined, meta, written

pytestmark = pytest.mark.anyio

SIZES = (65_535, 65_537, 1_048_577, 12_000_000)
ESCAPED = (65_535, 3_000_000)
"""Of a character that JSON writes as six: the second is over what one request may hold."""
STUB = f"""#!{sys.executable}
import json, pathlib, sys, time
if "--version" in sys.argv:
    print("2.1.332 (Claude Code)")
    sys.exit()
def say(**fields):
    sys.stdout.write(json.dumps(fields) + "\\n")
    sys.stdout.flush()
def delta(text):
    say(type="stream_event", event={{"type": "content_block_delta", "index": 0,
        "delta": {{"type": "text_delta", "text": text}}}})
turn = 0
for line in sys.stdin:
    order = json.loads(line)
    if order["type"] == "control_request":
        say(type="control_response", response={{"subtype": "success", "request_id": order["request_id"]}})
    elif order["type"] == "user":
        turn += 1
        say(type="user", uuid=order["uuid"], isReplay=True, message=order["message"])
        begun = {{"type": "message_start", "message": {{"id": f"m{{turn}}"}}}}
        say(type="stream_event", uuid=f"e{{turn}}", event=begun)
        for size in SIZES if turn == 1 else ():
            delta(FILLING * size)
            delta("|")
        delta("small")
        if turn == 1:
            while not pathlib.Path(__file__).with_name("may_end").exists():
                time.sleep(0.02)
            say(type="result", subtype="success")
        else:
            sys.stdout.write('{{"type": "result", "pad": "' + "x" * 3_000_000)
            sys.stdout.flush()
            sys.exit(3)
"""


@pytest.mark.parametrize(("filling", "sizes"), [("x", SIZES), ("\x01", ESCAPED)], ids=["letters", "escapes"])
async def test_a_runtimes_events_of_any_size_reach_the_stream(
    desk: Desk, filling: str, sizes: tuple[int, ...]
) -> None:
    """Text of each size with a small piece behind it is told up to the bound of a growing item, without a hole;
    the turn ends, the host stays, and a last line without an end is the end of that process only."""
    program = Path(desk.environment["PATH"].split(":")[0]) / "claude"
    program.write_text(STUB.replace("FILLING", repr(filling)).replace("SIZES", repr(sizes)))
    await desk.up()
    body = {"host_id": desk.host_id, "vendor": "claude", "cwd": str(desk.project)}
    session_id = (await desk.client.post("/v1/sessions", body))["session_id"]
    pieces: list[str] = []
    told = 0
    cut: list[bool] = []
    whole = "|".join(filling * size for size in sizes) + "|small"
    fits = whole[:GROWING_TEXT_BYTES_MAX]
    async with desk.client.stream(f"session:{session_id}") as stream:
        async for frame in stream:
            if frame.kind == "stream.hello":
                await desk.client.post(f"/v1/sessions/{session_id}/messages", {"text": "go"})
            elif frame.kind == "item.grew":
                grew = frame.read(dict)
                assert grew["index"] == told, "a piece was missed"
                told += 1
                pieces.append(grew["text"])
            elif frame.kind == "item.grown":
                grown = frame.read(Growing)
                assert grown.text == "".join(pieces)
                cut.append(grown.truncated)
            elif frame.kind == "turn.changed" and frame.read(dict)["state"] != "running":
                assert frame.read(dict)["state"] == "completed"
                break
            if sum(map(len, pieces)) >= len(fits) and bool(cut) == (fits != whole):
                (program.parent / "may_end").touch()
    assert "".join(pieces) == fits
    assert cut == [True] * (fits != whole), "what is dropped is said once"
    await desk.client.post(f"/v1/sessions/{session_id}/messages", {"text": "again"})

    async def ended() -> bool:
        states = [one["body"]["state"] for one in await desk.events(session_id) if one["kind"] == "turn.changed"]
        return states[-1:] == ["failed"]

    await desk.until(ended)
    assert (await desk.client.get("/v1/hosts"))["hosts"][0]["here"]


async def test_lines_of_any_size_are_followed(desk: Desk) -> None:
    """Each is told with what fits and its full size, and the small line behind it too."""
    claude = desk.claude(thread_id(1), encode([user("u0", None, "old")]))
    codex = desk.codex(thread_id(2), joined([meta(thread_id(2)), written("user", "old")]))
    await desk.up()
    await desk.read(thread_id(1))
    await desk.read(thread_id(2))
    for size in SIZES:
        with claude.open("ab") as file:
            file.write(
                encode([assistant(f"b{size}", None, "x" * size), assistant(f"s{size}", None, f"after {size}")])
            )
        with codex.open("ab") as file:
            file.write(joined([written("assistant", "x" * size), written("assistant", f"after {size}")]))
    for native_id in (thread_id(1), thread_id(2)):

        async def told(native_id: str = native_id) -> bool:
            return len(await desk.told(native_id)) == 2 * len(SIZES)

        await desk.until(told)
        items = list((await desk.told(native_id)).values())
        assert [item.text() for item in items[1::2]] == [f"after {size}" for size in SIZES]
        for size, item in zip(SIZES, items[::2], strict=True):
            assert set(item.text()) == {"x"}
            assert len(item.text()) == size or [cut.bytes for cut in item.cut] == [size]
