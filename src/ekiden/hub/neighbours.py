"""One node among the nodes of its hub: what it tells the others, and what it makes of what they tell.

There is no leader and no list of members: a node is known while it is heard. What each node holds:
- **Growing items**: every node keeps all growing text of its teams, applied by index, so a late joiner gets it
  whole wherever it comes in (law 6). A piece that comes before the ones it follows waits for them; what is missing
  is asked of the others, and of a node that is heard for the first time. What no node has any more (the bus was
  away, a node died with it) is told again by the host: the hub's `boot_id`, which all nodes share, changes.
- **Hosts**: where each is connected. A question is told to all and goes out where the host is; it is asked again
  when the host comes to another node. Whoever asked gets the answer, whichever node it was given to.
- **Who waits** for events, and where (`bells`): a hint, for what is handed over at once.
- A host whose node is gone is lost a grace later, unless it comes to another one. While the bus is away nothing is
  concluded from silence. If the log says that a host is lost which has a stream here, that is put right.

With one node there are no neighbours, and none of this runs.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, assert_never

import msgspec

from ekiden.hub.bells import Bells
from ekiden.hub.bus import (
    Bus,
    Grew,
    GrowingTold,
    GrowingWanted,
    HostAnswered,
    HostAsked,
    HostAskEnded,
    HostCame,
    HostSpoke,
    HostWent,
    KeysChanged,
    Message,
    NodeHere,
    NodeLeaves,
    Told,
    WaitChanged,
)
from ekiden.hub.frames import passing
from ekiden.hub.hosts import HostAnswer
from ekiden.hub.live import Live
from ekiden.kernel.clock import Clock
from ekiden.kernel.limits import (
    BUS_BEAT_S,
    EARLY_PIECES_MAX,
    GROWING_MISSED_S,
    GROWING_TOLD_BYTES_MAX,
    GROWING_WANTED_S,
    HOST_GRACE_S,
    HOST_REQUESTS_OPEN_MAX,
    HOST_SPOKE_EVERY_S,
    NODE_AWAY_AFTER_S,
    NODES_HEARD_S,
)
from ekiden.log.port import Event
from ekiden.sessions.wire import FeedGrew, FeedGrown, Growing

_MS_PER_S = 1_000
_log = logging.getLogger("ekiden.hub")
_encode = msgspec.json.Encoder().encode


class _HostChanged(msgspec.Struct):
    host_id: str
    here: bool = False


_host_changed = msgspec.json.Decoder(_HostChanged).decode


@dataclass(slots=True)
class _Hole:
    """Pieces of one item that came before those they follow, by index, and the wait for what is missing."""

    early: dict[int, tuple[str, FeedGrew]] = field(default_factory=dict[int, tuple[str, FeedGrew]])
    timer: asyncio.TimerHandle | None = None


class TeamNeighbours:
    """The other nodes, for one team. See `hosts.Elsewhere` and `live.OtherNodes`."""

    def __init__(self, owner: "Neighbours", live: Live) -> None:
        self.live = live
        self._owner = owner
        self._holes: dict[str, _Hole] = {}
        self._early_pieces = 0
        self._waiting: list[tuple[str, FeedGrew | FeedGrown]] = []
        self._spoke_at: dict[str, float] = {}
        self._asked: dict[str, dict[str, set[str]]] = {}
        """Which nodes wait, by host and request."""
        live.others = self
        live.hosts.elsewhere = self

    # Growing items

    def grow(self, told: FeedGrew | FeedGrown, host_id: str) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._tell_growth)
        self._waiting.append((host_id, told))
        self.take(told, host_id)

    def _tell_growth(self) -> None:
        """Tells the others what came in this step of the loop, as one message."""
        waiting, self._waiting = self._waiting, []
        told = tuple(
            Told(host_id, tuple(entry for of, entry in waiting if of == host_id))
            for host_id in dict.fromkeys(host_id for host_id, _ in waiting)
        )
        self._owner.bus.tell(Grew(told), team_id=self.live.team_id)

    def take(self, told: FeedGrew | FeedGrown, host_id: str) -> None:
        """Applies what a host told, to whichever node; a piece that is too early waits for those before it."""
        if isinstance(told, FeedGrew):
            following = self.live.growing.next_index(told.item_id)
            if following is not None and told.index > following:
                self._wait_for_earlier(told, host_id)
                return
        self.live.take_growth(told, host_id)
        if self._holes:
            self._close_hole(told.item_id)

    def adopt(self, whole: Growing, host_id: str) -> None:
        """Takes an item as another node knows it."""
        for frame in self.live.growing.adopt(whole, host_id):
            self.live.ring.put(frame)
        self._close_hole(whole.item_id)

    def _wait_for_earlier(self, told: FeedGrew, host_id: str) -> None:
        hole = self._holes.get(told.item_id)
        if hole is None:
            hole = self._holes[told.item_id] = _Hole()
            hole.timer = asyncio.get_running_loop().call_later(GROWING_WANTED_S, self._ask_for, told.item_id)
        if told.index not in hole.early:
            hole.early[told.index] = (host_id, told)
            self._early_pieces += 1
        if self._early_pieces > EARLY_PIECES_MAX:
            self._give_up(told.item_id)

    def _close_hole(self, item_id: str) -> None:
        """Applies the pieces that fit now, and forgets those that are known or come too late."""
        hole = self._holes.get(item_id)
        if hole is None:
            return
        following = self.live.growing.next_index(item_id)
        while following is not None and (early := hole.early.pop(following, None)) is not None:
            self._early_pieces -= 1
            self.live.take_growth(early[1], early[0])
            following = self.live.growing.next_index(item_id)
        if following is None or not any(index > following for index in hole.early):
            self._drop_hole(item_id)

    def _drop_hole(self, item_id: str) -> None:
        hole = self._holes.pop(item_id)
        self._early_pieces -= len(hole.early)
        if hole.timer is not None:
            hole.timer.cancel()

    def _ask_for(self, item_id: str) -> None:
        hole = self._holes.get(item_id)
        if hole is None:
            return
        self._owner.bus.tell(
            GrowingWanted(have={item_id: self.live.growing.next_index(item_id) or 0}, only=(item_id,)),
            team_id=self.live.team_id,
        )
        hole.timer = asyncio.get_running_loop().call_later(GROWING_MISSED_S, self._give_up, item_id)

    def _give_up(self, item_id: str) -> None:
        """No node has what is missing: the host tells the item again when it sees that the hub has changed."""
        hole = self._holes.get(item_id)
        if hole is None:
            return
        self.live.growing.missed_pieces += len(hole.early)
        self._drop_hole(item_id)
        self._owner.renew_boot()

    def tell_beyond(self, wanted: GrowingWanted, to: str) -> None:
        """Answers with what is known here and not there, a few items at a time."""
        items = self.live.growing.beyond(wanted.have, wanted.only)
        if wanted.only and not items:
            return
        told: list[tuple[str, Growing]] = []
        size = 0
        for item in items:
            told.append(item)
            size += len(item[1].text)
            if size >= GROWING_TOLD_BYTES_MAX:
                self._owner.bus.tell(GrowingTold(tuple(told), last=False), team_id=self.live.team_id, to=to)
                told, size = [], 0
        self._owner.bus.tell(GrowingTold(tuple(told)), team_id=self.live.team_id, to=to)

    # Hosts

    def has(self, host_id: str) -> bool:
        return self._owner.has(self.live.team_id, host_id)

    def came(self, host_id: str) -> None:
        self._owner.bus.tell(HostCame(host_id), team_id=self.live.team_id)

    def went(self, host_id: str) -> None:
        self._owner.bus.tell(HostWent(host_id), team_id=self.live.team_id)

    def spoke(self, host_id: str) -> None:
        """Tells the node that waits for the host's return; not more often than it matters."""
        if self.live.hosts.dialled(host_id):
            return
        now = self._owner.clock.monotonic()
        if now - self._spoke_at.get(host_id, -HOST_SPOKE_EVERY_S) >= HOST_SPOKE_EVERY_S:
            self._spoke_at[host_id] = now
            self._owner.bus.tell(HostSpoke(host_id), team_id=self.live.team_id)

    def ask(self, host_id: str, body: dict[str, Any]) -> None:
        self._owner.bus.tell(
            HostAsked(host_id, str(body["request_id"]), msgspec.Raw(_encode(body))), team_id=self.live.team_id
        )

    def ask_ended(self, host_id: str, request_id: str) -> None:
        self._owner.bus.tell(HostAskEnded(host_id, request_id), team_id=self.live.team_id)

    def asking(self, host_id: str) -> Collection[str]:
        return self._asked.get(host_id, ())

    def asked(self, node_id: str, asked: HostAsked) -> None:
        """Another node asks a host, which may be here."""
        known = self._asked.setdefault(asked.host_id, {})
        while len(known) >= HOST_REQUESTS_OPEN_MAX:
            del known[next(iter(known))]
        known.setdefault(asked.request_id, set()).add(node_id)
        if self.live.hosts.dialled(asked.host_id):
            self.live.ring.put(passing("host.request", asked.body, (f"host:{asked.host_id}",)))

    def asked_no_more(self, node_id: str, host_id: str, request_id: str) -> None:
        """Another node waits for an answer no longer."""
        known = self._asked.get(host_id, {})
        askers = known.get(request_id, set[str]())
        askers.discard(node_id)
        if not askers:
            known.pop(request_id, None)
        if not known:
            self._asked.pop(host_id, None)

    def forget_node(self, node_id: str) -> None:
        """Nothing waits at a node that is gone."""
        for host_id, known in list(self._asked.items()):
            for request_id in list(known):
                self.asked_no_more(node_id, host_id, request_id)

    def answer(self, host_id: str, told: HostAnswer, *, settled: bool) -> bool:
        """Nobody known to wait may mean that the answer has overtaken the question: then all are told."""
        askers = self._asked.get(host_id, {}).pop(told.request_id, set[str]())
        for node_id in askers or ([] if settled else [""]):
            self._owner.bus.tell(HostAnswered(host_id, told), team_id=self.live.team_id, to=node_id)
        return bool(askers)

    # The log

    def note(self, event: Event) -> None:
        """What the log says of hosts goes before what this node thinks of them."""
        if event.kind != "host.changed":
            return
        told = _host_changed(event.body)
        if told.here:
            self.live.growing.host_here(told.host_id)
        else:
            self.live.growing.host_lost(told.host_id)
            self.live.hosts.told_lost(told.host_id)

    def close(self) -> None:
        """Waits for nothing any more."""
        for item_id in list(self._holes):
            self._drop_hole(item_id)


@dataclass(slots=True)
class _Node:
    heard_at: float
    hosts: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """(team id, host id) of each host with a stream there."""


class Neighbours:
    """This node among the others. `boot_changed` is told the `boot_id` that all nodes say from now on,
    `keys_changed` the team whose keys have changed."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        bells: Bells,
        *,
        boot_changed: Callable[[str], None],
        keys_changed: Callable[[str], None],
    ) -> None:
        self.bus = bus
        self.clock = clock
        self.boot_id = _boot_id(int(clock.now() * _MS_PER_S))
        self._bells = bells
        bells.changed = lambda team_id, topic, waits: bus.tell(WaitChanged(topic, waits), team_id=team_id)
        self._boot_changed = boot_changed
        self._keys_changed = keys_changed
        self._teams: dict[str, TeamNeighbours] = {}
        self._nodes: dict[str, _Node] = {}
        self._joined_at = clock.monotonic()
        self._settled = False
        self._heard = asyncio.Event()
        self._synced = asyncio.Event()
        self._beater: asyncio.Task[None] | None = None

    @property
    def node_ids(self) -> tuple[str, ...]:
        """The other nodes that are heard at this moment."""
        return tuple(self._nodes)

    def attach(self, live: Live) -> None:
        """Joins a team's live state with that of the other nodes."""
        self._teams[live.team_id] = TeamNeighbours(self, live)

    # Life

    async def start(self) -> None:
        """Joins the others, and takes over what grows there. Waits for them within a bound: there may be none."""
        self._boot_changed(self.boot_id)
        await self.bus.open(self)
        self._beater = asyncio.ensure_future(self._beat())
        for event in (self._heard, self._synced):
            try:
                async with asyncio.timeout(NODES_HEARD_S):
                    await event.wait()
            except TimeoutError:
                break
        self._settled = True

    async def stop(self) -> None:
        """Says goodbye."""
        if self._beater is not None:
            self._beater.cancel()
            self._beater = None
        for team in self._teams.values():
            team.close()
        self.bus.tell(NodeLeaves())
        await self.bus.close()

    async def _beat(self) -> None:
        while True:
            began_at = self.clock.monotonic()
            await asyncio.sleep(BUS_BEAT_S)
            if self.clock.monotonic() - began_at > NODE_AWAY_AFTER_S / 2:
                self._rest()  # it was this node that stood still, not the others
            self.bus.tell(self._here())
            self.look()

    def _here(self, *, asks: bool = False) -> NodeHere:
        hosts = {team_id: team.live.hosts.all_dialled() for team_id, team in self._teams.items()}
        hosts = {team_id: of_team for team_id, of_team in hosts.items() if of_team}
        return NodeHere(self.boot_id, hosts, asks, self._bells.told())

    def look(self) -> None:
        """Notices nodes that have fallen silent. While the bus is away, silence means nothing."""
        now = self.clock.monotonic()
        if not self.bus.connected or now - self._joined_at < NODE_AWAY_AFTER_S:
            return
        silent = [node_id for node_id, node in self._nodes.items() if now - node.heard_at >= NODE_AWAY_AFTER_S]
        for node_id in silent:
            _log.warning("Node %s has fallen silent.", node_id)
            self._lose_node(node_id)
        if silent and self.bus.node_id < min(self._nodes, default="~"):
            # What it was told last may never have reached the others.
            self.renew_boot()

    def _lose_node(self, node_id: str) -> None:
        node = self._nodes.pop(node_id)
        self._bells.forget(node_id)
        for team in self._teams.values():
            team.forget_node(node_id)
        for team_id, host_id in node.hosts:
            self._await_return(team_id, host_id)

    def _await_return(self, team_id: str, host_id: str) -> None:
        if not self.has(team_id, host_id) and team_id in self._teams:
            self._teams[team_id].live.hosts.await_return(host_id, HOST_GRACE_S + BUS_BEAT_S)

    # What the hub asks and tells

    def has(self, team_id: str, host_id: str) -> bool:
        """Whether the host has a stream at another node."""
        return any((team_id, host_id) in node.hosts for node in self._nodes.values())

    def tell_keys_changed(self, team_id: str) -> None:
        """Keys of the team have changed: nobody keeps what it knows of them."""
        self.bus.tell(KeysChanged(), team_id=team_id)

    def renew_boot(self) -> None:
        """Growing text was lost: hosts tell theirs again. The later name is the greater one, on every node."""
        self._say_boot(_boot_id(max(int(self.clock.now() * _MS_PER_S), _number_of(self.boot_id) + 1)))
        self.bus.tell(self._here())

    def _say_boot(self, boot_id: str) -> None:
        self.boot_id = boot_id
        self._boot_changed(boot_id)

    def _hear_boot(self, boot_id: str) -> None:
        if boot_id != self.boot_id and (not self._settled or boot_id > self.boot_id):
            self._say_boot(boot_id)

    # What the others tell

    def _rest(self) -> None:
        """Begins to listen for silence anew."""
        self._joined_at = self.clock.monotonic()
        for node in self._nodes.values():
            node.heard_at = self._joined_at

    def joined(self) -> None:
        """The bus carries again: the others are met anew, and asked for what was missed."""
        self._rest()
        self.bus.tell(self._here(asks=True))
        self._ask_for_growing()

    def _ask_for_growing(self, node_id: str = "") -> None:
        for team_id, team in self._teams.items():
            self.bus.tell(GrowingWanted(team.live.growing.counts()), team_id=team_id, to=node_id)

    def heard(self, node_id: str, team_id: str, message: Message) -> None:
        """A message of another node."""
        node = self._nodes.get(node_id)
        if isinstance(message, NodeLeaves):
            if node is not None:
                self._lose_node(node_id)
            return
        if node is None:
            node = self._nodes[node_id] = _Node(self.clock.monotonic())
            self._ask_for_growing(node_id)
        node.heard_at = self.clock.monotonic()
        if isinstance(message, NodeHere):
            self._hear_node(node_id, node, message)
        elif team_id in self._teams:
            self._hear_of_team(node_id, node, self._teams[team_id], message)

    def _hear_node(self, node_id: str, node: _Node, message: NodeHere) -> None:
        self._hear_boot(message.boot_id)
        self._bells.hear(node_id, message.waits)
        self._heard.set()
        if message.asks:
            self.bus.tell(self._here(), to=node_id)
            self._ask_for_growing(node_id)  # it may have heard what we have not while it was away
        hosts = {(team_id, host_id) for team_id, of_team in message.hosts.items() for host_id in of_team}
        gone, new = node.hosts - hosts, hosts - node.hosts
        node.hosts = hosts
        for team_id, host_id in new:
            if team_id in self._teams:
                self._teams[team_id].live.hosts.ask_again(host_id)
        for team_id, host_id in gone:
            self._await_return(team_id, host_id)

    def _hear_of_team(self, node_id: str, node: _Node, team: TeamNeighbours, message: Message) -> None:
        hosts, team_id = team.live.hosts, team.live.team_id
        match message:
            case Grew():
                for told in message.told:
                    for entry in told.entries:
                        team.take(entry, told.host_id)
            case GrowingWanted():
                team.tell_beyond(message, node_id)
            case GrowingTold():
                for host_id, whole in message.items:
                    team.adopt(whole, host_id)
                if message.last:
                    self._synced.set()
            case HostCame():
                node.hosts.add((team_id, message.host_id))
                hosts.ask_again(message.host_id)
            case HostWent():
                node.hosts.discard((team_id, message.host_id))
                self._await_return(team_id, message.host_id)
            case HostSpoke():
                hosts.heard_of(message.host_id)
            case HostAsked():
                team.asked(node_id, message)
            case HostAskEnded():
                team.asked_no_more(node_id, message.host_id, message.request_id)
            case HostAnswered():
                hosts.settle(message.host_id, message.answer)
            case KeysChanged():
                self._keys_changed(team_id)
            case WaitChanged():
                self._bells.hear_of(node_id, team_id, message.topic, waits=message.waits)
            case NodeHere() | NodeLeaves():
                raise AssertionError("heard of no team")
            case _:
                assert_never(message)


def _boot_id(number: int) -> str:
    """Names of starts, of which the later is the greater. The number is of milliseconds, with 12 digits."""
    return f"evt_{number:012x}{secrets.token_hex(4)}"


def _number_of(boot_id: str) -> int:
    return int(boot_id.removeprefix("evt_")[:12], 16)
