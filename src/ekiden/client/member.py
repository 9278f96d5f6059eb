"""A member of a team: a client of the door that signs what it says, seals it where a channel is encrypted, opens
and checks what others say, and remembers whom it trusts.

What it is built of: `standing` (keys, pins, directory), `opening` (reading), and here saying: messages, status
values, leases, attachments.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec.structs import replace

from ekiden.client.client import Client
from ekiden.client.links import Links
from ekiden.client.opening import Opened, Reader
from ekiden.client.requests import path_of
from ekiden.client.said import Proof, content_of, message_statement, signature_of, value_statement
from ekiden.client.standing import keep, now, seconds_until
from ekiden.crypto import sealing, statements
from ekiden.crypto.invites import Invite
from ekiden.crypto.sealing import Place
from ekiden.crypto.statements import Link
from ekiden.kernel.errors import Conflict, EkidenError, Invalid
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import MEMBER_FILES_KEPT_MAX, MEMBER_UNSURE_POSTS_MAX
from ekiden.relay.mentions import mentions_in
from ekiden.relay.wire import Attachment, Channel, Edit, Message, Post, Posted, Sealed, Signature
from ekiden.relay.wire_state import (
    AttachmentBytes,
    ClearStatus,
    Evidence,
    Lease,
    ReleaseLease,
    SetStatus,
    Status,
    StatusKind,
    TakeLease,
)

__all__ = ["Member", "Opened", "Proof"]


class Member(Reader):
    """A member that reads and speaks. All methods raise `EkidenError`: what the door refuses with,
    `KeyNotTrusted`, `HubKeyChanged`, `SealBroken`."""

    def __init__(self, client: Client, home: Path, *, label: str = "", guest_of: Invite | None = None) -> None:
        super().__init__(client, home, label=label, guest_of=guest_of)
        self._built: OrderedDict[str, Post] = OrderedDict()
        """Posts as they were sent, by id: sent again they must be the same."""

    async def post(self, channel: str, post: Post) -> Posted:
        """Posts, signed; sealed in an encrypted channel. Sent again with the same id it is the same message, as
        long as this program runs."""
        message_id = post.message_id or new_id(Prefix.MESSAGE)
        path = path_of("/v1/channels/{channel}/messages", channel=channel)
        again = self._built.get(message_id)
        if again is not None:
            return await self.client.post(path, again, type=Posted)
        place = await self.place(channel)
        wanted = replace(post, message_id=message_id)
        try:
            return await self._post_once(path, place, wanted)
        except EkidenError as error:
            if not _stale(error):
                raise
        self._built.pop(message_id, None)
        return await self._post_once(path, place, wanted, anew=True)

    async def _post_once(self, path: str, channel: Channel, post: Post, *, anew: bool = False) -> Posted:
        here = await self.meet()
        names = (*post.mentions, *mentions_in(post.text)) if channel.encrypted else post.mentions
        post = replace(post, mentions=tuple(dict.fromkeys(names)))
        if channel.encrypted:
            content: dict[str, Any] = {
                "text": post.text,
                "title": post.title,
                "attachments": [self._inside(one) for one in post.attachments],
            }
            sealed = await self._sealed(channel, post.message_id, post.thread_id, content, anew=anew)
            outside = tuple(Attachment(one.sha256, one.size) for one in post.attachments)
            post = replace(post, text="", title="", attachments=outside, sealed=sealed)
        link = here.links.next(channel.channel_id, now())
        stated = statements.message(
            team=here.me.team_id,
            channel=channel.channel_id,
            thread=post.thread_id,
            message=post.message_id,
            sender=here.me.principal_id,
            content=content_of(post, post.mentions),
            link=link,
        )
        built = replace(post, signature=signature_of(here.keys, stated, link))
        keep(self._built, post.message_id, built, MEMBER_UNSURE_POSTS_MAX)
        with _Saying(here.links, channel.channel_id, stated):
            return await self.client.post(path, built, type=Posted)

    async def edit(self, channel: str, message_id: str, edit: Edit) -> Posted:
        """Replaces the text of an own message, signed; what else it said stays."""
        here = await self.meet()
        place = await self.place(channel)
        path = path_of("/v1/channels/{channel}/messages/{message}", channel=channel, message=message_id)
        before = await self.client.get(path, type=Message)
        names = (*edit.mentions, *mentions_in(edit.text)) if place.encrypted else edit.mentions
        edit = replace(edit, mentions=tuple(dict.fromkeys(names)))
        if place.encrypted:
            opened = await self._content_of(before)
            content = {**opened, "text": edit.text}
            edit = replace(edit, text="", sealed=await self._sealed(place, message_id, before.thread_id, content))
        link = here.links.next(place.channel_id, now())
        after = replace(before, text=edit.text, sealed=edit.sealed)
        signed = before.signature
        replaces = (
            statements.digest(message_statement(here.me.team_id, before, signed)) if signed is not None else ""
        )
        stated = statements.edit(
            team=here.me.team_id,
            channel=place.channel_id,
            thread=before.thread_id,
            message=message_id,
            sender=here.me.principal_id,
            content=content_of(after, edit.mentions),
            replaces=replaces,
            link=link,
        )
        signature = replace(signature_of(here.keys, stated, link), replaces=replaces)
        with _Saying(here.links, place.channel_id, stated):
            return await self.client.patch(path, replace(edit, signature=signature), type=Posted)

    async def set_status(self, channel: str, key: str, wanted: SetStatus) -> Status:
        """Sets a value, signed; sealed in an encrypted channel, unless it comes sealed."""
        here = await self.meet()
        place = await self.place(channel)
        for anew in (False, True):
            body = wanted
            if place.encrypted and wanted.sealed is None:
                sealed = await self._sealed(place, f"status:{key}", "", {"value": wanted.value}, anew=anew)
                body = replace(wanted, value=None, sealed=sealed)
            where = f"{place.channel_id} status"
            link = here.links.next(where, now())
            stated = value_statement(here.me.team_id, place.channel_id, key, here.me.principal_id, body, link)
            body = replace(body, signature=signature_of(here.keys, stated, link))
            path = path_of("/v1/channels/{channel}/status/{key}", channel=channel, key=key)
            try:
                with _Saying(here.links, where, stated):
                    return await self.client.put(path, body, type=Status, repeatable=False)
            except EkidenError as error:
                if anew or not _stale(error):
                    raise
        raise AssertionError("the second try returns or raises")

    async def second_status(self, channel: str, key: str) -> Status:
        """Signs the value that a key has as well: the same value again, with its writer's signature as the second.

        Raises:
            Conflict: if there is nothing to sign: no value, the own one, one with two signatures already, or one
                whose own signature is not known to be its writer's.
        """
        here = await self.meet()
        path = path_of("/v1/channels/{channel}/status/{key}", channel=channel, key=key)
        held = await self.client.get(path, type=Status)
        opened = await self.open_status(channel, held)
        evidence = held.evidence or Evidence()
        if held.kind is not StatusKind.SET:
            raise Conflict(f"{key!r} has no value that somebody has set.", kind=held.kind)
        if evidence.second is not None:
            raise Conflict(f"{key!r} has two signatures already.", version=held.version)
        if held.by_id == here.me.principal_id:
            raise Conflict("The value is your own: the second signer is somebody else.", by=held.by)
        if opened.proof is not Proof.VERIFIED or opened.note:
            raise Conflict(
                f"The value is not known to be {held.by}'s ({opened.note or opened.proof}), so it was not signed.",
                hint=f"Ask {held.by} to set it anew, signed; or compare keys: ekiden trust {held.by}",
                proof=opened.proof.value,
            )
        left_s = seconds_until(held.expires_at) if held.expires_at else 0
        wanted = SetStatus(held.value, held.sealed, held.version, left_s, replace(evidence, second=held.signature))
        return await self.set_status(channel, key, wanted)

    async def sign_status(self, channel: str, key: str, wanted: SetStatus) -> Signature:
        """A signature over a value that somebody else will set: the second of its evidence.

        Raises:
            Invalid: in an encrypted channel, where what is signed is the sealed value of who sets it.
        """
        here = await self.meet()
        place = await self.place(channel)
        if place.encrypted:
            raise Invalid(
                "In an encrypted channel the second signs what is set.", hint="ekiden status … second KEY"
            )
        # Of no chain: whether it will ever stand in the log is not this program's to say.
        link = Link(here.keys.member_key_id, now())
        stated = value_statement(here.me.team_id, place.channel_id, key, here.me.principal_id, wanted, link)
        return signature_of(here.keys, stated, link)

    async def clear_status(self, channel: str, key: str, wanted: ClearStatus) -> Status:
        """Takes a value away, signed."""
        here = await self.meet()
        place = await self.place(channel)
        where = f"{place.channel_id} status"
        link = here.links.next(where, now())
        stated = statements.status_clear(
            team=here.me.team_id, channel=place.channel_id, key=key, sender=here.me.principal_id, link=link
        )
        path = path_of("/v1/channels/{channel}/status/{key}", channel=channel, key=key)
        body = replace(wanted, signature=signature_of(here.keys, stated, link))
        with _Saying(here.links, where, stated):
            return await self.client.delete(path, body, type=Status)

    async def take_lease(self, channel: str, name: str, wanted: TakeLease) -> Lease:
        """Takes or renews a lease, signed. The answer's ticket is checked with the pinned key of the hub."""
        body = await self._lease(channel, name, wanted.lease_s, wanted.fence, wanted.note)
        path = path_of("/v1/channels/{channel}/leases/{name}", channel=channel, name=name)
        return await self.client.put(path, replace(wanted, signature=body), type=Lease, repeatable=False)

    async def release_lease(self, channel: str, name: str, fence: int) -> Lease:
        """Lets a lease go, signed."""
        body = ReleaseLease(fence, await self._lease(channel, name, 0, fence, ""))
        path = path_of("/v1/channels/{channel}/leases/{name}", channel=channel, name=name)
        return await self.client.delete(path, body, type=Lease)

    async def _lease(self, channel: str, name: str, lease_s: int, fence: int, note: str) -> Signature:
        here = await self.meet()
        place = await self.place(channel)
        link = Link(here.keys.member_key_id, now())
        stated = statements.lease(
            team=here.me.team_id,
            channel=place.channel_id,
            name=name,
            sender=here.me.principal_id,
            lease_s=lease_s,
            fence=fence,
            note=note,
            link=link,
        )
        return signature_of(here.keys, stated, link)

    async def attach(self, channel: str, name: str, data: bytes, media_type: str) -> Attachment:
        """Puts bytes where a message can name them, sealed in an encrypted channel. The answer goes into the
        post."""
        place = await self.place(channel)
        stored, kept_as, key = data, media_type, ""
        if place.encrypted:
            here = await self.meet()
            sealed = sealing.seal_file(data, team=here.me.team_id, channel=place.channel_id)
            stored, kept_as, key = sealed.data, "application/octet-stream", sealed.key
        sha256 = hashlib.sha256(stored).hexdigest()
        if key:
            keep(self._file_keys, sha256, key, MEMBER_FILES_KEPT_MAX)
        path = path_of("/v1/channels/{channel}/attachments/{sha256}", channel=channel, sha256=sha256)
        await self.client.put(path, AttachmentBytes(stored, kept_as))
        return Attachment(sha256, len(stored), name, media_type)

    # --- sealing

    async def _sealed(
        self,
        channel: Channel,
        message_id: str,
        thread_id: str,
        content: Mapping[str, Any],
        *,
        anew: bool = False,
    ) -> Sealed:
        here = await self.meet()
        channel = await self.place(channel.channel_id, anew=True)
        await self._read_directory(here.pins)
        current = await here.channel_keys.to_post(channel, anew=anew)
        self._notices += current.notices
        where = Place(
            here.me.team_id, channel.channel_id, thread_id, here.me.principal_id, message_id, current.epoch
        )
        sealed = sealing.seal(current.key, where, content)
        return Sealed(sealed.epoch, sealed.nonce, sealed.data, sealed.v)

    def _inside(self, attachment: Attachment) -> dict[str, Any]:
        """An attachment as the sealed text names it, with its key."""
        key = self._file_keys.get(attachment.sha256)
        if key is None:
            raise Invalid("In an encrypted channel attachments are put by the program that posts them.")
        return {
            "sha256": attachment.sha256,
            "size": attachment.size,
            "name": attachment.name,
            "media_type": attachment.media_type,
            "key": key,
        }


class _Saying:
    """Keeps a chain true to what the hub has stored: on a clear refusal the link is free again, and when nobody
    knows whether it was stored, the chain ends there."""

    def __init__(self, links: Links, where: str, stated: bytes) -> None:
        self._links = links
        self._where = where
        self._stated = stated

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._links.said(self._where, statements.digest(self._stated))
        elif isinstance(error, EkidenError) and not error.retry_helps:
            self._links.unsaid(self._where)


def _stale(error: EkidenError) -> bool:
    return "stale_epoch" in (error.code, error.details.get("code"))
