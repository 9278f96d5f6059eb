"""The page's files hold what the house promises of them; what is pure runs in Node."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from web.stub_door import WEB

HERE = Path(__file__).parent
OWN = sorted(
    path for path in WEB.rglob("*") if path.suffix in {".js", ".css", ".html"} and "vendor" not in path.parts
)
SCRIPTS = [path for path in OWN if path.suffix == ".js"]


@pytest.mark.parametrize(
    "name",
    ["apply.test.mjs", "mentions.test.mjs", "rights.test.mjs", "talk.test.mjs", "text.test.mjs", "words.test.mjs"],
)
def test_what_is_pure_holds_in_node(name: str) -> None:
    """The reducer, the frames, the rows, the heights, the marks and the words."""
    node = shutil.which("node")
    assert node is not None, "Node is needed to run the page's pure tests"
    ran = subprocess.run([node, "--test", str(HERE / name)], capture_output=True, text=True, timeout=90)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]


def test_libraries_are_as_released() -> None:
    """Undoing the change of import names gives the released bytes; every library has its licence beside it."""
    vendor = WEB / "vendor"
    named = {}
    for line in (vendor / "RELEASES.sha256").read_text().splitlines():
        digest, name = line.split()
        named[name] = digest
    assert set(named) == {path.relative_to(vendor).as_posix() for path in vendor.rglob("*.mjs")}
    for name, digest in named.items():
        text = (vendor / name).read_text()
        for ours, theirs in (
            ("../preact-11.2.0/preact.mjs", "preact"),
            ("../preact-11.2.0/hooks.mjs", "preact/hooks"),
            ("../signals-core-1.14.5/signals-core.mjs", "@preact/signals-core"),
        ):
            text = text.replace(f'from"{ours}"', f'from"{theirs}"')
        assert hashlib.sha256(text.encode()).hexdigest() == digest, name
        assert (vendor / name).parent.joinpath("LICENSE").is_file()


def test_the_worker_keeps_every_file_of_the_page() -> None:
    """The list in sw.js is the folder: else the page breaks offline."""
    listed = re.search(r"const FILES = \[(.*?)\];", (WEB / "sw.js").read_text(), re.DOTALL)
    assert listed is not None
    names = set(re.findall(r'"([^"]+)"', listed.group(1)))
    served = {".js", ".mjs", ".css", ".svg", ".webmanifest"}
    there = {path.relative_to(WEB).as_posix() for path in WEB.rglob("*") if path.suffix in served}
    assert names == there - {"sw.js"}


def test_every_import_leads_to_a_file() -> None:
    """Without an import map each name is a path that is there."""
    for path in [*SCRIPTS, *WEB.rglob("*.mjs")]:
        for name in re.findall(r'(?:from|import)\s*"([^"]+)"', path.read_text()):
            assert name.startswith("."), f"{path.name}: {name}"
            assert (path.parent / name).resolve().is_file(), f"{path.name}: {name}"


def test_nothing_becomes_markup_or_code() -> None:
    """No place turns text into markup or code, and the page holds no inline script, style or handler."""
    for path in OWN:
        text = path.read_text()
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "dangerouslySetInnerHTML",
            "document.write",
            "eval(",
        ):
            assert word not in text, f"{path.name}: {word}"
    page = (WEB / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"\son\w+=|<style|\sstyle=|https?://", page) == []


def _templates(source: str) -> list[str]:
    """The `html` templates of a module with their holes cut out."""
    found: list[str] = []
    starts = [match.end() for match in re.finditer(r"html`", source)]
    for start in starts:
        depth, at, text = 0, start, ""
        while at < len(source):
            two = source[at : at + 2]
            if two == "${":
                depth += 1
                at += 2
                continue
            letter = source[at]
            if depth:
                if letter == "{":
                    depth += 1
                elif letter == "}":
                    depth -= 1
                    if not depth:
                        text += "\0"
                elif letter == "`":
                    at = _closing(source, at + 1)
            elif letter == "`":
                break
            else:
                text += letter
            at += 1
        found.append(text)
    return found


def _closing(source: str, at: int) -> int:
    """Where the inner template that began before `at` ends."""
    depth = 0
    while at < len(source):
        if source[at : at + 2] == "${":
            depth += 1
            at += 1
        elif source[at] == "}" and depth:
            depth -= 1
        elif source[at] == "`":
            if not depth:
                return at
            at = _closing(source, at + 1)
        at += 1
    return at


def test_no_screen_holds_loose_text() -> None:
    """Every word of the page comes from the two tables of words; only Ekiden's own name stands by itself."""
    loose: list[str] = []
    for path in SCRIPTS:
        for template in _templates(path.read_text()):
            outside = re.sub(r"<[^<>]*>", " ", template).replace("Ekiden", "")
            if re.search(r"[^\W\d_]", outside):
                loose.append(f"{path.name}: {outside.strip()[:80]!r}")
            for name, value in re.findall(r'\b(title|placeholder|aria-label|alt)="([^"\0]*)"', template):
                if re.search(r"[^\W\d_]", value):
                    loose.append(f"{path.name}: {name}={value!r}")
    assert loose == []


def test_the_check_for_loose_text_sees_it() -> None:
    """The check above can fail: text beside and inside of holes is seen."""
    source = 'html`<p title="Loose">${on ? html`<b>Words</b>` : null} and</p>`'
    templates = _templates(source)
    assert any("and" in re.sub(r"<[^<>]*>", " ", one) for one in templates)
    assert any("Words" in re.sub(r"<[^<>]*>", " ", one) for one in templates)


def test_every_word_that_is_asked_for_is_there() -> None:
    """Keys written in the modules exist in the table, and no sentence is kept that nothing asks for."""
    table = set(re.findall(r'^  "([\w.]+)":', (WEB / "words" / "en.js").read_text(), re.MULTILINE))
    sources = "\n".join(path.read_text() for path in SCRIPTS if "words" not in path.parts)
    asked = set(re.findall(r'\bt\("([\w.]+)"', sources))
    assert asked - table == set()
    stems = set(re.findall(r"`([a-z_.]+\.)\$\{", sources))
    stems |= {f"{stem}." for stem in re.findall(r'\bsaid\("([a-z_.]+)"', sources)}
    quoted = set(re.findall(r'"([a-z_]+(?:\.[a-z_]+)+)"', sources))
    unused = {key for key in table - asked - quoted if not any(key.startswith(stem) for stem in stems)}
    assert unused == set()


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_stands_out_from_every_ground() -> None:
    """Contrast of at least 4.5 to 1 for text in both looks (WCAG 2.2, 1.4.3), 3 to 1 for edges of controls."""
    tokens = (WEB / "style" / "tokens.css").read_text()
    looks = re.findall(r"\{[^{}]*--paper[^{}]*\}", tokens)
    assert len(looks) == 3
    for look in looks:
        colour = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", look))
        pairs = [
            *[(text, ground) for text in ("ink", "soft") for ground in ("paper", "card", "wash", "code")],
            ("ink", "add"),
            ("ink", "del"),
            ("sash", "sash-wash"),
            ("sash", "card"),
            ("run", "run-wash"),
            ("run", "card"),
            ("paper", "ink"),
        ]
        low = {pair: round(_contrast(colour[pair[0]], colour[pair[1]]), 2) for pair in pairs}
        assert {pair: value for pair, value in low.items() if value < 4.5} == {}
        assert _contrast(colour["edge"], colour["card"]) >= 3
