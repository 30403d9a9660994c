"""Anthropic's clients with recovery, sync, async and streaming; everything else of the client stays as it is.

from recovery_ops.runtime.integrations.anthropic import with_recovery

client = with_recovery(anthropic.Anthropic(), recovery, chain=ModelChain("large", "small"))
client.messages.create(model="large", max_tokens=8000, messages=[...])
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.failures.empty_answers import ModelAnswerUnreadable, ModelFailed, ModelRefused
from recovery_ops.runtime.guards.options import AllGuardOptions
from recovery_ops.runtime.integrations.model_calls import CostOf, numbers, recovering
from recovery_ops.runtime.integrations.model_streams import Usage
from recovery_ops.runtime.integrations.packages import missing

try:
    import anthropic
except ModuleNotFoundError as error:
    raise missing(__name__, "anthropic", error) from None

__all__ = ["ModelAnswerUnreadable", "ModelFailed", "ModelRefused", "Usage", "with_recovery"]

Client = TypeVar("Client")


def with_recovery(
    client: Client,
    recovery: Recovery,
    *,
    operation: str | None = None,
    cost_usd: CostOf | None = None,
    **options: Unpack[AllGuardOptions],
) -> Client:
    """A copy of an `Anthropic` or `AsyncAnthropic` (Bedrock, Vertex …) client that recovers by the rules.

    Messages, their streams and token counts go up the ladder as `model:<name>` (or as `operation`); the client's own
    retries are off for them. What overflows the context is asked again with the `max_tokens` that are left; where
    a model is used up `chain` switches it in the request. `cost_usd(model, usage)` prices an answer; tokens and
    cost are added to the run. The rest are the options of a guard (`source`, `timeout`, `fallback` …).

    Raises Anthropic's own exceptions, also after retries (`recovery.report(error)` has the history);
    `ModelRefused` for an answer with `stop_reason="refusal"`; CircuitOpen, RetryAfterActive or DeadlineExceeded for a
    request that was not sent.
    """
    wrapped: Client = recovering(client, _Anthropic(), recovery, operation=operation, cost_usd=cost_usd, **options)
    return wrapped


_PARTS = {"messages": "content", "count_tokens": "input_tokens", "complete": "completion"}


class _Anthropic:
    provider = "anthropic"
    default_timeout = anthropic.DEFAULT_TIMEOUT

    def answers(self, url: str) -> bool:
        path = url.partition("?")[0].rstrip("/")
        return path.endswith(("/messages", "/messages/count_tokens", "/complete"))

    def limit_key(self, url: str, request: Mapping[str, Any]) -> str | None:
        return "max_tokens" if "max_tokens" in request else None

    def usage(self, answer: Any) -> Usage | None:
        holder = getattr(answer, "message", answer)  # the first event of a stream holds the message
        usage = getattr(holder, "usage", None)
        if usage is None:
            return None
        sent, received = numbers(usage, "input_tokens", "output_tokens")
        read, made = numbers(usage, "cache_read_input_tokens", "cache_creation_input_tokens")
        return Usage(sent + read + made, received, read)

    def trouble(self, answer: Any) -> Exception | None:
        holder = getattr(answer, "delta", answer)  # the last but one event of a stream says why it ends
        if getattr(holder, "stop_reason", None) == "refusal":
            return ModelRefused("the model declined to answer")
        return None

    def part(self, url: str) -> str:
        return _PARTS[url.rpartition("/")[2]]

    def connection_error(self, message: str, request: Any) -> Exception:
        error: Exception = anthropic.APIConnectionError(message=message, request=request)
        return error

    def continued(self, url: str, body: Mapping[str, Any], part: str) -> dict[str, Any]:
        if "messages" not in body:
            return {**body, "prompt": f"{body['prompt']}{part}"}
        said = {"role": "assistant", "content": part.rstrip()}  # the vendor refuses white space at the end
        return {**body, "messages": [*body["messages"], said]}
