"""A Postgres for benchmarks: from a wheel, with the settings that it comes with, so that a commit is synced."""

import contextlib
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote


@contextlib.contextmanager
def a_postgres() -> Iterator[str]:
    """The url of the empty database `bench` on a server of its own, which also has an empty `more`."""
    with warnings.catch_warnings():
        # The package looks for a place for its lock when it is imported, and warns if the usual one is not set.
        warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
        import pgserver
    server = pgserver.get_server(Path(tempfile.mkdtemp(prefix="ekiden-bench-pg-")), cleanup_mode="delete")
    try:
        for name in ("bench", "more"):
            server.psql(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8';")
        yield f"postgresql://postgres@/bench?host={quote(str(server.get_postmaster_info().socket_dir), safe='')}"
    finally:
        server.cleanup()
