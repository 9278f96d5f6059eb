"""Runs benchmarks: all, or the figures that are named. `python bench/run.py [FIGURE …]`; `--list` shows them.

A benchmark is a program `bench/*.py` that prints for each of its figures one line
`figure: NAME=VALUE UNIT (bar BAR) …`; further bars may follow on the line, each behind its own number:
`p99 6.1 ms (bar < 15)`. One that takes more than 50 s, or ends with an error, or does not print its figures, has
failed. Every bar that is missed is said, and then the exit code is 1.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
SECONDS_MAX = 50.0
END_S = 10.0
_NUMBER = r"[\d,]*\d(?:\.\d+)?(?:e[+-]?\d+)?"
_BAR = rf"\(bar (?P<sign>>=|<=|[<>≥≤]) ?(?P<bar>{_NUMBER})"
LINE = re.compile(rf"figure: (?P<name>\w+)=(?P<value>{_NUMBER}) \S+ {_BAR}(?P<rest>.*)")
FURTHER = re.compile(rf"(?P<name>\w+) (?P<value>{_NUMBER})(?: [^\s;,()]+)? {_BAR}")
_NAMED = re.compile(r"""figure\(\s*"(\w+)"|figure: (\w+)=""")

TABLE = (
    "mirror_append_to_subscriber_p95",
    "first_page_1gb",
    "index_rate",
    "list_1000_sessions_warm",
    "owned_delta_to_second_device_p95",
    "reconnect_10k_events",
    "post_durable_16_clients",
    "fanout_100",
    "idle_rss",
    "up_ready",
)
"""The figures that Ekiden promises; `docs/figures.md` says what each is of."""


def figures() -> dict[str, Path]:
    """Figure -> the program that measures it."""
    found: dict[str, Path] = {}
    for path in sorted(FOLDER.glob("*.py")):
        if path.name.startswith("_") or path == Path(__file__):
            continue
        for call, line in _NAMED.findall(path.read_text("utf-8")):
            found[call or line] = path
    return found


def begun(name: str, known: Iterable[str]) -> list[str]:
    """The figures whose names begin with this one, in order."""
    return sorted(one for one in known if one.startswith(f"{name}_"))


def meets(found: re.Match[str]) -> bool:
    """Whether a number is within the bar behind it."""
    value, bar = (float(found[name].replace(",", "")) for name in ("value", "bar"))
    match found["sign"]:
        case "<":
            return value < bar
        case ">":
            return value > bar
        case "<=" | "≤":
            return value <= bar
        case _:
            return value >= bar


def missed(line: re.Match[str]) -> list[str]:
    """The bars of one figure's line that it misses, in words."""
    name = line["name"]
    wrong = [] if meets(line) else [f"{name} misses its bar: {line['value']}, not {line['sign']} {line['bar']}"]
    return wrong + [
        f"{name}: {more['name']} {more['value']}, not {more['sign']} {more['bar']}"
        for more in FURTHER.finditer(line["rest"])
        if not meets(more)
    ]


def run(path: Path, names: Sequence[str]) -> list[str]:
    """Runs one program and prints its lines; returns what went wrong, in words."""
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, text=True, cwd=FOLDER, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        said = ""
    except BaseException:
        _end(process)
        raise
    if process.returncode is None:
        _end(process)
        return [f"{path.name} took more than {SECONDS_MAX:.0f} s"]
    print(said, end="", flush=True)
    lines = {line["name"]: line for line in LINE.finditer(said)}
    wrong = [f"{name} was not measured" for name in names if name not in lines]
    wrong += [text for line in lines.values() for text in missed(line)]
    if process.returncode:
        wrong.append(f"{path.name} ended with {process.returncode}")
    print(f"  ({path.name}, {time.monotonic() - started:.0f} s)", flush=True)
    return wrong


def _end(process: subprocess.Popen[str]) -> None:
    """Interrupts a program, so that it ends what it started; what is left of its own group then goes with it."""
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def main(names: Sequence[str]) -> int:
    """Runs the programs of the named figures, or of all."""
    known = figures()
    if "--list" in names:
        print("\n".join(f"{name:36} bench/{path.name}" for name, path in sorted(known.items())))
        return 0
    # What a figure is called may end with the way it was taken: cross_node_push_p99 stands for both of its ways.
    names = [one for name in names for one in ([name] if name in known else begun(name, known) or [name])]
    unknown = [name for name in (*names, *TABLE) if name not in known]
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
