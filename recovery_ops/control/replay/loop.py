"""What a policy makes of the loop around calls: guards of runs, the playbook, and the caution with tools.

The loop itself is the code of the agent. Facts tell how far counts had come when a run ended or a guard fired: a limit
that lies below would have fired, one that lies above leaves open what would have come.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from recovery_ops.rules.budget import COMPACTION, DENIALS, GUARD_KNOBS, TOOL_FAILURES, TURNS
from recovery_ops.rules.policy import Policy
from recovery_ops.rules.scope import Place
from recovery_ops.rules.tools.caution import Caution, tightened
from recovery_ops.rules.words import Verdict

TURNS_STOP, DEADLINE_STOP, TOOLS_STOP, DENIALS_ASK, COMPACTION_STOP, PERMISSION = (
    "runs_stopped_by_turns",
    "runs_stopped_by_deadline",
    "tools_given_up",
    "runs_handed_to_a_person",
    "runs_without_compaction",
    "calls_asking_permission",
)
DECIDED_GUARDS = (
    *("tool_failures", "turns", "denials_in_a_row", "denials_in_all", "compaction_failures", "run_deadline_s"),
)
"""Guards whose counts facts tell."""
UNDECIDED_GUARDS = tuple(name for name in GUARD_KNOBS if name not in DECIDED_GUARDS)
"""Guards of which no fact tells what they would have changed: that they differ is all that can be said."""
_VERDICTS = frozenset(Verdict)
COMPENSATED = "compensated: "
"""Before the word of a compensation."""
LOOP_WORDS = {
    TURNS_STOP: "Runs stopped by their turns",
    DEADLINE_STOP: "Runs stopped by their deadline",
    TOOLS_STOP: "Tools that a run gave up",
    DENIALS_ASK: "Runs handed to a person after denials",
    COMPACTION_STOP: "Runs that compact no more",
    PERMISSION: "Calls that the policy wants permission for",
}
"""What each is called on a screen."""


@dataclass(slots=True)
class RunSeen:
    """How far one run had come."""

    turns: int = 0
    duration_s: float | None = None
    denials_in_a_row: int = 0
    denials_in_all: int = 0
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

    @property
    def is_quiet(self) -> bool:
        """Whether no policy could decide anything in it otherwise."""
        return not self.runs and not self.compensations and not self.calls


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
    for (verdict, done), count in loop.compensations.items():
        word = verdict if verdict in _VERDICTS else ""
        if not word or base.playbook.plays[Verdict(word)].compensation.value != done:
            found.counts[COMPENSATED + done] += count  # not proven, or by a playbook of the code's own
            continue
        found.counts[COMPENSATED + policy.playbook.plays[Verdict(word)].compensation.value] += count
    careless = Caution(is_destructive=False, optional=True, require_permission=False)
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


def _count(found: LoopDecided, what: str, *, fires: bool, fired: bool) -> None:
    if fires:
        found.counts[what] += 1
    elif fired:
        found.unknown[what] += 1
