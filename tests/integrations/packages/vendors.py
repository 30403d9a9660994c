"""What the vendors' APIs answer, as bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.support.http_server import Reply, Request, answer

OVERFLOW = (
    "input length and `max_tokens` exceed context limit: 188240 + 20000 > 200000, "
    "decrease input length or `max_tokens` and try again"
)


def said(status: int, body: object, **headers: str) -> Reply:
    return answer(status, json.dumps(body).encode(), media_type="application/json", **headers)


def stream(events: Iterable[object], *, is_cut: bool = False) -> Reply:
    """Server-sent events; those of Anthropic and of OpenAI's responses are named by their type."""
    lines = []
    for event in events:
        kind = event.get("type") if isinstance(event, dict) else None
        lines.append(
            (f"event: {kind}\n" if kind else "") + f"data: {event if event == '[DONE]' else json.dumps(event)}"
        )
    body = "".join(f"{line}\n\n" for line in lines).encode()

    def reply(connection: Any, request: Request) -> bool:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"%x\r\n%b\r\n" % (len(body), body) + (b"" if is_cut else b"0\r\n\r\n"))
        return not is_cut

    return reply


def sent(request: Request) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.body)
    return found


def anthropic_message(stop_reason: str = "end_turn", text: str = "fine") -> dict[str, Any]:
    usage = {"input_tokens": 90, "cache_read_input_tokens": 10, "output_tokens": 12}
    content = [{"type": "text", "text": text}]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "large",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": usage,
    }


def anthropic_error(kind: str, message: str = "sorry") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def anthropic_events(stop_reason: str = "end_turn", texts: tuple[str, ...] = ("fi", "ne")) -> list[dict[str, Any]]:
    begun = {
        **anthropic_message(),
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 100, "output_tokens": 1},
    }
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}} for text in texts),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason, "stop_sequence": None},
            "usage": {"output_tokens": 12},
        },
        {"type": "message_stop"},
    ]


def openai_chat(
    finish_reason: str = "stop", content: str | None = "fine", refusal: str | None = None
) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "refusal": refusal}
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 12,
        "total_tokens": 112,
        "prompt_tokens_details": {"cached_tokens": 10},
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "large",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}],
        "usage": usage,
    }


def openai_chunks(finish_reason: str = "stop") -> list[object]:
    def chunk(delta: dict[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "large",
            "choices": [choice],
            **more,
        }

    usage = {"prompt_tokens": 100, "completion_tokens": 12, "total_tokens": 112}
    return [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "fi"}),
        chunk({"content": "ne"}),
        chunk({}, finish_reason),
        {**chunk({}), "choices": [], "usage": usage},
        "[DONE]",
    ]


def openai_response(status: str = "completed", **more: Any) -> dict[str, Any]:
    part = more.pop("part", {"type": "output_text", "text": "fine", "annotations": []})
    output = [{"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [part]}]
    usage = {
        "input_tokens": 100,
        "output_tokens": 12,
        "total_tokens": 112,
        "input_tokens_details": {"cached_tokens": 10},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "large",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": output,
        "usage": usage,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **more,
    }


def openai_response_events(**more: Any) -> list[object]:
    begun = {**openai_response("in_progress"), "output": [], "usage": None}
    item = {**openai_response()["output"][0], "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    place = {"item_id": "m1", "output_index": 0, "content_index": 0, "logprobs": []}
    return [
        {"type": "response.created", "sequence_number": 0, "response": begun},
        {"type": "response.output_item.added", "sequence_number": 0, "output_index": 0, "item": item},
        {"type": "response.content_part.added", "sequence_number": 0, "part": part, **place},
        {"type": "response.output_text.delta", "sequence_number": 1, "delta": "fi", **place},
        {"type": "response.output_text.delta", "sequence_number": 2, "delta": "ne", **place},
        {"type": "response.completed", "sequence_number": 3, "response": openai_response(**more)},
    ]


def openai_error(kind: str, code: str | None = None, message: str = "sorry") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
