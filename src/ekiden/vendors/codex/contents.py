"""From Codex's content lists to neutral blocks, with what is cut said.

Texts over the bound are cut at a character and named in `cut` with their whole size; an image that is
embedded in a row becomes its hash, so that the same image in ninety compactions is one image.
"""

import base64
import binascii
import hashlib
from collections.abc import Iterable

from ekiden.transcript.items import Block, Cut, Image, Reference, Text
from ekiden.vendors.codex.native import Record, listed, record, text_of

_TEXT_TYPES = frozenset({"text", "Text", "input_text", "output_text", "summary_text", "reasoning_text"})
_IMAGE_TYPES = frozenset(
    {"input_image", "image", "Image", "inputImage", "localImage", "local_image", "LocalImage"}
)
_MARKERS = ("<image", "</image>")
"""Codex puts these texts around an attached image for the model; a person sees the image."""


class Cutter:
    """Cuts texts to `bytes_max` and remembers what was cut. One per item."""

    __slots__ = ("bytes_max", "cuts")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.cuts: list[Cut] = []

    def shown(self, name: str, text: str) -> str:
        """`text`, or its beginning if it is over the bound."""
        if len(text) * 4 <= self.bytes_max:
            return text
        encoded = text.encode()
        if len(encoded) <= self.bytes_max:
            return text
        self.cuts.append(Cut(name, len(encoded)))
        return encoded[: self.bytes_max].decode("utf-8", "ignore")


def image_of(url: str) -> Block:
    """An embedded image (`data:` URL) by its hash; any other address as a reference that was not read."""
    if not url.startswith("data:"):
        return Reference(name=url.rsplit("/", 1)[-1][:200], uri=url[:2000])
    head, _, body = url.partition(",")
    media_type = head[5:].split(";", 1)[0] or "application/octet-stream"
    try:
        content = base64.b64decode(body, validate=False)
    except (binascii.Error, ValueError):
        return Reference(name=media_type, uri="", reason="unreadable")
    return Image(media_type, hashlib.sha256(content).hexdigest(), len(content))


def blocks_of(content: object, cutter: Cutter, name: str = "content") -> tuple[Block, ...]:
    """The blocks of a message's `content`: a string, or a list of parts of any generation."""
    if isinstance(content, str):
        return (Text(cutter.shown(name, text_of(content))),)
    blocks: list[Block] = []
    for value in listed(content):
        part = record(value)
        kind = text_of(part.get("type"))
        if kind in _TEXT_TYPES or (not kind and "text" in part):
            text = text_of(part.get("text"))
            if text and not (len(text) < 200 and text.strip().startswith(_MARKERS)):
                blocks.append(Text(cutter.shown(f"{name}.{len(blocks)}", text)))
        elif kind in _IMAGE_TYPES:
            url = text_of(part.get("image_url") or part.get("imageUrl") or part.get("url"))
            path = text_of(part.get("path"))
            blocks.append(Reference(name=path.rsplit("/", 1)[-1], uri=path) if path else image_of(url))
        elif kind:
            label = text_of(part.get("name")) or kind
            uri = text_of(part.get("path") or part.get("url"))
            blocks.append(Reference(name=label, uri=uri[:2000], reason="" if uri else f"a part of kind {kind}"))
    return tuple(blocks)


def plain_text(content: object) -> str:
    """All text of a content list, uncut, joined by newlines."""
    if isinstance(content, str):
        return text_of(content)
    return "\n".join(part for part in text_parts(content) if part)


def text_parts(content: object) -> list[str]:
    """The texts of a content list, each by itself."""
    if isinstance(content, str):
        return [text_of(content)]
    return [text_of(record(part).get("text")) for part in listed(content) if "text" in record(part)]


def images_in(parts: Iterable[object]) -> tuple[Image, ...]:
    """The embedded images among the parts of a tool's result."""
    found: list[Image] = []
    for value in parts:
        part: Record = record(value)
        url = text_of(part.get("image_url") or part.get("imageUrl"))
        if not url and part.get("type") == "image" and "data" in part:
            url = f"data:{text_of(part.get('mimeType')) or 'image/png'};base64,{text_of(part.get('data'))}"
        block = image_of(url) if url else None
        if isinstance(block, Image):
            found.append(block)
    return tuple(found)
