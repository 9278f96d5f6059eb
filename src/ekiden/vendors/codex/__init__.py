"""Codex: reads its rollouts, finds them, and drives its app-server.

`vendor(home, environment)` is all that the host needs; see `ekiden.vendors.port`.
"""

from pathlib import Path

from ekiden.vendors.codex.discover import CodexDiscovery
from ekiden.vendors.codex.runtime import CodexRuntime
from ekiden.vendors.codex.servers import SharedServers
from ekiden.vendors.codex.transcript import CodexFold
from ekiden.vendors.port import Begin, Discovery, Environment, FoundFile, Vendor

__all__ = ["CodexVendor", "vendor"]


class CodexVendor:
    """Codex on one computer. All runtimes of one value share its app-servers."""

    name = "codex"
    label = "Codex"

    def __init__(self, home: Path, environment: Environment) -> None:
        discovery = CodexDiscovery(home, environment, lambda: self._servers.pids())
        self._servers = SharedServers(discovery.program, discovery.owners)
        self.discovery: Discovery = discovery

    def fold(self, file: FoundFile) -> CodexFold:
        """A fresh fold for this rollout."""
        return CodexFold(file.native_id, str(file.path), thread=file.thread)

    def runtime(self, begin: Begin, environment: Environment) -> CodexRuntime:
        """A runtime that has not started yet."""
        return CodexRuntime(begin, environment, self._servers)


def vendor(home: Path, environment: Environment) -> Vendor:
    """Codex as the home folder and environment of one person have it."""
    return CodexVendor(home, environment)
