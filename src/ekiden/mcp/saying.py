"""The tools that say something: post, edit, ack; and receipts, which tells who took note."""

from collections.abc import Iterable

from ekiden.kernel.errors import Invalid, Unavailable
from ekiden.kernel.ids import Prefix, checked_id, new_id
from ekiden.mcp.arguments import AckArguments, EditArguments, PostArguments, ReceiptsArguments
from ekiden.mcp.budget import Block, Shown, fitted, room_of
from ekiden.mcp.desk import Desk, channel_path, message_id_of, message_path
from ekiden.mcp.envelope import plain, shown_name
from ekiden.relay.wire import (
    Ack,
    Attachment,
    ChangeThread,
    Delivery,
    DeliveryState,
    Edit,
    Laggards,
    Message,
    Post,
    Posted,
    Receipt,
    Thread,
    Way,
)

_WAYS = {
    Way.SESSION: "queued in its session",
    Way.WAITING: "waits now, handed over",
    Way.NEXT_CALL: "at its next call",
    Way.INBOX: "in the inbox",
    Way.NONE: "not woken",
}
_WHYS = {
    "loop_hops": "too many agents woke one another since a person spoke",
    "loop_pair": "you two have woken each other too often",
    "loop_thread": "the thread has used up its wake-ups",
    "nothing_new": "nothing new was said for some turns",
    "may_not_read": "may not read this channel",
    "archived": "the channel is archived",
    "self": "that is you",
    "unknown": "nobody of that name",
    "ambiguous": "more than one of that name",
    "may_not_mention": "your key may not mention it",
}


async def post(desk: Desk, given: PostArguments) -> str:
    """Sends a message; answers where it went."""
    message_id = checked_id(Prefix.MESSAGE, given.id) if given.id else new_id(Prefix.MESSAGE)
    thread = await message_id_of(desk, given.channel, given.thread) if given.thread else ""
    answers = await message_id_of(desk, given.channel, given.answers) if given.answers else ""
    attachments: list[Attachment] = []
    for name, text in given.attach.items():
        data = text.encode("utf-8", "replace")
        attachments.append(await desk.voice.attach(given.channel, name, data, "text/plain; charset=utf-8"))
    wanted = Post(
        message_id=message_id,
        text=given.text,
        thread_id=thread,
        answers=answers,
        asks=given.asks,
        expires_s=given.expires_s,
        mentions=tuple(mention.removeprefix("@") for mention in given.mentions),
        title=given.title,
        attachments=tuple(attachments),
        sender=given.sender,
    )
    try:
        posted = await desk.voice.post(given.channel, wanted)
    except Unavailable as error:
        error.hint = f'It may have been stored: repeat it with id="{message_id}", which never doubles it.'
        raise
    return _posted_text(given, posted)


def _posted_text(given: PostArguments, posted: Posted) -> str:
    message = posted.message
    head = f"Posted #{message.number} {message.message_id} in {given.channel}."
    blocks = [Block(_delivery_line(delivery)) for delivery in posted.deliveries]
    blocks += [
        Block(f"@{shown_name(unplaced.name)} reaches nobody: {_WHYS.get(unplaced.why, plain(unplaced.why))}.")
        for unplaced in posted.unplaced
    ]
    if posted.notice:
        blocks.insert(0, Block(f"Nobody is woken: {_WHYS.get(posted.notice, plain(posted.notice))}."))
    if given.asks and not posted.deliveries:
        blocks.append(Block("It asks for something, but mentions nobody who could give it."))

    def tail(shown: Shown) -> str:
        left = len(blocks) - shown.blocks
        return f"Left out: {left} lines on who gets it: receipts(message={message.message_id})." if left else ""

    return fitted(head, blocks, tail, room_of(given.budget))


def _delivery_line(delivery: Delivery, *, with_state: bool = False) -> str:
    way = _WAYS.get(delivery.way, str(delivery.way))
    why = f" ({_WHYS.get(delivery.why, plain(delivery.why))})" if delivery.why else ""
    told = with_state or delivery.state not in (DeliveryState.STORED, DeliveryState.OFFERED)
    state = f"{delivery.state}, " if told else ""
    reason = f", reason: {shown_name(delivery.reason)}" if delivery.reason else ""
    return f"@{shown_name(delivery.name)}: {state}{way}{why}{reason}"


async def edit(desk: Desk, given: EditArguments) -> str:
    """Replaces or deletes a message, or changes a thread."""
    message_id = await message_id_of(desk, given.channel, given.message)
    done: list[str] = []
    if given.delete and given.text is not None:
        raise Invalid("Either a new text or delete, not both.")
    if given.text is not None:
        wanted = Edit(text=given.text, mentions=tuple(name.removeprefix("@") for name in given.mentions))
        edited = await desk.voice.edit(given.channel, message_id, wanted)
        done.append(f"Edited #{edited.message.number} {message_id}.")
    if given.delete:
        message = await desk.client.delete(message_path(given.channel, message_id), type=Message)
        done.append(f"Deleted #{message.number} {message_id}; that it was there stays visible.")
    if given.title is not None or given.done is not None:
        thread = await desk.client.patch(
            f"{channel_path(given.channel)}/threads/{message_id}",
            ChangeThread(given.title, given.done),
            type=Thread,
        )
        done.append(f"Thread {message_id} is {thread.state}, titled {shown_name(thread.title)}.")
    if not done:
        raise Invalid("What is to be changed?", hint="Give text, delete=true, title or done.")
    return " ".join(done)


async def ack(desk: Desk, given: AckArguments) -> str:
    """Says that the agent took note, or declines."""
    if not given.upto and not given.messages:
        raise Invalid("What did you take note of?", hint="upto=12, or messages=[…].")
    if given.decline and given.upto:
        raise Invalid("Decline single messages, not all up to a number.", hint="messages=[…], decline=…")
    messages = [await message_id_of(desk, given.channel, named) for named in given.messages]
    receipt = await desk.client.post(
        f"{channel_path(given.channel)}/acks",
        Ack(given.upto, tuple(messages), bool(given.decline), given.decline),
        type=Receipt,
    )
    verb = "Declined" if given.decline else "Acked"
    also = f" and {_ranges(receipt.also)}" if receipt.also else ""
    return f"{verb}. In {given.channel} you have acked all up to #{receipt.acked_to}{also}."


async def receipts(desk: Desk, given: ReceiptsArguments) -> str:
    """Who has acked a message, and who not."""
    message_id = await message_id_of(desk, given.channel, given.message)
    found = await desk.client.get(
        f"{channel_path(given.channel)}/acks", type=Laggards, message=message_id, after=given.after
    )
    head = f"#{found.number} {message_id}: {found.acked} of {found.members} members have acked."
    blocks = [Block(_delivery_line(delivery, with_state=True)) for delivery in found.deliveries]
    blocks += [
        Block(f"lags: {shown_name(receipt.name)}, acked to #{receipt.acked_to}") for receipt in found.lagging
    ]

    def tail(shown: Shown) -> str:
        left = len(blocks) - shown.blocks
        parts = [f"{left} lines: a larger budget"] if left else []
        if found.next:
            lagging = found.members - found.acked - len(found.lagging)
            after = f'receipts(channel="{given.channel}", message="{message_id}", after="{found.next}")'
            parts.append(f"{lagging} who lag: {after}" if not given.after else f"more who lag: {after}")
        return f"Left out: {'; '.join(parts)}." if parts else ""

    return fitted(head, blocks, tail, room_of(given.budget))


def _ranges(also: Iterable[tuple[int, int]]) -> str:
    shown = [f"#{first}" if first == last else f"#{first} to #{last}" for first, last in also]
    return ", ".join(shown[:10]) + (f" and {len(shown) - 10} more ranges" if len(shown) > 10 else "")
