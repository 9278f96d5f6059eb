"""The shapes of the sessions room at the door: what hosts report, what clients ask and what everyone sees.

All times are RFC 3339 in UTC. Unknown fields are borne. The same structs are the bodies of events.
"""

from enum import StrEnum

import msgspec

from ekiden.transcript.items import Cut, Item, ItemKind, Struct


class SessionState(StrEnum):
    """What is known of a session now. `lost`: a turn was running and its writer can no longer be proven alive."""

    IDLE = "idle"
    RUNNING = "running"
    WAITING = "waiting"
    LOST = "lost"
    GONE = "gone"
    """The native file is gone; what the host copied of it can still be read."""


class Rung(StrEnum):
    """How we are attached, from evidence. Level 2 for owned, level 1 for the others."""

    OWNED = "owned"
    """A resident process of Ekiden's writes this session."""
    HELD = "held"
    """A live process outside Ekiden writes it; its file is followed."""
    FILE = "file"
    """Nobody writes it now; its file is followed, and it can be continued here."""


class Ability(Struct, frozen=True):
    """One thing that can or cannot be done with a session. `why` is a stable word when it cannot."""

    name: str
    """see_text, see_items, approve, interrupt, queue, steer, continue, fork, quote, search"""
    can: bool
    why: str = ""
    detail: str = ""


class Holder(Struct, frozen=True):
    """The live process outside Ekiden that writes a session."""

    pid: int
    program: str
    since: str
    evidence: str
    busy: bool | None = None
    waits_for: str = ""


class SessionReport(Struct, frozen=True):
    """A host's whole account of one session; a later one replaces it."""

    session_id: str
    """`derived_id(SESSION, host_id, vendor, native_id)`"""
    vendor: str
    native_id: str
    title: str = ""
    cwd: str = ""
    project: str = ""
    """The folder that sessions are grouped by: the git top level of `cwd` where it is known, else `cwd`."""
    git_branch: str = ""
    model: str = ""
    vendor_version: str = ""
    created_at: str = ""
    updated_at: str = ""
    state: SessionState = SessionState.IDLE
    turn_id: str = ""
    proof_at: str = ""
    """When the writer of a running turn was last proven alive."""
    rung: Rung = Rung.FILE
    level: int = 1
    evidence: str = ""
    holder: Holder | None = None
    abilities: tuple[Ability, ...] = ()
    parent_session_id: str = ""
    """For forks and quotes: the session that this one came from; `origin` says which."""
    origin: str = ""
    """Empty, `fork`, `quote` or `started` (made here)."""
    file: str = ""
    size: int = 0
    rows: int = 0
    messages: int = 0
    unknown_rows: int = 0
    unreadable_rows: int = 0
    drift: str = "none"
    notices: tuple[str, ...] = ()
    """Stable words for visible states: `source_gone`, `compressed`, `no_zstd`, `polling`, `copy_trimmed`, …"""


class FeedSession(Struct, frozen=True, tag="session", tag_field="entry"):
    """Insert or replace a session."""

    session: SessionReport


class FeedItems(Struct, frozen=True, tag="items", tag_field="entry"):
    """Whole items in file order. `after` must be the mark that the hub holds for the session (empty at first),
    else the entry is answered `stale` with the right mark and nothing is taken: so no line is told twice,
    however batches are cut. `after` = "*" is for items that have no native line (kept here). `thread` names the
    sub-agent whose file the items are of; each has a mark of its own beside the session's."""

    session_id: str
    items: tuple[Item, ...]
    after: str
    mark: str
    thread: str = ""


class FeedTurn(Struct, frozen=True, tag="turn", tag_field="entry"):
    """A turn began or ended. States: running, completed, interrupted, failed, lost."""

    session_id: str
    turn_id: str
    state: str
    reason: str = ""
    proof_at: str = ""


class FeedGrew(Struct, frozen=True, tag="grew", tag_field="entry"):
    """The `index`-th piece (from 0) of a growing item. `truncated`: the item grows on, but no more of it is told
    before it is whole."""

    session_id: str
    turn_id: str
    item_id: str
    kind: ItemKind
    index: int
    text: str
    truncated: bool = False


class FeedGrown(Struct, frozen=True, tag="grown", tag_field="entry"):
    """All of a growing item so far, of `count` pieces: told again to a hub that has started anew. A long text goes
    on in the pieces behind it. `truncated` as in `FeedGrew`."""

    session_id: str
    turn_id: str
    item_id: str
    kind: ItemKind
    count: int
    text: str
    truncated: bool = False


class ApprovalOption(Struct, frozen=True):
    """One answer that can be given; `kind` is allow_once, allow_always or deny."""

    id: str
    label: str
    kind: str


class Approval(Struct, frozen=True):
    """A running turn waits for a person. An answer is bound to exactly what is shown here (`digest`)."""

    approval_id: str
    session_id: str
    turn_id: str
    question: str
    title: str
    tool: str
    detail: msgspec.Raw = msgspec.Raw(b"null")
    command: str = ""
    cwd: str = ""
    diff: str = ""
    options: tuple[ApprovalOption, ...] = ()
    item_id: str = ""
    digest: str = ""
    state: str = "open"
    """open, answered (a person chose), settled (the runtime took it), withdrawn, unknown (its host was lost)"""
    asked_at: str = ""
    answer: str = ""
    answered_by: str = ""
    answered_by_id: str = ""
    answered_at: str = ""
    reason: str = ""
    message: str = ""
    """What the person adds for the agent (`AnswerApproval.message`)."""
    answers: msgspec.Raw = msgspec.Raw(b"null")
    """The person's answers to a question with fields (`AnswerApproval.answers`)."""
    cut: tuple[Cut, ...] = ()
    """What is too large to be shown whole; `digest` is of the whole."""


class FeedApproval(Struct, frozen=True, tag="approval", tag_field="entry"):
    """A turn asks. The same approval id told again changes nothing."""

    approval: Approval


class FeedApprovalEnd(Struct, frozen=True, tag="approval_end", tag_field="entry"):
    """What became of an approval at the runtime: settled, withdrawn or unknown."""

    approval_id: str
    state: str
    reason: str = ""


class FeedMessage(Struct, frozen=True, tag="message", tag_field="entry"):
    """What became of a queued message: placed, seen, failed, cancelled. `how`: new_turn, queued, steered."""

    message_id: str
    state: str
    turn_id: str = ""
    how: str = ""
    reason: str = ""


FeedEntry = (
    FeedSession | FeedItems | FeedTurn | FeedGrew | FeedGrown | FeedApproval | FeedApprovalEnd | FeedMessage
)


class Feed(Struct, frozen=True):
    """`POST /v1/hosts/{host_id}/feed`: at most FEED_ENTRIES_MAX entries, applied in order in one transaction."""

    entries: tuple[FeedEntry, ...]


class Stale(Struct, frozen=True):
    """An items entry that did not fit: the hub holds `mark` for this session, or for this `thread` of it."""

    session_id: str
    mark: str
    thread: str = ""


class Refused(Struct, frozen=True):
    """An entry that was not taken: its place in the feed (from 0), and why as a problem's code and sentence.
    Telling it again does not help; `not_found` for a session means that it must be reported first."""

    index: int
    code: str
    message: str


class FeedAnswer(Struct, frozen=True):
    """`boot_id` changes when the hub has started anew: then growing items are to be told again (`grown`).
    An entry in `stale` or `refused` was not taken; all others were."""

    seq: int
    boot_id: str = ""
    stale: tuple[Stale, ...] = ()
    refused: tuple[Refused, ...] = ()


class Message(Struct, frozen=True):
    """A message that a person sent to a session. States: stored, placed, seen, cancelled, failed."""

    message_id: str
    session_id: str
    text: str
    state: str
    sent_by: str
    sent_by_id: str
    sent_at: str
    steer: bool = False
    how: str = ""
    turn_id: str = ""
    reason: str = ""


class Session(Struct, frozen=True):
    """A session as clients see it: the host's report and what the hub knows itself."""

    report: SessionReport
    host_id: str
    host_name: str
    host_here: bool
    """Whether the host is connected now."""
    host_seen_at: str
    state: SessionState
    """As reported, but `lost` for a running turn of a host that is away."""
    approvals_open: int = 0
    messages_waiting: int = 0


class SessionCounts(Struct, frozen=True):
    """The body of `session.counted`: what is counted of a session, where nothing else of it has changed."""

    session_id: str
    approvals_open: int
    messages_waiting: int


class Growing(Struct, frozen=True):
    """An item that is still growing, as a late joiner gets it: all of `count` pieces."""

    session_id: str
    turn_id: str
    item_id: str
    kind: ItemKind
    count: int
    text: str
    truncated: bool = False


class SessionView(Struct, frozen=True):
    """One session with all that a screen needs beside its items. Follow from `cursor`. `messages` are not among
    the items yet, or failed. `seen` are the newest MESSAGES_SEEN_MAX that are: what became of each, as long as
    that is kept."""

    session: Session
    approvals: tuple[Approval, ...]
    messages: tuple[Message, ...]
    growing: tuple[Growing, ...]
    cursor: str
    seen: tuple[Message, ...] = ()


class SessionPage(Struct, frozen=True):
    """A page of the list, newest first. `next` is empty at the end. Follow from `cursor`."""

    sessions: tuple[Session, ...]
    next: str
    cursor: str
    total: int


class ItemPage(Struct, frozen=True):
    """Items in file order. `before` pages towards the beginning (empty there), `after` towards the end."""

    items: tuple[Item, ...]
    before: str
    after: str = ""
    total_lines: int | None = None
    from_copy: bool = False
    """The native file is gone: this is the host's own copy."""
    notices: tuple[str, ...] = ()


class RawLine(Struct, frozen=True):
    line: int
    start: int
    text: str
    cut_bytes: int = 0


class RawPage(Struct, frozen=True):
    """Lines of the native file as they are, for a form that cannot be read."""

    lines: tuple[RawLine, ...]
    before: str


class SearchHit(Struct, frozen=True):
    """A find: the session, the item, and the text around it with `matches` as (start, end) code points."""

    session_id: str
    item_id: str
    title: str
    at: str
    excerpt: str
    matches: tuple[tuple[int, int], ...] = ()


class SearchPage(Struct, frozen=True):
    hits: tuple[SearchHit, ...]
    next: str = ""
    indexed_share: float = 1.0
    """How much of the host's session bytes the index covers so far, 0 to 1."""
    away: tuple[str, ...] = ()
    """Names of hosts that could not be asked."""


class SendMessage(Struct, frozen=True):
    """`steer`: add to the running turn where the vendor can, instead of waiting for its end."""

    text: str
    message_id: str = ""
    """The client's own `msg_…`; made by the hub if empty."""
    steer: bool = False


class AnswerApproval(Struct, frozen=True):
    """`digest` must be the approval's own: it binds the answer to what was shown. `message` goes to the agent
    with a denial; `answers` to a question with fields."""

    option: str
    digest: str
    message: str = ""
    answers: msgspec.Raw | None = None


class Interrupt(Struct, frozen=True):
    """Stops the turn that the person sees, not a later one."""

    turn_id: str


class StartSession(Struct, frozen=True):
    """A new session. `message` may be empty; then the session waits for its first one."""

    host_id: str
    vendor: str
    cwd: str
    message: str = ""
    model: str = ""


class Quote(Struct, frozen=True):
    """A new session of `vendor` that begins with an attributed extract of this one. `message` is put after it.
    `items` are item ids; empty for the newest that fit."""

    vendor: str
    message: str = ""
    items: tuple[str, ...] = ()


class Carried(Struct, frozen=True):
    """The answer of continue, fork, quote and start: which session to look at now, and what was carried."""

    session_id: str
    verb: str
    carried: str = ""
    not_carried: tuple[str, ...] = ()


class VendorInfo(Struct, frozen=True):
    """A vendor as a host has it."""

    name: str
    label: str
    installed: bool
    version: str = ""
    sessions: int = 0
    can_start: bool = False
    notices: tuple[str, ...] = ()


class HostReport(Struct, frozen=True):
    """What a host says of itself when it connects and when it changes."""

    name: str
    platform: str
    ekiden_version: str
    vendors: tuple[VendorInfo, ...] = ()
    copy_bytes: int = 0
    copy_bytes_max: int = 0
    indexed_share: float = 0.0
    notices: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    """Folders that sessions were seen in, newest first: what the page offers for a new session."""


class Host(Struct, frozen=True):
    host_id: str
    report: HostReport
    here: bool
    seen_at: str


class Hosts(Struct, frozen=True):
    """`GET /v1/hosts`. Follow from `cursor`."""

    hosts: tuple[Host, ...]
    cursor: str


class Welcome(Struct, frozen=True):
    """The answer to a `HostReport`: the mark that the hub holds for each of the host's sessions that it knows
    (empty where no item came yet), by session id; and those of sub-agents' threads, by session id and thread."""

    boot_id: str
    marks: dict[str, str]
    threads: dict[str, dict[str, str]] = msgspec.field(default_factory=dict[str, dict[str, str]])


class InterruptAsked(Struct, frozen=True):
    """Somebody (`by`, a name) wants this turn to stop. The stop itself comes as a `turn.changed`."""

    session_id: str
    turn_id: str
    by: str = ""


class Work(Struct, frozen=True):
    """What a host still has to do, each in the order in which it was asked. Follow from `cursor`."""

    messages: tuple[Message, ...]
    """Stored, not placed yet."""
    approvals: tuple[Approval, ...]
    """Answered, and the runtime has not been seen to take it."""
    interrupts: tuple[InterruptAsked, ...]
    """Of turns that are not seen to have ended."""
    cursor: str


class InboxEntry(Struct, frozen=True):
    """Something that waits for me. `kind`: approval, pairing, lost, held."""

    kind: str
    id: str
    title: str
    at: str
    session: Session | None = None
    approval: Approval | None = None
    detail: str = ""


class Inbox(Struct, frozen=True):
    entries: tuple[InboxEntry, ...]
    running: tuple[Session, ...]
    cursor: str
