"""Who calls: from a request's headers to the bearer of its key, known again without asking for a while.

What is known of a key is forgotten whenever any key changes, and no later than `KEY_USED_EVERY_S` after it was
asked for, so that the access room hears that a key is in use.
"""

from collections.abc import Mapping

from ekiden.hub.gate import Gate, Identity
from ekiden.hub.responses import cookie_key
from ekiden.kernel.clock import Clock
from ekiden.kernel.limits import IDENTITIES_KEPT_MAX, KEY_USED_EVERY_S


def key_of(headers: Mapping[bytes, bytes]) -> str:
    """The key that a request carries, in `Authorization: Bearer` or else in the page's cookie; or nothing."""
    authorization = headers.get(b"authorization")
    if authorization is None:
        return cookie_key(headers.get(b"cookie", b""))
    scheme, _, value = authorization.partition(b" ")
    return value.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""


class Callers:
    """The bearers of keys that called not long ago."""

    def __init__(self, gate: Gate, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._known: dict[str, tuple[Identity, float]] = {}
        self._forgotten = 0

    async def identify(self, key: str) -> Identity:
        """Who this key belongs to.

        Raises:
            Unauthenticated: if it is not known, has ended or was revoked.
        """
        kept = self._known.get(key)
        if kept is not None:
            identity, until = kept
            if self._clock.monotonic() < until and (
                identity.expires_at is None or self._clock.now() < identity.expires_at
            ):
                return identity
        forgotten = self._forgotten
        identity = await self._gate.identify(key)
        if forgotten == self._forgotten:
            if len(self._known) >= IDENTITIES_KEPT_MAX:
                self._known.clear()
            self._known[key] = (identity, self._clock.monotonic() + KEY_USED_EVERY_S)
        return identity

    def forget(self) -> None:
        """Keys have changed: nobody is known any more, nor will be by what is being asked at this moment."""
        self._known.clear()
        self._forgotten += 1
