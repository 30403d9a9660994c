"""What is done about causes that nobody could name: a rule is proposed, or they are left unknown knowingly."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Required, Unpack

from django.utils import timezone

from events.failures.unknown import unknown_cause
from recovery_ops.control.core.commands import (
    Change,
    Command,
    CommandContext,
    CommandResult,
    execute,
    require_permission,
)
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.policies.models.policies import TITLE_CHARS, PolicyProposal
from recovery_ops.control.policies.models.unclassified import UnknownCause
from recovery_ops.control.policies.services.proposals import propose
from recovery_ops.rules.policy.scope import Scope

LOOK_BACK = timedelta(days=7)
"""How far back causes are looked for."""


class Naming(CommandContext):
    """What `propose_rule` is given: a cause, and a rule of the policy's section `classification`."""

    fingerprint: Required[str]
    rule: Required[Mapping[str, Any]]


class Leaving(CommandContext):
    """What `dismiss_cause` and `reopen_cause` are given: a cause."""

    fingerprint: Required[str]


def propose_rule(**asked: Unpack[Naming]) -> CommandResult[PolicyProposal]:
    """Draft a proposal that adds the rule behind those of the live policy.

    Raises CommandRejected: 403, 404 for a cause that nobody reported, 400 by the path in the document.
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
    if not (done.is_dry_run or _is_noted(asked, done.object)):
        _note(asked, UnknownCause.PROPOSED, done.object)
    return done


def dismiss_cause(**asked: Unpack[Leaving]) -> CommandResult[UnknownCause]:
    """Leave it unknown, and say why. It is not shown as waiting any more; agents ask as before.

    Raises CommandRejected: 403, 404, 400.
    """
    return _set("unknown.dismiss", UnknownCause.DISMISSED, asked)


def reopen_cause(**asked: Unpack[Leaving]) -> CommandResult[UnknownCause]:
    """Let it wait for a name again. Raises CommandRejected: 403, 404, 400."""
    return _set("unknown.reopen", UnknownCause.OPEN, asked)


def _set(verb: str, state: str, asked: Any) -> CommandResult[UnknownCause]:
    fingerprint = asked["fingerprint"]
    held = _require_known("propose_policy", asked)
    about = f"unknown cause {fingerprint}"
    command = Command.of(verb, Scope(), asked, about=about)

    def write(revision: int) -> Change[UnknownCause]:
        found = UnknownCause.objects.filter(environment=command.environment, fingerprint=fingerprint).first()
        before = UnknownCause.OPEN if found is None else found.state
        if before == state:
            same = found or UnknownCause(environment=command.environment, fingerprint=fingerprint, at=command.now)
            return Change(object=same, revision=revision, was_already=True)
        made = _write(command.environment, fingerprint, state, command.reason, asked, command.now)
        after = {"fingerprint": fingerprint, "state": state}
        return Change(object=made, revision=revision, before={"state": before}, after=after)

    with command.noted():
        command.check()
        if not held:
            raise _unknown(asked)
        return execute(command, write, recall=_recalled)


def _require_known(permission: str, asked: Any) -> bool:
    """Whether anybody knows the cause; raises Refused (404) to whoever may ask where nobody does."""
    environment, fingerprint = asked["environment"], asked["fingerprint"]
    is_named = 0 < len(fingerprint) <= NAME_CHARS and fingerprint.isprintable()
    if is_named and UnknownCause.objects.filter(environment=environment, fingerprint=fingerprint).exists():
        return True
    now = asked.get("now") or timezone.now()
    if is_named and unknown_cause(environment, fingerprint, start=now - LOOK_BACK, end=now) is not None:
        return True
    require_permission(asked["by"], permission, environment)
    raise _unknown(asked)


def _unknown(asked: Any) -> CommandRejected:
    detail = f"{asked['environment']} has no unknown failure with this fingerprint in the last 7 days."
    return CommandRejected("unknown_cause", detail, status=NOT_FOUND, fields={"fingerprint": "is unknown"})


def _is_noted(asked: Any, proposal: PolicyProposal) -> bool:
    """Whether a request before, with the same idempotency key, noted it: what was done since then stays."""
    noted = UnknownCause.objects.filter(environment=asked["environment"], fingerprint=asked["fingerprint"])
    return noted.filter(proposal=proposal).exists()


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
