"""The lines of JSON between the demo agent and the one who drives it, over standard input and output.

Requests are told by `op`, what happens by `event`.
"""

import msgspec

from ekiden.vendors.port import Option


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line to the agent. `op` is say (message_id, text, steer), decide (ask, option, text), interrupt, close."""

    op: str
    message_id: str = ""
    text: str = ""
    steer: bool = False
    ask: str = ""
    option: str = ""


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line from the agent. `event` says which fields matter:

    - ready: pid
    - refused: pid, text (another agent holds the session, or there is no such session)
    - placed: message_id, turn, how
    - turn_started: turn
    - turn_ended: turn, outcome, text
    - grew: turn, record (id of the record that it will be), kind, text
    - asked: ask, turn, record, question, text, name, command, cwd, diff, options
    - withdrawn: ask, text
    - decided: ask, taken (the answer to each `decide`, in order)
    """

    event: str
    pid: int = 0
    message_id: str = ""
    turn: str = ""
    how: str = ""
    outcome: str = ""
    record: str = ""
    kind: str = ""
    text: str = ""
    ask: str = ""
    question: str = ""
    name: str = ""
    command: str = ""
    cwd: str = ""
    diff: str = ""
    options: tuple[Option, ...] = ()
    taken: bool = False


encode_line = msgspec.json.Encoder().encode
decode_order = msgspec.json.Decoder(Order).decode
decode_notice = msgspec.json.Decoder(Notice).decode
