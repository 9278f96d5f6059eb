"""The hub and this computer's host in one process, from the first check to a clean end.

They share a process and nothing else: the host reaches the hub through its HTTP door, with a key of its own.
"""

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from ekiden import __version__
from ekiden.cli.exit_codes import OK
from ekiden.cli.host_keeper import TURNED_AWAY, kept
from ekiden.cli.host_key import HostKey, host_key_at_hub, read_host_key, write_host_key
from ekiden.cli.link import print_link
from ekiden.cli.network_address import lan_address
from ekiden.cli.place import HOST_KEY, LOCAL_KEY, database_url, home_of, local_key, read_key
from ekiden.cli.screen import Screen, line_of, visible
from ekiden.cli.vendor_list import environment_of
from ekiden.client.client import Client
from ekiden.client.stream import Reconnect
from ekiden.hub.serve import Serving, spare_what_lasts, start_serving
from ekiden.hub.settings import DEFAULT_PORT, Settings
from ekiden.hub.waiting import opened
from ekiden.hub.wiring import open_hub
from ekiden.kernel.clock import SystemClock
from ekiden.kernel.errors import EkidenError, StoreHeld, Unauthenticated
from ekiden.kernel.limits import UP_HOST_WAIT_S
from ekiden.log.sqlite_files import make_private_folder
from ekiden.sessions.wire import Hosts
from ekiden.vendors.demo.native import sessions_folder

_log = logging.getLogger(__name__)
T = TypeVar("T")


class _VisibleFormatter(logging.Formatter):
    """Log lines may quote what came from outside: it is shown as text."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))


def run_up(options: argparse.Namespace) -> int:
    """Runs `ekiden up` until it is asked to end."""
    _log_to_stderr()
    return _run(_up(options))


def run_host(options: argparse.Namespace) -> int:
    """Runs `ekiden host` until it is asked to end."""
    _log_to_stderr()
    return _run(_host(options))


def _run(main: Coroutine[Any, Any, int]) -> int:
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(_VisibleFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


async def _up(options: argparse.Namespace) -> int:
    home = home_of(options)
    screen = Screen()
    ending = _asked_to_end()
    make_private_folder(home)
    async with AsyncExitStack() as stack:
        serving = await _serve(home, options, ending)
        if serving is None:
            return OK
        stack.push_async_callback(serving.stop)
        # The hub is reached at its own address, whatever name people use for it.
        client = Client(f"http://127.0.0.1:{serving.port}", read_key(home / LOCAL_KEY))
        stack.push_async_callback(client.close)
        host = None
        if not options.no_host:
            key = await _host_key(client, home)
            host = await _start_host(stack, client.url, key, home, _own_name(), _teller(screen, options))
            await _until_here(client, key.host_id)
        await _tell(client, screen, home, serving, options)
        spare_what_lasts()
        if not options.json:
            task = asyncio.create_task(_tell_who_asks(client, screen))
            stack.push_async_callback(_cancelled, task)
        try:
            await _until_asked(ending, host)
        except TURNED_AWAY as error:
            _teller(screen, options)(
                f"This computer's host is not let in any more ({error.message}); the hub goes on."
            )
            await ending.wait()
        if not options.json:
            screen.say("Ending; sessions and messages are kept.")
    return OK


def _teller(screen: Screen, options: argparse.Namespace) -> Callable[[str], None]:
    """Says a line to people; standard output has only data with `--json`."""
    if getattr(options, "json", False):
        return lambda line: _log.warning("%s", line)
    return lambda line: screen.say(screen.style(line_of(line), "yellow"))


async def _serve(home: Path, options: argparse.Namespace, ending: asyncio.Event) -> Serving | None:
    """Opens the data and the port; None if it was asked to end while it waited for the data.

    Raises:
        StoreHeld: if another Ekiden has the data; its hint has a fresh link to that one.
    """
    address = "0.0.0.0" if options.lan else "127.0.0.1"  # noqa: S104 (only if the person asks for it)
    port = _port(address) if options.port is None else options.port
    allowed = tuple(filter(None, (lan_address(), socket.gethostname()))) if options.lan else ()
    settings = Settings(
        home=home,
        address=address,
        port=port,
        allowed_hosts=allowed,
        url=options.url,
        database_url=database_url(options),
    )
    settings = settings.told_by(os.environ)
    try:
        opening = opened(settings, lambda: open_hub(settings, SystemClock()), tell=_teller(Screen(), options))
        hub = await _unless_asked(ending, opening)
        return await start_serving(hub) if hub is not None else None
    except StoreHeld as error:
        raise await _with_link(error, home) from None


def _port(address: str) -> int:
    """The usual port if it is free, else one that the system chooses."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((address, DEFAULT_PORT))
        except OSError:
            return 0
    return DEFAULT_PORT


async def _with_link(error: StoreHeld, home: Path) -> StoreHeld:
    url = str(error.details.get("url") or "")
    if not url:
        return error
    try:
        async with Client(url, local_key(home)) as client:
            link = (await _pairing(client, local=True))["link"]
    except EkidenError:
        return error
    held = StoreHeld(
        error.message, hint=f"Use that one: {link}\n  Or end it first, or name another folder with --home."
    )
    held.details = {**error.details, "link": link}
    return held


async def _pairing(client: Client, *, local: bool) -> dict[str, Any]:
    return await client.post("/v1/pairings", {"local": local})


async def _tell(client: Client, screen: Screen, home: Path, serving: Serving, options: argparse.Namespace) -> None:
    """Says where it runs and gives the link that signs a browser on this computer in, once."""
    link = (await _pairing(client, local=True))["link"]
    lan_link = ""
    if options.lan and (address := lan_address()):
        lan_link = (await _pairing(client, local=False))["link"]
        lan_link = lan_link.replace(serving.url, f"http://{address}:{serving.port}", 1)
    if options.json:
        ready = {"url": serving.url, "link": link, "home": str(home), "pid": os.getpid(), "version": __version__}
        screen.data({**ready, **({"lan_link": lan_link} if lan_link else {})})
        return
    screen.say(f"Ekiden {__version__} runs at {screen.style(serving.url, 'bold')}")
    screen.say(screen.style(f"Data: {line_of(str(home))}", "dim"))
    screen.say("Open the page. This link signs a browser on this computer in, once:")
    print_link(screen, link, qr=False)
    if lan_link:
        screen.say("On a phone in the same network, open this; then confirm the phone here or on the page:")
        print_link(screen, lan_link, qr=True)
        warning = (
            "With --lan every device in your network can reach the door. It lets in only what you confirm, but\n"
            "the connection is not encrypted: use it only in a network that you trust."
        )
        screen.say(screen.style(warning, "yellow"))
    elif options.lan:
        screen.say(screen.style("No local network was found; only this computer can reach it.", "yellow"))
    screen.say(screen.style("Another link: ekiden pair --here.   End: Ctrl-C.", "dim"))
    if _should_open(options.open, screen):
        import webbrowser

        await asyncio.to_thread(webbrowser.open, link)


def _should_open(wanted: bool | None, screen: Screen) -> bool:
    """By default only where a window can open: never a text browser in this very terminal."""
    if wanted is not None:
        return wanted
    has_windows = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return screen.is_terminal and has_windows


async def _tell_who_asks(client: Client, screen: Screen) -> None:
    """Prints each device that asks to come in, with how to answer."""
    async with client.stream("access", reconnect=Reconnect()) as frames:
        async for frame in frames:
            if frame.kind == "pairing.asked":
                asked = frame.read(dict[str, Any])
                screen.say(
                    f"{line_of(str(asked.get('device') or 'A device'))} asks to come in and must show "
                    f"{screen.style(line_of(str(asked.get('words', ''))), 'bold')}. Confirm on the page, or with: "
                    f"ekiden pair --confirm {line_of(str(asked.get('pairing_id', '')))}"
                )


async def _host_key(client: Client, home: Path) -> HostKey:
    """This computer's key as a host: the one in the data folder if the hub knows it, else a new one."""
    key = read_host_key(home / HOST_KEY)
    if key is not None:
        async with Client(client.url, key.key) as known:
            try:
                await known.get("/v1/me")
            except Unauthenticated:
                key = None
            else:
                return key
    key = await host_key_at_hub(client, _own_name())
    write_host_key(home / HOST_KEY, key)
    return key


async def _start_host(
    stack: AsyncExitStack, url: str, key: HostKey, home: Path, name: str, tell: Callable[[str], None]
) -> "asyncio.Task[None]":
    """Starts this computer's host, and again if it fails; it ends with `stack`."""
    from ekiden.host.main import Host, HostSettings, vendors_here

    environment = environment_of(home)
    make_private_folder(sessions_folder(home))  # a folder that is there at the start is watched from the start
    settings = HostSettings(home=home, name=name, environment=environment, vendors=vendors_here(environment))
    client = Client(url, key.key)
    stack.push_async_callback(client.close)
    task = asyncio.create_task(kept(lambda: Host(settings, client, key.host_id).run(), tell))
    stack.push_async_callback(_cancelled, task)
    return task


async def _until_here(client: Client, host_id: str) -> None:
    """Waits, within a bound, until the hub can ask this computer: who follows the link finds its sessions."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(UP_HOST_WAIT_S):
            while not await _is_here(client, host_id):  # noqa: ASYNC110 (asked as any client asks: no event to share)
                await asyncio.sleep(0.02)


async def _is_here(client: Client, host_id: str) -> bool:
    known = await client.get("/v1/hosts", type=Hosts)
    return any(host.host_id == host_id and host.here for host in known.hosts)


async def _unless_asked(ending: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What the work gives, or None if the signal comes first: a database may be waited for without an end."""
    working, waiting = asyncio.create_task(work), asyncio.create_task(ending.wait())
    try:
        await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
        return await working if working.done() else None
    finally:
        waiting.cancel()
        await _cancelled(working)


async def _until_asked(ending: asyncio.Event, host: "asyncio.Task[None] | None") -> None:
    """Waits for the signal; a host that cannot go on without a person ends the wait with its reason."""
    waiting = asyncio.create_task(ending.wait())
    try:
        await asyncio.wait([waiting, *([host] if host else [])], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    if host is not None and host.done():
        await host


async def _host(options: argparse.Namespace) -> int:
    home = home_of(options)
    screen = Screen()
    ending = _asked_to_end()
    make_private_folder(home)
    key = read_host_key(home / HOST_KEY)
    named = os.environ.get("EKIDEN_KEY", "")
    if named and options.host_id:
        key = HostKey(named, options.host_id)
        write_host_key(home / HOST_KEY, key)
    if key is None:
        raise Unauthenticated(
            "This computer has no key for a hub yet.",
            hint="At the hub: ekiden keys make NAME --kind host; here: EKIDEN_KEY=… ekiden host URL --host-id ID",
        )
    async with AsyncExitStack() as stack:
        async with Client(options.url, key.key) as client:
            await client.get("/v1/me")
        host = await _start_host(
            stack, options.url, key, home, options.name or _own_name(), _teller(screen, options)
        )
        screen.say(f"Connected to {line_of(options.url)} as {key.host_id}. End: Ctrl-C.")
        await _until_asked(ending, host)
    return OK


def _own_name() -> str:
    return socket.gethostname() or "this computer"


def _asked_to_end() -> asyncio.Event:
    """Set by SIGINT and SIGTERM."""
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    return asked


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
