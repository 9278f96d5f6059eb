"""A lease's ticket: the hub's signed word that somebody holds it, which a script checks without asking the hub.

`ekt1.BODY.SIGNATURE`, both base64url; the body is the canonical JSON of `Ticket`. What a ticket proves is that the
lease was held at `issued_at` until `expires_at`; that nobody held it since with a higher fence is known by whoever
remembers the highest fence it has seen (`at_least`).
"""

import msgspec

from ekiden.crypto import keys, statements
from ekiden.crypto.shape import Struct
from ekiden.kernel import canonical
from ekiden.kernel.errors import Forbidden, Invalid
from ekiden.kernel.limits import TICKET_CHARS_MAX

_PREFIX = "ekt1"


class TicketRefused(Forbidden):
    """A ticket is not good. `details.why`: `forged`, `expired`, `fenced`, `other_lease`, `other_team`."""

    code = "ticket_refused"


class Ticket(Struct, frozen=True):
    """What a ticket says. Times are RFC 3339 in UTC with the hub's clock; `fence` grows with each new holder."""

    team: str
    channel: str
    """Id of the channel."""
    channel_name: str
    name: str
    fence: int
    holder: str
    """Id of the principal."""
    holder_name: str
    issued_at: str
    expires_at: str

    def statement(self) -> bytes:
        """What is signed."""
        return statements.statement(statements.Domain.TICKET, msgspec.to_builtins(self))


def issue(seed: bytes, ticket: Ticket) -> str:
    """The ticket as text, signed with the hub's key of the team."""
    body = keys.spell(canonical.exact(msgspec.to_builtins(ticket)))
    return f"{_PREFIX}.{body}.{keys.sign(seed, ticket.statement())}"


def check(
    text: str,
    hub_key: bytes,
    *,
    now: str,
    team: str = "",
    channel: str = "",
    name: str = "",
    at_least: int = 0,
) -> Ticket:
    """What a good ticket says. `now`: RFC 3339 in UTC, as `expires_at` is spelled; `channel`: its name or id; what
    is left empty is not compared.

    Raises:
        TicketRefused: if it is not good; `details.why` says why.
    """
    ticket, signature = _read(text)
    if not keys.signed_by(hub_key, signature, ticket.statement()):
        raise TicketRefused("This ticket was not signed by the hub that is pinned here.", why="forged")
    if team and ticket.team != team:
        raise TicketRefused("This ticket is for another team.", why="other_team")
    if (name and ticket.name != name) or (channel and channel not in (ticket.channel, ticket.channel_name)):
        raise TicketRefused(f"This ticket is for {ticket.name!r} in {ticket.channel_name!r}.", why="other_lease")
    if ticket.expires_at <= now:
        raise TicketRefused(f"The lease ended at {ticket.expires_at}.", why="expired", fence=ticket.fence)
    if ticket.fence < at_least:
        raise TicketRefused(
            f"The lease has had a later holder: fence {ticket.fence} is below {at_least}.",
            why="fenced",
            fence=ticket.fence,
        )
    return ticket


def team_named(text: str) -> str:
    """The team that a ticket says it is of, not checked: to know which hub's key to check it with.

    Raises:
        TicketRefused: if it is no ticket.
    """
    return _read(text)[0].team


def _read(text: str) -> tuple[Ticket, str]:
    prefix, _, rest = text.strip().partition(".")
    body, _, signature = rest.partition(".")
    try:
        if prefix != _PREFIX or len(text) > TICKET_CHARS_MAX:
            raise Invalid("not a ticket")
        return msgspec.json.decode(keys.read(body), type=Ticket), signature
    except (Invalid, msgspec.DecodeError):
        raise TicketRefused("This is not a ticket.", hint="A ticket begins with ekt1.", why="forged") from None
