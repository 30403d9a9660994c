"""Moments are stored as whole microseconds, and come back as they were."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from events.moments import from_us, to_us

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.timedeltas(timedelta(), datetime(2242, 1, 1, tzinfo=UTC) - EPOCH))
def test_a_moment_comes_back_to_the_microsecond(since: timedelta) -> None:
    moment = EPOCH + since
    assert from_us(to_us(moment)) == moment
    assert from_us(to_us(moment)).tzinfo is UTC
