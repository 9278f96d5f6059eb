"""`python -m ekiden.vendors.demo`: the demo agent's process. See `ekiden.vendors.demo.protocol` for its lines."""

import argparse
import asyncio
import sys
from pathlib import Path

from ekiden.vendors.demo.agent import REFUSED_EXIT, Agent, Refused, prepare
from ekiden.vendors.demo.protocol import Notice, encode_line


def main() -> int:
    """Serves one session on standard input and output."""
    parser = argparse.ArgumentParser(prog="python -m ekiden.vendors.demo")
    parser.add_argument("--home", type=Path, required=True, help="Ekiden's data folder")
    parser.add_argument("--session", required=True, help="native id of the session")
    parser.add_argument("--cwd", type=Path, required=True)
    parser.add_argument("--resume", action="store_true", help="the session exists already")
    parser.add_argument("--fork-of", default="", help="native id of the session whose history is copied")
    parser.add_argument("--delay-s", type=float, default=0.02, help="pause after each piece")
    options = parser.parse_args()
    return asyncio.run(_serve(options))


async def _serve(options: argparse.Namespace) -> int:
    try:
        prepare(options.home, options.session, options.cwd, resume=options.resume, fork_of=options.fork_of)
        agent = Agent(options.home, options.session, options.cwd, options.delay_s)
    except (Refused, OSError) as error:
        refusal = Notice("refused", text=str(error), pid=error.pid if isinstance(error, Refused) else 0)
        sys.stdout.buffer.write(encode_line(refusal) + b"\n")
        return REFUSED_EXIT
    await agent.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
