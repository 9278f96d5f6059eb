"""Text that attacks whoever shows it, from the session files of both vendors to the page in a real browser."""

import json
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, expect

from cases.desk import folder_name, thread_id
from vendors.claude.files import assistant, encode, result, user
from vendors.codex.files import joined, meta, response, written
from web.browser import DESK, Guard, chromium, made_from_text, to_the_top
from web.scenes import HOSTILE
from whole.computer import Computer, wait_for

pytestmark = pytest.mark.browser
__all__ = ["chromium"]


def write_sessions(home: Path) -> None:
    """The text in every field of a session that a person's, a model's or a program's words can reach."""
    use = [
        {"type": "tool_use", "id": "t1", "name": HOSTILE, "input": {"command": HOSTILE, HOSTILE: HOSTILE}},
        {"type": "tool_use", "id": "t2", "name": "Edit", "input": {"file_path": HOSTILE, "old_string": "a"}},
        {"type": "tool_use", "id": "t3", "name": "TodoWrite", "input": {"todos": [{"content": HOSTILE}]}},
        {"type": "tool_use", "id": "t4", "name": "Agent", "input": {"subagent_type": HOSTILE, "prompt": HOSTILE}},
    ]
    answer = assistant(
        "a1", "u1", [{"type": "thinking", "thinking": HOSTILE}, {"type": "text", "text": HOSTILE}, *use]
    )
    answer["message"]["model"] = HOSTILE
    rows = [
        {"type": "custom-title", "customTitle": HOSTILE, "sessionId": thread_id(1)},
        user("u1", None, HOSTILE, cwd=f"/home/dev/{HOSTILE}", gitBranch=HOSTILE, version=HOSTILE),
        answer,
        user("u2", "a1", [*result("t1", HOSTILE), *result("t2", HOSTILE, is_error=True)]),
        {"type": HOSTILE, "uuid": "x", "parentUuid": "u2", "message": {"a": HOSTILE}},
        user("u3", "x", "the end of it"),
    ]
    claude = home / ".claude" / "projects" / folder_name("/home/dev") / f"{thread_id(1)}.jsonl"
    claude.parent.mkdir(parents=True)
    claude.write_bytes(encode([*rows, HOSTILE.replace("\n", " ").encode()]))
    codex = (
        home / ".codex" / "sessions" / "2026" / "01" / "01" / f"rollout-2026-01-01T00-00-00-{thread_id(2)}.jsonl"
    )
    codex.parent.mkdir(parents=True)
    codex.write_bytes(
        joined(
            [
                meta(thread_id(2), cwd=f"/home/dev/{HOSTILE}", git={"branch": HOSTILE}, cli_version=HOSTILE),
                written("user", HOSTILE),
                response(
                    "function_call", name=HOSTILE, call_id="c1", arguments=json.dumps({"command": [HOSTILE]})
                ),
                response("function_call_output", call_id="c1", output=HOSTILE),
                written("assistant", HOSTILE),
                written("user", "the end of it"),
            ]
        )
    )


def test_hostile_text_of_session_files_is_only_text_on_the_page(computer: Computer, chromium: Browser) -> None:
    """Nothing runs, nothing is fetched, nobody is led away, in the list and in each session, with everything
    unfolded; what was typed can be read; the page is served under a policy that would stop it as well."""
    write_sessions(computer.home)
    computer.up()
    sessions = [computer.session(thread_id(number))["report"]["session_id"] for number in (1, 2)]
    wait_for(lambda: all(len(computer.texts(one, "user")) == 2 for one in sessions), "both are read")
    with urlopen(computer.url) as answer:
        policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    context = chromium.new_context(locale="en-GB", **DESK)
    page = context.new_page()
    guard = Guard(computer.url)
    guard.watch(page)
    page.goto(computer.link)
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    page.goto(f"{computer.url}/#/sessions")
    expect(page.locator("#page")).to_contain_text("onerror=alert(1)")
    assert made_from_text(page) == []
    for session_id in sessions:
        page = context.new_page()
        guard.watch(page)
        page.goto(f"{computer.url}/#/session/{session_id}")
        expect(page.locator(".virtual-row", has_text="the end of it").first).to_be_visible()
        to_the_top(page, '<script>top.location="//evil.example"</script>')
        expect(page.locator("#page")).to_contain_text('<script>top.location="//evil.example"</script>')
        page.evaluate(
            "() => document.querySelectorAll('.note-button, .tool > .head[aria-expanded=false]')"
            ".forEach((button) => button.click())"
        )
        expect(page.locator("#page")).to_contain_text("[x](javascript:alert(1))")
        assert made_from_text(page) == []
        assert page.url.startswith(computer.url)
    context.close()
    assert guard.found() == []
