"""What the relay room is given from outside, and what it tells those who carry a mention further.

Feature rooms do not know each other. Who is called what and may read what belongs to the access room; a session
that Ekiden owns belongs to the sessions room; signatures need the hub's key. `hub/` has all three and hands them
in.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ekiden.log.port import Actor, Reading, Transaction
from ekiden.relay.wire import Asks, Authority, Channel, Countersign, Edit, Message, Post, Way
from ekiden.transcript.items import Struct


class Notice(Struct, frozen=True):
    """What somebody is told who is mentioned. `text` is empty in an encrypted channel. `why`: `mention`, or
    `expired` for the sender of what nobody answered in time."""

    principal_id: str
    channel: str
    channel_id: str
    message_id: str
    number: int
    sender: str
    sender_id: str
    authority: Authority
    text: str = ""
    thread_id: str = ""
    asks: Asks = Asks.NOTHING
    encrypted: bool = False
    why: str = "mention"


class Waker(Protocol):
    """One way in which a mention reaches somebody. They are asked in order; the first that answers is the way."""

    async def reach(self, tx: Transaction, principal_id: str, kind: str, notice: Notice) -> Way | None:
        """Reaches a principal of that kind, or says None. Runs inside the transaction of the post: whatever it
        stores is stored with the message, or not at all."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """A principal as others see it. `kind`: person, agent, device, service or host."""

    principal_id: str
    name: str
    kind: str

    @property
    def is_person(self) -> bool:
        """Whether a person is behind it: its word is new, and a mention of it wakes no program."""
        return self.kind in ("person", "device")


class People(Protocol):
    """Who there is in the team. `now` is RFC 3339."""

    async def named(self, reading: Reading, name: str, now: str) -> Sequence[Known]:
        """Those with a valid key whose name is this one, or looks the same."""
        ...

    async def known(self, reading: Reading, principal_id: str) -> Known | None:
        """One of them, or None."""
        ...

    async def may(self, reading: Reading, principal_id: str, verb: str, resource: str, now: str) -> bool:
        """Whether one of its valid keys allows `verb` on `resource`."""
        ...


class Notary(Protocol):
    """Checks what members have signed, and signs for the hub."""

    async def check_post(
        self, tx: Transaction, channel: Channel, message_id: str, post: Post, actor: Actor
    ) -> str:
        """The digest of what the sender has signed, "" for an unsigned post.

        Raises:
            Invalid: if the signature is not the sender's, or not of this post, or is missing where all is signed.
        """
        ...

    async def check_edit(
        self, tx: Transaction, channel: Channel, message: Message, edit: Edit, actor: Actor
    ) -> str:
        """The same for a new text of a message."""
        ...

    async def countersign(
        self, tx: Transaction, channel: Channel, message: Message, statement: str, seq: int
    ) -> Countersign:
        """The hub's word for where a message stands: the event `seq`. `statement` is the digest of what was
        signed."""
        ...


@dataclass(frozen=True, slots=True)
class Ports:
    """All of it."""

    people: People
    wakers: Sequence[Waker] = ()
    notary: Notary | None = None
