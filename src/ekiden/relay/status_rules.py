"""Decisions about status: what a key may be called, who wins, what a value needs. Pure.

Each key has a history of lines, numbered from 1 without gaps: a value that was set, cleared, reverted, or whose
time ran out. Who writes with `if_version` writes only if nobody was faster: of several who saw the same version
one wins, and the others are told the version now.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from ekiden.kernel import limits
from ekiden.kernel.canonical import exact
from ekiden.kernel.errors import Conflict, Invalid, TooLarge
from ekiden.relay.wire import Authority, Channel
from ekiden.relay.wire_state import (
    ClearStatus,
    Evidence,
    SetStatus,
    Status,
    StatusKind,
    StatusRule,
    StatusRules,
)

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]*\Z")
_PATTERN = re.compile(r"(?:\*|[A-Za-z0-9][A-Za-z0-9._:@-]*\*?)\Z")
_COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")
_LINK = re.compile(r"https?://[^\s/?#]+[^\s]*\Z", re.IGNORECASE)
EVIDENCE = ("commit", "run", "link", "second")
"""What a rule can ask for."""

_PRESENT = frozenset({StatusKind.SET, StatusKind.REVERTED})
_MOVES: dict[StatusKind | None, frozenset[StatusKind]] = {
    None: frozenset({StatusKind.SET}),
    StatusKind.SET: frozenset(StatusKind),
    StatusKind.REVERTED: frozenset(StatusKind),
    StatusKind.CLEARED: frozenset({StatusKind.SET, StatusKind.REVERTED}),
    StatusKind.EXPIRED: frozenset({StatusKind.SET, StatusKind.CLEARED, StatusKind.REVERTED}),
}


class VersionMoved(Conflict):
    """Somebody was faster. `details`: key, version (the one now, 0 if there is no value), by, at."""

    code = "version_moved"


class RuleBroken(Invalid):
    """The value is not what the channel's rules ask for. `details`: key, pattern, needs."""

    code = "rule_broken"


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, with what authority, through which key."""

    principal_id: str
    name: str
    authority: Authority


def checked_key(key: str) -> str:
    """`key` unchanged if it can be one.

    Raises:
        Invalid: if not.
    """
    if len(key) > limits.STATUS_KEY_CHARS_MAX or not _KEY.match(key):
        raise Invalid(
            f"{key[:80]!r} cannot be the key of a status.",
            hint="Letters, digits and . _ : @ - , for example tests.unit.",
            max=limits.STATUS_KEY_CHARS_MAX,
        )
    return key


def matches(pattern: str, key: str) -> bool:
    """Whether a pattern (a key, or the beginning of keys and `*`) takes a key in."""
    return key.startswith(pattern[:-1]) if pattern.endswith("*") else pattern == key


def has_value(status: Status | None) -> bool:
    """Whether a line gives its key a value."""
    return status is not None and status.kind in _PRESENT


@dataclass(frozen=True, slots=True)
class KeptStatus:
    """The newest line of a key as its table holds it: `expires_ms` is in the log's steady time, 0 for never."""

    status: Status
    expires_ms: int = 0

    def is_over(self, now_ms: int) -> bool:
        """Whether the value's time has run out by `now_ms`, told or not."""
        return 0 < self.expires_ms <= now_ms and has_value(self.status)

    def as_read(self, now_ms: int) -> Status:
        """The line as it is shown: a value whose time is over is expired, whoever has told of it or not."""
        return _without_value(self.status, StatusKind.EXPIRED) if self.is_over(now_ms) else self.status


def _without_value(status: Status, kind: StatusKind) -> Status:
    return Status(
        channel_id=status.channel_id,
        key=status.key,
        version=status.version,
        kind=kind,
        by=status.by,
        by_id=status.by_id,
        authority=status.authority,
        at=status.at,
        expires_at=status.expires_at,
        suspect=status.suspect,
    )


def decide_expiry(status: Status, by: Writer, at: str) -> Status:
    """The line that says that a value's time is over."""
    return _next(
        status,
        StatusKind.EXPIRED,
        status.channel_id,
        status.key,
        by,
        at,
        expires_at=status.expires_at,
    )


def decide_set(
    now: Status | None, channel: Channel, key: str, body: SetStatus, by: Writer, *, at: str, expires_at: str
) -> Status:
    """The line that gives a key a value that was checked (`check_value`). `now` is the key's newest line.

    Raises:
        VersionMoved: if `body.if_version` is not the version now.
    """
    refuse_version(now, key, body.if_version)
    return _next(
        now,
        StatusKind.SET,
        channel.channel_id,
        key,
        by,
        at,
        value=body.value,
        sealed=body.sealed,
        expires_at=expires_at,
        evidence=body.evidence,
        signature=body.signature,
    )


def decide_clear(
    now: Status | None, channel: Channel, key: str, body: ClearStatus, by: Writer, at: str
) -> Status | None:
    """The line that takes a key's value away; None if it has none.

    Raises:
        VersionMoved: if `body.if_version` is not the version now.
    """
    refuse_version(now, key, body.if_version)
    if now is None or now.kind is StatusKind.CLEARED:
        return None
    return _next(now, StatusKind.CLEARED, channel.channel_id, key, by, at, signature=body.signature)


def decide_revert(now: Status, clean: Status | None, by: Writer, at: str) -> Status | None:
    """The line that puts a key back to what `clean` said, with the time it said; to no value if `clean` has none.
    None if there is nothing to put back."""
    if clean is None or not has_value(clean) or 0 < seconds_of(clean.expires_at) <= seconds_of(at):
        if now.kind is StatusKind.CLEARED:
            return None
        return _next(now, StatusKind.CLEARED, now.channel_id, now.key, by, at)
    return _next(
        now,
        StatusKind.REVERTED,
        now.channel_id,
        now.key,
        by,
        at,
        value=clean.value,
        sealed=clean.sealed,
        expires_at=clean.expires_at,
        evidence=clean.evidence,
    )


def _next(
    now: Status | None, kind: StatusKind, channel_id: str, key: str, by: Writer, at: str, **fields: object
) -> Status:
    """The line after `now`."""
    assert kind in _MOVES[now.kind if now is not None else None]
    return Status(
        channel_id=channel_id,
        key=key,
        version=(now.version if now is not None else 0) + 1,
        kind=kind,
        by=by.name,
        by_id=by.principal_id,
        authority=by.authority,
        at=at,
        **fields,  # pyright: ignore[reportArgumentType] - fields of Status, named by the callers above
    )


def refuse_version(now: Status | None, key: str, if_version: int | None) -> None:
    """Raises:
    VersionMoved: if `if_version` is given and not the version now (0: no value).
    """
    if if_version is None:
        return
    if if_version < 0:
        raise Invalid("if_version is a version, or 0 for a key without value.")
    version = now.version if now is not None else 0
    if if_version == version or (if_version == 0 and not has_value(now)):
        return
    raise VersionMoved(
        f"{key!r} is at version {version} by now.",
        hint="Read it again and decide anew.",
        key=key,
        version=version,
        by=now.by if now is not None else "",
        at=now.at if now is not None else "",
    )


def check_value(channel: Channel, body: SetStatus) -> None:
    """Raises:
    Invalid: if the channel takes no such value, or the time is out of its bounds.
    TooLarge: if the value is over `STATUS_VALUE_BYTES_MAX`.
    """
    if channel.encrypted:
        if body.sealed is None or body.value is not None:
            raise Invalid("This channel is encrypted: seal the value.", hint="Send `sealed`, and no `value`.")
        if body.evidence is not None and (body.evidence.commit or body.evidence.run or body.evidence.link):
            raise Invalid("This channel is encrypted: put the evidence into what is sealed.")
    elif body.sealed is not None:
        raise Invalid("This channel is not encrypted: send `value`.")
    # What has no one spelling in JSON (halves of characters, numbers that others read otherwise) is refused here.
    size = len(exact(body.sealed if body.sealed is not None else body.value))
    if size > limits.STATUS_VALUE_BYTES_MAX:
        raise TooLarge("The value is too large for a status.", size=size, max=limits.STATUS_VALUE_BYTES_MAX)
    if not 0 <= body.expires_s <= limits.STATUS_EXPIRES_S_MAX:
        raise Invalid(
            f"expires_s is 0 (never) or up to {limits.STATUS_EXPIRES_S_MAX} seconds.",
            max=limits.STATUS_EXPIRES_S_MAX,
        )
    if body.evidence is not None:
        _check_evidence(body.evidence)


def _check_evidence(evidence: Evidence) -> None:
    for name in ("commit", "run", "link"):
        if len(getattr(evidence, name)) > limits.EVIDENCE_CHARS_MAX:
            raise Invalid(f"evidence.{name} has at most {limits.EVIDENCE_CHARS_MAX} characters.")
    if evidence.commit and not _COMMIT.match(evidence.commit):
        raise Invalid("evidence.commit is a commit's hash: 7 to 64 hexadecimal digits.")
    if evidence.link and not _LINK.match(evidence.link):
        raise Invalid("evidence.link is a URL of http or https.")


def needs_of(rules: StatusRules, key: str) -> tuple[StatusRule, ...]:
    """The rules that a key falls under; all of them hold."""
    return tuple(rule for rule in rules.rules if matches(rule.pattern, key))


def refuse_bare(rules: Iterable[StatusRule], key: str, evidence: Evidence | None) -> None:
    """Raises:
    RuleBroken: if evidence is missing that a rule asks for.
    """
    for rule in rules:
        missing = [name for name in rule.evidence if not getattr(evidence, name, None)]
        if missing:
            raise RuleBroken(
                f"{key!r} needs evidence here: {', '.join(missing)}.",
                hint="Send it in `evidence`.",
                key=key,
                pattern=rule.pattern,
                needs=missing,
            )


def checked_patterns(rules: Sequence[StatusRule], *, encrypted: bool) -> None:
    """Raises:
    Invalid: for too many rules, a pattern of another form or twice, or evidence that does not exist.
    """
    if len(rules) > limits.STATUS_RULES_MAX:
        raise Invalid(f"A channel has at most {limits.STATUS_RULES_MAX} rules.", max=limits.STATUS_RULES_MAX)
    seen: set[str] = set()
    for rule in rules:
        if len(rule.pattern) > limits.STATUS_KEY_CHARS_MAX or not _PATTERN.match(rule.pattern):
            raise Invalid(f"{rule.pattern[:80]!r} is not a pattern.", hint="A key, or its beginning and *.")
        if rule.pattern in seen:
            raise Invalid(f"The pattern {rule.pattern!r} is there twice.")
        seen.add(rule.pattern)
        unknown = [name for name in rule.evidence if name not in EVIDENCE]
        if unknown:
            raise Invalid(f"{unknown[0][:40]!r} is no evidence.", hint=f"One of {', '.join(EVIDENCE)}.")
        if encrypted and (rule.schema is not None or set(rule.evidence) - {"second"}):
            raise Invalid("In an encrypted channel a rule can only ask for a second signer: values are sealed.")


def seconds_of(time: str) -> float:
    """RFC 3339 as seconds since the epoch; 0 for ""."""
    return datetime.fromisoformat(time).timestamp() if time else 0.0
