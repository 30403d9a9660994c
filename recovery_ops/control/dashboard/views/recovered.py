"""Run outcomes of the last 7 or 30 days and of a report: auto-recovered, with human input, failed (or stopped).

Runs come from daily sums that a background task keeps; they outlast the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString

from events.capacity.asking import capacity_events
from events.capacity.rows import OWNER_WORDS, CapacityEventRow
from events.charts.drawing import spark, stacked
from events.pages.rendering import render_page
from events.recoveries.asking import Cause, Recoveries, today_of, two_spans
from events.wording import category_text, count_text, share_text, span_text
from recovery_ops.control.core.actions import ACTIONS, past_tense
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.dashboard.incident_time import incident_time
from recovery_ops.control.dashboard.views.tiles import Tile
from recovery_ops.control.demonstration.selectors import observed_since
from recovery_ops.control.escalations.selectors import queue
from recovery_ops.control.escalations.selectors.answer_times import Answering, answering
from recovery_ops.rules.enums import Category

SPANS = {"7d": 7, "30d": 30}
SPAN_WORDS = (("", "Now"), ("7d", "7 days"), ("30d", "30 days"))
_CAUSES_SHOWN = 5
_CAUSES_REPORTED = 15
_DEEDS_SHOWN = 12
_OUTAGES_SHOWN = 10
_DONE_TO = {
    "breaker": "breakers",
    "capacity": "capacity incidents",
    "chain": "escalation policies",
    "channel": "channels",
    "escalation": "escalations",
    "failure": "issues",
    "instance": "instances",
    "proposal": "proposals",
    "rule": "notification rules",
    "run": "runs",
}
"""What the deeds of an area are done to, where their words do not say it; of the others the area stands beside them."""
_DONE_SO = {
    "breaker.observe": "set breakers to metrics only",
    "escalation.step": "escalated to the next level",
    "failure.regress": "marked issues as regressed",
    "run.abort": "requested abort of runs",
    "run.withdraw": "withdrew abort of runs",
}
_OUTCOMES = (("closed", "auto-recovered"), ("half_open", "with human input"), ("open", "failed"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One cause as a line: where its failures are, and how much of all failures it makes."""

    cause: Cause
    words: str
    share: float
    href: str


def looking_back(request: HttpRequest, environment: str, *, now: datetime) -> HttpResponse:
    """The last 7 or 30 days, today included, beside as many before them."""
    over = request.GET["over"]
    today = today_of(now)
    this, before = two_spans(environment, first=today - timedelta(days=SPANS[over] - 1), last=today)
    start = observed_since(environment, _midnight(this.first), now)
    answers = answering(environment, start=start, end=now + timedelta(seconds=1), now=now)
    answered_before = answering(environment, start=_midnight(before.first), end=_midnight(this.first), now=now)
    sentence = _sentence(this, f"In the last {SPANS[over]} days")
    context = {
        "now": now,
        "over": over,
        "spans": SPAN_WORDS,
        "days": SPANS[over],
        "sentence": sentence,
        "sentence_of_runs": sentence,
        "tiles": [
            *(_alone(this, before), _lost(this, before), *_time(this, before), _money(this)),
            _people(answers, answered_before),
        ],
        "found": this,
        "answers": answers,
        "chart": _chart(this),
        "outcomes": _OUTCOMES,
        "lines": _lines(this, _CAUSES_SHOWN, linked=True),
        "waiting": queue.rows_of(environment, "open", by=None, now=now)[:6],
    }
    return render_page(request, "dashboard/lookback", context)


def recovery_parts(environment: str, *, start: datetime, end: datetime, now: datetime) -> dict[str, Any]:
    """The parts of a report on runs, issues, incidents and actions. Four queries."""
    this, before = two_spans(environment, first=today_of(start), last=today_of(end - timedelta.resolution))
    outages, deeds = incidents_and_deeds(environment, start=start, end=end, now=now)
    return {
        "sentence_of_runs": _sentence(this, "In this range"),
        "tiles": [_alone(this, before), _lost(this, before), *_time(this, before), _money(this)],
        "found": this,
        "chart": _chart(this),
        "outcomes": _OUTCOMES,
        "lines": _lines(this, _CAUSES_REPORTED, linked=False),
        "deeds": deeds[:_DEEDS_SHOWN],
        "outages": [_outage(row, now) for row in _longest(outages, now)],
        "outage_count": len(outages),
        "outage_time": incident_time(outages, now),
    }


def incidents_and_deeds(
    environment: str, *, start: datetime, end: datetime, now: datetime
) -> tuple[list[CapacityEventRow], list[tuple[str, int, str]]]:
    """The incidents of a report, and what users did, the most frequent first. Two queries."""
    since = observed_since(environment, start, now)
    return capacity_events(environment, start=since, end=end, now=now), _deeds(environment, since, end)


def _alone(this: Recoveries, before: Recoveries) -> Tile:
    share = "–" if this.share_alone is None else share_text(this.share_alone)
    was = f"; {share_text(before.share_alone)} before" if before.share_alone is not None else ""
    return Tile(
        name="recovered",
        title="Auto-recovered share",
        figure=share,
        unit="",
        detail=f"{this.alone.runs:,} of {count_text(this.troubled, 'run')} with failures{was}",
        href=f"{reverse('runs')}?show=troubled",
        told={"alone": this.alone.runs, "troubled": this.troubled},
        spark=_course([alone for _, alone, _, _ in this.days]),
    )


def _lost(this: Recoveries, before: Recoveries) -> Tile:
    return Tile(
        name="lost",
        title="Failed runs",
        figure="–" if this.read_at is None else f"{this.lost.runs:,}",
        unit="run" if this.lost.runs == 1 else "runs",
        detail=f"of {this.runs:,} ended runs{_was(before, f'{before.lost.runs:,}')}",
        href=f"{reverse('runs')}?show=failed",
        told={"lost": this.lost.runs, "ended": this.runs},
        spark=_course([lost for *_, lost in this.days]),
    )


def _time(this: Recoveries, before: Recoveries) -> tuple[Tile, Tile]:
    saved_s, saved_before_s = this.alone.took_s, before.alone.took_s
    href = reverse("runs")
    return (
        Tile(
            name="saved",
            title="Time saved",
            figure="–" if this.read_at is None else _hours(saved_s),
            unit="",
            detail=f"duration of auto-recovered runs{_was(before, _hours(saved_before_s))}",
            href=href,
            told={"seconds": round(saved_s)},
        ),
        Tile(
            name="failed-time",
            title="Time in failed runs",
            figure="–" if this.read_at is None else _hours(this.lost.took_s),
            unit="",
            detail=f"duration of failed runs{_was(before, _hours(before.lost.took_s))}",
            href=href,
            told={"seconds": round(this.lost.took_s)},
        ),
    )


def _money(this: Recoveries) -> Tile:
    name, title, href = "cost", "Cost", reverse("runs")
    if not this.knows_cost:
        return Tile(
            name=name, title=title, figure="–", unit="", detail="no run with failures reported its cost", href=href
        )
    saved = this.alone.cost_usd
    basis = f"reported by {this.costed:,} of {count_text(this.troubled, 'run')}"
    return Tile(
        name=name,
        title=title,
        figure=_dollars(saved),
        unit="saved",
        detail=f"{_dollars(this.lost.cost_usd)} in failed runs, {basis}",
        href=href,
    )


def _people(answers: Answering, before: Answering | None) -> Tile:
    taken = f"MTTA {span_text(int(answers.to_take.total_seconds()))}" if answers.to_take is not None else ""
    resolved = f"MTTR {span_text(int(answers.to_resolve.total_seconds()))}" if answers.to_resolve is not None else ""
    medians = ", ".join(part for part in (taken, resolved) if part)
    was = f"; {before.opened:,} before" if before is not None else ""
    return Tile(
        title="Escalations",
        figure=f"{answers.opened:,}",
        unit="opened",
        detail=f"{medians or 'none resolved by a user'}{was}",
        href=reverse("escalations"),
    )


def _sentence(this: Recoveries, when: str) -> str:
    """The headline."""
    if this.read_at is None:
        return f"{when}: not available yet. Days are summed in the background, a minute after their events."
    if not this.troubled:
        return f"{when}: {count_text(this.runs, 'run')}, none with failures."
    outcomes = f"{this.alone.runs:,} auto-recovered, {this.helped.runs:,} with human input, {this.lost.runs:,} failed"
    least = "≥ " if this.is_partial else ""
    return f"{when}: {least}{this.troubled:,} of {count_text(this.runs, 'run')} with failures. {outcomes}."


def _lines(this: Recoveries, most: int, *, linked: bool) -> list[Line]:
    return [
        Line(
            cause=cause,
            words=category_text(Category(cause.category)) if cause.category in set(Category) else cause.category,
            share=cause.failures / this.failures if this.failures else 0.0,
            href=_failures_href(cause) if linked else "",
        )
        for cause in this.causes[:most]
    ]


def _failures_href(cause: Cause) -> str:
    return f"{reverse('failures')}?operation={cause.operation}&category={cause.category}"


def _chart(this: Recoveries) -> SafeString | str:
    """Bars by day; nothing where nothing is to be drawn."""
    if not this.troubled:
        return ""
    rows = [(f"{day.day} {day:%b}", (alone, helped, lost)) for day, alone, helped, lost in this.days]
    marks, words = zip(*_OUTCOMES, strict=True)
    return stacked(rows, marks, label="Runs with failures by day", words=words)


def _deeds(environment: str, start: datetime, end: datetime) -> list[tuple[str, int, str]]:
    """Actions of users and of their keys, the most frequent first: action, count, names. One query."""
    done = AuditEntry.objects.filter(
        environment=environment, at__gte=start, at__lt=end, result=AuditEntry.OK, actor_kind__in=("person", "key")
    )
    counts: dict[str, dict[str, int]] = {}
    for verb, name in done.values_list("verb", "actor_name"):
        by_name = counts.setdefault(verb, {})
        by_name[name] = by_name.get(name, 0) + 1
    found = sorted(counts.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return [(_deed(verb), sum(by.values()), ", ".join(sorted(by))) for verb, by in found]


def _deed(verb: str) -> str:
    """Action and kind of object: `tripped breakers`, `commented on escalations`."""
    if verb in _DONE_SO:
        return _DONE_SO[verb]
    if verb not in ACTIONS:
        return past_tense(verb)
    area, said = verb.partition(".")[0], past_tense(verb).rstrip(":")
    return f"{said} {_DONE_TO[area]}" if area in _DONE_TO else f"{said} ({area.replace('_', ' ')})"


def _longest(outages: Sequence[CapacityEventRow], now: datetime) -> list[CapacityEventRow]:
    return sorted(outages, key=lambda row: row.lasted(now), reverse=True)[:_OUTAGES_SHOWN]


def _outage(row: CapacityEventRow, now: datetime) -> dict[str, Any]:
    return {"row": row, "whose": OWNER_WORDS[row.owner], "lasted": span_text(row.lasted(now))}


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _course(values: Sequence[int]) -> SafeString | str:
    return spark(values) if any(values) else ""


def _was(before: Recoveries, words: str) -> str:
    """What it was before, where anything is known of then."""
    return "" if before.read_at is None else f"; {words} before"


def _hours(seconds: float) -> str:
    """`46 s`, `12 min`, `3.4 h`, `120 h`: as short as a figure has to be; the table has it exactly."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 10 else f"{hours:,.0f} h"


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount < 1000 else f"${amount:,.0f}"
