"""What the door asks of the access room: who a key belongs to, and what it may do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

Permissions = Mapping[str, Sequence[str]]
"""From resource pattern to verbs."""


class Identity(Protocol):
    """The bearer of a valid key. `expires_at` is in seconds since the epoch; None for never."""

    @property
    def team_id(self) -> str: ...
    @property
    def principal_id(self) -> str: ...
    @property
    def key_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str:
        """person, agent, device, service or host."""
        ...

    @property
    def permissions(self) -> Permissions: ...
    @property
    def expires_at(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused request, for the audit trail: why (a stable word), what for, by whom as far as known; and which
    verb on which resource the key was not allowed."""

    reason: str
    method: str
    path: str
    key_id: str = ""
    principal_id: str = ""
    name: str = ""
    peer: str = ""
    team_id: str = ""
    verb: str = ""
    resource: str = ""


class Gate(Protocol):
    """The access room, seen from the door."""

    async def identify(self, key: str) -> Identity:
        """Who this key belongs to.

        Raises:
            Unauthenticated: if it is not known, has ended or was revoked.
        """
        ...

    def allows(self, permissions: Permissions, verb: str, resource: str) -> bool:
        """Whether a permission map allows `verb` on `resource`. Pure."""
        ...

    async def record(self, refusals: Sequence[Refusal], dropped: int) -> None:
        """Puts refused requests into the audit trail; `dropped` more were over the bound since the last call."""
        ...
