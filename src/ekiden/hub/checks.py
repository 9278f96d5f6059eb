"""What is looked at before any code of a room runs: to which name, from which page, with which kind of body.

A browser on this computer runs pages of strangers. They can reach a loopback port, so the address proves
nothing. What they cannot do is choose `Host` (it is the name that they were led to) or hide `Origin`.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

from ekiden.kernel.errors import Forbidden, Invalid
from ekiden.kernel.limits import HOST_SPELLINGS_KEPT_MAX

Headers = Mapping[bytes, bytes]

KEY_MARK = b"ekd_"
_SITES_OF_OTHERS = (b"cross-site", b"same-site")


class WrongType(Invalid):
    """A write does not carry JSON."""

    code = "wrong_type"
    status = 415


class NotAllowed(Invalid):
    """The place is there, but not for this method. `details`: allow."""

    code = "method_not_allowed"
    status = 405


class Checks:
    """The door's allow-list of names, and the rules that hang on it."""

    def __init__(self, hosts: Iterable[str], *, secure: bool) -> None:
        self._any_port: set[bytes] = set()
        self._exact: set[bytes] = set()
        for host in hosts:
            name = host.strip().lower().encode()
            (self._exact if _has_port(name) else self._any_port).add(name)
        self._schemes = (b"https://",) if secure else (b"http://", b"https://")
        self._known: set[bytes] = set()

    def allow(self, host: str) -> None:
        """Answers to one more name from now on."""
        name = host.strip().lower().encode()
        (self._exact if _has_port(name) else self._any_port).add(name)

    def address(self, headers: Headers, path: str) -> None:
        """Refuses what does not come to a name of ours or comes from a page that is not ours.

        Raises:
            Forbidden: `details` name the header that is wrong.
        """
        host = headers.get(b"host", b"")
        if host not in self._known:
            self._check_host(host)
        origin = headers.get(b"origin")
        if origin is not None and not self._own(origin, host):
            raise Forbidden("Requests from other pages are refused.", header="origin")
        if path.startswith("/v1/") and headers.get(b"sec-fetch-site") in _SITES_OF_OTHERS:
            raise Forbidden("Requests from other pages are refused.", header="sec-fetch-site")

    def _check_host(self, host: bytes) -> None:
        lowered = host.lower()
        name, colon, port = lowered.rpartition(b":")
        if lowered.endswith(b"]") or not colon:
            name, port = lowered, b""
        known = lowered in self._exact or name in self._any_port
        if not known or (port and not (port.isdigit() and len(port) <= 5)):
            raise Forbidden(
                "The hub does not answer to this name.",
                hint="Open it by an address that `ekiden up` printed.",
                header="host",
            )
        if len(self._known) < HOST_SPELLINGS_KEPT_MAX:
            self._known.add(host)

    def _own(self, origin: bytes, host: bytes) -> bool:
        """Whether the origin is the very address that the request came to."""
        for scheme in self._schemes:
            if origin.startswith(scheme):
                authority = origin[len(scheme) :].lower()
                usual = b":443" if scheme == b"https://" else b":80"
                return authority == host.lower() or authority + usual == host.lower()
        return False


def _has_port(name: bytes) -> bool:
    return b":" in name.rpartition(b"]")[2]


def no_key_in_url(raw_path: bytes, query: bytes) -> None:
    """A key in a URL ends up in histories and logs, so it is not even looked at.

    Raises:
        Invalid: if there is something like one.
    """
    url = raw_path + b"?" + query if query else raw_path
    if KEY_MARK in (unquote_to_bytes(url) if b"%" in url else url):
        raise Invalid(
            "A key does not belong in a URL.",
            hint="Send it as Authorization: Bearer …; and make a new one: this one was exposed.",
        )


def json_body(headers: Headers) -> None:
    """A write must say that it is JSON: no page of a stranger can do so without asking first.

    Raises:
        WrongType: if it does not.
    """
    kind = headers.get(b"content-type", b"")
    if kind != b"application/json":
        media, _, parameters = kind.partition(b";")
        charset = parameters.strip().lower()
        if media.strip().lower() != b"application/json" or charset not in (
            b"",
            b"charset=utf-8",
            b'charset="utf-8"',
        ):
            raise WrongType("A write carries JSON.", hint="Send it with Content-Type: application/json.")
