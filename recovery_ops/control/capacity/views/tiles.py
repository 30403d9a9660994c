"""The line of figures over the capacity events: what was answered, who waits for it, how much of it needed nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from django.urls import reverse

from events.capacity.rows import CapacityEventRow, going_on
from events.moments import MINUTE_S
from events.pages.window import Window
from events.queries.sums import Sums
from events.recoveries.asking import Recoveries
from events.rows import Bins
from events.wording import count_text, rate_text, share_text, span_text
from recovery_ops.control.dashboard.views.tiles import Tile
from recovery_ops.control.runs.status import runs_waiting_href
from recovery_ops.rules.enums import Category

_LONGEST_S = 366 * 86_400.0
"""A server, or who plays one, can ask for any wait."""
_P95 = 0.95
_UNKNOWN = "–"
_RETRY_AFTER = "retry_after"


def capacity_tiles(
    sums: Sums,
    events: Sequence[CapacityEventRow],
    waits_s: Sequence[float],
    recovered: Recoveries,
    window: Window,
    *,
    is_dark: bool,
) -> list[Tile]:
    """Rates are those of the range while somebody lived to report; `waits_s` are what servers asked for.

    `is_dark`: the range reaches until now, and nobody reports any more.
    """
    whole = sums.in_minutes()  # finer bins are known only where they have failures
    failures = whole.failures("category")
    minutes = _known_minutes(failures, whole.capacity(), window)
    kinds = {name: sum(values) for name, values in failures.series.items()}
    link = window.link
    overloaded, limited = sums.total("overloaded"), sums.total("rate_limited")
    errors, timeouts = kinds.get(Category.SERVER_ERROR.value, 0), kinds.get(Category.TIMEOUT.value, 0)
    return [
        _rate("429", {"failures": limited}, minutes, "our own quota", link),
        _rate("529", {"failures": overloaded}, minutes, "provider overloaded, or a 503 that says so", link),
        _rate(
            "5xx and timeouts",
            {"errors": errors, "timeouts": timeouts},
            minutes,
            f"{errors:,} × 5xx, {timeouts:,} × timeout",
            link,
            name="5xx",
        ),
        _waiting(events, window, is_dark=is_dark),
        _retry_after(waits_s, link),
        _recovered(recovered),
    ]


def _known_minutes(failures: Bins, capacity: Bins, window: Window) -> float:
    """How much of the range is known: what was counted is, also where its sender was not yet known to live."""
    known = sum(not (one and other) for one, other in zip(failures.unknown, capacity.unknown, strict=True))
    return min(known * failures.bin_s, (window.end - window.start).total_seconds()) / MINUTE_S


def _rate(title: str, told: Mapping[str, int], minutes: float, detail: str, link: str, *, name: str = "") -> Tile:
    count = sum(told.values())
    figure = _UNKNOWN if not minutes else rate_text(count / minutes)
    words = "no agent reported" if not minutes else f"{count:,} in this range; {detail}"
    href = f"{reverse('failures')}{link}"
    return Tile(title=title, figure=figure, unit="per min", detail=words, href=href, name=name or title, told=told)


def _waiting(events: Sequence[CapacityEventRow], window: Window, *, is_dark: bool) -> Tile:
    """Runs of several incidents may overlap: the lower bound is the largest number of one incident."""
    current = going_on(events)
    waiting = max((row.waiting for row in current), default=0)
    going = count_text(len(current), "ongoing incident")
    is_least = waiting > 0 and len(current) > 1
    detail = f"lower bound: most in one of {going}" if is_least else f"in {going}" if current else "no ongoing incident"
    is_known = bool(current) or not is_dark
    return Tile(
        title="Runs waiting",
        figure=f"{waiting:,}" if is_known else _UNKNOWN,
        unit="now",
        detail=detail if is_known else "no agent is reporting",
        href=runs_waiting_href(window.also),
        name="waiting",
        told={"events": len(current), "least": int(is_least)},
    )


def _retry_after(waits_s: Sequence[float], link: str) -> Tile:
    if not waits_s:
        return Tile(
            title="Retry-After",
            figure=_UNKNOWN,
            unit="",
            detail="none in this range",
            href=f"{reverse('failures')}{link}",
            name=_RETRY_AFTER,
            told={"answers": 0},
        )
    ordered = sorted(min(wait_s, _LONGEST_S) for wait_s in waits_s)
    p95_s = ordered[ceil(len(ordered) * _P95) - 1]
    return Tile(
        title="Retry-After",
        figure=span_text(p95_s),
        unit="p95",
        detail=f"of the newest {len(ordered):,}; maximum {span_text(ordered[-1])}",
        href=f"{reverse('failures')}{link}",
        name=_RETRY_AFTER,
        told={"answers": len(ordered), "longest": ordered[-1]},
    )


def _recovered(recovered: Recoveries) -> Tile:
    share = recovered.share_alone
    length = (recovered.last - recovered.first).days + 1
    days = "1 day" if length == 1 else f"{length} days"
    return Tile(
        title="Auto-recovered share",
        figure=_UNKNOWN if share is None else share_text(share),
        unit="of runs" if share is not None else "",
        detail=f"{recovered.alone.runs:,} of {count_text(recovered.troubled, 'run')} with failures, {days}",
        href=reverse("overview"),
        name="recovered",
        told={"recovered": recovered.alone.runs, "troubled": recovered.troubled, "days": length},
    )
