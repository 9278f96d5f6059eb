"""Whose keys are whose: a team's append-only list of signed entries, and what a reader makes of it.

Each entry is signed by a member key and placed by the hub, which signs the position and the hash of the entry
before, so that a list once seen cannot be replaced by another. Three things can be said:

- `add`: this key is mine; signed with that key itself, which proves that its secret half is held.
- `vouch`: that other key of mine is good too; signed with an older key of the same principal.
- `end`: this key is not to be used from here on; signed with a key of the same principal, or unsigned on the word
  of who administers the team.

The hub could add a key of its own for anybody. So a reader does not take the hub's word: `judge` asks what it has
pinned. The first key of somebody is taken at first contact; any later one only if a trusted key of the same
principal vouches for it, or the person has compared it.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

from msgspec import structs

from ekiden.crypto import keys, statements
from ekiden.crypto.keys import KEY_BYTES, MemberKeys, PublicKeys, read
from ekiden.crypto.shape import Struct
from ekiden.kernel.errors import Conflict, Invalid
from ekiden.kernel.limits import DIRECTORY_LABEL_CHARS_MAX


class DirectoryBroken(Conflict):
    """The directory that the hub shows is not one that was only added to: it was changed, cut or replaced."""

    code = "directory_broken"


class KeyNotTrusted(Conflict):
    """A member's key is not one that is trusted here. `details`: principal_id, member_key, why."""

    code = "key_not_trusted"


class Act(StrEnum):
    """What an entry says."""

    ADD = "add"
    VOUCH = "vouch"
    END = "end"


class NewEntry(Struct, frozen=True):
    """What a member signs; body of POST /v1/directory. An `end` on an administrator's word has no signature."""

    act: Act
    principal_id: str
    member_key: str
    """The id of the key that it is about."""
    sign: str = ""
    """Of `add` and `vouch`: the public keys, base64url."""
    wrap: str = ""
    label: str = ""
    """Of `add`: which program or device, for people to read."""
    at: str = ""
    invite: str = ""
    """Of `add`: the invite that the member came by, and its proof (`ekiden.crypto.invites`)."""
    proof: str = ""
    signer: str = ""
    signature: str = ""

    def statement(self, team: str) -> bytes:
        """What the member signs."""
        return statements.statement(
            statements.Domain.DIRECTORY,
            {
                "team": team,
                "act": str(self.act),
                "principal": self.principal_id,
                "member_key": self.member_key,
                "sign": self.sign,
                "wrap": self.wrap,
                "label": self.label,
                "at": self.at,
                "invite": self.invite,
                "proof": self.proof,
                "signer": self.signer,
            },
        )


class Entry(Struct, frozen=True):
    """An entry in its place. `name` is the principal's when it was made, and no part of what is signed."""

    position: int
    """From 1, without gaps."""
    entry: NewEntry
    previous: str
    """`Entry.hash` of the one before, empty for the first."""
    placed_at: str
    name: str = ""
    signature: str = ""
    """The hub's, over all of the above but `name`."""

    def statement(self, team: str) -> bytes:
        """What the hub signs."""
        return statements.statement(
            statements.Domain.DIRECTORY,
            {
                "team": team,
                "position": self.position,
                "entry": statements.digest(self.entry.statement(team)),
                "entry_signature": self.entry.signature,
                "previous": self.previous,
                "placed_at": self.placed_at,
            },
        )

    def hash(self, team: str) -> str:
        """SHA-256 of what the hub signs, in hex."""
        return statements.digest(self.statement(team))


class DirectoryPage(Struct, frozen=True):
    """Entries in order. `head` is the position of the newest entry of all."""

    entries: tuple[Entry, ...]
    head: int = 0
    next: str = ""


@dataclass(frozen=True, slots=True)
class MemberKey:
    """One key as the directory tells it."""

    principal_id: str
    name: str
    public: PublicKeys
    label: str
    added_at: str
    position: int
    invite: str = ""
    proof: str = ""
    ended_at: str = ""
    vouched_by: tuple[str, ...] = ()
    """Member key ids, all of the same principal, that were live when they vouched."""

    @property
    def live(self) -> bool:
        """Whether it may be wrapped to."""
        return not self.ended_at


@dataclass(slots=True)
class Directory:
    """The directory read so far. Feed it entries in order with `take`."""

    team: str
    hub_key: bytes
    position: int = 0
    head: str = ""
    """Hash of the last entry."""
    keys: dict[str, MemberKey] = field(default_factory=dict[str, MemberKey])
    """By member key id."""

    def take(self, entries: Iterable[Entry]) -> None:
        """Reads on.

        Raises:
            DirectoryBroken: if an entry is not the next one, not placed by the hub's key, or not signed as it must
            be.
        """
        for entry in entries:
            if entry.position != self.position + 1 or entry.previous != self.head:
                raise _broken(entry, "does not follow the one before")
            placed = entry.statement(self.team)
            if not keys.signed_by(self.hub_key, entry.signature, placed):
                raise _broken(entry, "was not placed by the hub's key")
            try:
                self._read(entry)
            except Invalid as error:
                raise _broken(entry, error.message) from None
            self.position, self.head = entry.position, statements.digest(placed)

    def of(self, principal_id: str, *, live: bool = True) -> list[MemberKey]:
        """The principal's keys in the order in which they were added."""
        return [key for key in self.keys.values() if key.principal_id == principal_id and (key.live or not live)]

    def _read(self, entry: Entry) -> None:
        said = entry.entry
        match said.act:
            case Act.ADD:
                public = checked(said, self.team, self.keys)
                self.keys[said.member_key] = MemberKey(
                    said.principal_id,
                    entry.name,
                    public,
                    said.label,
                    entry.placed_at,
                    entry.position,
                    said.invite,
                    said.proof,
                )
            case Act.VOUCH:
                checked(said, self.team, self.keys)
                key = self.keys[said.member_key]
                self.keys[said.member_key] = dataclasses.replace(key, vouched_by=(*key.vouched_by, said.signer))
            case Act.END:
                checked(said, self.team, self.keys)
                self.keys[said.member_key] = dataclasses.replace(
                    self.keys[said.member_key], ended_at=entry.placed_at
                )
            case _:
                assert_never(said.act)


def checked(entry: NewEntry, team: str, known: Mapping[str, MemberKey]) -> PublicKeys:
    """The public keys that an entry is about, if it may be placed; `known` are the directory's keys before it. The
    hub asks this before it places an entry, and every reader afterwards.

    Raises:
        Invalid: if a signature, an id or its order is wrong.
    """
    if entry.act is Act.ADD:
        public = PublicKeys(read(entry.sign, KEY_BYTES), read(entry.wrap, KEY_BYTES))
        if public.member_key_id != entry.member_key or entry.signer != entry.member_key:
            raise Invalid("The id of a member key is derived from its public keys, and it signs its own entry.")
        if entry.member_key in known:
            raise Invalid("This member key is in the directory already.")
        if len(entry.label) > DIRECTORY_LABEL_CHARS_MAX:
            raise Invalid("The label is too long.", max=DIRECTORY_LABEL_CHARS_MAX)
        signer = public
    else:
        key = known.get(entry.member_key)
        if key is None or not key.live or key.principal_id != entry.principal_id:
            raise Invalid("The principal has no such live member key.")
        public = key.public
        if entry.act is Act.END and not entry.signature:
            return public
        by = known.get(entry.signer)
        if by is None or not by.live or by.principal_id != entry.principal_id:
            raise Invalid("Only a live key of the same principal may vouch for a key or end it.")
        if entry.act is Act.VOUCH and (entry.signer == entry.member_key or not _same(entry, public)):
            raise Invalid("A key is vouched for by another one, and named with its public keys.")
        signer = by.public
    if not keys.signed_by(signer.sign, entry.signature, entry.statement(team)):
        raise Invalid("The entry's signature is not good.")
    return public


def add_entry(
    member: MemberKeys, *, team: str, principal: str, label: str, at: str, invite: str = "", proof: str = ""
) -> NewEntry:
    """Says that this key is the principal's."""
    public = member.public
    bare = NewEntry(
        Act.ADD,
        principal,
        public.member_key_id,
        keys.spell(public.sign),
        keys.spell(public.wrap),
        label,
        at,
        invite,
        proof,
        public.member_key_id,
    )
    return _signed(bare, member, team)


def vouch_entry(member: MemberKeys, about: PublicKeys, *, team: str, principal: str, at: str) -> NewEntry:
    """Says with an older key that another key of the same principal is good."""
    bare = NewEntry(
        Act.VOUCH,
        principal,
        about.member_key_id,
        keys.spell(about.sign),
        keys.spell(about.wrap),
        at=at,
        signer=member.member_key_id,
    )
    return _signed(bare, member, team)


def end_entry(member: MemberKeys, member_key: str, *, team: str, principal: str, at: str) -> NewEntry:
    """Says that a key of the same principal is not to be used any more."""
    return _signed(NewEntry(Act.END, principal, member_key, at=at, signer=member.member_key_id), member, team)


def placed(
    hub_seed: bytes, entry: NewEntry, *, team: str, position: int, previous: str, at: str, name: str = ""
) -> Entry:
    """The entry in its place, signed by the hub."""
    bare = Entry(position, entry, previous, at, name)
    return structs.replace(bare, signature=keys.sign(hub_seed, bare.statement(team)))


class Trust(StrEnum):
    """Why a key is trusted here, or not."""

    COMPARED = "compared"
    """A person compared it."""
    INVITED = "invited"
    """It proved the secret of an invite that was made or taken here."""
    VOUCHED = "vouched"
    """A trusted key of the same principal vouches for it."""
    FIRST = "first"
    """It was the first that was seen of this principal."""
    CHANGED = "changed"
    """Another key is pinned, and none that is trusted vouches for this one."""
    ENDED = "ended"

    @property
    def good(self) -> bool:
        """Whether the key may be wrapped to and its signatures count."""
        return self not in (Trust.CHANGED, Trust.ENDED)


def judge(directory: Directory, principal_id: str, pinned: Mapping[str, Trust]) -> dict[str, Trust]:
    """What to think today of each key of a principal, by member key id. `pinned`: what is pinned of it here.

    With nothing pinned, the first key that is in the directory is taken as `first`; the caller pins it. A key that
    ended keeps whatever weight its older signatures had (`believed`): `ENDED` speaks of today.
    """
    trusted = believed(directory, principal_id, pinned)
    return {
        key.public.member_key_id: trusted.get(key.public.member_key_id, Trust.CHANGED) if key.live else Trust.ENDED
        for key in directory.of(principal_id, live=False)
    }


def believed(directory: Directory, principal_id: str, pinned: Mapping[str, Trust]) -> dict[str, Trust]:
    """The keys of a principal whose signatures count, those that have ended as well, and why."""
    keys_of = {key.public.member_key_id: key for key in directory.of(principal_id, live=False)}
    trusted = {name: trust for name, trust in pinned.items() if name in keys_of and trust.good}
    if not pinned and keys_of:
        trusted[next(iter(keys_of))] = Trust.FIRST
    # Who vouches may itself be vouched for by a key that was added later, so this is asked until nothing changes.
    grew = True
    while grew:
        found = [
            name for name, key in keys_of.items() if name not in trusted and trusted.keys() & {*key.vouched_by}
        ]
        trusted.update(dict.fromkeys(found, Trust.VOUCHED))
        grew = bool(found)
    return trusted


def _same(entry: NewEntry, public: PublicKeys) -> bool:
    return (entry.sign, entry.wrap) == (keys.spell(public.sign), keys.spell(public.wrap))


def _signed(bare: NewEntry, member: MemberKeys, team: str) -> NewEntry:
    return structs.replace(bare, signature=keys.sign(member.sign_seed, bare.statement(team)))


def _broken(entry: Entry, what: str) -> DirectoryBroken:
    return DirectoryBroken(
        f"Entry {entry.position} of the directory of member keys {what}.",
        hint="The hub shows another directory than it should. Nothing was sealed with it.",
        position=entry.position,
    )
