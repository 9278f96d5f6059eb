"""Problems (RFC 9457) from the door, as the errors that they were before they travelled."""

from collections.abc import Iterator
from typing import Any

import msgspec

from ekiden.kernel import errors
from ekiden.kernel.errors import EkidenError

_ANSWER_SHOWN_CHARS_MAX = 200


class Problem(msgspec.Struct, frozen=True):
    """What the door says when it refuses."""

    code: str = ""
    title: str = ""
    status: int = 0
    detail: str = ""
    hint: str = ""
    retry_helps: bool = False
    details: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


def _tree(root: type[EkidenError]) -> Iterator[type[EkidenError]]:
    yield root
    for child in root.__subclasses__():
        yield from _tree(child)


_BY_CODE: dict[str, type[EkidenError]] = {}
for _kind in _tree(EkidenError):
    _BY_CODE.setdefault(_kind.code, _kind)  # a kind that answers like another one (`Hidden`) is not told apart
_BY_STATUS: dict[int, type[EkidenError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    413: errors.TooLarge,
    422: errors.Invalid,
    429: errors.TooMany,
    502: errors.Unavailable,
    503: errors.Unavailable,
    504: errors.HostSilent,
}
_decoder = msgspec.json.Decoder(Problem)


def error_from(status: int, body: bytes) -> EkidenError:
    """The error that an answer with a status of 400 or more stands for.

    A code that this client does not know gives the error of its status, with the code in `details`. An answer
    that is no problem at all (a proxy's page) is quoted in part.
    """
    try:
        problem = _decoder.decode(body)
    except msgspec.DecodeError:
        said = body[:_ANSWER_SHOWN_CHARS_MAX].decode("utf-8", "replace")
        return _BY_STATUS.get(status, EkidenError)(
            f"The door answered {status} without saying why.", said=said, status=status
        )
    details: dict[str, object] = dict(problem.details)
    kind = _BY_CODE.get(problem.code)
    if kind is None:
        kind = _BY_STATUS.get(status, EkidenError)
        if problem.code:
            details["code"] = problem.code
    message = problem.detail or problem.title or f"The door answered {status}."
    error = kind(message, hint=problem.hint)
    error.details = details
    return error
