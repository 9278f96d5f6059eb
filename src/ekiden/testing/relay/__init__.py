"""A black-box suite for relays that speak docs/relay.md: run it against any address with an owner's key.

    python -m ekiden.testing.relay http://127.0.0.1:7433 --key-file local.key

It makes channels and keys with names of its own (`kit-…`), changes nothing else, and takes its keys back at the
end. Each check says in one sentence what it holds a relay to; it knows the door only, nothing of how a relay is
built.
"""

from ekiden.testing.relay.checks import Check, Failed
from ekiden.testing.relay.run import CHECKS, Outcome, carry_out, run

__all__ = ["CHECKS", "Check", "Failed", "Outcome", "carry_out", "run"]
