"""A pasted failure under policies: what each makes of it and what it would do next. Nothing of it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from events.derived.pasted import ReadAs, signal_in
from events.otlp.sent import Fault
from recovery_ops.control.breakers.precedence import placed
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.rules.classification.classify import Failure, Signal, classify
from recovery_ops.rules.policy.model import Policy, parse_policy
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.resilience.forecast import Foreseen, foresee

TEXT_CHARS = 20_000
_NAME_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Pasted:
    """What is asked: an error as it was pasted, where it happened, and who waits for the call."""

    text: str
    status: int | None = None
    operation: str = ""
    service: str = ""
    kind: str = "operation"
    is_foreground: bool = True
    is_repeatable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Under:
    """What one policy makes of it."""

    name: str
    failure: Failure
    foreseen: Foreseen


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """As what the text was read, and what each policy makes of it: the live one, then the draft, if one was named."""

    read_as: ReadAs
    policies: tuple[Under, ...]


def told_of(environment: str, asked: Pasted, *, draft: int | None, now: datetime) -> Told:
    """Raises CommandRejected (400) for what cannot be read, and for a draft that there is not."""
    if not asked.text.strip() or len(asked.text) > TEXT_CHARS:
        fault = f"must have 1 to {TEXT_CHARS:,} characters"
        raise CommandRejected("invalid", f"The error text {fault}.", fields={"text": fault})
    if asked.status is not None and not 100 <= asked.status <= 599:
        fault = f"is {asked.status}; use 100 to 599"
        raise CommandRejected("invalid", f"The HTTP status {fault}.", fields={"status": fault})
    try:
        signal, read_as = signal_in(asked.text, status=asked.status)
    except Fault as fault:
        raise CommandRejected(
            "invalid", f"The log record cannot be read: {fault}.", fields={"text": str(fault)}
        ) from fault
    place = _place(environment, asked, now)
    live = live_policy(environment)
    found = [_under(live.name, live.document, live.version, signal, place, asked, now)]
    if draft is not None:
        proposal = PolicyProposal.objects.filter(environment=environment, number=draft).first()
        if proposal is None:
            raise CommandRejected("invalid", f"Draft {draft} does not exist.", fields={"draft": "is unknown"})
        name = f"draft {proposal.number}, {proposal.title}"
        found.append(_under(name, proposal.document, f"draft-{proposal.number}", signal, place, asked, now))
    return Told(read_as=read_as, policies=tuple(found))


def _place(environment: str, asked: Pasted, now: datetime) -> Place:
    operation = asked.operation[:_NAME_CHARS]
    at = Place(operation=operation, breaker=operation, service=asked.service[:_NAME_CHARS], instance="", group="")
    return placed(environment, at, now=now)


def _under(
    name: str,
    document: Mapping[str, Any],
    version: str,
    signal: Signal,
    place: Place,
    asked: Pasted,
    now: datetime,
) -> Under:
    policy: Policy = parse_policy(document, version=version)
    failure = classify(
        signal,
        now=now,
        rules=policy.classification,
        operation=place.operation,
    )
    foreseen = foresee(
        failure, policy, place, kind=asked.kind, is_foreground=asked.is_foreground, is_repeatable=asked.is_repeatable
    )
    return Under(name=name, failure=failure, foreseen=foreseen)
