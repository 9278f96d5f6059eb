"""What is too large, too long or nonsense: refused with a reason, stored nowhere, and nobody else is troubled."""

from typing import Any

from ekiden.testing.relay.checks import Checks, Kit, at_once, done, hold
from ekiden.testing.relay.door import Answer, channel_path

CHECKS = Checks()

_NONSENSE = ("-1", "0", "1e3", "abc", "99999999999999999999", "1000001", " 1", "\u0663", "1\u0000")


@CHECKS.add
def a_message_of_five_megabytes_is_refused_whole(kit: Kit) -> None:
    """What is beyond a bound is refused with what the bound is, and nothing of it is stored, numbered or told."""
    name = kit.channel()
    with kit.owner.follow(f"channel:{name}") as stream:
        for size in (5_000_000, 12_000_000):
            answer = kit.owner.post(channel_path(name, "messages"), {"text": "x" * size})
            hold(answer.status in (413, 422), f"{size} bytes were answered with {answer.status}")
        hold(done(kit.owner.get(channel_path(name))).body.get("last_number", 0) == 0, "a number was given out")
        done(kit.owner.post(channel_path(name, "messages"), {"text": "small"}))
        frame = stream.next("message.posted")
        hold(frame is not None and frame["body"]["number"] == 1, "the stream tells of something else")


@CHECKS.add
def the_largest_message_comes_back_as_it_was(kit: Kit) -> None:
    """Long texts of letters that take four bytes, of line ends and of signs that JSON escapes are not cut, in a
    page or in a stream; and pages of them stay bounded and lead on."""
    name = kit.channel()
    texts = ["\U0001f9ed" * 60_000, "a" + "\r\n" * 60_000 + "z", '\\"\x00\x1f' * 12_000, "e\u0301" * 50_000] * 4
    with kit.owner.follow(f"channel:{name}") as stream:
        for text in texts:
            done(kit.owner.post(channel_path(name, "messages"), {"text": text}))
        told = [stream.next("message.posted") for _ in texts]
        hold([frame and frame["body"]["text"] for frame in told] == texts, "a stream tells another text")
    found: list[str] = []
    after = "0"
    while after:
        page = done(kit.owner.get(channel_path(name, "messages"), after=after, limit=100)).body
        found += [message["text"] for message in page["messages"]]
        after = page.get("after", "")
    hold(found == texts, "the pages hold other texts")


@CHECKS.add
def names_have_a_form_and_a_length(kit: Kit) -> None:
    """A channel's, status's or lease's name of 300 letters, or with line ends, ways out or unseen letters, is
    refused with a reason; the same name in other case is the same channel."""
    name = kit.channel()
    for bad in ("n" * 300, "", " ", "a/b", "..", "a\u0000b", "a\u202eb", "\u0430dmin", "-a", "a b", "a\nid: 9"):
        answer = kit.owner.post("/v1/channels", {"name": bad})
        if answer.ok:
            kit.channels.append(answer["name"])
        hold(answer.status in (409, 422), f"the channel {bad[:12]!r} was answered with {answer.status}")
    hold(kit.owner.post("/v1/channels", {"name": name.upper()}).status == 409, "there are two of one name")
    for bad in ("n" * 300, "a\u0000b", "a\nb", "a\u202eb", "a b\u200b"):
        answer = kit.owner.put(channel_path(name, "status", bad), {"value": 1})
        hold(answer.status in (404, 422), f"the status {bad[:12]!r} was answered with {answer.status}")
        answer = kit.owner.put(channel_path(name, "leases", bad), {"lease_s": 60})
        hold(answer.status in (404, 422), f"the lease {bad[:12]!r} was answered with {answer.status}")


@CHECKS.add
def nonsense_is_refused_never_guessed_at(kit: Kit) -> None:
    """Limits and cursors that are no such thing are refused or bounded, in every list; none begins anew."""
    name = kit.channel()
    message = done(kit.owner.post(channel_path(name, "messages"), {"text": "one"}))["message"]["message_id"]
    lists: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/v1/channels", {}),
        ("/v1/mentions", {}),
        ("/v1/relay/search", {"text": "one"}),
        (channel_path(name, "messages"), {}),
        (channel_path(name, "members"), {}),
        (channel_path(name, "threads"), {}),
        (channel_path(name, "acks"), {"message": message}),
        (channel_path(name, "status"), {}),
        (channel_path(name, "leases"), {}),
    )
    for path, query in lists:
        for limit in _NONSENSE:
            answer = kit.owner.get(path, limit=limit, **query)
            hold(answer.status in (200, 422), f"{path}?limit={limit!r} was answered with {answer.status}")
            hold(answer.status == 422 or limit.isdecimal(), f"{path} took the limit {limit!r}")
    for cursor in ("abc", "-1", "1.5", "99999999999999999999999", "\u0663", "0x1", "'; --"):
        for way in ("after", "before"):
            answer = kit.owner.get(channel_path(name, "messages"), **{way: cursor})
            hold(answer.status == 422, f"messages?{way}={cursor!r} was answered with {answer.status}")


@CHECKS.add
def values_that_are_too_large_leave_what_was(kit: Kit) -> None:
    """A status value, a note, a title, a topic or a list of names beyond its bound changes nothing."""
    name = kit.channel()
    path = channel_path(name, "status", "plan")
    done(kit.owner.put(path, {"value": "small"}))
    for big in ("x" * 100_000, list(range(40_000)), {f"k{number}": "v" * 100 for number in range(1_000)}):
        answer = kit.owner.put(path, {"value": big})
        hold(answer.status in (413, 422), f"a large value was answered with {answer.status}")
    told = done(kit.owner.get(path))
    hold((told["value"], told["version"]) == ("small", 1), "the value changed")
    answer = kit.owner.put(channel_path(name, "leases", "lock"), {"lease_s": 60, "note": "n" * 10_000})
    hold(answer.status in (413, 422), f"a long note was answered with {answer.status}")
    for lease_s in (0, -1, 10**9):
        answer = kit.owner.put(channel_path(name, "leases", "lock"), {"lease_s": lease_s})
        hold(answer.status == 422, f"a lease of {lease_s} s was answered with {answer.status}")
    hold(not done(kit.owner.get(channel_path(name, "leases"))).body.get("leases"), "a refused lease is held")
    hold(
        kit.owner.patch(channel_path(name), {"topic": "t" * 100_000}).status in (413, 422),
        "a long topic was taken",
    )
    messages = channel_path(name, "messages")
    for body in (
        {"text": "x", "title": "t" * 10_000},
        {"text": "x", "mentions": ["n" * 10_000]},
        {"text": "x", "expires_s": -1},
        {"text": "x", "expires_s": 10**12},
        {"text": "x", "message_id": "msg_" + "0" * 300},
        {"text": "x", "thread_id": "msg_00000000000000000000"},
        {"text": ["x"]},
        {"text": ""},
        {},
    ):
        answer = kit.owner.post(messages, body)
        hold(400 <= answer.status < 500, f"{str(body)[:40]} was answered with {answer.status}")
    hold(kit.messages(name) == [], "something was stored")


@CHECKS.add
def each_post_is_stored_once_or_refused(kit: Kit) -> None:
    """Many at once, each sent twice with its id: as many messages as ids, numbered without a gap, and every
    refusal was of what is not stored."""
    name = kit.channel()
    ids = [f"msg_{kit.word.translate(str.maketrans('ilou', 'wxyz'))}{number:012}" for number in range(100)]

    def send(number: int) -> Answer:
        return kit.owner.post(
            channel_path(name, "messages"), {"text": f"{number // 2}", "message_id": ids[number // 2]}
        )

    answers = at_once(send, 2 * len(ids))
    stored: list[dict[str, Any]] = []
    after = "0"
    while after:
        page = done(kit.owner.get(channel_path(name, "messages"), after=after, limit=30)).body
        stored += page["messages"]
        after = page.get("after", "")
    hold([one["number"] for one in stored] == list(range(1, len(stored) + 1)), "numbers are not without a gap")
    taken = {answer["message"]["message_id"] for answer in answers if answer.ok}
    hold({one["message_id"] for one in stored} == taken, "what is stored is not what was answered as stored")
    hold(len(stored) == len(taken) == len(ids), f"{len(stored)} messages of {len(ids)}")
    hold(
        {one["message_id"]: one["text"] for one in stored} == {ids[n]: f"{n}" for n in range(len(ids))}, "mixed up"
    )
