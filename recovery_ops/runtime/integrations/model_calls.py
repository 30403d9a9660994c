"""What the wrappers of Anthropic's and OpenAI's clients share: each request for an answer goes up the ladder.

Both vendors' clients send everything through one method, `request`. It is replaced on a copy of the client, so that
helpers, streams, parsing and raw responses above it stay the vendor's own.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Protocol, Unpack

from recovery_ops.rules.model_chain import Needs
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.words import Adjustment, Category
from recovery_ops.runtime.guard import Guarded, Said
from recovery_ops.runtime.integrations import reporting
from recovery_ops.runtime.integrations.model_streams import Hearing, Usage, hear, hear_async
from recovery_ops.runtime.operation import ATTEMPT
from recovery_ops.runtime.recovery import Recovery
from recovery_ops.runtime.run import CURRENT

MOST_MODELS = 64
"""Each model is an operation; a program that makes names up must not grow without end."""

_RAW = "x-stainless-raw-response"


class ModelRefused(Exception):
    """The model, or the provider's filter, declined to answer. A person has to look; asking again is no way."""

    kind = "policy_denied"


class ModelFailed(Exception):
    """The provider answered 200 and said in the body that it failed; `code` is its word for why."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


CostOf = Callable[[str, Usage], float | None]
"""Dollars for a model's name and a usage; None where the price is not known."""


class Dialect(Protocol):
    """What one vendor says in its own way."""

    provider: str
    default_timeout: Any

    def answers(self, url: str) -> bool:
        """Whether a POST to this path asks a model for an answer, and may be made twice."""

    def limit_key(self, url: str, request: Mapping[str, Any]) -> str | None:
        """The name of the parameter that limits the answer's tokens."""

    def usage(self, answer: Any) -> Usage | None:
        """What a whole answer, or an event of a stream, says of tokens."""

    def trouble(self, answer: Any) -> Exception | None:
        """A refusal or a failure that came as an answer, whole or as an event."""

    def is_content(self, event: Any) -> bool:
        """Whether an event of a stream has something of the answer in it."""


@dataclass(slots=True, eq=False)
class Asking:
    """One logical request."""

    cast_to: Any
    options: Any
    stream: bool
    rest: dict[str, Any]

    @property
    def body(self) -> Mapping[str, Any]:
        """The parameters of the request."""
        body: Mapping[str, Any] = self.options.json_data
        return body


@dataclass(slots=True, eq=False)
class ModelCalls:
    """A client's requests for answers, behind guards; `inner` is the client that makes them."""

    inner: Any
    dialect: Dialect
    recovery: Recovery
    operation: str | None
    cost_usd: CostOf | None
    said: Said
    _guards: dict[str, Guarded[..., Any]] = field(default_factory=dict)

    def guarded(self, options: Any) -> Guarded[..., Any] | None:
        """The guard for a request; None for what is not a question to a model."""
        body = options.json_data
        model = body.get("model") if isinstance(body, Mapping) else None
        is_ours = isinstance(model, str) and options.method.lower() == "post" and self.dialect.answers(options.url)
        if not is_ours:
            return None
        found = self._guards.get(str(model))
        if found is None and len(self._guards) < MOST_MODELS:
            found = self._guards[str(model)] = self._guard(str(model))
        return found

    def _guard(self, model: str) -> Guarded[..., Any]:
        said: Said = {
            "kind": "model",
            "is_destructive": False,
            "adjusts_max_tokens": True,
            "provider": self.dialect.provider,
            "model": model,
            **self.said,
        }
        chain = self.said.get("chain")
        if chain is not None and model != chain.primary:
            said["chain"] = None  # it was asked for by name, and is answered by none else
        elif chain is not None and "needs" not in self.said:
            said["needs"] = lambda asking: Needs(tools=bool(asking.body.get("tools")))
        is_async = inspect.iscoroutinefunction(self.inner.request)
        return self.recovery.guard(self._name_of(model), **said)(self._ask_async if is_async else self._ask)

    def _name_of(self, model: str) -> str:
        chain = self.said.get("chain")
        is_named = self.operation is not None and (chain is None or chain.primary == model)
        return str(self.operation) if is_named else f"model:{model}"

    def _ask(self, asking: Asking) -> Any:
        options, hearing = self._prepared(asking, is_async=False)
        answer = self.inner.request(asking.cast_to, options, stream=asking.stream, **asking.rest)
        if asking.stream:
            return answer if _is_raw(options) else hear(answer, hearing)
        whole = answer.parse() if _is_raw(options) else answer
        self._settle(whole, hearing)
        return answer

    async def _ask_async(self, asking: Asking) -> Any:
        options, hearing = self._prepared(asking, is_async=True)
        answer = await self.inner.request(asking.cast_to, options, stream=asking.stream, **asking.rest)
        if asking.stream:
            return answer if _is_raw(options) else await hear_async(answer, hearing)
        whole = answer.parse() if _is_raw(options) else answer
        self._settle(await whole if inspect.isawaitable(whole) else whole, hearing)
        return answer

    def _prepared(self, asking: Asking, *, is_async: bool) -> tuple[Any, Hearing]:
        """The request as this attempt makes it: another model, a shorter answer, the time that is left."""
        name = self._name_of(str(asking.body["model"]))
        attempt = ATTEMPT.get()
        is_ours = attempt.operation == name  # and not the attempt of somebody above us
        body = dict(asking.body)
        if is_ours and attempt.model is not None:
            body["model"] = attempt.model
        if is_ours and attempt.adjustment is Adjustment.MAX_TOKENS and attempt.max_tokens is not None:
            key = self.dialect.limit_key(asking.options.url, body)
            if key is not None:
                body[key] = attempt.max_tokens
        options = copy.copy(asking.options)
        options.json_data, options.max_retries = body, 0
        operation = self.recovery.operations.get(name)
        limit_s = attempt.deadline_s or (operation.call_deadline_s if operation else 0.0)
        is_free = type(options.timeout).__name__ == "NotGiven" and self.inner.timeout == self.dialect.default_timeout
        if limit_s and is_free and not is_async:  # tasks are cancelled; a thread's time is its transport's to keep
            options.timeout = limit_s
        return options, Hearing(self.dialect, self._counter(name, body["model"]), self._reporter(name, body["model"]))

    def _settle(self, answer: Any, hearing: Hearing) -> None:
        usage, trouble = self.dialect.usage(answer), self.dialect.trouble(answer)
        if usage is not None:
            hearing.count(usage)  # a refusal costs too
        if trouble is not None:
            raise trouble

    def _counter(self, name: str, model: str) -> Callable[[Usage], None]:
        recovery, scope = self.recovery, CURRENT.get()
        source = self.said.get("source", "") or reporting.source_of_run()

        def count(usage: Usage) -> None:
            cost = self.cost_usd(model, usage) if self.cost_usd is not None else None
            with recovery.lock:
                if scope is not None:
                    scope.spend(usage.input_tokens, usage.output_tokens, cost)
                operation = recovery.operations.get(name)
                if operation is not None:
                    cell = operation.cell(source)
                    cell.watched(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)

        return count

    def _reporter(self, name: str, model: str) -> Callable[[Exception], None]:
        source = self.said.get("source", "") or reporting.source_of_run()

        def report(error: Exception) -> None:
            operation = self.recovery.operations.get(name)
            if operation is None:
                return
            failure = reporting.failed(
                self.recovery, operation, error, source=source, counts_for_breaker=True, model=model
            )
            if failure.category is Category.POLICY_DENIED:
                reporting.escalated(self.recovery, operation, failure, queue="policy_review", source=source)

        return report


def _is_raw(options: Any) -> bool:
    """Whether the caller wants the response itself, and reads the answer from it."""
    headers = options.headers
    pairs = headers.items() if isinstance(headers, Mapping) else ()
    return any(str(name).lower() == _RAW for name, _ in pairs)


def recovering(
    client: Any,
    dialect: Dialect,
    recovery: Recovery,
    *,
    operation: str | None,
    cost_usd: CostOf | None,
    **said: Unpack[Said],
) -> Any:
    """A copy of a client whose requests for answers go up the ladder, and are never retried by itself."""
    calls = ModelCalls(
        inner=client.with_options(max_retries=0),
        dialect=dialect,
        recovery=recovery,
        operation=operation,
        cost_usd=cost_usd,
        said=said,
    )
    copied = client.with_options()

    def request(cast_to: Any, options: Any, *, stream: bool = False, **rest: Any) -> Any:
        guarded = calls.guarded(options)
        if guarded is None:
            return client.request(cast_to, options, stream=stream, **rest)
        return guarded(Asking(cast_to, options, stream, rest))

    async def request_async(cast_to: Any, options: Any, *, stream: bool = False, **rest: Any) -> Any:
        guarded = calls.guarded(options)
        if guarded is None:
            return await client.request(cast_to, options, stream=stream, **rest)
        return await guarded(Asking(cast_to, options, stream, rest))

    def with_options(**options: Any) -> Any:
        changed = client.with_options(**options)
        return recovering(changed, dialect, recovery, operation=operation, cost_usd=cost_usd, **said)

    copied.request = request_async if inspect.iscoroutinefunction(client.request) else request
    copied.with_options = copied.copy = with_options
    return copied


def numbers(holder: Any, *names: str) -> Iterator[int]:
    """Counts that a vendor's object may have, 0 where it has none."""
    for name in names:
        value = getattr(holder, name, None)
        yield value if isinstance(value, int) else 0
