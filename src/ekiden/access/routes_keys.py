"""Keys at the door after they were made: changed, rotated, revoked since a time, and why one may or may not.

Secrets travel as in `routes`: shown once, in the answer of the request that really ran.
"""

from functools import partial

import msgspec

from ekiden.access import keys, secrets
from ekiden.access.keys import Revoked, Rotated
from ekiden.access.port import Ports
from ekiden.access.rights import Nearness
from ekiden.access.routes import answer_of
from ekiden.kernel import limits
from ekiden.kernel.door import Call, Endpoint, Need
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.log.port import Reading, Transaction

_ADMIN = Need("admin", "access")


class ChangeKey(msgspec.Struct, frozen=True):
    """The whole new map; the empty one allows nothing. It works at once, on open streams too."""

    permissions: dict[str, list[str]]


class KeyChanged(msgspec.Struct, frozen=True):
    key_id: str
    permissions: dict[str, list[str]]


class RotateKey(msgspec.Struct, frozen=True):
    """The old key goes on for so many seconds."""

    overlap_s: int = 600


class KeyRotated(msgspec.Struct, frozen=True):
    """`key` is shown once. The principal, its rights and the keys below stay what they are."""

    key_id: str
    principal_id: str
    key: str
    old_key_id: str
    old_ends_at: str


class RevokeKey(msgspec.Struct, frozen=True):
    """`since` (RFC 3339): what the key wrote after it is not trusted any more; empty: all of it still is."""

    since: str = ""


class KeyDistrusted(msgspec.Struct, frozen=True):
    """`keys` are this one and those below it. `tainted` says for each what it wrote since: how many messages are
    marked, and each status and lease as it stands now, put back. `still_valid` are other keys of its principal."""

    key_id: str
    revoked_at: str
    since: str = ""
    keys: tuple[str, ...] = ()
    tainted: tuple[msgspec.Raw, ...] = ()
    still_valid: tuple[str, ...] = ()


class WouldAllow(msgspec.Struct, frozen=True):
    """The least that would have to be added to the key's map."""

    pattern: str
    verb: str


class Explained(msgspec.Struct, frozen=True):
    """Why a key's map lets it do `verb` on `resource` or does not. `near` is `allowed`, `other_verbs` (the pattern
    takes in the resource, but not with this verb), `other_resources` (the verb is granted, but elsewhere) or
    `nothing_near`; `pattern` with its `verbs` is the entry that comes nearest. Once the key has ended it may do
    nothing, whatever its map says."""

    key_id: str
    name: str
    verb: str
    resource: str
    allowed: bool
    near: Nearness
    pattern: str = ""
    verbs: tuple[str, ...] = ()
    would_allow: WouldAllow | None = None
    expires_at: str = ""
    revoked_at: str = ""


async def change_key(call: Call, body: ChangeKey) -> KeyChanged:
    """Gives the key of the path another map."""
    key_id = call.parameters["key_id"]

    async def verb(tx: Transaction) -> dict[str, list[str]]:
        return await keys.change_key(tx, call.actor, key_id, body.permissions)

    return KeyChanged(key_id, answer_of(await call.write(verb), dict[str, list[str]]))


async def rotate_key(call: Call, body: RotateKey) -> KeyRotated:
    """By the key itself, or by who may change rights; to others there is no such key."""
    key_id = call.parameters["key_id"]
    if key_id != call.actor.key_id and not call.may("admin", "access"):
        raise NotFound
    key = secrets.new_key()
    ran = False

    async def verb(tx: Transaction) -> Rotated:
        nonlocal ran
        ran = True
        return await keys.rotate_key(tx, call.actor, key_id, overlap_s=body.overlap_s, secret_digest=key.digest)

    made = answer_of(await call.write(verb), Rotated)
    return KeyRotated(made.key_id, made.principal_id, key.text if ran else "", made.old_key_id, made.old_ends_at)


async def _revoke_since(ports: Ports, call: Call, body: RevokeKey) -> KeyDistrusted:
    async def verb(tx: Transaction) -> Revoked:
        return await keys.revoke_since(
            tx, call.actor, call.parameters["key_id"], since=body.since, taint=ports.taint
        )

    return answer_of(await call.write(verb), KeyDistrusted)


async def explain(call: Call) -> Explained:
    """Why the named key may do what is asked about, or what it lacks."""
    asked = {name: call.query.get(name, "") for name in ("key", "verb", "resource")}
    for name, text in asked.items():
        if not 0 < len(text) <= limits.PERMISSION_PATTERN_CHARS_MAX:
            raise Invalid(f"{name} has 1 to {limits.PERMISSION_PATTERN_CHARS_MAX} characters.")

    async def question(reading: Reading) -> Explained:
        row, why = await keys.explain_key(reading, asked["key"], asked["verb"], asked["resource"])
        return Explained(
            key_id=row["key_id"],
            name=row["name"],
            verb=asked["verb"],
            resource=asked["resource"],
            allowed=why.nearness is Nearness.ALLOWED,
            near=why.nearness,
            pattern=why.pattern,
            verbs=why.verbs,
            would_allow=WouldAllow(*why.would_allow) if why.would_allow is not None else None,
            expires_at=row["expires_at"],
            revoked_at=row["revoked_at"],
        )

    return await call.ask(question)


def endpoints(ports: Ports) -> tuple[Endpoint, ...]:
    """The places of this file."""
    return (
        Endpoint(
            "PATCH",
            "/v1/keys/{key_id}",
            change_key,
            "Give a key another permission map",
            body=ChangeKey,
            answer=KeyChanged,
            need=_ADMIN,
        ),
        Endpoint(
            "POST",
            "/v1/keys/{key_id}/rotate",
            rotate_key,
            "Replace a key by a new one of the same principal",
            body=RotateKey,
            answer=KeyRotated,
        ),
        Endpoint(
            "POST",
            "/v1/keys/{key_id}/revoke",
            partial(_revoke_since, ports),
            "End a key and distrust what it wrote since a time",
            body=RevokeKey,
            answer=KeyDistrusted,
            need=_ADMIN,
        ),
        Endpoint(
            "GET",
            "/v1/access/explain",
            explain,
            "Why a key may or may not",
            answer=Explained,
            need=_ADMIN,
            query=(("key", "the id of a key"), ("verb", "what it would do"), ("resource", "on what")),
        ),
    )
