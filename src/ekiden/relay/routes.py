"""The relay room at the door: channels, messages, mentions and receipts.

Which right a path needs depends on the channel, private or not, so it is looked at where the channel is known.
What a key may not read answers like what does not exist, whichever way it is asked for.
"""

import hashlib
from typing import Any

import msgspec

from ekiden.kernel.cursors import parse_cursor
from ekiden.kernel.door import Call, Endpoint
from ekiden.kernel.errors import Invalid, TooLarge, TooMany, Unavailable
from ekiden.kernel.ids import Prefix, checked_id, new_id
from ekiden.kernel.limits import (
    ACK_MESSAGES_MAX,
    ATTACHMENT_BYTES_MAX,
    ATTACHMENT_NAME_CHARS_MAX,
    MENTION_WAIT_S_MAX,
    PAGE_ROWS_DEFAULT,
    RELAY_PAGE_MESSAGES_MAX,
)
from ekiden.relay import attachments, channels, messages, receiving, rules, views
from ekiden.relay.keeping import Caller, inbox_topic
from ekiden.relay.port import Ports
from ekiden.relay.wire import (
    Ack,
    Attachment,
    ChangeChannel,
    ChangeThread,
    Channel,
    Channels,
    Delivery,
    DeliveryState,
    Edit,
    Laggards,
    Member,
    Members,
    Mentions,
    Message,
    Messages,
    NewChannel,
    NewMember,
    Post,
    Posted,
    Receipt,
    RelaySearch,
    Surfaced,
    Thread,
    Threads,
)
from ekiden.relay.wire_state import AttachmentBytes

_CHANNEL = "/v1/channels/{channel}"
_AFTER = ("after", "`next` of the page before.")
_LIMIT = ("limit", f"How many at most: {PAGE_ROWS_DEFAULT} if left out, {RELAY_PAGE_MESSAGES_MAX} at most.")


def _limit(call: Call) -> int:
    text = call.query.get("limit", "")
    if not text:
        return PAGE_ROWS_DEFAULT
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise Invalid("`limit` is a number above 0.")
    return min(int(text), RELAY_PAGE_MESSAGES_MAX)


def _flag(call: Call, name: str, meant: str) -> bool:
    text = call.query.get(name, "")
    if text not in ("", "0", meant):
        raise Invalid(f"`{name}` is {meant!r} or left out.")
    return text == meant


class Relay:
    """The endpoints, with what the room was given from outside."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    def _caller(self, call: Call) -> Caller:
        return Caller(call.actor, call.may, self._ports, call.hub.log_id)

    # Channels

    async def list_channels(self, call: Call) -> Channels:
        caller, limit, after = self._caller(call), _limit(call), call.query.get("after", "")
        return await call.ask(lambda reading: views.list_channels(reading, caller, after=after, limit=limit))

    async def make_channel(self, call: Call, body: NewChannel) -> Any:
        caller = self._caller(call)
        return await call.write(lambda tx: channels.make_channel(tx, caller, body))

    async def view_channel(self, call: Call) -> Channel:
        caller = self._caller(call)
        return await call.ask(lambda reading: views.view_channel(reading, caller, call.parameters["channel"]))

    async def change_channel(self, call: Call, body: ChangeChannel) -> Any:
        caller = self._caller(call)
        return await call.write(lambda tx: channels.change_channel(tx, caller, call.parameters["channel"], body))

    async def delete_channel(self, call: Call) -> Any:
        caller = self._caller(call)
        return await call.write(lambda tx: channels.delete_channel(tx, caller, call.parameters["channel"]))

    async def list_members(self, call: Call) -> Members:
        caller, limit, after = self._caller(call), _limit(call), call.query.get("after", "")
        ref = call.parameters["channel"]
        return await call.ask(lambda reading: views.list_members(reading, caller, ref, after=after, limit=limit))

    async def put_member(self, call: Call, body: NewMember) -> Any:
        caller, ref, who = self._caller(call), call.parameters["channel"], call.parameters["principal_id"]
        return await call.write(lambda tx: channels.put_follower(tx, caller, ref, who, body))

    async def drop_member(self, call: Call) -> Any:
        caller, ref, who = self._caller(call), call.parameters["channel"], call.parameters["principal_id"]
        return await call.write(lambda tx: channels.drop_follower(tx, caller, ref, who))

    # Messages

    async def post_message(self, call: Call, body: Post) -> Any:
        message_id = checked_id(Prefix.MESSAGE, body.message_id) if body.message_id else new_id(Prefix.MESSAGE)
        caller, ref = self._caller(call), call.parameters["channel"]
        return await call.write(lambda tx: messages.post(tx, caller, ref, message_id, body))

    async def list_messages(self, call: Call) -> Messages:
        caller, ref = self._caller(call), call.parameters["channel"]
        asked = views.Asked(
            after=call.query.get("after", ""),
            before=call.query.get("before", ""),
            limit=_limit(call),
            thread=call.query.get("thread", ""),
            sender=call.query.get("sender", ""),
            unread=_flag(call, "unread", "1"),
            mentions=_flag(call, "mentions", "me"),
        )
        page = await call.ask(lambda reading: views.list_messages(reading, caller, ref, asked))
        if asked.unread or asked.mentions:
            mine = [
                message.message_id
                for message in page.messages
                if any(mention.principal_id == caller.principal_id for mention in message.mentions)
            ]
            await self._offer(call, mine, again=False)
        return page

    async def view_message(self, call: Call) -> Message:
        caller, ref, message_id = self._caller(call), call.parameters["channel"], call.parameters["message_id"]
        return await call.ask(lambda reading: views.view_message(reading, caller, ref, message_id))

    async def edit_message(self, call: Call, body: Edit) -> Any:
        caller, ref, message_id = self._caller(call), call.parameters["channel"], call.parameters["message_id"]
        return await call.write(lambda tx: messages.edit(tx, caller, ref, message_id, body))

    async def delete_message(self, call: Call) -> Any:
        caller, ref, message_id = self._caller(call), call.parameters["channel"], call.parameters["message_id"]
        return await call.write(lambda tx: messages.delete(tx, caller, ref, message_id))

    async def list_threads(self, call: Call) -> Threads:
        caller, ref, limit = self._caller(call), call.parameters["channel"], _limit(call)
        state, after = call.query.get("state", ""), call.query.get("after", "")
        return await call.ask(
            lambda reading: views.list_threads(reading, caller, ref, state=state, after=after, limit=limit)
        )

    async def view_thread(self, call: Call) -> Thread:
        caller, ref, thread_id = self._caller(call), call.parameters["channel"], call.parameters["thread_id"]
        return await call.ask(lambda reading: views.view_thread(reading, caller, ref, thread_id))

    async def change_thread(self, call: Call, body: ChangeThread) -> Any:
        caller, ref, thread_id = self._caller(call), call.parameters["channel"], call.parameters["thread_id"]
        return await call.write(lambda tx: messages.change_thread(tx, caller, ref, thread_id, body))

    async def search(self, call: Call) -> RelaySearch:
        caller, limit, query = self._caller(call), _limit(call), call.query
        return await call.ask(
            lambda reading: views.search(
                reading,
                caller,
                text=query.get("text", ""),
                channel=query.get("channel", ""),
                after=query.get("after", ""),
                limit=limit,
            )
        )

    # Receipts and mentions

    async def ack(self, call: Call, body: Ack) -> Any:
        caller, ref = self._caller(call), call.parameters["channel"]
        return await call.write(lambda tx: receiving.ack(tx, caller, ref, body))

    async def laggards(self, call: Call) -> Laggards:
        caller, ref, limit = self._caller(call), call.parameters["channel"], _limit(call)
        message_id, after = call.query.get("message", ""), call.query.get("after", "")
        if not message_id:
            raise Invalid("Say of which message.", hint="?message=msg_…")
        return await call.ask(
            lambda reading: views.laggards(reading, caller, ref, message_id, after=after, limit=limit)
        )

    async def own_receipt(self, call: Call) -> Receipt:
        caller, ref = self._caller(call), call.parameters["channel"]
        return await call.ask(lambda reading: views.own_receipt(reading, caller, ref))

    async def mentions(self, call: Call) -> Mentions:
        caller, limit, after = self._caller(call), _limit(call), call.query.get("after", "")
        found: Mentions = await call.ask(lambda reading: views.mentions(reading, caller, after=after, limit=limit))
        return await self._offered(call, found, again=False)

    async def wait(self, call: Call) -> Mentions:
        """Answers at once if something waits that came after the cursor, else when something comes, at the latest
        when the time is over. The bell hangs before the first look, so nothing falls between."""
        caller, limit, seconds = self._caller(call), _limit(call), _seconds(call)
        after = parse_cursor(call.query["after"]) if call.query.get("after") else None
        if after is not None and after.log_id != call.hub.log_id:
            raise Invalid("The cursor is of another log.", hint="Start again without a cursor.")
        newer_than = after.seq if after is not None else 0
        with call.bell(inbox_topic(caller.principal_id), within_s=seconds) as bell:
            while not await call.ask(lambda reading: views.something_waits(reading, caller, newer_than)):
                if not await bell.rung():
                    break
        found: Mentions = await call.ask(
            lambda reading: views.mentions(reading, caller, after="", limit=limit, newer_than=newer_than)
        )
        return await self._offered(call, found, again=True)

    async def _offered(self, call: Call, found: Mentions, *, again: bool) -> Mentions:
        """Notes that these mentions were in an answer; `again` counts how often."""
        fresh = [entry.message_id for entry in found.deliveries if again or entry.state is DeliveryState.STORED]
        offered = {entry.message_id: entry for entry in await self._offer(call, fresh, again=again)}
        return msgspec.structs.replace(
            found, deliveries=tuple(offered.get(entry.message_id, entry) for entry in found.deliveries)
        )

    async def _offer(self, call: Call, message_ids: list[str], *, again: bool) -> list[Delivery]:
        """Notes what was in an answer. Reading goes on while the log cannot store: then it is offered once
        more."""
        if not message_ids:
            return []
        principal_id = call.actor.principal_id
        try:
            written = await call.write(lambda tx: receiving.offer(tx, principal_id, message_ids, again=again))
        except (Unavailable, TooMany):
            return []
        return _deliveries(written.answer)

    async def surface(self, call: Call, body: Surfaced) -> Any:
        if len(body.messages) > ACK_MESSAGES_MAX:
            raise Invalid(f"At most {ACK_MESSAGES_MAX} messages can be named.")
        return await call.write(lambda tx: receiving.surface(tx, call.actor.principal_id, body.messages))

    # Attachments

    async def put_attachment(self, call: Call, body: AttachmentBytes) -> Any:
        """Base64 comes and goes in JSON; what is stored is found by the hash of the bytes."""
        caller, ref = self._caller(call), call.parameters["channel"]
        sha256 = rules.checked_sha256(call.parameters["sha256"])
        if len(body.media_type) > ATTACHMENT_NAME_CHARS_MAX:
            raise Invalid(f"A media type has at most {ATTACHMENT_NAME_CHARS_MAX} characters.")
        if len(body.data) > ATTACHMENT_BYTES_MAX:
            raise TooLarge("The attachment is too large.", size=len(body.data), max=ATTACHMENT_BYTES_MAX)
        if hashlib.sha256(body.data).hexdigest() != sha256:
            raise Invalid("The bytes have another SHA-256 than the path says.")
        return await call.write(lambda tx: attachments.put(tx, caller, ref, sha256, body))

    async def view_attachment(self, call: Call) -> AttachmentBytes:
        caller, ref, sha256 = self._caller(call), call.parameters["channel"], call.parameters["sha256"]
        return await call.ask(lambda reading: attachments.view(reading, caller, ref, sha256))


_deliveries = msgspec.json.Decoder(list[Delivery]).decode


def _seconds(call: Call) -> float:
    text = call.query.get("seconds", "")
    if not text:
        return float(MENTION_WAIT_S_MAX)
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise Invalid("`seconds` is a whole number.")
    return float(min(int(text), MENTION_WAIT_S_MAX))


def endpoints(ports: Ports) -> tuple[Endpoint, ...]:
    """The places of the room, with what it is given from outside."""
    relay = Relay(ports)
    page = (_AFTER, _LIMIT)
    return (
        Endpoint(
            "GET",
            "/v1/channels",
            relay.list_channels,
            "The channels that the key may read.",
            answer=Channels,
            query=page,
        ),
        Endpoint(
            "POST",
            "/v1/channels",
            relay.make_channel,
            "Makes a channel.",
            body=NewChannel,
            answer=Channel,
            status=201,
        ),
        Endpoint("GET", _CHANNEL, relay.view_channel, "One channel, by name or id.", answer=Channel),
        Endpoint(
            "PATCH",
            _CHANNEL,
            relay.change_channel,
            "Changes a channel's settings; archives it or opens it again.",
            body=ChangeChannel,
            answer=Channel,
        ),
        Endpoint("DELETE", _CHANNEL, relay.delete_channel, "Deletes a channel for good.", answer=Channel),
        Endpoint(
            "GET",
            f"{_CHANNEL}/members",
            relay.list_members,
            "Who follows the channel.",
            answer=Members,
            query=page,
        ),
        Endpoint(
            "PUT",
            f"{_CHANNEL}/members/{{principal_id}}",
            relay.put_member,
            "Makes somebody (`me`: the caller) a member, or changes the role.",
            body=NewMember,
            answer=Member,
            repeatable=True,
        ),
        Endpoint(
            "DELETE",
            f"{_CHANNEL}/members/{{principal_id}}",
            relay.drop_member,
            "Takes somebody (`me`: the caller) out of the channel.",
            answer=Member,
        ),
        Endpoint(
            "POST",
            f"{_CHANNEL}/messages",
            relay.post_message,
            "Posts a message.",
            body=Post,
            answer=Posted,
            status=201,
        ),
        Endpoint(
            "GET",
            f"{_CHANNEL}/messages",
            relay.list_messages,
            "A page of messages: the newest; of what is unread, the oldest.",
            answer=Messages,
            query=(
                ("after", "Newer than this: `after` of a page, or a number."),
                ("before", "Older than this: `before` of a page, or a number."),
                _LIMIT,
                ("thread", "Only this thread: the id of the message that it began with."),
                ("unread", "`1`: only what the caller has neither sent nor acked."),
                ("mentions", "`me`: only what mentions the caller."),
                ("sender", "Only of this sender: an id, or `me`."),
            ),
        ),
        Endpoint("GET", f"{_CHANNEL}/messages/{{message_id}}", relay.view_message, "One message.", answer=Message),
        Endpoint(
            "PATCH",
            f"{_CHANNEL}/messages/{{message_id}}",
            relay.edit_message,
            "Replaces the text of an own message.",
            body=Edit,
            answer=Posted,
        ),
        Endpoint(
            "DELETE",
            f"{_CHANNEL}/messages/{{message_id}}",
            relay.delete_message,
            "Takes back what a message said.",
            answer=Message,
        ),
        Endpoint(
            "GET",
            f"{_CHANNEL}/threads",
            relay.list_threads,
            "Threads, the one that was spoken in last first.",
            answer=Threads,
            query=(*page, ("state", "`open` or `done`.")),
        ),
        Endpoint("GET", f"{_CHANNEL}/threads/{{thread_id}}", relay.view_thread, "One thread.", answer=Thread),
        Endpoint(
            "PATCH",
            f"{_CHANNEL}/threads/{{thread_id}}",
            relay.change_thread,
            "Gives a thread a title, marks it as done or opens it.",
            body=ChangeThread,
            answer=Thread,
        ),
        Endpoint(
            "POST",
            f"{_CHANNEL}/acks",
            relay.ack,
            "Says what was taken note of, or declines it. Wakes nobody.",
            body=Ack,
            answer=Receipt,
            repeatable=True,
        ),
        Endpoint(
            "GET",
            f"{_CHANNEL}/acks",
            relay.laggards,
            "Who has not acked a message.",
            answer=Laggards,
            query=(("message", "The id of the message."), *page),
        ),
        Endpoint("GET", f"{_CHANNEL}/acks/me", relay.own_receipt, "What the caller has acked.", answer=Receipt),
        Endpoint(
            "GET",
            "/v1/mentions",
            relay.mentions,
            "What waits for the caller, the most important first.",
            answer=Mentions,
            query=page,
        ),
        Endpoint(
            "GET",
            "/v1/mentions/wait",
            relay.wait,
            "The same, once something waits that may wake the caller.",
            answer=Mentions,
            query=(
                ("seconds", f"How long at most; {MENTION_WAIT_S_MAX} if left out, and at most."),
                ("after", "`cursor` of an answer before: only what came after it."),
                _LIMIT,
            ),
        ),
        Endpoint(
            "POST",
            "/v1/mentions/surfaced",
            relay.surface,
            "Says which mentions reached the caller's model, or eyes.",
            body=Surfaced,
            repeatable=True,
        ),
        Endpoint(
            "GET",
            "/v1/relay/search",
            relay.search,
            "Messages that hold all of some words, newest first, as far back as one request looks.",
            answer=RelaySearch,
            query=(
                ("text", "The words."),
                ("channel", "Only in this channel: a name or an id."),
                *page,
            ),
        ),
        Endpoint(
            "PUT",
            f"{_CHANNEL}/attachments/{{sha256}}",
            relay.put_attachment,
            "Puts bytes, for a message to name.",
            body=AttachmentBytes,
            answer=Attachment,
            repeatable=True,
        ),
        Endpoint(
            "GET",
            f"{_CHANNEL}/attachments/{{sha256}}",
            relay.view_attachment,
            "The bytes of an attachment.",
            answer=AttachmentBytes,
        ),
    )
