"""Which messages Codex has already taken, from what it wrote itself: each carries the id that it was sent with."""

import re
from pathlib import Path

from ekiden.kernel.limits import CODEX_TAIL_BYTES_MAX

_CLIENT_ID = re.compile(rb'"client_id":\s?"(msg_[0-9a-z]{1,40})"')


def arrived_messages(rollout: str) -> list[str]:
    """Ids of the newest messages in a rollout, oldest first; none if it cannot be read or is not there yet."""
    try:
        with Path(rollout).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - CODEX_TAIL_BYTES_MAX))
            tail = file.read(CODEX_TAIL_BYTES_MAX)
    except OSError:
        return []
    return [found.decode("ascii") for found in _CLIENT_ID.findall(tail)]
