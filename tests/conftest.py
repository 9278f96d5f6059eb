"""What every test may use."""

import pytest
from hypothesis import settings

settings.register_profile("ekiden", deadline=None, print_blob=True, derandomize=False)
settings.load_profile("ekiden")


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio, as the product does."""
    return "asyncio"
