"""The fleet: who reports, which revision each obeys, and what waits in its outbox."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events import queries
from events.empties import no_agent
from events.exports import Cell, is_asked, rows_answer
from events.pages import render_page
from events.rows import AgentRow
from recovery_ops.control.views import sentences
from recovery_ops.control.views.applying import note_of
from recovery_ops.control.views.facets import facets_of
from recovery_ops.control.views.standing import Standing
from recovery_ops.rules.words import ApplyStatus

MOST = 100
_ORDER = (
    ApplyStatus.UNREACHABLE,
    ApplyStatus.FAILED,
    ApplyStatus.DRIFTED,
    ApplyStatus.PENDING,
    ApplyStatus.APPLIED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One instance and where it stands against the newest revision."""

    agent: AgentRow
    apply: ApplyStatus
    obeys: str

    @property
    def status(self) -> str:
        """What it says of itself; silence counts more than its last word."""
        return (self.agent.status or "reporting") if self.agent.is_reachable else "unreachable"


def agents(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Every instance of the last day, or those of one kind."""
    now = timezone.now()
    standing = Standing(environment, now=now)
    fleet = queries.fleet(environment, now=now)
    rows = sorted((_row(agent, standing) for agent in fleet), key=_place)
    counts = {status.value: sum(row.apply is status for row in rows) for status in _ORDER}
    chosen = request.GET.get("show", "")
    counts = {name: number for name, number in counts.items() if number or name == chosen}
    matching = [row for row in rows if chosen not in counts or row.apply == chosen]
    if is_asked(request):
        return rows_answer(request, f"agents {environment}", _COLUMNS, map(_cells, matching))
    context = {
        "now": now,
        "rows": matching if "all" in request.GET else matching[:MOST],
        "matching": len(matching),
        "all_href": f"?show={chosen}&all=1" if chosen in counts else "?all=1",
        "total": len(rows),
        "empty": None if rows else no_agent(environment),
        "facets": list(facets_of(counts, total=len(rows), chosen=chosen, words={})),
        "facet_word": chosen,
        "sentence": sentences.agents(fleet, standing.revision, drifted=counts.get(ApplyStatus.DRIFTED.value, 0)),
        "newest_revision": standing.revision,
        "silence_s": settings.UNREACHABLE_AFTER_S,
    }
    return render_page(request, "control/agents", context)


_COLUMNS = (
    *("instance", "service", "group", "version", "status", "obeys", "revision", "last seen", "first seen"),
    *("runs in flight", "breakers open", "outbox pending", "outbox dropped"),
)


def _cells(row: Row) -> tuple[Cell, ...]:
    one = row.agent
    return (
        *(one.instance, one.service, one.group, one.version, row.status, row.obeys, one.revision, one.last_seen),
        *(one.first_seen, one.runs_in_flight, one.breakers_open, one.outbox_pending, one.outbox_dropped),
    )


def _row(agent: AgentRow, standing: Standing) -> Row:
    apply = standing.status_of(agent, standing.revision)
    obeys = "applied" if apply is ApplyStatus.APPLIED else f"{apply}: {note_of(apply, agent, standing.revision)}"
    if apply is ApplyStatus.APPLIED and agent.clamped:
        obeys = f"applied, held back by its own ceilings: {', '.join(agent.clamped)}"
    return Row(agent=agent, apply=apply, obeys=obeys)


def _place(row: Row) -> tuple[int, str, str]:
    return (_ORDER.index(row.apply), row.agent.service, row.agent.instance)
