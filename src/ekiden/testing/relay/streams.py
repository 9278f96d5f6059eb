"""Open streams: what is told, from where on, to whom for how long, and what becomes of a reader that stalls."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from ekiden.testing.relay.checks import Agent, Checks, Kit, done, hold, soon
from ekiden.testing.relay.door import Door, Follower, channel_path

CHECKS = Checks()

_END_S = 5.0
_LARGE = 100_000


def _texts(stream: Follower, count: int) -> list[Any]:
    frames = [stream.next("message.posted") for _ in range(count)]
    return [frame["body"]["text"] if frame else None for frame in frames]


def _say(kit: Kit, name: str, *texts: str) -> None:
    for text in texts:
        done(kit.owner.post(channel_path(name, "messages"), {"text": text}))


def _at(cursor: str, more: int) -> str:
    """The cursor of the same log so many events later, or earlier."""
    log_id, _, seq = cursor.rpartition(".")
    return f"{log_id}.{max(0, int(seq) + more)}"


@CHECKS.add
def a_stream_goes_on_exactly_after_its_cursor(kit: Kit) -> None:
    """From each cursor that was given out, on two connections at once: all that came after it, once, in order; and
    then what is new."""
    name = kit.channel()
    topic = f"channel:{name}"
    texts = [str(number) for number in range(12)]
    with kit.owner.follow(topic) as stream:
        _say(kit, name, *texts)
        frames = [stream.next("message.posted") for _ in texts]
    cursors = [frame["cursor"] if frame else "" for frame in frames]
    hold(all(cursors) and len(set(cursors)) == len(cursors), "an event has no cursor of its own")
    for number in (0, 6, 11):
        with (
            kit.owner.follow(topic, after=cursors[number]) as one,
            kit.owner.follow(topic, after=cursors[number]) as other,
        ):
            _say(kit, name, f"new {number}")
            texts.append(f"new {number}")
            for stream in (one, other):
                wanted = texts[number + 1 :]
                got = _texts(stream, len(wanted))
                hold(got == wanted, f"after {number}: {got}, not {wanted}")
                hold(
                    not [frame for frame in stream.quiet() if frame["kind"] == "message.posted"], "one came twice"
                )


@CHECKS.add
def a_cursor_that_leads_nowhere_is_said_to(kit: Kit) -> None:
    """One of the future or of another log is answered with a reset and goes on from now; garbage is refused. None
    of them begins silently."""
    name = kit.channel()
    topic = f"channel:{name}"
    _say(kit, name, "before")
    cursor = kit.owner.cursor(topic)
    for wrong, reason in ((_at(cursor, 10**9), "future"), (f"zzzzzzzz.{cursor.rpartition('.')[2]}", "other_log")):
        with kit.owner.follow(topic, after=wrong) as stream:
            told = stream.next("stream.reset", within_s=_END_S)
            hold(told is not None and told["body"]["reason"] == reason, f"{reason}: told {told}")
            assert told is not None
            hold(bool(told["body"].get("cursor")), "the reset does not say where the stream goes on")
            _say(kit, name, f"after {reason}")
            hold(_texts(stream, 1) == [f"after {reason}"], f"{reason}: the stream does not go on from now")
    for garbage in (
        "abc",
        "1",
        f"{cursor}x",
        f"{cursor}.1",
        cursor.replace(".", ""),
        "-1",
        f"{cursor.split('.')[0]}.-1",
    ):
        with kit.owner.follow(topic, after=garbage) as stream:
            hold(400 <= stream.status < 500, f"the cursor {garbage!r} was answered with {stream.status}")


@CHECKS.add
def what_is_purged_leaves_a_counted_gap(kit: Kit) -> None:
    """After a purge a reader that was away is told how many of what it asked for are gone, exactly at the
    boundary; the text is in no page and no stream; a number of the future or nonsense is no restart."""
    name = kit.channel()
    topic = f"channel:{name}"
    cursor = kit.owner.cursor(topic)
    texts = [f"gone{kit.word}" for _ in range(6)] + [f"kept {number}" for number in range(4)]
    _say(kit, name, *texts)
    done(kit.owner.post(channel_path(name, "purge"), {"before_number": 7}))
    for after, missing, numbers in (
        ("0", 6, [7, 8, 9, 10]),
        ("5", 1, [7, 8, 9, 10]),
        ("6", 0, [7, 8, 9, 10]),
        ("7", 0, [8, 9, 10]),
    ):
        page = done(kit.owner.get(channel_path(name, "messages"), after=after)).body
        hold([one["number"] for one in page["messages"]] == numbers, f"after {after}: {page['messages']}")
        hold(page.get("missing", 0) == missing, f"after {after}: {page.get('missing', 0)} missing, not {missing}")
    ahead = kit.owner.get(channel_path(name, "messages"), after="5000")
    hold(ahead.status == 422 or not ahead.body.get("messages"), "a number of the future begins anew")
    note = done(kit.owner.get(channel_path(name, "purges"))).body["purges"][0]
    hold((note["first"], note["last"], note["messages"]) == (1, 6, 6), f"the note is {note}")
    hold(done(kit.owner.get(channel_path(name)))["first_number"] == 7, "the oldest that is held is another")
    with kit.owner.follow(topic, after=cursor) as stream:
        told = stream.quiet()
    hold(f"gone{kit.word}" not in str(told), "a stream still tells what is purged")
    kept = [frame["body"].get("text") for frame in told if frame["kind"] == "message.posted"]
    hold([text for text in kept if text] == texts[6:], f"the stream tells {kept}")


@CHECKS.add
def a_reader_that_stalls_slows_nobody_and_loses_nothing(kit: Kit) -> None:
    """One that opens a stream and does not read costs others nothing; when it reads again, it gets everything
    once, or is closed and can resume."""
    name = kit.channel()
    topic = f"channel:{name}"
    start = kit.owner.cursor(topic)
    texts = [f"{number} " + "x" * _LARGE for number in range(100)]
    stalled = kit.owner.stall(topic)
    try:
        with kit.owner.follow(topic) as quick:
            for text in texts:
                _say(kit, name, text)
                hold(_texts(quick, 1) == [text], "the other reader is not told at once")
        stalled.go_on()
        got: list[str] = []
        cursor = start
        while len(got) < len(texts):
            frame = stalled.next("message.posted", within_s=_END_S)
            if frame is None:
                break
            got.append(frame["body"]["text"])
            cursor = frame["cursor"]
    finally:
        stalled.close()
    hold(stalled.ended.wait(_END_S) if len(got) < len(texts) else True, "connected, but silent")
    with kit.owner.follow(topic, after=cursor) as resumed:
        got += [text for text in _texts(resumed, len(texts) - len(got)) if text]
        hold(not [one for one in resumed.quiet() if one["kind"] == "message.posted"], "one came twice")
    hold(got == texts, f"{len(got)} of {len(texts)} came")


@CHECKS.add
def a_revoked_key_ends_all_its_streams(kit: Kit) -> None:
    """Each of them, on whatever topics, ends with the reason, and nothing that is said afterwards is in it."""
    one, two = kit.channel(), kit.channel("b")
    agent = kit.agent("gone", one, two)
    streams = [
        agent.door.follow(f"channel:{one}", f"channel:{two}"),
        agent.door.follow(f"channel:{two}"),
        agent.door.follow(f"inbox:{agent.principal_id}"),
        agent.door.follow("channels"),
    ]
    done(kit.owner.delete(f"/v1/keys/{agent.key_id}"))
    for stream in streams:
        told = stream.next("stream.end", within_s=_END_S)
        hold(told is not None and told["body"]["reason"] == "revoked", f"ended with {told}")
    _say(kit, one, "after")
    for stream in streams:
        hold(stream.ended.wait(_END_S), "said to end, and goes on")
        hold("after" not in str(stream.quiet()), "the stream goes on")
    with agent.door.follow(f"channel:{one}") as again:
        hold(again.status == 401, f"a new one is answered with {again.status}")


@CHECKS.add
def a_key_whose_time_is_over_is_cut_off(kit: Kit) -> None:
    """A key that expires while its stream is open: the stream ends with that reason; nobody is let in."""
    name = kit.channel()
    at = (datetime.now(UTC) + timedelta(seconds=2)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    agent = kit.key("short", {f"channel:{name}": ["read"]}, expires_at=at)
    with agent.door.follow(f"channel:{name}") as stream:
        hold(stream.status == 200, "not let in before its time")
        told = stream.next("stream.end", within_s=2 + _END_S)
        hold(told is not None and told["body"]["reason"] == "expired", f"ended with {told}")
        _say(kit, name, "after")
        hold("after" not in str(stream.quiet()), "the stream goes on")
    soon(lambda: agent.door.get(channel_path(name)).status == 401, "still let in")


@CHECKS.add
def rights_that_are_given_open_what_was_asked_for(kit: Kit) -> None:
    """A stream that asked for a channel beyond its rights is silent about it, and tells of it once the key may
    read it: nothing from before."""
    hidden, shown = kit.channel("hidden"), kit.channel("shown")
    agent = kit.agent("reader", shown)
    topics = (f"channel:{hidden}", f"channel:{shown}")
    with agent.door.follow(*topics) as stream:
        _say(kit, hidden, "before")
        rights = {f"channel:{name}": ["read"] for name in (hidden, shown)}
        done(kit.owner.patch(f"/v1/keys/{agent.key_id}", {"permissions": rights}))
        soon(lambda: agent.door.get(channel_path(hidden)).ok, "the rights are not given")
        _until_told(kit, hidden, stream)
        hold("before" not in str(stream.quiet()), "what was said before the rights is told")


def _until_told(kit: Kit, name: str, stream: Follower) -> None:
    """Speaks until the stream hears it: that rights have changed reaches streams a moment later."""
    ends = time.monotonic() + _END_S
    while time.monotonic() < ends:
        _say(kit, name, "after")
        frame = stream.next("message.posted", within_s=0.2)
        if frame is not None:
            hold(frame["body"]["text"] == "after", f"tells {frame['body']['text']}")
            return
    hold(False, "silent, although the key may read it")


@CHECKS.add
def an_inbox_is_its_owners(kit: Kit) -> None:
    """What is addressed to one reaches its own stream and list and no other's, whatever channel they share."""
    name = kit.channel()
    one, other = kit.agent("one", name), kit.agent("other", name)
    with (
        one.door.follow(f"inbox:{one.principal_id}") as own,
        other.door.follow(f"inbox:{one.principal_id}") as foreign,
    ):
        done(kit.owner.post(channel_path(name, "messages"), {"text": f"@{one.name} between us"}))
        hold(own.next("delivery.changed", within_s=_END_S) is not None, "its owner is not told")
        told = [] if foreign.status != 200 else foreign.quiet()
        hold("delivery.changed" not in [frame["kind"] for frame in told], f"another is told {told}")
    hold(_waiting(one) == 1, "not in the owner's list")
    hold(_waiting(other) == 0, "in another's list")


def _waiting(agent: Agent) -> int:
    return len(done(agent.door.get("/v1/mentions")).body.get("mentions", []))


@CHECKS.add
def topics_have_a_form(kit: Kit) -> None:
    """Names of topics with line ends, patterns or ways out are refused, and so are too many."""
    for bad in (
        "channel:a\nid: 9",
        "channel:*",
        "*",
        "channel:../x",
        "",
        "inbox:",
        "channel:" + "n" * 300,
        "a\u0000",
    ):
        with kit.owner.follow(bad) as stream:
            hold(stream.status == 422, f"{bad[:20]!r} was answered with {stream.status}")
    with kit.owner.follow(*(f"channel:kit-{number}" for number in range(1_000))) as stream:
        hold(400 <= stream.status < 500, f"a thousand topics were answered with {stream.status}")
    with Door(kit.owner.url, "ekd_nobody").follow("team") as stream:
        hold(stream.status == 401, f"a key that never was is answered with {stream.status}")
