"""A hub of the tests' own, in memory and without sockets, that does what the relay's door says and can be told to
lie.

It holds one team. Clients come with the principal's id as their key. What it knows it has in plain attributes, so
that a test shows a member another directory, another epoch, another text than was sent.
"""

import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from ekiden.client.client import Client
from ekiden.client.transport import Request
from ekiden.crypto import directory, keys, statements
from ekiden.crypto.directory import Directory, DirectoryPage, Entry, NewEntry
from ekiden.crypto.epochs import EpochView, NewEpoch, Share, Wrap

TEAM = "tem_0123456789abcdefghjk"
CHANNEL = "cha_0123456789abcdefghjk"
PEOPLE = {name: f"pri_{name:0<20}" for name in ("anna", "ben", "car0", "dan")}
SEED = hashlib.sha256(b"the hub").digest()
AT = "2030-01-01T00:00:00.000Z"

Body = dict[str, Any]


class Refused(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class _Answer:
    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self.headers: Mapping[str, str] = {}
        self._body = body

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._body

    async def close(self) -> None:
        return


class LyingHub:
    """See the module. `before`: is called with each request, and may answer it, refuse it or change the hub."""

    url = "http://hub.test"

    def __init__(self, *, encrypted: bool = False, members: tuple[str, ...] = ("anna", "ben")) -> None:
        self.seed = SEED
        self.entries: list[Entry] = []
        self.members = list(members)
        self.channel: Body = {"channel_id": CHANNEL, "name": "build", "encrypted": encrypted}
        self.messages: list[Body] = []
        self.statuses: dict[str, Body] = {}
        self.epochs: list[NewEpoch] = []
        self.wraps: list[Wrap] = []
        self.stale = False
        self.files: dict[str, Body] = {}
        self.asked: list[str] = []
        self.before: Callable[[str, str], None] = lambda method, path: None

    def client(self, name: str) -> Client:
        """A client of this principal."""
        return Client(key=PEOPLE[name], transport=self)

    async def open(self, request: Request) -> _Answer:
        parts = urlsplit(request.target)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        who = request.headers["authorization"].removeprefix("Bearer ")
        path = unquote(parts.path)
        self.asked.append(f"{request.method} {path}")
        try:
            self.before(request.method, path)
            answer = self._run(request.method, path, query, json.loads(request.body or b"null"), who)
        except Refused as refusal:
            problem = {"code": refusal.code, "detail": refusal.code, "status": refusal.status}
            return _Answer(refusal.status, json.dumps(problem).encode())
        return _Answer(200, msgspec.json.encode(answer))

    async def close(self) -> None:
        return

    def place(self, entry: NewEntry) -> None:
        """Puts an entry into the directory."""
        previous = self.entries[-1].hash(TEAM) if self.entries else ""
        names = {principal: name for name, principal in PEOPLE.items()}
        self.entries.append(
            directory.placed(
                self.seed,
                entry,
                team=TEAM,
                position=len(self.entries) + 1,
                previous=previous,
                at=AT,
                name=names[entry.principal_id],
            )
        )

    def _run(self, method: str, path: str, query: Body, body: Any, who: str) -> Any:
        if path == "/v1/me":
            name = next(name for name, principal in PEOPLE.items() if principal == who)
            return {"principal_id": who, "name": name, "team_id": TEAM}
        if path == "/v1/hub-key":
            return {"team_id": TEAM, "public_key": keys.spell(keys.signing_public(self.seed))}
        if path == "/v1/directory":
            return self._directory(method, query, body)
        found = re.fullmatch(r"/v1/channels/[^/]+(/.*)?", path)
        if found is None:
            raise Refused(404, "not_found")
        return self._in_channel(method, found[1] or "", query, body, who)

    def _directory(self, method: str, query: Body, body: Any) -> Any:
        if method == "GET":
            after = int(query.get("after", 0))
            more = "more" if after + 2 < len(self.entries) else ""
            return DirectoryPage(tuple(self.entries[after : after + 2]), len(self.entries), more)
        entry = msgspec.convert(body, NewEntry)
        read = Directory(TEAM, keys.signing_public(self.seed))
        read.take(self.entries)
        directory.checked(entry, TEAM, read.keys)
        self.place(entry)
        return self.entries[-1]

    def _in_channel(self, method: str, rest: str, query: Body, body: Any, who: str) -> Any:
        kind, _, name = rest.strip("/").partition("/")
        match method, kind:
            case "GET", "":
                newest = self.epochs[-1].epoch.epoch if self.epochs else 0
                return {
                    **self.channel,
                    "epoch": newest,
                    "epoch_stale": self.stale,
                    "members": len(self.members),
                }
            case "GET", "members":
                return {
                    "members": [
                        {"principal_id": PEOPLE[one], "name": one, "kind": "agent"} for one in self.members
                    ]
                }
            case "GET", "epochs":
                return self._epochs(query, who)
            case "POST", "epochs":
                return self._epoch_step(name, body)
            case "POST", "messages":
                return {"message": self._post(body, who)}
            case "GET" | "PATCH", "messages":
                return self._message(method, name, body)
            case "PUT", "status":
                return self._status(name, body, who)
            case "PUT", "attachments":
                self.files[name] = body
                return {}
            case "GET", "attachments":
                return self.files[name]
            case _:
                raise Refused(404, "not_found")

    def _epochs(self, query: Body, who: str) -> Any:
        below = int(query.get("after") or len(self.epochs) + 1)
        shown = [
            EpochView(
                new.epoch,
                tuple(wrap for wrap in self.wraps if wrap.epoch == new.epoch.epoch and wrap.principal_id == who),
                tuple(wrap.member_key for wrap in self.wraps if wrap.epoch == new.epoch.epoch),
            )
            for new in reversed(self.epochs)
            if new.epoch.epoch < below
        ]
        return {"epochs": shown, "stale": self.stale}

    def _epoch_step(self, name: str, body: Any) -> Any:
        if name:
            self.wraps += msgspec.convert(body, Share).wraps
            return {}
        new = msgspec.convert(body, NewEpoch)
        if new.epoch.epoch != len(self.epochs) + 1:
            raise Refused(409, "stale_epoch")
        self.epochs.append(new)
        self.wraps += new.wraps
        self.stale = False
        return EpochView(new.epoch)

    def _post(self, body: Body, who: str) -> Body:
        held = next((one for one in self.messages if one["message_id"] == body["message_id"]), None)
        if held is not None:
            return held
        sealed = body.get("sealed")
        if self.channel["encrypted"] and (sealed is None or self.stale or sealed["epoch"] != len(self.epochs)):
            raise Refused(409, "stale_epoch" if sealed else "not_sealed")
        message = {
            **{name: value for name, value in body.items() if name not in ("mentions", "sender", "expires_s")},
            "channel_id": CHANNEL,
            "number": len(self.messages) + 1,
            "sender_id": who,
            "sender": who,
            "authority": "agent",
            "at": AT,
            "named": body.get("mentions", ()),
        }
        self.messages.append(message)
        return message

    def _message(self, method: str, name: str, body: Any) -> Any:
        at, held = next((at, one) for at, one in enumerate(self.messages) if one["message_id"] == name)
        if method == "GET":
            return held
        edited = {**held, "text": "", **body, "edits": held.get("edits", 0) + 1, "named": body.get("mentions", ())}
        edited.pop("mentions", None)
        self.messages[at] = edited
        return {"message": edited}

    def _status(self, key: str, body: Body, who: str) -> Body:
        held = {
            **{name: value for name, value in body.items() if name not in ("if_version", "expires_s")},
            "channel_id": CHANNEL,
            "key": key,
            "version": self.statuses.get(key, {"version": 0})["version"] + 1,
            "kind": "set",
            "by_id": who,
            "by": who,
        }
        self.statuses[key] = held
        return held


def digest_of(data: bytes) -> str:
    """SHA-256 in hex."""
    return hashlib.sha256(data).hexdigest()


def stored_bytes(hub: LyingHub, sha256: str) -> bytes:
    """The bytes of an attachment as the hub has them."""
    return base64.b64decode(hub.files[sha256]["data"])


def everything(hub: LyingHub) -> str:
    """All that the hub knows, as text."""
    known = (hub.messages, hub.statuses, hub.files, hub.epochs, hub.wraps, hub.entries, hub.channel)
    return msgspec.json.encode(known).decode()


__all__ = [
    "AT",
    "CHANNEL",
    "PEOPLE",
    "TEAM",
    "LyingHub",
    "Refused",
    "digest_of",
    "everything",
    "statements",
    "stored_bytes",
]
