"""The append-only log: what happened, in one order, on disk before anybody is told. `port` is what rooms see."""
