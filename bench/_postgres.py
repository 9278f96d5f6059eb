"""A Postgres for benchmarks: from a wheel, with the settings that it comes with, so that a commit is synced."""

import contextlib
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote


@contextlib.contextmanager
def a_postgres(kept: Path | None = None) -> Iterator[str]:
    """The url of the database `bench` on a server of its own, which also has an empty `more`. Both are empty; but
    with a folder that is `kept`, `bench` is as it was left there."""
    with warnings.catch_warnings():
        # The package looks for a place for its lock when it is imported, and warns if the usual one is not set.
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pgserver
    folder = kept or Path(tempfile.mkdtemp(prefix="ekiden-bench-pg-"))
    folder.mkdir(parents=True, exist_ok=True)
    server = pgserver.get_server(folder, cleanup_mode="stop" if kept else "delete")
    try:
        there = server.psql("SELECT datname FROM pg_database;").split()
        if "more" in there:
            server.psql("DROP DATABASE more;")
        for name in ("bench", "more"):
            if name not in there or name == "more":
                server.psql(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8';")
        yield f"postgresql://postgres@/bench?host={quote(str(server.get_postmaster_info().socket_dir), safe='')}"
    finally:
        server.cleanup()
