"""Heads of answers. Every answer carries the security headers; which policy depends on what it is."""

from collections.abc import Sequence
from http import HTTPStatus

from ekiden.kernel.limits import COOKIE_S

Header = tuple[bytes, bytes]

COOKIE = "ekiden"

_EVERYWHERE: tuple[Header, ...] = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

DATA: tuple[Header, ...] = (
    *_EVERYWHERE,
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
"""For JSON: nothing in it is ever run or shown as a page."""

JSON: tuple[Header, ...] = ((b"content-type", b"application/json"), *DATA)
PROBLEM: tuple[Header, ...] = ((b"content-type", b"application/problem+json"), *DATA)
STREAM: tuple[Header, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    *DATA,
    (b"x-accel-buffering", b"no"),
)


def answer_head(status: int) -> bytes:
    """The head of a JSON answer, up to the number of its bytes."""
    lines = (b"%b: %b\r\n" % header for header in JSON)
    return b"HTTP/1.1 %d %b\r\n%bcontent-length: " % (
        status,
        HTTPStatus(status).phrase.encode(),
        b"".join(lines),
    )


def page_headers(script_hashes: Sequence[str] = ()) -> tuple[Header, ...]:
    """For the page's own files: scripts, styles and connections of this origin only; of inline scripts only
    those with a hash given here (an import map)."""
    scripts = " ".join(("'self'", *(f"'{script_hash}'" for script_hash in script_hashes)))
    policy = (
        f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return (
        *_EVERYWHERE,
        (b"content-security-policy", policy.encode()),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
    )


def cookie_header(key: str, *, secure: bool) -> Header:
    """Sets the page's cookie; an empty key takes it away."""
    assert not key or (key.isascii() and key.replace("_", "").isalnum()), "a key is letters, digits and _"
    age = COOKIE_S if key else 0
    value = f"{COOKIE}={key}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age}" + ("; Secure" if secure else "")
    return (b"set-cookie", value.encode())


def cookie_key(header: bytes) -> str:
    """The key in a `Cookie` header, or nothing."""
    for pair in header.split(b";"):
        name, _, value = pair.strip().partition(b"=")
        if name == COOKIE.encode():
            return value.decode("latin-1")
    return ""
