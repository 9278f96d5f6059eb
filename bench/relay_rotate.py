"""`rotate_50_members`: to open a new epoch of an encrypted channel with 50 members, on the client's side.

From having the members' public keys to the whole body of the request: 32 random bytes, wrapped to each of the 50
(HPKE), each wrap and the statement of the epoch signed (Ed25519), all of it encoded. Each round makes an epoch of
its own. Floor of the same run: the bare primitives of the library without Ekiden, 50 X25519 exchanges with fresh
keys and 51 signatures.
"""

import statistics
import time
from collections.abc import Callable

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from _load import figure, percentile
from ekiden.crypto import epochs
from ekiden.crypto.keys import MemberKeys
from ekiden.kernel.ids import Prefix, new_id

MEMBERS = 50
ROUNDS = 40
_encode = msgspec.json.Encoder().encode


def times_ms(work: Callable[[], object]) -> list[float]:
    """Milliseconds of each round."""
    times: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1e3)
    return times


def main() -> None:
    team, channel = new_id(Prefix.TEAM), new_id(Prefix.CHANNEL)
    owner = MemberKeys.new()
    held = [(new_id(Prefix.PRINCIPAL), MemberKeys.new()) for _ in range(MEMBERS)]
    members = [(principal, keys.public) for principal, keys in held]
    sizes: list[int] = []

    def rotate() -> None:
        key = epochs.new_key()
        new = epochs.open_epoch(
            owner,
            key,
            team=team,
            channel=channel,
            epoch=2,
            members=members,
            previous="0" * 64,
            at="2026-01-01T00:00:00.000Z",
        )
        sizes.append(len(_encode(new)))

    signer = Ed25519PrivateKey.generate()
    others = [X25519PrivateKey.generate().public_key() for _ in range(MEMBERS)]

    def bare() -> None:
        for other in others:
            X25519PrivateKey.generate().exchange(other)
            signer.sign(b"x" * 500)
        signer.sign(b"x" * 4_000)

    rotate()
    bare()
    taken, floor = times_ms(rotate), times_ms(bare)
    value = statistics.median(taken)
    figure(
        "rotate_50_members",
        value,
        "ms",
        "< 50",
        f"ratio {value / statistics.median(floor):.2f} to the bare primitives, {statistics.median(floor):.1f} ms; "
        f"p95 {percentile(taken, 0.95):.1f} ms; the request has {sizes[-1]} bytes",
    )


if __name__ == "__main__":
    main()
