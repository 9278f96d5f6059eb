"""What `verify` finds in an export, and that it finds nothing in a good one."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from crypto.paper import HUB_KEY, Paper, busy_paper
from crypto.people import ANNA, HUB_SEED, TEAM
from ekiden.crypto import directory, keys, statements
from ekiden.crypto.exported import Exported, Message
from ekiden.crypto.verify import Report, Severity, verify

# Names that people read, and what the hub alone says, are no part of what anybody signs.
NOT_SIGNED = {"name", "sender", "suspect", "last_number", "first_number"}


def checked(export: Exported, **more: Any) -> Report:
    return verify([msgspec.json.encode(export)], **{"hub_key": HUB_KEY, **more})


def errors(report: Report) -> set[str]:
    return {finding.code for finding in report.findings if finding.severity is Severity.ERROR}


def messages_of(paper: Paper) -> list[Message]:
    return sorted(paper.messages.values(), key=lambda message: message.number)


def with_messages(paper: Paper, messages: list[Message]) -> Exported:
    return replace(paper.export(), messages=tuple(messages))


def test_a_good_export_has_no_findings() -> None:
    report = checked(busy_paper().export())
    assert report.findings == []
    assert (report.messages, report.signed, report.countersigned, report.statuses) == (7, 6, 7, 2)
    assert report.good


def test_pages_are_one_export() -> None:
    whole = busy_paper().export()
    first = replace(whole, messages=whole.messages[:3], statuses=(), next="3")
    rest = Exported(whole.channel, whole.messages[3:], whole.statuses, hub_key=HUB_KEY, team_id=TEAM)
    assert verify([msgspec.json.encode(first), msgspec.json.encode(rest)], hub_key=HUB_KEY).findings == []
    assert "unfinished" in {finding.code for finding in checked(first).findings}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    else:
        yield path, value


WHOLE = msgspec.json.decode(msgspec.json.encode(busy_paper().export()))
SIGNED = [
    (path, value)
    for path, value in leaves(WHOLE)
    if not NOT_SIGNED & {*path}
    and path[:2] != ("channel", "name")
    # The original signature of a message that an administrator deleted stands for a text that is gone.
    and path[:3] != ("messages", 4, "signature")
    # How often a message was edited is the hub's count; a status is numbered by its version.
    and path[-1] != "edits"
    and not (path[0] == "statuses" and path[-1] == "number")
]


def otherwise(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value}x"


@pytest.mark.parametrize(("path", "value"), SIGNED, ids=[".".join(map(str, path)) for path, _ in SIGNED])
def test_any_change_of_anything_that_is_signed_is_found(path: tuple[Any, ...], value: Any) -> None:
    changed = msgspec.json.decode(msgspec.json.encode(WHOLE))
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = otherwise(value)
    assert errors(verify([msgspec.json.encode(changed)], hub_key=HUB_KEY))
    del inner[path[-1]]
    assert errors(verify([msgspec.json.encode(changed)], hub_key=HUB_KEY))


@given(st.integers(0, 6))
def test_a_message_that_is_left_out_is_found(at: int) -> None:
    paper = busy_paper()
    messages = messages_of(paper)
    del messages[at]
    assert "withheld" in errors(checked(with_messages(paper, messages)))


@given(st.permutations(range(7)))
def test_another_order_is_found(order: list[int]) -> None:
    paper = busy_paper()
    messages = messages_of(paper)
    export = with_messages(paper, [messages[index] for index in order])
    assert checked(export).good == (order == sorted(order))


def test_a_withheld_message_shows_even_if_the_hub_numbers_anew() -> None:
    """The hub leaves out the third and numbers the rest as if it had never been; it signs whatever it likes."""
    paper = Paper()
    for count in range(4):
        paper.post("pri_anna", f"message {count}")
    kept = [message for message in messages_of(paper) if message.number != 3]
    paper.messages = {}
    for number, message in enumerate(kept, 1):
        assert message.countersign is not None
        digest = message.countersign.statement
        said = statements.countersign_message(
            team=TEAM,
            channel=message.channel_id,
            message=message.message_id,
            statement_digest=digest,
            seq=number,
            number=number,
            at="a",
        )
        mark = replace(message.countersign, seq=number, number=number, at="a", signature=keys.sign(HUB_SEED, said))
        paper.messages[message.message_id] = replace(message, number=number, countersign=mark)
    assert errors(checked(paper.export())) == {"chain_gap"}


def test_messages_that_the_hub_placed_in_another_order_are_found() -> None:
    paper = Paper()
    first, second = paper.post("pri_anna", "one"), paper.post("pri_anna", "two")
    one, two = paper.messages[first], paper.messages[second]
    assert one.signature is not None
    assert two.signature is not None
    paper.messages = {}
    digests = {
        message.message_id: message.countersign.statement
        for message in (one, two)
        if message.countersign is not None
    }
    for number, message in enumerate((two, one), 1):
        said = statements.countersign_message(
            team=TEAM,
            channel=message.channel_id,
            message=message.message_id,
            statement_digest=digests[message.message_id],
            seq=number,
            number=number,
            at="a",
        )
        assert message.countersign is not None
        mark = replace(message.countersign, seq=number, number=number, at="a", signature=keys.sign(HUB_SEED, said))
        paper.messages[message.message_id] = replace(message, number=number, countersign=mark)
    assert errors(checked(paper.export())) == {"reordered"}


def test_an_edit_does_not_hide_a_withheld_message() -> None:
    """An edit explains one absent link: that of the text before."""
    paper = Paper()
    for count in range(4):
        paper.post("pri_anna", f"message {count}")
    paper.edit("msg_1", "better")
    assert checked(paper.export()).findings == []
    del paper.messages["msg_3"]
    assert "chain_gap" in errors(checked(paper.export()))


def test_a_purge_with_the_hubs_note_is_no_loss() -> None:
    paper = busy_paper()
    paper.purge(2)
    report = checked(paper.export())
    assert report.good
    assert "purged" in {finding.code for finding in report.findings}
    forged = replace(paper.purges[0], last=3)
    assert "purge" in errors(checked(replace(paper.export(), purges=(forged,))))


def test_a_thread_alone_may_have_gaps() -> None:
    paper = busy_paper()
    thread = [message for message in messages_of(paper) if message.number in (1, 2)]
    report = checked(replace(with_messages(paper, thread), thread="msg_1", statuses=()))
    assert report.good, report.findings


def test_unsigned_messages_are_said_and_refused_where_all_must_be_signed() -> None:
    paper = Paper()
    paper.post("pri_anna", "hello", signed=False)
    report = checked(paper.export())
    assert [finding.code for finding in report.findings] == ["unsigned"]
    assert report.good
    strict = replace(paper.export(), channel=replace(paper.export().channel, signed=True))
    assert errors(checked(strict)) == {"unsigned"}


def test_plain_text_in_an_encrypted_channel_is_an_error() -> None:
    paper = Paper()
    paper.post("pri_anna", "hello")
    export = replace(paper.export(), channel=replace(paper.export().channel, encrypted=True))
    assert errors(checked(export)) == {"plaintext"}


def test_a_hub_that_signs_with_another_key_is_found() -> None:
    other = keys.spell(ANNA.public.sign)
    report = checked(busy_paper().export(), hub_key=other)
    assert {"hub_key_changed", "directory", "countersign"} <= errors(report)
    unpinned = checked(busy_paper().export(), hub_key="")
    assert unpinned.good
    assert [finding.code for finding in unpinned.findings] == ["hub_key_unpinned"]


def test_another_members_key_does_not_speak_for_the_sender() -> None:
    paper = Paper()
    message_id = paper.post("pri_anna", "hello")
    message = paper.messages[message_id]
    paper.messages[message_id] = replace(message, sender_id="pri_ben")
    assert "wrong_sender" in errors(checked(paper.export()))


def test_the_second_signer_is_somebody_else() -> None:
    paper = Paper()
    paper.set("pri_anna", "deploy", "yes", second="pri_anna")
    assert errors(checked(paper.export())) == {"second"}


def test_a_key_that_ended_before_is_said() -> None:
    paper = Paper()
    last = paper.entries[-1]
    end = directory.end_entry(ANNA, ANNA.member_key_id, team=TEAM, principal="pri_anna", at=paper.at())
    paper.entries.append(
        directory.placed(HUB_SEED, end, team=TEAM, position=3, previous=last.hash(TEAM), at=paper.at())
    )
    paper.post("pri_anna", "after the end")
    report = checked(paper.export())
    assert [finding.code for finding in report.findings] == ["ended_key"]


@pytest.mark.parametrize(
    "pages", [[], [b""], [b"{}"], [b"[]"], [b'{"channel":{"channel_id":"a","name":"b"},"messages":[]}']]
)
def test_what_is_no_export_is_a_finding(pages: list[bytes]) -> None:
    assert not verify(pages).good
