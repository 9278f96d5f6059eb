"""The chores of a hub: which there are, and how often."""

from typing import Protocol, cast

from ekiden.access import verbs as access_verbs
from ekiden.hub.chores import Chore, Lease
from ekiden.hub.relay_chores import RELAY_CHORES, forget_before
from ekiden.kernel.clock import Clock, iso
from ekiden.kernel.limits import (
    CHORE_EXPIRY_EVERY_S,
    CHORE_LOOK_S,
    CHORE_RETENTION_EVERY_S,
    COMMAND_ANSWERS_KEPT_S,
    LOG_FORGET_ROWS_MAX,
    RETENTION_ROWS_MAX,
    RETENTION_STEPS_MAX,
)
from ekiden.log.port import Log, Reading, Transaction
from ekiden.relay import attachments, receiving
from ekiden.relay.port import Ports
from ekiden.sessions import retention


class _Forgets(Protocol):
    """An engine that can drop old events."""

    async def forget(self, team_id: str, before: int) -> int: ...


def own_chores(clock: Clock, events_kept_s: float, ended_kept_s: float, ports: Ports) -> tuple[Chore, ...]:
    """What this hub has to have done. `events_kept_s` is how long events are held, `ended_kept_s` how long turns,
    approvals and messages that have ended are held whole; 0 for ever."""

    async def expire(lease: Lease) -> None:
        await lease.write(access_verbs.end_old_pairings)
        before = int(clock.now()) - COMMAND_ANSWERS_KEPT_S

        async def forget(tx: Transaction) -> None:
            await tx.run("hub.forget_commands", before=before, most=LOG_FORGET_ROWS_MAX)

        await lease.write(forget)

    async def retain(lease: Lease) -> None:
        before = await first_since(lease.log, lease.team_id, iso(clock.now() - events_kept_s))
        before = await forget_before(lease, before)
        await lease.write(_nothing)  # the lease still holds
        await cast("_Forgets", lease.log).forget(lease.team_id, before)

    async def let_go(lease: Lease) -> None:
        before = await first_since(lease.log, lease.team_id, iso(clock.now() - ended_kept_s))
        for find in retention.ALL:
            await let_go_of(lease, find, before)

    async def expire_deliveries(lease: Lease) -> None:
        async def verb(tx: Transaction) -> None:
            await receiving.expire(tx, ports)

        while await lease.log.ask(lease.team_id, something_expires):
            await lease.write(verb)

    async def something_expires(reading: Reading) -> bool:
        return await receiving.something_expires(reading, iso(clock.now()))

    async def drop_attachments(lease: Lease) -> None:
        await lease.write(attachments.drop_unused)

    chores = [
        Chore("expiry", CHORE_EXPIRY_EVERY_S, expire),
        Chore("deliveries", CHORE_LOOK_S, expire_deliveries, waits=something_expires),
        Chore("attachments", CHORE_EXPIRY_EVERY_S, drop_attachments),
        *RELAY_CHORES,
    ]
    if ended_kept_s:
        chores.append(Chore("ended", CHORE_RETENTION_EVERY_S, let_go))
    if events_kept_s:
        chores.append(Chore("retention", CHORE_RETENTION_EVERY_S, retain))
    return tuple(chores)


async def let_go_of(lease: Lease, find: retention.Find, before: int) -> None:
    """Lets go of what ended before an event, a few rows to a transaction; what is over the bound waits for the
    next time."""
    for _ in range(RETENTION_STEPS_MAX):
        count, step = await lease.log.ask(lease.team_id, lambda reading: find(reading, before))
        if count:
            await lease.write(step)
        if count < RETENTION_ROWS_MAX:
            break


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
