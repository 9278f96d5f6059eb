"""A computer speaks in fixed English sentences; the page knows each of them and says it in its own words."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from ekiden.host.liveness import Evidence, standing
from ekiden.host.quoting import extract_of
from ekiden.kernel.limits import LOST_SHOWN_S
from ekiden.transcript.items import Image, Item, ItemKind, Role, Source, Text, Tool, ToolState
from web.stub_door import WEB

NOW = 1_800_000_000.0
SAY = """
import { fromHost } from "%(web)s/parts/from_host.js";
import { languageChoice } from "%(web)s/state/settings.js";
languageChoice.value = "zh";
console.log(JSON.stringify(JSON.parse(process.argv[1]).map(fromHost)));
"""


def in_chinese(sentences: Sequence[str]) -> list[str]:
    """What the page says for each; what it does not know stays as it is."""
    node = shutil.which("node")
    assert node is not None, "Node is needed to run the page's pure parts"
    script = SAY % {"web": WEB.as_uri()}
    ran = subprocess.run(
        [node, "--input-type=module", "-e", script, json.dumps(list(sentences))],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


def test_every_evidence_of_a_session_is_known() -> None:
    """Whatever the evidence says, but who holds it: that the page says from the holder's own fields."""
    cases = [
        Evidence(NOW, "Codex", owned_pid=7),
        Evidence(NOW, "Codex", file_there=False),
        Evidence(NOW, "Codex"),
        Evidence(NOW, "Codex", turn_open=True, grew_at=NOW),
        Evidence(NOW, "Codex", turn_open=True, modified_at=NOW - 60),
        Evidence(NOW, "Codex", turn_open=True, modified_at=NOW - LOST_SHOWN_S - 1),
    ]
    said = [standing(case).evidence for case in cases]
    assert len(set(said)) == len(cases)
    told = in_chinese(said)
    assert [text for text, own in zip(said, told, strict=True) if text == own] == []
    assert "Codex" in told[0]
    assert "7" in told[0]


def test_what_a_quote_carried_and_left_is_known() -> None:
    """One item of each kind that is left out, and more than fits."""

    def item(number: int, kind: ItemKind, **fields: Any) -> Item:
        return Item(id=f"itm_{number}", kind=kind, source=Source(file="f", line=number + 1), **fields)

    items = [
        *(item(n, ItemKind.MESSAGE, role=Role.USER, content=(Text("word " * 3000),)) for n in range(20)),
        item(20, ItemKind.THOUGHT, content=(Text("a thought"),)),
        item(21, ItemKind.MESSAGE, role=Role.USER, content=(Image("image/png", "00", 5),)),
        item(22, ItemKind.TOOL, tool=Tool(name="Bash", state=ToolState.COMPLETED, output="out\n" * 9000)),
    ]
    extract = extract_of(items, product="Codex", title="t", folder="/f", more_before=True, message="")
    said = [extract.carried, *extract.not_carried]
    assert len(said) == 6
    assert [text for text, own in zip(said, in_chinese(said), strict=True) if text == own] == []
