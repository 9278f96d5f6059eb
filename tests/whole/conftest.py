"""A computer with the real vendor programs, and a scripted model for them to talk to."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from scripted_model import ScriptedModel, serve
from whole.computer import Computer
from whole.spread import SpreadComputer

RESULTS = Path(__file__).resolve().parents[2] / ".test-results"


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    server, _ = serve(0, 0.02)
    yield server
    server.close()


@pytest.fixture
def computer(request: pytest.FixtureRequest, model: ScriptedModel) -> Iterator[Computer]:
    """Below the repository, because Codex refuses to work with a home under the system's temporary folder. A test
    may ask, as the parameter of this fixture, for one whose hub has several nodes: see `whole.spread`."""
    folder = RESULTS / "computers" / uuid4().hex[:12]
    folder.mkdir(parents=True)
    over = getattr(request, "param", "")
    port = model.server_address[1]
    made = SpreadComputer(folder, port, over) if over else Computer(folder, port)
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)
