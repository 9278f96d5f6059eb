"""What the laws' tests use of the rooms' own."""

from sessions.conftest import room as room
