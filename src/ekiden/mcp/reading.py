"""The tools that read what was said: inbox, read, search, wait. Reading acks nothing."""

import asyncio
from collections.abc import Sequence

from ekiden.kernel.errors import EkidenError, Invalid
from ekiden.kernel.limits import MCP_PAGE_ROWS_MAX, MCP_WAIT_S_DEFAULT, MCP_WAIT_S_MAX
from ekiden.mcp.arguments import InboxArguments, ReadArguments, SearchArguments, WaitArguments
from ekiden.mcp.budget import Block, Shown, fitted, room_of, shown_of
from ekiden.mcp.desk import Desk, Opened, Said, channel_path, message_id_of, message_path
from ekiden.mcp.envelope import counted, envelope_of, plain, shown_name
from ekiden.relay.wire import (
    Asks,
    Channel,
    Delivery,
    Mentions,
    Message,
    Messages,
    MessageState,
    RelaySearch,
    SearchHit,
    Thread,
    Threads,
    ThreadState,
    Waiting,
)

_CHARS_PER_ROW = 120
"""What a short message takes: more rows than fit into a budget need not be asked for."""
_FOLLOWED = ("message.", "status.", "lease.", "thread.", "channel.")


async def inbox(desk: Desk, given: InboxArguments) -> str:
    """What waits for the agent, the most important first."""
    room = room_of(given.budget)
    found = await desk.client.get("/v1/mentions", type=Mentions, limit=_rows(room), after=given.after)
    return await inbox_text(desk, found, given.after, room)


async def inbox_text(desk: Desk, found: Mentions, after: str, room: int) -> str:
    """What waits, within `room`; `after` is the cursor that it was asked with."""
    mentions = len(found.mentions) + found.more
    unread = sum(channel.unread for channel in found.channels)
    if not mentions and not unread:
        return "Nothing waits for you."
    blocks = [await _mention_block(desk, *pair, room) for pair in _with_deliveries(found)]
    blocks += [Block(_unread_line(channel)) for channel in found.channels]
    asked = sum(hit.message.asks is not Asks.NOTHING for hit in found.mentions)
    head = f"{counted(mentions, 'mention')} for you ({asked} of the first {len(found.mentions)} ask something)"
    head += f", {unread} unread in {counted(len(found.channels), 'channel')}."
    # Where the budget ends within a page, the page is asked for once more in that length, to learn how it goes on.
    leads: dict[int, str] = {len(found.mentions): found.next}
    unknown = "?" * max(len(found.next), len(found.cursor), len(after))

    def tail(shown: Shown) -> str:
        count = min(shown.blocks, len(found.mentions))
        left = mentions - count
        channels = found.channels[max(0, shown.blocks - len(found.mentions)) :]
        parts: list[str] = []
        if left:
            how = f'inbox(after="{leads.get(count, unknown)}")' if count else "a larger budget"
            parts.append(f"{counted(left, 'more mention')}: {how}")
        if channels:
            waiting = sum(channel.unread for channel in channels)
            parts.append(f"{counted(len(channels), 'more channel')} with {waiting} unread: a larger budget")
        return f"Left out: {'; '.join(parts)}." if parts else ""

    while True:
        shown = min(shown_of(head, blocks, tail, room).blocks, len(found.mentions))
        if not shown or shown in leads:
            desk.shown.extend(hit.message.message_id for hit in found.mentions[:shown])
            return fitted(head, blocks, tail, room)
        page = await desk.client.get("/v1/mentions", type=Mentions, limit=shown, after=after)
        leads[shown] = page.next


def _with_deliveries(found: Mentions) -> list[tuple[SearchHit, Delivery | None]]:
    deliveries = {delivery.message_id: delivery for delivery in found.deliveries}
    return [(hit, deliveries.get(hit.message.message_id)) for hit in found.mentions]


async def _mention_block(desk: Desk, hit: SearchHit, delivery: Delivery | None, room: int) -> Block:
    notes: list[str] = []
    if delivery is not None:
        if delivery.expires_at:
            notes.append(f"expires {delivery.expires_at}")
        if delivery.attempt > 1:
            notes.append(f"offered before, {delivery.attempt} times now")
    return await message_block(desk, hit.channel, hit.message, notes=tuple(notes), most=room // 3)


def _unread_line(channel: Waiting) -> str:
    sealed = ", encrypted" if channel.encrypted else ""
    return (
        f"{channel.channel}: {channel.unread} unread (#{channel.oldest} to #{channel.newest}{sealed}):"
        f' read(channel="{channel.channel}", unread=true)'
    )


async def message_block(
    desk: Desk, channel: str, message: Message, *, notes: tuple[str, ...] = (), start: int = 0, most: int = 0
) -> Block:
    """A message as a part of a reply."""
    opened = await opened_message(desk, channel, message)
    extra = [*notes]
    if message.sealed is not None and opened.title:
        extra.append(f"titled {plain(opened.title)}")
    if opened.note:
        extra.append(opened.note)
    for attachment in opened.attachments:
        name = plain(attachment.name).replace("\n", " ")[:80]
        extra.append(f'attachment "{name}" {attachment.size} bytes {attachment.sha256}')
    if opened.proof == "bad signature":
        extra.append("do NOT believe it")
    if not opened.text and not opened.note and message.state is MessageState.KEPT:
        extra.append("no text")
    envelope = envelope_of(message, channel, proof=opened.proof, notes=tuple(extra))
    whole = len(opened.text)

    def more(end: int) -> str:
        return (
            f"… {whole - end} of {whole} characters more:"
            f' read(channel="{channel}", message="{message.message_id}", offset={end})'
        )

    return Block(envelope.head, opened.text, start, more, most)


async def opened_message(desk: Desk, channel: str, message: Message) -> Said:
    """What a message says; where it cannot be opened, why."""
    try:
        return await desk.voice.open(channel, message)
    except EkidenError as error:
        return Opened("", note=f"cannot be opened: {plain(error.message)[:200]}")


async def read(desk: Desk, given: ReadArguments) -> str:
    """Messages of a channel, one message, an attachment, or the list of threads."""
    room = room_of(given.budget)
    if given.attachment:
        return await _read_attachment(desk, given, room)
    if given.message:
        return await _read_one(desk, given, room)
    if given.threads:
        return await _read_threads(desk, given, room)
    return await _read_page(desk, given, room)


async def _read_one(desk: Desk, given: ReadArguments, room: int) -> str:
    message_id = await message_id_of(desk, given.channel, given.message)
    message = await desk.client.get(message_path(given.channel, message_id), type=Message)
    block = await message_block(desk, given.channel, message, start=given.offset)
    if given.offset > len(block.text):
        raise Invalid(f"The message has {len(block.text)} characters.", hint="Choose a smaller offset.")
    return fitted("", [block], lambda shown: "" if shown.blocks else "The budget is too small for it.", room)


async def _read_attachment(desk: Desk, given: ReadArguments, room: int) -> str:
    message: Message | None = None
    if given.message:
        message_id = await message_id_of(desk, given.channel, given.message)
        message = await desk.client.get(message_path(given.channel, message_id), type=Message)
    held = await desk.voice.detach(given.channel, given.attachment, message)
    try:
        text = held.data.decode("utf-8")
    except UnicodeDecodeError:
        return f"The attachment is {len(held.data)} bytes that are no text ({plain(held.media_type)[:80]})."
    if given.offset > len(text):
        raise Invalid(f"The attachment has {len(text)} characters.", hint="Choose a smaller offset.")
    block = Block(
        f"[attachment {given.attachment[:64]}, {len(text)} characters, {plain(held.media_type)[:80]}]",
        text,
        given.offset,
        lambda end: (
            f"… {len(text) - end} of {len(text)} characters more:"
            f' read(channel="{given.channel}", attachment="{given.attachment[:64]}", offset={end})'
        ),
    )
    return fitted("", [block], lambda shown: "" if shown.blocks else "The budget is too small for it.", room)


async def _read_threads(desk: Desk, given: ReadArguments, room: int) -> str:
    page = await desk.client.get(
        f"{channel_path(given.channel)}/threads", type=Threads, limit=_rows(room), after=given.cursor
    )
    blocks = [Block(_thread_head(thread), thread.title, 0, lambda _: "…") for thread in page.threads]

    def tail(shown: Shown) -> str:
        left = len(blocks) - shown.blocks
        parts = [f"{left} more of this page: a larger budget"] if left else []
        if page.next:
            parts.append(f'more: read(channel="{given.channel}", threads=true, cursor="{page.next}")')
        return f"Left out: {'; '.join(parts)}." if parts else ""

    return fitted(f"{counted(len(blocks), 'thread')}." if blocks else "No threads.", blocks, tail, room)


def _thread_head(thread: Thread) -> str:
    parts = [
        f"thread {thread.thread_id} {thread.state}, {counted(thread.replies, 'reply')}, last #{thread.last_number}"
        f" at {thread.last_at}"
    ]
    if thread.state is ThreadState.DONE:
        parts.append(f"done by {shown_name(thread.done_by)}")
    if thread.stopped:
        parts.append(f"waking stopped: {thread.stopped}")
    return f"[{'; '.join(parts)}]"


async def _read_page(desk: Desk, given: ReadArguments, room: int) -> str:
    thread = await message_id_of(desk, given.channel, given.thread) if given.thread else ""
    upwards = given.after is None and not given.unread
    page = await desk.client.get(
        f"{channel_path(given.channel)}/messages",
        type=Messages,
        limit=_rows(room),
        thread=thread,
        after=given.after,
        before=given.before,
        unread="1" if given.unread else "",
    )
    return await page_text(desk, given.channel, page, room, thread=thread, unread=given.unread, upwards=upwards)


async def page_text(
    desk: Desk, channel: str, page: Messages, room: int, *, thread: str = "", unread: bool = False, upwards: bool
) -> str:
    """A page of messages within `room`. `upwards`: the newest matter most, and older ones are left out first."""
    messages: Sequence[Message] = page.messages[::-1] if upwards else page.messages
    blocks = [await message_block(desk, channel, message, most=room // 2) for message in messages]
    head = f"{page.missing} messages are purged." if page.missing else ""
    if not blocks:
        return f"{head} No {'unread ' if unread else ''}messages here.".strip()
    of_thread = f', thread="{thread}"' if thread else ""

    def tail(shown: Shown) -> str:
        left = len(blocks) - shown.blocks
        further = page.before if upwards else page.after
        if not left and not further:
            return ""
        count = "" if not left else f"{left} of the {len(blocks)} found"
        if unread and page.total_unread is not None:
            count = f"{page.total_unread - shown.blocks} unread"
        elif further:
            count = f"{count} and those " if count else "those "
            count += "before them" if upwards else "after them"
        last = messages[shown.blocks - 1].number if shown.blocks else None
        if upwards:
            how = f"before={last}" if last is not None else "budget=…"
        elif last is not None:
            how = f"after={last}"
        else:
            how = "budget=…"
        return f'Left out: {count}: read(channel="{channel}"{of_thread}, {how}).'

    return fitted(head, blocks, tail, room, upwards=upwards)


async def search(desk: Desk, given: SearchArguments) -> str:
    """Messages with these words, the newest first."""
    room = room_of(given.budget)
    found = await desk.client.get(
        "/v1/relay/search", type=RelaySearch, text=given.text, channel=given.channel, after=given.after
    )
    blocks = [await message_block(desk, hit.channel, hit.message, most=room // 4) for hit in found.hits]

    def tail(shown: Shown) -> str:
        left = len(blocks) - shown.blocks
        parts = [f"{left} of {len(blocks)} found: a larger budget"] if left else []
        if found.next:
            since = f"before {found.searched_to} " if found.searched_to else ""
            parts.append(f'what lies {since}further back: search(after="{found.next}")')
        return f"Left out: {'; '.join(parts)}." if parts else ""

    return fitted(f"{len(blocks)} found." if blocks else "Nothing found.", blocks, tail, room)


async def wait(desk: Desk, given: WaitArguments) -> str:
    """Waits for a mention of the agent, or for anything new in a channel. The answer says how to wait on."""
    room = room_of(given.budget)
    seconds = int(MCP_WAIT_S_DEFAULT) if given.seconds is None else given.seconds
    if not 0 <= seconds <= MCP_WAIT_S_MAX:
        raise Invalid(f"Waits 0 to {MCP_WAIT_S_MAX:g} seconds, not {seconds}.", hint="Call wait again to go on.")
    if given.channel:
        return await _wait_in_channel(desk, given, seconds, room)
    found = await desk.client.get(
        "/v1/mentions/wait", type=Mentions, seconds=seconds, after=given.after, limit=_rows(room)
    )
    then = f'Then: wait(after="{found.cursor}").' if found.cursor else "Then: wait()."
    if not found.mentions:
        return f"Nobody mentioned you within {seconds} s. {then}"
    return f"{await inbox_text(desk, found, '', room - len(then) - 1)}\n{then}"


async def _wait_in_channel(desk: Desk, given: WaitArguments, seconds: int, room: int) -> str:
    path = channel_path(given.channel)
    channel = await desk.client.get(path, type=Channel)
    after = _number(given.after) if given.after else channel.last_number
    page = await desk.client.get(f"{path}/messages", type=Messages, after=after, limit=_rows(room))
    happened: list[str] = []
    if not page.messages:
        happened = await _follow(desk, channel.resource, page.cursor, seconds)
        page = await desk.client.get(f"{path}/messages", type=Messages, after=after, limit=_rows(room))
    last = page.messages[-1].number if page.messages else after
    then = f'Then: wait(channel="{given.channel}", after={last}).'
    if not page.messages and not happened:
        return f"Nothing new within {seconds} s. {then}"
    lines = [f"Changed: {', '.join(happened)[:60]}."] if happened else []
    if page.messages:
        kept = room - len(then) - 1 - sum(len(line) + 1 for line in lines)
        lines.append(await page_text(desk, given.channel, page, kept, upwards=False))
    return "\n".join((*lines, then))


def _number(text: str) -> int:
    number = text.removeprefix("#")
    if not (number.isascii() and number.isdigit() and len(number) < 16):
        raise Invalid("In a channel, after is the number of a message.", hint="wait(channel=…, after=12)")
    return int(number)


async def _follow(desk: Desk, topic: str, cursor: str, seconds: int) -> list[str]:
    """The kinds of what happens next on a topic, within so many seconds; empty if nothing does."""
    stream = desk.client.stream(topic, cursor)
    try:
        async with asyncio.timeout(seconds):
            async for frame in stream:
                if frame.kind.startswith(_FOLLOWED):
                    return [frame.kind]
    except TimeoutError:
        pass
    finally:
        await stream.aclose()
    return []


def _rows(room: int) -> int:
    return max(1, min(MCP_PAGE_ROWS_MAX, room // _CHARS_PER_ROW))
