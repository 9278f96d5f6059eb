"""Exports: written page by page, and checked with no hub."""

import argparse
import sys
from pathlib import Path

import msgspec

from ekiden.cli.exit_codes import NOT_VERIFIED
from ekiden.cli.place import home_of
from ekiden.cli.screen import Screen, line_of
from ekiden.cli.talk_places import channel_path, message_id_of
from ekiden.client.own_files import write_own
from ekiden.client.pins import pinned_hub_keys
from ekiden.client.plain import PlainClient
from ekiden.crypto.verify import Severity, verify
from ekiden.kernel.errors import EkidenError, Unavailable

_STYLES = {Severity.ERROR: ("red", "bold"), Severity.WARNING: ("yellow",), Severity.NOTE: ("dim",)}


class _Page(msgspec.Struct, frozen=True):
    next: str = ""


class _Team(msgspec.Struct, frozen=True):
    team_id: str = ""


def write(client: PlainClient, options: argparse.Namespace) -> int:
    """Reads all pages of an export and writes them, one a line."""
    thread = message_id_of(client, options.channel, options.thread) if options.thread else ""
    pages: list[bytes] = []
    after = ""
    while True:
        raw = client.get(channel_path(options.channel, "/export"), type=msgspec.Raw, thread=thread, after=after)
        pages.append(bytes(raw))
        after = msgspec.json.decode(raw, type=_Page).next
        if not after:
            break
    data = b"\n".join(pages) + b"\n"
    if options.out is None:
        sys.stdout.buffer.write(data)
        return 0
    write_own(options.out.absolute(), data)
    if options.json:
        Screen().data({"file": str(options.out), "pages": len(pages), "bytes": len(data)})
    else:
        Screen().say(f"{len(data)} bytes in {line_of(str(options.out))}")
    return 0


def check(options: argparse.Namespace) -> int:
    """Prints what is found in an export.

    Raises:
        Unavailable: if the file cannot be read.
    """
    try:
        pages = [line for line in options.file.read_bytes().split(b"\n") if line.strip()]
    except OSError as error:
        raise Unavailable(f"{options.file} cannot be read: {error.strerror}.") from error
    report = verify(pages, hub_key=options.hub_key or _pinned(home_of(options), pages))
    screen = Screen()
    counts = {
        "channel": report.channel,
        "good": report.good,
        "messages": report.messages,
        "signed": report.signed,
        "countersigned": report.countersigned,
        "statuses": report.statuses,
    }
    if options.json:
        for finding in report.findings:
            screen.data(finding)
        screen.data(counts)
        return 0 if report.good else NOT_VERIFIED
    for finding in report.findings:
        word = screen.style(finding.severity.value, *_STYLES[finding.severity])
        screen.say(f"{word}  {line_of(finding.where)}  {line_of(finding.message)}")
    said = "is as it was said" if report.good else "is NOT as it was said"
    screen.say(
        f"{line_of(report.channel)} {said}: {report.messages} messages, {report.signed} signed by their senders,"
        f" {report.countersigned} countersigned, {report.statuses} status values."
    )
    return 0 if report.good else NOT_VERIFIED


def _pinned(home: Path, pages: list[bytes]) -> str:
    """The hub's key that is pinned on this computer for the team that the export names; empty if none is."""
    try:
        team = msgspec.json.decode(pages[0], type=_Team).team_id if pages else ""
        pinned = pinned_hub_keys(home, team)
    except (msgspec.DecodeError, EkidenError):
        return ""
    return pinned.pop() if len(pinned) == 1 else ""
