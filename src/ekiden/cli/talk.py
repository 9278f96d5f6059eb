"""The end of `continue` and `start`: one message and its turn, or one after the other on a terminal."""

import sys

from ekiden.cli.conversation import Conversation
from ekiden.cli.exit_codes import BREAK, OK
from ekiden.cli.screen import Screen
from ekiden.cli.session_header import print_header
from ekiden.client.plain import PlainClient
from ekiden.kernel.errors import Invalid
from ekiden.kernel.limits import MESSAGE_CHARS_MAX
from ekiden.sessions.wire import SessionView


def text_from_input(text: str) -> str:
    """`text`, or all of standard input if it is empty and comes from a pipe.

    Raises:
        Invalid: if there is more than a message may have.
    """
    if not text and not sys.stdin.isatty():
        text = sys.stdin.read(MESSAGE_CHARS_MAX + 1)
    if len(text) > MESSAGE_CHARS_MAX:
        raise Invalid("The message is too long.", hint=f"At most {MESSAGE_CHARS_MAX} characters.")
    return text.strip("\n")


def talk(client: PlainClient, view: SessionView, text: str, *, steer: bool, as_json: bool) -> int:
    """Sends `text` and shows its turn; without text on a terminal, asks for one message after the other."""
    screen = Screen()
    text = text_from_input(text)
    conversation = Conversation(client, screen, view, as_json=as_json)
    if text:
        return conversation.say(text, steer=steer)
    if not sys.stdin.isatty():
        raise Invalid("There is no message.", hint="Put it after the session's name, or into standard input.")
    if not as_json:
        print_header(screen, view)
    while True:
        try:
            line = input("> ")
        except EOFError:
            screen.say()
            return OK
        except KeyboardInterrupt:
            screen.say()
            return BREAK
        if line.strip():
            conversation.say(line)
