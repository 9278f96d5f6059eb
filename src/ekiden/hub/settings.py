"""Where a hub keeps its data, where it listens, and which names it answers to."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
DEFAULT_PORT = 7433


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

    @property
    def database(self) -> Path:
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
        if self.url:
            return self.url
        name = self.address if self.address.strip("0.:") else "127.0.0.1"
        return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
