"""What stands in the tables after a drill of the background work, in words that are the same on every engine."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from events.capacity.models import CapacityEvent
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.notifications.models.notifications import Delivery, Notification
from recovery_ops.drill.questions import ASKED, WAITS, Expected


@dataclass(slots=True)
class Found:
    """Rows as lists of words, in order; two drills of the same facts find the same."""

    outages: list[list[Any]] = field(default_factory=list)
    """Provider, model, first and last failure, how many, runs, instances."""
    questions: list[list[Any]] = field(default_factory=list)
    """Queue, operation, ticket, how many facts asked, how it ended and by whom, the verbs of its story."""
    told: list[list[Any]] = field(default_factory=list)
    """Rule, kind, what about, which step, and how often."""

    @staticmethod
    def of(environment: str) -> Found:
        """What stands there now."""
        names = _names(environment)
        return Found(
            outages=sorted(_outage(one) for one in CapacityEvent.objects.filter(environment=environment)),
            questions=sorted(_question(one) for one in Escalation.objects.filter(environment=environment)),
            told=sorted([*key, count] for key, count in _told(environment, names).items()),
        )

    def document(self) -> dict[str, Any]:
        """As it travels between processes."""
        return asdict(self)


@dataclass(slots=True)
class Counts:
    """What a drill counted, beside what it found."""

    messages: int = 0
    """Made: one for each thing that is told, or for several together."""
    arrived: int = 0
    """Of those, how many the receiver counted at least once."""
    in_doubt: int = 0
    twice: int = 0
    """Messages that the receiver counted more than once: sent twice."""
    lost: int = 0
    """Things that should be there and are not: outages, questions, decisions, messages; sent ones that never came."""
    doubled: int = 0
    """Things that are there twice, or that nobody asked for."""
    which: list[str] = field(default_factory=list)
    """The lost and doubled ones, in words."""


def judge(environment: str, expected: Expected, got: Counter[int], revisions: int) -> tuple[Counts, list[str]]:
    """Hold the tables against what must stand there, and the receiver's counts against the tables.

    `revisions` is how many there were before the first question.
    """
    found, counts, problems = Found.of(environment), Counts(), []
    _judge_messages(environment, got, counts)
    _compare("outage", Counter(tuple(one[:5]) for one in found.outages), Counter(expected.outages), counts)
    _compare("question", _asked(found), _must_ask(expected), counts)
    _compare("message", _by_kind(found), expected.messages, counts)
    decided = current_revision(environment) - revisions
    if decided != len(expected.decided):
        problems.append(f"{decided} revisions for {len(expected.decided)} decisions")
    deeds = AuditEntry.objects.filter(environment=environment, verb="escalation.default").count()
    counts.doubled += max(0, deeds - len(expected.decided))
    report = verify_chain(environment)
    if not report.is_whole:
        problems.append(f"the audit log is not whole: {report.problem}")
    return counts, problems


def is_settled(environment: str, expected: Expected) -> bool:
    """Whether everything has happened that must, and nothing is still on its way."""
    decided = Escalation.objects.filter(environment=environment).exclude(resolved_at=None)
    if decided.count() < len(expected.decided):
        return False
    if Notification.objects.filter(environment=environment).count() < expected.messages.total():
        return False
    held = Notification.objects.filter(environment=environment, delivery=None)
    unfinished = Delivery.objects.filter(environment=environment, state__in=Delivery.UNFINISHED)
    seen = CapacityEvent.objects.filter(environment=environment).values_list("failures", flat=True)
    if {one[4] for one in expected.outages} - set(seen):
        return False
    return not (held.exists() or unfinished.exists())


def _judge_messages(environment: str, got: Counter[int], counts: Counts) -> None:
    states = dict(Delivery.objects.filter(environment=environment).values_list("pk", "state"))
    counts.messages = len(states)
    counts.arrived = sum(got[number] > 0 for number in states)
    counts.in_doubt = sum(state == Delivery.UNKNOWN for state in states.values())
    counts.twice = sum(count > 1 for count in got.values()) + sum(number not in states for number in got)
    counts.doubled += counts.twice
    never = [number for number, state in states.items() if state != Delivery.UNKNOWN and not got[number]]
    counts.lost += len(never)
    counts.which += [f"lost: delivery {number}, {states[number]}" for number in never]


def _compare(what: str, found: Counter[Any], expected: Counter[Any], counts: Counts) -> None:
    for word, some in (("lost", expected - found), ("doubled", found - expected)):
        setattr(counts, word, getattr(counts, word) + some.total())
        counts.which += [f"{word}: {what} {one} × {count}" for one, count in some.items()]


def _asked(found: Found) -> Counter[tuple[Any, ...]]:
    return Counter((queue, about, ticket, facts, ended) for queue, about, ticket, facts, ended, *_ in found.questions)


def _must_ask(expected: Expected) -> Counter[tuple[Any, ...]]:
    open_ = [(ASKED, operation, "", facts, "") for operation, facts in expected.open.items()]
    waits = [(WAITS, f"tool-{int(ticket[-4:])}", ticket, 1, ended) for ticket, ended in expected.decided.items()]
    return Counter([*open_, *waits])


def _by_kind(found: Found) -> Counter[tuple[str, str]]:
    counted: Counter[tuple[str, str]] = Counter()
    for rule, kind, _, _, count in found.told:
        counted[rule, kind] += count
    return counted


def _outage(one: CapacityEvent) -> list[Any]:
    return [one.provider, one.model, one.started_us, one.last_us, one.failures, one.runs, one.instances]


def _question(one: Escalation) -> list[Any]:
    story = EscalationNote.objects.filter(escalation=one).order_by("at", "pk")
    ended = [one.resolution, one.resolved_by, one.default_action, " ".join(story.values_list("verb", flat=True))]
    return [one.queue, one.operation, one.ticket, one.occurrences, *ended]


def _names(environment: str) -> dict[str, str]:
    """What is called by its number, by a name that no order of events changes."""
    questions = Escalation.objects.filter(environment=environment)
    outages = CapacityEvent.objects.filter(environment=environment)
    return {str(one): one.ticket or one.operation for one in questions} | {f"CE-{one.pk}": str(one) for one in outages}


def _told(environment: str, names: dict[str, str]) -> Counter[tuple[str, str, str, str]]:
    told = Notification.objects.filter(environment=environment).select_related("rule")
    return Counter(
        (
            one.rule.name if one.rule else "chain",
            one.kind,
            names.get(one.subject, one.subject),
            one.event if one.event.startswith("round") else "",
        )
        for one in told
    )
