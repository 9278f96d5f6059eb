"""`up_ready`: seconds from starting `ekiden up` (hub and host) to the first answered request.

Peer of the same run: a Python process that only imports the HTTP server and answers one request.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

RUNS = 5
PEER = """
import sys, asyncio, uvicorn
async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"{}"})
uvicorn.run(app, port=int(sys.argv[1]), log_config=None, lifespan="off")
"""


def free_port() -> int:
    """A port that is free at this moment."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return trial.getsockname()[1]


def seconds_until_answer(command: list[str], port: int, environment: dict[str, str]) -> float:
    """Starts a server, asks until it answers, and ends it."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    try:
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1) as answer:
                    answer.read()
                return time.perf_counter() - started
            except OSError:
                time.sleep(0.01)
                if time.perf_counter() - started > 20:
                    raise
    finally:
        process.terminate()
        process.wait(15)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        environment = {"HOME": folder, "PATH": os.environ["PATH"], "EKIDEN_HOME": str(home / "data")}
        up_s: list[float] = []
        peer_s: list[float] = []
        for _ in range(RUNS):
            port = free_port()
            up = [sys.executable, "-m", "ekiden.cli", "up", "--no-open", "--port", str(port)]
            up_s.append(seconds_until_answer(up, port, environment))
            port = free_port()
            peer_s.append(seconds_until_answer([sys.executable, "-c", PEER, str(port)], port, environment))
    value, peer = statistics.median(up_s[1:]), statistics.median(peer_s[1:])
    print(
        f"figure: up_ready={value:.3g} s (bar < 2) worst {max(up_s):.3g} s (the first, on no data, included); "
        f"ratio {value / peer:.1f} to a bare server's {peer:.3g} s"
    )


if __name__ == "__main__":
    main()
