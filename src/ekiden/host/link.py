"""The host's line to its hub: says who it is, takes its work, follows its topic, and comes back by itself.

The position on the topic is kept over a broken line, so nothing that was asked meanwhile is missed; the list of
open work is read as well at each return, so that even a position that is too old loses nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from ekiden.client.client import Client
from ekiden.client.frames import Frame
from ekiden.host.catalogue import Catalogue
from ekiden.host.outbox import Outbox
from ekiden.host.requests import HostAnswer, HostRequest, Requests
from ekiden.host.supervise import Supervisor
from ekiden.kernel.errors import EkidenError, Forbidden, Unauthenticated
from ekiden.kernel.limits import FEED_RETRY_S, FEED_RETRY_S_MAX
from ekiden.sessions.wire import Approval, HostReport, InterruptAsked, Message, Welcome, Work

_log = logging.getLogger(__name__)
_FINAL = (Unauthenticated, Forbidden)


class Link:
    """Keeps one host connected to one hub."""

    def __init__(
        self,
        client: Client,
        host_id: str,
        *,
        catalogue: Catalogue,
        outbox: Outbox,
        supervisor: Supervisor,
        requests: Requests,
        report: Callable[[], HostReport],
    ) -> None:
        self._client = client
        self._host_id = host_id
        self._catalogue = catalogue
        self._outbox = outbox
        self._supervisor = supervisor
        self._requests = requests
        self._report = report
        self._cursor = ""
        self._answers: set[asyncio.Task[None]] = set()
        self._told: HostReport | None = None
        self.problem = ""
        """Why the hub is not reached; empty while it is."""

    async def run(self) -> None:
        """Stays connected until cancelled.

        Raises:
            Unauthenticated, Forbidden: if the hub does not let this host in any more.
        """
        wait_s = FEED_RETRY_S
        try:
            while True:
                try:
                    await self._connected()
                    wait_s = FEED_RETRY_S
                except _FINAL:
                    raise
                except EkidenError as error:
                    self._tell_problem(error)
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, FEED_RETRY_S_MAX)
        finally:
            for task in self._answers:
                task.cancel()
            await asyncio.gather(*self._answers, return_exceptions=True)

    def _tell_problem(self, error: EkidenError) -> None:
        if error.message != self.problem:
            self.problem = error.message
            _log.warning("The hub is not reached: %s", error.message)

    async def _connected(self) -> None:
        """One connection, from the greeting to its loss."""
        welcome = await self._greet()
        work = await self._client.get(f"/v1/hosts/{self._host_id}/work", type=Work)
        async with self._client.stream(f"host:{self._host_id}", self._cursor or work.cursor) as frames:
            first = not self._cursor
            self._cursor = self._cursor or work.cursor
            async for frame in frames:
                if frame.kind == "stream.hello":
                    self.problem = ""
                    self._catalogue.tails.set_marks(welcome.marks, welcome.threads)
                    self._outbox.met(welcome.boot_id)
                    self._supervisor.met_hub(anew=False)
                    self._take_work(work)
                elif frame.kind in ("stream.reset", "stream.gap"):
                    self._take_work(await self._client.get(f"/v1/hosts/{self._host_id}/work", type=Work))
                    self._supervisor.met_hub(anew=not first)
                elif frame.kind == "stream.end":
                    _log.info("The hub closed the stream.")
                else:
                    self._take(frame)
                self._cursor = frames.cursor or self._cursor
                first = False

    async def _greet(self) -> Welcome:
        self._told = self._report()
        return await self._client.put(f"/v1/hosts/{self._host_id}", self._told, type=Welcome)

    async def tell_host(self) -> None:
        """Tells what the host says of itself, if that differs from what was told last."""
        report = self._report()
        if self.problem or self._told is None or report == self._told:
            return
        try:
            await self._greet()
        except EkidenError as error:
            if isinstance(error, _FINAL):
                raise
            self._told = None

    def _take_work(self, work: Work) -> None:
        for message in work.messages:
            self._supervisor.placing.take(message)
        for approval in work.approvals:
            self._supervisor.take_answer(approval)
        for asked in work.interrupts:
            self._supervisor.take_interrupt(asked)

    def _take(self, frame: Frame) -> None:
        try:
            match frame.kind:
                case "host.request":
                    self._spawn(self._answer(frame.read(HostRequest)))
                case "message.stored" | "message.changed":
                    self._supervisor.placing.take(frame.read(Message))
                case "approval.answered":
                    self._supervisor.take_answer(frame.read(Approval))
                case "approval.ended":
                    approval = frame.read(Approval)
                    if approval.state == "unknown":
                        self._supervisor.approval_unknown(approval)
                case "turn.interrupt_asked":
                    self._supervisor.take_interrupt(frame.read(InterruptAsked))
                case _:
                    pass
        except msgspec.DecodeError as error:
            _log.warning("A %s from the hub could not be read: %s", frame.kind, error)

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._answers.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answers.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.warning("An answer did not reach the hub: %s", task.exception())

    async def _answer(self, request: HostRequest) -> None:
        answer: HostAnswer = await self._requests.answer(request)
        await self._client.post(f"/v1/hosts/{self._host_id}/answers", answer, repeatable=True)
