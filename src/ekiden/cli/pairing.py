"""Pairing at the terminal: the code goes out, a device comes, words are compared, a person decides."""

import sys

from ekiden.access.routes import NewPairing, OpenPairing, Pairing, PairingAnswered, Pairings
from ekiden.cli.exit_codes import CONFLICT, OK
from ekiden.cli.link import print_link
from ekiden.cli.screen import Screen, line_of
from ekiden.cli.waiting import Ears
from ekiden.client.plain import PlainClient
from ekiden.client.requests import path_of
from ekiden.kernel.errors import Conflict, Unavailable


def pair(client: PlainClient, *, name: str, qr: bool, as_json: bool) -> int:
    """Opens a pairing and sees it through. With JSON, prints it and returns at once."""
    screen = Screen()
    made = client.post("/v1/pairings", NewPairing(name=name), type=Pairing)
    if as_json:
        screen.data(made)
        return OK
    ears = Ears(client, ("access",))
    screen.say("Open this link on the device, or type the code there:")
    print_link(screen, made.link, qr=qr)
    screen.say(f"code: {screen.style(line_of(made.code), 'bold')}, good until {line_of(made.expires_at)}")
    for frame in ears.frames():
        if frame.kind not in ("stream.hello", "pairing.asked", "pairing.ended"):
            continue
        pairings = client.get("/v1/pairings", type=Pairings).pairings
        mine = next((one for one in pairings if one.pairing_id == made.pairing_id), None)
        if mine is None:
            screen.say("The pairing has ended.")
            return CONFLICT
        if mine.state == "waiting":
            return _decide(client, screen, mine)
    raise Unavailable("The hub ended the stream.", hint="Try again.")


def _decide(client: PlainClient, screen: Screen, asking: OpenPairing) -> int:
    screen.say()
    screen.say(f"A device asks to come in: {screen.style(line_of(asking.device) or 'without a name', 'bold')}")
    screen.say(f"It must show these digits: {screen.style(line_of(asking.words), 'bold', 'yellow')}")
    if not sys.stdin.isatty():
        raise Conflict("Nobody is at this terminal to compare them.", hint="Run `ekiden pair` in a terminal.")
    yes = input("Does it, and is it yours? [y/N] ").strip().casefold() in ("y", "yes")
    answer(client, asking.pairing_id, yes=yes, as_json=False)
    return OK if yes else CONFLICT


def answer(client: PlainClient, pairing_id: str, *, yes: bool, as_json: bool) -> int:
    """Lets a waiting device in, or not."""
    screen = Screen()
    verb = "confirm" if yes else "deny"
    path = path_of("/v1/pairings/{pairing_id}/", pairing_id=pairing_id) + verb
    answered = client.post(path, type=PairingAnswered)
    if as_json:
        screen.data(answered)
    else:
        screen.say(f"The device is {'let in' if yes else 'not let in'}.")
    return OK


def link_for_here(client: PlainClient, *, as_json: bool) -> int:
    """Prints a link that signs a browser on this computer in, once."""
    screen = Screen()
    made = client.post("/v1/pairings", NewPairing(local=True), type=Pairing)
    if as_json:
        screen.data(made)
    else:
        print_link(screen, made.link, qr=False)
    return OK
