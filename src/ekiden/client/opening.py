"""A member that reads: opens what is sealed, and says of everything what is known of who said it."""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from ekiden.client.client import Client
from ekiden.client.requests import path_of
from ekiden.client.said import Proof, message_statement, status_statement
from ekiden.client.standing import Standing
from ekiden.crypto import keys, sealing
from ekiden.crypto.invites import Invite
from ekiden.crypto.sealing import Place, SealBroken
from ekiden.relay.wire import Attachment, Channel, Message, MessageState, Sealed, Signature
from ekiden.relay.wire_state import AttachmentBytes, Status, StatusKind


@dataclass(frozen=True, slots=True)
class Opened:
    """What a message or a status says. `note` says why there is no text."""

    text: str
    proof: Proof = Proof.UNSIGNED
    title: str = ""
    attachments: tuple[Attachment, ...] = ()
    note: str = ""
    value: Any = None
    """Of a status."""


class Reader(Standing):
    """A member that reads. Channels are named by name or id."""

    def __init__(self, client: Client, home: Path, *, label: str = "", guest_of: Invite | None = None) -> None:
        super().__init__(client, home, label=label, guest_of=guest_of)
        self._file_keys: OrderedDict[str, str] = OrderedDict()
        """By the hash of the sealed bytes: the keys of attachments that were put here."""

    async def open(self, channel: str, message: Message) -> Opened:
        """What a message says, and what is known of who said it."""
        place = await self.channel(channel)
        if message.state is MessageState.DELETED:
            return Opened("", note="deleted")
        if place.encrypted and message.sealed is None:
            return Opened("", Proof.BAD, note="plain text in an encrypted channel: the hub must not have taken it")
        try:
            content = await self._content_of(message)
        except SealBroken as error:
            return Opened("", await self.proof_of(message), note=error.message)
        named = tuple(_attachments(content, message.attachments))
        return Opened(
            str(content.get("text", "")), await self.proof_of(message), str(content.get("title", "")), named
        )

    async def open_status(self, channel: str, status: Status) -> Opened:
        """What a status value is, as JSON in `text` and as it is in `value`, and what is known of who set it."""
        place = await self.channel(channel)
        shown = await self.proof_of_status(status)
        value = status.value
        if place.encrypted and status.kind is StatusKind.SET:
            if status.sealed is None:
                return Opened("", Proof.BAD, note="plain in an encrypted channel: the hub must not have taken it")
            try:
                value = await self._value_in(place, status, status.sealed)
            except SealBroken as error:
                return Opened("", shown, note=error.message)
        return Opened(msgspec.json.encode(value).decode(), shown, value=value)

    async def _value_in(self, place: Channel, status: Status, sealed: Sealed) -> Any:
        """The value that was sealed: by who set it, or, of a value that was set again to sign it as well, by whom
        it was set first."""
        here = await self.meet()
        key = await here.channel_keys.to_open(place.channel_id, sealed.epoch)
        sender = status.by_id
        if status.evidence is not None and status.evidence.second is not None:
            first = here.pins.directory.keys.get(status.evidence.second.signer)
            sender = first.principal_id if first is not None else sender
        where = Place(here.me.team_id, place.channel_id, "", sender, f"status:{status.key}", sealed.epoch)
        return sealing.open_sealed(key, where, sealed.nonce, sealed.data, v=sealed.v).get("value")

    async def detach(self, channel: str, sha256: str, message: Message | None) -> AttachmentBytes:
        """The bytes of an attachment, opened; of an encrypted channel `message` is one that has it.

        Raises:
            SealBroken: if there is no key for it.
        """
        path = path_of("/v1/channels/{channel}/attachments/{sha256}", channel=channel, sha256=sha256)
        stored = await self.client.get(path, type=AttachmentBytes)
        place = await self.channel(channel)
        if hashlib.sha256(stored.data).hexdigest() != sha256:
            raise SealBroken("The hub sent other bytes than the message names.")
        if not place.encrypted:
            return stored
        here = await self.meet()
        content = await self._content_of(message) if message is not None else {}
        nothing: dict[str, Any] = {}
        named = next((one for one in _inside(content) if one.get("sha256") == sha256), nothing)
        key = named.get("key") or self._file_keys.get(sha256, "")
        data = sealing.open_file(stored.data, str(key), team=here.me.team_id, channel=place.channel_id)
        return AttachmentBytes(data, str(named.get("media_type") or "application/octet-stream"))

    async def proof_of(self, message: Message) -> Proof:
        """What is known of who said a message."""
        if message.signature is None:
            return Proof.UNSIGNED
        team = (await self.meet()).me.team_id
        return await self._proof(
            message.signature, message.sender_id, message_statement(team, message, message.signature)
        )

    async def proof_of_status(self, status: Status) -> Proof:
        """What is known of who set a status."""
        if status.signature is None:
            return Proof.UNSIGNED
        team = (await self.meet()).me.team_id
        return await self._proof(status.signature, status.by_id, status_statement(team, status, status.signature))

    async def _proof(self, signature: Signature, sender_id: str, stated: bytes) -> Proof:
        here = await self.meet()
        known = here.pins.directory.keys
        if signature.signer not in known:
            await self.look_again()
        key = known.get(signature.signer)
        if key is None:
            return Proof.UNKNOWN_KEY
        if key.principal_id != sender_id or not keys.signed_by(key.public.sign, signature.signature, stated):
            return Proof.BAD
        trusted = here.pins.speaks_for(sender_id, signature.signer)
        return Proof.VERIFIED if trusted is not None else Proof.UNKNOWN_KEY

    async def _content_of(self, message: Message) -> dict[str, Any]:
        """What a message says: of a sealed one, what was sealed."""
        sealed = message.sealed
        if sealed is None:
            inside = [msgspec.to_builtins(one) for one in message.attachments]
            return {"text": message.text, "title": message.title, "attachments": inside}
        here = await self.meet()
        key = await here.channel_keys.to_open(message.channel_id, sealed.epoch)
        where = Place(
            here.me.team_id,
            message.channel_id,
            message.thread_id,
            message.sender_id,
            message.message_id,
            sealed.epoch,
        )
        return sealing.open_sealed(key, where, sealed.nonce, sealed.data, v=sealed.v)


def _inside(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The attachments that a sealed text names. It comes from another member: its form is looked at."""
    named: Any = content.get("attachments")
    entries = cast("list[Any]", named) if isinstance(named, list) else []
    return [cast("dict[str, Any]", one) for one in entries if isinstance(one, dict)]


def _attachments(content: dict[str, Any], outside: tuple[Attachment, ...]) -> Iterator[Attachment]:
    """The attachments that a message really has, as its sealed text names them."""
    stored = {one.sha256: one for one in outside}
    for one in _inside(content):
        found = stored.get(str(one.get("sha256")))
        if found is not None:
            media_type = str(one.get("media_type") or found.media_type)
            yield Attachment(found.sha256, found.size, str(one.get("name") or found.name), media_type)
