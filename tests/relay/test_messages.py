"""Messages and threads: one number each, told once, changed with a trace, found again however many lie between."""

import asyncio
import hashlib
import random

import msgspec
import pytest

from ekiden.kernel.errors import CommandReused, Conflict, EkidenError, Forbidden, Invalid, NotFound, TooLarge
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import RELAY_PAGE_BYTES_MAX, RELAY_TEXT_BYTES_MAX
from ekiden.log.port import Command, Transaction
from ekiden.relay import messages, retention
from ekiden.relay.wire import Asks, Attachment, Message, Post, Retention
from ekiden.relay.wire_state import AttachmentBytes
from relay.room import AGENT, TEAM, Room

pytestmark = pytest.mark.anyio


def numbers(messages: tuple[Message, ...]) -> list[int]:
    return [message.number for message in messages]


async def many(room: Room, count: int, by: str = "bot", ref: str = "build") -> list[Message]:
    return [(await room.post(by, f"line {index}", ref)).message for index in range(count)]


# --- posting


async def test_numbers_are_gapless_whoever_posts_at_once(room: Room) -> None:
    """Refused posts leave no gap; the order is the log's."""
    await room.make()
    chance = random.Random(3)

    async def one(index: int) -> None:
        if chance.random() < 0.3:
            with pytest.raises(Invalid):
                await room.post("bot", " ")
        await room.post(f"bot{index % 4}", f"{index}")

    await asyncio.gather(*(one(index) for index in range(40)))
    page = await room.page(limit=200)
    assert numbers(page.messages) == list(range(1, 41))
    told = [
        msgspec.json.decode(event.body, type=Message).number
        for event in await room.events()
        if event.kind == "message.posted"
    ]
    assert told == list(range(1, 41))


async def test_the_same_id_with_the_same_content_is_answered_again(room: Room) -> None:
    await room.make()
    room.agent("bob")
    message_id = new_id(Prefix.MESSAGE)
    first = await room.post("ann", "Hello @bob and @nobody", message_id=message_id)
    head = await room.head()
    assert await room.post("ann", "Hello @bob and @nobody", message_id=message_id) == first
    assert await room.head() == head
    for by, text, ref in (("ann", "other", "build"), ("bot", "Hello @bob and @nobody", "build")):
        with pytest.raises(CommandReused):
            await room.post(by, text, ref, message_id=message_id)
    await room.make("other")
    with pytest.raises(CommandReused):
        await room.post("ann", "Hello @bob and @nobody", "other", message_id=message_id)
    assert (await room.channel("other")).last_number == 0


async def test_a_repeated_post_is_answered_though_the_channel_was_archived_since(room: Room) -> None:
    await room.make()
    message_id = new_id(Prefix.MESSAGE)
    first = await room.post("ann", "once", message_id=message_id)
    await room.change(archived=True)
    assert await room.post("ann", "once", message_id=message_id) == first
    with pytest.raises(Conflict) as refused:
        await room.post("ann", "twice")
    assert "archived" in refused.value.message
    await room.change(archived=False)
    assert (await room.post("ann", "twice")).message.number == 2


async def test_who_sends_comes_from_the_key_only(room: Room) -> None:
    """A body that names somebody else is refused, not corrected; one's own name or id is borne."""
    await room.make()
    for sender in ("ann", "HumanOverseer", room.id_of("ann")):
        with pytest.raises(Forbidden) as refused:
            await room.post("bot", "I am not who I am", sender=sender)
        assert refused.value.details["refused"] == "other_sender"
    assert (await room.channel()).last_number == 0
    own = await room.post("bot", "me", sender="bot")
    assert (own.message.sender, own.message.sender_id) == ("bot", room.id_of("bot"))
    assert own.message.authority == "agent"


async def test_what_a_post_may_not_be(room: Room) -> None:
    await room.make()
    known = (await room.post("ann", "known")).message.message_id
    for kind, fields in (
        (Invalid, {"text": ""}),
        (Invalid, {"text": "x", "expires_s": 5}),
        (Invalid, {"text": "x", "asks": "ack", "expires_s": -1}),
        (Invalid, {"text": "x", "title": "t" * 201}),
        (Invalid, {"text": "x", "title": "t", "thread_id": known}),
        (Invalid, {"text": "x", "mentions": ("n" * 1_000,)}),
        (Invalid, {"text": "x", "mentions": ("n",) * 101}),
        (Invalid, {"text": "x", "attachments": (Attachment("0" * 64, 1, "n" * 1_000),)}),
        (TooLarge, {"text": "é" * (RELAY_TEXT_BYTES_MAX // 2 + 1)}),
        (NotFound, {"text": "x", "thread_id": new_id(Prefix.MESSAGE)}),
        (NotFound, {"text": "x", "answers": new_id(Prefix.MESSAGE)}),
        (NotFound, {"text": "x", "attachments": (Attachment("0" * 64, 1),)}),
    ):
        with pytest.raises(kind):
            await room.post("ann", **fields)
    assert (await room.channel()).last_number == 1
    whole = "é" * (RELAY_TEXT_BYTES_MAX // 2)
    assert (await room.message((await room.post("ann", whole)).message.message_id)).text == whole


async def test_text_is_kept_letter_by_letter(room: Room) -> None:
    """But for halves of pairs, which no file can hold."""
    await room.make()
    for text in (
        "a\rb\r\nc\u2028d",
        "nul \0 in it",
        "<script>\x1b[31m",
        "𝒃😀",
        "'; DROP TABLE channels; --",
        "%_\\",
    ):
        posted = await room.post("ann", text)
        assert posted.message.text == text
        assert (await room.message(posted.message.message_id)).text == text
    assert (await room.post("ann", "half \ud800 a pair")).message.text == "half \ufffd a pair"


# --- pages


@pytest.mark.parametrize("limit", [1, 3, 7])
async def test_pages_in_both_directions_are_everything_once(room: Room, limit: int) -> None:
    """All in one moment of the clock; while paging, more comes."""
    await room.make()
    await many(room, 10)
    backwards: list[int] = []
    before = ""
    while True:
        page = await room.page(before=before, limit=limit)
        backwards[:0] = numbers(page.messages)
        await room.post("bot", "more")
        before = page.before
        if not before:
            break
    assert backwards == list(range(1, 11))
    last = (await room.channel()).last_number
    forwards: list[int] = []
    after = "0"
    while after:
        page = await room.page(after=after, limit=limit)
        forwards += numbers(page.messages)
        after = page.after
    assert forwards == list(range(1, last + 1))


async def test_a_page_without_cursor_ends_with_the_newest(room: Room) -> None:
    await room.make()
    await many(room, 60)
    page = await room.page()
    assert numbers(page.messages) == list(range(11, 61))
    assert page.after == ""
    assert numbers((await room.page(before=page.before, limit=200)).messages) == list(range(1, 11))


async def test_a_cursor_is_of_its_log_and_channel(room: Room) -> None:
    await room.make()
    await room.make("other")
    await many(room, 3)
    await many(room, 3, ref="other")
    cursor = (await room.page(limit=2)).before
    for wrong in (
        cursor.replace(cursor.split(".")[0], "00000000"),
        cursor.replace(cursor.split(".")[1], new_id(Prefix.CHANNEL)),
        "x",
        "-1",
        "1.5",
        "9" * 30,
    ):
        with pytest.raises(Invalid):
            await room.page(before=wrong)
    with pytest.raises(Invalid):
        await room.page("ann", "other", before=cursor)
    with pytest.raises(Invalid):
        await room.page(after="4")
    assert (await room.page(after="3")).messages == ()
    with pytest.raises(Invalid):
        await room.page(after="1", before="3")


async def test_filters_find_what_lies_behind_a_thousand_others(room: Room) -> None:
    """Nothing starves: one match at the far end is on the first page, in either direction."""
    await room.make()
    room.agent("bob")
    first = (await room.post("carol", "@bob, first of all")).message
    noise = [f"noise {index}" for index in range(1_100)]

    async def verb(tx: Transaction) -> None:
        for text in noise:
            await messages.post(tx, room.who("bot"), "build", new_id(Prefix.MESSAGE), Post(text=text))

    await room.log.write(TEAM, verb)
    reply = (await room.post("carol", "in the thread", thread_id=first.message_id)).message
    for asked, expected in (
        ({"mentions": True}, [1]),
        ({"sender": room.id_of("carol")}, [1, 1_102]),
        ({"thread": first.message_id}, [1, 1_102]),
        ({"unread": True, "mentions": True}, [1]),
    ):
        for extra in ({}, {"after": "0"}, {"before": str(reply.number + 1)}):
            page = await room.page("bob", **asked, **extra)
            assert numbers(page.messages) == expected, (asked, extra)
            assert page.after == "" or extra.get("before")
    unread = await room.page("bob", unread=True, limit=2)
    assert (numbers(unread.messages), unread.total_unread) == ([1, 2], 1_102)
    for asked in ({"sender": "me", "unread": True}, {"thread": first.message_id, "mentions": True}):
        with pytest.raises(Invalid):
            await room.page("bob", **asked)


async def test_a_page_is_bounded_in_bytes_and_says_how_to_go_on(room: Room) -> None:
    await room.make()
    size = RELAY_TEXT_BYTES_MAX
    for index in range(12):
        await room.post("bot", chr(97 + index) * size)
    seen: list[int] = []
    before = ""
    while True:
        page = await room.page(before=before, limit=200)
        assert sum(len(message.text) for message in page.messages) <= RELAY_PAGE_BYTES_MAX
        seen[:0] = numbers(page.messages)
        before = page.before
        if not before:
            break
    assert seen == list(range(1, 13))


# --- threads


async def test_a_thread_is_its_first_message_and_the_replies(room: Room) -> None:
    await room.make()
    root = (await room.post("ann", "Which way?\nAnd why?")).message
    await room.post("bot", "elsewhere")
    replies = [(await room.post("bot", f"reply {index}", thread_id=root.message_id)).message for index in range(5)]
    thread = await room.thread(root.message_id)
    assert (thread.title, thread.replies, thread.last_number, thread.made_by) == ("Which way?", 5, 7, "ann")
    page = await room.page(thread=root.message_id, limit=3)
    assert numbers(page.messages) == [5, 6, 7]
    assert numbers((await room.page(thread=root.message_id, before=page.before)).messages) == [1, 3, 4]
    assert (await room.message(root.message_id)).replies == 5
    with pytest.raises(Invalid) as refused:
        await room.post("bot", "too deep", thread_id=replies[0].message_id)
    assert refused.value.details["thread_id"] == root.message_id
    await room.make("other")
    with pytest.raises(NotFound):
        await room.post("bot", "astray", "other", thread_id=root.message_id)


async def test_done_threads_are_apart_and_a_new_word_opens_them(room: Room) -> None:
    await room.make()
    ids = [(await room.post("ann", "x", title=f"task {index}")).message.message_id for index in range(3)]
    done = await room.change_thread("bot", ids[0], done=True)
    assert (done.state, done.done_by) == ("done", "bot")
    head = await room.head()
    assert await room.change_thread("bot", ids[0], done=True) == done
    assert await room.head() == head
    assert [thread.title for thread in (await room.threads(state="open")).threads] == ["task 2", "task 1"]
    assert [thread.title for thread in (await room.threads(state="done")).threads] == ["task 0"]
    await room.post("bot", "one thing more", thread_id=ids[0])
    opened = await room.threads(limit=1)
    assert [(thread.title, thread.state, thread.done_by) for thread in opened.threads] == [("task 0", "open", "")]
    rest = await room.threads(after=opened.next, limit=5)
    assert [thread.title for thread in rest.threads] == ["task 2", "task 1"]
    assert rest.next == ""
    kinds = [event.kind for event in await room.events() if event.kind == "thread.changed"]
    assert len(kinds) == 5


# --- editing and deleting


async def test_an_edit_leaves_a_trace_and_takes_the_text(room: Room) -> None:
    await room.make()
    message = (await room.post("bot", "a secret word")).message
    room.clock.advance(5)
    edited = (await room.edit("bot", message.message_id, "a better word")).message
    assert (edited.text, edited.edits, edited.number) == ("a better word", 1, 1)
    assert edited.edited_at > edited.at
    assert await room.message(message.message_id) == edited
    assert (await room.search("secret")).hits == ()
    for by in ("ann", "other"):
        with pytest.raises(Forbidden):
            await room.edit(by, message.message_id, "not mine")
    deleted = await room.delete("bot", message.message_id)
    assert (deleted.text, deleted.state, deleted.deleted_by) == ("", "deleted", "bot")
    assert await room.delete("bot", message.message_id) == deleted
    with pytest.raises(Conflict):
        await room.edit("bot", message.message_id, "too late")
    assert (await room.search("better")).hits == ()
    assert numbers((await room.page()).messages) == [1]


async def said_anywhere(room: Room, word: str) -> list[str]:
    """The kinds of events that say a word, and where else it stands."""
    found = [event.kind for event in await room.events() if word.encode() in event.body]
    rows = await room.ask(lambda reading: reading.rows("test.all_texts", team_id=TEAM))
    return found + [row["place"] for row in rows if word in row["text"]]


async def test_what_was_edited_away_or_deleted_is_nowhere_any_more(room: Room) -> None:
    """Neither in events, nor in tables, in the title of a thread, or in the answer that a command got."""
    await room.make()
    room.agent("bob")
    command = Command("c1", room.id_of("ann"), "d")
    message_id = new_id(Prefix.MESSAGE)
    body = Post(text="a SECRET for @bob", title="", asks=Asks.ANSWER)
    await room.log.write(
        TEAM, lambda tx: messages.post(tx, room.who("ann"), "build", message_id, body), command=command
    )
    await room.post("bob", "replied", thread_id=message_id)
    await room.change_thread("bob", message_id, done=True)
    await room.post("bob", "again", thread_id=message_id)
    assert (await room.thread(message_id)).title == "a SECRET for @bob"
    assert len(await said_anywhere(room, "SECRET")) >= 6
    await room.edit("ann", message_id, "a HUSHED word for @bob")
    assert await said_anywhere(room, "SECRET") == []
    assert (await room.thread(message_id)).title == "a HUSHED word for @bob"
    again = await room.log.write(
        TEAM, lambda tx: messages.post(tx, room.who("ann"), "build", message_id, body), command=command
    )
    assert b"SECRET" not in again.answer
    await room.delete("ann", message_id)
    assert await said_anywhere(room, "HUSHED") == []
    assert (await room.thread(message_id)).title == ""
    assert (await room.message(message_id)).state == "deleted"
    named = (await room.post("ann", "root", title="a LOUD title")).message.message_id
    await room.change_thread("ann", named, title="a plain title")
    await room.delete("ann", named)
    assert await said_anywhere(room, "LOUD") == []
    assert (await room.thread(named)).title == "a plain title"


async def keep_no_more(room: Room) -> None:
    """What the chore of retention does."""
    for channel, reaches in await room.ask(retention.channels_over):
        await room.log.write(TEAM, lambda tx, c=channel, r=reaches: retention.retain_some(tx, c.channel_id, r))


async def test_what_was_said_in_a_deleted_channel_goes(room: Room) -> None:
    await room.make()
    root = (await room.post("ann", "a SECRET @bob")).message.message_id
    await room.post("bob", "more SECRET", thread_id=root)
    await room.change_thread("bob", root, done=True)
    await room.drop()
    assert (await room.mentions("bob")).mentions == ()
    await keep_no_more(room)
    assert await said_anywhere(room, "SECRET") == []
    head = await room.head()
    await keep_no_more(room)
    assert await room.head() == head


async def test_a_thread_that_goes_on_loses_the_words_of_what_was_purged(room: Room) -> None:
    await room.make(retention=Retention(count=1))
    root = (await room.post("ann", "a SECRET title")).message.message_id
    await room.change_thread("ann", (await room.post("bob", "reply", thread_id=root)).message.thread_id, done=True)
    await room.post("bob", "the last", thread_id=root)
    await keep_no_more(room)
    assert await said_anywhere(room, "SECRET") == []
    thread = await room.thread(root)
    assert (thread.title, thread.last_number) == ("", 3)
    page = await room.page(after="0")
    assert ([message.text for message in page.messages], page.missing) == (["the last"], 2)
    assert (await room.page()).missing == 2


async def test_a_deleted_reply_is_gone_from_its_thread_too(room: Room) -> None:
    await room.make()
    root = (await room.post("ann", "root")).message.message_id
    reply = (await room.post("bot", "a word too much", thread_id=root)).message.message_id
    with pytest.raises(Forbidden):
        await room.delete("other", reply)
    await room.delete("ann", reply)
    page = await room.page(thread=root)
    assert [(message.text, message.state) for message in page.messages] == [("root", "kept"), ("", "deleted")]


async def test_on_hold_nothing_is_changed_away(room: Room) -> None:
    await room.make(retention=Retention(held=True))
    message = (await room.post("bot", "evidence")).message.message_id
    for refused in (
        room.edit("bot", message, "nothing"),
        room.delete("bot", message),
        room.delete("ann", message),
        room.drop(),
    ):
        with pytest.raises(Conflict):
            await refused
    assert (await room.message(message)).text == "evidence"


# --- attachments


async def test_an_attachment_is_reached_only_where_it_was_put(room: Room) -> None:
    """Whoever knows a hash has not seen the bytes: naming it in a channel of one's own gives nothing."""
    await room.make()
    await room.make("mine", private=True)
    data = b"\x00a picture"
    sha256 = hashlib.sha256(data).hexdigest()
    await room.put("ann", sha256, AttachmentBytes(data), "mine")
    named = Attachment(sha256, len(data), "p.png")
    with pytest.raises(NotFound):
        await room.bytes_of("ann", sha256)
    with pytest.raises(NotFound):
        await room.post("bot", "look", attachments=(named,))
    with pytest.raises(NotFound):
        await room.bytes_of("bot", sha256, "mine")
    await room.post("ann", "look", "mine", attachments=(named,))
    assert await room.bytes_of("ann", sha256, "mine") == data
    with pytest.raises(Invalid):
        await room.post("ann", "look", "mine", attachments=(Attachment(sha256, 1),))


async def test_bytes_that_no_message_names_are_dropped_after_a_day(room: Room) -> None:
    await room.make()
    kept, lost = b"kept", b"lost"
    for data in (kept, lost):
        await room.put("bot", hashlib.sha256(data).hexdigest(), AttachmentBytes(data))
    message = (
        await room.post("bot", "", attachments=(Attachment(hashlib.sha256(kept).hexdigest(), len(kept)),))
    ).message
    await room.drop_attachments()
    assert await room.bytes_of("bot", hashlib.sha256(lost).hexdigest()) == lost
    room.clock.advance(24 * 3600 + 1)
    await room.drop_attachments()
    assert await room.bytes_of("bot", hashlib.sha256(kept).hexdigest()) == kept
    with pytest.raises(NotFound):
        await room.bytes_of("bot", hashlib.sha256(lost).hexdigest())
    await room.delete("bot", message.message_id)
    await room.drop_attachments()
    with pytest.raises(NotFound):
        await room.bytes_of("bot", hashlib.sha256(kept).hexdigest())


# --- search


async def test_search_walks_back_within_bounds_and_says_how_far(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ekiden.relay import views

    monkeypatch.setattr(views, "RELAY_SEARCH_MESSAGES_MAX", 10)
    await room.make()
    await room.make("secrets", private=True)
    await room.post("ann", "Blue Whale in the north")
    for index in range(25):
        await room.post("ann", f"blue whale {index}", "secrets")
    await room.post("bot", "a whale, blue")
    room.agent("reader", AGENT)
    found: list[str] = []
    after, requests = "", 0
    while True:
        page = await room.search("WHALE blue", "reader", after=after)
        found += [hit.message.text for hit in page.hits]
        requests += 1
        after = page.next
        if not after:
            break
    assert found == ["a whale, blue", "Blue Whale in the north"]
    assert requests == 3
    assert len((await room.search("whale", limit=3)).hits) == 3
    assert (await room.search("100%")).hits == ()
    for channel in ("secrets", "nowhere"):
        with pytest.raises(NotFound):
            await room.search("whale", "reader", channel=channel)
    for text in ("", " ", "x" * 401):
        with pytest.raises(Invalid):
            await room.search(text)


# --- what may not be seen


async def test_everything_of_a_private_channel_answers_like_nothing(room: Room) -> None:
    """For one who never could read it, and for one who was a member once."""
    await room.make()
    await room.make("priv", private=True)
    room.agent("once", {**AGENT, "private:priv": ["read", "post", "ack"]})
    message = (await room.post("ann", "the word, @once", "priv", title="hidden")).message.message_id
    await room.post("once", "mine", "priv", thread_id=message)
    await room.post("ann", "and again @once", "priv")
    room.agent("once")
    nowhere, no_message = "nowhere", new_id(Prefix.MESSAGE)

    def doors(by: str, ref: str, of: str) -> list[object]:
        return [
            room.channel(ref, by),
            room.members(ref, by),
            room.page(by, ref),
            room.page(by, ref, unread=True),
            room.page(by, ref, thread=of),
            room.message(of, by, ref),
            room.thread(of, by, ref),
            room.threads(by, ref),
            room.laggards(of, by, ref),
            room.receipt(by, ref),
            room.ack(by, 1, ref=ref),
            room.ack(by, 0, of, ref=ref),
            room.post(by, "x", ref),
            room.post(by, "x", ref, thread_id=of),
            room.edit(by, of, "x", ref),
            room.delete(by, of, ref),
            room.change_thread(by, of, ref, done=True),
            room.join(by, ref),
            room.leave(by, ref),
            room.change(ref, by, topic="x"),
            room.drop(ref, by),
            room.search("word", by, ref),
            room.bytes_of(by, "0" * 64, ref),
        ]

    async def told(door: object) -> tuple[object, ...]:
        try:
            return ("answered", await door)  # type: ignore[misc]
        except EkidenError as error:
            return (error.status, error.code, error.message, error.hint, error.details)

    for by in ("once", "never"):
        for hidden, missing in zip(doors(by, "priv", message), doors(by, nowhere, no_message), strict=True):
            there = await told(hidden)
            assert there == await told(missing)
            assert there[0] == 404
        # In a channel that may be read, a message of the other is not there either.
        for door in (room.message, room.thread, room.laggards):
            assert await told(door(message, by)) == await told(door(no_message, by))
        for thread in (message, no_message):
            assert (await told(room.page(by, thread=thread)))[0] == 404
            assert (await told(room.post(by, "x", thread_id=thread)))[0] == 404
            assert (await told(room.post(by, "x", answers=thread)))[0] == 404
        assert (await told(room.ack(by, 0, message)))[:3] == (await told(room.ack(by, 0, no_message)))[:3]
        assert [channel.name for channel in (await room.listed(by)).channels] == ["build"]
        waiting = await room.mentions(by)
        assert (waiting.mentions, waiting.more, waiting.channels) == ((), 0, ())
        assert not await room.wakes(by)
        assert (await room.search("word", by)).hits == ()
    assert (await room.channel("priv")).last_number == 3
