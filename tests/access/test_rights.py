"""Permission maps: what they allow, what covers what, and why something is not allowed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ekiden.access import rights
from ekiden.access.rights import Nearness, PermissionMap, Right
from ekiden.kernel import limits
from ekiden.kernel.errors import Invalid

RESOURCES = st.sampled_from(
    [
        "team", "access", "session:ses_a", "session:ses_ab", "host:hos_a", "hosts:x", "teams", "channels",
        "channel:build", "channel:build.x", "channel:b", "private:build", "private:pay_roll-2", "inbox:pri_a",
    ]
)  # fmt: skip
PATTERNS = st.sampled_from(
    [
        "*", "team", "team*", "access", "session:*", "session:ses_a", "session:ses_a*", "host:*", "host:hos_a",
        "s*", "c*", "p*", "channel*", "channel:*", "channel:build", "channel:b*", "private:*", "private:build",
    ]
)  # fmt: skip
STATUS_VERBS = ["status:*", "status:tests.*", "status:tests.unit", "status:t*", "status:deploy"]
VERBS = st.sampled_from([*Right, *STATUS_VERBS])
ASKED = st.sampled_from([*Right, "status:tests.unit", "status:tests.", "status:deploy", "status:x", "status:*"])
MAPS = st.dictionaries(PATTERNS, st.lists(VERBS, min_size=1, unique=True), max_size=4)


@pytest.mark.parametrize(
    ("permissions", "verb", "resource", "allowed"),
    [
        ({}, "read", "team", False),
        ({}, "read", "channel:a", False),
        ({"*": ["read"]}, "read", "session:ses_1", True),
        ({"*": ["read"]}, "admin", "access", False),
        ({"team": ["read"]}, "read", "team", True),
        ({"team": ["read"]}, "read", "teams", False),
        ({"session:*": ["read"]}, "read", "session:ses_1", True),
        ({"session:*": ["read"]}, "read", "session", False),
        ({"session:*": ["read"]}, "steer", "session:ses_1", False),
        ({"session:ses_1": ["read"]}, "read", "session:ses_12", False),
        ({"session:ses_1": ["read"]}, "read", "session:ses_", False),
        ({"host:a": ["feed"], "*": ["read"]}, "feed", "host:b", False),
        ({"session:*": ["read"], "session:ses_1": ["steer"]}, "steer", "session:ses_1", True),
        ({"team": ["read"]}, "read", "*", False),
        ({"team": ["reader"]}, "read", "team", False),
        ({"channel:*": ["post"]}, "post", "channel:build", True),
        ({"channel:*": ["post"]}, "post", "private:build", False),
        ({"channel:*": ["post"]}, "read", "channel:build", False),
        ({"*": ["post"]}, "post", "private:build", True),
        ({"*": ["post"]}, "post", "team", False),
        ({"channel:a.b-c_d": ["post"]}, "post", "channel:a.b-c_d", True),
        ({"channel:*": ["status:tests.*"]}, "status:tests.unit", "channel:ci", True),
        ({"channel:*": ["status:tests.*"]}, "status:testsunit", "channel:ci", False),
        ({"channel:*": ["status:tests"]}, "status:tests.unit", "channel:ci", False),
        ({"channel:*": ["status:tests.*"]}, "status:*", "channel:ci", False),
        ({"channel:*": ["mention"]}, "mention:all", "channel:ci", False),
        ({"channel:*": ["mention:all"]}, "mention", "channel:ci", False),
        ({"*": ["admin"]}, "mention:all", "channel:ci", True),
        ({"*": ["admin"]}, "status:anything", "private:ci", True),
        ({"*": ["admin"]}, "read", "private:ci", True),
        ({"*": ["admin"]}, "read", "team", False),
        ({"*": ["admin"]}, "steer", "session:ses_1", False),
        ({"channel:ci": ["admin"]}, "lease", "channel:ci2", False),
    ],
)
def test_a_map_allows_what_it_lists_and_nothing_else(permissions, verb, resource, allowed):
    assert rights.allows(permissions, verb, resource) is allowed


@given(held=MAPS, wanted=MAPS, verb=ASKED, resource=RESOURCES)
def test_what_a_key_may_grant_never_allows_more_than_it_has(held, wanted, verb, resource):
    """Narrowing: if `held` covers `wanted`, whatever `wanted` allows is allowed by `held`."""
    if rights.covers(held, wanted) and rights.allows(wanted, verb, resource):
        assert rights.allows(held, verb, resource)


@given(held=MAPS)
def test_every_map_covers_itself_and_the_empty_one(held):
    assert rights.covers(held, held)
    assert rights.covers(held, {})


@given(permissions=MAPS, within=MAPS, verb=ASKED, resource=RESOURCES)
def test_a_narrowed_map_allows_what_both_allow_and_is_covered_by_both(permissions, within, verb, resource):
    both = rights.narrowed(permissions, within)
    expected = rights.allows(permissions, verb, resource) and rights.allows(within, verb, resource)
    assert rights.allows(both, verb, resource) is expected
    assert rights.covers(permissions, both)
    assert rights.covers(within, both)


@pytest.mark.parametrize(
    "wanted",
    [{"*": ["post", "status:*"]}, {"channel:*": ["read", "admin"]}, {"private:x": ["mention:all", "lease"]}],
    ids=str,
)
def test_who_may_do_all_gives_any_right_of_channels(wanted):
    """A device's own map names no verb of channels: `admin` brings them."""
    assert rights.covers({"*": list(rights.ALL_RIGHTS)}, wanted)


def test_what_goes_beyond_is_named():
    held = {"channel:*": ["read", "post"]}
    assert list(rights.beyond(held, {"channel:a": ["post", "lease"], "team": ["read"]})) == [
        ("channel:a", "lease"),
        ("team", "read"),
    ]


@given(permissions=MAPS, verb=ASKED, resource=RESOURCES)
def test_a_bearer_decides_as_its_map_does_however_often_it_is_asked(permissions, verb, resource):
    bearer = PermissionMap(permissions)
    expected = rights.allows(permissions, verb, resource)
    assert [rights.allows(bearer, verb, resource) for _ in range(3)] == [expected] * 3


def test_what_is_remembered_of_decisions_is_bounded():
    bearer = PermissionMap({"channel:*": ["read"]})
    for number in range(3 * limits.PERMISSION_DECISIONS_KEPT_MAX):
        assert bearer.allows("read", f"channel:{number}")
    assert len(bearer._known) <= limits.PERMISSION_DECISIONS_KEPT_MAX


def test_everybody_reads_the_own_inbox_who_may_do_anything_at_all():
    own = frozenset({"inbox:pri_a"})
    assert PermissionMap({"team": ["read"]}, own).allows("read", "inbox:pri_a")
    assert not PermissionMap({"team": ["read"]}, own).allows("post", "inbox:pri_a")
    assert not PermissionMap({"team": ["read"]}, own).allows("read", "inbox:pri_b")
    assert not PermissionMap({}, own).allows("read", "inbox:pri_a")


@pytest.mark.parametrize(
    "permissions",
    [
        {"team": []},
        {"team": ["write"]},
        {"": ["read"]},
        {"**": ["read"]},
        {"session:*:x": ["read"]},
        {"session ": ["read"]},
        {"s\u00e9ance": ["read"]},
        {"team\n": ["read"]},
        {"session:" + "x" * limits.PERMISSION_PATTERN_CHARS_MAX: ["read"]},
        {f"session:{number}": ["read"] for number in range(limits.PERMISSION_PATTERNS_MAX + 1)},
        {"channel:*": ["*"]},
        {"channel:*": ["po*"]},
        {"channel:*": ["status"]},
        {"channel:*": ["status:a b"]},
        {"channel:*": ["status:*x"]},
        {"channel:*": ["status:" + "x" * limits.PERMISSION_PATTERN_CHARS_MAX]},
        {"channel:*": [f"status:{number}" for number in range(limits.PERMISSION_VERBS_MAX + 1)]},
        {"team": ["post"]},
        {"session:*": ["status:*"]},
    ],
    ids=lambda permissions: str(permissions)[:40],
)
def test_a_map_of_another_form_is_refused(permissions):
    with pytest.raises(Invalid):
        rights.checked_permissions(permissions)


def test_a_map_has_one_spelling():
    spelled = rights.checked_permissions(
        {"team": ["admin", "read", "read"], "*": ["start"], "channel:x": ["status:b", "post", "status:a*", "read"]}
    )
    assert list(spelled.items()) == [
        ("*", ["start"]),
        ("channel:x", ["read", "post", "status:a*", "status:b"]),
        ("team", ["read", "admin"]),
    ]


def test_the_empty_map_is_a_map_and_allows_nothing():
    assert rights.checked_permissions({}) == {}


@pytest.mark.parametrize(
    ("permissions", "verb", "resource", "nearness", "pattern", "would_allow"),
    [
        ({"channel:*": ["read"]}, "read", "channel:a", Nearness.ALLOWED, "channel:*", None),
        (
            {"channel:*": ["read"], "channel:a*": ["ack"]},
            "post", "channel:ab", Nearness.OTHER_VERBS, "channel:a*", ("channel:ab", "post"),
        ),
        (
            {"channel:abc": ["post"], "channel:zzz": ["post"], "team": ["read"]},
            "post", "channel:abd", Nearness.OTHER_RESOURCES, "channel:abc", ("channel:abd", "post"),
        ),
        ({"team": ["read"]}, "post", "channel:a", Nearness.NOTHING_NEAR, "", ("channel:a", "post")),
        ({"*": ["admin"]}, "post", "team", Nearness.NOTHING_NEAR, "", None),
        ({}, "read", "team", Nearness.NOTHING_NEAR, "", ("team", "read")),
    ],
)  # fmt: skip
def test_a_refusal_is_explained(permissions, verb, resource, nearness, pattern, would_allow):
    said = rights.explain(permissions, verb, resource)
    assert (said.nearness, said.pattern, said.would_allow) == (nearness, pattern, would_allow)


@given(permissions=MAPS, verb=ASKED, resource=RESOURCES)
def test_what_would_allow_it_does_and_only_what_is_allowed_is_called_so(permissions, verb, resource):
    said = rights.explain(permissions, verb, resource)
    assert (said.nearness is Nearness.ALLOWED) is rights.allows(permissions, verb, resource)
    if said.would_allow is not None:
        pattern, missing = said.would_allow
        widened = {**permissions, pattern: [*permissions.get(pattern, ()), missing]}
        assert rights.allows(widened, verb, resource)
