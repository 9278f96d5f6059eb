"""The command line as a person has it: a process, a HOME of its own, a clean environment."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


class Answer:
    """What a command printed and how it ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


class Person:
    """One HOME with one data folder, and what runs in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.data = folder / "data"
        self.work = folder / "work"
        for made in (self.home, self.work):
            made.mkdir()
        self.environment = {
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "EKIDEN_HOME": str(self.data),
            "EKIDEN_DEMO_DELAY_S": "0.001",
            "PYTHONWARNINGS": "error",
        }
        self.processes: list[subprocess.Popen[str]] = []
        self.said: list[str] = []
        self.link = ""

    def ekiden(self, *words: str, text: str = "", **environment: str) -> Answer:
        """Runs one command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "ekiden.cli", *words],
            env={**self.environment, **environment},
            cwd=self.work,
            input=text,
            capture_output=True,
            text=True,
            timeout=40,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Answer(done.returncode, done.stdout, done.stderr)

    def good(self, *words: str, text: str = "") -> Answer:
        """Runs a command that must succeed."""
        answer = self.ekiden(*words, text=text)
        assert answer.code == 0, (words, answer.out[-2000:], answer.err[-2000:])
        return answer

    def begin(self, *words: str) -> "subprocess.Popen[str]":
        """Starts a command and leaves it running."""
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "ekiden.cli", *words],
            env=self.environment,
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def up(self, *words: str) -> "subprocess.Popen[str]":
        """`ekiden up` on a free port; returns once it has printed its link."""
        process = self.begin("up", "--port", "0", "--no-open", *words)
        found = threading.Event()
        self.said = []

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                self.said.append(line)
                link = re.search(r"https?://\S+/#pair=\S+", line)
                if link:
                    self.link = link[0]
                    found.set()

        threading.Thread(target=read, daemon=True).start()
        assert found.wait(30), "".join(self.said)
        return process

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait(10)
            assert process.stdout is not None
            process.stdout.close()


def until(what: Callable[[], Any], why: str, within_s: float = 30.0) -> Any:
    """Asks again until it is true; fails naming `why`."""
    deadline = time.monotonic() + within_s
    while not (found := what()):
        assert time.monotonic() < deadline, f"not within {within_s} s: {why}"
        time.sleep(0.05)
    return found


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    person = Person(tmp_path)
    try:
        yield person
    finally:
        person.close()
