"""The access room at the door.

How secrets travel: an endpoint makes the secret itself, hands only its digest to the log, and puts the secret into
the one answer of the request that really ran. The log keeps the answer without it. So a repeated command
(`Command-Repeated: true`) gets the same answer with the secret left empty: a lost answer means a lost secret, and
the key, pairing or claim is to be made anew.

How the cookie travels: an answer of an open endpoint may have a field `set_cookie_key`. The door takes it out of
the body and, if it is not empty, sets it as the page's cookie.
"""

from typing import TypeVar

import msgspec

from ekiden.access import keys, rules, secrets, verbs
from ekiden.access.keys import MadeKey
from ekiden.access.rules import Kind, PairingState
from ekiden.access.verbs import Claimed, MadePairing
from ekiden.kernel import limits
from ekiden.kernel.cursors import Cursor, parse_cursor
from ekiden.kernel.door import Call, Endpoint, Need
from ekiden.kernel.errors import Invalid
from ekiden.log.port import Reading, Row, Transaction, Written

T = TypeVar("T")

_ADMIN = Need("admin", "access")


class Me(msgspec.Struct, frozen=True):
    """Who asks, and whom. `hub` has version, boot_id, log_id and url."""

    principal_id: str
    name: str
    kind: str
    key_id: str
    permissions: dict[str, list[str]]
    expires_at: str
    team_id: str
    hub: dict[str, str]


class SignedOut(msgspec.Struct, frozen=True):
    """The key of the request has ended."""

    signed_out: bool = True


class NewPairing(msgspec.Struct, frozen=True):
    """`name` is what the device will be called; empty: what it calls itself. `local`: for a browser on this
    computer, which needs no confirmation."""

    name: str = ""
    local: bool = False


class Pairing(msgspec.Struct, frozen=True):
    """`code` and `link` are shown once. The link carries the code behind `#`, which browsers do not send."""

    pairing_id: str
    code: str
    link: str
    expires_at: str


class Claim(msgspec.Struct, frozen=True):
    """`code` as it was read or typed; `device` is what the device calls itself."""

    code: str
    device: str = ""


class ClaimAnswer(msgspec.Struct, frozen=True):
    """`confirmed`: the cookie is set. `waiting`: compare `words` with the computer's, and collect with `claim`."""

    pairing_id: str
    state: str
    claim: str
    words: str
    set_cookie_key: str = ""


class Collect(msgspec.Struct, frozen=True):
    claim: str


class CollectAnswer(msgspec.Struct, frozen=True):
    """waiting, confirmed (the cookie is set, once), denied or expired."""

    state: str
    set_cookie_key: str = ""


class OpenPairing(msgspec.Struct, frozen=True):
    """A pairing that is open (nobody has come), waiting (compare `words`) or confirmed (not collected yet)."""

    pairing_id: str
    state: str
    name: str
    device: str
    words: str
    local: bool
    made_at: str
    claimed_at: str
    expires_at: str


class Pairings(msgspec.Struct, frozen=True):
    pairings: tuple[OpenPairing, ...]


class PairingAnswered(msgspec.Struct, frozen=True):
    pairing_id: str
    state: str


class NewKey(msgspec.Struct, frozen=True):
    """`permissions` are the kind's usual ones if left out, and never more than the maker's own. A key that may not
    change rights makes agents only, with its own rights if left out; they end with it."""

    name: str
    kind: Kind
    permissions: dict[str, list[str]] | None = None
    expires_at: str = ""


class KeyMade(msgspec.Struct, frozen=True):
    """`key` is shown once; `host_id` is for keys of hosts only."""

    key_id: str
    principal_id: str
    key: str
    host_id: str = ""


class Key(msgspec.Struct, frozen=True):
    """One key, without its secret. `used_at` is coarse; `this` is the key that asks; empty times: never."""

    key_id: str
    principal_id: str
    kind: str
    name: str
    permissions: dict[str, list[str]]
    made_at: str
    used_at: str
    expires_at: str
    revoked_at: str
    this: bool
    local_line: bool = False
    host_id: str = ""
    parent_key: str = ""
    """It ends with this key."""
    replaced_by: str = ""
    """The key that it was rotated to."""
    suspect_since: str = ""
    """What it wrote after this time is not trusted."""
    session_id: str = ""
    """Its bearer is the agent that this session is: the key is a seat's."""


class Keys(msgspec.Struct, frozen=True):
    keys: tuple[Key, ...]


class KeyRevoked(msgspec.Struct, frozen=True):
    key_id: str
    revoked_at: str


class AuditLine(msgspec.Struct, frozen=True):
    """One change of rights or refused request."""

    seq: int
    kind: str
    at: str
    actor: dict[str, str]
    body: msgspec.Raw


class Audit(msgspec.Struct, frozen=True):
    """Newest first. `next` leads to older lines, empty at the end; follow the topic `access` from `cursor`."""

    lines: tuple[AuditLine, ...]
    next: str
    cursor: str


# Who asks


async def me(call: Call) -> Me:
    async def question(reading: Reading) -> Row | None:
        return await reading.row("access.key", key_id=call.actor.key_id)

    row = await call.ask(question)
    return Me(
        principal_id=call.actor.principal_id,
        name=call.actor.name,
        kind=row["kind"] if row is not None else "",
        key_id=call.actor.key_id,
        permissions={pattern: list(allowed) for pattern, allowed in call.permissions.items()},
        expires_at=row["expires_at"] if row is not None else "",
        team_id=call.team_id,
        hub={
            "version": call.hub.version,
            "boot_id": call.hub.boot_id,
            "log_id": call.hub.log_id,
            "url": call.hub.url,
        },
    )


async def sign_out(call: Call) -> SignedOut:
    async def verb(tx: Transaction) -> str:
        return await keys.revoke_key(tx, call.actor, call.actor.key_id, reason="signed_out")

    await call.write(verb)
    return SignedOut()


# Pairing


async def make_pairing(call: Call, body: NewPairing) -> Pairing:
    code = secrets.new_code()
    ran = False

    async def verb(tx: Transaction) -> MadePairing:
        nonlocal ran
        ran = True
        digest = rules.code_digest(code)
        assert digest is not None
        return await verbs.make_pairing(tx, call.actor, name=body.name, local=body.local, code_digest=digest)

    made = answer_of(await call.write(verb), MadePairing)
    shown = code if ran else ""
    link = f"{call.hub.url.rstrip('/')}/#pair={code}" if ran else ""
    return Pairing(made.pairing_id, shown, link, made.expires_at)


async def claim_pairing(call: Call, body: Claim) -> ClaimAnswer:
    claim = secrets.new_secret()
    key = secrets.new_key()
    number = secrets.new_number()
    ran = False

    async def verb(tx: Transaction) -> Claimed | None:
        nonlocal ran
        ran = True
        return await verbs.claim_pairing(
            tx,
            code=body.code,
            device=body.device,
            from_loopback=call.from_loopback,
            claim_digest=rules.digest_of(claim),
            key_digest=key.digest,
            random_words=number,
        )

    written: Written = await call.write(verb)
    claimed: Claimed | None = msgspec.json.decode(written.answer, type=Claimed | None)
    if claimed is None:
        raise rules.no_such_code()
    if claimed.state is PairingState.COLLECTED:
        return ClaimAnswer(claimed.pairing_id, "confirmed", "", "", key.text if ran else "")
    return ClaimAnswer(claimed.pairing_id, rules.told_state(claimed.state), claim if ran else "", claimed.words)


async def collect_pairing(call: Call, body: Collect) -> CollectAnswer:
    key = secrets.new_key()
    ran = False

    async def verb(tx: Transaction) -> PairingState:
        nonlocal ran
        ran = True
        return await verbs.collect_pairing(tx, claim=body.claim, key_digest=key.digest)

    state = answer_of(await call.write(verb), PairingState)
    granted = ran and state is PairingState.CONFIRMED
    return CollectAnswer(rules.told_state(state), key.text if granted else "")


async def list_pairings(call: Call) -> Pairings:
    rows: list[Row] = []

    async def verb(tx: Transaction) -> None:
        rows[:] = await verbs.open_pairings(tx)

    await call.write(verb)
    return Pairings(
        tuple(
            OpenPairing(
                pairing_id=row["pairing_id"],
                state=row["state"],
                name=row["name"],
                device=row["device"],
                words=row["words"],
                local=bool(row["local"]),
                made_at=row["made_at"],
                claimed_at=row["claimed_at"],
                expires_at=row["expires_at"],
            )
            for row in rows
        )
    )


async def confirm_pairing(call: Call) -> PairingAnswered:
    return await _answer_pairing(call, confirm=True)


async def deny_pairing(call: Call) -> PairingAnswered:
    return await _answer_pairing(call, confirm=False)


async def _answer_pairing(call: Call, *, confirm: bool) -> PairingAnswered:
    pairing_id = call.parameters["pairing_id"]

    async def verb(tx: Transaction) -> PairingState:
        return await verbs.answer_pairing(tx, call.actor, pairing_id, confirm=confirm)

    state = answer_of(await call.write(verb), PairingState)
    return PairingAnswered(pairing_id, state.value)


# Keys


async def make_key(call: Call, body: NewKey) -> KeyMade:
    key = secrets.new_key()
    ran = False

    async def verb(tx: Transaction) -> MadeKey:
        nonlocal ran
        ran = True
        return await keys.make_key(
            tx,
            call.actor,
            name=body.name,
            kind=body.kind,
            permissions=body.permissions,
            expires_at=body.expires_at,
            secret_digest=key.digest,
        )

    made = answer_of(await call.write(verb), MadeKey)
    return KeyMade(made.key_id, made.principal_id, key.text if ran else "", made.host_id)


async def list_keys(call: Call) -> Keys:
    rows = await call.ask(keys.list_keys)
    return Keys(
        tuple(
            Key(
                key_id=row["key_id"],
                principal_id=row["principal_id"],
                kind=row["kind"],
                name=row["name"],
                permissions=msgspec.json.decode(row["permissions"], type=dict[str, list[str]]),
                made_at=row["made_at"],
                used_at=row["used_at"],
                expires_at=row["expires_at"],
                revoked_at=row["revoked_at"],
                this=row["key_id"] == call.actor.key_id,
                local_line=bool(row["local_line"]),
                host_id=row["host_id"],
                parent_key=row["parent_key"],
                replaced_by=row["replaced_by"],
                suspect_since=row["suspect_since"],
                session_id=row["session_id"],
            )
            for row in rows
        )
    )


async def revoke_key(call: Call) -> KeyRevoked:
    key_id = call.parameters["key_id"]

    async def verb(tx: Transaction) -> str:
        return await keys.revoke_key(tx, call.actor, key_id)

    return KeyRevoked(key_id, answer_of(await call.write(verb), str))


# Audit


async def read_audit(call: Call) -> Audit:
    limit = _limit(call)
    before = call.query.get("before", "")
    position: int | None = None
    if before:
        cursor = parse_cursor(before)
        if cursor.log_id != call.hub.log_id:
            raise Invalid("The cursor is of another log.", hint="Start again without a cursor.")
        position = cursor.seq

    async def question(reading: Reading) -> tuple[list[Row], int]:
        return await verbs.read_audit(reading, before=position, limit=limit + 1), reading.seq

    rows, head = await call.ask(question)
    shown = rows[:limit]
    return Audit(
        tuple(
            AuditLine(
                row["seq"],
                row["kind"],
                row["at"],
                {"id": row["actor_id"], "name": row["actor_name"]},
                msgspec.Raw(row["body"].encode()),
            )
            for row in shown
        ),
        str(Cursor(call.hub.log_id, shown[-1]["seq"])) if len(rows) > limit else "",
        str(Cursor(call.hub.log_id, head)),
    )


def _limit(call: Call) -> int:
    text = call.query.get("limit", "")
    if not text:
        return limits.PAGE_ROWS_DEFAULT
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
        raise Invalid(f"limit is a number from 1 to {limits.PAGE_ROWS_MAX}.")
    return min(int(text), limits.PAGE_ROWS_MAX)


def answer_of(written: Written, form: type[T]) -> T:
    """What the verb answered, now or when the command first ran."""
    return msgspec.json.decode(written.answer, type=form)


ENDPOINTS = (
    Endpoint("GET", "/v1/me", me, "Who I am and what I may", answer=Me),
    Endpoint("POST", "/v1/sign-out", sign_out, "End the key that I use", answer=SignedOut, repeatable=True),
    Endpoint(
        "POST",
        "/v1/pairings",
        make_pairing,
        "Open a pairing for one device",
        body=NewPairing,
        answer=Pairing,
        need=_ADMIN,
        status=201,
    ),
    Endpoint("GET", "/v1/pairings", list_pairings, "Pairings that are open or wait", answer=Pairings, need=_ADMIN),
    Endpoint(
        "POST",
        "/v1/pairings/claim",
        claim_pairing,
        "Show a pairing code",
        body=Claim,
        answer=ClaimAnswer,
        audience="open",
    ),
    Endpoint(
        "POST",
        "/v1/pairings/collect",
        collect_pairing,
        "Ask what became of a claim",
        body=Collect,
        answer=CollectAnswer,
        repeatable=True,
        audience="open",
    ),
    Endpoint(
        "POST",
        "/v1/pairings/{pairing_id}/confirm",
        confirm_pairing,
        "Let the device in that waits",
        answer=PairingAnswered,
        need=_ADMIN,
    ),
    Endpoint(
        "POST",
        "/v1/pairings/{pairing_id}/deny",
        deny_pairing,
        "Turn the device away",
        answer=PairingAnswered,
        need=_ADMIN,
    ),
    Endpoint("GET", "/v1/keys", list_keys, "All keys, never their secrets", answer=Keys, need=_ADMIN),
    Endpoint(
        "POST", "/v1/keys", make_key, "Make a key, or one below the own", body=NewKey, answer=KeyMade, status=201
    ),
    Endpoint(
        "DELETE", "/v1/keys/{key_id}", revoke_key, "End a key and its streams", answer=KeyRevoked, need=_ADMIN
    ),
    Endpoint(
        "GET",
        "/v1/audit",
        read_audit,
        "Rights changed, requests refused, sessions carried on",
        answer=Audit,
        need=_ADMIN,
        query=(("before", "a cursor: lines older than it"), ("limit", "how many lines at most")),
    ),
)
