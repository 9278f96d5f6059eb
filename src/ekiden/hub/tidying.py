"""The chores of a hub: which there are, and how often."""

from typing import Protocol, cast

from ekiden.access import verbs as access_verbs
from ekiden.hub.chores import Chore, Lease
from ekiden.kernel.clock import Clock, iso
from ekiden.kernel.limits import (
    CHORE_DELIVERIES_EVERY_S,
    CHORE_EXPIRY_EVERY_S,
    CHORE_RETENTION_EVERY_S,
    COMMAND_ANSWERS_KEPT_S,
    LOG_FORGET_ROWS_MAX,
)
from ekiden.log.port import Log, Transaction
from ekiden.relay import attachments, receiving
from ekiden.relay.port import Ports


class _Forgets(Protocol):
    """An engine that can drop old events."""

    async def forget(self, team_id: str, before: int) -> int: ...


def own_chores(clock: Clock, events_kept_s: float, ports: Ports) -> tuple[Chore, ...]:
    """What this hub has to have done. `events_kept_s` is how long events are held; 0 for ever."""

    async def expire(lease: Lease) -> None:
        await lease.write(access_verbs.end_old_pairings)
        before = int(clock.now()) - COMMAND_ANSWERS_KEPT_S

        async def forget(tx: Transaction) -> None:
            await tx.run("hub.forget_commands", before=before, most=LOG_FORGET_ROWS_MAX)

        await lease.write(forget)

    async def retain(lease: Lease) -> None:
        before = await first_since(lease.log, lease.team_id, iso(clock.now() - events_kept_s))
        await lease.write(_nothing)  # the lease still holds
        await cast("_Forgets", lease.log).forget(lease.team_id, before)

    async def expire_deliveries(lease: Lease) -> None:
        more = [True]

        async def verb(tx: Transaction) -> None:
            more[0] = await receiving.expire(tx, ports)

        while more[0]:
            if not await lease.log.ask(lease.team_id, receiving.something_expires(clock)):
                return
            await lease.write(verb)

    async def drop_attachments(lease: Lease) -> None:
        await lease.write(attachments.drop_unused)

    chores = [
        Chore("expiry", CHORE_EXPIRY_EVERY_S, expire),
        Chore("deliveries", CHORE_DELIVERIES_EVERY_S, expire_deliveries),
        Chore("attachments", CHORE_EXPIRY_EVERY_S, drop_attachments),
    ]
    if events_kept_s:
        chores.append(Chore("retention", CHORE_RETENTION_EVERY_S, retain))
    return tuple(chores)


async def first_since(log: Log, team_id: str, since: str) -> int:
    """The seq of the team's first event at or after `since` (RFC 3339), head + 1 if there is none. Times grow with
    seq but for what clocks of several nodes differ, so a few looks find it."""
    low, newest = await log.bounds(team_id)
    high = newest + 1
    while low < high:
        middle = (low + high) // 2
        events = await log.events(team_id, middle - 1, limit=1)
        if events and events[0].at < since:
            low = middle + 1
        else:
            high = middle
    return low


async def _nothing(_: Transaction) -> None:
    pass
