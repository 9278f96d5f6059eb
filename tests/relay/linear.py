"""Whether what concurrent clients saw could have happened one after the other.

A search after Wing and Gong ("Testing and verifying concurrent objects", 1993) with Lowe's memory of states that
were reached: the next in order may be any operation that was called before the first of those that remain
returned, if the model then gives the answer that was seen.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True)
class Operation:
    """One call as its client saw it; times are of one clock."""

    called_at: float
    returned_at: float
    asked: Any
    answer: Any


def linearizable(
    history: Sequence[Operation], first: State, allows: Callable[[State, Any, Any], State | None]
) -> bool:
    """Whether there is an order. `allows(state, asked, answer)` is the state after an operation, None if it
    could not have been answered so."""
    operations = sorted(history, key=lambda one: one.called_at)
    everything = (1 << len(operations)) - 1
    seen: set[tuple[int, Any]] = set()
    waiting: list[tuple[int, State]] = [(0, first)]
    while waiting:
        done, state = waiting.pop()
        if done == everything:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        remaining = [place for place in range(len(operations)) if not done >> place & 1]
        before = min(operations[place].returned_at for place in remaining)
        for place in remaining:
            one = operations[place]
            if one.called_at > before:
                break
            after = allows(state, one.asked, one.answer)
            if after is not None:
                waiting.append((done | 1 << place, after))
    return False
