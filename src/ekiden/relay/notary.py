"""What members have signed is checked here against the directory, and the hub's own word is put beside it.

A signature counts if it was made with a live member key of the very principal whose API key brings it: so a
stolen API key alone cannot sign, and a stolen member key alone cannot send.
"""

from dataclasses import dataclass

from msgspec.structs import replace

from ekiden.crypto import keys, statements, tickets
from ekiden.crypto.directory import MemberKey
from ekiden.crypto.statements import Link
from ekiden.kernel.errors import Invalid
from ekiden.log.port import Actor, Reading, Transaction
from ekiden.relay.member_keys import load_member_key
from ekiden.relay.team_key import team_key
from ekiden.relay.wire import Channel, Countersign, Edit, Message, Post, Signature
from ekiden.relay.wire_state import ClearStatus, Evidence, Lease, SetStatus, Status


class SignatureRefused(Invalid):
    """A signature does not count. `details.why`: `unsigned`, `unknown_key`, `ended_key`, `other_principal`,
    `forged`, `same_signer`."""

    code = "signature_refused"


def link_of(signature: Signature) -> Link:
    """Where in its signer's chain a signature stands."""
    return Link(signature.signer, signature.at, signature.chain, signature.link, signature.previous)


async def _signer(reading: Reading, signature: Signature) -> MemberKey:
    key = await load_member_key(reading, signature.signer)
    if key is None:
        raise SignatureRefused(
            "The directory has no such member key.", hint="Add it first: POST /v1/directory.", why="unknown_key"
        )
    if not key.live:
        raise SignatureRefused(f"This member key ended at {key.ended_at}.", why="ended_key")
    return key


async def _check(reading: Reading, signature: Signature, stated: bytes, principal_id: str) -> str:
    """The digest of what was signed, if the signature is good and the principal's.

    Raises:
        SignatureRefused: if not.
    """
    key = await _signer(reading, signature)
    if key.principal_id != principal_id:
        raise SignatureRefused("This is signed with somebody else's key.", why="other_principal")
    _refuse_forged(key, signature, stated)
    return statements.digest(stated)


def _refuse_forged(key: MemberKey, signature: Signature, stated: bytes) -> None:
    if not keys.signed_by(key.public.sign, signature.signature, stated):
        raise SignatureRefused(
            "The signature is not good: it is of something else than what was sent.", why="forged"
        )


def _refuse_unsigned(channel: Channel, signature: Signature | None) -> None:
    if channel.signed and signature is None:
        raise SignatureRefused(
            f"In {channel.name} everything is signed.", hint="Sign it with a member key.", why="unsigned"
        )


# --- messages ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TeamNotary:
    """`relay.port.Notary` over the tables."""

    async def check_post(
        self,
        tx: Transaction,
        channel: Channel,
        message_id: str,
        post: Post,
        actor: Actor,
    ) -> str:
        """The digest of what was signed, "" for an unsigned post.

        Raises:
            SignatureRefused: if the signature does not count, or is missing in a channel where all is signed.
        """
        signature = post.signature
        _refuse_unsigned(channel, signature)
        if signature is None:
            return ""
        content = statements.message_content(
            text=post.text,
            sealed=post.sealed,
            answers=post.answers,
            asks=post.asks,
            mentions=post.mentions,
            title=post.title,
            attachments=post.attachments,
        )
        stated = statements.message(
            team=tx.team_id,
            channel=channel.channel_id,
            thread=post.thread_id,
            message=message_id,
            sender=actor.principal_id,
            content=content,
            link=link_of(signature),
        )
        return await _check(tx, signature, stated, actor.principal_id)

    async def check_edit(
        self, tx: Transaction, channel: Channel, message: Message, edit: Edit, actor: Actor
    ) -> str:
        """The same for a new text of a message."""
        signature = edit.signature
        _refuse_unsigned(channel, signature)
        if signature is None:
            return ""
        self._refuse_other_text(message, signature)
        content = statements.message_content(
            text=edit.text,
            sealed=edit.sealed,
            answers=message.answers,
            asks=message.asks,
            mentions=edit.mentions,
            title=message.title,
            attachments=message.attachments,
        )
        stated = statements.edit(
            team=tx.team_id,
            channel=channel.channel_id,
            thread=message.thread_id,
            message=message.message_id,
            sender=actor.principal_id,
            content=content,
            replaces=signature.replaces,
            link=link_of(signature),
        )
        return await _check(tx, signature, stated, actor.principal_id)

    def _refuse_other_text(self, message: Message, signature: Signature) -> None:
        said = message.countersign.statement if message.countersign is not None else ""
        if signature.replaces != said:
            raise SignatureRefused(
                "This is signed as taking the place of another text than the one that is there.",
                hint="Read the message again.",
                why="forged",
            )

    async def countersign(
        self, tx: Transaction, channel: Channel, message: Message, statement: str, seq: int
    ) -> Countersign:
        """The hub's word for where a message, or its last edit, stands. `statement` is the digest of what was
        signed, `seq` the event's. Where nothing was signed it says no more than the log does, so its signature,
        which takes as long as all else that a post does, waits until it is exported (`with_signature`)."""
        at = message.edited_at or message.at
        mark = Countersign(seq=seq, number=message.number, at=at, statement=statement)
        if not statement:
            return mark
        return _signed_mark((await team_key(tx)).seed, tx.team_id, channel.channel_id, message.message_id, mark)


def with_signature(message: Message, team_id: str, seed: bytes | None) -> Message:
    """`message` with the hub's signature in its countersignature, whenever that is asked for: the same bytes have
    one signature. Without a key of the hub (`seed`) nothing stands for it."""
    mark = message.countersign
    if mark is None or mark.signature:
        return message
    if seed is None:
        return replace(message, countersign=None)
    signed = _signed_mark(seed, team_id, message.channel_id, message.message_id, mark)
    return replace(message, countersign=signed)


def _signed_mark(seed: bytes, team_id: str, channel_id: str, message_id: str, mark: Countersign) -> Countersign:
    said = statements.countersign_message(
        team=team_id,
        channel=channel_id,
        message=message_id,
        statement_digest=mark.statement,
        seq=mark.seq,
        number=mark.number,
        at=mark.at,
    )
    return replace(mark, signature=keys.sign(seed, said))


# --- status ------------------------------------------------------------------------------------------------


def _stated_status(
    team: str, channel: Channel, key: str, body: SetStatus, signature: Signature, sender: str
) -> bytes:
    evidence = body.evidence or Evidence()
    content = statements.status_content(
        value=body.value,
        sealed=body.sealed,
        commit=evidence.commit,
        run=evidence.run,
        link=evidence.link,
    )
    return statements.status(
        team=team,
        channel=channel.channel_id,
        key=key,
        sender=sender,
        content=content,
        link=link_of(signature),
    )


async def check_status(reading: Reading, channel: Channel, key: str, body: SetStatus, actor: Actor) -> str:
    """The digest of what the writer of a status value has signed, "" if it is unsigned; a second signature is
    checked as well.

    Raises:
        SignatureRefused: if a signature does not count, or is missing in a channel where all is signed.
    """
    _refuse_unsigned(channel, body.signature)
    second = body.evidence.second if body.evidence is not None else None
    if second is not None:
        signer = await _signer(reading, second)
        if signer.principal_id == actor.principal_id:
            raise SignatureRefused("The second signer is somebody else than the first.", why="same_signer")
        _refuse_forged(
            signer,
            second,
            _stated_status(reading.team_id, channel, key, body, second, signer.principal_id),
        )
    if body.signature is None:
        return ""
    stated = _stated_status(reading.team_id, channel, key, body, body.signature, actor.principal_id)
    return await _check(reading, body.signature, stated, actor.principal_id)


async def check_clear(reading: Reading, channel: Channel, key: str, body: ClearStatus, actor: Actor) -> str:
    """The same for taking a value away."""
    _refuse_unsigned(channel, body.signature)
    if body.signature is None:
        return ""
    stated = statements.status_clear(
        team=reading.team_id,
        channel=channel.channel_id,
        key=key,
        sender=actor.principal_id,
        link=link_of(body.signature),
    )
    return await _check(reading, body.signature, stated, actor.principal_id)


async def countersign_status(tx: Transaction, line: Status, statement: str, seq: int) -> Countersign:
    """The hub's word for where one line of a status stands."""
    said = statements.countersign_status(
        team=tx.team_id,
        channel=line.channel_id,
        key=line.key,
        version=line.version,
        statement_digest=statement,
        seq=seq,
        at=line.at,
    )
    signature = keys.sign((await team_key(tx)).seed, said)
    return Countersign(seq=seq, number=line.version, at=line.at, signature=signature, statement=statement)


# --- leases ------------------------------------------------------------------------------------------------


async def check_lease(
    reading: Reading,
    channel: Channel,
    name: str,
    actor: Actor,
    signature: Signature | None,
    *,
    lease_s: int,
    fence: int,
    note: str,
) -> None:
    """Raises:
    SignatureRefused: if the signature does not count, or is missing in a channel where all is signed.
    """
    _refuse_unsigned(channel, signature)
    if signature is None:
        return
    stated = statements.lease(
        team=reading.team_id,
        channel=channel.channel_id,
        name=name,
        sender=actor.principal_id,
        lease_s=lease_s,
        fence=fence,
        note=note,
        link=link_of(signature),
    )
    await _check(reading, signature, stated, actor.principal_id)


async def ticket_of(tx: Transaction, channel: Channel, lease: Lease) -> str:
    """The hub's signed word that a lease is held, which a script checks without asking."""
    ticket = tickets.Ticket(
        team=tx.team_id,
        channel=channel.channel_id,
        channel_name=channel.name,
        name=lease.name,
        fence=lease.fence,
        holder=lease.holder_id,
        holder_name=lease.holder,
        issued_at=tx.now,
        expires_at=lease.expires_at,
    )
    return tickets.issue((await team_key(tx)).seed, ticket)
