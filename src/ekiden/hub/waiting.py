"""A node whose database is away when it starts: it does not give up, and it says at its port what it waits for.

Everything that is asked meanwhile, `/healthz` and `/readyz` too, is answered 503 with the reason. There is no end
to the waiting but the one that whoever started the node makes; the pauses grow to `START_RETRY_S_MAX`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import msgspec

from ekiden.hub.app import Hub
from ekiden.hub.asgi import Receive, Scope, Send
from ekiden.hub.problems import problem_of
from ekiden.hub.responses import PROBLEM
from ekiden.hub.serve import answering
from ekiden.hub.settings import Settings
from ekiden.kernel.errors import StoreAway
from ekiden.kernel.limits import START_RETRY_S, START_RETRY_S_MAX


async def opened(
    settings: Settings, open_hub: Callable[[], Awaitable[Hub]], *, tell: Callable[[str], None]
) -> Hub:
    """What `open_hub` gives, once the database is there. `tell` hears each reason to wait, once.

    Raises:
        EkidenError: for what does not pass by itself.
    """
    try:
        return await open_hub()
    except StoreAway as away:
        door = _WaitingDoor(away)
    tell(_waits_for(door.away))
    hub: Hub | None = None
    try:
        async with AsyncExitStack() as stack:
            if settings.port:  # a port that the system chooses is known to nobody yet
                await stack.enter_async_context(answering(door, settings.address, settings.port))
            pause_s = START_RETRY_S
            while hub is None:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, START_RETRY_S_MAX)
                try:
                    hub = await open_hub()
                except StoreAway as away:
                    if away.message != door.away.message:
                        tell(_waits_for(away))
                    door.away = away
    except BaseException:
        if hub is not None:
            await hub.stop()
        raise
    return hub


def _waits_for(away: StoreAway) -> str:
    return f"{away.message} The hub starts as soon as it answers. {away.hint}"


class _WaitingDoor:
    """Answers everything with why there is nothing yet."""

    def __init__(self, away: StoreAway) -> None:
        self.away = away

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        body = msgspec.json.encode(problem_of(self.away))
        head = [
            *PROBLEM,
            (b"content-length", b"%d" % len(body)),
            (b"retry-after", b"1"),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": self.away.status, "headers": head})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
