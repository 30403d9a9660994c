"""What an instance really goes by beside what is desired of it: setting by setting, with why they differ."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from events.rows import AgentRow, SettingsRow
from recovery_ops.control.desired import Snapshot, Standards, who_is
from recovery_ops.rules.in_force import (
    FALLBACKS,
    MODELS,
    OPAMP,
    OVERRIDE,
    OVERRIDE_ID,
    SHED,
    Setting,
    Settings,
    is_same,
    listed,
    of_document,
    of_operation,
    of_process,
    order_of,
    within,
)
from recovery_ops.rules.intent import winning_override
from recovery_ops.rules.knobs import KNOBS
from recovery_ops.rules.masking import MASK
from recovery_ops.rules.policy import BUILT_IN_DEFAULTS, Policy, parse_policy
from recovery_ops.rules.scope import Place
from recovery_ops.rules.words import ApplyStatus
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
    runs: Setting | None
    desired: Setting | None
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
        return KNOBS[self.name].unit if self.name in KNOBS else ""


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
        return self.operation or "The whole process"

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
            said = f"It says that it obeys revision {agent.revision}" if agent.revision else "It obeys no revision"
            if not agent.is_follower:
                return "It only sends telemetry: it obeys no desired state, so there is nothing to compare."
            if self.is_opamp:
                return f"It is an OpAMP client that has not reported an effective configuration. {said}."
            return (
                f"It has not said which settings it runs: its library is older than this report, it is an OpenTelemetry"
                f" agent, or it ended within its first second. {said}."
            )
        equal = sum(part.equal for part in self.parts if not part.is_past)
        if not self.different:
            told = f"All {equal} settings that can be compared are as desired"
        else:
            told = f"{self.different} of {self.different + equal} settings are not as desired"
        if not self.revision:
            return f"{told}. Nobody has changed anything here yet: it goes by the built-in policy and its own code."
        return f"{told}. It obeys revision {agent.revision}, the newest is {self.revision}: {self.status}."


def in_force_of(
    agent: AgentRow, stated: Iterable[SettingsRow], snapshot: Snapshot, *, now: datetime, is_opamp: bool = False
) -> InForce:
    """Each setting an instance said it runs, against what `snapshot` desires of this instance."""
    rows = list(stated)
    live = snapshot.policy_for(who_is(agent))
    status = Standards(snapshot).status_of(agent, snapshot.revision)
    compare = _Comparison(agent, status, snapshot, parse_policy(live.document, version=live.version), now)
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


class _Comparison:
    """One instance against one state."""

    def __init__(self, agent: AgentRow, status: ApplyStatus, snapshot: Snapshot, policy: Policy, now: datetime) -> None:
        self._agent = agent
        self._status = status
        self._snapshot = snapshot
        self._policy = policy
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

    def _of_operation(self, row: SettingsRow) -> tuple[Settings, Mapping[str, str]]:
        agent, now_s = self._agent, self._now.timestamp()
        place = Place(
            service=agent.service,
            instance=agent.instance,
            group=agent.group,
            operation=row.operation,
            breaker=row.breaker or row.operation,
        )
        kind = row.kind or "operation"
        found = self._policy.for_operation(place, kind=kind)
        who = who_is(agent)
        speaking = [one for one in self._snapshot.overrides if not self._snapshot.lets_out(one.id, who)]
        held = winning_override(speaking, place, now_s)
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
        for name in KNOBS:
            rule = next((one for one in found.winning_rules if getattr(rules[one].knobs, name) is not None), "")
            is_default = defaults is not None and getattr(defaults, name) is not None
            is_built_in = defaults == BUILT_IN_DEFAULTS.get(kind)
            by[name] = (
                f"rule {rule}" if rule else f"defaults for {kind}" if is_default and not is_built_in else "built in"
            )
        for name in (FALLBACKS, MODELS):
            says = next((one for one in found.winning_rules if getattr(rules[one], name) is not None), "")
            by[name] = f"rule {says}" if says else ""
        by[OVERRIDE] = by[OVERRIDE_ID] = f"{held.by}: {held.reason}" if held is not None else ""
        return desired, by

    def _of_process(self, row: SettingsRow) -> tuple[Settings, Mapping[str, str]]:
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
        return "built in" if self._policy.version == "built-in" else f"policy {self._policy.version}"

    def _line(self, name: str, row: SettingsRow, desired: Setting | None, by: str, is_past: bool) -> Line:
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

    def _why(self, name: str, row: SettingsRow, runs: Setting | None, desired: Setting | None, by: str) -> Why:
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
    def _is_undeclared(runs: Setting, desired: Setting) -> bool:
        asked = str(desired).split(", ")
        return listed(name for name in asked if name in str(runs).split(", ")) == str(runs)

    def _sentence(self, why: Why, name: str, row: SettingsRow, runs: Setting | None, desired: Setting | None) -> str:
        agent, newest = self._agent, self._snapshot.revision
        if row.kind == OPAMP and why in (Why.OWN, Why.UNKNOWN_THERE):
            return _OF_OPAMP[why]
        if why is Why.CEILING:
            return f"A local ceiling of the process holds back {_shown(row.held[name])}; no document can widen it."
        if why is Why.NOT_DECLARED:
            return f"The agent’s code does not declare the others; a policy can leave {name} out, not add them."
        if why is Why.OWN:
            return "No rule of the policy says which; these are the code’s own."
        if why is Why.REFUSED:
            return f"It refused revision {agent.rejected_revision}: {agent.rejected_reason or 'no reason given'}"
        return {
            Why.SAME: "",
            Why.CODE: "The agent’s code says so. A rule of the policy for this operation would win over it.",
            Why.NOT_APPLIED: f"Not applied yet: it obeys revision {agent.revision}, the newest is {newest}.",
            Why.DRIFTED: f"It runs something else than revision {agent.revision} says."
            if agent.revision <= newest
            else f"It obeys revision {agent.revision}; here the newest is {newest}.",
            Why.UNREACHABLE: "It cannot be reached: this is what it said last.",
            Why.ON_ITS_WAY: f"Said at revision {row.revision}; it has applied {agent.revision} and says more soon.",
            Why.HIDDEN: "Its value looked like a secret and was hidden before it was stored.",
            Why.UNKNOWN_HERE: "This console does not know the setting: the agent’s library is newer.",
            Why.UNKNOWN_THERE: "The agent’s library does not know the setting: it is older than this console.",
        }.get(why, f"It obeys revision {agent.revision} and still runs otherwise: its library may read it differently.")


_OF_OPAMP = {
    Why.OWN: "The client’s own configuration: nothing is desired of it here.",
    Why.UNKNOWN_THERE: "The client’s effective configuration does not say.",
}
_PAST = "Said by a process that has ended; the one that runs now has not said it."


def _own_ceilings(limits: Mapping[str, Any]) -> Iterator[Line]:
    for name in sorted(limits):
        yield Line(
            name=f"ceiling.{name}",
            runs=_setting(limits[name]),
            desired=None,
            by="",
            why=Why.OWN,
            sentence="A local ceiling, set in the agent’s code: no document can widen it.",
        )


def _setting(given: object) -> Setting | None:
    return given if isinstance(given, bool | int | float | str) else None


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
