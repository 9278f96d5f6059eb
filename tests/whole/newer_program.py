"""`ekiden` as a later version of it may be: it knows two more steps of the schema than this one. The first adds a
table and a column, beside which older programs can work; the second takes a table away that only they used."""

import sys

from ekiden.cli.__main__ import main
from ekiden.log import postgres_open
from ekiden.log.migrations import Migration, read_migrations

NEWEST = read_migrations(engine="postgres")[-1].number
"""The newest step that this version knows."""
ADDS = Migration(
    NEWEST + 1,
    "more",
    (
        "CREATE TABLE more (team_id text NOT NULL PRIMARY KEY)",
        "ALTER TABLE messages ADD COLUMN more text NOT NULL DEFAULT ''",
    ),
)
TAKES_AWAY = Migration(NEWEST + 2, "less", ("DROP TABLE pairing_tries",), lowest=NEWEST + 2)


def _read_more(*, engine: str) -> tuple[Migration, ...]:
    return (*read_migrations(engine=engine), ADDS, TAKES_AWAY)


if __name__ == "__main__":
    postgres_open.read_migrations = _read_more
    sys.exit(main())
