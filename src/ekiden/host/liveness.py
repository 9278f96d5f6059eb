"""What a session is now, from evidence: its state, how we are attached, and what can be done with it. Pure.

A turn counts as running only while its writer is proven alive: our own process, a live process that the vendor's
own registry or lock names, or bytes that arrived just now. Else it is `lost`, with the time of the last proof.
"""

from dataclasses import dataclass

from ekiden.kernel.clock import iso
from ekiden.kernel.limits import LOST_SHOWN_S, WRITER_PROOF_S
from ekiden.sessions.wire import Ability, Holder, Rung, SessionState
from ekiden.transcript.reading import Drift
from ekiden.vendors.port import Owner


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known of one session at `now` (seconds since the epoch; 0 means never)."""

    now: float
    label: str
    """The vendor's name for people."""
    installed: bool = True
    can_start: bool = True
    owned_pid: int = 0
    """Our own resident process, 0 if there is none."""
    owned: bool = False
    """The session belongs to Ekiden until it is released, whether or not a process is up."""
    owned_turn: str = ""
    """The turn that our process runs; empty if none."""
    asks: bool = False
    """Our turn waits for an answer."""
    foreign: str = ""
    """Why our ownership is in doubt: somebody else wrote to the file."""
    owner: Owner | None = None
    file_there: bool = True
    copied: bool = True
    turn_open: bool = False
    turn_id: str = ""
    grew_at: float = 0.0
    """When bytes arrived while we watched."""
    modified_at: float = 0.0
    proof_at: float = 0.0
    """The last proof of an earlier look."""
    drift: Drift = Drift.NONE


@dataclass(frozen=True, slots=True)
class Standing:
    """The answer."""

    state: SessionState
    rung: Rung
    level: int
    turn_id: str
    proof_at: float
    evidence: str
    holder: Holder | None
    abilities: tuple[Ability, ...]


def standing(known: Evidence) -> Standing:
    """Weighs the evidence."""
    if known.owned_pid:
        state = SessionState.IDLE
        if known.owned_turn:
            state = SessionState.WAITING if known.asks else SessionState.RUNNING
        return Standing(
            state,
            Rung.OWNED,
            2,
            known.owned_turn or known.turn_id,
            known.now if known.owned_turn else known.proof_at,
            f"Ekiden runs {known.label} for this session (pid {known.owned_pid}).",
            None,
            _abilities(known, Rung.OWNED),
        )
    owner = known.owner
    if owner is not None:
        holder = Holder(
            pid=owner.pid,
            program=owner.program,
            since=iso(owner.started_at),
            evidence=owner.evidence,
            busy=owner.busy,
            waits_for=owner.waits_for,
        )
        busy = known.turn_open if owner.busy is None else owner.busy
        state = SessionState.RUNNING if busy else SessionState.IDLE
        if owner.waits_for:
            state = SessionState.WAITING
        proof = known.now if state is not SessionState.IDLE else known.proof_at
        evidence = f"{owner.program} (pid {owner.pid}) has this session: {owner.evidence or 'it is alive'}."
        return Standing(state, Rung.HELD, 1, known.turn_id, proof, evidence, holder, _abilities(known, Rung.HELD))
    state, proof, evidence = _without_owner(known)
    return Standing(state, Rung.FILE, 1, known.turn_id, proof, evidence, None, _abilities(known, Rung.FILE))


def _without_owner(known: Evidence) -> tuple[SessionState, float, str]:
    if not known.file_there:
        return (
            SessionState.GONE,
            known.proof_at,
            "The session's file is gone; this is the copy that was made of it.",
        )
    if not known.turn_open:
        return SessionState.IDLE, known.proof_at, "No live process is known to write this session."
    if known.grew_at and known.now - known.grew_at <= WRITER_PROOF_S:
        return SessionState.RUNNING, known.grew_at, "The file is growing; its writer is not known."
    proof = max(known.proof_at, known.grew_at)
    if proof or known.now - known.modified_at <= LOST_SHOWN_S:
        at = proof or known.modified_at
        return (
            SessionState.LOST,
            at,
            f"A turn has begun and not ended, and nobody was seen writing since {iso(at)}.",
        )
    return SessionState.IDLE, 0.0, "Its last turn has no recorded end; no process that could write it is alive."


def _abilities(known: Evidence, rung: Rung) -> tuple[Ability, ...]:
    """Each of `wire.Ability.name`, with the reason where it cannot be done."""
    readable = known.file_there or known.copied
    start_why = "" if known.installed and known.can_start else "vendor_not_installed"
    form_why = "unknown_format" if known.drift is Drift.NOTHING_PARSED else ""
    read_why = form_why or ("" if readable else "source_gone")
    taken_why = ""
    if known.foreign or rung is Rung.HELD:
        taken_why = "held_elsewhere"
    mine = rung is Rung.OWNED or (known.owned and rung is Rung.FILE)
    write_why = taken_why or ("" if mine else "not_owned") or start_why
    turn_why = write_why or ("" if known.owned_turn else "no_turn")
    if rung is Rung.OWNED and not known.foreign:
        continue_why = "already_owned"
    else:
        continue_why = taken_why or ("" if known.file_there else "source_gone") or start_why
    whys = {
        "see_text": "" if rung is Rung.OWNED else (taken_why or "not_owned"),
        "see_items": read_why,
        "approve": write_why if not known.asks else "",
        "interrupt": turn_why,
        "queue": write_why,
        "steer": turn_why,
        "continue": continue_why,
        "fork": ("" if known.file_there else "source_gone") or start_why,
        "quote": read_why,
        "search": "" if known.copied and not form_why else (form_why or "not_indexed"),
    }
    detail = ""
    if taken_why and known.owner is not None:
        detail = f"{known.owner.program} (pid {known.owner.pid})"
    elif known.foreign:
        detail = known.foreign
    return tuple(
        Ability(name=name, can=not why, why=why, detail=detail if why == "held_elsewhere" else "")
        for name, why in whys.items()
    )
