"""One error tree: a stable code, whose fault it is, whether trying again can help, and a hint.

Each surface turns these into its own form with one table: the door into an RFC 9457 problem, the command
line into an exit code. Messages are full sentences that say what happened; hints say what to do next.
"""

from typing import ClassVar


class EkidenError(Exception):
    """Anything that Ekiden itself refuses or fails to do.

    `code` is stable and meant for programs; `details` are plain JSON values that a screen may show.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    retry_helps: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "", **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details


class Invalid(EkidenError):
    """The request is not of the form that is asked for."""

    code = "invalid"
    status = 422


class Unauthenticated(EkidenError):
    """No key, or one that is not known, has ended or was revoked."""

    code = "unauthenticated"
    status = 401


class Forbidden(EkidenError):
    """The key is known, but may not do this to a thing that it may see."""

    code = "forbidden"
    status = 403


class NotFound(EkidenError):
    """There is no such thing, or the key may not know of it: both answer alike."""

    code = "not_found"
    status = 404

    def __init__(
        self, message: str = "There is no such thing here.", *, hint: str = "", **details: object
    ) -> None:
        super().__init__(message, hint=hint, **details)


class Hidden(NotFound):
    """There is such a thing, but the key may not know of it. Told apart only in the audit trail."""


class Conflict(EkidenError):
    """The thing is not in a state that allows this; `details` say in which it is."""

    code = "conflict"
    status = 409


class AlreadyAnswered(Conflict):
    """Somebody else's answer came first. `details`: option, by, device, at."""

    code = "already_answered"


class HeldElsewhere(Conflict):
    """A live process outside Ekiden writes this session. `details`: who, pid, since, instead."""

    code = "held_elsewhere"


class StaleEpoch(Conflict):
    """What was sealed has to be sealed anew. `details`: epoch (the newest; 0 if there is none), opened (whether
    it may be used, or somebody has to open another first)."""

    code = "stale_epoch"


class CommandInFlight(Conflict):
    """The same command is being carried out at this moment."""

    code = "command_in_flight"
    retry_helps = True


class CommandReused(Invalid):
    """A command id was used before with another body."""

    code = "command_reused"


class NotSealed(Invalid):
    """Plain text for an encrypted channel, or sealed text for one that is not."""

    code = "not_sealed"


class TooLarge(EkidenError):
    """A payload is over its bound. `details`: size, max."""

    code = "too_large"
    status = 413


class TooMany(EkidenError):
    """A queue is full or a rate is over its bound. `details`: max, retry_after_s."""

    code = "too_many"
    status = 429
    retry_helps = True


class HostAway(EkidenError):
    """The computer that has this session is not connected. `details`: host, last_seen_at."""

    code = "host_away"
    status = 503
    retry_helps = True


class HostSilent(EkidenError):
    """The computer is connected, but did not answer in time."""

    code = "host_silent"
    status = 504
    retry_helps = True


class Unavailable(EkidenError):
    """A part that is needed does not work at this moment: disk full, shutting down."""

    code = "unavailable"
    status = 503
    retry_helps = True


class StoreHeld(Unavailable):
    """Another process has the data folder. `details`: pid, since, url."""

    code = "store_held"


class StoreAway(Unavailable):
    """The database is not there at this moment, and may come by itself. `details`: reason."""

    code = "store_away"


class StoreNewer(EkidenError):
    """The database was written by a newer Ekiden."""

    code = "store_newer"
    status = 500


class VendorFailed(EkidenError):
    """A vendor's program did not do what was asked. `details`: vendor, exit_code, said."""

    code = "vendor_failed"
    status = 502
