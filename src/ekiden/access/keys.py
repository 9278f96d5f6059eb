"""Keys from their making to their end: made, changed, rotated, revoked, and why they may or may not.

A key that another made below itself never has more than that one, and ends with it; whatever changes a key is
carried on to all that are below it, in the same transaction.
"""

import json
from dataclasses import dataclass

from ekiden.access import names, principals, rights, rules
from ekiden.access.port import Taint
from ekiden.access.principals import TOPIC
from ekiden.access.rights import Explanation, PermissionMap, Permissions, Right
from ekiden.access.rules import InviteState, Kind, PairingState
from ekiden.kernel import limits
from ekiden.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.log.port import Actor, Reading, Row, Transaction


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A key that was made. Its secret is known only to the caller who handed in the digest."""

    key_id: str
    principal_id: str
    host_id: str = ""


@dataclass(frozen=True, slots=True)
class Rotated:
    """The key that takes another's place, and when that one ends."""

    key_id: str
    principal_id: str
    old_key_id: str
    old_ends_at: str


@dataclass(frozen=True, slots=True)
class Revoked:
    """When a key ended, which keys below it ended or are distrusted with it, what they had written since the time
    in doubt (one entry for each key, as the relay room tells it), and which keys the principal has still."""

    key_id: str
    revoked_at: str
    since: str
    keys: tuple[str, ...]
    tainted: tuple[object, ...]
    still_valid: tuple[str, ...]


async def list_keys(reading: Reading) -> list[Row]:
    """The team's keys, at most `PAGE_ROWS_MAX`, valid ones first, newest first."""
    return await reading.rows("access.keys", team_id=reading.team_id, most=limits.PAGE_ROWS_MAX)


async def make_key(
    tx: Transaction,
    actor: Actor,
    *,
    name: str,
    kind: Kind,
    permissions: Permissions | None,
    expires_at: str,
    secret_digest: str,
) -> MadeKey:
    """Makes a principal and its key; a host also gets the id of its computer. A key may not give more than it has.

    Who may change rights makes any kind, for itself to stand. Any other key makes agents only, below itself: they
    end with it.

    Raises:
        Invalid: for a name, map or time that cannot be; permissions for a host are always its own.
        Conflict: if a principal of that name is there.
        Forbidden: if the map goes beyond the maker's own, or the kind is not the maker's to make.
        TooMany: at `KEYS_PER_TEAM_MAX`, `KEYS_BELOW_ONE_MAX` or `KEY_DEPTH_MAX`.
    """
    maker = await principals.maker(tx, actor)
    held: Permissions = json.loads(maker["permissions"])
    below = not rights.allows(held, Right.ADMIN, "access")
    if below:
        await principals.refuse_below(tx, maker, kind)
    shown = names.checked_name(name)
    await principals.refuse_taken(tx, shown)
    ends_at = rules.narrowed_expiry(expires_at, maker["expires_at"], tx.now)
    if kind is Kind.HOST:
        if permissions is not None:
            raise Forbidden("A host's key may feed its own computer's sessions and nothing else.")
        principal_id = await principals.add_principal(tx, kind, shown)
        host_id = derived_id(Prefix.HOST, principal_id)
        granted = rules.default_permissions(kind, host_id)
    else:
        usual = held if below else rules.default_permissions(kind)
        granted = rights.checked_permissions(usual if permissions is None else permissions)
        refuse_beyond(held, granted)
        principal_id, host_id = await principals.add_principal(tx, kind, shown), ""
    key_id = await principals.add_key(
        tx,
        principal_id,
        secret_digest,
        granted,
        actor=actor,
        expires_at=ends_at,
        parent_key=actor.key_id if below else "",
    )
    return MadeKey(key_id, principal_id, host_id)


async def change_key(tx: Transaction, actor: Actor, key_id: str, permissions: Permissions) -> dict[str, list[str]]:
    """Gives a key another map; what is below it loses what it loses. Returns the map.

    Raises:
        Invalid: for a map that cannot be.
        NotFound: if the team has no such key.
        Forbidden: if the map goes beyond that of who changes it, or of the key above; for a host's key.
        Conflict: if the key has ended, or is that of this computer's command line.
    """
    changer = await principals.maker(tx, actor)
    row = await _live_key(tx, key_id)
    if row["kind"] == Kind.HOST:
        raise Forbidden("A host's key may feed its own computer's sessions and nothing else.")
    if row["local_line"]:
        raise Conflict("The key of this computer's command line has all rights: who reads its file owns the hub.")
    granted = rights.checked_permissions(permissions)
    refuse_beyond(json.loads(changer["permissions"]), granted)
    if row["parent_key"]:
        above = await tx.row("access.key", key_id=row["parent_key"])
        if above is not None:
            refuse_beyond(json.loads(above["permissions"]), granted, whose="The key above it")
    if granted == json.loads(row["permissions"]):
        return granted
    await _set_permissions(tx, row, granted, actor)
    now_held: dict[str, Permissions] = {key_id: granted}
    for below in (await principals.key_and_below(tx, key_id))[1:]:
        lower = await tx.row("access.key", key_id=below)
        assert lower is not None
        before: dict[str, list[str]] = json.loads(lower["permissions"])
        within = now_held[lower["parent_key"]]
        narrowed = before if rights.covers(within, before) else rights.narrowed(before, within)
        now_held[below] = narrowed
        if narrowed != before:
            await _set_permissions(tx, lower, narrowed, actor)
    return granted


async def rotate_key(tx: Transaction, actor: Actor, key_id: str, *, overlap_s: int, secret_digest: str) -> Rotated:
    """Gives the principal of a key a new one with the same rights and end; the old one goes on for `overlap_s` at
    most. Keys below it and its invites go over to the new one.

    Raises:
        Invalid: for an overlap over `KEY_OVERLAP_S_MAX`.
        NotFound: if the team has no such key.
        Conflict: if it has ended or was rotated already, or is that of this computer's command line.
    """
    if not 0 <= overlap_s <= limits.KEY_OVERLAP_S_MAX:
        raise Invalid(f"overlap_s is 0 to {limits.KEY_OVERLAP_S_MAX}.")
    row = await _live_key(tx, key_id)
    if row["local_line"]:
        raise Conflict(
            "The key of this computer's command line is replaced by deleting its file and starting the hub anew."
        )
    if row["replaced_by"]:
        raise Conflict("The key was rotated already.", replaced_by=row["replaced_by"])
    new_key_id = await principals.add_key(
        tx,
        row["principal_id"],
        secret_digest,
        json.loads(row["permissions"]),
        actor=actor,
        expires_at=row["expires_at"],
        parent_key=row["parent_key"],
        replaces=key_id,
    )
    ends_at = rules.later(tx.now, overlap_s)
    if row["expires_at"]:
        ends_at = min(ends_at, row["expires_at"])
    await tx.run("access.replace_key", key_id=key_id, replaced_by=new_key_id, expires_at=ends_at)
    await hand_over(tx, key_id, new_key_id)
    body = {"key_id": key_id, "principal_id": row["principal_id"], "replaced_by": new_key_id, "ends_at": ends_at}
    tx.append("key.rotated", body, topics=[TOPIC], actor=actor)
    if not overlap_s:
        await end_key(tx, key_id, actor, reason="rotated")
    return Rotated(new_key_id, row["principal_id"], key_id, ends_at)


async def revoke_key(tx: Transaction, actor: Actor, key_id: str, *, reason: str = "revoked") -> str:
    """Ends a key, the keys below it, and the pairings and invites that they opened; a key that has ended stays so.
    Returns when it ended.

    Raises:
        NotFound: if the team has no such key.
    """
    row = await _key(tx, key_id)
    if row["revoked_at"]:
        return str(row["revoked_at"])
    for below in await principals.key_and_below(tx, key_id):
        await end_key(tx, below, actor, reason=reason if below == key_id else "parent_ended")
    return tx.now


async def revoke_since(tx: Transaction, actor: Actor, key_id: str, *, since: str, taint: Taint | None) -> Revoked:
    """Ends a key as `revoke_key` does and distrusts what it, and the keys below it, wrote after `since` (RFC 3339;
    "": nothing is in doubt): `taint` marks that and puts back what can be put back. May be said of a key that has
    ended already, and again with an earlier time.

    Raises:
        Invalid: if `since` is no time or has not come yet.
        NotFound: if the team has no such key.
    """
    doubted_from = rules.past_time(since, tx.now) if since else ""
    below = await principals.keys_below_since(tx, key_id, doubted_from or tx.now)
    revoked_at = await revoke_key(tx, actor, key_id)
    marked: list[object] = []
    if doubted_from:
        for one in (key_id, *below):
            await tx.run("access.suspect_key", key_id=one, suspect_since=doubted_from)
            body = {"key_id": one, "since": doubted_from}
            tx.append("key.suspected", body, topics=[TOPIC], actor=actor)
            if taint is not None:
                marked.append(await taint(tx, actor, one, doubted_from))
    row = await _key(tx, key_id)
    others = await tx.rows(
        "access.valid_keys_of", team_id=tx.team_id, principal_id=row["principal_id"], now=tx.now
    )
    return Revoked(
        key_id,
        revoked_at,
        doubted_from,
        (key_id, *below),
        tuple(marked),
        tuple(str(other["key_id"]) for other in others),
    )


async def explain_key(reading: Reading, key_id: str, verb: str, resource: str) -> tuple[Row, Explanation]:
    """Why a key may do `verb` on `resource` or not, and the key itself (which may have ended).

    Raises:
        NotFound: if the team has no such key.
    """
    row = await _key(reading, key_id)
    held = PermissionMap(json.loads(row["permissions"]), rules.own_resources(row["principal_id"]))
    return row, rights.explain(held, verb, resource)


# What several verbs share


async def end_key(tx: Transaction, key_id: str, actor: Actor, *, reason: str) -> None:
    """Ends one key with the pairings and invites that it opened, and says so."""
    await tx.run("access.revoke_key", team_id=tx.team_id, key_id=key_id, revoked_at=tx.now)
    row = await tx.row("access.key", key_id=key_id)
    assert row is not None
    body = {"key_id": key_id, "principal_id": row["principal_id"], "name": row["name"], "reason": reason}
    tx.append("key.revoked", body, topics=[TOPIC], actor=actor)
    for pairing in await tx.rows("access.live_pairings", team_id=tx.team_id):
        if pairing["made_by"] == key_id:
            state = rules.move_pairing(PairingState(pairing["state"]), PairingState.CANCELLED)
            await tx.run("access.move_pairing", pairing_id=pairing["pairing_id"], state=state.value)
            principals.tell_pairing_end(tx, pairing["pairing_id"], state, actor)
    for invite in await tx.rows("access.open_invites", team_id=tx.team_id):
        if invite["made_by_key"] == key_id:
            await principals.end_invite(tx, invite, InviteState.CANCELLED, actor)


async def end_if_valid(tx: Transaction, key_id: str, actor: Actor, *, reason: str) -> None:
    """Ends one key, unless it has ended already."""
    row = await _key(tx, key_id)
    if not row["revoked_at"]:
        await end_key(tx, key_id, actor, reason=reason)


async def hand_over(tx: Transaction, key_id: str, new_key_id: str) -> None:
    """Puts what is below a key, and its open invites, below the key that takes its place."""
    await tx.run("access.move_keys_below", team_id=tx.team_id, parent_key=key_id, new_parent_key=new_key_id)
    await tx.run("access.move_invites", team_id=tx.team_id, made_by_key=key_id, new_key=new_key_id)


def refuse_beyond(held: Permissions, granted: Permissions, *, whose: str = "This key") -> None:
    """Raises:
    Forbidden: if `granted` goes beyond `held`; `details` say where.
    """
    too_much = next(rights.beyond(held, granted), None)
    if too_much is not None:
        pattern, verb = too_much
        raise Forbidden(
            "A key cannot give more than it has.",
            hint=f"{whose} lacks {verb!r} on {pattern!r}.",
            pattern=pattern,
            verb=verb,
        )


async def _key(reading: Reading, key_id: str) -> Row:
    row = await reading.row("access.key", key_id=key_id)
    if row is None or row["team_id"] != reading.team_id:
        raise NotFound
    return row


async def _live_key(tx: Transaction, key_id: str) -> Row:
    row = await _key(tx, key_id)
    if row["revoked_at"] or (row["expires_at"] and row["expires_at"] <= tx.now):
        raise Conflict("The key has ended.", revoked_at=row["revoked_at"], expires_at=row["expires_at"])
    return row


async def _set_permissions(tx: Transaction, row: Row, permissions: Permissions, actor: Actor) -> None:
    await tx.run("access.change_key", key_id=row["key_id"], permissions=json.dumps(permissions))
    body = {
        "key_id": row["key_id"],
        "principal_id": row["principal_id"],
        "name": row["name"],
        "permissions": permissions,
        "before": json.loads(row["permissions"]),
    }
    tx.append("key.changed", body, topics=[TOPIC], actor=actor)
