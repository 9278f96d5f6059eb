"""What is signed: `ekiden/1/DOMAIN`, a new line, and the statement's fields as canonical JSON (RFC 8785).

The domain keeps a signature of one kind from being shown as one of another. Each builder below lists the fields of
one domain; they are spelled here and nowhere else, and `tests/crypto/vectors.json` has bytes for each.

**Chains.** What one program says in one channel (messages, edits, deletions; its status values are a chain of
their own) is numbered from 1 in `link`, under a random name `chain`, and each statement has the SHA-256 of the one
before in `previous` (empty in the first). A reader of the channel sees what was withheld or put into another
order.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from ekiden.kernel import canonical


class Domain(StrEnum):
    """What a statement is; part of what is signed."""

    MESSAGE = "message"
    EDIT = "edit"
    DELETE = "delete"
    STATUS = "status"
    STATUS_CLEAR = "status-clear"
    LEASE = "lease"
    DIRECTORY = "directory"
    EPOCH = "epoch"
    WRAP = "wrap"
    COUNTERSIGN = "countersign"
    TICKET = "ticket"
    CHECKPOINT = "checkpoint"
    PURGE = "purge"
    INVITE = "invite"


class AttachmentLike(Protocol):
    """`ekiden.relay.wire.Attachment`, or what is read of it."""

    @property
    def sha256(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def media_type(self) -> str: ...


class SealedLike(Protocol):
    """`ekiden.relay.wire.Sealed`, or what is read of it."""

    @property
    def epoch(self) -> int: ...
    @property
    def nonce(self) -> str: ...
    @property
    def data(self) -> str: ...
    @property
    def v(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Link:
    """Who says it, when by its own clock, and where in its chain. `link` 0: in no chain."""

    signer: str
    """Id of the member key."""
    at: str
    chain: str = ""
    link: int = 0
    previous: str = ""

    def fields(self) -> dict[str, Any]:
        """As fields of a statement."""
        return {
            "signer": self.signer,
            "at": self.at,
            "chain": self.chain,
            "link": self.link,
            "previous": self.previous,
        }


def statement(domain: Domain, fields: Mapping[str, Any]) -> bytes:
    """The bytes that are signed.

    Raises:
        Invalid: if a value has no one spelling (see `kernel.canonical`).
    """
    return b"ekiden/1/" + domain.encode("ascii") + b"\n" + canonical.exact(dict(fields))


def digest(signed: bytes) -> str:
    """SHA-256 of a statement's bytes in 64 hex digits: what `previous`, `replaces` and `statement` hold."""
    return hashlib.sha256(signed).hexdigest()


def message_content(
    *,
    text: str = "",
    sealed: SealedLike | None = None,
    answers: str = "",
    asks: str = "",
    mentions: Sequence[str] = (),
    title: str = "",
    attachments: Iterable[AttachmentLike] = (),
) -> str:
    """The digest of what a message says. `mentions` are the names that were given beside the text, as given."""
    return canonical.exact_digest(
        {
            **_said(text, sealed),
            "answers": answers,
            "asks": str(asks),
            "mentions": list(mentions),
            "title": title,
            "attachments": [
                {"sha256": one.sha256, "size": one.size, "name": one.name, "media_type": one.media_type}
                for one in attachments
            ],
        }
    )


def status_content(
    *,
    value: Any = None,
    sealed: SealedLike | None = None,
    commit: str = "",
    run: str = "",
    link: str = "",
) -> str:
    """The digest of a status value and its evidence. The second signer signs the same content, so it is not in
    it."""
    said = {"sealed": _sealed(sealed)} if sealed is not None else {"value": value}
    return canonical.exact_digest({**said, "evidence": {"commit": commit, "run": run, "link": link}})


def message(*, team: str, channel: str, thread: str, message: str, sender: str, content: str, link: Link) -> bytes:
    """A message. `thread`: the id of its first message, empty outside threads; `sender`: the principal's id."""
    return statement(
        Domain.MESSAGE,
        {
            "team": team,
            "channel": channel,
            "thread": thread,
            "message": message,
            "sender": sender,
            "content": content,
            **link.fields(),
        },
    )


def edit(
    *, team: str, channel: str, thread: str, message: str, sender: str, content: str, replaces: str, link: Link
) -> bytes:
    """A new text of a message; `content` is of the whole message as it is from then on. `replaces`: the digest of
    the statement that said the old one, empty if unsigned."""
    return statement(
        Domain.EDIT,
        {
            "team": team,
            "channel": channel,
            "thread": thread,
            "message": message,
            "sender": sender,
            "content": content,
            "replaces": replaces,
            **link.fields(),
        },
    )


def delete(*, team: str, channel: str, message: str, sender: str, replaces: str, link: Link) -> bytes:
    """That a message is taken back."""
    return statement(
        Domain.DELETE,
        {
            "team": team,
            "channel": channel,
            "message": message,
            "sender": sender,
            "replaces": replaces,
            **link.fields(),
        },
    )


def status(*, team: str, channel: str, key: str, sender: str, content: str, link: Link) -> bytes:
    """A status value. The second signer of evidence signs this too, with its own `link` and `sender`."""
    return statement(
        Domain.STATUS,
        {"team": team, "channel": channel, "key": key, "sender": sender, "content": content, **link.fields()},
    )


def status_clear(*, team: str, channel: str, key: str, sender: str, link: Link) -> bytes:
    """That a status has no value from now on."""
    return statement(
        Domain.STATUS_CLEAR,
        {"team": team, "channel": channel, "key": key, "sender": sender, **link.fields()},
    )


def lease(
    *, team: str, channel: str, name: str, sender: str, lease_s: int, fence: int, note: str, link: Link
) -> bytes:
    """That a lease is asked for, renewed (`fence` > 0) or given back (`lease_s` 0). In no chain."""
    return statement(
        Domain.LEASE,
        {
            "team": team,
            "channel": channel,
            "name": name,
            "sender": sender,
            "lease_s": lease_s,
            "fence": fence,
            "note": note,
            **link.fields(),
        },
    )


def countersign_message(
    *, team: str, channel: str, message: str, statement_digest: str, seq: int, number: int, at: str
) -> bytes:
    """The hub's word for where a message (or its last edit) stands. `statement_digest` is empty if it is
    unsigned."""
    return statement(
        Domain.COUNTERSIGN,
        {
            "team": team,
            "channel": channel,
            "message": message,
            "statement": statement_digest,
            "seq": seq,
            "number": number,
            "at": at,
        },
    )


def countersign_status(
    *, team: str, channel: str, key: str, version: int, statement_digest: str, seq: int, at: str
) -> bytes:
    """The hub's word for where one version of a status stands."""
    return statement(
        Domain.COUNTERSIGN,
        {
            "team": team,
            "channel": channel,
            "status": key,
            "version": version,
            "statement": statement_digest,
            "seq": seq,
            "at": at,
        },
    )


def purge(
    *, team: str, channel: str, first: int, last: int, messages: int, digest: str, at: str, by: str
) -> bytes:
    """The hub's note of a purge: which numbers went, how many messages, the digest over them (`PurgeDigest`)."""
    return statement(
        Domain.PURGE,
        {
            "team": team,
            "channel": channel,
            "first": first,
            "last": last,
            "messages": messages,
            "digest": digest,
            "at": at,
            "by": by,
        },
    )


class PurgeDigest:
    """A digest over purged messages in the order of their numbers. Whoever kept a copy can show that it was
    whole."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"ekiden/1/purged\n")

    def add(self, *, number: int, message: str, statement_digest: str, content: str) -> None:
        """One message: `statement_digest` as in its countersignature, `content` as `message_content` says (of what
        it says last; empty if it was deleted before)."""
        self._hash.update(canonical.exact([number, message, statement_digest, content]) + b"\n")

    def hex(self) -> str:
        """64 hex digits."""
        return self._hash.hexdigest()


def _said(text: str, sealed: SealedLike | None) -> dict[str, Any]:
    return {"sealed": _sealed(sealed)} if sealed is not None else {"text": text}


def _sealed(sealed: SealedLike) -> dict[str, Any]:
    return {"v": sealed.v, "epoch": sealed.epoch, "nonce": sealed.nonce, "data": sealed.data}
