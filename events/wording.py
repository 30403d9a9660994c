"""The words for what was found: moments, durations, shares, and why a breaker moved. Plain, exact, never rounded up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.utils import timezone

from events.rows import Transition
from recovery_ops.rules.enums import Category, State, Trigger

UNKNOWN = "unknown"
NOT_YET = "not yet reporting"
"""What is said of the time before the first sign of life: nothing was missed, because there was nobody to miss."""

_TRIGGERED: dict[Trigger, str] = {
    Trigger.SLOW_CALL_RATE: "slow-call rate above the threshold",
    Trigger.WAIT_ELAPSED: "open wait elapsed",
    Trigger.PROBE_SUCCEEDED: "probe succeeded",
    Trigger.PROBE_FAILED: "probe failed or was slow",
    Trigger.PROBE_ABANDONED: "probe did not return",
    Trigger.OPERATOR_TRIP: "tripped by an override",
    Trigger.OPERATOR_DISABLE: "disabled by an override",
    Trigger.OPERATOR_OBSERVE: "set to metrics only by an override",
    Trigger.OPERATOR_RESET: "reset by an operator",
    Trigger.OPERATOR_PROBE: "probe requested by an operator",
    Trigger.OPERATOR_RELEASE: "override cleared",
    Trigger.OVERRIDE_EXPIRED: "override expired",
}


STATE_LABELS: dict[State, str] = {
    State.CLOSED: "closed",
    State.HALF_OPEN: "half-open",
    State.OPEN: "open",
    State.FORCED_OPEN: "forced open",
    State.DISABLED: "disabled",
    State.METRICS_ONLY: "metrics only",
}


def state_word(state: State | None) -> str:
    """The state's code; `unknown` for None."""
    return state.value if state is not None else UNKNOWN


def state_text(state: State | str | None) -> str:
    """The state's label, `forced open`; `unknown` for None and for words that are no state."""
    return STATE_LABELS.get(State(state), UNKNOWN) if state in set(State) else UNKNOWN


def clock_text(moment: datetime, *, today: datetime) -> str:
    """`14:26:04`; with the day when that is not the day of `today`. In the reader's zone, else in UTC."""
    zone = timezone.get_current_timezone()  # once: it is looked up for each row of the longest tables
    moment = moment.astimezone(zone)
    if moment.date() == today.astimezone(zone).date():
        return f"{moment.hour:02}:{moment.minute:02}:{moment.second:02}"
    return f"{moment.day} {moment:%b %H:%M:%S}"


def zone_word(moment: datetime) -> str:
    """What the reader's zone is called at this moment: `UTC`, `CEST`, `+03`."""
    return f"{timezone.localtime(moment):%Z}"


def span_text(span: timedelta | float) -> str:
    """`0.4 s`, `14 s`, `6m 26s`, `2h 14m 03s`, `3d 04h 10m`: never cut to the largest unit."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else float(span)
    if 0 < seconds < 1:
        return f"{math.floor(seconds * 10) / 10:.1f} s"
    minutes, s = divmod(max(0, math.floor(seconds)), 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    if days:
        return f"{days}d {h:02}h {m:02}m"
    if hours:
        return f"{h}h {m:02}m {s:02}s"
    return f"{m}m {s:02}s" if minutes else f"{s} s"


def lasted_text(seconds: float) -> str:
    """A short measured time: `46 ms`, `1.4 s`, then as `span_text`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else span_text(seconds)


def bin_text(bin_s: int) -> str:
    """`10 s`, `minute`, `5 minutes`, `hour`, `2 hours`: what a count is per."""
    for unit_s, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if bin_s % unit_s == 0:
            return unit if bin_s == unit_s else f"{bin_s // unit_s} {unit}s"
    return f"{bin_s} s"


def bins_text(bin_s: int) -> str:
    """`10 s bins`, `1 min bins`, `5 min bins`, `2 h bins`: how coarse a drawing is."""
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if bin_s % unit_s == 0:
            return f"{bin_s // unit_s} {unit} bins"
    return f"{bin_s} s bins"


def share_text(share: float) -> str:
    """`65 %`; less than one per cent keeps a decimal, so that little is not nothing."""
    percent = share * 100
    return f"{percent:.1f} %" if 0 < percent < 1 else f"{percent:.0f} %"


def share_beside(share: float, bound: float) -> str:
    """`share_text` with as many decimals as it takes to read on its own side of a bound: `10.04 %`, not `10 %`."""
    if share == bound:
        return share_text(share)
    shown = (share_text(share), *(f"{share * 100:.{decimals}f} %" for decimals in range(1, 5)))
    return next((text for text in shown if text != share_text(bound) and _is_beside(text, share, bound)), shown[-1])


def _is_beside(text: str, share: float, bound: float) -> bool:
    read = float(text.removesuffix(" %")) / 100
    return read != bound and (read > bound) == (share > bound)


def spend_text(spent: float, limit: float | None, measure: str) -> str:
    """What an account has spent of its cap: `5.02 of 5.00 USD`, `1,200 of 1,000 tokens`, `12 calls` without a cap."""
    decimals, unit = (2, "USD") if measure == "cost_usd" else (0, measure)
    whole = "" if limit is None else f" of {limit:,.{decimals}f}"
    return f"{spent:,.{decimals}f}{whole} {unit}"


def count_text(count: int, one: str, many: str = "") -> str:
    """`1 instance`, `3 instances`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def rate_text(per_min: float) -> str:
    """`41`, `0.4`: how many a minute, with a decimal below ten."""
    return f"{per_min:,.0f}" if per_min >= 10 or per_min == 0 else f"{per_min:.1f}"


def listing(names: Sequence[str], *, most: int = 2) -> str:
    """`a`, `a and b`, `a, b and 3 others`."""
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most} others"
    if len(names) > 1:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return names[0] if names else ""


def category_text(category: Category) -> str:
    """The category in plain words, with the status that people know it by."""
    known = {Category.RATE_LIMITED: "rate limited (429)", Category.OVERLOADED: "overloaded (529)"}
    return known.get(category) or category.value.replace("_", " ")


def cause_sentence(cause: Transition | None, *, state: State | None) -> str:
    """Why a breaker is in a state, with the numbers that it had when it moved."""
    if state is None:
        return "the instance stopped reporting"
    if cause is None:
        return "no state change reported"
    words = [_cause(cause)]
    if cause.last_category is not None and cause.state in (State.OPEN, State.HALF_OPEN):
        words.append(f"last failure: {category_text(cause.last_category)}")
    if cause.revision is not None and cause.override_id:
        words.append(f"revision {cause.revision}")
    return "; ".join(words)


def evidence_text(rate: float, threshold: float | None) -> str:
    """How badly calls went when a breaker moved: `65 % of calls failed, limit 50 %`, `5 failures in a row, 30 % of …`.

    A limit above one counts failures in a row; the share stands beside it because the window knows that, too. A limit
    that was not reached is not what moved it.
    """
    share = f"{share_text(rate)} of calls failed"
    if threshold is None or rate < threshold <= 1:
        return share
    if threshold > 1:
        return f"{threshold:,.0f} failures in a row, {share}"
    return f"{share}, threshold {share_text(threshold)}"


def _cause(cause: Transition) -> str:
    if cause.trigger is Trigger.CONSECUTIVE_FAILURES:
        return _in_a_row(cause)
    if cause.trigger is Trigger.FAILURE_RATE:
        return _rate(cause)
    if cause.trigger is None:
        return f"reported {state_text(cause.state)}"
    return _TRIGGERED[cause.trigger]


def _in_a_row(cause: Transition) -> str:
    """The limit is how many came in a row; the failures are those of the whole window, of which there may be more."""
    words = f"{cause.threshold:,.0f} failures in a row" if cause.threshold else "failures in a row"
    if cause.failures is not None and cause.calls is not None:
        words = f"{words}, {cause.failures} of the last {count_text(cause.calls, 'call')} failed"
    return words


def _rate(cause: Transition) -> str:
    words = "failure rate above the threshold"
    if cause.failures is not None and cause.calls is not None:
        words = f"{cause.failures} of {cause.calls} calls failed"
    limit = f", threshold {share_text(cause.threshold)}" if cause.threshold is not None else ""
    if cause.failure_rate is not None:
        return f"{words} ({share_text(cause.failure_rate)}{limit})"
    return words
