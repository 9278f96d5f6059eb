"""Wait until somebody mentions you, and print it. Exit code 13 if nothing came in time.

With `--after` only what comes after that cursor counts: each answer has the `cursor` for the next call (`--json`).

examples:
  ekiden wait && ekiden mentions
  ekiden wait --seconds 600 --json
"""

import argparse

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("--seconds", type=int, default=300, metavar="S", help="how long at most (default 300)")
    parser.add_argument("--after", default="", metavar="CURSOR", help="only what came after this")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (default 20)")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Waits."""
    from ekiden.cli.screen import Screen
    from ekiden.cli.speaking import speak
    from ekiden.client.member import Member

    async def wait(member: Member, screen: Screen) -> int:
        import time

        from ekiden.cli.exit_codes import NOTHING_CAME
        from ekiden.cli.mention_list import print_mentions
        from ekiden.kernel.limits import MENTION_WAIT_S_MAX
        from ekiden.relay.wire import Mentions

        ends_at = time.monotonic() + options.seconds
        while True:
            left_s = max(0, round(ends_at - time.monotonic()))
            found = await member.client.get(
                "/v1/mentions/wait",
                type=Mentions,
                seconds=min(left_s, MENTION_WAIT_S_MAX),
                after=options.after,
                limit=options.limit,
            )
            if found.mentions:
                await print_mentions(member, screen, found, as_json=options.json)
                return 0
            if left_s <= MENTION_WAIT_S_MAX:
                return NOTHING_CAME

    return speak(options, wait)
