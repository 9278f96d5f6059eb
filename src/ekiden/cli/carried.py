"""The account of a verb that made or took a session: what was carried, and what was not."""

from ekiden.cli.screen import Screen, line_of
from ekiden.sessions.wire import Carried


def print_carried(screen: Screen, carried: Carried, *, as_json: bool) -> None:
    """Prints the session to look at now, and the account."""
    if as_json:
        screen.data(carried)
        return
    screen.say(carried.session_id)
    if carried.carried:
        screen.say(f"  carried: {line_of(carried.carried)}")
    for line in carried.not_carried:
        screen.say(f"  not carried: {line_of(line)}")
