"""`owned_delta_to_second_device_p95`: milliseconds from a runtime's own output of a piece of text to its arrival
at the second of two clients that follow the session.

The demo agent's word `clock` tells pieces that are the time at which they were told; both processes read the same
monotonic clock. Floor of the same run: the agent's output read straight from its pipe.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from _up import Up, an_ekiden
from ekiden.sessions.wire import StartSession

PIECES = 200
PAUSE_S = "0.02"


def follow(up: Up, session_id: str, late_ms: list[float], ready: threading.Event) -> None:
    """Notes how late each piece comes, until the turn has ended."""
    with up.client() as client:
        for frame in client.stream((f"session:{session_id}",)):
            now = time.monotonic()
            if frame.kind == "stream.hello":
                ready.set()
            elif frame.kind == "item.grew":
                grew = frame.read(dict[str, Any])
                if grew["kind"] == "message":
                    # Pieces may come joined; each line is one of them.
                    late_ms.extend((now - float(at)) * 1e3 for at in grew["text"].split())
            elif frame.kind == "turn.changed" and frame.read(dict[str, Any])["state"] == "completed":
                return


def straight_ms() -> list[float]:
    """How late the pieces are at the end of the agent's own pipe."""
    late: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        agent = [sys.executable, "-m", "ekiden.vendors.demo", "--home", folder, "--session", "floor"]
        process = subprocess.Popen(
            [*agent, "--cwd", folder, "--delay-s", "0.002"],
            env={"PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"op":"say","message_id":"m","text":"clock"}\n')
        process.stdin.flush()
        for line in process.stdout:
            now = time.monotonic()
            if b'"grew"' in line and b'"message"' in line:
                late.append((now - float(line.split(b'"text":"')[1].split(b"\\n")[0])) * 1e3)
            if b'"turn_ended"' in line:
                break
        process.stdin.close()
        process.wait(10)
        process.stdout.close()
    return late


def p95(values: list[float]) -> float:
    """The value that 95 of 100 lie below."""
    return sorted(values)[int(len(values) * 0.95)]


def main() -> None:
    with (
        an_ekiden(EKIDEN_DEMO_DELAY_S=PAUSE_S) as up,
        up.client() as client,
        tempfile.TemporaryDirectory() as work,
    ):
        deadline = time.monotonic() + 15
        while not (hosts := [host for host in client.get("/v1/hosts")["hosts"] if host.get("here")]):
            assert time.monotonic() < deadline, "the host did not come"
            time.sleep(0.05)
        start = StartSession(host_id=hosts[0]["host_id"], vendor="demo", cwd=str(Path(work).resolve()))
        session_id = client.post("/v1/sessions", start)["session_id"]
        late: tuple[list[float], list[float]] = ([], [])
        threads: list[threading.Thread] = []
        for of_client in late:
            ready = threading.Event()
            threads.append(threading.Thread(target=follow, args=(up, session_id, of_client, ready)))
            threads[-1].start()
            assert ready.wait(10)
        client.post(f"/v1/sessions/{session_id}/messages", {"text": "clock"})
        for thread in threads:
            thread.join(30)
    second = late[1]
    assert len(second) == PIECES, f"{len(second)} of {PIECES} pieces came"
    value, floor = p95(second), p95(straight_ms())
    print(
        f"figure: owned_delta_to_second_device_p95={value:.3g} ms (bar < 30) "
        f"median {sorted(second)[PIECES // 2]:.3g} ms, worst {max(second):.3g} ms; "
        f"ratio {value / floor:.0f} to the pipe alone, {floor:.2g} ms"
    )


if __name__ == "__main__":
    main()
