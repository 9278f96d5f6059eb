"""Status, leases and keeping at the door: which paths there are, and what a key needs for them.

Which right a path needs depends on the channel, private or not, so it is looked at where the channel is known.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from ekiden.kernel.door import Call, Endpoint
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.kernel.limits import PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX, PURGE_STEPS_MAX
from ekiden.log.port import Reading, Transaction
from ekiden.relay import exporting, leases, retention, status
from ekiden.relay.port import Ports
from ekiden.relay.reach import Reach
from ekiden.relay.routes_members import Trust
from ekiden.relay.status_rules import checked_key
from ekiden.relay.wire import Channel
from ekiden.relay.wire_state import (
    ClearStatus,
    Exported,
    Lease,
    Leases,
    Purge,
    Purged,
    Purges,
    ReleaseLease,
    SetStatus,
    Status,
    Statuses,
    StatusRules,
    TakeLease,
)

T = TypeVar("T")


def limit_of(call: Call) -> int:
    """How many rows a page may have.

    Raises:
        Invalid: if the query says something else than 1 to `PAGE_ROWS_MAX`.
    """
    text = call.query.get("limit", "") or str(PAGE_ROWS_DEFAULT)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= PAGE_ROWS_MAX):
        raise Invalid(f"limit is 1 to {PAGE_ROWS_MAX}.", max=PAGE_ROWS_MAX)
    return int(text)


class State:
    """The endpoints, with what the room was given from outside."""

    def __init__(self, ports: Ports) -> None:
        self._reach = Reach(ports)

    async def _read(self, call: Call, view: Callable[[Reading, Channel], Awaitable[T]]) -> T:
        """A view of the channel of the path, for whoever may read it."""

        async def question(reading: Reading) -> T:
            return await view(reading, await self._reach.channel(call, reading))

        return await call.ask(question)

    async def _page(self, call: Call, view: Callable[..., Awaitable[T]], **also: object) -> T:
        """The same, page by page."""
        limit, after = limit_of(call), call.query.get("after", "")
        return await self._read(
            call,
            lambda reading, channel: view(
                reading, channel, log_id=call.hub.log_id, after=after, limit=limit, **also
            ),
        )

    # Status

    async def list_statuses(self, call: Call) -> Statuses:
        return await self._page(call, status.list_statuses, prefix=call.query.get("prefix", ""))

    async def view_status(self, call: Call) -> Status:
        key = call.parameters["key"]
        return await self._read(call, lambda reading, channel: status.view_status(reading, channel, key))

    async def set_status(self, call: Call, body: SetStatus) -> Any:
        key = checked_key(call.parameters["key"])
        right = f"status:{key}"

        async def question(reading: Reading) -> StatusRules:
            channel = await self._reach.to_write(call, reading, right)
            return await status.load_rules(reading, channel.channel_id)

        # A value is held to its schema outside of the log's one writer.
        rules = await call.ask(question)
        status.refuse_unfit(rules, key, body)

        async def verb(tx: Transaction) -> Status:
            channel = await self._reach.to_write(call, tx, right)
            return await status.set_status(tx, channel, key, body, rules, actor=call.actor)

        return await call.write(verb)

    async def clear_status(self, call: Call, body: ClearStatus) -> Any:
        key = checked_key(call.parameters["key"])

        async def verb(tx: Transaction) -> Status:
            channel = await self._reach.to_write(call, tx, f"status:{key}")
            return await status.clear_status(tx, channel, key, body, actor=call.actor)

        return await call.write(verb)

    async def status_history(self, call: Call) -> Statuses:
        return await self._page(call, status.status_history, key=call.parameters["key"])

    async def status_changes(self, call: Call) -> Statuses:
        return await self._page(call, status.status_changes)

    async def view_rules(self, call: Call) -> StatusRules:
        return await self._read(call, lambda reading, channel: status.load_rules(reading, channel.channel_id))

    async def put_rules(self, call: Call, body: StatusRules) -> Any:
        async def verb(tx: Transaction) -> StatusRules:
            channel = await self._reach.to_write(call, tx, "admin")
            return await status.put_rules(tx, channel, body, actor=call.actor)

        return await call.write(verb)

    # Leases

    async def list_leases(self, call: Call) -> Leases:
        return await self._page(call, leases.list_leases)

    async def view_lease(self, call: Call) -> Lease:
        name = call.parameters["name"]
        lease = await self._read(call, lambda reading, channel: leases.view_lease(reading, channel, name))
        if lease is None:
            raise NotFound
        return lease

    async def take_lease(self, call: Call, body: TakeLease) -> Any:
        name = call.parameters["name"]

        async def verb(tx: Transaction) -> Lease:
            channel = await self._reach.to_write(call, tx, "lease")
            return await leases.take_lease(tx, channel, name, body, actor=call.actor)

        return await call.write(verb)

    async def release_lease(self, call: Call, body: ReleaseLease) -> Any:
        name = call.parameters["name"]

        async def verb(tx: Transaction) -> Lease:
            # Letting go is allowed in an archived channel too.
            channel = await self._reach.channel(call, tx, "lease")
            may_break = self._reach.caller(call).allowed("admin", channel.resource)
            return await leases.release_lease(tx, channel, name, body, actor=call.actor, may_break=may_break)

        return await call.write(verb)

    # Keeping

    async def purge(self, call: Call, body: Purge) -> Any:
        """Purges piece by piece, each in a transaction of its own with a note of its own."""

        async def verb(tx: Transaction) -> Purges:
            channel = await self._reach.channel(call, tx, "admin")
            note = await retention.purge_some(tx, channel, retention.asked(body), actor=call.actor)
            left = await retention.count_left(tx, channel, retention.asked(body))
            return Purges((note,) if note is not None else (), left=left)

        notes: list[Purged] = []
        done = Purges(())
        for _ in range(PURGE_STEPS_MAX):
            written = await call.write(verb)
            done = msgspec.json.decode(written.answer, type=Purges)
            notes += done.purges
            if not done.left or not done.purges:
                break
        return Purges(tuple(notes), left=done.left)

    async def list_purges(self, call: Call) -> Purges:
        return await self._page(call, retention.list_purges)

    async def export(self, call: Call) -> Exported:
        return await self._page(call, exporting.export, thread=call.query.get("thread", ""))


_CHANNEL = "/v1/channels/{channel}"
_AFTER, _LIMIT = ("after", "`next` of the page before"), ("limit", "how many at most")
_PAGE = (_AFTER, _LIMIT)


def endpoints(ports: Ports) -> tuple[Endpoint, ...]:
    """The places of state, with what the room is given from outside."""
    state = State(ports)
    return (
        Endpoint(
            "GET",
            f"{_CHANNEL}/status",
            state.list_statuses,
            "What is set in a channel",
            answer=Statuses,
            query=(("prefix", "only keys that begin so"), *_PAGE),
        ),
        Endpoint("GET", f"{_CHANNEL}/status/{{key}}", state.view_status, "One key's value", answer=Status),
        Endpoint(
            "PUT",
            f"{_CHANNEL}/status/{{key}}",
            state.set_status,
            "Set a key, if it is at the version that was read",
            body=SetStatus,
            answer=Status,
        ),
        Endpoint(
            "DELETE",
            f"{_CHANNEL}/status/{{key}}",
            state.clear_status,
            "Take a key's value away; its history stays",
            body=ClearStatus,
            answer=Status,
        ),
        Endpoint(
            "GET",
            f"{_CHANNEL}/status/{{key}}/changes",
            state.status_history,
            "Every line of one key, newest first",
            answer=Statuses,
            query=_PAGE,
        ),
        Endpoint(
            "GET",
            f"{_CHANNEL}/status-changes",
            state.status_changes,
            "Every line of all keys, as they were written",
            answer=Statuses,
            query=(("after", "`next` of the page before, or a `cursor`"), _LIMIT),
        ),
        Endpoint("GET", f"{_CHANNEL}/status-rules", state.view_rules, "What values need", answer=StatusRules),
        Endpoint(
            "PUT",
            f"{_CHANNEL}/status-rules",
            state.put_rules,
            "Say what values need: a schema, evidence, a second signer",
            body=StatusRules,
            answer=StatusRules,
        ),
        Endpoint("GET", f"{_CHANNEL}/leases", state.list_leases, "Who holds what", answer=Leases, query=_PAGE),
        Endpoint(
            "GET", f"{_CHANNEL}/leases/{{name}}", state.view_lease, "One lease as it stands now", answer=Lease
        ),
        Endpoint(
            "PUT",
            f"{_CHANNEL}/leases/{{name}}",
            state.take_lease,
            "Take a lease, or renew it with its fence",
            body=TakeLease,
            answer=Lease,
        ),
        Endpoint(
            "DELETE",
            f"{_CHANNEL}/leases/{{name}}",
            state.release_lease,
            "Let a lease go",
            body=ReleaseLease,
            answer=Lease,
        ),
        Endpoint(
            "POST",
            f"{_CHANNEL}/purge",
            state.purge,
            "Take the oldest messages away, with a signed note of the range",
            body=Purge,
            answer=Purges,
        ),
        Endpoint(
            "GET",
            f"{_CHANNEL}/purges",
            state.list_purges,
            "Notes of what was taken away",
            answer=Purges,
            query=_PAGE,
        ),
        Endpoint(
            "GET",
            f"{_CHANNEL}/export",
            state.export,
            "A channel or thread, page by page, to be checked with no hub",
            answer=Exported,
            query=(("thread", "only this thread"), *_PAGE),
        ),
        *Trust(ports).endpoints(),
    )
