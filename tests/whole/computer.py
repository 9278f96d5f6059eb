"""A computer of its own for a test: a HOME with the vendors' programs set up against the scripted model, and the
real `ekiden` started in it as a person would. All is started with a clean environment and stopped by its pid.
"""

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
from typing import Any, TypeVar

import claude_agent_sdk
import codex_cli_bin

from ekiden.client.plain import PlainClient
from scripted_model import ScriptedModel

T = TypeVar("T")
KEY = "sk-ant-scripted-model-key-0123456789"


def wait_for(what: Callable[[], T | None], why: str, within_s: float = 30.0) -> T:
    """Polls `what` until it is true and returns it; fails naming `why`."""
    deadline = time.monotonic() + within_s
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {why}")
        time.sleep(0.02)


class Computer:
    """One HOME, its programs and one Ekiden."""

    def __init__(self, folder: Path, model_port: int) -> None:
        self.home = folder / "home"
        self.project = self.home / "project"
        self.project.mkdir(parents=True)
        programs = folder / "programs"
        programs.mkdir()
        (programs / "claude").symlink_to(Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude")
        (programs / "codex").symlink_to(Path(codex_cli_bin.__file__).parent / "bin" / "codex")
        self.environment = {
            "HOME": str(self.home),
            "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "EKIDEN_HOME": str(folder / "ekiden"),
            "PYTHONWARNINGS": "error",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model_port}",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_MODEL": "claude-sonnet-4-5",
            "ANTHROPIC_SMALL_FAST_MODEL": "claude-haiku-4-5",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "FAKE_KEY": "x",
        }
        self._processes: list[subprocess.Popen[bytes]] = []
        self._clients: list[PlainClient] = []
        self.up_process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.link = ""
        self.said: list[str] = []
        self._set_up_claude()
        self._set_up_codex(model_port)

    def _set_up_claude(self) -> None:
        (self.home / ".claude.json").write_text(
            json.dumps(
                {
                    "hasCompletedOnboarding": True,
                    "theme": "dark",
                    "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
                    "projects": {str(self.project): {"hasTrustDialogAccepted": True}},
                }
            )
        )

    def _set_up_codex(self, model_port: int) -> None:
        folder = self.home / ".codex"
        folder.mkdir()
        (folder / "config.toml").write_text(
            f"""
model = "fake-model"
model_provider = "fake"
approval_policy = "on-request"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.fake]
name = "fake"
base_url = "http://127.0.0.1:{model_port}/v1"
env_key = "FAKE_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
[projects."{self.project}"]
trust_level = "trusted"
"""
        )

    def run(self, *command: str, timeout_s: float = 60.0) -> str:
        """Runs a program to its end in the project folder and returns what it printed."""
        done = subprocess.run(
            command,
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout.decode()

    def begin(self, *command: str) -> subprocess.Popen[bytes]:
        """Starts a program in the project folder; it is ended with the computer."""
        process = subprocess.Popen(
            command,
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def ekiden(self, *words: str, timeout_s: float = 60.0) -> str:
        """Runs `ekiden WORDS…` and returns what it printed."""
        return self.run(sys.executable, "-m", "ekiden.cli", *words, timeout_s=timeout_s)

    def up(self, *words: str, port: int = 0) -> "Computer":
        """`ekiden up`; returns when it has printed its link."""
        process = self.begin(
            sys.executable, "-u", "-m", "ekiden.cli", "up", "--port", str(port), "--no-open", *words
        )
        self.up_process = process
        self.said = []
        found = threading.Event()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                text = line.decode(errors="replace")
                self.said.append(text)
                link = re.search(r"(http://[^\s#]+?)/?#pair=\S+", text)
                if link:
                    self.link, self.url = link[0], link[1]
                    found.set()

        threading.Thread(target=read, daemon=True).start()
        assert found.wait(30.0), "".join(self.said)
        return self

    def kill_up(self) -> None:
        """SIGKILL, as when the power goes."""
        assert self.up_process is not None
        self.up_process.kill()
        self.up_process.wait(10)

    def key(self) -> str:
        """The local command line's key."""
        return (Path(self.environment["EKIDEN_HOME"]) / "local.key").read_text().strip()

    def client(self) -> PlainClient:
        """A client of the door with the local key; it is closed with the computer, if nobody did so before."""
        client = PlainClient(self.url, self.key())
        self._clients.append(client)
        return client

    def sessions(self) -> list[dict[str, Any]]:
        with self.client() as client:
            return client.get("/v1/sessions", limit=1000)["sessions"]

    def session(self, native_id: str, within_s: float = 30.0) -> dict[str, Any]:
        """The session with this native id, once the host has found it."""
        return wait_for(
            lambda: next((s for s in self.sessions() if s["report"]["native_id"] == native_id), None),
            f"session {native_id} appears",
            within_s,
        )

    def texts(self, session_id: str, role: str = "assistant") -> list[str]:
        """The texts of all messages of a role, oldest first."""
        with self.client() as client:
            items = client.get(f"/v1/sessions/{session_id}/items", limit=1000)["items"]
        return [
            "\n".join(block.get("text", "") for block in item.get("content", ()))
            for item in items
            if item["kind"] == "message" and item.get("role") == role and not item.get("injected")
        ]

    def close(self) -> None:
        """Ends all that was started here, and what that started."""
        for client in self._clients:
            client.close()
        if self.up_process is not None and self.up_process.poll() is None:
            self.up_process.send_signal(signal.SIGTERM)
            try:
                self.up_process.wait(15)
            except subprocess.TimeoutExpired:
                self.up_process.kill()
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
            if process.stdout is not None:
                process.stdout.close()
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)

    def pids(self) -> list[int]:
        """Processes whose environment has this computer's HOME."""
        wanted = f"HOME={self.home}".encode()
        return [pid for pid, environment in environments() if wanted in environment.split(b"\0")]


def environments() -> Iterator[tuple[int, bytes]]:
    """(pid, raw environment) of all processes that can be read, but this one."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                yield int(entry.name), (entry / "environ").read_bytes()
            except OSError:
                continue


__all__ = ["Computer", "ScriptedModel", "wait_for"]
