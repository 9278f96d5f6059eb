"""Opening a session file, whether plain or compressed, as bytes that can be read from any place.

A compressed file is unpacked once into a nameless temporary file that only this process can see; the newest
few stay open. A frame that breaks off gives what could be read, and says so.
"""

import os
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import zstandard

from ekiden.host.lines import ByteSource, PlainSource, open_inside
from ekiden.kernel.limits import KIB, UNPACKED_BYTES_MAX, UNPACKED_FILES_MAX
from ekiden.vendors.port import FoundFile, Vendor

CUT_FRAME = "compressed_cut"
"""Notice: the compressed file breaks off; the readable part is shown."""
TOO_LARGE = "compressed_too_large"
"""Notice: unpacked it is over `UNPACKED_BYTES_MAX`; the part up to there is shown."""
COMPRESSED = "compressed"

_READ_BYTES = 4 * KIB
"""Small, because a piece that small can already unpack to well over a hundred megabytes."""


@dataclass(slots=True)
class Opened:
    """A file that is open for one reading. Close it, or use it as a context."""

    source: ByteSource
    notices: tuple[str, ...] = ()

    def close(self) -> None:
        self.source.close()

    def __enter__(self) -> "Opened":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Kept:
    descriptor: int
    notices: tuple[str, ...]


def _unpacker() -> Any:
    return zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()


class Opener:
    """Opens session files of one host; `folder` takes the temporary files. Safe to use from threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int, int], _Kept] = OrderedDict()

    def open(self, vendor: Vendor, file: FoundFile) -> Opened:
        """Opens `file` for reading.

        Raises:
            NotFound: if it is gone.
            Forbidden: if it is not a plain file inside the vendor's folders.
        """
        return self.open_path(file.path, vendor, compressed=file.compressed)

    def open_path(self, path: Path, vendor: Vendor, *, compressed: bool) -> Opened:
        source = open_inside(path, vendor.discovery.roots())
        if not compressed:
            return Opened(source)
        try:
            key = (str(path), source.modified_ns(), source.size())
            with self._lock:
                kept = self._kept.get(key)
                if kept is None:
                    kept = self._unpack(source)
                    self._kept[key] = kept
                    while len(self._kept) > UNPACKED_FILES_MAX:
                        _, oldest = self._kept.popitem(last=False)
                        os.close(oldest.descriptor)
                else:
                    self._kept.move_to_end(key)
                return Opened(PlainSource(os.dup(kept.descriptor)), kept.notices)
        finally:
            source.close()

    def _unpack(self, source: PlainSource) -> _Kept:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self._folder, prefix="unpacked-")
        os.unlink(name)
        notices = [COMPRESSED]
        written = position = 0
        unpacker = _unpacker()
        whole = False
        try:
            with os.fdopen(os.dup(descriptor), "wb") as target:
                while block := source.read(position, _READ_BYTES):
                    position += len(block)
                    while block:
                        piece = unpacker.decompress(block)
                        written += target.write(piece[: UNPACKED_BYTES_MAX - written])
                        if written >= UNPACKED_BYTES_MAX:
                            notices.append(TOO_LARGE)
                            return _Kept(descriptor, tuple(notices))
                        whole = unpacker.eof
                        block = b""
                        if whole:
                            block = unpacker.unused_data
                            unpacker = _unpacker()
            if not whole:
                notices.append(CUT_FRAME)
        except zstandard.ZstdError:
            notices.append(CUT_FRAME)
        except BaseException:
            os.close(descriptor)
            raise
        return _Kept(descriptor, tuple(notices))

    def close(self) -> None:
        """Lets all temporary files go."""
        with self._lock:
            for kept in self._kept.values():
                os.close(kept.descriptor)
            self._kept.clear()
