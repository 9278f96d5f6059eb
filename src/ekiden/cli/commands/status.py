"""A channel's shared values: get, set, clear, history, rules. A value is JSON, or else text. It is signed with
this computer's member key, and sealed in an encrypted channel.

Where a rule asks for a second signature: `sign` prints yours over a value that somebody else will set, who gives
it to `set --second`. `second` signs a value that is there already: it is set again as it is, with both signatures.

`--if-version N` writes only if N is the version now (0: only if there is none); exit code 5 says that it is not.

examples:
  ekiden status build
  ekiden status build get tests.main
  ekiden status build set tests.main '{"ok": true}' --commit 4f2c1e7 --if-version 7
  ekiden status build clear tests.main
  ekiden status build history tests.main
  ekiden status build rules rules.json
  ekiden status build sign deploy '{"version": 7}' --commit 4f2c1e7
  ekiden status build set deploy '{"version": 7}' --commit 4f2c1e7 --second -
  ekiden status build second deploy
"""

import argparse

from ekiden.cli.place import add_door_options


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("channel")
    parser.add_argument(
        "what",
        nargs="?",
        choices=["list", "get", "set", "clear", "history", "rules", "sign", "second"],
        default="list",
    )
    parser.add_argument(
        "key", nargs="?", default="", help="the key; of `rules`: a file with new rules, `-` for none"
    )
    parser.add_argument("value", nargs="*", help="JSON, or else text")
    parser.add_argument(
        "--if-version", type=int, default=None, metavar="N", help="only if this is the version now"
    )
    parser.add_argument(
        "--expires-s", type=int, default=0, metavar="S", help="the value ends after so many seconds"
    )
    parser.add_argument("--commit", default="", help="evidence: a commit")
    parser.add_argument("--run", default="", dest="evidence_run", help="evidence: a run of CI")
    parser.add_argument("--link", default="", help="evidence: an address")
    parser.add_argument(
        "--second", default="", metavar="SIGNATURE", help="evidence: what `sign` has printed; `-` reads it"
    )
    parser.add_argument("--prefix", default="", help="of the list: only keys that begin so")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="how many (default 100)")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Does it."""
    from ekiden.cli import status_list
    from ekiden.cli.speaking import speak

    return speak(options, lambda member, screen: status_list.run(member, screen, options))
