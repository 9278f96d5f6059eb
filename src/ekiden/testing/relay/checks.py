"""What a check is, and what it may use: channels, keys and agents that are made for it alone."""

import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ekiden.testing.relay.door import Answer, Door, channel_path

_SOON_S = 1.0
_LOOK_S = 0.02

TALK = ("read", "post", "ack", "mention", "lease", "status:*")
"""What an agent of the kit may do in its channel unless a check says otherwise."""


class Failed(AssertionError):
    """A relay does not keep what a check holds it to."""


def hold(told: bool, otherwise: str) -> None:
    """Raises:
    Failed: with what is wrong, if it does not hold.
    """
    if not told:
        raise Failed(otherwise)


def done(answer: Answer) -> Answer:
    """The answer, if the relay did what it was asked.

    Raises:
        Failed: with the answer, if it did not.
    """
    hold(answer.ok, f"refused with {answer.status}: {answer.body}")
    return answer


def soon(told: Callable[[], bool], otherwise: str) -> None:
    """What was decided at one place may take a second to be known at all of them; then it holds for good.

    Raises:
        Failed: with what is wrong, if it does not hold within that time.
    """
    ends = time.monotonic() + _SOON_S
    while not told():
        hold(time.monotonic() < ends, otherwise)
        time.sleep(_LOOK_S)


def at_once(ask: Callable[[int], Answer], count: int) -> list[Answer]:
    """The answers to `ask(0)` … `ask(count - 1)`, eight at a time."""
    with ThreadPoolExecutor(8) as many:
        return list(many.map(ask, range(count)))


@dataclass(slots=True)
class Agent:
    """A principal that was made for a check."""

    name: str
    principal_id: str
    key_id: str
    door: Door

    def post(self, channel: str, text: str, **more: Any) -> dict[str, Any]:
        """Posts, and gives the relay's `Posted`."""
        return done(self.door.post(channel_path(channel, "messages"), {"text": text, **more})).body


@dataclass(slots=True)
class Kit:
    """One check's own corner of a relay."""

    owner: Door
    word: str = field(default_factory=lambda: secrets.token_hex(4))
    keys: list[str] = field(default_factory=list[str])
    channels: list[str] = field(default_factory=list[str])

    def channel(self, part: str = "a", **more: Any) -> str:
        """A fresh channel's name."""
        name = f"kit-{self.word}-{part}"
        done(self.owner.post("/v1/channels", {"name": name, **more}))
        self.channels.append(name)
        return name

    def agent(self, part: str, *channels: str, verbs: Sequence[str] = TALK, join: bool = True) -> Agent:
        """An agent that may do `verbs` in these channels, and follows them."""
        made = self.key(part, {f"channel:{name}": list(verbs) for name in channels})
        if join and "read" in verbs:
            for name in channels:
                done(made.door.put(channel_path(name, "members", "me")))
        return made

    def key(self, part: str, permissions: dict[str, list[str]], **more: Any) -> Agent:
        """An agent with exactly this map."""
        name = f"kit-{self.word}-{part}"
        body = {"name": name, "kind": "agent", "permissions": permissions, **more}
        made = done(self.owner.post("/v1/keys", body)).body
        self.keys.append(made["key_id"])
        return Agent(name, made["principal_id"], made["key_id"], Door(self.owner.url, made["key"]))

    def messages(self, channel: str, door: Door | None = None, **query: Any) -> list[dict[str, Any]]:
        """A page of a channel's messages."""
        return done((door or self.owner).get(channel_path(channel, "messages"), **query))["messages"]

    def put_away(self) -> None:
        """Takes back what the check made: its keys end, its channels go."""
        for key_id in self.keys:
            self.owner.delete(f"/v1/keys/{key_id}")
        for name in self.channels:
            self.owner.delete(channel_path(name))


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that a relay is held to. `promise` is a sentence."""

    name: str
    promise: str
    run: Callable[[Kit], None]


class Checks(list[Check]):
    """The checks of one part of the kit, in the order in which they are run."""

    def add(self, run: Callable[[Kit], None]) -> Callable[[Kit], None]:
        """Puts a function among the checks; its docstring is the promise."""
        self.append(Check(run.__name__, " ".join((run.__doc__ or "").split()), run))
        return run
