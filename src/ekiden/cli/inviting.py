"""Invites on the terminal: made, listed, cancelled, and taken."""

import argparse
import sys
from collections.abc import Sequence

from ekiden.access.routes_invites import ClaimInvite, InviteClaimed, InviteEnded, InviteMade, Invites, NewInvite
from ekiden.access.rules import Kind
from ekiden.cli.key_list import permissions_of
from ekiden.cli.place import JOINED_URL, LOCAL_KEY, home_of, write_key
from ekiden.cli.screen import Screen, line_of
from ekiden.cli.session_list import age_of
from ekiden.cli.speaking import speak
from ekiden.client.member import Member
from ekiden.client.plain import PlainClient
from ekiden.client.requests import path_of
from ekiden.crypto import invites, keys
from ekiden.crypto.invites import Invite
from ekiden.kernel.errors import Conflict, Invalid, NotFound, Unavailable


async def run(member: Member, screen: Screen, options: argparse.Namespace) -> int:
    """Does what the options say."""
    words: Sequence[str] = options.channels
    if words == ["list"]:
        return await _list(member, screen, as_json=options.json)
    if words[0] == "cancel" and len(words) == 2:
        ended = await member.client.delete(path_of("/v1/invites/{id}", id=words[1]), type=InviteEnded)
        if options.json:
            screen.data(ended)
        else:
            screen.say(f"{ended.invite_id} is {ended.state}.")
        return 0
    return await _invite(member, screen, options)


async def _invite(member: Member, screen: Screen, options: argparse.Namespace) -> int:
    here = await member.meet()
    made = await member.client.post(
        "/v1/invites",
        NewInvite(
            channels=tuple(name.removeprefix("#") for name in options.channels),
            permissions=permissions_of(options.allow) if options.allow else None,
            kind=Kind(options.kind),
            name=options.name,
            expires_s=options.expires_s,
            key_expires_at=options.key_expires_at,
        ),
        type=InviteMade,
    )
    secret = invites.new_invite_secret()
    here.pins.remember_invite(made.invite_id, secret)
    text = invites.spell_invite(
        Invite(
            options.hub or member.client.url,
            here.me.team_id,
            made.invite_id,
            made.code,
            secret,
            here.me.principal_id,
            here.me.name,
            keys.spell(here.keys.public.sign),
            keys.spell(here.keys.public.wrap),
            here.pins.hub_key,
        )
    )
    if options.json:
        screen.data({"invite_id": made.invite_id, "invite": text, "expires_at": made.expires_at})
        return 0
    screen.say(text)
    screen.say(
        screen.style(
            f"\nOnce, until {made.expires_at}. On the guest's computer: ekiden join -\n"
            f"Your fingerprint, to compare: {here.keys.public.fingerprint}",
            "dim",
        )
    )
    return 0


async def _list(member: Member, screen: Screen, *, as_json: bool) -> int:
    found = await member.client.get("/v1/invites", type=Invites)
    if as_json:
        screen.data(found)
        return 0
    screen.table(
        [
            (
                one.invite_id,
                line_of(one.state),
                line_of(one.name),
                ", ".join(line_of(channel) for channel in one.channels),
                f"made {age_of(one.made_at)}",
            )
            for one in found.invites
        ],
        styles=[("cyan",), (), ("bold",), (), ("dim",)],
    )
    if not found.invites:
        screen.say("No invites.")
    return 0


def join(options: argparse.Namespace) -> int:
    """Shows the invite's code to the hub, keeps the key, and meets the team.

    Raises:
        Conflict: if the data folder has a key already.
        NotFound: if the invite does not work.
    """
    home = home_of(options)
    text = sys.stdin.readline() if options.invite == "-" else options.invite
    invite = invites.read_invite(text)
    if (home / LOCAL_KEY).exists():
        raise Conflict(
            f"{home} has a key already.",
            hint="Join from a data folder of its own: --home FOLDER (or EKIDEN_HOME).",
        )
    url: str = options.url or invite.hub
    with PlainClient(url) as client:
        claimed = client.post("/v1/invites/claim", ClaimInvite(invite.code, options.name), type=InviteClaimed)
    if not claimed.key:
        raise Unavailable(
            "The hub took the invite, but its answer with the key was lost.", hint="Ask for a new one."
        )
    if claimed.team_id != invite.team:
        raise Invalid("The hub has put you into another team than the invite names.")
    write_key(home / LOCAL_KEY, claimed.key)
    write_key(home / JOINED_URL, url)

    async def meet(member: Member, screen: Screen) -> int:
        here = await member.meet()
        inviter = invite.inviter
        code = keys.compare_code(here.keys.public, inviter) if inviter is not None else ""
        if options.json:
            screen.data({**_plain(claimed), "fingerprint": here.keys.public.fingerprint, "compare": code})
            return 0
        channels = ", ".join(line_of(channel.partition(":")[2]) for channel in claimed.channels)
        screen.say(f"You are {line_of(claimed.name)}, in {channels}.")
        if code:
            screen.say(f"To be sure, compare with {line_of(invite.name)}: {screen.style(code, 'bold')}")
            screen.say(screen.style(f"(there: ekiden trust {line_of(claimed.name)})", "dim"))
        return 0

    return speak(argparse.Namespace(home=home, url=url, json=options.json), meet, guest_of=invite)


def _plain(claimed: InviteClaimed) -> dict[str, object]:
    return {
        "principal_id": claimed.principal_id,
        "name": claimed.name,
        "team_id": claimed.team_id,
        "channels": claimed.channels,
        "permissions": claimed.permissions,
    }


def person_named(member_names: dict[str, str], name: str) -> str:
    """The id of the principal that a person names by its id, the beginning of it, or its name.

    Raises:
        NotFound: if there is none.
        Invalid: if several fit.
    """
    fitting = [
        principal
        for principal, known_as in member_names.items()
        if known_as.casefold() == name.casefold().removeprefix("@") or principal.startswith((name, f"pri_{name}"))
    ]
    if not fitting:
        raise NotFound(f"Nobody in the directory of member keys is named {line_of(name)!r}.")
    if len(fitting) > 1:
        raise Invalid("Several fit.", candidates=[f"{one} {line_of(member_names[one])}" for one in fitting])
    return fitting[0]
