"""Marks runs as golden, lets them go, and asks for a word of who lets a policy change one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Required, Unpack

from events.queries.recordings import Told, recorded_run
from recovery_ops.control.core.checks import normalize_reason, reason_error
from recovery_ops.control.core.commands import Change, Command, CommandContext, CommandResult, execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.rejections import CONFLICT, NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.document import LivePolicy, live_policy
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.replay.golden import outcomes, results_of
from recovery_ops.control.replay.models.golden import GoldenCase
from recovery_ops.rules.events import BreakerStateChanged
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.wire import names

MOST_CASES = 20
"""Of one environment: every proposal is tried on each of them while somebody waits."""
MOST_FACTS = 2000
LEAD_S = 300
"""So long before the run its instance is listened to: what breakers had counted."""


class Marking(CommandContext):
    """What `mark_golden` is given: a run, a name for it, and in words what must stay true."""

    run: Required[str]
    name: Required[str]
    must: Required[str]


def mark_golden(**asked: Unpack[Marking]) -> CommandResult[GoldenCase]:
    """Keep a run, so that every proposal shows what it would do to it.

    Raises CommandRejected: 403, 400 also for a run in which nothing failed, 404, 409 when there are too many. A run
    that is golden already is the answer.
    """
    environment, run = asked["environment"], asked["run"]
    is_name = bool(run) and len(run) <= NAME_CHARS and run.isprintable()
    faults = {
        "run": "" if is_name else "is not a run id",
        "name": _fault_of_name(asked["name"]),
        "must": reason_error(normalize_reason(asked["must"])),
    }
    command = Command.of("golden.mark", Scope(), asked, faults, about=f"run {run}"[:NAME_CHARS])

    def write(revision: int) -> Change[GoldenCase]:
        mine = GoldenCase.objects.filter(environment=environment)
        held = mine.filter(run=run, retired_at=None).first()
        if held is not None:
            return Change(object=held, revision=revision, was_already=True)
        if mine.filter(retired_at=None).count() >= MOST_CASES:
            detail = f"{environment} has {MOST_CASES} golden runs, the maximum. Retire one first."
            raise CommandRejected("too_many", detail, status=CONFLICT)
        made = _made(command, asked)
        return Change(object=made, revision=revision, after={"number": made.number, "run": run, "name": made.name})

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


class Retiring(CommandContext):
    """What `retire_golden` is given."""

    number: Required[int]


def retire_golden(**asked: Unpack[Retiring]) -> CommandResult[GoldenCase]:
    """Let a golden run go: proposals no longer show it. Raises CommandRejected: 403, 404, 400."""
    environment, number = asked["environment"], asked["number"]
    about = f"golden run {number}"
    command = Command.of("golden.retire", Scope(), asked, about=about)

    def write(revision: int) -> Change[GoldenCase]:
        held = GoldenCase.objects.filter(environment=environment, number=number).first()
        if held is None:
            detail = f"{environment} has no golden run {number}."
            raise CommandRejected("unknown_golden", detail, status=NOT_FOUND, fields={"number": "is unknown"})
        if held.retired_at is not None:
            return Change(object=held, revision=revision, was_already=True)
        held.retired_at, held.retired_by = command.now, command.by.name
        held.save(update_fields=["retired_at", "retired_by"])
        return Change(object=held, revision=revision, after={"number": number})

    with command.noted():
        command.check()
        return execute(command, write, recall=_recalled)


def accept_changes(proposal: PolicyProposal, *, is_accepted: bool) -> None:
    """Note that whoever lets it go on knows which golden runs it changes.

    Raises CommandRejected (409) where they do not say so. What was accepted of this edition before stays so.
    """
    changed = [one for one in results_of(proposal) if not one.is_same]
    new = [one for one in changed if one.case.number not in proposal.golden_accepted]
    if new and not is_accepted:
        told = "; ".join(f"“{one.case.name}”: {one.difference}" for one in new[:3])
        detail = f"It changes {len(new)} golden run{'' if len(new) == 1 else 's'}. {told} Confirm with accepts_golden."
        raise CommandRejected(
            "golden_changes",
            detail,
            status=CONFLICT,
            fields={"accepts_golden": "must be true to accept the changes"},
        )
    proposal.golden_accepted = sorted({one.case.number for one in changed})


def _made(command: Command, asked: Marking) -> GoldenCase:
    environment, run = command.environment, asked["run"]
    found = recorded_run(environment, run, lead_s=LEAD_S, most=MOST_FACTS)
    if found is None:
        detail = f"{environment} has no events of this run that a policy decides about."
        raise CommandRejected("unknown_run", detail, status=NOT_FOUND, fields={"run": "is unknown"})
    speaker, facts = found
    base = _policy_of(environment, run, facts)
    policy = parse_policy(base.document, version=base.version)
    start_us = facts[0].at_us
    rows = [[*fact[:-1], _kept(fact.attributes)] for fact in facts]
    expected = outcomes(run, speaker, rows, start_us, policy, policy)
    if not expected:
        detail = "No call of this run failed or was rejected; a policy decides nothing in it."
        raise CommandRejected("nothing_to_keep", detail, fields={"run": "has no failure"})
    newest = GoldenCase.objects.filter(environment=environment).order_by("-number").first()
    return GoldenCase.objects.create(
        environment=environment,
        number=1 if newest is None else newest.number + 1,
        name=asked["name"].strip(),
        must=normalize_reason(asked["must"]),
        run=run,
        service=speaker.service,
        instance=speaker.instance,
        group=speaker.group,
        start_us=start_us,
        facts=rows,
        base_version=base.version,
        base_document=dict(base.document),
        expected=expected,
        by_user_id=command.by.user_id,
        by=command.by.name,
        created_at=command.now,
    )


def _policy_of(environment: str, run: str, facts: list[Told]) -> LivePolicy:
    """The policy that the run ran under, as its facts name it; where they do not, the live one."""
    named = next((fact.attributes.get(names.POLICY_VERSION) for fact in facts if fact.run == run), None)
    version = str(named or "")
    if version == LivePolicy.built_in().version:
        return LivePolicy.built_in()
    release = PolicyRelease.objects.filter(environment=environment, version=parse_number(version) or 0).first()
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
        return "is empty; describe the run in a few words"
    if len(name) > NAME_CHARS:
        return f"has {len(name)} characters; use at most {NAME_CHARS}"
    return "" if name.isprintable() else "has unprintable characters"


def _recalled(entry: AuditEntry) -> GoldenCase:
    return GoldenCase.objects.get(environment=entry.environment, number=entry.after["number"])
