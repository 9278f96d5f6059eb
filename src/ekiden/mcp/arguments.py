"""What each tool takes, and how forgivingly: numbers may come as text, and the names that agents guess are known.

A tool's arguments are data of a model. What is not known is refused with the names that are; only words for the
sender go through to the hub, which refuses another sender than the key's own and notes it.
"""

from typing import Any, TypeVar

import msgspec

from ekiden.kernel.errors import Invalid
from ekiden.relay.wire import Asks

T = TypeVar("T", bound="Arguments")


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every tool takes."""

    budget: int | None = None


class InboxArguments(Arguments, frozen=True):
    after: str = ""


class ReadArguments(Arguments, frozen=True):
    """Which messages; with `message` or `attachment` one thing, from the character `offset` on."""

    channel: str
    thread: str = ""
    message: str = ""
    attachment: str = ""
    after: int | None = None
    before: int | None = None
    unread: bool = False
    threads: bool = False
    offset: int = 0
    cursor: str = ""
    """Leads on in a list of threads."""


class SearchArguments(Arguments, frozen=True):
    text: str
    channel: str = ""
    after: str = ""


class WaitArguments(Arguments, frozen=True):
    channel: str = ""
    after: str = ""
    seconds: int | None = None


class PostArguments(Arguments, frozen=True):
    """A message. `attach` is from file name to text."""

    channel: str
    text: str
    thread: str = ""
    answers: str = ""
    asks: Asks = Asks.NOTHING
    mentions: tuple[str, ...] = ()
    title: str = ""
    attach: dict[str, str] = {}
    expires_s: int = 0
    id: str = ""
    sender: str = ""


class EditArguments(Arguments, frozen=True):
    """A new text, or its end; or what the thread of that id is called, and whether it is done."""

    channel: str
    message: str
    text: str | None = None
    delete: bool = False
    title: str | None = None
    done: bool | None = None
    mentions: tuple[str, ...] = ()


class AckArguments(Arguments, frozen=True):
    channel: str
    upto: int = 0
    messages: tuple[str, ...] = ()
    decline: str = ""


class ReceiptsArguments(Arguments, frozen=True):
    channel: str
    message: str
    after: str = ""


class StatusArguments(Arguments, frozen=True):
    channel: str
    key: str = ""
    history: bool = False
    after: str = ""
    offset: int = 0


class SetStatusArguments(Arguments, frozen=True):
    """A new value, or `clear`."""

    channel: str
    key: str
    value: Any = msgspec.UNSET
    clear: bool = False
    if_version: int | None = None
    expires_s: int = 0
    evidence: dict[str, str] = {}


class LeaseArguments(Arguments, frozen=True):
    channel: str
    name: str
    do: str = "take"
    seconds: int | None = None
    fence: int = 0
    note: str = ""


class ChannelsArguments(Arguments, frozen=True):
    """`do` left out: the members of a channel that is named, else the list."""

    do: str = ""
    channel: str = ""
    topic: str = ""
    encrypted: bool = False
    private: bool = False
    signed: bool = False
    member: str = ""
    role: str = ""
    after: str = ""


class KeysArguments(Arguments, frozen=True):
    """`key` by its id or name."""

    do: str = "list"
    key: str = ""
    name: str = ""
    allow: dict[str, list[str]] | None = None
    expires_s: int = 0
    verb: str = ""
    resource: str = ""
    after: str = ""


class AdminArguments(Arguments, frozen=True):
    """What is done to a channel, or to a key that is named by its id or name."""

    do: str = ""
    channel: str = ""
    topic: str | None = None
    keep_days: int | None = None
    member: str = ""
    key: str = ""
    allow: dict[str, list[str]] | None = None
    overlap_s: int = 0
    since: str = ""


class AuditArguments(Arguments, frozen=True):
    before: str = ""


_GUESSED = {
    "channel_name": "channel",
    "channel_id": "channel",
    "room": "channel",
    "content": "text",
    "body": "text",
    "query": "text",
    "thread_id": "thread",
    "message_id": "message",
    "id": "message",
    "reply_to": "answers",
    "in_reply_to": "answers",
    "mention": "mentions",
    "message_ids": "messages",
    "after_id": "after",
    "cursor": "after",
    "since_number": "after",
    "timeout": "seconds",
    "timeout_s": "seconds",
    "ttl": "seconds",
    "lease_s": "seconds",
    "ttl_s": "expires_s",
    "action": "do",
    "reason": "decline",
    "permissions": "allow",
    "key_id": "key",
    "from": "sender",
    "sender_name": "sender",
    "sender_id": "sender",
    "as": "sender",
    "max_tokens": "budget",
}
_LISTS = ("mentions", "messages")


def channel_named(given: dict[str, Any]) -> str:
    """The channel that a call names, by whichever name of the argument; empty if it names none."""
    named = ("channel", *(guess for guess, meant in _GUESSED.items() if meant == "channel"))
    return next((str(given[name]).removeprefix("#") for name in named if given.get(name)), "")


def arguments_of(kind: type[T], given: dict[str, Any]) -> T:
    """What was given to a tool, in its shape.

    Raises:
        Invalid: naming what is wrong, and what the tool takes.
    """
    fields = kind.__struct_fields__
    taken: dict[str, Any] = {}
    for name, value in given.items():
        guessed = _GUESSED.get(name, name)
        known = name if name in fields else guessed if guessed in fields and guessed not in given else name
        if value is None and known != "value":
            continue
        if known in _LISTS and isinstance(value, str):
            value = [value]
        taken[known] = value.removeprefix("#") if known == "channel" and isinstance(value, str) else value
    try:
        return msgspec.convert(taken, kind, strict=False)
    except msgspec.ValidationError as error:
        names = ", ".join(name for name in fields if name != "sender")
        raise Invalid(f"The arguments do not fit: {str(error)[:300]}", hint=f"It takes {names}.") from None
