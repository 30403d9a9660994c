"""What is done about causes that nobody could name: a rule is proposed, or they are left unknown knowingly."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Required, Unpack

from django.utils import timezone

from events.failures.unknown import unknown_cause
from recovery_ops.control.actions.attempt import Asked, Attempt, Done, Step, carry_out, require
from recovery_ops.control.actions.proposals import propose
from recovery_ops.control.desired import live_policy
from recovery_ops.control.models import NAME_CHARS, REASON_CHARS, TITLE_CHARS, AuditEntry, PolicyProposal, UnknownCause
from recovery_ops.control.refusals import UNKNOWN, Refused
from recovery_ops.rules.scope import Scope

LOOK_BACK = timedelta(days=7)
"""How far back causes are looked for."""


class Naming(Asked):
    """What `propose_rule` is given: a cause, and a rule of the policy's section `classification`."""

    fingerprint: Required[str]
    rule: Required[Mapping[str, Any]]


class Leaving(Asked):
    """What `dismiss_cause` and `reopen_cause` are given: a cause."""

    fingerprint: Required[str]


def propose_rule(**asked: Unpack[Naming]) -> Done[PolicyProposal]:
    """Draft a proposal that adds the rule behind those of the live policy.

    Raises Refused: 403, 404 for a cause that nobody reported, 400 by the path in the document.
    """
    environment, fingerprint, rule = asked["environment"], asked["fingerprint"], asked["rule"]
    _require_known("propose_policy", asked)
    live = live_policy(environment)
    before = live.document.get("classification") or []
    document = {**live.document, "classification": [*before, dict(rule)]}
    rest: Any = {name: value for name, value in asked.items() if name not in ("fingerprint", "rule")}
    rest["reason"] = f"{asked['reason']} (unknown cause {fingerprint})"[:REASON_CHARS] if asked["reason"] else ""
    title = f"{rule.get('name', '')}: unknown failures are {rule.get('category', '')}"[:TITLE_CHARS]
    done = propose(**rest, document=document, title=title)
    if not done.is_dry_run:
        _note(asked, UnknownCause.PROPOSED, done.object)
    return done


def dismiss_cause(**asked: Unpack[Leaving]) -> Done[UnknownCause]:
    """Leave it unknown, and say why. It is not shown as waiting any more; agents ask as before.

    Raises Refused: 403, 404, 400.
    """
    return _set("unknown.dismiss", UnknownCause.DISMISSED, asked)


def reopen_cause(**asked: Unpack[Leaving]) -> Done[UnknownCause]:
    """Let it wait for a name again. Raises Refused: 403, 404, 400."""
    return _set("unknown.reopen", UnknownCause.OPEN, asked)


def _set(verb: str, state: str, asked: Any) -> Done[UnknownCause]:
    fingerprint = asked["fingerprint"]
    held = _require_known("propose_policy", asked)
    about = f"unknown cause {fingerprint}"
    attempt = Attempt.of(verb, "propose_policy", Scope(), asked, about=about, is_for_agents=False)

    def write(revision: int) -> Step[UnknownCause]:
        found = UnknownCause.objects.filter(environment=attempt.environment, fingerprint=fingerprint).first()
        before = UnknownCause.OPEN if found is None else found.state
        if before == state:
            same = found or UnknownCause(environment=attempt.environment, fingerprint=fingerprint, at=attempt.now)
            return Step(object=same, revision=revision, was_already=True)
        made = _write(attempt.environment, fingerprint, state, attempt.reason, asked, attempt.now)
        after = {"fingerprint": fingerprint, "state": state}
        return Step(object=made, revision=revision, before={"state": before}, after=after)

    with attempt.noted():
        attempt.check()
        if not held:
            raise _unknown(asked)
        return carry_out(attempt, write, recall=_recalled)


def _require_known(permission: str, asked: Any) -> bool:
    """Whether anybody knows the cause; raises Refused (404) to whoever may ask where nobody does."""
    environment, fingerprint = asked["environment"], asked["fingerprint"]
    is_named = 0 < len(fingerprint) <= NAME_CHARS and fingerprint.isprintable()
    if is_named and UnknownCause.objects.filter(environment=environment, fingerprint=fingerprint).exists():
        return True
    now = asked.get("now") or timezone.now()
    if is_named and unknown_cause(environment, fingerprint, start=now - LOOK_BACK, end=now) is not None:
        return True
    require(asked["by"], permission, environment)
    raise _unknown(asked)


def _unknown(asked: Any) -> Refused:
    detail = f"No failure of the last 7 days in {asked['environment']} is unknown under this fingerprint."
    return Refused("unknown_cause", detail, status=UNKNOWN, fields={"fingerprint": "is not known"})


def _note(asked: Any, state: str, proposal: PolicyProposal) -> None:
    now = asked.get("now") or timezone.now()
    made = _write(asked["environment"], asked["fingerprint"], state, asked["reason"], asked, now)
    made.proposal = proposal
    made.save(update_fields=["proposal"])


def _write(environment: str, fingerprint: str, state: str, reason: str, asked: Any, now: Any) -> UnknownCause:
    said = {"state": state, "reason": reason[:REASON_CHARS], "at": now}
    said |= {"by": asked["by"].name, "by_user_id": asked["by"].user_id}
    made, _ = UnknownCause.objects.update_or_create(environment=environment, fingerprint=fingerprint, defaults=said)
    return made


def _recalled(entry: AuditEntry) -> UnknownCause:
    return UnknownCause.objects.get(environment=entry.environment, fingerprint=entry.after["fingerprint"])
