"""The door without sockets, for tests: the very way that the hub's own tools go."""

from ekiden.client.bridge import HIGH_WATER_BYTES, Bridge

__all__ = ["HIGH_WATER_BYTES", "Bridge"]
