"""What every test may use."""

import sys
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("ekiden", deadline=None, print_blob=True, derandomize=False)
settings.load_profile("ekiden")


def pytest_sessionfinish() -> None:
    """Ends the Postgres that tests of this process have started, if any did."""
    if "postgres_server" in sys.modules:
        sys.modules["postgres_server"].end_server()


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, as the product does."""
    return "asyncio"


@pytest.fixture
def postgres_url() -> str:
    """A fresh database of Postgres, with the schema and nothing in it."""
    from postgres_server import fresh_database

    return fresh_database()


@pytest.fixture(params=["sqlite", "postgres"])
def log_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a test's log lies, for `open_log`: in a file, and in Postgres."""
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path / "ekiden.db")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests go last: their driver keeps a loop running in the main thread until the end of the run, and an
    async test cannot begin while one is.

    What drives a browser or a vendor's program has a second try: these are not ours, and wait for each other on a
    machine that may be busy with something else. It is never silent: the end of the run shows what each test that
    needed one had run into (`RERUN`), and such a test is to be mended.
    """
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)
    for item in items:
        if item.get_closest_marker("browser") or item.get_closest_marker("vendors"):
            item.add_marker(pytest.mark.flaky(reruns=1))
