"""Say what was found on this computer, which versions, what works, and what will not and why.

Works with and without a running hub. The exit code is 12 if something will not work.
"""

import argparse

from ekiden.cli.place import add_home_option


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    add_home_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, one finding to a line")


def run(options: argparse.Namespace) -> int:
    """Looks and tells."""
    from ekiden.cli.checkup import examine
    from ekiden.cli.exit_codes import NOT_WELL, OK
    from ekiden.cli.place import home_of
    from ekiden.cli.screen import Screen, line_of

    screen = Screen()
    well = True
    mark = {"good": ("ok", "green"), "note": ("note", "yellow"), "bad": ("NOT OK", "red")}
    for finding in examine(home_of(options)):
        well = well and finding.state != "bad"
        if options.json:
            screen.data(finding)
            continue
        word, colour = mark[finding.state]
        screen.say(f"{screen.style(f'{word:>6}', colour)}  {finding.about}: {line_of(finding.says)}")
        if finding.advice:
            screen.say(f"        {line_of(finding.advice)}")
    return OK if well else NOT_WELL
