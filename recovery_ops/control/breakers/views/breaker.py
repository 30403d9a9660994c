"""The page of one breaker: what is desired, what is observed and by whom, its story, and its figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from events import queries
from events.charts.stills import still_of
from events.models import BreakerState
from events.pages.rendering import has_drawn, render_page
from events.pages.window import PRESETS, Window, window_in
from events.queries.breakers import standing_among
from events.queries.counted import in_flight
from events.queries.moves import moves_within
from events.queries.resting_keys import keys_resting_at
from events.queries.transitions import Move, transition_of
from events.rows import RANK, BreakerRow, InstanceState
from events.wording import state_word
from recovery_ops.control.breakers.headlines import breaker_headline
from recovery_ops.control.breakers.rows import rules_behind
from recovery_ops.control.breakers.stuck import findings_of
from recovery_ops.control.breakers.views.breakers import ratio_of
from recovery_ops.control.breakers.views.columns import NextProbe
from recovery_ops.control.breakers.views.figures import counts_of, states_of
from recovery_ops.control.breakers.views.history import history_of
from recovery_ops.control.breakers.views.instances import instances_of
from recovery_ops.control.breakers.views.open_reason import opened_of
from recovery_ops.control.breakers.views.overrides import Resting
from recovery_ops.control.breakers.views.quorum import quorum_words
from recovery_ops.control.breakers.views.ramp_wording import ramp_lines
from recovery_ops.control.breakers.views.ranking import ranking_of
from recovery_ops.control.breakers.views.settings import configuration_of, in_force
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.rules.desired_state import Override
from recovery_ops.rules.enums import State

MOST_MOVES = 200
_ENTRIES = 40
_VERBS = ("trip", "disable", "observe", "reset", "probe", "release", "extend")


def or_page(view: Callable[..., HttpResponse], word: str) -> Callable[..., HttpResponse]:
    """A view of a breaker at an address that ends in a word; where there is no such breaker, the page of the one whose
    own name ends in it: `ledger/trip`."""

    @wraps(view)
    def either(request: HttpRequest, *, environment: str, name: str) -> HttpResponse:
        try:
            return view(request, environment=environment, name=name)
        except Http404 as missing:
            if request.method != "GET":
                raise
            try:
                return breaker(request, environment=environment, name=f"{name}/{word}")
            except Http404:
                raise missing from None

    return either


def breaker(request: HttpRequest, *, environment: str, name: str) -> HttpResponse:
    """One breaker. 404 for one that nobody ever reported."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    reported, beside = standing_among(environment, name, since=min(now, window.start))
    row = queries.breaker(environment, name, now=now, standing=reported)
    if row is None:
        raise Http404(f"No instance in {environment} has reported the breaker {name}.")
    found = queries.instance_states(environment, name, now=now, standing=reported)
    standing = Standing(environment, now=now)
    stuck = findings_of(row, standing.policy, now=now)
    row = as_observed(row, found)
    entries = _entries(environment, name)
    read = moves_within(environment, start=window.start, end=window.end, breaker=name)
    moves = [transition_of(move) for move in read[:MOST_MOVES]]
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "name": name,
        **_stills(request, name, window, standing, reported, read),
        "row": row,
        "ratio": ratio_of(row),
        "neighbours": beside,
        "opened": opened_of(found),
        "probe": NextProbe.of(row, now),
        "in_flight": (in_flight(environment, now=now, breaker=name) or {}).get(name),
        "keys": keys_resting_at(environment, row, now),
        "states": _states(row),
        "history": history_of(entries, moves, start=window.start, end=window.end),
        "is_cut": len(moves) == MOST_MOVES,
        "stuck": stuck,
        "ramps": ramp_lines(environment, name) if standing.has_resets else [],
        "links": {verb: reverse(f"breaker-{verb}", args=[name]) for verb in _VERBS},
        "named_href": f"{reverse('breakers-named')}?{urlencode({'name': name})}",
        "policy_href": reverse("policy", args=[row.operations[0] if row.operations else name]),
        "figure_href": f"{reverse('breaker-figure', args=[name])}{window.link}",
        "counts_href": f"{reverse('breaker-figure', args=[name])}?part=counts{window.also}",
        **_desired_and_observed(request, row, found, standing, entries, query=window.query),
    }
    return render_page(request, "breakers/breaker", context)


def _stills(
    request: HttpRequest,
    name: str,
    window: Window,
    standing: Standing,
    reported: Sequence[BreakerState],
    read: Sequence[Move],
) -> Mapping[str, Any]:
    """The figures as the page shows them until plotly has drawn them, and where it never does."""
    found: dict[str, Any] = {}
    environment = standing.environment
    if not has_drawn(request, "states"):
        states = states_of(environment, name, window, standing.now, standing=reported, moves=read)
        found |= {
            "states_still": still_of(states),
            "states_caption": states.caption,
            "states_legend": states.legend,
        }
    if not has_drawn(request, "counts"):
        rules = rules_behind(standing.policy, name, reported)
        counts = counts_of(environment, name, window, moves=read, rules=rules)
        found |= {"counts_still": still_of(counts), "counts_caption": counts.caption}
    return found


def as_observed(row: BreakerRow, found: Sequence[InstanceState]) -> BreakerRow:
    """The row with the states of these instances, so that the page tells one moment and not two."""
    counts = Counter(one.state for one in found if one.state is not None)
    worst = max(counts, key=RANK.__getitem__, default=None)
    since = [one.since for one in found if one.state is worst and one.since is not None]
    return replace(
        row,
        counts=dict(counts),
        unknown=len(found) - counts.total(),
        instances=len(found),
        worst=worst,
        since=min(since, default=None),
    )


def _desired_and_observed(
    request: HttpRequest,
    row: BreakerRow,
    found: Sequence[InstanceState],
    standing: Standing,
    entries: Sequence[AuditEntry],
    *,
    query: str,
) -> Mapping[str, Any]:
    override = standing.override_of(row.name)
    revision, made_at = _asked(override, entries)
    applying = standing.applying([one.agent for one in found], revision, made_at=made_at)
    operation = row.operations[0] if row.operations else row.name
    ranking = ranking_of(row, standing, [one.agent for one in found])
    return {
        "override": Resting.of(override, row.name, standing.environment) if override is not None else None,
        "quorum": quorum_words(row, standing, override),
        "ranking": ranking,
        "narrower": [
            (Resting.of(one, row.name, standing.environment), ranking.narrower[one.id])
            for one in standing.narrower_of(row.name)
        ],
        "ahead": [Resting.of(one, row.name, standing.environment) for one in standing.ahead_of(row.name)],
        "then_words": "half-open with one probe per instance"
        if override and override.mode is State.FORCED_OPEN
        else "policy",
        "reset": next((entry for entry in entries if entry.verb == "breaker.reset"), None),
        "desired_revision": revision,
        "sentence": breaker_headline(row, override, override.by if override is not None else ""),
        "apply": applying,
        "missing": applying.missing(),
        "instances": instances_of(
            found, standing, revision=revision, made_at=made_at, asked=_asked_of(request), query=query
        ),
        "configuration": configuration_of(in_force(standing.policy, operation)),
    }


def _asked_of(request: HttpRequest) -> Mapping[str, str]:
    return {name: request.GET[name] for name in ("show", "all") if name in request.GET}


def _entries(environment: str, name: str) -> list[AuditEntry]:
    """What people last did to exactly this breaker, newest first. Index `audit_by_operation`."""
    entries = AuditEntry.objects.filter(
        environment=environment, operation=name, result=AuditEntry.OK, verb__startswith="breaker."
    )
    return list(entries.order_by("-number")[:_ENTRIES])


def _asked(override: Override | None, entries: Sequence[AuditEntry]) -> tuple[int, datetime | None]:
    """The revision that last changed what is desired of the breaker, and when that was; 0 if nobody ever did."""
    newest = entries[0] if entries else None
    if override is not None and (newest is None or (newest.revision or 0) < override.revision):
        return override.revision, datetime.fromtimestamp(override.starts_at, UTC)
    return (newest.revision or 0, newest.at) if newest is not None else (0, None)


def _states(row: BreakerRow) -> list[tuple[str, int]]:
    known = [(state_word(state), number) for state, number in row.counts.items() if number]
    return [*known, *([("unknown", row.unknown)] if row.unknown else [])]
