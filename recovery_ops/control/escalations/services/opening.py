"""Facts that ask for a person become escalations: each fact once, many of one kind together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from events.models import Fact
from events.moments import from_us, to_us
from events.queries.readings import Attributes, number_or_none, text_of
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.models.bases import NAME_CHARS, REASON_CHARS
from recovery_ops.control.demonstration.selectors import observed_since
from recovery_ops.control.escalations.models import (
    ANSWER_CHARS,
    MESSAGE_CHARS,
    Escalation,
    EscalationNote,
    EscalationSource,
)
from recovery_ops.control.escalations.services.merging import NAMED_MOST, Merged, merged_into_open, named
from recovery_ops.control.escalations.services.withdrawing import ask_anew, is_back
from recovery_ops.control.escalations.terms import asks_of, saved_runs_of, terms_now
from recovery_ops.rules.events import BudgetExhausted, Escalated, ReversalRefused, RunStopped
from recovery_ops.rules.policy.escalation_rules import LONGEST_DEADLINE_S
from recovery_ops.rules.policy.escalation_terms import Terms, default_of, kind_of
from recovery_ops.rules.run_limits import ERRORS, REPEATED_CALLS, TURNS
from recovery_ops.rules.spending import SPEND_CAP
from recovery_ops.wire import names

LOOKED_BACK = timedelta(days=2)
"""How late a fact may come and still be put to somebody."""
FACTS_MOST = 1000
"""Facts read in one look; the rest is for the next, a moment later."""
AT_ONCE = 50
"""Facts put to people in one transaction: nobody else writes for so long, and a thousand need few of them."""
ASKED, REFUSED = names.EVENTS[Escalated].name, names.EVENTS[ReversalRefused].name
SPENT, STOPPED = names.EVENTS[BudgetExhausted].name, names.EVENTS[RunStopped].name
ASKING = (ASKED, REFUSED, SPENT, STOPPED)
"""The events that ask for a person."""
_ASKED = Attributes(
    Escalated, "queue", "reason", "escalation_id", "message", "proposal", "deadline_s", "default_action"
)
_REFUSED = Attributes(ReversalRefused, "reason")
_SPENT = Attributes(BudgetExhausted, "budget", "spent", "limit")
_STOPPED = Attributes(RunStopped, "reason", "message")


def open_escalations(environment: str, now: datetime) -> int:
    """Put what was asked lately to people; return how many questions are new. May be lost, doubled, or run twice."""
    unseen = _unseen(environment, now)
    terms = terms_now(environment) if unseen else {}
    parts = (unseen[start : start + AT_ONCE] for start in range(0, len(unseen), AT_ONCE))
    return sum(_take(environment, part, terms, now) for part in parts)


def _unseen(environment: str, now: datetime) -> Sequence[Fact]:
    """Oldest first; index `fact_by_event`. What was seen stays in the database: runs are stopped by the thousand."""
    seen = EscalationSource.objects.filter(environment=environment, uid=OuterRef("uid"))
    asking = Fact.objects.filter(
        ~Exists(seen),
        environment=environment,
        event__in=ASKING,
        at_us__gte=to_us(observed_since(environment, now - LOOKED_BACK, now)),
    )
    return list(reversed(asking.select_related("agent").order_by("-at_us", "-id")[:FACTS_MOST]))


@transaction.atomic
def _take(environment: str, facts: Sequence[Fact], terms: Mapping[str, Terms], now: datetime) -> int:
    """Put what some facts ask to people, all of it or nothing; return how many questions are new."""
    audit.lock(environment)
    theirs = EscalationSource.objects.filter(environment=environment, uid__in=[fact.uid for fact in facts])
    seen = {bytes(uid) for uid in theirs.values_list("uid", flat=True)}
    merged = merged_into_open(environment)
    sources: list[EscalationSource] = []
    notes: list[EscalationNote] = []
    for fact in facts:
        if bytes(fact.uid) in seen:
            continue
        seen.add(bytes(fact.uid))
        question = _question(fact)
        held = _held(fact, question, merged)
        if held is None:
            escalation = _opened(fact, question, terms, now)
            notes.append(_first_note(escalation))
        else:
            if is_back(held, from_us(fact.at_us)):
                _ask_anew(held, fact, question, terms, now)
            escalation = _asked_again(held, fact)
        sources.append(
            EscalationSource(environment=environment, uid=fact.uid, escalation=escalation, at=from_us(fact.at_us))
        )
    EscalationNote.objects.bulk_create(notes)
    EscalationSource.objects.bulk_create(sources)
    return len(notes)


def _asked_again(held: Escalation, fact: Fact) -> Escalation:
    # The end of a run is told by up to three facts: what was asked, the budget that is spent, the stop itself.
    is_told = fact.event in (SPENT, STOPPED) and fact.run in held.runs
    runs = named(held.runs, fact.run)
    Escalation.objects.filter(pk=held.pk).update(
        occurrences=F("occurrences") + int(not is_told),
        seen_at=max(held.seen_at, from_us(fact.at_us)),
        instances=named(held.instances, fact.agent.instance),
        runs=runs,
        saved_runs=saved_runs_of(fact.environment, held.default_action, runs),
    )
    return held


def _held(fact: Fact, question: dict[str, Any], merged: Sequence[Merged]) -> Escalation | None:
    """The escalation that asks the same: an open one, or that of this ticket, which has its answer for good.

    What people merged into another one is asked there, as long as that is open.
    """
    here = Escalation.objects.filter(environment=fact.environment)
    same = here.filter(key=question["key"])
    held = (same if question["ticket"] else same.filter(resolved_at=None)).order_by("-pk").first()
    if held is None and (into := max((one.into for one in merged if one.key == question["key"]), default=None)):
        held = here.get(pk=into)
    if held is not None or fact.event != STOPPED or not fact.category:
        return held
    # What stopped the run was put to somebody by the rules already, in a queue of its kind.
    about = (fact.operation, fact.category)
    alike = [one.into for one in merged if (one.operation, one.category) == about]
    asked = here.filter(Q(operation=fact.operation, category=fact.category) | Q(pk__in=alike), resolved_at=None)
    return next((one for one in asked.order_by("-pk")[:NAMED_MOST] if fact.run in one.runs), None)


def _question(fact: Fact) -> dict[str, Any]:
    """What a fact asks, and the key that makes two facts ask the same; the queue in it is that of the fact."""
    said = _SAID[fact.event](fact)
    queue, reason = text_of(said["queue"]) or "unclassified", text_of(said["reason"]) or fact.category or "unknown"
    ticket = text_of(said.get("escalation_id"))[:NAME_CHARS]
    # A budget is a run's: what it went on is chance, so the service is what its questions have in common.
    about = ["", fact.agent.service] if queue == BUDGETS else [fact.category, fact.operation]
    parts = [queue, reason, *about, ticket]
    return {
        "key": hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).hexdigest(),
        "queue": queue[:NAME_CHARS],
        "reason": reason[:NAME_CHARS],
        "ticket": ticket,
        "message": (text_of(said["message"]) or fact.body)[:MESSAGE_CHARS],
        "proposal": text_of(said.get("proposal"))[:ANSWER_CHARS],
        "deadline_s": number_or_none(said.get("deadline_s")),
        "default_action": text_of(said.get("default_action")),
    }


def _refused(fact: Fact) -> dict[str, Any]:
    said = _REFUSED.of(fact.attributes)
    return {"queue": "reversals", "reason": "reversal_refused", "message": said["reason"]}


def _spent(fact: Fact) -> dict[str, Any]:
    said = _SPENT.of(fact.attributes)
    spent, limit = number_or_none(said["spent"]), number_or_none(said["limit"])
    counts = f": {spent:g} of {limit:g}" if spent is not None and limit is not None else ""
    message = f"The run reached its {text_of(said['budget']) or ERRORS} limit{counts}."
    return {"queue": BUDGETS, "reason": text_of(said["budget"]) or ERRORS, "message": message}


def _stopped(fact: Fact) -> dict[str, Any]:
    said = _STOPPED.of(fact.attributes)
    reason = text_of(said["reason"])
    return {"queue": BUDGETS if reason in (ERRORS, TURNS, REPEATED_CALLS, SPEND_CAP) else "stopped_runs", **said}


BUDGETS = "budgets"
_SAID: dict[str, Callable[[Fact], dict[str, Any]]] = {
    ASKED: lambda fact: _ASKED.of(fact.attributes),
    REFUSED: _refused,
    SPENT: _spent,
    STOPPED: _stopped,
}


def _opened(fact: Fact, question: dict[str, Any], table: Mapping[str, Terms], now: datetime) -> Escalation:
    """A new one. Its clocks start when it is opened: nobody could answer what nobody had heard of."""
    kind = kind_of(question["reason"], fact.category)
    terms, waits = table[kind], bool(question["ticket"])
    allowed = _allowed(question["deadline_s"] if waits else None, terms)
    asked_at = from_us(fact.at_us)
    # The run that waits counts from when it asked.
    resolve_by = max(now, asked_at + allowed) if waits else now + allowed
    runs = named([], fact.run)
    default_action = default_of(question["default_action"], kind, terms, waits=waits)
    return Escalation.objects.create(
        environment=fact.environment,
        key=question["key"],
        ticket=question["ticket"],
        queue=terms.queue or question["queue"],
        reason=question["reason"],
        category=fact.category,
        operation=fact.operation,
        message=question["message"],
        proposal=question["proposal"],
        service=fact.agent.service,
        instances=named([], fact.agent.instance),
        runs=runs,
        saved_runs=saved_runs_of(fact.environment, default_action, runs),
        occurrences=1,
        opened_at=now,
        seen_at=asked_at,
        severity=terms.severity,
        acknowledge_in_s=terms.acknowledge_in_s,
        resolve_in_s=(resolve_by - now).total_seconds(),
        acknowledge_by=min(now + timedelta(seconds=terms.acknowledge_in_s), resolve_by),
        resolve_by=resolve_by,
        default_action=default_action,
    )


def _ask_anew(
    held: Escalation, fact: Fact, question: dict[str, Any], table: Mapping[str, Terms], now: datetime
) -> None:
    """What was withdrawn is asked by a run that was begun again: as it asks now, and for as long as it waits now."""
    kind = kind_of(question["reason"], fact.category)
    terms = table[kind]
    ask_anew(
        held,
        max(now, from_us(fact.at_us) + _allowed(question["deadline_s"], terms)),
        now,
        message=question["message"],
        proposal=question["proposal"],
        default_action=default_of(question["default_action"], kind, terms, waits=True),
    )


def _first_note(escalation: Escalation) -> EscalationNote:
    text = escalation.message[:REASON_CHARS] or asks_of(escalation.reason, escalation.category)
    return EscalationNote(escalation=escalation, at=escalation.opened_at, by="console", verb="opened", text=text)


def _allowed(deadline_s: float | None, terms: Terms) -> timedelta:
    """How long an agent says that it waits; what is no such time is as if it had said none."""
    if deadline_s is None or deadline_s <= 0:
        return timedelta(seconds=terms.resolve_in_s)
    return timedelta(seconds=min(deadline_s, LONGEST_DEADLINE_S))
