"""Changes to files, from the two forms in which Codex keeps them: its patch text and its map of changes.

Both become unified diffs. Source: the `apply_patch` grammar that Codex gives its models (`*** Begin Patch`,
`*** Add File:`, `*** Update File:`, `*** Delete File:`, `*** Move to:`).
"""

from ekiden.transcript.items import Diff
from ekiden.vendors.codex.contents import Cutter
from ekiden.vendors.codex.native import Record, record, text_of

BEGIN = "*** Begin Patch"
_END = "*** End Patch"
_OPENERS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ")
_MOVE = "*** Move to: "


def _counted(path: str, lines: list[str], cutter: Cutter) -> Diff:
    hunk = next((index for index, line in enumerate(lines) if line.startswith("@@")), 0)
    body = lines[hunk:]  # what stands before the first hunk is a header, though it may begin with + or -
    added = sum(1 for line in body if line.startswith("+"))
    removed = sum(1 for line in body if line.startswith("-"))
    return Diff(path, cutter.shown("tool.diffs", "\n".join(lines)), added, removed)


def diffs_of_patch(patch: str, cutter: Cutter) -> tuple[Diff, ...]:
    """The files that a patch text changes. Text around the patch (a shell's here-document) is left out."""
    begin = patch.find(BEGIN)
    if begin < 0:
        return ()
    diffs: list[Diff] = []
    path, lines = "", list[str]()
    for line in patch[begin:].split("\n")[1:]:
        if line.startswith(_OPENERS) or line.startswith(_END):
            if path:
                diffs.append(_counted(path, lines, cutter))
            path, lines = "", []
            if line.startswith(_END):
                break
            path = line.split(": ", 1)[1].strip()
        elif line.startswith(_MOVE):
            lines.append(f"rename to {line[len(_MOVE) :].strip()}")
        elif path:
            lines.append(line)
    else:
        if path:
            diffs.append(_counted(path, lines, cutter))
    return tuple(diffs)


def diffs_of_changes(changes: object, cutter: Cutter) -> tuple[Diff, ...]:
    """The files of a map `path -> {type: add | delete | update, content | unified_diff, move_path}`."""
    diffs: list[Diff] = []
    for name, value in record(changes).items():
        change: Record = record(value)
        kind = text_of(change.get("type"))
        if kind in ("add", "delete"):
            sign = "+" if kind == "add" else "-"
            content = text_of(change.get("content"))
            lines = [f"{sign}{line}" for line in content.removesuffix("\n").split("\n")] if content else []
        else:
            lines = text_of(change.get("unified_diff") or change.get("diff")).removesuffix("\n").split("\n")
        moved = text_of(change.get("move_path"))
        if moved:
            lines.insert(0, f"rename to {moved}")
        diffs.append(_counted(text_of(name), lines, cutter))
    return tuple(diffs)
