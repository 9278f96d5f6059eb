"""The sessions of this computer as the host holds them, and the report of each."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ekiden.host.follow import Tail
from ekiden.host.liveness import Evidence, standing
from ekiden.host.projects import Projects
from ekiden.host.store import FileRow
from ekiden.host.unpacked import CUT_FRAME
from ekiden.kernel import canonical
from ekiden.kernel.clock import iso
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.sessions.wire import SessionReport, SessionState
from ekiden.transcript.reading import Drift, Facts
from ekiden.vendors.port import Owner, Vendor

_TITLE_CHARS_MAX = 200
UNREADABLE_NOW = "unreadable_now"
"""Notice: a file of the session could not be read; that is tried again at each look at the store."""
_UNREAD = (UNREADABLE_NOW, CUT_FRAME)
"""A session of which nothing can be read is listed, so that this is seen."""
_LAST_WORDS_S = 2.0


def session_id_of(host_id: str, vendor: str, native_id: str) -> str:
    """The id of a native session; joins what is mirrored with what is owned."""
    return derived_id(Prefix.SESSION, host_id, vendor, native_id)


@dataclass(slots=True)
class Ownership:
    """What the supervisor knows of a session that belongs to Ekiden."""

    pid: int = 0
    turn_id: str = ""
    asks: bool = False
    foreign: str = ""
    released: bool = False


@dataclass(slots=True)
class Followed:
    """One native file of a session, and how far the hub was told of it."""

    session_id: str
    vendor: Vendor
    native_id: str
    thread: str = ""
    """Empty for the session's main file; else the sub-agent whose file it is."""
    row: FileRow | None = None
    """None for an owned session that has not written its file yet."""
    tail: Tail | None = None
    hub_mark: str = ""
    """What the hub holds."""

    @property
    def key(self) -> tuple[str, str]:
        return (self.session_id, self.thread)


@dataclass(slots=True)
class Tracked(Followed):
    """One session: its main file, and those of its sub-agents."""

    threads: dict[str, Followed] = field(default_factory=dict[str, Followed])
    facts: Facts = field(default_factory=Facts)
    """The newest that is known: from the store, then from following."""
    title: str = ""
    """Kept by the vendor outside the file."""
    given_title: str = ""
    """What the session was begun with here, until the vendor or the file has a title."""
    grew_at: float = 0.0
    proof_at: float = 0.0
    owner: Owner | None = None
    ownership: Ownership | None = None
    origin: str = ""
    parent_session_id: str = ""
    cwd: str = ""
    model: str = ""
    notices: set[str] = field(default_factory=set[str])
    told_core: str = ""
    told_whole: str = ""
    known_to_hub: bool = False
    provisional_of: tuple[int, int] = (0, 0)
    over_at: float = 0.0
    """When our own process for it ended: a turn that the file leaves open before that runs no more."""

    @property
    def file_there(self) -> bool:
        return self.row is not None and not self.row.gone_at

    @property
    def shown_title(self) -> str:
        """The best title there is, not shortened."""
        return self.title or self.facts.title or self.given_title or self.facts.first_prompt

    def followed(self, thread: str) -> Followed:
        """The main file for an empty `thread`, else the sub-agent's; made if it is not known yet."""
        if not thread:
            return self
        known = self.threads.get(thread)
        if known is None:
            known = self.threads[thread] = Followed(self.session_id, self.vendor, self.native_id, thread)
        return known

    @property
    def begun_here(self) -> bool:
        """Whether Ekiden made the session, so that nothing of it is older than its owner."""
        return bool(self.origin)

    @property
    def listed(self) -> bool:
        """Whether it is a session for people: helper runs, sub-agents' files and files without a message are
        not; a file that cannot be read is, so that it is seen."""
        if self.row is not None and self.row.deleted_at:
            return False
        if self.ownership is not None or self.origin:
            return True
        facts = self.facts
        if facts.is_helper or facts.is_subagent:
            return False
        unread = facts.drift is not Drift.NONE or not self.notices.isdisjoint(_UNREAD)
        return bool(facts.messages or facts.first_prompt or unread or self.known_to_hub)


def report_of(tracked: Tracked, projects: Projects, *, installed: bool, extra: frozenset[str]) -> SessionReport:
    """The whole account of one session now. `extra` are notices that hold for the whole host."""
    facts, row, now = tracked.facts, tracked.row, time.time()
    ownership = tracked.ownership
    stand = standing(
        Evidence(
            now=now,
            label=tracked.vendor.label,
            installed=installed,
            owned_pid=ownership.pid if ownership else 0,
            owned=ownership is not None and not ownership.released,
            owned_turn=ownership.turn_id if ownership else "",
            asks=ownership.asks if ownership else False,
            foreign=ownership.foreign if ownership else "",
            owner=tracked.owner,
            file_there=tracked.file_there or row is None,
            copied=row is None or not row.trimmed,
            turn_open=facts.turn_open and not _over(tracked),
            turn_id=facts.turn_id,
            grew_at=tracked.grew_at,
            modified_at=row.modified_at if row else 0.0,
            proof_at=tracked.proof_at,
            drift=facts.drift,
        )
    )
    if stand.state in (SessionState.RUNNING, SessionState.WAITING):
        tracked.proof_at = stand.proof_at
    elif stand.state is SessionState.IDLE:
        tracked.proof_at = 0.0
    notices = set(tracked.notices) | extra
    if row is not None:
        if row.gone_at:
            notices.add("source_gone")
        if row.compressed:
            notices.add("compressed")
        if row.trimmed:
            notices.add("copy_trimmed")
    if ownership is not None and ownership.foreign:
        notices.add("foreign_writer")
    cwd = facts.cwd or tracked.cwd
    title = tracked.shown_title
    return SessionReport(
        session_id=tracked.session_id,
        vendor=tracked.vendor.name,
        native_id=tracked.native_id,
        title=canonical.whole_text(" ".join(title.split())[:_TITLE_CHARS_MAX]),
        cwd=cwd,
        project=projects.of(cwd),
        git_branch=facts.git_branch,
        model=facts.model or tracked.model,
        vendor_version=facts.vendor_version,
        created_at=facts.created_at,
        updated_at=facts.updated_at or (iso(row.modified_at) if row else iso(now)),
        state=stand.state,
        turn_id=stand.turn_id,
        proof_at=iso(stand.proof_at) if stand.proof_at else "",
        rung=stand.rung,
        level=stand.level,
        evidence=stand.evidence,
        holder=stand.holder,
        abilities=stand.abilities,
        parent_session_id=tracked.parent_session_id,
        origin=tracked.origin,
        file=row.path if row else "",
        size=row.size if row else 0,
        rows=facts.rows,
        messages=facts.messages,
        unknown_rows=facts.unknown_rows,
        unreadable_rows=facts.unreadable_rows,
        drift=facts.drift.value,
        notices=tuple(sorted(notices)),
    )


def with_parent(
    report: SessionReport, tracked: Tracked, sessions: Mapping[tuple[str, str], Tracked]
) -> SessionReport:
    """The report with the session that a mirrored fork came from, where that is known here. One that Ekiden made
    says so itself."""
    if tracked.origin or tracked.ownership is not None or not tracked.facts.forked_from:
        return report
    parent = sessions.get((tracked.vendor.name, tracked.facts.forked_from))
    if parent is None or parent is tracked or not parent.listed:
        return report
    return msgspec.structs.replace(report, parent_session_id=parent.session_id, origin="fork")


def _over(tracked: Tracked) -> bool:
    written_at = max(tracked.grew_at, tracked.row.modified_at if tracked.row else 0.0)
    return bool(tracked.over_at) and written_at <= tracked.over_at + _LAST_WORDS_S


def digests(report: SessionReport) -> tuple[str, str]:
    """(of what is told at once when it changes, of the whole but the time of proof)."""
    whole = msgspec.structs.replace(report, proof_at="")
    core = msgspec.structs.replace(
        whole, size=0, rows=0, messages=0, unknown_rows=0, unreadable_rows=0, updated_at=""
    )
    return canonical.digest(core)[:24], canonical.digest(whole)[:24]
