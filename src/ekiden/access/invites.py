"""Invites: how somebody who has no key yet comes into channels, by a code that works once.

The hub keeps the digest of the code and carries two things that it does not read: the guest's member key and the
proof that the guest was told the invite by the inviter (`ekiden.crypto.invites`). The inviter judges them.

Who may change rights invites anybody, for good. Any other key needs `invite` on each channel and invites agents
only, whose keys stand below its own: narrower, and gone with it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from ekiden.access import keys, names, principals, rights, rules
from ekiden.access.port import Places
from ekiden.access.principals import TOPIC
from ekiden.access.rights import Permissions, Right
from ekiden.access.rules import InviteState, Kind
from ekiden.kernel import limits
from ekiden.kernel.errors import Conflict, EkidenError, Forbidden, Invalid, NotFound, TooMany
from ekiden.kernel.ids import Prefix, new_id
from ekiden.log.port import Actor, Reading, Row, Transaction

_GUEST_RIGHTS = (Right.READ, Right.POST, Right.ACK, Right.MENTION, Right.LEASE)


class Invite(msgspec.Struct, frozen=True):
    """An invite as its table holds it. `resources` are what the channels are called in permission maps. `below`:
    the guest's key stands below the inviter's. The last four are of the guest; `member_key` and `proof` are
    carried unread."""

    invite_id: str
    resources: tuple[str, ...]
    permissions: dict[str, list[str]]
    kind: Kind
    name: str
    made_by: str
    made_at: str
    below: bool = False
    key_expires_at: str = ""
    claimed_at: str = ""
    principal_id: str = ""
    member_key: Any = None
    proof: str = ""


@dataclass(frozen=True, slots=True)
class MadeInvite:
    invite_id: str
    expires_at: str
    resources: tuple[str, ...]
    permissions: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Joined:
    """What a claim led to."""

    invite_id: str
    principal_id: str
    key_id: str
    name: str
    inviter_id: str
    resources: tuple[str, ...]
    permissions: dict[str, list[str]]
    expires_at: str


_invite = msgspec.json.Decoder(Invite).decode


async def make_invite(
    tx: Transaction,
    actor: Actor,
    places: Places,
    *,
    channels: Sequence[str],
    permissions: Permissions | None,
    kind: Kind,
    name: str,
    expires_s: int,
    key_expires_at: str,
    code_digest: str,
) -> MadeInvite:
    """Opens an invite. Left-out permissions are all that an agent does in these channels, as far as the inviter
    may give it.

    Raises:
        Invalid: for a number of channels, a kind, name, map or time that cannot be.
        NotFound: for a channel that is not there, or that the inviter may not know of.
        Forbidden: if the inviter may not invite there, or gives more than it has.
        Conflict: if the name is taken.
        TooMany: at `INVITES_OPEN_MAX`, or as for a key below the inviter's.
    """
    await _end_old(tx)
    maker = await principals.maker(tx, actor)
    held: Permissions = json.loads(maker["permissions"])
    below = not rights.allows(held, Right.ADMIN, "access")
    if below:
        await principals.refuse_below(tx, maker, kind)
    if kind is Kind.HOST:
        raise Invalid("A computer is not invited; its key is made with POST /v1/keys.")
    if not 0 < len(channels) <= limits.INVITE_CHANNELS_MAX:
        raise Invalid(f"An invite is to 1 to {limits.INVITE_CHANNELS_MAX} channels.")
    if not limits.INVITE_S_MIN <= expires_s <= limits.INVITE_S_MAX:
        raise Invalid(f"expires_s is {limits.INVITE_S_MIN} to {limits.INVITE_S_MAX}.")
    shown = names.checked_name(name) if name else ""
    if shown:
        await principals.refuse_taken(tx, shown)
    resources = [await _invited_to(tx, places, held, channel) for channel in dict.fromkeys(channels)]
    if permissions is None:
        usual = {resource: [*_GUEST_RIGHTS, "status:*"] for resource in resources}
        granted = rights.narrowed(usual, held)
    else:
        granted = rights.checked_permissions(permissions)
        keys.refuse_beyond(held, granted)
    if len(await tx.rows("access.open_invites", team_id=tx.team_id)) >= limits.INVITES_OPEN_MAX:
        raise TooMany("Too many invites are open.", hint="Cancel those that wait.", max=limits.INVITES_OPEN_MAX)
    invite = Invite(
        invite_id=new_id(Prefix.INVITE),
        resources=tuple(resources),
        permissions=granted,
        kind=kind,
        name=shown,
        made_by=actor.principal_id,
        made_at=tx.now,
        below=below,
        key_expires_at=rules.narrowed_expiry(key_expires_at, maker["expires_at"], tx.now),
    )
    expires_at = rules.later(tx.now, expires_s)
    await tx.run(
        "access.add_invite",
        team_id=tx.team_id,
        invite_id=invite.invite_id,
        code_digest=code_digest,
        made_by_key=actor.key_id,
        expires_at=expires_at,
        invite=text_of(invite),
    )
    body = {
        "invite_id": invite.invite_id,
        "channels": invite.resources,
        "permissions": granted,
        "kind": kind,
        "name": shown,
        "expires_at": expires_at,
    }
    tx.append("invite.made", body, topics=[TOPIC], actor=actor)
    return MadeInvite(invite.invite_id, expires_at, invite.resources, granted)


async def claim_invite(
    tx: Transaction,
    places: Places,
    *,
    code: str,
    name: str,
    from_loopback: bool,
    member_key: Any,
    proof: str,
    key_digest: str,
) -> Joined | None:
    """A guest shows a code: makes its principal and key and joins it to the channels. A code works once.

    Returns None for a wrong code, since that it was wrong must be counted, and a refusal would undo the count.

    Raises:
        TooMany: after `PAIRING_TRIES_MAX` wrong codes in `PAIRING_TRIES_WINDOW_S`, as for pairings.
        Invalid, Conflict: for a name that cannot be or is taken; the code can be shown again with another.
    """
    await _end_old(tx)
    source = f"invite-{'loopback' if from_loopback else 'network'}"
    await principals.refuse_many_tries(tx, source)
    digest = rules.code_digest(code)
    row = None if digest is None else await tx.row("access.invite_by_code", team_id=tx.team_id, code_digest=digest)
    if row is None or row["state"] != InviteState.OPEN:
        await principals.count_try(tx, source)
        return None
    invite = _invite(row["invite"])
    inviter = await tx.row("access.key", key_id=row["made_by_key"])
    assert inviter is not None, "keys are never deleted"
    shown = invite.name or names.checked_name(name)
    await principals.refuse_taken(tx, shown)
    granted = rights.narrowed(invite.permissions, json.loads(inviter["permissions"]))
    principal_id = await principals.add_principal(tx, invite.kind, shown)
    key_id = await principals.add_key(
        tx,
        principal_id,
        key_digest,
        granted,
        actor=Actor(invite.made_by, inviter["key_id"], inviter["name"]),
        expires_at=invite.key_expires_at,
        parent_key=inviter["key_id"] if invite.below else "",
    )
    guest = Actor(principal_id, key_id, shown)
    for resource in invite.resources:
        if rights.allows(granted, Right.READ, resource):
            await places.join(tx, guest, invite.kind, resource)
    claimed = msgspec.structs.replace(
        invite, claimed_at=tx.now, principal_id=principal_id, name=shown, member_key=member_key, proof=proof
    )
    await tx.run(
        "access.set_invite",
        team_id=tx.team_id,
        invite_id=invite.invite_id,
        state=InviteState.CLAIMED.value,
        invite=text_of(claimed),
    )
    body = {
        "invite_id": invite.invite_id,
        "principal_id": principal_id,
        "name": shown,
        "channels": invite.resources,
        "member_key": member_key,
        "proof": proof,
    }
    tx.append("invite.claimed", body, topics=[TOPIC, f"inbox:{invite.made_by}"], actor=guest)
    return Joined(
        invite.invite_id,
        principal_id,
        key_id,
        shown,
        invite.made_by,
        invite.resources,
        granted,
        invite.key_expires_at,
    )


async def cancel_invite(tx: Transaction, actor: Actor, invite_id: str, *, any_ones: bool) -> InviteState:
    """Ends an open invite: the own one, or with `any_ones` anybody's.

    Raises:
        NotFound: if there is none, or it is not the actor's to end.
        Conflict: if it was claimed, or has ended.
    """
    await _end_old(tx)
    row = await tx.row("access.invite", team_id=tx.team_id, invite_id=invite_id)
    if row is None or not (any_ones or _invite(row["invite"]).made_by == actor.principal_id):
        raise NotFound
    if row["state"] != InviteState.OPEN:
        raise Conflict(f"The invite is {row['state']} already.", state=row["state"])
    await principals.end_invite(tx, row, InviteState.CANCELLED, actor)
    return InviteState.CANCELLED


async def list_invites(reading: Reading, principal_id: str) -> list[tuple[Row, Invite]]:
    """Invites with their rows, newest first, at most `PAGE_ROWS_MAX`; of one principal, "" for all."""
    rows = await reading.rows("access.invites", team_id=reading.team_id, most=limits.PAGE_ROWS_MAX)
    read = [(row, _invite(row["invite"])) for row in rows]
    return [(row, invite) for row, invite in read if principal_id in ("", invite.made_by)]


def no_such_code() -> EkidenError:
    """A code that was never given out, has been used or has expired: all answer alike."""
    return NotFound(
        "This invite does not work.", hint="It works once and for a time: ask who invited you for a new one."
    )


def text_of(invite: Invite) -> str:
    """An invite as its column holds it."""
    return msgspec.json.encode(invite).decode()


async def _invited_to(tx: Transaction, places: Places, held: Permissions, channel: str) -> str:
    """What permission maps call a channel to which the holder of such a map may invite."""
    resource = await places.resource_of(tx, channel, partial(rights.allows, held))
    if resource is None or not rights.allows(held, Right.READ, resource):
        raise NotFound
    if not rights.allows(held, Right.INVITE, resource):
        raise Forbidden("This key may not invite to this channel.", verb=Right.INVITE, resource=resource)
    return resource


async def _end_old(tx: Transaction) -> None:
    """Ends invites that have run out, and says so."""
    for row in await tx.rows("access.open_invites", team_id=tx.team_id):
        if row["expires_at"] <= tx.now:
            await principals.end_invite(tx, row, InviteState.EXPIRED, Actor(""))
    before = rules.later(tx.now, -limits.INVITES_KEPT_S)
    await tx.run("access.forget_invites", team_id=tx.team_id, before=before)
