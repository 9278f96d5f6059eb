"""Runs benchmarks: all, or the figures that are named. `python bench/run.py [FIGURE …]`; `--list` shows them.

A benchmark is a program `bench/*.py` that prints one line for each of its figures,
`figure: NAME=VALUE UNIT (bar BAR) …`; which ones is read from its source. One that takes more than 50 s, or ends
with an error, or does not print its figures, has failed; a figure that misses its bar is said. Then the exit code
is 1.
"""

import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
SECONDS_MAX = 50.0
LINE = re.compile(r"figure: (?P<name>\w+)=(?P<value>[\d.,e+-]+) \S+ \(bar (?P<sign>[<>]=?|≥|≤) ?(?P<bar>[\d.,]+)")
IN_SOURCE = re.compile(r"figure(?:\(\s*\"|: )(\w+)(?:\"|=)")


def figures() -> dict[str, Path]:
    """Figure -> the program that measures it."""
    found: dict[str, Path] = {}
    for path in sorted(FOLDER.glob("*.py")):
        if path.name.startswith("_") or path == Path(__file__):
            continue
        found.update(dict.fromkeys(IN_SOURCE.findall(path.read_text()), path))
    return found


def meets(line: re.Match[str]) -> bool:
    """Whether a figure's line is within its bar."""
    value, bar = (float(line[name].replace(",", "")) for name in ("value", "bar"))
    sign = line["sign"].replace("≤", "<=").replace("≥", ">=")
    return {"<": value < bar, "<=": value <= bar, ">": value > bar, ">=": value >= bar}[sign]


def run(path: Path, names: Sequence[str]) -> list[str]:
    """Runs one program and prints its lines; returns what went wrong, in words."""
    started = time.monotonic()
    process = subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True, cwd=FOLDER)
    try:
        said, _ = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate()
        return [f"{path.name} took more than {SECONDS_MAX:.0f} s"]
    print(said, end="", flush=True)
    lines = {line["name"]: line for line in LINE.finditer(said)}
    wrong = [f"{name} was not measured" for name in names if name not in lines]
    wrong += [f"{name} misses its bar" for name, line in lines.items() if not meets(line)]
    if process.returncode:
        wrong.append(f"{path.name} ended with {process.returncode}")
    print(f"  ({path.name}, {time.monotonic() - started:.0f} s)", flush=True)
    return wrong


def main(names: Sequence[str]) -> int:
    """Runs the programs of the named figures, or of all."""
    known = figures()
    if "--list" in names:
        print("\n".join(f"{name:36} bench/{path.name}" for name, path in sorted(known.items())))
        return 0
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"There is no figure {unknown[0]}. There are: {', '.join(sorted(known))}", file=sys.stderr)
        return 2
    wanted = names or list(known)
    programs: dict[Path, list[str]] = {}
    for name in wanted:
        programs.setdefault(known[name], []).append(name)
    wrong = [line for path, of_path in programs.items() for line in run(path, of_path)]
    print(f"{len(wanted)} figures, {len(wrong)} not as they should be" + "".join(f"\n  {line}" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
