"""What two policies make of one recording, added up instance by instance: figures, endings, examples, and doubts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from recovery_ops.control.replay.affected_calls import replay_both
from recovery_ops.control.replay.agent_loop import UNDECIDED_GUARDS, LoopDecided, decide_loop
from recovery_ops.control.replay.classification import Changes
from recovery_ops.control.replay.engine import ANSWERED, REFUSED, Decided, Replayed
from recovery_ops.control.replay.measures import Measures
from recovery_ops.control.replay.recorded_calls import Call, Recording
from recovery_ops.rules.policy.model import Policy
from recovery_ops.rules.policy.scope import Place

EXAMPLES_EACH = 5
"""Of each way in which an ending changes …"""
EXAMPLES_IN_ALL = 40
_SAME_WAIT_S = 0.05
_MOST_OPERATIONS = 100


@dataclass(slots=True)
class Comparison:
    """The sums so far. `old` is the policy that the recording is compared under, `new` the proposed one."""

    old: Policy
    new: Policy
    facts: int = 0
    instances: int = 0
    calls: int = 0
    loose: int = 0
    asked_by_code: int = 0
    """Questions that are asked of people whatever a policy says."""
    measures: dict[str, Measures] = field(
        default_factory=lambda: {"recorded": Measures(), "old": Measures(), "new": Measures()}
    )
    operations: dict[str, dict[str, Measures]] = field(default_factory=dict)
    unknown: dict[str, Counter[str]] = field(default_factory=lambda: {"old": Counter(), "new": Counter()})
    endings: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Of affected calls: how they ended under the old policy and under the new one."""
    loops: dict[str, LoopDecided] = field(default_factory=lambda: {"old": LoopDecided(), "new": LoopDecided()})
    affected_calls: int = 0
    classification: Changes = field(default_factory=Changes)
    runs: set[str] = field(default_factory=set)
    affected_runs: set[str] = field(default_factory=set)
    matched_endings: int = 0
    """Calls that end under the old policy as they were recorded to end: how far the replay can be trusted."""
    told_endings: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)
    _examples_of: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, recording: Recording) -> None:
        """Decide one instance under both policies."""
        self.facts += recording.facts
        self.loose += recording.loose
        self.asked_by_code += len(recording.asked)
        self.instances += 1
        self._add_loop(recording)
        if recording.is_quiet:
            return
        self.classification.add(recording, self.old.classification, self.new.classification)
        old, new = replay_both(recording, self.old, self.new)
        self.measures["recorded"].add(recording.measures)
        for operation, count in _more_refused(old, new).items():
            sums = new.by_operation.setdefault(operation, Measures())
            # A recorded refusal that is let in now may have been one of these: it is gone already, and not once more.
            sums.refused = max(sums.refused + count, new.refused_retries.get(operation, 0))
        self._add_sums("old", old)
        self._add_sums("new", new)
        for call in recording.calls:
            self._compare(recording, call, old.calls[call.number], new.calls[call.number])
        moved = new.refused_successes - old.refused_successes
        if moved:
            self.endings[(ANSWERED, REFUSED) if moved > 0 else (REFUSED, ANSWERED)] += abs(moved)
            self.affected_calls += abs(moved)

    def join(self, other: Comparison) -> None:
        """Add up what another process made of other instances, under the same two policies."""
        self.facts += other.facts
        self.instances += other.instances
        self.calls += other.calls
        self.loose += other.loose
        self.asked_by_code += other.asked_by_code
        for which, measures in other.measures.items():
            self.measures[which].add(measures)
        for operation, sides in other.operations.items():
            each = self.operations.setdefault(operation, {"old": Measures(), "new": Measures()})
            for which, measures in sides.items():
                each[which].add(measures)
        for which, unknown in other.unknown.items():
            self.unknown[which].update(unknown)
        for which, loop in other.loops.items():
            self.loops[which].add(loop)
        self.endings.update(other.endings)
        self.affected_calls += other.affected_calls
        self.classification.join(other.classification)
        self.runs |= other.runs
        self.affected_runs |= other.affected_runs
        self.matched_endings += other.matched_endings
        self.told_endings += other.told_endings
        for example in other.examples:
            self._add_example((example["old"]["ending"], example["new"]["ending"]), example)

    def _add_example(self, pair: tuple[str, str], example: dict[str, Any]) -> None:
        if self._wants_example(pair):
            self._examples_of[pair] += 1
            self.examples.append(example)

    def _wants_example(self, pair: tuple[str, str]) -> bool:
        told = self._examples_of[pair]
        return not told or (told < EXAMPLES_EACH and len(self.examples) < EXAMPLES_IN_ALL)

    def _add_loop(self, recording: Recording) -> None:
        if recording.loop.is_quiet:
            return
        speaker = recording.speaker
        place = Place(service=speaker.service, instance=speaker.instance, group=speaker.group)
        for which, policy in (("old", self.old), ("new", self.new)):
            self.loops[which].add(decide_loop(recording.loop, policy, self.old, place))

    def _add_sums(self, which: str, found: Replayed) -> None:
        self.unknown[which].update(found.unknown)
        for operation, measures in found.by_operation.items():
            self.measures[which].add(measures)
            each = self.operations.setdefault(operation, {"old": Measures(), "new": Measures()})
            each[which].add(measures)

    def _compare(self, recording: Recording, call: Call, old: Decided, new: Decided) -> None:
        self.calls += 1
        run = f"{recording.speaker.service} {recording.speaker.instance} {call.run}" if call.run else ""
        if run:
            self.runs.add(run)
        if call.ending:
            self.told_endings += 1
            self.matched_endings += call.ending == old.ending
        is_same_work = old.attempts == new.attempts and abs(old.waited_s - new.waited_s) < _SAME_WAIT_S
        if old.ending == new.ending and is_same_work:
            return
        self.affected_calls += 1
        if run:
            self.affected_runs.add(run)
        pair = (old.ending, new.ending)
        self.endings[pair] += 1
        if self._wants_example(pair):
            self._add_example(pair, _example(recording, call, old, new))

    def as_document(self) -> dict[str, Any]:
        """What the page and the API show."""
        return {
            "facts": self.facts,
            "instances": self.instances,
            "calls": self.calls,
            "runs": len(self.runs),
            "affected_calls": self.affected_calls,
            "affected_runs": len(self.affected_runs),
            "loose_facts": self.loose,
            "asked_by_code": self.asked_by_code,
            "told_endings": self.told_endings,
            "matched_endings": self.matched_endings,
            "measures": {which: found.as_numbers() for which, found in self.measures.items()},
            "operations": self._operations(),
            "unknown": {which: dict(found) for which, found in self.unknown.items()},
            "loop": {which: dict(found.counts) for which, found in self.loops.items()},
            "loop_unknown": {which: dict(+found.unknown) for which, found in self.loops.items()},
            "undecided_guards": {
                name: {"old": getattr(self.old.guards, name), "new": getattr(self.new.guards, name)}
                for name in UNDECIDED_GUARDS
                if getattr(self.old.guards, name) != getattr(self.new.guards, name)
            },
            "classification": self.classification.as_document(),
            "endings": [{"old": old, "new": new, "calls": count} for (old, new), count in self.endings.most_common()],
            "examples": self.examples,
        }

    def _operations(self) -> list[dict[str, Any]]:
        """Those that differ most come first."""

        def distance(each: Mapping[str, Measures]) -> float:
            old, new = each["old"].as_numbers(), each["new"].as_numbers()
            return sum(abs((new[name] or 0.0) - (old[name] or 0.0)) for name in old)

        ranked = sorted(self.operations.items(), key=lambda item: (-distance(item[1]), item[0]))
        return [
            {"operation": name, "old": each["old"].as_numbers(), "new": each["new"].as_numbers()}
            for name, each in ranked[:_MOST_OPERATIONS]
        ]


def _more_refused(old: Replayed, new: Replayed) -> Counter[str]:
    """Refused retries, by operation, beyond those under the old policy: these the recording has counted already."""
    more = Counter(new.refused_retries)
    more.subtract(old.refused_retries)
    return more


def _example(recording: Recording, call: Call, old: Decided, new: Decided) -> dict[str, Any]:
    return {
        "service": recording.speaker.service,
        "instance": recording.speaker.instance,
        "operation": call.operation,
        "source": call.source,
        "run": call.run,
        "at": datetime.fromtimestamp(call.started_s, UTC).isoformat(timespec="milliseconds"),
        "recorded": call.ending,
        "old": _told(old),
        "new": _told(new),
    }


def _told(one: Decided) -> dict[str, Any]:
    return {
        "ending": one.ending,
        "attempts": one.attempts,
        "waited_s": round(one.waited_s, 2),
        "steps": [{"after_s": round(after_s, 2), "what": what} for after_s, what in one.steps],
    }
