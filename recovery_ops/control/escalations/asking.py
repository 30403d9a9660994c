"""The questions asked of escalations: a queue, sorted by what is due, and one of them with its story."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Q, QuerySet

from recovery_ops.control.escalations.terms import asks_of, matter_of, whose_of
from recovery_ops.control.models import Escalation, EscalationNote
from recovery_ops.rules.escalations import QUESTION, REASONS

TABS = ("open", "unacknowledged", "mine", "snoozed", "resolved")
ROWS_MOST = 200
RESOLVED_FOR = timedelta(days=7)
SIMILAR_MOST = 5
_PROPOSED_CHARS = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """One deadline: when it is, how much of its time is left (0 to 1), whether it was kept, is running or is over.

    `took` is None while it runs, and where it ended without anybody.
    """

    ends: datetime
    share_left: float
    is_running: bool
    is_breached: bool
    took: timedelta | None = None


def proposed_by(one: Escalation) -> str:
    """`Proposed: 40 EUR`, on one line; empty where nothing is."""
    words = " ".join(one.proposal.split())
    return f"Proposed: {words[:_PROPOSED_CHARS]}{'…' if len(words) > _PROPOSED_CHARS else ''}" if words else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EscalationRow:
    """One escalation as pages and programs read it."""

    one: Escalation
    acknowledging: Clock
    resolving: Clock
    notes: int

    @property
    def number(self) -> int:
        return self.one.pk

    @property
    def is_question(self) -> bool:
        """Whether the agent asks in its own words, or for a reason that nobody here knows."""
        return bool(self.one.message) and (self.one.reason == QUESTION or self.one.reason not in REASONS)

    @property
    def question(self) -> str:
        """What a person is to decide."""
        return self.one.message if self.is_question else asks_of(self.one.reason, self.one.category)

    @property
    def asks(self) -> str:
        """The question, and in one line what is proposed."""
        proposed = proposed_by(self.one)
        return f"{self.question} {proposed}" if proposed else self.question

    @property
    def title(self) -> str:
        """`charge_card: policy_denied`."""
        return title_of(self.one)

    @property
    def is_breached(self) -> bool:
        """Whether a deadline has passed that nobody dealt with; what silence said by then is dealt with."""
        return not self.one.is_defaulted and (self.acknowledging.is_breached or self.resolving.is_breached)

    @property
    def due(self) -> datetime:
        """The deadline that comes next."""
        running = [clock.ends for clock in (self.acknowledging, self.resolving) if clock.is_running]
        return min(running, default=self.resolving.ends)


def title_of(one: Escalation) -> str:
    """What it is about, wherever it is named: `charge_card: policy_denied`, `a run of billing: error budget spent`."""
    return f"{whose_of(one.operation, one.service)}: {matter_of(one.reason, one.category)}"


def rows_of(environment: str, tab: str, *, by: int | None, now: datetime, queue: str = "") -> list[EscalationRow]:
    """The escalations of one tab, what is breached first, then what is due soonest; at most 200. One query.

    Last comes what is open although its default was carried out.
    """
    found = _in_tab(Escalation.objects.filter(environment=environment), tab, by=by, now=now)
    if queue:
        found = found.filter(queue=queue)
    order = "-resolved_at" if tab == "resolved" else "resolve_by"
    counted = found.annotate(note_count=Count("notes", filter=Q(notes__verb="note"))).order_by(order, "pk")
    rows = [row_of(one, now, notes=one.note_count) for one in counted[:ROWS_MOST]]
    return rows if tab == "resolved" else sorted(rows, key=_urgency)


def counts_of(environment: str, *, by: int | None, now: datetime) -> dict[str, int]:
    """How many stand in each tab. One query."""
    every = Escalation.objects.filter(environment=environment)
    waiting = Q(resolved_at=None)
    awake = waiting & (Q(snoozed_until=None) | Q(snoozed_until__lte=now))
    return every.aggregate(
        open=Count("pk", filter=awake),
        unacknowledged=Count("pk", filter=awake & Q(acknowledged_at=None)),
        mine=Count("pk", filter=waiting & _mine(by)),
        snoozed=Count("pk", filter=waiting & Q(snoozed_until__gt=now)),
        resolved=Count("pk", filter=Q(resolved_at__gte=now - RESOLVED_FOR)),
    )


def queues_of(environment: str) -> list[str]:
    """The queues in which something is open. One query."""
    waiting = Escalation.objects.filter(environment=environment, resolved_at=None)
    return list(waiting.order_by("queue").values_list("queue", flat=True).distinct())


def unacknowledged(environment: str, now: datetime) -> int:
    """How many nobody has taken. One query."""
    waiting = Escalation.objects.filter(environment=environment, resolved_at=None, acknowledged_at=None)
    return waiting.exclude(snoozed_until__gt=now).count()


def find(environment: str, number: int) -> Escalation | None:
    """One escalation."""
    return Escalation.objects.filter(environment=environment, pk=number).first()


def story_of(one: Escalation) -> Sequence[EscalationNote]:
    """What was said and done, newest first."""
    return list(one.notes.order_by("-at", "-pk"))


def similar_to(one: Escalation) -> Sequence[Escalation]:
    """Earlier ones about the same operation or of the same category, that were resolved; newest first."""
    alike = Q(operation=one.operation) | Q(category=one.category) if one.category else Q(operation=one.operation)
    before = Escalation.objects.filter(alike, environment=one.environment, merged_into=None).exclude(pk=one.pk)
    return list(before.exclude(resolved_at=None).order_by("-resolved_at")[:SIMILAR_MOST])


def row_of(one: Escalation, now: datetime, *, notes: int = 0) -> EscalationRow:
    """One escalation with its clocks as they stand now."""
    taken = one.acknowledged_at or one.resolved_at
    # Given to another queue or opened again, its time begins anew; a run that waits for less has less from the start.
    to_take, to_resolve = (
        max(one.opened_at, ends - length)
        for ends, length in ((one.acknowledge_by, one.acknowledge_in), (one.resolve_by, one.resolve_in))
    )
    return EscalationRow(
        one=one,
        acknowledging=_clock(to_take, one.acknowledge_by, taken, now, stopped=one.default_done_at),
        resolving=_clock(to_resolve, one.resolve_by, one.resolved_at, now, stopped=one.default_done_at),
        notes=notes,
    )


def _urgency(row: EscalationRow) -> tuple[bool, bool, datetime, int]:
    return row.one.is_defaulted, not row.is_breached, row.due, row.number


def _mine(by: int | None) -> Q:
    """Nothing is a program's own: what is assigned to nobody is not, either."""
    return Q(pk__in=[]) if by is None else Q(assignee_id=by)


def _clock(
    began: datetime, ends: datetime, kept: datetime | None, now: datetime, *, stopped: datetime | None = None
) -> Clock:
    """`stopped`: when the default was carried out, by which every clock ends that had run out."""
    if kept is None and stopped is not None and ends <= stopped:
        return Clock(ends=ends, share_left=0.0, is_running=False, is_breached=True)
    until = kept or now
    length = max((ends - began).total_seconds(), 1.0)
    return Clock(
        ends=ends,
        share_left=max(0.0, min(1.0, (ends - until).total_seconds() / length)),
        is_running=kept is None,
        is_breached=until > ends,
        took=None if kept is None else kept - began,
    )


def _in_tab(found: QuerySet[Escalation], tab: str, *, by: int | None, now: datetime) -> QuerySet[Escalation]:
    if tab == "resolved":
        return found.filter(resolved_at__gte=now - RESOLVED_FOR)
    waiting = found.filter(resolved_at=None)
    if tab == "snoozed":
        return waiting.filter(snoozed_until__gt=now)
    if tab == "mine":
        return waiting.filter(_mine(by))
    awake = waiting.exclude(snoozed_until__gt=now)
    return awake.filter(acknowledged_at=None) if tab == "unacknowledged" else awake
