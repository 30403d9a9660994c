"""What people said about which capacity event: questions to queues and notes, whatever it is one with now."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import BooleanField, CharField, DateTimeField, ExpressionWrapper, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce

from events.capacity.asking import numbers_of
from events.capacity.models import CapacityEvent
from events.capacity.rows import CapacityEventRow
from recovery_ops.control.capacity.models import CapacityNote
from recovery_ops.control.escalations.models import Escalation

SAID_MOST = 100
_OPEN_MOST = 1_000
_COLUMNS = (
    "is_open",
    "is_question",
    "pk",
    "event",
    "when",
    "who",
    "said",
    "resolved_at",
    "resolved_by",
    "resolution",
    "owner",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A question or a note: about which number, when, to which queue or by whom, and what came of a question."""

    is_open: bool
    """Whether it is a question that nobody has resolved."""
    is_question: bool
    pk: int
    event: int
    when: datetime
    who: str
    said: str
    resolved_at: datetime | None
    resolved_by: str
    resolution: str
    owner: str


def said_of(environment: str, row: CapacityEventRow) -> tuple[list[Said], list[Said]]:
    """The newest questions about an event and its parts, the open ones first, and the newest notes. One query."""
    numbers, empty = numbers_of(row, environment), Value("", output_field=CharField())
    asked = Escalation.objects.filter(environment=environment, merged_into=None, capacity_event__in=numbers)
    unresolved = ExpressionWrapper(Q(resolved_at=None), output_field=BooleanField())
    noted = CapacityNote.objects.filter(environment=environment, event__in=numbers)
    never: Value = Value(None, output_field=DateTimeField(null=True))
    questions = (
        asked.order_by()
        .annotate(is_unresolved=unresolved)
        .values_list(
            "is_unresolved",
            Value(True, output_field=BooleanField()),  # a column of the union
            *("pk", "capacity_event", "opened_at", "queue", "message"),
            *("resolved_at", "resolved_by", "resolution", "assigned_to"),
        )
    )
    notes = (
        noted.order_by()
        .annotate(is_unresolved=Value(False, output_field=BooleanField()))
        .values_list(
            "is_unresolved",
            Value(False, output_field=BooleanField()),
            *("pk", "event", "at", "by", "text"),
            *(never, empty, empty, empty),
        )
    )
    # What is open comes first, or notes would push it out.
    read = questions.union(notes, all=True).order_by("-is_unresolved", "-opened_at")[:SAID_MOST]
    found = [Said(**dict(zip(_COLUMNS, one, strict=True))) for one in read]
    return [one for one in found if one.is_question], [one for one in found if not one.is_question]


def open_by_event(environment: str) -> dict[int, int]:
    """The newest open question about each event, by the number of the whole that it is now. One query."""
    about = CapacityEvent.objects.filter(environment=environment, pk=OuterRef("capacity_event"))
    whole = Coalesce("merged_into__part_of_id", "merged_into_id", "part_of_id", "id")
    asked = Escalation.objects.filter(environment=environment, resolved_at=None, capacity_event__isnull=False)
    told = asked.annotate(whole=Subquery(about.values(found=whole)[:1])).order_by("-pk")
    found: dict[int, int] = {}
    for number, event in told.values_list("pk", "whole")[:_OPEN_MOST]:
        found.setdefault(event, number)
    return found
