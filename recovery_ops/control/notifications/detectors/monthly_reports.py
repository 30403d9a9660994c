"""The report of a month, told once when it is over (in UTC) to whom a rule names; days later where nobody looked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from django.urls import reverse

from events.wording import count_text, share_text, span_text
from recovery_ops.control.escalations.durations import Times
from recovery_ops.control.escalations.selectors.report import Kept, Span, report_of
from recovery_ops.control.notifications.models.notifications import Notification, NotificationRule
from recovery_ops.control.notifications.triggers import MONTHLY_REPORT, Look, Occurrence
from recovery_ops.rules.notifications.grouping import Phase, Severity

_TOLD_FOR = timedelta(days=14)
"""For how long after its end a month is still told."""
_SETTLES_IN = timedelta(hours=1)
"""Its last day is summed up some time after it is over."""


def found(look: Look) -> Iterator[Occurrence]:
    """The month that ended lately, while some rule has still to tell it. Two queries then, and those of the report."""
    now = look.now.astimezone(UTC)
    ended = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    is_time = _SETTLES_IN <= now - ended <= _TOLD_FOR
    if not look.wants(MONTHLY_REPORT) or not is_time or not _is_untold(look.environment, ended):
        return
    began = (ended - timedelta(days=1)).replace(day=1)
    total = report_of(look.environment, start=began, end=ended, now=look.now).total
    yield Occurrence(
        kind=MONTHLY_REPORT,
        event=f"month {began:%Y-%m}",
        subject=f"month {began:%Y-%m}",
        phase=Phase.TOLD,
        severity=Severity.INFO,
        at=ended,
        title=f"Report of {began:%B %Y}: {count_text(total.opened, 'escalation')}",
        text=" ".join(_sentences(total)),
        path=f"{reverse('report')}?month={began:%Y-%m}",
        triggers=frozenset({MONTHLY_REPORT}),
    )


def _is_untold(environment: str, ended: datetime) -> bool:
    rules = NotificationRule.objects.filter(environment=environment, removed_at=None, is_on=True, since__lte=ended)
    hearing = [one for one in rules if Severity.INFO.reaches(Severity(one.least_severity))]
    asking = {one.pk for one in hearing if MONTHLY_REPORT in one.triggers}
    if not asking:
        return False
    told = Notification.objects.filter(environment=environment, at=ended, kind=MONTHLY_REPORT, rule__in=asking)
    return bool(asking - set(told.values_list("rule", flat=True)))


def _sentences(total: Span) -> Iterator[str]:
    if total.opened:
        for word, times, kept in (
            ("acknowledged", total.acknowledging, total.acknowledged_in_time),
            ("resolved", total.resolving, total.resolved_in_time),
        ):
            yield f"{_times(word, times, total.opened)}; {_in_time(word, kept)}."
        yield f"Default action applied: {total.by_default:,}."
    if total.people:
        out = sum(one.out_of_hours for one in total.people)
        who = count_text(len(total.people), "user")
        yield f"{who} acted, {count_text(out, 'action')} out of hours."
    if total.noisy:
        loudest = total.noisy[0]
        yield f"Most frequent: {loudest.whose}, {loudest.matter} ({loudest.asked:,})."
    if total.troubled and total.recovered_share is not None:
        share = share_text(total.recovered_share)
        met = count_text(total.troubled, "run")
        yield f"Auto-recovered share of {met} with failures: {share}; {total.lost or 0:,} failed."


def _times(word: str, times: Times, opened: int) -> str:
    """Of how many of those that were opened the times are, and the times."""
    if times.median_s is None or times.p90_s is None:
        return f"None was {word}"
    if times.count == 1:
        return f"1 of {opened:,} was {word}, after {span_text(times.median_s)}"
    half, most = span_text(times.median_s), span_text(times.p90_s)
    return f"{times.count:,} of {opened:,} were {word}, p50 {half}, p90 {most}"


def _in_time(word: str, kept: Kept) -> str:
    return "none due" if kept.share is None else f"SLA met {share_text(kept.share)}"
