"""Exports of a channel as a hub writes them, made by members with known keys."""

from typing import Any

import msgspec

from crypto.people import ANNA, BEN, CHANNEL, HUB_SEED, TEAM
from ekiden.crypto import directory, keys, statements
from ekiden.crypto.directory import Directory, Entry
from ekiden.crypto.exported import (
    Attachment,
    Channel,
    Countersign,
    Evidence,
    Exported,
    Message,
    Purged,
    Signature,
    Status,
)
from ekiden.crypto.keys import MemberKeys
from ekiden.crypto.statements import Link

PEOPLE = {"pri_anna": ANNA, "pri_ben": BEN}
HUB_KEY = keys.spell(keys.signing_public(HUB_SEED))


def content_of(message: Message) -> str:
    """The digest of all that a message says."""
    return statements.message_content(
        text=message.text,
        answers=message.answers,
        asks=message.asks,
        mentions=message.named,
        title=message.title,
        attachments=message.attachments,
    )


class Paper:
    """A channel in which members post, edit, delete and set status; `pages` gives the export."""

    def __init__(self) -> None:
        self.seq = 0
        self.messages: dict[str, Message] = {}
        self.statuses: list[Status] = []
        self.purges: list[Purged] = []
        self.entries: list[Entry] = []
        self._said: dict[tuple[str, str], tuple[int, str]] = {}
        read = Directory(TEAM, keys.signing_public(HUB_SEED))
        for principal, member in PEOPLE.items():
            entry = directory.add_entry(member, team=TEAM, principal=principal, label="desk", at=self.at())
            self.entries.append(
                directory.placed(
                    HUB_SEED,
                    entry,
                    team=TEAM,
                    position=len(self.entries) + 1,
                    previous=read.head,
                    at=self.at(),
                    name=principal,
                )
            )
            read.take(self.entries[-1:])

    def at(self) -> str:
        """A time that grows with the log."""
        self.seq += 1
        return f"2030-01-01T00:00:00.{self.seq:03d}Z"

    def link(self, principal: str, chain: str) -> Link:
        """The next link of a member's chain."""
        number, previous = self._said.get((principal, chain), (0, ""))
        return Link(PEOPLE[principal].member_key_id, self.at(), chain, number + 1, previous)

    def sign(self, principal: str, stated: bytes, link: Link, replaces: str = "") -> Signature:
        """Signs a statement, and goes on in the chain."""
        member: MemberKeys = PEOPLE[principal]
        if link.link:
            self._said[principal, link.chain] = (link.link, statements.digest(stated))
        signature = keys.sign(member.sign_seed, stated)
        return Signature(link.signer, signature, link.at, link.chain, link.link, link.previous, replaces)

    def place(self, message: Message, stated: bytes | None) -> None:
        """Countersigns as the hub does."""
        at = self.at()
        digest = statements.digest(stated) if stated is not None else ""
        said = statements.countersign_message(
            team=TEAM,
            channel=CHANNEL,
            message=message.message_id,
            statement_digest=digest,
            seq=self.seq,
            number=message.number,
            at=at,
        )
        mark = Countersign(self.seq, message.number, at, keys.sign(HUB_SEED, said), digest)
        self.messages[message.message_id] = msgspec.structs.replace(message, countersign=mark)

    def post(self, principal: str, text: str, *, signed: bool = True, **more: Any) -> str:
        """Posts, and returns the message's id."""
        number = len(self.messages) + 1
        bare = Message(f"msg_{number}", CHANNEL, number, principal, principal, text, **more)
        if not signed:
            self.place(bare, None)
            return bare.message_id
        link = self.link(principal, "main")
        stated = statements.message(
            team=TEAM,
            channel=CHANNEL,
            thread=bare.thread_id,
            message=bare.message_id,
            sender=principal,
            content=content_of(bare),
            link=link,
        )
        self.place(msgspec.structs.replace(bare, signature=self.sign(principal, stated, link)), stated)
        return bare.message_id

    def edit(self, message_id: str, text: str) -> None:
        """A new text by the sender."""
        old = self.messages[message_id]
        assert old.countersign is not None
        replaces = old.countersign.statement
        link = self.link(old.sender_id, "main")
        stated = statements.edit(
            team=TEAM,
            channel=CHANNEL,
            message=message_id,
            sender=old.sender_id,
            thread=old.thread_id,
            content=content_of(msgspec.structs.replace(old, text=text)),
            replaces=replaces,
            link=link,
        )
        signature = self.sign(old.sender_id, stated, link, replaces)
        self.place(msgspec.structs.replace(old, text=text, edits=old.edits + 1, signature=signature), stated)

    def delete(self, message_id: str, *, signed: bool) -> None:
        """Takes a message back, by its sender (signed) or by an administrator."""
        old = self.messages[message_id]
        assert old.countersign is not None
        gone = msgspec.structs.replace(old, text="", state="deleted")
        if not signed:
            self.messages[message_id] = gone
            return
        replaces = old.countersign.statement
        link = self.link(old.sender_id, "main")
        stated = statements.delete(
            team=TEAM, channel=CHANNEL, message=message_id, sender=old.sender_id, replaces=replaces, link=link
        )
        signature = self.sign(old.sender_id, stated, link, replaces)
        self.place(msgspec.structs.replace(gone, signature=signature), stated)

    def set(self, principal: str, key: str, value: Any, *, second: str = "") -> None:
        """Sets a status, with evidence and a second signer if one is named."""
        version = sum(status.key == key for status in self.statuses) + 1
        content = statements.status_content(value=value, commit="abc")
        link = self.link(principal, "status")
        where: dict[str, Any] = {"team": TEAM, "channel": CHANNEL, "key": key, "content": content}
        stated = statements.status(**where, sender=principal, link=link)
        signature = self.sign(principal, stated, link)
        signed_too = None
        if second:
            alone = Link(PEOPLE[second].member_key_id, self.at())
            signed_too = self.sign(second, statements.status(**where, sender=second, link=alone), alone)
        at = self.at()
        said = statements.countersign_status(
            team=TEAM,
            channel=CHANNEL,
            key=key,
            version=version,
            statement_digest=statements.digest(stated),
            seq=self.seq,
            at=at,
        )
        mark = Countersign(self.seq, 0, at, keys.sign(HUB_SEED, said), statements.digest(stated))
        evidence = Evidence("abc", second=signed_too)
        self.statuses.append(
            Status(CHANNEL, key, version, "set", value, None, principal, evidence, signature, mark)
        )

    def purge(self, last: int) -> None:
        """Takes away everything up to a number, with a signed note."""
        digest = statements.PurgeDigest()
        gone = [message for message in self.messages.values() if message.number <= last]
        for message in gone:
            assert message.countersign is not None
            digest.add(
                number=message.number,
                message=message.message_id,
                statement_digest=message.countersign.statement,
                content=statements.message_content(text=message.text),
            )
            del self.messages[message.message_id]
        note: dict[str, Any] = {
            "channel": CHANNEL,
            "first": 1,
            "last": last,
            "messages": len(gone),
            "digest": digest.hex(),
            "at": self.at(),
            "by": "pri_anna",
        }
        signature = keys.sign(HUB_SEED, statements.purge(team=TEAM, **note))
        note["channel_id"] = note.pop("channel")
        self.purges.append(Purged(**note, signature=signature))

    def export(self) -> Exported:
        """The whole as one page."""
        messages = sorted(self.messages.values(), key=lambda message: message.number)
        last = max([message.number for message in messages] + [purged.last for purged in self.purges], default=0)
        return Exported(
            Channel(CHANNEL, "build", last_number=last),
            tuple(messages),
            tuple(self.statuses),
            tuple(self.purges),
            tuple(self.entries),
            hub_key=HUB_KEY,
            team_id=TEAM,
        )


def busy_paper() -> Paper:
    """A channel in which everything was done once."""
    paper = Paper()
    paper.post("pri_anna", "first", title="A thread", named=("ben",), asks="answer")
    paper.post("pri_ben", "second", thread_id="msg_1", answers="msg_1")
    paper.post("pri_anna", "third", attachments=(Attachment("00" * 32, 5, "a.txt", "text/plain"),))
    paper.post("pri_ben", "fourth")
    paper.post("pri_anna", "fifth")
    paper.post("pri_ben", "sixth")
    paper.edit("msg_2", "second, put better")
    paper.delete("msg_4", signed=True)
    paper.delete("msg_5", signed=False)
    paper.set("pri_anna", "tests.main", {"ok": True, "share": 0.5})
    paper.set("pri_ben", "tests.main", {"ok": False}, second="pri_anna")
    paper.post("pri_anna", "seventh")
    return paper
