"""Status, leases and keeping at the door: which paths there are, and what a key needs for them.

Which channel a path names is only known once it is loaded, so rights are looked at here and not by the door: a
channel that the key may not read answers like one that does not exist.
"""

from typing import Any

from ekiden.kernel.door import Call, Endpoint
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.kernel.limits import PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX
from ekiden.log.port import Reading, Transaction
from ekiden.relay import leases, status
from ekiden.relay.reach import may, reached, reached_to_write
from ekiden.relay.status_rules import checked_key
from ekiden.relay.wire_state import (
    ClearStatus,
    Lease,
    Leases,
    ReleaseLease,
    SetStatus,
    Status,
    Statuses,
    StatusRules,
    TakeLease,
)


def limit_of(call: Call) -> int:
    """How many rows a page may have."""
    text = call.query.get("limit", "") or str(PAGE_ROWS_DEFAULT)
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 0 < int(text) <= PAGE_ROWS_MAX):
        raise Invalid(f"limit is 1 to {PAGE_ROWS_MAX}.", max=PAGE_ROWS_MAX)
    return int(text)


# --- status ------------------------------------------------------------------------------------------------


async def _rules_for(call: Call, key: str) -> StatusRules:
    """What a value needs; asked before the write, so that a value is held to its schema outside of the log."""

    async def question(reading: Reading) -> StatusRules:
        channel = await reached_to_write(call, reading, f"status:{key}")
        return await status.load_rules(reading, channel.channel_id)

    return await call.ask(question)


async def list_statuses(call: Call) -> Statuses:
    async def question(reading: Reading) -> Statuses:
        return await status.list_statuses(
            reading,
            await reached(call, reading),
            log_id=call.hub.log_id,
            prefix=call.query.get("prefix", ""),
            after=call.query.get("after", ""),
            limit=limit_of(call),
        )

    return await call.ask(question)


async def view_status(call: Call) -> Status:
    async def question(reading: Reading) -> Status:
        return await status.view_status(reading, await reached(call, reading), call.parameters["key"])

    return await call.ask(question)


async def set_status(call: Call, body: SetStatus) -> Any:
    key = checked_key(call.parameters["key"])
    rules = await _rules_for(call, key)
    status.refuse_unfit(rules, key, body)

    async def verb(tx: Transaction) -> Status:
        channel = await reached_to_write(call, tx, f"status:{key}")
        return await status.set_status(tx, channel, key, body, rules, actor=call.actor)

    return await call.write(verb)


async def clear_status(call: Call, body: ClearStatus) -> Any:
    key = checked_key(call.parameters["key"])

    async def verb(tx: Transaction) -> Status:
        channel = await reached_to_write(call, tx, f"status:{key}")
        return await status.clear_status(tx, channel, key, body, actor=call.actor)

    return await call.write(verb)


async def status_history(call: Call) -> Statuses:
    async def question(reading: Reading) -> Statuses:
        return await status.status_history(
            reading,
            await reached(call, reading),
            call.parameters["key"],
            log_id=call.hub.log_id,
            after=call.query.get("after", ""),
            limit=limit_of(call),
        )

    return await call.ask(question)


async def status_changes(call: Call) -> Statuses:
    async def question(reading: Reading) -> Statuses:
        return await status.status_changes(
            reading,
            await reached(call, reading),
            log_id=call.hub.log_id,
            after=call.query.get("after", ""),
            limit=limit_of(call),
        )

    return await call.ask(question)


async def view_rules(call: Call) -> StatusRules:
    async def question(reading: Reading) -> StatusRules:
        return await status.load_rules(reading, (await reached(call, reading)).channel_id)

    return await call.ask(question)


async def put_rules(call: Call, body: StatusRules) -> Any:
    async def verb(tx: Transaction) -> StatusRules:
        channel = await reached_to_write(call, tx, "admin")
        return await status.put_rules(tx, channel, body, actor=call.actor)

    return await call.write(verb)


# --- leases ------------------------------------------------------------------------------------------------


async def list_leases(call: Call) -> Leases:
    async def question(reading: Reading) -> Leases:
        return await leases.list_leases(
            reading,
            await reached(call, reading),
            log_id=call.hub.log_id,
            after=call.query.get("after", ""),
            limit=limit_of(call),
        )

    return await call.ask(question)


async def view_lease(call: Call) -> Lease:
    async def question(reading: Reading) -> Lease:
        lease = await leases.view_lease(reading, await reached(call, reading), call.parameters["name"])
        if lease is None:
            raise NotFound
        return lease

    return await call.ask(question)


async def take_lease(call: Call, body: TakeLease) -> Any:
    async def verb(tx: Transaction) -> Lease:
        channel = await reached_to_write(call, tx, "lease")
        return await leases.take_lease(tx, channel, call.parameters["name"], body, actor=call.actor)

    return await call.write(verb)


async def release_lease(call: Call, body: ReleaseLease) -> Any:
    async def verb(tx: Transaction) -> Lease:
        # Letting go is allowed in an archived channel too.
        channel = await reached(call, tx, "lease")
        return await leases.release_lease(
            tx,
            channel,
            call.parameters["name"],
            body,
            actor=call.actor,
            may_break=may(call, "admin", channel),
        )

    return await call.write(verb)


_CHANNEL = "/v1/channels/{channel}"
_PAGE = (("after", "`next` of the page before"), ("limit", "how many at most"))

ENDPOINTS = (
    Endpoint(
        "GET",
        f"{_CHANNEL}/status",
        list_statuses,
        "What is set in a channel",
        answer=Statuses,
        query=(("prefix", "only keys that begin so"), *_PAGE),
    ),
    Endpoint("GET", f"{_CHANNEL}/status/{{key}}", view_status, "One key's value", answer=Status),
    Endpoint(
        "PUT",
        f"{_CHANNEL}/status/{{key}}",
        set_status,
        "Set a key, if it is at the version that was read",
        body=SetStatus,
        answer=Status,
    ),
    Endpoint(
        "DELETE",
        f"{_CHANNEL}/status/{{key}}",
        clear_status,
        "Take a key's value away; its history stays",
        body=ClearStatus,
        answer=Status,
    ),
    Endpoint(
        "GET",
        f"{_CHANNEL}/status/{{key}}/changes",
        status_history,
        "Every line of one key, newest first",
        answer=Statuses,
        query=_PAGE,
    ),
    Endpoint(
        "GET",
        f"{_CHANNEL}/status-changes",
        status_changes,
        "Every line of all keys, as they were written",
        answer=Statuses,
        query=(("after", "`next` of the page before, or a `cursor`"), ("limit", "how many at most")),
    ),
    Endpoint("GET", f"{_CHANNEL}/status-rules", view_rules, "What values need", answer=StatusRules),
    Endpoint(
        "PUT",
        f"{_CHANNEL}/status-rules",
        put_rules,
        "Say what values need: a schema, evidence, a second signer",
        body=StatusRules,
        answer=StatusRules,
    ),
    Endpoint("GET", f"{_CHANNEL}/leases", list_leases, "Who holds what", answer=Leases, query=_PAGE),
    Endpoint("GET", f"{_CHANNEL}/leases/{{name}}", view_lease, "One lease as it stands now", answer=Lease),
    Endpoint(
        "PUT",
        f"{_CHANNEL}/leases/{{name}}",
        take_lease,
        "Take a lease, or renew it with its fence",
        body=TakeLease,
        answer=Lease,
    ),
    Endpoint(
        "DELETE",
        f"{_CHANNEL}/leases/{{name}}",
        release_lease,
        "Let a lease go",
        body=ReleaseLease,
        answer=Lease,
    ),
)
