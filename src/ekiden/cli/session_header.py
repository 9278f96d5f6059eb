"""What is known of a session as a whole, in a few lines: and how it is known."""

from ekiden.cli.screen import Screen, line_of
from ekiden.cli.session_list import age_of
from ekiden.sessions.wire import SessionView

_RUNGS = {
    "owned": "Ekiden owns it",
    "held": "another process writes it; its file is followed",
    "file": "its file is followed",
}


def print_header(screen: Screen, view: SessionView) -> None:
    """Prints title, place, state, level with its evidence, and what cannot be done and why."""
    session, report = view.session, view.session.report
    screen.say(screen.style(line_of(report.title or report.native_id), "bold"))
    where = f"{line_of(report.vendor)} in {line_of(report.cwd)} on {line_of(session.host_name)}"
    screen.say(screen.style(f"{report.session_id}  {where}", "dim"))
    evidence = f" ({line_of(report.evidence)})" if report.evidence else ""
    screen.say(
        screen.style(f"level {report.level}: {_RUNGS.get(report.rung, line_of(report.rung))}{evidence}", "dim")
    )
    state = f"{session.state}, last changed {age_of(report.updated_at) or 'at an unknown time'} ago".replace(
        "now ago", "just now"
    )
    screen.say(screen.style(state, "dim"))
    if not session.host_here:
        seen = age_of(session.host_seen_at)
        screen.say(screen.style(f"its computer is away{f', last seen {seen} ago' if seen else ''}", "yellow"))
    if report.holder is not None:
        holder = report.holder
        screen.say(screen.style(f"held by {line_of(holder.program)}, process {holder.pid}", "yellow"))
    for ability in report.abilities:
        if not ability.can:
            detail = f": {line_of(ability.detail)}" if ability.detail else ""
            why = line_of(ability.why).replace("_", " ")
            screen.say(screen.style(f"cannot {line_of(ability.name).replace('_', ' ')} ({why}){detail}", "dim"))
    screen.say()
