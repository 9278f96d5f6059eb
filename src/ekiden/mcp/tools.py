"""One tool call: from its name and arguments to a text, whatever happens on the way.

A refusal is an answer that says so (`is_error`): its code, what happened, and what to do next, in the words of the
error tree. Every text is within the call's budget, the refusals too.
"""

import difflib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ekiden.kernel.errors import EkidenError, NotFound
from ekiden.kernel.limits import (
    MCP_BUDGET_TOKENS_DEFAULT,
    MCP_BUDGET_TOKENS_MAX,
    MCP_BUDGET_TOKENS_MIN,
    MCP_CHARS_PER_TOKEN,
    PAGE_ROWS_MAX,
)
from ekiden.mcp import reading, rights, saying, shared_state
from ekiden.mcp.arguments import (
    AckArguments,
    AdminArguments,
    AuditArguments,
    ChannelsArguments,
    EditArguments,
    InboxArguments,
    KeysArguments,
    LeaseArguments,
    PostArguments,
    ReadArguments,
    ReceiptsArguments,
    SearchArguments,
    SetStatusArguments,
    StatusArguments,
    WaitArguments,
    arguments_of,
    channel_named,
)
from ekiden.mcp.desk import Desk
from ekiden.mcp.envelope import plain, shown_name
from ekiden.relay.wire import Channels

TOOLS: dict[str, tuple[type, Callable[[Desk, Any], Awaitable[str]]]] = {
    "inbox": (InboxArguments, reading.inbox),
    "read": (ReadArguments, reading.read),
    "search": (SearchArguments, reading.search),
    "wait": (WaitArguments, reading.wait),
    "post": (PostArguments, saying.post),
    "edit": (EditArguments, saying.edit),
    "ack": (AckArguments, saying.ack),
    "receipts": (ReceiptsArguments, saying.receipts),
    "status": (StatusArguments, shared_state.status),
    "set_status": (SetStatusArguments, shared_state.set_status),
    "lease": (LeaseArguments, shared_state.lease),
    "channels": (ChannelsArguments, rights.channels),
    "keys": (KeysArguments, rights.keys),
    "admin": (AdminArguments, rights.admin),
    "audit": (AuditArguments, rights.audit),
}
"""What each tool takes, and what does it."""
_CUT = "\n… cut: {} more characters."


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says."""

    text: str
    code: str = ""
    """Of the error that it is, empty if it is none."""

    @property
    def is_error(self) -> bool:
        """Whether the tool was refused or failed."""
        return bool(self.code)


async def call(desk: Desk, name: str, given: dict[str, Any]) -> Answer:
    """Carries out the tool `name`. Never raises what Ekiden itself refuses with."""
    room = room_for(given)
    try:
        found = TOOLS.get(name)
        if found is None:
            raise NotFound(f"There is no tool {shown_name(name)}.", hint=f"There are {', '.join(TOOLS)}.")
        kind, run = found
        return Answer(within(await run(desk, arguments_of(kind, given)), room))
    except EkidenError as error:
        channel = channel_named(given)
        if isinstance(error, NotFound) and channel:
            await _say_what_is_near(desk, error, channel)
        return Answer(within(refusal_text(error), room), error.code)


async def _say_what_is_near(desk: Desk, error: NotFound, channel: str) -> None:
    """Says whether it is the channel that is not there, and which ones have names like it."""
    try:
        page = await desk.client.get("/v1/channels", type=Channels, limit=PAGE_ROWS_MAX)
    except EkidenError:
        return
    names = [channel.name for channel in page.channels]
    ids = [channel.channel_id for channel in page.channels]
    if channel in names or channel in ids or page.next:
        return
    error.message = f"There is no channel {shown_name(channel)} that you may read."
    near = difflib.get_close_matches(channel.casefold(), names, 3, 0.5)
    error.hint = f"Did you mean {' or '.join(near)}?" if near else "channels() lists those that there are."


def refusal_text(error: EkidenError) -> str:
    """What a model is told of a refusal."""
    code = str(error.details.get("code") or error.code)
    lines = [f"{plain(code)}: {plain(error.message)}"]
    why = [
        f"{plain(name)} {shown_name(str(value))}"
        for name, value in error.details.items()
        if name not in ("code", "header", "status") and isinstance(value, str | int) and value != ""
    ]
    lines += [f"why: {', '.join(why)}"] if why else []
    following = error.hint or ("Try again in a moment." if error.retry_helps else "")
    lines += [f"next: {plain(following)}"] if following else []
    return "\n".join(lines)


def within(text: str, room: int) -> str:
    """`text` in `room` characters: what is still over it is cut at its end, and how much is said."""
    if len(text) <= room:
        return text
    kept = room - len(_CUT.format(len(text)))
    return text[:kept] + _CUT.format(len(text) - kept)


def room_for(given: dict[str, Any]) -> int:
    """The budget in characters, as far as it can be known before the arguments are looked at."""
    try:
        tokens = int(given.get("budget") or MCP_BUDGET_TOKENS_DEFAULT)
    except (TypeError, ValueError):
        tokens = MCP_BUDGET_TOKENS_DEFAULT
    return max(MCP_BUDGET_TOKENS_MIN, min(tokens, MCP_BUDGET_TOKENS_MAX)) * MCP_CHARS_PER_TOKEN
