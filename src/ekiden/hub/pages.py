"""The page: its files as they are in the package, read once, hashed, compressed and kept in memory.

`index.html` answers at the root and at every place that the page shows by itself; it is asked for anew each time
and names all other files below `/assets/<hash>/`, where the hash is of all files together and which may be kept
for ever. Below `/assets/` without the hash the same files can be had, to be asked for anew. Nothing is looked up
on disk by a name from a request.
"""

import gzip
import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import ekiden
from ekiden.hub.asgi import Scope, Send
from ekiden.hub.checks import NotAllowed
from ekiden.hub.responses import Header, page_headers
from ekiden.kernel.errors import NotFound

_ROUTES = re.compile(r"/(?:|inbox|keys|new|search|sessions|sessions/[A-Za-z0-9_]{1,64}|pair)")
_MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
_NAMES_ASSETS = (".html", ".webmanifest")
_INLINE_SCRIPT = re.compile(rb"<script(?P<tags>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)
_FOR_EVER = b"public, max-age=31536000, immutable"
_ASK_ANEW = b"no-cache"


@dataclass(frozen=True, slots=True)
class _File:
    media_type: bytes
    data: bytes
    packed: bytes
    """Empty where packing gains nothing."""
    etag: bytes


def _script_hashes(html: bytes) -> list[str]:
    """CSP sources for the scripts that stand in the page itself."""
    return [
        "sha256-" + b64encode(hashlib.sha256(found["text"]).digest()).decode()
        for found in _INLINE_SCRIPT.finditer(html)
        if b"src=" not in found["tags"]
    ]


def _file(name: str, data: bytes) -> _File:
    packed = gzip.compress(data, 9, mtime=0)
    return _File(
        _MEDIA_TYPES.get(Path(name).suffix, "application/octet-stream").encode(),
        data,
        packed if len(packed) < len(data) * 0.9 else b"",
        b'W/"%b"' % hashlib.sha256(data).hexdigest()[:24].encode(),
    )


class Pages:
    """Answers everything outside of `/v1/` from the folder with the page's files."""

    def __init__(self, folder: Path) -> None:
        sources = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.suffix in _MEDIA_TYPES
        }
        whole = hashlib.sha256()
        for name, data in sources.items():
            whole.update(b"%b %d\n" % (name.encode(), len(data)))
            whole.update(data)
        self.assets_hash = whole.hexdigest()[:16]
        self.assets = f"/assets/{self.assets_hash}/"
        self._files = {name: _file(name, self._placed(name, data)) for name, data in sources.items()}
        index = self._files.get("index.html")
        self._head = page_headers(_script_hashes(index.data) if index is not None else ())

    def _placed(self, name: str, data: bytes) -> bytes:
        """Where a file names assets by their place, the place with the hash."""
        if name.endswith(_NAMES_ASSETS):
            return data.replace(b'"/assets/', b'"' + self.assets.encode())
        return data

    def _find(self, path: str) -> tuple[_File | None, bytes]:
        """The file at a path, and how long it may be kept."""
        if path.startswith(self.assets):
            return self._files.get(path[len(self.assets) :]), _FOR_EVER
        if path.startswith("/assets/"):
            return self._files.get(path[len("/assets/") :]), _ASK_ANEW
        if path == "/sw.js":
            return self._files.get("sw.js"), _ASK_ANEW
        if path == "/favicon.ico":
            return self._files.get("icon.svg"), _ASK_ANEW
        if _ROUTES.fullmatch(path):
            return self._files.get("index.html"), _ASK_ANEW
        return None, _ASK_ANEW

    async def answer(self, scope: Scope, headers: Mapping[bytes, bytes], send: Send) -> None:
        """Answers one request.

        Raises:
            NotFound: if nothing stands there.
            NotAllowed: for anything but GET and HEAD.
        """
        file, keep = self._find(scope["path"])
        if file is None:
            raise NotFound
        if scope["method"] not in ("GET", "HEAD"):
            raise NotAllowed("The page's files can only be read.", allow="GET, HEAD")
        head: list[Header] = [*self._head, (b"cache-control", keep), (b"etag", file.etag)]
        if file.packed:
            head.append((b"vary", b"accept-encoding"))
        if file.etag in headers.get(b"if-none-match", b""):
            await send({"type": "http.response.start", "status": 304, "headers": head})
            await send({"type": "http.response.body", "body": b""})
            return
        data = file.data
        if file.packed and b"gzip" in headers.get(b"accept-encoding", b""):
            data = file.packed
            head.append((b"content-encoding", b"gzip"))
        head += [(b"content-type", file.media_type), (b"content-length", b"%d" % len(data))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else data})


def own_pages() -> Pages:
    """The page that this package carries."""
    return Pages(Path(ekiden.__file__).parent / "web")
