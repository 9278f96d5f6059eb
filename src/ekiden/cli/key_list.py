"""Keys on the terminal."""

import argparse
from collections.abc import Sequence

import msgspec

from ekiden.access.routes import Key, KeyMade, KeyRevoked, Keys, NewKey
from ekiden.access.routes_keys import (
    ChangeKey,
    Explained,
    KeyChanged,
    KeyDistrusted,
    KeyRotated,
    RevokeKey,
    RotateKey,
)
from ekiden.access.rules import Kind
from ekiden.cli.screen import Screen, line_of
from ekiden.cli.session_list import age_of
from ekiden.client.plain import PlainClient
from ekiden.client.requests import path_of
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.relay.wire_state import Tainted

_ALWAYS = "1970-01-01T00:00:00Z"


def show(client: PlainClient, screen: Screen, *, everything: bool, as_json: bool) -> int:
    """Prints the keys that are valid, or all."""
    keys = client.get("/v1/keys", type=Keys).keys
    shown = [key for key in keys if everything or not key.revoked_at]
    if as_json:
        for key in shown:
            screen.data(key)
        return 0
    screen.table([_row(key) for key in shown], styles=[("cyan",), ("bold",), (), ("dim",)])
    return 0


def _row(key: Key) -> tuple[str, ...]:
    if key.revoked_at:
        use = "revoked"
    elif key.this:
        use = "this one"
    else:
        use = f"used {age_of(key.used_at)}" if key.used_at else "never used"
    allowed = "; ".join(f"{pattern}: {', '.join(verbs)}" for pattern, verbs in key.permissions.items())
    kind = f"seat of {key.session_id}" if key.session_id else key.kind
    return (key.key_id, line_of(key.name), line_of(kind), use, line_of(allowed))


def permissions_of(allowed: Sequence[str]) -> dict[str, list[str]]:
    """A permission map from `RESOURCE=VERB,VERB` as typed.

    Raises:
        Invalid: if one is not of that form.
    """
    permissions: dict[str, list[str]] = {}
    for text in allowed:
        resource, equals, verbs = text.partition("=")
        if not (resource and equals and verbs):
            raise Invalid(f"{line_of(text)!r} is no permission.", hint="It looks like session:*=read,steer")
        permissions.setdefault(resource, []).extend(verb.strip() for verb in verbs.split(","))
    return permissions


def make(client: PlainClient, screen: Screen, options: argparse.Namespace) -> int:
    """Makes a key and prints it, once."""
    permissions = permissions_of(options.allow)
    body = NewKey(
        name=options.name, kind=Kind(options.kind), permissions=permissions or None, expires_at=options.expires_at
    )
    made = client.post("/v1/keys", body, type=KeyMade)
    if options.json:
        screen.data(made)
        return 0
    screen.say(f"{made.key_id} for {line_of(options.name)}. The key, shown this once:\n\n  {made.key}\n")
    screen.say("Give it to its user by a safe way; they set it as EKIDEN_KEY.")
    if made.host_id:
        screen.say(f"On that computer: EKIDEN_KEY=… ekiden host {client.url} --host-id {made.host_id}")
    return 0


def revoke(client: PlainClient, screen: Screen, name: str, *, since: str, as_json: bool) -> int:
    """Ends the key that `name` means; with `since`, what it wrote since then is not trusted any more."""
    key = key_named(client, name)
    path = path_of("/v1/keys/{key_id}", key_id=key.key_id)
    if not since:
        revoked = client.delete(path, type=KeyRevoked)
        if as_json:
            screen.data(revoked)
        else:
            screen.say(f"{line_of(key.name)} may no longer come in.")
        return 0
    ended = client.post(f"{path}/revoke", RevokeKey(_ALWAYS if since == "always" else since), type=KeyDistrusted)
    if as_json:
        screen.data(ended)
        return 0
    marked = "all that it wrote" if since == "always" else f"what it wrote since {line_of(since)}"
    screen.say(f"{line_of(key.name)} may no longer come in, and {marked} is marked:")
    for raw in ended.tainted:
        tainted = msgspec.json.decode(raw, type=Tainted)
        screen.say(
            f"  {tainted.key_id}: {tainted.messages} messages, {len(tainted.statuses)} status values put back,"
            f" {len(tainted.leases)} leases ended"
        )
    if ended.still_valid:
        screen.say(screen.style(f"Other keys of it are still valid: {', '.join(ended.still_valid)}", "yellow"))
    return 0


def rotate(client: PlainClient, screen: Screen, name: str, *, overlap_s: int, as_json: bool) -> int:
    """Replaces a key by a new one of the same principal, shown once."""
    key = key_named(client, name)
    path = path_of("/v1/keys/{key_id}/rotate", key_id=key.key_id)
    made = client.post(path, RotateKey(overlap_s), type=KeyRotated)
    if as_json:
        screen.data(made)
        return 0
    screen.say(f"{made.key_id} for {line_of(key.name)}. The key, shown this once:\n\n  {made.key}\n")
    screen.say(f"The old one ends at {line_of(made.old_ends_at)}.")
    return 0


def change(client: PlainClient, screen: Screen, options: argparse.Namespace) -> int:
    """Gives a key another permission map, or shows the one it has."""
    key = key_named(client, options.name)
    if not options.allow and not options.allow_nothing:
        if options.json:
            screen.data({"key_id": key.key_id, "permissions": key.permissions})
        for pattern, verbs in key.permissions.items() if not options.json else ():
            screen.say(f"{line_of(pattern)}={line_of(','.join(verbs))}")
        return 0
    body = ChangeKey({} if options.allow_nothing else permissions_of(options.allow))
    changed = client.patch(path_of("/v1/keys/{key_id}", key_id=key.key_id), body, type=KeyChanged)
    if options.json:
        screen.data(changed)
    else:
        allowed = "; ".join(f"{pattern}: {', '.join(verbs)}" for pattern, verbs in changed.permissions.items())
        screen.say(f"{line_of(key.name)} may now: {line_of(allowed) or 'nothing'}")
    return 0


def explain(client: PlainClient, screen: Screen, options: argparse.Namespace) -> int:
    """Says why a key may or may not do something, and what is missing."""
    if not (options.name and options.verb and options.resource):
        raise Invalid("What is to be explained?", hint="ekiden keys explain KEY post channel:build")
    key = key_named(client, options.name, also_ended=True)
    why = client.get(
        "/v1/access/explain", type=Explained, key=key.key_id, verb=options.verb, resource=options.resource
    )
    if options.json:
        screen.data(why)
        return 0
    said = "may" if why.allowed else "may not"
    screen.say(f"{line_of(why.name)} {said} {line_of(why.verb)} on {line_of(why.resource)}: {line_of(why.near)}.")
    if why.pattern:
        screen.say(f"  nearest: {line_of(why.pattern)}={line_of(','.join(why.verbs))}")
    if why.would_allow is not None:
        need = f"{why.would_allow.pattern}={why.would_allow.verb}"
        screen.say(f"  it would need: {line_of(need)}")
    ended = why.revoked_at or why.expires_at
    if ended:
        screen.say(screen.style(f"  the key ends or has ended at {line_of(ended)}", "yellow"))
    return 0


def key_named(client: PlainClient, name: str, *, also_ended: bool = False) -> Key:
    """The key that a person names by its id, the beginning of it, or its name.

    Raises:
        NotFound: if there is none.
        Invalid: if several fit.
    """
    keys = client.get("/v1/keys", type=Keys).keys
    valid = [key for key in keys if also_ended or not key.revoked_at]
    fitting = [key for key in valid if name and (key.key_id.startswith((name, f"key_{name}")) or key.name == name)]
    if not fitting:
        raise NotFound(f"No valid key is named {line_of(name)!r}.", hint="`ekiden keys` lists them.")
    if len(fitting) > 1:
        raise Invalid("Several keys fit.", candidates=[f"{key.key_id} {line_of(key.name)}" for key in fitting])
    return fitting[0]
