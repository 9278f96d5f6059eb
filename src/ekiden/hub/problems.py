"""Refusals and failures as RFC 9457 problems: the door's one table."""

import logging
from http import HTTPStatus
from typing import Any

import msgspec

from ekiden.kernel.canonical import whole_text
from ekiden.kernel.errors import EkidenError

_log = logging.getLogger("ekiden.hub")


class Problem(msgspec.Struct, frozen=True):
    """The body of every answer that is not a success (`application/problem+json`)."""

    title: str
    status: int
    detail: str
    code: str
    hint: str = ""
    retry_helps: bool = False
    details: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])
    type: str = "about:blank"


def problem_of(error: EkidenError) -> Problem:
    """What the client is told about an error that Ekiden raised itself."""
    return Problem(
        title=HTTPStatus(error.status).phrase,
        status=error.status,
        detail=whole_text(error.message),
        code=error.code,
        hint=whole_text(error.hint),
        retry_helps=error.retry_helps,
        details=error.details,
    )


def unforeseen(error: BaseException, method: str, path: str) -> EkidenError:
    """Any other exception: the log gets where it happened, the client that it did.

    The exception's own text may quote a request, so it goes neither to the client nor into the log: only its
    type and the places in the code.
    """
    places: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} in {code.co_qualname}")
        trace = trace.tb_next
    _log.error("%s in %s %s at %s", type(error).__qualname__, method, path, " < ".join(reversed(places)))
    return EkidenError(
        "Something went wrong inside the hub.",
        hint="The hub's log says where; `ekiden doctor` helps to report it.",
    )
