"""Golden runs, decided again: what a policy makes of one, and the first thing that it makes otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from events.queries.recordings import Speaker, Told
from recovery_ops.control.core.models.bases import REASON_CHARS
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.replay.engine import Decided, replay
from recovery_ops.control.replay.models.golden import GoldenCase, GoldenResult
from recovery_ops.control.replay.recorded_calls import Listener
from recovery_ops.rules.policy.model import Policy, parse_policy

_SAME_WAIT_S = 0.05
Outcome = dict[str, Any]
"""One call: operation, source, ending, attempts, seconds waited, and its steps."""


def outcomes(
    run: str, speaker: Speaker, facts: Iterable[Sequence[Any]], start_us: int, policy: Policy, base: Policy
) -> list[Outcome]:
    """What a policy makes of each call of a run that did not go well at once, in order."""
    recording = Listener(speaker, start_us / 1e6, base.failures).listen(Told(*fact) for fact in facts)
    decided = replay(recording, policy, base).calls
    return [
        {"operation": call.operation, "source": call.source, **_told(decided[call.number])}
        for call in recording.calls
        if call.run == run
    ]


def outcomes_of(case: GoldenCase, document: Mapping[str, Any]) -> list[Outcome]:
    """The same for a golden run that is kept."""
    base = parse_policy(case.base_document, version=case.base_version)
    speaker = Speaker(case.service, case.instance, case.group)
    return outcomes(case.run, speaker, case.facts, case.start_us, parse_policy(document, version="proposed"), base)


def first_difference(expected: Sequence[Outcome], found: Sequence[Outcome]) -> str:
    """The first call that goes otherwise, in words; empty where none does."""
    for number, (old, new) in enumerate(zip(expected, found, strict=False), start=1):
        what = f"Call {number}, {old['operation']}: "
        if old["ending"] != new["ending"]:
            return f"{what}{old['ending']} becomes {new['ending']}{_where(old, new)}."
        if old["attempts"] != new["attempts"]:
            return f"{what}{old['attempts']} attempts become {new['attempts']}."
        if abs(old["waited_s"] - new["waited_s"]) >= _SAME_WAIT_S:
            return f"{what}{old['waited_s']:g} s of waits become {new['waited_s']:g} s."
    if len(expected) != len(found):
        return f"{len(expected)} calls become {len(found)}."
    return ""


def results_of(proposal: PolicyProposal) -> list[GoldenResult]:
    """What this edition of a proposal does to each golden run; what is not known yet is found out now."""
    cases = list(GoldenCase.objects.filter(environment=proposal.environment, retired_at=None).order_by("number"))
    known = {
        one.case_id: one
        for one in GoldenResult.objects.filter(proposal=proposal, edition=proposal.edition, case__in=cases)
    }
    found = []
    for case in cases:
        result = known.get(case.pk)
        if result is None:
            difference = first_difference(case.expected, outcomes_of(case, proposal.document))
            result, _ = GoldenResult.objects.get_or_create(
                case=case,
                proposal=proposal,
                edition=proposal.edition,
                defaults={"difference": difference[:REASON_CHARS]},
            )
        result.case = case
        found.append(result)
    return found


def _where(old: Outcome, new: Outcome) -> str:
    """` (then: …; now: …)`: the first steps that differ."""
    for then, now in zip(old["steps"], new["steps"], strict=False):
        if then["what"] != now["what"]:
            return f" (then: {then['what']}; now: {now['what']})"
    return ""


def _told(one: Decided) -> Outcome:
    return {
        "ending": one.ending,
        "attempts": one.attempts,
        "waited_s": round(one.waited_s, 2),
        "steps": [{"after_s": round(after_s, 2), "what": what} for after_s, what in one.steps],
    }
