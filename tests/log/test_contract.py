"""What every engine of the log promises (`ekiden.log.port`)."""

import asyncio
import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from tests.log.conftest import BOUND_S, TEAM, WHO, appends, held, in_one_batch

from ekiden.kernel import limits
from ekiden.kernel.errors import (
    CommandInFlight,
    CommandReused,
    Conflict,
    EkidenError,
    Invalid,
    TooLarge,
    TooMany,
    Unavailable,
)
from ekiden.log.port import Actor, Command

pytestmark = pytest.mark.anyio


async def seqs(log, team=TEAM):
    return [event.seq for event in await log.events(team, 0, limit=1000)]


async def value(log, name):
    row = await log.ask(TEAM, lambda reading: reading.row("test.get", name=name))
    return None if row is None else row["value"]


def refuses(*, first_append=False, first_put="", last_read=False):
    async def verb(tx):
        if first_append:
            tx.append("test.refused", {}, topics=["team"], actor=WHO)
        if first_put:
            await tx.run("test.put", name=first_put, value="left over")
        if last_read:
            await tx.row("test.count_events", team_id=tx.team_id)
        raise Conflict("No.")

    return verb


# Writing


async def test_an_event_is_read_back_as_it_was_appended(log, clock):
    async def verb(tx):
        return {"seq": tx.append("test.said", {"b": 1, "a": "é\r\n"}, topics=["session:s", "team"], actor=WHO)}

    written = await log.write(TEAM, verb)
    assert (written.answer, written.seq, written.repeated) == (b'{"seq":1}', 1, False)
    (event,) = await log.events(TEAM, 0, limit=10)
    assert (event.seq, event.kind, event.topics, event.actor) == (1, "test.said", ("session:s", "team"), WHO)
    assert event.at == "2026-01-01T00:00:00.000Z"
    assert msgspec.json.decode(event.body) == {"b": 1, "a": "é\r\n"}
    assert b"\n" not in event.body


async def test_seqs_are_gapless_for_each_team_by_itself(log):
    await asyncio.gather(*(log.write(f"tem_{number % 3}", appends()) for number in range(30)))
    for team in ("tem_0", "tem_1", "tem_2"):
        assert await seqs(log, team) == list(range(1, 11))
        assert await log.bounds(team) == (1, 10)


async def test_a_verb_that_only_reads_moves_nothing(log):
    async def verb(tx):
        return await tx.row("test.count_events", team_id=TEAM)

    written = await log.write(TEAM, verb)
    assert (msgspec.json.decode(written.answer)["count"], written.seq) == (0, 0)
    assert await log.bounds(TEAM) == (1, 0)


async def test_events_and_tables_change_together(log):
    async def verb(tx):
        assert await tx.run("test.put", name="a", value="1") == 1
        assert (await tx.row("test.get", name="a"))["value"] == "1"
        tx.append("test.said", {}, topics=["team"], actor=WHO)
        assert tx.seq == 1
        return await tx.rows("test.get", name="none")

    assert (await log.write(TEAM, verb)).answer == b"[]"
    assert await value(log, "a") == "1"


@pytest.mark.parametrize("first_append", [True, False])
@pytest.mark.parametrize("first_put", ["x", ""])
@pytest.mark.parametrize("last_read", [True, False])
async def test_a_verb_that_refuses_leaves_no_trace_and_spoils_no_other_of_its_batch(
    log, first_append, first_put, last_read
):
    """Whatever it did before it refused, between commands that did append and change tables."""

    async def counts(tx):
        tx.append("test.said", {}, topics=["team"], actor=WHO)
        await tx.run("test.put", name="kept", value="1")
        return (await tx.row("test.count_events", team_id=TEAM))["count"]

    refusing = refuses(first_append=first_append, first_put=first_put, last_read=last_read)
    outcomes = await in_one_batch(
        log,
        log.write(TEAM, appends()),
        log.write(TEAM, refusing),
        log.write(TEAM, counts),
        log.write(TEAM, refusing),
        log.write(TEAM, appends()),
    )
    assert [type(outcome).__name__ for outcome in outcomes] == [
        "Written",
        "Conflict",
        "Written",
        "Conflict",
        "Written",
    ]
    assert [outcomes[at].seq for at in (0, 2, 4)] == [1, 2, 3]
    assert outcomes[2].answer == b"2"
    assert await seqs(log) == [1, 2, 3]
    assert [event.kind for event in await log.events(TEAM, 0, limit=10)] == ["test.said"] * 3
    assert (await value(log, "x"), await value(log, "kept")) == (None, "1")


async def test_a_query_on_the_log_itself_sees_what_was_appended_before_it(log):
    """Also of commands whose batch is not committed yet."""

    async def looks(tx):
        tx.append("test.said", {}, topics=["team"], actor=WHO)
        return (await tx.row("test.count_events", team_id=TEAM))["head"]

    outcomes = await in_one_batch(log, *(log.write(TEAM, verb) for verb in (appends(), looks, appends(), looks)))
    assert [outcome.answer for outcome in outcomes] == [b'{"seq":1}', b"2", b'{"seq":3}', b"4"]


async def test_each_command_of_a_batch_reads_what_those_before_it_wrote(log):
    """Also those that begin with the same lookup, of one row and of several, put or run, and those between them
    that begin otherwise or refuse after they wrote."""

    def counts(name, *, by_put, refuse=False):
        async def verb(tx):
            row = await tx.row("test.get", name=name)
            number = int(row["value"]) + 1 if row else 1
            await (tx.put if by_put else tx.run)("test.put", name=name, value=str(number))
            tx.append("test.counted", {"number": number}, topics=["team"], actor=WHO)
            if refuse:
                raise Conflict("No.")
            return number

        return verb

    verbs = [
        counts("a", by_put=True),
        counts("b", by_put=True),
        counts("a", by_put=True),
        appends(),
        counts("b", by_put=True, refuse=True),
        counts("a", by_put=False),
        refuses(first_append=True, first_put="a"),
        counts("b", by_put=True),
        counts("a", by_put=True),
    ]
    outcomes = await in_one_batch(log, *(log.write(TEAM, verb) for verb in verbs))
    told = [outcome.answer if not isinstance(outcome, Exception) else type(outcome) for outcome in outcomes]
    assert told == [b"1", b"1", b"2", b'{"seq":4}', Conflict, b"3", Conflict, b"2", b"4"]
    assert await seqs(log) == list(range(1, 8))
    assert (await value(log, "a"), await value(log, "b")) == ("4", "2")


async def test_a_verb_sees_what_it_put_itself(log):
    async def verb(tx):
        await tx.put("test.put", name="a", value="1")
        first = (await tx.row("test.get", name="a"))["value"]
        await tx.put("test.put", name="a", value="2")
        await tx.put("test.drop", name="a")
        await tx.put("test.put", name="a", value="3")
        return first

    outcomes = await in_one_batch(log, log.write(TEAM, appends()), log.write(TEAM, verb))
    assert outcomes[1].answer == b'"1"'
    assert await value(log, "a") == "3"


async def test_what_was_put_and_is_refused_fails_its_command_and_no_other(log):
    async def adds(tx):
        number = tx.append("test.said", {}, topics=["team"], actor=WHO)
        await tx.put("test.add", name="once", value=str(number))

    outcomes = await in_one_batch(
        log, *(log.write(TEAM, verb) for verb in (appends(), adds, appends(), adds, appends()))
    )
    assert [isinstance(outcome, Exception) for outcome in outcomes] == [False, False, False, True, False]
    assert not isinstance(outcomes[3], Unavailable)
    assert [outcomes[at].seq for at in (0, 1, 2, 4)] == [1, 2, 3, 4]
    assert await seqs(log) == [1, 2, 3, 4]
    assert await value(log, "once") == "2"
    assert log.health.ok


async def test_a_command_that_was_answered_before_is_not_begun_again(log):
    """Not even up to its first lookup, beside others that are."""
    begun = []

    def reads(name):
        async def verb(tx):
            begun.append(name)
            row = await tx.row("test.get", name="a")
            tx.append("test.said", {}, topics=["team"], actor=WHO)
            return row

        return verb

    first = await log.write(TEAM, reads("first"), command=Command("c1", "pri_1", "d"))
    begun.clear()
    outcomes = await in_one_batch(
        log,
        log.write(TEAM, reads("one")),
        log.write(TEAM, reads("again"), command=Command("c1", "pri_1", "d")),
        log.write(TEAM, reads("two")),
    )
    assert begun == ["one", "two"]
    assert (outcomes[1].answer, outcomes[1].seq, outcomes[1].repeated) == (first.answer, first.seq, True)


async def test_a_broken_rule_of_the_schema_is_the_command_s_own_fault(log):
    async def adds(tx):
        tx.append("test.said", {}, topics=["team"], actor=WHO)
        await tx.run("test.add", name="once", value="1")

    outcomes = await in_one_batch(log, *(log.write(TEAM, adds) for _ in range(3)))
    assert outcomes[0].seq == 1
    assert all(isinstance(outcome, Exception) for outcome in outcomes[1:])
    assert not any(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert await seqs(log) == [1]
    assert log.health.ok


@pytest.mark.parametrize("waits_for", ["asyncio.sleep(0)", "asyncio.sleep(1)", "loop.create_future()"])
async def test_a_verb_that_waits_for_anything_else_is_refused_whole(log, waits_for):
    loop = asyncio.get_running_loop()

    async def verb(tx):
        tx.append("test.said", {}, topics=["team"], actor=WHO)
        await eval(waits_for, {"asyncio": asyncio, "loop": loop})

    with pytest.raises(RuntimeError):
        await log.write(TEAM, verb)
    with pytest.raises(RuntimeError):
        await log.ask(TEAM, lambda _: asyncio.sleep(0))
    assert await seqs(log) == []
    assert (await log.write(TEAM, appends())).seq == 1


async def test_a_transaction_that_is_kept_after_its_end_does_nothing(log):
    kept = []

    async def verb(tx):
        kept.append(tx)

    await log.write(TEAM, verb)
    with pytest.raises(RuntimeError, match="ended"):
        kept[0].append("test.said", {}, topics=["team"], actor=WHO)
    with pytest.raises(RuntimeError, match="ended"):
        await kept[0].run("test.put", name="a", value="1")
    assert await seqs(log) == []


@pytest.mark.parametrize(
    ("topics", "kind"),
    [((), "k"), (("a b",), "k"), (("",), "k"), (("é",), "k"), (("a",), "é"), (tuple("abcdefghi"), "k")],
)
async def test_an_event_without_proper_topics_is_a_mistake_in_the_program(log, topics, kind):
    async def verb(tx):
        tx.append(kind, {}, topics=topics, actor=WHO)

    with pytest.raises(ValueError):
        await log.write(TEAM, verb)
    assert await seqs(log) == []


async def test_a_body_over_its_bound_is_refused_and_one_at_its_bound_is_kept(log):
    def says(size):
        return appends(body=b'"' + b"x" * (size - 2) + b'"')

    with pytest.raises(TooLarge) as refused:
        await log.write(TEAM, says(limits.EVENT_BODY_BYTES_MAX + 1))
    assert refused.value.details == {"size": limits.EVENT_BODY_BYTES_MAX + 1, "max": limits.EVENT_BODY_BYTES_MAX}
    await log.write(TEAM, says(limits.EVENT_BODY_BYTES_MAX))
    (event,) = await log.events(TEAM, 0, limit=10)
    assert len(event.body) == limits.EVENT_BODY_BYTES_MAX


async def test_text_that_is_not_whole_unicode_is_mended_or_refused_but_spoils_nothing(log):
    async def puts(tx):
        await tx.run("test.put", name="a", value="\ud800")

    async def answers(_):
        return {"half": "\udfff"}

    outcomes = await in_one_batch(
        log,
        log.write(TEAM, appends(body={"text": "a\ud83db", "in": ["\udc00", {"\ud800": 1}]})),
        log.write(TEAM, appends(body=b'"\xff"')),
        log.write(TEAM, puts),
        log.write(TEAM, answers),
        log.write(TEAM, lambda tx: _append_as(tx, Actor("pri_1", "key_1", "half \ud800"))),
    )
    assert isinstance(outcomes[1], UnicodeDecodeError)
    assert isinstance(outcomes[2], Invalid)
    assert msgspec.json.decode(outcomes[3].answer) == {"half": "\ufffd"}
    first, second = await log.events(TEAM, 0, limit=10)
    assert msgspec.json.decode(first.body) == {"text": "a\ufffdb", "in": ["\ufffd", {"\ufffd": 1}]}
    assert second.actor.name == "half \ufffd"


async def _append_as(tx, actor):
    tx.append("test.said", {}, topics=["team"], actor=actor)


async def test_texts_that_are_empty_or_hold_what_could_part_them_stay_as_they_are(log):
    """Alone in a commit, and side by side with others."""
    odd = ["", "\x1f", "a\x1fb\x1f", "\x1e \x1f\x1f", '"{},\\ NULL']

    def says(text):
        async def verb(tx):
            tx.append("test.said", text.encode(), topics=["team"], actor=Actor(text, text, text))
            return text.encode()

        return verb

    def writes(round_name):
        return [log.write(TEAM, says(text), command=Command(text + round_name, "pri_1", text)) for text in odd]

    alone = [await write for write in writes("")]
    together = await in_one_batch(log, *writes(" together"))
    assert [one.answer.decode() for one in alone + together] == odd * 2
    events = await log.events(TEAM, 0, limit=100)
    assert [event.body.decode() for event in events] == odd * 2
    assert [event.actor for event in events] == [Actor(text, text, text) for text in odd * 2]
    again = [await write for write in writes("")] + await in_one_batch(log, *writes(" together"))
    assert [(one.answer.decode(), one.seq, one.repeated) for one in again] == [
        (text, seq, True) for seq, text in enumerate(odd * 2, 1)
    ]


async def test_a_commit_of_more_than_fits_into_one_statement_is_whole(log, monkeypatch):
    """Long events, long answers, and both."""
    monkeypatch.setattr(limits, "LOG_DATABASE_INSERT_BYTES_MAX", 1_000)
    lengths = [(10, 10), (900, 10), (900, 900), (3_000, 10), (10, 3_000), (10, 900), (900, 900), (10, 10)]

    def says(body, answer):
        async def verb(tx):
            tx.append("test.said", "b" * body, topics=["team", "more"], actor=WHO)
            return "a" * answer

        return verb

    def writes():
        return [
            log.write(TEAM, says(*of), command=Command(f"c{number}", "pri_1", "d"))
            for number, of in enumerate(lengths)
        ]

    first = await in_one_batch(log, *writes())
    again = await in_one_batch(log, *writes())
    assert [(one.seq, len(one.answer) - 2) for one in first] == [
        (seq, answer) for seq, (_, answer) in enumerate(lengths, 1)
    ]
    assert [(one.seq, one.answer, one.repeated) for one in again] == [(one.seq, one.answer, True) for one in first]
    events = await log.events(TEAM, 0, topics=["more"], limit=100)
    assert [(event.seq, len(event.body) - 2) for event in events] == [
        (seq, body) for seq, (body, _) in enumerate(lengths, 1)
    ]


async def test_a_query_that_no_room_has_is_a_mistake_in_the_program(log):
    async def verb(tx):
        tx.append("test.said", {}, topics=["team"], actor=WHO)
        await tx.rows("test.nothing")

    with pytest.raises(LookupError, match=r"test\.nothing"):
        await log.write(TEAM, verb)
    assert await seqs(log) == []


# Commands


async def test_a_repeated_command_gets_its_first_answer_and_does_nothing(log):
    command = Command("c", "pri_1", "digest")
    first = await log.write(TEAM, appends(), command=command)
    await log.write(TEAM, appends())
    again = await log.write(TEAM, appends("test.other"), command=command)
    assert (again.answer, again.seq, again.repeated) == (first.answer, first.seq, True)
    assert await seqs(log) == [1, 2]


async def test_a_command_with_another_body_is_refused(log):
    await log.write(TEAM, appends(), command=Command("c", "pri_1", "one"))
    with pytest.raises(CommandReused):
        await log.write(TEAM, appends(), command=Command("c", "pri_1", "other"))
    assert await seqs(log) == [1]


async def test_a_command_that_still_runs_is_told_apart(log):
    async with held(log):
        running = asyncio.ensure_future(log.write(TEAM, appends(), command=Command("c", "pri_1", "one")))
        await asyncio.sleep(0)
        with pytest.raises(CommandInFlight):
            await log.write(TEAM, appends(), command=Command("c", "pri_1", "one"))
        with pytest.raises(CommandReused):
            await log.write(TEAM, appends(), command=Command("c", "pri_1", "other"))
    assert (await running).seq == 1
    assert (await log.write(TEAM, appends(), command=Command("c", "pri_1", "one"))).repeated


async def test_command_ids_are_each_principal_s_and_each_team_s_own(log):
    for team, principal in (("tem_1", "pri_1"), ("tem_1", "pri_2"), ("tem_2", "pri_1")):
        assert not (await log.write(team, appends(), command=Command("c", principal, "d"))).repeated


async def test_a_command_that_was_refused_may_be_tried_again(log):
    command = Command("c", "pri_1", "d")
    with pytest.raises(Conflict):
        await log.write(TEAM, refuses(first_append=True), command=command)
    assert not (await log.write(TEAM, appends(), command=command)).repeated
    assert (await log.write(TEAM, appends(), command=command)).repeated


async def test_answers_are_kept_for_their_time_and_not_for_ever(log, clock):
    command = Command("c", "pri_1", "d")
    await log.write(TEAM, appends(), command=command)
    clock.advance(limits.COMMAND_ANSWERS_KEPT_S)
    assert (await log.write(TEAM, appends(), command=command)).repeated
    clock.advance(1)
    assert not (await log.write(TEAM, appends(), command=command)).repeated
    assert (await log.write(TEAM, appends(), command=command)).repeated
    assert await seqs(log) == [1, 2]


async def test_a_caller_that_goes_away_changes_nothing_of_what_was_accepted(log):
    command = Command("c", "pri_1", "d")
    async with held(log):
        task = asyncio.ensure_future(log.write(TEAM, appends(), command=command))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await log.write(TEAM, appends())  # comes after it, so it has ended
    assert (await log.write(TEAM, appends(), command=command)).repeated
    assert await seqs(log) == [1, 2]


# Bounds and ends


async def test_waiting_commands_are_bounded_and_none_that_was_accepted_is_lost(log, monkeypatch):
    monkeypatch.setattr(limits, "LOG_WAITING_COMMANDS_MAX", 4)
    async with held(log):
        accepted = [asyncio.ensure_future(log.write(TEAM, appends())) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(TooMany) as refused:
            await log.write(TEAM, appends())
        assert refused.value.details["max"] == 4
    assert sorted(written.seq for written in await asyncio.gather(*accepted)) == [1, 2, 3]
    assert (await log.write(TEAM, appends())).seq == 4


async def test_closing_finishes_what_was_accepted_and_then_refuses(log):
    async with held(log):
        accepted = [asyncio.ensure_future(log.write(TEAM, appends())) for _ in range(5)]
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(log.close())
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            await log.write(TEAM, appends())
    await closing
    assert [written.seq for written in await asyncio.gather(*accepted)] == [1, 2, 3, 4, 5]
    with pytest.raises(Unavailable):
        await log.events(TEAM, 0, limit=1)
    assert not log.health.ok


async def test_all_is_there_again_after_opening_anew(engine):
    if not engine.durable:
        log = await engine.log()
        assert (await log.write(TEAM, appends())).seq == 1
        other = await engine.log()
        assert await seqs(other) == []
        assert other.log_id != log.log_id
        return
    log = await engine.log()
    command = Command("c", "pri_1", "d")
    first = await log.write(TEAM, appends(), command=command)
    await log.close()
    log_again = await engine.log()
    assert log_again.log_id == log.log_id
    assert (await log_again.write(TEAM, appends(), command=command)).answer == first.answer
    assert (await log_again.write(TEAM, appends())).seq == 2


# Following


async def test_followers_hear_of_each_commit_in_order_before_its_callers_do(log):
    heard = []
    stop = log.follow(lambda team, events: heard.append((team, [event.seq for event in events])))

    async def write():
        written = await log.write(TEAM, appends())
        assert written.seq in [seq for _, batch in heard for seq in batch]

    await asyncio.gather(*(write() for _ in range(50)))
    with pytest.raises(Conflict):
        await log.write(TEAM, refuses(first_append=True))
    assert [seq for _, batch in heard for seq in batch] == list(range(1, 51))
    stop()
    stop()
    await log.write(TEAM, appends())
    assert sum(len(batch) for _, batch in heard) == 50


async def test_a_follower_gets_each_team_s_events_apart(log):
    heard = []
    log.follow(lambda team, events: heard.append((team, [event.seq for event in events])))
    await in_one_batch(log, *(log.write(team, appends()) for team in ("tem_1", "tem_2", "tem_1")))
    assert sorted(heard) == [("tem_1", [1, 2]), ("tem_2", [1])]


async def test_a_failing_follower_keeps_the_news_from_nobody(log):
    faults, heard = [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))

    def fails(_team, _events):
        raise ValueError("broken")

    log.follow(fails)
    log.follow(lambda _, events: heard.extend(events))
    assert (await log.write(TEAM, appends())).seq == 1
    assert len(heard) == 1
    assert [str(fault) for fault in faults] == ["broken"]


# Reading


async def test_pages_of_events_hold_every_event_once(log):
    """Also those of one moment: the clock stands still here, so that all have the same time."""
    await asyncio.gather(*(log.write(TEAM, appends()) for _ in range(20)))
    seen, after = [], 0
    while page := await log.events(TEAM, after, limit=3):
        seen += [event.seq for event in page]
        after = seen[-1]
    assert seen == list(range(1, 21))


async def test_topics_choose_events_by_each_of_their_topics_and_nothing_by_half(log):
    for topics in (["session:a", "team"], ["session:ab"], ["team"], ["session:a", "host:h"], ["host:h"]):
        await log.write(TEAM, appends("k", *topics))

    async def chosen(*topics, after=0, limit=100):
        return [event.seq for event in await log.events(TEAM, after, topics=topics, limit=limit)]

    assert await chosen("session:a") == [1, 4]
    assert await chosen("team") == [1, 3]
    assert await chosen("team", "session:a", "team") == [1, 3, 4]
    assert await chosen("team", "session:a", after=1, limit=1) == [3]
    assert await chosen("session:a", "host:h", limit=2) == [1, 4]
    assert await chosen() == []
    assert await chosen("session:*") == []
    with pytest.raises(Invalid):
        await chosen(*(f"session:{number}" for number in range(limits.STREAM_TOPICS_MAX + 1)))
    assert await chosen(*(f"session:{number}" for number in range(limits.STREAM_TOPICS_MAX - 1)), "team") == [1, 3]


async def test_a_question_has_one_consistent_view_however_long_it_takes(engine):
    log = await engine.log()
    await log.write(TEAM, appends())
    if engine.on_the_loop:
        await a_view_is_consistent_while_another_node_writes(engine, log)
        return
    looked, go_on = threading.Event(), threading.Event()

    async def question(reading):
        first = (await reading.row("test.count_events", team_id=TEAM))["count"]
        looked.set()
        assert go_on.wait(BOUND_S)
        second = (await reading.row("test.count_events", team_id=TEAM))["count"]
        return first, second, reading.seq

    asking = asyncio.ensure_future(log.ask(TEAM, question))
    assert await asyncio.to_thread(looked.wait, BOUND_S)
    writing = asyncio.ensure_future(log.write(TEAM, appends()))
    if engine.reads_beside_writes:
        assert (await writing).seq == 2
    go_on.set()
    assert await asking == (1, 1, 1)
    assert (await writing).seq == 2


async def a_view_is_consistent_while_another_node_writes(engine, log):
    async def other_node():
        other = await engine.open()
        written = await other.write(TEAM, appends())
        await other.close()
        return written.seq

    async def question(reading):
        first = (await reading.row("test.count_events", team_id=TEAM))["count"]
        with ThreadPoolExecutor(1) as thread:  # the question keeps the loop until the other node has written
            assert thread.submit(asyncio.run, other_node()).result(BOUND_S) == 2
        second = (await reading.row("test.count_events", team_id=TEAM))["count"]
        return first, second, reading.seq

    assert await log.ask(TEAM, question) == (1, 1, 1)
    assert await log.bounds(TEAM) == (1, 2)


async def test_a_question_that_fails_tells_its_own_error(log):
    async def question(_):
        raise Conflict("No.")

    for _ in range(limits.LOG_READERS_MAX * 2):
        with pytest.raises(Conflict):
            await log.ask(TEAM, question)
    assert await log.events(TEAM, 0, limit=1) == []


async def test_a_question_that_would_write_is_a_mistake_in_the_program(log):
    with pytest.raises(Exception, match=r"read.?only"):
        await log.ask(TEAM, lambda reading: reading.rows("test.put", name="a", value="1"))
    assert await value(log, "a") is None
    assert (await log.write(TEAM, appends())).seq == 1


async def test_waiting_questions_are_bounded(log, engine, monkeypatch):
    monkeypatch.setattr(limits, "LOG_WAITING_QUESTIONS_MAX", 2)
    go_on = threading.Event()
    if engine.on_the_loop:
        go_on.set()  # they wait for the database

    async def question(_):
        return go_on.wait(BOUND_S)

    asking = [asyncio.ensure_future(log.ask(TEAM, question)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(TooMany):
        await log.events(TEAM, 0, limit=1)
    go_on.set()
    assert await asyncio.gather(*asking) == [True, True]


async def test_what_is_forgotten_is_gone_and_its_seqs_are_not_given_again(log):
    for _ in range(10):
        await log.write(TEAM, appends("k", "team", "session:a"))
    assert await log.forget(TEAM, 8) == 7
    assert await log.bounds(TEAM) == (8, 10)
    assert [event.seq for event in await log.events(TEAM, 0, topics=["session:a"], limit=10)] == [8, 9, 10]
    await log.forget(TEAM, 100)
    assert await log.bounds(TEAM) == (11, 10)
    assert (await log.write(TEAM, appends())).seq == 11
    assert await log.bounds(TEAM) == (11, 11)


# Copies


async def test_a_backup_is_whole_while_writing_goes_on(log, engine, tmp_path):
    from ekiden.log.backup import check_backup

    await asyncio.gather(*(log.write(TEAM, appends()) for _ in range(50)))
    writing = asyncio.gather(*(log.write(TEAM, appends()) for _ in range(200)))
    await log.backup(tmp_path / "copy.db")
    await writing
    facts = check_backup(tmp_path / "copy.db")
    assert facts.log_id == log.log_id
    assert 50 <= facts.events <= 250
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    with pytest.raises(Conflict):
        await log.backup(tmp_path / "copy.db")


async def test_every_error_of_the_log_is_of_the_one_tree_or_a_mistake_in_the_program(log):
    """`EkidenError`s carry a stable code; callers never see SQL."""
    for error in (CommandInFlight, CommandReused, TooLarge, TooMany, Unavailable):
        assert issubclass(error, EkidenError)
        assert error.code != EkidenError.code


# Redacting


def told_of(event):
    return dict(msgspec.json.decode(event.body)["events"])


async def test_what_an_event_said_can_be_taken_out_and_that_is_said(log):
    await log.write(TEAM, appends("test.said", "session:s", body={"text": "secret"}))
    (said,) = await log.events(TEAM, 0, limit=10)

    async def redacts(tx):
        return await tx.redact(1, 99)

    assert (await log.write(TEAM, redacts)).answer == b"1"
    gone, note = await log.events(TEAM, 0, limit=10)
    digest = hashlib.sha256(said.body).hexdigest()
    assert msgspec.json.decode(gone.body) == {"redacted": True, "digest": digest}
    assert (gone.seq, gone.kind, gone.topics, gone.at, gone.actor) == (
        1,
        said.kind,
        said.topics,
        said.at,
        said.actor,
    )
    assert (note.kind, note.topics, told_of(note)) == ("log.redacted", ("log",), {1: digest})
    assert (await log.write(TEAM, redacts)).answer == b"0", "what is gone is gone once"
    assert len(await seqs(log)) == 2


async def test_the_answer_of_the_command_that_said_it_goes_too_and_no_other(log):
    async def says(tx):
        tx.append("test.said", {"text": "secret"}, topics=["team"], actor=WHO)
        tx.append("test.more", {}, topics=["team"], actor=WHO)
        return {"text": "secret"}

    before, after = Command("before", WHO.principal_id, "d"), Command("after", WHO.principal_id, "d")
    own = Command("own", WHO.principal_id, "d")
    await log.write(TEAM, appends(body={"text": "kept"}), command=before)
    await log.write(TEAM, says, command=own)
    await log.write(TEAM, appends(body={"text": "kept"}), command=after)
    await log.write(TEAM, says, command=Command("own", "pri_2", "d"))

    async def redacts(tx):
        await tx.redact(2)

    await log.write(TEAM, redacts)
    assert (await log.write(TEAM, says, command=own)).answer == b'{"redacted":true}'
    assert (await log.write(TEAM, appends(), command=before)).answer == b'{"seq":1}'
    assert (await log.write(TEAM, appends(), command=after)).answer == b'{"seq":4}'
    assert (await log.write(TEAM, says, command=Command("own", "pri_2", "d"))).answer == b'{"text":"secret"}'


async def test_an_event_of_the_same_batch_or_command_can_be_redacted(log):
    async def says_and_redacts(tx):
        seq = tx.append("test.said", {"text": "secret"}, topics=["team"], actor=WHO)
        await tx.redact(seq)

    async def redacts_first(tx):
        await tx.redact(1)

    await in_one_batch(
        log,
        log.write(TEAM, appends(body={"text": "secret"})),
        log.write(TEAM, redacts_first),
        log.write(TEAM, says_and_redacts),
    )
    events = await log.events(TEAM, 0, limit=10)
    assert [event.kind for event in events] == ["test.said", "log.redacted", "test.said", "log.redacted"]
    assert not [event for event in events if b"secret" in event.body]


async def test_a_redaction_that_is_refused_leaves_all_as_it_was(log):
    await log.write(TEAM, appends(body={"text": "said"}))

    async def refused(tx):
        await tx.redact(1)
        raise Conflict("No.")

    with pytest.raises(Conflict):
        await log.write(TEAM, refused)
    (event,) = await log.events(TEAM, 0, limit=10)
    assert msgspec.json.decode(event.body) == {"text": "said"}


async def test_the_times_of_a_reading_and_a_write_are_of_one_clock(log, clock):
    async def asked(reading):
        return [reading.now, reading.steady_ms]

    async def written(tx):
        return [tx.now, tx.steady_ms]

    began = await log.ask(TEAM, asked)
    assert msgspec.json.decode((await log.write(TEAM, written)).answer) == began
    clock.advance(1.5)
    clock.step(3600)
    clock.sleep(60)
    now, steady_ms = await log.ask(TEAM, asked)
    assert steady_ms - began[1] == 61_500
    assert now == "2026-01-01T01:01:01.500Z"
    assert msgspec.json.decode((await log.write(TEAM, written)).answer) == [now, steady_ms]
