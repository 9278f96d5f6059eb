"""The base of the shapes that this room puts on the wire."""

import msgspec


class Struct(msgspec.Struct, frozen=True, omit_defaults=True):
    """Immutable, defaults left out, unknown fields borne when read (as `ekiden.transcript.items.Struct`)."""
