"""What each setting of a policy is: its kind, bounds, unit and effect, for checks, forms and schemas alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from recovery_ops.rules.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a document: where it is, and what should stand there."""

    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One number, flag or word that an operator may set."""

    kind: str
    """`whole`, `number`, `flag` or `word`."""
    brief: str
    minimum: float = 0
    maximum: float = math.inf
    unit: str = ""
    words: tuple[str, ...] = ()


_DAY = 86_400.0
_LARGEST = 10**15

SETTINGS: dict[str, Setting] = {
    "max_retries": Setting(kind="whole", maximum=20, brief="Retries in foreground; attempts are one more"),
    "max_retries_background": Setting(
        kind="whole", maximum=20, brief="Retries in background, never for capacity errors"
    ),
    "base_delay_s": Setting(kind="number", maximum=3600, unit="s", brief="First delay"),
    "backoff_factor": Setting(kind="number", minimum=1, maximum=10, brief="Factor of each further delay"),
    "delay_cap_s": Setting(kind="number", minimum=0.001, maximum=3600, unit="s", brief="Longest delay before jitter"),
    "jitter": Setting(kind="number", maximum=1, brief="Largest random addition, as a share of the delay"),
    "retry_capacity_errors": Setting(kind="flag", brief="Retry 429 and 529 in foreground"),
    "persistent": Setting(kind="flag", brief="Unlimited attempts, for unattended runs"),
    "persistent_cap_s": Setting(
        kind="number", minimum=1, maximum=7 * _DAY, unit="s", brief="Duration of unlimited attempts"
    ),
    "wait_chunk_s": Setting(
        kind="number",
        minimum=0.1,
        maximum=30,
        unit="s",
        brief="Length of the parts of a wait, each with a heartbeat",
    ),
    "max_wait_before_fallback_s": Setting(
        kind="number", maximum=_DAY, unit="s", brief="Longest wait for retries in foreground while a fallback is ready"
    ),
    "quota_rest_s": Setting(
        kind="number",
        minimum=1,
        maximum=7 * _DAY,
        unit="s",
        brief="Pause after a spent quota without a reset time, where a fallback or another model answers",
    ),
    "retry_ratio": Setting(kind="number", maximum=10, brief="Retries per call of a process, over 10 s"),
    "min_retries_per_s": Setting(
        kind="number", maximum=10_000, brief="Retries per second of a process on top of retry_ratio"
    ),
    "call_deadline_s": Setting(kind="number", maximum=_DAY, unit="s", brief="Deadline of one attempt; 0 is none"),
    "response_timeout_s": Setting(
        kind="number",
        maximum=_DAY,
        unit="s",
        brief="Longest time to a response while a fallback or another model is ready; 0 is off",
    ),
    "first_token_timeout_s": Setting(
        kind="number",
        maximum=_DAY,
        unit="s",
        brief="Longest time to the first token of a stream while a fallback or another model is ready; 0 is off",
    ),
    "stall_timeout_s": Setting(
        kind="number",
        maximum=_DAY,
        unit="s",
        brief="Longest pause between tokens of a stream while a fallback or another model is ready; 0 is off",
    ),
    "fallback_allowed": Setting(kind="flag", brief="Allow fallback answers"),
    "stop_on_exhausted": Setting(
        kind="flag", brief="End the run when a tool that is not optional has used up its retries"
    ),
    "failure_rate_threshold": Setting(
        kind="number", maximum=1, brief="Share of failed calls that opens the breaker; 0 is off"
    ),
    "sliding_window_type": Setting(
        kind="word", words=("count_based", "time_based"), brief="Unit of the window: calls or seconds"
    ),
    "sliding_window_size": Setting(kind="whole", minimum=1, maximum=10_000, brief="Calls, or seconds, in the window"),
    "minimum_number_of_calls": Setting(
        kind="whole", minimum=1, maximum=10_000, brief="Least number of calls for a rate"
    ),
    "consecutive_failures": Setting(
        kind="whole", maximum=10_000, brief="Consecutive failures that open the breaker; 0 is off"
    ),
    "consecutive_failures_with_fallback": Setting(
        kind="whole",
        maximum=10_000,
        brief="Consecutive failures that open while a fallback or another model is ready; 0 is as without one",
    ),
    "slow_call_rate_threshold": Setting(
        kind="number", maximum=1, brief="Share of slow calls that opens the breaker; 0 is off"
    ),
    "slow_call_duration_s": Setting(
        kind="number", minimum=0.001, maximum=_DAY, unit="s", brief="Duration from which a call is slow"
    ),
    "wait_duration_in_open_s": Setting(
        kind="number", minimum=0.01, maximum=_DAY, unit="s", brief="Time in open before a probe"
    ),
    "permitted_calls_in_half_open": Setting(
        kind="whole", minimum=1, maximum=1000, brief="Concurrent probes in half-open"
    ),
    "max_wait_in_half_open_s": Setting(
        kind="number", minimum=0.01, maximum=_DAY, unit="s", brief="Shortest timeout of a probe"
    ),
    "model_fallback_after": Setting(
        kind="whole", maximum=100, brief="Consecutive overloads before the next model; 0 is off"
    ),
    "model_cooldown_s": Setting(
        kind="number", minimum=0.01, maximum=_DAY, unit="s", brief="Time until the first model is tried again"
    ),
    "overflow_floor_tokens": Setting(
        kind="whole", minimum=1, maximum=10**9, brief="Least tokens left for an answer to retry a full context"
    ),
    "overflow_margin_tokens": Setting(
        kind="whole", maximum=10**9, brief="Tokens of an answer left unused in that retry"
    ),
    "retry_budget": Setting(
        kind="number", minimum=0.001, maximum=10, brief="Retries per call over 30 days; the basis of alerts"
    ),
    "least_importance": Setting(
        kind="word",
        words=("sheddable", "sheddable_plus", "critical", "critical_plus"),
        brief="Lowest priority that is not shed; sheddable sheds nothing",
    ),
}
"""Every setting, in the order in which forms show them."""


def checked_settings(given: object, path: str) -> tuple[dict[str, object], list[Problem]]:
    """The settings of a JSON object that are as they should be, and a problem for each that is not.

    Unknown settings are ignored: a newer document may have more.
    """
    if not isinstance(given, Mapping):
        return {}, [Problem(path, "must be an object of settings")]
    values: dict[str, object] = {}
    problems: list[Problem] = []
    for name, setting in SETTINGS.items():
        value = given.get(name)
        if value is None:
            continue
        fault = fault_of(setting, value)
        if fault:
            problems.append(Problem(f"{path}.{name}", fault))
        else:
            values[name] = normal_of(setting, value)
    return values, problems


def normal_of(setting: Setting, value: Any) -> object:
    """A value without a fault as whatever counts with it needs it: JSON may write a whole number as 3.0."""
    if setting.kind == "number":
        return float(value)
    return int(value) if setting.kind == "whole" else value


def fault_of(setting: Setting, value: object) -> str:
    """What is wrong with a value, in words for the person who typed it; empty when nothing is."""
    if setting.kind == "flag":
        return "" if isinstance(value, bool) else "is true or false"
    if setting.kind == "word":
        return "" if value in setting.words else f"must be one of {', '.join(setting.words)}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, int) and abs(value) > _LARGEST:
        value = _LARGEST if value > 0 else -_LARGEST  # a float could not hold it, and no setting is that large
    if not is_number or not math.isfinite(value):  # type: ignore[arg-type]  # is_number has just said so
        return "must be a whole number" if setting.kind == "whole" else "must be a number"
    if setting.kind == "whole" and value != int(value):  # type: ignore[call-overload]
        return "must be a whole number"
    if not setting.minimum <= value <= setting.maximum:  # type: ignore[operator]
        unit = f" {setting.unit}" if setting.unit else ""
        return f"must be from {setting.minimum:g} to {setting.maximum:g}{unit}"
    return ""


def expected(setting: Setting) -> str:
    """What a value has to be, to follow "must be"."""
    if setting.kind == "flag":
        return "true or false"
    if setting.kind == "word":
        return f"one of {', '.join(setting.words)}"
    kind = "a whole number" if setting.kind == "whole" else "a number"
    unit = f" {setting.unit}" if setting.unit else ""
    return f"{kind} from {setting.minimum:g} to {setting.maximum:g}{unit}"
