"""Where a hub keeps its data, where it listens, and which names it answers to."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from ekiden.kernel.errors import Invalid

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
DEFAULT_PORT = 7433
_DAY_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Settings:
    """`allowed_hosts` are further names that the door answers to (`pc.lan`, `pc.lan:7433`, `192.168.1.7`); a
    name without a port stands for any port. `url` is what people open; made from the address if empty.
    `database_url` names a database of Postgres for the log; without it the log is in `home`."""

    home: Path
    address: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    allowed_hosts: tuple[str, ...] = ()
    url: str = ""
    database_url: str = field(default="", repr=False)
    nats_url: str = field(default="", repr=False)
    """What several nodes tell each other through, instead of the database's NOTIFY."""
    events_kept_s: float = 0.0
    """How long events are held; 0 for ever."""
    ended_kept_s: float = 90 * _DAY_S
    """How long turns, approvals and messages that have ended are held whole (`sessions.retention`); 0 for ever."""
    drain_s: float = 0.0
    """How long a node that ends says so on `/readyz` before it closes streams."""

    @property
    def database(self) -> Path:
        """The file with the log, where it lies in one."""
        return self.home / "ekiden.db"

    @property
    def local_key(self) -> Path:
        """The file (0600) with the key of this computer's command line."""
        return self.home / "local.key"

    @property
    def secure(self) -> bool:
        """Whether people reach the hub by https (a proxy before it ends TLS)."""
        return self.url.startswith("https://")

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every name that the door answers to."""
        named = urlsplit(self.url).netloc
        return (*LOOPBACK_NAMES, *self.allowed_hosts, *((named,) if named else ()))

    def url_at(self, port: int) -> str:
        """What people open, once the port is known."""
        return self.url or self.own_url_at(port)

    def own_url_at(self, port: int) -> str:
        """Where a program of this computer reaches this very node: what people open may lead to another one, or be
        a name that only exists outside."""
        name = self.address if self.address.strip("0.:") else "127.0.0.1"
        return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"

    def told_by(self, environment: Mapping[str, str]) -> "Settings":
        """With what the environment says: `EKIDEN_NATS_URL`, `EKIDEN_EVENTS_KEPT_DAYS`,
        `EKIDEN_ENDED_KEPT_DAYS`, `EKIDEN_DRAIN_S`.

        Raises:
            Invalid: for a number that is none.
        """
        return replace(
            self,
            nats_url=environment.get("EKIDEN_NATS_URL", self.nats_url),
            events_kept_s=_number(environment, "EKIDEN_EVENTS_KEPT_DAYS", self.events_kept_s / _DAY_S) * _DAY_S,
            ended_kept_s=_number(environment, "EKIDEN_ENDED_KEPT_DAYS", self.ended_kept_s / _DAY_S) * _DAY_S,
            drain_s=_number(environment, "EKIDEN_DRAIN_S", self.drain_s),
        )


def _number(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    try:
        number = float(text) if text else default
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise Invalid(f"{name}={text[:40]!r} is not a number from 0 on.")
    return number
