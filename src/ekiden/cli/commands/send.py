"""Give a session a message and return at once. It is stored first, and placed when the session's computer has it.

A session that is not Ekiden's yet must be continued first.
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("session", help="id, beginning of an id, or part of a title")
    parser.add_argument("text", nargs="*", help="the message (or standard input)")
    parser.add_argument("--steer", action="store_true", help="add it to the running turn, where the vendor can")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Sends it."""
    from ekiden.cli.names import session_id_of, session_path
    from ekiden.cli.screen import Screen
    from ekiden.cli.talk import text_from_input
    from ekiden.kernel.errors import Invalid
    from ekiden.kernel.ids import Prefix, new_id
    from ekiden.sessions.wire import Message, SendMessage

    text = text_from_input(" ".join(options.text))
    if not text:
        raise Invalid("There is no message.", hint="Put it after the session's name, or into standard input.")
    screen = Screen()
    with door(options) as client:
        message_id = new_id(Prefix.MESSAGE)
        path = session_path(session_id_of(client, options.session), "/messages")
        body = SendMessage(text=text, message_id=message_id, steer=options.steer)
        message = client.post(path, body, type=Message, command_id=message_id)
        if options.json:
            screen.data(message)
        else:
            screen.say(f"{message.message_id} is {message.state}.")
    return 0
