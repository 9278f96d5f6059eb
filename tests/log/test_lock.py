"""One hub to a database. Holders are real processes that really die."""

import asyncio
import os
import signal
import subprocess
import sys

import msgspec
import pytest
from tests.log.conftest import BOUND_S, QUERIES, TEAM, appends

from ekiden.kernel.errors import StoreHeld
from ekiden.log import lock as locks
from ekiden.log.lock import holder_of, lock_path, process_start, take_lock
from ekiden.log.open import open_log

NOW = "2026-01-01T00:00:00.000Z"
HOLDER = """
import os, sys, time
from pathlib import Path
from ekiden.log.lock import take_lock
lock = take_lock(Path(sys.argv[1]), since="2026-01-01T00:00:00.000Z")
lock.announce("http://127.0.0.1:9")
child = 0
if sys.argv[2] == "fork":
    child = os.fork()
    if not child:
        os.close(1)
        time.sleep(600)
print(os.getpid(), child, flush=True)
time.sleep(600)
"""


class Holder:
    """A process that holds the lock of `path`; with `fork`, a child of it keeps the file open after its death."""

    def __init__(self, path, how="alone"):
        self._process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path), how], stdout=subprocess.PIPE, text=True
        )
        self.pid, self.child = (int(number) for number in self._process.stdout.readline().split())

    def kill(self):
        self._process.kill()
        self._process.communicate(timeout=BOUND_S)

    def end_child(self):
        if self.child:
            os.kill(self.child, signal.SIGKILL)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ekiden.db"


def test_the_second_is_told_who_has_it_since_when_and_where(path):
    holder = Holder(path)
    try:
        with pytest.raises(StoreHeld) as refused:
            take_lock(path, since=NOW)
        assert refused.value.details == {"pid": holder.pid, "since": NOW, "url": "http://127.0.0.1:9"}
        assert str(holder.pid) in refused.value.message
        assert holder_of(path).pid == holder.pid
    finally:
        holder.kill()


def test_a_lock_ends_with_its_holder(path):
    holder = Holder(path)
    holder.kill()
    assert holder_of(path) is None
    lock = take_lock(path, since=NOW)
    assert holder_of(path).pid == os.getpid()
    lock.release()
    assert holder_of(path) is None


def test_a_lock_that_only_a_child_of_a_dead_holder_keeps_open_is_taken_over(path):
    holder = Holder(path, "fork")
    try:
        with pytest.raises(StoreHeld):
            take_lock(path, since=NOW)
        holder.kill()
        lock = take_lock(path, since=NOW)
        assert holder_of(path).pid == os.getpid()
        with pytest.raises(StoreHeld):
            take_lock(path, since=NOW)
        lock.release()
    finally:
        holder.end_child()


def test_a_pid_that_was_given_to_another_process_does_not_hold_anything(path):
    """The file names a living process (this one), but one that started at another moment."""
    holder = Holder(path, "fork")
    try:
        holder.kill()
        said = msgspec.json.encode({"pid": os.getpid(), "started": "an earlier boot:1", "since": NOW, "url": ""})
        lock_path(path).write_bytes(said)
        take_lock(path, since=NOW).release()
    finally:
        holder.end_child()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid":"x"}', b"\xff" * 10_000])
def test_what_a_lock_file_says_does_not_matter_if_nobody_holds_it(path, content):
    lock_path(path).write_bytes(content)
    lock = take_lock(path, since=NOW)
    assert holder_of(path).pid == os.getpid()
    lock.release()


def test_a_holder_that_says_nothing_is_still_a_holder(path):
    holder = Holder(path)
    try:
        lock_path(path).write_bytes(b"")
        with pytest.raises(StoreHeld, match="Another process"):
            take_lock(path, since=NOW)
    finally:
        holder.kill()


def test_of_many_that_find_a_stale_lock_one_gets_it(path):
    holder = Holder(path, "fork")
    holder.kill()
    takers = [
        subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path), "alone"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    try:
        # Those that lost end with an error; the one that won holds on.
        winner = None
        for taker in takers:
            if taker.stdout.readline():
                assert winner is None
                winner = taker
        assert winner is not None
        assert holder_of(path).pid == winner.pid
    finally:
        holder.end_child()
        for taker in takers:
            taker.kill()
            taker.communicate(timeout=BOUND_S)


def test_a_process_is_known_by_its_start():
    assert process_start(os.getpid()) == process_start(os.getpid()) != ""
    assert process_start(os.getpid()) != process_start(1)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait(BOUND_S)
    assert process_start(dead.pid) == ""


def test_without_proc_a_living_process_is_still_told_from_a_dead_one(monkeypatch, tmp_path):
    monkeypatch.setattr(locks, "_PROC", tmp_path)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait(BOUND_S)
    assert (process_start(os.getpid()), process_start(dead.pid)) == ("alive", "")


@pytest.mark.anyio
async def test_a_second_hub_on_the_same_data_is_refused_and_disturbs_nothing(path, clock):
    log = await open_log(str(path), clock=clock, queries=QUERIES)
    log.announce("http://127.0.0.1:7433")
    with pytest.raises(StoreHeld) as refused:
        await open_log(str(path), clock=clock, queries=QUERIES)
    assert refused.value.details["pid"] == os.getpid()
    assert refused.value.details["url"] == "http://127.0.0.1:7433"
    assert (await log.write(TEAM, appends())).seq == 1
    await log.close()
    again = await open_log(str(path), clock=clock, queries=QUERIES)
    assert (await again.write(TEAM, appends())).seq == 2
    await asyncio.wait_for(again.close(), BOUND_S)
