<<<<<<< HEAD
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
=======
"""`rotate_50_members`: milliseconds to change the key of an encrypted channel with fifty members, one member key
each: a new key, wrapped to each, statement and wraps signed, and the hub's answer that it is on disk. The median
of the runs.

Floor of the same run: fifty wraps alone, in this process. Beside it, the whole of a post that finds that somebody
has left: channel, members, directory and epochs read, the key changed, the text sealed, signed and stored.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from _load import figure
from _up import an_ekiden
from ekiden.client.client import Client
from ekiden.client.member import Member
from ekiden.crypto import directory, epochs
from ekiden.crypto.keys import MemberKeys, PublicKeys
from ekiden.kernel.clock import iso
from ekiden.relay.wire import NewChannel, NewMember, Post

MEMBERS = 50
RUNS = 9


async def prepare(client: Client, team: str) -> list[tuple[str, PublicKeys]]:
    """An encrypted channel with fifty members beside its maker, whose keys are in the directory."""
    await client.post("/v1/channels", NewChannel("plans", encrypted=True))
    made: list[tuple[str, PublicKeys]] = []
    for number in range(MEMBERS - 1):
        key = await client.post("/v1/keys", {"name": f"agent {number}", "kind": "agent"})
        member = MemberKeys.new()
        entry = directory.add_entry(
            member, team=team, principal=key["principal_id"], label="", at=iso(time.time())
        )
        await client.post("/v1/directory", entry)
        await client.put(f"/v1/channels/plans/members/{key['principal_id']}", NewMember())
        made.append((key["principal_id"], member.public))
    return made


async def measure(url: str, key: str, home: Path) -> None:
    async with Client(url, key) as client, Member(client, home) as member:
        here = await member.meet()
        others = await prepare(client, here.me.team_id)
        await member.post("plans", Post(text="begin"))
        channel = await member.channel("plans", anew=True)
        members = [*others, (here.me.principal_id, here.keys.public)]
        rotated: list[float] = []
        newest = (await client.get("/v1/channels/plans/epochs", type=epochs.Epochs)).epochs[0].epoch
        for _ in range(RUNS):
            began = time.perf_counter()
            new = epochs.open_epoch(
                here.keys,
                epochs.new_key(),
                team=here.me.team_id,
                channel=channel.channel_id,
                epoch=newest.epoch + 1,
                members=members,
                previous=newest.digest(here.me.team_id),
                at=iso(time.time()),
            )
            await client.post("/v1/channels/plans/epochs", new)
            rotated.append((time.perf_counter() - began) * 1e3)
            newest = new.epoch
        posted: list[float] = []
        for principal, _ in others[:RUNS]:
            await client.delete(f"/v1/channels/plans/members/{principal}")
            began = time.perf_counter()
            await member.post("plans", Post(text="without one"))
            posted.append((time.perf_counter() - began) * 1e3)
    floor: list[float] = []
    for _ in range(RUNS):
        began = time.perf_counter()
        for _, public in members:
            epochs.wrap(bytes(32), public, team="t", channel="c", epoch=1)
        floor.append((time.perf_counter() - began) * 1e3)
    value, alone, post = map(statistics.median, (rotated, floor, posted))
>>>>>>> main
    figure(
        "rotate_50_members",
        value,
        "ms",
        "< 50",
<<<<<<< HEAD
        f"ratio {value / statistics.median(floor):.2f} to the bare primitives, {statistics.median(floor):.1f} ms; "
        f"p95 {percentile(taken, 0.95):.1f} ms; the request has {sizes[-1]} bytes",
    )


=======
        f"ratio {value / alone:.1f} to {MEMBERS} wraps alone, {alone:.2g} ms; a post after somebody left"
        f" {post:.0f} ms",
    )


def main() -> None:
    with an_ekiden() as up, tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(up.url, up.key, Path(folder)))


>>>>>>> main
if __name__ == "__main__":
    main()
