"""The room with a real hub on a port, a real host and the demo agent's real process: what two devices see."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ekiden.client.client import Client
from ekiden.host.main import Host, HostSettings
from ekiden.hub.serve import Serving, start_serving
from ekiden.hub.settings import Settings
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from ekiden.kernel.cursors import parse_cursor
from ekiden.kernel.errors import AlreadyAnswered, EkidenError, HostAway
from ekiden.sessions.wire import (
    AnswerApproval,
    Approval,
    Carried,
    Hosts,
    ItemPage,
    Message,
    SessionPage,
    SessionState,
    SessionView,
)
from ekiden.vendors.demo.vendor import demo_vendor
from sessions.room import Follower, shown_of

pytestmark = pytest.mark.anyio

T = TypeVar("T")
WAIT_S = 30.0


class Place:
    """A hub that can be started again at the same port, and a host that goes on meanwhile."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.port = 0
        self.serving: Serving | None = None
        self.owner = Client("http://127.0.0.1:1")
        self.host_id = ""
        self.host_task: asyncio.Task[None] | None = None
        self.clients: list[Client] = []

    async def start_hub(self) -> None:
        settings = Settings(home=self.base / "hub", port=self.port)
        self.serving = await start_serving(await open_hub(settings, SystemClock()))
        self.port = self.serving.port
        if not self.clients:
            self.owner = self.client((self.base / "hub" / "local.key").read_text().strip())

    async def stop_hub(self) -> None:
        assert self.serving is not None
        await self.serving.stop()
        self.serving = None

    async def start_host(self) -> None:
        made = await self.owner.post("/v1/keys", {"name": "Workstation", "kind": "host"})
        self.host_id = made["host_id"]
        environment = {"HOME": str(self.base), "PATH": "/usr/bin:/bin", "EKIDEN_HOME": str(self.base / "demo")}
        settings = HostSettings(
            self.base / "host", "Workstation", environment, [demo_vendor(environment)], vendors_from=""
        )
        self.host_task = asyncio.create_task(Host(settings, self.client(made["key"]), self.host_id).run())
        await self.until(lambda: self.here(True))

    async def here(self, wanted: bool) -> bool:
        hosts = (await self.owner.get("/v1/hosts", type=Hosts)).hosts
        return any(host.host_id == self.host_id and host.here is wanted for host in hosts)

    def client(self, key: str) -> Client:
        made = Client(f"http://127.0.0.1:{self.port}", key)
        self.clients.append(made)
        return made

    async def device(self, name: str) -> Client:
        return self.client((await self.owner.post("/v1/keys", {"name": name, "kind": "device"}))["key"])

    async def until(self, condition: Callable[[], Awaitable[T]]) -> T:
        """Waits until a condition holds, and gives what it gave; a host that ended says why."""
        async with asyncio.timeout(WAIT_S):
            while not (value := await condition()):
                if self.host_task is not None and self.host_task.done():
                    self.host_task.result()
                await asyncio.sleep(0.02)
            return value

    async def begin(self, message: str) -> str:
        folder = self.base / "project"
        folder.mkdir(exist_ok=True)
        body = {"host_id": self.host_id, "vendor": "demo", "cwd": str(folder), "message": message}
        return (await self.owner.post("/v1/sessions", body, type=Carried)).session_id

    async def view(self, session_id: str) -> SessionView:
        return await self.owner.get(f"/v1/sessions/{session_id}", type=SessionView)

    async def open_approval(self, session_id: str) -> Approval | None:
        shown = (await self.view(session_id)).approvals
        return next((approval for approval in shown if approval.state == "open"), None)

    async def idle(self, session_id: str) -> bool:
        view = await self.view(session_id)
        return view.session.state is SessionState.IDLE and not view.messages and not view.approvals

    async def texts(self, session_id: str) -> list[str]:
        """What people said; nothing while the host is away, which it is for a moment after a restart here, where
        a host is lost at once."""
        try:
            page = await self.owner.get(f"/v1/sessions/{session_id}/items", type=ItemPage, limit=1_000)
        except HostAway:
            return []
        return [item.text() for item in page.items if item.role == "user"]

    async def follow(self, follower: Follower, cursor: str) -> None:
        """Lets a client that read its view at `cursor` take all that came since."""
        assert self.serving is not None
        hub = self.serving.hub
        events = await hub.log.events(hub.rooms.team_id, parse_cursor(cursor).seq, limit=100_000)
        follower.apply(list(events))

    async def close(self) -> None:
        if self.host_task is not None:
            self.host_task.cancel()
            await asyncio.gather(self.host_task, return_exceptions=True)
        for client in self.clients:
            await client.close()
        if self.serving is not None:
            await self.stop_hub()


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    monkeypatch.setattr("ekiden.hub.hosts.HOST_GRACE_S", 0.01)
    opened = Place(tmp_path)
    await opened.start_hub()
    try:
        await opened.start_host()
        yield opened
    finally:
        await opened.close()


async def answer(client: Client, asked: Approval, option: str) -> Any:
    """The answered approval, or the refusal."""
    try:
        body = AnswerApproval(option, asked.digest)
        return await client.post(f"/v1/approvals/{asked.approval_id}/answer", body, type=Approval)
    except EkidenError as refused:
        return refused


async def test_one_of_two_answers_decides_and_the_turn_goes_on(place: Place) -> None:
    """Both devices see the question; one decides; the other learns which; the turn ends; all cards close."""
    session_id = await place.begin("ask")
    asked = await place.until(lambda: place.open_approval(session_id))
    phone, desk = await place.device("Phone"), await place.device("Desk")
    outcomes = await asyncio.gather(answer(phone, asked, "allow"), answer(desk, asked, "deny"))
    (won,) = [outcome for outcome in outcomes if isinstance(outcome, Approval)]
    (lost,) = [outcome for outcome in outcomes if isinstance(outcome, AlreadyAnswered)]
    assert (lost.details["option"], lost.details["device"]) == (won.answer, won.answered_by)
    await place.until(lambda: place.idle(session_id))
    late = await answer(desk, asked, "deny")
    assert isinstance(late, AlreadyAnswered)


async def test_a_question_outlives_the_hub_as_one_that_is_asked_anew(place: Place) -> None:
    """The hub ends while a question is open and loses sight of the host: the old card is dead in words, the host
    asks again, the new card can be answered, and a client that follows shows what a fresh one shows."""
    session_id = await place.begin("ask")
    first = await place.until(lambda: place.open_approval(session_id))
    view = await place.view(session_id)
    await place.stop_hub()
    await place.start_hub()

    async def another() -> Approval | None:
        found = await place.open_approval(session_id)
        return found if found is not None and found.approval_id != first.approval_id else None

    second = await place.until(another)
    assert second.command == first.command
    refused = await answer(place.owner, first, "allow")
    assert isinstance(refused, EkidenError)
    assert refused.status == 409
    assert isinstance(await answer(place.owner, second, "deny"), Approval)
    await place.until(lambda: place.idle(session_id))
    follower = Follower(view)
    await place.follow(follower, view.cursor)
    assert follower.shown() == shown_of(await place.view(session_id))


async def test_messages_of_two_devices_during_a_turn_each_have_their_effect_once(place: Place) -> None:
    """Three while it runs, one of them told twice, one taken back, a stop, and a restart of the hub: each text
    that was not taken back is in the session once, in the order of the hub, and there is one session."""
    session_id = await place.begin("slow long")
    phone, desk = await place.device("Phone"), await place.device("Desk")
    path = f"/v1/sessions/{session_id}/messages"

    async def running() -> str:
        view = await place.view(session_id)
        return view.session.report.turn_id if view.session.state is SessionState.RUNNING else ""

    turn_id = await place.until(running)
    for _ in range(2):
        await phone.post(path, {"text": "say one"}, command_id="one")
    back = await desk.post(path, {"text": "say never"}, type=Message)
    await desk.post(path, {"text": "say two"})
    await desk.delete(f"/v1/messages/{back.message_id}")
    await phone.post(f"/v1/sessions/{session_id}/interrupt", {"turn_id": turn_id})
    await phone.post(path, {"text": "say three"})
    await place.stop_hub()
    await place.start_hub()
    await place.until(lambda: place.idle(session_id))

    async def all_there() -> bool:
        return len(await place.texts(session_id)) >= 4 and await place.idle(session_id)

    await place.until(all_there)
    assert await place.texts(session_id) == ["slow long", "say one", "say two", "say three"]
    assert (await place.owner.get("/v1/sessions", type=SessionPage)).total == 1
