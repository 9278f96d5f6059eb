"""The page's files: from memory, hashed, compressed, under a strict policy."""

import gzip
import hashlib
import re
from base64 import b64encode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ekiden.hub.pages import Pages, own_pages
from hub.door_kit import House, open_house

pytestmark = pytest.mark.anyio

INDEX = b"""<!doctype html><link rel="stylesheet" href="/assets/style/base.css">
<script type="importmap">{"imports":{"lib":"/assets/lib.js"}}</script>
<script type="module" src="/assets/app.js"></script>"""


def lay(folder: Path) -> Path:
    """A small page."""
    (folder / "style").mkdir(parents=True)
    (folder / "index.html").write_bytes(INDEX)
    (folder / "app.js").write_text('import "./lib.js";' + "// long\n" * 200)
    (folder / "lib.js").write_text("export {};")
    (folder / "style" / "base.css").write_text("body { color: red }\n" * 50)
    (folder / "sw.js").write_text("self.x = 1;")
    (folder / "icon.svg").write_text("<svg/>")
    (folder / "manifest.webmanifest").write_text('{"icons":[{"src":"/assets/icon.svg"}]}')
    (folder / "notes.py").write_text("secret = 1")
    return folder


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(pages=Pages(lay(tmp_path / "web"))) as house:
        yield house


@pytest.mark.parametrize(
    "place", ["/", "/inbox", "/sessions", "/sessions/ses_0123456789abcdefghjk", "/keys", "/new", "/search"]
)
async def test_each_place_of_the_page_gives_the_page(house: House, place: str) -> None:
    """Without a key: what is in it is no secret. It is asked for anew each time."""
    status, headers, body = await house.ask("GET", place, key="")
    assert status == 200
    assert body.startswith(b"<!doctype html>")
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert headers["cache-control"] == "no-cache"


async def test_all_that_the_page_names_is_kept_for_ever_under_the_hash_of_its_content(house: House) -> None:
    """Every address that the page itself names has the hash, and is there."""
    _, _, body = await house.ask("GET", "/", key="")
    named = re.findall(r'"(/assets/[^"]+)"', body.decode())
    assert len(named) == 3
    for address in named:
        assert re.fullmatch(r"/assets/[0-9a-f]{16}/.+", address)
        status, headers, _ = await house.ask("GET", address, key="")
        assert (status, headers["cache-control"]) == (200, "public, max-age=31536000, immutable")
    _, _, manifest = await house.ask("GET", named[0].rsplit("/style", 1)[0] + "/manifest.webmanifest", key="")
    assert b'"/assets/icon.svg"' not in manifest


def test_the_hash_changes_with_any_file(tmp_path: Path) -> None:
    """With its content and with its name."""
    lay(tmp_path)
    first = Pages(tmp_path).assets_hash
    assert Pages(tmp_path).assets_hash == first
    (tmp_path / "lib.js").write_text("export { };")
    second = Pages(tmp_path).assets_hash
    (tmp_path / "lib.js").rename(tmp_path / "lib2.js")
    assert len({first, second, Pages(tmp_path).assets_hash}) == 3


async def test_files_are_packed_once_and_unpacked_alike(house: House) -> None:
    """For who can take it; a small file goes as it is; a cache keeps the two apart."""
    _, plain_headers, plain = await house.ask("GET", "/assets/app.js", key="")
    _, headers, packed = await house.ask("GET", "/assets/app.js", key="", accept_encoding="gzip, br")
    assert headers["content-encoding"] == "gzip"
    assert headers["vary"] == plain_headers["vary"] == "accept-encoding"
    assert gzip.decompress(packed) == plain
    assert len(packed) == int(headers["content-length"]) < len(plain)
    _, headers, _ = await house.ask("GET", "/assets/lib.js", key="", accept_encoding="gzip")
    assert "content-encoding" not in headers


async def test_what_the_browser_has_is_not_sent_again(house: House) -> None:
    """By its mark; HEAD tells the head only."""
    _, headers, _ = await house.ask("GET", "/", key="")
    status, again, body = await house.ask("GET", "/", key="", if_none_match=headers["etag"])
    assert (status, body, again["etag"]) == (304, b"", headers["etag"])
    status, head, body = await house.ask("HEAD", "/", key="")
    assert (status, body, head["content-length"]) == (200, b"", headers["content-length"])


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/assets/app.js", "text/javascript; charset=utf-8"),
        ("/assets/style/base.css", "text/css; charset=utf-8"),
        ("/assets/icon.svg", "image/svg+xml"),
        ("/assets/manifest.webmanifest", "application/manifest+json"),
        ("/sw.js", "text/javascript; charset=utf-8"),
        ("/favicon.ico", "image/svg+xml"),
    ],
)
async def test_each_file_says_what_it_is(house: House, place: str, kind: str) -> None:
    """And the browser is told not to guess."""
    status, headers, _ = await house.ask("GET", place, key="")
    assert (status, headers["content-type"]) == (200, kind)
    assert headers["x-content-type-options"] == "nosniff"


async def test_no_script_runs_that_is_not_the_pages_own(house: House) -> None:
    """The policy allows files of this origin and the import map by its hash; nothing inline, nothing foreign."""
    _, headers, body = await house.ask("GET", "/", key="")
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    inline = body.split(b'<script type="importmap">')[1].split(b"</script>")[0]
    digest = b64encode(hashlib.sha256(inline).digest()).decode()
    assert policy["script-src"] == f"'self' 'sha256-{digest}'"
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["connect-src"] == policy["style-src"] == "'self'"
    assert "unsafe" not in headers["content-security-policy"]


@pytest.mark.parametrize(
    "place",
    [
        "/assets/notes.py",
        "/assets/../pages.py",
        "/assets/%2e%2e/pages.py",
        "/assets//etc/passwd",
        "/assets/",
        "/assets/0123456789abcdef/app.js",
        "/index.html",
        "/sessions/a/b",
        "/sessions/<script>",
        "/nowhere",
    ],
)
async def test_nothing_else_is_there(house: House, place: str) -> None:
    """Only what was read at the start, by its exact name."""
    assert (await house.ask("GET", place, key=""))[0] == 404


async def test_the_page_is_only_read(house: House) -> None:
    """Anything but GET and HEAD is refused."""
    assert (await house.ask("POST", "/", {}, key=""))[0] == 405


async def test_the_own_page_names_only_what_it_carries() -> None:
    """The page of this package: each address in its index is one of its files."""
    async with open_house(pages=own_pages()) as house:
        status, headers, body = await house.ask("GET", "/", key="")
        assert status == 200
        assert "unsafe" not in headers["content-security-policy"]
        named = re.findall(r'(?:href|src)="(/[^"]+)"', body.decode())
        assert named
        for address in named:
            assert (await house.ask("GET", address, key=""))[0] == 200, address
