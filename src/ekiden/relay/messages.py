"""What is said in a channel: posted, edited, deleted; and the threads that it makes up.

A post is one row, one number and one event, however many members there are. Only those who are mentioned get a row
of their own, so posting costs the same in a channel of five and of five thousand.
"""

from collections.abc import Sequence

import msgspec

from ekiden.kernel.canonical import whole_text
from ekiden.kernel.errors import CommandReused, Forbidden, Invalid, NotFound
from ekiden.kernel.limits import EVENT_TOPICS_MAX, MENTIONS_PER_MESSAGE_MAX
from ekiden.log.port import Transaction
from ekiden.relay import loops, rules
from ekiden.relay.calling import Called, call, deliver, judge
from ekiden.relay.channels import caller_known
from ekiden.relay.keeping import (
    Caller,
    KeptChannel,
    KeptMessage,
    KeptThread,
    add_follower,
    channel_for,
    channel_to_post,
    column,
    delivery_of,
    inbox_topic,
    load_message,
    load_thread,
    move_delivery,
    put_thread,
    put_wakes,
    rename_thread,
    tell_delivery,
    tell_thread,
    text_of,
)
from ekiden.relay.wire import (
    ChangeThread,
    Channel,
    DeliveryState,
    Edit,
    Message,
    MessageState,
    Post,
    Posted,
    Thread,
    ThreadState,
)

_replace = msgspec.structs.replace


# --- posting -----------------------------------------------------------------------------------------------


async def post(tx: Transaction, caller: Caller, ref: str, message_id: str, body: Post) -> Posted:
    """Stores a message. The same id with the same content is answered again.

    Raises:
        NotFound: no such channel, thread or message to answer.
        Forbidden: if the key may not post here, or the body names another sender.
        CommandReused: if the id was used for another message.
        Invalid, TooLarge, NotSealed, StaleEpoch, Conflict: see `rules.check_post`.
    """
    kept = await channel_to_post(tx, caller, ref, message_id)
    channel = kept.channel
    rules.refuse_other_sender(body.sender, caller.principal_id, caller.actor.name)
    body = _whole(body)
    digest = rules.digest_of_post(channel.channel_id, body)
    if kept.digest is not None:
        return await _again(tx, caller, channel, message_id, body, same=kept.digest == digest)
    rules.check_post(channel, body)
    sender = await caller_known(tx, caller)
    thread = await _thread_for(tx, channel, body.thread_id) if body.thread_id else None
    if body.answers and await load_message(tx, channel.channel_id, body.answers) is None:
        raise NotFound("There is no such message to answer here.")
    await _check_attachments(tx, channel, body)
    notary = caller.ports.notary
    statement = await notary.check_post(tx, channel, message_id, body, caller.actor) if notary else ""
    called = await call(tx, caller, channel, body.text, body.mentions)
    number = channel.last_number + 1
    judged = await judge(tx, caller, kept, thread, body, sender, called)
    message = Message(
        message_id=message_id,
        channel_id=channel.channel_id,
        number=number,
        sender_id=caller.principal_id,
        sender=caller.actor.name,
        authority=rules.authority_of(sender.kind),
        at=tx.now,
        text=body.text,
        sealed=body.sealed,
        thread_id=body.thread_id,
        answers=body.answers,
        asks=body.asks,
        mentions=called.mentions,
        named=body.mentions,
        attachments=body.attachments,
        title=body.title,
        hops=judged.hops,
        signature=body.signature,
    )
    if kept.follows is None:
        await add_follower(tx, kept, sender, "", caller.actor)
    message = await _countersigned(tx, caller, channel, message, statement)
    seq = await _store(tx, caller, kept, message, digest, judged.woken, spoken=sender.is_person and thread is None)
    if thread is not None:
        await _reply(tx, caller, channel, thread, message, judged.account)
    else:
        if judged.changed and not sender.is_person:
            await put_wakes(tx, channel.channel_id, kept.spoken_seq, judged.account)
        if body.title:
            await _begin_thread(tx, caller, channel, message)
    if body.answers:
        await _answered(tx, caller, channel, body.answers)
    deliveries = await deliver(tx, caller, channel, message, called, judged, body.expires_s, seq)
    notice = next((why for why in judged.why if why in _STOPS), "")
    return Posted(message, deliveries, tuple(called.unplaced), notice)


_STOPS = frozenset({loops.HOPS, loops.PAIR, loops.THREAD, loops.NOTHING_NEW})


def _whole(body: Post) -> Post:
    """The post as every engine can keep it."""
    if body.text.isascii() and body.title.isascii():
        return body
    return _replace(body, text=whole_text(body.text), title=whole_text(body.title))


async def _again(
    tx: Transaction, caller: Caller, channel: Channel, message_id: str, body: Post, *, same: bool
) -> Posted:
    """What a post was answered that was sent before."""
    known = await load_message(tx, channel.channel_id, message_id) if same else None
    if known is None or known.message.sender_id != caller.principal_id:
        raise CommandReused(
            "This message id was used before for another message.", hint="Take a new id for a new message."
        )
    called = await call(tx, caller, channel, body.text, body.mentions)
    rows = await tx.rows(
        "relay.deliveries_of_message",
        team_id=tx.team_id,
        message_id=message_id,
        most=MENTIONS_PER_MESSAGE_MAX,
    )
    deliveries = tuple(delivery_of(row).delivery for row in rows)
    notice = next((delivery.why for delivery in deliveries if delivery.why in _STOPS), "")
    return Posted(known.message, deliveries, tuple(called.unplaced), notice)


async def _thread_for(tx: Transaction, channel: Channel, thread_id: str) -> KeptThread:
    """The thread of an id, or the one that begins with the message of that id."""
    known = await load_thread(tx, channel.channel_id, thread_id)
    if known is not None:
        return known
    root = await load_message(tx, channel.channel_id, thread_id)
    if root is None:
        raise NotFound("There is no such message to begin a thread with here.")
    if root.message.thread_id:
        raise Invalid(
            "That message is in a thread already.",
            hint=f"Post into thread {root.message.thread_id}.",
            thread_id=root.message.thread_id,
        )
    return _new_thread(root.message)


def _new_thread(root: Message) -> KeptThread:
    thread = Thread(
        thread_id=root.message_id,
        channel_id=root.channel_id,
        title=rules.title_of(root),
        state=ThreadState.OPEN,
        replies=0,
        last_number=root.number,
        last_at=root.at,
        made_by=root.sender,
    )
    return KeptThread(thread, root.number, loops.Account(), fresh=True)


async def _begin_thread(tx: Transaction, caller: Caller, channel: Channel, root: Message) -> None:
    await tell_thread(tx, channel, _new_thread(root), caller.actor)


async def _reply(
    tx: Transaction, caller: Caller, channel: Channel, kept: KeptThread, message: Message, account: loops.Account
) -> None:
    """Counts a reply. The thread is told if it is new, was done, or Ekiden stopped or began to wake in it."""
    stopped_before, was = kept.account.stopped, kept.thread.state
    kept.account = account
    kept.thread = _replace(
        kept.thread,
        replies=kept.thread.replies + 1,
        last_number=message.number,
        last_at=message.at,
        state=ThreadState.OPEN,
        done_by="",
        done_at="",
    )
    if kept.fresh or was is ThreadState.DONE or stopped_before != account.stopped:
        await tell_thread(tx, channel, kept, caller.actor)
    else:
        await put_thread(tx, kept)


async def _check_attachments(tx: Transaction, channel: Channel, body: Post) -> None:
    """Attachments are named by their hash, so knowing a hash must not be enough: they were put here before."""
    for attachment in body.attachments:
        known = await tx.row(
            "relay.attachment_here",
            team_id=tx.team_id,
            channel_id=channel.channel_id,
            sha256=rules.checked_sha256(attachment.sha256),
        )
        if known is None:
            raise NotFound("There is no such attachment here.", hint="Put it before the message.")
        if known["size"] != attachment.size:
            raise Invalid(f"The attachment has {known['size']} bytes, not {attachment.size}.")


async def _countersigned(
    tx: Transaction, caller: Caller, channel: Channel, message: Message, statement: str
) -> Message:
    """The message with the hub's word for where it stands: in the event that comes next. `statement` is the
    digest of what its sender has signed."""
    notary = caller.ports.notary
    if notary is None:
        return message
    mark = await notary.countersign(tx, channel, message, statement, tx.seq + 1)
    return _replace(message, countersign=mark)


async def _store(
    tx: Transaction,
    caller: Caller,
    kept: KeptChannel,
    message: Message,
    digest: str,
    woken: Sequence[str],
    *,
    spoken: bool,
) -> int:
    """One event, one number, one row. Those who are woken find the event in their inbox as well."""
    stored = text_of(message)
    topics = (kept.resource, *(inbox_topic(who) for who in woken[: EVENT_TOPICS_MAX - 1]))
    seq = tx.append("message.posted", stored.encode(), topics=topics, actor=caller.actor)
    await tx.put(
        "relay.move_head",
        team_id=tx.team_id,
        channel_id=message.channel_id,
        last_number=message.number,
        spoken_seq=seq if spoken else kept.spoken_seq,
    )
    await tx.put(
        "relay.add_message",
        team_id=tx.team_id,
        channel_id=message.channel_id,
        number=message.number,
        message_id=message.message_id,
        thread_id=message.thread_id,
        sender_id=message.sender_id,
        sender_key=caller.actor.key_id,
        at=message.at,
        seq=seq,
        words=column(rules.searched_words(message.text, message.title)),
        message=stored,
        digest=digest,
    )
    for attachment in message.attachments:
        await tx.put(
            "relay.use_attachment",
            team_id=tx.team_id,
            sha256=attachment.sha256,
            channel_id=message.channel_id,
            message_id=message.message_id,
        )
    return seq


async def _answered(tx: Transaction, caller: Caller, channel: Channel, message_id: str) -> None:
    """An answer ends the mention that it answers."""
    row = await tx.row(
        "relay.delivery", team_id=tx.team_id, principal_id=caller.principal_id, message_id=message_id
    )
    if row is None:
        return
    kept = delivery_of(row)
    may_end = DeliveryState.ANSWERED in rules.DELIVERY_MOVES[kept.delivery.state]
    if kept.channel_id == channel.channel_id and may_end:
        moved = await move_delivery(tx, kept, DeliveryState.ANSWERED)
        tell_delivery(tx, moved, kept.sender_id, caller.actor)


# --- editing and deleting ----------------------------------------------------------------------------------


async def edit(tx: Transaction, caller: Caller, ref: str, message_id: str, body: Edit) -> Posted:
    """Replaces the text of a message. Whom it mentions anew is told; the text before leaves the log.

    Raises:
        NotFound: no such message here.
        Forbidden, Conflict, Invalid, TooLarge, NotSealed, StaleEpoch: see `rules.check_edit`.
    """
    kept = await channel_for(tx, caller, ref, "post")
    channel = kept.channel
    known = await _message(tx, channel, message_id)
    rules.check_edit(channel, known.message, body, caller.principal_id)
    before = known.message
    if (before.text, before.sealed) == (body.text, body.sealed) and not body.mentions:
        return Posted(before)
    notary = caller.ports.notary
    statement = await notary.check_edit(tx, channel, before, body, caller.actor) if notary else ""
    called = await call(tx, caller, channel, body.text, body.mentions)
    earlier = {mention.principal_id for mention in before.mentions}
    fresh = Called({who: call for who, call in called.people.items() if who not in earlier}, called.unplaced)
    sender = await caller_known(tx, caller)
    thread = await load_thread(tx, channel.channel_id, before.thread_id) if before.thread_id else None
    posting = await channel_to_post(tx, caller, channel.channel_id, message_id)
    judged = await judge(tx, caller, posting, thread, body, sender, fresh)
    message = _replace(
        before,
        text=body.text,
        sealed=body.sealed,
        mentions=called.mentions,
        named=body.mentions,
        edited_at=tx.now,
        edits=before.edits + 1,
        signature=body.signature,
        replies=0,
    )
    message = await _countersigned(tx, caller, channel, message, statement)
    seq = await _change(tx, caller, kept, known, message, "message.edited", judged.woken)
    if thread is not None and judged.changed and not sender.is_person:
        thread.account = judged.account
        await put_thread(tx, thread)
    elif judged.changed and not sender.is_person:
        await put_wakes(tx, channel.channel_id, kept.spoken_seq, judged.account)
    deliveries = await deliver(tx, caller, channel, message, fresh, judged, 0, seq)
    return Posted(message, deliveries, tuple(called.unplaced))


async def delete(tx: Transaction, caller: Caller, ref: str, message_id: str) -> Message:
    """Takes back what a message said. That there was one, whose, and who deleted it when, stays.

    Raises:
        NotFound: no such message here.
        Forbidden: if it is somebody else's, and the key does not administer the channel.
        Conflict: if the channel is on hold.
    """
    kept = await channel_for(tx, caller, ref, "read")
    known = await _message(tx, kept.channel, message_id)
    own = known.message.sender_id == caller.principal_id and caller.allowed("post", kept.resource)
    if not own and not caller.may("admin", kept.resource):
        raise Forbidden("Only who sent a message, or administers the channel, can delete it.", verb="admin")
    if known.message.state is MessageState.DELETED:
        return known.message
    rules.refuse_held(kept.channel)
    message = _replace(
        known.message,
        text="",
        sealed=None,
        title="",
        attachments=(),
        mentions=(),
        named=(),
        state=MessageState.DELETED,
        deleted_by=caller.actor.name,
        edited_at=tx.now,
        replies=0,
    )
    # What its sender signed is gone, but not that something was: the hub's word keeps the digest.
    statement = message.countersign.statement if message.countersign is not None else ""
    message = await _countersigned(tx, caller, kept.channel, message, statement)
    await _change(tx, caller, kept, known, message, "message.deleted", ())
    await tx.put("relay.unuse_attachments", team_id=tx.team_id, message_id=message_id)
    rows = await tx.rows(
        "relay.deliveries_of_message", team_id=tx.team_id, message_id=message_id, most=MENTIONS_PER_MESSAGE_MAX
    )
    for entry in map(delivery_of, rows):
        if entry.waits:
            moved = await move_delivery(tx, entry, DeliveryState.EXPIRED, reason="deleted")
            tell_delivery(tx, moved, entry.sender_id, caller.actor)
    return message


async def _message(tx: Transaction, channel: Channel, message_id: str) -> KeptMessage:
    known = await load_message(tx, channel.channel_id, message_id)
    if known is None:
        raise NotFound
    return known


async def _change(
    tx: Transaction,
    caller: Caller,
    kept: KeptChannel,
    known: KeptMessage,
    message: Message,
    kind: str,
    woken: Sequence[str],
) -> int:
    """Keeps a changed message, tells it, and takes out of the log what it said before."""
    stored = text_of(message)
    topics = (kept.resource, *(inbox_topic(who) for who in woken[: EVENT_TOPICS_MAX - 1]))
    seq = tx.append(kind, stored.encode(), topics=topics, actor=caller.actor)
    await tx.put(
        "relay.change_message",
        team_id=tx.team_id,
        channel_id=message.channel_id,
        number=message.number,
        edit_seq=seq,
        words=column(rules.searched_words(message.text, message.title)),
        message=stored,
    )
    await tx.redact(*filter(None, (known.seq, known.edit_seq)))
    thread = await load_thread(tx, kept.channel_id, message.message_id)
    if thread is not None:
        await rename_thread(tx, kept.channel, thread, rules.title_of(message), caller.actor)
    return seq


# --- threads -----------------------------------------------------------------------------------------------


async def change_thread(tx: Transaction, caller: Caller, ref: str, thread_id: str, change: ChangeThread) -> Thread:
    """Gives a thread a title, marks it as done or opens it again.

    Raises:
        NotFound: no such thread here.
        Forbidden, Conflict, Invalid: if the key may not post here, or the channel takes nothing new.
    """
    kept = await channel_for(tx, caller, ref, "post")
    channel = kept.channel
    rules.refuse_unwritable(channel)
    known = await load_thread(tx, channel.channel_id, thread_id)
    if known is None:
        raise NotFound
    before = known.thread
    if change.title is not None and change.title != before.title:
        rules.check_title(change.title)
        if not known.named and known.told:
            await tx.redact(*known.told)
        known.named, known.told = True, ()
        known.thread = _replace(known.thread, title=change.title)
    if change.done is not None and change.done != (before.state is ThreadState.DONE):
        known.thread = _replace(
            known.thread,
            state=ThreadState.DONE if change.done else ThreadState.OPEN,
            done_by=caller.actor.name if change.done else "",
            done_at=tx.now if change.done else "",
        )
    if known.thread == before:
        return known.shown(channel.budgets)
    return await tell_thread(tx, channel, known, caller.actor)
