"""SQL as named text in `.sql` files, and the one place where its parameters are translated.

A room keeps its statements in `queries.sql`, in the common subset of SQLite and Postgres:

    -- name: session_by_id
    -- One session with its host, or nothing.
    SELECT ... FROM sessions WHERE session_id = :session_id;

Code knows them as `sessions.session_by_id` and hands parameters over by name. Each engine binds by position:
SQLite as `?1`, Postgres as `$1`. The translation is made once per statement and kept.
"""

import importlib.resources
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

_NAME_LINE = re.compile(r"^--\s*name:\s*(?P<name>\S+)\s*$")
_QUERY_FILE = re.compile(r"queries(?:_[a-z]+)?\.sql\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_TOKEN = re.compile(
    r"""
      '(?:[^']|'')*'            # a string
    | "(?:[^"]|"")*"            # a quoted name
    | --[^\n]*                  # a comment to the end of the line
    | /\*.*?\*/                 # a comment in the text
    | ::                        # a cast of Postgres
    | :(?P<name>[A-Za-z_]\w*)   # a parameter
    """,
    re.VERBOSE | re.DOTALL,
)


class QueryFileBroken(ValueError):
    """A `.sql` file is not of the form above; the message says where."""


class Bound(NamedTuple):
    """A statement with numbered parameters, and the names in the order of their numbers."""

    sql: str
    names: tuple[str, ...]


def load_queries(room: str, text: str) -> dict[str, str]:
    """Reads one room's `.sql` text into `{"room.name": statement}`.

    Raises:
        QueryFileBroken: for a statement without name or description, a name given twice or of a wrong form,
            or a name without a statement.
    """
    queries: dict[str, str] = {}
    name = ""
    lines: list[str] = []

    def finish() -> None:
        if not name:
            if any(line.strip() and not line.startswith("--") for line in lines):
                raise QueryFileBroken(f"{room}: there is SQL before the first '-- name:' line")
            return
        described = bool(lines) and lines[0].startswith("--") and bool(lines[0].strip("- "))
        statement = "\n".join(lines).strip().removesuffix(";").rstrip()
        if not described:
            raise QueryFileBroken(f"{room}.{name}: say in a comment under the name what it gives or does")
        if all(line.startswith("--") for line in statement.splitlines()):
            raise QueryFileBroken(f"{room}.{name}: there is no statement under it")
        queries[f"{room}.{name}"] = statement

    for line in text.splitlines():
        found = _NAME_LINE.match(line)
        if found is None:
            lines.append(line)
            continue
        finish()
        name, lines = found["name"], []
        if not _NAME.match(name):
            raise QueryFileBroken(f"{room}: {name!r} is not a name of small letters, digits and underscores")
        if f"{room}.{name}" in queries:
            raise QueryFileBroken(f"{room}.{name}: the name is given twice")
    finish()
    return queries


def room_queries(package: str) -> dict[str, str]:
    """The named queries of a room, from `queries.sql` and any `queries_*.sql` in its package:
    `room_queries("ekiden.access")`."""
    files = sorted(
        (file for file in importlib.resources.files(package).iterdir() if _QUERY_FILE.match(file.name)),
        key=lambda file: file.name,
    )
    if not files:
        raise QueryFileBroken(f"{package} has no queries.sql")
    return load_queries(package.rpartition(".")[2], "\n".join(file.read_text("utf-8") for file in files))


def joined(*rooms: Mapping[str, str]) -> dict[str, str]:
    """The queries of several rooms as one mapping, as an engine takes them."""
    queries: dict[str, str] = {}
    for room in rooms:
        queries.update(room)
    return queries


@lru_cache(maxsize=1024)
def bound(sql: str, mark: str = "$") -> Bound:
    """`sql` with its `:name` parameters as `$1`, `$2`, … (or `?1`, … with `mark="?"`).

    A name that is used twice gets one number. Strings, quoted names, comments and `::casts` stay untouched.
    """
    numbers: dict[str, int] = {}

    def number(token: re.Match[str]) -> str:
        name = token["name"]
        if name is None:
            return token[0]
        return f"{mark}{numbers.setdefault(name, len(numbers) + 1)}"

    return Bound(_TOKEN.sub(number, sql), tuple(numbers))


def bound_to(sql: str, source: str) -> str:
    """`sql` with its parameters as columns of the table or alias `source`."""
    return _TOKEN.sub(lambda token: f"{source}.{token['name']}" if token["name"] else token[0], sql)
