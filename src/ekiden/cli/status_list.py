"""Status values on the terminal."""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ekiden.cli.message_text import proof_text
from ekiden.cli.screen import Screen, line_of, visible
from ekiden.cli.session_list import age_of
from ekiden.cli.talk_places import channel_path
from ekiden.client.member import Member
from ekiden.client.requests import path_of
from ekiden.kernel.errors import Invalid, Unavailable
from ekiden.relay.wire import Signature
from ekiden.relay.wire_state import (
    ClearStatus,
    Evidence,
    SetStatus,
    Status,
    Statuses,
    StatusKind,
    StatusRules,
)


async def run(member: Member, screen: Screen, options: argparse.Namespace) -> int:
    """Does what the options say."""
    channel: str = options.channel.removeprefix("#")
    if options.what not in ("list", "rules", "history") and not options.key:
        raise Invalid("Which key?", hint=f"ekiden status CHANNEL {options.what} KEY")
    match options.what:
        case "set":
            told = await member.set_status(channel, options.key, _wanted(options))
            await _print(member, screen, channel, [told], options)
        case "second":
            await _print(member, screen, channel, [await member.second_status(channel, options.key)], options)
        case "sign":
            signed = await member.sign_status(channel, options.key, _wanted(options))
            screen.say(msgspec.json.encode(signed).decode())
        case "clear":
            cleared = await member.clear_status(channel, options.key, ClearStatus(options.if_version))
            await _print(member, screen, channel, [cleared], options)
        case "get":
            path = channel_path(channel) + path_of("/status/{key}", key=options.key)
            await _print(member, screen, channel, [await member.client.get(path, type=Status)], options)
        case "history":
            rest = path_of("/status/{key}/changes", key=options.key) if options.key else "/status-changes"
            page = await member.client.get(channel_path(channel) + rest, type=Statuses, limit=options.limit)
            await _print(member, screen, channel, page.statuses, options)
        case "rules":
            await _rules(member, screen, channel, options)
        case _:
            page = await member.client.get(
                channel_path(channel, "/status"), type=Statuses, prefix=options.prefix, limit=options.limit
            )
            await _print(member, screen, channel, page.statuses, options)
            if not page.statuses and not options.json:
                screen.say("No values.")
    return 0


def _wanted(options: argparse.Namespace) -> SetStatus:
    """The value and evidence that the options say."""
    second = signature_in(options.second) if options.second else None
    evidence = Evidence(options.commit, options.evidence_run, options.link, second)
    return SetStatus(
        value=value_of(" ".join(options.value)),
        if_version=options.if_version,
        expires_s=options.expires_s,
        evidence=evidence if evidence != Evidence() else None,
    )


def signature_in(text: str) -> Signature:
    """What `sign` has printed; `-` reads it from standard input.

    Raises:
        Invalid: if it is none.
    """
    try:
        return msgspec.json.decode(sys.stdin.readline() if text == "-" else text, type=Signature)
    except msgspec.DecodeError as error:
        raise Invalid(
            "This is not a signature of a status.", hint="ekiden status CHANNEL sign KEY VALUE prints one."
        ) from error


def value_of(text: str) -> Any:
    """What a person typed: JSON if it is that, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def rules_in(path: Path) -> StatusRules:
    """The rules that a file holds.

    Raises:
        Unavailable: if it cannot be read.
        Invalid: if it holds none.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=StatusRules)
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise Invalid(
            f"The file does not hold rules: {error}",
            hint='{"rules": [{"pattern": "tests.*", "schema": {"type": "object"}, "evidence": ["commit"]}]}',
        ) from error


async def _print(
    member: Member, screen: Screen, channel: str, statuses: Iterable[Status], options: argparse.Namespace
) -> None:
    for status in statuses:
        opened = await member.open_status(channel, status)
        if options.json:
            said = {"value": opened.value, "proof": opened.proof.value, "note": opened.note}
            screen.data({**msgspec.to_builtins(status), **said})
            continue
        gone = status.kind in (StatusKind.CLEARED, StatusKind.EXPIRED)
        text = line_of(status.kind) if gone else visible(opened.note or opened.text)
        expires = f", expires {line_of(status.expires_at)}" if status.expires_at and not gone else ""
        reverted = ", put back" if status.kind is StatusKind.REVERTED else ""
        suspect = screen.style(" written with a key that is not trusted any more", "red") if status.suspect else ""
        screen.say(f"{screen.style(line_of(status.key), 'cyan')} v{status.version}  {text}{suspect}")
        by = f"{line_of(status.by)} ({line_of(status.authority)}, {proof_text(screen, opened.proof)})"
        screen.say(f"  by {by} {age_of(status.at)}{expires}{reverted}")
        if status.evidence is not None:
            named = [
                f"{name} {line_of(word)}"
                for name, word in (
                    ("commit", status.evidence.commit),
                    ("run", status.evidence.run),
                    ("link", status.evidence.link),
                )
                if word
            ]
            named += (
                [f"second signature {line_of(status.evidence.second.signer)}"] if status.evidence.second else []
            )
            screen.say(screen.style(f"  evidence: {', '.join(named)}", "dim"))


async def _rules(member: Member, screen: Screen, channel: str, options: argparse.Namespace) -> None:
    path = channel_path(channel, "/status-rules")
    if options.key == "-":
        rules = await member.client.put(path, StatusRules(()), type=StatusRules, repeatable=False)
    elif options.key:
        wanted = rules_in(Path(options.key))
        rules = await member.client.put(path, wanted, type=StatusRules, repeatable=False)
    else:
        rules = await member.client.get(path, type=StatusRules)
    if options.json:
        screen.data(rules)
        return
    for rule in rules.rules:
        needs = ["fits a schema"] if rule.schema is not None else []
        needs += [f"has {line_of(word)}" for word in rule.evidence]
        screen.say(f"{screen.style(line_of(rule.pattern), 'cyan')}  {', '.join(needs) or 'anything'}")
    if not rules.rules:
        screen.say("Values need nothing.")
