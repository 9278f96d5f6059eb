"""What members sign and seal, asked of a relay from outside: it takes what is right, refuses what was moved,
changed or signed by another, and what it says itself can be checked with its own key."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from ekiden.crypto import directory, epochs, sealing, statements, tickets, verify
from ekiden.crypto.keys import MemberKeys, PublicKeys, read, sign, signed_by
from ekiden.kernel.ids import Prefix, new_id
from ekiden.testing.relay.checks import Agent, Checks, Kit, done, hold
from ekiden.testing.relay.door import Answer, channel_path

CHECKS = Checks()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(slots=True)
class _Member:
    """An agent with a member key in the directory."""

    agent: Agent
    keys: MemberKeys
    team: str

    @property
    def pair(self) -> tuple[str, PublicKeys]:
        return self.agent.principal_id, self.keys.public

    def link(self) -> statements.Link:
        return statements.Link(self.keys.member_key_id, _now())

    def signed(self, stated: bytes, link: statements.Link) -> dict[str, str]:
        return {"signer": link.signer, "signature": sign(self.keys.sign_seed, stated), "at": link.at}

    def message(self, channel_id: str, text: str, *, thread: str = "") -> dict[str, Any]:
        """The body of a signed post."""
        link, message_id = self.link(), new_id(Prefix.MESSAGE)
        stated = statements.message(
            team=self.team,
            channel=channel_id,
            thread=thread,
            message=message_id,
            sender=self.agent.principal_id,
            content=statements.message_content(text=text),
            link=link,
        )
        return {
            "message_id": message_id,
            "text": text,
            "thread_id": thread,
            "signature": self.signed(stated, link),
        }

    def sealed(self, channel_id: str, text: str, key: bytes, epoch: int) -> dict[str, Any]:
        """The body of a sealed and signed post."""
        link, message_id = self.link(), new_id(Prefix.MESSAGE)
        sender = self.agent.principal_id
        place = sealing.Place(self.team, channel_id, "", sender, message_id, epoch)
        sealed = sealing.seal(key, place, {"text": text, "title": "", "attachments": []})
        stated = statements.message(
            team=self.team,
            channel=channel_id,
            thread="",
            message=message_id,
            sender=sender,
            content=statements.message_content(sealed=sealed),
            link=link,
        )
        body = {"epoch": epoch, "nonce": sealed.nonce, "data": sealed.data, "v": sealed.v}
        return {"message_id": message_id, "sealed": body, "signature": self.signed(stated, link)}


def _member(kit: Kit, part: str, *channels: str) -> _Member:
    agent = kit.agent(part, *channels)
    keys, team = MemberKeys.new(), done(agent.door.get("/v1/me"))["team_id"]
    entry = directory.add_entry(keys, team=team, principal=agent.principal_id, label="kit", at=_now())
    done(agent.door.post("/v1/directory", msgspec.to_builtins(entry)))
    return _Member(agent, keys, team)


def _hub_key(kit: Kit) -> bytes:
    return read(done(kit.owner.get("/v1/hub-key"))["public_key"])


def _id_of(kit: Kit, name: str) -> str:
    return done(kit.owner.get(channel_path(name)))["channel_id"]


@CHECKS.add
def a_signed_message_is_stored_as_it_was_signed(kit: Kit) -> None:
    """A message that its sender signed is taken, comes back to others with a signature that holds, and has the
    relay's own word beside it for where it stands."""
    name = kit.channel(signed=True)
    anna = _member(kit, "anna", name)
    other = kit.agent("other", name)
    channel_id = _id_of(kit, name)
    body = anna.message(channel_id, "signed \u20ac \U0001f9ed")
    done(anna.agent.door.post(channel_path(name, "messages"), body))
    told = kit.messages(name, other.door)[0]
    link = statements.Link(told["signature"]["signer"], told["signature"]["at"])
    stated = statements.message(
        team=anna.team,
        channel=channel_id,
        thread="",
        message=told["message_id"],
        sender=told["sender_id"],
        content=statements.message_content(text=told["text"]),
        link=link,
    )
    hold(signed_by(anna.keys.public.sign, told["signature"]["signature"], stated), "the signature does not hold")
    mark = told["countersign"]
    word = statements.countersign_message(
        team=anna.team,
        channel=channel_id,
        message=told["message_id"],
        statement_digest=statements.digest(stated),
        seq=mark["seq"],
        number=told["number"],
        at=mark["at"],
    )
    hold(signed_by(_hub_key(kit), mark["signature"], word), "the relay's own word does not hold")


@CHECKS.add
def what_was_moved_changed_or_signed_by_another_is_refused(kit: Kit) -> None:
    """A statement of another channel, thread or text, by another's key or by none that is known, or with a letter
    changed: refused, and nothing is stored. In a signed channel what is unsigned is refused as well."""
    name, other = kit.channel(signed=True), kit.channel("b", signed=True)
    anna, ben = _member(kit, "anna", name, other), _member(kit, "ben", name, other)
    channel_id, elsewhere = _id_of(kit, name), _id_of(kit, other)
    good = anna.message(channel_id, "good")
    stranger = _Member(anna.agent, MemberKeys.new(), anna.team)
    letters = good["signature"]["signature"]
    wrong: tuple[dict[str, Any], ...] = (
        {**good, "text": "better"},
        {**good, "title": "put on top"},
        {**good, "message_id": new_id(Prefix.MESSAGE)},
        {
            **good,
            "signature": {**good["signature"], "signature": ("B" if letters[0] == "A" else "A") + letters[1:]},
        },
        {**good, "signature": {**good["signature"], "signature": ""}},
        {**good, "signature": {**good["signature"], "at": "2001-01-01T00:00:00.000Z"}},
        anna.message(elsewhere, "moved"),
        stranger.message(channel_id, "a key that nobody knows"),
        {**ben.message(channel_id, "as ben")},
        {"text": "unsigned"},
    )
    for body in wrong:
        answer = anna.agent.door.post(channel_path(name, "messages"), body)
        hold(400 <= answer.status < 500, f"{body} was answered with {answer.status}")
    hold(kit.messages(name) == [], "something was stored")
    done(anna.agent.door.post(channel_path(name, "messages"), good))


@CHECKS.add
def nobody_puts_a_key_under_anothers_name(kit: Kit) -> None:
    """A member key is added by its own principal, signed by itself, once; the directory can be checked from its
    first entry on with the relay's key."""
    name = kit.channel()
    anna, ben = _member(kit, "anna", name), kit.agent("ben", name)
    keys = MemberKeys.new()

    def put(entry: directory.NewEntry) -> Answer:
        return ben.door.post("/v1/directory", msgspec.to_builtins(entry))

    foreign = directory.add_entry(keys, team=anna.team, principal=anna.agent.principal_id, label="kit", at=_now())
    own = directory.add_entry(keys, team=anna.team, principal=ben.principal_id, label="kit", at=_now())
    elsewhere = directory.add_entry(
        keys, team="tem_00000000000000000000", principal=ben.principal_id, label="kit", at=_now()
    )
    for entry in (foreign, msgspec.structs.replace(own, label="another"), elsewhere):
        answer = put(entry)
        hold(400 <= answer.status < 500, f"{entry} was answered with {answer.status}")
    done(put(own))
    hold(not put(own).ok, "one key was added twice")
    known = directory.Directory(anna.team, _hub_key(kit))
    after = ""
    while True:
        page = done(kit.owner.get("/v1/directory", limit=50, after=after)).body
        known.take(msgspec.convert(page["entries"], list[directory.Entry]))
        after = page.get("next", "")
        if not after:
            break
    hold(
        [one.member_key_id for one in _keys(known, ben.principal_id)] == [keys.member_key_id], "not as it was put"
    )


def _keys(known: directory.Directory, principal_id: str) -> list[PublicKeys]:
    return [one.public for one in known.of(principal_id)]


@CHECKS.add
def members_read_what_the_relay_cannot(kit: Kit) -> None:
    """A sealed text comes back letter by letter and opens with the key that was wrapped to each member; pages and
    streams hold nothing of it; it cannot be moved to another place; who left gets no key from then on."""
    name = kit.channel(encrypted=True)
    anna, ben = _member(kit, "anna", name), _member(kit, "ben", name)
    done(kit.owner.delete(channel_path(name, "members", "me")))
    channel_id = _id_of(kit, name)
    first = _open_epoch(anna, name, channel_id, 1, "", (anna, ben))
    word = f"hidden{kit.word}"
    body = anna.sealed(channel_id, word, first, 1)
    with ben.agent.door.follow(f"channel:{name}") as stream:
        done(anna.agent.door.post(channel_path(name, "messages"), body))
        frame = stream.next("message.posted")
        hold(
            frame is not None and frame["body"]["sealed"]["data"] == body["sealed"]["data"], "not letter by letter"
        )
        hold(word not in str(frame), "the stream tells the text")
    told = kit.messages(name, ben.agent.door)[0]
    hold((told["sealed"]["nonce"], told.get("text", "")) == (body["sealed"]["nonce"], ""), "not as it was sealed")
    view = msgspec.convert(done(ben.agent.door.get(channel_path(name, "epochs"))).body, epochs.Epochs).epochs[0]
    hold(
        [wrap.member_key for wrap in view.wraps] == [ben.keys.member_key_id], "ben is shown others' wraps, or none"
    )
    key = epochs.unwrap(ben.keys, view.wraps[0].wrapped, team=ben.team, epoch=view.epoch)
    hold(key == first, "another key was wrapped")
    place = sealing.Place(ben.team, channel_id, "", told["sender_id"], told["message_id"], 1)
    opened = sealing.open_sealed(key, place, told["sealed"]["nonce"], told["sealed"]["data"])
    hold(opened["text"] == word, "it opens to another text")
    moved = {**body, "message_id": new_id(Prefix.MESSAGE)}
    hold(400 <= anna.agent.door.post(channel_path(name, "messages"), moved).status < 500, "a moved one was taken")
    done(kit.owner.delete(channel_path(name, "members", ben.agent.principal_id)))
    late = anna.agent.door.post(channel_path(name, "messages"), anna.sealed(channel_id, "late", first, 1))
    hold(late.status == 409, f"under the old key: answered with {late.status}")
    previous = view.epoch.digest(anna.team)
    second = _open_epoch(anna, name, channel_id, 2, previous, (anna,))
    done(anna.agent.door.post(channel_path(name, "messages"), anna.sealed(channel_id, "without ben", second, 2)))
    left = ben.agent.door.get(channel_path(name, "epochs"))
    seen = msgspec.convert(left.body, epochs.Epochs).epochs if left.ok else ()
    hold(all(wrap.epoch == 1 for one in seen for wrap in one.wraps), "who left is shown the next key")


def _open_epoch(
    opener: _Member, name: str, channel_id: str, number: int, previous: str, members: tuple[_Member, ...]
) -> bytes:
    key = epochs.new_key()
    new = epochs.open_epoch(
        opener.keys,
        key,
        team=opener.team,
        channel=channel_id,
        epoch=number,
        members=[member.pair for member in members],
        previous=previous,
        at=_now(),
    )
    done(opener.agent.door.post(channel_path(name, "epochs"), msgspec.to_builtins(new)))
    return key


@CHECKS.add
def a_ticket_is_checked_without_the_relay(kit: Kit) -> None:
    """Who takes a lease gets a ticket that holds with the relay's key alone, for that lease and fence; others are
    not shown it."""
    name = kit.channel()
    agent, other = kit.agent("deployer", name), kit.agent("other", name)
    lease = done(agent.door.put(channel_path(name, "leases", "deploy"), {"lease_s": 60})).body
    ticket = tickets.check(lease["ticket"], _hub_key(kit), now=_now(), name="deploy", at_least=lease["fence"])
    hold(ticket.holder == agent.principal_id, f"the ticket names {ticket.holder}")
    for door in (other.door, kit.owner):
        shown = done(door.get(channel_path(name, "leases"))).body
        hold(lease["ticket"] not in str(shown), "another is shown the ticket")
    try:
        tickets.check(lease["ticket"], _hub_key(kit), now=_now(), name="deploy", at_least=lease["fence"] + 1)
    except tickets.TicketRefused:
        return
    hold(False, "a holder that was overtaken is let in")


@CHECKS.add
def what_is_exported_can_be_checked_without_the_relay(kit: Kit) -> None:
    """All pages of a channel's export verify; with one letter of a signed text changed they do not."""
    name = kit.channel()
    anna = _member(kit, "anna", name)
    channel_id = _id_of(kit, name)
    word = f"exported{kit.word}"
    for text in ("one", word, "three"):
        done(anna.agent.door.post(channel_path(name, "messages"), anna.message(channel_id, text)))
    done(kit.owner.post(channel_path(name, "messages"), {"text": "unsigned"}))
    done(anna.agent.door.put(channel_path(name, "status", "tests"), {"value": "green"}))
    pages: list[bytes] = []
    after = ""
    while True:
        page = done(anna.agent.door.get(channel_path(name, "export"), after=after)).body
        pages.append(msgspec.json.encode(page))
        after = page.get("next", "")
        if not after:
            break
    hub_key = done(kit.owner.get("/v1/hub-key"))["public_key"]
    report = verify.verify(pages, hub_key=hub_key)
    hold(report.good, f"it does not verify: {report.findings}")
    hold((report.messages, report.signed) == (4, 3), f"{report.signed} of {report.messages} are signed")
    changed = [page.replace(word.encode(), word.upper().encode()) for page in pages]
    hold(changed != pages, "the text is not in the export")
    hold(not verify.verify(changed, hub_key=hub_key).good, "a changed text verifies")
