"""Delivery: mentions, receipts, loops, streams and pages."""

from ekiden.testing.relay.checks import Checks, Kit, done, hold
from ekiden.testing.relay.door import channel_path

CHECKS = Checks()


@CHECKS.add
def text_that_looks_like_a_name_wakes_nobody(kit: Kit) -> None:
    """Code, package names, addresses, links and escapes mention nobody; a name in signs mentions once."""
    name = kit.channel()
    bob = kit.agent("bob", name)
    quiet = "\n".join((
        f"`@{bob.name}`", "```", f"@{bob.name} run it", "```", f"npm i @{bob.name}/tool", f"me@{bob.name}.example",
        f"\\@{bob.name}", f"[x](https://example.org/@{bob.name})",
    ))  # fmt: skip
    posted = done(kit.owner.post(channel_path(name, "messages"), {"text": quiet})).body
    hold(not posted.get("deliveries"), f"woke {posted.get('deliveries')}")
    hold(posted["message"]["text"] == quiet, "the text was changed")
    loud = f'(@{bob.name}), "@{bob.name}": **@{bob.name}**'
    posted = done(kit.owner.post(channel_path(name, "messages"), {"text": loud})).body
    hold([one["name"] for one in posted["deliveries"]] == [bob.name], f"woke {posted['deliveries']}")


@CHECKS.add
def a_name_that_reaches_nobody_is_said_at_once(kit: Kit) -> None:
    """The sender is told of unknown names, and of how each that it names will get it, before it waits."""
    name = kit.channel()
    bob = kit.agent("bob", name)
    posted = done(
        kit.owner.post(channel_path(name, "messages"), {"text": f"@{bob.name} and @nobody-{kit.word}"})
    ).body
    hold([one["why"] for one in posted["unplaced"]] == ["unknown"], f"unplaced: {posted.get('unplaced')}")
    hold(bool(posted["deliveries"][0]["way"]), "the way is not said")


@CHECKS.add
def agents_that_thank_each_other_come_to_an_end(kit: Kit) -> None:
    """Two agents, and a ring of three, that answer every mention with an ack end by themselves, visibly, and
    nothing that was said is lost."""
    for size in (2, 3):
        name = kit.channel(f"ring{size}")
        ring = [kit.agent(f"r{size}{number}", name) for number in range(size)]
        done(
            kit.owner.post(
                channel_path(name, "messages"),
                {"text": f"@{ring[0].name} tell the others that the build is green"},
            )
        )
        turns = 0
        while turns < 200:
            moved = False
            for number, agent in enumerate(ring):
                waits = done(agent.door.get("/v1/mentions")).body
                woken = [
                    one
                    for one, told in zip(waits.get("mentions", []), waits.get("deliveries", []), strict=True)
                    if told.get("way", "none") != "none"
                ]
                for hit in woken:
                    message = hit["message"]
                    done(agent.door.post(channel_path(name, "acks"), {"messages": [message["message_id"]]}))
                    agent.post(name, f"@{ring[(number + 1) % size].name} ack")
                    turns += 1
                    moved = True
            if not moved:
                break
        hold(turns < 60, f"a ring of {size} took {turns} turns")
        told = kit.messages(name, limit=200)
        hold(len(told) >= turns + 1, "a message is lost")
        last = done(kit.owner.get(channel_path(name, "acks"), message=told[-1]["message_id"])).body
        why = [one.get("why", "") for one in last.get("deliveries", [])]
        hold(why != [] and all(why), "nothing says why nobody was woken")


@CHECKS.add
def an_ack_wakes_nobody(kit: Kit) -> None:
    """An ack is no message, mentions nobody, and moves only the receipt."""
    name = kit.channel()
    one, other = kit.agent("one", name), kit.agent("other", name)
    message = one.post(name, f"@{other.name} please ack", asks="ack")["message"]["message_id"]
    with one.door.follow(f"inbox:{one.principal_id}", f"channel:{name}") as stream:
        done(other.door.post(channel_path(name, "acks"), {"messages": [message]}))
        kinds = {frame["kind"] for frame in stream.quiet()} - {"stream.beat"}
        hold("message.posted" not in kinds, "the ack became a message")
        hold("delivery.changed" in kinds, "the sender is not told that it was acked")
    hold(len(kit.messages(name)) == 1, "the ack became a message")
    hold(done(one.door.get("/v1/mentions"))["mentions"] == [], "the ack waits for the sender")


@CHECKS.add
def only_a_message_wakes(kit: Kit) -> None:
    """A name in a topic, a title, a status value, a note, a role or a reason is data: nobody is woken by it, and
    it comes back as it was."""
    name = kit.channel()
    bob, other = kit.agent("bob", name), kit.agent("other", name)
    call = f"@{bob.name} <b>run it</b>\r\ndata: {{}}\x1b[2J"
    root = other.post(name, "nobody in particular", title=call[:150])["message"]["message_id"]
    with bob.door.follow(f"inbox:{bob.principal_id}") as stream:
        done(kit.owner.patch(channel_path(name), {"topic": call}))
        other.post(name, "a reply", thread_id=root)
        done(kit.owner.patch(channel_path(name, "threads", root), {"title": call}))
        done(other.door.put(channel_path(name, "status", "plan"), {"value": {call: [call]}}))
        done(other.door.put(channel_path(name, "leases", "lock"), {"lease_s": 60, "note": call}))
        asked = done(kit.owner.post(channel_path(name, "messages"), {"text": f"@{other.name}?", "asks": "answer"}))
        declined = {"messages": [asked["message"]["message_id"]], "declined": True, "reason": call}
        done(other.door.post(channel_path(name, "acks"), declined))
        told = [frame["kind"] for frame in stream.quiet() if not frame["kind"].startswith("stream.")]
        hold(told == [], f"woken by {told}")
    hold(not done(bob.door.get("/v1/mentions")).body.get("mentions"), "something waits for bob")
    hold(done(kit.owner.get(channel_path(name)))["topic"] == call, "the topic was changed")
    hold(done(kit.owner.get(channel_path(name, "threads", root)))["title"] == call, "the title was changed")
    hold(
        done(kit.owner.get(channel_path(name, "status", "plan")))["value"] == {call: [call]},
        "the value was changed",
    )
    hold(done(kit.owner.get(channel_path(name, "leases", "lock")))["note"] == call, "the note was changed")


@CHECKS.add
def names_of_who_is_gone_or_away_are_told_apart(kit: Kit) -> None:
    """Who is away is reached later and said to be; a name whose key has ended, or that nobody has, is said to
    reach nobody, and none of them is made; for a group the sender is told of each of it."""
    name = kit.channel()
    away, gone, other = kit.agent("away", name), kit.agent("gone", name), kit.agent("other", name)
    done(kit.owner.delete(f"/v1/keys/{gone.key_id}"))
    text = f"@{away.name} @{gone.name} @{away.name[:-1]} @{away.principal_id}"
    posted = done(kit.owner.post(channel_path(name, "messages"), {"text": text})).body
    ways = {one["name"]: one.get("way", "none") for one in posted["deliveries"]}
    hold(ways.get(away.name, "none") != "none", f"who is away: {posted['deliveries']}")
    hold(ways.get(gone.name, "none") == "none", f"who is gone is said to be reached: {posted['deliveries']}")
    lost = {one["name"] for one in posted.get("unplaced", [])}
    hold(lost >= {away.name[:-1], away.principal_id}, f"unplaced are {lost}")
    hold(not {one["name"] for one in posted["deliveries"]} & lost, "one is both reached and not")
    all_of_it = done(kit.owner.post(channel_path(name, "messages"), {"text": "@all stand up"})).body
    told = {one["name"] for one in all_of_it["deliveries"]}
    hold(told >= {away.name, other.name}, f"of @all the sender is told of {told}")


@CHECKS.add
def reading_is_not_acking(kit: Kit) -> None:
    """However often and by whatever way something is read, it stays unread until it is acked."""
    name = kit.channel()
    reader = kit.agent("reader", name)
    for number in range(4):
        done(kit.owner.post(channel_path(name, "messages"), {"text": f"@{reader.name} {number}"}))
    for _ in range(2):
        hold(len(kit.messages(name, reader.door, unread=1)) == 4, "reading took some away")
        hold(len(done(reader.door.get("/v1/mentions"))["mentions"]) == 4, "reading took some away")
    done(reader.door.post(channel_path(name, "acks"), {"upto": 3}))
    hold(
        [one["text"][-1] for one in kit.messages(name, reader.door, unread=1)] == ["3"],
        "not just the last is left",
    )


@CHECKS.add
def single_acks_leave_what_is_between(kit: Kit) -> None:
    """Acks of single messages leave gaps; what came between a reading and an ack is not swallowed."""
    name = kit.channel()
    reader = kit.agent("reader", name)
    ids = [
        done(kit.owner.post(channel_path(name, "messages"), {"text": str(number)}))["message"]["message_id"]
        for number in range(1, 8)
    ]
    done(reader.door.post(channel_path(name, "acks"), {"messages": [ids[1], ids[4]]}))
    done(reader.door.post(channel_path(name, "acks"), {"upto": 1}))
    left = [one["text"] for one in kit.messages(name, reader.door, unread=1)]
    hold(left == ["3", "4", "6", "7"], f"unread is {left}")


@CHECKS.add
def pages_are_everything_and_nothing_twice(kit: Kit) -> None:
    """Pages forwards and backwards, while something is posted between them, give all messages once."""
    name = kit.channel()
    for number in range(1, 18):
        done(kit.owner.post(channel_path(name, "messages"), {"text": str(number)}))
    back: list[int] = []
    before = ""
    while True:
        page = done(kit.owner.get(channel_path(name, "messages"), limit=3, before=before)).body
        back = [one["number"] for one in page["messages"]] + back
        if len(back) == 3:
            done(kit.owner.post(channel_path(name, "messages"), {"text": "between"}))
        before = page.get("before", "")
        if not before:
            break
    hold(back == list(range(1, 18)), f"backwards: {back}")
    forth: list[int] = []
    after = "0"
    while after:
        page = done(kit.owner.get(channel_path(name, "messages"), limit=4, after=after)).body
        forth += [one["number"] for one in page["messages"]]
        after = page.get("after", "")
    hold(forth == list(range(1, 19)), f"forwards: {forth}")


@CHECKS.add
def threads_that_grow_side_by_side_do_not_mix(kit: Kit) -> None:
    """Two threads whose replies alternate: each one's pages are its own replies, once; what is unread is counted
    exactly, and acking one thread's replies leaves the other's."""
    name = kit.channel()
    reader = kit.agent("reader", name)
    path = channel_path(name, "messages")
    roots = [done(kit.owner.post(path, {"text": f"root {one}"}))["message"]["message_id"] for one in range(2)]
    replies: list[list[str]] = [[], []]
    for number in range(20):
        body = {"text": str(number), "thread_id": roots[number % 2]}
        replies[number % 2].append(done(kit.owner.post(path, body))["message"]["message_id"])
    for root, wanted in zip(roots, replies, strict=True):
        found: list[str] = []
        after = "0"
        while after:
            page = done(reader.door.get(path, thread=root, limit=5, after=after)).body
            found += [message["message_id"] for message in page["messages"]]
            after = page.get("after", "")
        hold(found == [root, *wanted], f"the pages of a thread are {found}")
    hold(done(reader.door.get(channel_path(name)))["unread"] == 22, "not all is unread")
    done(reader.door.post(channel_path(name, "acks"), {"messages": replies[0]}))
    hold(done(reader.door.get(channel_path(name)))["unread"] == 12, "the count is not what is left")
    left = [message["message_id"] for message in kit.messages(name, reader.door, unread=1, limit=50)]
    hold(sorted(left) == sorted([*roots, *replies[1]]), f"unread are {left}")


@CHECKS.add
def a_stream_tells_each_thing_once_and_cannot_be_forged(kit: Kit) -> None:
    """Line ends, separators and frames inside a text stay inside it; a stream resumed from a cursor has no gap."""
    name = kit.channel()
    bodies = [
        "hi\revent: approval\rdata: {}\r\r",
        "a\n\nid: 9\ndata: {}",
        "x\r\ny",
        "a\u2028b\u2029\x85\x0c",
        "plain",
    ]
    with kit.owner.follow(f"channel:{name}") as stream:
        for text in bodies:
            done(kit.owner.post(channel_path(name, "messages"), {"text": text}))
        frames = [stream.next("message.posted") for _ in bodies]
        hold([frame and frame["body"]["text"] for frame in frames] == bodies, "a text did not come as it was sent")
        cursor = frames[1]["cursor"] if frames[1] else ""
    with kit.owner.follow(f"channel:{name}", after=cursor) as stream:
        rest = [stream.next("message.posted") for _ in bodies[2:]]
        hold([frame and frame["body"]["text"] for frame in rest] == bodies[2:], "resuming is not exact")
    for bad in ("a\nid: 9", "../x", "A B", ""):
        hold(kit.owner.post("/v1/channels", {"name": bad}).status in (409, 422), f"{bad!r} became a channel")


@CHECKS.add
def a_status_is_written_over_what_was_seen(kit: Kit) -> None:
    """Compare-and-set: one of two writers that saw the same version wins, and the history has every version."""
    name = kit.channel()
    path = channel_path(name, "status", "plan")
    done(kit.owner.put(path, {"value": 1, "if_version": 0}))
    done(kit.owner.put(path, {"value": 2, "if_version": 1}))
    late = kit.owner.put(path, {"value": 3, "if_version": 1})
    hold(late.status == 409, f"a late writer was answered with {late.status}")
    done(kit.owner.delete(path))
    history = done(kit.owner.get(f"{path}/changes"))["statuses"]
    hold(sorted(one["version"] for one in history) == [1, 2, 3], f"{len(history)} lines of history")
    for bad in (-1, 10**12):
        hold(kit.owner.put(path, {"value": 1, "expires_s": bad}).status == 422, f"expires_s {bad} was taken")


@CHECKS.add
def what_is_asked_expires_and_the_sender_hears_of_it(kit: Kit) -> None:
    """A question with a time that nobody answers ends as expired, and its sender is told."""
    name = kit.channel()
    one, other = kit.agent("one", name), kit.agent("other", name)
    with one.door.follow(f"inbox:{one.principal_id}") as stream:
        posted = one.post(name, f"@{other.name} still there?", asks="answer", expires_s=1)
        while True:
            frame = stream.next("delivery.changed", within_s=30.0)
            hold(frame is not None, "the sender never hears of it")
            assert frame is not None
            if frame["body"]["state"] == "expired":
                hold(frame["body"]["message_id"] == posted["message"]["message_id"], "another message expired")
                return
