"""The retry budget of one operation, compared with a plain count of the last 10 s."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.resilience.retry_budget import WINDOW_S, RetryBudget

SHARE = Settings(retry_ratio=0.5, min_retries_per_s=0.0)
FLAT = Settings(retry_ratio=0.0, min_retries_per_s=0.3)
LOOKS = st.lists(st.tuples(st.integers(1, 15), st.integers(0, 9)), max_size=12)
"""Each look at the budget: seconds since the look before, and the calls in between."""


def granted(budget: RetryBudget, now: float, settings: Settings) -> int:
    """How many retries the budget permits now, one after the other."""
    count = 0
    while budget.allows(now, settings):
        budget.spend(now)
        count += 1
    return count


@given(LOOKS)
def test_budget_counts_calls_of_last_ten_seconds(looks: list[tuple[int, int]]) -> None:
    """Calls between two looks count as spread evenly, so a span that began earlier counts in part."""
    budget, now, calls = RetryBudget(), 0.0, 0.0
    budget.look(now)
    spans = []
    for seconds, count in looks:
        spans.append((now, now + seconds, count))
        now += seconds
        for _ in range(count):
            budget.calls.add()
        budget.look(now)
    for began, ended, count in spans:
        calls += count * max(0.0, ended - max(began, now - WINDOW_S)) / (ended - began)
    assert granted(budget, now, SHARE) == int(calls * 0.5 + 1e-9)


@given(st.lists(st.integers(0, 6), max_size=12))
def test_budget_forgets_retries_after_ten_seconds(waits: list[int]) -> None:
    budget, now = RetryBudget(), 0.0
    made: list[float] = []
    for wait in waits:
        now += wait
        left = 3 - sum(at > now - WINDOW_S for at in made)
        assert budget.allows(now, FLAT) is (left > 0)
        if left > 0:
            budget.spend(now)
            made.append(now)


def test_calls_counted_elsewhere_raise_the_budget() -> None:
    budget = RetryBudget()
    budget.look(0.0)
    budget.calls.add()
    budget.more += 9
    assert granted(budget, 5.0, SHARE) == 5
