"""The directory of member keys: an append-only list of signed entries, each placed by the hub after the one
before.

Only a principal itself (by its API key) says which keys are its own, each proved by a signature of the key
itself; who administers access may place entries that others have signed, and end any key. The hub checks all of
it, but nobody has to believe the hub: every entry can be checked again (`ekiden.crypto.directory`).
"""

import msgspec

from ekiden.crypto import directory as signed
from ekiden.crypto.directory import Act, DirectoryPage, Entry, MemberKey, NewEntry
from ekiden.kernel import limits
from ekiden.kernel.errors import Forbidden, Invalid, NotFound, TooMany
from ekiden.log.port import Actor, Reading, Transaction
from ekiden.relay.epochs import end_epochs_of
from ekiden.relay.keeping import text_of
from ekiden.relay.member_keys import keys_of, load_member_key
from ekiden.relay.team_key import team_key

TOPIC = "directory"
"""The topic of new entries; every key may follow it."""
_entry = msgspec.json.Decoder(Entry).decode


async def add_entry(tx: Transaction, said: NewEntry, *, actor: Actor, administers: bool) -> Entry:
    """Places an entry after all others. `administers`: whether the caller may change access.

    Raises:
        Forbidden: if the entry is about somebody else, or an unsigned end, and the caller does not administer.
        NotFound: if there is no such principal.
        Invalid: if a signature, an id or its order is wrong (`crypto.directory.checked`), or a field is too long.
        TooMany: at `MEMBER_KEYS_PER_PRINCIPAL_MAX` live keys, or entries over
        `DIRECTORY_ENTRIES_PER_PRINCIPAL_MAX`.
    """
    if not administers and said.principal_id != actor.principal_id:
        raise Forbidden("Which keys are somebody's says that one, or who administers access.", verb="admin")
    if not administers and not said.signature:
        raise Forbidden("A key ends by a signature, or on the word of who administers access.", verb="admin")
    for text in (said.at, said.invite, said.proof, said.signer):
        if len(text) > limits.DIRECTORY_LABEL_CHARS_MAX:
            raise Invalid("A field of the entry is too long.", max=limits.DIRECTORY_LABEL_CHARS_MAX)
    person = await tx.row("relay.state_kind", team_id=tx.team_id, principal_id=said.principal_id)
    if person is None:
        raise NotFound
    known: dict[str, MemberKey] = {}
    for name in {said.member_key, said.signer}:
        key = await load_member_key(tx, name)
        if key is not None:
            known[name] = key
    signed.checked(said, tx.team_id, known)
    await _refuse_more(tx, said)
    newest = await tx.row("relay.directory_head", team_id=tx.team_id)
    entry = signed.placed(
        (await team_key(tx)).seed,
        said,
        team=tx.team_id,
        position=(newest["position"] if newest is not None else 0) + 1,
        previous=newest["hash"] if newest is not None else "",
        at=tx.now,
        name=person["name"],
    )
    await tx.run(
        "relay.add_directory_entry",
        team_id=tx.team_id,
        position=entry.position,
        principal_id=said.principal_id,
        member_key_id=said.member_key,
        hash=entry.hash(tx.team_id),
        entry=text_of(entry),
    )
    tx.append("directory.added", entry, topics=[TOPIC], actor=actor)
    if said.act is Act.END:
        await end_epochs_of(tx, said.member_key, actor)
    return entry


async def _refuse_more(tx: Transaction, said: NewEntry) -> None:
    rows = await tx.rows("relay.directory_of_principal", team_id=tx.team_id, principal_id=said.principal_id)
    if said.act is not Act.END and len(rows) >= limits.DIRECTORY_ENTRIES_PER_PRINCIPAL_MAX:
        raise TooMany(
            "The directory has as many entries of this principal as it may have.",
            max=limits.DIRECTORY_ENTRIES_PER_PRINCIPAL_MAX,
        )
    if said.act is Act.ADD and len(await keys_of(tx, said.principal_id)) >= limits.MEMBER_KEYS_PER_PRINCIPAL_MAX:
        raise TooMany(
            "The principal has as many member keys as it may have.",
            hint="End those that are not used.",
            max=limits.MEMBER_KEYS_PER_PRINCIPAL_MAX,
        )


async def read_directory(reading: Reading, *, after: int, limit: int, principal_id: str = "") -> DirectoryPage:
    """Entries after a position, in order; of one principal, if one is named (then they do not make up a chain)."""
    rows = await reading.rows(
        "relay.directory",
        team_id=reading.team_id,
        after=after,
        principal_id=principal_id,
        most=limit + 1,
    )
    newest = await reading.row("relay.directory_head", team_id=reading.team_id)
    entries = tuple(_entry(row["entry"]) for row in rows[:limit])
    return DirectoryPage(
        entries=entries,
        head=newest["position"] if newest is not None else 0,
        next=str(entries[-1].position) if len(rows) > limit else "",
    )
