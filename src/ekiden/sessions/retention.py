"""What is long over is let go of, a bounded number of rows at a time, so that the tables do not grow for ever.

Turns that have ended go, but for each session's newest. Of approvals and messages that have ended a receipt stays:
of an approval who answered what and when, so that a late answer is still told so (law 7); of a message that it was
sent and by whom, so that one that is sent again under its id is still the same (law 8). What they said goes.
Nothing that is shown or waits is touched, and the log keeps its events for as long as it keeps events.
"""

from collections.abc import Awaitable, Callable

import msgspec

from ekiden.kernel.limits import RETENTION_ROWS_MAX
from ekiden.log.port import Reading, Row, Transaction
from ekiden.sessions.keeping import decode_approval, decode_message, text_of
from ekiden.sessions.wire import Approval, Message

Step = Callable[[Transaction], Awaitable[None]]
"""Lets go of the rows that were found, as far as they are still what they were."""
_NOTHING = msgspec.Raw(b"null")


async def ended_turns(reading: Reading, before: int) -> tuple[int, Step]:
    """Turns told of before the event `before`: how many (`RETENTION_ROWS_MAX` at most), and what drops them."""
    rows = await _ended(reading, "sessions.turns_ended", before)

    async def drop(tx: Transaction) -> None:
        for row in rows:
            await tx.run("sessions.drop_turn", team_id=tx.team_id, **row)

    return len(rows), drop


async def ended_approvals(reading: Reading, before: int) -> tuple[int, Step]:
    """Approvals asked before the event `before`: how many, and what makes receipts of them."""
    rows = await _ended(reading, "sessions.approvals_ended", before)

    async def thin(tx: Transaction) -> None:
        for row in rows:
            receipt = receipt_of_approval(decode_approval(row["body"]))
            await tx.run(
                "sessions.thin_approval",
                team_id=tx.team_id,
                approval_id=receipt.approval_id,
                seq=row["seq"],
                body=text_of(receipt),
            )

    return len(rows), thin


async def ended_messages(reading: Reading, before: int) -> tuple[int, Step]:
    """Messages stored before the event `before`: how many, and what makes receipts of them."""
    rows = await _ended(reading, "sessions.messages_ended", before)

    async def thin(tx: Transaction) -> None:
        for row in rows:
            receipt = receipt_of_message(decode_message(row["body"]))
            await tx.run(
                "sessions.thin_message",
                team_id=tx.team_id,
                message_id=receipt.message_id,
                seq=row["seq"],
                body=text_of(receipt),
            )

    return len(rows), thin


Find = Callable[[Reading, int], Awaitable[tuple[int, Step]]]
ALL: tuple[Find, ...] = (ended_turns, ended_approvals, ended_messages)


async def _ended(reading: Reading, query: str, before: int) -> list[Row]:
    return await reading.rows(query, team_id=reading.team_id, before=before, most=RETENTION_ROWS_MAX)


def receipt_of_approval(approval: Approval) -> Approval:
    """Who answered what and when; not what was asked."""
    return msgspec.structs.replace(
        approval, detail=_NOTHING, command="", cwd="", diff="", message="", answers=_NOTHING, cut=()
    )


def receipt_of_message(message: Message) -> Message:
    """That it was sent; not what it said."""
    return msgspec.structs.replace(message, text="")
