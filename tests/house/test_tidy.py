"""The house keeps itself tidy: what people agreed on in words is checked over the sources."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src" / "ekiden").rglob("*.py"))
BANNED_IN_NAMES = ("util", "helper", "manager", "handler", "misc", "common")
MODULE_LINES_MAX = 600


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_module_opens_with_what_it_promises(path: Path) -> None:
    text = path.read_text()
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), f"{relative(path)} has no docstring"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_module_is_one_thing_of_readable_length(path: Path) -> None:
    lines = path.read_text().count("\n")
    assert lines <= MODULE_LINES_MAX, f"{relative(path)} has {lines} lines: it is more than one module"


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_module_is_named_by_a_noun_of_the_domain(path: Path) -> None:
    assert not [word for word in BANNED_IN_NAMES if word in path.stem], relative(path)


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_public_functions_and_classes_say_what_they_do(path: Path) -> None:
    """Small classes whose fields say it all, and a room's endpoints (their `summary` says it), are left out."""
    tree = ast.parse(path.read_text())
    if path.stem in {"routes", "routes_state"}:
        return
    silent = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not (isinstance(node, ast.ClassDef) and len(node.body) <= 6)
    ]
    assert not silent, f"{relative(path)}: {silent}"


def committed_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / name for name in listed.decode().split("\0") if name and (ROOT / name).is_file()]


def test_a_suppression_carries_its_reason() -> None:
    """`# noqa: X` and `# pyright: ignore[x]` are followed by words that say why."""
    bare: list[str] = []
    for path in (ROOT / "src").rglob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = re.search(
                r"#\s*(?:noqa|type:\s*ignore|pyright:\s*ignore)(?::\s*[A-Z0-9, ]+|\[[\w, -]+\])?(.*)$", line
            )
            if found and len(found[1].strip(" -:—#,.")) < 8:
                bare.append(f"{relative(path)}:{number}")
    assert not bare, bare


def test_nothing_that_is_committed_names_a_place_of_one_machine() -> None:
    """Paths of a developer's machine, leftover marks and unfinished stubs stay out of the repository."""
    machine = re.compile(r"(?<![\w.])/root/|/home/[a-z]+/(?:\.venv|\.cache|\.pyenv)\b")
    marks = re.compile(r"\b(?:TODO|FIXME|XXX)\b|NotImplementedError")
    found: list[str] = []
    for path in committed_files():
        if (
            path == Path(__file__)
            or "vendor" in path.parts
            or path.suffix in {".png", ".jpg", ".zst", ".jsonl", ".json"}
        ):
            continue
        text = path.read_text(errors="replace")
        if machine.search(text) or marks.search(text):
            found.append(relative(path))
    assert not found, found


def test_every_limit_is_used() -> None:
    """A bound that nothing holds to is a lie."""
    limits = re.findall(r"^([A-Z][A-Z0-9_]+) =", (ROOT / "src/ekiden/kernel/limits.py").read_text(), re.MULTILINE)
    rest = "\n".join(path.read_text() for path in SOURCES if path.name != "limits.py")
    unused = [name for name in limits if name not in {"KIB", "MIB"} and name not in rest]
    assert not unused, unused
