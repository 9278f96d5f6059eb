"""Thirteen faults that were reproduced in the first relay of this kind, each as the promise that was broken."""

from ekiden.kernel.ids import Prefix, new_id
from ekiden.testing.relay.checks import Checks, Kit, at_once, done, hold, soon
from ekiden.testing.relay.door import Answer, Door, channel_path

CHECKS = Checks()


@CHECKS.add
def the_newest_message_is_in_the_first_page(kit: Kit) -> None:
    """A page without a cursor is the newest, whole and in order, and leads back to the rest without gap or
    double."""
    name = kit.channel()
    for number in range(1, 61):
        done(kit.owner.post(channel_path(name, "messages"), {"text": f"{number}"}))
    page = done(kit.owner.get(channel_path(name, "messages"), limit=50)).body
    hold(
        [int(message["text"]) for message in page["messages"]] == list(range(11, 61)), "not the newest 50 in order"
    )
    older = done(kit.owner.get(channel_path(name, "messages"), limit=50, before=page["before"])).body
    hold(
        [int(message["text"]) for message in older["messages"]] == list(range(1, 11)),
        "the older page is not the rest",
    )
    hold(not older.get("before"), "the beginning is said to have something before it")


@CHECKS.add
def an_ack_of_what_does_not_exist_is_refused_and_hides_nothing(kit: Kit) -> None:
    """An ack in the future, of another channel's message or of nonsense is refused, and all stays unread."""
    name, other = kit.channel(), kit.channel("b")
    reader = kit.agent("reader", name, other)
    done(kit.owner.post(channel_path(name, "messages"), {"text": "one"}))
    foreign = done(kit.owner.post(channel_path(other, "messages"), {"text": "elsewhere"}))["message"]["message_id"]
    for wrong in (
        {"upto": 10**15},
        {"upto": 2},
        {"upto": -1},
        {"messages": [foreign]},
        {"messages": [new_id(Prefix.MESSAGE)]},
        {},
    ):
        answer = reader.door.post(channel_path(name, "acks"), wrong)
        hold(400 <= answer.status < 500, f"{wrong} was answered with {answer.status}")
    done(kit.owner.post(channel_path(name, "messages"), {"text": "two"}))
    unread = kit.messages(name, reader.door, unread=1)
    hold([message["text"] for message in unread] == ["one", "two"], f"unread is {[one['text'] for one in unread]}")


@CHECKS.add
def a_deleted_reply_is_gone_wherever_it_stood(kit: Kit) -> None:
    """Its text is in no page, thread, search or stream from then on; that it was deleted stays visible."""
    name = kit.channel()
    word = f"secret{kit.word}"
    root = done(kit.owner.post(channel_path(name, "messages"), {"text": "root"}))["message"]["message_id"]
    reply = done(kit.owner.post(channel_path(name, "messages"), {"text": word, "thread_id": root}))["message"]
    start = done(kit.owner.get(channel_path(name, "messages"), limit=1))["cursor"]
    done(kit.owner.delete(channel_path(name, "messages", reply["message_id"])))
    seen = [
        kit.owner.get(channel_path(name, "messages")),
        kit.owner.get(channel_path(name, "messages"), thread=root),
        kit.owner.get(channel_path(name, "messages", reply["message_id"])),
        kit.owner.get("/v1/relay/search", text=word, channel=name),
    ]
    hold(
        all(word not in str(answer.body.get("messages", answer.body.get("hits", answer.body))) for answer in seen),
        "still readable",
    )
    left = next(message for message in seen[0]["messages"] if message["message_id"] == reply["message_id"])
    hold(left["state"] == "deleted", "nothing says that something was deleted")
    with kit.owner.follow(f"channel:{name}", after=_first(start)) as stream:
        hold(word not in str(stream.quiet()), "a stream from before it still tells it")


def _first(cursor: str) -> str:
    """The cursor of the same log at its very beginning."""
    return f"{cursor.rpartition('.')[0]}.0"


@CHECKS.add
def an_empty_map_of_rights_allows_nothing(kit: Kit) -> None:
    """A key without rights, or whose rights were taken away, can do nothing at all."""
    name = kit.channel()
    done(kit.owner.post(channel_path(name, "messages"), {"text": "hidden"}))
    key = kit.agent("reader", name, verbs=("read",))
    changed = kit.owner.patch(f"/v1/keys/{key.key_id}", {"permissions": {}})
    if changed.ok:
        for answer in _everything(key.door, name):
            hold(answer.status in (403, 404), f"allowed with {answer.status}")
    else:
        hold(400 <= changed.status < 500, "an empty map was neither taken nor refused")
        hold(key.door.delete(channel_path(name)).status in (403, 404), "a refused map made an admin")


def _everything(door: Door, name: str) -> list[Answer]:
    return [
        door.get(channel_path(name)),
        door.get(channel_path(name, "messages")),
        door.post(channel_path(name, "messages"), {"text": "x"}),
        door.delete(channel_path(name)),
    ]


@CHECKS.add
def a_name_belongs_to_one(kit: Kit) -> None:
    """A second principal of the same or a confusable name is refused; nobody speaks under another's name."""
    name = kit.channel()
    first = kit.agent("alice", name)
    for spelled in (
        first.name,
        first.name.upper(),
        f"{first.name} ",
        f"{first.name}\u200b",
        first.name.replace("a", "а"),
    ):
        answer = kit.owner.post(
            "/v1/keys", {"name": spelled, "kind": "agent", "permissions": {f"channel:{name}": ["post"]}}
        )
        if answer.ok:
            kit.keys.append(answer["key_id"])
        hold(answer.status in (409, 422), f"{spelled!r} was answered with {answer.status}")
    for reserved in ("all", "system", "", "x\u202ey", "n" * 300):
        answer = kit.owner.post("/v1/keys", {"name": reserved, "kind": "agent"})
        if answer.ok:
            kit.keys.append(answer["key_id"])
        hold(answer.status in (409, 422), f"{reserved[:12]!r} was answered with {answer.status}")


@CHECKS.add
def who_reads_can_ack_and_sees_its_channels(kit: Kit) -> None:
    """A key that may read and ack one channel can do both, and lists that channel and no other."""
    name, other = kit.channel(), kit.channel("b")
    reader = kit.agent("reader", name, verbs=("read", "ack"))
    done(kit.owner.post(channel_path(name, "messages"), {"text": "one"}))
    done(reader.door.post(channel_path(name, "acks"), {"upto": 1}))
    hold(kit.messages(name, reader.door, unread=1) == [], "still unread after the ack")
    listed = [channel["name"] for channel in done(reader.door.get("/v1/channels"))["channels"]]
    hold(listed == [name], f"lists {listed}, not only {name}; never {other}")


@CHECKS.add
def posting_makes_no_channel(kit: Kit) -> None:
    """A post to a name that does not exist is refused as not found, whoever sends it."""
    for number in range(3):
        answer = kit.owner.post(channel_path(f"kit-{kit.word}-none{number}", "messages"), {"text": "x"})
        hold(answer.status == 404, f"answered with {answer.status}")


@CHECKS.add
def a_mention_behind_a_thousand_others_is_found(kit: Kit) -> None:
    """Filtered reads look at all of a channel: a mention is found however much lies after it, and named as left
    over while it is not read."""
    name = kit.channel()
    reader = kit.agent("reader", name)
    wanted = done(kit.owner.post(channel_path(name, "messages"), {"text": f"@{reader.name} here"}))["message"]

    def later(number: int) -> Answer:
        return kit.owner.post(channel_path(name, "messages"), {"text": f"{number}"})

    hold(all(answer.ok for answer in at_once(later, 1_100)), "a post was refused")
    found = kit.messages(name, reader.door, mentions="me", limit=10)
    hold([message["message_id"] for message in found] == [wanted["message_id"]], f"{len(found)} found")
    waits = done(reader.door.get("/v1/mentions"))
    hold(
        [hit["message"]["message_id"] for hit in waits["mentions"]] == [wanted["message_id"]], "not in what waits"
    )


@CHECKS.add
def a_key_can_be_revoked(kit: Kit) -> None:
    """Within a second a revoked key is answered as one that never was, and its open stream ends with a reason."""
    name = kit.channel()
    agent = kit.agent("gone", name)
    with agent.door.follow(f"channel:{name}") as stream:
        done(kit.owner.delete(f"/v1/keys/{agent.key_id}"))
        soon(lambda: agent.door.get(channel_path(name)).status == 401, "still let in")
        told = stream.next("stream.end", within_s=5.0)
        hold(told is not None and told["body"]["reason"] == "revoked", "the stream did not end with its reason")
        done(kit.owner.post(channel_path(name, "messages"), {"text": "after"}))
        hold(stream.next("message.posted", within_s=0.5) is None, "the stream goes on")


@CHECKS.add
def the_same_post_twice_is_one_message(kit: Kit) -> None:
    """Sent again with its id, a message is answered again and stored once; with other content it is refused."""
    name = kit.channel()
    body = {"text": "once", "message_id": new_id(Prefix.MESSAGE)}

    def again(_: int) -> Answer:
        return kit.owner.post(channel_path(name, "messages"), body)

    answers = at_once(again, 16)
    told = [answer for answer in answers if answer.ok]
    hold(bool(told), "all were refused")
    hold({answer["message"]["number"] for answer in told} == {1}, "stored more than once")
    hold(len(kit.messages(name)) == 1, "stored more than once")
    other = kit.owner.post(channel_path(name, "messages"), {**body, "text": "another"})
    hold(other.status in (409, 422), f"another text under the id was answered with {other.status}")


@CHECKS.add
def one_of_many_takes_a_lease(kit: Kit) -> None:
    """Of eight that want a lease at once, one has it, the others are told who; its fence never comes again."""
    name = kit.channel()
    agents = [kit.agent(f"w{number}", name, join=False) for number in range(8)]

    def take(number: int) -> Answer:
        return agents[number].door.put(channel_path(name, "leases", "lock"), {"lease_s": 60})

    answers = at_once(take, len(agents))
    winners = [answer for answer in answers if answer.ok]
    hold(len(winners) == 1, f"{len(winners)} have it")
    hold(all(answer.status == 409 for answer in answers if not answer.ok), "a loser was not told of a conflict")
    holder = next(agent for agent, answer in zip(agents, answers, strict=True) if answer.ok)
    fence = winners[0]["fence"]
    done(holder.door.delete(channel_path(name, "leases", "lock"), {"fence": fence}))
    again = done(agents[0].door.put(channel_path(name, "leases", "lock"), {"lease_s": 60}))
    hold(again["fence"] > fence, "the fence did not grow")


@CHECKS.add
def a_page_of_receipts_has_the_size_that_was_asked_for(kit: Kit) -> None:
    """Who has not acked is paged with its limit, and the answer does not grow with the number of members."""
    name = kit.channel()
    agents = [kit.agent(f"m{number}", name) for number in range(12)]
    message = done(kit.owner.post(channel_path(name, "messages"), {"text": "for all"}))["message"]["message_id"]
    for agent in agents[:4]:
        done(agent.door.post(channel_path(name, "acks"), {"messages": [message]}))
    told = done(kit.owner.get(channel_path(name, "acks"), message=message, limit=1)).body
    hold(len(told["lagging"]) == 1, f"{len(told['lagging'])} rows for a limit of 1")
    hold(told["members"] - told["acked"] == 8, f"counts {told['acked']} of {told['members']}: not 8 lag behind")
    seen: set[str] = set()
    after = ""
    while True:
        page = done(kit.owner.get(channel_path(name, "acks"), message=message, limit=3, after=after)).body
        names = {one["name"] for one in page.get("lagging", [])}
        hold(not names & seen, "somebody stands in two pages")
        seen |= names
        after = page.get("next", "")
        if not after:
            break
    hold(seen == {agent.name for agent in agents[4:]}, "the pages are not all that lag behind")


@CHECKS.add
def rights_that_are_taken_away_end_what_is_open(kit: Kit) -> None:
    """A stream of two channels of which one is taken away goes on with the other and is silent about the first."""
    one, two = kit.channel(), kit.channel("b")
    agent = kit.agent("reader", one, two)
    with agent.door.follow(f"channel:{one}", f"channel:{two}") as stream:
        done(kit.owner.patch(f"/v1/keys/{agent.key_id}", {"permissions": {f"channel:{two}": ["read"]}}))
        soon(lambda: agent.door.get(channel_path(one)).status == 404, "still readable")
        done(kit.owner.post(channel_path(one, "messages"), {"text": "hidden"}))
        done(kit.owner.post(channel_path(two, "messages"), {"text": "shown"}))
        frame = stream.next("message.posted")
        hold(frame is not None and frame["body"]["text"] == "shown", f"got {frame and frame['body']}")
        hold("hidden" not in str(stream.quiet()), "the stream tells of what was taken away")
