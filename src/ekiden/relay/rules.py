"""Pure decisions of the room: what names may be, what a post must be, what an ack covers, where a mention goes
next."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ekiden.kernel import canonical, limits
from ekiden.kernel.errors import Conflict, Forbidden, Invalid, NotSealed, StaleEpoch, TooLarge
from ekiden.kernel.ids import Prefix
from ekiden.relay.wire import (
    Ack,
    Asks,
    Authority,
    Budgets,
    Channel,
    ChannelState,
    DeliveryState,
    Edit,
    Message,
    MessageState,
    NewChannel,
    Post,
    Sealed,
)


class Archived(Conflict):
    """The channel can only be read."""

    code = "archived"


# --- channels ----------------------------------------------------------------------------------------------

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}\Z")
_ROLE = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def checked_channel_name(text: str) -> str:
    """The name in its one spelling (small letters).

    Raises:
        Invalid: if it is of another form.
    """
    name = text.casefold()
    if not _NAME.match(name) or name.startswith(f"{Prefix.CHANNEL}_"):
        raise Invalid(
            f"{text[:80]!r} cannot be the name of a channel.",
            hint="1 to 80 of the letters a-z, digits, '.', '_' and '-', beginning with a letter or digit.",
        )
    return name


def checked_role(text: str) -> str:
    """A role in its one spelling, "" for none.

    Raises:
        Invalid: if it is of another form.
    """
    role = text.casefold()
    if role and (not _ROLE.match(role) or role == "all"):
        raise Invalid(f"{text[:40]!r} cannot be a role.", hint="1 to 40 of a-z, 0-9, '_' and '-', like reviewer.")
    return role


def check_new_channel(new: NewChannel) -> None:
    """Raises:
    Invalid: if topic, retention or budgets are out of bounds.
    """
    check_topic(new.topic)
    check_budgets(new.budgets)
    check_retention(new.retention.age_s, new.retention.count)


def check_topic(topic: str) -> None:
    """Raises:
    Invalid: if it is too long.
    """
    if len(topic) > limits.CHANNEL_TOPIC_CHARS_MAX:
        raise Invalid(f"A topic has at most {limits.CHANNEL_TOPIC_CHARS_MAX} characters.")


def check_budgets(budgets: Budgets) -> None:
    """Raises:
    Invalid: if one is negative or beyond `BUDGET_WAKES_MAX`: loops must end.
    """
    for name in ("hops", "pair", "thread", "damper"):
        if not 0 <= getattr(budgets, name) <= limits.BUDGET_WAKES_MAX:
            raise Invalid(f"The budget {name} lies between 0 and {limits.BUDGET_WAKES_MAX}.")


def check_retention(age_s: int, count: int) -> None:
    """Raises:
    Invalid: if one is negative.
    """
    if age_s < 0 or count < 0:
        raise Invalid("A retention's age and count are not negative; 0 is no bound.")


def refuse_unwritable(channel: Channel) -> None:
    """Raises:
    Archived: if the channel takes nothing new.
    """
    if channel.state is not ChannelState.OPEN:
        raise Archived(
            f"The channel {channel.name} is archived: it can only be read.",
            hint="Who administers it can open it again.",
            state=channel.state.value,
        )


def refuse_held(channel: Channel) -> None:
    """Raises:
    Conflict: if a legal hold forbids that anything goes away.
    """
    if channel.retention.held:
        raise Conflict(f"The channel {channel.name} is on hold: nothing in it may be changed away.", held=True)


# --- messages ----------------------------------------------------------------------------------------------


def authority_of(kind: str) -> Authority:
    """Whose word it is that a principal of this kind says."""
    match kind:
        case "person" | "device":
            return Authority.PERSON
        case "agent":
            return Authority.AGENT
        case _:
            return Authority.SYSTEM


def refuse_other_sender(sender: str, principal_id: str, name: str) -> None:
    """Raises:
    Forbidden: if a body names another sender than the key's.
    """
    if sender and sender not in (principal_id, name):
        raise Forbidden(
            "Who sends comes from the key; the body names somebody else.",
            hint="Leave the sender out.",
            refused="other_sender",
        )


def check_post(channel: Channel, post: Post) -> None:
    """Raises:
    Invalid, TooLarge: if the post is not one, or not one for this channel.
    NotSealed, StaleEpoch: see `check_sealing`.
    Conflict: if the channel takes nothing new.
    """
    refuse_unwritable(channel)
    check_sealing(channel, post.text, post.sealed)
    check_title(post.title)
    if post.title and post.thread_id:
        raise Invalid("A title belongs to the message that a thread begins with.")
    if channel.encrypted and (post.title or any(attachment.name for attachment in post.attachments)):
        raise NotSealed("In an encrypted channel titles and names of attachments are sealed with the text.")
    if not 0 <= post.expires_s <= limits.RELAY_ASK_S_MAX:
        raise Invalid(f"What is asked expires after 0 (never) to {limits.RELAY_ASK_S_MAX} seconds.")
    if post.expires_s and post.asks is Asks.NOTHING:
        raise Invalid("Only what is asked can expire: say what is asked.", hint='`asks`: "answer" or "ack".')
    check_named(post.mentions)
    if len(post.attachments) > limits.ATTACHMENTS_PER_MESSAGE_MAX:
        raise Invalid(f"A message has at most {limits.ATTACHMENTS_PER_MESSAGE_MAX} attachments.")
    for attachment in post.attachments:
        if max(len(attachment.name), len(attachment.media_type)) > limits.ATTACHMENT_NAME_CHARS_MAX:
            raise Invalid(f"An attachment's name has at most {limits.ATTACHMENT_NAME_CHARS_MAX} characters.")
    if not (post.text.strip() or post.sealed is not None or post.attachments):
        raise Invalid("A message without words and attachments says nothing.")
    if channel.signed and post.signature is None:
        raise Invalid(f"The channel {channel.name} takes signed messages only.", hint="Send it with a signature.")


def check_named(names: Sequence[str]) -> None:
    """Raises:
    Invalid: if so many names, or so long ones, cannot be meant.
    """
    if len(names) > limits.MENTIONS_PER_MESSAGE_MAX:
        raise Invalid(f"A message mentions at most {limits.MENTIONS_PER_MESSAGE_MAX}.")
    if any(len(name) > limits.RELAY_NAMED_CHARS_MAX for name in names):
        raise Invalid(f"A name has at most {limits.RELAY_NAMED_CHARS_MAX} characters.")


def check_title(title: str) -> None:
    """Raises:
    Invalid: if it is too long.
    """
    if len(title) > limits.RELAY_TITLE_CHARS_MAX:
        raise Invalid(f"A title has at most {limits.RELAY_TITLE_CHARS_MAX} characters.")


def check_sealing(channel: Channel, text: str, sealed: Sealed | None) -> None:
    """Raises:
    NotSealed: for plain text in an encrypted channel, or the reverse.
    StaleEpoch: if it was sealed for another epoch than the newest.
    TooLarge: if it is over `RELAY_TEXT_BYTES_MAX`.
    """
    if channel.encrypted != (sealed is not None) or (channel.encrypted and text):
        raise NotSealed(
            f"The channel {channel.name} is encrypted: plain text is refused."
            if channel.encrypted
            else f"The channel {channel.name} is not encrypted: send text.",
            encrypted=channel.encrypted,
        )
    if sealed is not None and (sealed.epoch != channel.epoch or channel.epoch_stale):
        raise StaleEpoch(
            "Somebody left: the next message needs a new epoch."
            if channel.epoch_stale
            else f"The channel's epoch is {channel.epoch} by now.",
            epoch=channel.epoch,
            opened=not channel.epoch_stale,
        )
    body = sealed.data if sealed is not None else text
    size = len(body) if body.isascii() else len(body.encode("utf-8", "surrogatepass"))
    if size > limits.RELAY_TEXT_BYTES_MAX:
        raise TooLarge(
            "The message is too large.",
            hint="Put long texts as an attachment.",
            size=size,
            max=limits.RELAY_TEXT_BYTES_MAX,
        )


def digest_of_post(channel_id: str, post: Post) -> str:
    """What makes two posts of one id the same: all but the id, who signed it when, and who says it sends."""
    return canonical.digest(
        (
            channel_id,
            post.text,
            post.sealed,
            post.thread_id,
            post.answers,
            post.asks,
            post.expires_s,
            post.mentions,
            post.title,
            post.attachments,
        )
    )


def check_edit(channel: Channel, message: Message, edit: Edit, principal_id: str) -> None:
    """Raises:
    Forbidden: if it is somebody else's message.
    Conflict: if it was deleted, or the channel holds what it has.
    Invalid, TooLarge: if the new text is none, or none for this channel.
    """
    refuse_unwritable(channel)
    if message.sender_id != principal_id:
        raise Forbidden("Only who sent a message can edit it.")
    if message.state is not MessageState.KEPT:
        raise Conflict("The message was deleted.", state=message.state.value)
    refuse_held(channel)
    check_sealing(channel, edit.text, edit.sealed)
    if not edit.text.strip() and edit.sealed is None and not message.attachments:
        raise Invalid("A message without words says nothing.", hint="Delete it.")
    check_named(edit.mentions)
    if channel.signed and edit.signature is None:
        raise Invalid(f"The channel {channel.name} takes signed messages only.", hint="Send it with a signature.")


def searched_words(text: str, title: str) -> str:
    """What of a message is searched, in one letter case."""
    return (
        f"{title}\n{text}"[: limits.RELAY_WORDS_CHARS_MAX].casefold()
        if title
        else text[: limits.RELAY_WORDS_CHARS_MAX].casefold()
    )


def title_of(message: Message) -> str:
    """What a thread is called that begins with a message: its title, or its first line."""
    first = message.text.strip().splitlines()[:1]
    return message.title or (first[0][: limits.RELAY_TITLE_CHARS_MAX] if first else "")


# --- mentions on their way ---------------------------------------------------------------------------------

_ENDS = frozenset({DeliveryState.ANSWERED, DeliveryState.DECLINED, DeliveryState.EXPIRED})
DELIVERY_MOVES: Mapping[DeliveryState, frozenset[DeliveryState]] = {
    DeliveryState.STORED: _ENDS | {DeliveryState.OFFERED, DeliveryState.SURFACED, DeliveryState.ACKED},
    DeliveryState.OFFERED: _ENDS | {DeliveryState.SURFACED, DeliveryState.ACKED},
    DeliveryState.SURFACED: _ENDS | {DeliveryState.ACKED},
    DeliveryState.ACKED: _ENDS,
    DeliveryState.ANSWERED: frozenset(),
    DeliveryState.DECLINED: frozenset({DeliveryState.ANSWERED}),
    DeliveryState.EXPIRED: frozenset({DeliveryState.ANSWERED}),
}
"""A late answer still counts; nothing else goes back."""

WAITS, WAITS_QUIETLY, DONE = 1, 2, 0


def waits_in(state: DeliveryState, asks: Asks, *, quietly: bool) -> int:
    """Whether a mention in that state waits for its recipient: and may wake it, or not."""
    match state:
        case DeliveryState.STORED | DeliveryState.OFFERED | DeliveryState.SURFACED:
            return WAITS_QUIETLY if quietly else WAITS
        case DeliveryState.ACKED:
            return WAITS_QUIETLY if asks is Asks.ANSWER else DONE
        case DeliveryState.ANSWERED | DeliveryState.DECLINED | DeliveryState.EXPIRED:
            return DONE


def rank_of(asks: Asks) -> int:
    """What comes first in a list: who asks for an answer, then for an ack, then the rest."""
    match asks:
        case Asks.ANSWER:
            return 0
        case Asks.ACK:
            return 1
        case Asks.NOTHING:
            return 2


# --- receipts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acked:
    """What somebody has acked in a channel: all up to `to`, and the ranges in `also`, which lie above it, apart
    from each other and in order."""

    to: int = 0
    also: tuple[tuple[int, int], ...] = ()

    def covers(self, number: int) -> bool:
        """Whether a message is acked."""
        return number <= self.to or any(low <= number <= high for low, high in self.also)

    def gaps(self) -> tuple[tuple[int, int], ...]:
        """What lies unacked below the highest range, as ranges."""
        ends = (self.to, *(high for _, high in self.also))
        return tuple((end + 1, low - 1) for end, (low, _) in zip(ends, self.also, strict=False))


def acked_with(acked: Acked, ranges: Iterable[tuple[int, int]]) -> Acked:
    """`acked` with more ranges, joined where they touch."""
    to = acked.to
    also: list[tuple[int, int]] = []
    for low, high in sorted((*acked.also, *ranges)):
        if low <= to + 1:
            to = max(to, high)
        elif also and low <= also[-1][1] + 1:
            also[-1] = (also[-1][0], max(also[-1][1], high))
        else:
            also.append((low, high))
    return Acked(to, tuple(entry for entry in also if entry[0] > to))


def check_ack(ack: Ack, last_number: int) -> None:
    """Raises:
    Invalid: if it names nothing, lies in the future, or declines without a reason.
    """
    if ack.upto < 0 or ack.upto > last_number:
        raise Invalid(f"There is no message {ack.upto} yet; the newest is {last_number}.", newest=last_number)
    if not ack.upto and not ack.messages:
        raise Invalid("Say what was taken note of.", hint="`upto` a number, or `messages` by id.")
    if len(ack.messages) > limits.ACK_MESSAGES_MAX:
        raise Invalid(f"At most {limits.ACK_MESSAGES_MAX} messages can be named; ack with `upto`.")
    if ack.declined and not (ack.reason.strip() and ack.messages and not ack.upto):
        raise Invalid("Declining names the messages and needs a reason.")
    if len(ack.reason) > limits.RELAY_REASON_CHARS_MAX:
        raise Invalid(f"A reason has at most {limits.RELAY_REASON_CHARS_MAX} characters.")


def refuse_scattered(acked: Acked) -> None:
    """Raises:
    Conflict: if it has more exceptions than are kept.
    """
    if len(acked.also) > limits.RECEIPT_RANGES_MAX:
        raise Conflict(
            f"There are over {limits.RECEIPT_RANGES_MAX} gaps in what was acked here; nothing was changed.",
            hint=f"Ack what is older first, for example `upto` {acked.also[0][1]}.",
            acked_to=acked.to,
        )


# --- attachments -------------------------------------------------------------------------------------------


def checked_sha256(text: str) -> str:
    """`text`, if it is a SHA-256 in hex.

    Raises:
        Invalid: if it is not.
    """
    if not _SHA256.match(text):
        raise Invalid("An attachment is named by the SHA-256 of its bytes: 64 hex digits in small letters.")
    return text


# --- pages -------------------------------------------------------------------------------------------------


def read_number(text: str, log_id: str, channel_id: str) -> int | None:
    """The message number in a page's cursor, or a bare number; None for "".

    Raises:
        Invalid: if it is of another log or channel, or no cursor.
    """
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    parts = text.split(".")
    if len(parts) == 3 and parts[2].isascii() and parts[2].isdigit() and len(parts[2]) <= 15:
        if (parts[0], parts[1]) == (log_id, channel_id):
            return int(parts[2])
        raise Invalid("The cursor is of another log or channel.", hint="Start again without a cursor.")
    raise Invalid("The cursor is not one that this door gave out.", hint="Start again without a cursor.")


def spell_number(number: int, log_id: str, channel_id: str) -> str:
    """The cursor of a page at a message number."""
    return f"{log_id}.{channel_id}.{number}"


def within_bytes(sizes: Sequence[int]) -> int:
    """How many of the first entries fit `RELAY_PAGE_BYTES_MAX`; at least one, if there is any."""
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if count and total > limits.RELAY_PAGE_BYTES_MAX:
            return count
    return len(sizes)
