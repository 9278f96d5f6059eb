"""Channels on the terminal."""

import argparse

from msgspec.structs import replace

from ekiden.cli.screen import Screen, line_of
from ekiden.cli.session_list import age_of
from ekiden.cli.talk_places import channel_path
from ekiden.client.plain import PlainClient
from ekiden.client.requests import path_of
from ekiden.relay.wire import (
    ChangeChannel,
    Channel,
    Channels,
    ChannelState,
    Member,
    Members,
    NewChannel,
    NewMember,
    Retention,
)

_DAY_S = 24 * 3600


def show_all(client: PlainClient, screen: Screen, *, limit: int, as_json: bool) -> int:
    """Prints the channels that the key may read."""
    page = client.get("/v1/channels", type=Channels, limit=limit)
    for channel in page.channels if as_json else ():
        screen.data(channel)
    if as_json:
        return 0
    screen.table([_row(channel) for channel in page.channels], styles=[("cyan",), ("bold",), (), ("dim",)])
    if not page.channels:
        screen.say("No channels yet. `ekiden channels make NAME` makes one.")
    elif page.next:
        screen.say(screen.style("There are more: --limit", "dim"))
    return 0


def _row(channel: Channel) -> tuple[str, ...]:
    marks = [
        word
        for word, on in (
            ("encrypted", channel.encrypted),
            ("private", channel.private),
            ("signed", channel.signed),
            (channel.state.value, channel.state is not ChannelState.OPEN),
        )
        if on
    ]
    unread = f"{channel.unread} unread" if channel.unread else ""
    return (
        line_of(channel.name),
        unread,
        ", ".join(marks),
        f"{channel.members} member{'s' * (channel.members != 1)}",
        line_of(channel.topic),
    )


def make(client: PlainClient, screen: Screen, options: argparse.Namespace) -> int:
    """Makes a channel."""
    body = NewChannel(
        name=options.channel.removeprefix("#"),
        topic=options.topic or "",
        encrypted=options.encrypted,
        private=options.private,
        signed=options.signed,
        retention=_retention(Retention(), options),
    )
    channel = client.post("/v1/channels", body, type=Channel)
    if options.json:
        screen.data(channel)
    else:
        screen.say(f"{line_of(channel.name)}  {channel.channel_id}")
    return 0


def one(client: PlainClient, screen: Screen, options: argparse.Namespace) -> int:
    """Shows, changes, archives, opens again or deletes one channel."""
    path = channel_path(options.channel)
    match options.what:
        case "change":
            held = client.get(path, type=Channel)
            wanted = _retention(held.retention, options)
            body = ChangeChannel(topic=options.topic, retention=wanted if wanted != held.retention else None)
            channel = client.patch(path, body, type=Channel)
        case "archive" | "reopen":
            channel = client.patch(path, ChangeChannel(archived=options.what == "archive"), type=Channel)
        case "delete":
            channel = client.delete(path, type=Channel)
        case _:
            channel = client.get(path, type=Channel)
    if options.json:
        screen.data(channel)
        return 0
    screen.table([_row(channel)], styles=[("cyan",), ("bold",), (), ("dim",)])
    kept = channel.retention
    if kept.age_s or kept.count or kept.held:
        words = [
            f"{kept.age_s / _DAY_S:g} days" if kept.age_s else "",
            f"the newest {kept.count}" if kept.count else "",
            "on legal hold" if kept.held else "",
        ]
        screen.say(f"  keeps {', '.join(word for word in words if word)}")
    return 0


def _retention(held: Retention, options: argparse.Namespace) -> Retention:
    if options.keep_days is not None:
        held = replace(held, age_s=int(options.keep_days * _DAY_S))
    if options.keep_count is not None:
        held = replace(held, count=options.keep_count)
    if options.hold:
        held = replace(held, held=options.hold == "on")
    return held


def show_members(client: PlainClient, screen: Screen, options: argparse.Namespace) -> int:
    """Prints who follows a channel."""
    page = client.get(channel_path(options.channel, "/members"), type=Members, limit=options.limit)
    if options.json:
        screen.data(page)
        return 0
    screen.table(
        [
            (
                line_of(member.name),
                line_of(member.kind),
                line_of(member.role),
                f"acked to #{member.acked_to}",
                f"{member.keys} member keys" if member.keys else "no member key",
                age_of(member.joined_at),
                member.principal_id,
            )
            for member in page.members
        ],
        styles=[("cyan",), (), ("bold",), ("dim",), ("dim",), ("dim",), ("dim",)],
    )
    if page.total > len(page.members):
        screen.say(screen.style(f"{len(page.members)} of {page.total}; --limit shows more", "dim"))
    return 0


def join_or_leave(client: PlainClient, screen: Screen, options: argparse.Namespace) -> int:
    """Makes somebody a member, or takes somebody out."""
    path = channel_path(options.channel) + path_of("/members/{principal}", principal=options.member)
    if options.what == "join":
        member = client.put(path, NewMember(options.role), type=Member)
    else:
        member = client.delete(path, type=Member)
    if options.json:
        screen.data(member)
    else:
        what = "is in" if options.what == "join" else "has left"
        screen.say(f"{line_of(member.name)} {what} {line_of(options.channel)}.")
    return 0
