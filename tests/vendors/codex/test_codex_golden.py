"""The recorded rollouts of the real program, read into snapshots that a person has read.

After a wanted change: `EKIDEN_WRITE_GOLDEN=1 pytest tests/vendors/codex/test_codex_golden.py`, then read the diff.
"""

import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from vendors.codex.files import HERE, SAMPLES, plain, read

GOLDEN = HERE / "golden"
ROLLOUTS = sorted(SAMPLES.rglob("rollout-*.jsonl"))
THREAD_ID = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.jsonl")


def snapshot(path: Path) -> dict[str, Any]:
    """All that a screen gets of a rollout."""
    found = THREAD_ID.search(path.name)
    assert found is not None
    items, fold = read(path.read_bytes(), thread=found[1])
    facts = {name: value for name, value in asdict(fold.facts).items() if value}
    return json.loads(json.dumps({"facts": facts, "items": [plain(item) for item in items]}))


def name_of(path: Path) -> str:
    return f"{path.relative_to(SAMPLES).parts[0]}-{path.stem[-12:]}.json"


def test_there_are_samples_of_every_generation() -> None:
    """A moved folder must not leave this file without anything to read."""
    assert len(ROLLOUTS) >= 10


def test_every_snapshot_has_its_rollout() -> None:
    """None is left over."""
    assert {path.name for path in GOLDEN.glob("*.json")} == {name_of(path) for path in ROLLOUTS}


@pytest.mark.parametrize("path", ROLLOUTS, ids=name_of)
def test_a_recorded_rollout_reads_as_its_snapshot(path: Path) -> None:
    """Every item and every fact, ids and places in the file included."""
    golden = GOLDEN / name_of(path)
    found = snapshot(path)
    if os.environ.get("EKIDEN_WRITE_GOLDEN"):
        golden.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert found == json.loads(golden.read_text(encoding="utf-8"))
