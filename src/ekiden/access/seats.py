"""Seats: an owned session is an agent, with a name that people can call and a key for its tools.

A seat is one session's for good. Its key is made anew each time that the session's process starts, and ends when
the session is released. What its owner has narrowed stays narrowed; what its owner has revoked is not made again.
"""

import json
import re
from dataclasses import dataclass

from ekiden.access import keys, principals, rules
from ekiden.access.rules import Kind
from ekiden.kernel import limits
from ekiden.kernel.errors import Forbidden, NotFound
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.log.port import Actor, Transaction

_MARK_LETTERS = 4
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class TakenSeat:
    """Which agent a session is, with its new key."""

    session_id: str
    principal_id: str
    name: str
    key_id: str
    expires_at: str


async def take_seat(
    tx: Transaction,
    actor: Actor,
    host_id: str,
    *,
    vendor: str,
    native_id: str,
    project: str,
    secret_digest: str,
) -> TakenSeat:
    """Makes or finds the agent that a session of this host is, and gives it a new key in place of the one before.

    Raises:
        Forbidden: if its key was revoked.
        Conflict: if somebody else has its name by now.
        TooMany: at `KEYS_PER_TEAM_MAX`.
    """
    # Derived from the host's own id: a host can seat its own sessions only.
    session_id = derived_id(Prefix.SESSION, host_id, vendor, native_id)
    seat = await tx.row("access.seat_of_session", team_id=tx.team_id, session_id=session_id)
    expires_at = rules.later(tx.now, limits.SEAT_KEY_S)
    permissions = rules.default_permissions(Kind.AGENT)
    old_key_id = ""
    if seat is None:
        name = await _free_name(tx, vendor, project, session_id)
        principal_id = await principals.add_principal(tx, Kind.AGENT, name)
    else:
        name, principal_id, old_key_id = seat["name"], seat["principal_id"], seat["key_id"]
        old = await tx.row("access.key", key_id=old_key_id)
        assert old is not None, "keys are never deleted"
        if old["revoked_at"] and not seat["released"]:
            raise Forbidden(
                f"The key of {name} was revoked.", hint="The owner can begin another session.", refused="revoked"
            )
        permissions = json.loads(old["permissions"])
        if old["revoked_at"] or (old["expires_at"] and old["expires_at"] <= tx.now):
            await principals.refuse_taken(tx, name)
    key_id = await principals.add_key(
        tx, principal_id, secret_digest, permissions, actor=actor, expires_at=expires_at, replaces=old_key_id
    )
    if old_key_id:
        await keys.hand_over(tx, old_key_id, key_id)
        await keys.end_if_valid(tx, old_key_id, actor, reason="renewed")
    await tx.run(
        "access.put_seat",
        team_id=tx.team_id,
        principal_id=principal_id,
        session_id=session_id,
        host_id=host_id,
        key_id=key_id,
        released=0,
    )
    return TakenSeat(session_id, principal_id, name, key_id, expires_at)


async def leave_seat(tx: Transaction, actor: Actor, host_id: str, session_id: str) -> str:
    """The session is let go: its agent's key ends, with all below it. Returns the key's id.

    Raises:
        NotFound: if no session of this host sits there.
    """
    seat = await tx.row("access.seat_of_session", team_id=tx.team_id, session_id=session_id)
    if seat is None or seat["host_id"] != host_id:
        raise NotFound
    old = await tx.row("access.key", key_id=seat["key_id"])
    assert old is not None, "keys are never deleted"
    if not old["revoked_at"]:
        await tx.run(
            "access.put_seat",
            team_id=tx.team_id,
            principal_id=seat["principal_id"],
            session_id=session_id,
            host_id=host_id,
            key_id=seat["key_id"],
            released=1,
        )
        await keys.revoke_key(tx, actor, seat["key_id"], reason="released")
    return str(seat["key_id"])


async def _free_name(tx: Transaction, vendor: str, project: str, session_id: str) -> str:
    """`claude-webshop-3f9k`: readable, and told apart by as much of the session's id as that takes."""
    folder = _plain(project)[: limits.SEAT_PROJECT_CHARS_MAX].strip("-")
    begin = "-".join(part for part in (_plain(vendor)[: limits.SEAT_PROJECT_CHARS_MAX] or "agent", folder) if part)
    mark = session_id.rpartition("_")[2]
    for letters in range(_MARK_LETTERS, len(mark)):
        name = f"{begin}-{mark[-letters:]}"
        if not await principals.is_taken(tx, name):
            return name
    return f"{begin}-{mark}"


def _plain(text: str) -> str:
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")
