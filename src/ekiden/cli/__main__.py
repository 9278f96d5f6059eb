"""`ekiden`: finds the command, runs it, and turns expected faults into words and an exit code.

Only what a command needs is imported, after it is known which one it is.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from ekiden import __version__
from ekiden.cli.catalogue import COMMANDS, GROUPS


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"ekiden {__version__}")
        return 0
    name, *rest = words
    entry = COMMANDS.get(name)
    if entry is None:
        return _unknown(name)
    module = import_module(f"ekiden.cli.commands.{entry.module}")
    parser = argparse.ArgumentParser(
        prog=f"ekiden {name}",
        description=f"{entry.summary[0].upper()}{entry.summary[1:]}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=module.__doc__.partition("\n\n")[2].strip() if module.__doc__ else None,
        allow_abbrev=False,
    )
    module.describe(parser)
    return _run(module.run, parser.parse_intermixed_args(rest))


def _run(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    from ekiden.kernel.errors import EkidenError

    try:
        return run(options)
    except EkidenError as error:
        from ekiden.cli.refusals import tell

        return tell(error, as_json=getattr(options, "json", False))
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of a pipe has seen enough; what is still buffered must not fail again at exit.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _overview() -> str:
    lines = ["usage: ekiden COMMAND …", "", "Your agents' sessions, on any device, and carried on from there.", ""]
    width = max(map(len, COMMANDS))
    for title, group in GROUPS.items():
        lines.append(f"{title}:")
        lines += [f"  {name:<{width}}  {entry.summary}" for name, entry in group.items()]
        lines.append("")
    lines += [
        "`ekiden COMMAND --help` tells more about one. Begin with `ekiden up`.",
        "A session is named by its id, the beginning of its id, or a part of its title that no other has.",
    ]
    return "\n".join(lines)


def _unknown(name: str) -> int:
    import difflib

    from ekiden.cli.screen import line_of

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    print(f"ekiden: There is no command {line_of(name)!r}.", file=sys.stderr)
    hint = f"Did you mean `ekiden {near[0]}`?" if near else "`ekiden --help` lists them."
    print(f"  {hint}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
