"""Answering an approval by name."""

import argparse

from ekiden.cli.conversation import answer
from ekiden.cli.screen import Screen, line_of
from ekiden.client.plain import PlainClient
from ekiden.kernel.errors import Invalid, NotFound
from ekiden.sessions.wire import Approval, ApprovalOption, Inbox

_WORDS = {"allow": "allow_once", "always": "allow_always", "deny": "deny"}


def answer_one(client: PlainClient, screen: Screen, inbox: Inbox, options: argparse.Namespace) -> int:
    """Answers the approval that the options name.

    Raises:
        NotFound, Invalid: if no approval or option, or more than one approval, is meant.
    """
    name: str = options.approval
    waiting = [entry.approval for entry in inbox.entries if entry.approval is not None]
    fitting = [one for one in waiting if one.approval_id.startswith((name, f"apr_{name}"))]
    if not fitting:
        raise NotFound(f"No approval {line_of(name)!r} waits.", hint="`ekiden inbox` lists what waits.")
    if len(fitting) > 1:
        raise Invalid("Several approvals fit.", candidates=[one.approval_id for one in fitting])
    approval = fitting[0]
    done = answer(client, approval, option_of(approval, options.option).id, " ".join(options.message))
    if options.json:
        screen.data(done)
    else:
        screen.say(f"Answered: {line_of(done.answer)}.")
    return 0


def option_of(approval: Approval, word: str) -> ApprovalOption:
    """The option that `word` names: its number, id, label, or what kind it is.

    Raises:
        Invalid: if there is none.
    """
    wanted = word.casefold()
    for number, option in enumerate(approval.options, 1):
        if wanted in (str(number), option.id.casefold(), option.label.casefold()):
            return option
    for option in approval.options:
        if option.kind == _WORDS.get(wanted):
            return option
    raise Invalid(
        f"{line_of(word)!r} is no answer to this.",
        candidates=[f"{option.id} ({line_of(option.label)})" for option in approval.options],
    )
