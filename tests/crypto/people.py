"""Members with known keys, and random bytes that are the same in each run."""

import hashlib
from collections.abc import Callable

from ekiden.crypto.keys import MemberKeys

TEAM = "tem_0123456789abcdefghjk"
CHANNEL = "cha_0123456789abcdefghjk"


def known_random(name: str) -> Callable[[int], bytes]:
    """Random bytes that depend on `name` only."""
    count = 0

    def take(size: int) -> bytes:
        nonlocal count
        count += 1
        return hashlib.shake_256(f"{name} {count}".encode()).digest(size)

    return take


def member(name: str) -> MemberKeys:
    """The keys of a member that is always the same."""
    return MemberKeys.new(known_random(name))


ANNA, BEN, CARO = member("anna"), member("ben"), member("caro")
HUB_SEED = known_random("hub")(32)
