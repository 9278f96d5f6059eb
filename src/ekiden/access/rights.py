"""Permission maps: what a key may do, decided from its map alone. Pure.

A map goes from resource pattern to verbs. What is not listed is not allowed, so an empty map allows nothing.
Verbs and patterns that end in `*` take in whatever begins alike. Two things keep maps short:

- `admin` on a channel (`channel:…`, `private:…`) implies every verb of channels there;
- the verbs of channels mean something on channels only, so `{"*": ["post"]}` is posting in all channels.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from ekiden.kernel import limits
from ekiden.kernel.errors import Invalid

Permissions = Mapping[str, Sequence[str]]
"""From resource pattern to verbs. A pattern is a resource, a resource with a trailing `*`, or `*`."""


class Right(StrEnum):
    """What can be allowed on a resource; beside these `status:KEY` and `status:PATTERN*` on channels."""

    READ = "read"
    POST = "post"
    ACK = "ack"
    MENTION = "mention"
    MENTION_ALL = "mention:all"
    LEASE = "lease"
    INVITE = "invite"
    STEER = "steer"
    APPROVE = "approve"
    START = "start"
    FEED = "feed"
    ADMIN = "admin"


ALL_RIGHTS = (Right.READ, Right.STEER, Right.APPROVE, Right.START, Right.ADMIN)
"""What a person has on everything. `admin` brings the verbs of channels with it."""

CHANNEL_FAMILIES = ("channel:", "private:")
"""How the resources of channels begin."""

_STATUS = "status:"
_OF_CHANNELS_ONLY = frozenset({Right.POST, Right.ACK, Right.MENTION, Right.MENTION_ALL, Right.LEASE, Right.INVITE})
_IMPLIED_BY_ADMIN = _OF_CHANNELS_ONLY | {Right.READ}
_PATTERN = re.compile(r"(?:\*|[a-z][a-z0-9_]*(?::[A-Za-z0-9_.\-]*)?\*?)\Z")
_STATUS_VERB = re.compile(r"status:[A-Za-z0-9_./:@\-]*\*?\Z")


class PermissionMap(dict[str, Sequence[str]]):
    """The map of one bearer, which remembers what it has decided. `own` are resources that the bearer may read
    without being granted it (its own inbox), as long as it may do anything at all."""

    __slots__ = ("_known", "own")

    def __init__(self, permissions: Permissions, own: frozenset[str] = frozenset()) -> None:
        super().__init__(permissions)
        self.own = own if permissions else frozenset[str]()
        self._known: dict[tuple[str, str], bool] = {}

    def allows(self, verb: str, resource: str) -> bool:
        """Whether the bearer may do `verb` on `resource`."""
        asked = (verb, resource)
        known = self._known.get(asked)
        if known is None:
            if len(self._known) >= limits.PERMISSION_DECISIONS_KEPT_MAX:
                self._known.clear()
            known = self._known[asked] = (verb == Right.READ and resource in self.own) or _decide(
                self, verb, resource
            )
        return known


def allows(permissions: Permissions, verb: str, resource: str) -> bool:
    """Whether the map allows `verb` on `resource`. Nothing is allowed that is not listed."""
    if isinstance(permissions, PermissionMap):
        return permissions.allows(verb, resource)
    return _decide(permissions, verb, resource)


def covers(held: Permissions, wanted: Permissions) -> bool:
    """Whether `held` allows everything that `wanted` would allow."""
    return not any(True for _ in beyond(held, wanted))


def beyond(held: Permissions, wanted: Permissions) -> Iterator[tuple[str, str]]:
    """What `wanted` would allow and `held` does not: pattern and verb."""
    for pattern, verbs in wanted.items():
        for verb in verbs:
            for part in _parts(pattern, verb):
                if not any(_matches(own, part) and _grants(have, verb, part) for own, have in held.items()):
                    yield pattern, verb
                    break


def narrowed(permissions: Permissions, within: Permissions) -> dict[str, list[str]]:
    """What both maps allow, as one map."""
    both: dict[str, set[str]] = {}
    for pattern, verbs in permissions.items():
        for other, other_verbs in within.items():
            common = other if _matches(pattern, other) else pattern if _matches(other, pattern) else None
            if common is None:
                continue
            for one, two in product(verbs, other_verbs):
                for part, verb in _met(common, one, two):
                    both.setdefault(part, set()).add(verb)
    kept = sorted(both)[: limits.PERMISSION_PATTERNS_MAX]
    return {pattern: _in_order(both[pattern]) for pattern in kept}


def _met(pattern: str, one: str, other: str) -> Iterator[tuple[str, str]]:
    """Where on a pattern, and with which verb, two granted verbs allow the same."""
    if one == other:
        yield pattern, one
    elif one.endswith("*") and other.startswith(one[:-1]):
        yield pattern, other
    elif other.endswith("*") and one.startswith(other[:-1]):
        yield pattern, one
    elif Right.ADMIN in (one, other):
        verb = other if one == Right.ADMIN else one
        if verb in _IMPLIED_BY_ADMIN or verb.startswith(_STATUS):
            for part in _on_channels(pattern):
                yield part, verb


def checked_permissions(permissions: Permissions) -> dict[str, list[str]]:
    """The map in one spelling: verbs once and in order, patterns sorted.

    Raises:
        Invalid: for a verb that does not exist or means nothing there, a pattern of another form, too many.
    """
    if len(permissions) > limits.PERMISSION_PATTERNS_MAX:
        raise Invalid(f"A permission map has at most {limits.PERMISSION_PATTERNS_MAX} patterns.")
    return {pattern: _checked_verbs(pattern, permissions[pattern]) for pattern in sorted(permissions)}


def _checked_verbs(pattern: str, verbs: Sequence[str]) -> list[str]:
    if len(pattern) > limits.PERMISSION_PATTERN_CHARS_MAX or not _PATTERN.match(pattern):
        raise Invalid(
            f"{pattern[:80]!r} is not a resource pattern.",
            hint="A resource (channel:build, session:ses_…), one with a trailing *, or *.",
        )
    if not verbs:
        raise Invalid(f"{pattern!r} has no verbs.", hint="Leave it out: what is not listed is not allowed.")
    if len(verbs) > limits.PERMISSION_VERBS_MAX:
        raise Invalid(f"{pattern!r} has more than {limits.PERMISSION_VERBS_MAX} verbs.")
    for verb in verbs:
        if verb not in set(Right) and not (
            len(verb) <= limits.PERMISSION_PATTERN_CHARS_MAX and _STATUS_VERB.match(verb)
        ):
            raise Invalid(
                f"{pattern!r} cannot have the verb {verb[:40]!r}.",
                hint=f"Verbs are {', '.join(Right)} and status:KEY, where KEY may end in *.",
            )
        if _of_channels_only(verb) and not _parts(pattern, verb):
            raise Invalid(
                f"{verb!r} means nothing on {pattern!r}: it is a verb of channels.",
                hint="Put it under channel:NAME, channel:*, private:NAME or *.",
            )
    return _in_order(set(verbs))


def _in_order(verbs: Set[str]) -> list[str]:
    named = [right.value for right in Right if right in verbs]
    return named + sorted(verb for verb in verbs if verb.startswith(_STATUS))


def _decide(permissions: Permissions, verb: str, resource: str) -> bool:
    if _of_channels_only(verb) and not resource.startswith(CHANNEL_FAMILIES):
        return False
    return any(
        _matches(pattern, resource) and _grants(verbs, verb, resource) for pattern, verbs in permissions.items()
    )


def _grants(verbs: Sequence[str], verb: str, resource: str) -> bool:
    """Whether verbs that are granted on a resource (or on all of a narrower pattern) take in a verb there."""
    if verb in verbs:
        return True
    if Right.ADMIN in verbs and resource.startswith(CHANNEL_FAMILIES):
        return verb in _IMPLIED_BY_ADMIN or verb.startswith(_STATUS)
    return any(have.endswith("*") and verb.startswith(have[:-1]) for have in verbs)


def _of_channels_only(verb: str) -> bool:
    return verb in _OF_CHANNELS_ONLY or verb.startswith(_STATUS)


def _parts(pattern: str, verb: str) -> tuple[str, ...]:
    """The pattern cut to where the verb means something."""
    return _on_channels(pattern) if _of_channels_only(verb) else (pattern,)


def _on_channels(pattern: str) -> tuple[str, ...]:
    """What of a pattern lies on channels."""
    if pattern.startswith(CHANNEL_FAMILIES):
        return (pattern,)
    if pattern.endswith("*"):
        return tuple(f"{family}*" for family in CHANNEL_FAMILIES if family.startswith(pattern[:-1]))
    return ()


def _matches(pattern: str, resource: str) -> bool:
    """Whether a pattern takes in a resource, or all of a narrower pattern."""
    if pattern.endswith("*"):
        return resource.startswith(pattern[:-1])
    return pattern == resource


# Why


class Nearness(StrEnum):
    """How near a map comes to allowing something."""

    ALLOWED = "allowed"
    OTHER_VERBS = "other_verbs"
    """A pattern takes in the resource, but not with this verb."""
    OTHER_RESOURCES = "other_resources"
    """The verb is granted, but on other resources."""
    NOTHING_NEAR = "nothing_near"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a map allows something or not: the pattern that comes nearest ("" if none does), its verbs, and the
    least that would have to be added to allow it."""

    nearness: Nearness
    pattern: str = ""
    verbs: tuple[str, ...] = ()
    would_allow: tuple[str, str] | None = None
    """Pattern and verb."""


def explain(permissions: Permissions, verb: str, resource: str) -> Explanation:
    """Why `permissions` allow `verb` on `resource`, or what is missing."""
    own = permissions.own if isinstance(permissions, PermissionMap) else frozenset[str]()
    if verb == Right.READ and resource in own:
        return Explanation(Nearness.ALLOWED, resource, (Right.READ,))
    by_length = sorted(permissions, key=len, reverse=True)
    around = [pattern for pattern in by_length if _matches(pattern, resource)]
    if _of_channels_only(verb) and not resource.startswith(CHANNEL_FAMILIES):
        return Explanation(Nearness.NOTHING_NEAR)
    for pattern in around:
        if _grants(permissions[pattern], verb, resource):
            return Explanation(Nearness.ALLOWED, pattern, tuple(permissions[pattern]))
    missing = (resource, verb)
    if around:
        return Explanation(Nearness.OTHER_VERBS, around[0], tuple(permissions[around[0]]), missing)
    granting = [pattern for pattern in by_length if _grants(permissions[pattern], verb, resource)]
    if granting:
        nearest = max(granting, key=lambda pattern: _alike(pattern, resource))
        return Explanation(Nearness.OTHER_RESOURCES, nearest, tuple(permissions[nearest]), missing)
    return Explanation(Nearness.NOTHING_NEAR, would_allow=missing)


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    return next(
        (place for place, (left, right) in enumerate(zip(one, other, strict=False)) if left != right),
        min(len(one), len(other)),
    )
