"""What waits for you, and how to answer it.

examples:
  ekiden inbox
  ekiden inbox answer apr_5t allow
  ekiden inbox answer apr_5t deny "not in this folder"
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("what", nargs="?", choices=["list", "answer"], default="list")
    parser.add_argument("approval", nargs="?", help="id of the approval, or its beginning")
    parser.add_argument("option", nargs="?", help="id or number of the option; `allow` and `deny` always work")
    parser.add_argument("message", nargs="*", help="goes to the agent with a denial")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Lists, or answers."""
    from ekiden.cli.screen import Screen, line_of
    from ekiden.kernel.errors import Invalid
    from ekiden.sessions.wire import Inbox

    screen = Screen()
    with door(options) as client:
        inbox = client.get("/v1/inbox", type=Inbox)
        if options.what == "answer":
            if not options.approval or not options.option:
                raise Invalid("What is to be answered, and how?", hint="ekiden inbox answer APPROVAL OPTION")
            from ekiden.cli.answering import answer_one

            return answer_one(client, screen, inbox, options)
        if options.json:
            screen.data(inbox)
            return 0
        from ekiden.cli.live import print_approval
        from ekiden.cli.session_list import age_of, row_of

        for entry in inbox.entries:
            if entry.approval is not None:
                where = line_of(entry.session.report.title) if entry.session else ""
                screen.say(f"{screen.style(entry.approval.approval_id, 'cyan')}  {where}  {age_of(entry.at)}")
                print_approval(screen, entry.approval)
            else:
                screen.say(
                    f"{screen.style(line_of(entry.id), 'cyan')}  {line_of(entry.kind)}: {line_of(entry.title)}"
                )
                if entry.detail:
                    screen.say(f"  {line_of(entry.detail)}")
        if not inbox.entries:
            screen.say("Nothing waits for you.")
        if inbox.running:
            screen.say(screen.style("\nRunning:", "bold"))
            screen.table([row_of(session) for session in inbox.running])
    return 0
