"""Runs the checks against one relay and says how each came out."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ekiden.testing.relay import bounds, defects, rights, sealed, signed, streams, talk
from ekiden.testing.relay.checks import Check, Kit
from ekiden.testing.relay.door import Door

CHECKS: tuple[Check, ...] = (
    *defects.CHECKS,
    *rights.CHECKS,
    *talk.CHECKS,
    *streams.CHECKS,
    *bounds.CHECKS,
    *sealed.CHECKS,
    *signed.CHECKS,
)
"""All of the kit, in the order in which they are run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a check came out; `problem` is empty if it held."""

    check: Check
    problem: str = ""


def run(url: str, key: str, *, only: Iterable[str] = ()) -> Iterator[Outcome]:
    """Runs all checks, or those with these names, one after the other. `key` must have all rights."""
    wanted = set(only)
    for check in CHECKS:
        if wanted and check.name not in wanted:
            continue
        try:
            carry_out(check, url, key)
        except Exception as error:  # whatever goes wrong in a check is how it came out
            yield Outcome(check, f"{type(error).__name__}: {error}")
        else:
            yield Outcome(check)


def carry_out(check: Check, url: str, key: str) -> None:
    """Runs one check.

    Raises:
        Failed: if the relay does not keep it; or whatever else went wrong.
    """
    kit = Kit(Door(url, key))
    try:
        check.run(kit)
    finally:
        kit.put_away()
