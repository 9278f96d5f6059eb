"""Sizes: a file of hundreds of megabytes whose lines repeat the whole history is indexed as a stream."""

import base64
import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from cases.desk import thread_id
from ekiden.kernel.limits import MIB
from vendors.codex.files import meta, row, written
from whole.computer import Computer, wait_for

RESULTS = Path(__file__).resolve().parents[2] / ".test-results"
MESSAGES = 2_000
COMPACTIONS = 90
PEAK_KIB_MAX = 250 * 1024


@pytest.fixture
def computer() -> Iterator[Computer]:
    """One with `ekiden up` as a process of its own; no model is there, because nothing is run."""
    folder = RESULTS / "computers" / uuid4().hex[:12]
    folder.mkdir(parents=True)
    made = Computer(folder, 9)
    yield made
    made.close()
    shutil.rmtree(folder, ignore_errors=True)


def write_rollout(path: Path) -> None:
    """About 300 MB: small messages, and between them compactions that carry all of the history with its images."""
    path.parent.mkdir(parents=True)
    images = [base64.b64encode(os.urandom(110_000)).decode() for _ in range(20)]
    parts = [{"type": "input_image", "image_url": f"data:image/png;base64,{image}"} for image in images]
    history = [{"type": "message", "role": "user", "content": parts}]
    compacted = row("compacted", {"message": "a summary", "replacement_history": history}) + b"\n"
    large = row("compacted", {"message": "the large one", "replacement_history": history * 6}) + b"\n"
    assert len(compacted) > 2.9e6
    assert len(large) > 17e6
    with path.open("wb") as file:
        file.write(meta(thread_id(1)) + b"\n")
        for number in range(MESSAGES):
            role = "assistant" if number % 2 else "user"
            file.write(written(role, f"small{number} words") + b"\n")
            if number % (MESSAGES // COMPACTIONS) == 0 and number // (MESSAGES // COMPACTIONS) < COMPACTIONS:
                file.write(compacted)
        file.write(large)
        file.write(written("user", "at the very end") + b"\n")


class Peaks(threading.Thread):
    """The highest memory that each process of a computer has had, as the kernel keeps it, in KiB."""

    def __init__(self, computer: Computer) -> None:
        super().__init__(daemon=True)
        self.of: dict[int, int] = {}
        self.over = threading.Event()
        self._computer = computer

    def run(self) -> None:
        while not self.over.wait(0.05):
            self.look()

    def look(self) -> None:
        for pid in self._computer.pids():
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            if "python" in status.splitlines()[0]:
                peak = next((line for line in status.splitlines() if line.startswith("VmHWM")), "VmHWM: 0")
                self.of[pid] = int(peak.split()[1])


def test_repeated_history_costs_neither_memory_nor_room_nor_sight(computer: Computer) -> None:
    """Hundreds of megabytes of it: every message is found, each compaction is one small item, the largest too; no
    process grows with the file, and what is kept of it is small."""
    folder = computer.home / ".codex" / "sessions" / "2026" / "01" / "01"
    path = folder / f"rollout-2026-01-01T00-00-00-{thread_id(1)}.jsonl"
    write_rollout(path)
    assert path.stat().st_size > 280e6
    computer.up()
    peaks = Peaks(computer)
    peaks.start()
    try:
        with computer.client() as client:
            session_id = computer.session(thread_id(1))["report"]["session_id"]
            newest = client.get(f"/v1/sessions/{session_id}/items", limit=3)
            shown = [item["kind"] for item in newest["items"]]
            assert shown == ["message", "compaction", "message"], "the newest page does not wait for the import"
            wait_for(
                lambda: client.get("/v1/search", text=f"small{0}").get("hits"), "the first message is found", 60.0
            )
            wait_for(lambda: client.get("/v1/search", text="very end").get("hits"), "and the last", 60.0)
            kinds: list[str] = []
            before = ""
            while True:
                page = client.get(f"/v1/sessions/{session_id}/items", limit=1_000, before=before)
                kinds += [item["kind"] for item in page["items"]]
                assert len(json.dumps(page)) < 4 * MIB
                before = page.get("before", "")
                if not before:
                    break
    finally:
        peaks.look()
        peaks.over.set()
        peaks.join()
    assert kinds.count("message") == MESSAGES + 1
    assert kinds.count("compaction") == COMPACTIONS + 1
    assert max(peaks.of.values()) < PEAK_KIB_MAX, peaks.of
    kept = sum(one.stat().st_size for one in Path(computer.environment["EKIDEN_HOME"]).rglob("*") if one.is_file())
    assert kept < 30 * MIB
