"""Checks an exported channel or thread with no hub: who said what, in which order, and whether anything is
missing.

It takes the export's word for nothing: keys come from the directory in it, whose chain and signatures are checked
against the hub's key; the hub's key should be the one that was pinned at first contact. What is found is a list,
worst first; nothing is raised for bad data.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from ekiden.crypto import keys, statements
from ekiden.crypto.chains import Chain, Linked
from ekiden.crypto.directory import Directory, DirectoryBroken, MemberKey
from ekiden.crypto.exported import Countersign, Exported, Message, Purged, Signature, Status
from ekiden.crypto.keys import KEY_BYTES
from ekiden.crypto.statements import Link
from ekiden.kernel.errors import Invalid

_decoder = msgspec.json.Decoder(Exported)
_MEMBERS_KINDS = frozenset({"set", "cleared"})
_HUBS_KINDS = frozenset({"expired", "reverted"})


class Severity(StrEnum):
    """`error`: something is not as it was said. `warning`: it cannot be proven. `note`: good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. `code` is stable; `where` is a message (`#12`), a status (`tests.main v3`), an
    entry of the directory, or empty for the whole."""

    severity: Severity
    code: str
    where: str
    message: str


@dataclass(slots=True)
class Report:
    """What was checked and what was found."""

    channel: str = ""
    messages: int = 0
    signed: int = 0
    """Messages whose sender's signature is good."""
    countersigned: int = 0
    statuses: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])

    @property
    def good(self) -> bool:
        """Whether there is no error."""
        return not any(finding.severity is Severity.ERROR for finding in self.findings)


def verify(pages: Iterable[bytes], *, hub_key: str = "") -> Report:
    """Checks the pages of one export (JSON of `relay.wire_state.Exported`). `hub_key`: the pinned one,
    base64url."""
    check = _Check(hub_key)
    try:
        check.read([_decoder.decode(page) for page in pages])
    except msgspec.DecodeError as error:
        check.add(Severity.ERROR, "unreadable", "", f"This is not an export: {error}")
    order = list(Severity)
    check.report.findings.sort(key=lambda finding: order.index(finding.severity))
    return check.report


class _Check:
    def __init__(self, pinned: str) -> None:
        self.report = Report()
        self._pinned = pinned
        self._team = ""
        self._channel = ""
        self._hub_key = b""
        self._known: dict[str, MemberKey] = {}
        self._chains: dict[tuple[str, str], Chain] = {}
        self._gone: dict[str, int] = {}
        """By signer: links that its edits and deletions say they took the place of, and links of earlier edits, of
        which only the hub's count is left."""

    def add(self, severity: Severity, code: str, where: str, message: str) -> None:
        self.report.findings.append(Finding(severity, code, where, message))

    def error(self, code: str, where: str, message: str) -> None:
        self.add(Severity.ERROR, code, where, message)

    def read(self, pages: list[Exported]) -> None:
        if not pages:
            self.error("unreadable", "", "There is nothing to check.")
            return
        first = pages[0]
        self.report.channel = first.channel.name
        self._team, self._channel = first.team_id, first.channel.channel_id
        if any(page.team_id != self._team or page.channel.channel_id != self._channel for page in pages):
            self.error("mixed", "", "The pages are of several channels.")
        if pages[-1].next:
            self.add(Severity.WARNING, "unfinished", "", "The export goes on: pages are missing at its end.")
        self._read_hub_key(first.hub_key)
        self._read_directory(pages)
        self._read_epochs(first)
        purges = [purged for page in pages for purged in page.purges]
        for purged in purges:
            self._check_purge(purged)
        messages = [message for page in pages for message in page.messages]
        self._check_numbers(first, messages, purges, whole=not pages[-1].next)
        for message in messages:
            self._check_message(first, message)
        for status in (status for page in pages for status in page.statuses):
            self._check_status(status)
        self._check_chains(partial=bool(first.thread or purges))

    # --- keys

    def _read_hub_key(self, given: str) -> None:
        try:
            self._hub_key = keys.read(given, KEY_BYTES)
        except Invalid:
            self.error("hub_key", "", "The export has no key of a hub.")
            return
        if not self._pinned:
            self.add(Severity.WARNING, "hub_key_unpinned", "", "No hub's key is pinned: the export's own is used.")
        elif self._pinned != given:
            self.error("hub_key_changed", "", "The export is signed by another hub's key than the pinned one.")
            self._hub_key = keys.read(self._pinned, KEY_BYTES)

    def _read_directory(self, pages: list[Exported]) -> None:
        directory = Directory(self._team, self._hub_key)
        try:
            for page in pages:
                directory.take(page.directory)
        except DirectoryBroken as error:
            self.error("directory", str(error.details.get("position", "")), error.message)
        self._known = directory.keys

    def _read_epochs(self, first: Exported) -> None:
        previous = ""
        for count, epoch in enumerate(first.epochs, 1):
            where = f"epoch {epoch.epoch}"
            key = self._known.get(epoch.signer)
            stated = epoch.statement(self._team)
            if epoch.epoch != count or epoch.previous != previous or epoch.channel_id != self._channel:
                self.error("epoch_order", where, "An epoch does not follow the one before.")
            if key is None or not keys.signed_by(key.public.sign, epoch.signature, stated):
                self.error(
                    "epoch_signature", where, "An epoch is not signed by the key that is said to have opened it."
                )
            previous = statements.digest(stated)

    # --- messages

    def _check_numbers(
        self, first: Exported, messages: list[Message], purges: list[Purged], *, whole: bool
    ) -> None:
        numbers = [message.number for message in messages]
        if numbers != sorted(set(numbers)):
            self.error("order", "", "Numbers of messages are doubled or out of order.")
        if len({message.message_id for message in messages}) != len(messages):
            self.error("doubled", "", "A message is there twice.")
        if first.thread or not (numbers or first.channel.last_number):
            return
        last = max([*numbers, first.channel.last_number if whole else 0])
        held = {*numbers}
        for purged in purges:
            held.update(range(purged.first, min(purged.last, last) + 1))
        if absent := [number for number in range(1, last + 1) if number not in held]:
            ends = f"#{absent[0]}" if len(absent) == 1 else f"#{absent[0]} to #{absent[-1]}"
            self.error(
                "withheld",
                f"#{absent[0]}",
                f"{len(absent)} messages ({ends}) are missing; no purge tells of them.",
            )

    def _check_message(self, first: Exported, message: Message) -> None:
        where = f"#{message.number}"
        self.report.messages += 1
        if message.channel_id != self._channel:
            self.error("other_channel", where, "A message of another channel.")
        if not message.deleted:
            if first.channel.encrypted and message.sealed is None:
                self.error("plaintext", where, "Plain text in an encrypted channel.")
            if not first.channel.encrypted and message.sealed is not None:
                self.error("sealed", where, "A sealed text in a channel that is not encrypted.")
        if message.suspect:
            self.add(Severity.WARNING, "suspect", where, "Written with a key that was not trusted any more.")
        mark = message.countersign
        stated = self._message_statement(message)
        digest = statements.digest(stated) if stated is not None else ""
        if message.signature is not None and stated is not None:
            self._note_gone(message.signature, message.edits + (1 if message.deleted else 0))
            if self._check_signature(where, message.signature, stated, message.sender_id, mark):
                self.report.signed += 1
        elif message.deleted and mark is not None and mark.statement:
            digest = mark.statement
            if message.signature is not None:
                # Its text is gone, so its signature cannot be checked; the hub vouches for what was signed.
                self._note_gone(message.signature, message.edits)
                key = self._known.get(message.signature.signer)
                if key is None or key.principal_id != message.sender_id:
                    self.error("wrong_sender", where, "The deleted message was not signed by its sender.")
                # Its countersignature may be of the deletion, so where it stood before is not known.
                self._note_link(where, message.signature, digest, None)
        elif message.signature is None and not message.deleted:
            severity = Severity.ERROR if first.channel.signed else Severity.WARNING
            self.add(
                severity, "unsigned", where, f"Not signed; that {message.sender!r} sent it is the hub's word."
            )
        if mark is None:
            self.add(Severity.WARNING, "not_countersigned", where, "The hub has not signed where it stands.")
            return
        if mark.number != message.number or mark.statement != digest:
            self.error("countersign", where, "The hub countersigned another number or another statement.")
        said = statements.countersign_message(
            team=self._team,
            channel=self._channel,
            message=message.message_id,
            statement_digest=mark.statement,
            seq=mark.seq,
            number=mark.number,
            at=mark.at,
        )
        if self._check_countersign(where, mark, said):
            self.report.countersigned += 1

    def _message_statement(self, message: Message) -> bytes | None:
        """What the message's signature is over, or None if that cannot be known any more."""
        signature = message.signature
        if signature is None:
            return None
        where = {
            "team": self._team,
            "channel": self._channel,
            "message": message.message_id,
            "sender": message.sender_id,
        }
        link = _link(signature)
        try:
            if message.deleted:
                if not signature.replaces:
                    return None
                return statements.delete(**where, replaces=signature.replaces, link=link)
            content = statements.message_content(
                text=message.text,
                sealed=message.sealed,
                answers=message.answers,
                asks=message.asks,
                mentions=message.named,
                title=message.title,
                attachments=message.attachments,
            )
            where |= {"thread": message.thread_id, "content": content}
            if message.edits:
                return statements.edit(**where, replaces=signature.replaces, link=link)
            return statements.message(**where, link=link)
        except Invalid as error:
            self.error("unspeakable", f"#{message.number}", error.message)
            return None

    # --- status and purges

    def _check_status(self, status: Status) -> None:
        where = f"{status.key} v{status.version}"
        self.report.statuses += 1
        if status.channel_id != self._channel:
            self.error("other_channel", where, "A status of another channel.")
        if status.kind not in _MEMBERS_KINDS | _HUBS_KINDS:
            self.error("kind", where, f"It is not known what {status.kind!r} does to a status.")
        if status.suspect:
            self.add(Severity.WARNING, "suspect", where, "Written with a key that was not trusted any more.")
        signature, mark = status.signature, status.countersign
        digest = ""
        if signature is not None:
            if status.kind in _HUBS_KINDS:
                self.error("kind", where, "Signed by a member, and said to be of the hub's own doing.")
            stated = self._status_statement(status, signature, status.by_id)
            digest = statements.digest(stated) if stated is not None else ""
            if stated is not None:
                self._check_signature(where, signature, stated, status.by_id, mark)
        elif status.kind in _MEMBERS_KINDS:
            self.add(Severity.WARNING, "unsigned", where, "Not signed; who wrote it is the hub's word.")
        self._check_second(where, status)
        if mark is None:
            self.add(Severity.WARNING, "not_countersigned", where, "The hub has not signed where it stands.")
            return
        if mark.statement != digest:
            self.error("countersign", where, "The hub countersigned another statement.")
        said = statements.countersign_status(
            team=self._team,
            channel=self._channel,
            key=status.key,
            version=status.version,
            statement_digest=mark.statement,
            seq=mark.seq,
            at=mark.at,
        )
        self._check_countersign(where, mark, said)

    def _status_statement(self, status: Status, signature: Signature, sender: str) -> bytes | None:
        link = _link(signature)
        try:
            if status.kind == "cleared":
                return statements.status_clear(
                    team=self._team, channel=self._channel, key=status.key, sender=sender, link=link
                )
            evidence = status.evidence
            content = statements.status_content(
                value=status.value,
                sealed=status.sealed,
                commit=evidence.commit if evidence else "",
                run=evidence.run if evidence else "",
                link=evidence.link if evidence else "",
            )
            return statements.status(
                team=self._team, channel=self._channel, key=status.key, sender=sender, content=content, link=link
            )
        except Invalid as error:
            self.error("unspeakable", f"{status.key} v{status.version}", error.message)
            return None

    def _check_second(self, where: str, status: Status) -> None:
        second = status.evidence.second if status.evidence else None
        if second is None:
            return
        key = self._known.get(second.signer)
        if key is None or key.principal_id == status.by_id:
            self.error("second", where, "The second signer is unknown, or the same as the first.")
            return
        stated = self._status_statement(status, second, key.principal_id)
        if stated is not None and not keys.signed_by(key.public.sign, second.signature, stated):
            self.error("second", where, "The second signature is not good.")

    def _check_purge(self, purged: Purged) -> None:
        where = f"#{purged.first} to #{purged.last}"
        said = statements.purge(
            team=self._team,
            channel=self._channel,
            first=purged.first,
            last=purged.last,
            messages=purged.messages,
            digest=purged.digest,
            at=purged.at,
            by=purged.by,
        )
        if not self._hub_key or not keys.signed_by(self._hub_key, purged.signature, said):
            self.error("purge", where, "The note of a purge is not signed by the hub.")
        else:
            self.add(Severity.NOTE, "purged", where, f"{purged.messages} messages were purged at {purged.at}.")

    # --- signatures and chains

    def _check_signature(
        self, where: str, signature: Signature, stated: bytes, sender: str, mark: Countersign | None
    ) -> bool:
        key = self._known.get(signature.signer)
        if key is None:
            self.error("unknown_key", where, "Signed with a key that is not in the directory.")
            return False
        if key.principal_id != sender:
            self.error("wrong_sender", where, f"Signed by {key.name or key.principal_id!r}, not by its sender.")
            return False
        if not keys.signed_by(key.public.sign, signature.signature, stated):
            self.error("bad_signature", where, "The signature is not good: it was changed after it was signed.")
            return False
        if key.ended_at and mark is not None and mark.at > key.ended_at:
            self.add(Severity.WARNING, "ended_key", where, f"Signed with a key that ended at {key.ended_at}.")
        self._note_link(where, signature, statements.digest(stated), mark)
        return True

    def _note_link(self, where: str, signature: Signature, digest: str, mark: Countersign | None) -> None:
        if signature.link > 0:
            chain = self._chains.setdefault((signature.signer, signature.chain), Chain())
            chain.add(Linked(where, signature, digest, mark.seq if mark else 0))

    def _note_gone(self, signature: Signature, links: int) -> None:
        self._gone[signature.signer] = self._gone.get(signature.signer, 0) + links

    def _check_countersign(self, where: str, mark: Countersign, said: bytes) -> bool:
        good = bool(self._hub_key) and keys.signed_by(self._hub_key, mark.signature, said)
        if not good:
            self.error("countersign", where, "The hub's countersignature is not good.")
        return good

    def _check_chains(self, *, partial: bool) -> None:
        absent: dict[str, int] = {}
        for (signer, _), chain in self._chains.items():
            for one, other in chain.forks:
                self.error("forked", other.where, f"It has the place of {one.where} in its sender's chain.")
            for before, after in chain.broken():
                self.error("chain", after.where, f"It does not follow {before.where} in its sender's chain.")
            for before, after in chain.reordered():
                self.error(
                    "reordered", after.where, f"Its sender said it after {before.where}; the hub before it."
                )
            if chain.links and chain.in_order()[0].where.startswith("#"):
                absent[signer] = absent.get(signer, 0) + chain.absent()
            elif chain.absent():
                where = chain.in_order()[0].where
                self.add(Severity.NOTE, "older_values", where, f"{chain.absent()} older values are not shown.")
        for signer, number in absent.items():
            unexplained = number - self._gone.get(signer, 0)
            if unexplained > 0:
                key = self._known.get(signer)
                name = (key.name or key.principal_id) if key else signer
                self.add(
                    Severity.NOTE if partial else Severity.ERROR,
                    "chain_gap",
                    "",
                    f"{unexplained} things that {name} signed here are not shown.",
                )


def _link(signature: Signature) -> Link:
    return Link(signature.signer, signature.at, signature.chain, signature.link, signature.previous)
