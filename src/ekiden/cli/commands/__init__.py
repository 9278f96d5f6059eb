"""One file per command. Each has `describe(parser)` for its arguments and `run(options)` for its exit code.

A module here imports at its top only what its arguments need; the rest is imported when the command runs, so
that help is fast.
"""
