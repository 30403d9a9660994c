"""All of a month as rows: every figure of its page, and the times, deadlines, load and noise of the report beside it.

One figure a row, so that a table of any program takes it; those of the report go by their names in the API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from events.capacity.rows import OWNER_WORDS, CapacityEventRow
from events.exports import Cell
from events.recoveries.asking import Recoveries
from recovery_ops.control.capacity.serializers import report_document
from recovery_ops.control.dashboard.incident_time import incident_time
from recovery_ops.control.escalations.selectors.answer_times import Answering
from recovery_ops.control.escalations.selectors.report import report_of

COLUMNS = ("section", "of", "figure", "value")
_UNSAID = ("start", "end", "name", "operation", "service", "kind")
"""What names a row, and is no figure of it."""

Line = tuple[str, Cell, str, Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Month:
    """What the page is made of."""

    environment: str
    start: datetime
    end: datetime
    """The first moment of the next month, or now."""
    found: Recoveries
    answers: Answering
    outages: Sequence[CapacityEventRow]
    deeds: Sequence[tuple[str, int, str]]


def lines_of(month: Month, now: datetime) -> Iterator[Line]:
    """The rows, section by section. Eight queries."""
    yield from _runs(month.found)
    for day, alone, helped, lost in month.found.days:
        for word, count in (("alone", alone), ("helped", helped), ("lost", lost)):
            yield "days", day.isoformat(), word, count
    for cause in month.found.causes:
        about = f"{cause.operation}, {cause.category}"
        yield from _told("causes", about, {"failures": cause.failures, "runs": cause.runs, "lost": cause.lost})
    yield from _outages(month.outages, now)
    yield from _answers(month.answers)
    yield from _report(month, now)
    for verb, count, who in month.deeds:
        yield from _told("deeds", verb, {"times": count, "by": who})


def _runs(found: Recoveries) -> Iterator[Line]:
    yield from _told(
        "runs",
        "",
        {
            "ended": found.runs,
            "troubled": found.troubled,
            "alone": found.alone.runs,
            "helped": found.helped.runs,
            "lost": found.lost.runs,
            "share_alone": found.share_alone,
            "failed_attempts": found.failures,
            "retries": found.retries,
            "fallbacks": found.fallbacks,
            "given_up": found.exhausted,
        },
    )
    yield from _told(
        "time",
        "",
        {
            "alone_s": found.alone.took_s,
            "helped_s": found.helped.took_s,
            "saved_s": found.alone.took_s,
            "lost_s": found.lost.took_s,
        },
    )
    saved, lost = found.alone.cost_usd, found.lost.cost_usd
    is_known = found.knows_cost
    money = {"saved_usd": saved if is_known else None, "lost_usd": lost if is_known else None}
    yield from _told("money", "", {**money, "runs_that_said": found.costed})


def _outages(outages: Sequence[CapacityEventRow], now: datetime) -> Iterator[Line]:
    lasted = incident_time(outages, now)
    yield from _told("outages", "", {"count": len(outages), "lasted_s": lasted.total_seconds()})
    for row in outages:
        said = {
            "name": row.name,
            "whose": OWNER_WORDS[row.owner],
            "regions": ", ".join(row.regions),
            "began": row.started,
            "lasted_s": row.lasted(now).total_seconds(),
            "failures": row.failures,
            "runs": row.runs,
        }
        yield from _told("outages", row.number, said)


def _answers(answers: Answering) -> Iterator[Line]:
    said = {
        "opened": answers.opened,
        "taken": answers.taken,
        "resolved": answers.resolved,
        "late": answers.late,
        "unanswered": answers.unanswered,
        "to_take_s": _seconds(answers.to_take),
        "to_resolve_s": _seconds(answers.to_resolve),
        "held_s": _seconds(answers.held),
    }
    yield from _told("questions", "", said)
    for name, count in answers.people.items():
        yield "questions", name, "resolved_by", count


def _report(month: Month, now: datetime) -> Iterator[Line]:
    """Of the month, of each week that touches it, of each person and of each noise, as the API says them."""
    whole = report_document(report_of(month.environment, start=month.start, end=month.end, now=now))
    monday = month.start - timedelta(days=month.start.weekday())
    weekly = report_document(report_of(month.environment, start=monday, end=month.end, now=now))
    yield from _told("month", "", _figures(whole["total"]))
    for week in weekly["weeks"]:
        yield from _told("weeks", week["start"][:10], _figures(week))
    for person in whole["people"]:
        yield from _told("people", person["name"], _figures(person))
    for rank, noise in enumerate(whole["noisy"], 1):
        yield from _told("noisy", f"{rank}. {noise['operation'] or noise['service']}, {noise['kind']}", _figures(noise))


def _figures(document: Mapping[str, Any], before: str = "") -> dict[str, Cell]:
    """A document's figures under their names in it: `acknowledging.mean_s`."""
    found: dict[str, Cell] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            found |= _figures(value, f"{before}{key}.")
        elif not isinstance(value, list) and (before or key not in _UNSAID):
            found[f"{before}{key}"] = value
    return found


def _told(section: str, about: str, said: Mapping[str, Cell]) -> Iterable[Line]:
    return [(section, about, figure, value) for figure, value in said.items()]


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
