"""A provider of models with one fault at a time: sixteen kinds of trouble, in the form of OpenAI's chat completions."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.http_server import Request, Server, serving

PRIMARY, BACKUP = "primary", "backup"
ANSWER = ("The ", "sea ", "is ", "salt.")
TEXT = "".join(ANSWER)
USAGE = {"prompt_tokens": 100, "completion_tokens": 12, "total_tokens": 112}
PATIENCE_S = 10.0

_END = b"0\r\n\r\n"
_Send = Callable[[Any, Request], bool]


@dataclass
class Provider:
    """Two models of one address. `fault` is what the primary does; the backup answers, but refuses prefill."""

    fault: str = ""
    ends_in_order: bool = False
    """Whether a stream that is cut ends its HTTP body in order, as a proxy that lost its provider ends it."""
    server: Server | None = None
    gate: threading.Event = field(default_factory=threading.Event)
    """Ends every silence."""

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"{self.server.url}/v1"

    def asked(self, model: str) -> int:
        """How many requests a model got."""
        assert self.server is not None
        return sum(json.loads(request.body)["model"] == model for request in self.server.requests)

    def reply(self, connection: Any, request: Request) -> bool:
        body = json.loads(request.body)
        if body["model"] == PRIMARY and self.fault in FAULTS:
            return FAULTS[self.fault](self, connection, request)
        if body["model"] == BACKUP and body["messages"][-1]["role"] == "assistant":
            return _refused(400, "invalid_request_error", "this model does not take prefill")(connection, request)
        return _answered(connection, request)


@contextlib.contextmanager
def providing() -> Iterator[Provider]:
    """A provider for the length of a test."""
    made = Provider()
    with serving(routes={}, otherwise=made.reply) as made.server:
        try:
            yield made
        finally:
            made.gate.set()


def is_stream(request: Request) -> bool:
    return bool(json.loads(request.body).get("stream"))


def _answered(connection: Any, request: Request) -> bool:
    if is_stream(request):
        _begin(connection)
        for chunk in (*_chunks(request), "[DONE]"):
            _event(connection, chunk)
        connection.sendall(_END)
        return True
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop", "logprobs": None}
    whole = {"id": "c1", "object": "chat.completion", "created": 1, "model": _model(request), "choices": [choice]}
    return _json(200, {**whole, "usage": USAGE})(connection, request)


def _model(request: Request) -> str:
    return str(json.loads(request.body)["model"])


def _chunk(request: Request, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": _model(request)}
    return {**head, "choices": [choice]}


def _chunks(request: Request) -> list[object]:
    texts = [_chunk(request, {"content": text}) for text in ANSWER]
    last = {**_chunk(request, {}), "choices": [], "usage": USAGE}
    return [_chunk(request, {"role": "assistant", "content": ""}), *texts, _chunk(request, {}, "stop"), last]


def _begin(connection: Any) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    connection.sendall(head)


def _event(connection: Any, content: object) -> None:
    line = f"data: {content if isinstance(content, str) else json.dumps(content)}\n\n".encode()
    connection.sendall(b"%x\r\n%b\r\n" % (len(line), line))


def _json(status: int, body: object, **headers: str) -> _Send:
    def send(connection: Any, request: Request) -> bool:
        content = json.dumps(body).encode() if not isinstance(body, bytes) else body
        lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(content)}", "Content-Type: application/json"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + content)
        return True

    return send


def _refused(status: int, kind: str, message: str, code: str | None = None, **headers: str) -> _Send:
    return _json(status, {"error": {"message": message, "type": kind, "param": None, "code": code}}, **headers)


def _always(send: _Send) -> Callable[[Provider, Any, Request], bool]:
    return lambda _, connection, request: send(connection, request)


def _silent(provider: Provider, connection: Any, request: Request) -> bool:
    provider.gate.wait(PATIENCE_S)
    return False


def _once(fail: Callable[[Provider, Any, Request], bool]) -> Callable[[Provider, Any, Request], bool]:
    """The first request of the primary fails so; the next is answered."""

    def reply(provider: Provider, connection: Any, request: Request) -> bool:
        if provider.asked(PRIMARY) == 1:
            return fail(provider, connection, request)
        return _answered(connection, request)

    return reply


def _broken(*, tokens: int, is_silent: bool) -> Callable[[Provider, Any, Request], bool]:
    """A stream that ends, or falls silent, after so many tokens; in one piece the answer is cut, or does not come."""

    def reply(provider: Provider, connection: Any, request: Request) -> bool:
        if is_stream(request):
            _begin(connection)
            for chunk in _chunks(request)[: 1 + tokens]:
                _event(connection, chunk)
            if provider.ends_in_order and not is_silent:
                connection.sendall(_END)
                return True
        elif not is_silent:
            connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"id"')
        return _silent(provider, connection, request) if is_silent else False

    return reply


def _malformed(provider: Provider, connection: Any, request: Request) -> bool:
    if is_stream(request):
        _begin(connection)
        _event(connection, '{"id": "c1", "choices": [')
        connection.sendall(_END)
        return True
    return _json(200, b'{"id": "c1", "choices": [')(connection, request)


_TOO_LONG = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. "
    "Please reduce the length of the messages."
)
_LIMITED = ("rate_limit_error", "Rate limit reached for requests", "rate_limit_exceeded")

FAULTS: dict[str, Callable[[Provider, Any, Request], bool]] = {
    "rate_limit_with_retry_after": _once(_always(_refused(429, *_LIMITED, retry_after="2"))),
    "rate_limit_without_retry_after": _always(_refused(429, *_LIMITED)),
    "server_error": _always(_refused(500, "server_error", "The server had an error")),
    "unavailable": _always(_refused(503, "server_error", "Service unavailable")),
    "auth": _always(_refused(401, "invalid_request_error", "Incorrect API key provided", "invalid_api_key")),
    "timeout": _silent,
    "slow_first_token": _broken(tokens=0, is_silent=True),
    "cut_before_the_first_token": _once(_broken(tokens=0, is_silent=False)),
    "cut_stream": _broken(tokens=2, is_silent=False),
    "stall": _broken(tokens=2, is_silent=True),
    "malformed": _malformed,
    "context_too_long": _always(_refused(400, "invalid_request_error", _TOO_LONG, "context_length_exceeded")),
    "content_filter": _always(_refused(400, "invalid_request_error", "The content was filtered", "content_filter")),
    "refused_prefill": _broken(tokens=2, is_silent=False),
    "down": _always(_refused(503, "server_error", "Service unavailable")),
    "accounting": _once(_always(_refused(500, "server_error", "The server had an error"))),
}
"""What the primary does, by fault. The backup answers all of them but the one that no other model may answer."""
