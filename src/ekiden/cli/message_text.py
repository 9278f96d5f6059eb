"""Messages, deliveries and status values as text for a terminal. What others have said is shown as text only."""

from collections.abc import Sequence

from ekiden.cli.screen import Screen, line_of, visible
from ekiden.cli.session_list import age_of
from ekiden.client.member import Opened, Proof
from ekiden.relay.wire import Delivery, Message, MessageState, Unplaced, Way

_PROOF_STYLES = {
    Proof.VERIFIED: ("green",),
    Proof.UNSIGNED: ("dim",),
    Proof.UNKNOWN_KEY: ("yellow",),
    Proof.BAD: ("red", "bold"),
}
_WAYS = {
    Way.SESSION: "queued in its session, read in its next turn",
    Way.WAITING: "waits now: handed over",
    Way.NEXT_CALL: "reads it at its next call",
    Way.INBOX: "in the inbox",
    Way.NONE: "not woken",
}
_WHYS = {
    "loop_hops": "too many agents have woken one another since a person spoke",
    "loop_pair": "you two have woken each other too often",
    "loop_thread": "the thread has used up its wake-ups",
    "nothing_new": "nothing new was said for some turns",
    "may_not_read": "may not read this channel",
    "may_not_mention": "your key may not mention it",
    "unknown": "nobody has this name",
    "ambiguous": "more than one has this name",
    "too_many": "more are mentioned than one message can call",
    "archived": "the channel is archived",
    "expired": "nobody answered in time",
    "self": "that is you",
}


def proof_text(screen: Screen, proof: Proof) -> str:
    """What is known of who said something, in its colour."""
    return screen.style(proof.value, *_PROOF_STYLES[proof])


def print_message(screen: Screen, message: Message, opened: Opened) -> None:
    """A message: a line of ours on who said it and what is known of that, then its text, set in."""
    proof = proof_text(screen, opened.proof)
    parts = [
        screen.style(f"#{message.number}", "cyan"),
        screen.style(line_of(message.sender), "bold"),
        f"({line_of(message.authority)}, {proof})",
        screen.style(age_of(message.at), "dim"),
    ]
    if message.suspect:
        parts.append(screen.style("written with a key that is not trusted any more", "red"))
    if message.thread_id:
        parts.append(screen.style(f"in {message.thread_id}", "dim"))
    elif message.replies:
        parts.append(screen.style(f"{message.replies} replies", "dim"))
    if message.asks:
        parts.append(screen.style(f"asks for an {message.asks}", "yellow"))
    if message.edits:
        parts.append(screen.style("edited", "dim"))
    screen.say(" ".join(parts))
    if opened.title:
        screen.say(f"  {screen.style(line_of(opened.title), 'bold')}")
    if message.state is MessageState.DELETED:
        screen.say(screen.style(f"  deleted by {line_of(message.deleted_by)}", "dim"))
    elif opened.note:
        screen.say(screen.style(f"  {visible(opened.note)}", "yellow"))
    for line in visible(opened.text).splitlines():
        screen.say(f"  {line}")
    for one in opened.attachments:
        screen.say(screen.style(f"  attachment {line_of(one.name) or '?'} ({one.size} bytes) {one.sha256}", "dim"))


def print_deliveries(screen: Screen, deliveries: Sequence[Delivery], unplaced: Sequence[Unplaced] = ()) -> None:
    """How each that is mentioned gets it, and who does not."""
    for one in deliveries:
        why = f": {_WHYS.get(one.why, line_of(one.why))}" if one.why else ""
        way = _WAYS.get(one.way, line_of(one.way))
        reason = f" ({line_of(one.reason)})" if one.reason else ""
        screen.say(f"  @{line_of(one.name)}  {line_of(one.state)}  {way}{why}{reason}")
    for one in unplaced:
        said = _WHYS.get(one.why, line_of(one.why))
        screen.say(screen.style(f"  @{line_of(one.name)}  reaches nobody: {said}", "yellow"))


def notice_text(word: str) -> str:
    """What a stable word of the loop budgets means."""
    return _WHYS.get(word, line_of(word))
