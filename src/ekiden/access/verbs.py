"""What can be done in the access room. Each function runs inside the log's transaction (or on its reading).

No secret goes through the log: callers make secrets, hand in their digests, and keep the secret for the one
answer in which it is shown. So neither tables nor stored command answers can give one away.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ekiden.access import keys, names, principals, rights, rules
from ekiden.access.keys import MadeKey
from ekiden.access.rights import PermissionMap, Permissions
from ekiden.access.rules import Identity, Kind, PairingState
from ekiden.kernel import limits
from ekiden.kernel.errors import NotFound, TooMany, Unauthenticated
from ekiden.kernel.ids import Prefix, new_id
from ekiden.log.port import Actor, Reading, Row, Transaction

TOPIC = principals.TOPIC
_OWNER_NAME = "Owner"
_LOCAL_ACTOR_NAME = "this computer"
_NAMES_TRIED_MAX = limits.KEYS_PER_TEAM_MAX + 1


@dataclass(frozen=True, slots=True)
class MadePairing:
    pairing_id: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim led to: `collected` (a key was made) or `waiting`, with the digits to compare."""

    pairing_id: str
    state: PairingState
    words: str


# Who it is


async def identify(reading: Reading, presented_key: str, *, now: str) -> Identity:
    """Who a presented key belongs to. `now` is RFC 3339.

    Raises:
        Unauthenticated: if the key is not known, has expired or was revoked; only who knows its secret is told
            which of these.
    """
    presented = rules.read_key(presented_key)
    row = None if presented is None else await reading.row("access.key", key_id=presented.key_id)
    if presented is None or row is None or not rules.same_digest(row["secret_digest"], presented.digest):
        raise Unauthenticated("The key is not known here.", hint="Pair this device, or check the key.")
    rules.refuse_key(revoked_at=row["revoked_at"], expires_at=row["expires_at"], now=now)
    return Identity(
        team_id=row["team_id"],
        principal_id=row["principal_id"],
        key_id=row["key_id"],
        name=row["name"],
        kind=Kind(row["kind"]),
        permissions=PermissionMap(json.loads(row["permissions"]), rules.own_resources(row["principal_id"])),
        expires_at=rules.seconds_of(row["expires_at"]),
        used_at=row["used_at"],
    )


async def note_used(tx: Transaction, key_id: str) -> bool:
    """Dates a key's use, coarsely; its first use is an event. Returns whether anything was written."""
    row = await tx.row("access.key", key_id=key_id)
    if row is None:
        return False
    if not row["used_at"]:
        actor = Actor(row["principal_id"], key_id, row["name"])
        body = {"key_id": key_id, "principal_id": row["principal_id"], "kind": row["kind"], "name": row["name"]}
        tx.append("key.used_first", body, topics=[TOPIC], actor=actor)
    elif rules.seconds_at(tx.now) - rules.seconds_at(row["used_at"]) < limits.KEY_USED_EVERY_S:
        return False
    await tx.run("access.use_key", key_id=key_id, used_at=tx.now)
    return True


# Teams


async def home_team(reading: Reading) -> str:
    """The id of the team that a hub serves, "" before its first start."""
    row = await reading.row("access.teams")
    return row["team_id"] if row is not None else ""


async def bootstrap(tx: Transaction, *, secret_digest: str, alone: bool = True) -> MadeKey:
    """At a team's first start: makes the team, its owner and the key of this computer's command line. Later: ends
    that key and makes a new one for the same owner (who can read the data folder owns the hub anyway). Where the
    hub is not `alone` on its log, each of its nodes has such a key, and none ends another's."""
    if await tx.row("access.team", team_id=tx.team_id) is None:
        await tx.run("access.add_team", team_id=tx.team_id, made_at=tx.now)
    owner = await tx.row("access.owner", team_id=tx.team_id)
    if owner is None:
        principal_id = await principals.add_principal(tx, Kind.PERSON, _OWNER_NAME)
    else:
        principal_id = str(owner["principal_id"])
        for row in await tx.rows("access.local_keys", team_id=tx.team_id) if alone else ():
            await keys.end_key(tx, row["key_id"], Actor(principal_id, "", _LOCAL_ACTOR_NAME), reason="replaced")
    key_id = await principals.add_key(
        tx,
        principal_id,
        secret_digest,
        rules.default_permissions(Kind.PERSON),
        actor=Actor(principal_id, "", _LOCAL_ACTOR_NAME),
        local_line=True,
    )
    return MadeKey(key_id, principal_id)


# Pairing


async def make_pairing(tx: Transaction, actor: Actor, *, name: str, local: bool, code_digest: str) -> MadePairing:
    """Opens a pairing for one device; the key to come gets what its maker has, at most.

    Raises:
        Invalid, Conflict: for a name that cannot be or is taken.
        TooMany: at `PAIRINGS_OPEN_MAX`.
    """
    await end_old_pairings(tx)
    maker = await principals.maker(tx, actor)
    shown = names.checked_name(name) if name else ""
    if shown:
        await principals.refuse_taken(tx, shown)
    if len(await tx.rows("access.live_pairings", team_id=tx.team_id)) >= limits.PAIRINGS_OPEN_MAX:
        raise TooMany(
            "Too many pairings are open.",
            hint="Confirm or deny those that wait, or let them run out.",
            max=limits.PAIRINGS_OPEN_MAX,
            retry_after_s=int(limits.PAIRING_CODE_S),
        )
    held: Permissions = json.loads(maker["permissions"])
    usual = rules.default_permissions(Kind.DEVICE)
    made = MadePairing(new_id(Prefix.PAIRING), rules.later(tx.now, limits.PAIRING_CODE_S))
    await tx.run(
        "access.add_pairing",
        pairing_id=made.pairing_id,
        team_id=tx.team_id,
        code_digest=code_digest,
        local=int(local),
        name=shown,
        permissions=json.dumps(usual if rights.covers(held, usual) else held),
        key_expires_at=maker["expires_at"],
        made_by=actor.key_id,
        made_at=tx.now,
        expires_at=made.expires_at,
    )
    return made


async def claim_pairing(
    tx: Transaction,
    *,
    code: str,
    device: str,
    from_loopback: bool,
    claim_digest: str,
    key_digest: str,
    random_words: int,
) -> Claimed | None:
    """A device shows a code. A code works once: whoever comes second is told nothing.

    Returns None for a wrong code, since that it was wrong must be counted, and a refusal would undo the count.

    Raises:
        TooMany: after `PAIRING_TRIES_MAX` wrong codes in `PAIRING_TRIES_WINDOW_S` from the network, or from this
            computer: counted apart, so that a stranger in the network cannot lock this computer out.
    """
    await end_old_pairings(tx)
    source = "loopback" if from_loopback else "network"
    await principals.refuse_many_tries(tx, source)
    digest = rules.code_digest(code)
    row = (
        None if digest is None else await tx.row("access.pairing_by_code", team_id=tx.team_id, code_digest=digest)
    )
    if row is None or row["state"] != PairingState.OPEN:
        await principals.count_try(tx, source)
        return None
    state = rules.move_pairing(
        PairingState.OPEN, rules.claimed_state(local=bool(row["local"]), from_loopback=from_loopback)
    )
    claimed = Claimed(row["pairing_id"], state, rules.words_of(random_words))
    await tx.run(
        "access.claim_pairing",
        pairing_id=claimed.pairing_id,
        state=state.value,
        claim_digest=claim_digest,
        device=names.cleaned_name(device),
        words=claimed.words,
        claimed_at=tx.now,
    )
    if state is PairingState.COLLECTED:
        made = await _add_device(tx, {**row, "device": names.cleaned_name(device)}, key_digest)
        principals.tell_pairing_end(tx, claimed.pairing_id, state, made)
    else:
        body = {
            "pairing_id": claimed.pairing_id,
            "device": names.cleaned_name(device),
            "name": row["name"],
            "words": claimed.words,
            "expires_at": row["expires_at"],
        }
        tx.append("pairing.asked", body, topics=[TOPIC], actor=Actor(""))
    return claimed


async def answer_pairing(tx: Transaction, actor: Actor, pairing_id: str, *, confirm: bool) -> PairingState:
    """The computer confirms or denies the device that waits. Denying also ends a pairing to which nobody came.

    Raises:
        NotFound: if there is no such pairing.
        Conflict: if it has ended, or nobody has come yet who could be confirmed.
    """
    await end_old_pairings(tx)
    row = await tx.row("access.pairing", team_id=tx.team_id, pairing_id=pairing_id)
    if row is None:
        raise NotFound
    wanted = PairingState.CONFIRMED if confirm else PairingState.DENIED
    state = rules.move_pairing(PairingState(row["state"]), wanted)
    await tx.run("access.move_pairing", pairing_id=pairing_id, state=state.value)
    principals.tell_pairing_end(tx, pairing_id, state, actor)
    return state


async def collect_pairing(tx: Transaction, *, claim: str, key_digest: str) -> PairingState:
    """The device asks what became of its claim; once, if confirmed, it gets its key (digest `key_digest`).

    Returns CONFIRMED exactly when the key was made now.

    Raises:
        NotFound: if nobody has such a claim.
    """
    await end_old_pairings(tx)
    row = await tx.row("access.pairing_by_claim", team_id=tx.team_id, claim_digest=rules.digest_of(claim[:128]))
    if row is None or not claim:
        raise NotFound
    state = PairingState(row["state"])
    if state is PairingState.CONFIRMED:
        await tx.run(
            "access.move_pairing",
            pairing_id=row["pairing_id"],
            state=rules.move_pairing(state, PairingState.COLLECTED).value,
        )
        await _add_device(tx, row, key_digest)
    return state


async def open_pairings(tx: Transaction) -> list[Row]:
    """Pairings that are open or wait, oldest first. Those that have run out are ended by looking."""
    await end_old_pairings(tx)
    return await tx.rows("access.live_pairings", team_id=tx.team_id)


async def end_old_pairings(tx: Transaction) -> None:
    """Ends pairings that have run out, and says so."""
    for row in await tx.rows("access.live_pairings", team_id=tx.team_id):
        if row["expires_at"] <= tx.now:
            state = rules.move_pairing(PairingState(row["state"]), PairingState.EXPIRED)
            await tx.run("access.move_pairing", pairing_id=row["pairing_id"], state=state.value)
            principals.tell_pairing_end(tx, row["pairing_id"], state, Actor(""))
    await tx.run("access.forget_pairings", team_id=tx.team_id, before=rules.later(tx.now, -limits.PAIRINGS_KEPT_S))


# Audit


class RefusedRequest(Protocol):
    """A request that the door refused: why, what for, and by whom as far as known."""

    @property
    def reason(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def key_id(self) -> str: ...
    @property
    def principal_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def peer(self) -> str: ...
    @property
    def verb(self) -> str: ...
    @property
    def resource(self) -> str: ...


async def note_refusals(tx: Transaction, refusals: Sequence[RefusedRequest], dropped: int) -> None:
    """Puts refused requests into the audit trail; `dropped` more were over a bound and are only counted. What a
    known key was not allowed is explained as the key stood then."""
    for refusal in refusals:
        body: dict[str, object] = {
            "reason": refusal.reason,
            "method": refusal.method,
            "path": refusal.path,
            "peer": refusal.peer,
            "dropped": dropped,
        }
        if refusal.verb and refusal.key_id:
            body |= await _asked(tx, refusal)
        actor = Actor(refusal.principal_id, refusal.key_id, refusal.name)
        tx.append("access.refused", body, topics=[TOPIC], actor=actor)
        dropped = 0


async def _asked(tx: Transaction, refusal: RefusedRequest) -> dict[str, object]:
    """What a refused key had asked for, the entry of its map that came nearest, and what would have allowed it."""
    resource = refusal.resource[: limits.PERMISSION_PATTERN_CHARS_MAX]
    asked: dict[str, object] = {"verb": refusal.verb, "resource": resource}
    try:
        _, why = await keys.explain_key(tx, refusal.key_id, refusal.verb, resource)
    except NotFound:
        return asked
    would_allow = dict(zip(("pattern", "verb"), why.would_allow, strict=True)) if why.would_allow else None
    return asked | {"near": why.nearness, "pattern": why.pattern, "verbs": why.verbs, "would_allow": would_allow}


async def read_audit(reading: Reading, *, before: int | None, limit: int) -> list[Row]:
    """Rights changed and requests refused, before a seq, newest first."""
    return await reading.rows(
        "access.audit",
        team_id=reading.team_id,
        before=reading.seq + 1 if before is None else before,
        most=limit,
    )


# What several verbs share


async def _add_device(tx: Transaction, pairing: Row, key_digest: str) -> Actor:
    """The principal and key of a device that was paired; its name is made to differ from those that are there."""
    name = str(pairing["name"] or pairing["device"])
    shown = name
    for number in range(2, _NAMES_TRIED_MAX):
        if not await principals.is_taken(tx, shown):
            break
        shown = names.numbered_name(name, number)
    principal_id = await principals.add_principal(tx, Kind.DEVICE, shown)
    maker = Actor("", str(pairing["made_by"]))
    key_id = await principals.add_key(
        tx,
        principal_id,
        key_digest,
        json.loads(pairing["permissions"]),
        actor=maker,
        expires_at=pairing["key_expires_at"],
    )
    return Actor(principal_id, key_id, shown)
