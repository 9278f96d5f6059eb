"""The tools for an agent, over standard input and output; and how to give them to the programs that you use.

Without a word it is the server that an agent's program starts. It speaks to the hub of this computer, or to
EKIDEN_URL with the key in EKIDEN_KEY. `install` shows what it would change for each program that it finds, and
does it with --yes; `remove` takes it back.

examples:
  ekiden mcp install
  ekiden mcp install claude --yes
  ekiden mcp remove codex --yes
"""

import argparse

from ekiden.cli.place import add_home_option


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("what", nargs="?", choices=["serve", "install", "remove"], default="serve")
    parser.add_argument("program", nargs="*", help="claude, codex, gemini, opencode (default: all)")
    parser.add_argument("--as", dest="agent", default="", metavar="NAME", help="which agent it is")
    parser.add_argument("--yes", action="store_true", help="do it")
    add_home_option(parser)


def run(options: argparse.Namespace) -> int:
    """Serves, or installs."""
    if options.what != "serve":
        from ekiden.cli.installing import install

        return install(options)
    import asyncio

    return asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> int:
    from ekiden.mcp import stdio

    def make() -> stdio.Ready:
        from ekiden.cli.agent_seats import find_seat
        from ekiden.cli.place import home_of
        from ekiden.mcp.seat import Seat

        home, name = home_of(options), options.agent or "agent"
        seat = Seat(lambda: find_seat(home, name), home, label=f"{name} (tools)")
        return stdio.Ready(seat.call_tool, seat.close)

    await stdio.serve(make)
    return 0
