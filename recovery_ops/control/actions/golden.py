"""Marks runs as golden, lets them go, and asks for a word of who lets a policy change one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Required, Unpack

from events.queries.recordings import Told, recorded_run
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out
from recovery_ops.control.actions.checks import fault_of_reason, said
from recovery_ops.control.desired import LivePolicy, live_policy
from recovery_ops.control.models import NAME_CHARS, AuditEntry, GoldenCase, PolicyProposal, PolicyRelease
from recovery_ops.control.numbers import number_in
from recovery_ops.control.refusals import STALE, UNKNOWN, Refused
from recovery_ops.control.replay.golden import outcomes, results_of
from recovery_ops.rules.facts import BreakerStateChanged
from recovery_ops.rules.policy import parse_policy
from recovery_ops.rules.scope import Scope
from recovery_ops.wire import names

MOST_CASES = 20
"""Of one environment: every proposal is tried on each of them while somebody waits."""
MOST_FACTS = 2000
LEAD_S = 300
"""So long before the run its instance is listened to: what breakers had counted."""


class Marking(Asked):
    """What `mark_golden` is given: a run, a name for it, and in words what must stay true."""

    run: Required[str]
    name: Required[str]
    must: Required[str]


def mark_golden(**asked: Unpack[Marking]) -> Done[GoldenCase]:
    """Keep a run, so that every proposal shows what it would do to it.

    Raises Refused: 403, 400 also for a run in which nothing failed, 404, 409 when there are too many. A run that is
    golden already is the answer.
    """
    environment, run = asked["environment"], asked["run"]
    is_name = bool(run) and len(run) <= NAME_CHARS and run.isprintable()
    faults = {
        "run": "" if is_name else "is no run",
        "name": _fault_of_name(asked["name"]),
        "must": fault_of_reason(said(asked["must"])),
    }
    attempt = Attempt.of(
        "golden.mark", "propose_policy", Scope(), asked, faults, about=f"run {run}"[:NAME_CHARS], is_for_agents=False
    )

    def write(revision: int) -> Step[GoldenCase]:
        mine = GoldenCase.objects.filter(environment=environment)
        held = mine.filter(run=run, retired_at=None).first()
        if held is not None:
            return Step(object=held, revision=revision, was_already=True)
        if mine.filter(retired_at=None).count() >= MOST_CASES:
            detail = f"{environment} has {MOST_CASES} golden runs, and that is the most. Let one go first."
            raise Refused("too_many", detail, status=STALE)
        made = _made(attempt, asked)
        return Step(object=made, revision=revision, after={"number": made.number, "run": run, "name": made.name})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


class Retiring(Asked):
    """What `retire_golden` is given."""

    number: Required[int]


def retire_golden(**asked: Unpack[Retiring]) -> Done[GoldenCase]:
    """Let a golden run go: proposals no longer show it. Raises Refused: 403, 404, 400."""
    environment, number = asked["environment"], asked["number"]
    about = f"golden run {number}"
    attempt = Attempt.of("golden.retire", "propose_policy", Scope(), asked, about=about, is_for_agents=False)

    def write(revision: int) -> Step[GoldenCase]:
        held = GoldenCase.objects.filter(environment=environment, number=number).first()
        if held is None:
            detail = f"There is no golden run {number} in {environment}."
            raise Refused("unknown_golden", detail, status=UNKNOWN, fields={"number": "is not known"})
        if held.retired_at is not None:
            return Step(object=held, revision=revision, was_already=True)
        held.retired_at, held.retired_by = attempt.now, attempt.by.name
        held.save(update_fields=["retired_at", "retired_by"])
        return Step(object=held, revision=revision, after={"number": number})

    with attempt.noted():
        attempt.check()
        return carry_out(attempt, write, recall=_recalled)


def accept_changes(proposal: PolicyProposal, *, is_accepted: bool) -> None:
    """Note that whoever lets it go on knows which golden runs it changes.

    Raises Refused (409) where they do not say so. What was accepted of this edition before stays so.
    """
    changed = [one for one in results_of(proposal) if not one.is_same]
    new = [one for one in changed if one.case.number not in proposal.golden_accepted]
    if new and not is_accepted:
        told = "; ".join(f"“{one.case.name}”: {one.difference}" for one in new[:3])
        detail = f"It changes {len(new)} golden run{'' if len(new) == 1 else 's'}. {told} Say that this is meant."
        raise Refused("golden_changes", detail, status=STALE, fields={"accepts_golden": "has to say that it is meant"})
    proposal.golden_accepted = sorted({one.case.number for one in changed})


def _made(attempt: Attempt, asked: Marking) -> GoldenCase:
    environment, run = attempt.environment, asked["run"]
    found = recorded_run(environment, run, lead_s=LEAD_S, most=MOST_FACTS)
    if found is None:
        detail = f"No fact in {environment} that a policy decides about carries this run."
        raise Refused("unknown_run", detail, status=UNKNOWN, fields={"run": "is not known"})
    speaker, facts = found
    base = _policy_of(environment, run, facts)
    policy = parse_policy(base.document, version=base.version)
    start_us = facts[0].at_us
    rows = [[*fact[:-1], _kept(fact.attributes)] for fact in facts]
    expected = outcomes(run, speaker, rows, start_us, policy, policy)
    if not expected:
        detail = "Nothing in this run failed or was refused: a policy would decide nothing in it."
        raise Refused("nothing_to_keep", detail, fields={"run": "met no failure"})
    newest = GoldenCase.objects.filter(environment=environment).order_by("-number").first()
    return GoldenCase.objects.create(
        environment=environment,
        number=1 if newest is None else newest.number + 1,
        name=asked["name"].strip(),
        must=said(asked["must"]),
        run=run,
        service=speaker.service,
        instance=speaker.instance,
        group=speaker.group,
        start_us=start_us,
        facts=rows,
        base_version=base.version,
        base_document=dict(base.document),
        expected=expected,
        by_user_id=attempt.by.user_id,
        by=attempt.by.name,
        created_at=attempt.now,
    )


def _policy_of(environment: str, run: str, facts: list[Told]) -> LivePolicy:
    """The policy that the run ran under, as its facts name it; where they do not, the live one."""
    named = next((fact.attributes.get(names.POLICY_VERSION) for fact in facts if fact.run == run), None)
    version = str(named or "")
    if version == LivePolicy.built_in().version:
        return LivePolicy.built_in()
    release = PolicyRelease.objects.filter(environment=environment, version=number_in(version) or 0).first()
    if release is None:
        return live_policy(environment)
    return LivePolicy(release=release, document=release.document, version=version)


_A = names.ATTRIBUTES
_KEPT = frozenset(
    {
        *(
            _A[name]
            for name in (
                *("attempt", "attempts", "duration_s", "tool", "retryable", "delay_s", "max_retries", "adjustment"),
                *("reason", "fallback", "count", "window_s", "trigger", "input_tokens", "output_tokens", "successes"),
                *("interval_s", "from_model", "to_model", "kind", "escalation_id", "successes_since_failure"),
                *("status_code", "retry_after_s", "limit_tokens", "exception_type", "evidence", "error_type"),
                *("guard", "limit", "compensation", "verdict", "error_code", "rule", "instead_of"),
            )
        ),
        names.attribute_of(BreakerStateChanged, "wait_s"),
    }
)


def _kept(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What deciding needs: numbers and words of the rules, and nothing that anybody wrote."""
    return {name: value for name, value in attributes.items() if name in _KEPT}


def _fault_of_name(name: str) -> str:
    if not name.strip():
        return "says in a few words what the run is an example of"
    if len(name) > NAME_CHARS:
        return f"has {len(name)} characters; {NAME_CHARS} is the most"
    return "" if name.isprintable() else "has characters that cannot be shown"


def _recalled(entry: AuditEntry) -> GoldenCase:
    return GoldenCase.objects.get(environment=entry.environment, number=entry.after["number"])
