"""What evidence makes of a session: its state, how we are attached, and what can be done with it."""

from dataclasses import replace

import pytest

from ekiden.host.liveness import Evidence, standing
from ekiden.kernel.limits import LOST_SHOWN_S, WRITER_PROOF_S
from ekiden.sessions.wire import Rung, SessionState
from ekiden.transcript.reading import Drift
from ekiden.vendors.port import Owner

NOW = 1_800_000_000.0
QUIET = Evidence(now=NOW, label="Line", modified_at=NOW - 10 * LOST_SHOWN_S)
OPEN = replace(QUIET, turn_open=True, turn_id="trn_1")
HELD = Owner(4711, NOW - 60, "Line in a terminal", evidence="its lock file")
OURS = replace(QUIET, owned=True, owned_pid=42)

STATES = {
    "nothing happens": (QUIET, SessionState.IDLE, Rung.FILE, 1),
    "an open turn of long ago": (OPEN, SessionState.IDLE, Rung.FILE, 1),
    "an open turn of just now, unseen": (replace(OPEN, modified_at=NOW - 5), SessionState.LOST, Rung.FILE, 1),
    "an open turn that is being written": (replace(OPEN, grew_at=NOW - 1), SessionState.RUNNING, Rung.FILE, 1),
    "the last bytes are barely a proof": (
        replace(OPEN, grew_at=NOW - WRITER_PROOF_S), SessionState.RUNNING, Rung.FILE, 1,
    ),
    "the last bytes are no proof any more": (
        replace(OPEN, grew_at=NOW - WRITER_PROOF_S - 1), SessionState.LOST, Rung.FILE, 1,
    ),
    "a proof of an earlier look keeps it lost": (
        replace(OPEN, proof_at=NOW - 100 * LOST_SHOWN_S), SessionState.LOST, Rung.FILE, 1,
    ),
    "growth without an open turn": (replace(QUIET, grew_at=NOW), SessionState.IDLE, Rung.FILE, 1),
    "the file is gone": (replace(OPEN, file_there=False, grew_at=NOW), SessionState.GONE, Rung.FILE, 1),
    "held, and it says that it works": (
        replace(QUIET, owner=replace(HELD, busy=True)), SessionState.RUNNING, Rung.HELD, 1,
    ),
    "held, and it says that it rests": (
        replace(OPEN, owner=replace(HELD, busy=False), grew_at=NOW), SessionState.IDLE, Rung.HELD, 1,
    ),
    "held, and only the file says": (replace(OPEN, owner=HELD), SessionState.RUNNING, Rung.HELD, 1),
    "held, and it asks its own person": (
        replace(OPEN, owner=replace(HELD, waits_for="permission prompt")), SessionState.WAITING, Rung.HELD, 1,
    ),
    "ours, and quiet": (OURS, SessionState.IDLE, Rung.OWNED, 2),
    "ours, whatever the file says": (replace(OURS, turn_open=True, grew_at=NOW), SessionState.IDLE, Rung.OWNED, 2),
    "ours, in a turn": (replace(OURS, owned_turn="trn_2"), SessionState.RUNNING, Rung.OWNED, 2),
    "ours, in a turn that asks": (
        replace(OURS, owned_turn="trn_2", asks=True), SessionState.WAITING, Rung.OWNED, 2,
    ),
    "ours, no process up": (replace(QUIET, owned=True), SessionState.IDLE, Rung.FILE, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", STATES, ids=str)
def test_state_and_rung_follow_from_evidence(case: str) -> None:
    """Running only while a writer is proven alive; lost where it was and is no more; never a guess."""
    known, state, rung, level = STATES[case]
    stand = standing(known)
    assert (stand.state, stand.rung, stand.level) == (state, rung, level)
    assert stand.evidence
    assert (stand.holder is not None) == (rung is Rung.HELD)


def whys(known: Evidence) -> dict[str, str]:
    stand = standing(known)
    assert all(ability.can == (not ability.why) for ability in stand.abilities)
    return {ability.name: ability.why for ability in stand.abilities}


ALL = {
    "see_text", "see_items", "approve", "interrupt", "queue", "steer", "continue", "fork", "quote", "search",
}  # fmt: skip
OTHERS = dict.fromkeys(("see_text", "approve", "interrupt", "queue", "steer"), "not_owned")
ABILITIES = {
    "a mirrored session": (QUIET, OTHERS),
    "held elsewhere": (
        replace(QUIET, owner=HELD),
        dict.fromkeys(("see_text", "approve", "interrupt", "queue", "steer", "continue"), "held_elsewhere"),
    ),
    "ours, and quiet": (OURS, {"continue": "already_owned", "interrupt": "no_turn", "steer": "no_turn"}),
    "ours, in a turn": (replace(OURS, owned_turn="trn_2", asks=True), {"continue": "already_owned"}),
    "ours, no process up": (
        replace(QUIET, owned=True), {"see_text": "not_owned", "interrupt": "no_turn", "steer": "no_turn"},
    ),
    "ours, and somebody else writes": (
        replace(OURS, owned_turn="trn_2", foreign="Another program writes."),
        dict.fromkeys(("approve", "interrupt", "queue", "steer", "continue"), "held_elsewhere"),
    ),
    "the file is gone, a copy is there": (
        replace(QUIET, file_there=False), {**OTHERS, "continue": "source_gone", "fork": "source_gone"},
    ),
    "the file is gone, and no copy": (
        replace(QUIET, file_there=False, copied=False),
        {
            **OTHERS,
            **dict.fromkeys(("continue", "fork", "see_items", "quote"), "source_gone"),
            "search": "not_indexed",
        },
    ),
    "its program is not installed": (
        replace(QUIET, installed=False), {**OTHERS, **dict.fromkeys(("continue", "fork"), "vendor_not_installed")},
    ),
    "of a form that nobody knows": (
        replace(QUIET, drift=Drift.NOTHING_PARSED),
        {**OTHERS, **dict.fromkeys(("see_items", "quote", "search"), "unknown_format")},
    ),
    "with some rows that nobody knows": (replace(QUIET, drift=Drift.UNKNOWN_ROWS), OTHERS),
}  # fmt: skip


@pytest.mark.parametrize("case", ABILITIES, ids=str)
def test_each_ability_is_there_or_says_why_not(case: str) -> None:
    """All of them are named each time, and nothing is offered that would be refused."""
    known, refused = ABILITIES[case]
    assert whys(known) == {**dict.fromkeys(ALL, ""), **refused}


def test_a_holder_is_named_with_every_refusal_that_is_due_to_it() -> None:
    stand = standing(replace(QUIET, owner=HELD))
    assert stand.holder is not None
    assert (stand.holder.pid, stand.holder.program) == (4711, "Line in a terminal")
    refused = {ability.detail for ability in stand.abilities if ability.why == "held_elsewhere"}
    assert refused == {"Line in a terminal (pid 4711)"}


@pytest.mark.parametrize("age_s", [0.0, 1.0, WRITER_PROOF_S, WRITER_PROOF_S + 1, 10 * LOST_SHOWN_S])
def test_the_time_of_proof_is_of_what_was_seen(age_s: float) -> None:
    """Never later than the bytes that it rests on."""
    assert standing(replace(OPEN, grew_at=NOW - age_s)).proof_at == NOW - age_s
