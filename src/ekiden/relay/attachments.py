"""Bytes beside messages, named by their SHA-256.

Whoever knows a hash has not seen the bytes: they are read only in a channel in which somebody put them, and a
message can name only what was put in its own channel.
"""

import base64
from datetime import UTC, datetime

from ekiden.kernel.clock import iso
from ekiden.kernel.errors import NotFound
from ekiden.kernel.limits import ATTACHMENT_UNUSED_S, ATTACHMENTS_DROPPED_AT_ONCE_MAX
from ekiden.log.port import Reading, Transaction
from ekiden.relay import rules
from ekiden.relay.keeping import Caller, channel_for, column
from ekiden.relay.wire import Attachment
from ekiden.relay.wire_state import AttachmentBytes


async def put(tx: Transaction, caller: Caller, ref: str, sha256: str, body: AttachmentBytes) -> Attachment:
    """Keeps bytes in a channel. Put again, nothing changes.

    Raises:
        NotFound, Forbidden: see `keeping.channel_for`.
        Conflict: if the channel takes nothing new.
    """
    kept = await channel_for(tx, caller, ref, "post")
    rules.refuse_unwritable(kept.channel)
    await tx.put(
        "relay.add_attachment",
        team_id=tx.team_id,
        sha256=sha256,
        size=len(body.data),
        media_type=column(body.media_type),
        made_at=tx.now,
        data=base64.b64encode(body.data).decode("ascii"),
    )
    await tx.put(
        "relay.use_attachment", team_id=tx.team_id, sha256=sha256, channel_id=kept.channel_id, message_id=""
    )
    return Attachment(sha256, len(body.data), media_type=body.media_type)


async def view(reading: Reading, caller: Caller, ref: str, sha256: str) -> AttachmentBytes:
    """The bytes of an attachment of this channel.

    Raises:
        NotFound: no such attachment in a channel that the key may read.
    """
    kept = await channel_for(reading, caller, ref, "read")
    row = await reading.row(
        "relay.attachment_bytes", team_id=reading.team_id, channel_id=kept.channel_id, sha256=sha256
    )
    if row is None:
        raise NotFound
    return AttachmentBytes(base64.b64decode(row["data"]), row["media_type"])


async def drop_unused(tx: Transaction) -> bool:
    """Forgets bytes that no message names, a day after they were put. Whether there may be more of them."""
    before = iso(datetime.fromisoformat(tx.now).astimezone(UTC).timestamp() - ATTACHMENT_UNUSED_S)
    rows = await tx.rows(
        "relay.unused_attachments", team_id=tx.team_id, before=before, most=ATTACHMENTS_DROPPED_AT_ONCE_MAX
    )
    for row in rows:
        await tx.put("relay.drop_attachment_uses", team_id=tx.team_id, sha256=row["sha256"])
        await tx.put("relay.drop_attachment", team_id=tx.team_id, sha256=row["sha256"])
    return len(rows) == ATTACHMENTS_DROPPED_AT_ONCE_MAX
