"""Guards: a callable goes in, one that recovers comes out, with the same arguments and the same result."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast

from recovery_ops.rules.facts import Escalated, WaitHeartbeat
from recovery_ops.rules.model_chain import ModelChain, Needs
from recovery_ops.rules.policy import Knobs
from recovery_ops.rules.standing import Alternative
from recovery_ops.rules.words import Adjustment
from recovery_ops.runtime.concurrency.awaiting import is_async
from recovery_ops.runtime.driver import drive, drive_async
from recovery_ops.runtime.errors import NotConfigured
from recovery_ops.runtime.misuse import check_numbers, check_result
from recovery_ops.runtime.operation import ATTEMPT, Attempt, Fallback, Operation, Outcome, Plan
from recovery_ops.runtime.quick import quick, quick_async
from recovery_ops.runtime.run import CURRENT

if TYPE_CHECKING:
    from recovery_ops.runtime.recovery import Recovery

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
AnyFallback = Callable[..., Any] | Fallback


class Guarded(Protocol[P, R_co]):
    """A guarded callable: called like the one it guards. `outcome` takes the same arguments and says how the result
    was come by (`Outcome`, awaited where the callable is async)."""

    __name__: str
    operation: Operation
    outcome: Callable[..., Any]

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call it."""


class Said(TypedDict, total=False):
    """What a developer may say at a guard; what is not said is the most restrictive."""

    kind: str
    """`operation` (the default), `model`, `tool`, `document` or `sandbox`: their deadlines and retries differ."""
    breaker: str
    """The name of a shared backend; default: the operation's own."""
    fallback: AnyFallback | Sequence[AnyFallback] | None
    """Alternatives in order, each called with the same arguments."""
    optional: bool
    """Leave it out (`Degraded`) rather than fail."""
    is_destructive: bool
    """True, the default, retries only after failures that prove nothing was done. False: it may be done twice."""
    fallback_allowed: bool
    """False where a wrong answer is worse than none."""
    source: str
    """Who waits, where it is not whoever the run says."""
    max_retries: int | None
    base_delay_s: float | None
    deadline_s: float | None
    """Of one attempt. Tasks are cancelled; threads are handed what is left (`attempt().deadline_s`)."""
    knobs: Knobs | None
    """Every other number of the rules."""
    idempotency_key: Callable[..., str] | None
    """Makes the key from the arguments; with a key an operation may be repeated."""
    refresh_credentials: Callable[[], Any] | None
    refresh_evidence: Callable[[], Any] | None
    adjusts_max_tokens: bool
    """The callable obeys `attempt().max_tokens`."""
    provider: str | None
    model: str | None
    tool: str | None
    region: str | None
    """Where what answers stands (`cloud.region`); without it the resource's, of `OTEL_RESOURCE_ATTRIBUTES`, counts."""
    chain: ModelChain | None
    """Models in order; the callable asks `attempt().model or <the first>`."""
    needs: Callable[..., Needs] | None
    """What a request needs of a model, from the arguments."""
    on_heartbeat: Callable[[WaitHeartbeat], Any] | None
    """Told every 30 s that a long wait goes on."""
    ask_user: Callable[[Escalated], Any] | None
    """Puts a question to the user of a foreground run, where the policy has one asked: True makes the call once more,
    False does not, None is no answer. Without it, and in background, the question goes to its queue."""


class Guards:
    """The part of `Recovery` that makes guards."""

    def guard(self, name: str | None = None, **said: Unpack[Said]) -> Callable[[Callable[P, R]], Guarded[P, R]]:
        """A decorator for sync and async callables. `name` is the operation; default: the function's name.

        The live policy may change every number; it can never widen `is_destructive`, `optional` or the fallbacks.
        NotConfigured for numbers that no policy may hold, and for generators: their work begins after the call.
        Guarded calls raise RecoveryExhausted, CircuitOpen, GateClosed, DeadlineExceeded or RunStopped; cancels pass.
        """

        def decorate(function: Callable[P, R]) -> Guarded[P, R]:
            recovery = cast("Recovery", self)
            if recovery.is_off:
                return cast("Guarded[P, R]", _bare(function, said.get("idempotency_key")))
            operation = name or function.__name__
            check_numbers(f"guard {operation}", said)
            check_result(f"guard {operation}", function)
            plan = _plan(recovery, operation, function, said)
            is_awaited = is_async(function)
            made = _guarded_async(recovery, plan) if is_awaited else _guarded(recovery, plan)
            return cast("Guarded[P, R]", made)

        return decorate


def _keyed(function: Callable[..., Any], key: Callable[..., str]) -> Callable[..., Any]:
    """The function with its idempotency key in force, and nothing else."""

    @functools.wraps(function)
    def keyed(*args: Any, **kwargs: Any) -> Any:
        token = ATTEMPT.set(Attempt(idempotency_key=key(*args, **kwargs)))
        try:
            return function(*args, **kwargs)
        finally:
            ATTEMPT.reset(token)

    @functools.wraps(function)
    async def keyed_async(*args: Any, **kwargs: Any) -> Any:
        token = ATTEMPT.set(Attempt(idempotency_key=key(*args, **kwargs)))
        try:
            return await function(*args, **kwargs)
        finally:
            ATTEMPT.reset(token)

    return keyed_async if is_async(function) else keyed


def _bare(function: Callable[..., Any], key: Callable[..., str] | None) -> Callable[..., Any]:
    """Switched off: the function itself, but for what the program counts on.

    Whoever asks it for an `outcome` must get one, and a provider that is to know repetitions must get the key.
    """
    if key is not None:
        function = _keyed(function, key)

    def outcome(*args: Any, **kwargs: Any) -> Outcome:
        return Outcome(function(*args, **kwargs))

    async def outcome_async(*args: Any, **kwargs: Any) -> Outcome:
        return Outcome(await function(*args, **kwargs))

    made = function
    try:
        setattr(made, "outcome", None)  # noqa: B010  # whether it takes attributes: methods and built-in ones do not
    except AttributeError:
        made = functools.update_wrapper(functools.partial(function), function)
    made.outcome = outcome_async if is_async(function) else outcome  # type: ignore[attr-defined]
    return made


def _plan(recovery: Recovery, name: str, function: Callable[..., Any], said: Said) -> Plan:
    operation = recovery.operation(
        name,
        kind=said.get("kind", "operation"),
        breaker=said.get("breaker", ""),
        code=_knobs(said),
        provider=said.get("provider"),
        region=said.get("region"),
        chain=said.get("chain"),
    )
    hooks = {
        Adjustment.REFRESH_CREDENTIALS: said.get("refresh_credentials"),
        Adjustment.REFRESH_EVIDENCE: said.get("refresh_evidence"),
    }
    given = {adjustment: hook for adjustment, hook in hooks.items() if hook is not None}
    fixes = set(given) | ({Adjustment.MAX_TOKENS} if said.get("adjusts_max_tokens") else set())
    key = said.get("idempotency_key")
    alternatives = _alternatives(recovery, name, function, said.get("fallback"))
    operation.declare(other for other, _ in alternatives)
    return Plan(
        operation=operation,
        function=function,
        source=said.get("source", ""),
        is_optional=said.get("optional", False),
        is_repeatable=not said.get("is_destructive", True),
        alternatives=alternatives,
        fixes=frozenset(fixes),
        hooks=given,
        idempotency_key=key,
        model=said.get("model"),
        tool=said.get("tool"),
        needs=said.get("needs"),
        on_heartbeat=said.get("on_heartbeat"),
        ask_user=said.get("ask_user"),
    )


def _guarded(recovery: Recovery, plan: Plan) -> Callable[..., Any]:
    """The quick path, and beside it the way that always climbs the ladder and says how the result was come by."""

    def outcome(*args: Any, **kwargs: Any) -> Outcome:
        """Like the call itself, but says how the result was come by."""
        next(plan.operation.cell(plan.source or _source()).started)
        return drive(recovery, plan, args, kwargs)

    @functools.wraps(plan.function)
    def keyed(*args: Any, **kwargs: Any) -> Any:
        return outcome(*args, **kwargs).value

    # A key must travel with the first attempt too.
    guarded: Any = quick(recovery, plan) if plan.idempotency_key is None else keyed
    guarded.outcome, guarded.operation = outcome, plan.operation
    made: Callable[..., Any] = guarded
    return made


def _guarded_async(recovery: Recovery, plan: Plan) -> Callable[..., Any]:
    """The same for tasks."""

    async def outcome(*args: Any, **kwargs: Any) -> Outcome:
        """Like the call itself, but says how the result was come by."""
        next(plan.operation.cell(plan.source or _source()).started)
        return await drive_async(recovery, plan, args, kwargs)

    @functools.wraps(plan.function)
    async def keyed(*args: Any, **kwargs: Any) -> Any:
        return (await outcome(*args, **kwargs)).value

    guarded: Any = quick_async(recovery, plan) if plan.idempotency_key is None else keyed
    guarded.outcome, guarded.operation = outcome, plan.operation
    made: Callable[..., Any] = guarded
    return made


def _source() -> str:
    scope = CURRENT.get()
    return scope.source if scope else ""


def _knobs(said: Said) -> Knobs:
    own = Knobs(
        max_retries=said.get("max_retries"),
        max_retries_background=said.get("max_retries"),
        base_delay_s=said.get("base_delay_s"),
        call_deadline_s=said.get("deadline_s"),
        fallback_allowed=None if said.get("fallback_allowed", True) else False,
    )
    knobs = said.get("knobs")
    return own if knobs is None else own.over(knobs)


def _alternatives(
    recovery: Recovery,
    name: str,
    function: Callable[..., Any],
    given: AnyFallback | Sequence[AnyFallback] | None,
) -> tuple[tuple[Alternative, Callable[..., Any]], ...]:
    if given is None:
        return ()
    found = []
    for one in [given] if isinstance(given, Fallback) or callable(given) else list(given):
        fallback = one if isinstance(one, Fallback) else Fallback(one)
        guarded = getattr(fallback.function, "operation", None)
        raw = inspect.unwrap(fallback.function) if guarded is not None else fallback.function
        check_result(f"fallback of {name}", raw)
        if is_async(raw) and not is_async(function):
            raise NotConfigured(f"{name} is not async, so its fallback {raw.__name__} must not be async either")
        if guarded is None:
            guarded = recovery.operation(
                fallback.name or getattr(raw, "__name__", f"{name}.fallback"), kind="undeclared"
            )
        if guarded.name == name:
            raise NotConfigured(f"{name} cannot be its own fallback; give the fallback another name")
        alternative = Alternative(
            standing=guarded.standing,
            is_repeatable=not fallback.is_destructive,
            warning=fallback.warning,
            data_age_s=fallback.data_age_s,
            feature=fallback.feature,
        )
        found.append((alternative, raw))
    return tuple(found)
