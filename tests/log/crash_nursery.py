"""Forks hubs that write until they are killed. Started by the crash test; speaks lines on its standard streams.

In: a JSON object `{"path", "life", "again"}`: one life. `again` are command ids that an earlier life did not get
an answer for. Out: `born PID`, then the life's own lines `ack ID SEQ REPEATED` as answers come, then `died`.
Everything is imported before the fork, so that a life begins within milliseconds.
"""

import asyncio
import itertools
import json
import os
import sys
from typing import Any

from ekiden.kernel.clock import SystemClock
from ekiden.log import postgres_open
from ekiden.log.open import open_log
from ekiden.log.port import Actor, Command

assert postgres_open  # imported before the fork, as all is
CALLERS = 16
TEAM = "tem_1"
WHO = Actor("pri_1")


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


async def live(path: str, life: int, again: list[str]) -> None:
    log = await open_log(path, clock=SystemClock(), queries={})
    waiting = iter(again)
    fresh = itertools.count()

    async def caller() -> None:
        while True:
            command_id = next(waiting, None) or f"{life}-{next(fresh)}"
            say(f"sent {command_id}")

            async def verb(tx: Any, command_id: str = command_id) -> str:
                tx.append("test.said", {"id": command_id, "pad": "x" * 300}, topics=("team",), actor=WHO)
                return command_id

            written = await log.write(TEAM, verb, command=Command(command_id, "pri_1", "d"))
            assert written.answer == f'"{command_id}"'.encode()
            say(f"ack {command_id} {written.seq} {int(written.repeated)}")

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        pid = os.fork()
        if not pid:
            try:
                asyncio.run(live(order["path"], order["life"], order["again"]))
            finally:
                os._exit(1)
        say(f"born {pid}")
        os.waitpid(pid, 0)
        say("died")


if __name__ == "__main__":
    main()
