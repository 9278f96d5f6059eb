"""Which rows of a rollout are for people, which are bookkeeping, and which are Codex speaking to its model.

A kind that is in none of these lists is unknown: it is counted and shown as such. Source: rows seen from
codex-cli 0.137 to 0.171, and the event names of its published protocol.
"""

import re

import msgspec

from ekiden.vendors.codex.native import Record, decoded, listed, record, text_of

BARE_STATE = "state"

ROWS_PASSED_OVER = frozenset({"world_state", "turn_context", "token_usage_record"})

EVENTS_PASSED_OVER = frozenset(
    {
        "agent_message_content_delta",
        "agent_message_delta",
        "agent_reasoning_delta",
        "agent_reasoning_raw_content",
        "agent_reasoning_raw_content_delta",
        "agent_reasoning_section_break",
        "apply_patch_approval_request",
        "background_event",
        "deprecation_notice",
        "elicitation_request",
        "exec_approval_request",
        "exec_command_begin",
        "exec_command_output_delta",
        "hook_completed",
        "hook_started",
        "image_generation_begin",
        "image_generation_end",
        "item_started",
        "list_skills_response",
        "mcp_startup_complete",
        "mcp_startup_update",
        "mcp_tool_call_begin",
        "patch_apply_begin",
        "patch_apply_updated",
        "plan_delta",
        "plan_update",
        "raw_response_item",
        "reasoning_content_delta",
        "reasoning_raw_content_delta",
        "request_permissions",
        "request_user_input",
        "session_configured",
        "shutdown_complete",
        "skills_update_available",
        "terminal_interaction",
        "thread_goal_updated",
        "thread_settings_applied",
        "token_count",
        "turn_diff",
        "view_image_tool_call",
        "web_search_begin",
        "web_search_end",
    }
)

RESPONSES_PASSED_OVER = frozenset({"compaction", "compaction_summary", "context_compaction", "ghost_snapshot"})

CALL_TYPES = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
OUTPUT_TYPES = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})

_CONTEXT = re.compile(
    r"\s*(?:<(environment_context|user_instructions|permissions instructions|turn_aborted|skills?_instructions"
    r"|skill|apps_instructions|plugins_instructions|collaboration_mode|multi_agent_mode|subagent_notification"
    r"|user_shell_command|personality_spec|model_switch|realtime_conversation|hook_prompt|INSTRUCTIONS)\b"
    r"|(# AGENTS\.md instructions))"
)
_SUMMARY = re.compile(rb'"message":\s?"((?:[^"\\]|\\.)*)')
_SUMMARY_WITHIN_BYTES = 512 * 1024
_ESCAPE_BYTES_MAX = 6


class _Context(msgspec.Struct):
    model: str = ""
    cwd: str = ""


class TurnContext(msgspec.Struct):
    """The two fields of a `turn_context` row that a person sees."""

    payload: _Context


def context_word(payload: Record) -> str:
    """What sort of context a message is that Codex wrote in the person's name; empty for a person's own words.

    Newer rows say it themselves (`content_item_kinds`); older ones are known by how the text begins.
    """
    role = text_of(payload.get("role"))
    if role == "assistant":
        return ""
    parts = listed(payload.get("content"))
    first = next((text_of(record(part).get("text")) for part in parts if record(part).get("text")), "")
    found = _CONTEXT.match(first, 0, 200)
    begins_as = (found[1] or "agents_md").replace(" ", "_") if found else ""
    metadata = record(payload.get("internal_chat_message_metadata_passthrough"))
    kinds = [text_of(kind) for kind in listed(metadata.get("content_item_kinds"))]
    if role == "user" and kinds and kinds[0] != "unknown":
        if any(kind.startswith("user.") for kind in kinds):
            return ""
        return begins_as or kinds[0].rpartition(".")[2] or "context"
    if role != "user":
        return begins_as or role or "context"
    return begins_as


def summary_in(raw: bytes, payload_at: int) -> str:
    """The summary of a `compacted` row, read off the line's beginning: the history after it is not parsed.

    `raw` may be cut anywhere; a summary that is cut is given as far as it goes.
    """
    found = _SUMMARY.search(raw, max(0, payload_at - 1), payload_at + _SUMMARY_WITHIN_BYTES)
    if found is None:
        return ""
    text = found[1]
    for _ in range(_ESCAPE_BYTES_MAX + 1):
        try:
            return text_of(decoded(b'"' + text + b'"'))
        except ValueError:
            text = text[:-1]  # the bound cut through an escape
    return ""
