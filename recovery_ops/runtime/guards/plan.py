"""Plans of guards: the options of one guarded callable, checked and joined with its operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from recovery_ops.rules.enums import Adjustment, OnBrokenStream
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.resilience.call_context import Alternative
from recovery_ops.runtime.aio.awaitables import is_async
from recovery_ops.runtime.calls.operation import Declaration, Fallback, Operation, Plan
from recovery_ops.runtime.engine import Engine
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.guards.argument_checks import check_result
from recovery_ops.runtime.guards.hooks import checked
from recovery_ops.runtime.guards.methods import is_in_class
from recovery_ops.runtime.guards.options import AnyFallback, Options, seconds
from recovery_ops.runtime.guards.retry_conditions import conditions
from recovery_ops.runtime.runs.repeated_calls import COMPARED

AnyFunction = Callable[..., Any]


def block_plan(recovery: Engine, name: str | None, options: Options, *, is_single: bool = False) -> Plan:
    """The plan of a block of code, which has a name of its own and nothing that a function is called for."""
    if not name:
        raise ConfigurationError('a block has no name; give it one: recovery.guard("search")')
    refused = ("fallback", "optional", "retry_result", "chain")
    for option in refused if is_single else refused[:-1]:
        if getattr(options, option):
            raise ConfigurationError(f"guard {name}: {option} is for functions; a block has no result")
    plan = guard_plan(recovery, name, _block, options)
    return replace(plan, is_single=is_single)


def _block() -> None:
    """Stands for the block of code."""


def guard_plan(
    recovery: Engine, name: str, function: AnyFunction, options: Options, known: Operation | None = None
) -> Plan:
    """The plan of a function under a guard; `known` is an operation that stays as it is declared."""
    declaration = Declaration(
        kind=options.kind,
        breaker=options.breaker or name,
        code=_settings(options),
        provider=options.provider,
        region=options.region,
        chain=options.chain,
    )
    may_stream = options.kind == "model"
    alternatives = _alternatives(recovery, name, function, options.fallback, may_stream=may_stream)
    operation = recovery.operations.declare(name, declaration) if known is None else known
    operation.declare(other for other, _ in alternatives)
    hooks = {
        Adjustment.REFRESH_CREDENTIALS: options.refresh_credentials,
        Adjustment.REFRESH_EVIDENCE: options.refresh_evidence,
    }
    given = {adjustment: hook for adjustment, hook in hooks.items() if hook is not None}
    fixes = set(given) | ({Adjustment.MAX_TOKENS} if options.adjusts_max_tokens else set())
    idempotent, source, rejects = options.idempotent, options.source, options.retry_result
    return Plan(
        operation=operation,
        function=function if rejects is None else checked(recovery, name, source, function, rejects),
        source=source,
        is_optional=options.optional,
        is_foundational=options.foundational,
        is_repeatable=options.read_only or (declaration.kind == "model" if idempotent is None else idempotent),
        alternatives=alternatives,
        fixes=frozenset(fixes),
        hooks=given,
        idempotency_key=options.idempotency_key,
        timeout_s=seconds(options.timeout),
        reraise=options.reraise,
        on_broken_stream=OnBrokenStream(options.on_broken_stream),
        whole_streams=options.whole_streams,
        finish_reason_required=options.finish_reason_required,
        is_full_jitter=options.jitter == "full",
        retry_conditions=conditions(options.retry_on, options.retry_if, rejects),
        model=options.model,
        credentials=recovery.operations.credentials(operation, options.credentials or ()),
        tool=options.tool,
        is_compared=options.kind == "tool" and not hasattr(function, COMPARED),
        is_polling=options.polling,
        is_method=is_in_class(function),
        tells_model=options.permission == "tell_model",
        needs=options.needs,
        on_heartbeat=options.on_heartbeat,
        ask_user=options.ask_user,
    )


def _settings(options: Options) -> Settings:
    own = Settings(
        max_retries=options.max_retries,
        max_retries_background=options.max_retries,
        base_delay_s=seconds(options.base_delay),
        call_deadline_s=seconds(options.attempt_timeout),
        response_timeout_s=seconds(options.response_timeout),
        first_token_timeout_s=seconds(options.first_token_timeout),
        stall_timeout_s=seconds(options.stall_timeout),
        fallback_allowed=None if options.fallback_allowed else False,
    )
    settings = options.settings
    return own if settings is None else own.over(settings)


def _alternatives(
    recovery: Engine,
    name: str,
    function: Callable[..., Any],
    given: AnyFallback | Sequence[AnyFallback] | None,
    *,
    may_stream: bool,
) -> tuple[tuple[Alternative, Callable[..., Any]], ...]:
    if given is None:
        return ()
    found = []
    for one in [given] if isinstance(given, Fallback) or callable(given) else list(given):
        fallback = one if isinstance(one, Fallback) else Fallback(one)
        own = operation_of(fallback.function)
        called = fallback.name or getattr(fallback.function, "__name__", f"{name}.fallback")
        check_result(f"fallback of {name}", fallback.function, may_stream=may_stream)
        if is_async(fallback.function) and not is_async(function):
            raise ConfigurationError(f"{name} is not async, so its fallback {called} must not be async either")
        operation = own or recovery.operations.named(called)
        if operation.name == name:
            raise ConfigurationError(f"{name} cannot be its own fallback; give the fallback another name")
        alternative = Alternative(
            standing=operation.standing,
            is_guarded=own is not None,
            is_repeatable=fallback.idempotent or fallback.read_only,
            warning=fallback.warning,
            data_age_s=fallback.data_age_s,
            feature=fallback.feature,
        )
        found.append((alternative, fallback.function))
    return tuple(found)


def operation_of(function: Callable[..., Any]) -> Operation | None:
    """The operation of a guarded callable, also of one that is bound or decorated; None for any other."""
    found = getattr(function, "operation", None)
    return found if isinstance(found, Operation) else None
