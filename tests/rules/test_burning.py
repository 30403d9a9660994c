"""When a retry budget is spent too fast, and what becomes of a try to deliver."""

from __future__ import annotations

import pytest

from recovery_ops.rules.incidents.burn_rate import BURNS, WINDOWS_S, Spent, burning, is_over
from recovery_ops.rules.notifications.delivery import TRIES_MOST, Outcome, next_try, outcome_of

HOUR, DAY = 3600, 86_400


def spent(**retries: int) -> dict[int, Spent]:
    """A thousand calls in the shortest window, more in each longer one; so many retries per thousand calls."""
    lengths = {"m5": 300, "m30": 1800, "h1": HOUR, "h6": 6 * HOUR, "d3": 3 * DAY}
    scale = {window_s: number for number, window_s in enumerate(WINDOWS_S, 1)}
    per_thousand = dict.fromkeys(WINDOWS_S, 0) | {lengths[name]: count for name, count in retries.items()}
    return {window_s: Spent(1000 * scale[window_s], scale[window_s] * per_thousand[window_s]) for window_s in WINDOWS_S}


@pytest.mark.parametrize(
    ("counted", "on"),
    [
        (spent(), []),
        (spent(h1=1441, m5=1441), ["fast"]),
        (spent(h1=1441, m5=1440), []),
        (spent(h1=1440, m5=1441), []),
        (spent(h6=601, m30=601), ["steady"]),
        (spent(d3=101, h6=101), ["slow"]),
        (spent(d3=100, h6=101), []),
        (spent(d3=100, h6=100), []),
        (spent(h1=2000, m5=2000, h6=700, m30=2000, d3=101), ["fast", "steady", "slow"]),
    ],
)
def test_both_windows_have_to_burn(counted: dict[int, Spent], on: list[str]) -> None:
    assert [one.name for one in burning(counted, 0.1)] == on


def test_burn_without_older_calls_is_no_alert() -> None:
    assert burning({window_s: Spent(100, 200) for window_s in WINDOWS_S}, 0.1) == ()
    assert [one.name for one in burning(spent(h1=2000, m5=2000), 0.1)] == ["fast"]


def test_a_handful_of_calls_is_no_alert_and_no_calls_say_nothing() -> None:
    assert burning({window: Spent(3, 9) for window in WINDOWS_S}, 0.1) == ()
    assert burning({window: Spent(0, 90) for window in WINDOWS_S}, 0.1) == ()
    assert burning({}, 0.1) == ()
    assert burning(spent(d3=101, h6=101), 0.0) == ()


@pytest.mark.parametrize("budget", [0.1, 0.3, 0.7])
def test_exactly_the_budget_is_within_it_and_one_more_is_over(budget: float) -> None:
    retries = round(1000 * budget)
    assert not is_over(Spent(1000, retries).rate(budget))
    assert is_over(Spent(1000, retries + 1).rate(budget))
    assert not is_over(None)


def test_the_windows_are_those_of_the_rule() -> None:
    assert [(one.rate, one.long_s, one.short_s) for one in BURNS] == [
        (14.4, HOUR, 300),
        (6.0, 6 * HOUR, 1800),
        (1.0, 3 * DAY, 6 * HOUR),
    ]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *((status, Outcome.ARRIVED) for status in (200, 202, 204)),
        *((status, Outcome.LATER) for status in (408, 425, 429, 500, 502, 503, 529)),
        *((status, Outcome.NEVER) for status in (301, 302, 307, 400, 401, 403, 404, 410)),
    ],
)
def test_what_a_status_says(status: int, outcome: Outcome) -> None:
    assert outcome_of(status) is outcome


def test_waits_grow_up_to_a_bound_and_a_receiver_may_ask_for_more() -> None:
    waits = [next_try(Outcome.LATER, tries=tries).wait_s for tries in range(1, TRIES_MOST)]
    assert waits == [5, 10, 20, 40, 80, 160, 320, 640, 900]
    assert next_try(Outcome.LATER, tries=1, chance=1.0).wait_s == 6
    assert next_try(Outcome.LATER, tries=1, retry_after_s=120).wait_s == 120
    assert next_try(Outcome.LATER, tries=1, retry_after_s=1e9).wait_s == 3600
    assert next_try(Outcome.LATER, tries=TRIES_MOST).outcome is Outcome.NEVER
    assert next_try(Outcome.NEVER, tries=1).outcome is Outcome.NEVER
