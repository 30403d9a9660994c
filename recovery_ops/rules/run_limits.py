"""The guards of one run: what it may spend on failures, turns and refusals before somebody else must decide.

They count in code, never in the model's context, and die with the run. Each count answers with a `Ruling`: the events
to record and what must happen. Not thread-safe: whoever holds a `RunGuards` holds a lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from enum import StrEnum
from typing import Any

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import BudgetExhausted, BudgetWarned, Escalated, Event, GuardTripped, PermissionDenied
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.escalation_rules import Asking
from recovery_ops.rules.policy.settings import Problem, Setting, fault_of, normal_of
from recovery_ops.rules.repeated_calls import Mark, RepeatedCalls

ERRORS = "errors"
"""The name of the error budget in events."""

TOOL_FAILURES = "tool_failures"
TURNS = "turns"
DENIALS = "permission_denials"
COMPACTION = "compaction_failures"
REPEATED_CALLS = "repeated_calls"
STOP, ASK, WARN, OFF = "stop", "ask", "warn", "off"
"""What follows on repeated calls: the run ends, a person is asked, the model is warned, or they are not counted."""

LONGEST_OUTSIDE = 300
"""How many characters of a foreign message the model may see at most; a policy may only cut shorter."""
LATER_GUARDS = (*("input_share", "outside_chars", "repeats_before_warning", "repeats_before_stop", "repeat_action"),)
"""Limits that documents of before do not have."""

_MOST = 10_000
_WEEK_S = 604_800.0

GUARD_SETTINGS: dict[str, Setting] = {
    "tool_failures": Setting(
        kind="whole", minimum=1, maximum=_MOST, brief="Consecutive failures of one tool that block it"
    ),
    "errors_before_warning": Setting(
        kind="whole", minimum=1, maximum=_MOST, brief="Consecutive failures after which the model must change approach"
    ),
    "errors_before_abort": Setting(kind="whole", minimum=1, maximum=_MOST, brief="Total failures that end the run"),
    "turns": Setting(kind="whole", minimum=1, maximum=_MOST, brief="Turns of the model in one run"),
    "denials_in_a_row": Setting(
        kind="whole", minimum=1, maximum=_MOST, brief="Consecutive denied permissions that cause an escalation"
    ),
    "denials_in_all": Setting(
        kind="whole", minimum=1, maximum=_MOST, brief="Total denied permissions that cause an escalation"
    ),
    "compaction_failures": Setting(
        kind="whole", minimum=1, maximum=_MOST, brief="Consecutive failed compactions that disable compaction"
    ),
    "run_deadline_s": Setting(kind="number", minimum=1, maximum=_WEEK_S, unit="s", brief="Deadline of a run"),
    "step_floor_s": Setting(
        kind="number", minimum=0.001, maximum=_WEEK_S, unit="s", brief="Shortest deadline of a step"
    ),
    "step_factor": Setting(
        kind="number", minimum=1, maximum=100, brief="Deadline of a step as a multiple of its call deadline"
    ),
    "input_share": Setting(kind="number", minimum=0.05, maximum=1, brief="Share of the input that remains after a cut"),
    "outside_chars": Setting(
        kind="whole", maximum=LONGEST_OUTSIDE, brief="Most characters of an external message for the model"
    ),
    "repeats_before_warning": Setting(
        kind="whole",
        minimum=2,
        maximum=_MOST,
        brief="Calls of one tool with equal arguments and result after which the model is warned",
    ),
    "repeats_before_stop": Setting(
        kind="whole", minimum=2, maximum=_MOST, brief="Such calls that stop the run or cause an escalation"
    ),
    "repeat_action": Setting(
        kind="word",
        words=(STOP, ASK, WARN, OFF),
        brief="Action at that number: stop the run, escalate, only warn the model, or do not count",
    ),
}
"""Every setting of the policy section `guards`, in the order in which forms show them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardLimits:
    """The policy section `guards`. A limit is reached by the count that equals it."""

    tool_failures: int = 3
    errors_before_warning: int = 3
    errors_before_abort: int = 10
    turns: int = 20
    denials_in_a_row: int = 3
    denials_in_all: int = 20
    compaction_failures: int = 3
    run_deadline_s: float = 300.0
    step_floor_s: float = 30.0
    step_factor: float = 3.0
    input_share: float = 0.75
    outside_chars: int = LONGEST_OUTSIDE
    repeats_before_warning: int = 3
    repeats_before_stop: int = 5
    repeat_action: str = STOP

    def step_deadline_s(self, call_deadline_s: float) -> float:
        """How long a step may take, waits included: as long as a run where its calls have no deadline (0)."""
        if not call_deadline_s:
            return self.run_deadline_s
        return max(self.step_floor_s, self.step_factor * call_deadline_s)


DEFAULT_LIMITS = GuardLimits()


def parse_guards(given: object, path: str, problems: list[Problem]) -> GuardLimits:
    """The limits that a JSON object states; what it leaves out is the default. Adds a problem for each fault.

    Keys that are not known are ignored: a newer document may have more.
    """
    if given is None:
        return DEFAULT_LIMITS
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object of limits"))
        return DEFAULT_LIMITS
    values: dict[str, Any] = {}
    for name, setting in GUARD_SETTINGS.items():
        value = given.get(name)
        if value is None:
            continue
        fault = fault_of(setting, value)
        if fault:
            problems.append(Problem(f"{path}.{name}", fault))
        else:
            values[name] = normal_of(setting, value)
    return GuardLimits(**values)


def guards_document(limits: GuardLimits) -> dict[str, Any]:
    """The JSON object that `parse_guards` reads back as the same limits."""
    return {part.name: getattr(limits, part.name) for part in fields(GuardLimits)}


class BudgetVerdict(StrEnum):
    """How an error budget stands."""

    OK = "ok"
    WARN = "warn"
    """Tell the model to change its approach."""
    ABORT = "abort"
    """End the run."""


class ErrorBudget:
    """How many failures a run may have, across all its tools.

    budget = ErrorBudget(warn_after=3, abort_after=10)
    budget.failed()      # BudgetVerdict.OK, OK, then WARN from the third in a row
    budget.succeeded()   # the row begins anew; `total` stays

    `warn_after` counts failures in a row, `abort_after` failures in all. Not thread-safe.
    """

    __slots__ = ("abort_after", "consecutive", "total", "warn_after")

    def __init__(
        self,
        *,
        warn_after: int = DEFAULT_LIMITS.errors_before_warning,
        abort_after: int = DEFAULT_LIMITS.errors_before_abort,
    ) -> None:
        if warn_after < 1 or abort_after < 1:
            raise ValueError("warn_after and abort_after are whole numbers from 1")
        self.warn_after = warn_after
        self.abort_after = abort_after
        self.consecutive = 0
        self.total = 0

    def failed(self) -> BudgetVerdict:
        """One more failure, and how the budget stands after it."""
        self.consecutive += 1
        self.total += 1
        return self.verdict

    def succeeded(self) -> None:
        """A success: the failures in a row begin anew."""
        self.consecutive = 0

    @property
    def verdict(self) -> BudgetVerdict:
        """How the budget stands now."""
        if self.total >= self.abort_after:
            return BudgetVerdict.ABORT
        return BudgetVerdict.WARN if self.consecutive >= self.warn_after else BudgetVerdict.OK


class Effect(StrEnum):
    """What must happen after a count."""

    GO_ON = "go_on"
    CHANGE_APPROACH = "change_approach"
    STOP_CALLING = "stop_calling"
    """Not this tool any more in this run: answer with what there is, or escalate."""
    STOP_RUN = "stop_run"
    ASK_A_PERSON = "ask_a_person"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a count led to."""

    effect: Effect = Effect.GO_ON
    events: tuple[Event, ...] = ()
    count: int = 0
    """How often a repeated call was made."""


_GO_ON = Ruling()


@dataclass(frozen=True, slots=True)
class RunStop:
    """Why a run must end: a word of the rules, the failure behind it, and what the user is told."""

    reason: str
    category: Category | None
    user_message: str
    operation: str = ""


@dataclass(slots=True)
class RunGuards:
    """The counts of one run. The limits are given to each count, because the live policy may change them meanwhile."""

    budget: ErrorBudget = field(default_factory=ErrorBudget)
    turns: int = 0
    denials_in_a_row: int = 0
    denials_in_all: int = 0
    compaction_failures: int = 0
    asks_a_person: bool = False
    """Too many permissions were refused: from here on a person decides, not our check alone."""
    may_compact: bool = True
    """Whether the context may still be compacted in this run."""
    stop: RunStop | None = None
    """Set once the run must end: every later call of it is answered without being made."""
    stopped_tools: set[str] = field(default_factory=set)
    """Tools that failed too often: not called any more in this run."""
    waits_for_a_person: set[str] = field(default_factory=set)
    """Tools that a policy refused: the model gets no chance to rephrase, a person decides."""
    repeats: RepeatedCalls = field(default_factory=RepeatedCalls)
    _failures: dict[str, int] = field(default_factory=dict)
    _has_warned: bool = False
    _has_aborted: bool = False

    def tool_failed(self, tool: str, limits: GuardLimits) -> Ruling:
        """An operation of this tool failed, its retries included: it counts once. Empty: there is no such tool.

        The tool's own guard wins where it and the budget fire together: a run goes on without one tool.
        """
        self._obey(limits)
        verdict = self.budget.failed()
        if tool and tool not in self.stopped_tools:
            count = self._failures[tool] = self._failures.get(tool, 0) + 1
            if count >= limits.tool_failures:
                self.stopped_tools.add(tool)
                tripped = GuardTripped(operation=tool, guard=TOOL_FAILURES, count=count, limit=limits.tool_failures)
                return Ruling(Effect.STOP_CALLING, (tripped,))
        if verdict is BudgetVerdict.ABORT:
            return Ruling(Effect.STOP_RUN, self._aborted())
        return Ruling(Effect.CHANGE_APPROACH, self._warned()) if verdict is BudgetVerdict.WARN else _GO_ON

    def tool_succeeded(self, tool: str) -> None:
        """An operation of this tool succeeded, if only by a fallback."""
        self.budget.succeeded()
        self._has_warned = False
        self._failures.pop(tool, None)

    def call_made(self, tool: str, mark: Mark | None, limits: GuardLimits) -> Ruling:
        """A tool was called and has its result; `mark` tells the call from others, None is like no other.

        Where the limit is reached the row ends, so that a person is asked once.
        """
        count = self.repeats.made(mark)
        if limits.repeat_action in (STOP, ASK) and count >= limits.repeats_before_stop:
            self.repeats.clear()
            tripped = GuardTripped(operation=tool, guard=REPEATED_CALLS, count=count, limit=limits.repeats_before_stop)
            effect = Effect.STOP_RUN if limits.repeat_action == STOP else Effect.ASK_A_PERSON
            return Ruling(effect, (tripped,), count)
        if count < limits.repeats_before_warning:
            return _GO_ON
        return Ruling(Effect.CHANGE_APPROACH, self._warned_of_repeats(tool, count, limits), count)

    def turn(self, limits: GuardLimits) -> Ruling:
        """The model is to have another turn. One that is not allowed is not counted."""
        if self.turns < limits.turns:
            self.turns += 1
            return _GO_ON
        return Ruling(Effect.STOP_RUN, (GuardTripped(guard=TURNS, count=self.turns, limit=limits.turns),))

    def denied(self, tool: str, reason: str, limits: GuardLimits) -> Ruling:
        """Our own check refused a call."""
        self.denials_in_a_row += 1
        self.denials_in_all += 1
        denied = PermissionDenied(
            operation=tool, reason=reason, consecutive=self.denials_in_a_row, total=self.denials_in_all
        )
        is_in_a_row = self.denials_in_a_row >= limits.denials_in_a_row
        if self.asks_a_person or not (is_in_a_row or self.denials_in_all >= limits.denials_in_all):
            return Ruling(events=(denied,))
        self.asks_a_person = True
        count, limit = (
            (self.denials_in_a_row, limits.denials_in_a_row)
            if is_in_a_row
            else (self.denials_in_all, limits.denials_in_all)
        )
        tripped = GuardTripped(operation=tool, guard=DENIALS, count=count, limit=limit)
        return Ruling(Effect.ASK_A_PERSON, (denied, tripped))

    def permitted(self) -> None:
        """Our own check, or a person, allowed a call."""
        self.denials_in_a_row = 0

    def compaction_failed(self, limits: GuardLimits) -> Ruling:
        """Compacting the context did not work."""
        self.compaction_failures += 1
        if not self.may_compact or self.compaction_failures < limits.compaction_failures:
            return _GO_ON
        self.may_compact = False
        count = self.compaction_failures
        return Ruling(events=(GuardTripped(guard=COMPACTION, count=count, limit=limits.compaction_failures),))

    def compaction_succeeded(self) -> None:
        """Compacting worked. Once switched off for the run, it stays off."""
        self.compaction_failures = 0

    def _obey(self, limits: GuardLimits) -> None:
        self.budget.warn_after = limits.errors_before_warning
        self.budget.abort_after = limits.errors_before_abort

    def _warned(self) -> tuple[Event, ...]:
        if self._has_warned:
            return ()
        self._has_warned = True
        return (BudgetWarned(budget=ERRORS, spent=self.budget.consecutive, limit=self.budget.warn_after),)

    def _warned_of_repeats(self, tool: str, count: int, limits: GuardLimits) -> tuple[Event, ...]:
        if self.repeats.has_warned:
            return ()
        self.repeats.has_warned = True
        limit = limits.repeats_before_warning
        return (BudgetWarned(operation=tool, budget=REPEATED_CALLS, spent=count, limit=limit),)

    def _aborted(self) -> tuple[Event, ...]:
        if self._has_aborted:
            return ()
        self._has_aborted = True
        return (BudgetExhausted(budget=ERRORS, spent=self.budget.total, limit=self.budget.abort_after),)


def asked(tool: str, reason: str, asking: Asking) -> Escalated:
    """The event that a person is asked about permissions, where nobody is there to answer at once."""
    return Escalated(
        operation=tool,
        queue=asking.queue,
        reason=DENIALS,
        message=reason,
        deadline_s=asking.deadline_s,
        default_action=asking.default_answer,
    )
