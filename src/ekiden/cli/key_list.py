"""Keys on the terminal."""

import argparse

from ekiden.access.routes import Key, KeyMade, KeyRevoked, Keys, NewKey
from ekiden.access.rules import Kind
from ekiden.cli.screen import Screen, line_of
from ekiden.cli.session_list import age_of
from ekiden.client.plain import PlainClient
from ekiden.client.requests import path_of
from ekiden.kernel.errors import Invalid, NotFound


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
    return (key.key_id, line_of(key.name), line_of(key.kind), use, line_of(allowed))


def make(client: PlainClient, screen: Screen, options: argparse.Namespace) -> int:
    """Makes a key and prints it, once."""
    permissions: dict[str, list[str]] = {}
    for text in options.allow:
        resource, equals, verbs = str(text).partition("=")
        if not (resource and equals and verbs):
            raise Invalid(f"{line_of(text)!r} is no permission.", hint="It looks like session:*=read,steer")
        permissions.setdefault(resource, []).extend(verb.strip() for verb in verbs.split(","))
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


def revoke(client: PlainClient, screen: Screen, name: str, *, as_json: bool) -> int:
    """Ends the key that `name` means."""
    keys = client.get("/v1/keys", type=Keys).keys
    valid = [key for key in keys if not key.revoked_at]
    fitting = [key for key in valid if name and (key.key_id.startswith((name, f"key_{name}")) or key.name == name)]
    if not fitting:
        raise NotFound(f"No valid key is named {line_of(name)!r}.", hint="`ekiden keys` lists them.")
    if len(fitting) > 1:
        raise Invalid("Several keys fit.", candidates=[f"{key.key_id} {line_of(key.name)}" for key in fitting])
    revoked = client.delete(path_of("/v1/keys/{key_id}", key_id=fitting[0].key_id), type=KeyRevoked)
    if as_json:
        screen.data(revoked)
    else:
        screen.say(f"{line_of(fitting[0].name)} may no longer come in.")
    return 0
