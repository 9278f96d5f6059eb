"""The words of others, in an envelope that a model cannot mistake and the words cannot leave. Pure.

A head line in square brackets says who speaks, with which authority, where, and whether it is proven. Each line
of what they said follows behind `| `. There is no closing mark that a text could hold: a line without `| ` is
Ekiden's, whatever the text is. Characters that steer how text is shown (controls, directions, invisible ones) are
spelled out as `\\u{202e}`, so that what is read is what was written.
"""

import re
import unicodedata
from dataclasses import dataclass

from ekiden.kernel.canonical import whole_text
from ekiden.kernel.limits import MCP_NAME_CHARS_MAX
from ekiden.mcp.definitions import RULE as RULE  # what a model must know to read envelopes goes with them
from ekiden.relay.wire import Asks, Authority, Message, MessageState

QUOTE = "| "
"""Before each line that is not Ekiden's own."""

_JOINERS = "\u200c\u200d"
_STEERING = re.compile(
    # Controls, format characters and invisible letters. Line feed and tab are themselves; two joiners and the two
    # presentation selectors are judged by where they stand.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))
"""Two of them are one flag."""
_PLAIN_NAME = re.compile(r"\w[\w.\-]*\Z")


@dataclass(frozen=True, slots=True)
class Envelope:
    """What stands on one: everything but the text. `proof` is a few words of ours on its signature; `notes` are
    further words of ours."""

    channel: str
    number: int
    message_id: str
    sender: str
    authority: Authority
    proof: str = "unsigned"
    thread_id: str = ""
    notes: tuple[str, ...] = ()

    @property
    def head(self) -> str:
        """The head line, one line whatever the fields hold."""
        who = (
            "Ekiden itself"
            if self.authority is Authority.SYSTEM
            else f"{self.authority} {shown_name(self.sender)}"
        )
        parts = [f"#{self.number} {self.message_id} in {self.channel} from {who}, {self.proof}"]
        if self.thread_id and self.thread_id != self.message_id:
            parts.append(f"thread {self.thread_id}")
        return f"[{'; '.join((*parts, *self.notes))}]"


def envelope_of(message: Message, channel: str, *, proof: str = "", notes: tuple[str, ...] = ()) -> Envelope:
    """The envelope of a stored message. `proof` empty: what can be said without checking a signature."""
    own: list[str] = []
    if message.asks is Asks.ANSWER:
        own.append("asks for an answer")
    elif message.asks is Asks.ACK:
        own.append("asks for an ack")
    if message.answers:
        own.append(f"answers {message.answers}")
    if message.title:
        own.append(f"titled {shown_name(message.title)}")
    if message.state is MessageState.DELETED:
        own.append("deleted")
    elif message.edits:
        own.append("edited")
    if message.suspect:
        own.append("SUSPECT: written with a key that is no longer trusted")
    if message.replies:
        own.append(counted(message.replies, "reply"))
    return Envelope(
        channel=channel,
        number=message.number,
        message_id=message.message_id,
        sender=message.sender,
        authority=message.authority,
        proof=proof or ("unsigned" if message.signature is None else "signature not checked"),
        thread_id=message.thread_id,
        notes=(*own, *notes),
    )


def enveloped(envelope: Envelope, text: str) -> str:
    """Head and text, whole."""
    return f"{envelope.head}\n{quoted(text)}" if text else envelope.head


def quoted(text: str) -> str:
    """`text` with each line behind the mark."""
    return QUOTE + plain(text).replace("\n", f"\n{QUOTE}")


def quoted_piece(text: str, start: int, room: int) -> tuple[str, int]:
    """As much of `text` from the character `start` on as fits into `room` characters when quoted, and the index in
    `text` at which it ends (`start` if nothing fits). No character that a reader sees as one is split."""
    pieces: list[str] = []
    used = 0
    at = start
    while at < len(text):
        prefix = QUOTE if not pieces else f"\n{QUOTE}"
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        # What is shown is never shorter than what it stands for, so a line beyond the room need not be read whole.
        shown_end = line_end - 1 if text.startswith("\r\n", line_end - 1) and line_end > at else line_end
        line = plain(text[at : min(shown_end, at + room + 1)])
        if used + len(prefix) + len(line) <= room and line_end <= at + room:
            pieces.append(prefix + line)
            used += len(prefix) + len(line)
            at = line_end + 1
            continue
        left = room - used - len(prefix)
        cut = _cut_at(text, at, line_end, left)
        if cut > at:
            pieces.append(prefix + plain(text[at:cut]))
            at = cut
        break
    return "".join(pieces), min(at, len(text))


def plain(text: str) -> str:
    """`text` with everything that steers how it is shown spelled out; line ends are line feeds."""
    text = whole_text(text)
    if text.isascii() and text.isprintable():
        return text
    return _STEERING.sub(_spelled, text.replace("\r\n", "\n"))


def shown_name(name: str) -> str:
    """A name within a line of ours: bounded, on one line, in quotation marks unless it is one plain word."""
    short = name if len(name) <= MCP_NAME_CHARS_MAX else f"{name[: MCP_NAME_CHARS_MAX - 1]}…"
    if _PLAIN_NAME.match(short):
        return short
    inner = plain(short).replace("\n", r"\n").replace('"', "'")
    return f'"{inner[: 2 * MCP_NAME_CHARS_MAX]}"'


def counted(count: int, noun: str) -> str:
    """`1 reply`, `2 replies`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun[:-1]}ies" if noun.endswith("ly") else f"{count} {noun}s"


def _spelled(found: re.Match[str]) -> str:
    letter = found[0]
    text, at = found.string, found.start()
    before = text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    if letter in _JOINERS and _joins(before) and _joins(after):
        return letter
    if letter in "\ufe0e\ufe0f" and before and not _STEERING.match(before):
        return letter
    return f"\\u{{{ord(letter):x}}}"


def _joins(letter: str) -> bool:
    """Whether a joiner beside this one is part of writing: letters of scripts that need it, and pictures."""
    return bool(letter) and not letter.isascii() and unicodedata.category(letter)[0] in "LMS"


def _cut_at(text: str, start: int, end: int, room: int) -> int:
    """The last place up to which `text[start:]` may be cut so that it fits into `room` when shown."""
    end = min(end, start + max(room, 0))
    while end > start and len(plain(text[start:end])) > room:
        end -= max(1, (len(plain(text[start:end])) - room) // 8)
    hard = end
    while end > start and end < len(text) and _sticks(text, start, end):
        end -= 1
    return end if end > start else hard  # a heap of marks on one letter must not stop a reader for ever


def _sticks(text: str, start: int, at: int) -> bool:
    """Whether the characters before and at `at` are seen as one, where reading began at `start`."""
    letter, before = text[at], text[at - 1]
    return (
        unicodedata.combining(letter) != 0
        or unicodedata.category(letter) in ("Mn", "Mc", "Me")
        or letter in _JOINERS
        or before == "\u200d"
        or "\U0001f3fb" <= letter <= "\U0001f3ff"
        or (letter in _FLAG_LETTERS and _flag_letters_before(text, start, at) % 2 == 1)
        or (before == "\r" and letter == "\n")
    )


def _flag_letters_before(text: str, start: int, at: int) -> int:
    begin = at
    while begin > start and text[begin - 1] in _FLAG_LETTERS:
        begin -= 1
    return at - begin
