"""The address at which other devices of the local network reach this computer."""

import socket


def lan_address() -> str:
    """The address that the system would send from, or empty if there is no network. Nothing is sent: connecting
    a datagram socket only looks the route up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(("192.0.2.1", 9))  # an address that is for documentation (RFC 5737)
            address = str(trial.getsockname()[0])
        except OSError:
            return ""
    return "" if address.startswith("127.") or address == "0.0.0.0" else address  # noqa: S104 (it is compared, nothing is bound)
