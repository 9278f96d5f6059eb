"""A host that fails is started again; what a person must settle is not tried again; the hub goes on."""

import asyncio
import os
import re
import signal

import pytest

from cli.conftest import Person, until
from ekiden.cli.host_keeper import kept
from ekiden.kernel.errors import EkidenError, Forbidden, Invalid, StoreHeld, StoreNewer, Unauthenticated
from ekiden.kernel.limits import HOST_RESTART_S_MAX, HOST_STEADY_S

pytestmark = pytest.mark.anyio


class Failing:
    """A host that fails at each start, after it has worked for as long as is said."""

    def __init__(self, *worked_s: float, then: BaseException) -> None:
        self.now = 0.0
        self._worked_s = list(worked_s)
        self._then = then
        self.waits: list[float] = []
        self.said: list[str] = []

    async def run(self) -> None:
        if not self._worked_s:
            raise self._then
        self.now += self._worked_s.pop(0)
        raise ZeroDivisionError("unforeseen")

    async def wait(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def kept(self) -> None:
        await kept(self.run, self.said.append, wait=self.wait, clock=lambda: self.now)


async def test_the_pauses_grow_to_their_bound_and_begin_again_after_steady_work() -> None:
    """Each failure is told with its reason; cancelling ends it."""
    host = Failing(*[0.0] * 12, HOST_STEADY_S, 0.0, then=asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await host.kept()
    growing = host.waits[:12]
    assert growing == sorted(growing)
    assert growing[0] < growing[1] < growing[-1] == HOST_RESTART_S_MAX
    assert host.waits[12:] == growing[:2]
    assert len(host.said) == len(host.waits)
    assert all("unforeseen" in line for line in host.said)


@pytest.mark.parametrize("kind", [Invalid, StoreHeld, StoreNewer, Unauthenticated, Forbidden])
async def test_what_a_person_must_settle_is_not_tried_again(kind: type[EkidenError]) -> None:
    """At the start as after a failure."""
    host = Failing(0.0, then=kind("Settle it."))
    with pytest.raises(kind):
        await host.kept()
    assert len(host.waits) == 1


def test_the_hub_goes_on_while_the_host_fails_and_the_host_comes_back(person: Person) -> None:
    """The host's database cannot be opened at first: the hub answers, the terminal and `doctor` say what is wrong;
    with the cause gone, the host connects without a start of the program."""
    blocking = person.data / "host.db"
    blocking.mkdir(parents=True)
    person.data.chmod(0o700)
    process = person.up()
    until(lambda: any("host failed" in line for line in person.said), "the terminal says it")
    person.good("sessions")
    assert re.search(r"computer: none has connected yet", person.ekiden("doctor").out)
    blocking.rmdir()
    until(lambda: re.search(r"computer.* is connected", person.ekiden("doctor").out), "the host is back")
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0, "".join(person.said)
    assert os.path.isfile(blocking)
