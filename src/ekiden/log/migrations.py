"""The schema, as numbered files that are applied in order, each in one transaction.

`schema/NNNN_name.sql` holds what all engines share; `NNNN_name.sqlite.sql` or `NNNN_name.postgres.sql` beside it
what differs. A database remembers the number that it is at. One from a newer Ekiden is refused and not touched.

Where several nodes use one database, they are upgraded one by one, so there are two kinds of steps:
- a step that only adds: programs that do not know it go on working beside it. Nothing marks it;
- a step that takes something away, marked by its first line `-- post: NNNN`: it may run only when no program is at
  work any more that knows less than step NNNN, and such a program may not use the database afterwards.
"""

import importlib.resources
import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ekiden.kernel.errors import StoreNewer, Unavailable
from ekiden.log.sqlite_connection import APPLICATION_ID, own, prepare_writer

_FILE = re.compile(r"(?P<number>\d{4})_(?P<name>[a-z0-9_]+)(?:\.(?P<engine>[a-z]+))?\.sql\Z")
_AFTER_SEMICOLON = re.compile(r"(?<=;)")
_HAS_TABLE = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1"
_POST = re.compile(r"\A-- post: (?P<lowest>\d{4})$", re.MULTILINE)
VERSION = "schema_version"
LOWEST = "schema_lowest"
MOVING = "moving"
"""What a database says while a log is being copied into it; see `log.move`."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema: its number, its name, and the statements in order. `lowest` is the step that a
    program must at least know to use the database after this one; 0 if any may."""

    number: int
    name: str
    statements: tuple[str, ...]
    lowest: int = 0


def read_migrations(
    files: Iterable[tuple[str, str]] | None = None, *, engine: str = "sqlite"
) -> tuple[Migration, ...]:
    """The steps for an engine, in order, from (file name, text) pairs; by default those that come with Ekiden.

    Raises:
        ValueError: if a number is missing or is given to two names, or a file has a name of another form.
    """
    if files is None:
        folder = importlib.resources.files("ekiden.log").joinpath("schema")
        files = [(file.name, file.read_text("utf-8")) for file in folder.iterdir() if file.name.endswith(".sql")]
    steps: dict[int, tuple[str, list[str]]] = {}
    lowest: dict[int, int] = {}
    for file_name, text in sorted(files, key=lambda file: (file[0].split(".")[0], file[0].count("."))):
        found = _FILE.match(file_name)
        if found is None:
            raise ValueError(f"{file_name}: a schema file is called NNNN_name.sql or NNNN_name.engine.sql")
        if found["engine"] not in (None, engine):
            continue
        number, name = int(found["number"]), found["name"]
        known, statements = steps.setdefault(number, (name, []))
        if known != name:
            raise ValueError(f"{file_name}: the number {number:04} is taken by {known}")
        statements.extend(split(text))
        if post := _POST.match(text):
            lowest[number] = int(post["lowest"])
    if sorted(steps) != list(range(1, len(steps) + 1)):
        raise ValueError(f"the schema's numbers have a hole: {sorted(steps)}")
    return tuple(
        Migration(number, name, tuple(lines), lowest.get(number, 0))
        for number, (name, lines) in sorted(steps.items())
    )


def split(text: str) -> list[str]:
    """The statements of an SQL text, in order.

    Raises:
        ValueError: if the last statement has no end.
    """
    statements: list[str] = []
    waiting = ""
    for piece in _AFTER_SEMICOLON.split(text):
        waiting += piece
        if sqlite3.complete_statement(waiting):
            statements.append(_without_leading_comments(waiting))
            waiting = ""
    rest = _without_leading_comments(waiting)
    if rest:
        raise ValueError(f"this statement has no end: {rest[:60]}")
    return statements


def _without_leading_comments(statement: str) -> str:
    lines = statement.strip().splitlines()
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("--")):
        del lines[0]
    return "\n".join(lines)


def version_of(connection: sqlite3.Connection) -> int:
    """The number of the newest step that the database has; 0 for an empty database.

    Raises:
        Unavailable: if the database is not Ekiden's.
    """
    if connection.execute(_HAS_TABLE, ("meta",)).fetchone()[0]:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        known = dict(connection.execute(own("meta")).fetchall()) if application == APPLICATION_ID else {}
        if VERSION in known and "log_id" in known:
            return int(known[VERSION])
    elif connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
        return 0
    raise Unavailable(
        "The file is a database, but not one of Ekiden's.", hint="Name another file, or move this one away."
    )


def refuse_half_moved(meta: Mapping[str, str]) -> None:
    """Raises:
    Unavailable: if a log was being copied into the database, and that has not ended.
    """
    if MOVING in meta:
        raise Unavailable(
            "A move into this database has not ended.", hint="Run the same `ekiden move` again: it goes on."
        )


def refuse_newer(version: int, newest: int) -> None:
    """Raises:
    StoreNewer: if the database is at a later step than this program knows.
    """
    if version > newest:
        raise StoreNewer(
            f"The database was written by a newer Ekiden (its schema is {version}, this program knows {newest}). "
            "Nothing in it was changed.",
            hint="Start the newer Ekiden, or restore a backup that this one made.",
            schema=version,
            known=newest,
        )


def migrate(
    connection: sqlite3.Connection, migrations: tuple[Migration, ...], *, log_id: str, made_at: str
) -> tuple[int, int]:
    """Brings the database to the newest step, ready to be written, and returns (version before, version after).

    `log_id` and `made_at` are written when the database is made. A step that fails leaves the database at the
    step before it.

    Raises:
        StoreNewer: if the database is ahead of this program; nothing is touched.
        sqlite3.Error: if a step fails.
    """
    newest = migrations[-1].number
    before = version_of(connection)
    refuse_newer(before, newest)
    prepare_writer(connection)
    for step in migrations[before:]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in step.statements:
                connection.execute(statement)
            if step.number == 1:
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(own("set_meta"), ("log_id", log_id))
                connection.execute(own("set_meta"), ("made_at", made_at))
            connection.execute(own("set_meta"), (VERSION, str(step.number)))
            if step.lowest:
                connection.execute(own("set_meta"), (LOWEST, str(step.lowest)))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
    return before, newest
