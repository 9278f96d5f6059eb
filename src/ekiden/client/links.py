"""Where a program stands in its chains: the next link of what it signs in each channel.

Several programs of one member may run at once (a terminal, two MCP processes), and each needs chains of its own.
So `chains/N.json` is taken under a lock by the first that comes, and given back when the program ends: short runs
one after the other go on in the same chain. Before a statement is sent the file says that one is on its way;
whoever finds that later, after a crash or an answer that was lost, begins a new chain, so that no two statements
have one place.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType

import msgspec

from ekiden.client.own_files import own_folder
from ekiden.crypto.statements import Link
from ekiden.kernel.errors import TooMany
from ekiden.kernel.ids import Prefix, new_id
from ekiden.kernel.limits import MEMBER_CHAINS_FILE_BYTES_MAX, MEMBER_PROGRAMS_MAX


class _Place(msgspec.Struct, omit_defaults=True):
    chain: str
    link: int = 0
    previous: str = ""
    sending: bool = False


class Links:
    """The chains of this program. `folder` is the member's."""

    def __init__(self, folder: Path, signer: str) -> None:
        self._folder = folder / "chains"
        self._signer = signer
        self._file = -1
        self._places: dict[str, _Place] = {}

    def next(self, where: str, at: str) -> Link:
        """The link of the next statement; `where` names the chain: a channel, or its status. From now until `said`
        or `unsaid` it counts as on its way."""
        self._open()
        place = self._places.get(where)
        if place is None or place.sending:
            place = self._places[where] = _Place(new_id(Prefix.EVENT).removeprefix("evt_"))
        place.sending = True
        self._write()
        return Link(self._signer, at, place.chain, place.link + 1, place.previous)

    def said(self, where: str, digest: str) -> None:
        """The hub has stored the statement."""
        place = self._places[where]
        place.link, place.previous, place.sending = place.link + 1, digest, False
        self._write()

    def unsaid(self, where: str) -> None:
        """The hub has refused it: its place is free again."""
        self._places[where].sending = False
        self._write()

    def close(self) -> None:
        """Gives the chains back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> "Links":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        if self._file >= 0:
            return
        own_folder(self._folder)
        for number in range(MEMBER_PROGRAMS_MAX):
            file = os.open(self._folder / f"{number}.json", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
                continue
            self._file = file
            self._places = _read(os.pread(file, MEMBER_CHAINS_FILE_BYTES_MAX, 0))
            return
        raise TooMany("Too many programs of this member run at once.", max=MEMBER_PROGRAMS_MAX)

    def _write(self) -> None:
        # A torn write leaves what cannot be read, and so new chains.
        data = msgspec.json.encode(self._places)
        if len(data) > MEMBER_CHAINS_FILE_BYTES_MAX:
            self._places = {where: place for where, place in self._places.items() if place.sending}
            data = msgspec.json.encode(self._places)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, data, 0)


def _read(data: bytes) -> dict[str, _Place]:
    try:
        return msgspec.json.decode(data, type=dict[str, _Place])
    except msgspec.DecodeError:
        return {}
