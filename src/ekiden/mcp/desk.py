"""What the tools work with: the door, and a voice that signs, seals and opens where it has keys for that.

A tool is written once. Over stdio its voice is the agent's own member of the team; at the hub, which must never
have an agent's keys, it is the plain voice, which says so where a channel is encrypted.
"""

import hashlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from ekiden.client.client import Client
from ekiden.client.requests import path_of
from ekiden.kernel.errors import EkidenError, Invalid
from ekiden.kernel.limits import ACK_MESSAGES_MAX
from ekiden.relay.wire import Attachment, Edit, Message, Messages, Post, Posted, Surfaced
from ekiden.relay.wire_state import AttachmentBytes, ClearStatus, Lease, ReleaseLease, SetStatus, Status, TakeLease

HOW_TO_JOIN = (
    "Join by stdio instead: `ekiden mcp install` on the agent's computer gives the agent keys of its own."
)
SEALED = "sealed, and this connection has no keys to it"


@dataclass(frozen=True, slots=True)
class Opened:
    """What the plain voice could make of it: nothing of signatures."""

    text: str
    proof: str = ""
    title: str = ""
    attachments: tuple[Attachment, ...] = ()
    note: str = ""


class Said(Protocol):
    """What a message or a status says, and what is known of who said it. `note` says why there is no text."""

    @property
    def text(self) -> str: ...
    @property
    def proof(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def attachments(self) -> tuple[Attachment, ...]: ...
    @property
    def note(self) -> str: ...


class Voice(Protocol):
    """Says and reads in the name of the agent: the plain voice, or a member with keys (`ekiden.client.member`)."""

    async def post(self, channel: str, post: Post) -> Posted:
        """Sends a message under its own id, so that sending it again does nothing more."""
        ...

    async def edit(self, channel: str, message_id: str, edit: Edit) -> Posted:
        """Replaces a message's text."""
        ...

    async def set_status(self, channel: str, key: str, wanted: SetStatus) -> Status:
        """Sets one value."""
        ...

    async def clear_status(self, channel: str, key: str, wanted: ClearStatus) -> Status:
        """Takes a value away."""
        ...

    async def take_lease(self, channel: str, name: str, wanted: TakeLease) -> Lease:
        """Takes or renews a lock."""
        ...

    async def release_lease(self, channel: str, name: str, fence: int) -> Lease:
        """Lets a lock go."""
        ...

    async def attach(self, channel: str, name: str, data: bytes, media_type: str) -> Attachment:
        """Puts the bytes where a message can name them."""
        ...

    async def detach(self, channel: str, sha256: str, message: Message | None) -> AttachmentBytes:
        """The bytes of an attachment. `message` is one that names it, where that is known."""
        ...

    async def open(self, channel: str, message: Message) -> Said:
        """What a message says."""
        ...

    async def open_status(self, channel: str, status: Status) -> Said:
        """What a status says, as JSON text."""
        ...


class PlainVoice:
    """Says and reads in the clear, unsigned. Encrypted channels stay closed to it, and it says so."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def post(self, channel: str, post: Post) -> Posted:
        """Sends a message under its own id, so that sending it again does nothing more."""
        with _explained():
            return await self.client.post(
                f"{channel_path(channel)}/messages", post, type=Posted, command_id=f"post-{post.message_id}"
            )

    async def edit(self, channel: str, message_id: str, edit: Edit) -> Posted:
        """Replaces a message's text."""
        with _explained():
            return await self.client.patch(message_path(channel, message_id), edit, type=Posted)

    async def set_status(self, channel: str, key: str, wanted: SetStatus) -> Status:
        """Sets one value."""
        with _explained():
            return await self.client.put(status_path(channel, key), wanted, type=Status, repeatable=False)

    async def clear_status(self, channel: str, key: str, wanted: ClearStatus) -> Status:
        """Takes a value away."""
        with _explained():
            return await self.client.delete(status_path(channel, key), wanted, type=Status)

    async def take_lease(self, channel: str, name: str, wanted: TakeLease) -> Lease:
        """Takes or renews a lock."""
        with _explained():
            return await self.client.put(lease_path(channel, name), wanted, type=Lease, repeatable=False)

    async def release_lease(self, channel: str, name: str, fence: int) -> Lease:
        """Lets a lock go."""
        with _explained():
            return await self.client.delete(lease_path(channel, name), ReleaseLease(fence), type=Lease)

    async def attach(self, channel: str, name: str, data: bytes, media_type: str) -> Attachment:
        """Puts the bytes where a message can name them."""
        digest = hashlib.sha256(data).hexdigest()
        path = path_of("/v1/channels/{channel}/attachments/{digest}", channel=channel, digest=digest)
        with _explained():
            await self.client.put(path, AttachmentBytes(data, media_type))
        return Attachment(digest, len(data), name, media_type)

    async def detach(self, channel: str, sha256: str, message: Message | None) -> AttachmentBytes:
        """The bytes of an attachment. `message` is one that names it, where that is known."""
        del message  # who has keys finds the attachment's own there
        path = path_of("/v1/channels/{channel}/attachments/{digest}", channel=channel, digest=sha256)
        return await self.client.get(path, type=AttachmentBytes)

    async def open(self, channel: str, message: Message) -> Opened:
        """What a message says."""
        del channel
        if message.sealed is not None:
            return Opened("", note=f"{SEALED}. {HOW_TO_JOIN}")
        return Opened(message.text, title=message.title, attachments=message.attachments)

    async def open_status(self, channel: str, status: Status) -> Opened:
        """What a status says, as JSON text."""
        del channel
        if status.sealed is not None:
            return Opened("", note=f"{SEALED}. {HOW_TO_JOIN}")
        return Opened(msgspec.json.encode(status.value).decode())


@dataclass(frozen=True, slots=True)
class Desk:
    """Where one agent sits: its client of the door and its voice; and which mentions its answers have shown since
    that was last told."""

    client: Client
    voice: Voice
    shown: list[str] = field(default_factory=list[str])

    def take_shown(self) -> Surfaced:
        """Which they are; from now on none are."""
        shown = tuple(dict.fromkeys(self.shown))[:ACK_MESSAGES_MAX]
        self.shown.clear()
        return Surfaced(shown)


async def tell_surfaced(client: Client, shown: Surfaced) -> None:
    """Tells the hub which mentions have reached the model."""
    with suppress(EkidenError):  # it is told for the sender's sake, and may be missing
        await client.post("/v1/mentions/surfaced", shown, repeatable=True)


def channel_path(channel: str) -> str:
    """Where a channel is."""
    return path_of("/v1/channels/{channel}", channel=channel)


def message_path(channel: str, message_id: str) -> str:
    """Where a message is."""
    return path_of("/v1/channels/{channel}/messages/{message_id}", channel=channel, message_id=message_id)


def status_path(channel: str, key: str) -> str:
    """Where a status value is."""
    return path_of("/v1/channels/{channel}/status/{key}", channel=channel, key=key)


def lease_path(channel: str, name: str) -> str:
    """Where a lock is."""
    return path_of("/v1/channels/{channel}/leases/{name}", channel=channel, name=name)


async def message_id_of(desk: Desk, channel: str, named: str) -> str:
    """The id of a message that an agent names by its id or by its number (`12`, `#12`).

    Raises:
        Invalid: if there is none of that number.
    """
    number = named.removeprefix("#")
    if not (number.isascii() and number.isdigit() and len(number) < 16):
        return named
    page = await desk.client.get(
        f"{channel_path(channel)}/messages", type=Messages, after=int(number) - 1, limit=1
    )
    if not page.messages or page.messages[0].number != int(number):
        raise Invalid(f"There is no message #{int(number)} in {channel}.", hint=f'read(channel="{channel}")')
    return page.messages[0].message_id


@contextmanager
def _explained() -> Generator[None]:
    """Says of what a hub refuses in an encrypted channel, or one where all is signed, how it can be done."""
    try:
        yield
    except EkidenError as error:
        unsigned = error.details.get("why") == "unsigned"
        if error.code == "not_sealed" or error.details.get("encrypted") or unsigned:
            error.hint = HOW_TO_JOIN
        raise
