"""What an instance really goes by beside what is desired of it: setting by setting, with why they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from events.rows import AgentRow, SettingsRow
from recovery_ops.control.desired_state.document import Snapshot, Standards, who_is
from recovery_ops.rules.classification.redaction import MASK
from recovery_ops.rules.desired_state import winning_override
from recovery_ops.rules.enums import ApplyStatus
from recovery_ops.rules.policy.effective_settings import (
    FALLBACKS,
    MODELS,
    OPAMP,
    OVERRIDE,
    OVERRIDE_ID,
    SHED,
    EffectiveValues,
    SettingValue,
    is_same,
    listed,
    of_document,
    of_operation,
    of_process,
    order_of,
    within,
)
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS, Policy, parse_policy
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.policy.settings import SETTINGS
from recovery_ops.wire import parse_desired

START_SLACK = timedelta(seconds=5)
"""So much the moments of a start and of a first report may differ."""


class Why(StrEnum):
    """Why a setting is as it is, against the desired one."""

    SAME = "same"
    CODE = "code"
    CEILING = "ceiling"
    NOT_DECLARED = "not_declared"
    NOT_APPLIED = "not_applied"
    REFUSED = "refused"
    DRIFTED = "drifted"
    UNREACHABLE = "unreachable"
    ON_ITS_WAY = "on_its_way"
    OWN = "own"
    HIDDEN = "hidden"
    UNKNOWN_HERE = "unknown_here"
    UNKNOWN_THERE = "unknown_there"
    UNEXPLAINED = "unexplained"


UNCOMPARED = frozenset({Why.OWN, Why.HIDDEN, Why.UNKNOWN_HERE, Why.UNKNOWN_THERE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One setting. `runs` and `desired` are None where nobody says; `by`: who says what is desired."""

    name: str
    runs: SettingValue | None
    desired: SettingValue | None
    by: str
    why: Why
    sentence: str

    @property
    def is_different(self) -> bool:
        """Whether it is known to be otherwise than desired."""
        return self.why is not Why.SAME and self.why not in UNCOMPARED

    @property
    def word(self) -> str:
        """`equal`, `different` or `not compared`."""
        if self.why is Why.SAME:
            return "equal"
        return "different" if self.is_different else "not compared"

    @property
    def unit(self) -> str:
        """Of a number, its unit."""
        return SETTINGS[self.name].unit if self.name in SETTINGS else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One operation, or the whole process where `operation` is empty. `is_past`: said by a process that has ended."""

    operation: str
    kind: str
    breaker: str
    told_at: datetime
    revision: int
    is_past: bool
    lines: Sequence[Line]

    @property
    def title(self) -> str:
        """What it is called on a page."""
        return self.operation or "Process"

    @property
    def different(self) -> list[Line]:
        """What is otherwise than desired now."""
        return [] if self.is_past else [line for line in self.lines if line.is_different]

    @property
    def uncompared(self) -> int:
        """How many settings only one side knows."""
        return sum(line.why in UNCOMPARED for line in self.lines)

    @property
    def equal(self) -> int:
        """How many are as desired."""
        return sum(line.why is Why.SAME for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """Everything an instance said of itself; no parts where it has said nothing."""

    agent: AgentRow
    status: ApplyStatus
    revision: int
    policy: str
    parts: Sequence[Part]
    untold: int
    """Operations that it has beyond those it told of."""
    is_opamp: bool = False
    """Whether it is heard by OpAMP, and tells what it runs as its effective configuration."""

    @property
    def different(self) -> int:
        """How many settings are otherwise than desired."""
        return sum(len(part.different) for part in self.parts)

    @property
    def sentence(self) -> str:
        """How it stands, in a sentence or two."""
        agent = self.agent
        if not self.parts:
            said = f"Reported revision: {agent.revision}" if agent.revision else "No revision applied"
            if not agent.is_follower:
                return "The instance sends telemetry only and applies no desired state. There is nothing to compare."
            if self.is_opamp:
                return f"This OpAMP client has not reported an effective configuration. {said}."
            return (
                f"The instance has not reported its settings. Its library is too old, it is an OpenTelemetry agent, or"
                f" it ended within its first second. {said}."
            )
        equal = sum(part.equal for part in self.parts if not part.is_past)
        if not self.different:
            told = f"All {equal} compared settings are as desired"
        else:
            told = f"{self.different} of {self.different + equal} compared settings differ from the desired state"
        if not self.revision:
            return f"{told}. No revision exists yet: the default policy and the agent’s code apply."
        return f"{told}. Revision {agent.revision} of {self.revision}: {self.status}."


def in_force_of(
    agent: AgentRow, stated: Iterable[SettingsRow], snapshot: Snapshot, *, now: datetime, is_opamp: bool = False
) -> InForce:
    """Each setting an instance said it runs, against what `snapshot` desires of this instance."""
    rows = list(stated)
    live = snapshot.policy_for(who_is(agent))
    status = Standards(snapshot).status_of(agent, snapshot.revision)
    policy = parse_policy(live.document, version=live.version)
    compare = _Comparison(agent, status, snapshot, policy, _places_by_breaker(agent, rows), now)
    parts = [compare.part(row) for row in rows]
    parts.sort(key=lambda part: (part.is_past, part.operation))
    count = next((row.count for row in rows if not row.operation), 0)
    told = sum(bool(part.operation) and not part.is_past for part in parts)
    return InForce(
        agent=agent,
        status=status,
        revision=snapshot.revision,
        policy=live.name,
        parts=parts,
        untold=max(0, count - told),
        is_opamp=is_opamp,
    )


def _places_by_breaker(agent: AgentRow, rows: Iterable[SettingsRow]) -> dict[str, list[Place]]:
    """The operations behind each breaker of an instance: an override of one of them rules them all."""
    found: dict[str, list[Place]] = {}
    for row in rows:
        if row.operation:
            found.setdefault(row.breaker or row.operation, []).append(_place_of(agent, row))
    return found


def _place_of(agent: AgentRow, row: SettingsRow) -> Place:
    return Place(
        service=agent.service,
        instance=agent.instance,
        group=agent.group,
        operation=row.operation,
        breaker=row.breaker or row.operation,
    )


class _Comparison:
    """One instance against one state."""

    def __init__(
        self,
        agent: AgentRow,
        status: ApplyStatus,
        snapshot: Snapshot,
        policy: Policy,
        places: Mapping[str, Sequence[Place]],
        now: datetime,
    ) -> None:
        self._agent = agent
        self._status = status
        self._snapshot = snapshot
        self._policy = policy
        self._places = places
        self._now = now
        age_s = agent.heartbeat_age_s
        self._began = None if age_s is None else now - timedelta(seconds=age_s + agent.uptime_s) - START_SLACK

    def part(self, row: SettingsRow) -> Part:
        """One report, compared."""
        is_past = self._began is not None and row.at < self._began
        desired, by = self._of_operation(row) if row.operation else self._of_process(row)
        names = sorted({*row.settings, *desired}, key=order_of) if row.operation else [*desired]
        names += [name for name in row.settings if name not in names]
        lines = [self._line(name, row, desired.get(name), by.get(name, ""), is_past) for name in names]
        if not row.operation:
            lines += _own_ceilings(row.in_code)
        return Part(
            operation=row.operation,
            kind=row.kind,
            breaker=row.breaker,
            told_at=row.at,
            revision=row.revision,
            is_past=is_past,
            lines=lines,
        )

    def _of_operation(self, row: SettingsRow) -> tuple[EffectiveValues, Mapping[str, str]]:
        agent, now_s = self._agent, self._now.timestamp()
        place = _place_of(agent, row)
        kind = row.kind or "operation"
        found = self._policy.for_operation(place, kind=kind)
        who = who_is(agent)
        speaking = [one for one in self._snapshot.overrides if not self._snapshot.lets_out(one.id, who)]
        held = winning_override(speaking, self._places[place.breaker], now_s)
        desired = of_operation(
            found,
            fallbacks=found.fallbacks,
            models=found.models,
            mode=held.mode if held is not None else None,
            override_id=held.id if held is not None else "",
        )
        rules = {rule.id: rule for rule in self._policy.rules}
        defaults = self._policy.defaults.get(kind)
        by: dict[str, str] = {}
        for name in SETTINGS:
            rule = next((one for one in found.winning_rules if getattr(rules[one].settings, name) is not None), "")
            is_default = defaults is not None and getattr(defaults, name) is not None
            is_built_in = defaults == BUILT_IN_DEFAULTS.get(kind)
            by[name] = (
                f"rule {rule}"
                if rule
                else f"defaults for {kind}"
                if is_default and not is_built_in
                else "default policy"
            )
        for name in (FALLBACKS, MODELS):
            says = next((one for one in found.winning_rules if getattr(rules[one], name) is not None), "")
            by[name] = f"rule {says}" if says else ""
        by[OVERRIDE] = by[OVERRIDE_ID] = f"{held.by}: {held.reason}" if held is not None else ""
        return desired, by

    def _of_process(self, row: SettingsRow) -> tuple[EffectiveValues, Mapping[str, str]]:
        if row.kind == OPAMP:
            reach = self._snapshot.reach(who_is(self._agent))
            desired = of_document(parse_desired(self._snapshot.document(reach, issued_at=self._now.timestamp())))
            return within(desired), dict.fromkeys(desired, self._policy_name)
        shed = self._snapshot.shed_at(self._now.timestamp())
        desired = of_process(self._policy, shed=shed.least if shed is not None else None)
        by = dict.fromkeys(desired, self._policy_name)
        by[SHED] = f"{shed.by}: {shed.reason}" if shed is not None else ""
        return desired, by

    @property
    def _policy_name(self) -> str:
        return "default policy" if self._policy.version == "built-in" else f"policy {self._policy.version}"

    def _line(self, name: str, row: SettingsRow, desired: SettingValue | None, by: str, is_past: bool) -> Line:
        runs = _setting(row.settings.get(name))
        why = Why.SAME if runs is not None and is_same(runs, desired) else self._why(name, row, runs, desired, by)
        return Line(
            name=name,
            runs=runs,
            desired=desired,
            by=by,
            why=why,
            sentence=_PAST if is_past else self._sentence(why, name, row, runs, desired),
        )

    def _why(
        self, name: str, row: SettingsRow, runs: SettingValue | None, desired: SettingValue | None, by: str
    ) -> Why:
        if runs is None:
            return Why.UNKNOWN_THERE
        if isinstance(runs, str) and MASK in runs:
            return Why.HIDDEN
        if name in row.held:
            return Why.CEILING
        if desired is None:
            return Why.OWN if row.kind == OPAMP or name in (FALLBACKS, MODELS) else Why.UNKNOWN_HERE
        if not by.startswith("rule ") and name in row.in_code and is_same(row.in_code[name], runs):
            return Why.CODE
        if name in (FALLBACKS, MODELS) and self._is_undeclared(runs, desired):
            return Why.NOT_DECLARED
        return self._why_late(row)

    def _why_late(self, row: SettingsRow) -> Why:
        late = {
            ApplyStatus.PENDING: Why.NOT_APPLIED,
            ApplyStatus.FAILED: Why.REFUSED,
            ApplyStatus.DRIFTED: Why.DRIFTED,
            ApplyStatus.UNREACHABLE: Why.UNREACHABLE,
        }.get(self._status)
        if late is not None:
            return late
        return Why.ON_ITS_WAY if row.revision < self._agent.revision else Why.UNEXPLAINED

    @staticmethod
    def _is_undeclared(runs: SettingValue, desired: SettingValue) -> bool:
        asked = str(desired).split(", ")
        return listed(name for name in asked if name in str(runs).split(", ")) == str(runs)

    def _sentence(
        self, why: Why, name: str, row: SettingsRow, runs: SettingValue | None, desired: SettingValue | None
    ) -> str:
        agent, newest = self._agent, self._snapshot.revision
        if row.kind == OPAMP and why in (Why.OWN, Why.UNKNOWN_THERE):
            return _OF_OPAMP[why]
        if why is Why.CEILING:
            return f"A local limit of the process rejects {_shown(row.held[name])}; no policy can raise the limit."
        if why is Why.NOT_DECLARED:
            return f"The agent’s code does not declare the others; a policy can remove {name}, not add them."
        if why is Why.OWN:
            return "No rule of the policy sets them; they come from the agent’s code."
        if why is Why.REFUSED:
            return f"Revision {agent.rejected_revision} rejected: {agent.rejected_reason or 'no reason given'}"
        return {
            Why.SAME: "",
            Why.CODE: "Set in the agent’s code. A policy rule for this operation would override it.",
            Why.NOT_APPLIED: f"Not applied yet: on revision {agent.revision}, newest {newest}.",
            Why.DRIFTED: f"The value differs from revision {agent.revision}, which the instance reports."
            if agent.revision <= newest
            else f"On revision {agent.revision}, later than the server’s newest {newest}.",
            Why.UNREACHABLE: "Unreachable; this is the last reported value.",
            Why.ON_ITS_WAY: f"Reported at revision {row.revision}; {agent.revision} is applied, its report follows.",
            Why.HIDDEN: "The value looked like a secret and was masked before storage.",
            Why.UNKNOWN_HERE: "Unknown to this server; the agent’s library is newer.",
            Why.UNKNOWN_THERE: "Unknown to the agent; its library is older than this server.",
        }.get(why, f"Revision {agent.revision} is applied, but the value differs. The library may read it differently.")


_OF_OPAMP = {
    Why.OWN: "The client’s own configuration; the server sets no value.",
    Why.UNKNOWN_THERE: "The client’s effective configuration has no value.",
}
_PAST = "Reported by an earlier process; the current one has not reported it."


def _own_ceilings(limits: Mapping[str, Any]) -> Iterator[Line]:
    for name in sorted(limits):
        yield Line(
            name=f"ceiling.{name}",
            runs=_setting(limits[name]),
            desired=None,
            by="",
            why=Why.OWN,
            sentence="A local limit, set in the agent’s code; no policy can raise it.",
        )


def _setting(given: object) -> SettingValue | None:
    return given if isinstance(given, bool | int | float | str) else None


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
