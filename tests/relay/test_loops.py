"""Agents that wake each other come to an end; ordinary work is not disturbed; nothing is lost either way."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.kernel.limits import WAKE_PAIRS_MAX, WAKES_FORGOTTEN_S, WORDS_REMEMBERED_MAX
from ekiden.relay.loops import NO_WAKES, Account, Said, Woken, hops_of, judge, words_of
from ekiden.relay.wire import Budgets, Thread
from relay.dialogues import ORDINARY, POLITE
from relay.room import Room

pytestmark = pytest.mark.anyio

AGENTS = [f"agent{index}" for index in range(5)]
TURNS = st.lists(
    st.tuples(
        st.sampled_from(AGENTS),
        st.lists(st.sampled_from(AGENTS), min_size=1, max_size=3, unique=True),
        st.sampled_from(["", "new", "ask"]),
        st.integers(0, 20),
    ),
    max_size=120,
)
BUDGETS = st.builds(
    Budgets, hops=st.integers(0, 9), pair=st.integers(0, 9), thread=st.integers(0, 30), damper=st.integers(0, 4)
)


class Exchange:
    """What the room keeps beside the account: how each agent was woken, one message after the other."""

    def __init__(self, budgets: Budgets, *, in_thread: bool = False) -> None:
        self.budgets = budgets
        self.in_thread = in_thread
        self.account = NO_WAKES
        self.woken: dict[str, Woken] = {}
        self.seq = 0
        self.spoken_seq = 0

    def say(
        self, sender: str, called: list[str], words: tuple[str, ...] = (), *, asks: bool = False, at: int = 0
    ) -> tuple[int, tuple[str, ...]]:
        """(hops, why) of a message; `ann` is a person."""
        self.seq += 1
        person = sender == "ann"
        hops = 0 if person else hops_of(self.woken.get(sender), spoken_seq=self.spoken_seq, at=at)
        said = Said(sender, person, hops, words, asks, at)
        judged = judge(
            self.account, self.budgets, said, [(who, who == "ann") for who in called], in_thread=self.in_thread
        )
        self.account = msgspec.json.decode(msgspec.json.encode(judged.account), type=Account)
        assert self.account == judged.account
        if person:
            self.spoken_seq = self.seq
        for who, why in zip(called, judged.why, strict=True):
            if not why and who != "ann":
                before = self.woken.get(who)
                kept = 0 if person else hops_of(before, spoken_seq=self.spoken_seq, at=at)
                self.woken[who] = Woken(max(kept, hops + 1), self.seq, at)
        return hops, judged.why


@given(TURNS, BUDGETS)
def test_whatever_agents_do_they_wake_each_other_a_bounded_number_of_times(
    turns: list[tuple[str, list[str], str, int]], budgets: Budgets
) -> None:
    """Within an hour and without a person: in a thread never more than its budget, between two never more turns
    than the pair's, and no chain longer than its hops; the account itself stays small."""
    room, at, wakes, longest = Exchange(budgets, in_thread=True), 0, 0, 0
    turns_of: dict[frozenset[str], list[str]] = {}
    for index, (sender, called, kind, pause_s) in enumerate(turns):
        at += pause_s
        others = [who for who in called if who != sender]
        words = (f"word{index}",) if kind == "new" else ()
        hops, reasons = room.say(sender, others, words, asks=kind == "ask", at=at)
        for who, why in zip(others, reasons, strict=True):
            if why:
                continue
            wakes += 1
            longest = max(longest, hops + 1)
            alternating = turns_of.setdefault(frozenset((sender, who)), [])
            if not alternating or alternating[-1] != sender:
                alternating.append(sender)
        if at > WAKES_FORGOTTEN_S:
            break
        assert wakes <= budgets.thread
        assert longest <= budgets.hops
        assert all(len(alternating) <= budgets.pair for alternating in turns_of.values())
        assert len(room.account.words) <= WORDS_REMEMBERED_MAX
        assert len(room.account.pairs) <= WAKE_PAIRS_MAX


@given(TURNS, BUDGETS)
def test_a_person_is_always_reached_and_begins_the_account_anew(
    turns: list[tuple[str, list[str], str, int]], budgets: Budgets
) -> None:
    room = Exchange(budgets, in_thread=True)
    for sender, called, _, _ in turns:
        _, why = room.say(sender, [*called, "ann"])
        assert why[-1] == ""
    assert room.say("ann", ["agent0"], ("go",)) == (0, ("",))
    assert (room.account.wakes, room.account.pairs, room.account.stopped) == (0, {}, "")
    assert room.woken["agent0"].hops == 1
    for agent in AGENTS[1:]:
        assert room.say(agent, [])[0] == 0


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_a_ring_of_any_length_ends_by_its_hops(size: int) -> None:
    room = Exchange(Budgets())
    room.say("ann", ["agent0"])
    for turn in range(50):
        hops, why = room.say(f"agent{turn % size}", [f"agent{(turn + 1) % size}"], (f"word{turn}",), at=turn)
        assert hops == turn + 1
        if why != ("",):
            break
    assert (turn, why, room.account.stopped) == (7, ("loop_hops",), "loop_hops")


def test_what_is_told_without_an_answer_is_no_loop() -> None:
    """A program that reports to the same agent all day is not stopped, nor is what happens once an hour."""
    room = Exchange(Budgets())
    for turn in range(500):
        assert room.say("ci", ["bob"], (f"run{turn}",), at=turn * 60) == (0, ("",))
    for turn in range(100):
        sender, other = ("a", "b") if turn % 2 else ("b", "a")
        at = 100_000 + turn * (WAKES_FORGOTTEN_S + 1)
        assert room.say(sender, [other], (f"word{turn}",), at=at) == (0, ("",))


def stale_turns(dialogue: tuple[str, ...], damper: int = Budgets().damper) -> list[int]:
    """The turns of a dialogue that the damper would not deliver."""
    room = Exchange(Budgets(hops=1_000, pair=1_000, thread=1_000, damper=damper))
    stopped: list[int] = []
    for turn, text in enumerate(dialogue):
        sender, other = ("a", "b") if turn % 2 == 0 else ("b", "a")
        _, why = room.say(sender, [other], words_of(text), at=turn)
        if why != ("",):
            stopped.append(turn)
    return stopped


def test_the_damper_lets_ordinary_work_pass() -> None:
    """The rate of mistakes over a written set, measured: none of its turns is held back; and of all turns, few
    even count as saying nothing new."""
    turns = sum(len(dialogue) for dialogue in ORDINARY)
    assert turns >= 60
    assert [stale_turns(dialogue) for dialogue in ORDINARY] == [[]] * len(ORDINARY)
    empty = sum(len(stale_turns(dialogue, damper=0)) for dialogue in ORDINARY)
    assert empty / turns <= 0.05


@pytest.mark.parametrize("dialogue", POLITE)
def test_the_damper_ends_politeness_after_its_number_of_turns(dialogue: tuple[str, ...]) -> None:
    stopped = stale_turns(dialogue)
    assert stopped
    assert stopped[0] <= Budgets().damper + 1
    assert stopped == list(range(stopped[0], len(dialogue)))


# --- in the room


async def exchange(room: Room, names: list[str], text: str, thread_id: str = "", turns: int = 60) -> int:
    """Each that is woken answers with a mention of the next; how many turns there were."""
    head = 0
    for turn in range(turns):
        name = names[turn % len(names)]
        if not await room.wakes(name, head):
            return turn
        head = await room.head()
        other = names[(turn + 1) % len(names)]
        await room.post(name, text.format(other=other, turn=turn), thread_id=thread_id)
        await room.ack(name, (await room.channel()).last_number - 1)
    return turns


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c"]])
@pytest.mark.parametrize("text", ["@{other} ack", "@{other} word{turn}"])
@pytest.mark.parametrize("threaded", [False, True])
async def test_agents_that_answer_every_mention_come_to_an_end(
    room: Room, names: list[str], text: str, threaded: bool
) -> None:
    """A person asks one thing; the exchange ends within the budgets, the stop is seen, nothing is lost, and the
    person's next word lets them go on."""
    await room.make()
    for name in names:
        room.agent(name)
    root = (await room.post("ann", "@a tell @b the build is green")).message.message_id
    thread_id = root if threaded else ""
    turns = await exchange(room, names, text, thread_id)
    budgets = Budgets()
    assert turns <= (budgets.damper + 1 if "ack" in text else budgets.hops) + 1
    assert (await room.channel()).last_number == 1 + turns
    last = (await room.page(limit=1)).messages[0]
    assert last.mentions
    waiting = await room.mentions(names[turns % len(names)])
    held = [entry for entry in waiting.deliveries if entry.message_id == last.message_id]
    assert [entry.why in ("loop_hops", "loop_pair", "nothing_new") for entry in held] == [True]
    assert held[0].way == "none"
    again = await room.post(last.sender, last.text + " more", thread_id=thread_id)
    assert (again.notice != "") == all(entry.why for entry in again.deliveries)
    if threaded:
        assert (await room.thread(root)).stopped in ("loop_hops", "loop_pair", "nothing_new")
        told = [
            msgspec.json.decode(event.body, type=Thread).stopped
            for event in await room.events()
            if event.kind == "thread.changed"
        ]
        assert told[-1]
    await room.post("ann", f"@{names[0]} go on", thread_id=thread_id)
    assert await room.wakes(names[0])
    if threaded:
        assert (await room.thread(root)).stopped == ""


async def test_acks_in_answer_to_mentions_are_no_turns(room: Room) -> None:
    """What the first case should look like: each acks, and that is all."""
    await room.make()
    for name in ("a", "b"):
        room.agent(name)
    await room.post("ann", "@a tell @b the build is green")
    await room.post("a", "@b the build is green")
    head = await room.head()
    for name in ("a", "b"):
        await room.ack(name, 2)
    assert not await room.wakes("a", head)
    assert not await room.wakes("b", head)
    assert (await room.channel()).last_number == 2


async def test_a_thread_has_its_budget_of_wake_ups(room: Room) -> None:
    await room.make(budgets=Budgets(hops=100, pair=100, thread=5, damper=100))
    for name in ("a", "b"):
        room.agent(name)
    root = (await room.post("ann", "@a and @b, sort it out")).message.message_id
    turns = await exchange(room, ["a", "b"], "@{other} word{turn}", root)
    thread = await room.thread(root)
    assert (thread.stopped, thread.wakes_left) == ("loop_thread", 0)
    assert turns <= 6
    elsewhere = await room.post("a", "@b outside of it")
    assert elsewhere.notice == ""


@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c"]])
async def test_a_chain_goes_on_through_threads_and_channels(room: Room, names: list[str]) -> None:
    """Who answers in another place each time is stopped as well: each place by itself would see no loop."""
    for ref in ("one", "two", "three"):
        await room.make(ref)
    for name in names:
        room.agent(name)
    await room.post("ann", f"@{names[0]} begin", "one")
    root, head = "", 0
    for turn in range(40):
        name, other = names[turn % len(names)], names[(turn + 1) % len(names)]
        if not await room.wakes(name, head):
            break
        head = await room.head()
        ref = ("one", "two", "three")[turn % 3]
        posted = await room.post(
            name, f"@{other} word{turn}", ref, thread_id=root if turn % 2 and ref == "one" else ""
        )
        assert posted.message.hops == turn + 1
        root = posted.message.message_id if ref == "one" and not posted.message.thread_id else root
    assert turn == Budgets().hops
    assert posted.notice == "loop_hops"
    assert (await room.post("ann", f"@{other} go on", "two")).notice == ""
    assert await room.wakes(other, head)
    assert (await room.post(other, f"@{name} gladly", "two")).message.hops == 1
