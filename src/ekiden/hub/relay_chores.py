"""What the relay room has to have done: times that are over are told, old messages go, doubts are followed, and
the log's chain gets its checkpoints."""

from ekiden.hub.chores import Chore, Lease
from ekiden.kernel.limits import (
    CHECKPOINT_STEPS_MAX,
    CHORE_EXPIRY_EVERY_S,
    CHORE_LOOK_S,
    RETENTION_STEPS_MAX,
)
from ekiden.log.port import Reading, Transaction
from ekiden.relay import leases, log_chain, retention, status, tainting


async def times_waiting(reading: Reading) -> bool:
    """Whether the time of a status or a lease is over and nobody has told of it."""
    return await status.statuses_waiting(reading) or await leases.leases_waiting(reading)


async def end_times(lease: Lease) -> None:
    """Tells of statuses and leases whose time is over."""
    while await lease.log.ask(lease.team_id, times_waiting):
        await lease.write(status.expire_statuses)
        await lease.write(leases.end_leases)


async def follow_doubts(lease: Lease) -> None:
    """Marks what keys wrote that are not trusted any more, where that was too much for one transaction."""
    while await lease.log.ask(lease.team_id, tainting.taints_waiting):
        await lease.write(tainting.taint_more)


async def keep_no_more(lease: Lease) -> None:
    """Takes away what channels do not keep, a few messages to a transaction; what is over the bound waits for
    the next time."""
    for channel, reaches in await lease.log.ask(lease.team_id, retention.channels_over):
        for _ in range(RETENTION_STEPS_MAX):
            went: list[bool] = []

            async def verb(
                tx: Transaction,
                channel_id: str = channel.channel_id,
                reaches: retention.Reaches = reaches,
                went: list[bool] = went,
            ) -> None:
                went[:] = [await retention.retain_some(tx, channel_id, reaches)]

            await lease.write(verb)
            if not went[0]:
                break


async def add_checkpoints(lease: Lease, upto: int | None = None) -> None:
    """Signs where the log's chain stands, step by step up to the event `upto` (the newest, if None)."""
    for _ in range(CHECKPOINT_STEPS_MAX):
        found = await log_chain.next_checkpoint(lease.log, lease.team_id, upto)
        if found is None:
            break
        seq, value = found

        async def verb(tx: Transaction, seq: int = seq, value: bytes = value) -> None:
            await log_chain.add_checkpoint(tx, seq, value)

        await lease.write(verb)


async def forget_before(lease: Lease, before: int) -> int:
    """Up to where events may be forgotten so that what is kept verifies: the event after a checkpoint, at most
    `before`. Older checkpoints go."""
    await add_checkpoints(lease, before - 1)
    newest = await lease.log.ask(lease.team_id, lambda reading: log_chain.newest_checkpoint(reading, before))
    if newest is None:
        return 0

    async def verb(tx: Transaction) -> None:
        await log_chain.drop_checkpoints(tx, newest.seq)

    await lease.write(verb)
    return newest.seq + 1


RELAY_CHORES = (
    Chore("times", CHORE_LOOK_S, end_times, waits=times_waiting),
    Chore("doubts", CHORE_LOOK_S, follow_doubts, waits=tainting.taints_waiting),
    Chore("keeping", CHORE_EXPIRY_EVERY_S, keep_no_more),
    Chore("chain", CHORE_LOOK_S, add_checkpoints, waits=log_chain.checkpoint_waits),
)
"""All of them."""
