"""What a policy says that is allowed and rarely meant: retries without an end, storms, breakers that never open.

`parse_policy` refuses what cannot be obeyed. This is what a careful colleague would ask about before it goes live.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Any

from recovery_ops.rules.budget import GuardLimits
from recovery_ops.rules.classification_lint import doubts_of
from recovery_ops.rules.effects import Effects
from recovery_ops.rules.escalation_terms import ALLOW, BUILT_IN_TERMS, SEVERITIES, Terms
from recovery_ops.rules.fallback_cycles import Fallbacks, pattern_cycles
from recovery_ops.rules.fleet_bounds import QuorumRule, RampBounds, StuckBounds
from recovery_ops.rules.outages import OutageBounds
from recovery_ops.rules.policy import BUILT_IN, Knobs, Policy, PolicyRule, knobs_document, whole_document_of
from recovery_ops.rules.records import dataclass
from recovery_ops.rules.scope import ANY, Place, Scope

STORM_ATTEMPTS = 6
"""More attempts than this for one call, fallbacks included, are a storm when everybody makes them."""
LONG_WAIT_S = 120.0
"""Longer than this in all, nobody who waits is still there."""
FEW_INSTANCES, SMALL_SHARE, SHORT_HOLD_S = 3, 0.3, 10.0
"""Below these a quorum is no quorum."""
UNATTENDED_S = 6 * 3600.0
LONG_ANSWER_S = 24 * 3600.0
"""Longer than this, a question's default comes too late to be one."""
_EXTRA_KEYS = frozenset({"version", "requires"})


class Level(StrEnum):
    """How much a finding matters."""

    WARNING = "warning"
    """Likely a mistake, or harmful in an outage."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to look at: where in the document, and what of it. `code` is a word for programs."""

    level: Level
    path: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Storm:
    """What one call of an operation may come to when everything fails: attempts and seconds of waiting."""

    operation: str
    attempts_foreground: int
    attempts_background: int
    capacity_attempts: int
    """Attempts in foreground while the provider says that it is overloaded."""
    waiting_s: float
    """Of a call in foreground, with the longest jitter; without what servers ask for."""


def lint(policy: Policy, document: Mapping[str, Any] | None = None) -> tuple[Finding, ...]:
    """Every finding, in the order of the document. `document` is what the policy was read from, for unknown keys."""
    return (
        *(*_unknown_keys(document or {}), *_sources(policy), *_table(policy), *_defaults(policy), *_rules(policy)),
        *_quorum(policy),
        *_terms(policy),
        *(_warning(*doubt) for doubt in doubts_of(policy.classification)),
    )


def storm_of(policy: Policy, operation: str, *, kind: str = "operation", where: Scope = Scope()) -> Storm:  # noqa: B008
    """The most that one call may come to, by the policy and the fallbacks that it names; `where`: for which agents."""
    asked, seen = [operation], set[str]()
    foreground = background = capacity = 0
    waiting_s = 0.0
    while asked:
        name = asked.pop(0)
        if name in seen:
            continue
        seen.add(name)
        found = policy.for_operation(_place(where, name), kind=kind)
        knobs = found.knobs
        retries = knobs.max_retries or 0
        foreground += 1 + retries
        background += 1 + (knobs.max_retries_background or 0)
        capacity += 1 + (retries if knobs.retry_capacity_errors else 0)
        waiting_s += waiting_of(knobs)
        if knobs.fallback_allowed:
            asked.extend(found.fallbacks or ())
    return Storm(
        operation=operation,
        attempts_foreground=foreground,
        attempts_background=background,
        capacity_attempts=capacity,
        waiting_s=round(waiting_s, 3),
    )


def waiting_of(knobs: Knobs) -> float:
    """Seconds that a call in foreground waits between its attempts when all of them fail, with the longest jitter."""
    base_s, cap_s = knobs.base_delay_s or 0.0, knobs.delay_cap_s or 0.0
    delays = (min(base_s * (knobs.backoff_factor or 1.0) ** number, cap_s) for number in range(knobs.max_retries or 0))
    return sum(delays) * (1 + (knobs.jitter or 0.0))


def _unknown_keys(document: Mapping[str, Any]) -> Iterator[Finding]:
    known = {*whole_document_of(BUILT_IN), *_EXTRA_KEYS}
    for name in document:
        if name not in known:
            yield _warning(str(name), "unknown_key", f"is not known, and ignored by agents; there are {_list(known)}")
    knobs = {*Knobs.__dataclass_fields__}
    for index, rule in enumerate(_rows(document.get("rules"))):
        for name in rule:
            if name not in ("id", "scope", "knobs", "fallbacks", "models"):
                yield _warning(f"rules[{index}].{name}", "unknown_key", "is not known, and ignored by agents")
        yield from _unknown_knobs(rule.get("knobs"), f"rules[{index}].knobs", knobs)
    for index, rule in enumerate(_rows(document.get("classification"))):
        for name in rule:
            if name not in ("name", "match", "category", "overrides"):
                yield _warning(f"classification[{index}].{name}", "unknown_key", "is not known, and ignored by agents")
    for index, rule in enumerate(_rows(document.get("quorum"))):
        yield from _unknown_knobs(rule, f"quorum[{index}]", {*QuorumRule.__dataclass_fields__})
    for section, held in (
        ("capacity_events", OutageBounds),
        ("reset_ramp", RampBounds),
        ("stuck_breakers", StuckBounds),
        ("guards", GuardLimits),
        ("failures", Effects),
    ):
        yield from _unknown_knobs(document.get(section), section, {*held.__dataclass_fields__})
    terms = document.get("escalation_terms")
    for kind, said in terms.items() if isinstance(terms, Mapping) else ():
        yield from _unknown_knobs(said, f"escalation_terms.{kind}", {*Terms.__dataclass_fields__})
    defaults = document.get("defaults")
    for kind, said in defaults.items() if isinstance(defaults, Mapping) else ():
        yield from _unknown_knobs(said, f"defaults.{kind}", knobs)


def _unknown_knobs(given: object, path: str, known: set[str]) -> Iterator[Finding]:
    for name in given if isinstance(given, Mapping) else ():
        if name not in known:
            yield _warning(f"{path}.{name}", "unknown_key", "is not a knob, and ignored by agents")


def _rows(given: object) -> list[Mapping[str, Any]]:
    return [row for row in given if isinstance(row, Mapping)] if isinstance(given, list) else []


def _sources(policy: Policy) -> Iterator[Finding]:
    if not policy.foreground_sources:
        message = "is empty: all work is background, and nobody's call is retried while a provider is overloaded"
        yield _warning("foreground_sources", "no_foreground", message)


def _table(policy: Policy) -> Iterator[Finding]:
    rows = [(row.category, row.status_code) for row in policy.retry_table]
    for index, row_key in enumerate(rows):
        if row_key in rows[index + 1 :]:
            which = "first" if row_key[1] is None else "last"
            yield _warning(f"retry_table[{index}]", "shadowed", f"stands twice; the {which} of the two holds")


def _defaults(policy: Policy) -> Iterator[Finding]:
    for kind, knobs in policy.defaults.items():
        found = policy.for_operation(Place(service="", instance="", operation=""), kind=kind).knobs
        if policy.rules and any(rule.scope.is_whole_environment for rule in policy.rules):
            found = knobs.over(found)
        yield from _numbers(found, knobs, f"defaults.{kind}")
        held = policy.for_operation(_place(Scope(), ANY), kind=kind).knobs
        is_held = knobs.over(held) == held  # else a rule for everything goes first, and is told of itself
        if is_held and _is_about_attempts(knobs) and not knobs.persistent:
            yield from _stormy(storm_of(policy, ANY, kind=kind), f"any {kind}", f"defaults.{kind}")


def _rules(policy: Policy) -> Iterator[Finding]:
    for index, rule in enumerate(policy.rules):
        path = f"rules[{index}]"
        yield from _numbers(_held(policy, rule), rule.knobs, f"{path}.knobs")
        yield from _storm(policy, rule, path)
        if knobs_document(rule.knobs) == {} and rule.fallbacks is None and rule.models is None:
            yield Finding(level=Level.NOTE, path=path, code="says_nothing", message="says nothing and can go")
    chains = (
        Fallbacks(f"rules[{index}]", rule.scope, rule.fallbacks)
        for index, rule in enumerate(policy.rules)
        if rule.fallbacks is not None
    )
    for path, name in pattern_cycles(chains).items():
        message = f"leads back to itself for {name}; a rule for {name} with other fallbacks, or none, ends it"
        yield _warning(f"{path}.fallbacks", "fallback_cycle", message)
    scopes = sorted(enumerate(policy.rules), key=lambda one: (repr(one[1].scope), one[0]))
    for (index, rule), (later, other) in pairwise(scopes):
        if rule.scope == other.scope:
            message = f"has the scope of rules[{later}], which wins where both say something"
            yield _warning(f"rules[{index}].scope", "shadowed", message)


def _quorum(policy: Policy) -> Iterator[Finding]:
    operations = [rule.operation for rule in policy.quorum]
    for index, rule in enumerate(policy.quorum):
        path = f"quorum[{index}]"
        if rule.operation in operations[index + 1 :]:
            yield _warning(f"{path}.operation", "shadowed", "stands twice; the last of the two holds")
        if rule.minimum_count < FEW_INSTANCES:
            message = f"lets {rule.minimum_count} of them trip everybody; one bad host is no outage"
            yield _warning(f"{path}.minimum_count", "small_quorum", message)
        if rule.share < SMALL_SHARE:
            message = f"lets {rule.share * 100:g} % of the fleet trip the {100 - rule.share * 100:g} % that work"
            yield _warning(f"{path}.share", "small_quorum", message)
        if rule.hold_s < SHORT_HOLD_S:
            yield _warning(f"{path}.hold_s", "no_hold", "is short: a moment of trouble everywhere trips everybody")


def _terms(policy: Policy) -> Iterator[Finding]:
    for kind, terms in policy.escalation_terms.items():
        path, built_in = f"escalation_terms.{kind}", BUILT_IN_TERMS[kind]
        if terms.resolve_in_s > LONG_ANSWER_S:
            message = f"leaves a question open for {terms.resolve_in_s / 3600:g} h before anything happens"
            yield _warning(f"{path}.resolve_in_s", "late_default", message)
        if terms.default_action == ALLOW:
            message = "lets a run that waits go on when nobody has looked at its question"
            yield _warning(f"{path}.default_action", "silence_allows", message)
        if SEVERITIES.index(terms.severity) < SEVERITIES.index(built_in.severity):
            message = f"is less than {built_in.severity}: rules of notifications from that severity on stay silent"
            yield Finding(level=Level.NOTE, path=f"{path}.severity", code="quieter", message=message)


def _held(policy: Policy, rule: PolicyRule) -> Knobs:
    """The knobs that hold in a rule's scope: where it says nothing, what stands behind it."""
    return rule.knobs.over(policy.for_operation(_place(rule.scope, rule.scope.operation)).knobs)


def _place(scope: Scope, operation: str) -> Place:
    return Place(
        service=scope.service, instance=scope.instance, group=scope.group, operation=operation, breaker=operation
    )


def _numbers(held: Knobs, said: Knobs, path: str) -> Iterator[Finding]:
    """What is odd about the numbers that hold together, told where one of them is said."""

    def says(*names: str) -> bool:
        return any(getattr(said, name) is not None for name in names)

    retries = max(held.max_retries or 0, held.max_retries_background or 0)
    if said.persistent:
        cap_h = (held.persistent_cap_s or 0.0) / 3600
        message = f"retries without a limit of attempts, for up to {cap_h:g} h: for unattended work alone"
        yield _warning(f"{path}.persistent", "unbounded", message)
    if held.persistent and says("persistent_cap_s") and (held.persistent_cap_s or 0.0) > UNATTENDED_S:
        yield _warning(f"{path}.persistent_cap_s", "unbounded", "goes on for longer than 6 h")
    if retries and not held.base_delay_s and says("base_delay_s", "max_retries", "max_retries_background"):
        yield _warning(f"{path}.base_delay_s", "no_delay", "is 0: retries follow at once, on a service that is down")
    if retries and not held.jitter and says("jitter"):
        yield _warning(f"{path}.jitter", "no_jitter", "is 0: all callers come back at the same moment")
    if (held.base_delay_s or 0.0) > (held.delay_cap_s or 0.0) and says("base_delay_s", "delay_cap_s"):
        yield _warning(f"{path}.base_delay_s", "above_cap", "is longer than delay_cap_s, which holds instead")
    waits_s = waiting_of(held)
    if waits_s > LONG_WAIT_S and says("max_retries", "base_delay_s", "delay_cap_s") and not held.persistent:
        message = f"with these a call in foreground may wait {waits_s:.0f} s for its retries"
        yield _warning(f"{path}.max_retries", "long_wait", message)
    yield from _breaker_numbers(held, says, path)


def _breaker_numbers(held: Knobs, says: Any, path: str) -> Iterator[Finding]:
    limits = ("consecutive_failures", "failure_rate_threshold", "slow_call_rate_threshold")
    if not any(getattr(held, name) for name in limits) and says(*limits):
        message = "all limits are 0: the breaker never opens by itself"
        yield _warning(f"{path}.consecutive_failures", "never_opens", message)
    is_by_count = held.sliding_window_type == "count_based"
    least, size = held.minimum_number_of_calls or 1, held.sliding_window_size or 1
    is_said = says("minimum_number_of_calls", "sliding_window_size")
    if is_said and is_by_count and held.failure_rate_threshold and least > size:
        message = f"is more than the {size} calls of the window: a failure rate is never judged"
        yield _warning(f"{path}.minimum_number_of_calls", "never_judged", message)
    if (held.wait_duration_in_open_s or 0.0) < 1.0 and says("wait_duration_in_open_s"):
        yield _warning(f"{path}.wait_duration_in_open_s", "no_rest", "gives a service that is down no second of rest")


def _storm(policy: Policy, rule: PolicyRule, path: str) -> Iterator[Finding]:
    scope = rule.scope
    if (_is_about_attempts(rule.knobs) or rule.fallbacks) and not rule.knobs.persistent:
        parts = (("of service", scope.service), ("on instance", scope.instance), ("in group", scope.group))
        name = "any operation" if scope.operation == ANY else scope.operation
        words = " ".join([name, *(f"{what} {which}" for what, which in parts if which != ANY)])
        yield from _stormy(storm_of(policy, scope.operation, where=scope), words, path)


def _is_about_attempts(said: Knobs) -> bool:
    return said.max_retries is not None or said.max_retries_background is not None


def _stormy(storm: Storm, name: str, path: str) -> Iterator[Finding]:
    worst = max(storm.attempts_foreground, storm.attempts_background)
    if worst > STORM_ATTEMPTS:
        message = (
            f"one call of {name} may become {worst} attempts when all fail ({storm.capacity_attempts} while the "
            f"provider is overloaded), over {storm.waiting_s:.0f} s of waiting"
        )
        yield _warning(path, "retry_storm", message)


def _warning(path: str, code: str, message: str) -> Finding:
    return Finding(level=Level.WARNING, path=path, code=code, message=message)


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names - _EXTRA_KEYS))
