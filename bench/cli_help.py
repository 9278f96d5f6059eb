"""`help_processor`: milliseconds of processor time that `ekiden --help` takes, its start included.

The median of the runs. Floor of the same run: the same interpreter that only starts and ends.
"""

import os
import statistics
import subprocess
import sys

RUNS = 15


def processor_ms(command: list[str]) -> float:
    """What a program took, from its start to its end."""
    before = os.times()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env={"PATH": os.environ["PATH"]})
    after = os.times()
    return (after.children_user + after.children_system - before.children_user - before.children_system) * 1e3


def main() -> None:
    program = [sys.executable, "-m", "ekiden.cli", "--help"]
    processor_ms(program)
    value = statistics.median(processor_ms(program) for _ in range(RUNS))
    floor = statistics.median(processor_ms([sys.executable, "-c", ""]) for _ in range(RUNS))
    ratio = f"ratio {value / floor:.1f} to a start alone, {floor:.2g} ms"
    print(f"figure: help_processor={value:.3g} ms (bar < 120) {ratio}")


if __name__ == "__main__":
    main()
