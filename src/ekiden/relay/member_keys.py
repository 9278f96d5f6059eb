"""Member keys as the directory's entries tell them: whose, with which public halves, and whether they have
ended."""

import dataclasses
from collections.abc import Iterable
from typing import assert_never

import msgspec

from ekiden.crypto.directory import Act, Entry, MemberKey
from ekiden.crypto.keys import KEY_BYTES, PublicKeys, read
from ekiden.log.port import Reading, Row

_entry = msgspec.json.Decoder(Entry).decode


def _fold(rows: Iterable[Row]) -> MemberKey | None:
    """One key as its entries tell it, in the order of their positions."""
    key: MemberKey | None = None
    for row in rows:
        entry = _entry(row["entry"])
        said = entry.entry
        match said.act:
            case Act.ADD:
                public = PublicKeys(read(said.sign, KEY_BYTES), read(said.wrap, KEY_BYTES))
                key = MemberKey(
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
                assert key is not None
                key = dataclasses.replace(key, vouched_by=(*key.vouched_by, said.signer))
            case Act.END:
                assert key is not None
                key = dataclasses.replace(key, ended_at=entry.placed_at)
            case _:
                assert_never(said.act)
    return key


async def load_member_key(reading: Reading, member_key_id: str) -> MemberKey | None:
    """One member key, ended or not; None if the directory has none of this id."""
    return _fold(
        await reading.rows("relay.directory_of_key", team_id=reading.team_id, member_key_id=member_key_id)
    )


async def keys_of_members(reading: Reading, channel_id: str) -> list[MemberKey]:
    """The live member keys of all who are in a channel."""
    return _live(await reading.rows("relay.directory_of_members", team_id=reading.team_id, channel_id=channel_id))


async def keys_of(reading: Reading, principal_id: str) -> list[MemberKey]:
    """The live member keys of a principal, in the order in which they were added."""
    return _live(
        await reading.rows("relay.directory_of_principal", team_id=reading.team_id, principal_id=principal_id)
    )


def _live(rows: Iterable[Row]) -> list[MemberKey]:
    by_key: dict[str, list[Row]] = {}
    for row in rows:
        by_key.setdefault(row["member_key_id"], []).append(row)
    keys = (_fold(entries) for entries in by_key.values())
    return [key for key in keys if key is not None and key.live]
