"""What the room's verbs share: who acts, whose name is taken, and how a principal and its key come to be."""

import json

from ekiden.access import names, rules
from ekiden.access.rights import Permissions
from ekiden.access.rules import InviteState, Kind, PairingState
from ekiden.kernel import limits
from ekiden.kernel.errors import Conflict, Forbidden, TooMany, Unauthenticated
from ekiden.kernel.ids import Prefix, derived_id, new_id
from ekiden.log.port import Actor, Row, Transaction

TOPIC = "access"
"""The topic of all events of this room."""


async def maker(tx: Transaction, actor: Actor) -> Row:
    """The key that acts, as it is now and not as the door remembers it.

    Raises:
        Unauthenticated: if it has ended meanwhile.
    """
    row = await tx.row("access.key", key_id=actor.key_id)
    if row is None or row["team_id"] != tx.team_id:
        raise Unauthenticated("The key is not known here.")
    rules.refuse_key(revoked_at=row["revoked_at"], expires_at=row["expires_at"], now=tx.now)
    return row


async def is_taken(tx: Transaction, name: str) -> bool:
    """Whether a principal with a valid key has this name, or one that looks the same."""
    canonical = names.canonical_name(name)
    return bool(await tx.rows("access.principals_named", team_id=tx.team_id, canonical=canonical, now=tx.now))


async def refuse_taken(tx: Transaction, name: str) -> None:
    """Raises:
    Conflict: if the name is taken.
    """
    if await is_taken(tx, name):
        raise Conflict(
            f"There is somebody called {name!r}, or so much alike that people would take one for the other.",
            hint="Take another name, or revoke that one's keys first.",
            name=name,
        )


async def add_principal(tx: Transaction, kind: Kind, name: str) -> str:
    """Makes a principal and returns its id. A host's computer gets its id from the principal's."""
    principal_id = new_id(Prefix.PRINCIPAL)
    await tx.run(
        "access.add_principal",
        principal_id=principal_id,
        team_id=tx.team_id,
        kind=kind.value,
        name=name,
        canonical=names.canonical_name(name),
        host_id=derived_id(Prefix.HOST, principal_id) if kind is Kind.HOST else "",
        made_at=tx.now,
    )
    return principal_id


async def add_key(
    tx: Transaction,
    principal_id: str,
    secret_digest: str,
    permissions: Permissions,
    *,
    actor: Actor,
    expires_at: str = "",
    local_line: bool = False,
    parent_key: str = "",
    replaces: str = "",
) -> str:
    """Makes a key for a principal, tells it, and returns its id. `local_line`: for the command line of this
    computer, which is never locked out by the number of keys. It ends with `parent_key`; it takes the place of
    `replaces`.

    Raises:
        TooMany: at `KEYS_PER_TEAM_MAX`.
    """
    counted = await tx.row("access.count_keys", team_id=tx.team_id, now=tx.now)
    if not local_line and counted is not None and counted["count"] >= limits.KEYS_PER_TEAM_MAX:
        raise TooMany(
            "The team has as many keys as it may have.",
            hint="Revoke those that are not used.",
            max=limits.KEYS_PER_TEAM_MAX,
        )
    key_id = rules.key_id_of(secret_digest)
    await tx.run(
        "access.add_key",
        key_id=key_id,
        team_id=tx.team_id,
        principal_id=principal_id,
        secret_digest=secret_digest,
        permissions=json.dumps(permissions),
        local_line=int(local_line),
        made_at=tx.now,
        made_by=actor.key_id,
        expires_at=expires_at,
        parent_key=parent_key,
    )
    row = await tx.row("access.key", key_id=key_id)
    assert row is not None
    body = {
        "key_id": key_id,
        "principal_id": principal_id,
        "kind": row["kind"],
        "name": row["name"],
        "permissions": permissions,
        "expires_at": expires_at,
        "parent_key": parent_key,
        "replaces": replaces,
    }
    tx.append("key.made", body, topics=[TOPIC], actor=actor)
    return key_id


async def refuse_below(tx: Transaction, maker: Row, kind: Kind) -> None:
    """Whether a key that may not change rights can make one more key below itself.

    Raises:
        Forbidden: if it is to be no agent's, or the maker is a host.
        TooMany: if the maker has `KEYS_BELOW_ONE_MAX` valid ones already, or is `KEY_DEPTH_MAX` deep itself.
    """
    if kind is not Kind.AGENT or maker["kind"] == Kind.HOST:
        raise Forbidden(
            "This key makes keys of agents only, below itself."
            if maker["kind"] != Kind.HOST
            else "A host's key makes no keys.",
            hint="Only a key with admin on access makes others.",
        )
    counted = await tx.row("access.count_keys_below", team_id=tx.team_id, parent_key=maker["key_id"], now=tx.now)
    if counted is not None and counted["count"] >= limits.KEYS_BELOW_ONE_MAX:
        raise TooMany(
            "This key has as many keys below it as it may have.",
            hint="Revoke those that are done.",
            max=limits.KEYS_BELOW_ONE_MAX,
        )
    above = str(maker["parent_key"])
    for _ in range(limits.KEY_DEPTH_MAX - 1):
        row = await tx.row("access.key", key_id=above) if above else None
        if row is None:
            return
        above = str(row["parent_key"])
    raise TooMany(
        f"Keys are made at most {limits.KEY_DEPTH_MAX} deep below one another.", max=limits.KEY_DEPTH_MAX
    )


async def key_and_below(tx: Transaction, key_id: str) -> list[str]:
    """A key and all valid ones below it, each before those below it."""
    found = [key_id]
    for above in found:
        found.extend(
            str(row["key_id"]) for row in await tx.rows("access.keys_below", team_id=tx.team_id, parent_key=above)
        )
    return found


async def keys_below_since(tx: Transaction, key_id: str, since: str) -> list[str]:
    """All keys below a key that were valid at some time after `since`, ended or not."""
    found = [key_id]
    for above in found:
        rows = await tx.rows("access.keys_below_since", team_id=tx.team_id, parent_key=above, since=since)
        found.extend(str(row["key_id"]) for row in rows)
    return found[1:]


async def refuse_many_tries(tx: Transaction, source: str) -> None:
    """Raises:
    TooMany: after `PAIRING_TRIES_MAX` wrong codes from a source in `PAIRING_TRIES_WINDOW_S`.
    """
    since_s, tries = await _tries(tx, source)
    if tries >= limits.PAIRING_TRIES_MAX:
        raise TooMany(
            "Too many wrong codes.",
            hint="Wait a minute, then try the code again.",
            max=limits.PAIRING_TRIES_MAX,
            retry_after_s=max(1, since_s + limits.PAIRING_TRIES_WINDOW_S - int(rules.seconds_at(tx.now))),
        )


async def count_try(tx: Transaction, source: str) -> None:
    """One more wrong code came from a source."""
    since_s, tries = await _tries(tx, source)
    await tx.run("access.set_tries", team_id=tx.team_id, source=source, since_s=since_s, tries=tries + 1)


async def _tries(tx: Transaction, source: str) -> tuple[int, int]:
    """Since when wrong codes of a source are counted, and how many came."""
    now_s = int(rules.seconds_at(tx.now))
    row = await tx.row("access.tries", team_id=tx.team_id, source=source)
    if row is None or now_s - row["since_s"] >= limits.PAIRING_TRIES_WINDOW_S:
        return now_s, 0
    return row["since_s"], row["tries"]


def tell_pairing_end(tx: Transaction, pairing_id: str, state: PairingState, actor: Actor) -> None:
    """Says that a pairing is at its end."""
    tx.append("pairing.ended", {"pairing_id": pairing_id, "state": state.value}, topics=[TOPIC], actor=actor)


async def end_invite(tx: Transaction, row: Row, state: InviteState, actor: Actor) -> None:
    """Ends an open invite without a guest, and says so."""
    await tx.run(
        "access.set_invite",
        team_id=tx.team_id,
        invite_id=row["invite_id"],
        state=state.value,
        invite=row["invite"],
    )
    body = {"invite_id": row["invite_id"], "state": state.value}
    tx.append("invite.ended", body, topics=[TOPIC], actor=actor)
