"""The questions asked of escalations: a queue, sorted by what is due, and one of them with its story."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Case, Count, F, IntegerField, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce, Concat, Least

from events import queries
from events.moments import from_us, to_us
from events.pages.narrowing import set_aside
from recovery_ops.control.core.cursors import Place, cut
from recovery_ops.control.desired_state.document import ABORTS_KEPT
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.terms import asks_of, matter_of, whose_of
from recovery_ops.control.runs.models.aborts import RunAbort
from recovery_ops.rules.policy.escalation_rules import QUESTION, REASONS
from recovery_ops.rules.policy.escalation_terms import SEVERITIES

TABS = ("open", "unacknowledged", "mine", "snoozed", "resolved")
ROWS_MOST = 200
RESOLVED_FOR = timedelta(days=7)
SIMILAR_MOST = 5
_ALIKE_MOST = 50
DUES = ("late", "soon")
SOON = timedelta(minutes=15)
NOBODY = "nobody"
_PROPOSED_CHARS = 140
_TOLD = ("note", "withdraw", "reopen")
"""What the list tells of a story."""
_ENDS = ("resolve", "approve", "reject")
"""Acts whose words say what was done about it."""


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
    last_note: str = ""
    """`ana: the vendor knows`, where it was read."""
    abort_by: str = ""
    """Who wants the run to end that waits for the answer, where it was read; it is not known yet to have ended."""

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
        """`charge_card: policy denied`."""
        return title_of(self.one)

    @property
    def holder(self) -> str:
        """`ana took it`; where nobody holds it, whether anybody ever did."""
        if self.one.acknowledged_at is not None:
            return f"Acknowledged by {self.one.acknowledged_by}"
        return "Unacknowledged" if self.one.first_acknowledged_at is None else "Acknowledgement expired"

    @property
    def is_breached(self) -> bool:
        """Whether a deadline has passed that nobody dealt with; what silence said by then is dealt with."""
        return not self.one.is_defaulted and (self.acknowledging.is_breached or self.resolving.is_breached)

    @property
    def due(self) -> datetime:
        """The deadline that comes next."""
        running = [clock.ends for clock in (self.acknowledging, self.resolving) if clock.is_running]
        return min(running, default=self.resolving.ends)


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """What of a tab is asked for; empty for everything.

    `owner` is a name, or `nobody`; `due` one of `DUES`; `age` how old at least (`90m`, `4h`, `3d`); `step` how many
    steps of its chain were due; `q` words of what it is about, of its message or its proposal. What only other tables
    know of `provider` and `step` is looked up before (`notify.narrowing`): `operations` and `numbers` are that.
    """

    queue: str = ""
    severity: str = ""
    owner: str = ""
    label: str = ""
    due: str = ""
    service: str = ""
    category: str = ""
    age: str = ""
    provider: str = ""
    step: str = ""
    q: str = ""
    operations: Sequence[Iterable[str]] = ()
    numbers: frozenset[int] = frozenset()

    @staticmethod
    def of(asked: Mapping[str, str]) -> Narrowed:
        """What the parameters of an address ask for."""
        said: dict[str, Any] = {name: asked.get(name, "").strip()[:_ASKED_CHARS] for name in NARROWED}
        for name in said.keys() - Narrowed(**said).as_shown.given.keys():
            set_aside(asked, name, said[name])
        return Narrowed(**said)

    @property
    def as_shown(self) -> Narrowed:
        """The same without words that no list can be narrowed by: of an address, which anybody can write."""
        found = self if self.severity in SEVERITIES else self.without("severity")
        found = found if found.due in DUES else found.without("due")
        return found if not found.age or age_of(found.age) else found.without("age")

    @property
    def given(self) -> dict[str, str]:
        """What is asked for, by its name in addresses."""
        return {name: value for name in NARROWED if (value := getattr(self, name))}

    def without(self, name: str) -> Narrowed:
        """The same without one of them."""
        return self.with_one(name, "")

    def with_one(self, name: str, value: str) -> Narrowed:
        """The same with another word for one of them."""
        said: dict[str, Any] = {name: value}
        return replace(self, **said)

    def within(self, found: QuerySet[Escalation], now: datetime) -> QuerySet[Escalation]:
        """Those of the found ones that are meant."""
        exact = {name: getattr(self, name) for name in _EXACT if getattr(self, name)}
        if self.owner:
            exact["assigned_to"] = "" if self.owner == NOBODY else self.owner
        if self.label:
            exact["labels__contains"] = f"|{self.label.lower()}|"
        found = found.filter(**exact)
        if self.due in DUES:
            late = Q(resolve_by__lt=now) | Q(acknowledged_at=None, acknowledge_by__lt=now)
            soon = Q(resolve_by__lt=now + SOON) | Q(acknowledged_at=None, acknowledge_by__lt=now + SOON)
            running = found.filter(default_done_at=None, resolved_at=None)
            found = running.filter(late) if self.due == "late" else running.filter(soon).exclude(late)
        if (age := age_of(self.age)) is not None:
            found = found.filter(opened_at__lte=now - age)
        if self.provider:
            served = Q(pk__in=[])
            for names in self.operations:
                served |= Q(operation__in=names)
            found = found.filter(served)
        if self.step:
            found = found.filter(pk__in=self.numbers)
        if self.q:
            told = ("operation", "service", "category", "reason", "message", "proposal")
            said = Q()
            for field in told:
                said |= Q(**{f"{field}__icontains": self.q})
            found = found.filter(said)
        return found


_EXACT = ("queue", "severity", "service", "category")
NARROWED = (*_EXACT, "owner", "label", "due", "age", "provider", "step", "q")
_AGE = re.compile(r"^(\d{1,4})([mhd])$", re.ASCII)
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
_ASKED_CHARS = 100
_EVERYTHING = Narrowed()


def age_of(text: str) -> timedelta | None:
    """`90m`, `4h`, `3d`; None for what is no such span."""
    found = _AGE.match(text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def title_of(one: Escalation) -> str:
    """What it is about, wherever it is named: `charge_card: policy denied`, `a run of billing: error budget spent`."""
    return f"{whose_of(one.operation, one.service)}: {matter_of(one.reason, one.category)}"


def next_due(rows: Iterable[EscalationRow]) -> EscalationRow | None:
    """The one whose deadline comes next, or passed first, whatever matters more; None where no deadline runs."""
    running = (row for row in rows if not row.one.is_defaulted)
    return min(running, key=lambda row: (row.due, row.number), default=None)


def rows_of(
    environment: str, tab: str, *, by: int | None, now: datetime, narrowed: Narrowed = _EVERYTHING
) -> list[EscalationRow]:
    """The first page of one tab: at most 200. One query."""
    return page_of(environment, tab, by=by, now=now, narrowed=narrowed)[0]


def page_of(
    environment: str,
    tab: str,
    *,
    by: int | None,
    now: datetime,
    narrowed: Narrowed = _EVERYTHING,
    after: Place | None = None,
    most: int = ROWS_MOST,
    is_bare: bool = False,
) -> tuple[list[EscalationRow], str]:
    """A page of one tab, the most urgent first, and the cursor of the next one. One query.

    What is breached comes first, then what matters more, then what is due soonest; last what is open although its
    default was carried out. Of what is resolved the newest comes first. `after` is a place of `PLACE`: every page of
    a walk goes by the moment of its first one, for by another clock what is breached would be in another place.
    `is_bare` leaves out who asked, the notes and the wish that a run ends, which are dear to ask for many rows.
    """
    found = _asked_for(environment, tab, by=by, now=now, narrowed=narrowed)
    place: Callable[[Any], Place] = _place_in_over
    if tab == "resolved":
        ordered = _newest_first(found, after)
    else:
        since = now if after is None else from_us(abs(int(after[0])))
        ordered, place = _most_urgent_first(found, since, after), _place_in_open(since)
    told = ordered.defer("instances", "runs") if is_bare else _with_notes(ordered, environment, now)
    read, cursor = cut(list(told[: most + 1]), place, most)
    return [row_of(one, now) if is_bare else _row_in_list(one, now) for one in read], cursor


def _with_notes(found: QuerySet[Escalation], environment: str, now: datetime) -> QuerySet[Any]:
    said = EscalationNote.objects.filter(escalation=OuterRef("pk"), verb__in=_TOLD).order_by("-at", "-pk")
    newest = Subquery(said.values(said=Concat("by", Value(": "), "text"))[:1])
    counted = found.annotate(note_count=Count("notes", filter=Q(notes__verb="note")), last_note=newest)
    return counted.annotate(first_run=KT("runs__0")).annotate(abort_by=Subquery(_wishes(environment, now)))


def _wishes(environment: str, now: datetime) -> QuerySet[RunAbort, Any]:
    """Who wants the run to end that waits for an answer. Index `run_abort_history`."""
    held = RunAbort.objects.filter(environment=environment, run=OuterRef("first_run"), withdrawn_at=None)
    return held.filter(at__gt=now - ABORTS_KEPT).order_by("-at").values("by")[:1]


def _row_in_list(one: Any, now: datetime) -> EscalationRow:
    wish = one.abort_by or "" if one.ticket and one.is_open else ""
    return replace(row_of(one, now, notes=one.note_count, last_note=one.last_note or ""), abort_by=wish)


def abort_wish_of(one: Escalation, now: datetime) -> RunAbort | None:
    """The wish that the run ends which waits for the answer. One query; none where no run waits."""
    if not one.ticket or not one.is_open or not one.runs:
        return None
    held = RunAbort.objects.filter(environment=one.environment, run=one.runs[0], withdrawn_at=None)
    return held.filter(at__gt=now - ABORTS_KEPT).order_by("-at").first()


def count_of(environment: str, tab: str, *, by: int | None, now: datetime, narrowed: Narrowed = _EVERYTHING) -> int:
    """How many of these stand in a tab. One query."""
    return _asked_for(environment, tab, by=by, now=now, narrowed=narrowed).count()


def _asked_for(
    environment: str, tab: str, *, by: int | None, now: datetime, narrowed: Narrowed
) -> QuerySet[Escalation]:
    return narrowed.within(_in_tab(Escalation.objects.filter(environment=environment), tab, by=by, now=now), now)


PLACE = (int, int, int, int)
"""Since when somebody walks the pages, how urgent it is (0 the most), the deadline that comes next, and its number;
of what is resolved 0, 0, when it was, negative, and its number. Moments are in microseconds."""

_IS_LATE, _IS_DUE, _IS_DEFAULTED = 0, 10, 20


def _newest_first(found: QuerySet[Escalation], after: Place | None) -> QuerySet[Escalation]:
    if after is not None:
        at = from_us(abs(int(after[2])))
        found = found.filter(Q(resolved_at__lt=at) | Q(resolved_at=at, pk__gt=after[3]))
    return found.order_by("-resolved_at", "pk")


def _most_urgent_first(found: QuerySet[Escalation], since: datetime, after: Place | None) -> QuerySet[Escalation]:
    """In the order of `urgency` and `due`, as they were at `since`; from behind a place on."""
    is_late = Q(resolve_by__lt=since) | Q(taken__gt=F("acknowledge_by"))
    standing = Case(
        When(default_done_at__isnull=False, then=Value(_IS_DEFAULTED)),
        When(is_late, then=Value(_IS_LATE)),
        default=Value(_IS_DUE),
    )
    ranks = [When(severity=word, then=Value(rank)) for rank, word in enumerate(reversed(SEVERITIES))]
    to_be_taken = Q(acknowledged_at=None, default_done_at=None)
    placed = found.annotate(
        taken=Coalesce("acknowledged_at", Value(since)),
        urgency=standing + Case(*ranks, default=Value(len(ranks)), output_field=IntegerField()),
        due=Case(When(to_be_taken, then=Least("acknowledge_by", "resolve_by")), default=F("resolve_by")),
    )
    if after is not None:
        urgency, due, number = after[1], from_us(abs(int(after[2]))), after[3]
        later = Q(due__gt=due) | Q(due=due, pk__gt=number)
        placed = placed.filter(Q(urgency__gt=urgency) | Q(later, urgency=urgency))
    return placed.order_by("urgency", "due", "pk")


def _place_in_open(since: datetime) -> Callable[[Any], Place]:
    return lambda one: (to_us(since), one.urgency, to_us(one.due), one.pk)


def _place_in_over(one: Escalation) -> Place:
    return 0, 0, -to_us(one.resolved_at or one.resolve_by), one.pk


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


class Offered(NamedTuple):
    """What of open escalations can be asked for."""

    queues: list[str]
    owners: list[str]
    labels: list[str]
    services: list[str]
    categories: list[str]


def offered(environment: str) -> Offered:
    """What the open ones have of each. One query."""
    waiting = Escalation.objects.filter(environment=environment, resolved_at=None)
    columns = ("queue", "assigned_to", "labels", "service", "category")
    found = list(waiting.order_by().values_list(*columns).distinct())
    return Offered(
        queues=sorted({row[0] for row in found}),
        owners=sorted({row[1] for row in found} - {""}),
        labels=sorted({name for row in found for name in row[2].strip("|").split("|")} - {""}),
        services=sorted({row[3] for row in found} - {""}),
        categories=sorted({row[4] for row in found} - {""}),
    )


def unacknowledged(environment: str, now: datetime) -> int:
    """How many nobody has taken. One query."""
    waiting = Escalation.objects.filter(environment=environment, resolved_at=None, acknowledged_at=None)
    return waiting.exclude(snoozed_until__gt=now).count()


def find(environment: str, number: int) -> Escalation | None:
    """One escalation."""
    return Escalation.objects.filter(environment=environment, pk=number).first()


class Told(NamedTuple):
    """One escalation, its story, and whether a breaker is called as its operation."""

    one: Escalation
    story: Sequence[EscalationNote]
    has_breaker: bool


def find_with_story(environment: str, number: int) -> Told | None:
    """One escalation and what is known of it. One query; two for one of which nothing was said yet."""
    told = EscalationNote.objects.filter(escalation=number, escalation__environment=environment)
    named = told.annotate(has_breaker=queries.is_named(environment, OuterRef("escalation__operation")))
    story = _in_time(named.select_related("escalation"))
    if story:
        return Told(story[0].escalation, story, getattr(story[0], "has_breaker"))  # noqa: B009  (annotated: no type knows it)
    bare = Escalation.objects.annotate(has_breaker=queries.is_named(environment, OuterRef("operation")))
    one = bare.filter(environment=environment, pk=number).first()
    return None if one is None else Told(one, story, one.has_breaker)


def story_of(one: Escalation) -> Sequence[EscalationNote]:
    """What was said and done, newest first, each where it was in time. One query."""
    return _in_time(one.notes.all())


def _in_time(notes: QuerySet[EscalationNote]) -> Sequence[EscalationNote]:
    return sorted(notes.order_by("-at", "-pk"), key=lambda note: (note.moment, note.pk), reverse=True)


class Similar(NamedTuple):
    """An earlier question that was resolved, and what whoever ended it wrote about that."""

    one: Escalation
    fixed_by: str


def similar_to(one: Escalation) -> Sequence[Similar]:
    """Of the newest earlier ones about the same operation or of the same category those that somebody ended, newest
    first; then those that silence did. One query.
    """
    alike = Q(operation=one.operation) | Q(category=one.category) if one.category else Q(operation=one.operation)
    before = Escalation.objects.filter(alike, environment=one.environment, merged_into=None).exclude(pk=one.pk)
    ends = EscalationNote.objects.filter(escalation=OuterRef("pk"), verb__in=_ENDS).order_by("-at", "-pk")
    told = before.exclude(resolved_at=None).annotate(fixed_by=Subquery(ends.values("text")[:1]))
    found = [Similar(two, two.fixed_by or "") for two in told.order_by("-resolved_at")[:_ALIKE_MOST]]
    return sorted(found, key=lambda similar: not similar.fixed_by)[:SIMILAR_MOST]


def row_of(one: Escalation, now: datetime, *, notes: int = 0, last_note: str = "") -> EscalationRow:
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
        last_note=last_note,
    )


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
