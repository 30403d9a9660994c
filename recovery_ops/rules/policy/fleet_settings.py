"""The policy sections that only the console obeys: how a reset is ramped, when a breaker is stuck, what a quorum is.

Only their numbers are here, because agents read whole documents; the rules that use them are not for agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.settings import Problem, Setting, fault_of

_Bounds = TypeVar("_Bounds", bound="RampBounds | StuckBounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class RampBounds:
    """The policy section `reset_ramp`: in which steps a reset of many goes, and what each step waits for."""

    first_instances: int = 1
    second_share: float = 0.1
    third_share: float = 0.5
    least_calls: int = 20
    least_time_s: float = 30.0
    patience_s: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckBounds:
    """The policy section `stuck_breakers`: from when on a breaker that does not move is a finding."""

    half_open_s: float = 300.0
    idle_open_s: float = 900.0
    uncounted_failures: int = 20
    uncounted_share: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumRule:
    """One entry of the policy section `quorum`: when enough instances opened a breaker, the console trips the rest."""

    operation: str
    """An operation or breaker; `*` may stand at the end."""
    share: float = 0.5
    minimum_count: int = 5
    hold_s: float = 30.0
    expires_s: float = 300.0


NO_RAMP_SAID, NOTHING_STUCK_SAID = RampBounds(), StuckBounds()
"""What holds where a document says nothing."""

RAMP_SETTINGS: dict[str, Setting] = {
    "first_instances": Setting(kind="whole", minimum=1, maximum=100, brief="Breakers in the first step"),
    "second_share": Setting(kind="number", minimum=0, maximum=1, brief="Share of breakers after the second step"),
    "third_share": Setting(kind="number", minimum=0, maximum=1, brief="Share of breakers after the third step"),
    "least_calls": Setting(
        kind="whole", minimum=1, maximum=100_000, brief="Calls through a closed breaker as evidence of recovery"
    ),
    "least_time_s": Setting(
        kind="number", minimum=1, maximum=3600, unit="s", brief="Time in closed as the same evidence without calls"
    ),
    "patience_s": Setting(
        kind="number", minimum=30, maximum=86_400, unit="s", brief="Longest wait for evidence in a step"
    ),
}
STUCK_SETTINGS: dict[str, Setting] = {
    "half_open_s": Setting(
        kind="number", minimum=10, maximum=86_400, unit="s", brief="Time in half-open after which a breaker is stuck"
    ),
    "idle_open_s": Setting(
        kind="number",
        minimum=300,
        maximum=900,
        unit="s",
        brief="Time in open without a call after which a breaker is stuck",
    ),
    "uncounted_failures": Setting(
        kind="whole", minimum=5, maximum=100_000, brief="Failures in 15 min that a closed breaker must react to"
    ),
    "uncounted_share": Setting(
        kind="number", minimum=0.05, maximum=1, brief="Least share of failed attempts for that reaction"
    ),
}
QUORUM_SETTINGS: dict[str, Setting] = {
    "share": Setting(kind="number", minimum=0.01, maximum=1, brief="Share of the reporting instances that opened it"),
    "minimum_count": Setting(
        kind="whole", minimum=1, maximum=100_000, brief="Least number of instances that opened it"
    ),
    "hold_s": Setting(kind="number", minimum=0, maximum=3600, unit="s", brief="Least duration of both conditions"),
    "expires_s": Setting(
        kind="number", minimum=60, maximum=86_400, unit="s", brief="Duration of the trip, unless the conditions persist"
    ),
}
"""Every number of these sections, in the order in which forms show them."""


def parse_ramp(given: object, path: str, problems: list[Problem]) -> RampBounds:
    """The bounds that a JSON object states; what it leaves out is the default. Adds a problem for each fault."""
    found = _parsed(given, path, RAMP_SETTINGS, NO_RAMP_SAID, problems)
    if found.third_share < found.second_share:
        problems.append(Problem(f"{path}.third_share", f"must be at least second_share, {found.second_share:g}"))
    return found


def parse_stuck(given: object, path: str, problems: list[Problem]) -> StuckBounds:
    """As `parse_ramp`, for the section `stuck_breakers`."""
    return _parsed(given, path, STUCK_SETTINGS, NOTHING_STUCK_SAID, problems)


def parse_quorum(given: object, path: str, problems: list[Problem]) -> tuple[QuorumRule, ...]:
    """The entries of a JSON list; none where nothing is said. Adds a problem for each fault."""
    if given is None:
        return ()
    if not isinstance(given, list):
        problems.append(Problem(path, "must be a list of rules"))
        return ()
    rules = []
    for index, row in enumerate(given):
        where = f"{path}[{index}]"
        if not isinstance(row, Mapping):
            problems.append(Problem(where, "must be an object with operation, share, minimum_count, hold_s, expires_s"))
            continue
        operation = row.get("operation")
        if not isinstance(operation, str) or not operation.strip():
            problems.append(Problem(f"{where}.operation", "names an operation or a breaker; * may stand at the end"))
            continue
        values = _values(row, where, QUORUM_SETTINGS, problems)
        rules.append(QuorumRule(operation=operation, **values))
    return tuple(rules)


def bounds_document(bounds: RampBounds | StuckBounds | QuorumRule) -> dict[str, Any]:
    """The JSON object that is read back as the same bounds."""
    return {part.name: getattr(bounds, part.name) for part in fields(bounds)}


def quorum_document(rules: Iterable[QuorumRule]) -> list[dict[str, Any]]:
    """The JSON list that `parse_quorum` reads back as the same rules."""
    return [bounds_document(rule) for rule in rules]


def _parsed(
    given: object, path: str, settings: Mapping[str, Setting], default: _Bounds, problems: list[Problem]
) -> _Bounds:
    if given is None:
        return default
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object of bounds"))
        return default
    return type(default)(**_values(given, path, settings, problems))


def _values(
    given: Mapping[str, Any], path: str, settings: Mapping[str, Setting], problems: list[Problem]
) -> dict[str, Any]:
    """What a JSON object says of these settings, without what has a fault. Keys that are not known are ignored."""
    values: dict[str, Any] = {}
    for name, setting in settings.items():
        value = given.get(name)
        fault = fault_of(setting, value) if value is not None else ""
        if fault:
            problems.append(Problem(f"{path}.{name}", fault))
        elif value is not None:
            values[name] = float(value) if setting.kind == "number" else int(value)
    return values
