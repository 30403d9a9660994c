"""The list of what to see in the first ten minutes of the demonstration: in order, within them, and in step with it."""

from __future__ import annotations

import re

from recovery_ops.demo.shift import CHORES
from tests.support.processes import ROOT

_BEGINS_MIN = 0.45
"""How long the fleet takes to start, as measured; the operator's chores count from then on."""
_ROUNDING_MIN = 0.25


def rows() -> list[tuple[float, str]]:
    """The minute of each row, and what happens."""
    text = (ROOT / "docs" / "operating.md").read_text()
    table = text.partition("**What to see in the first ten minutes.**")[2].partition("## Health")[0]
    return [(float(minute), words) for minute, words in re.findall(r"^\| ([\d.]+) \| ([^|]*) \|", table, re.MULTILINE)]


def test_the_list_is_in_order_and_within_ten_minutes() -> None:
    minutes = [minute for minute, _ in rows()]
    assert len(minutes) > 20
    assert minutes == sorted(minutes)
    assert minutes[-1] < 10


def test_what_the_operator_does_stands_where_it_does_it() -> None:
    """Who moves a chore has to measure again."""
    marks = {minute for minute, _ in rows()}
    marks |= {float(minute) for _, words in rows() for minute in re.findall(r"(\d\.\d)", words)}
    planned = [one.after_s / 60 + _BEGINS_MIN for one in CHORES]
    far = [minute for minute in planned if min(abs(minute - mark) for mark in marks) > _ROUNDING_MIN]
    assert far == []
