"""The tools of order: channels and their members, keys and their rights, the audit trail."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from ekiden.access.routes import Audit, Key, KeyMade, Keys
from ekiden.client.requests import path_of, target_of
from ekiden.kernel.errors import EkidenError, Invalid
from ekiden.mcp.arguments import AdminArguments, AuditArguments, ChannelsArguments, KeysArguments
from ekiden.mcp.budget import Block, Shown, fitted, room_of
from ekiden.mcp.desk import Desk, channel_path
from ekiden.mcp.envelope import counted, plain, shown_name
from ekiden.relay.wire import (
    ChangeChannel,
    Channel,
    Channels,
    ChannelState,
    Member,
    Members,
    NewChannel,
    NewMember,
)

_DAY_S = 24 * 3600


async def channels(desk: Desk, given: ChannelsArguments) -> str:
    """Lists channels or members, makes a channel, or has somebody follow it."""
    room = room_of(given.budget)
    do = given.do or ("members" if given.channel else "list")
    if do == "list":
        return await _list_channels(desk, given, room)
    if not given.channel:
        raise Invalid("Which channel?", hint='channel="…"')
    path = channel_path(given.channel)
    match do:
        case "members":
            return await _list_members(desk, given, room)
        case "create":
            wanted = NewChannel(
                name=given.channel,
                topic=given.topic,
                encrypted=given.encrypted,
                private=given.private,
                signed=given.signed,
            )
            made = await desk.client.post("/v1/channels", wanted, type=Channel)
            return f"Made {_channel_line(made)}"
        case "join" | "add":
            who = "me" if do == "join" else await _member_id(desk, given.channel, given.member)
            member = await desk.client.put(f"{path}/members/{who}", NewMember(given.role), type=Member)
            role = f" as {shown_name(member.role)}" if member.role else ""
            return f"{shown_name(member.name)} is a member of {given.channel}{role}."
        case "leave":
            await desk.client.delete(f"{path}/members/me")
            return f"You are no member of {given.channel} any more."
        case _:
            raise _nothing(do, "list, members, create, join, leave, add", "admin: change, archive, delete, remove")


async def admin(desk: Desk, given: AdminArguments) -> str:
    """Changes, archives or deletes a channel, takes a member out; or changes, replaces or ends a key."""
    match given.do:
        case "change" | "archive" | "reopen" | "delete" | "remove":
            if not given.channel:
                raise Invalid("Which channel?", hint='channel="…"')
            return await _change_channel(desk, given, channel_path(given.channel))
        case "permit":
            if given.allow is None:
                raise Invalid("What may it do from now on?", hint='allow={"channel:ops":["read"]}')
            body = {"permissions": given.allow}
            return f"Changed. {_told(await desk.client.patch(await _key_path(desk, given.key), body))}"
        case "rotate":
            path = f"{await _key_path(desk, given.key)}/rotate"
            made = await desk.client.post(path, {"overlap_s": given.overlap_s}, type=KeyMade)
            return f"Made {made.key_id} in its place. Shown once:\n{made.key}"
        case "revoke":
            path = f"{await _key_path(desk, given.key)}/revoke"
            return f"Revoked. {_told(await desk.client.post(path, {'since': given.since}))}"
        case _:
            raise _nothing(given.do, "change, archive, reopen, delete, remove, permit, rotate, revoke")


async def _change_channel(desk: Desk, given: AdminArguments, path: str) -> str:
    if given.do == "delete":
        await desk.client.delete(path)
        return f"Deleted {given.channel}. Its name is not given out again."
    if given.do == "remove":
        await desk.client.delete(f"{path}/members/{await _member_id(desk, given.channel, given.member)}")
        return f"{shown_name(given.member)} is no member of {given.channel} any more."
    if given.do != "change":
        wanted = ChangeChannel(archived=given.do == "archive")
        return f"Changed {_channel_line(await desk.client.patch(path, wanted, type=Channel))}"
    retention = None
    if given.keep_days is not None:
        held = (await desk.client.get(path, type=Channel)).retention
        retention = msgspec.structs.replace(held, age_s=given.keep_days * _DAY_S)
    wanted = ChangeChannel(given.topic, None, retention)
    return f"Changed {_channel_line(await desk.client.patch(path, wanted, type=Channel))}"


def _nothing(do: str, known: str, elsewhere: str = "") -> Invalid:
    hint = f"There are {known}." + (f" In {elsewhere}." if elsewhere else "")
    return Invalid(f"{do[:40]!r} is nothing that can be done here.", hint=hint)


async def _member_id(desk: Desk, channel: str, named: str) -> str:
    """The principal that is meant, for a path: an id, or the name of a member."""
    if not named:
        raise Invalid("Who?", hint="member: a principal id (pri_…) or the name of a member.")
    if not named.startswith("pri_"):
        page = await desk.client.get(f"{channel_path(channel)}/members", type=Members)
        found = [member for member in page.members if member.name.casefold() == named.casefold()]
        if len(found) == 1:
            return found[0].principal_id
    return path_of("{who}", who=named)


async def _list_channels(desk: Desk, given: ChannelsArguments, room: int) -> str:
    page = await desk.client.get("/v1/channels", type=Channels, after=given.after)
    blocks = [_channel_block(channel) for channel in page.channels]

    def tail(shown: Shown) -> str:
        left = len(blocks) - shown.blocks
        parts = [f"{left} of these {len(blocks)}: a larger budget"] if left else []
        if page.next:
            parts.append(f'more: channels(after="{page.next}")')
        return f"Left out: {'; '.join(parts)}." if parts else ""

    none = 'No channels that you may read. channels(do="create", channel="…") makes one if you may.'
    return fitted(f"{counted(len(blocks), 'channel')}." if blocks else none, blocks, tail, room)


def _channel_block(channel: Channel) -> Block:
    return Block(f"[{_channel_line(channel)}]", channel.topic, 0, lambda _: "…", 200)


def _channel_line(channel: Channel) -> str:
    parts = [f"{channel.name}: {counted(channel.members, 'member')}, newest #{channel.last_number}"]
    parts += [f"{channel.unread} unread"] if channel.unread else []
    parts += [
        word
        for word, said in (
            ("encrypted", channel.encrypted),
            ("private", channel.private),
            ("signed", channel.signed),
            (str(channel.state), channel.state is not ChannelState.OPEN),
        )
        if said
    ]
    if channel.retention.age_s:
        parts.append(f"kept for {channel.retention.age_s // _DAY_S} days")
    return ", ".join(parts)


async def _list_members(desk: Desk, given: ChannelsArguments, room: int) -> str:
    page = await desk.client.get(f"{channel_path(given.channel)}/members", type=Members, after=given.after)
    blocks = [
        Block(
            f"{shown_name(member.name)}, {member.kind}{f' as {shown_name(member.role)}' if member.role else ''},"
            f" acked to #{member.acked_to}, {member.principal_id}"
        )
        for member in page.members
    ]

    def tail(shown: Shown) -> str:
        left = len(blocks) - shown.blocks
        parts = [f"{left} of these {len(blocks)}: a larger budget"] if left else []
        if page.next:
            parts.append(f'more: channels(channel="{given.channel}", do="members", after="{page.next}")')
        return f"Left out: {'; '.join(parts)}." if parts else ""

    return fitted(f"{counted(page.total or len(blocks), 'member')} of {given.channel}.", blocks, tail, room)


# Keys


async def keys(desk: Desk, given: KeysArguments) -> str:
    """Lists keys, makes a narrower one, or explains what one may."""
    match given.do:
        case "list":
            return await _list_keys(desk, given)
        case "make":
            body: dict[str, Any] = {"name": given.name, "kind": "agent"}
            if given.allow is not None:
                body["permissions"] = given.allow
            if given.expires_s:
                body["expires_at"] = (datetime.now(UTC) + timedelta(seconds=given.expires_s)).isoformat()
            made = await desk.client.post("/v1/keys", body, type=KeyMade)
            return (
                f"Made {made.key_id} for {shown_name(given.name)} ({made.principal_id}). Shown once:\n{made.key}"
            )
        case "explain":
            answer = await desk.client.get(
                "/v1/access/explain", key=given.key, verb=given.verb, resource=given.resource
            )
            return _told(answer)
        case _:
            raise _nothing(given.do, "list, make, explain", "admin: permit, rotate, revoke")


async def _key_path(desk: Desk, key: str) -> str:
    """Where the key is that is named by its id or by its name."""
    if not key:
        raise Invalid("Which key?", hint='key="key_…"')
    if key.startswith("key_"):
        return path_of("/v1/keys/{key}", key=key)
    found = await desk.client.get("/v1/keys", type=Keys)
    named = [held for held in found.keys if held.name.casefold() == key.casefold() and not held.revoked_at]
    if len(named) != 1:
        raise Invalid(f"{len(named)} keys have the name {shown_name(key)}.", hint="Name it by its id (key_…).")
    return path_of("/v1/keys/{key}", key=named[0].key_id)


async def _list_keys(desk: Desk, given: KeysArguments) -> str:
    try:
        found = await desk.client.get(target_of("/v1/keys", {"after": given.after}), type=Keys)
    except EkidenError as error:
        if error.status not in (403, 404):
            raise
        me = await desk.client.get("/v1/me")
        return (
            f"You may see your own key only: {me['key_id']} of {shown_name(me['name'])}, {_map(me['permissions'])}"
        )
    held = [key for key in found.keys if not key.revoked_at]
    blocks = [Block(_key_line(key)) for key in held]
    ended = len(found.keys) - len(held)
    head = counted(len(held), "key") + (f", and {ended} that were revoked." if ended else ".")

    def tail(shown: Shown) -> str:
        left = len(blocks) - shown.blocks
        return f"Left out: {left} keys: a larger budget." if left else ""

    return fitted(head, blocks, tail, room_of(given.budget))


def _key_line(key: Key) -> str:
    ends = f", ends {key.expires_at}" if key.expires_at else ""
    used = f", used {key.used_at}" if key.used_at else ", never used"
    this = " (yours)" if key.this else ""
    return f"{key.key_id}{this} {key.kind} {shown_name(key.name)}: {_map(key.permissions)}{used}{ends}"


def _map(permissions: dict[str, list[str]]) -> str:
    return plain(msgspec.json.encode(permissions).decode())


def _told(answer: Any) -> str:
    """A small answer of the door as one line of JSON."""
    return plain(msgspec.json.encode(answer).decode())


async def audit(desk: Desk, given: AuditArguments) -> str:
    """Who changed which right, and what was refused."""
    room = room_of(given.budget)
    page = await desk.client.get("/v1/audit", type=Audit, before=given.before)
    blocks = [
        Block(
            f"[{line.at} {plain(line.kind)} by {shown_name(line.actor.get('name', '') or 'nobody known')}]",
            bytes(line.body).decode(),
            0,
            lambda _: "…",
            240,
        )
        for line in page.lines
    ]

    def tail(shown: Shown) -> str:
        left = len(blocks) - shown.blocks
        parts = [f"{left} of these {len(blocks)}: a larger budget"] if left else []
        if page.next:
            parts.append(f'older ones: audit(before="{page.next}")')
        return f"Left out: {'; '.join(parts)}." if parts else ""

    return fitted(f"{counted(len(blocks), 'line')}." if blocks else "Nothing here.", blocks, tail, room)
