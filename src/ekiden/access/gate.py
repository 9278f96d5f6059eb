"""The access room as the door asks it, over a log: who a key belongs to, what it may, what was refused.

The door may keep an `Identity` for up to `KEY_USED_EVERY_S` (so that the dates of use stay true) and must drop it
on `key.revoked` on the topic `access`.
"""

from collections.abc import Sequence

from ekiden.access import rights, rules, verbs
from ekiden.access.keys import MadeKey
from ekiden.access.rights import Permissions
from ekiden.access.rules import Identity
from ekiden.access.secrets import new_key
from ekiden.access.verbs import RefusedRequest
from ekiden.kernel import limits
from ekiden.kernel.clock import Clock, iso
from ekiden.kernel.errors import TooMany, Unauthenticated, Unavailable
from ekiden.kernel.ids import Prefix, derived_id
from ekiden.log.port import Log, Reading, Transaction

_DAY_S = 24 * 3600.0


class AccessGate:
    """Answers the door's questions for one hub."""

    def __init__(self, log: Log, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._day_began = clock.monotonic()
        self._told_today = 0
        self._untold = 0

    async def identify(self, key: str) -> Identity:
        """Who this key belongs to; notes, coarsely, that it is in use.

        Raises:
            Unauthenticated: if it is not known, has ended or was revoked.
        """
        now = self._clock.now()

        async def question(reading: Reading) -> Identity:
            return await verbs.identify(reading, key, now=iso(now))

        identity: Identity = await self._log.ask("", question)
        used_at = rules.seconds_of(identity.used_at)
        if used_at is None or now - used_at >= limits.KEY_USED_EVERY_S:
            await self._note_used(identity)
        return identity

    def allows(self, permissions: Permissions, verb: str, resource: str) -> bool:
        """Whether a permission map allows `verb` on `resource`. Pure."""
        return rights.allows(permissions, verb, resource)

    async def record(self, refusals: Sequence[RefusedRequest], dropped: int) -> None:
        """Puts refused requests into the audit trail; `dropped` more were over the door's bound per minute.

        At most `REFUSALS_RECORDED_PER_DAY_MAX` are told in a day, so that whoever knocks for weeks does not fill
        the disk; how many more there were is told with the first that is told again.
        """
        now = self._clock.monotonic()
        if now - self._day_began >= _DAY_S:
            self._day_began, self._told_today = now, 0
        told = list(refusals[: max(0, limits.REFUSALS_RECORDED_PER_DAY_MAX - self._told_today)])
        self._untold += dropped + len(refusals) - len(told)
        if not told:
            return
        untold, self._untold = self._untold, 0
        self._told_today += len(told)
        teams = dict.fromkeys(getattr(refusal, "team_id", "") for refusal in told)
        for team_id in teams:
            of_team = [refusal for refusal in told if getattr(refusal, "team_id", "") == team_id]

            async def verb(tx: Transaction, of_team: list[RefusedRequest] = of_team, untold: int = untold) -> None:
                await verbs.note_refusals(tx, of_team, untold)

            await self._log.write(team_id or await home_team_of(self._log), verb)
            untold = 0

    async def _note_used(self, identity: Identity) -> None:
        async def verb(tx: Transaction) -> bool:
            return await verbs.note_used(tx, identity.key_id)

        try:
            await self._log.write(identity.team_id, verb)
        except (Unavailable, TooMany):
            # Reading must go on while the disk is full; the next use is dated instead.
            return


async def home_team_of(log: Log) -> str:
    """The id of the team that this hub serves, "" before its first start."""

    async def question(reading: Reading) -> str:
        return await verbs.home_team(reading)

    return await log.ask("", question)


async def open_home(log: Log, clock: Clock, *, local_key: str = "", alone: bool = True) -> tuple[str, str]:
    """Makes sure that the hub has a team, an owner and a key for this computer's command line.

    `local_key` is what the key file holds, "" if there is none. Returns (team id, key): the key is `local_key`
    again if it is still valid, else a new one, to be put into the key file (mode 0600); it is nowhere else.
    `alone` is false where other nodes may use the same log, and may start for the first time at this very moment.
    """
    if local_key:
        now = iso(clock.now())

        async def question(reading: Reading) -> Identity:
            return await verbs.identify(reading, local_key, now=now)

        try:
            identity: Identity = await log.ask("", question)
        except Unauthenticated:
            pass  # lost, revoked, or of a database that was there before
        else:
            return identity.team_id, local_key
    team_id = await home_team_of(log) or derived_id(Prefix.TEAM, log.log_id)
    key = new_key()

    async def verb(tx: Transaction) -> MadeKey:
        return await verbs.bootstrap(tx, secret_digest=key.digest, alone=alone)

    await log.write(team_id, verb)
    return team_id, key.text
