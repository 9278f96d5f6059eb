"""`ekiden up` as a real process, and everything that a person does with it."""

import re
import signal
import stat
import urllib.request
from pathlib import Path

from cli.conftest import Person, until
from ekiden.cli import exit_codes

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


def pattern_of(lines: list[str]) -> str:
    """What must be printed, with `…` for anything."""
    return r"[\s\S]*?".join(re.escape(part) for part in "\n".join(lines).split("…"))


def test_the_examples_of_the_page_work_as_written(person: Person) -> None:
    """Each `$ ekiden …` of docs/command-line.md prints what stands below it."""
    person.up()
    block = re.search(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None
    for example in block[1].split("$ ekiden ")[1:]:
        command, *expected = example.rstrip("\n").split("\n")
        words = [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|(\S+)', command)]
        until(
            lambda words=words, expected=expected: (
                re.match(pattern_of(expected), person.good(*words).out)
                if words[0] in ("sessions", "show")
                else True
            ),
            command,
        )
        if words[0] not in ("sessions", "show"):
            out = person.good(*words).out
            assert re.search(pattern_of(expected), out), (command, out)
        if words[0] == "fork":
            assert re.fullmatch(r"ses_\w{20}", out.split("\n")[0])


def test_the_link_opens_the_page_and_files_are_private(person: Person) -> None:
    """The page answers at the printed address; folders are 0700, keys and databases 0600."""
    person.up()
    url = person.link.partition("#")[0]
    with urllib.request.urlopen(url, timeout=10) as answer:  # a loopback address that we were given
        assert answer.status == 200
    until(lambda: (person.data / "host.db").exists(), "the host works")
    assert stat.S_IMODE(person.data.stat().st_mode) == 0o700
    private = [path for path in person.data.rglob("*") if path.suffix in (".key", ".db", ".lock")]
    assert {path.name for path in private} >= {"local.key", "host.key", "ekiden.db", "host.db"}
    assert [path for path in private if stat.S_IMODE(path.stat().st_mode) & 0o077] == []


def test_a_second_start_is_refused_and_leads_to_the_first(person: Person) -> None:
    """It names the process and gives a fresh link to it; the first goes on."""
    process = person.up()
    answer = person.ekiden("up", "--no-open")
    assert answer.code == exit_codes.STORE
    assert str(process.pid) in answer.err
    assert re.search(r"http://127\.0\.0\.1:\d+/#pair=\S+", answer.err)
    assert process.poll() is None
    person.good("sessions")


def test_the_command_line_reaches_its_node_whatever_people_call_the_hub(person: Person) -> None:
    """The public name is a proxy's and need not lead here: links have it, programs here go round it."""
    person.up("--no-host", "--url", "https://ekiden.example.invalid")
    assert person.link.startswith("https://ekiden.example.invalid/#pair=")
    assert person.good("keys", "--json").lines
    assert "https://ekiden.example.invalid/#pair=" in person.good("pair", "--here").out


def test_after_a_kill_the_next_start_takes_over(person: Person) -> None:
    """The lock of a process that was killed is stale; sessions and keys are as they were."""
    process = person.up()
    person.good("start", ".", "--vendor", "demo", "say kept")
    key = (person.data / "local.key").read_text()
    process.kill()
    process.wait(10)
    assert person.ekiden("sessions").code == exit_codes.UNAVAILABLE
    person.up()
    assert (person.data / "local.key").read_text() == key
    session = until(lambda: person.good("sessions", "--json").lines, "the session is there")[0]
    assert session["report"]["vendor"] == "demo"
    assert "kept" in person.good("show", session["report"]["session_id"]).out
    out = until(
        lambda: person.ekiden("continue", session["report"]["session_id"], "say again").out, "it can be continued"
    )
    assert "again" in out


def test_ctrl_c_ends_cleanly(person: Person) -> None:
    """Exit code 0, and no process of a session is left."""
    process = person.up()
    person.good("start", ".", "--vendor", "demo", "say x")
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0, "".join(person.said)
    assert person.ekiden("sessions").code == exit_codes.UNAVAILABLE
    assert list((person.data / "demo" / "running").iterdir()) == []


def test_turns_end_with_the_exit_code_of_their_outcome(person: Person) -> None:
    """Failed and interrupted turns are told apart from completed ones."""
    person.up()
    assert person.ekiden("start", ".", "--vendor", "demo", "fail").code == exit_codes.TURN_FAILED
    process = person.begin("start", ".", "--vendor", "demo", "ask me")
    approval = until(lambda: person.good("inbox", "--json").lines[0]["entries"], "the question is in the inbox")[0]
    session_id = approval["session"]["report"]["session_id"]
    person.good("stop", session_id)
    assert process.wait(30) == exit_codes.TURN_INTERRUPTED
    assert person.ekiden("stop", session_id).code == exit_codes.CONFLICT


def test_an_approval_is_answered_from_another_terminal(person: Person) -> None:
    """The command runs after the answer, once; a second answer is told that it is too late."""
    person.up()
    process = person.begin("start", ".", "--vendor", "demo", "write hello.txt")
    entry = until(lambda: person.good("inbox", "--json").lines[0]["entries"], "the question is in the inbox")[0]
    assert not (person.work / "hello.txt").exists()
    assert "+Hello from the demo agent" in person.good("inbox").out
    person.good("inbox", "answer", entry["id"], "allow")
    assert process.wait(30) == 0
    assert (person.work / "hello.txt").read_text().count("\n") == 1
    late = person.ekiden("inbox", "answer", entry["id"], "deny")
    assert late.code in (exit_codes.NOT_FOUND, exit_codes.CONFLICT)


def test_json_is_one_value_to_a_line_in_the_shapes_of_the_door(person: Person) -> None:
    """Lists give one object to a line; errors are one object on standard error."""
    person.up()
    carried = person.good("start", ".", "--vendor", "demo", "--no-wait", "--json", "say x").lines[0]
    session_id = carried["session_id"]
    until(lambda: "x" in person.good("show", session_id).out.split("\n"), "its turn is over")
    assert [line["report"]["session_id"] for line in person.good("sessions", "--json").lines] == [session_id]
    kinds = [item["kind"] for item in person.good("show", session_id, "--json").lines]
    assert kinds == ["message", "message"]
    frames = person.good("continue", session_id, "--json", "long").lines
    assert {"item.grew", "turn.changed", "message.changed"} <= {frame["kind"] for frame in frames}
    assert {"key_id", "permissions"} <= set(person.good("keys", "--json").lines[0])
    assert {"state", "about", "says"} <= set(person.good("doctor", "--json").lines[0])
    wrong = person.ekiden("show", "nosuch", "--json")
    assert (wrong.code, wrong.out) == (exit_codes.NOT_FOUND, "")
    assert '"error": "not_found"' in wrong.err


def test_hostile_text_in_a_session_is_text(person: Person) -> None:
    """Neither show, follow nor the list lets an escape through."""
    person.up()
    answer = person.good("start", ".", "--vendor", "demo", "hostile \x1b[2J\u202eprompt")
    until(lambda: "hostile" in person.good("sessions").out, "it has its title")
    shown = answer.out + person.good("show", "hostile").out + person.good("sessions").out
    assert "<1B>[31mred" in shown
    assert not set(shown) & set("\x1b\x07\x9b\u202e\u2066\u200b")


def test_a_name_that_several_sessions_have_is_not_guessed(person: Person) -> None:
    """They are listed, and nothing is done."""
    person.up()
    for word in ("one", "two"):
        person.good("start", ".", "--vendor", "demo", f"say twin {word}")
    until(lambda: person.good("sessions").out.count("twin") == 2, "both have their titles")
    answer = person.ekiden("continue", "twin", "say no")
    assert answer.code == exit_codes.USAGE
    assert answer.err.count("ses_") >= 2


def test_keys_are_made_used_and_revoked(person: Person) -> None:
    """What a key may only read, the keys that it makes may read at most; they end with it, and none is let in."""
    person.up()
    read_only = ("--allow", "team=read", "--allow", "session:*=read")
    made = person.good("keys", "make", "reader", *read_only, "--json").lines[0]
    assert person.ekiden("sessions", EKIDEN_KEY=made["key"]).code == 0
    below = person.ekiden("keys", "make", "below", *read_only, "--json", EKIDEN_KEY=made["key"]).lines[0]
    assert person.ekiden("sessions", EKIDEN_KEY=below["key"]).code == 0
    for wider in ("session:*=read,steer", "access=read", "channel:*=read"):
        for key in (made["key"], below["key"]):
            refused = person.ekiden("keys", "make", "wider", "--allow", wider, EKIDEN_KEY=key)
            assert refused.code == exit_codes.NOT_ALLOWED
    listed = person.good("keys").out
    assert "below" in listed
    assert "wider" not in listed
    assert made["key"] not in listed
    person.good("keys", "revoke", "reader")
    for key in (made["key"], below["key"]):
        assert person.ekiden("sessions", EKIDEN_KEY=key).code == exit_codes.NOT_ALLOWED


def test_a_backup_taken_while_running_is_restored(person: Person, tmp_path: Path) -> None:
    """What was there at the backup is there again; what came later is kept aside; a running hub is respected."""
    process = person.up()
    person.good("keys", "make", "before")
    backup = tmp_path / "backup.tar"
    person.good("backup", str(backup))
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert person.ekiden("backup", str(backup)).code == exit_codes.CONFLICT
    person.good("keys", "make", "after")
    assert person.ekiden("restore", str(backup)).code == exit_codes.STORE
    process.send_signal(signal.SIGINT)
    process.wait(20)
    kept = Path(person.good("restore", str(backup), "--json").lines[0]["kept"])
    assert kept.exists()
    person.up()
    keys = person.good("keys").out
    assert "before" in keys
    assert "after" not in keys


def test_a_damaged_backup_changes_nothing(person: Person, tmp_path: Path) -> None:
    """Cut off, of another program, or with a broken page: each is refused before anything is moved."""
    process = person.up()
    backup = tmp_path / "backup.tar"
    person.good("backup", str(backup))
    process.send_signal(signal.SIGINT)
    process.wait(20)
    whole = backup.read_bytes()
    before = (person.data / "ekiden.db").read_bytes()
    for damaged in (whole[: len(whole) // 3], b"not a backup", b"", whole[:3000] + b"\xff" * 9000 + whole[12000:]):
        backup.write_bytes(damaged)
        answer = person.ekiden("restore", str(backup))
        assert answer.code in (exit_codes.USAGE, exit_codes.UNAVAILABLE), answer.err
    assert (person.data / "ekiden.db").read_bytes() == before
    assert list(person.data.glob("*.before-restore*")) == []


def test_doctor_says_what_works_with_and_without_a_hub(person: Person) -> None:
    """It names the hub, or how to start one, and every vendor."""
    without = person.good("doctor").out
    assert "none runs on this data" in without
    process = person.up()
    within = person.good("doctor").out
    assert f"process {process.pid}" in within
    for label in ("Claude Code", "Codex", "Demo", "SQLite", "zstd"):
        assert label in within


def test_follow_shows_what_another_terminal_starts(person: Person) -> None:
    """The text arrives while it grows, and the command ends with the turn."""
    person.up()
    session_id = person.good("start", ".", "--vendor", "demo", "--no-wait", "ask").out.strip()
    entry = until(lambda: person.good("inbox", "--json").lines[0]["entries"], "it asks")[0]
    following = person.begin("follow", session_id, "--until-idle")
    assert following.stdout is not None
    first = following.stdout.readline()
    person.good("inbox", "answer", entry["id"], "deny")
    said = first + following.stdout.read()
    assert following.wait(20) == 0
    assert "You denied the command" in said
    assert "turn completed" in said
