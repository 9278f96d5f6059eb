"""Keeping this computer's host at work: a host that fails is started again, and the hub beside it goes on.

What a person must settle (another host has the folder, a newer Ekiden wrote it, a setting is wrong, the hub does
not know the key) is not tried again: it ends `kept` with its reason.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from ekiden.kernel.errors import Forbidden, Invalid, StoreHeld, StoreNewer, Unauthenticated
from ekiden.kernel.limits import HOST_RESTART_S, HOST_RESTART_S_MAX, HOST_STEADY_S

_log = logging.getLogger(__name__)
TURNED_AWAY = (Unauthenticated, Forbidden)
"""The hub does not let the host in any more."""
_SETTLED_BY_PEOPLE = (Invalid, StoreHeld, StoreNewer, *TURNED_AWAY)


async def kept(
    run: Callable[[], Awaitable[None]],
    tell: Callable[[str], None],
    *,
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Runs a host until cancelled. After a failure it waits, `HOST_RESTART_S` and then twice as long each
    time up to `HOST_RESTART_S_MAX`, and runs it again; one that worked for `HOST_STEADY_S` counts as well again.
    `tell` gets a line for people at each failure.

    Raises:
        Invalid, StoreHeld, StoreNewer, Unauthenticated, Forbidden: what only a person can settle.
    """
    wait_s = HOST_RESTART_S
    while True:
        began = clock()
        why = "it ended by itself"
        try:
            await run()
        except _SETTLED_BY_PEOPLE:
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            _log.exception("This computer's host failed.")
        if clock() - began >= HOST_STEADY_S:
            wait_s = HOST_RESTART_S
        tell(f"This computer's host failed ({why}); it starts again in {wait_s:g} s.")
        await wait(wait_s)
        wait_s = min(wait_s * 2, HOST_RESTART_S_MAX)
