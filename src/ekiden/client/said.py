"""From what stands on the wire to the statement that was signed, and what is known of who signed it. Pure."""

from enum import StrEnum

from ekiden.crypto import keys, statements
from ekiden.crypto.keys import MemberKeys
from ekiden.crypto.statements import Link
from ekiden.relay.wire import Message, Post, Signature
from ekiden.relay.wire_state import SetStatus, Status, StatusKind


class Proof(StrEnum):
    """What is known of who said something."""

    VERIFIED = "verified"
    """Signed by the sender's own key, which is trusted here."""
    UNSIGNED = "unsigned"
    """That the sender said it is the hub's word."""
    UNKNOWN_KEY = "unknown key"
    """Signed with a key that is not trusted here."""
    BAD = "bad signature"
    """Not what was signed, or not signed by the sender: do not believe it."""


def link_of(signature: Signature) -> Link:
    """Where a statement stands in its chain."""
    return Link(signature.signer, signature.at, signature.chain, signature.link, signature.previous)


def signature_of(member: MemberKeys, stated: bytes, link: Link) -> Signature:
    """A statement's signature as it travels."""
    return Signature(
        link.signer, keys.sign(member.sign_seed, stated), link.at, link.chain, link.link, link.previous
    )


def content_of(said: Post | Message, named: tuple[str, ...]) -> str:
    """The digest of what a message says. `named`: the names beside the text."""
    return statements.message_content(
        text=said.text,
        sealed=said.sealed,
        answers=said.answers,
        asks=said.asks,
        mentions=named,
        title=said.title,
        attachments=said.attachments,
    )


def message_statement(team: str, message: Message, signature: Signature) -> bytes:
    """What the signature of a message is over."""
    content, link = content_of(message, message.named), link_of(signature)
    if message.edits:
        return statements.edit(
            team=team,
            channel=message.channel_id,
            thread=message.thread_id,
            message=message.message_id,
            sender=message.sender_id,
            content=content,
            replaces=signature.replaces,
            link=link,
        )
    return statements.message(
        team=team,
        channel=message.channel_id,
        thread=message.thread_id,
        message=message.message_id,
        sender=message.sender_id,
        content=content,
        link=link,
    )


def value_statement(
    team: str, channel_id: str, key: str, sender: str, said: SetStatus | Status, link: Link
) -> bytes:
    """What who sets a status value signs; the second signer as well, with its own sender and link."""
    evidence = said.evidence
    return statements.status(
        team=team,
        channel=channel_id,
        key=key,
        sender=sender,
        content=statements.status_content(
            value=said.value,
            sealed=said.sealed,
            commit=evidence.commit if evidence else "",
            run=evidence.run if evidence else "",
            link=evidence.link if evidence else "",
        ),
        link=link,
    )


def status_statement(team: str, status: Status, signature: Signature) -> bytes:
    """What the signature of a status is over."""
    link = link_of(signature)
    if status.kind is StatusKind.CLEARED:
        return statements.status_clear(
            team=team, channel=status.channel_id, key=status.key, sender=status.by_id, link=link
        )
    return value_statement(team, status.channel_id, status.key, status.by_id, status, link)
