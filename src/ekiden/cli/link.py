"""A link on a terminal, with a QR code where it helps."""

from ekiden.cli.screen import Screen


def print_link(screen: Screen, link: str, *, qr: bool) -> None:
    """Prints the link on a line of its own. The QR code, two modules to a character, is for a terminal only."""
    screen.say(f"\n  {screen.style(link, 'bold', 'cyan')}\n")
    if qr and screen.is_terminal:
        import segno

        segno.make(link, micro=False, error="l").terminal(compact=True, border=2)
        screen.say()
