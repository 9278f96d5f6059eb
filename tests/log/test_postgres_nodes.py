"""Several nodes on one Postgres, and a Postgres that goes away: nothing lost, nothing doubled, nothing said
falsely."""

import asyncio
import contextlib
import sys

import asyncpg
import pytest
from tests.log.conftest import BOUND_S, QUERIES, TEAM, appends

from ekiden.kernel import limits
from ekiden.kernel.errors import StoreNewer, Unavailable
from ekiden.log.migrations import read_migrations
from ekiden.log.open import open_log
from ekiden.log.port import Command
from ekiden.log.postgres_connection import connect, end
from ekiden.log.postgres_migrations import declare_present, migrate, version_of
from ekiden.log.wakeups import LocalWakeups
from postgres_server import fresh_database, server

pytestmark = pytest.mark.anyio


class NoWakeups:
    """Wake-ups of which none ever arrives."""

    def publish(self, team_id, seq):
        pass

    def subscribe(self, callback):
        pass

    async def close(self):
        pass


@contextlib.asynccontextmanager
async def nodes(url, clock, count=2, **also):
    """So many nodes on one database."""
    logs = [await open_log(url, clock=clock, queries=QUERIES, **also) for _ in range(count)]
    try:
        yield logs
    finally:
        for log in logs:
            await log.close()


async def until(holds):
    async with asyncio.timeout(BOUND_S):
        while not holds():  # noqa: ASYNC110 - several nodes have no common event
            await asyncio.sleep(0.01)


def listening(log, heard):
    log.follow(lambda team, events: heard.setdefault(team, []).extend(event.seq for event in events))
    return heard


# Nodes


async def test_a_teams_first_commits_may_come_from_several_nodes_at_once(postgres_url, clock):
    """A team that has no row yet cannot be held, and whoever waits to make it finds that another node has done so:
    none is refused, and the numbers have neither gap nor repetition."""
    teams = [f"tem_{number}" for number in range(40)]
    async with nodes(postgres_url, clock, 3) as logs:
        written = await asyncio.gather(*(log.write(team, appends()) for team in teams for log in logs))
        assert sorted(one.seq for one in written) == sorted([1, 2, 3] * len(teams))
        assert [await logs[0].bounds(team) for team in teams] == [(1, 3)] * len(teams)


@pytest.mark.parametrize("by", ["notify", "shared", "nothing"])
async def test_every_node_tells_every_commit_once_in_order_whoever_wrote_it(postgres_url, clock, by, monkeypatch):
    """By wake-ups of Postgres, by others, and by none at all: then the poll does it."""
    monkeypatch.setattr(limits, "LOG_DATABASE_POLL_S", 0.05 if by == "nothing" else 1.0)
    wakeups = {"notify": None, "shared": LocalWakeups(), "nothing": NoWakeups()}[by]
    async with nodes(postgres_url, clock, 3, wakeups=wakeups) as logs:
        heard = [listening(log, {}) for log in logs]
        await asyncio.gather(
            *(logs[number % 3].write(f"tem_{number % 2}", appends()) for number in range(120)),
        )
        whole = {"tem_0": list(range(1, 61)), "tem_1": list(range(1, 61))}
        await until(
            lambda: all(len(seqs) == 60 for told in heard for seqs in told.values()) and all(map(len, heard))
        )
        assert heard == [whole] * 3
        for team in whole:
            assert await logs[0].bounds(team) == (1, 60)


async def test_a_command_that_is_sent_to_several_nodes_at_once_is_carried_out_once(postgres_url, clock):
    async with nodes(postgres_url, clock, 3) as logs:
        sent = [
            log.write(TEAM, appends(), command=Command(f"c{number}", "pri_1", "d"))
            for number in range(20)
            for log in logs
        ]
        written = await asyncio.gather(*sent)
        assert len({answer.answer for answer in written}) == 20
        assert sum(not answer.repeated for answer in written) == 20
        assert await logs[0].bounds(TEAM) == (1, 20)


async def test_a_node_that_is_held_up_in_one_team_goes_on_in_the_others(postgres_url, clock):
    async with nodes(postgres_url, clock, 1) as (log,):
        await log.write(TEAM, appends())
        other = await connect(postgres_url)
        await other.execute("BEGIN; SELECT head FROM teams WHERE team_id = 'tem_1' FOR UPDATE")
        waiting = asyncio.ensure_future(log.write(TEAM, appends()))
        assert (await log.write("tem_2", appends())).seq == 1
        assert not waiting.done()
        await other.execute("ROLLBACK")
        assert (await waiting).seq == 2
        await end(other)


# A Postgres that goes away


async def test_a_crash_of_postgres_under_load_loses_and_doubles_nothing(postgres_url, clock):
    """Callers who were told that it failed send the same command again, as clients do."""
    acknowledged = {}
    async with nodes(postgres_url, clock, 2) as logs:
        ending = asyncio.Event()

        async def caller(name):
            number = 0
            while not ending.is_set():
                command = Command(f"{name}.{number}", "pri_1", "d")
                try:
                    written = await logs[name % 2].write(TEAM, appends(body={"id": command.id}), command=command)
                except Unavailable:
                    await asyncio.sleep(0.05)
                    continue
                acknowledged[command.id] = written.seq
                number += 1

        callers = [asyncio.ensure_future(caller(name)) for name in range(8)]
        for _ in range(3):
            before = len(acknowledged)
            await until(lambda before=before: len(acknowledged) > before + 40)
            await asyncio.to_thread(server().stop)
            await asyncio.to_thread(server().start)
        before = len(acknowledged)
        await until(lambda: len(acknowledged) > before + 40)
        ending.set()
        await asyncio.gather(*callers)
        events = []
        while page := await logs[0].events(TEAM, len(events), limit=1000):
            events += page
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        bodies = [bytes(event.body).decode() for event in events]
        assert len(set(bodies)) == len(bodies)
        assert {f'{{"id":"{name}"}}': seq for name, seq in acknowledged.items()}.items() <= {
            body: seq for seq, body in enumerate(bodies, 1)
        }.items()


async def test_while_postgres_is_away_it_is_said_and_afterwards_all_works(postgres_url, clock, monkeypatch):
    monkeypatch.setattr(limits, "LOG_DATABASE_WAIT_S", 0.2)
    monkeypatch.setattr(limits, "LOG_DATABASE_RETRY_S_MAX", 0.1)
    async with nodes(postgres_url, clock, 1) as (log,):
        await log.write(TEAM, appends())
        await asyncio.to_thread(server().stop, "fast")
        try:
            with pytest.raises(Unavailable, match="cannot be used"):
                await log.write(TEAM, appends())
            assert not log.health.ok
            assert log.health.since
            with pytest.raises(Unavailable):
                await log.events(TEAM, 0, limit=1)
        finally:
            await asyncio.to_thread(server().start)
        await until(lambda: log.health.ok)
        assert (await log.write(TEAM, appends())).seq == 2


@pytest.mark.parametrize("took_place", [True, False])
@pytest.mark.parametrize("team", [TEAM, "tem_new"])
async def test_a_commit_whose_answer_is_lost_is_found_out_and_not_guessed(
    postgres_url, clock, monkeypatch, took_place, team
):
    """The connection breaks after the commit, or just before it: callers are told what is true."""
    execute = asyncpg.Connection.execute
    broken = []

    async def breaks(self, query, *values, **also):
        if query != "COMMIT" or broken:
            return await execute(self, query, *values, **also)
        broken.append(self)
        if took_place:
            await execute(self, query, *values, **also)
        self.terminate()
        raise asyncpg.exceptions.ConnectionDoesNotExistError(
            "the connection was closed in the middle of operation"
        )

    async with nodes(postgres_url, clock, 1) as (log,):
        await log.write(TEAM, appends())
        seq = (await log.bounds(team))[1]
        heard = listening(log, {})
        monkeypatch.setattr(asyncpg.Connection, "execute", breaks)
        writes = [log.write(team, appends(), command=Command(f"c{number}", "pri_1", "d")) for number in range(3)]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert len(broken) == 1
        if took_place:
            assert [outcome.seq for outcome in outcomes] == [seq + 1, seq + 2, seq + 3]
            assert heard[team] == [seq + 1, seq + 2, seq + 3]
        else:
            assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
            assert (await log.bounds(team))[1] == seq
        again = await log.write(team, appends(), command=Command("c0", "pri_1", "d"))
        assert again.repeated == took_place


async def test_a_commit_of_which_nothing_can_be_found_out_is_called_unknown(postgres_url, clock, monkeypatch):
    """Never "nothing was stored", for that may be false."""
    monkeypatch.setattr(limits, "LOG_DATABASE_COMMIT_UNKNOWN_S", 0.3)
    monkeypatch.setattr(limits, "LOG_DATABASE_WAIT_S", 0.1)
    monkeypatch.setattr(limits, "LOG_DATABASE_RETRY_S_MAX", 0.1)
    execute = asyncpg.Connection.execute

    async def breaks(self, query, *values, **also):
        if query != "COMMIT":
            return await execute(self, query, *values, **also)
        await execute(self, query, *values, **also)
        await asyncio.to_thread(server().stop)
        self.terminate()
        raise asyncpg.exceptions.ConnectionDoesNotExistError("gone")

    async with nodes(postgres_url, clock, 1) as (log,):
        monkeypatch.setattr(asyncpg.Connection, "execute", breaks)
        command = Command("c", "pri_1", "d")
        try:
            with pytest.raises(Unavailable, match="not known"):
                await log.write(TEAM, appends(), command=command)
        finally:
            monkeypatch.setattr(asyncpg.Connection, "execute", execute)
            await asyncio.to_thread(server().start)
        await until(lambda: log.health.ok)
        assert (await log.write(TEAM, appends(), command=command)).repeated


# The schema, with nodes of several ages


def shipped():
    return [
        (f"{step.number:04}_{step.name}.sql", "\n".join(step.statements))
        for step in read_migrations(engine="postgres")
    ]


async def grown(url, *later):
    connection = await connect(url)
    try:
        return await migrate(
            connection, read_migrations([*shipped(), *later], engine="postgres"), log_id="x", made_at="x"
        )
    finally:
        await end(connection)


async def test_a_step_that_adds_is_taken_beside_an_older_node_and_both_work(postgres_url, clock):
    newest = read_migrations(engine="postgres")[-1].number
    async with nodes(postgres_url, clock, 1) as (old,):
        await old.write(TEAM, appends())
        assert await grown(
            postgres_url, (f"{newest + 1:04}_more.sql", "CREATE TABLE more (a text NOT NULL);")
        ) == (
            newest,
            newest + 1,
        )
        assert (await old.write(TEAM, appends())).seq == 2
        async with nodes(postgres_url, clock, 1) as (again,):  # an older program may even start
            assert (await again.write(TEAM, appends())).seq == 3


async def test_a_step_that_takes_away_waits_for_the_last_older_node_and_then_keeps_them_out(postgres_url, clock):
    newest = read_migrations(engine="postgres")[-1].number
    taking = (f"{newest + 1:04}_less.sql", f"-- post: {newest + 1:04}\nDROP TABLE pairing_tries;")
    async with nodes(postgres_url, clock, 1) as (old,):
        await until(lambda: old.health.ok)
        await old.write(TEAM, appends())
        connection = await connect(postgres_url)
        await declare_present(connection, newest)
        assert await grown(postgres_url, taking) == (newest, newest)
        await end(connection)
    assert await grown(postgres_url, taking) == (newest, newest + 1)
    with pytest.raises(StoreNewer):
        await open_log(postgres_url, clock=clock, queries=QUERIES)
    connection = await connect(postgres_url)
    assert await version_of(connection) == newest + 1
    await end(connection)


async def test_nodes_that_start_at_once_make_one_database(clock):
    url = fresh_database(empty=True)
    logs = await asyncio.gather(*(open_log(url, clock=clock, queries=QUERIES) for _ in range(4)))
    assert len({log.log_id for log in logs}) == 1
    assert len(logs[0].log_id) == 8
    for log in logs:
        await log.close()


async def test_a_database_of_somebody_else_is_refused_and_not_touched(clock):
    url = fresh_database(empty=True)
    connection = await connect(url)
    await connection.execute("CREATE TABLE theirs (a text)")
    with pytest.raises(Unavailable, match="not Ekiden's"):
        await open_log(url, clock=clock, queries=QUERIES)
    assert await connection.fetchval("SELECT count(*) FROM pg_class WHERE relname = 'meta'") == 0
    await end(connection)


# Opening


async def test_a_user_without_any_special_right_is_enough(clock):
    """It owns its schema in a database that somebody else made; nothing more."""
    url = fresh_database(empty=True)
    connection = await connect(url)
    name = url.split("/")[-1].split("?")[0]
    await connection.execute(f"CREATE ROLE plain_{name} LOGIN; CREATE SCHEMA AUTHORIZATION plain_{name}")
    await end(connection)
    plain = url.replace("postgres@", f"plain_{name}@", 1)
    async with nodes(plain, clock, 2) as logs:
        heard = listening(logs[1], {})
        assert (await logs[0].write(TEAM, appends())).seq == 1
        await until(lambda: heard == {TEAM: [1]})
        assert await logs[0].forget(TEAM, 2) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda url: url.replace("postgres@", "nobody:secret-word@", 1), "nobody"),
        (lambda url: url.replace("/test_", "/none_", 1), "none_"),
        (lambda url: "postgresql://someone:secret-word@127.0.0.1:9/ekiden", "127.0.0.1:9"),
        (lambda url: url + "&sslmode=nonsense&password=secret-word", "cannot be used"),
    ],
)
async def test_what_cannot_be_opened_says_which_and_why_without_the_password(postgres_url, clock, change, says):
    with pytest.raises(Unavailable) as refused:
        await open_log(change(postgres_url), clock=clock, queries=QUERIES)
    told = f"{refused.value.message} {refused.value.hint} {refused.value.details}"
    assert says in told
    assert "secret-word" not in told


async def test_encryption_that_the_url_asks_for_is_not_left_away(postgres_url, clock):
    """This server has none: a url that requires it is refused, and one that prefers it is served."""
    async with by_network(postgres_url) as url:
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1"):
            await open_log(f"{url}?sslmode=require", clock=clock, queries=QUERIES)
        async with nodes(f"{url}?sslmode=prefer", clock, 1) as (log,):
            assert (await log.write(TEAM, appends())).seq == 1


@contextlib.asynccontextmanager
async def by_network(url):
    """The same database at a port; only there is encryption asked for."""

    async def pump(reader, writer):
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
        writer.close()

    async def forward(reader, writer):
        inner_reader, inner_writer = await asyncio.open_unix_connection(f"{server().socket_folder}/.s.PGSQL.5432")
        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    forwarding = await asyncio.start_server(forward, "127.0.0.1", 0)
    port = forwarding.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/{url.split('/')[3].split('?')[0]}"
    finally:
        forwarding.close()


async def test_without_the_driver_the_extra_is_named(clock, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("ekiden.log.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(Unavailable) as refused:
        await open_log("postgresql://somewhere/ekiden", clock=clock, queries=QUERIES)
    assert "ekiden[postgres]" in refused.value.hint


async def test_text_with_a_nul_is_mended_and_found_again(postgres_url, clock):
    """Postgres holds no NUL in a text."""

    async def puts(tx):
        await tx.run("test.put", name="a\0b", value="c\0d")
        return await tx.row("test.get", name="a\0b")

    async with nodes(postgres_url, clock, 1) as (log,):
        assert (await log.write(TEAM, puts)).answer == '{"value":"c\ufffdd"}'.encode()
