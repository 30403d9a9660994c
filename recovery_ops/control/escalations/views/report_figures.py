"""Every figure of a report as rows: one figure a row, so that a table of any program takes it.

Those of escalations go by their names in the API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from events.capacity.rows import OWNER_WORDS, CapacityEventRow
from events.pages.table_files import Cell
from events.recoveries.asking import Recoveries
from recovery_ops.control.capacity.serializers import recovery_document, report_document
from recovery_ops.control.dashboard.incident_time import incident_time
from recovery_ops.control.escalations.selectors.report import Report

COLUMNS = ("section", "of", "figure", "value")
_UNSAID = ("start", "end", "name", "operation", "service", "kind")
"""What names a row, and is no figure of it."""

Line = tuple[str, Cell, str, Cell]


def lines_of(
    report: Report,
    found: Recoveries,
    outages: Sequence[CapacityEventRow],
    deeds: Sequence[tuple[str, int, str]],
    now: datetime,
) -> Iterator[Line]:
    """The rows, section by section."""
    for section, figures in recovery_document(found).items():
        yield from _told(section, "", figures)
    for day, alone, helped, lost in found.days:
        for word, count in (("alone", alone), ("helped", helped), ("lost", lost)):
            yield "days", day.isoformat(), word, count
    for cause in found.causes:
        about = f"{cause.operation}, {cause.category}"
        yield from _told("causes", about, {"failures": cause.failures, "runs": cause.runs, "lost": cause.lost})
    yield from _outages(outages, now)
    yield from _report(report)
    for verb, count, who in deeds:
        yield from _told("deeds", verb, {"times": count, "by": who})


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


def _report(report: Report) -> Iterator[Line]:
    """Of the range, of each week of it, of each person and of each noise, as the API says them."""
    document = report_document(report)
    yield from _told("report", "", _figures(document["total"]))
    for week in document["weeks"]:
        yield from _told("weeks", week["start"][:10], _figures(week))
    for person in document["people"]:
        yield from _told("people", person["name"], _figures(person))
    for rank, noise in enumerate(document["noisy"], 1):
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
