"""Bounds of requests to models: known for text with a limit of the answer, unknown for everything else."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from recovery_ops.runtime.integrations.model_streams import Dialect, Usage
from recovery_ops.runtime.integrations.request_bounds import VENDORS_TOKENS, usage_bound


class _Chat:
    def limit_key(self, url: str, request: Any) -> str | None:
        return "max_tokens" if "max_tokens" in request else None


def bound(body: dict[str, Any], url: str = "/chat/completions") -> Usage | None:
    return usage_bound(cast("Dialect", _Chat()), url, body)


MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "wörter"}]}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": ["object", "null"]}}}]


@pytest.mark.parametrize(
    ("more", "answer"), [({}, 100), ({"tools": TOOLS}, 100), ({"n": 3}, 300), ({"n": 0}, 100), ({"n": None}, 100)]
)
def test_text_is_bounded_by_bytes_and_answer_limit(more: dict[str, Any], answer: int) -> None:
    body = {"model": "m", "messages": MESSAGES, "max_tokens": 100, **more}
    size = len(json.dumps(body, ensure_ascii=False).encode())
    assert bound(body) == Usage(input_tokens=size + VENDORS_TOKENS, output_tokens=answer)


def test_embedding_has_no_answer() -> None:
    found = bound({"model": "m", "input": "x"}, "/v1/embeddings?version=1")
    assert found is not None
    assert found.output_tokens == 0


@pytest.mark.parametrize(
    "more",
    [
        {"max_tokens": None},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}]},
        {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
        {"previous_response_id": "r-1"},
        {"prompt": {"id": "p-1"}},
        {"messages": [{"role": "user", "content": object()}]},
    ],
)
def test_bound_is_unknown(more: dict[str, Any]) -> None:
    assert bound({"model": "m", "messages": MESSAGES, "max_tokens": 100, **more}) is None
