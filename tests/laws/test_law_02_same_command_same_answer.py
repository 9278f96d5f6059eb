"""Law 2: the same command id with the same body gets the same answer; with another body a 422. In flight: 409."""

import asyncio
import random

import pytest

from ekiden.kernel.errors import CommandInFlight, CommandReused, Conflict
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Command
from ekiden.testing.clock import StillClock

pytestmark = pytest.mark.anyio

WHO = Actor("pri_1")


def does(text):
    async def verb(tx):
        if text == "refused":
            raise Conflict("No.")
        return {"text": text, "seq": tx.append("test.said", {"text": text}, topics=["team"], actor=WHO)}

    return verb


async def test_however_often_and_from_wherever_a_command_comes_it_is_carried_out_once(log_place):
    """Many clients send few commands again and again at once, over several lives of the hub."""
    chance = random.Random(7)
    answers: dict[str, bytes] = {}
    statuses = set()

    async def client(log):
        for _ in range(30):
            name = str(chance.randrange(12))
            body = chance.choice([name, name, name, "other", "refused"])
            digest = "refused" if body == "refused" else body
            try:
                written = await log.write("tem_1", does(body), command=Command(name, "pri_1", digest))
            except (CommandReused, CommandInFlight, Conflict) as error:
                statuses.add((type(error), error.status))
                continue
            assert answers.setdefault(name, written.answer) == written.answer

    for _ in range(3):
        log = await open_log(log_place, clock=StillClock(), queries={})
        await asyncio.gather(*(client(log) for _ in range(8)))
        events = await log.events("tem_1", 0, limit=1000)
        assert len(events) == len(answers) == 12
        await log.close()
    assert statuses == {(CommandReused, 422), (CommandInFlight, 409), (Conflict, 409)}
