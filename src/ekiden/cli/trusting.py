"""Member keys and trust on the terminal."""

import argparse

from ekiden.cli.inviting import person_named
from ekiden.cli.screen import Screen, line_of
from ekiden.cli.session_list import age_of
from ekiden.client.identity import member_folder
from ekiden.client.member import Member
from ekiden.client.pins import Pins
from ekiden.client.standing import Here, Me
from ekiden.crypto import keys
from ekiden.crypto.chain import HubKey
from ekiden.crypto.directory import MemberKey, Trust
from ekiden.kernel.errors import Conflict, Invalid

_STYLES = {Trust.CHANGED: ("red", "bold"), Trust.ENDED: ("dim",), Trust.COMPARED: ("green",)}
_WORDS = {
    Trust.COMPARED: "compared",
    Trust.INVITED: "came by an invite that you made or took",
    Trust.VOUCHED: "vouched for by a trusted key",
    Trust.FIRST: "taken at first contact; never compared",
    Trust.CHANGED: "NOT TRUSTED: another key is pinned, and it does not vouch for this one",
    Trust.ENDED: "ended",
}


async def trust(member: Member, screen: Screen, options: argparse.Namespace) -> int:
    """Shows whom to trust, or accepts a key."""
    here = await member.meet()
    await member.look_again()
    known = here.pins.directory.keys
    names = {key.principal_id: key.name or key.principal_id for key in known.values()}
    if not options.name:
        for principal in names:
            _print_keys(screen, here, principal, names[principal], options)
        if not options.json:
            screen.say(screen.style(f"hub key {here.pins.hub_key}", "dim"))
        here.pins.save()
        return 0
    principal = person_named(names, options.name)
    if options.accept:
        key = known.get(options.accept)
        if key is None or key.principal_id != principal:
            raise Invalid(f"{names[principal]} has no such member key.")
        here.pins.accept(options.accept)
        here.pins.save()
    _print_keys(screen, here, principal, names[principal], options)
    here.pins.save()
    if options.json or options.accept or principal == here.me.principal_id:
        return 0
    for key in here.pins.directory.of(principal):
        code = keys.compare_code(here.keys.public, key.public)
        screen.say(f"  code to compare for {key.public.member_key_id}: {screen.style(code, 'bold')}")
    name = line_of(names[principal])
    screen.say(screen.style(f"{name} sees the same with: ekiden trust {line_of(here.me.name)}", "dim"))
    return 0


def _print_keys(screen: Screen, here: Here, principal: str, name: str, options: argparse.Namespace) -> None:
    judged = here.pins.judged(principal)
    if not options.json:
        screen.say(screen.style(line_of(name), "bold"))
    for key in here.pins.directory.of(principal, live=False):
        found = judged[key.public.member_key_id]
        if options.json:
            screen.data(_data(key, found))
        else:
            own = key.public == here.keys.public
            words = "this computer's own" if own else screen.style(_WORDS[found], *_STYLES.get(found, ()))
            screen.say(f"  {key.public.fingerprint}  {line_of(key.label)}  {age_of(key.added_at)}  {words}")


def _data(key: MemberKey, found: Trust) -> dict[str, object]:
    return {
        "principal_id": key.principal_id,
        "name": key.name,
        "member_key": key.public.member_key_id,
        "fingerprint": key.public.fingerprint,
        "label": key.label,
        "added_at": key.added_at,
        "ended_at": key.ended_at,
        "trust": found.value,
    }


async def accept_hub(member: Member, screen: Screen, options: argparse.Namespace) -> int:
    """Pins another key of the hub, if it is the one that the hub shows."""
    me = await member.client.get("/v1/me", type=Me)
    shown = (await member.client.get("/v1/hub-key", type=HubKey)).public_key
    if shown != options.hub_key:
        raise Conflict("The hub shows another key than the one that is to be trusted.", shown=shown)
    pins = Pins(member_folder(member.home, me.team_id, me.principal_id), me.team_id)
    pins.accept_hub(shown)
    pins.save()
    screen.say(f"The hub's key is {shown} from now on.")
    return 0


async def identity(member: Member, screen: Screen, options: argparse.Namespace) -> int:
    """Shows the own keys, vouches for one, or ends one."""
    here = await member.meet()
    if options.what != "show" and not options.key:
        raise Invalid("Which key?", hint=f"ekiden identity {options.what} mky_…")
    if options.what == "vouch":
        await member.vouch(options.key)
    elif options.what == "end":
        await member.end_key(options.key)
    if options.json:
        own = {"principal_id": here.me.principal_id, "team_id": here.me.team_id, "hub_key": here.pins.hub_key}
        screen.data({**own, "member_key": here.keys.member_key_id, "fingerprint": here.keys.public.fingerprint})
        return 0
    screen.say(f"You are {screen.style(line_of(here.me.name), 'bold')}, {here.me.principal_id}.")
    screen.say(f"This computer's member key: {screen.style(here.keys.public.fingerprint, 'cyan')}")
    for key in here.pins.directory.of(here.me.principal_id, live=False):
        mine = " (this computer)" if key.public.member_key_id == here.keys.member_key_id else ""
        state = f"ended {age_of(key.ended_at)}" if key.ended_at else f"added {age_of(key.added_at)}"
        screen.say(f"  {key.public.member_key_id}  {line_of(key.label)}  {state}{mine}")
    screen.say(screen.style(f"Its files: {line_of(str(here.folder))}", "dim"))
    return 0
