"""`rotate_50_members`: milliseconds to change the key of an encrypted channel with fifty members, one member key
each, on the member's side: a new key, wrapped to each, statement and wraps signed. The median of the runs. Beside
it, the same with the hub's answer that it is on disk, for which the hub checks each signature.

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
        opened: list[float] = []
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
            opened.append((time.perf_counter() - began) * 1e3)
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
    value, whole, alone, post = map(statistics.median, (opened, rotated, floor, posted))
    figure(
        "rotate_50_members",
        value,
        "ms",
        "< 50",
        f"ratio {value / alone:.1f} to {MEMBERS} wraps alone, {alone:.2g} ms; hub and all {whole:.0f} ms;"
        f" a post after somebody left {post:.0f} ms",
    )


def main() -> None:
    with an_ekiden() as up, tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(up.url, up.key, Path(folder)))


if __name__ == "__main__":
    main()
