"""From what a person types to the session that they mean."""

from ekiden.cli.screen import line_of
from ekiden.client.plain import PlainClient
from ekiden.client.requests import path_of
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.kernel.limits import PAGE_ROWS_MAX
from ekiden.sessions.wire import Session, SessionPage, SessionView

_CANDIDATES_SHOWN = 8
_ID_CHARS = 24


def session_path(session_id: str, rest: str = "") -> str:
    """The path of a session at the door."""
    return path_of("/v1/sessions/{session_id}", session_id=session_id) + rest


def view_of(client: PlainClient, name: str) -> SessionView:
    """The session that `name` means, with what a screen needs."""
    return client.get(session_path(session_id_of(client, name)), type=SessionView)


def session_id_of(client: PlainClient, name: str) -> str:
    """The id of the session that `name` means: an id, the beginning of one, or part of a title or native id.

    Raises:
        NotFound: if no session fits.
        Invalid: if several do; the details name them.
    """
    name = name.strip()
    if name.startswith("ses_") and len(name) == _ID_CHARS:
        return name
    if not name:
        raise Invalid("The session's name is empty.")
    exact: list[Session] = []
    near: list[Session] = []
    after = ""
    while True:
        page = client.get("/v1/sessions", type=SessionPage, limit=PAGE_ROWS_MAX, after=after)
        for session in page.sessions:
            report = session.report
            if report.native_id == name or report.title == name:
                exact.append(session)
            if (
                report.session_id.startswith((name, f"ses_{name}"))
                or report.native_id.startswith(name)
                or name.casefold() in report.title.casefold()
            ):
                near.append(session)
        if not page.next:
            break
        after = page.next
    found = exact if len(exact) == 1 else near
    if not found:
        raise NotFound(f"No session is named {line_of(name)!r}.", hint="`ekiden sessions` lists them.")
    if len(found) > 1:
        shown = [f"{one.report.session_id} {line_of(one.report.title)[:50]}" for one in found[:_CANDIDATES_SHOWN]]
        more = len(found) - len(shown)
        raise Invalid(
            f"{len(found)} sessions fit {line_of(name)!r}.",
            hint="Name one by its id or by more of it.",
            candidates=[*shown, *([f"and {more} more"] if more else [])],
        )
    return found[0].report.session_id
