"""One word for a breaker whose calls fail or are rejected while it blocks none."""

from __future__ import annotations

import pytest

from recovery_ops.rules.fleet.breaker_trouble import Counted, Trouble, trouble_of


@pytest.mark.parametrize(
    ("counted", "word"),
    [
        (Counted(), None),
        (Counted(calls=100, attempts=100, failures=49), None),
        (Counted(calls=100, attempts=100, failures=50), Trouble.FAILING),
        (Counted(calls=61, rejections=60, attempts=1), Trouble.REJECTING),
        (Counted(calls=100, rejections=9, attempts=91), None),
        (Counted(calls=100, rejections=10, attempts=90), Trouble.REJECTING),
        (Counted(calls=100, rejections=20, attempts=80, failures=80), Trouble.FAILING),
        (Counted(calls=4, attempts=4, failures=4), None),
        (Counted(calls=2, attempts=2, failures=2, quarter_attempts=8, quarter_failures=8), Trouble.FAILING),
        (Counted(calls=50, attempts=50, quarter_attempts=60, quarter_failures=55), None),
    ],
)
def test_trouble_has_one_word(counted: Counted, word: Trouble | None) -> None:
    assert trouble_of(counted) is word
