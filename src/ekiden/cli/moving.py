"""Moving house: which of the two places is Postgres, what is shown meanwhile, and what to do afterwards."""

import argparse
import asyncio
import os
import time
from pathlib import Path

from ekiden.cli.place import DATABASE, POSTGRES_SCHEMES, home_of
from ekiden.cli.screen import Screen, line_of
from ekiden.kernel.errors import Invalid
from ekiden.log.move import Moved, copy_in, copy_out

_SHOWN_EVERY_S = 0.5


def run_move(options: argparse.Namespace) -> int:
    """Runs `ekiden move`.

    Raises:
        Invalid: if not exactly one of the two places is Postgres.
        StoreHeld: if Ekiden is at work on one of them.
        Conflict: if the target holds something else.
    """
    screen = Screen()
    named = os.environ.get("EKIDEN_DATABASE_URL", "")
    to: str = options.to or named
    source: str = options.source or (str(home_of(options)) if to.startswith(POSTGRES_SCHEMES) else named)
    if to.startswith(POSTGRES_SCHEMES) == source.startswith(POSTGRES_SCHEMES):
        raise Invalid(
            "A move is from a folder into Postgres, or back.",
            hint="ekiden move --to postgresql://USER@HOST/NAME, or: --from postgresql://… --to FOLDER",
        )
    showing = _Showing(screen, quiet=options.json)
    if to.startswith(POSTGRES_SCHEMES):
        moved = asyncio.run(copy_in(_file_in(source), to, progress=showing.show))
    else:
        moved = asyncio.run(copy_out(source, _file_in(to), stopped=True, progress=showing.show))
    _tell(screen, options, moved, to)
    return 0


def _file_in(place: str) -> Path:
    """The database file that a folder, or its own name, means."""
    path = Path(place).expanduser().absolute()
    return path if path.suffix == ".db" else path / DATABASE


def _tell(screen: Screen, options: argparse.Namespace, moved: Moved, to: str) -> None:
    if options.json:
        screen.data({"log_id": moved.log_id, "rows": moved.rows})
        return
    rows = sum(moved.rows.values())
    screen.say(f"{moved.events} events, {rows} rows in all, were copied; counts and hashes agree.")
    if to.startswith(POSTGRES_SCHEMES):
        screen.say(
            "Start Ekiden with EKIDEN_DATABASE_URL set to that database. The folder's own log is as it was."
        )
    else:
        screen.say(
            f"Start Ekiden without EKIDEN_DATABASE_URL: ekiden up --home {line_of(str(_file_in(to).parent))}"
        )


class _Showing:
    """Says now and then how far the copy is."""

    def __init__(self, screen: Screen, *, quiet: bool) -> None:
        self._screen = screen
        self._quiet = quiet
        self._shown_at = time.monotonic()

    def show(self, table: str, rows: int) -> None:
        """Hears of each piece."""
        now = time.monotonic()
        if not self._quiet and now - self._shown_at >= _SHOWN_EVERY_S:
            self._shown_at = now
            self._screen.say(self._screen.style(f"{table}: {rows} rows", "dim"))
