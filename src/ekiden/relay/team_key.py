"""The hub's signing key of a team: made once, with the first thing that is to be signed, and kept for ever.

It signs where things stand (messages, status, directory), tickets of leases, notes of purges and checkpoints of
the log. Members pin its public half. Its seed is in the database, so whoever has that can sign as the hub;
members' own keys are not there.
"""

import secrets
from dataclasses import dataclass, field

from ekiden.crypto.keys import KEY_BYTES, read, signing_public, spell
from ekiden.log.port import Reading, Row, Transaction


@dataclass(frozen=True, slots=True)
class TeamKey:
    """Both halves: the seed (32 bytes), and the public key as it is spelled on the wire."""

    seed: bytes = field(repr=False)
    public_key: str
    made_at: str


def _of(row: Row) -> TeamKey:
    return TeamKey(read(row["seed"], KEY_BYTES), row["public_key"], row["made_at"])


async def known_team_key(reading: Reading) -> TeamKey | None:
    """The team's key, or None if nothing was signed yet."""
    row = await reading.row("relay.team_key", team_id=reading.team_id)
    return _of(row) if row is not None else None


async def team_key(tx: Transaction) -> TeamKey:
    """The team's key, made now if there is none."""
    known = await known_team_key(tx)
    if known is not None:
        return known
    seed = secrets.token_bytes(KEY_BYTES)
    made = TeamKey(seed, spell(signing_public(seed)), tx.now)
    await tx.run(
        "relay.add_team_key",
        team_id=tx.team_id,
        seed=spell(seed),
        public_key=made.public_key,
        made_at=made.made_at,
    )
    return made
