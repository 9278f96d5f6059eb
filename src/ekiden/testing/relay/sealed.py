"""Encrypted channels as far as they can be seen from outside: what a relay must refuse."""

from ekiden.testing.relay.checks import Checks, Kit, done, hold
from ekiden.testing.relay.door import channel_path

CHECKS = Checks()

_SEALED = {"epoch": 1, "nonce": "AAAAAAAAAAAAAAAA", "data": "AAAA", "v": 1}


@CHECKS.add
def plain_text_does_not_get_into_an_encrypted_channel(kit: Kit) -> None:
    """Text, edits and status values in the clear are refused there; sealed ones are refused elsewhere."""
    hidden, shown = kit.channel("hidden", encrypted=True), kit.channel("shown")
    agent = kit.agent("a", hidden, shown)
    for body in ({"text": "clear"}, {"text": "clear", "sealed": _SEALED}):
        answer = agent.door.post(channel_path(hidden, "messages"), body)
        hold(400 <= answer.status < 500, f"answered with {answer.status}")
    answer = agent.door.put(channel_path(hidden, "status", "plan"), {"value": "clear"})
    hold(400 <= answer.status < 500, f"a clear status was answered with {answer.status}")
    answer = agent.door.post(channel_path(shown, "messages"), {"sealed": _SEALED})
    hold(400 <= answer.status < 500, f"sealed text in an open channel was answered with {answer.status}")
    hold(kit.messages(hidden) == [], "something was stored")


@CHECKS.add
def a_key_that_was_never_opened_seals_nothing(kit: Kit) -> None:
    """A message under an epoch that does not exist is refused, with the newest."""
    name = kit.channel(encrypted=True)
    agent = kit.agent("a", name)
    answer = agent.door.post(channel_path(name, "messages"), {"sealed": _SEALED})
    hold(answer.status == 409, f"answered with {answer.status}")


@CHECKS.add
def how_a_channel_hides_is_fixed(kit: Kit) -> None:
    """Encryption, privacy and signing cannot be changed once a channel is made."""
    name = kit.channel(encrypted=True)
    kit.owner.patch(channel_path(name), {"encrypted": False, "private": True, "signed": True})
    told = done(kit.owner.get(channel_path(name)))
    hold(told["encrypted"] is True and not told.body.get("private") and not told.body.get("signed"), "it changed")
