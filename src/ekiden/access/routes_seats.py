"""Seats at the door: a host asks for the agent that a session of its is, and gives it up."""

import msgspec

from ekiden.access import seats, secrets
from ekiden.access.routes import answer_of
from ekiden.access.seats import TakenSeat
from ekiden.kernel.door import Call, Endpoint, Need
from ekiden.log.port import Transaction

_FEED = Need("feed", "host:{host_id}")


class NewSeat(msgspec.Struct, frozen=True):
    """A session by the id that its vendor gave it. `project` is its folder's name, for people to read."""

    vendor: str
    native_id: str
    project: str = ""


class SeatTaken(msgspec.Struct, frozen=True):
    """`name` is what the agent is called in channels. `key` is shown once; the one before it has ended."""

    session_id: str
    principal_id: str
    name: str
    key_id: str
    key: str
    expires_at: str


class SeatLeft(msgspec.Struct, frozen=True):
    session_id: str
    key_id: str


async def take_seat(call: Call, body: NewSeat) -> SeatTaken:
    """Makes or finds the agent that a session is, with a new key."""
    key = secrets.new_key()
    ran = False

    async def verb(tx: Transaction) -> TakenSeat:
        nonlocal ran
        ran = True
        return await seats.take_seat(
            tx,
            call.actor,
            call.parameters["host_id"],
            vendor=body.vendor,
            native_id=body.native_id,
            project=body.project,
            secret_digest=key.digest,
        )

    seat = answer_of(await call.write(verb), TakenSeat)
    return SeatTaken(
        seat.session_id, seat.principal_id, seat.name, seat.key_id, key.text if ran else "", seat.expires_at
    )


async def leave_seat(call: Call) -> SeatLeft:
    """Ends the key of the agent that a session was."""
    session_id = call.parameters["session_id"]

    async def verb(tx: Transaction) -> str:
        return await seats.leave_seat(tx, call.actor, call.parameters["host_id"], session_id)

    return SeatLeft(session_id, answer_of(await call.write(verb), str))


ENDPOINTS = (
    Endpoint(
        "POST",
        "/v1/hosts/{host_id}/seats",
        take_seat,
        "Which agent a session is, and a key for its tools",
        body=NewSeat,
        answer=SeatTaken,
        need=_FEED,
        audience="host",
    ),
    Endpoint(
        "DELETE",
        "/v1/hosts/{host_id}/seats/{session_id}",
        leave_seat,
        "End the key of a session's agent",
        answer=SeatLeft,
        need=_FEED,
        audience="host",
    ),
)
