"""Two of a kind on different engines that are told the same: whatever one answers, refuses, tells or shows must be
what the other does, down to the last byte."""

import asyncio
import inspect
import os
import random
from typing import Any

import hypothesis
import msgspec


class Twins:
    """Stands for both. A coroutine function of theirs runs on each, at the same time, and its outcome is compared;
    everything else is the first one's. `compared` counts the outcomes."""

    def __init__(self, one: Any, other: Any) -> None:
        self.pair = (one, other)
        self.compared = 0

    def __getattr__(self, name: str) -> Any:
        one, other = (getattr(twin, name) for twin in self.pair)
        if not inspect.iscoroutinefunction(one):
            return one

        async def both(*arguments: Any, **named: Any) -> Any:
            outcomes = await asyncio.gather(
                one(*arguments, **named), other(*arguments, **named), return_exceptions=True
            )
            told, told_other = (plain(outcome) for outcome in outcomes)
            assert told == told_other, f"{name}: the engines differ"
            self.compared += 1
            if isinstance(outcomes[0], BaseException):
                raise outcomes[0]
            return outcomes[0]

        return both


def plain(outcome: Any) -> Any:
    """An outcome as what can be compared: an answer as its JSON, a refusal as its kind, words and all details."""
    if isinstance(outcome, BaseException):
        return type(outcome).__qualname__, str(outcome), vars(outcome)
    return msgspec.json.encode(outcome)


def seeded(case: Any) -> Any:
    """The test case of a state machine under a seed that is printed where it fails, and can be given again."""
    seed = int(os.environ.get("EKIDEN_TEST_SEED") or random.SystemRandom().getrandbits(32))

    class Seeded(case):
        def runTest(self) -> None:
            print(f"EKIDEN_TEST_SEED={seed}")
            super().runTest()

    Seeded.settings = case.settings
    return hypothesis.seed(seed)(Seeded)
