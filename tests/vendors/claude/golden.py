"""Expected items of the recorded sessions: `python -m vendors.claude.golden` (from `tests/`) writes them anew.

Read the difference before it is committed: the snapshots are what a person has found right, not what the
reader happens to give.
"""

import json
from pathlib import Path
from typing import Any

import msgspec

from ekiden.vendors.claude.transcript import ClaudeFold
from vendors.claude.files import SAMPLES, Reading, lines_of

EXPECTED = Path(__file__).parent / "expected"


def sessions() -> dict[str, Path]:
    """Name of the recording -> its session file."""
    paths = sorted(SAMPLES.glob("*/projects/*/*.jsonl"))
    return {f"{path.parts[-4]}-{path.stem[:8]}": path for path in paths}


def account(path: Path) -> dict[str, Any]:
    """All that the reader makes of a recording, as plain JSON."""
    fold = ClaudeFold(path.stem, file=path.name)
    reading = Reading(fold).take(lines_of(path.read_bytes()))
    items = [json.loads(msgspec.json.encode(item)) for item in reading.items.values()]
    for item in items:
        item["source"] = item["source"]["line"]
    return {"facts": json.loads(msgspec.json.encode(reading.facts)), "items": items}


def main() -> None:
    """Writes all snapshots."""
    EXPECTED.mkdir(exist_ok=True)
    for name, path in sessions().items():
        text = json.dumps(account(path), ensure_ascii=False, indent=1)
        (EXPECTED / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
