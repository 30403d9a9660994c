"""Guards: a callable goes in, one that recovers comes out, with the same arguments and the same result."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import (
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from recovery_ops.rules.events import Escalated, WaitHeartbeat
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.resilience.model_chain import ModelChain, Needs
from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.calls.deadline import Duration
from recovery_ops.runtime.calls.executor import execute, execute_async, execute_value
from recovery_ops.runtime.calls.fast_path import fast_path, fast_path_async
from recovery_ops.runtime.calls.operation import (
    Degraded,
    Fallback,
    Outcome,
    Plan,
)
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.guards import blocks
from recovery_ops.runtime.guards.argument_checks import (
    Jitter,
    Permission,
    check_result,
)
from recovery_ops.runtime.guards.blocks import Attempts, Block
from recovery_ops.runtime.guards.credential_labels import Credentials
from recovery_ops.runtime.guards.methods import GuardedMethod, bare, is_in_class
from recovery_ops.runtime.guards.options import (
    AllGuardOptions,
    AnyFallback,
    BrokenStream,
    GuardOptions,
    Kind,
    Options,
    check_options,
    name_of,
)
from recovery_ops.runtime.guards.plan import block_plan, guard_plan, operation_of
from recovery_ops.runtime.guards.retry_conditions import RetryOn
from recovery_ops.runtime.guards.types import Guarded, GuardWithOthers
from recovery_ops.runtime.runs.context import source_of_run

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F")
AnyFunction = Callable[..., Any]


class GuardDecorator:
    """What `recovery.guard("name", …)` returns: a decorator for sync and async callables."""

    def __init__(self, recovery: Engine, name: str | None, options: Options) -> None:
        self._recovery, self._name, self._options = recovery, name, options

    def __call__(self, function: Callable[P, R], /) -> Guarded[P, R]:
        """Guard a callable."""
        made: Guarded[P, R] = _guarded_by(self._recovery, self._name, function, self._options)
        return made

    def __enter__(self) -> Block:
        """Guard a block of code: one attempt, never retried, counted and rejected like a call."""
        plan = block_plan(self._recovery, self._name, self._options, is_single=True)
        return blocks.enter(self._recovery, plan).__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return blocks.innermost().__exit__(kind, error, trace)

    async def __aenter__(self) -> Block:
        plan = block_plan(self._recovery, self._name, self._options, is_single=True)
        return await (await blocks.enter_async(self._recovery, plan)).__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await blocks.innermost().__aexit__(kind, error, trace)


class Guards(Engine):
    """An engine that makes guards."""

    def attempts(self, name: str, /, **options: Unpack[GuardOptions]) -> Attempts:
        """Attempts of a block of code, with the retries of a guard.

        `async for` and `async with` likewise; there the block is cancelled at its timeout. The options are those of
        `guard`. Raises what a guarded call raises. Rules: docs/guide/guarding.md#blocks-and-single-calls

        >>> with recovery.run("answer", source="main_agent"):
        ...     for attempt in recovery.attempts("search_web", read_only=True):
        ...         with attempt:
        ...             if attempt.number < 3:
        ...                 raise ConnectionResetError("reset")
        >>> attempt.number
        3
        """
        sources = self.desired.policy.foreground_sources
        given = check_options(f"attempts {name}", sources, cast("AllGuardOptions", options))
        return Attempts(self, block_plan(self, name, given))

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function once under a guard of its own name, with the settings of that operation.

        Rules: docs/guide/guarding.md#blocks-and-single-calls

        >>> recovery.call(len, "abc")
        3
        """
        if self.is_off or operation_of(function) is not None:
            return function(*args, **kwargs)
        name = name_of(function)
        check_result(f"call {name}", function)
        known = self.operations.get(name)
        plan = guard_plan(self, name, function, Options(), known)
        made: Callable[P, R] = (_guarded_async if is_async(function) else _guarded)(self, plan)
        return made(*args, **kwargs)

    @overload
    def guard(self, function: Callable[P, R], /) -> Guarded[P, R]: ...
    @overload
    def guard(
        self,
        name: str | None = None,
        /,
        *,
        optional: Literal[False] = False,
        fallback: None = None,
        **options: Unpack[GuardOptions],
    ) -> GuardDecorator: ...
    @overload
    def guard(
        self,
        name: str | None = None,
        /,
        *,
        optional: Literal[True],
        fallback: None = None,
        **options: Unpack[GuardOptions],
    ) -> GuardWithOthers[Degraded]: ...
    @overload
    def guard(
        self,
        name: str | None = None,
        /,
        *,
        optional: Literal[False] = False,
        fallback: Callable[..., F] | Fallback[F] | Sequence[Callable[..., F] | Fallback[F]],
        **options: Unpack[GuardOptions],
    ) -> GuardWithOthers[F]: ...
    @overload
    def guard(self, name: str | None = None, /, **options: Unpack[AllGuardOptions]) -> GuardWithOthers[Any]: ...
    def guard(
        self,
        name: str | AnyFunction | None = None,
        /,
        *,
        kind: Kind = "operation",
        breaker: str = "",
        fallback: AnyFallback | Sequence[AnyFallback] | None = None,
        fallback_allowed: bool = True,
        optional: bool = False,
        foundational: bool = False,
        idempotent: bool | None = None,
        read_only: bool = False,
        idempotency_key: Callable[..., str] | None = None,
        permission: Permission = "stop",
        source: str = "",
        max_retries: int | None = None,
        base_delay: Duration | None = None,
        jitter: Jitter = "additive",
        retry_on: RetryOn | None = None,
        retry_if: Callable[[Any], Any] | None = None,
        retry_result: Callable[[Any], Any] | None = None,
        attempt_timeout: Duration | None = None,
        response_timeout: Duration | None = None,
        first_token_timeout: Duration | None = None,
        stall_timeout: Duration | None = None,
        on_broken_stream: BrokenStream = "error",
        whole_streams: bool = False,
        finish_reason_required: bool = True,
        timeout: Duration | None = None,
        settings: Settings | None = None,
        reraise: bool | None = None,
        refresh_credentials: Callable[[], Any] | None = None,
        refresh_evidence: Callable[[], Any] | None = None,
        adjusts_max_tokens: bool = False,
        provider: str | None = None,
        model: str | None = None,
        tool: str | None = None,
        polling: bool = False,
        region: str | None = None,
        chain: ModelChain | None = None,
        needs: Callable[..., Needs] | None = None,
        credentials: Credentials | None = None,
        on_heartbeat: Callable[[WaitHeartbeat], Any] | None = None,
        ask_user: Callable[[Escalated], Any] | None = None,
    ) -> Any:
        """Guard a sync or async function: `@recovery.guard` or `@recovery.guard("name", …)`.

        `name` is the operation; without it the function's name. Durations are seconds or a timedelta.

        - `kind`: `operation`, `model`, `tool`, `document` or `sandbox`; they differ in retries and timeouts.
        - `breaker`: a backend that several operations share; without it the operation has its own.
        - `fallback`: alternatives in order, called with the same arguments. `fallback_allowed=False`: none, ever.
        - `optional`: after a failure the result is `Degraded`. `foundational`: a transient failure that stays after all
          retries and fallbacks raises StopRun, which ends the run.
        - `idempotent`: a repetition does no harm; the default is True for models and otherwise False, where only
          failures that prove that nothing was done are retried. `read_only` implies it.
        - `idempotency_key`: makes the key of a call from its arguments; a call with a key may be repeated.
        - `permission`: `stop` ends the run after a 401 or 403 that has no other way; `tell_model` makes it an error
          like a 404, as for pages of the open web.
        - `source`: who waits for the result; without it the run's source.
        - `max_retries`, `base_delay`: retries after the first attempt, and the first wait. `jitter`: `additive` makes a
          wait up to a quarter longer; `full` draws it from 0 to the delay, unless the server named a time.
        - `retry_on`, `retry_if`, `retry_result`: exception types, a predicate on the exception, and one on the result
          (True: the attempt failed) that are transient too. They widen the rules; what may do harm twice, the
          background, the policy and its numbers still bind. A result that is rejected in the end is never returned: the
          call raises RecoveryExhausted, also with `reraise`, and its report has the `last_result`.
        - `attempt_timeout` limits one attempt, `timeout` the whole call with its waits. A task is cancelled then; a
          thread is not interrupted, and finds what is left in `attempt().remaining_s`.
        - `response_timeout`, `first_token_timeout`, `stall_timeout`: how long an attempt may be silent while a fallback
          or another model is ready; models have 30, 12 and 15 s. A thread is left behind then.
        - `on_broken_stream`: after a stream broke of which the caller has a part, `error` raises, `restart` begins anew
          on the next model or fallback, `continue` also goes on where the model's entry has `can_continue`.
          `whole_streams` reads each stream to its end first, so that every break is retried.
          `finish_reason_required=False` accepts a stream with text from a server that never sends a `finish_reason`.
        - `settings`: every other number.
        - `reraise`: True raises the function's own last exception, False always RecoveryExhausted; without it the
          function's own where nothing was tried, and RecoveryExhausted after a retry or a fallback.
        - `refresh_credentials`, `refresh_evidence`: called after a 401 or a 412, before the one retry.
        - `adjusts_max_tokens`: the function uses `attempt().max_tokens`.
        - `chain`, `needs`: models in order; the function uses `attempt().model`. `needs` says what a request needs.
        - `credentials`: labels of keys in order, never the keys; the function uses the key of `attempt().credential`.
        - `provider`, `model`, `tool`, `region`: attributes of the events.
        - `polling`: a tool that is called until its result changes; its repeated calls in a run are not counted.
        - `on_heartbeat`: called every 30 s of a long wait.
        - `ask_user`: asks the user of a foreground run, where the policy has a queue for it: True makes the call once
          more, False does not, None is no answer.

        The live policy may change every number; it never widens `idempotent`, `optional` or `fallback`.
        ConfigurationError (a ValueError) for a value that could never work, for a generator function, and where another
        guard of this name was declared otherwise. Rules: docs/guide/guard-options.md#options

        >>> pages = iter([ConnectionResetError("reset"), "a page"])
        >>> @recovery.guard("fetch", read_only=True, max_retries=2)
        ... def fetch(url: str) -> str:
        ...     page = next(pages)
        ...     if isinstance(page, Exception):
        ...         raise page
        ...     return page
        >>> fetch("https://example.org")
        'a page'
        """
        given: AllGuardOptions = {one: value for one, value in locals().items() if one not in ("self", "name")}  # type: ignore[assignment]  # the parameters are the keys; a test compares them
        function = None if name is None or isinstance(name, str) else name
        operation = name if isinstance(name, str) else None
        if name == "":
            raise ConfigurationError("a guard's name must not be empty; leave it out for the function's own")
        whose, sources = f"guard {operation or ''}".strip(), self.desired.policy.foreground_sources
        options = Options(**given) if self.is_off else check_options(whose, sources, given)
        if function is not None:
            return _guarded_by(self, None, function, options)
        return GuardDecorator(self, operation, options)


def _guarded_by(recovery: Engine, name: str | None, function: AnyFunction, options: Options) -> Any:
    if isinstance(function, (staticmethod, classmethod)) or not callable(function):
        raise ConfigurationError(f"{function!r} is not callable; place the guard below @staticmethod and @classmethod")
    if recovery.is_off:
        made = bare(function, name or str(getattr(function, "__name__", "")), options.idempotency_key)
    else:
        operation = name or name_of(function)
        check_result(f"guard {operation}", function, may_stream=options.kind == "model")
        plan = guard_plan(recovery, operation, function, options)
        made = _guarded_async(recovery, plan) if is_async(function) else _guarded(recovery, plan)
    return GuardedMethod(made) if is_in_class(function) else made


def _guarded(recovery: Engine, plan: Plan) -> Callable[..., Any]:
    """The fast path, and beside it the way that always climbs the ladder and says how the result was come by."""

    def outcome(*args: Any, **kwargs: Any) -> Outcome[Any] | Awaitable[Outcome[Any]]:
        """Like the call itself, but says how the result was come by."""
        next(plan.operation.cell(plan.source or source_of_run() or recovery.default_source).started)
        return execute(recovery, plan, args, kwargs)

    @functools.wraps(plan.function)
    def climbing(*args: Any, **kwargs: Any) -> Any:
        next(plan.operation.cell(plan.source or source_of_run() or recovery.default_source).started)
        return execute_value(recovery, plan, args, kwargs)

    # A key must travel with the first attempt too, and a timeout of the whole call holds for it.
    guarded: Any = fast_path(recovery, plan) if plan.is_plain else climbing
    guarded.outcome, guarded.operation = outcome, plan.operation
    made: Callable[..., Any] = guarded
    return made


def _guarded_async(recovery: Engine, plan: Plan) -> Callable[..., Any]:
    """The same for tasks."""

    async def outcome(*args: Any, **kwargs: Any) -> Outcome[Any]:
        """Like the call itself, but says how the result was come by."""
        next(plan.operation.cell(plan.source or source_of_run() or recovery.default_source).started)
        return await execute_async(recovery, plan, args, kwargs)

    @functools.wraps(plan.function)
    async def climbing(*args: Any, **kwargs: Any) -> Any:
        return (await outcome(*args, **kwargs)).value

    guarded: Any = fast_path_async(recovery, plan) if plan.is_plain else climbing
    guarded.outcome, guarded.operation = outcome, plan.operation
    made: Callable[..., Any] = guarded
    return made
