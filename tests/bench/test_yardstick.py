"""Aims that were stated on one machine are told for another one as shares of what both read."""

from __future__ import annotations

import itertools

import pytest

from recovery_ops.bench import yardstick
from recovery_ops.bench.yardstick import REFERENCE_PER_S, Yardstick


def test_the_machine_of_the_aims_has_the_aims() -> None:
    assert Yardstick(REFERENCE_PER_S).time_ms(25) == pytest.approx(25)


def test_a_machine_half_as_fast_takes_twice_as_long() -> None:
    here = Yardstick(REFERENCE_PER_S / 2)
    assert here.share == pytest.approx(0.5)
    assert here.time_ms(25) == pytest.approx(50)


def test_the_quickest_reading_counts() -> None:
    moments = itertools.accumulate([0.0, 5.0, 0.0, 2.0, 0.0, 3.0])
    assert yardstick.measured(3, clock=lambda: next(moments)).per_s == yardstick.RECORDS / 2.0


def test_of_a_busy_machine_the_middle_counts() -> None:
    moments = itertools.accumulate([0.0, 5.0, 0.0, 2.0, 0.0, 3.0])
    assert yardstick.typical(3, clock=lambda: next(moments)).per_s == yardstick.RECORDS / 3.0


def test_what_is_read_is_a_record_like_those_of_the_aims() -> None:
    request = yardstick.request()
    assert 410 < len(request) / yardstick.RECORDS < 450
    rows = yardstick.read(request)
    assert len(rows) == yardstick.RECORDS
    assert {len(row) for row in rows} == {11}
