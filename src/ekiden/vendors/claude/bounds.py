"""Cuts what is too large for an item, and says so.

All bounds are in bytes of JSON, because that is what travels and is stored: a control character costs six.
"""

import hashlib
from base64 import b64decode
from typing import Any

import msgspec

from ekiden.kernel.limits import (
    ITEM_INPUT_BYTES_MAX,
    ITEM_INPUT_STRING_CHARS,
    ITEM_TEXT_BYTES_MAX,
)
from ekiden.transcript.items import Block, Cut, Image, Reference, Text
from ekiden.vendors.claude.rows import NOTHING, Raw, any_value, as_map, as_text

_JSON_BYTES_PER_CHAR_MAX = 6


def fitted(text: str, bytes_max: int, field: str, cuts: list[Cut]) -> str:
    """`text`, or as much of its beginning as fits; then `cuts` gets the field and the whole size."""
    if len(text) * _JSON_BYTES_PER_CHAR_MAX <= bytes_max:
        return text
    size = len(msgspec.json.encode(text)) - 2
    if size <= bytes_max:
        return text
    cuts.append(Cut(field, len(text.encode("utf-8", "replace"))))
    while size > bytes_max:
        text = text[: min(len(text) - 1, len(text) * bytes_max // size)]
        size = len(msgspec.json.encode(text)) - 2
    return text


def fitted_blocks(blocks: list[Block], cuts: list[Cut], bytes_max: int = ITEM_TEXT_BYTES_MAX) -> tuple[Block, ...]:
    """`blocks` with their texts together within the bound; blocks after it are left out."""
    bytes_at_most = 0
    for block in blocks:
        if isinstance(block, Text):
            bytes_at_most += len(block.text) * _JSON_BYTES_PER_CHAR_MAX + 2
    if bytes_at_most < bytes_max:  # nearly always: nothing has to be encoded to know its size
        return tuple(blocks)
    kept: list[Block] = []
    left = bytes_max
    for block in blocks:
        if isinstance(block, Text):
            cut_before = len(cuts)
            block = Text(fitted(block.text, left, "content", cuts))
            left -= len(msgspec.json.encode(block.text))
            kept.append(block)
            if len(cuts) > cut_before or left <= 0:
                break
        else:
            kept.append(block)
    return tuple(kept)


def fitted_input(raw: Raw, cuts: list[Cut]) -> Raw:
    """A tool's input within its bound: long strings at its top are cut, then what is still too large is null."""
    size = len(bytes(raw))
    if size <= ITEM_INPUT_BYTES_MAX:
        return raw
    cuts.append(Cut("tool.input", size))
    fields: dict[str, Any] = {
        key: value[:ITEM_INPUT_STRING_CHARS] if isinstance(value, str) else value
        for key, value in as_map(any_value(raw)).items()
    }
    short = msgspec.json.encode(fields)
    if len(short) > ITEM_INPUT_BYTES_MAX:
        kept = {key: value for key, value in fields.items() if isinstance(value, str | int | float | bool)}
        short = msgspec.json.encode(kept)
    return Raw(short) if fields and len(short) <= ITEM_INPUT_BYTES_MAX else NOTHING


def media(source: Raw, name: str) -> Image | Reference:
    """An image or document block by the hash of its bytes, or as a reference where it is not inside."""
    fields = as_map(any_value(source))
    media_type = as_text(fields.get("media_type"))
    data = fields.get("data")
    if isinstance(data, str) and fields.get("type") == "base64":
        try:
            content = b64decode(data, validate=False)
        except ValueError:
            return Reference(name, "", "not base64")
        if media_type.startswith("image/"):
            return Image(media_type, hashlib.sha256(content).hexdigest(), len(content))
        return Reference(name, "", f"{media_type or 'data'}, {len(content)} bytes")
    return Reference(name, as_text(fields.get("url")) or as_text(fields.get("file_id")), "not in the file")
