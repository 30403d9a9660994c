"""Admission of calls under spend caps: a table, and the property that an account ends one call over at most."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.spending import UNKNOWN_CALL, AccountState, Admission, SpendCap, Spending, admit

CASES = [
    # cap, spent, open, admission, measure
    (SpendCap(), Spending(calls=10**6), Spending(), Admission.ADMITTED, ""),
    (SpendCap(calls=3), Spending(calls=2), Spending(), Admission.ADMITTED, ""),
    (SpendCap(calls=3), Spending(calls=3), Spending(), Admission.AT_CAP, "calls"),
    (SpendCap(calls=3), Spending(calls=2), Spending(calls=1), Admission.BUSY, "calls"),
    (SpendCap(calls=0), Spending(), Spending(), Admission.AT_CAP, "calls"),
    (SpendCap(cost_usd=1.0), Spending(cost_usd=0.99), Spending(), Admission.ADMITTED, ""),
    (SpendCap(cost_usd=1.0), Spending(cost_usd=0.1), UNKNOWN_CALL, Admission.BUSY, "cost_usd"),
    (SpendCap(calls=9, tokens=5), Spending(calls=9), Spending(tokens=inf), Admission.AT_CAP, "calls"),
    (SpendCap(calls=9, tokens=5), Spending(tokens=5), Spending(calls=9), Admission.AT_CAP, "tokens"),
]


def test_admission_by_table(subtests: pytest.Subtests) -> None:
    for cap, spent, held, admission, measure in CASES:
        with subtests.test(cap=cap, spent=spent, held=held):
            found = admit({"run": AccountState(spent=spent, open_calls=held)}, {"run": cap})
            assert (found.admission, found.measure) == (admission, measure)


def test_spent_account_wins_over_busy_one() -> None:
    states = {"run": AccountState(open_calls=Spending(calls=5)), "day": AccountState(spent=Spending(calls=7))}
    found = admit(states, {"run": SpendCap(calls=5), "day": SpendCap(calls=7)})
    assert (found.admission, found.account, found.spent, found.limit) == (Admission.AT_CAP, "day", 7, 7)


@given(
    limit=st.integers(0, 60),
    moves=st.lists(st.tuples(st.booleans(), st.integers(0, 20), st.booleans(), st.integers(0, 20)), max_size=60),
)
def test_any_interleaving_ends_one_call_over(limit: int, moves: list[tuple[bool, int, bool, int]]) -> None:
    cap, spent, largest = {"run": SpendCap(tokens=limit)}, 0, 0
    open_calls: list[tuple[float, int]] = []
    for is_start, cost, is_bounded, pick in moves:
        if is_start:
            held = Spending(tokens=sum(bound for bound, _ in open_calls))
            state = {"run": AccountState(spent=Spending(tokens=spent), open_calls=held)}
            if admit(state, cap).admission is Admission.ADMITTED:
                open_calls.append((cost + pick if is_bounded else inf, cost))
                largest = max(largest, cost)
        elif open_calls:
            spent += open_calls.pop(pick % len(open_calls))[1]
    spent += sum(cost for _, cost in open_calls)
    assert spent <= max(limit - 1, 0) + largest
