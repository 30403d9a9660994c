"""What a policy says that is allowed and rarely meant: retries without an end, storms, breakers that never open.

`parse_policy` refuses what cannot be obeyed. This is what a careful colleague would ask about before it goes live.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Any

from recovery_ops.rules.incidents.detection import OutageBounds
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.classification_lint import doubts_of
from recovery_ops.rules.policy.escalation_terms import ALLOW, BUILT_IN_TERMS, SEVERITIES, Terms
from recovery_ops.rules.policy.failure_effects import Effects
from recovery_ops.rules.policy.fallback_cycles import Fallbacks, pattern_cycles
from recovery_ops.rules.policy.fleet_settings import QuorumRule, RampBounds, StuckBounds
from recovery_ops.rules.policy.model import BUILT_IN, Policy, PolicyRule, Settings, settings_document, whole_document_of
from recovery_ops.rules.policy.scope import ANY, Place, Scope
from recovery_ops.rules.policy.spend_settings import SpendCaps
from recovery_ops.rules.run_limits import ASK, STOP, GuardLimits

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
        *_repeats(policy.guards),
        *_spend_caps(policy.spend_caps),
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
        settings = found.settings
        retries = settings.max_retries or 0
        foreground += 1 + retries
        background += 1 + (settings.max_retries_background or 0)
        capacity += 1 + (retries if settings.retry_capacity_errors else 0)
        waiting_s += waiting_of(settings)
        if settings.fallback_allowed:
            asked.extend(found.fallbacks or ())
    return Storm(
        operation=operation,
        attempts_foreground=foreground,
        attempts_background=background,
        capacity_attempts=capacity,
        waiting_s=round(waiting_s, 3),
    )


def waiting_of(settings: Settings) -> float:
    """Seconds that a call in foreground waits between its attempts when all of them fail, with the longest jitter."""
    base_s, cap_s = settings.base_delay_s or 0.0, settings.delay_cap_s or 0.0
    delays = (
        min(base_s * (settings.backoff_factor or 1.0) ** number, cap_s) for number in range(settings.max_retries or 0)
    )
    return sum(delays) * (1 + (settings.jitter or 0.0))


def _unknown_keys(document: Mapping[str, Any]) -> Iterator[Finding]:
    known = {*whole_document_of(BUILT_IN), *_EXTRA_KEYS}
    for name in document:
        if name not in known:
            yield _warning(str(name), "unknown_key", f"is unknown and agents ignore it; use {_list(known)}")
    settings = {*Settings.__dataclass_fields__}
    for index, rule in enumerate(_rows(document.get("rules"))):
        for name in rule:
            if name not in ("id", "scope", "settings", "fallbacks", "models"):
                yield _warning(f"rules[{index}].{name}", "unknown_key", "is unknown and agents ignore it")
        yield from _unknown_settings(rule.get("settings"), f"rules[{index}].settings", settings)
    for index, rule in enumerate(_rows(document.get("classification"))):
        for name in rule:
            if name not in ("name", "match", "category", "overrides"):
                yield _warning(f"classification[{index}].{name}", "unknown_key", "is unknown and agents ignore it")
    for index, rule in enumerate(_rows(document.get("quorum"))):
        yield from _unknown_settings(rule, f"quorum[{index}]", {*QuorumRule.__dataclass_fields__})
    for section, held in (
        ("capacity_events", OutageBounds),
        ("reset_ramp", RampBounds),
        ("stuck_breakers", StuckBounds),
        ("guards", GuardLimits),
        ("spend_caps", SpendCaps),
        ("failures", Effects),
    ):
        yield from _unknown_settings(document.get(section), section, {*held.__dataclass_fields__})
    terms = document.get("escalation_terms")
    for kind, said in terms.items() if isinstance(terms, Mapping) else ():
        yield from _unknown_settings(said, f"escalation_terms.{kind}", {*Terms.__dataclass_fields__})
    defaults = document.get("defaults")
    for kind, said in defaults.items() if isinstance(defaults, Mapping) else ():
        yield from _unknown_settings(said, f"defaults.{kind}", settings)


def _unknown_settings(given: object, path: str, known: set[str]) -> Iterator[Finding]:
    for name in given if isinstance(given, Mapping) else ():
        if name not in known:
            yield _warning(f"{path}.{name}", "unknown_key", "is not a setting and agents ignore it")


def _spend_caps(caps: SpendCaps) -> Iterator[Finding]:
    bounds = {
        "call_tokens": (caps.call_tokens, caps.run_tokens or caps.source_tokens or caps.day_tokens),
        "call_cost_usd": (caps.call_cost_usd, caps.run_cost_usd or caps.source_cost_usd or caps.day_cost_usd),
    }
    for name, (bound, is_capped) in bounds.items():
        if is_capped and not bound:
            message = "is 0: a model call of unknown size runs alone under this cap"
            yield _warning(f"spend_caps.{name}", "one_by_one", message)


def _rows(given: object) -> list[Mapping[str, Any]]:
    return [row for row in given if isinstance(row, Mapping)] if isinstance(given, list) else []


def _sources(policy: Policy) -> Iterator[Finding]:
    if not policy.foreground_sources:
        message = "is empty: all work is background, and no call is retried while a provider is overloaded"
        yield _warning("foreground_sources", "no_foreground", message)


def _table(policy: Policy) -> Iterator[Finding]:
    rows = [(row.category, row.status_code) for row in policy.retry_table]
    for index, row_key in enumerate(rows):
        if row_key in rows[index + 1 :]:
            which = "first" if row_key[1] is None else "last"
            yield _warning(f"retry_table[{index}]", "shadowed", f"is a duplicate; the {which} of the two wins")


def _defaults(policy: Policy) -> Iterator[Finding]:
    for kind, settings in policy.defaults.items():
        found = policy.for_operation(Place(service="", instance="", operation=""), kind=kind).settings
        if policy.rules and any(rule.scope.is_whole_environment for rule in policy.rules):
            found = settings.over(found)
        yield from _numbers(found, settings, f"defaults.{kind}")
        held = policy.for_operation(_place(Scope(), ANY), kind=kind).settings
        is_held = settings.over(held) == held  # else a rule for everything goes first, and is told of itself
        if is_held and _is_about_attempts(settings) and not settings.persistent:
            yield from _stormy(storm_of(policy, ANY, kind=kind), f"any {kind}", f"defaults.{kind}")


def _rules(policy: Policy) -> Iterator[Finding]:
    for index, rule in enumerate(policy.rules):
        path = f"rules[{index}]"
        yield from _numbers(_held(policy, rule), rule.settings, f"{path}.settings")
        yield from _storm(policy, rule, path)
        if settings_document(rule.settings) == {} and rule.fallbacks is None and rule.models is None:
            yield Finding(level=Level.NOTE, path=path, code="says_nothing", message="has no settings; remove it")
    chains = (
        Fallbacks(f"rules[{index}]", rule.scope, rule.fallbacks)
        for index, rule in enumerate(policy.rules)
        if rule.fallbacks is not None
    )
    for path, name in pattern_cycles(chains).items():
        message = f"is a cycle for {name}; give {name} a rule with other fallbacks or none"
        yield _warning(f"{path}.fallbacks", "fallback_cycle", message)
    scopes = sorted(enumerate(policy.rules), key=lambda one: (repr(one[1].scope), one[0]))
    for (index, rule), (later, other) in pairwise(scopes):
        if rule.scope == other.scope:
            message = f"equals the scope of rules[{later}], which wins for settings of both"
            yield _warning(f"rules[{index}].scope", "shadowed", message)


def _quorum(policy: Policy) -> Iterator[Finding]:
    operations = [rule.operation for rule in policy.quorum]
    for index, rule in enumerate(policy.quorum):
        path = f"quorum[{index}]"
        if rule.operation in operations[index + 1 :]:
            yield _warning(f"{path}.operation", "shadowed", "is a duplicate; the last of the two wins")
        if rule.minimum_count < FEW_INSTANCES:
            message = f"lets {rule.minimum_count} instances trip all others; one bad host is not an outage"
            yield _warning(f"{path}.minimum_count", "small_quorum", message)
        if rule.share < SMALL_SHARE:
            message = f"lets {rule.share * 100:g} % of the instances trip the {100 - rule.share * 100:g} % that work"
            yield _warning(f"{path}.share", "small_quorum", message)
        if rule.hold_s < SHORT_HOLD_S:
            yield _warning(f"{path}.hold_s", "no_hold", "is short: a brief failure of all instances trips all")


def _terms(policy: Policy) -> Iterator[Finding]:
    for kind, terms in policy.escalation_terms.items():
        path, built_in = f"escalation_terms.{kind}", BUILT_IN_TERMS[kind]
        if terms.resolve_in_s > LONG_ANSWER_S:
            message = f"delays the default action by {terms.resolve_in_s / 3600:g} h"
            yield _warning(f"{path}.resolve_in_s", "late_default", message)
        if terms.default_action == ALLOW:
            message = "resumes a waiting run without an answer to its escalation"
            yield _warning(f"{path}.default_action", "silence_allows", message)
        if SEVERITIES.index(terms.severity) < SEVERITIES.index(built_in.severity):
            message = f"is below {built_in.severity}: notification rules from that severity do not fire"
            yield Finding(level=Level.NOTE, path=f"{path}.severity", code="quieter", message=message)


def _repeats(limits: GuardLimits) -> Iterator[Finding]:
    is_first = limits.repeats_before_warning < limits.repeats_before_stop
    if limits.repeat_action in (STOP, ASK) and not is_first:
        message = f"is not below repeats_before_stop ({limits.repeats_before_stop}): the warning never happens"
        yield Finding(level=Level.NOTE, path="guards.repeats_before_warning", code="never_warned", message=message)


def _held(policy: Policy, rule: PolicyRule) -> Settings:
    """The settings that hold in a rule's scope: where it says nothing, what stands behind it."""
    return rule.settings.over(policy.for_operation(_place(rule.scope, rule.scope.operation)).settings)


def _place(scope: Scope, operation: str) -> Place:
    return Place(
        service=scope.service, instance=scope.instance, group=scope.group, operation=operation, breaker=operation
    )


def _numbers(held: Settings, said: Settings, path: str) -> Iterator[Finding]:
    """What is odd about the numbers that hold together, told where one of them is said."""

    def says(*names: str) -> bool:
        return any(getattr(said, name) is not None for name in names)

    retries = max(held.max_retries or 0, held.max_retries_background or 0)
    if said.persistent:
        cap_h = (held.persistent_cap_s or 0.0) / 3600
        message = f"allows unlimited attempts for up to {cap_h:g} h; use it for unattended work only"
        yield _warning(f"{path}.persistent", "unbounded", message)
    if held.persistent and says("persistent_cap_s") and (held.persistent_cap_s or 0.0) > UNATTENDED_S:
        yield _warning(f"{path}.persistent_cap_s", "unbounded", "is longer than 6 h")
    if retries and not held.base_delay_s and says("base_delay_s", "max_retries", "max_retries_background"):
        yield _warning(
            f"{path}.base_delay_s", "no_delay", "is 0: retries follow at once, even on a service that is down"
        )
    if retries and not held.jitter and says("jitter"):
        yield _warning(f"{path}.jitter", "no_jitter", "is 0: all callers retry at the same moment")
    if (held.base_delay_s or 0.0) > (held.delay_cap_s or 0.0) and says("base_delay_s", "delay_cap_s"):
        yield _warning(f"{path}.base_delay_s", "above_cap", "is longer than delay_cap_s, which applies instead")
    waits_s = waiting_of(held)
    if waits_s > LONG_WAIT_S and says("max_retries", "base_delay_s", "delay_cap_s") and not held.persistent:
        message = f"lets a foreground call wait up to {waits_s:.0f} s for its retries"
        yield _warning(f"{path}.max_retries", "long_wait", message)
    for name in ("response_timeout_s", "first_token_timeout_s", "stall_timeout_s"):
        if (
            held.call_deadline_s
            and (getattr(held, name) or 0.0) > held.call_deadline_s
            and says(name, "call_deadline_s")
        ):
            yield _warning(f"{path}.{name}", "above_deadline", "is longer than call_deadline_s, which ends the attempt")
    yield from _breaker_numbers(held, says, path)


def _breaker_numbers(held: Settings, says: Any, path: str) -> Iterator[Finding]:
    limits = ("consecutive_failures", "failure_rate_threshold", "slow_call_rate_threshold")
    if not any(getattr(held, name) for name in limits) and says(*limits):
        message = "all limits are 0: the breaker never opens by itself"
        yield _warning(f"{path}.consecutive_failures", "never_opens", message)
    is_by_count = held.sliding_window_type == "count_based"
    least, size = held.minimum_number_of_calls or 1, held.sliding_window_size or 1
    is_said = says("minimum_number_of_calls", "sliding_window_size")
    if is_said and is_by_count and held.failure_rate_threshold and least > size:
        message = f"is more than the {size} calls of the window: no failure rate is computed"
        yield _warning(f"{path}.minimum_number_of_calls", "never_judged", message)
    if (held.wait_duration_in_open_s or 0.0) < 1.0 and says("wait_duration_in_open_s"):
        yield _warning(
            f"{path}.wait_duration_in_open_s", "no_rest", "is below 1 s: a service that is down has no time to recover"
        )


def _storm(policy: Policy, rule: PolicyRule, path: str) -> Iterator[Finding]:
    scope = rule.scope
    if (_is_about_attempts(rule.settings) or rule.fallbacks) and not rule.settings.persistent:
        parts = (("of service", scope.service), ("on instance", scope.instance), ("in group", scope.group))
        name = "any operation" if scope.operation == ANY else scope.operation
        words = " ".join([name, *(f"{what} {which}" for what, which in parts if which != ANY)])
        yield from _stormy(storm_of(policy, scope.operation, where=scope), words, path)


def _is_about_attempts(said: Settings) -> bool:
    return said.max_retries is not None or said.max_retries_background is not None


def _stormy(storm: Storm, name: str, path: str) -> Iterator[Finding]:
    worst = max(storm.attempts_foreground, storm.attempts_background)
    if worst > STORM_ATTEMPTS:
        message = (
            f"lets one call of {name} make {worst} attempts if all fail ({storm.capacity_attempts} while the "
            f"provider is overloaded), with {storm.waiting_s:.0f} s of waits"
        )
        yield _warning(path, "retry_storm", message)


def _warning(path: str, code: str, message: str) -> Finding:
    return Finding(level=Level.WARNING, path=path, code=code, message=message)


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names - _EXTRA_KEYS))
