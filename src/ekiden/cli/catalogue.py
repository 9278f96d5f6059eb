"""The commands by name, with the line that help shows for each. Nothing is imported to show this list."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: its module in `ekiden.cli.commands` and what it does."""

    module: str
    summary: str


GROUPS: dict[str, dict[str, Entry]] = {
    "Run": {
        "up": Entry("up", "start the hub and this computer's host, and print a link to the page"),
        "host": Entry("host", "connect this computer to a hub that runs elsewhere"),
        "doctor": Entry("doctor", "say what was found, what works, and what does not and why"),
    },
    "Look": {
        "sessions": Entry("sessions", "list sessions, or search in all of them"),
        "show": Entry("show", "show a session's items"),
        "follow": Entry("follow", "show a session live, text as it grows"),
        "inbox": Entry("inbox", "what waits for you; answer it"),
    },
    "Carry on": {
        "continue": Entry("continue_", "continue a session here and talk to it"),
        "start": Entry("start", "start a new session in a folder"),
        "send": Entry("send", "give a session a message and return at once"),
        "stop": Entry("stop", "interrupt the running turn"),
        "fork": Entry("fork", "make a new session with the history of this one"),
        "quote": Entry("quote", "start a new session with an extract of this one"),
    },
    "Talk": {
        "channels": Entry("channels", "list and make channels, join them, say who is in them"),
        "post": Entry("post", "say something in a channel"),
        "edit": Entry("edit", "change what a message of yours says, or take it back"),
        "read": Entry("read", "read a channel, a thread, a message or an attachment"),
        "threads": Entry("threads", "list threads; mark one as done"),
        "mentions": Entry("mentions", "what waits for you in channels"),
        "wait": Entry("wait", "wait until somebody mentions you"),
        "ack": Entry("ack", "say that you took note, or decline"),
        "who-acked": Entry("who_acked", "who took note of a message, and who not"),
        "search": Entry("search", "search in channels and in sessions"),
    },
    "Agree": {
        "status": Entry("status", "a channel's shared values: get, set, clear, history, rules"),
        "lease": Entry("lease", "take, renew and release locks; check a ticket without the hub"),
    },
    "Trust": {
        "invite": Entry("invite", "invite somebody to channels with one string"),
        "join": Entry("join", "come in by an invite"),
        "identity": Entry("identity", "your member keys: show, vouch for another, end one"),
        "trust": Entry("trust", "whose keys are trusted here; compare and accept"),
        "export": Entry("export", "write a channel or thread to a file that can be checked"),
        "verify": Entry("verify", "check an export with no hub"),
        "purge": Entry("purge", "delete old messages for good; a signed note stays"),
        "audit": Entry("audit", "who was given, refused or lost which right"),
    },
    "Keep": {
        "pair": Entry("pair", "let a phone or another browser in"),
        "mcp": Entry("mcp", "the tools with which agents talk to one another; give them to your programs"),
        "keys": Entry("keys", "list, make, narrow, rotate and revoke keys; explain a refusal"),
        "backup": Entry("backup", "write a consistent copy of the data, also while running"),
        "move": Entry("move", "copy the log into Postgres, or back into a file, while Ekiden is stopped"),
        "restore": Entry("restore", "put a backup in the place of the data"),
    },
}
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}
