"""OpenAI's clients with recovery, sync, async and streaming; everything else of the client stays as it is.

from recovery_ops.runtime.integrations.openai import with_recovery

client = with_recovery(openai.OpenAI(), recovery, chain=ModelChain("large", "small"))
client.chat.completions.create(model="large", messages=[...])
client.responses.create(model="large", input="…")
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.failures.empty_answers import (
    ModelAnswerUnreadable,
    ModelFailed,
    ModelRefused,
    failed_by,
)
from recovery_ops.runtime.guards.options import AllGuardOptions
from recovery_ops.runtime.integrations.model_calls import CostOf, numbers, recovering
from recovery_ops.runtime.integrations.model_streams import Usage
from recovery_ops.runtime.integrations.packages import missing

try:
    import openai
except ModuleNotFoundError as error:
    raise missing(__name__, "openai", error) from None

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
    """A copy of an `OpenAI` or `AsyncOpenAI` (Azure …) client that recovers by the rules.

    Chat completions, responses, embeddings and moderations, parsed and streamed, go up the ladder as `model:<name>`
    (or as `operation`); the client's own retries are off for them. What overflows the context is asked again with the
    tokens that are left; where a model is used up `chain` switches it in the request.
    `cost_usd(model, usage)` prices an answer; tokens and cost are added to the run. A chat stream tells its tokens
    only where the caller asks for them (`stream_options={"include_usage": True}`). The rest are the options of a guard.

    Raises OpenAI's own exceptions, also after retries (`recovery.report(error)` has the history); `ModelRefused` for a
    refusal or a filtered answer, `ModelFailed` for status 200 with an error in the body, or `ModelAnswerUnreadable` for
    a page of HTML or an answer without choices; CircuitOpen, RetryAfterActive or DeadlineExceeded for a request that
    was not sent.
    """
    wrapped: Client = recovering(client, _OpenAI(), recovery, operation=operation, cost_usd=cost_usd, **options)
    return wrapped


_PARTS = {"completions": "choices", "responses": "output", "embeddings": "data", "moderations": "results"}


class _OpenAI:
    provider = "openai"
    default_timeout = openai.DEFAULT_TIMEOUT

    def answers(self, url: str) -> bool:
        path = url.partition("?")[0].rstrip("/")
        return path.endswith(("/completions", "/responses", "/embeddings", "/moderations"))

    def limit_key(self, url: str, request: Mapping[str, Any]) -> str | None:
        if url.partition("?")[0].rstrip("/").endswith("/responses"):
            return "max_output_tokens"
        return "max_tokens" if "max_tokens" in request else "max_completion_tokens"

    def usage(self, answer: Any) -> Usage | None:
        usage = getattr(getattr(answer, "response", answer), "usage", None)  # a response's last event holds it whole
        if usage is None:
            return None
        sent, sent_too = numbers(usage, "input_tokens", "prompt_tokens")
        received, received_too = numbers(usage, "output_tokens", "completion_tokens")
        details = getattr(usage, "input_tokens_details", None) or getattr(usage, "prompt_tokens_details", None)
        (cached,) = numbers(details, "cached_tokens")
        return Usage(sent or sent_too, received or received_too, cached)

    def trouble(self, answer: Any) -> Exception | None:
        if getattr(answer, "object", "") in ("chat.completion", "chat.completion.chunk", "text_completion"):
            return _chat_trouble(answer)
        response = getattr(answer, "response", answer)
        return _response_trouble(response) if getattr(response, "object", "") == "response" else None

    def part(self, url: str) -> str:
        return _PARTS[url.rpartition("/")[2]]

    def connection_error(self, message: str, request: Any) -> Exception:
        error: Exception = openai.APIConnectionError(message=message, request=request)
        return error

    def continued(self, url: str, body: Mapping[str, Any], part: str) -> dict[str, Any]:
        said = {"role": "assistant", "content": part}
        if "messages" in body:
            return {**body, "messages": [*body["messages"], said]}
        if "prompt" in body:
            return {**body, "prompt": f"{body['prompt']}{part}"}
        given = body.get("input")
        asked = [{"role": "user", "content": given}] if isinstance(given, str) else [*(given or ())]
        return {**body, "input": [*asked, said]}


def _chat_trouble(answer: Any) -> Exception | None:
    for choice in answer.choices or ():
        failed = failed_by(getattr(choice, "error", None))  # OpenRouter
        if failed is not None:
            return failed
        said = getattr(choice, "message", None) or getattr(choice, "delta", None)
        if getattr(choice, "finish_reason", None) == "content_filter":
            return ModelRefused("the provider's filter stopped the answer")
        if getattr(said, "refusal", None):
            return ModelRefused("the model declined to answer")
    return None


def _response_trouble(response: Any) -> Exception | None:
    if response.status == "failed" and response.error is not None:
        return ModelFailed(str(response.error.code), str(response.error.message))
    details = response.incomplete_details
    if response.status == "incomplete" and details is not None and details.reason == "content_filter":
        return ModelRefused("the provider's filter stopped the answer")
    parts = (part for item in response.output or () for part in getattr(item, "content", None) or ())
    if any(getattr(part, "type", "") == "refusal" for part in parts):
        return ModelRefused("the model declined to answer")
    return None
