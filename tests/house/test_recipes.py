"""What `make` would run is shell that can be run, whichever way it is called."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGETS = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
WAYS = ([], ["EKIDEN_TEST_WITHOUT=browser"], ["PYTEST=-k door", "ARGS=--lan"])


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way) or "plain")
@pytest.mark.parametrize("target", [*TARGETS, "bench-idle_rss"])
def test_a_recipe_is_whole_shell(target: str, way: list[str]) -> None:
    """`make -n` prints what it would run; bash reads all of it without running any."""
    settings = {name: text for name, text in os.environ.items() if not name.startswith(("MAKE", "EKIDEN_"))}
    made = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "--always-make", "PYTHON=python3", target, *way],
        cwd=ROOT, env=settings, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert made.stdout.strip()
    read = subprocess.run(["bash", "-n"], input=made.stdout, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr


def test_the_recipes_that_this_looks_at_are_those_of_the_readme() -> None:
    assert {"up", "test", "check", "bench", "help"} <= set(TARGETS)
