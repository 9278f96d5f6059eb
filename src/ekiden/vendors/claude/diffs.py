"""Changes to files as unified diffs: from the patch that the tool recorded, else from what it was asked to do."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from ekiden.kernel.limits import ITEM_DIFF_BYTES_MAX, ITEM_DIFF_LINES_MAX
from ekiden.transcript.items import Cut, Diff
from ekiden.vendors.claude.bounds import fitted
from ekiden.vendors.claude.rows import as_list, as_map, as_text


def recorded(path: str, patch: Iterable[Any], cuts: list[Cut]) -> tuple[Diff, ...]:
    """`toolUseResult.structuredPatch`: hunks of {oldStart, oldLines, newStart, newLines, lines}."""
    lines: list[str] = []
    for hunk in map(as_map, patch):
        body = [line for line in as_list(hunk.get("lines")) if isinstance(line, str)]
        numbers = [hunk.get(key) for key in ("oldStart", "oldLines", "newStart", "newLines")]
        if body and all(isinstance(number, int) for number in numbers):
            lines.append("@@ -{},{} +{},{} @@".format(*numbers))
            lines += body
    return _diff(path, lines, cuts) if lines else ()


def asked(name: str, fields: Mapping[str, Any], cuts: list[Cut]) -> tuple[Diff, ...]:
    """What an Edit, MultiEdit, Write or NotebookEdit call asks for. Line numbers are within the piece."""
    path = as_text(fields.get("file_path")) or as_text(fields.get("notebook_path"))
    if not path:
        return ()
    if name == "Write":
        pieces = [("", as_text(fields.get("content")))]
    elif name == "Edit":
        pieces = [(as_text(fields.get("old_string")), as_text(fields.get("new_string")))]
    elif name == "MultiEdit":
        edits = map(as_map, as_list(fields.get("edits")))
        pieces = [(as_text(edit.get("old_string")), as_text(edit.get("new_string"))) for edit in edits]
    elif name == "NotebookEdit":
        pieces = [("", as_text(fields.get("new_source")))]
    else:
        return ()
    lines = [line for before, after in pieces for line in _hunks(before, after)]
    return _diff(path, lines, cuts) if lines else ()


def _hunks(before: str, after: str) -> list[str]:
    old, new = before.split("\n"), after.split("\n")
    old_open, new_open = old.pop(), new.pop()
    old += [old_open] if old_open else []
    new += [new_open] if new_open else []
    if len(old) > ITEM_DIFF_LINES_MAX or len(new) > ITEM_DIFF_LINES_MAX:
        # Comparing is quadratic at worst; a piece of this size is shown as taken out and put in.
        head = f"@@ -1,{len(old)} +1,{len(new)} @@"
        return [head, *("-" + line for line in old), *("+" + line for line in new)]
    return list(difflib.unified_diff(old, new, lineterm="", n=3))[2:]


def _diff(path: str, lines: list[str], cuts: list[Cut]) -> tuple[Diff, ...]:
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    text = "\n".join([f"--- {path}", f"+++ {path}", *lines]) + "\n"
    return (Diff(path, fitted(text, ITEM_DIFF_BYTES_MAX, "tool.diffs", cuts), added, removed),)
