"""List threads; give one a title, mark it as done, open it again.

examples:
  ekiden threads build
  ekiden threads build done 12
  ekiden threads build title 12 "Release 2.0"
"""

import argparse

from ekiden.cli.place import add_door_options, door


def describe(parser: argparse.ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("channel")
    parser.add_argument("what", nargs="?", choices=["list", "done", "reopen", "title"], default="list")
    parser.add_argument("thread", nargs="?", default="", help="the message that it begins with: id or number")
    parser.add_argument("title", nargs="*", help="the new title")
    parser.add_argument("--state", default="", choices=["", "open", "done"], help="only these")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="how many (default 20)")
    add_door_options(parser)


def run(options: argparse.Namespace) -> int:
    """Lists or changes."""
    from ekiden.cli.screen import Screen, line_of
    from ekiden.cli.session_list import age_of
    from ekiden.cli.talk_places import channel_path, message_id_of
    from ekiden.kernel.errors import Invalid
    from ekiden.relay.wire import ChangeThread, Thread, Threads

    screen = Screen()
    with door(options) as client:
        if options.what == "list":
            page = client.get(
                channel_path(options.channel, "/threads"), type=Threads, state=options.state, limit=options.limit
            )
            if options.json:
                screen.data(page)
                return 0
            screen.table(
                [
                    (
                        thread.thread_id,
                        line_of(thread.state),
                        f"{thread.replies} replies",
                        age_of(thread.last_at),
                        line_of(thread.title)
                        + (f"  (waking stopped: {line_of(thread.stopped)})" if thread.stopped else ""),
                    )
                    for thread in page.threads
                ],
                styles=[("cyan",), (), ("dim",), ("dim",)],
            )
            if not page.threads:
                screen.say("No threads.")
            return 0
        if not options.thread:
            raise Invalid("Which thread?", hint="ekiden threads CHANNEL done MESSAGE")
        change = (
            ChangeThread(title=" ".join(options.title))
            if options.what == "title"
            else ChangeThread(done=options.what == "done")
        )
        thread_id = message_id_of(client, options.channel, options.thread)
        thread = client.patch(channel_path(options.channel, f"/threads/{thread_id}"), change, type=Thread)
        if options.json:
            screen.data(thread)
        else:
            screen.say(f"{thread.thread_id} is {thread.state}: {line_of(thread.title)}")
        return 0
