"""The text of files that an item names beside its session file: large outputs lie there.

Paths in a transcript are data. Only plain files in the session's own folder are opened, and judged by the open
handle; all others stay references.
"""

from pathlib import Path

import msgspec

from ekiden.host.lines import open_inside
from ekiden.host.store import FileRow
from ekiden.kernel.errors import EkidenError
from ekiden.kernel.limits import PAGE_BYTES_MAX
from ekiden.transcript.items import Block, Item, Reference, Text


def with_side_files(row: FileRow, item: Item) -> Item:
    """The item with the text of files that it names beside its session file (large outputs lie there). Only plain
    files in the session's own folder are opened, and judged by the open handle; all others stay references."""
    folder = Path(row.path).with_suffix("")
    blocks: list[Block] = []
    for block in item.content:
        text = _side_text(folder, block.uri) if isinstance(block, Reference) else None
        blocks.append(block if text is None else Text(text))
    return msgspec.structs.replace(item, content=tuple(blocks)) if blocks != list(item.content) else item


def _side_text(folder: Path, named: str) -> str | None:
    try:
        source = open_inside(folder / named, [folder])
    except (EkidenError, OSError, ValueError):
        return None
    try:
        if source.size() > PAGE_BYTES_MAX:
            return None
        return source.read(0, PAGE_BYTES_MAX).decode("utf-8", "replace")
    finally:
        source.close()
