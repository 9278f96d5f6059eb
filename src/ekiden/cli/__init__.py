"""The command line: a client of the door, one file per command in `commands/`. `__main__` is the way in."""
