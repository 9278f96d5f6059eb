"""Makes `vectors.json`: what Python and the page must agree on, from known seeds.

    python tests/crypto/make_vectors.py

Everything is the same in each run but the wraps of HPKE, whose sender's key is random: they are kept as they are.
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec

from crypto.people import ANNA, BEN, CHANNEL, HUB_SEED, TEAM, known_random
from ekiden.crypto import chain, directory, epochs, invites, keys, sealing, statements, tickets
from ekiden.crypto.exported import Attachment, Sealed
from ekiden.crypto.invites import Invite
from ekiden.crypto.keys import MemberKeys
from ekiden.crypto.sealing import Place
from ekiden.crypto.statements import Link
from ekiden.crypto.tickets import Ticket
from ekiden.kernel import canonical

PLACE = Path(__file__).with_name("vectors.json")
AT = "2030-01-01T00:00:00.000Z"
EPOCH_KEY = known_random("epoch key")(32)


def plain(value: object) -> Any:
    """As JSON values."""
    return msgspec.json.decode(msgspec.json.encode(value))


def build() -> dict[str, Any]:
    """All vectors but the wraps."""
    return {
        "canonical": canonical_vectors(),
        "members": [member_vector("pri_anna", ANNA), member_vector("pri_ben", BEN)],
        "hub": {"seed": keys.spell(HUB_SEED), "public": keys.spell(keys.signing_public(HUB_SEED))},
        "compare": {"members": [0, 1], "code": keys.compare_code(ANNA.public, BEN.public)},
        "contents": content_vectors(),
        "statements": statement_vectors(),
        "sealed": sealed_vectors(),
        "file": file_vector(),
        "epoch": epoch_vector(),
        "directory": directory_vectors(),
        "invite": invite_vector(),
        "ticket": {"ticket": plain(TICKET), "text": tickets.issue(HUB_SEED, TICKET)},
        "log": log_vectors(),
    }


def canonical_vectors() -> list[dict[str, Any]]:
    """Values and their bytes as text."""
    values: list[Any] = [
        {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7},
        {"b": [True, False, None], "a": {"d": "", "c": []}, "": {}},
        '\u0000\u0008\t\n\u000c\r\u001f\u007f\u2028"\\/<\u20ac\U0001f600',
        [0, -0.0, 1.0, -1, 0.5, 4.50, 2e-3, 1e-6, 1e-7, 123456.789, 9007199254740991, 333333333.33333329, 5e-324],
    ]
    return [{"value": value, "text": canonical.exact(value).decode()} for value in values]


def member_vector(principal: str, member: MemberKeys) -> dict[str, Any]:
    """A member's seeds, public keys and id."""
    return {
        "principal": principal,
        "sign_seed": keys.spell(member.sign_seed),
        "wrap_seed": keys.spell(member.wrap_seed),
        "sign": keys.spell(member.public.sign),
        "wrap": keys.spell(member.public.wrap),
        "member_key": member.member_key_id,
        "fingerprint": member.public.fingerprint,
    }


def content_vectors() -> list[dict[str, Any]]:
    """What a message or a status says, and its digest."""
    attachment = Attachment("ab" * 32, 17, "a.txt", "text/plain")
    message: dict[str, Any] = {
        "text": "Hi @ben \u20ac",
        "answers": "msg_0",
        "asks": "answer",
        "mentions": ["ben", "role:reviewer"],
        "title": "T",
        "attachments": [plain(attachment)],
    }
    sealed = Sealed(3, "AAAAAAAAAAAAAAAA", "AAAA")
    return [
        {
            "message": message,
            "digest": statements.message_content(**{**message, "attachments": [attachment]}),
        },
        {"message": {"sealed": plain(sealed)}, "digest": statements.message_content(sealed=sealed)},
        {
            "status": {"value": {"ok": True, "share": 0.5}, "commit": "abc", "run": "7", "link": ""},
            "digest": statements.status_content(value={"ok": True, "share": 0.5}, commit="abc", run="7"),
        },
    ]


def statement_vectors() -> list[dict[str, Any]]:
    """Fields, the bytes that are signed (as text), their digest, and Anna's signature."""
    link = Link(ANNA.member_key_id, AT, "main", 2, "cd" * 32)
    where: dict[str, Any] = {"team": TEAM, "channel": CHANNEL}
    said: dict[str, Any] = {**where, "message": "msg_1", "sender": "pri_anna"}
    fields: dict[str, dict[str, Any]] = {
        "message": {**said, "thread": "msg_0", "content": "ef" * 32},
        "edit": {**said, "thread": "", "content": "ef" * 32, "replaces": "12" * 32},
        "delete": {**said, "replaces": "12" * 32},
        "status": {**where, "key": "tests.main", "sender": "pri_anna", "content": "ef" * 32},
        "status_clear": {**where, "key": "tests.main", "sender": "pri_anna"},
        "lease": {**where, "name": "deploy", "sender": "pri_anna", "lease_s": 60, "fence": 0, "note": "\u00fc"},
        "countersign_message": {
            **where,
            "message": "msg_1",
            "statement_digest": "34" * 32,
            "seq": 9,
            "number": 4,
            "at": AT,
        },
        "countersign_status": {
            **where,
            "key": "tests.main",
            "version": 2,
            "statement_digest": "",
            "seq": 9,
            "at": AT,
        },
        "purge": {
            **where,
            "first": 1,
            "last": 5,
            "messages": 5,
            "digest": "56" * 32,
            "at": AT,
            "by": "pri_anna",
        },
    }
    made: list[dict[str, Any]] = []
    for kind, given in fields.items():
        linked = {"link": link} if "sender" in given else {}
        stated: bytes = getattr(statements, kind)(**given, **linked)
        made.append(
            {
                "kind": kind,
                "fields": {**given, **({"link": link.fields()} if linked else {})},
                "text": stated.decode(),
                "digest": statements.digest(stated),
                "signature": keys.sign(ANNA.sign_seed, stated),
            }
        )
    return made


def sealed_vectors() -> list[dict[str, Any]]:
    """Sealed texts of several sizes."""
    made: list[dict[str, Any]] = []
    for size in (0, 229, 230, 5_000, 40_000):
        place = Place(TEAM, CHANNEL, "msg_0", "pri_anna", "msg_1", 3)
        text = "x" * size
        sealed = sealing.seal(EPOCH_KEY, place, {"text": text}, known_random(f"nonce {size}"))
        made.append(
            {
                "key": keys.spell(EPOCH_KEY),
                "place": {name: getattr(place, name) for name in Place.__slots__},
                "content": {"text": text} if size < 1_000 else {"text_of_x": size},
                "nonce": sealed.nonce,
                "data": sealed.data if size < 1_000 else "",
                "sha256": statements.digest(keys.read(sealed.data)),
                "bytes": len(keys.read(sealed.data)),
            }
        )
    return made


def file_vector() -> dict[str, Any]:
    """A sealed attachment."""
    sealed = sealing.seal_file(b"bytes of a file", team=TEAM, channel=CHANNEL, random=known_random("file"))
    return {
        "team": TEAM,
        "channel": CHANNEL,
        "plain": "bytes of a file",
        "data": keys.spell(sealed.data),
        "key": sealed.key,
    }


def epoch_vector() -> dict[str, Any]:
    """An epoch's statement, signed by Anna."""
    epoch = epochs.Epoch(
        CHANNEL,
        3,
        (("pri_anna", ANNA.member_key_id), ("pri_ben", BEN.member_key_id)),
        epochs.commitment(EPOCH_KEY),
        "78" * 32,
        AT,
        ANNA.member_key_id,
    )
    stated = epoch.statement(TEAM)
    return {
        "epoch": plain(msgspec.structs.replace(epoch, signature=keys.sign(ANNA.sign_seed, stated))),
        "text": stated.decode(),
        "digest": epoch.digest(TEAM),
        "key": keys.spell(EPOCH_KEY),
    }


def wrap_vectors() -> list[dict[str, Any]]:
    """The epoch's key wrapped to each member: other bytes each time they are made."""
    members = [("pri_anna", ANNA.public), ("pri_ben", BEN.public)]
    wraps = epochs.wrap_all(ANNA, EPOCH_KEY, team=TEAM, channel=CHANNEL, epoch=3, members=members, at=AT)
    return [{"wrap": plain(wrap), "text": wrap.statement(TEAM, CHANNEL).decode()} for wrap in wraps]


def directory_vectors() -> dict[str, Any]:
    """Entries of all kinds, placed by the hub."""
    read = directory.Directory(TEAM, keys.signing_public(HUB_SEED))
    phone = MemberKeys.new(known_random("anna's phone"))
    entries: list[Any] = []
    for entry in (
        directory.add_entry(ANNA, team=TEAM, principal="pri_anna", label="desk", at=AT),
        directory.add_entry(
            BEN, team=TEAM, principal="pri_ben", label="", at=AT, invite="inv_1", proof=invite_vector()["proof"]
        ),
        directory.add_entry(phone, team=TEAM, principal="pri_anna", label="phone", at=AT),
        directory.vouch_entry(ANNA, phone.public, team=TEAM, principal="pri_anna", at=AT),
        directory.end_entry(phone, ANNA.member_key_id, team=TEAM, principal="pri_anna", at=AT),
    ):
        placed = directory.placed(
            HUB_SEED, entry, team=TEAM, position=read.position + 1, previous=read.head, at=AT, name="a name"
        )
        read.take([placed])
        entries.append({"entry": plain(placed), "text": entry.statement(TEAM).decode(), "hash": read.head})
    judged = directory.judge(read, "pri_anna", {ANNA.member_key_id: directory.Trust.FIRST})
    return {
        "team": TEAM,
        "entries": entries,
        "judged": {
            "principal": "pri_anna",
            "pinned": {ANNA.member_key_id: "first"},
            "trust": {name: str(trust) for name, trust in judged.items()},
        },
    }


def invite_vector() -> dict[str, Any]:
    """An invite string, the digest that the hub keeps, and the guest's proof."""
    invite = Invite(
        "https://hub.example:8443",
        TEAM,
        "inv_1",
        invites.new_code(known_random("code")),
        invites.new_invite_secret(known_random("secret")),
        "pri_anna",
        "Anna \u00c4.",
        keys.spell(ANNA.public.sign),
        keys.spell(ANNA.public.wrap),
        keys.spell(keys.signing_public(HUB_SEED)),
    )
    return {
        "invite": plain(invite),
        "text": invites.spell_invite(invite),
        "code_digest": invites.code_digest(invite.code),
        "guest": {"principal": "pri_ben", "member": 1},
        "proof": invites.proof(invite.secret, team=TEAM, invite="inv_1", principal="pri_ben", public=BEN.public),
    }


TICKET = Ticket(TEAM, CHANNEL, "build", "deploy", 7, "pri_anna", "anna", AT, "2030-01-01T00:10:00.000Z")


def log_vectors() -> dict[str, Any]:
    """Leaves and links of a chain of two events."""
    value = chain.GENESIS
    events: list[dict[str, Any]] = [
        {"seq": 1, "kind": "message.posted", "topics": ["channel:build"], "at": AT, "actor": "pri_anna"},
        {"seq": 2, "kind": "status.changed", "topics": ["channel:build", "x"], "at": AT, "actor": "pri_ben"},
    ]
    made: list[dict[str, Any]] = []
    for event in events:
        body = b'{"text":"hi"}'
        leaf = chain.leaf(**event, body=body)
        value = chain.link(value, leaf)
        made.append({**event, "body": body.decode(), "leaf": leaf.hex(), "hash": value.hex()})
    checkpoint = chain.signed_checkpoint(HUB_SEED, team=TEAM, seq=2, value=value, at=AT)
    return {"genesis": chain.GENESIS.hex(), "events": made, "checkpoint": plain(checkpoint)}


if __name__ == "__main__":
    held = json.loads(PLACE.read_text()) if PLACE.exists() else {}
    whole = {**build(), "wraps": held.get("wraps") or wrap_vectors()}
    PLACE.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
