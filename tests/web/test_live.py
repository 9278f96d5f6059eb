"""The page in a real browser against the stub door: what moves, who decides, what waits."""

import re

import pytest
from playwright.sync_api import Page, expect

from web import scenes
from web.browser import DESK, PHONE
from web.conftest import OpenPage
from web.stub_door import LOG, StubDoor, iso

pytestmark = pytest.mark.browser


def at_bottom(page: Page) -> bool:
    """Whether the conversation shows its end."""
    return page.evaluate(
        """() => {
            const view = document.querySelector('.virtual');
            return view.scrollHeight - view.scrollTop - view.clientHeight < 60;
        }"""
    )


def test_an_approval_is_answered_from_the_inbox(door: StubDoor, open_page: OpenPage) -> None:
    """The card shows the whole command and folder; the answer is bound to its digest, and who decided is said."""
    scenes.furnish(door)
    door.ask(scenes.approval("apr_1", "ses_run"))
    page = open_page(kind=PHONE)
    card = page.locator("[data-approval=apr_1]")
    expect(card).to_contain_text("pulumi up --stack prod --yes")
    expect(card).to_contain_text("/home/dev/infra/checkout")
    expect(page.get_by_role("alert")).to_have_text("1 waits for you")
    card.get_by_role("button", name="Allow once").click()
    expect(page.locator(".decision")).to_contain_text("Allowed on phone")
    sent = [body for method, path, body in door.requests if path.endswith("/answer")]
    assert sent == [{"option": "yes", "digest": "d1"}]


def test_a_decision_made_elsewhere_stands_in_place(door: StubDoor, open_page: OpenPage) -> None:
    """The card of an approval that another device answers stays and names the device."""
    scenes.furnish(door)
    door.ask(scenes.approval("apr_1", "ses_run"))
    page = open_page()
    expect(page.locator("[data-approval=apr_1]")).to_be_visible()
    door.answer("apr_1", "no", "laptop")
    expect(page.locator(".decision")).to_contain_text("Denied on laptop")
    expect(page.get_by_role("button", name="Allow once")).to_have_count(0)


def test_a_late_answer_is_told_who_was_first(door: StubDoor, open_page: OpenPage) -> None:
    """An answer that loses the race shows the winner, not a success and not a bare error."""
    scenes.furnish(door)
    door.ask(scenes.approval("apr_1", "ses_run"))
    page = open_page()
    button = page.get_by_role("button", name="Allow once")
    expect(button).to_be_visible()
    door.silent = True
    door.answer("apr_1", "no", "laptop")
    button.click()
    expect(page.locator(".decision")).to_contain_text("Denied on laptop")


def test_a_denial_carries_its_reason_and_always_needs_a_second_press(door: StubDoor, open_page: OpenPage) -> None:
    """Deny asks why; allow always is armed by the first press."""
    scenes.furnish(door)
    door.ask(scenes.approval("apr_1", "ses_run"))
    page = open_page()
    page.get_by_role("button", name="pulumi up in this folder").click()
    expect(page.get_by_role("button", name="Press again:")).to_be_visible()
    assert not [path for _, path, _ in door.requests if path.endswith("/answer")]
    page.get_by_role("button", name="Deny…").click()
    page.get_by_label("Why not?").fill("not on a Friday")
    page.get_by_role("button", name="Deny", exact=True).click()
    expect(page.locator(".decision")).to_contain_text("not on a Friday")
    assert door.approvals["apr_1"]["reason"] == "not on a Friday"


def test_an_agents_question_is_answered_with_its_fields(door: StubDoor, open_page: OpenPage) -> None:
    """Choices become fields; the answers go out by question, and only when they are complete."""
    scenes.furnish(door)
    detail = {
        "questions": [
            {"question": "Which centre?", "options": [{"label": "CC-1042"}, {"label": "CC-2210"}]},
            {"question": "Which parts?", "multiSelect": True, "options": [{"label": "A"}, {"label": "B"}]},
        ]
    }
    options = [
        {"id": "allow", "label": "Answer", "kind": "allow_once"},
        {"id": "deny", "label": "No", "kind": "deny"},
    ]
    door.ask(
        scenes.approval(
            "apr_q", "ses_run", question="answer", command="", detail=detail, options=options, tool="Ask"
        )
    )
    page = open_page(kind=PHONE)
    submit = page.get_by_role("button", name="Answer", exact=True)
    expect(submit).to_be_disabled()
    page.get_by_label("CC-2210").check()
    page.get_by_label("A", exact=True).check()
    page.get_by_label("B", exact=True).check()
    submit.click()
    expect(page.locator(".decision")).to_be_visible()
    sent = [body for _, path, body in door.requests if path.endswith("/answer")]
    assert sent[0]["answers"] == {"Which centre?": "CC-2210", "Which parts?": ["A", "B"]}


def test_a_late_joiner_sees_all_of_a_growing_text_and_its_whole_takes_its_place(
    door: StubDoor, open_page: OpenPage
) -> None:
    """Text from before the page opened is there, pieces follow, and the whole item replaces them, once."""
    scenes.furnish(door)
    door.grow("ses_run", "itm_g", "The beginning, ")
    page = open_page("/#/session/ses_run")
    expect(page.locator(".growing")).to_contain_text("The beginning,")
    expect(page.get_by_text("You joined in the middle of this turn. Nothing of it is missing.")).to_be_visible()
    for number in range(30):
        door.grow("ses_run", "itm_g", f"piece {number}, ")
    expect(page.locator(".growing")).to_contain_text("piece 29,")
    said = page.locator(".growing .prose").inner_text()
    assert said.split() == door.growing["itm_g"]["text"].split()
    assert at_bottom(page)
    door.add("ses_run", scenes.said("itm_g", door.growing["itm_g"]["text"] + "the end."))
    expect(page.locator(".say", has_text="the end.")).to_have_count(1)
    expect(page.locator(".growing")).to_have_count(0)


def test_growing_text_does_not_move_what_is_being_read(door: StubDoor, open_page: OpenPage) -> None:
    """Away from the bottom the view holds still and says that there is more below."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_run", kind=PHONE)
    expect(page.get_by_text("kustomize build deploy/inventory")).to_be_visible()
    page.evaluate("() => { document.querySelector('.virtual').scrollTop = 40 }")
    expect(page.locator(".below")).to_be_visible()
    first = page.get_by_text("ArgoCD expects").first
    before = first.bounding_box()
    for number in range(40):
        door.grow("ses_run", "itm_g", f"word {number} of a text that grows and grows. ")
    expect(page.locator(".below")).to_contain_text("New below")
    assert first.bounding_box() == before
    page.locator(".below").click()
    expect(page.locator(".growing")).to_contain_text("word 39")
    expect(page.locator(".below")).to_have_count(0)


def test_a_message_shows_its_receipt(door: StubDoor, open_page: OpenPage) -> None:
    """Sent, placed, seen: and when the conversation holds it, the receipt stands there, once."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_run")
    page.get_by_role("textbox", name="Add to this turn").fill("then open a pull request")
    page.get_by_role("button", name="Queue").click()
    expect(page.locator("[data-receipt=stored]")).to_contain_text("Sent; waits for its computer")
    message = next(iter(door.messages.values()))
    assert re.fullmatch(r"msg_[0-9a-hjkmnp-tv-z]{20}", message["message_id"])
    message.update(state="placed", how="queued")
    door.emit("message.changed", message, "session:ses_run")
    expect(page.locator("[data-receipt=placed]")).to_contain_text("Queued")
    door.add("ses_run", scenes.said("itm_me", "then open a pull request", "user"))
    message.update(state="seen")
    door.emit("message.changed", message, "session:ses_run")
    expect(page.locator("[data-receipt=seen]")).to_contain_text("Seen by the model")
    expect(page.locator(".me", has_text="then open a pull request")).to_have_count(1)


def test_an_answer_that_is_slower_than_the_stream_takes_nothing_back(door: StubDoor, open_page: OpenPage) -> None:
    """The message was seen before its own POST was answered: it stays seen."""
    scenes.furnish(door)
    door.places_at_once = True
    page = open_page("/#/session/ses_run")
    page.get_by_role("textbox", name="Add to this turn").fill("quick")
    with page.expect_response(lambda answer: answer.url.endswith("/messages")):
        page.get_by_role("button", name="Queue").click()
    expect(page.locator("[data-receipt=sending]")).to_have_count(0)
    expect(page.locator("[data-receipt=stored]")).to_have_count(0)


def test_stop_names_the_turn_that_the_person_sees(door: StubDoor, open_page: OpenPage) -> None:
    """Interrupt carries the turn's id; the button goes when the turn does."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_run", kind=PHONE)
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    assert [body for _, path, body in door.requests if path.endswith("/interrupt")] == [{"turn_id": "trn_1"}]


def test_writing_to_a_session_that_nobody_holds_continues_it_first(door: StubDoor, open_page: OpenPage) -> None:
    """One press continues and sends; the level changes in place."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_old")
    expect(page.get_by_role("button", name="Continue here")).to_be_visible()
    page.get_by_role("textbox", name="Write to continue").fill("go on")
    page.get_by_role("button", name="Continue and send").click()
    expect(page.locator("[data-receipt=stored]")).to_be_visible()
    changed = [path for method, path, _ in door.requests if method == "POST"]
    assert [path.rsplit("/", 1)[1] for path in changed] == ["continue", "messages"]
    expect(page.locator(".session-head")).to_contain_text("same turn")


def test_what_cannot_be_done_is_listed_with_its_reason(door: StubDoor, open_page: OpenPage) -> None:
    """A session that another program writes offers fork and quote, and says why not the rest."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_held")
    truth = page.get_by_role("complementary", name="What is true of this session")
    expect(truth).to_contain_text(re.compile("stop the running turn.*: another program writes it"))
    expect(truth).to_contain_text("Written by codex, process 812")
    expect(page.get_by_role("button", name="Continue here")).to_have_count(0)
    expect(page.get_by_role("button", name="Fork")).to_be_visible()
    expect(page.locator("form.composer textarea")).to_have_count(0)
    expect(page.locator("form.composer")).to_contain_text("Held by codex, process 812")


def test_a_lost_connection_is_resumed_without_a_gap(door: StubDoor, open_page: OpenPage) -> None:
    """Events from the time without a stream arrive when it is back."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_run")
    expect(page.get_by_text("kustomize build deploy/inventory")).to_be_visible()
    opened = door.streams_opened
    door.drop_streams()
    door.add("ses_run", scenes.said("itm_away", "Said while you were away."))
    expect(page.locator(".say", has_text="Said while you were away.")).to_be_visible()
    assert door.streams_opened > opened


def test_a_silent_stream_is_opened_anew(door: StubDoor, open_page: OpenPage) -> None:
    """No beat for two and a half beats: the socket is not trusted, though it looks open."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_run")
    expect(page.get_by_text("kustomize build deploy/inventory")).to_be_visible()
    door.silent = True
    door.add("ses_run", scenes.said("itm_deaf", "Said into a dead socket."))
    opened = door.streams_opened
    expect(page.locator(".say", has_text="Said into a dead socket.")).to_be_visible(timeout=20_000)
    assert door.streams_opened > opened


def test_after_a_reset_everything_is_read_anew(door: StubDoor, open_page: OpenPage) -> None:
    """A cursor of another log leads to fresh snapshots: nothing of the old log stays, nothing new is missing."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_run")
    expect(page.get_by_text("kustomize build deploy/inventory")).to_be_visible()
    door.silent = True
    door.sessions["ses_run"]["report"]["title"] = "Renamed by a restored backup"
    door.items["ses_run"].append(scenes.said("itm_new", "Only in the new log."))
    door.silent = False
    for _, frames in list(door.streams):
        frames.put(f'data: {{"kind":"stream.reset","body":{{"reason":"other_log","cursor":"{LOG}.0"}}}}\n\n')
    expect(page.locator(".session-head")).to_contain_text("Renamed by a restored backup")
    expect(page.locator(".say", has_text="Only in the new log.")).to_be_visible()


def test_a_missing_piece_opens_the_stream_again(door: StubDoor, open_page: OpenPage) -> None:
    """A hole in a growing text is healed by the hub's whole copy of it."""
    scenes.furnish(door)
    page = open_page("/#/session/ses_run")
    door.grow("ses_run", "itm_g", "one ")
    expect(page.locator(".growing")).to_contain_text("one")
    door.silent = True
    door.grow("ses_run", "itm_g", "two ")
    door.silent = False
    door.grow("ses_run", "itm_g", "three ")
    expect(page.locator(".growing")).to_contain_text("one two three")


def test_a_page_that_was_read_too_early_is_read_again(door: StubDoor, open_page: OpenPage) -> None:
    """The computer answered with nothing before it knew the file; what it says later leads to the whole page."""
    scenes.furnish(door)
    known = door.items.pop("ses_run")
    page = open_page("/#/session/ses_run")
    expect(page.locator(".session-head")).to_be_visible()
    door.items["ses_run"] = known
    door.report("ses_run", messages=13)
    expect(page.get_by_text("ArgoCD expects").first).to_be_visible()


def test_errors_say_what_to_do_next(door: StubDoor, open_page: OpenPage) -> None:
    """A host that is away, a session that is gone: one sentence each, and a way on."""
    scenes.furnish(door)
    door.refuse_with["sessions/ses_old/items"] = (
        503,
        {"code": "host_away", "detail": "studio-mac is not connected.", "retry_helps": True},
    )
    page = open_page("/#/session/ses_old")
    expect(page.get_by_role("alert").filter(has_text="not connected. Start Ekiden there")).to_be_visible()
    door.refuse_with.clear()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".say", has_text="It was flushed.")).to_be_visible()
    page.goto(door.url + "/#/session/ses_nothing")
    expect(page.get_by_text("This session is not here any more")).to_be_visible()


def test_search_finds_titles_at_once_and_text_with_its_place(door: StubDoor, open_page: OpenPage) -> None:
    """Titles filter while one types; finds in the text lead to their item."""
    scenes.furnish(door)
    page = open_page("/#/sessions", kind=PHONE)
    page.get_by_role("searchbox").fill("flushed")
    expect(page.locator("mark")).to_have_text("flushed")
    expect(page.get_by_text("The index covers 80% so far")).to_be_visible()
    page.locator("a.item", has=page.locator("mark")).click()
    expect(page.locator(".say", has_text="It was flushed.")).to_be_visible()
    page.go_back()
    page.get_by_role("searchbox").fill("cache")
    expect(page.locator("section a.item").first).to_contain_text("Why is the cache cold?")


def test_a_new_session_is_started_where_and_with_what_was_chosen(door: StubDoor, open_page: OpenPage) -> None:
    """What is not installed says so and cannot be chosen."""
    scenes.furnish(door)
    page = open_page("/#/new", kind=PHONE)
    expect(page.get_by_text("Not installed on that computer.")).to_be_visible()
    page.get_by_label("Demo").check()
    page.get_by_role("button", name="dev/shop").click()
    page.get_by_label("First message").fill("hello")
    page.get_by_role("button", name="Start").click()
    expect(page.locator(".session-head")).to_be_visible()
    sent = [body for method, path, body in door.requests if (method, path) == ("POST", "/v1/sessions")]
    assert sent == [
        {"host_id": "hos_1", "vendor": "demo", "cwd": "/home/dev/shop", "message": "hello", "model": ""}
    ]


def test_devices_are_paired_confirmed_and_revoked(door: StubDoor, open_page: OpenPage) -> None:
    """A pairing's words are compared before it is let in; a key is revoked with a second press."""
    scenes.furnish(door)
    door.pairings["pai_1"] = {
        "pairing_id": "pai_1",
        "state": "waiting",
        "device": "Safari · iPhone",
        "words": "amber otter velvet",
        "claimed_at": iso(2),
    }
    page = open_page("/#/devices", kind=DESK)
    expect(page.get_by_text("amber otter velvet")).to_be_visible()
    page.get_by_role("button", name="The words match").click()
    expect(page.get_by_text("amber otter velvet")).to_have_count(0)
    assert door.pairings == {}
    page.get_by_role("button", name="Make a link").click()
    expect(page.locator("svg.qr path")).to_have_count(1)
    expect(page.get_by_text("K7QM-4TXR").first).to_be_visible()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("button", name="Press again to revoke").click()
    expect(page.get_by_text("1 key that has ended")).to_be_visible()


def test_an_act_that_was_pressed_for_twice_and_refused_says_why_and_asks_again(
    door: StubDoor, open_page: OpenPage
) -> None:
    """The reason stands beside it, and nothing is done by a single press after that; then it can succeed."""
    scenes.furnish(door)
    page = open_page("/#/devices", kind=DESK)
    card = page.locator("[data-key]", has=page.get_by_role("button", name="Revoke"))
    key_id = card.get_attribute("data-key")
    door.refuse_with[f"keys/{key_id}"] = (503, {"code": "unavailable", "detail": "The disk is full."})
    card.get_by_role("button", name="Revoke").click()
    card.get_by_role("button", name="Press again to revoke").click()
    expect(card.get_by_role("alert")).to_contain_text("The disk is full.")
    door.refuse_with.clear()
    asked = [path for method, path, _ in door.requests if method == "DELETE"]
    card.get_by_role("button", name="Revoke", exact=True).click()
    expect(card.get_by_role("button", name="Press again to revoke")).to_be_visible()
    assert [path for method, path, _ in door.requests if method == "DELETE"] == asked
    card.get_by_role("button", name="Press again to revoke").click()
    expect(page.get_by_text("1 key that has ended")).to_be_visible()


def test_what_a_sub_agent_did_is_read_when_it_is_opened_and_grows(door: StubDoor, open_page: OpenPage) -> None:
    """Its pages are its own: the newest first, earlier ones when asked for, what comes meanwhile, each once."""
    scenes.furnish(door)
    door.items["ses_run"] += [scenes.said(f"itm_t{n}", f"Overlay {n}.", thread="agent-1") for n in range(150)]
    page = open_page("/#/session/ses_run", kind=PHONE)
    page.get_by_role("button", name="Look for other overlays").click()
    assert not [path for _, path, _ in door.requests if "thread=" in path]
    page.get_by_role("button", name="What the sub-agent did").click()
    nested = page.locator(".thread .nested")
    expect(nested).to_contain_text("Overlay 149.")
    expect(nested.get_by_text("I found two overlays.")).to_have_count(0)
    nested.get_by_role("button", name="Earlier").click()
    expect(nested.get_by_text("I found two overlays.")).to_have_count(1)
    door.add("ses_run", scenes.said("itm_t150", "Overlay 150.", thread="agent-1"))
    expect(nested.locator(".say")).to_have_count(152)
    expect(nested.locator(".say").last).to_contain_text("Overlay 150.")
