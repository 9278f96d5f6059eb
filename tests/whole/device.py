"""A device that follows one session the way the page does: a snapshot, then events, then growing text by index."""

import threading
from typing import Any

from ekiden.kernel.errors import EkidenError
from whole.computer import Computer, wait_for


class Device:
    """Follows a session on a stream of its own, from the moment it is made. `seen` is every frame's kind."""

    def __init__(self, computer: Computer, session_id: str) -> None:
        self.session_id = session_id
        self.items: dict[str, dict[str, Any]] = {}
        self.growing: dict[str, list[str]] = {}
        self.grown_texts: dict[str, str] = {}
        self.turns: list[tuple[str, str, str]] = []
        self.approvals: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, dict[str, Any]] = {}
        self.seen: list[str] = []
        self.ended = ""
        self._client = computer.client()
        self._reader = computer.client()
        self._ready = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()
        assert self._ready.wait(20.0)
        for item in self._client.get(f"/v1/sessions/{session_id}/items", limit=200)["items"]:
            self.items.setdefault(item["id"], item)

    def _follow(self) -> None:
        try:
            for frame in self._reader.stream((f"session:{self.session_id}",)):
                self.seen.append(frame.kind)
                self._take(frame.kind, frame.read(dict[str, Any]))
                if frame.kind == "stream.end":
                    self.ended = frame.read(dict[str, Any])["reason"]
                self._ready.set()
        except (EkidenError, OSError, ValueError) as error:
            self.ended = self.ended or str(error)

    def _take(self, kind: str, body: dict[str, Any]) -> None:
        if kind == "item.grown":
            self.growing[body["item_id"]] = [body["text"], *[""] * (body["count"] - 1)] if body["count"] else []
            self._keep(body["item_id"])
        elif kind == "item.grew":
            pieces = self.growing.setdefault(body["item_id"], [])
            assert body["index"] <= len(pieces), "a piece was missed"
            if body["index"] == len(pieces):
                pieces.append(body["text"])
            self._keep(body["item_id"])
        elif kind == "items.added":
            for item in body["items"]:
                self.items[item["id"]] = item
        elif kind == "turn.changed":
            self.turns.append((body["turn_id"], body["state"], body.get("reason", "")))
        elif kind.startswith("approval."):
            self.approvals[body["approval_id"]] = body
        elif kind.startswith("message."):
            self.messages[body["message_id"]] = body

    def _keep(self, item_id: str) -> None:
        self.grown_texts[item_id] = "".join(self.growing[item_id])

    def grown_text(self) -> str:
        """All text that was seen growing, in order."""
        return "".join(self.grown_texts.values())

    def text(self, role: str = "assistant") -> list[str]:
        """Texts of whole messages."""
        return [
            "\n".join(block.get("text", "") for block in item.get("content", ()))
            for item in self.items.values()
            if item["kind"] == "message" and item.get("role") == role and not item.get("injected")
        ]

    def wait_turn(self, state: str, within_s: float = 40.0) -> tuple[str, str, str]:
        """The first turn frame with this state."""
        return wait_for(
            lambda: next((turn for turn in self.turns if turn[1] == state), None),
            f"a turn is {state}: {self.turns}",
            within_s,
        )

    def wait_text(self, text: str, within_s: float = 40.0) -> None:
        """Until a whole message of the assistant has exactly this text."""
        wait_for(lambda: text in self.text(), f"{text!r} in {self.text()}", within_s)

    def wait_approval(self, within_s: float = 40.0) -> dict[str, Any]:
        """The first open approval."""
        return wait_for(
            lambda: next((a for a in self.approvals.values() if a.get("state", "open") == "open"), None),
            "an approval",
            within_s,
        )

    def send(self, text: str, **more: Any) -> dict[str, Any]:
        """Sends a message to the session."""
        return self._client.post(f"/v1/sessions/{self.session_id}/messages", {"text": text, **more})

    def answer(self, approval: dict[str, Any], kind: str, **more: Any) -> dict[str, Any]:
        """Answers with the first option of this kind."""
        option = next(o["id"] for o in approval["options"] if o["kind"] == kind)
        return self._client.post(
            f"/v1/approvals/{approval['approval_id']}/answer",
            {"option": option, "digest": approval["digest"], **more},
        )

    def interrupt(self, turn_id: str) -> None:
        """Stops this turn."""
        self._client.post(f"/v1/sessions/{self.session_id}/interrupt", {"turn_id": turn_id})

    def close(self) -> None:
        self._client.close()
        self._reader.close()
