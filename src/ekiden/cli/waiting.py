"""Waits for two things at once: frames of a stream, and a line that the person types."""

import os
import queue
import select
import sys
import threading
from collections.abc import Iterator
from types import TracebackType

from ekiden.client.frames import Frame
from ekiden.client.plain import PlainClient
from ekiden.kernel.errors import EkidenError

_FRAMES_WAITING_MAX = 1000


class Ears:
    """A stream read on a thread of its own, and standard input, behind one `next`.

    The thread ends with the process; its connection is closed by the kernel.
    """

    def __init__(self, client: PlainClient, topics: tuple[str, ...], after: str = "") -> None:
        self._frames: queue.Queue[Frame | EkidenError | None] = queue.Queue(_FRAMES_WAITING_MAX)
        self._wake_reading, self._wake_writing = os.pipe()
        self._stream = client.stream(topics, after)
        self._closed = False
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Ears":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True

    def frames(self) -> Iterator[Frame]:
        """Frames only, until the stream ends."""
        while isinstance(heard := self.next(typing=False), Frame):
            yield heard

    def next(self, *, typing: bool) -> Frame | str | None:
        """The next frame, or with `typing` the next line (empty at the end of input, else with its newline).
        None when the stream has ended.

        Raises:
            EkidenError: that broke the stream for good.
        """
        while True:
            wanted = [self._wake_reading, *([sys.stdin.fileno()] if typing else [])]
            ready, _, _ = select.select(wanted, [], [])
            if self._wake_reading in ready:
                os.read(self._wake_reading, 1)
                heard = self._frames.get()
                if isinstance(heard, EkidenError):
                    raise heard
                return heard
            return sys.stdin.readline()

    def _listen(self) -> None:
        try:
            for frame in self._stream:
                self._put(frame)
                if self._closed:
                    return
            self._put(None)
        except EkidenError as error:
            self._put(error)

    def _put(self, heard: Frame | EkidenError | None) -> None:
        self._frames.put(heard)
        os.write(self._wake_writing, b".")
