"""What the wrappers of Anthropic's and OpenAI's clients share: each request for an answer goes up the ladder.

Both vendors' clients send everything through one method, `request`. It is replaced on a copy of the client, so that
helpers, streams, parsing and raw responses above it stay the vendor's own.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from math import inf
from typing import Any, ClassVar, Unpack

from recovery_ops.rules.enums import Adjustment
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.resilience.model_chain import Needs
from recovery_ops.rules.spending import UNKNOWN_CALL, Spending
from recovery_ops.runtime.calls.operation import ATTEMPT
from recovery_ops.runtime.client import Recovery
from recovery_ops.runtime.failures.empty_answers import failure_in, unreadable
from recovery_ops.runtime.guards.options import AllGuardOptions, check_options
from recovery_ops.runtime.guards.types import Guarded
from recovery_ops.runtime.integrations.client_keys import ClientKeys
from recovery_ops.runtime.integrations.model_streams import Dialect, Usage, VendorStream
from recovery_ops.runtime.integrations.request_bounds import usage_bound
from recovery_ops.runtime.runs.context import current_scope, source_of_run

MOST_MODELS = 64
"""Each model is an operation; a program that makes names up must not grow without end."""

_RAW = "x-stainless-raw-response"
_OTHER_KEYS = frozenset({"api_key", "auth_token", "credentials", "config", "profile"})
"""Options of a vendor's client that give it another key: it is then used alone."""


CostOf = Callable[[str, Usage], float | None]
"""Dollars for a model's name and a usage; None where the price is not known."""


@dataclass(slots=True, eq=False)
class Asking:
    """One logical request."""

    sends_no_key: ClassVar[bool] = True
    cast_to: Any
    options: Any
    stream: bool
    rest: dict[str, Any]
    bound_of: Callable[[Asking, str | None], Spending]

    def spend_bound(self, model: str | None) -> Spending:
        """The most that it spends where this model answers; for the spend caps."""
        return self.bound_of(self, model)

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
    options: AllGuardOptions
    keys: ClientKeys | None = None
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
        options: AllGuardOptions = {
            "kind": "model",
            "reraise": True,
            "adjusts_max_tokens": True,
            "provider": self.dialect.provider,
            "model": model,
            **self.options,
        }
        chain = self.options.get("chain")
        if chain is not None and model != chain.primary:
            options["chain"] = None  # it was asked for by name, and is answered by none else
        elif chain is not None and "needs" not in self.options:
            options["needs"] = lambda asking: Needs(tools=bool(asking.body.get("tools")))
        is_async = inspect.iscoroutinefunction(self.inner.request)
        return self.recovery.guard(self._name_of(model), **options)(self._ask_async if is_async else self._ask)

    def _name_of(self, model: str) -> str:
        chain = self.options.get("chain")
        is_named = self.operation is not None and (chain is None or chain.primary == model)
        return str(self.operation) if is_named else f"model:{model}"

    def _ask(self, asking: Asking) -> Any:
        options, count = self._prepared(asking, is_async=False)
        with _reading():
            answer = self._client_of(asking).request(asking.cast_to, options, stream=asking.stream, **asking.rest)
            if asking.stream:
                return answer if _is_raw(options) else VendorStream(answer, self.dialect, count)
            whole = answer.parse() if _is_raw(options) else answer
        self._settle(whole, count, options.url)
        return answer

    async def _ask_async(self, asking: Asking) -> Any:
        options, count = self._prepared(asking, is_async=True)
        with _reading():
            answer = await self._client_of(asking).request(asking.cast_to, options, stream=asking.stream, **asking.rest)
            if asking.stream:
                return answer if _is_raw(options) else VendorStream(answer, self.dialect, count)
            whole = answer.parse() if _is_raw(options) else answer
            whole = await whole if inspect.isawaitable(whole) else whole
        self._settle(whole, count, options.url)
        return answer

    def _client_of(self, asking: Asking) -> Any:
        """The client of the attempt: the one with its key, or the only one."""
        attempt = ATTEMPT.get()
        is_ours = attempt.operation == self._name_of(str(asking.body["model"]))
        return self.keys.client(attempt.credential) if self.keys and is_ours and attempt.credential else self.inner

    def _prepared(self, asking: Asking, *, is_async: bool) -> tuple[Any, Callable[[Usage], None]]:
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
        if is_ours and attempt.part:
            body = self.dialect.continued(asking.options.url, body, attempt.part)
        options = copy.copy(asking.options)
        options.json_data, options.max_retries = body, 0
        operation = self.recovery.operations.get(name)
        limit_s = attempt.remaining_s or (operation.call_deadline_s if operation else 0.0)
        is_free = type(options.timeout).__name__ == "NotGiven" and self.inner.timeout == self.dialect.default_timeout
        if limit_s and is_free and not is_async:  # tasks are cancelled; a thread's time is its transport's to keep
            pauses_s = (attempt.first_token_timeout_s or 0.0, attempt.stall_timeout_s or 0.0) if asking.stream else ()
            options.timeout = max((limit_s, *pauses_s))
        return options, self._counter(name, body["model"])

    def _settle(self, answer: Any, count: Callable[[Usage], None], url: str) -> None:
        usage, trouble = self.dialect.usage(answer), self.dialect.trouble(answer)
        if usage is not None:
            count(usage)  # a refusal costs too
        trouble = trouble or failure_in(answer, self.dialect.part(url.partition("?")[0].rstrip("/")))
        if trouble is not None:
            raise trouble

    def bound_of(self, asking: Asking, model: str | None) -> Spending:
        """The most that a request spends; infinity where that cannot be known."""
        bound = usage_bound(self.dialect, asking.options.url, asking.body)
        if bound is None:
            return UNKNOWN_CALL
        cost = self._cost_of(model or str(asking.body["model"]), bound)
        tokens = bound.input_tokens + bound.output_tokens
        return Spending(calls=1, tokens=tokens, cost_usd=inf if cost is None else cost)

    def _cost_of(self, model: str, usage: Usage) -> float | None:
        try:
            return self.cost_usd(model, usage) if self.cost_usd is not None else None
        except Exception:  # the caller's own function; where it counts, what it raises reaches the caller
            return None

    def _counter(self, name: str, model: str) -> Callable[[Usage], None]:
        recovery, scope, attempt = self.recovery, current_scope(), ATTEMPT.get()
        meter = attempt.meter if attempt.operation == name else None
        source = self.options.get("source", "") or source_of_run() or self.recovery.default_source

        def count(usage: Usage) -> None:
            cost = self.cost_usd(model, usage) if self.cost_usd is not None else None
            with recovery.lock:
                if scope is not None:
                    scope.spend(usage.input_tokens, usage.output_tokens, cost)
                spent = usage.input_tokens + usage.output_tokens, cost or 0.0
                if meter is not None and not meter.is_settled:
                    meter.add(*spent)
                elif scope is not None:
                    scope.owe(*spent)
                operation = recovery.operations.get(name)
                if operation is not None:
                    cell = operation.cell(source)
                    cell.watched(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)

        return count


@contextmanager
def _reading() -> Iterator[None]:
    """What the vendor's library cannot parse here is the provider's answer, not what the model wrote."""
    try:
        yield
    except json.JSONDecodeError as error:
        raise unreadable(error.doc) from error


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
    **options: Unpack[AllGuardOptions],
) -> Any:
    """A copy of a client whose requests for answers go up the ladder, and are never retried by itself."""
    given, keys, inner = options, None, client.with_options(max_retries=0)
    whose = f"with_recovery({dialect.provider})"
    if (credentials := options.get("credentials")) is not None:
        keys = ClientKeys(whose, inner, credentials)  # type: ignore[arg-type]  # refuses what maps no labels to keys
        options = {**options, "credentials": keys.labels}
    check_options(whose, recovery.desired.policy.foreground_sources, options)
    calls = ModelCalls(
        inner=inner,
        dialect=dialect,
        recovery=recovery,
        operation=operation,
        cost_usd=cost_usd,
        options=options,
        keys=keys,
    )
    copied = client.with_options()

    def request(cast_to: Any, options: Any, *, stream: bool = False, **rest: Any) -> Any:
        guarded = calls.guarded(options)
        if guarded is None:
            return client.request(cast_to, options, stream=stream, **rest)
        return guarded(Asking(cast_to, options, stream, rest, calls.bound_of))

    async def request_async(cast_to: Any, options: Any, *, stream: bool = False, **rest: Any) -> Any:
        guarded = calls.guarded(options)
        if guarded is None:
            return await client.request(cast_to, options, stream=stream, **rest)
        return await guarded(Asking(cast_to, options, stream, rest, calls.bound_of))

    def with_options(**of_the_client: Any) -> Any:
        changed = client.with_options(**of_the_client)
        kept = given if _OTHER_KEYS.isdisjoint(of_the_client) else {**given, "credentials": None}
        return recovering(changed, dialect, recovery, operation=operation, cost_usd=cost_usd, **kept)

    copied.request = request_async if inspect.iscoroutinefunction(client.request) else request
    copied.with_options = copied.copy = with_options
    return copied


def numbers(holder: Any, *names: str) -> Iterator[int]:
    """Counts that a vendor's object may have, 0 where it has none."""
    for name in names:
        value = getattr(holder, name, None)
        yield value if isinstance(value, int) else 0
