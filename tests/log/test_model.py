"""The log against a model: whatever is written, refused, repeated, read, followed and reopened, in any order."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.log.conftest import ENGINES, QUERIES, WHO, Engine

from ekiden.kernel.errors import CommandReused, Conflict
from ekiden.log.port import Command
from ekiden.testing.clock import StillClock
from twins import Twins, seeded

assert QUERIES

TEAMS = st.sampled_from(["tem_1", "tem_2"])
TOPICS = st.lists(
    st.sampled_from(["team", "session:a", "session:ab", "host:h"]), min_size=1, max_size=3, unique=True
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), TOPICS),
        st.tuples(st.sampled_from(["run", "put", "get"]), st.sampled_from("ab")),
        st.tuples(st.just("look"), st.none()),
    ),
    max_size=4,
)
COMMANDS = st.one_of(st.none(), st.tuples(st.sampled_from("cde"), st.sampled_from(["one", "other"])))
WRITES = st.tuples(TEAMS, STEPS, st.booleans(), COMMANDS)


class TwinLogs(Twins):
    """A log on SQLite and one on Postgres; what each tells its followers is theirs to compare."""

    def follow(self, follower):
        one, other = self.pair
        one.follow(follower)
        self.heard = {"one": [], "other": []}
        one.follow(lambda team, events: self.heard["one"].extend((team, event) for event in events))
        other.follow(lambda team, events: self.heard["other"].extend((team, event) for event in events))

    async def close(self):
        for log in self.pair:
            await log.close()


def both_engines(folder, clock):
    """An engine that is two, side by side."""
    one, other = (ENGINES[name](folder, clock) for name in ("file", "postgres"))

    async def open_both():
        return TwinLogs(await one.open(), await other.open())

    return Engine("both", True, True, False, open_both, clock)


class Model:
    """What a log should hold."""

    def __init__(self):
        self.events = {"tem_1": [], "tem_2": []}
        self.oldest = {"tem_1": 1, "tem_2": 1}
        self.table = {}
        self.answers = {}


class LogMachine(RuleBasedStateMachine):
    """`make_engine` is set by the subclass for each engine."""

    make_engine = staticmethod(ENGINES["memory"])

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="ekiden-model-"))
        self.engine = self.make_engine(self.folder, StillClock())
        self.model = Model()
        self.heard = {"tem_1": [], "tem_2": []}
        self.heard_from = {"tem_1": 0, "tem_2": 0}

    def run(self, awaitable):
        return self.loop.run_until_complete(asyncio.wait_for(awaitable, 20))

    def teardown(self):
        for log in self.engine.opened:
            self.run(log.close())
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.folder)

    @initialize()
    def open(self):
        self.log = self.run(self.engine.log())
        self.log.follow(lambda team, events: self.heard[team].extend(event.seq for event in events))

    @rule()
    def reopen(self):
        if not self.engine.durable:
            return
        self.run(self.log.close())
        self.open()

    @rule(writes=st.lists(WRITES, min_size=1, max_size=6))
    def write(self, writes):
        """Several callers at once; they are carried out in the order in which they came."""
        outcomes = self.run(self._write_all(writes))
        for write, outcome in zip(writes, outcomes, strict=True):
            self._expect(write, outcome)

    async def _write_all(self, writes):
        tasks = []
        for number, (team, steps, refuse, command) in enumerate(writes):
            named = None
            if command is not None:
                # One command id is in flight once at most here: being told so is the contract suite's matter.
                if any(other[0] == team and other[3] and other[3][0] == command[0] for other in writes[:number]):
                    tasks.append(None)
                    continue
                named = Command(command[0], "pri_1", command[1])
            tasks.append(asyncio.ensure_future(self.log.write(team, self._verb(steps, refuse), command=named)))
        done = await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
        outcomes = iter(done)
        return [None if task is None else next(outcomes) for task in tasks]

    @staticmethod
    def _verb(steps, refuse):
        async def verb(tx):
            told = []
            for step, argument in steps:
                if step == "append":
                    told.append(tx.append("k", {"on": argument}, topics=argument, actor=WHO))
                elif step == "run":
                    await tx.run("test.put", name=f"{tx.team_id}.{argument}", value=str(tx.seq))
                elif step == "put":
                    await tx.put("test.put", name=f"{tx.team_id}.{argument}", value=f"{tx.seq} put")
                elif step == "get":
                    row = await tx.row("test.get", name=f"{tx.team_id}.{argument}")
                    told.append(row["value"] if row else None)
                else:
                    row = await tx.row("test.count_events", team_id=tx.team_id)
                    told.append([row["head"], tx.seq])
            if refuse:
                raise Conflict("No.")
            return told

        return verb

    def _expect(self, write, outcome):
        team, steps, refuse, command = write
        if outcome is None:
            return
        model, key = self.model, (team, command[0]) if command else None
        if key in model.answers:
            digest, answer, seq = model.answers[key]
            if digest != command[1]:
                assert isinstance(outcome, CommandReused)
            else:
                assert (outcome.answer, outcome.seq, outcome.repeated) == (answer, seq, True)
            return
        if refuse:
            assert isinstance(outcome, Conflict)
            return
        events, told = model.events[team], []
        for step, argument in steps:
            if step == "append":
                events.append(tuple(argument))
                told.append(len(events))
            elif step == "run":
                model.table[f"{team}.{argument}"] = str(len(events))
            elif step == "put":
                model.table[f"{team}.{argument}"] = f"{len(events)} put"
            elif step == "get":
                told.append(model.table.get(f"{team}.{argument}"))
            else:
                held = len(events) if len(events) >= model.oldest[team] else 0
                told.append([held, len(events)])
        assert msgspec.json.decode(outcome.answer) == told
        assert (outcome.seq, outcome.repeated) == (len(events), False)
        if key:
            model.answers[key] = (command[1], outcome.answer, outcome.seq)

    @rule(team=TEAMS, after=st.integers(0, 40), topics=st.one_of(st.none(), TOPICS), limit=st.integers(1, 7))
    def follow_by_pages(self, team, after, topics, limit):
        """From any cursor: every event once, in order, whatever the page size."""
        expected = [
            seq
            for seq, on in enumerate(self.model.events[team], 1)
            if seq > after and seq >= self.model.oldest[team] and (topics is None or set(topics) & set(on))
        ]
        seen = []
        while page := self.run(self.log.events(team, after, topics=topics, limit=limit)):
            assert len(page) <= limit
            for event in page:
                assert event.topics == self.model.events[team][event.seq - 1]
            seen += [event.seq for event in page]
            after = page[-1].seq
        assert seen == expected

    @rule(team=TEAMS, before=st.integers(0, 40))
    def forget(self, team, before):
        self.run(self.log.forget(team, before))
        self.model.oldest[team] = max(self.model.oldest[team], min(before, len(self.model.events[team]) + 1))

    @invariant()
    def agrees(self):
        if not hasattr(self, "log"):
            return
        for team, events in self.model.events.items():
            assert self.run(self.log.bounds(team)) == (self.model.oldest[team], len(events))
            assert self.heard[team] == list(range(1, len(events) + 1))
            for name in "ab":
                row = self.run(
                    self.log.ask(team, lambda reading, at=f"{team}.{name}": reading.row("test.get", name=at))
                )
                assert (row["value"] if row else None) == self.model.table.get(f"{team}.{name}")


class BothEnginesMachine(LogMachine):
    """SQLite and Postgres are told the same, and every answer, refusal, event and page is compared directly."""

    make_engine = staticmethod(both_engines)

    @invariant()
    def both_tell_the_same(self):
        """Teams do not wait for each other: only each team's own order is theirs."""
        if not hasattr(self, "log"):
            return
        for team in self.model.events:
            one, other = ([event for of, event in told if of == team] for told in self.log.heard.values())
            assert one == other
        assert self.log.compared


@pytest.mark.parametrize("name", ["file", "memory", "both"])
def test_the_log_does_what_the_model_does(name):
    """On Postgres beside SQLite, so that the two are compared with each other as well."""
    make = {"make_engine": staticmethod(ENGINES[name])} if name in ENGINES else {}
    base = LogMachine if make else BothEnginesMachine
    case = type(f"LogMachineOn{name.title()}", (base,), make).TestCase
    case.settings = settings(max_examples=40 if make else 20, stateful_step_count=20, deadline=None)
    seeded(case)("runTest").runTest()
