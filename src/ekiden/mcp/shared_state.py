"""The tools of shared state: status, set_status, lease."""

import msgspec

from ekiden.kernel.errors import EkidenError, Invalid
from ekiden.kernel.limits import MCP_LEASE_S_DEFAULT
from ekiden.mcp.arguments import LeaseArguments, SetStatusArguments, StatusArguments
from ekiden.mcp.budget import Block, Shown, fitted, room_of
from ekiden.mcp.desk import Desk, channel_path, status_path
from ekiden.mcp.envelope import counted, plain, shown_name
from ekiden.relay.wire_state import (
    ClearStatus,
    Evidence,
    Lease,
    Leases,
    SetStatus,
    Status,
    Statuses,
    StatusKind,
    TakeLease,
)


async def status(desk: Desk, given: StatusArguments) -> str:
    """Values and leases of a channel, one value, or what has changed."""
    room = room_of(given.budget)
    path = channel_path(given.channel)
    if given.history:
        where = f"{status_path(given.channel, given.key)}/changes" if given.key else f"{path}/status-changes"
        page = await desk.client.get(where, type=Statuses, after=given.after)
        return await _statuses_text(desk, given, page, (), room)
    if given.key:
        held = await desk.client.get(status_path(given.channel, given.key), type=Status)
        block = await _status_block(desk, given.channel, held, start=given.offset)
        return fitted("", [block], lambda shown: "" if shown.blocks else "The budget is too small for it.", room)
    page = await desk.client.get(f"{path}/status", type=Statuses, after=given.after)
    leases = await desk.client.get(f"{path}/leases", type=Leases) if not given.after else Leases(())
    return await _statuses_text(desk, given, page, leases.leases, room, more_leases=bool(leases.next))


async def _statuses_text(
    desk: Desk,
    given: StatusArguments,
    page: Statuses,
    leases: tuple[Lease, ...],
    room: int,
    *,
    more_leases: bool = False,
) -> str:
    blocks = [await _status_block(desk, given.channel, held, most=room // 3) for held in page.statuses]
    held_now = [lease for lease in leases if lease.held]
    blocks += [_lease_block(lease) for lease in held_now]
    values = len(page.statuses)
    if not blocks and not page.next:
        return "No changes." if given.history else "No status is set and no lease is held here."
    head = counted(values, "change" if given.history else "value")
    head += f", {counted(len(held_now), 'lease')} held." if held_now else "."
    extra = f', key="{plain(given.key)[:128]}"' if given.key else ""
    extra += ", history=true" if given.history else ""

    def tail(shown: Shown) -> str:
        left = max(0, values - shown.blocks)
        left_leases = len(blocks) - max(shown.blocks, values)
        parts = [f"{left} of these {values}: a larger budget"] if left else []
        parts += [f"{left_leases} leases: a larger budget"] if left_leases else []
        if page.next:
            parts.append(f'more: status(channel="{given.channel}"{extra}, after="{page.next}")')
        parts += ["further leases"] if more_leases else []
        return f"Left out: {'; '.join(parts)}." if parts else ""

    return fitted(head, blocks, tail, room)


async def _status_block(desk: Desk, channel: str, held: Status, *, start: int = 0, most: int = 0) -> Block:
    try:
        opened = await desk.voice.open_status(channel, held)
        text, proof, note = opened.text, opened.proof, opened.note
    except EkidenError as error:
        text, proof, note = "", "", f"cannot be opened: {plain(error.message)[:200]}"
    proof = proof or ("unsigned" if held.signature is None else "signature not checked")
    parts = [
        f"status {plain(held.key)} v{held.version} {held.kind} by {held.authority} {shown_name(held.by)}, {proof},"
        f" at {held.at}"
    ]
    if held.expires_at:
        parts.append(f"expires {held.expires_at}")
    if held.evidence is not None:
        named = msgspec.to_builtins(held.evidence)
        shown = [f"{name} {shown_name(named[name])}" for name in ("commit", "run", "link") if named.get(name)]
        parts += [f"evidence: {', '.join(shown)}"] if shown else []
    if held.suspect:
        parts.append("SUSPECT: written with a key that is no longer trusted")
    if note:
        parts.append(note)
    if held.kind in (StatusKind.CLEARED, StatusKind.EXPIRED):
        text = ""
    whole = len(text)

    def more(end: int) -> str:
        key = plain(held.key)
        return (
            f'… {whole - end} of {whole} characters more: status(channel="{channel}", key="{key}", offset={end})'
        )

    return Block(f"[{'; '.join(parts)}]", text, start, more, most)


def _lease_block(lease: Lease) -> Block:
    if not lease.held:
        return Block(f"[lease {plain(lease.name)} free, fence was {lease.fence}]")
    suspect = "; SUSPECT: taken with a key that is no longer trusted" if lease.suspect else ""
    head = (
        f"[lease {plain(lease.name)} held by {shown_name(lease.holder)} until {lease.expires_at}, fence"
        f" {lease.fence}{suspect}]"
    )
    return Block(head, lease.note, 0, lambda _: "…")


async def set_status(desk: Desk, given: SetStatusArguments) -> str:
    """Sets or clears one value."""
    if given.clear:
        held = await desk.voice.clear_status(given.channel, given.key, ClearStatus(given.if_version))
        return f"Cleared {plain(given.key)} in {given.channel}: version {held.version}."
    if given.value is msgspec.UNSET:
        raise Invalid("What is the value?", hint="value=…, or clear=true.")
    evidence = None
    if given.evidence:
        try:
            evidence = msgspec.convert(given.evidence, Evidence)
        except msgspec.ValidationError as error:
            raise Invalid(f"The evidence does not fit: {error}", hint="It holds commit, run and link.") from None
    wanted = SetStatus(given.value, None, given.if_version, given.expires_s, evidence)
    held = await desk.voice.set_status(given.channel, given.key, wanted)
    expires = f", expires {held.expires_at}" if held.expires_at else ""
    return f"Set {plain(given.key)} in {given.channel}: version {held.version}{expires}."


async def lease(desk: Desk, given: LeaseArguments) -> str:
    """Takes, renews or lets go of a lock."""
    seconds = MCP_LEASE_S_DEFAULT if given.seconds is None else given.seconds
    match given.do:
        case "take" | "renew":
            if given.do == "renew" and not given.fence:
                raise Invalid("Renewing needs the fence of the lease.", hint="It stood in the answer to take.")
            wanted = TakeLease(seconds, given.fence, given.note)
            held = await desk.voice.take_lease(given.channel, given.name, wanted)
            ticket = f"\nticket {held.ticket}" if held.ticket else ""
            return f"You hold {plain(given.name)} until {held.expires_at}, fence {held.fence}.{ticket}"
        case "release":
            await desk.voice.release_lease(given.channel, given.name, given.fence)
            return f"Released {plain(given.name)}."
        case _:
            raise Invalid(f"{given.do[:40]!r} is nothing that can be done.", hint="take, renew or release")
