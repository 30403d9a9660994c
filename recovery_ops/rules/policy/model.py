"""Every setting an operator may turn, as one validated, immutable document; and what it means for one operation.

A policy document is JSON. `parse_policy` is the only way in, on both sides of the wire: what it refuses changes
nothing. Who wins for one operation: a rule of the live policy > the code > the policy's defaults > fail-closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any

from recovery_ops.rules.enums import Category, Importance
from recovery_ops.rules.incidents.detection import BOUNDS, OutageBounds, outage_bounds_document, parse_outage_bounds
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.playbook.verdicts import BUILT_IN_PLAYBOOK, Playbook, parse_playbook, playbook_document
from recovery_ops.rules.policy.classification_rules import (
    ClassificationRule,
    classification_document,
    parse_classification,
)
from recovery_ops.rules.policy.escalation_rules import (
    BUILT_IN_ESCALATIONS,
    Asking,
    escalations_document,
    parse_escalations,
)
from recovery_ops.rules.policy.escalation_terms import BUILT_IN_TERMS, Terms, parse_terms, terms_document
from recovery_ops.rules.policy.failure_effects import BUILT_IN_EFFECTS, Effects, effects_document, parse_effects
from recovery_ops.rules.policy.fallback_cycles import Fallbacks, cycles
from recovery_ops.rules.policy.fleet_settings import (
    NO_RAMP_SAID,
    NOTHING_STUCK_SAID,
    QuorumRule,
    RampBounds,
    StuckBounds,
    bounds_document,
    parse_quorum,
    parse_ramp,
    parse_stuck,
    quorum_document,
)
from recovery_ops.rules.policy.load_shedding import importance_of, is_shed, parse_importance, stricter
from recovery_ops.rules.policy.masking_rules import NOTHING_MORE, Masking, masking_document, parse_masking
from recovery_ops.rules.policy.retry_table import BUILT_IN_RETRY_TABLE, Again, RetryRow, parse_table, row_document
from recovery_ops.rules.policy.scope import ANY, Place, Scope
from recovery_ops.rules.policy.scope_documents import parse_names, parse_rule_names, parse_scope
from recovery_ops.rules.policy.settings import SETTINGS, Problem, checked_settings
from recovery_ops.rules.policy.spend_settings import NO_CAPS, SpendCaps, caps_document, parse_caps
from recovery_ops.rules.run_limits import DEFAULT_LIMITS, LATER_GUARDS, GuardLimits, guards_document, parse_guards
from recovery_ops.rules.tools.policy_limits import ToolRule, parse_tool_rules, tool_rules_document

SCHEMA_VERSION = 1


class PolicyInvalid(Exception):
    """A document that is not a policy; `problems` names each fault with the path to it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{problem.path}: {problem.message}" for problem in self.problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of one operation. None: the policy or the default of the `kind` applies.

    Names end in their unit: `_s` is seconds, `_rate` and `_threshold` of a rate a share from 0 to 1. The live policy of
    the console overrides them. ConfigurationError from the guard for a value out of bounds. Rules:
    docs/guide/guard-options.md#defaults

    >>> @recovery.guard("charge", settings=Settings(consecutive_failures=3, wait_duration_in_open_s=30.0))
    ... def charge(order):
    ...     return f"charged {order}"
    >>> charge(7)
    'charged 7'
    """

    max_retries: int | None = None
    max_retries_background: int | None = None
    base_delay_s: float | None = None
    backoff_factor: float | None = None
    delay_cap_s: float | None = None
    jitter: float | None = None
    retry_capacity_errors: bool | None = None
    persistent: bool | None = None
    persistent_cap_s: float | None = None
    wait_chunk_s: float | None = None
    max_wait_before_fallback_s: float | None = None
    quota_rest_s: float | None = None
    retry_ratio: float | None = None
    min_retries_per_s: float | None = None
    call_deadline_s: float | None = None
    response_timeout_s: float | None = None
    first_token_timeout_s: float | None = None
    stall_timeout_s: float | None = None
    fallback_allowed: bool | None = None
    stop_on_exhausted: bool | None = None
    failure_rate_threshold: float | None = None
    sliding_window_type: str | None = None
    sliding_window_size: int | None = None
    minimum_number_of_calls: int | None = None
    consecutive_failures: int | None = None
    consecutive_failures_with_fallback: int | None = None
    slow_call_rate_threshold: float | None = None
    slow_call_duration_s: float | None = None
    wait_duration_in_open_s: float | None = None
    permitted_calls_in_half_open: int | None = None
    max_wait_in_half_open_s: float | None = None
    model_fallback_after: int | None = None
    model_cooldown_s: float | None = None
    overflow_floor_tokens: int | None = None
    overflow_margin_tokens: int | None = None
    retry_budget: float | None = None
    least_importance: str | None = None

    def over(self, other: Settings) -> Settings:
        """These settings where they say something, the other's where they do not."""
        said = {name: value for name in SETTINGS if (value := getattr(self, name)) is not None}
        return replace(other, **said)


FAIL_CLOSED = Settings(
    max_retries=0,
    max_retries_background=0,
    base_delay_s=0.5,
    backoff_factor=2.0,
    delay_cap_s=32.0,
    jitter=0.25,
    retry_capacity_errors=False,
    persistent=False,
    persistent_cap_s=21_600.0,
    wait_chunk_s=30.0,
    max_wait_before_fallback_s=10.0,
    quota_rest_s=900.0,
    retry_ratio=0.2,
    min_retries_per_s=10.0,
    call_deadline_s=0.0,
    response_timeout_s=0.0,
    first_token_timeout_s=0.0,
    stall_timeout_s=0.0,
    fallback_allowed=True,
    stop_on_exhausted=False,
    failure_rate_threshold=0.5,
    sliding_window_type="count_based",
    sliding_window_size=20,
    minimum_number_of_calls=10,
    consecutive_failures=5,
    consecutive_failures_with_fallback=4,
    slow_call_rate_threshold=0.0,
    slow_call_duration_s=60.0,
    wait_duration_in_open_s=60.0,
    permitted_calls_in_half_open=1,
    max_wait_in_half_open_s=10.0,
    model_fallback_after=3,
    model_cooldown_s=60.0,
    overflow_floor_tokens=3000,
    overflow_margin_tokens=0,
    retry_budget=0.1,
    least_importance="sheddable",
)
"""What holds where nobody said anything. 0 switches a limit, a rate or a deadline off."""

BUILT_IN_DEFAULTS: dict[str, Settings] = {
    "operation": Settings(max_retries=3, max_retries_background=3, retry_capacity_errors=True),
    "model": Settings(
        max_retries=2,
        max_retries_background=3,
        retry_capacity_errors=True,
        call_deadline_s=120.0,
        consecutive_failures_with_fallback=3,
        response_timeout_s=30.0,
        first_token_timeout_s=12.0,
        stall_timeout_s=15.0,
    ),
    "tool": Settings(max_retries=3, max_retries_background=3, retry_capacity_errors=True, call_deadline_s=10.0),
    "document": Settings(max_retries=3, max_retries_background=3, retry_capacity_errors=True, call_deadline_s=60.0),
    "sandbox": Settings(max_retries=3, max_retries_background=3, retry_capacity_errors=True, call_deadline_s=120.0),
    "undeclared": Settings(),
}
"""The built-in policy by kind of operation; an operation that nobody declared retries nothing."""

BUILT_IN_FOREGROUND: tuple[str, ...] = ("main_agent", "user_request", "coordinator_task")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """Settings for a part of the environment; `id` names the rule on screens and in events."""

    id: str
    scope: Scope
    settings: Settings
    fallbacks: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPolicy:
    """What the ladder obeys for one operation: every setting has a value."""

    settings: Settings = FAIL_CLOSED
    retry_table: tuple[RetryRow, ...] = BUILT_IN_RETRY_TABLE
    foreground_sources: tuple[str, ...] = BUILT_IN_FOREGROUND
    fallbacks: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None
    """Which models are asked after the first of a chain, in order; None: as the code says."""
    failures: Effects = BUILT_IN_EFFECTS
    escalations: Mapping[Category, Asking] = field(default_factory=lambda: BUILT_IN_ESCALATIONS)
    spend_caps: SpendCaps = NO_CAPS
    importance: Mapping[str, Importance] = field(default_factory=dict)
    version: str = "built-in"
    winning_rules: tuple[str, ...] = ()

    def is_foreground(self, source: str) -> bool:
        """A source that is not listed, or not given, is background."""
        return source in self.foreground_sources

    def sheds(self, source: str, imposed: str | None = None) -> bool:
        """Whether the work of this source is shed here: by the policy, or by an operator who lets `imposed` pass."""
        if imposed is None and self.settings.least_importance == FAIL_CLOSED.least_importance:
            return False  # asked before every attempt, and nearly always so
        least = stricter(self.settings.least_importance, imposed)
        if least == FAIL_CLOSED.least_importance:
            return False
        return is_shed(importance_of(self.importance, source, is_foreground=self.is_foreground(source)), least)

    def max_retries(self, *, is_foreground: bool) -> int:
        """How many retries (not attempts) this partition may make."""
        settings = self.settings
        return (settings.max_retries if is_foreground else settings.max_retries_background) or 0

    def again(self, category: Category, status_code: int | None, *, is_foreground: bool) -> Again:
        """What the table says of a failure in this partition."""
        best = self.retry_row(category, status_code)
        if best is None:
            return Again.NEVER
        return best.foreground if is_foreground else best.background

    def retry_row(self, category: Category, status_code: int | None) -> RetryRow | None:
        """The row of the table that decides about a failure; None where none speaks of it."""
        best: RetryRow | None = None
        for row in self.retry_table:
            is_about_it = row.category is category and row.status_code in (None, status_code)
            if is_about_it and (best is None or row.status_code is not None):
                best = row
        return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A whole policy document, checked."""

    version: str = "built-in"
    foreground_sources: tuple[str, ...] = BUILT_IN_FOREGROUND
    retry_table: tuple[RetryRow, ...] = BUILT_IN_RETRY_TABLE
    defaults: Mapping[str, Settings] = field(default_factory=lambda: dict(BUILT_IN_DEFAULTS))
    rules: tuple[PolicyRule, ...] = ()
    guards: GuardLimits = DEFAULT_LIMITS
    spend_caps: SpendCaps = NO_CAPS
    playbook: Playbook = BUILT_IN_PLAYBOOK
    tools: tuple[ToolRule, ...] = ()
    escalations: Mapping[Category, Asking] = field(default_factory=lambda: dict(BUILT_IN_ESCALATIONS))
    escalation_terms: Mapping[str, Terms] = field(default_factory=lambda: dict(BUILT_IN_TERMS))
    importance: Mapping[str, Importance] = field(default_factory=dict)
    capacity_events: OutageBounds = BOUNDS
    reset_ramp: RampBounds = NO_RAMP_SAID
    stuck_breakers: StuckBounds = NOTHING_STUCK_SAID
    quorum: tuple[QuorumRule, ...] = ()
    classification: tuple[ClassificationRule, ...] = ()
    masking: Masking = NOTHING_MORE
    failures: Effects = BUILT_IN_EFFECTS

    def for_operation(
        self,
        place: Place,
        *,
        kind: str = "operation",
        code: Settings | None = None,
        sharing: Sequence[Place] = (),
    ) -> OperationPolicy:
        """What holds at one place.

        `kind` is a key of `BUILT_IN_DEFAULTS`; `code` is what the developer said at the guard. Of several rules the
        more specific scope wins for each setting, at equal scope the later rule. `sharing` are further places
        whose rules hold too.
        """
        settings = self.defaults.get(kind, Settings()).over(BUILT_IN_DEFAULTS.get(kind, Settings())).over(FAIL_CLOSED)
        if code is not None:
            settings = code.over(settings)
        fallbacks: tuple[str, ...] | None = None
        models: tuple[str, ...] | None = None
        winning = []
        places = (place, *sharing)
        holding = (rule for rule in self.rules if rule.scope.holds_any(places))
        for rule in sorted(holding, key=lambda rule: rule.scope.rank):
            settings = rule.settings.over(settings)
            fallbacks = rule.fallbacks if rule.fallbacks is not None else fallbacks
            models = rule.models if rule.models is not None else models
            winning.append(rule.id)
        return OperationPolicy(
            settings=settings,
            retry_table=self.retry_table,
            foreground_sources=self.foreground_sources,
            fallbacks=fallbacks,
            models=models,
            failures=self.failures,
            escalations=self.escalations,
            spend_caps=self.spend_caps,
            importance=self.importance,
            version=self.version,
            winning_rules=tuple(reversed(winning)),
        )


BUILT_IN = Policy()


def parse_policy(document: object, *, version: str = "") -> Policy:
    """The policy a JSON document states.

    Raises PolicyInvalid with every problem found. Keys that are not known are ignored, so that an older agent can
    obey what it knows of a newer document; a feature that must not be ignored is listed in `requires`.
    """
    problems: list[Problem] = []
    if not isinstance(document, Mapping):
        raise PolicyInvalid([Problem("", "a policy is a JSON object")])
    _check_version(document, problems)
    sources = parse_names(document.get("foreground_sources", list(BUILT_IN_FOREGROUND)), "foreground_sources", problems)
    table = parse_table(document.get("retry_table"), "retry_table", problems)
    defaults = _defaults(document.get("defaults", {}), problems)
    rules = _rules(document.get("rules", []), problems)
    guards = parse_guards(document.get("guards"), "guards", problems)
    spend_caps = parse_caps(document.get("spend_caps"), "spend_caps", problems)
    playbook = parse_playbook(document.get("playbook"), "playbook", problems)
    tools = parse_tool_rules(document.get("tools"), "tools", problems)
    escalations = parse_escalations(document.get("escalations"), "escalations", problems)
    escalation_terms = parse_terms(document.get("escalation_terms"), "escalation_terms", problems)
    importance = parse_importance(document.get("importance"), "importance", problems)
    capacity_events = parse_outage_bounds(document.get("capacity_events"), "capacity_events", problems)
    reset_ramp = parse_ramp(document.get("reset_ramp"), "reset_ramp", problems)
    stuck_breakers = parse_stuck(document.get("stuck_breakers"), "stuck_breakers", problems)
    quorum = parse_quorum(document.get("quorum"), "quorum", problems)
    classification = parse_classification(document.get("classification"), "classification", problems)
    masking = parse_masking(document.get("masking"), "masking", problems)
    failures = parse_effects(document.get("failures"), "failures", problems)
    if problems:
        raise PolicyInvalid(problems)
    return Policy(
        version=version or str(document.get("version", "")),
        foreground_sources=sources,
        retry_table=table,
        defaults=defaults,
        rules=rules,
        guards=guards,
        spend_caps=spend_caps,
        playbook=playbook,
        tools=tools,
        escalations=escalations,
        escalation_terms=escalation_terms,
        importance=importance,
        capacity_events=capacity_events,
        reset_ramp=reset_ramp,
        stuck_breakers=stuck_breakers,
        quorum=quorum,
        classification=classification,
        masking=masking,
        failures=failures,
    )


def document_of(policy: Policy) -> dict[str, Any]:
    """The JSON document that `parse_policy` reads back as the same policy.

    What came later stands in it only where it is not as built in: what agents are told of the built-in policy, and its
    hash, stay as they were before there was that section.
    """
    whole = whole_document_of(policy)
    if policy.escalation_terms == BUILT_IN_TERMS:
        del whole["escalation_terms"]
    if policy.spend_caps == NO_CAPS:
        del whole["spend_caps"]
    if not policy.masking:
        del whole["masking"]
    if policy.failures == BUILT_IN_EFFECTS:
        del whole["failures"]
    for name in LATER_GUARDS:
        if getattr(policy.guards, name) == getattr(DEFAULT_LIMITS, name):
            del whole["guards"][name]
    return whole


def whole_document_of(policy: Policy) -> dict[str, Any]:
    """As `document_of`, with every section written out: for reading and comparing."""
    return {
        "schema_version": SCHEMA_VERSION,
        "foreground_sources": list(policy.foreground_sources),
        "retry_table": [row_document(row) for row in policy.retry_table],
        "defaults": {kind: settings_document(settings) for kind, settings in policy.defaults.items()},
        "rules": [_rule_document(rule) for rule in policy.rules],
        "guards": guards_document(policy.guards),
        "spend_caps": caps_document(policy.spend_caps),
        "playbook": playbook_document(policy.playbook),
        "tools": tool_rules_document(policy.tools),
        "escalations": escalations_document(policy.escalations),
        "escalation_terms": terms_document(policy.escalation_terms),
        "importance": {source: one.value for source, one in policy.importance.items()},
        "capacity_events": outage_bounds_document(policy.capacity_events),
        "reset_ramp": bounds_document(policy.reset_ramp),
        "stuck_breakers": bounds_document(policy.stuck_breakers),
        "quorum": quorum_document(policy.quorum),
        "classification": classification_document(policy.classification),
        "masking": masking_document(policy.masking),
        "failures": effects_document(policy.failures),
    }


def settings_document(settings: Settings) -> dict[str, Any]:
    """The settings that say something, by name."""
    return {name: value for name in SETTINGS if (value := getattr(settings, name)) is not None}


def _rule_document(rule: PolicyRule) -> dict[str, Any]:
    scope = {part.name: value for part in fields(Scope) if (value := getattr(rule.scope, part.name)) != ANY}
    found: dict[str, Any] = {"id": rule.id, "scope": scope, "settings": settings_document(rule.settings)}
    if rule.fallbacks is not None:
        found["fallbacks"] = list(rule.fallbacks)
    if rule.models is not None:
        found["models"] = list(rule.models)
    return found


def _check_version(document: Mapping[str, object], problems: list[Problem]) -> None:
    schema = document.get("schema_version", SCHEMA_VERSION)
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        problems.append(Problem("schema_version", "must be a whole number from 1"))
    needed = document.get("requires", [])
    if not isinstance(needed, list):
        problems.append(Problem("requires", "must be a list of feature names"))
    elif needed:
        problems.append(Problem("requires", f"asks for what this version does not know: {', '.join(map(str, needed))}"))


def _settings(given: object, path: str, problems: list[Problem]) -> Settings:
    values, found = checked_settings(given, path)
    problems.extend(found)
    return Settings(**values)  # type: ignore[arg-type]  # checked_settings has looked at each value


def _defaults(given: object, problems: list[Problem]) -> dict[str, Settings]:
    defaults = dict(BUILT_IN_DEFAULTS)
    if not isinstance(given, Mapping):
        problems.append(Problem("defaults", "must be an object of kinds of operation"))
        return defaults
    for kind, settings in given.items():
        parsed = _settings(settings, f"defaults.{kind}", problems)
        defaults[str(kind)] = parsed.over(BUILT_IN_DEFAULTS.get(str(kind), Settings()))
    return defaults


def _rules(given: object, problems: list[Problem]) -> tuple[PolicyRule, ...]:
    if not isinstance(given, list):
        problems.append(Problem("rules", "must be a list"))
        return ()
    rules: dict[str, PolicyRule] = {}
    for index, rule in enumerate(given):
        path = f"rules[{index}]"
        if not isinstance(rule, Mapping):
            problems.append(Problem(path, "must be an object with scope and settings"))
            continue
        rule_id = rule.get("id") or f"rule-{index + 1}"
        scope = parse_scope(rule.get("scope", {}), f"{path}.scope", problems)
        settings = _settings(rule.get("settings", {}), f"{path}.settings", problems)
        fallbacks, models = (parse_rule_names(rule, path, name, problems) for name in ("fallbacks", "models"))
        if any(other.id == rule_id for other in rules.values()):
            problems.append(Problem(f"{path}.id", f"{rule_id} is used twice"))
        rules[path] = PolicyRule(id=str(rule_id), scope=scope, settings=settings, fallbacks=fallbacks, models=models)
    chains = (Fallbacks(path, rule.scope, rule.fallbacks) for path, rule in rules.items() if rule.fallbacks is not None)
    problems.extend(Problem(f"{path}.fallbacks", "leads back to itself") for path in cycles(chains))
    return tuple(rules.values())
