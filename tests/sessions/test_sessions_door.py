"""The sessions room behind the real door, in process: paths, rights, asking hosts, streams."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ekiden.client.client import Client
from ekiden.kernel.errors import (
    AlreadyAnswered,
    Conflict,
    EkidenError,
    Forbidden,
    HeldElsewhere,
    HostAway,
    Invalid,
    NotFound,
    TooLarge,
    VendorFailed,
)
from ekiden.kernel.ids import Prefix, new_id
from ekiden.sessions import routes
from ekiden.sessions.wire import (
    AnswerApproval,
    Approval,
    ApprovalOption,
    Carried,
    FeedApproval,
    FeedGrew,
    FeedTurn,
    Hosts,
    Inbox,
    ItemPage,
    Message,
    RawPage,
    Rung,
    SearchPage,
    SessionPage,
    SessionState,
    SessionView,
    Work,
)
from ekiden.transcript.items import Item, ItemKind
from sessions.door import House, ScriptedHost, open_house, read, read_until
from sessions.room import items_entry, message_item

pytestmark = pytest.mark.anyio


@pytest.fixture
def database_url(log_place: str) -> str:
    """Empty where the log is in the hub's own folder."""
    return log_place if "://" in log_place else ""


@pytest.fixture
async def house(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    monkeypatch.setattr("ekiden.hub.hosts.HOST_GRACE_S", 0.01)
    async with open_house(tmp_path, database_url) as opened:
        yield opened


@pytest.fixture
async def host(house: House) -> AsyncIterator[ScriptedHost]:
    async with house.host() as connected:
        yield connected


def approval(session_id: str) -> Approval:
    return Approval(
        approval_id=new_id(Prefix.APPROVAL),
        session_id=session_id,
        turn_id="trn_1",
        question="run_command",
        title="Run a command",
        tool="Bash",
        command="ls",
        options=(ApprovalOption("yes", "Allow", "allow_once"), ApprovalOption("no", "Deny", "deny")),
    )


async def asked(client: Client, host: ScriptedHost, session_id: str) -> Approval:
    """A fresh approval as a client sees it."""
    fresh = approval(session_id)
    assert not (await host.tell(FeedApproval(fresh))).refused
    view = await client.get(f"/v1/sessions/{session_id}", type=SessionView)
    (found,) = [shown for shown in view.approvals if shown.approval_id == fresh.approval_id]
    return found


async def test_every_place_of_the_door_page_is_there() -> None:
    """What docs/door.md lists for this room is what the room offers, with the same method and path."""
    listed = Path(__file__).parents[2].joinpath("docs/door.md").read_text()
    for endpoint in routes.ENDPOINTS:
        path = endpoint.path.removeprefix("/v1/sessions/{session_id}").removeprefix("/v1/hosts/{host_id}")
        assert endpoint.path in listed or f"`{endpoint.method} {path}" in listed, endpoint.path
        assert endpoint.summary


async def test_a_session_is_listed_viewed_and_followed(house: House, host: ScriptedHost) -> None:
    """From the host's report to the list, the view and the stream of another device."""
    phone = await house.device("Phone")
    session_id = await host.session(title="Work", updated_at="2026-01-01T00:00:00Z")
    page = await phone.get("/v1/sessions", type=SessionPage)
    assert [session.report.title for session in page.sessions] == ["Work"]
    assert page.sessions[0].host_here
    view = await phone.get(f"/v1/sessions/{session_id}", type=SessionView)
    await host.tell(
        FeedTurn(session_id, "trn_1", "running"),
        FeedGrew(session_id, "trn_1", "itm_2", ItemKind.MESSAGE, 0, "grow"),
        items_entry(session_id, "", "m1", message_item("itm_1", "whole")),
    )
    frames = await read_until(
        phone, f"session:{session_id}", view.cursor, lambda frame: frame.kind == "session.reported"
    )
    kinds = [frame.kind for frame in frames if frame.seq]
    assert kinds == ["turn.changed", "items.added", "session.reported"]
    later = await phone.get(f"/v1/sessions/{session_id}", type=SessionView)
    assert [(growing.item_id, growing.text) for growing in later.growing] == [("itm_2", "grow")]
    hosts = await phone.get("/v1/hosts", type=Hosts)
    assert [(shown.report.name, shown.here) for shown in hosts.hosts] == [("Workstation", True)]


async def test_pages_items_and_raw_lines_come_from_the_host(house: House, host: ScriptedHost) -> None:
    """The arguments go to the host as docs/door.md says, and its answers come back as they are."""
    session_id = await host.session()
    item = message_item("itm_1", "hello")
    host.answers = {
        "page": lambda _: ItemPage(items=(item,), before="b", after="a", total_lines=7),
        "item": lambda _: item,
        "raw": lambda _: {"lines": [{"line": 1, "start": 0, "text": "{}"}], "before": ""},
    }
    path = f"/v1/sessions/{session_id}"
    page = await house.owner.get(f"{path}/items", type=ItemPage, before="x", limit=5, thread="t")
    assert (page.items, page.before, page.total_lines) == ((item,), "b", 7)
    assert await house.owner.get(f"{path}/items/itm_1", type=Item) == item
    assert (await house.owner.get(f"{path}/raw", type=RawPage)).lines[0].text == "{}"
    assert host.asked == [
        ("page", {"session_id": session_id, "before": "x", "after": "", "limit": 5, "thread": "t"}),
        ("item", {"session_id": session_id, "item_id": "itm_1"}),
        ("raw", {"session_id": session_id, "before": "", "limit": 50, "thread": ""}),
    ]


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1e9", "9" * 20, "٣"])
async def test_a_limit_that_is_no_number_is_refused(house: House, host: ScriptedHost, limit: str) -> None:
    """Refused in words; a large one is the largest page instead."""
    session_id = await host.session()
    for path in ("/v1/sessions", f"/v1/sessions/{session_id}/items", "/v1/search"):
        with pytest.raises(Invalid):
            await house.owner.get(path, limit=limit, text="x")
    host.answers = {"page": lambda _: ItemPage(items=(), before="")}
    await house.owner.get(f"/v1/sessions/{session_id}/items", limit="999999")
    assert host.asked[-1][1]["limit"] == 1_000


async def test_what_a_host_refuses_with_reaches_the_person(house: House, host: ScriptedHost) -> None:
    """Code, sentence, hint and details are the host's own."""
    session_id = await host.session()
    host.answers = {
        "continue": HeldElsewhere(
            "A terminal has it.", hint="Fork it.", who="Claude Code", pid=7, instead=["fork"]
        ),
        "fork": VendorFailed("It said no.", vendor="claude", exit_code=1, said="no"),
    }
    with pytest.raises(HeldElsewhere) as held:
        await house.owner.post(f"/v1/sessions/{session_id}/continue")
    assert held.value.hint == "Fork it."
    assert held.value.details == {"who": "Claude Code", "pid": 7, "instead": ["fork"]}
    with pytest.raises(VendorFailed):
        await house.owner.post(f"/v1/sessions/{session_id}/fork")


async def test_an_answer_that_is_no_answer_is_a_failure_in_words(house: House, host: ScriptedHost) -> None:
    """A host of another version, or a broken one, is named; nothing of it is passed on as if it were right."""
    session_id = await host.session()
    host.answers = {"page": lambda _: {"items": "none"}}
    with pytest.raises(VendorFailed):
        await house.owner.get(f"/v1/sessions/{session_id}/items")


async def test_carrying_on_again_with_the_same_command_asks_the_host_under_the_same_name(
    house: House, host: ScriptedHost
) -> None:
    """A retry after a lost answer cannot start a second runtime: the host knows the request again."""
    session_id = await host.session()
    host.answers = dict.fromkeys(
        ("continue", "fork", "quote", "start", "release"), lambda _: Carried(session_id=session_id, verb="x")
    )
    start = {"host_id": host.host_id, "vendor": "demo", "cwd": "/tmp"}
    for path, body in (
        (f"/v1/sessions/{session_id}/continue", None),
        (f"/v1/sessions/{session_id}/fork", None),
        (f"/v1/sessions/{session_id}/quote", {"vendor": "demo", "message": "go on"}),
        (f"/v1/sessions/{session_id}/release", None),
        ("/v1/sessions", start),
    ):
        host.request_ids.clear()
        for command_id in (f"same {path}", f"same {path}", f"other {path}"):
            answer = await house.owner.post(path, body, command_id=command_id)
            assert answer["session_id"] == session_id
        first, again, other = host.request_ids
        assert first == again != other
    quote = next(arguments for verb, arguments in host.asked if verb == "quote")
    assert quote == {"session_id": session_id, "quote": {"vendor": "demo", "message": "go on"}}
    assert next(arguments for verb, arguments in host.asked if verb == "start") == start


async def test_who_carries_a_session_on_stands_in_the_audit_trail(house: House, host: ScriptedHost) -> None:
    """Each verb once, however often its command is sent, and whether or not the computer could do it."""
    phone = await house.device("Phone")
    session_id = await host.session()
    verbs = ("continue", "release", "fork", "quote", "start")
    host.answers = dict.fromkeys(verbs, lambda _: Carried(session_id=session_id, verb="x"))
    host.answers["fork"] = VendorFailed("It said no.", vendor="demo", exit_code=1, said="no")
    secret = "what is said stays out of the trail"
    for verb in verbs:
        path = "/v1/sessions" if verb == "start" else f"/v1/sessions/{session_id}/{verb}"
        body = {
            "quote": {"vendor": "demo", "message": secret},
            "start": {"host_id": host.host_id, "vendor": "demo", "cwd": "/tmp", "message": secret},
        }.get(verb)
        for _ in range(2):
            try:
                await phone.post(path, body, command_id=f"one {verb}")
            except VendorFailed:
                assert verb == "fork"
    audit = await house.owner.get("/v1/audit")
    asked = [line for line in reversed(audit["lines"]) if line["kind"] == "session.asked"]
    assert [line["body"]["verb"] for line in asked] == list(verbs)
    assert {line["actor"]["name"] for line in asked} == {"Phone"}
    assert [line["body"]["session_id"] for line in asked] == [*[session_id] * 4, ""]
    assert {line["body"]["host_id"] for line in asked} == {host.host_id}
    assert secret not in str(audit)


async def test_a_message_goes_to_the_host_and_back(house: House, host: ScriptedHost) -> None:
    """Sent on one device, it is on the host's stream and in its work; cancelled on another, it is in neither."""
    phone, desk = await house.device("Phone"), await house.device("Desk")
    session_id = await host.session()
    sent = await phone.post(f"/v1/sessions/{session_id}/messages", {"text": "hello"}, type=Message)
    assert (sent.state, sent.sent_by) == ("stored", "Phone")
    (frame,) = await host.until("message.stored")
    assert read(frame, Message) == sent
    work = await host.client.get(f"/v1/hosts/{host.host_id}/work", type=Work)
    assert work.messages == (sent,)
    cancelled = await desk.delete(f"/v1/messages/{sent.message_id}", type=Message)
    assert cancelled.state == "cancelled"
    await host.until("message.changed")
    assert (await host.client.get(f"/v1/hosts/{host.host_id}/work", type=Work)).messages == ()


async def test_the_same_command_is_one_message(house: House, host: ScriptedHost) -> None:
    """Two at once and one later with the same command id: the same answer each time, one message stored."""
    phone = await house.device("Phone")
    session_id = await host.session()
    path = f"/v1/sessions/{session_id}/messages"

    async def send() -> Message:
        return await phone.post(path, {"text": "hello"}, type=Message, command_id="once")

    first, second = await asyncio.gather(send(), send())
    assert first == second == await send()
    view = await phone.get(f"/v1/sessions/{session_id}", type=SessionView)
    assert view.messages == (first,)


async def test_two_devices_answer_and_one_wins(house: House, host: ScriptedHost) -> None:
    """The loser gets 409 with the winner's name; the host gets the one answer; each stream sees it."""
    phone, desk = await house.device("Phone"), await house.device("Desk")
    session_id = await host.session()
    await host.tell(FeedTurn(session_id, "trn_1", "running"))
    for _ in range(20):
        card = await asked(phone, host, session_id)
        path = f"/v1/approvals/{card.approval_id}/answer"

        async def attempt(client: Client, option: str, path: str = path, digest: str = card.digest) -> Any:
            try:
                return await client.post(path, AnswerApproval(option, digest), type=Approval)
            except AlreadyAnswered as refused:
                return refused

        outcomes = await asyncio.gather(attempt(phone, "yes"), attempt(desk, "no"))
        (won,) = [outcome for outcome in outcomes if isinstance(outcome, Approval)]
        (lost,) = [outcome for outcome in outcomes if not isinstance(outcome, Approval)]
        assert lost.details["device"] == won.answered_by
        assert lost.details["option"] == won.answer
    answered = await host.until("approval.answered", 20)
    assert len({read(frame, Approval).approval_id for frame in answered}) == 20
    card = await asked(phone, host, session_id)
    with pytest.raises(Invalid):
        await phone.post(f"/v1/approvals/{card.approval_id}/answer", AnswerApproval("maybe", card.digest))


async def test_an_interrupt_reaches_the_host_for_the_turn_that_was_seen(house: House, host: ScriptedHost) -> None:
    """The right turn is accepted with 202 and told; another is refused with the one that runs."""
    session_id = await host.session()
    await host.tell(FeedTurn(session_id, "trn_1", "running"))
    path = f"/v1/sessions/{session_id}/interrupt"
    with pytest.raises(Conflict) as refused:
        await house.owner.post(path, {"turn_id": "trn_0"})
    assert refused.value.details["turn_id"] == "trn_1"
    await house.owner.post(path, {"turn_id": "trn_1"})
    (frame,) = await host.until("turn.interrupt_asked")
    assert read(frame, dict)["turn_id"] == "trn_1"


async def test_what_a_key_may_not_read_is_not_there(house: House, host: ScriptedHost) -> None:
    """A key for one session finds the other by no path: same answer as for what does not exist, byte for byte of
    code and sentence; lists, search and inbox leave it out."""
    mine, other = await host.session("mine", title="mine"), await host.session("other", title="secret")
    right = {f"session:{mine}": ["read", "steer", "approve", "start"]}
    limited = await house.device("Limited", right)
    card = await asked(house.owner, host, other)
    message = await house.owner.post(f"/v1/sessions/{other}/messages", {"text": "secret"}, type=Message)
    host.answers = {
        "search": lambda _: {
            "hits": [
                {"session_id": each, "item_id": "i", "title": "t", "at": "", "excerpt": "x"}
                for each in (mine, other)
            ]
        }
    }

    async def refusal(verb: Callable[[], Awaitable[Any]]) -> tuple[str, str, str]:
        with pytest.raises(EkidenError) as refused:
            await verb()
        return refused.value.code, refused.value.message, refused.value.hint

    def tries(session_id: str, approval_id: str, message_id: str) -> list[Callable[[], Awaitable[Any]]]:
        path = f"/v1/sessions/{session_id}"
        return [
            lambda: limited.get(path),
            lambda: limited.get(f"{path}/items"),
            lambda: limited.get(f"{path}/items/itm_1"),
            lambda: limited.get(f"{path}/raw"),
            lambda: limited.post(f"{path}/continue"),
            lambda: limited.post(f"{path}/release"),
            lambda: limited.post(f"{path}/fork"),
            lambda: limited.post(f"{path}/quote", {"vendor": "demo"}),
            lambda: limited.post(f"{path}/messages", {"text": "x"}),
            lambda: limited.post(f"{path}/interrupt", {"turn_id": "trn_1"}),
            lambda: limited.delete(f"/v1/messages/{message_id}"),
            lambda: limited.post(f"/v1/approvals/{approval_id}/answer", AnswerApproval("yes", card.digest)),
        ]

    forbidden = tries(other, card.approval_id, message.message_id)
    missing = tries(new_id(Prefix.SESSION), new_id(Prefix.APPROVAL), new_id(Prefix.MESSAGE))
    for one, nothing in zip(forbidden, missing, strict=True):
        assert await refusal(one) == await refusal(nothing)
        assert (await refusal(one))[0] == "not_found"
    page = await limited.get("/v1/sessions", type=SessionPage)
    assert ([session.report.session_id for session in page.sessions], page.total) == ([mine], 1)
    inbox = await limited.get("/v1/inbox", type=Inbox)
    assert inbox.entries == ()
    found = await limited.get("/v1/search", type=SearchPage, text="x")
    assert [hit.session_id for hit in found.hits] == [mine]
    assert (await limited.get("/v1/hosts", type=Hosts)).hosts == ()


async def test_a_key_that_may_only_read_changes_nothing(house: House, host: ScriptedHost) -> None:
    """It sees everything, and each verb is forbidden to it, in words."""
    watcher = await house.device("Watcher", {"team": ["read"], "session:*": ["read"]})
    session_id = await host.session()
    card = await asked(watcher, host, session_id)
    message = await house.owner.post(f"/v1/sessions/{session_id}/messages", {"text": "x"}, type=Message)
    path = f"/v1/sessions/{session_id}"
    for attempt in (
        lambda: watcher.post(f"{path}/messages", {"text": "x"}),
        lambda: watcher.post(f"{path}/continue"),
        lambda: watcher.post(f"{path}/interrupt", {"turn_id": "trn_1"}),
        lambda: watcher.delete(f"/v1/messages/{message.message_id}"),
        lambda: watcher.post(f"/v1/approvals/{card.approval_id}/answer", AnswerApproval("yes", card.digest)),
        lambda: watcher.post("/v1/sessions", {"host_id": host.host_id, "vendor": "demo", "cwd": "/"}),
    ):
        with pytest.raises(Forbidden):
            await attempt()
    assert not host.asked


async def test_a_host_key_speaks_for_its_own_host_only(house: House, host: ScriptedHost) -> None:
    """Another host's paths are not there for it, and no client path is a way to its sessions."""
    session_id = await host.session()
    async with house.host("Laptop") as other:
        for attempt in (
            lambda: other.client.put(
                f"/v1/hosts/{host.host_id}", {"name": "x", "platform": "", "ekiden_version": ""}
            ),
            lambda: other.client.post(f"/v1/hosts/{host.host_id}/feed", {"entries": []}),
            lambda: other.client.get(f"/v1/hosts/{host.host_id}/work"),
            lambda: other.client.get(f"/v1/sessions/{session_id}"),
            lambda: other.client.post(f"/v1/sessions/{session_id}/messages", {"text": "x"}),
        ):
            with pytest.raises(NotFound):
                await attempt()
        refused = (await other.tell(FeedTurn(session_id, "trn_1", "running"))).refused
        assert [one.code for one in refused] == ["not_found"]


async def test_search_asks_all_hosts_and_names_those_away(house: House, host: ScriptedHost) -> None:
    """Finds of two hosts take turns, a page goes on where each stopped, and a host that is gone is named."""
    first = await host.session()

    def hits(session_id: str, *names: str) -> list[dict[str, Any]]:
        return [{"session_id": session_id, "item_id": n, "title": "", "at": "", "excerpt": n} for n in names]

    async with house.host("Laptop") as laptop:
        second = await laptop.session()
        host.answers = {
            "search": lambda arguments: {
                "hits": hits(first, "a1") if arguments["after"] else hits(first, "a0", "a00"),
                "next": "" if arguments["after"] else "more",
                "indexed_share": 0.5,
            }
        }
        laptop.answers = {"search": lambda _: {"hits": hits(second, "b0") + hits(first, "forged")}}
        page = await house.owner.get("/v1/search", type=SearchPage, text="word", limit=4)
        assert [hit.item_id for hit in page.hits] == ["b0", "a0", "a00"]
        assert (page.indexed_share, page.away) == (0.5, ())
        rest = await house.owner.get("/v1/search", type=SearchPage, text="word", after=page.next)
        assert [hit.item_id for hit in rest.hits] == ["a1"]
        assert rest.next == ""
        assert [arguments["after"] for verb, arguments in host.asked] == ["", "more"]
        with pytest.raises(Invalid):
            await house.owner.get("/v1/search", text=" ")
        with pytest.raises(Invalid):
            await house.owner.get("/v1/search", text="x", after="é")
    await house.until_away(laptop)
    page = await house.owner.get("/v1/search", type=SearchPage, text="word")
    assert page.away == ("Laptop",)
    assert [hit.item_id for hit in page.hits] == ["a0", "a00"]


async def test_a_session_whose_host_is_away_is_still_there(house: House) -> None:
    """It is listed with its last state, what needs the host is refused by name, and a message waits for it."""
    async with house.host() as host:
        session_id = await host.session(state=SessionState.IDLE)
    await house.until_away(host)
    with pytest.raises(HostAway):
        await house.owner.get(f"/v1/sessions/{session_id}/items")
    assert (await house.owner.get("/v1/sessions", type=SessionPage)).total == 1
    sent = await house.owner.post(f"/v1/sessions/{session_id}/messages", {"text": "later"}, type=Message)
    async with host.connected():
        work = await host.client.get(f"/v1/hosts/{host.host_id}/work", type=Work)
        assert work.messages == (sent,)


async def test_a_restart_of_the_hub_keeps_what_waits(tmp_path: Path, database_url: str) -> None:
    """Open approvals and waiting messages are there for whoever comes after it, and can be answered."""
    async with open_house(tmp_path, database_url) as house, house.host() as host:
        session_id = await host.session()
        await host.tell(FeedTurn(session_id, "trn_1", "running"))
        card = await asked(house.owner, host, session_id)
        await house.owner.post(f"/v1/sessions/{session_id}/messages", {"text": "later"})
    async with open_house(tmp_path, database_url) as house:
        host.client = house.client(host.client.key)
        async with host.connected():
            watcher = await house.device("Watcher", {"session:*": ["read"]})
            view = await watcher.get(f"/v1/sessions/{session_id}", type=SessionView)
            assert [shown.state for shown in view.approvals] == ["open"]
            assert [message.text for message in view.messages] == ["later"]
            path = f"/v1/approvals/{card.approval_id}/answer"
            await house.owner.post(path, AnswerApproval("no", card.digest))
            work = await host.client.get(f"/v1/hosts/{host.host_id}/work", type=Work)
            assert [answered.answer for answered in work.approvals] == ["no"]


async def test_client_clocks_and_ids_decide_no_order(house: House, host: ScriptedHost) -> None:
    """Messages with ids that sort backwards, sent at once from two devices, have the hub's order everywhere."""
    phone, desk = await house.device("Phone"), await house.device("Desk")
    session_id = await host.session()
    path = f"/v1/sessions/{session_id}/messages"
    sends = [
        (phone if number % 2 else desk).post(
            path, {"text": str(number), "message_id": f"msg_{'zyxwvtsrqp'[number] * 20}"}, type=Message
        )
        for number in range(10)
    ]
    sent = await asyncio.gather(*sends)
    stored = [read(frame, Message).message_id for frame in await host.until("message.stored", 10)]
    assert sorted(stored) == sorted(message.message_id for message in sent)
    work = await host.client.get(f"/v1/hosts/{host.host_id}/work", type=Work)
    assert [message.message_id for message in work.messages] == stored
    view = await phone.get(f"/v1/sessions/{session_id}", type=SessionView)
    assert [message.message_id for message in view.messages] == stored


@pytest.mark.parametrize("size", [65_535, 65_537, 1_048_577, 5_000_000])
async def test_one_long_item_does_not_stop_what_follows(house: House, host: ScriptedHost, size: int) -> None:
    """Through the door and the stream: the long item, whole or cut with its size said, then the small one."""
    session_id = await host.session()
    view = await house.owner.get(f"/v1/sessions/{session_id}", type=SessionView)
    long = message_item("itm_long", "x" * size)
    await host.tell(
        items_entry(session_id, "", "m1", long),
        items_entry(session_id, "m1", "m2", message_item("itm_end", "end")),
    )

    def done(frame: Any) -> bool:
        return any(item["id"] == "itm_end" for item in read(frame, dict).get("items", []))

    frames = await read_until(house.owner, f"session:{session_id}", view.cursor, done)
    items = [msgspec.convert(item, Item) for frame in frames for item in read(frame, dict)["items"]]
    assert [item.id for item in items] == ["itm_long", "itm_end"]
    assert items[0] == long or [(cut.field, cut.bytes) for cut in items[0].cut] == [("content.0.text", size)]


async def test_a_body_over_the_bound_is_refused_and_the_next_is_taken(house: House, host: ScriptedHost) -> None:
    """12 MB in one feed: refused by size, nothing taken, and the mark still fits."""
    session_id = await host.session()
    with pytest.raises(TooLarge):
        await host.tell(items_entry(session_id, "", "m1", message_item("itm_1", "x" * 12_000_000)))
    assert not (await host.tell(items_entry(session_id, "", "m1", message_item("itm_1", "x")))).stale


async def test_a_session_held_elsewhere_takes_no_message(house: House, host: ScriptedHost) -> None:
    """The hub refuses at once, without asking anybody."""
    session_id = await host.session(rung=Rung.HELD)
    with pytest.raises(Conflict):
        await house.owner.post(f"/v1/sessions/{session_id}/messages", {"text": "x"})
    assert not host.asked
