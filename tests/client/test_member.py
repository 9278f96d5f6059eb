"""A member over a hub that keeps to the door, and one that lies."""

import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from client.lying_hub import AT, CHANNEL, PEOPLE, TEAM, LyingHub, Refused, everything, stored_bytes
from ekiden.client.identity import load_identity, own_identity
from ekiden.client.links import Links
from ekiden.client.member import Member, Proof
from ekiden.client.own_files import write_own
from ekiden.client.pins import ChannelChanged, EpochWentBack, HubKeyChanged
from ekiden.crypto import directory, invites, keys
from ekiden.crypto.directory import DirectoryBroken, KeyNotTrusted, Trust
from ekiden.crypto.invites import Invite
from ekiden.crypto.keys import MemberKeys
from ekiden.crypto.sealing import SealBroken
from ekiden.kernel.errors import EkidenError, Invalid, Unavailable
from ekiden.relay.wire import Attachment, Edit, Message, Post
from ekiden.relay.wire_state import Evidence, SetStatus, Status

pytestmark = pytest.mark.anyio

SECRET = "the harbour opens at nine"
Join = Callable[..., Member]


@pytest.fixture
async def join(tmp_path: Path) -> AsyncIterator[Join]:
    """Makes a member of a hub, with a data folder for each computer; all are closed at the end."""
    async with AsyncExitStack() as stack:
        made: list[Member] = []

        def one(hub: LyingHub, name: str, *, computer: str = "", **more: Any) -> Member:
            member = Member(hub.client(name), tmp_path / (computer or name), label=computer or name, **more)
            made.append(member)
            return member

        yield one
        for member in made:
            stack.push_async_callback(member.close)


def as_message(stored: dict[str, Any]) -> Message:
    return msgspec.convert(stored, Message)


def messages(hub: LyingHub) -> list[Message]:
    return [as_message(stored) for stored in hub.messages]


# --- signing


async def test_what_is_said_is_signed_and_the_others_see_by_whom(join: Join) -> None:
    hub = LyingHub()
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await anna.post("build", Post(text="hello @ben", mentions=("ben",), title="T"))
    [message] = messages(hub)
    opened = await ben.open("build", message)
    assert (opened.text, opened.title, opened.proof) == ("hello @ben", "T", Proof.VERIFIED)


@pytest.mark.parametrize(
    "change",
    [
        {"text": "bye"},
        {"title": "x"},
        {"answers": "msg_x"},
        {"asks": "ack"},
        {"thread_id": "msg_x"},
        {"message_id": "msg_x"},
        {"channel_id": "cha_x"},
        {"named": ["ben"]},
        {"attachments": [{"sha256": "00", "size": 1}]},
        {"sender_id": PEOPLE["ben"]},
        {"edits": 1},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_a_hub_that_changes_what_was_said_is_seen_through(join: Join, change: dict[str, Any]) -> None:
    hub = LyingHub()
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()
    await anna.post("build", Post(text="hello"))
    hub.messages[0].update(change)
    [message] = messages(hub)
    assert (await ben.open("build", message)).proof is Proof.BAD


async def test_unsigned_is_said_to_be_unsigned(join: Join) -> None:
    hub = LyingHub()
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await anna.post("build", Post(text="hello"))
    del hub.messages[0]["signature"]
    assert (await ben.open("build", messages(hub)[0])).proof is Proof.UNSIGNED


async def test_an_edit_is_signed_and_says_what_it_replaces(join: Join) -> None:
    hub = LyingHub()
    anna, ben = join(hub, "anna"), join(hub, "ben")
    posted = await anna.post("build", Post(text="helo", answers="msg_0"))
    first = messages(hub)[0]
    await anna.edit("build", posted.message.message_id, Edit(text="hello"))
    [message] = messages(hub)
    opened = await ben.open("build", message)
    assert (opened.text, opened.proof) == ("hello", Proof.VERIFIED)
    assert message.signature is not None
    assert message.signature.replaces
    assert message.signature.link == 2
    old = msgspec.structs.replace(message, text="helo", signature=first.signature)
    assert (await ben.open("build", old)).proof is Proof.BAD


async def test_status_is_signed_with_its_evidence(join: Join) -> None:
    hub = LyingHub()
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await anna.set_status("build", "tests.main", SetStatus(value={"ok": True}, evidence=Evidence(commit="abc")))
    held = msgspec.convert(hub.statuses["tests.main"], Status)
    assert (await ben.open_status("build", held)).proof is Proof.VERIFIED
    for change in ({"value": 1}, {"key": "tests.x"}, {"by_id": PEOPLE["ben"]}, {"evidence": None}):
        changed = msgspec.structs.replace(held, **change)
        assert (await ben.open_status("build", changed)).proof is Proof.BAD, change


# --- chains


async def test_statements_follow_one_another_also_over_several_runs(join: Join) -> None:
    hub = LyingHub()
    for text in ("one", "two"):
        member = join(hub, "anna")
        await member.post("build", Post(text=text))
        await member.close()
    one, two = (message.signature for message in messages(hub))
    assert one is not None
    assert two is not None
    assert (one.link, two.link, one.chain) == (1, 2, two.chain)
    assert two.previous


async def test_a_refused_statement_leaves_no_gap_and_a_lost_answer_begins_anew(join: Join) -> None:
    hub = LyingHub()
    anna = join(hub, "anna")
    await anna.post("build", Post(text="one"))

    def refuse(method: str, path: str) -> None:
        if method == "POST" and path.endswith("/messages"):
            raise Refused(422, "invalid")

    hub.before = refuse
    with pytest.raises(Invalid):
        await anna.post("build", Post(text="refused"))
    hub.before = lambda method, path: None
    await anna.post("build", Post(text="two"))

    def lose(method: str, path: str) -> None:
        if method == "POST" and path.endswith("/messages"):
            raise Refused(503, "unavailable")

    hub.before = lose
    with pytest.raises(Unavailable):
        await anna.post("build", Post(text="lost"))
    hub.before = lambda method, path: None
    await anna.post("build", Post(text="three"))
    one, two, three = (message.signature for message in messages(hub))
    assert one is not None
    assert two is not None
    assert three is not None
    assert (one.chain, one.link, two.link) == (two.chain, 1, 2)
    assert (three.chain != two.chain, three.link, three.previous) == (True, 1, "")


async def test_two_programs_of_one_member_have_a_chain_each(tmp_path: Path) -> None:
    with Links(tmp_path, "mky_x") as one, Links(tmp_path, "mky_x") as other:
        assert one.next("c", AT).chain != other.next("c", AT).chain


async def test_a_program_that_died_while_sending_begins_a_new_chain(tmp_path: Path) -> None:
    with Links(tmp_path, "mky_x") as links:
        first = links.next("c", AT)
        links.said("c", "d1")
        links.next("c", AT)
    with Links(tmp_path, "mky_x") as links:
        after = links.next("c", AT)
        assert (after.chain != first.chain, after.link) == (True, 1)
    (tmp_path / "chains" / "0.json").write_bytes(b'{"c":{"chain":')
    with Links(tmp_path, "mky_x") as links:
        assert (links.next("c", AT).chain != after.chain, links.next("c", AT).link) == (True, 1)


# --- encryption


async def test_the_hub_learns_nothing_of_what_is_said_in_an_encrypted_channel(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()
    file = await anna.attach("build", "plan of the harbour.txt", SECRET.encode(), "text/plain")
    await anna.post("build", Post(text=f"{SECRET} @ben", title=f"about {SECRET}", attachments=(file,)))
    await anna.set_status("build", "opens", SetStatus(value=SECRET))
    known = everything(hub)
    assert SECRET not in known
    assert "plan of the harbour" not in known
    assert SECRET.encode() not in stored_bytes(hub, file.sha256)

    [message] = messages(hub)
    assert message.named == ("ben",)
    opened = await ben.open("build", message)
    assert (opened.text, opened.title, opened.proof) == (
        f"{SECRET} @ben",
        f"about {SECRET}",
        Proof.VERIFIED,
    )
    assert opened.attachments == (Attachment(file.sha256, file.size, "plan of the harbour.txt", "text/plain"),)
    got = await ben.detach("build", file.sha256, message)
    assert (got.data, got.media_type) == (SECRET.encode(), "text/plain")
    held = msgspec.convert(hub.statuses["opens"], Status)
    status = await ben.open_status("build", held)
    assert (status.value, status.proof) == (SECRET, Proof.VERIFIED)


async def test_an_edit_of_a_sealed_text_keeps_its_title_and_attachments(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()
    file = await anna.attach("build", "a.txt", b"a", "text/plain")
    posted = await anna.post("build", Post(text="one", title="T", attachments=(file,)))
    await anna.edit("build", posted.message.message_id, Edit(text="two"))
    opened = await ben.open("build", messages(hub)[0])
    assert (opened.text, opened.title, opened.proof) == ("two", "T", Proof.VERIFIED)
    assert [one.name for one in opened.attachments] == ["a.txt"]


async def test_a_sealed_text_that_the_hub_moves_does_not_open(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()
    await anna.post("build", Post(text="one"))
    await anna.post("build", Post(text="two"))
    hub.messages[0]["sealed"], hub.messages[1]["sealed"] = hub.messages[1]["sealed"], hub.messages[0]["sealed"]
    for message in messages(hub):
        opened = await ben.open("build", message)
        assert (opened.text, opened.proof) == ("", Proof.BAD)
        assert opened.note


async def test_plain_text_in_an_encrypted_channel_is_not_believed(join: Join) -> None:
    hub = LyingHub()
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await anna.post("build", Post(text="from before"))
    hub.channel["encrypted"] = True
    opened = await ben.open("build", messages(hub)[0])
    assert (opened.text, opened.proof) == ("", Proof.BAD)


@pytest.mark.parametrize("lie", [{"encrypted": False}, {"channel_id": "cha_other"}, {"name": "other"}], ids=str)
async def test_a_hub_that_shows_an_encrypted_channel_as_another_is_told_nothing(
    join: Join, lie: dict[str, Any]
) -> None:
    hub = LyingHub(encrypted=True)
    anna = join(hub, "anna")
    await anna.post("build", Post(text="one"))
    await anna.close()
    hub.channel.update(lie)
    again = join(hub, "anna")
    with pytest.raises(ChannelChanged):
        await again.post("build", Post(text=SECRET))
    with pytest.raises(ChannelChanged):
        await again.set_status("build", "key", SetStatus(value=SECRET))
    with pytest.raises(ChannelChanged):
        await again.attach("build", "a.txt", SECRET.encode(), "text/plain")
    assert SECRET not in everything(hub)
    assert len(hub.messages) == 1


async def test_who_leaves_cannot_read_on_and_who_comes_is_given_the_key(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna, ben, dan = join(hub, "anna"), join(hub, "ben"), join(hub, "dan")
    await ben.meet()
    await anna.post("build", Post(text="all of us"))
    hub.members, hub.stale = ["anna", "dan"], True
    await dan.meet()
    await anna.post("build", Post(text="without ben"))
    one, two = messages(hub)
    assert (await ben.open("build", one)).text == "all of us"
    lost = await ben.open("build", two)
    assert (lost.text, bool(lost.note)) == ("", True)
    assert (await dan.open("build", two)).text == "without ben"
    assert (await dan.open("build", one)).text == ""

    hub.members.append("ben")
    await anna.post("build", Post(text="ben is back"))
    assert [wrap.principal_id for wrap in hub.wraps if wrap.epoch == 2][-1] == PEOPLE["ben"]
    assert (await ben.open("build", messages(hub)[2])).text == "ben is back"


async def test_who_comes_and_speaks_before_anybody_handed_over_the_key_opens_an_epoch(join: Join) -> None:
    hub = LyingHub(encrypted=True, members=("anna",))
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await anna.post("build", Post(text="before ben"))
    hub.members.append("ben")
    await ben.post("build", Post(text="here I am"))
    before, after = messages(hub)
    assert (await anna.open("build", after)).text == "here I am"
    assert (await ben.open("build", before)).text == ""


@pytest.mark.parametrize("code", ["stale_epoch", "epoch_incomplete"])
async def test_who_is_too_slow_with_a_new_epoch_reads_again(join: Join, code: str) -> None:
    hub = LyingHub(encrypted=True)
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()

    def refuse_once(method: str, path: str) -> None:
        if method == "POST" and path.endswith("/epochs"):
            hub.before = lambda method, path: None
            raise Refused(409, code)

    hub.before = refuse_once
    await anna.post("build", Post(text="in the end"))
    assert (await ben.open("build", messages(hub)[0])).text == "in the end"


async def test_a_key_that_is_vouched_for_later_is_given_the_epochs_key_at_the_next_post(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()
    await anna.post("build", Post(text="one"))
    phone = join(hub, "ben", computer="phone")
    key = (await phone.meet()).keys.member_key_id
    await anna.post("build", Post(text="two"))
    assert key not in {wrap.member_key for wrap in hub.wraps}
    await ben.vouch(key)
    await anna.post("build", Post(text="three"))
    assert (await phone.open("build", messages(hub)[2])).text == "three"
    assert len(hub.epochs) == 1


async def test_a_post_with_an_epoch_that_ended_meanwhile_is_sealed_anew(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()
    await anna.post("build", Post(text="one"))

    def leave(method: str, path: str) -> None:
        if method == "POST" and path.endswith("/messages"):
            hub.stale, hub.before = True, lambda method, path: None

    hub.before = leave
    await anna.post("build", Post(text="two"))
    assert [message.sealed.epoch for message in messages(hub) if message.sealed] == [1, 2]
    assert (await ben.open("build", messages(hub)[1])).text == "two"
    signatures = [message.signature for message in messages(hub)]
    assert [one.link for one in signatures if one] == [1, 2]


async def test_a_post_that_is_sent_again_is_the_same_post(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna = join(hub, "anna")
    post = Post(message_id="msg_0123456789abcdefghjk", text="once")
    first = await anna.post("build", post)
    again = await anna.post("build", post)
    assert len(hub.messages) == 1
    assert first.message.sealed == again.message.sealed


# --- whom to trust


async def test_a_key_that_the_hub_slips_in_is_given_nothing(join: Join) -> None:
    """The hub adds a key of its own for ben, beside the one that was met first."""
    hub = LyingHub(encrypted=True)
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()
    await anna.post("build", Post(text="one"))
    forged = MemberKeys.new()
    hub.place(directory.add_entry(forged, team=TEAM, principal=PEOPLE["ben"], label="forged", at=AT))
    hub.stale = True
    await anna.post("build", Post(text=SECRET))
    assert forged.member_key_id not in {wrap.member_key for wrap in hub.wraps}
    assert any(forged.public.fingerprint in notice for notice in anna.take_notices())
    assert (await ben.open("build", messages(hub)[1])).text == SECRET


async def test_a_replaced_key_stops_the_post_and_says_how_to_accept_it(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()
    await anna.post("build", Post(text="one"))
    old = (await ben.meet()).keys.member_key_id
    hub.place(directory.NewEntry(directory.Act.END, PEOPLE["ben"], old, at=AT))
    fresh = join(hub, "ben", computer="another")
    await fresh.meet()
    hub.stale = True
    with pytest.raises(KeyNotTrusted) as refusal:
        await anna.post("build", Post(text=SECRET))
    new = (await fresh.meet()).keys.member_key_id
    assert refusal.value.details["member_key"] == new
    assert f"ekiden trust ben --accept {new}" in refusal.value.hint
    assert len(hub.messages) == 1

    here = await anna.meet()
    here.pins.accept(new)
    await anna.post("build", Post(text=SECRET))
    assert (await fresh.open("build", messages(hub)[1])).text == SECRET


async def test_a_second_computer_that_is_vouched_for_is_trusted(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()
    await anna.post("build", Post(text="one"))
    phone = join(hub, "ben", computer="phone")
    await phone.meet()
    assert any("vouched" in notice for notice in phone.take_notices())
    await ben.vouch((await phone.meet()).keys.member_key_id)
    await anna.post(
        "build",
        Post(text="two"),
    )
    hub.stale = True
    await anna.post("build", Post(text="three"))
    assert (await phone.open("build", messages(hub)[2])).text == "three"
    await phone.post("build", Post(text="from the phone"))
    assert (await anna.open("build", messages(hub)[3])).proof is Proof.VERIFIED


async def test_a_key_that_nobody_vouches_for_signs_nothing_that_is_believed(join: Join) -> None:
    hub = LyingHub()
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.meet()
    await anna.meet()
    forged = join(hub, "ben", computer="forged")
    await forged.post("build", Post(text="send me the key"))
    assert (await anna.open("build", messages(hub)[0])).proof is Proof.UNKNOWN_KEY


async def test_an_ended_key_keeps_the_weight_of_what_it_signed(join: Join) -> None:
    hub = LyingHub()
    anna, ben = join(hub, "anna"), join(hub, "ben")
    await ben.post("build", Post(text="before"))
    assert (await anna.open("build", messages(hub)[0])).proof is Proof.VERIFIED
    await ben.end_key((await ben.meet()).keys.member_key_id)
    await anna.look_again()
    assert (await anna.open("build", messages(hub)[0])).proof is Proof.VERIFIED


@pytest.mark.parametrize("lie", ["cut", "swapped", "other hub"])
async def test_another_past_than_was_seen_is_refused(join: Join, tmp_path: Path, lie: str) -> None:
    hub = LyingHub()
    anna = join(hub, "anna")
    await join(hub, "ben").meet()
    await anna.meet()
    await anna.close()
    await join(hub, "dan").meet()
    if lie == "cut":
        del hub.entries[1:]
    elif lie == "swapped":
        hub.entries[0], hub.entries[2] = hub.entries[2], hub.entries[0]
    else:
        hub.seed = bytes(32)
    with pytest.raises((DirectoryBroken, HubKeyChanged)):
        await join(hub, "anna").meet()


async def test_an_epoch_does_not_go_back(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna = join(hub, "anna")
    await anna.post("build", Post(text="one"))
    hub.stale = True
    await anna.post("build", Post(text="two"))
    hub.epochs.pop()
    await anna.close()
    with pytest.raises(EpochWentBack):
        await join(hub, "anna").post("build", Post(text=SECRET))


async def test_an_epoch_of_the_hubs_own_is_not_used(join: Join) -> None:
    """The hub opens an epoch whose key it knows, and signs it with a key that nobody has met."""
    from ekiden.crypto import epochs

    hub = LyingHub(encrypted=True)
    anna = join(hub, "anna")
    await anna.meet()
    here = await anna.meet()
    spy = MemberKeys.new()
    hub.epochs.append(
        epochs.open_epoch(
            spy,
            bytes(32),
            team=TEAM,
            channel=CHANNEL,
            epoch=1,
            members=[(PEOPLE["anna"], here.keys.public)],
            previous="",
            at=AT,
        )
    )
    hub.wraps += hub.epochs[0].wraps
    with pytest.raises(SealBroken):
        await anna.post("build", Post(text=SECRET))
    assert hub.messages == []


# --- invites


def invite_of(here: Any, **more: Any) -> Invite:
    return Invite(
        LyingHub.url,
        TEAM,
        "inv_1",
        "code",
        **{
            "secret": invites.new_invite_secret(),
            "principal": here.me.principal_id,
            "name": "anna",
            "sign": keys.spell(here.keys.public.sign),
            "wrap": keys.spell(here.keys.public.wrap),
            "hub_key": here.pins.hub_key,
            **more,
        },
    )


async def test_guest_and_inviter_trust_each_other_by_the_invite(join: Join) -> None:
    """Ben's first key in the directory is the hub's own making; the invite leads past it."""
    hub = LyingHub()
    anna = join(hub, "anna")
    here = await anna.meet()
    invite = invite_of(here)
    here.pins.remember_invite("inv_1", invite.secret)
    forged = MemberKeys.new()
    hub.place(directory.add_entry(forged, team=TEAM, principal=PEOPLE["ben"], label="", at=AT, invite="inv_1"))
    ben = join(hub, "ben", guest_of=invite)
    own = (await ben.meet()).keys.member_key_id
    await anna.look_again()
    assert here.pins.judged(PEOPLE["ben"]) == {forged.member_key_id: Trust.CHANGED, own: Trust.INVITED}
    assert (await ben.meet()).pins.judged(PEOPLE["anna"]) == {here.keys.member_key_id: Trust.INVITED}


async def test_an_invite_names_the_hubs_key(join: Join) -> None:
    hub = LyingHub()
    invite = invite_of(await join(hub, "anna").meet(), hub_key=keys.spell(keys.signing_public(bytes(32))))
    with pytest.raises(HubKeyChanged):
        await join(hub, "ben", guest_of=invite).meet()


# --- files


async def test_a_members_files_are_for_its_owner_only(join: Join, tmp_path: Path) -> None:
    hub = LyingHub(encrypted=True)
    anna = join(hub, "anna")
    await anna.post("build", Post(text="hello"))
    await anna.close()
    found = list((tmp_path / "anna").rglob("*"))
    assert {path.name for path in found if path.is_file()} == {"identity.json", "pins.json", "0.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o700, 0o600}


async def test_keys_that_others_may_read_are_not_used(tmp_path: Path) -> None:
    own_identity(tmp_path)
    (tmp_path / "identity.json").chmod(0o644)
    with pytest.raises(Unavailable):
        load_identity(tmp_path)


async def test_two_that_begin_at_once_have_the_same_keys(tmp_path: Path) -> None:
    assert load_identity(tmp_path) is None
    first = own_identity(tmp_path)
    assert write_own(tmp_path / "identity.json", b"{}", keep=True) is False
    assert own_identity(tmp_path) == first
    assert os.listdir(tmp_path) == ["identity.json"]


async def test_ids_of_a_hub_lead_nowhere_else(join: Join) -> None:
    hub = LyingHub()
    member = join(hub, "anna")

    def run(method: str, path: str, query: Any, body: Any, who: str) -> Any:
        return {"principal_id": "../../escape", "name": "anna", "team_id": TEAM}

    hub._run = run  # type: ignore[method-assign]
    with pytest.raises(Invalid):
        await member.meet()


async def test_reading_plain_and_unsigned_needs_no_keys(join: Join, tmp_path: Path) -> None:
    hub = LyingHub()
    member = join(hub, "anna")
    message = Message("msg_1", CHANNEL, 1, PEOPLE["ben"], "ben", "agent", AT, text="hello")  # type: ignore[arg-type]
    assert (await member.open("build", message)).text == "hello"
    assert not (tmp_path / "anna").exists()
    assert hub.asked == ["GET /v1/channels/build"]


async def test_what_cannot_be_done_is_an_ekiden_error(join: Join) -> None:
    hub = LyingHub(encrypted=True)
    anna = join(hub, "anna")
    with pytest.raises(EkidenError):
        await anna.post("build", Post(text="x", attachments=(Attachment("00" * 32, 1),)))
