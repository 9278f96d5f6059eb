"""Retention, purges and exports: what goes is gone everywhere, what stays can be checked, and a hold holds."""

import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ekiden.crypto import keys, statements
from ekiden.crypto.keys import read
from ekiden.crypto.verify import Severity, verify
from ekiden.hub.chores import Lease
from ekiden.hub.relay_chores import keep_no_more
from ekiden.kernel import limits
from ekiden.kernel.errors import Conflict, EkidenError, Forbidden, Invalid
from ekiden.kernel.ids import Prefix, new_id
from ekiden.log.port import Command
from ekiden.relay.wire import Retention
from ekiden.relay.wire_state import Purged
from relay.state_desk import STATE, TEAM, Caller, Desk, Signer, open_desk

pytestmark = pytest.mark.anyio


async def refused(awaitable: Any, kind: type[EkidenError]) -> EkidenError:
    with pytest.raises(kind) as caught:
        await awaitable
    return caught.value


async def says(caller: Caller, *texts: str) -> list[str]:
    return [(await caller.post(text)).message_id for text in texts]


async def chore(desk: Desk) -> None:
    """The chore of retention, as the node that has its lease."""

    class Held(Lease):
        async def write(self, verb: Any) -> None:
            await self.log.write(self.team_id, verb)

    await keep_no_more(Held(desk.log, TEAM, "keeping", 1))


async def test_what_is_purged_leaves_a_signed_note_and_is_missing(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await desk.people(ada, kind="person")
        await says(ada, "one", "two", "three", "four", "five")
        done = await ada.purge(before_number=4)
        [note] = done.purges
        assert (note.first, note.last, note.messages, note.by, done.left) == (1, 3, 3, "Ada", 0)
        said = statements.purge(
            team=TEAM,
            channel=note.channel_id,
            first=1,
            last=3,
            messages=3,
            digest=note.digest,
            at=note.at,
            by=note.by,
        )
        assert keys.signed_by(read((await ada.hub_key()).public_key), note.signature, said)
        page = await ada.read(after="0")
        assert ([message.number for message in page.messages], page.missing) == ([4, 5], 3)
        assert (await ada.purges()).purges == (note,)
        [told] = [event for event in await desk.events() if event.kind == "channel.purged"]
        assert msgspec.json.decode(told.body, type=Purged) == note
        assert (await ada.post("six")).number == 6, "numbers are not given again"


async def test_whoever_kept_a_copy_can_show_that_it_is_whole(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await desk.people(ada)
        await says(ada, "one", "two")
        copies = (await ada.read(after="0")).messages
        [note] = (await ada.purge(before_number=3)).purges
        digest = statements.PurgeDigest()
        for message in copies:
            assert message.countersign is not None
            digest.add(
                number=message.number,
                message=message.message_id,
                statement_digest=message.countersign.statement,
                content=statements.message_content(text=message.text),
            )
        assert digest.hex() == note.digest


async def test_the_words_are_nowhere_afterwards(tmp_path: Path) -> None:
    place = tmp_path / "ekiden.db"
    secrets = [f"sesame-{number}" for number in range(6)]
    async with open_desk(str(place)) as desk:
        ada = desk.caller()
        await desk.people(ada)
        root = await ada.post(secrets[0], title=secrets[1])
        await ada.post(secrets[2], thread_id=root.message_id)
        edited = await ada.post(secrets[3])
        await ada.edit(edited.message_id, secrets[4])
        call = ada.call()
        call.command = Command("post-1", ada.actor.principal_id, "digest")
        await ada.posted(call, secrets[5])
        await ada.post("kept")
        done = await ada.purge(before_number=5)
        assert (sum(note.messages for note in done.purges), done.left) == (4, 0)
    database = sqlite3.connect(place)
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {
        (table, secret)
        for table in tables
        for row in database.execute(f"SELECT * FROM {table}")
        for value in row
        for secret in secrets
        if isinstance(value, str) and secret in value
    }
    database.close()
    assert found == set()


async def test_an_attachment_goes_with_its_last_use(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await desk.people(ada)
        once, twice = await ada.attach(b"once"), await ada.attach(b"twice")
        await ada.post("with both", attachments=(once, twice))
        await ada.post("with one", attachments=(twice,))
        await ada.purge(before_number=2)
        rows = await desk.log.ask(TEAM, lambda reading: reading.rows("test.uses", team_id=TEAM))
        assert [row["sha256"] for row in rows] == [twice.sha256]


async def test_a_purge_goes_step_by_step_and_says_what_is_left(
    log_place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PURGE_MESSAGES_AT_ONCE_MAX", 2)
    monkeypatch.setattr("ekiden.relay.routes_state.PURGE_STEPS_MAX", 2)
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await desk.people(ada)
        await says(ada, *"abcdefg")
        done = await ada.purge(before_number=7)
        assert ([(note.first, note.last) for note in done.purges], done.left) == ([(1, 2), (3, 4)], 2)
        done = await ada.purge(before_number=7)
        assert ([(note.first, note.last) for note in done.purges], done.left) == ([(5, 6)], 0)
        assert (await ada.purge(before_number=7)).purges == ()
        page = await ada.purges(limit=2)
        assert [note.last for note in (*page.purges, *(await ada.purges(after=page.next)).purges)] == [2, 4, 6]


async def test_a_purge_goes_by_time(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await desk.people(ada)
        await says(ada, "old")
        desk.clock.advance(60)
        await says(ada, "new")
        await ada.purge(before="2026-01-01T01:00:30+01:00")
        assert [message.text for message in (await ada.read(after="0")).messages] == ["new"]
        for bad in ({"before": "yesterday"}, {"before": "2026-01-01T00:00:00"}, {}, {"before_number": -1}):
            await refused(ada.purge(**bad), Invalid)


async def test_a_hold_stops_purges_edits_and_deletes(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await desk.people(ada)
        [message_id] = await says(ada, "evidence")
        await desk.channel(retention=Retention(age_s=1, count=1, held=True))
        desk.clock.advance(100)
        await says(ada, "more")
        await refused(ada.purge(before_number=2), Conflict)
        await refused(ada.edit(message_id, "other"), Conflict)
        await refused(ada.delete(message_id), Conflict)
        await chore(desk)
        assert [message.text for message in (await ada.read(after="0")).messages] == ["evidence", "more"]


async def test_a_purge_needs_admin(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        await refused(desk.caller("agent", {"channel:*": ["read", "post"]}).purge(before_number=1), Forbidden)


@pytest.mark.parametrize("retention", [Retention(count=2), Retention(age_s=90), Retention(age_s=90, count=5)])
async def test_retention_keeps_what_it_says_and_no_more(log_place: str, retention: Retention) -> None:
    async with open_desk(log_place) as desk:
        await desk.channel(retention=retention)
        ada = desk.caller()
        await desk.people(ada)
        for number in range(4):
            await says(ada, f"m{number}")
            desk.clock.advance(40)
        await chore(desk)
        assert [message.text for message in (await ada.read(after="0")).messages] == ["m2", "m3"]
        [note] = (await ada.purges()).purges
        assert (note.first, note.last, note.by) == (1, 2, "hub")
        head = await desk.head()
        await chore(desk)
        assert await desk.head() == head, "nothing to do, nothing said"


# --- exports -----------------------------------------------------------------------------------------------


async def test_an_export_is_checked_with_no_hub(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await desk.people(ada)
        signer = Signer(ada, await ada.enrol(), (await desk.channel()).channel_id)
        for text in ("one", "two", "three"):
            message_id = new_id(Prefix.MESSAGE)
            await ada.post(text, message_id=message_id, signature=signer.message(message_id, text))
        message_id = new_id(Prefix.MESSAGE)
        last = await ada.post("four", message_id=message_id, signature=signer.message(message_id, "four"))
        await ada.edit(message_id, "4", signature=signer.edit(last, "4"))
        unsigned = await ada.post("five")
        assert unsigned.countersign is not None
        assert unsigned.countersign.signature == "", "what nobody signed is countersigned when it is exported"
        status = Signer(ada, signer.keys, signer.channel_id)
        await ada.set("k", {"up": True}, signature=status.status("k", {"up": True}))
        await ada.set("k", 2, signature=status.status("k", 2), expires_s=5)
        desk.clock.advance(6)
        await desk.tidy()
        await ada.purge(before_number=2)
        pages = await ada.export(limit=2)
        assert len(pages) > 4
        hub_key = (await ada.hub_key()).public_key
        texts = [msgspec.json.encode(page) for page in pages]
        report = verify(texts, hub_key=hub_key)
        assert [finding for finding in report.findings if finding.severity is Severity.ERROR] == []
        assert (report.messages, report.signed, report.countersigned, report.statuses) == (4, 3, 4, 3)
        assert [finding.code for finding in report.findings if finding.code == "purged"] == ["purged"]
        for forged in (b'"text":"two"', b'"value":2', b'"number":3'):
            changed = [text.replace(forged, forged[:-1] + b"9" + forged[-1:]) for text in texts]
            assert changed != texts
            assert not verify(changed, hub_key=hub_key).good, forged
        without = [
            msgspec.json.encode(msgspec.structs.replace(page, messages=page.messages[1:])) for page in pages
        ]
        assert "withheld" in {finding.code for finding in verify(without, hub_key=hub_key).findings}


async def test_an_export_of_a_thread_has_that_thread_only(log_place: str) -> None:
    async with open_desk(log_place) as desk:
        ada = desk.caller()
        await desk.people(ada)
        root = await ada.post("root", title="A thing")
        await ada.post("beside")
        await ada.post("reply", thread_id=root.message_id)
        await ada.set("k", 1)
        pages = await ada.export(thread=root.message_id, limit=1)
        assert [message.text for page in pages for message in page.messages] == ["root", "reply"]
        assert not any(page.statuses for page in pages)
        assert verify([msgspec.json.encode(page) for page in pages]).good
        await refused(ada_at(ada, "x.1"), Invalid)


async def ada_at(ada: Caller, after: str) -> Any:
    return await STATE.export(ada.call({"after": after}))
