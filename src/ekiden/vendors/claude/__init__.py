"""Claude Code: its session files, its live processes, and a resident process that Ekiden owns.

`vendor(home, environment)` is the one name that the host needs. See `docs/vendors/claude.md`.
"""

from pathlib import Path

from ekiden.transcript.reading import Fold
from ekiden.vendors.claude.discover import ClaudeDiscovery
from ekiden.vendors.claude.runtime import ClaudeRuntime
from ekiden.vendors.claude.transcript import ClaudeFold
from ekiden.vendors.port import Begin, Discovery, Environment, FoundFile, Runtime, Vendor

__all__ = ["ClaudeVendor", "vendor"]


class ClaudeVendor:
    """Claude Code as one value. `home` is the person's home folder, `environment` the host's."""

    name = "claude"
    label = "Claude Code"

    def __init__(self, home: Path, environment: Environment) -> None:
        self._claude = ClaudeDiscovery(home, environment)
        self.discovery: Discovery = self._claude

    def fold(self, file: FoundFile) -> Fold:
        """A fold for one file, told beforehand what stands beside it about sub-agents."""
        return ClaudeFold(
            file.native_id,
            file=str(file.path),
            thread=file.thread,
            called_by=self._claude.called_by(file.path) if file.thread else "",
            callers=self._claude.callers(file),
        )

    def runtime(self, begin: Begin, environment: Environment) -> Runtime:
        """A resident process that has not started yet."""
        return ClaudeRuntime(begin, environment, self._claude.program())


def vendor(home: Path, environment: Environment) -> Vendor:
    """Claude Code on this computer."""
    return ClaudeVendor(home, environment)
