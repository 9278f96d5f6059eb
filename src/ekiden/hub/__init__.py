"""The hub: the rooms behind one HTTP door, with streams, growing items and the link to hosts."""
