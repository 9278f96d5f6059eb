"""What every test may use."""

import pytest
from hypothesis import settings

settings.register_profile("ekiden", deadline=None, print_blob=True, derandomize=False)
settings.load_profile("ekiden")


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, as the product does."""
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests go last: their driver keeps a loop running in the main thread until the end of the run, and an
    async test cannot begin while one is."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)
