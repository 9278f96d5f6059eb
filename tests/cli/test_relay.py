"""The relay on the command line: people and agents with data folders of their own, at one hub that really runs."""

import json
import re
import shlex
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Answer, Person

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"
SECRET = "the harbour opens at nine"


@pytest.fixture
def hub(person: Person) -> Person:
    """Somebody at whose computer the hub runs."""
    person.up()
    return person


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[Callable[[str], Person]]:
    """Others, each with a HOME and a data folder of their own."""
    made: list[Person] = []

    def one(name: str) -> Person:
        folder = tmp_path / name
        folder.mkdir()
        made.append(Person(folder))
        return made[-1]

    yield one
    for guest in made:
        guest.close()


def join(hub: Person, guest: Person, name: str, *channels: str) -> Answer:
    """Brings a guest in by an invite."""
    invite = hub.good("invite", *channels, "--name", name).out.splitlines()[0]
    return guest.good("join", "-", text=invite + "\n")


def database(hub: Person) -> bytes:
    """All that the hub has on disk."""
    connection = sqlite3.connect(hub.data / "ekiden.db")
    connection.execute("PRAGMA wal_checkpoint(FULL)")
    connection.close()
    return b"".join(path.read_bytes() for path in hub.data.glob("ekiden.db*"))


def test_the_example_of_the_documentation_is_what_happens(hub: Person) -> None:
    block = re.search(r"## Two agents talk\n\n```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    for example in re.split(r"^\$ ekiden ", block[1], flags=re.MULTILINE)[1:]:
        command, _, wanted = example.partition("\n")
        answer = hub.good(*shlex.split(command))
        pattern = re.escape(wanted.strip()).replace("…", ".*?")
        assert re.fullmatch(pattern, answer.out.strip(), re.DOTALL), (command, wanted, answer.out)


def test_two_meet_by_an_invite_and_talk_signed(hub: Person, guests: Callable[[str], Person]) -> None:
    ben = guests("ben")
    hub.good("channels", "make", "build")
    joined = join(hub, ben, "ben", "build")
    code = re.search(r"\d{4} \d{4} \d{4}", joined.out)
    assert code is not None
    assert code[0] in hub.good("trust", "ben").out
    assert "came by an invite" in hub.good("trust", "ben").out

    posted = hub.good("post", "build", "is it green, @ben?", "--asks", "answer")
    assert "@ben" in posted.out
    waiting = ben.good("wait", "--seconds", "5")
    assert "is it green, @ben?" in waiting.out
    assert "(person, verified)" in waiting.out
    ben.good("post", "build", "it is, @Owner", "--answers", "1")
    read = hub.good("read", "build").out
    assert "(agent, verified)" in read
    ben.good("ack", "build", "--upto", "2")
    acked = hub.good("who-acked", "build", "1", "--json").lines[0]
    assert acked["acked"] == acked["members"]
    assert ben.ekiden("wait", "--seconds", "0").code == 13


def test_what_is_said_in_an_encrypted_channel_is_nowhere_at_the_hub(
    hub: Person, guests: Callable[[str], Person]
) -> None:
    ben = guests("ben")
    hub.good("channels", "make", "plans", "--encrypted")
    join(hub, ben, "ben", "plans")
    (hub.work / "plan.txt").write_text(SECRET)
    hub.good("post", "plans", f"{SECRET}, @ben", "--title", f"on {SECRET}", "--attach", "plan.txt")
    hub.good("status", "plans", "set", "opens", json.dumps(SECRET))
    assert SECRET in ben.good("read", "plans").out
    assert SECRET in ben.good("mentions").out
    assert SECRET in ben.good("status", "plans", "get", "opens").out
    ben.good("read", "plans", "1", "--attachment", "plan.txt", "--out", "got.txt")
    assert (ben.work / "got.txt").read_text() == SECRET
    ben.good("post", "plans", f"I know: {SECRET}", "--thread", "1")
    hub.good("export", "plans", "--out", "plans.export")
    assert SECRET.encode() not in database(hub)
    assert SECRET not in (hub.work / "plans.export").read_text()
    assert "as it was said" in ben.good("verify", str(hub.work / "plans.export")).out


def test_who_leaves_reads_no_more(hub: Person, guests: Callable[[str], Person]) -> None:
    ben, dan = guests("ben"), guests("dan")
    hub.good("channels", "make", "plans", "--encrypted")
    join(hub, ben, "ben", "plans")
    join(hub, dan, "dan", "plans")
    hub.good("post", "plans", "all of us")
    ben.good("channels", "leave", "plans")
    hub.good("post", "plans", SECRET)
    assert SECRET in dan.good("read", "plans").out
    after = ben.ekiden("read", "plans")
    assert SECRET not in after.out


def test_a_second_computer_is_refused_until_it_is_vouched_for(
    hub: Person, guests: Callable[[str], Person]
) -> None:
    """The same API key on another computer: its member key is another one, and nobody vouches for it yet."""
    ben, phone = guests("ben"), guests("phone")
    hub.good("channels", "make", "plans", "--encrypted")
    join(hub, ben, "ben", "plans")
    hub.good("post", "plans", "one")
    phone.data.mkdir(mode=0o700)
    for name in ("local.key", "hub.url"):
        copy = phone.data / name
        copy.write_bytes((ben.data / name).read_bytes())
        copy.chmod(0o600)
    shown = phone.ekiden("identity", "--json")
    assert "vouched" in shown.err
    key = shown.lines[0]["member_key"]
    assert "NOT TRUSTED" in hub.good("trust", "ben").out
    ben.good("channels", "leave", "plans")
    ben.good("channels", "join", "plans")
    hub.good("post", "plans", "a new epoch")
    assert "a new epoch" in ben.good("read", "plans").out
    assert "a new epoch" not in phone.good("read", "plans").out
    ben.good("identity", "vouch", key)
    assert "vouched for" in hub.good("trust", "ben").out
    hub.good("post", "plans", SECRET)
    assert SECRET in phone.good("read", "plans").out


def test_a_second_signature_is_given_beforehand_or_afterwards(
    hub: Person, guests: Callable[[str], Person], tmp_path: Path
) -> None:
    """Where a rule asks for two, what the other has signed lets a value in; a value that is there is signed as
    well, in an encrypted channel too. Of one's own, or twice, it is refused, and an export of it all verifies."""
    ben = guests("ben")
    hub.good("channels", "make", "build")
    hub.good("channels", "make", "vault", "--encrypted")
    join(hub, ben, "ben", "build", "vault")
    hub.good("status", "build", "set", "before", "1")
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"rules": [{"pattern": "*", "evidence": ["second"]}]}))
    hub.good("status", "build", "rules", str(rules))
    value = ["deploy", '{"version": 7}', "--commit", "0d1f2e3"]
    assert hub.ekiden("status", "build", "set", *value).code == 2
    signed = ben.good("status", "build", "sign", *value).out
    other = hub.ekiden("status", "build", "set", "deploy", "8", "--second", "-", text=signed)
    assert "rule_broken" not in other.out
    assert other.code == 2
    [line] = hub.good("status", "build", "set", *value, "--second", "-", "--json", text=signed).lines
    assert line["evidence"]["second"]["signature"] == json.loads(signed)["signature"]
    assert hub.ekiden("status", "build", "second", "before").code == 5
    ben.good("status", "build", "second", "before")
    assert "second signature" in hub.good("status", "build", "get", "before").out
    assert ben.ekiden("status", "build", "second", "before").code == 5
    hub.good("status", "vault", "set", "opens", json.dumps(SECRET), "--expires-s", "600")
    [sealed] = ben.good("status", "vault", "second", "opens", "--json").lines
    assert (sealed["value"], bool(sealed["expires_at"])) == (SECRET, True)
    assert hub.good("status", "vault", "get", "opens", "--json").lines[0]["value"] == SECRET
    for channel in ("build", "vault"):
        hub.good("export", channel, "--out", str(tmp_path / channel))
        hub.good("verify", str(tmp_path / channel))


def test_status_holds_to_its_version_and_leases_to_their_fence(
    hub: Person, guests: Callable[[str], Person]
) -> None:
    ben = guests("ben")
    hub.good("channels", "make", "build")
    join(hub, ben, "ben", "build")
    hub.good("status", "build", "set", "tests.main", "7", "--if-version", "0")
    assert ben.ekiden("status", "build", "set", "tests.main", "8", "--if-version", "0").code == 5
    ben.good("status", "build", "set", "tests.main", "8", "--if-version", "1")
    values = [line["value"] for line in hub.good("status", "build", "history", "tests.main", "--json").lines]
    assert sorted(values) == [7, 8]

    ticket = hub.good("lease", "take", "build", "deploy", "--seconds", "60", "--ticket").out.strip()
    assert ben.ekiden("lease", "take", "build", "deploy").code == 5
    held = ben.good("lease", "list", "build", "--json").lines[0]
    fence = str(held["fence"])
    assert ben.ekiden("lease", "check", ticket, "--name", "deploy", "--in", "build", "--at-least", fence).code == 0
    assert ben.ekiden("lease", "check", ticket, "--at-least", str(held["fence"] + 1)).code == 14
    assert ben.ekiden("lease", "check", ticket, "--name", "other").code == 14
    assert ben.ekiden("lease", "check", ticket[:-4] + "AAAA").code == 14
    hub.good("lease", "release", "build", "deploy", "--fence", fence)
    assert ben.ekiden("lease", "take", "build", "deploy").code == 0


def test_a_ticket_is_checked_while_no_hub_runs(hub: Person) -> None:
    hub.good("channels", "make", "build")
    ticket = hub.good("lease", "take", "build", "deploy", "--seconds", "60", "--ticket").out
    hub.close()
    assert hub.ekiden("lease", "check", "-", text=ticket).code == 0


def test_an_export_that_was_changed_is_found_with_no_hub(hub: Person) -> None:
    hub.good("channels", "make", "build")
    for text in ("one", "two", "three"):
        hub.good("post", "build", text)
    file = hub.work / "build.export"
    hub.good("export", "build", "--out", str(file))
    hub.close()
    good = hub.good("verify", str(file), "--json").lines[-1]
    assert (good["good"], good["messages"], good["signed"], good["countersigned"]) == (True, 3, 3, 3)
    whole = file.read_text()
    file.write_text(whole.replace('"text":"two"', '"text":"zwo"'))
    changed = hub.ekiden("verify", str(file), "--json")
    assert changed.code == 15
    assert "bad_signature" in {line.get("code") for line in changed.lines}


def test_edits_deletions_and_purges_leave_an_export_that_verifies(hub: Person) -> None:
    hub.good("channels", "make", "build")
    for text in ("one", "two", "three", "four"):
        hub.good("post", "build", text)
    hub.good("purge", "build", "--before-number", "2", "--yes")
    assert "#1 to #1" in hub.good("purge", "build").out
    hub.good("export", "build", "--out", "build.export")
    report = hub.good("verify", "build.export", "--json").lines
    assert report[-1]["good"]
    assert "purged" in {line.get("code") for line in report}
    assert hub.ekiden("purge", "build", "--before-number", "3").code == 2


def test_keys_are_narrowed_explained_rotated_and_distrusted(hub: Person) -> None:
    hub.good("channels", "make", "build")
    made = hub.good("keys", "narrow", "reviewer", "--allow", "channel:build=read,post,status:*", "--json").lines[0]
    key: dict[str, Any] = {"EKIDEN_KEY": made["key"]}
    assert hub.ekiden("read", "build", **key).code == 0
    refused = hub.good("keys", "explain", "reviewer", "lease", "channel:build")
    assert "may not lease" in refused.out
    hub.good("keys", "permissions", "reviewer", "--allow", "channel:build=read,post,status:*,lease")
    assert "may lease" in hub.good("keys", "explain", "reviewer", "lease", "channel:build").out
    hub.good("status", "build", "set", "tests.main", "1")
    rotated = hub.good("keys", "rotate", made["key_id"], "--overlap-s", "0", "--json").lines[0]
    key = {"EKIDEN_KEY": rotated["key"]}
    assert hub.ekiden("status", "build", "set", "tests.main", "2", **key).code == 0
    hub.good("keys", "revoke", rotated["key_id"], "--since", "always")
    value = hub.good("status", "build", "get", "tests.main", "--json").lines[0]
    assert value["value"] == 1
    assert hub.ekiden("read", "build", **key).code == 4
    assert "key." in hub.good("audit").out


def test_threads_and_search(hub: Person) -> None:
    hub.good("channels", "make", "build")
    hub.good("post", "build", "the retry loop", "--title", "Retries")
    hub.good("post", "build", "it is the timeout", "--thread", "1")
    assert "1 replies" in hub.good("threads", "build").out
    assert "is done" in hub.good("threads", "build", "done", "1").out
    found = hub.good("search", "timeout", "--in", "channels").out
    assert "it is the timeout" in found
    assert "it is the timeout" in hub.good("read", "build", "--thread", "1").out


def test_edits_and_deletions_are_seen_and_verify(hub: Person, guests: Callable[[str], Person]) -> None:
    ben = guests("ben")
    for name, kind in (("build", ()), ("plans", ("--encrypted",))):
        hub.good("channels", "make", name, *kind)
    join(hub, ben, "ben", "build", "plans")
    for name in ("build", "plans"):
        for text in ("one", "two", "three"):
            hub.good("post", name, text)
        hub.good("edit", name, "1", "one, put better")
        hub.good("edit", name, "2", "--delete")
        read = ben.good("read", name).out
        assert "one, put better" in read
        assert "two" not in read
        assert "deleted by Owner" in read
        assert "bad signature" not in read
        ben.good("export", name, "--out", f"{name}.export")
        report = ben.good("verify", f"{name}.export", "--json").lines
        assert [line for line in report if line.get("severity") == "error"] == []
        assert report[-1]["countersigned"] == 3
    assert hub.ekiden("edit", "build", "3").code == 2
    assert ben.ekiden("edit", "build", "3", "not mine").code == 4


def test_a_channel_is_followed_as_it_is_spoken_in(hub: Person) -> None:
    hub.good("channels", "make", "plans", "--encrypted")
    hub.good("post", "plans", "before")
    following = hub.begin("read", "plans", "--follow")
    assert following.stdout is not None
    seen = [following.stdout.readline(), following.stdout.readline()]
    hub.good("post", "plans", "while somebody follows")
    seen += [following.stdout.readline(), following.stdout.readline()]
    assert [line.strip() for line in seen[1::2]] == ["before", "while somebody follows"]


def test_who_joins_an_encrypted_channel_may_speak_first(hub: Person, guests: Callable[[str], Person]) -> None:
    ben = guests("ben")
    hub.good("channels", "make", "plans", "--encrypted")
    hub.good("post", "plans", "before ben came")
    join(hub, ben, "ben", "plans")
    ben.good("post", "plans", "here I am")
    assert "here I am" in hub.good("read", "plans").out


def test_what_others_say_cannot_drive_the_terminal(hub: Person) -> None:
    hub.good("channels", "make", "build")
    hub.good("post", "build", "\x1b[2Jgone\u202e", "--title", "\x1b]0;title\x07")
    out = hub.good("read", "build").out
    assert "\x1b" not in out
    assert "<1B>[2Jgone<202E>" in out


@pytest.mark.parametrize(
    "words",
    [
        ("post", "none", "hi"),
        ("read", "none"),
        ("status", "none"),
        ("lease", "list", "none"),
        ("export", "none"),
        ("threads", "none"),
        ("read", "build", "99"),
        ("who-acked", "build", "99"),
    ],
    ids=" ".join,
)
def test_what_is_not_there_is_said_alike(hub: Person, words: tuple[str, ...]) -> None:
    hub.good("channels", "make", "build")
    assert hub.ekiden(*words).code == 3


def test_an_invite_works_once_and_a_folder_with_a_key_is_left_alone(
    hub: Person, guests: Callable[[str], Person]
) -> None:
    ben, dan = guests("ben"), guests("dan")
    hub.good("channels", "make", "build")
    invite = hub.good("invite", "build", "--name", "ben").out.splitlines()[0]
    ben.good("join", "-", text=invite)
    assert dan.ekiden("join", "-", text=invite).code == 3
    assert not (dan.data / "local.key").exists()
    again = hub.good("invite", "build", "--name", "dan").out.splitlines()[0]
    assert ben.ekiden("join", "-", text=again).code == 5
    assert dan.ekiden("join", "eki1.nonsense").code == 2
    assert "claimed" in hub.good("invite", "list").out
