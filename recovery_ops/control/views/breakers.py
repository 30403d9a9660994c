"""The list of breakers: observed beside desired, the worst first, each with how its last hours went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from events import drawing, queries
from events.empties import Empty, Why, nobody_yet
from events.exports import Cell, is_asked, rows_answer
from events.pages import render_page
from events.rows import BreakerRow, MajoritySegment
from events.window import PRESETS, Window, window_in
from events.wording import count_text
from recovery_ops.control.stuck import stuck_among
from recovery_ops.control.views import sentences
from recovery_ops.control.views.facets import Facet, facets_of
from recovery_ops.control.views.resting import MOST_ELSEWHERE, elsewhere
from recovery_ops.control.views.shedding import sentence_of
from recovery_ops.control.views.standing import Standing
from recovery_ops.rules.intent import Override
from recovery_ops.rules.words import State

SOON = timedelta(hours=1)
_STATES = (State.FORCED_OPEN, State.OPEN, State.HALF_OPEN, State.DISABLED, State.METRICS_ONLY, State.CLOSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An override as a table cell tells it."""

    mode: str
    by: str
    revision: int
    expires_at: datetime

    @staticmethod
    def of(override: Override | None) -> Held | None:
        """None where nobody holds it."""
        if override is None:
            return None
        expires_at = datetime.fromtimestamp(override.expires_at, UTC)
        return Held(mode=override.mode, by=override.by, revision=override.revision, expires_at=expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the list. `ratio` is how many instances are in the worst state, of all."""

    breaker: BreakerRow
    href: str
    ratio: str
    held: Held | None
    narrower: int
    is_stuck: bool
    bullet: SafeString
    strip: SafeString | str


def breakers(request: HttpRequest, *, environment: str) -> HttpResponse:
    """All breakers, or those of one state."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    found = queries.breakers(environment, now=now)
    standing = Standing(environment, now=now)
    stuck = stuck_among(found, standing.policy, now=now)
    tests = _tests(found, standing) | {"stuck": set(stuck)}
    chosen = request.GET.get("show", "")
    shown = [row for row in found if chosen not in tests or row.name in tests[chosen]]
    if is_asked(request):
        return rows_answer(request, f"breakers {environment}", _COLUMNS, (_cells(row, standing) for row in shown))
    resting = elsewhere(standing)
    fleet = queries.fleet_lanes(environment, start=window.start, end=window.end, now=now)
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "sentence": sentences.breakers(found),
        "total": len(found),
        "empty": None if found else _empty(window),
        "facets": _facets(tests, len(found), chosen, window),
        "facet_word": _WORDS.get(chosen, chosen),
        "rows": [_row(row, standing, fleet.get(row.name, []), window, is_stuck=row.name in stuck) for row in shown],
        "shed": None if standing.shed is None else sentence_of(standing.shed, now=now),
        "elsewhere": resting[:MOST_ELSEWHERE],
        "more_elsewhere": len(resting) - MOST_ELSEWHERE,
        "stuck": [(row.name, _href(row, window), stuck[row.name]) for row in shown if row.name in stuck],
        "footer": f"{count_text(len(shown), 'breaker')} of {len(found)} in {environment}.",
    }
    return render_page(request, "control/breakers", context)


def _empty(window: Window) -> Empty:
    """No breaker at all: nobody reports, or nobody guards a call."""
    if window.began is None:
        return nobody_yet()
    text = "Agents report, and none of them has called a guarded operation. That is not the same as all good."
    return Empty(
        why=Why.NEVER,
        title="No breaker has reported yet",
        text=text,
        href=reverse("agents"),
        button="Look at the agents",
    )


_WORDS = {"incomplete": "not fully known", "expiring": "expiring within 1 h"}


_COLUMNS = (
    *("breaker", "operations", "services", "worst state", "instances", "instances not reachable", "since"),
    *("failure rate", "limit", "calls per min", "failures per min", "refused per min", "held by", "held until"),
)


def _cells(row: BreakerRow, standing: Standing) -> tuple[Cell, ...]:
    held = Held.of(standing.override_of(row.name))
    return (
        *(
            row.name,
            ", ".join(row.operations),
            ", ".join(row.services),
            row.worst,
            row.instances,
            row.unknown,
            row.since,
        ),
        *(row.failure_rate, row.threshold, row.calls_per_min, row.failures_per_min, row.rejected_per_min),
        *((held.by, held.expires_at) if held is not None else (None, None)),
    )


def _tests(rows: Sequence[BreakerRow], standing: Standing) -> dict[str, set[str]]:
    """Which breakers each choice shows."""
    tests = {state.value: {row.name for row in rows if row.worst is state} for state in _STATES}
    tests["unknown"] = {row.name for row in rows if row.worst is None}
    tests["incomplete"] = {row.name for row in rows if row.unknown}
    soon = (standing.now + SOON).timestamp()
    tests["expiring"] = {
        row.name for row in rows if (held := standing.override_of(row.name)) is not None and held.expires_at < soon
    }
    return tests


def _facets(tests: Mapping[str, set[str]], total: int, chosen: str, window: Window) -> Iterable[Facet]:
    counts = {name: len(names) for name, names in tests.items() if names or name == chosen}
    return facets_of(
        counts, total=total, chosen=chosen, words=_WORDS, states=set(_STATES) | {"unknown"}, query=window.query
    )


def _href(row: BreakerRow, window: Window) -> str:
    return f"{reverse('breaker', args=[row.name])}{window.link}"


def _row(
    row: BreakerRow, standing: Standing, segments: Sequence[MajoritySegment], window: Window, *, is_stuck: bool
) -> Row:
    return Row(
        breaker=row,
        href=_href(row, window),
        ratio=ratio_of(row),
        held=Held.of(standing.override_of(row.name)),
        narrower=len(standing.narrower_of(row.name)),
        is_stuck=is_stuck,
        bullet=drawing.bullet(row.failure_rate, _limit(row)),
        strip=drawing.strip(segments, start=window.start, end=window.end, label=row.name) if segments else "–",
    )


def _limit(row: BreakerRow) -> float | None:
    """The limit of the failure rate; what opened for failures in a row has another limit, which is no share."""
    return row.threshold if row.threshold is not None and row.threshold <= 1 else None


def ratio_of(row: BreakerRow) -> str:
    """`33/40`: instances in the worst state, of all that have the breaker."""
    number = row.unknown if row.worst is None else row.counts.get(row.worst, 0)
    return f"{number}/{row.instances}"
