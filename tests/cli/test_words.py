"""Help, exit codes, and what is printed of what comes from outside."""

import importlib
import io
import resource
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.conftest import Person
from ekiden.cli import exit_codes
from ekiden.cli.catalogue import COMMANDS
from ekiden.cli.exit_codes import exit_code_of
from ekiden.cli.items_text import print_item
from ekiden.cli.live import LivePrinter
from ekiden.cli.screen import Screen, columns_of, fitted, line_of, visible
from ekiden.client.frames import Frame
from ekiden.client.problems import _tree
from ekiden.kernel.errors import EkidenError
from ekiden.transcript.items import Diff, Item, ItemKind, PlanEntry, Role, Source, Text, Tool, ToolState

HOSTILE = "\x1b]0;taken\x07\x1b[2J\x9b31m\u202eevil\u2066\u200b\ufeff\U000e0041\x00\x7f\r\n\ttext\ud800"


def test_help_names_every_command_and_imports_nothing_for_it(person: Person) -> None:
    """The overview lists all commands; neither asyncio, msgspec, argparse's users nor the server are loaded."""
    answer = person.good("--help")
    for name, entry in COMMANDS.items():
        assert f"  {name}" in answer.out
        assert entry.summary in answer.out
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ekiden.cli", "--help"],
        env=person.environment,
        capture_output=True,
        text=True,
        timeout=30,
    ).stderr
    heavy = [
        name for name in ("asyncio", "msgspec", "uvicorn", "sqlite3", "ekiden.client") if f" {name}\n" in loaded
    ]
    assert heavy == []


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_has_help_with_its_arguments(person: Person, command: str) -> None:
    """Exit code 0, the summary, and every option explained."""
    answer = person.good(command, "--help")
    assert answer.out.startswith(f"usage: ekiden {command}")
    assert COMMANDS[command].summary[1:] in " ".join(answer.out.split())


def test_help_takes_little_of_the_processor(person: Person) -> None:
    """CPU time, not waiting: user and system time of the process."""
    person.good("--help")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    person.good("--help")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent_s < 0.5, "help has begun to import what it does not need"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["sesions"], 2, "ekiden sessions"),
        (["show"], 2, "required"),
        (["sessions", "--nonsense"], 2, "unrecognized"),
        (["sessions"], 7, "ekiden up"),
        (["show", "x", "--url", "http://127.0.0.1:1"], 4, "no key"),
        (["sessions", "--url", "nonsense"], 4, "no key"),
        (["backup", "x.tar"], 3, "no data"),
        (["restore", "nothing.tar"], 3, "no file"),
    ],
)
def test_expected_faults_say_what_next_and_have_their_code(
    person: Person, words: list[str], code: int, says: str
) -> None:
    """One sentence on standard error, nothing on standard output, never a traceback."""
    answer = person.ekiden(*words)
    assert answer.code == code, answer.err
    assert says in answer.err
    assert answer.out == ""


def test_a_hub_that_is_not_there_is_unavailable(person: Person) -> None:
    """With a key but nobody at the address."""
    answer = person.ekiden("sessions", "--json", "--url", "http://127.0.0.1:1", EKIDEN_KEY="ekd_x")
    assert answer.code == exit_codes.UNAVAILABLE
    assert '"error": "unavailable"' in answer.err


def test_a_key_that_others_may_read_is_refused(person: Person) -> None:
    """With the command that closes it."""
    person.data.mkdir()
    key = person.data / "local.key"
    key.write_text("ekd_x")
    key.chmod(0o644)
    answer = person.ekiden("sessions", "--url", "http://127.0.0.1:1")
    assert answer.code == exit_codes.NOT_ALLOWED
    assert "chmod 600" in answer.err


def test_every_error_has_an_exit_code_that_is_explained() -> None:
    """The whole tree, the hub's own errors too, maps to codes of the table; only the root is a fault of ours."""
    for module in ("checks", "hosts", "reading", "app"):
        importlib.import_module(f"ekiden.hub.{module}")
    for kind in _tree(EkidenError):
        code = exit_code_of(kind.__new__(kind))
        assert code in exit_codes.MEANINGS
        assert (code == exit_codes.FAULT) == (kind is EkidenError), kind


def test_the_page_about_the_command_line_shows_the_same_table() -> None:
    """`docs/command-line.md` lists every exit code with its meaning."""
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
    for code, meaning in exit_codes.MEANINGS.items():
        assert f"| {code} | {meaning} |" in page
    for name in COMMANDS:
        assert f"`{name}`" in page


def harmless(text: str) -> bool:
    return all(
        character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs") for character in text
    ) and not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200e\u200f\ufeff")


@given(st.text())
def test_no_text_reaches_a_terminal_as_control(text: str) -> None:
    """Whatever comes in, only visible characters, newlines and tabs go out; one line stays one line."""
    assert harmless(visible(text))
    assert "\n" not in line_of(text)
    assert harmless(line_of(text))


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_plain_text_is_shown_unchanged(text: str) -> None:
    """Making safe changes nothing that is safe."""
    assert visible(text) == text


@given(st.text(max_size=40), st.integers(min_value=1, max_value=30))
def test_what_is_fitted_fits(text: str, columns: int) -> None:
    """Wide characters count as two."""
    assert columns_of(fitted(line_of(text), columns)) <= columns


def hostile_items() -> list[Item]:
    source = Source("f")
    text = (Text(HOSTILE),)
    tool = Tool(
        name=HOSTILE,
        state=ToolState.FAILED,
        title=HOSTILE,
        command=HOSTILE,
        output=HOSTILE,
        diffs=(Diff(HOSTILE, HOSTILE),),
        thread=HOSTILE,
        exit_code=1,
    )
    return [
        Item("i", ItemKind.MESSAGE, source, role=Role.USER, content=text, thread=HOSTILE),
        Item("i", ItemKind.THOUGHT, source, content=text),
        Item("i", ItemKind.TOOL, source, tool=tool),
        Item("i", ItemKind.PLAN, source, plan=(PlanEntry(HOSTILE, HOSTILE),)),
        *(Item("i", kind, source, content=text, note=HOSTILE) for kind in (ItemKind.NOTICE, ItemKind.UNKNOWN)),
    ]


@pytest.mark.parametrize("item", hostile_items(), ids=lambda item: item.kind)
@pytest.mark.parametrize("whole", [False, True])
def test_an_item_cannot_take_the_terminal(item: Item, whole: bool) -> None:
    """Names, titles, commands, output, diffs, plans, notes: all of them are shown as text."""
    out = io.StringIO()
    print_item(Screen(out, {}), item, whole=whole)
    assert "evil" in out.getvalue()
    assert harmless(out.getvalue())


def test_growing_text_cannot_take_the_terminal_in_pieces() -> None:
    """An escape sequence that comes in two pieces is as harmless as in one."""
    import msgspec

    out = io.StringIO()
    printer = LivePrinter(Screen(out, {}))
    for index, text in enumerate(["\x1b", "[2J", HOSTILE.replace("\ud800", "")]):
        body = {"session_id": "s", "turn_id": "t", "item_id": "i", "kind": "message", "index": index, "text": text}
        printer.take(Frame("", "item.grew", msgspec.Raw(msgspec.json.encode(body))))
    assert "<1B>[2J" in out.getvalue()
    assert harmless(out.getvalue())


def test_growing_text_is_printed_once_however_it_is_told() -> None:
    """Repeated pieces, a late snapshot and the whole item add nothing that is there already."""
    import msgspec

    out = io.StringIO()
    printer = LivePrinter(Screen(out, {}))

    def take(kind: str, body: object) -> None:
        printer.take(Frame("", kind, msgspec.Raw(msgspec.json.encode(body))))

    grew = {"session_id": "s", "turn_id": "t", "item_id": "i", "kind": "message"}
    take("item.grown", {**grew, "count": 2, "text": "one two "})
    take("item.grew", {**grew, "index": 1, "text": "two "})
    take("item.grew", {**grew, "index": 2, "text": "three"})
    take("item.grown", {**grew, "count": 3, "text": "one two three"})
    item = Item("i", ItemKind.MESSAGE, Source("f"), role=Role.ASSISTANT, content=(Text("one two three."),))
    take("items.added", {"session_id": "s", "items": [item]})
    take("items.added", {"session_id": "s", "items": [item]})
    assert out.getvalue() == "Agent\none two three.\n\n"


def test_colours_are_for_terminals_that_want_them() -> None:
    """A pipe, NO_COLOR and a dumb terminal get none."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    assert Screen(Terminal(), {}).style("x", "bold") == "\x1b[1mx\x1b[0m"
    assert Screen(Terminal(), {"NO_COLOR": "1"}).style("x", "bold") == "x"
    assert Screen(Terminal(), {"TERM": "dumb"}).style("x", "bold") == "x"
    assert Screen(io.StringIO(), {}).style("x", "bold") == "x"
