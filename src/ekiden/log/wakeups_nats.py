"""Wake-ups over NATS: after a commit, the team and its head; nothing is lost with one that is lost.

Same shape as `ekiden.log.wakeups`: `publish` is cheap and never waits, `subscribe` hands every wake-up of other
nodes to a callback on the event loop. What was missed while NATS was away is found by each node's slow look.
"""

from collections.abc import Callable

from ekiden.log.nats_link import NatsLink

Woken = Callable[[str, int], None]


class NatsWakeups:
    """See `wakeups.Wakeups`. Of one hub, named by its log's id."""

    def __init__(self, url: str) -> None:
        self._subject = ""
        self._link = NatsLink(url, name="ekiden-wakeups")
        self._woken: list[Woken] = []

    @property
    def connected(self) -> bool:
        """Whether NATS is there at this moment."""
        return self._link.connected

    async def open(self, log_id: str) -> None:
        """Begins to carry; before, nothing is told. `log_id` is known once the log is open.

        Raises:
            Unavailable: if the client for NATS is not installed.
        """
        self._subject = f"ekiden.{log_id}.wake"
        self._link.subscribe(self._subject, self._take)
        await self._link.open(wait_s=0)  # nothing depends on the first of them

    def publish(self, team_id: str, seq: int) -> None:
        """Says that the team's log has reached `seq`."""
        self._link.publish(self._subject, b"%b %d" % (team_id.encode(), seq))

    def subscribe(self, callback: Woken) -> None:
        """Calls `callback` with (team id, seq) of each wake-up."""
        self._woken.append(callback)

    def _take(self, data: bytes) -> None:
        team_id, _, seq = data.partition(b" ")
        if seq.isdigit() and len(seq) < 20:
            self._wake(team_id.decode("ascii", "replace"), int(seq))

    def _wake(self, team_id: str, seq: int) -> None:
        for woken in self._woken:
            woken(team_id, seq)

    async def close(self) -> None:
        """Ends the link."""
        await self._link.close()
