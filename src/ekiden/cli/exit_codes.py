"""One table from the error tree to exit codes, for scripts. `docs/command-line.md` shows the same table."""

from ekiden.kernel import errors
from ekiden.kernel.errors import EkidenError

OK = 0
FAULT = 1
USAGE = 2
NOT_FOUND = 3
NOT_ALLOWED = 4
CONFLICT = 5
HELD = 6
UNAVAILABLE = 7
VENDOR = 8
STORE = 9
TURN_FAILED = 10
TURN_INTERRUPTED = 11
NOT_WELL = 12
NOTHING_CAME = 13
TICKET_REFUSED = 14
NOT_VERIFIED = 15
BREAK = 130

MEANINGS: dict[int, str] = {
    OK: "it was done",
    FAULT: "a fault of Ekiden itself",
    USAGE: "the command or what it was given is not of the form that is asked for",
    NOT_FOUND: "there is no such thing, or the key may not know of it",
    NOT_ALLOWED: "there is no key, or it may not do this",
    CONFLICT: "the thing is not in a state that allows this; somebody else was first",
    HELD: "a live process outside Ekiden writes this session",
    UNAVAILABLE: "the hub or the computer that is needed does not answer; try again",
    VENDOR: "a vendor's program did not do what was asked",
    STORE: "the data folder is in use, or was written by a newer Ekiden",
    TURN_FAILED: "the turn that was waited for failed or was lost",
    TURN_INTERRUPTED: "the turn that was waited for was interrupted",
    NOT_WELL: "`doctor` found something that will not work",
    NOTHING_CAME: "nothing came in the time that was waited",
    TICKET_REFUSED: "the ticket is not good: forged, expired, of another lease, or the lease has a later holder",
    NOT_VERIFIED: "`verify` found something that is not as it was said",
    BREAK: "stopped with Ctrl-C",
}

_TABLE: tuple[tuple[type[EkidenError], int], ...] = (
    (errors.StoreHeld, STORE),
    (errors.StoreNewer, STORE),
    (errors.HeldElsewhere, HELD),
    (errors.Conflict, CONFLICT),
    (errors.NotFound, NOT_FOUND),
    (errors.Unauthenticated, NOT_ALLOWED),
    (errors.Forbidden, NOT_ALLOWED),
    (errors.VendorFailed, VENDOR),
    (errors.TooMany, UNAVAILABLE),
    (errors.HostAway, UNAVAILABLE),
    (errors.HostSilent, UNAVAILABLE),
    (errors.Unavailable, UNAVAILABLE),
    (errors.TooLarge, USAGE),
    (errors.Invalid, USAGE),
)


def exit_code_of(error: EkidenError) -> int:
    """The exit code for an error: that of its own class or of the nearest one above."""
    if error.code == "ticket_refused":
        return TICKET_REFUSED
    return next((code for kind, code in _TABLE if isinstance(error, kind)), FAULT)
