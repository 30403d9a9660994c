"""Options of a guard: their types, and the checks that refuse a value which could never work."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from recovery_ops.rules.events import Escalated, WaitHeartbeat
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.resilience.model_chain import ModelChain, Needs
from recovery_ops.runtime.calls.deadline import Duration
from recovery_ops.runtime.calls.operation import Fallback
from recovery_ops.runtime.errors import ConfigurationError
from recovery_ops.runtime.guards.argument_checks import (
    Jitter,
    Permission,
    check_callable,
    check_names,
    check_numbers,
    check_permission,
    check_source,
    check_type,
    check_word,
)
from recovery_ops.runtime.guards.credential_labels import Credentials, check_labels
from recovery_ops.runtime.guards.retry_conditions import RetryOn, check_conditions

Kind = Literal["operation", "model", "tool", "document", "sandbox"]
BrokenStream = Literal["error", "restart", "continue"]
"""What follows after a stream broke of which the caller has a part."""
AnyFallback = Callable[..., Any] | Fallback[Any]


class GuardOptions(TypedDict, total=False):
    """Options of a guard other than `fallback` and `optional`; `Recovery.guard` documents them."""

    kind: Kind
    breaker: str
    fallback_allowed: bool
    foundational: bool
    idempotent: bool | None
    read_only: bool
    idempotency_key: Callable[..., str] | None
    permission: Permission
    source: str
    max_retries: int | None
    base_delay: Duration | None
    jitter: Jitter
    retry_on: RetryOn | None
    retry_if: Callable[[Any], Any] | None
    retry_result: Callable[[Any], Any] | None
    attempt_timeout: Duration | None
    response_timeout: Duration | None
    first_token_timeout: Duration | None
    stall_timeout: Duration | None
    on_broken_stream: BrokenStream
    whole_streams: bool
    finish_reason_required: bool
    timeout: Duration | None
    settings: Settings | None
    reraise: bool | None
    refresh_credentials: Callable[[], Any] | None
    refresh_evidence: Callable[[], Any] | None
    adjusts_max_tokens: bool
    provider: str | None
    model: str | None
    tool: str | None
    polling: bool
    region: str | None
    chain: ModelChain | None
    needs: Callable[..., Needs] | None
    credentials: Credentials | None
    on_heartbeat: Callable[[WaitHeartbeat], Any] | None
    ask_user: Callable[[Escalated], Any] | None


class AllGuardOptions(GuardOptions, total=False):
    """Every option of a guard, for code that passes them on."""

    fallback: AnyFallback | Sequence[AnyFallback] | None
    optional: bool


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one guard with their defaults, made once; `Recovery.guard` documents them."""

    kind: Kind = "operation"
    breaker: str = ""
    fallback: AnyFallback | Sequence[AnyFallback] | None = None
    fallback_allowed: bool = True
    optional: bool = False
    foundational: bool = False
    idempotent: bool | None = None
    read_only: bool = False
    idempotency_key: Callable[..., str] | None = None
    permission: Permission = "stop"
    source: str = ""
    max_retries: int | None = None
    base_delay: Duration | None = None
    jitter: Jitter = "additive"
    retry_on: RetryOn | None = None
    retry_if: Callable[[Any], Any] | None = None
    retry_result: Callable[[Any], Any] | None = None
    attempt_timeout: Duration | None = None
    response_timeout: Duration | None = None
    first_token_timeout: Duration | None = None
    stall_timeout: Duration | None = None
    on_broken_stream: BrokenStream = "error"
    whole_streams: bool = False
    finish_reason_required: bool = True
    timeout: Duration | None = None
    settings: Settings | None = None
    reraise: bool | None = None
    refresh_credentials: Callable[[], Any] | None = None
    refresh_evidence: Callable[[], Any] | None = None
    adjusts_max_tokens: bool = False
    provider: str | None = None
    model: str | None = None
    tool: str | None = None
    polling: bool = False
    region: str | None = None
    chain: ModelChain | None = None
    needs: Callable[..., Needs] | None = None
    credentials: Credentials | None = None
    on_heartbeat: Callable[[WaitHeartbeat], Any] | None = None
    ask_user: Callable[[Escalated], Any] | None = None


_FLAGS = (
    *("optional", "foundational", "idempotent", "read_only"),
    *("adjusts_max_tokens", "whole_streams", "finish_reason_required", "reraise", "polling"),
)
_HOOKS = ("idempotency_key", "refresh_credentials", "refresh_evidence", "needs", "on_heartbeat", "ask_user")


def check_options(whose: str, foreground_sources: Sequence[str], given: AllGuardOptions) -> Options:
    """The options as a record. TypeError for a name that does not exist, ConfigurationError for a wrong value."""
    check_names(whose, given, AllGuardOptions.__annotations__)
    options = Options(**given)
    check_type(whose, bool, {name: getattr(options, name) for name in _FLAGS})
    check_type(whose, str, {"breaker": options.breaker})
    check_type(whose, ModelChain, {"chain": options.chain})
    check_callable(whose, {name: getattr(options, name) for name in _HOOKS})
    check_fallbacks(whose, options.fallback)
    check_labels(whose, options.credentials)
    check_kind(whose, options.kind)
    check_source(whose, options.source, foreground_sources)
    check_permission(whose, options.permission)
    check_word(whose, "jitter", options.jitter, get_args(Jitter))
    check_word(whose, "on_broken_stream", options.on_broken_stream, get_args(BrokenStream))
    check_conditions(whose, options.retry_on, retry_if=options.retry_if, retry_result=options.retry_result)
    check_numbers(whose, given)
    if options.read_only and options.idempotent is False:
        raise ConfigurationError(
            f"{whose}: read_only=True contradicts idempotent=False; what only reads may be repeated"
        )
    check_foundational(whose, optional=options.optional, foundational=options.foundational)
    return options


def check_fallbacks(whose: str, given: object) -> None:
    """Refuse what is no function, no Fallback, and no list of these."""
    if given is None:
        return
    for one in given if isinstance(given, (list, tuple)) else (given,):
        if not (callable(one) or isinstance(one, Fallback)):
            raise ConfigurationError(f"{whose}: a fallback is a callable or a Fallback, not a {type(one).__name__}")


def seconds(value: Duration | None) -> float | None:
    """A duration in seconds; whatever else it is stays as it is, for the checks to refuse."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def check_kind(whose: str, value: object) -> None:
    """Refuse a kind of operation that does not exist."""
    check_word(whose, "kind", value, get_args(Kind))


def check_foundational(whose: str, *, optional: object, foundational: object) -> None:
    """Refuse an operation that the run can do without and cannot."""
    if optional and foundational:
        raise ConfigurationError(f"{whose}: optional=True contradicts foundational=True; declare one of them")


def name_of(function: Callable[..., Any]) -> str:
    """The name of a callable, or of the one that it wraps; ConfigurationError where there is none."""
    found: Any = function
    while isinstance(found, functools.partial):
        found = found.func
    name = getattr(found, "__name__", None) or getattr(inspect.unwrap(found), "__name__", None)
    if not isinstance(name, str) or name == "<lambda>":
        raise ConfigurationError(f'{function!r} has no name; give the guard one: recovery.guard("search")(…)')
    return name
