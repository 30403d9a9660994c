"""Guards: a callable goes in, one that recovers comes out, with the same arguments and the same result."""

from __future__ import annotations

import functools
import inspect
from asyncio import CancelledError, current_task, get_running_loop
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast

from recovery_ops.rules.model_chain import ModelChain, Needs
from recovery_ops.rules.policy import Knobs
from recovery_ops.rules.standing import Alternative
from recovery_ops.rules.words import Adjustment
from recovery_ops.runtime.driver import drive, drive_async
from recovery_ops.runtime.errors import NotConfigured
from recovery_ops.runtime.operation import Fallback, Operation, Outcome, Plan
from recovery_ops.runtime.run import CURRENT
from recovery_ops.runtime.task_libraries import is_under_trio
from recovery_ops.runtime.timers import is_timeout

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
    chain: ModelChain | None
    """Models in order; the callable asks `attempt().model or <the first>`."""
    needs: Callable[..., Needs] | None
    """What a request needs of a model, from the arguments."""


class Guards:
    """The part of `Recovery` that makes guards."""

    def guard(self, name: str | None = None, **said: Unpack[Said]) -> Callable[[Callable[P, R]], Guarded[P, R]]:
        """A decorator for sync and async callables. `name` is the operation; default: the function's name.

        The live policy may change every number; it can never widen `is_destructive`, `optional` or the fallbacks.
        Guarded calls raise RecoveryExhausted, CircuitOpen, GateClosed, DeadlineExceeded or RunStopped; cancels pass.
        """

        def decorate(function: Callable[P, R]) -> Guarded[P, R]:
            recovery = cast("Recovery", self)
            if recovery.is_off:
                return cast("Guarded[P, R]", function)
            plan = _plan(recovery, name or function.__name__, function, said)
            is_async = inspect.iscoroutinefunction(function)
            made = _guarded_async(recovery, plan) if is_async else _guarded(recovery, plan)
            return cast("Guarded[P, R]", made)

        return decorate


def _plan(recovery: Recovery, name: str, function: Callable[..., Any], said: Said) -> Plan:
    operation = recovery.operation(
        name,
        kind=said.get("kind", "operation"),
        breaker=said.get("breaker", ""),
        code=_knobs(said),
        provider=said.get("provider"),
        chain=said.get("chain"),
    )
    hooks = {
        Adjustment.REFRESH_CREDENTIALS: said.get("refresh_credentials"),
        Adjustment.REFRESH_EVIDENCE: said.get("refresh_evidence"),
    }
    given = {adjustment: hook for adjustment, hook in hooks.items() if hook is not None}
    fixes = set(given) | ({Adjustment.MAX_TOKENS} if said.get("adjusts_max_tokens") else set())
    key = said.get("idempotency_key")
    return Plan(
        operation=operation,
        function=function,
        source=said.get("source", ""),
        is_optional=said.get("optional", False),
        is_repeatable=not said.get("is_destructive", True) or key is not None,
        alternatives=_alternatives(recovery, name, function, said.get("fallback")),
        fixes=frozenset(fixes),
        hooks=given,
        idempotency_key=key,
        model=said.get("model"),
        tool=said.get("tool"),
        needs=said.get("needs"),
    )


def _guarded(recovery: Recovery, plan: Plan) -> Callable[..., Any]:
    """The quick path, for threads: while nothing is wrong, a call costs two counters and one look at the clock."""
    function, operation = plan.function, plan.operation
    cells, own_source = operation.cells, plan.source
    now, current = recovery.clock.quick_now, CURRENT.get
    is_keyed = plan.idempotency_key is not None  # the key must travel with the first attempt too

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        scope = current()
        source = own_source if own_source or scope is None else scope.source
        cell = cells.get(source) or operation.cell(source)
        cell.started()
        if is_keyed or not operation.is_calm:
            return drive(recovery, plan, args, kwargs).value
        began = now()
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            return drive(recovery, plan, args, kwargs, (error, began)).value
        except BaseException:
            cell.climbed()
            raise
        cell.succeeded()
        return result

    def outcome(*args: Any, **kwargs: Any) -> Outcome:
        """Like the call itself, but says how the result was come by."""
        operation.cell(plan.source or _source()).started()
        return drive(recovery, plan, args, kwargs)

    guarded.outcome = outcome  # type: ignore[attr-defined]
    guarded.operation = operation  # type: ignore[attr-defined]
    return guarded


def _guarded_async(recovery: Recovery, plan: Plan) -> Callable[..., Any]:
    """The quick path, for tasks: the same, and an entry in a queue where there is a call deadline."""
    function, operation = plan.function, plan.operation
    timers = operation.timers
    cells, own_source = operation.cells, plan.source
    now, current = recovery.clock.quick_now, CURRENT.get
    is_keyed = plan.idempotency_key is not None

    @functools.wraps(function)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        scope = current()
        source = own_source if own_source or scope is None else scope.source
        cell = cells.get(source) or operation.cell(source)
        cell.started()
        deadline_s = operation.call_deadline_s
        if is_keyed or not operation.is_calm or (deadline_s and is_under_trio()):
            return (await drive_async(recovery, plan, args, kwargs)).value
        began = now()
        try:
            if deadline_s:
                loop = get_running_loop()
                line = timers.line(loop, deadline_s)
                entry = line.begin(began + deadline_s, current_task(loop))
                try:
                    result = await function(*args, **kwargs)
                except CancelledError:
                    if is_timeout(entry):
                        raise TimeoutError(f"{operation.name} took longer than {deadline_s:g} s") from None
                    raise
                finally:
                    line.end(entry)
            else:
                result = await function(*args, **kwargs)
        except Exception as error:
            return (await drive_async(recovery, plan, args, kwargs, (error, began))).value
        except BaseException:
            cell.climbed()
            raise
        cell.succeeded()
        return result

    async def outcome(*args: Any, **kwargs: Any) -> Outcome:
        """Like the call itself, but says how the result was come by."""
        operation.cell(plan.source or _source()).started()
        return await drive_async(recovery, plan, args, kwargs)

    guarded.outcome = outcome  # type: ignore[attr-defined]
    guarded.operation = operation  # type: ignore[attr-defined]
    return guarded


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
        if inspect.iscoroutinefunction(raw) and not inspect.iscoroutinefunction(function):
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
        )
        found.append((alternative, raw))
    return tuple(found)
