"""What a policy makes of the loop around calls: guards of runs, the playbook, and the caution with tools.

The loop itself is the code of the agent. Facts tell how far counts had come when a run ended or a guard fired: a limit
that lies below would have fired, one that lies above leaves open what would have come.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from recovery_ops.control.replay.spend_caps import SPEND_WORDS, SpendSeen, decide_spend
from recovery_ops.rules.enums import Verdict
from recovery_ops.rules.policy.model import Policy
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.run_limits import (
    ASK,
    COMPACTION,
    DENIALS,
    GUARD_SETTINGS,
    OFF,
    REPEATED_CALLS,
    STOP,
    TOOL_FAILURES,
    TURNS,
    WARN,
    GuardLimits,
)
from recovery_ops.rules.tools.policy_limits import Caution, tightened

TURNS_STOP, DEADLINE_STOP, TOOLS_STOP, DENIALS_ASK, COMPACTION_STOP, REPEATS_WARN, REPEATS_STOP, REPEATS_ASK = (
    "runs_stopped_by_turns",
    "runs_stopped_by_deadline",
    "tools_given_up",
    "runs_handed_to_a_person",
    "runs_without_compaction",
    "runs_warned_of_repeated_calls",
    "runs_stopped_by_repeated_calls",
    "runs_handed_to_a_person_for_repeated_calls",
)
PERMISSION = "calls_asking_permission"
DECIDED_GUARDS = (
    *("tool_failures", "turns", "denials_in_a_row", "denials_in_all", "compaction_failures", "run_deadline_s"),
    *("repeats_before_warning", "repeats_before_stop", "repeat_action"),
)
"""Guards whose counts facts tell."""
UNDECIDED_GUARDS = tuple(name for name in GUARD_SETTINGS if name not in DECIDED_GUARDS)
"""Guards of which no fact tells what they would have changed: that they differ is all that can be said."""
_VERDICTS = frozenset(Verdict)
COMPENSATED = "compensated: "
"""Before the word of a compensation."""
LOOP_WORDS = {
    TURNS_STOP: "Runs stopped at the limit of turns",
    DEADLINE_STOP: "Runs stopped at their deadline",
    TOOLS_STOP: "Tools blocked in a run",
    DENIALS_ASK: "Runs escalated after denied permissions",
    COMPACTION_STOP: "Runs with disabled compaction",
    REPEATS_WARN: "Runs warned of repeated calls",
    REPEATS_STOP: "Runs stopped by repeated calls",
    REPEATS_ASK: "Runs escalated after repeated calls",
    PERMISSION: "Calls that require permission",
    **SPEND_WORDS,
}
"""What each is called on a screen."""


@dataclass(slots=True)
class RunSeen:
    """How far one run had come."""

    turns: int = 0
    duration_s: float | None = None
    denials_in_a_row: int = 0
    denials_in_all: int = 0
    repeated_calls: int = 0
    """The most calls with the same arguments and the same result."""
    tripped: dict[tuple[str, str], int] = field(default_factory=dict)
    """Guards that fired, by guard and operation, with the count they fired at."""
    given_up: Counter[str] = field(default_factory=Counter)
    """Operations whose calls failed for good; successes in between are not told."""


@dataclass(slots=True)
class Loop:
    """What one instance told of the loops in it."""

    runs: dict[str, RunSeen] = field(default_factory=dict)
    compensations: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By verdict and by what was done about it."""
    calls: Counter[str] = field(default_factory=Counter)

    def run(self, name: str) -> RunSeen:
        """What is known of a run."""
        return self.runs.setdefault(name, RunSeen())

    spend: SpendSeen = field(default_factory=SpendSeen)

    @property
    def is_quiet(self) -> bool:
        """Whether no policy could decide anything in it otherwise."""
        return self.spend.is_quiet and not self.runs and not self.compensations and not self.calls


@dataclass(slots=True)
class LoopDecided:
    """What one policy makes of it, and what cannot be known."""

    counts: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, other: LoopDecided) -> None:
        """Add up another instance's."""
        self.counts.update(other.counts)
        self.unknown.update(other.unknown)


def decide_loop(loop: Loop, policy: Policy, base: Policy, place: Place) -> LoopDecided:
    """Decide it under a policy; `base` is the one that it is taken to have run under."""
    found = LoopDecided()
    for run in loop.runs.values():
        _run(run, policy, found)
        _repeats(run, policy.guards, base.guards, found)
    for counted, more in zip((found.counts, found.unknown), decide_spend(loop.spend, policy.spend_caps), strict=True):
        counted.update(more)
    for (verdict, done), count in loop.compensations.items():
        word = verdict if verdict in _VERDICTS else ""
        if not word or base.playbook.plays[Verdict(word)].compensation.value != done:
            found.counts[COMPENSATED + done] += count  # not proven, or by a playbook of the code's own
            continue
        found.counts[COMPENSATED + policy.playbook.plays[Verdict(word)].compensation.value] += count
    careless = Caution(idempotent=True, is_destructive=False, optional=True, require_permission=False)
    for operation, count in loop.calls.items():
        at = Place(service=place.service, instance=place.instance, group=place.group, operation=operation)
        if tightened(careless, policy.tools, at).require_permission:
            found.counts[PERMISSION] += count
    return found


def _run(run: RunSeen, policy: Policy, found: LoopDecided) -> None:
    limits = policy.guards
    stopped_at = run.tripped.get((TURNS, ""))
    wanted = max(run.turns, 0 if stopped_at is None else stopped_at + 1)
    _count(found, TURNS_STOP, fires=wanted > limits.turns, fired=stopped_at is not None)
    if run.duration_s is not None and run.duration_s >= limits.run_deadline_s:
        found.counts[DEADLINE_STOP] += 1
    denies = run.denials_in_a_row >= limits.denials_in_a_row or run.denials_in_all >= limits.denials_in_all
    _count(found, DENIALS_ASK, fires=denies, fired=any(guard == DENIALS for guard, _ in run.tripped))
    compacted = run.tripped.get((COMPACTION, ""))
    fires = compacted is not None and compacted >= limits.compaction_failures
    _count(found, COMPACTION_STOP, fires=fires, fired=compacted is not None)
    for operation in {*run.given_up, *(name for guard, name in run.tripped if guard == TOOL_FAILURES)}:
        count = run.tripped.get((TOOL_FAILURES, operation))
        if count is None:  # whether it went well in between is not told
            found.unknown[TOOLS_STOP] += run.given_up[operation] >= limits.tool_failures
        else:
            _count(found, TOOLS_STOP, fires=count >= limits.tool_failures, fired=True)


def _repeats(run: RunSeen, limits: GuardLimits, base: GuardLimits, found: LoopDecided) -> None:
    """Where they were not counted nothing is known of them."""
    stopped_at = run.tripped.get((REPEATED_CALLS, ""))
    most = max(run.repeated_calls, stopped_at or 0)
    what = REPEATS_ASK if limits.repeat_action == ASK else REPEATS_STOP
    if base.repeat_action == OFF and limits.repeat_action != OFF:
        found.unknown[what] += run.duration_s is not None
        return
    fires = limits.repeat_action in (STOP, ASK) and most >= limits.repeats_before_stop
    _count(found, what, fires=fires, fired=stopped_at is not None)
    is_first = limits.repeat_action == WARN or limits.repeats_before_warning < limits.repeats_before_stop
    if limits.repeat_action != OFF and is_first and most >= limits.repeats_before_warning:
        found.counts[REPEATS_WARN] += 1


def _count(found: LoopDecided, what: str, *, fires: bool, fired: bool) -> None:
    if fires:
        found.counts[what] += 1
    elif fired:
        found.unknown[what] += 1
