"""Other limits of a breaker, tried on its last day: a form, what would have happened in words, and as lanes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString

from events.charts import drawing
from events.pages.rendering import render_page
from events.queries.breakers import standing_of
from events.rows import Segment
from events.wording import clock_text, count_text, share_text
from recovery_ops.control.breakers.rows import rules_behind
from recovery_ops.control.breakers.views.settings import opens_at
from recovery_ops.control.dashboard.views.lanes import Row, Strip
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.replay.breaker_limits import Opening, Tried
from recovery_ops.control.replay.breaker_trial import LIMITS, LOOKED_BACK, Trial, limits_of, trial_of
from recovery_ops.control.templatetags.console import setting
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.settings import SETTINGS

SHOWN_MOST = 200
_TYPED_CHARS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One limit in the form, as `_policy_field.html` draws it; `hint` says what holds today."""

    name: str
    label: str
    value: str
    hint: str
    errors: Sequence[str]
    choices: Sequence[tuple[str, str]] = ()
    rows: int = 1
    unit: str = ""


def simulate(request: HttpRequest, *, environment: str, name: str) -> HttpResponse:
    """A form with the limits of a breaker, and what those of the address would have done. 404 as its page."""
    now = timezone.now()
    reported = standing_of(environment, name, since=now - LOOKED_BACK) if name.isprintable() else []
    if not reported:
        raise Http404(f"No instance in {environment} reported the breaker {name} in the last 24 h.")
    rules = rules_behind(Standing(environment, now=now).policy, name, reported)
    typed = {one: request.GET.get(one, "").strip()[:_TYPED_CHARS] for one in LIMITS}
    asked, faults = limits_of(typed, rules)
    trial = trial_of(environment, name, rules, asked, now=now) if any(typed.values()) and not faults else None
    context = {
        "now": now,
        "name": name,
        "fields": [
            Field(
                name=one,
                label=SETTINGS[one].brief,
                value=typed[one] or setting(getattr(rules.settings, one)),
                hint=f"Current: {setting(getattr(rules.settings, one))}.",
                errors=[faults[one]] if one in faults else [],
            )
            for one in LIMITS
        ],
        "trial": trial,
        "told": list(sentences_of(trial)) if trial is not None else [],
        "lanes": _lanes(trial) if trial is not None else None,
        "openings": _openings(trial.other.openings) if trial is not None else [],
        "is_shortened": trial is not None and len(trial.other.openings) > SHOWN_MOST,
        "shown_most": SHOWN_MOST,
    }
    return render_page(request, "breakers/breaker_simulate", context)


def sentences_of(trial: Trial) -> Iterable[str]:
    """What would have happened, what was read of it, and what cannot be known."""
    since = clock_text(trial.since, today=trial.end)
    if not trial.failures:
        yield f"No failures since {since}: no limit opens the breaker."
        return
    yield f"Limits {opens_at(trial.asked)}: {_opened(trial.other, trial)}."
    yield (
        f"Current limits: {count_text(len(trial.today.openings), 'opening')}. "
        f"Recorded: {count_text(len(trial.recorded), 'opening')}."
    )
    refused = trial.other.refused_failures + trial.other.refused_successes
    if refused:
        share = share_text(trial.other.refused_successes / refused)
        yield (
            f"{count_text(refused, 'recorded attempt')} would be rejected; "
            f"{trial.other.refused_successes:,} of them ({share}) succeeded."
        )
    if trial.other.not_known:
        calls = count_text(trial.other.not_known, "rejected call")
        yield f"{calls} would be made; their outcome is unknown."
    if trial.is_cut:
        yield f"Only events since {since} are included: too many events in the last 24 h."


def _opened(tried: Tried, trial: Trial) -> str:
    if not tried.openings:
        return "no opening"
    first = clock_text(datetime.fromtimestamp(tried.openings[0].at_s, UTC), today=trial.end)
    where = f"on {tried.instances} of {count_text(trial.instances, 'instance')}"
    return f"{count_text(len(tried.openings), 'opening')} {where}, first at {first}"


def _lanes(trial: Trial) -> Strip:
    """When it was open on any instance: as it was, by today's limits, by those that were asked for."""
    variants = (
        ("Recorded", trial.recorded),
        ("Current limits", trial.today.openings),
        ("New limits", trial.other.openings),
    )
    rows = [Row(label=label, drawing=_lane(label, some, trial), value=f"{len(some):,}") for label, some in variants]
    return Strip(rows=rows, axis=drawing.axis(trial.since, trial.end), bin_s=0)


def _lane(label: str, openings: Sequence[Opening], trial: Trial) -> SafeString:
    segments: list[Segment] = []
    at = trial.since
    for begin, until in _united(openings, trial):
        segments += [_segment(State.CLOSED, at, begin), _segment(State.OPEN, begin, until)]
        at = until
    segments.append(_segment(State.CLOSED, at, trial.end))
    shown = [one for one in segments if one.start < (one.end or trial.end)]
    return drawing.lane(shown, start=trial.since, end=trial.end, label=f"{label}, open on any instance")


def _united(openings: Sequence[Opening], trial: Trial) -> list[tuple[datetime, datetime]]:
    """When any of them was open, in order and without overlaps."""
    whole: list[tuple[float, float]] = []
    for one in sorted(openings, key=lambda one: one.at_s):
        if whole and one.at_s <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(whole[-1][1], one.until_s))
        else:
            whole.append((one.at_s, one.until_s))
    end_s = trial.end.timestamp()
    return [
        (datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(min(until, end_s), UTC))
        for begin, until in whole
        if begin < end_s
    ]


def _segment(state: State, start: datetime, end: datetime) -> Segment:
    return Segment(service="", instance="", breaker="", state=state, start=start, end=end)


def _openings(openings: Sequence[Opening]) -> list[tuple[datetime, Opening]]:
    """The newest first."""
    newest = sorted(openings, key=lambda one: -one.at_s)[:SHOWN_MOST]
    return [(datetime.fromtimestamp(one.at_s, UTC), one) for one in newest]
