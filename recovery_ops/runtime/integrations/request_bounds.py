"""The most tokens that a request to a model can spend, read from the request; None where that cannot be known.

A token stands for at least one byte of text, and the vendor adds text of its own for roles and tools. So the bytes of a
request of text alone bound what it sends, and its own limit bounds what it receives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recovery_ops.runtime.integrations.model_streams import Dialect, Usage

VENDORS_TOKENS = 2048
"""What a vendor adds to a request at most: the text around roles, tools and schemas."""

_WITHOUT_ANSWER = ("/embeddings", "/moderations", "/count_tokens")
_TEXT_TYPES = frozenset(
    {
        *("text", "input_text", "output_text", "refusal", "message", "ephemeral", "thinking", "redacted_thinking"),
        *("tool_use", "tool_result", "function", "function_call", "function_call_output", "custom", "tool"),
        *("auto", "any", "none", "enabled", "disabled", "json_schema", "json_object"),
        *("object", "string", "number", "integer", "boolean", "array", "null"),
    }
)
"""Values of `type` in a request of text. Images, files and the vendors' own tools cost what their bytes do not say."""
_KEPT_BY_VENDOR = ("previous_response_id", "conversation", "container", "mcp_servers", "web_search_options", "audio")


def usage_bound(dialect: Dialect, url: str, body: Mapping[str, Any]) -> Usage | None:
    """The tokens that an answer to this request counts at most."""
    if any(body.get(name) for name in _KEPT_BY_VENDOR) or isinstance(body.get("prompt"), Mapping):
        return None
    answers = _answer_tokens(dialect, url, body)
    if answers is None or not _is_text(body):
        return None
    try:
        text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError):
        return None
    return Usage(input_tokens=len(text) + VENDORS_TOKENS, output_tokens=answers)


def _answer_tokens(dialect: Dialect, url: str, body: Mapping[str, Any]) -> int | None:
    if url.partition("?")[0].rstrip("/").endswith(_WITHOUT_ANSWER):
        return 0
    key = dialect.limit_key(url, body)
    limit = body.get(key) if key is not None else None
    if not isinstance(limit, int):
        return None
    counts = [count for name in ("n", "best_of") if isinstance(count := body.get(name), int)]
    return limit * max([1, *counts])


def _is_text(value: object) -> bool:
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping):
            kind = found.get("type")
            if isinstance(kind, str) and kind not in _TEXT_TYPES:
                return False
            waiting.extend(found.values())
        elif isinstance(found, list | tuple):
            waiting.extend(found)
    return True
