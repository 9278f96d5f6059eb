"""Invites at the door: made, listed, cancelled by those who may invite; claimed by whoever has the code.

Secrets travel as in `routes`: the code and the guest's key are shown once, in the answer of the request that ran.
"""

from functools import partial
from typing import Any

import msgspec

from ekiden.access import invites, rules, secrets
from ekiden.access.invites import Invite, Joined, MadeInvite
from ekiden.access.port import Places, Ports
from ekiden.access.routes import answer_of
from ekiden.access.rules import InviteState, Kind
from ekiden.kernel import limits
from ekiden.kernel.door import Call, Endpoint
from ekiden.kernel.errors import Invalid, TooLarge
from ekiden.log.port import Reading, Row, Transaction


class NewInvite(msgspec.Struct, frozen=True):
    """`channels` are names or ids. Left-out `permissions` are all that an agent does in these channels, as far as
    the inviter may give it. `name`: what the guest will be called; empty: what it calls itself. `expires_s`: how
    long the code works. `key_expires_at`: when the guest's key ends, empty for never."""

    channels: tuple[str, ...]
    permissions: dict[str, list[str]] | None = None
    kind: Kind = Kind.AGENT
    name: str = ""
    expires_s: int = 24 * 3600
    key_expires_at: str = ""


class InviteMade(msgspec.Struct, frozen=True):
    """`code` is shown once. What is handed to the guest is the invite string, which `ekiden.crypto.invites` makes
    of it."""

    invite_id: str
    code: str
    expires_at: str
    channels: tuple[str, ...]
    permissions: dict[str, list[str]]


class ShownInvite(msgspec.Struct, frozen=True):
    """An invite without its code. `channels` as permission maps call them. `claimed_at`, `principal_id`,
    `member_key` and `proof` are of the guest; the hub has carried the last two unread."""

    invite_id: str
    state: InviteState
    channels: tuple[str, ...]
    permissions: dict[str, list[str]]
    kind: Kind
    name: str
    made_by: str
    made_at: str
    expires_at: str
    key_expires_at: str = ""
    claimed_at: str = ""
    principal_id: str = ""
    member_key: Any = None
    proof: str = ""


class Invites(msgspec.Struct, frozen=True):
    invites: tuple[ShownInvite, ...]


class InviteEnded(msgspec.Struct, frozen=True):
    invite_id: str
    state: InviteState


class ClaimInvite(msgspec.Struct, frozen=True):
    """`name` is needed unless the inviter gave one. `member_key` is the guest's signed entry for the directory and
    `proof` shows the inviter that the guest was told the whole invite: both are for `ekiden.crypto`, not for the
    hub."""

    code: str
    name: str = ""
    member_key: Any = None
    proof: str = ""


class InviteClaimed(msgspec.Struct, frozen=True):
    """`key` is shown once. `channels` as permission maps call them; the guest is a member of each already."""

    invite_id: str
    principal_id: str
    name: str
    key_id: str
    key: str
    team_id: str
    inviter_id: str
    channels: tuple[str, ...]
    permissions: dict[str, list[str]]
    expires_at: str = ""


async def _make_invite(places: Places, call: Call, body: NewInvite) -> InviteMade:
    code = secrets.new_code()
    ran = False

    async def verb(tx: Transaction) -> MadeInvite:
        nonlocal ran
        ran = True
        digest = rules.code_digest(code)
        assert digest is not None
        return await invites.make_invite(
            tx,
            call.actor,
            places,
            channels=body.channels,
            permissions=body.permissions,
            kind=body.kind,
            name=body.name,
            expires_s=body.expires_s,
            key_expires_at=body.key_expires_at,
            code_digest=digest,
        )

    made = answer_of(await call.write(verb), MadeInvite)
    return InviteMade(made.invite_id, code if ran else "", made.expires_at, made.resources, made.permissions)


async def list_invites(call: Call) -> Invites:
    """All of them for who may change rights, else the caller's own."""
    whose = "" if call.may("admin", "access") else call.actor.principal_id

    async def question(reading: Reading) -> list[tuple[Row, Invite]]:
        return await invites.list_invites(reading, whose)

    return Invites(tuple(_shown(row, invite) for row, invite in await call.ask(question)))


async def cancel_invite(call: Call) -> InviteEnded:
    """By who made it or may change rights; to others there is no such invite."""
    invite_id = call.parameters["invite_id"]
    any_ones = call.may("admin", "access")

    async def verb(tx: Transaction) -> InviteState:
        return await invites.cancel_invite(tx, call.actor, invite_id, any_ones=any_ones)

    return InviteEnded(invite_id, answer_of(await call.write(verb), InviteState))


async def _claim_invite(places: Places, call: Call, body: ClaimInvite) -> InviteClaimed:
    if len(body.proof) > limits.INVITE_PROOF_CHARS_MAX:
        raise Invalid(f"proof has at most {limits.INVITE_PROOF_CHARS_MAX} characters.")
    size = len(msgspec.json.encode(body.member_key))
    if size > limits.INVITE_MEMBER_KEY_BYTES_MAX:
        raise TooLarge("member_key is too large.", size=size, max=limits.INVITE_MEMBER_KEY_BYTES_MAX)
    key = secrets.new_key()
    ran = False

    async def verb(tx: Transaction) -> Joined | None:
        nonlocal ran
        ran = True
        return await invites.claim_invite(
            tx,
            places,
            code=body.code,
            name=body.name,
            from_loopback=call.from_loopback,
            member_key=body.member_key,
            proof=body.proof,
            key_digest=key.digest,
        )

    joined: Joined | None = msgspec.json.decode((await call.write(verb)).answer, type=Joined | None)
    if joined is None:
        raise invites.no_such_code()
    return InviteClaimed(
        invite_id=joined.invite_id,
        principal_id=joined.principal_id,
        name=joined.name,
        key_id=joined.key_id,
        key=key.text if ran else "",
        team_id=call.team_id,
        inviter_id=joined.inviter_id,
        channels=joined.resources,
        permissions=joined.permissions,
        expires_at=joined.expires_at,
    )


def _shown(row: Row, invite: Invite) -> ShownInvite:
    return ShownInvite(
        invite_id=invite.invite_id,
        state=InviteState(row["state"]),
        channels=invite.resources,
        permissions=invite.permissions,
        kind=invite.kind,
        name=invite.name,
        made_by=invite.made_by,
        made_at=invite.made_at,
        expires_at=row["expires_at"],
        key_expires_at=invite.key_expires_at,
        claimed_at=invite.claimed_at,
        principal_id=invite.principal_id,
        member_key=invite.member_key,
        proof=invite.proof,
    )


def endpoints(ports: Ports) -> tuple[Endpoint, ...]:
    """The places of this file; none where there are no channels to invite to."""
    places = ports.places
    if places is None:
        return ()
    return (
        Endpoint(
            "POST",
            "/v1/invites",
            partial(_make_invite, places),
            "Invite somebody to channels",
            body=NewInvite,
            answer=InviteMade,
            status=201,
        ),
        Endpoint("GET", "/v1/invites", list_invites, "Invites and who came by them", answer=Invites),
        Endpoint("DELETE", "/v1/invites/{invite_id}", cancel_invite, "End an open invite", answer=InviteEnded),
        Endpoint(
            "POST",
            "/v1/invites/claim",
            partial(_claim_invite, places),
            "Come in by an invite",
            body=ClaimInvite,
            answer=InviteClaimed,
            audience="open",
            status=201,
        ),
    )
