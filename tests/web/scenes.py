"""What the stub door shows in the page's tests: ordinary work, hostile text, and a very long session."""

from typing import Any

from web.stub_door import StubDoor, abilities, iso

Body = dict[str, Any]

HOSTILE = (
    '<img src=x onerror=alert(1)> <script>top.location="//evil.example"</script> [x](javascript:alert(1)) '
    "![x](//evil.example/p.png) ![y](https://evil.example/q.png) <svg onload=alert(2)> </script> "
    "\u202egnp.exe\u202c \x1b]0;owned\x07\x1b[31mred\x1b[0m \u200bhidden\U000e0041 &lt;b&gt;\x00\x07 "
    "[safe](https://xn--e1awd7f.example/a) <https://evil.example/r>\n\n```\nfence ``` </pre> <b>\n```\n\n"
    "<iframe src=//evil.example></iframe>\n\n[ref]: javascript:alert(3)\n\n[ref]"
)


def session(session_id: str, title: str, **changes: Any) -> Body:
    """A session of the list; report fields by name, the rest by `state`, `host_here`."""
    state = changes.pop("state", "idle")
    here = changes.pop("host_here", True)
    report: Body = {
        "session_id": session_id,
        "vendor": "claude",
        "native_id": session_id,
        "title": title,
        "cwd": "/home/dev/infra",
        "project": "/home/dev/infra",
        "git_branch": "main",
        "model": "opus",
        "updated_at": iso(60),
        "created_at": iso(9000),
        "state": state,
        "rung": "file",
        "level": 1,
        "evidence": "No live process writes the file.",
        "rows": 40,
        "size": 123_456,
        "messages": 12,
        "file": f"/home/dev/.claude/projects/{session_id}.jsonl",
        "abilities": abilities(
            ("see_text", "not_owned"),
            ("approve", "not_owned"),
            ("interrupt", "no_turn"),
            ("queue", "not_owned"),
            ("steer", "no_turn"),
        ),
    }
    report.update(changes)
    return {
        "report": report,
        "host_id": "hos_1",
        "host_name": "studio-mac",
        "host_here": here,
        "host_seen_at": iso(2),
        "state": state,
    }


def item(item_id: str, kind: str, **fields: Any) -> Body:
    """One item; `text` becomes its content."""
    text = fields.pop("text", None)
    made: Body = {
        "id": item_id,
        "kind": kind,
        "source": {"file": "f", "line": fields.pop("line", 1)},
        "at": iso(50),
    }
    if text is not None:
        made["content"] = [{"type": "text", "text": text}]
    made.update(fields)
    return made


def said(item_id: str, text: str, role: str = "assistant", **fields: Any) -> Body:
    """A message."""
    return item(item_id, "message", role=role, text=text, **fields)


def ran(item_id: str, command: str, output: str = "", state: str = "completed", **fields: Any) -> Body:
    """A command."""
    line = fields.pop("line", 1)
    tool = {"name": "Bash", "state": state, "kind": "execute", "command": command, "output": output, **fields}
    return item(item_id, "tool", tool=tool, line=line)


def approval(approval_id: str, session_id: str, **fields: Any) -> Body:
    """A turn asks to run a command."""
    made: Body = {
        "approval_id": approval_id,
        "session_id": session_id,
        "turn_id": "trn_1",
        "question": "run_command",
        "title": "",
        "tool": "Bash",
        "command": "pulumi up --stack prod --yes",
        "cwd": "/home/dev/infra/checkout",
        "digest": "d1",
        "state": "open",
        "asked_at": iso(12),
        "options": [
            {"id": "yes", "label": "Yes", "kind": "allow_once"},
            {"id": "ever", "label": "Always allow: pulumi up in this folder", "kind": "allow_always"},
            {"id": "no", "label": "No", "kind": "deny"},
        ],
    }
    made.update(fields)
    return made


OWNED = {
    "rung": "owned",
    "level": 2,
    "evidence": "Ekiden started this process: pid 4711 since 14:02.",
    "abilities": abilities(("continue", "already_owned")),
}


def furnish(door: StubDoor) -> None:
    """Ordinary work: three sessions, one that runs and asks, a host, keys."""
    door.hosts["hos_1"] = {
        "host_id": "hos_1",
        "here": True,
        "seen_at": iso(1),
        "report": {
            "name": "studio-mac",
            "platform": "linux",
            "ekiden_version": "0.1.0",
            "folders": ["/home/dev/infra", "/home/dev/shop"],
            "vendors": [
                {
                    "name": "claude",
                    "label": "Claude Code",
                    "installed": True,
                    "version": "2.1.327",
                    "sessions": 2,
                    "can_start": True,
                },
                {"name": "codex", "label": "Codex", "installed": False},
                {"name": "demo", "label": "Demo", "installed": True, "can_start": True, "sessions": 1},
            ],
        },
    }
    door.keys = [
        {"key_id": "key_1", "kind": "device", "name": "Chrome · Android", "used_at": iso(3), "this": True},
        {"key_id": "key_2", "kind": "host", "name": "studio-mac", "used_at": iso(20)},
    ]
    door.sessions["ses_run"] = session(
        "ses_run", "Move deploy/ to kustomize", state="running", turn_id="trn_1", proof_at=iso(1), **OWNED
    )
    door.sessions["ses_old"] = session("ses_old", "Why is the cache cold?", updated_at=iso(90_000))
    door.sessions["ses_held"] = session(
        "ses_held",
        "Pulumi stack for prod",
        updated_at=iso(600),
        vendor="codex",
        rung="held",
        project="/home/dev/shop",
        cwd="/home/dev/shop",
        evidence="The file is locked by codex.",
        holder={"pid": 812, "program": "codex", "since": iso(4000), "evidence": "It holds the file's lock."},
        abilities=abilities(
            ("see_text", "held_elsewhere"),
            ("approve", "held_elsewhere"),
            ("interrupt", "held_elsewhere"),
            ("queue", "held_elsewhere"),
            ("steer", "held_elsewhere"),
            ("continue", "held_elsewhere"),
        ),
    )
    door.items["ses_run"] = [
        said(
            "itm_1",
            "ArgoCD expects deploy/{service}/kustomization.yaml. Restructure and keep the history.",
            "user",
        ),
        item("itm_2", "thought", text="The services share an overlay, so I should look at both before moving."),
        item(
            "itm_2b",
            "plan",
            plan=[
                {"text": "Move both services", "state": "completed"},
                {"text": "Lift the shared patch", "state": "in_progress"},
                {"text": "Build", "state": "pending"},
            ],
        ),
        ran("itm_3", "git mv k8s/checkout deploy/checkout", duration_ms=212, exit_code=0),
        item(
            "itm_4",
            "tool",
            tool={
                "name": "Edit",
                "state": "completed",
                "kind": "edit",
                "title": "deploy/checkout/kustomization.yaml",
                "diffs": [
                    {
                        "path": "deploy/checkout/kustomization.yaml",
                        "added": 2,
                        "removed": 1,
                        "unified": "@@ -1 +1,2 @@\n-resources: [all.yaml]\n+resources:\n+  - deployment.yaml\n",
                    }
                ],
            },
        ),
        said("itm_5", "Both services moved with their history. The **build** is next, see `deploy/base`."),
        ran(
            "itm_6",
            "kustomize build deploy/checkout",
            "\n".join(f"line {n}" for n in range(60)),
            "failed",
            exit_code=1,
        ),
        item("itm_7", "compaction", text="What was said so far, in short."),
        said("itm_8", "Reminder: the date is today.", "user", injected=True),
        said("itm_9", "A way that was left.", abandoned=True),
        item(
            "itm_10",
            "tool",
            tool={
                "name": "Task",
                "state": "completed",
                "kind": "agent",
                "title": "Look for other overlays",
                "thread": "agent-1",
            },
        ),
        said("itm_11", "I found two overlays.", thread="agent-1"),
        item("itm_12", "unknown", note="mode", text='{"type":"mode"}'),
        ran("itm_13", "kustomize build deploy/inventory", "apiVersion: apps/v1\nkind: Deployment", "in_progress"),
    ]
    door.items["ses_old"] = [said("itm_o1", "Why is the cache cold?", "user"), said("itm_o2", "It was flushed.")]
    door.items["ses_held"] = [said("itm_h1", "Prepare the stack.", "user")]


def hostile(door: StubDoor) -> None:
    """The same hostile text in every place that a text can come from."""
    furnish(door)
    door.hosts["hos_1"]["report"].update(name=HOSTILE, folders=[HOSTILE])
    bad = session("ses_bad", HOSTILE, cwd=HOSTILE, project=HOSTILE, git_branch=HOSTILE, model=HOSTILE, **OWNED)
    bad["report"].update(evidence=HOSTILE, notices=[HOSTILE], file=HOSTILE)
    bad["host_name"] = HOSTILE
    door.sessions["ses_bad"] = bad
    door.items["ses_bad"] = [
        said("itm_b1", HOSTILE, "user"),
        said("itm_b2", HOSTILE),
        item("itm_b3", "thought", text=HOSTILE),
        ran("itm_b4", HOSTILE, HOSTILE, "failed", title=HOSTILE, name=HOSTILE, cwd=HOSTILE),
        item(
            "itm_b5",
            "tool",
            tool={
                "name": HOSTILE,
                "state": "completed",
                "title": HOSTILE,
                "diffs": [{"path": HOSTILE, "unified": "+" + HOSTILE, "added": 1}],
                "input": {"a": HOSTILE},
            },
        ),
        item("itm_b6", "plan", plan=[{"text": HOSTILE}]),
        item("itm_b7", "notice", note=HOSTILE, text=HOSTILE),
        item("itm_b8", "unreadable", text=HOSTILE),
        item(
            "itm_b9", "message", role="assistant", content=[{"type": "reference", "name": HOSTILE, "uri": HOSTILE}]
        ),
    ]
    door.approvals["apr_b"] = approval(
        "apr_b",
        "ses_bad",
        question=HOSTILE,
        title=HOSTILE,
        tool=HOSTILE,
        command=HOSTILE,
        cwd=HOSTILE,
        diff="+" + HOSTILE,
    )
    door.keys.append({"key_id": "key_b", "kind": HOSTILE, "name": HOSTILE, "used_at": iso(3)})
    door.pairings["pai_b"] = {
        "pairing_id": "pai_b",
        "device": HOSTILE,
        "words": HOSTILE,
        "state": "waiting",
        "asked_at": iso(3),
    }


def long_session(door: StubDoor, count: int) -> None:
    """A session of `count` items of differing heights."""
    furnish(door)
    door.sessions["ses_long"] = session("ses_long", "A very long session", **OWNED)
    door.items["ses_long"] = [
        said(
            f"itm_l{n}",
            f"Message {n}. " + "More words to fill the line. " * (n % 17),
            "user" if n % 7 == 0 else "assistant",
            line=n + 1,
        )
        if n % 3
        else ran(f"itm_l{n}", f"echo {n}", f"out {n}\n" * (n % 9), line=n + 1)
        for n in range(count)
    ]
