"""Time in incidents: what overlaps counts once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery_ops.control.dashboard.incident_time import covered
from tests.support.stories import NOW


@pytest.mark.parametrize(
    ("spans", "minutes"),
    [([], 0), ([(0, 5)], 5), ([(0, 5), (3, 8)], 8), ([(0, 10), (2, 3), (4, 5)], 10), ([(6, 8), (0, 2)], 4)],
)
def test_overlapping_incidents_count_once(spans: list[tuple[int, int]], minutes: int) -> None:
    moments = [(NOW + timedelta(minutes=start), NOW + timedelta(minutes=end)) for start, end in spans]
    assert covered(moments) == timedelta(minutes=minutes)
