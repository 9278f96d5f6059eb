"""Lists of sessions and of search hits, for a terminal."""

from collections.abc import Mapping
from datetime import UTC, datetime

from ekiden.cli.exit_codes import USAGE
from ekiden.cli.refusals import tell
from ekiden.cli.screen import Screen, line_of, visible
from ekiden.client.plain import PlainClient
from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import PAGE_ROWS_MAX
from ekiden.sessions.wire import SearchPage, Session, SessionPage, SessionState

_ID_CHARS_SHOWN = 10
_STATE_STYLES = {
    SessionState.RUNNING: "green",
    SessionState.WAITING: "yellow",
    SessionState.LOST: "red",
    SessionState.GONE: "red",
    SessionState.IDLE: "dim",
}


def list_sessions(
    client: PlainClient,
    screen: Screen,
    wanted: Mapping[str, str | None],
    *,
    limit: int,
    everything: bool,
    as_json: bool,
) -> int:
    """Prints the newest sessions that fit `wanted` (query values of the list)."""
    after = ""
    left = limit
    shown = 0
    while True:
        rows = PAGE_ROWS_MAX if everything else max(1, min(left, PAGE_ROWS_MAX))
        page = client.get("/v1/sessions", type=SessionPage, limit=rows, after=after, **wanted)
        if as_json:
            for session in page.sessions:
                screen.data(session)
        else:
            screen.table([row_of(session) for session in page.sessions], styles=[("cyan",), (), ("dim",)])
        shown += len(page.sessions)
        left -= len(page.sessions)
        after = page.next
        if not after or (left <= 0 and not everything):
            break
    if not as_json:
        if not shown:
            filtered = any(wanted.values())
            screen.say(
                "No session fits."
                if filtered
                else "No sessions yet. `ekiden start . --vendor demo hello` makes one."
            )
        elif after:
            screen.say(screen.style(f"{shown} of {page.total}; --all shows the rest", "dim"))
    return 0


def row_of(session: Session) -> tuple[str, ...]:
    """A session's cells: the beginning of its id, vendor, state, age, project, title."""
    report = session.report
    state = str(session.state) + (f" ({session.approvals_open} to answer)" if session.approvals_open else "")
    return (
        report.session_id[: _ID_CHARS_SHOWN + 4],
        line_of(report.vendor),
        state,
        age_of(report.updated_at),
        line_of(report.project.rstrip("/").rpartition("/")[2] or report.project)[:24],
        line_of(report.title or report.native_id),
    )


def age_of(at: str, now: datetime | None = None) -> str:
    """How long ago: `now`, `5 min`, `3 h`, `2 d`, or the date."""
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return ""
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    if seconds < 60:
        return "now"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.0f} h"
    if seconds < 30 * 86400:
        return f"{seconds / 86400:.0f} d"
    return then.date().isoformat()


def search(client: PlainClient, screen: Screen, text: str, *, limit: int, as_json: bool) -> int:
    """Prints where `text` is found in the items of all sessions."""
    if not text:
        tell(Invalid("There is nothing to search for.", hint="ekiden sessions search WORDS"), as_json=as_json)
        return USAGE
    page = client.get("/v1/search", type=SearchPage, text=text, limit=limit)
    if as_json:
        screen.data(page)
        return 0
    for hit in page.hits:
        head = f"{screen.style(hit.session_id[: _ID_CHARS_SHOWN + 4], 'cyan')}  {line_of(hit.title)}"
        screen.say(f"{head}  {screen.style(age_of(hit.at), 'dim')}")
        screen.say(f"    {_marked(screen, hit.excerpt, hit.matches)}")
    if not page.hits:
        screen.say("Nothing was found.")
    if page.indexed_share < 1:
        screen.say(screen.style(f"The index covers {page.indexed_share:.0%} of the sessions so far.", "yellow"))
    if page.away:
        screen.say(screen.style(f"Not asked, since away: {', '.join(map(line_of, page.away))}", "yellow"))
    return 0


def _marked(screen: Screen, excerpt: str, matches: tuple[tuple[int, int], ...]) -> str:
    parts: list[str] = []
    at = 0
    for start, end in matches:
        parts.append(_flat(excerpt[at:start]))
        parts.append(screen.style(_flat(excerpt[start:end]), "bold", "yellow"))
        at = max(at, end)
    parts.append(_flat(excerpt[at:]))
    return "".join(parts)


def _flat(text: str) -> str:
    return visible(text.replace("\n", " ").replace("\t", " "), lines=False)
