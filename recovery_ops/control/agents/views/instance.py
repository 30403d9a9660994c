"""One instance: how it stood, what it told last, its breakers, and what it goes by beside what is desired of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone

from events import queries
from events.pages.narrowing import one_of
from events.pages.rendering import render_page
from events.pages.window import PRESETS, window_in
from events.queries.instance import EVENTS_READ, breakers_in, failures_of, last_events_of, revisions_of
from events.rows import AgentRow, RevisionMove
from recovery_ops.control.agents.effective_settings import InForce, Line, Part, in_force_of
from recovery_ops.control.agents.filters import status_text
from recovery_ops.control.agents.pause_status import Pauses
from recovery_ops.control.agents.services.labels import labels_of
from recovery_ops.control.agents.views.runs import at_work
from recovery_ops.control.agents.views.states import states_figure
from recovery_ops.control.desired_state.opamp.agents import has_failed, is_client
from recovery_ops.control.desired_state.propagation import note_of
from recovery_ops.control.desired_state.status import Standing

MOST_DIFFERENT = 100
PROCESS = "(process)"


def agent_settings(request: HttpRequest, *, environment: str) -> HttpResponse:
    """`service` and `instance` name it; `of`: whose settings are shown one by one, an operation or the process.

    `tab=runs` shows its runs and how its breakers stood instead.
    """
    now = timezone.now()
    service, instance = request.GET.get("service", ""), request.GET.get("instance", "")
    agent = queries.agent_named(environment, service, instance, now=now)
    if agent is None:
        raise Http404(f"No instance {service}/{instance} has reported in {environment}.")
    window = window_in(request, environment, now=now)
    if one_of(request.GET, "tab", ("runs",)):
        shown = {"now": now, "agent": agent, "window": window, "presets": PRESETS, "status": status_text(agent)}
        shown |= _paused(Pauses(environment, now), agent)
        context = {**shown, **at_work(environment, agent, window, now), "tab": "runs"}
        return render_page(request, "agents/agent_settings", context)
    stated = queries.settings_in_force(agent.id)
    is_opamp = not stated and is_client(environment, service, instance)
    snapshot = Standing(environment, now=now).snapshot
    found = in_force_of(agent, stated, snapshot, now=now, is_opamp=is_opamp)
    chosen = _chosen(found, request.GET.get("of", ""))
    differing = [(part, line) for part in found.parts for line in part.different]
    revisions = revisions_of(environment, agent.id, now=now)
    context = {
        "now": now,
        "found": found,
        "went_back": _went_back(revisions),
        "agent": agent,
        "is_offerable": is_opamp and has_failed(environment, service, instance),
        "note": note_of(found.status, agent, found.revision) if found.status != "applied" else "",
        "differing": differing[:MOST_DIFFERENT],
        "more": max(0, len(differing) - MOST_DIFFERENT),
        "chosen": chosen,
        "lines": _different_first(chosen.lines) if chosen is not None else [],
        "process": PROCESS,
        "breakers": breakers_in(agent.id, now=now),
        "failures": failures_of(environment, agent.id, now=now),
        "revisions": revisions,
        "figure": states_figure(agent, window, now),
        "events": last_events_of(agent.id, last_seen=agent.last_seen),
        "events_read": EVENTS_READ,
        "silence_s": settings.UNREACHABLE_AFTER_S,
        "window": window,
        "presets": PRESETS,
        "status": status_text(agent),
        **_paused(Pauses.in_snapshot(snapshot.pauses, now), agent),
        "labels": labels_of(environment, agent.service, agent.instance),
    }
    return render_page(request, "agents/agent_settings", context)


def _paused(pauses: Pauses, agent: AgentRow) -> dict[str, object]:
    return {"pause": pauses.of(agent), "told": pauses.told(agent)}


def _went_back(revisions: Sequence[RevisionMove]) -> tuple[RevisionMove, int] | None:
    """When it last came to obey an older revision than it had obeyed before, and from which; the newest come first."""
    applied = [(one, one.revision) for one in revisions if not one.is_refused and one.revision is not None]
    for (move, revision), (_, before) in pairwise(applied):
        if revision < before:
            return move, before
    return None


def _chosen(found: InForce, asked: str) -> Part | None:
    """The part that is asked for, else the first that differs, else the first operation."""
    wanted = "" if asked == PROCESS else asked
    by_name = {part.operation: part for part in found.parts}
    if asked and wanted in by_name:
        return by_name[wanted]
    differing = [part for part in found.parts if part.different]
    return next(iter([*differing, *(part for part in found.parts if part.operation), *found.parts]), None)


def _different_first(lines: Sequence[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: not line.is_different)
