"""What an operator watches, in the text format of Prometheus (exposition format 0.0.4).

Written by hand: a few counters, gauges and two histograms need no library, and `prometheus-client` would keep a
registry per process and locks on the way of every write. Counting costs an addition; text is made when asked for.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import ekiden
from ekiden.log.port import Event

if TYPE_CHECKING:
    from ekiden.hub.app import Hub

HEADERS = (
    (b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Histogram:
    """How often a value lay in each of some bounds."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Counts one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterator[str]:
        """Its lines, below the head."""
        total = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            total += count
            yield f'{name}_bucket{{le="{bound:g}"}} {total}'
        total += self._counts[-1]
        yield f'{name}_bucket{{le="+Inf"}} {total}'
        yield f"{name}_sum {self._sum:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """The figures of one node."""

    def __init__(self, hub: "Hub") -> None:
        self._hub = hub
        self.append_s = Histogram(_SECONDS)
        self.batch_events = Histogram(_COUNTS)
        self.lag_s = Histogram(_SECONDS)
        self._events = 0

    def committed(self, events: Sequence[Event]) -> None:
        """Newly committed events have come to those who follow here."""
        self._events += len(events)
        self.batch_events.add(len(events))
        try:
            at = datetime.fromisoformat(events[-1].at).timestamp()
        except (ValueError, IndexError):
            return
        self.lag_s.add(max(0.0, self._hub.clock.now() - at))

    def text(self) -> bytes:
        """All figures at this moment."""
        return ("\n".join(self._lines()) + "\n").encode()

    def _lines(self) -> Iterator[str]:
        hub = self._hub
        yield from _head("ekiden_info", "gauge", "Which version runs.")
        yield f'ekiden_info{{version="{ekiden.__version__}"}} 1'
        for name, kind, help_text, value in self._plain():
            yield from _head(name, kind, help_text)
            yield f"{name} {value}"
        for name, help_text, histogram in (
            (
                "ekiden_log_append_seconds",
                "From a write's arrival at the log to its being on disk.",
                self.append_s,
            ),
            ("ekiden_log_batch_events", "Events that came to followers at once.", self.batch_events),
            ("ekiden_lag_seconds", "From the time of an event to those who follow at this node.", self.lag_s),
        ):
            yield from _head(name, "histogram", help_text)
            yield from histogram.lines(name)
        if hub.neighbours is not None:
            bus = hub.neighbours.bus
            yield from _head("ekiden_bus_up", "gauge", "Whether the bus between nodes carries.")
            yield f"ekiden_bus_up {int(bus.connected)}"
            yield from _head("ekiden_bus_dropped_total", "counter", "Messages to other nodes that were dropped.")
            yield f"ekiden_bus_dropped_total {bus.dropped}"
            yield from _head("ekiden_nodes", "gauge", "Nodes of this hub that are heard, with this one.")
            yield f"ekiden_nodes {len(hub.neighbours.node_ids) + 1}"

    def _plain(self) -> Iterator[tuple[str, str, str, int]]:
        hub = self._hub
        missed = sum(live.growing.missed_pieces for live in hub.teams)
        yield "ekiden_database_up", "gauge", "Whether the log can store.", int(hub.log.health.ok)
        yield "ekiden_ready", "gauge", "Whether this node takes new requests.", int(hub.ready and not hub.draining)
        yield "ekiden_streams_open", "gauge", "Open streams at this node.", len(hub.streams)
        yield "ekiden_ring_overruns_total", "counter", "Streams that fell behind the ring.", hub.streams.overruns
        yield "ekiden_events_total", "counter", "Events that came to this node.", self._events
        yield "ekiden_growing_missed_total", "counter", "Pieces of growing items that came after a hole.", missed


def _head(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
