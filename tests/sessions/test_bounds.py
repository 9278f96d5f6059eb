"""Whatever a host tells fits into events: nothing is lost by splitting, and what is cut is said and was there."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from ekiden.sessions.bounds import fit_approval, fit_item, split_items
from ekiden.sessions.rules import digest_of
from ekiden.sessions.wire import Approval, ApprovalOption
from ekiden.transcript.items import (
    Cut,
    Diff,
    Item,
    ItemKind,
    PlanEntry,
    Source,
    Text,
    Tool,
    ToolState,
    encode_item,
)

LEAST_BYTES = 8_192
"""The smallest bound that is tried; even an item of which nothing can be shown fits into it."""

texts = st.builds(
    lambda letter, count: letter * count,
    st.sampled_from(["a", "é", "語", "😀", "\n", "\x01", '"']),
    st.integers(0, 9_000),
)
tools = st.builds(
    lambda output, command, size, diffs: Tool(
        name="Bash",
        state=ToolState.COMPLETED,
        output=output,
        command=command,
        input=msgspec.Raw(msgspec.json.encode({"content": "x" * size})),
        diffs=tuple(Diff("file", diff) for diff in diffs),
    ),
    texts,
    texts,
    st.integers(0, 9_000),
    st.lists(texts, max_size=3),
)
items = st.builds(
    lambda name, content, plan, tool, cut: Item(
        id=f"itm_{name}",
        kind=ItemKind.TOOL if tool else ItemKind.MESSAGE,
        source=Source("s.jsonl", 1, 0, 10),
        content=tuple(map(Text, content)),
        plan=tuple(map(PlanEntry, plan)),
        tool=tool,
        turn="trn_1",
        cut=cut,
    ),
    st.integers(0, 9),
    st.lists(texts, max_size=20),
    st.lists(texts, max_size=20),
    st.none() | tools,
    st.just(()) | st.just((Cut("tool.output", 10**9),)),
)


@given(items, st.integers(LEAST_BYTES, 60_000))
def test_an_item_fits_and_says_what_it_lacks(item: Item, max_bytes: int) -> None:
    """One that fits is untouched; of another each text is a beginning of the whole, and its cut names the size."""
    fitting = fit_item(item, max_bytes)
    size = len(encode_item(item))
    assert len(encode_item(fitting)) <= max_bytes
    assert (fitting == item) == (size <= max_bytes)
    assert (fitting.id, fitting.kind, fitting.turn) == (item.id, item.kind, item.turn)
    if fitting == item:
        return
    assert fitting.cut
    cuts = {cut.field: cut.bytes for cut in fitting.cut}
    if "item" in cuts:
        assert cuts == {"item": size}
        return
    for index, block in enumerate(fitting.content):
        whole = item.content[index]
        assert isinstance(whole, Text)
        assert isinstance(block, Text)
        assert whole.text.startswith(block.text)
        if block.text != whole.text:
            assert cuts[f"content.{index}.text"] == len(whole.text.encode())
    assert len(fitting.content) == len(item.content) or "content" in cuts
    if item.tool is not None and fitting.tool is not None and fitting.tool.output != item.tool.output:
        earlier = {cut.field: cut.bytes for cut in item.cut}
        assert cuts["tool.output"] == earlier.get("tool.output", len(item.tool.output.encode()))


@given(st.lists(items, max_size=30), st.integers(LEAST_BYTES, 60_000))
def test_splitting_keeps_every_item_once_and_in_order(told: list[Item], max_bytes: int) -> None:
    """The lists together are the items; none is over the bound, and none is empty."""
    lists = list(split_items(told, max_bytes))
    assert [item.id for part in lists for item in part] == [item.id for item in told]
    for part in lists:
        assert part
        assert sum(len(encode_item(item)) + 1 for item in part) <= max_bytes + 1


@given(texts, texts, st.integers(0, 40_000), st.integers(4 * LEAST_BYTES, 60_000))
def test_an_approval_fits_and_stays_bound_to_the_whole(command: str, diff: str, size: int, max_bytes: int) -> None:
    """What is cut is said; options, ids and the digest are never touched."""
    asked = Approval(
        approval_id="apr_1",
        session_id="ses_1",
        turn_id="trn_1",
        question="edit_file",
        title="Write",
        tool="Write",
        detail=msgspec.Raw(msgspec.json.encode({"content": "x" * size})),
        command=command,
        diff=diff,
        options=(ApprovalOption("yes", "Allow", "allow_once"),),
    )
    asked = msgspec.structs.replace(asked, digest=digest_of(asked))
    fitting = fit_approval(asked, max_bytes)
    assert len(msgspec.json.encode(fitting)) <= max_bytes
    assert (fitting.digest, fitting.options, fitting.approval_id) == (
        asked.digest,
        asked.options,
        asked.approval_id,
    )
    named = {cut.field for cut in fitting.cut}
    for field in ("command", "diff"):
        assert (field in named) == (getattr(fitting, field) != getattr(asked, field))
        assert getattr(asked, field).startswith(getattr(fitting, field))
