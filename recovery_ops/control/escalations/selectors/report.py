"""How people and agents coped, week by week: how soon questions were taken and resolved, by whom, and which were noise.

The page, its files, the API and the message of a month read the same `report_of`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import Count, F, Sum
from django.db.models.functions import TruncDate

from events.models import MinuteSum, SpanSum
from events.projections.sum_views import View
from events.recoveries.models import RecoveryDay
from events.recoveries.summing import DAY_S
from recovery_ops.control.demonstration.selectors import observed_since
from recovery_ops.control.escalations.durations import BY_ITSELF, Times, is_by_person, until_resolved, until_taken
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.terms import matter_of, whose_of

WEEKS_MOST = 26
READ_MOST = 20_000
"""Questions read for one report, the newest."""
NOISY_MOST = 10

_SPAN_MIN = 120
_WEEK = timedelta(weeks=1)
_INSTANT = timedelta.resolution
"""What ends at a midnight has nothing of the day that begins then."""
_SATURDAY = 5
_OUT = "out of hours"
_DECISIONS = (Escalation.APPROVED, Escalation.REJECTED, Escalation.EDITED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How many deadlines were kept, of those that were kept or have passed."""

    kept: int
    of: int

    @property
    def share(self) -> float | None:
        return self.kept / self.of if self.of else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonLoad:
    """What one person, or key, did about questions. `held_s` is how long they held those that they resolved."""

    name: str
    taken: int
    decided: int
    resolved: int
    comments: int
    out_of_hours: int
    held_s: float
    acknowledging: Times
    """Of the questions that they were the first to take."""
    resolving: Times
    """Of those that they resolved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """A question that keeps being asked: how often people were asked it, and by how many facts."""

    operation: str
    """Empty where whole runs ask; then it is of their service."""
    service: str
    kind: str
    asked: int
    facts: int
    undecided: int
    resolving: Times

    @property
    def whose(self) -> str:
        """What it is about the work of."""
        return whose_of(self.operation, self.service)

    @property
    def matter(self) -> str:
        """What happened, in words."""
        return matter_of(self.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What was put to one queue, was about one cause or came in one shift, and how that went."""

    name: str
    asked: int
    acknowledging: Times
    resolving: Times
    resolved_in_time: Kept
    by_default: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A week, or all of them: what was asked in it, and what agents met in it.

    `failures` are failed attempts, `given_up` the calls for which every rung failed. Of the runs that ended in it
    having met a failure or asked somebody, or failed, `alone` ended well without asking a person, `helped` well
    having asked one, `lost` did not; all three are None where no day of it has been summed up.
    """

    start: datetime
    end: datetime
    opened: int
    acknowledging: Times
    resolving: Times
    acknowledged_in_time: Kept
    resolved_in_time: Kept
    by_default: int
    failures: int
    given_up: int
    alone: int | None
    helped: int | None
    lost: int | None
    people: tuple[PersonLoad, ...]
    noisy: tuple[Noise, ...]
    queues: tuple[Load, ...]
    causes: tuple[Load, ...]
    shifts: tuple[Load, ...]
    """By when the questions were put."""
    by_hour: tuple[tuple[int, ...], ...]
    """Questions by the weekday, Monday first, and the hour of UTC in which they were put."""

    @property
    def troubled(self) -> int | None:
        """How many runs met trouble."""
        return None if self.alone is None else self.alone + (self.helped or 0) + (self.lost or 0)

    @property
    def week(self) -> date:
        """The day with which it begins, in UTC: of whole weeks a Monday."""
        return self.start.date()

    @property
    def recovered_share(self) -> float | None:
        """The share of the runs that met trouble and ended well without a person; None where none is known of."""
        return self.alone / self.troubled if self.alone is not None and self.troubled else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Weeks of seven days from the start, the oldest first, the last one so far; and all of them together."""

    environment: str
    weeks: tuple[Span, ...]
    total: Span
    is_partial: bool
    """Whether there were more questions than are read: the oldest are missing."""


def weeks_before(now: datetime, weeks: int) -> tuple[datetime, datetime]:
    """The Monday (UTC) with which the first of so many weeks begins, the current one being the last; and `now`."""
    return _monday_of(now) - _WEEK * (max(1, min(weeks, WEEKS_MOST)) - 1), now


def week_with(day: date, now: datetime) -> tuple[datetime, datetime] | None:
    """The week (UTC) that a day lies in, as far as it has come; None for one that has not begun."""
    try:
        monday = _monday_of(datetime.combine(day, time(), UTC))
        ends = monday + _WEEK
    except OverflowError:
        return None
    return (monday, min(ends, now)) if monday <= now else None


def month_with(day: date, now: datetime) -> tuple[datetime, datetime] | None:
    """The calendar month (UTC) that a day lies in, as far as it has come; None for one that has not begun."""
    try:
        first = datetime(day.year, day.month, 1, tzinfo=UTC)
        ends = (first + timedelta(days=31)).replace(day=1)
    except OverflowError:
        return None
    return (first, min(ends, now)) if first <= now else None


def _monday_of(moment: datetime) -> datetime:
    today = moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=today.weekday())


def report_of(environment: str, *, start: datetime, end: datetime, now: datetime) -> Report:
    """What was asked in [start, end), by week from `start`, a midnight of UTC, on. Five queries."""
    since = observed_since(environment, start, now)
    asked = Escalation.objects.filter(
        environment=environment, opened_at__gte=since, opened_at__lt=end, merged_into=None
    )
    found = list(asked.order_by("-opened_at", "-pk")[: READ_MOST + 1])
    is_partial, found = len(found) > READ_MOST, found[:READ_MOST]
    met, days = _met(environment, start, end, since), _days(environment, start, end)
    done, takers = _done(environment, start, end, since), _takers(environment, since, end)
    count = max(1, -(-(end - start) // _WEEK))
    weeks = []
    for number in range(count):
        begins, ends = start + number * _WEEK, min(end, start + (number + 1) * _WEEK)
        asked_then = [one for one in found if begins <= one.opened_at < ends]
        days_then = [day for day in days if _day(begins) <= day.day < _day(start) + 7 * (number + 1)]
        weeks.append(_span(begins, ends, asked_then, met[number], days_then, done[number], takers, now))
    whole = (sum(one[0] for one in met.values()), sum(one[1] for one in met.values()))
    return Report(
        environment=environment,
        weeks=tuple(weeks),
        total=_span(start, end, found, whole, days, sum(done.values(), Counter()), takers, now),
        is_partial=is_partial,
    )


def _span(
    start: datetime,
    end: datetime,
    asked: Sequence[Escalation],
    met: tuple[int, int],
    days: Sequence[RecoveryDay],
    done: Counter[tuple[str, str]],
    takers: Mapping[int, str],
    now: datetime,
) -> Span:
    return Span(
        start=start,
        end=end,
        opened=len(asked),
        acknowledging=until_taken(asked),
        resolving=until_resolved(asked),
        acknowledged_in_time=_kept(
            [(_taken(one), min(one.acknowledge_by, one.opened_at + one.acknowledge_in)) for one in asked], now
        ),
        resolved_in_time=_kept([(_decided(one), one.resolve_by) for one in asked], now),
        by_default=sum(one.default_done_at is not None for one in asked),
        failures=met[0],
        given_up=met[1],
        alone=sum(day.alone for day in days) if days else None,
        helped=sum(day.helped for day in days) if days else None,
        lost=sum(day.lost for day in days) if days else None,
        people=_people(done, asked, takers),
        noisy=_noisy(asked, now),
        queues=_loads(asked, lambda one: one.queue, now),
        causes=_loads(asked, lambda one: matter_of(one.category or one.reason), now),
        shifts=_loads(asked, lambda one: _shift(one.opened_at), now),
        by_hour=_by_hour(asked),
    )


def _loads(asked: Sequence[Escalation], of: Callable[[Escalation], str], now: datetime) -> tuple[Load, ...]:
    """What was asked, put together by what it is of, the most first."""
    found: dict[str, list[Escalation]] = defaultdict(list)
    for one in asked:
        found[of(one)].append(one)
    rows = [
        Load(
            name=name,
            asked=len(some),
            acknowledging=until_taken(some),
            resolving=until_resolved(some),
            resolved_in_time=_kept([(_decided(one), one.resolve_by) for one in some], now),
            by_default=sum(one.default_done_at is not None for one in some),
        )
        for name, some in found.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.asked, row.name)))


def _shift(moment: datetime) -> str:
    at = moment.astimezone(UTC)
    if at.weekday() >= _SATURDAY:
        return "weekend"
    return "day" if _is_day(at.hour) else "night"


def _is_day(hour: int) -> bool:
    return 8 <= hour < 18


def _by_hour(asked: Sequence[Escalation]) -> tuple[tuple[int, ...], ...]:
    counts = [[0] * 24 for _ in range(7)]
    for one in asked:
        at = one.opened_at.astimezone(UTC)
        counts[at.weekday()][at.hour] += 1
    return tuple(map(tuple, counts))


def _days(environment: str, start: datetime, end: datetime) -> Sequence[RecoveryDay]:
    """The days that were summed up. One query; index `recovery_day_once`."""
    found = RecoveryDay.objects.filter(environment=environment, day__gte=_day(start), day__lte=_day(end - _INSTANT))
    return list(found.only("day", "alone", "helped", "lost"))


def _day(moment: datetime) -> int:
    return int(moment.timestamp()) // DAY_S


def _taken(one: Escalation) -> datetime | None:
    """When somebody first took it, or resolved it at once. Whoever asks another queue gives it no more time."""
    return one.first_acknowledged_at or _decided(one)


def _decided(one: Escalation) -> datetime | None:
    """When somebody resolved it; what the deadline did by itself was not in time."""
    return one.resolved_at if is_by_person(one) else None


def _kept(deadlines: Iterable[tuple[datetime | None, datetime]], now: datetime) -> Kept:
    due = [(at, by) for at, by in deadlines if at is not None or by <= now]
    return Kept(kept=sum(at is not None and at <= by for at, by in due), of=len(due))


def _met(environment: str, start: datetime, end: datetime, since: datetime) -> dict[int, tuple[int, int]]:
    """Failed attempts and calls given up, by the number of the week. One query over the sums of two hours.

    Another over minutes where what happened before `since` is left out.
    """
    first, last = (int(moment.timestamp()) // 60 // _SPAN_MIN for moment in (start, end - _INSTANT))
    per_week = int(_WEEK.total_seconds()) // 60 // _SPAN_MIN
    sums = SpanSum.objects.filter(
        environment=environment, view=View.CATEGORY, minutes=_SPAN_MIN, span__gte=first, span__lte=last
    )
    weekly = sums.annotate(week=(F("span") - first) / per_week).values_list("week")
    found: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for week, failures, given_up in weekly.annotate(Sum("failures"), Sum("exhausted")).order_by():
        found[int(week)] = (failures, given_up)
    if since > start:
        generated = MinuteSum.objects.filter(
            environment=environment, minute__gte=first * _SPAN_MIN, minute__lt=int(since.timestamp()) // 60
        )
        left_out = generated.annotate(week=(F("minute") / _SPAN_MIN - first) / per_week).values_list("week")
        for week, failures, given_up in left_out.annotate(Sum("failures"), Sum("exhausted")).order_by():
            found[int(week)] = (found[int(week)][0] - failures, found[int(week)][1] - given_up)
    return found


def _done(environment: str, start: datetime, end: datetime, since: datetime) -> dict[int, Counter[tuple[str, str]]]:
    """How often each did what, and `_OUT` how much of it out of hours, by the number of the week. One query."""
    notes = EscalationNote.objects.filter(escalation__environment=environment, at__gte=since, at__lt=end)
    acts = notes.exclude(by__in=BY_ITSELF).values_list("by", "verb", TruncDate("at", tzinfo=UTC), "at__hour")
    counts: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
    for name, verb, day, hour, count in acts.annotate(Count("pk")).order_by():
        week = counts[(day - start.date()).days // _WEEK.days]
        week[name, verb] += count
        if day.weekday() >= _SATURDAY or not _is_day(hour):
            week[name, _OUT] += count
    return counts


def _takers(environment: str, start: datetime, end: datetime) -> dict[int, str]:
    """Who was the first to take each question that was put then, by its number. One query."""
    first = EscalationNote.objects.filter(verb="acknowledge", at=F("escalation__first_acknowledged_at"))
    put = first.filter(
        escalation__environment=environment, escalation__opened_at__gte=start, escalation__opened_at__lt=end
    )
    return dict(put.values_list("escalation", "by"))


def _people(
    done: Counter[tuple[str, str]], asked: Sequence[Escalation], takers: Mapping[int, str]
) -> tuple[PersonLoad, ...]:
    """Who did how much, the most first."""
    took: dict[str, list[Escalation]] = defaultdict(list)
    ended: dict[str, list[Escalation]] = defaultdict(list)
    for one in asked:
        took[takers.get(one.pk, "")].append(one)
        ended[one.resolved_by].append(one)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for (name, verb), count in done.items():
        counts[name][verb] = count
    held: dict[str, float] = defaultdict(float)
    for one in asked:
        if one.resolved_at and is_by_person(one):
            held[one.resolved_by] += (one.resolved_at - (one.first_acknowledged_at or one.opened_at)).total_seconds()
    rows = [
        PersonLoad(
            name=name,
            taken=said["acknowledge"],
            decided=said["approve"] + said["reject"],
            resolved=said["resolve"],
            comments=said["note"],
            out_of_hours=said[_OUT],
            held_s=held[name],
            acknowledging=until_taken(took[name]),
            resolving=until_resolved(ended[name]),
        )
        for name, said in counts.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-(row.taken + row.decided + row.resolved), row.name)))


def _noisy(asked: Sequence[Escalation], now: datetime) -> tuple[Noise, ...]:
    """The questions that came most often, at most ten; what came once is no noise."""
    alike: dict[tuple[str, str, str], list[Escalation]] = defaultdict(list)
    for one in asked:
        service = "" if one.operation else one.service
        alike[one.operation, service, one.category or one.reason].append(one)
    rows = [
        Noise(
            operation=operation,
            service=service,
            kind=kind,
            asked=len(some),
            facts=sum(one.occurrences for one in some),
            undecided=sum(one.default_done_at is not None for one in some),
            resolving=until_resolved(some),
        )
        for (operation, service, kind), some in alike.items()
    ]
    loud = [row for row in rows if row.asked > 1 or row.facts > 1]
    return tuple(sorted(loud, key=lambda row: (-row.asked, -row.facts, row.whose, row.kind))[:NOISY_MOST])
