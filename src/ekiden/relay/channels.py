"""What people and agents do to channels and their members: one function per verb, one transaction each."""

import msgspec

from ekiden.kernel.errors import Conflict, Forbidden, NotFound, TooMany
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import CHANNEL_MEMBERS_MAX, CHANNELS_PER_TEAM_MAX
from ekiden.log.port import Transaction
from ekiden.relay.keeping import (
    CHANNELS,
    Caller,
    KeptChannel,
    add_follower,
    channel_for,
    put_channel,
    put_member,
    stored_form,
    tell_channel,
    tell_member,
)
from ekiden.relay.port import Known
from ekiden.relay.rules import (
    check_budgets,
    check_new_channel,
    check_retention,
    check_topic,
    checked_channel_name,
    checked_role,
    refuse_held,
)
from ekiden.relay.wire import ChangeChannel, Channel, ChannelState, Member, NewChannel, NewMember

_replace = msgspec.structs.replace


async def make_channel(tx: Transaction, caller: Caller, new: NewChannel) -> Channel:
    """Makes a channel; its maker follows it.

    Raises:
        Invalid: if the name or a setting is out of bounds.
        Forbidden: if the key does not administer channels of that name.
        Conflict: if the name is taken, or was once: names are not given out again.
        TooMany: at `CHANNELS_PER_TEAM_MAX`.
    """
    name = checked_channel_name(new.name)
    check_new_channel(new)
    channel = Channel(
        channel_id=new_id(Prefix.CHANNEL),
        name=name,
        topic=new.topic,
        encrypted=new.encrypted,
        private=new.private,
        signed=new.signed,
        retention=new.retention,
        budgets=new.budgets,
        made_by=caller.actor.name,
        made_at=tx.now,
    )
    if not caller.may("admin", channel.resource):
        raise Forbidden("This key may not make a channel of that name.", verb="admin", resource=channel.resource)
    taken = await tx.row("relay.channel_taken", team_id=tx.team_id, name=name, private=int(new.private))
    if taken is not None:
        gone = taken["state"] == ChannelState.DELETED.value
        raise Conflict(
            f"A channel {name} was deleted; its name is not given out again." if gone else f"{name!r} is taken.",
            hint="Take another name.",
            state=taken["state"],
        )
    counted = await tx.row("relay.count_channels", team_id=tx.team_id)
    if counted is not None and counted["count"] >= CHANNELS_PER_TEAM_MAX:
        raise TooMany("The team has as many channels as it may have.", max=CHANNELS_PER_TEAM_MAX)
    await tx.put(
        "relay.add_channel",
        team_id=tx.team_id,
        channel_id=channel.channel_id,
        name=name,
        private=int(new.private),
        state=channel.state.value,
        channel=stored_form(channel),
    )
    await tx.put("relay.add_head", team_id=tx.team_id, channel_id=channel.channel_id)
    tx.append("channel.made", channel, topics=(channel.resource, CHANNELS), actor=caller.actor)
    kept = KeptChannel(channel, 0)
    await add_follower(tx, kept, await caller_known(tx, caller), "", caller.actor)
    return _replace(kept.channel, unread=0)


async def caller_known(tx: Transaction, caller: Caller) -> Known:
    """Who calls, as others see it."""
    known = await caller.ports.people.known(tx, caller.principal_id)
    return known or Known(caller.principal_id, caller.actor.name, "service")


async def change_channel(tx: Transaction, caller: Caller, ref: str, change: ChangeChannel) -> Channel:
    """Changes what may be changed of a channel; archives it or opens it again.

    Raises:
        NotFound, Forbidden: see `keeping.channel_for`.
        Invalid: if a setting is out of bounds.
    """
    kept = await channel_for(tx, caller, ref, "admin")
    channel = kept.channel
    if change.topic is not None:
        check_topic(change.topic)
        channel = _replace(channel, topic=change.topic)
    if change.retention is not None:
        check_retention(change.retention.age_s, change.retention.count)
        channel = _replace(channel, retention=change.retention)
    if change.budgets is not None:
        check_budgets(change.budgets)
        channel = _replace(channel, budgets=change.budgets)
    if change.archived is not None:
        channel = _replace(channel, state=ChannelState.ARCHIVED if change.archived else ChannelState.OPEN)
    if channel != kept.channel:
        await tell_channel(tx, channel, "changed", caller.actor)
    return channel


async def delete_channel(tx: Transaction, caller: Caller, ref: str) -> Channel:
    """Deletes a channel. Nobody can reach what was in it from now on; its name is not given out again.

    Raises:
        NotFound, Forbidden: see `keeping.channel_for`.
        Conflict: if it is on hold.
    """
    kept = await channel_for(tx, caller, ref, "admin")
    refuse_held(kept.channel)
    channel = _replace(kept.channel, state=ChannelState.DELETED)
    await tell_channel(tx, channel, "deleted", caller.actor)
    return channel


async def put_follower(tx: Transaction, caller: Caller, ref: str, principal_id: str, body: NewMember) -> Member:
    """Makes somebody a member, or changes its role. Asked again, nothing changes.

    Raises:
        NotFound: no such channel or principal.
        Forbidden: if the key may not read the channel, or, for somebody else, not invite.
        Conflict: if that one may not read the channel.
        TooMany: at `CHANNEL_MEMBERS_MAX`.
    """
    who = caller.principal_id if principal_id == "me" else principal_id
    own = who == caller.principal_id
    kept = await channel_for(tx, caller, ref, "read" if own else "invite")
    role = checked_role(body.role)
    known = await caller.ports.people.known(tx, who)
    if known is None:
        raise NotFound
    row = await tx.row("relay.member", team_id=tx.team_id, channel_id=kept.channel_id, principal_id=who)
    if row is not None:
        member = Member(who, row["name"], row["kind"], role, joined_at=row["joined_at"])
        if role != row["role"]:
            _refuse_role(caller, kept, own)
            await put_member(tx, kept, member)
            tell_member(tx, kept, member, "changed", caller.actor)
        return member
    if role:
        _refuse_role(caller, kept, own)
    if not own and not await caller.ports.people.may(tx, who, "read", kept.resource, tx.now):
        raise Conflict(
            f"{known.name} may not read this channel.", hint="Give its key the right first.", name=known.name
        )
    if kept.channel.members >= CHANNEL_MEMBERS_MAX:
        raise TooMany("The channel has as many members as it may have.", max=CHANNEL_MEMBERS_MAX)
    return await add_follower(tx, kept, known, role, caller.actor)


def _refuse_role(caller: Caller, kept: KeptChannel, own: bool) -> None:
    """A role is called by others, so it is not taken but given: also to oneself only by who may invite."""
    if own and not caller.allowed("invite", kept.resource):
        raise Forbidden("A role is given by somebody who may invite.", verb="invite")


async def drop_follower(tx: Transaction, caller: Caller, ref: str, principal_id: str) -> Member:
    """Takes somebody out of a channel. Of an encrypted one the next message then needs a new epoch.

    Raises:
        NotFound: no such channel or member.
        Forbidden: if the key may not read the channel, or, for somebody else, not invite.
    """
    who = caller.principal_id if principal_id == "me" else principal_id
    kept = await channel_for(tx, caller, ref, "read" if who == caller.principal_id else "invite")
    known = {"team_id": tx.team_id, "channel_id": kept.channel_id, "principal_id": who}
    row = await tx.row("relay.member", **known)
    if row is None:
        raise NotFound
    await tx.put("relay.drop_member", **known)
    await tx.put("relay.follow", **known, follows=0)
    await tx.put("relay.count_member", team_id=tx.team_id, channel_id=kept.channel_id, more=-1)
    member = Member(who, row["name"], row["kind"], row["role"], joined_at=row["joined_at"])
    tell_member(tx, kept, member, "left", caller.actor)
    if kept.channel.encrypted and kept.channel.epoch and not kept.channel.epoch_stale:
        channel = _replace(kept.channel, epoch_stale=True, members=kept.channel.members - 1)
        await put_channel(tx, channel)
        tx.append("channel.changed", channel, topics=(channel.resource, CHANNELS), actor=caller.actor)
    return member
