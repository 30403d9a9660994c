"""What each knob of a policy is: its kind, bounds, unit and effect, for checks, forms and schemas alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from recovery_ops.rules.records import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a document: where it is, and what should stand there."""

    path: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
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

KNOBS: dict[str, Knob] = {
    "max_retries": Knob(kind="whole", maximum=20, brief="Retries in foreground; attempts are one more"),
    "max_retries_background": Knob(kind="whole", maximum=20, brief="Retries in background, never for capacity errors"),
    "base_delay_s": Knob(kind="number", maximum=3600, unit="s", brief="First delay"),
    "backoff_factor": Knob(kind="number", minimum=1, maximum=10, brief="How many times longer each further delay is"),
    "delay_cap_s": Knob(kind="number", minimum=0.001, maximum=3600, unit="s", brief="Longest delay before jitter"),
    "jitter": Knob(kind="number", maximum=1, brief="Share of the delay that chance may add"),
    "retry_capacity_errors": Knob(kind="flag", brief="Retry 429 and 529 in foreground"),
    "persistent": Knob(kind="flag", brief="Retry without a limit of attempts, for unattended runs"),
    "persistent_cap_s": Knob(kind="number", minimum=1, maximum=7 * _DAY, unit="s", brief="When persistence ends"),
    "wait_chunk_s": Knob(
        kind="number",
        minimum=0.1,
        maximum=30,
        unit="s",
        brief="Parts that a wait is cut into, each with a heartbeat",
    ),
    "call_deadline_s": Knob(kind="number", maximum=_DAY, unit="s", brief="Deadline of one attempt; 0 is none"),
    "fallback_allowed": Knob(kind="flag", brief="Whether another answer is better than none"),
    "failure_rate_threshold": Knob(kind="number", maximum=1, brief="Share of failed calls that opens; 0 is off"),
    "sliding_window_type": Knob(kind="word", words=("count_based", "time_based"), brief="What the window counts"),
    "sliding_window_size": Knob(kind="whole", minimum=1, maximum=10_000, brief="Calls, or seconds, in the window"),
    "minimum_number_of_calls": Knob(kind="whole", minimum=1, maximum=10_000, brief="Calls before a rate is judged"),
    "consecutive_failures": Knob(kind="whole", maximum=10_000, brief="Failures in a row that open; 0 is off"),
    "slow_call_rate_threshold": Knob(kind="number", maximum=1, brief="Share of slow calls that opens; 0 is off"),
    "slow_call_duration_s": Knob(
        kind="number", minimum=0.001, maximum=_DAY, unit="s", brief="From when a call is slow"
    ),
    "wait_duration_in_open_s": Knob(
        kind="number", minimum=0.01, maximum=_DAY, unit="s", brief="Cooldown before a probe"
    ),
    "permitted_calls_in_half_open": Knob(kind="whole", minimum=1, maximum=1000, brief="Probes let through at once"),
    "max_wait_in_half_open_s": Knob(
        kind="number", minimum=0.01, maximum=_DAY, unit="s", brief="When a probe is given up"
    ),
    "model_fallback_after": Knob(
        kind="whole", maximum=100, brief="Overloads in a row before the next model is asked; 0 is off"
    ),
    "model_cooldown_s": Knob(
        kind="number", minimum=0.01, maximum=_DAY, unit="s", brief="When the first model is tried again"
    ),
    "overflow_floor_tokens": Knob(
        kind="whole", minimum=1, maximum=10**9, brief="Least room for an answer for which a full context is retried"
    ),
    "overflow_margin_tokens": Knob(
        kind="whole", maximum=10**9, brief="Room for an answer that is left unused in that retry"
    ),
    "retry_budget": Knob(
        kind="number", minimum=0.001, maximum=10, brief="Retries for each call, over 30 days; alerts go by it"
    ),
    "least_importance": Knob(
        kind="word",
        words=("sheddable", "sheddable_plus", "critical", "critical_plus"),
        brief="Work of less importance is shed; sheddable sheds nothing",
    ),
}
"""Every knob, in the order in which forms show them."""


def checked_knobs(given: object, path: str) -> tuple[dict[str, object], list[Problem]]:
    """The knobs of a JSON object that are as they should be, and a problem for each that is not.

    Unknown knobs are ignored: a newer document may have more.
    """
    if not isinstance(given, Mapping):
        return {}, [Problem(path, "is an object of knobs")]
    values: dict[str, object] = {}
    problems: list[Problem] = []
    for name, knob in KNOBS.items():
        value = given.get(name)
        if value is None:
            continue
        fault = fault_of(knob, value)
        if fault:
            problems.append(Problem(f"{path}.{name}", fault))
        else:
            values[name] = _normal(knob, value)
    return values, problems


def _normal(knob: Knob, value: Any) -> object:
    """A value without a fault as whatever counts with it needs it: JSON may write a whole number as 3.0."""
    if knob.kind == "number":
        return float(value)
    return int(value) if knob.kind == "whole" else value


def fault_of(knob: Knob, value: object) -> str:
    """What is wrong with a value, in words for the person who typed it; empty when nothing is."""
    if knob.kind == "flag":
        return "" if isinstance(value, bool) else "is true or false"
    if knob.kind == "word":
        return "" if value in knob.words else f"is one of {', '.join(knob.words)}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(value, int) and abs(value) > _LARGEST:
        value = _LARGEST if value > 0 else -_LARGEST  # a float could not hold it, and no knob is that large
    if not is_number or not math.isfinite(value):  # type: ignore[arg-type]  # is_number has just said so
        return "is a whole number" if knob.kind == "whole" else "is a number"
    if knob.kind == "whole" and value != int(value):  # type: ignore[call-overload]
        return "is a whole number"
    if not knob.minimum <= value <= knob.maximum:  # type: ignore[operator]
        unit = f" {knob.unit}" if knob.unit else ""
        return f"is from {knob.minimum:g} to {knob.maximum:g}{unit}"
    return ""


def expected(knob: Knob) -> str:
    """What a value has to be, to follow "must be"."""
    if knob.kind == "flag":
        return "true or false"
    if knob.kind == "word":
        return f"one of {', '.join(knob.words)}"
    kind = "a whole number" if knob.kind == "whole" else "a number"
    unit = f" {knob.unit}" if knob.unit else ""
    return f"{kind} from {knob.minimum:g} to {knob.maximum:g}{unit}"
