"""The environment of vendors' programs: what they need and nothing else of what this process was started with.

An allow-list, so that a secret that happens to be set (a cloud key, a token of another program) does not reach
an agent that runs commands. What the agent itself is configured to read by name is let through.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

RUN_TAG = "EKIDEN_RUN"
"""In the environment of every process of a run, with the run's id: so that all of them are found again."""

SEAT_FILE = "EKIDEN_SEAT"
"""In the environment of the server of a session's own tools: where the file with its key is."""

_NAMES = frozenset(
    {
        "HOME", "PATH", "LANG", "LANGUAGE", "TERM", "COLORTERM", "SHELL", "USER", "LOGNAME", "TMPDIR", "TZ",
        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS",
        "IS_SANDBOX", "VIRTUAL_ENV",
    }
)  # fmt: skip
_PREFIXES = ("LC_", "XDG_", "EKIDEN_DEMO_")
_OF_VENDOR = {
    "claude": ("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_", "CLOUD_ML_", "VERTEX_", "DISABLE_"),
    "codex": ("OPENAI_", "CODEX_"),
}
_OWN = frozenset({"CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT", "CLAUDECODE", "CODEX_SANDBOX"})
"""Set by a vendor's program for what it starts itself: a session of ours is not inside theirs."""
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


def runtime_environment(vendor: str, environment: Mapping[str, str], run_id: str) -> dict[str, str]:
    """What a process of `vendor` gets of `environment`, with the tag of its run."""
    prefixes = _PREFIXES + _OF_VENDOR.get(vendor, ())
    named = _codex_names(environment) if vendor == "codex" else frozenset[str]()
    chosen = {
        name: value
        for name, value in environment.items()
        if name not in _OWN and (name in _NAMES or name in named or name.startswith(prefixes))
    }
    chosen[RUN_TAG] = run_id
    return chosen


def _codex_names(environment: Mapping[str, str]) -> frozenset[str]:
    """Names of variables that Codex' own configuration reads keys from (`env_key`, `env_http_headers`)."""
    home = environment.get("CODEX_HOME") or (environment.get("HOME", "") and f"{environment['HOME']}/.codex")
    if not home:
        return frozenset()
    try:
        settings = tomllib.loads((Path(home) / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return frozenset()
    names: set[str] = set()
    for table in _tables(settings):
        for name, inner in table.items():
            if name in ("env_key", "bearer_token_env_var") and isinstance(inner, str):
                names.add(inner)
            elif name == "env_http_headers" and isinstance(inner, dict):
                headers = cast("dict[str, object]", inner)
                names.update(entry for entry in headers.values() if isinstance(entry, str))
    return frozenset(name for name in names if _ENVIRONMENT_NAME.fullmatch(name))


def _tables(value: object) -> Iterator[dict[str, object]]:
    """All tables of a TOML document, however deep."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        yield table
        for inner in table.values():
            yield from _tables(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _tables(inner)
