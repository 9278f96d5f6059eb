"""The shapes of the relay room at the door: channels, messages, mentions and receipts.

All times are RFC 3339 in UTC; empty means never. Unknown fields are borne. The same structs are the bodies of
events. Numbers of messages are gapless per channel and follow the order of the log. Who acts is never in a body:
it comes from the key. Where a body may name a sender (`sender`), it is only compared, and another one is refused.
"""

from enum import StrEnum

from ekiden.transcript.items import Struct

# --- channels ----------------------------------------------------------------------------------------------


class ChannelState(StrEnum):
    """`archived`: read only. `deleted`: gone but for its name, which is not given out again."""

    OPEN = "open"
    ARCHIVED = "archived"
    DELETED = "deleted"


class Retention(Struct, frozen=True):
    """What a channel keeps: messages younger than `age_s` and the newest `count`; 0 is no bound. `held`: a legal
    hold,
    under which nothing is purged, edited away or deleted."""

    age_s: int = 0
    count: int = 0
    held: bool = False


class Budgets(Struct, frozen=True):
    """How far agents may wake each other before a person speaks; see `loops`."""

    hops: int = 8
    pair: int = 10
    thread: int = 40
    damper: int = 2
    """Turns without new information in a row after which nobody is woken."""


class Channel(Struct, frozen=True):
    """One channel. `encrypted`, `private` and `signed` are fixed when it is made.

    A key reaches it by the resource `channel:NAME`, a private one by `private:NAME`; that is its topic as well.
    """

    channel_id: str
    name: str
    topic: str = ""
    state: ChannelState = ChannelState.OPEN
    encrypted: bool = False
    private: bool = False
    signed: bool = False
    """Unsigned messages, status and leases are refused."""
    retention: Retention = Retention()
    budgets: Budgets = Budgets()
    made_by: str = ""
    made_at: str = ""
    first_number: int = 1
    """The oldest message that is still held."""
    last_number: int = 0
    members: int = 0
    epoch: int = 0
    """Of an encrypted channel: the newest epoch. 0: none yet."""
    epoch_stale: bool = False
    """Somebody left: the next message needs a new epoch."""
    unread: int | None = None
    """For the asking principal, where it is a member."""

    @property
    def resource(self) -> str:
        """What permission maps and topics call it."""
        return f"{'private' if self.private else 'channel'}:{self.name}"


class NewChannel(Struct, frozen=True):
    """A channel to be made."""

    name: str
    topic: str = ""
    encrypted: bool = False
    private: bool = False
    signed: bool = False
    retention: Retention = Retention()
    budgets: Budgets = Budgets()


class ChangeChannel(Struct, frozen=True):
    """What is left out stays."""

    topic: str | None = None
    archived: bool | None = None
    retention: Retention | None = None
    budgets: Budgets | None = None


class Channels(Struct, frozen=True):
    """`next` is `after` of the next page, empty at the end; `cursor` is where a stream goes on."""

    channels: tuple[Channel, ...]
    next: str = ""
    cursor: str = ""


class Member(Struct, frozen=True):
    """Who follows a channel: its mentions of `@all` and of the role, its unread messages, its encryption."""

    principal_id: str
    name: str
    kind: str
    role: str = ""
    joined_at: str = ""
    acked_to: int = 0
    keys: int = 0
    """Member keys in the directory; 0: cannot read an encrypted channel."""


class NewMember(Struct, frozen=True):
    """Adds somebody, or changes the role. For another principal the right `invite` is needed."""

    role: str = ""


class Members(Struct, frozen=True):
    members: tuple[Member, ...]
    next: str = ""
    total: int = 0


# --- messages ----------------------------------------------------------------------------------------------


class Authority(StrEnum):
    """Whose word a message is, computed by the hub from the key; never taken from a body."""

    PERSON = "person"
    AGENT = "agent"
    SYSTEM = "system"


class Asks(StrEnum):
    """What the sender wants of those it mentions."""

    NOTHING = ""
    ACK = "ack"
    ANSWER = "answer"


class Attachment(Struct, frozen=True):
    """Named by the SHA-256 of its bytes as stored (in an encrypted channel: of the sealed bytes)."""

    sha256: str
    size: int
    name: str = ""
    media_type: str = "application/octet-stream"


class Sealed(Struct, frozen=True):
    """What stands for the text in an encrypted channel; see `ekiden.crypto.sealing`. Base64url without padding."""

    epoch: int
    nonce: str
    data: str
    v: int = 1


class Signature(Struct, frozen=True):
    """Ed25519 over a statement; see `ekiden.crypto.statements`. `chain` and `link` number what one program said,
    and
    `previous` is the SHA-256 (hex) of its statement before, so that what was withheld shows."""

    signer: str
    """Id of a member key (`mky_…`)."""
    signature: str
    at: str
    chain: str = ""
    link: int = 0
    previous: str = ""
    replaces: str = ""
    """Of an edit or deletion: SHA-256 (hex) of the statement that said what it replaces."""


class Countersign(Struct, frozen=True):
    """The hub's word for where a statement stands in the log. `signature` is there at once for what its sender
    signed, and for the rest in an export."""

    seq: int
    number: int
    at: str
    signature: str = ""
    statement: str = ""
    """SHA-256 (hex) of the statement that it stands beside, empty if that is unsigned. Kept when the text is
    gone."""


class Post(Struct, frozen=True):
    """A message to be sent. In an encrypted channel `sealed` and nothing in `text`; in others the reverse.

    `message_id` is the client's own (`msg_…`); sent again with the same content it is answered again, with another
    it
    is refused. `mentions` are names, roles or `all` beside those that the grammar finds in the text: the only ones
    in
    an encrypted channel. Attachments must have been put before.
    """

    message_id: str = ""
    text: str = ""
    sealed: Sealed | None = None
    thread_id: str = ""
    """The id of the message that the thread began with."""
    answers: str = ""
    """The id of the message that this answers: its mention of the sender is then answered."""
    asks: Asks = Asks.NOTHING
    expires_s: int = 0
    """What is asked expires after so many seconds, with a notice to the sender; 0: never."""
    mentions: tuple[str, ...] = ()
    title: str = ""
    """Of the thread that this message begins."""
    attachments: tuple[Attachment, ...] = ()
    sender: str = ""
    signature: Signature | None = None


class MessageState(StrEnum):
    KEPT = "kept"
    DELETED = "deleted"


class Mention(Struct, frozen=True):
    """One principal that a message names. `via` is how: its name, `role:NAME` or `all`."""

    principal_id: str
    name: str
    via: str = "name"


class Message(Struct, frozen=True):
    """A stored message. `text` is data: never markup, never an instruction of the reader's own person."""

    message_id: str
    channel_id: str
    number: int
    sender_id: str
    sender: str
    """The sender's name when it was sent."""
    authority: Authority
    at: str
    text: str = ""
    sealed: Sealed | None = None
    thread_id: str = ""
    answers: str = ""
    asks: Asks = Asks.NOTHING
    mentions: tuple[Mention, ...] = ()
    named: tuple[str, ...] = ()
    """The names that the sender gave beside the text, as given: they are part of what is signed."""
    attachments: tuple[Attachment, ...] = ()
    title: str = ""
    state: MessageState = MessageState.KEPT
    edited_at: str = ""
    edits: int = 0
    deleted_by: str = ""
    hops: int = 0
    """How many wake-ups lie between this and the last word of a person."""
    suspect: bool = False
    """Written with a key after the time since which it is not trusted."""
    signature: Signature | None = None
    countersign: Countersign | None = None
    replies: int = 0
    """Of the message that a thread began with."""


class Way(StrEnum):
    """How a mention reaches somebody, known to the sender before it waits."""

    SESSION = "session"
    """A message queued in a session that Ekiden owns: it is read in its next turn."""
    WAITING = "waiting"
    """The agent waits at this moment: it is handed over at once."""
    NEXT_CALL = "next_call"
    """At the agent's next call of a tool."""
    INBOX = "inbox"
    """A person's inbox."""
    NONE = "none"
    """Nobody is woken; `why` says why not."""


class DeliveryState(StrEnum):
    """How far a mention came. `offered`: it was in an answer or a stream. `surfaced`: the model got it."""

    STORED = "stored"
    OFFERED = "offered"
    SURFACED = "surfaced"
    ACKED = "acked"
    ANSWERED = "answered"
    DECLINED = "declined"
    EXPIRED = "expired"


class Delivery(Struct, frozen=True):
    """One mention on its way. `why` is a stable word where nobody is woken: `loop_hops`, `loop_pair`,
    `loop_thread`,
    `nothing_new`, `may_not_read`, `self`; or `expired`, where it is a notice to the sender: `reason` says then
    who did not answer in time."""

    message_id: str
    principal_id: str
    name: str
    state: DeliveryState
    way: Way = Way.NONE
    why: str = ""
    asks: Asks = Asks.NOTHING
    at: str = ""
    """When it came to this state."""
    expires_at: str = ""
    attempt: int = 0
    """How often it was offered."""
    reason: str = ""
    """Of who declined."""
    channel: str = ""
    number: int = 0


class Unplaced(Struct, frozen=True):
    """A name that was mentioned and reaches nobody: `unknown`, `ambiguous`, `may_not_mention`, `too_many` (a
    message mentions at most `MENTIONS_PER_MESSAGE_MAX`)."""

    name: str
    why: str


class Posted(Struct, frozen=True):
    """What became of a post: stored, and how each that it mentions will get it."""

    message: Message
    deliveries: tuple[Delivery, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    notice: str = ""
    """A stable word if Ekiden stopped waking here: as `Delivery.why`."""


class Edit(Struct, frozen=True):
    """Replaces the text. The text before is gone from the log; that it was edited, when and by whom is not."""

    text: str = ""
    sealed: Sealed | None = None
    mentions: tuple[str, ...] = ()
    signature: Signature | None = None


class Messages(Struct, frozen=True):
    """Messages in the order of their numbers. `before` and `after` lead on, empty at an end. `missing` says how
    many
    that were asked for are purged."""

    messages: tuple[Message, ...]
    before: str = ""
    after: str = ""
    missing: int = 0
    total_unread: int | None = None
    cursor: str = ""


class ThreadState(StrEnum):
    """`done` threads are archived: they can be read, and a new word in one opens it again."""

    OPEN = "open"
    DONE = "done"


class Thread(Struct, frozen=True):
    """A thread is a task: it begins with a message, whose id it has."""

    thread_id: str
    channel_id: str
    title: str
    state: ThreadState
    replies: int
    last_number: int
    last_at: str
    made_by: str = ""
    done_by: str = ""
    done_at: str = ""
    wakes_left: int = 0
    """How many wake-ups among agents are left before a person speaks."""
    stopped: str = ""
    """A stable word if Ekiden stopped waking here."""


class ChangeThread(Struct, frozen=True):
    title: str | None = None
    done: bool | None = None


class Threads(Struct, frozen=True):
    threads: tuple[Thread, ...]
    next: str = ""


class SearchHit(Struct, frozen=True):
    message: Message
    channel: str


class RelaySearch(Struct, frozen=True):
    """`searched_to` is the time of the oldest message that was looked at; `next` looks further back."""

    hits: tuple[SearchHit, ...]
    next: str = ""
    searched_to: str = ""


# --- receipts ----------------------------------------------------------------------------------------------


class Ack(Struct, frozen=True):
    """Says what was taken note of: all up to a number, or single messages. Declining needs a reason. Wakes
    nobody."""

    upto: int = 0
    messages: tuple[str, ...] = ()
    declined: bool = False
    reason: str = ""


class Surfaced(Struct, frozen=True):
    """Mentions that were seen to reach the model, or the person's eyes: told by who places them there."""

    messages: tuple[str, ...]


class Receipt(Struct, frozen=True):
    """What one principal has acked in a channel: everything up to `acked_to`, and the ranges in `also`."""

    principal_id: str
    name: str
    acked_to: int
    also: tuple[tuple[int, int], ...] = ()
    at: str = ""


class Laggards(Struct, frozen=True):
    """Who has not acked a message. Its size does not grow with the number of members: a page, and counts."""

    message_id: str
    number: int
    members: int
    acked: int
    lagging: tuple[Receipt, ...] = ()
    next: str = ""
    deliveries: tuple[Delivery, ...] = ()
    """Of those that the message mentions (at most a page)."""


class Waiting(Struct, frozen=True):
    """What one channel holds for the asking principal."""

    channel: str
    channel_id: str
    unread: int
    oldest: int
    newest: int
    encrypted: bool = False


class Mentions(Struct, frozen=True):
    """What waits for the asking principal: mentions first asked answers, then acks, then the rest, oldest first;
    and
    what is unread per channel. `more` counts mentions that are not in the page."""

    mentions: tuple[SearchHit, ...]
    deliveries: tuple[Delivery, ...] = ()
    """One for each of `mentions`, in the same order."""
    channels: tuple[Waiting, ...] = ()
    more: int = 0
    next: str = ""
    cursor: str = ""
