"""Fakes that are products: a clock that stands still, a door without sockets. They pass the real parts' tests."""
