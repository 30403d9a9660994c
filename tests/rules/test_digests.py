"""When a digest is due: the newest moment and the next, by the wall clock of a place."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.notifications.digests import Every, Timetable

ROME = ZoneInfo("Europe/Rome")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "newest", "following"),
    [
        ("2026-11-21T06:59", "2026-11-20T07:00", "2026-11-21T07:00"),
        ("2026-11-21T07:00", "2026-11-21T07:00", "2026-11-22T07:00"),
        ("2026-03-28T12:00", "2026-03-28T07:00", "2026-03-29T06:00"),  # the clock is put forward in the night
        ("2026-10-24T12:00", "2026-10-24T06:00", "2026-10-25T07:00"),  # and back
    ],
)
def test_a_daily_one_keeps_to_the_wall_clock(now: str, newest: str, following: str) -> None:
    table, local = Timetable(every=Every.DAILY, at=time(8)), utc(now).astimezone(ROME)
    assert (table.newest(local), table.next(local)) == (utc(newest), utc(following))


@pytest.mark.parametrize(
    ("now", "newest"),
    [
        ("2026-11-23T06:59", "2026-11-16T07:00"),  # Monday, a minute before
        ("2026-11-23T07:00", "2026-11-23T07:00"),
        ("2026-11-22T23:30", "2026-11-16T07:00"),  # it is Monday there already
        ("2026-11-29T20:00", "2026-11-23T07:00"),
    ],
)
def test_a_weekly_one_keeps_to_its_day(now: str, newest: str) -> None:
    table, local = Timetable(every=Every.WEEKLY, at=time(8), weekday=0), utc(now).astimezone(ROME)
    assert table.newest(local) == utc(newest)
    assert table.next(local) == utc(newest) + timedelta(days=7)


def test_an_hour_that_is_left_out_comes_all_the_same_and_one_that_is_twice_comes_once() -> None:
    table = Timetable(every=Every.DAILY, at=time(2, 30))
    assert table.newest(utc("2026-03-29T12:00").astimezone(ROME)) == utc("2026-03-29T01:30")
    looks = [utc(f"2026-10-25T{hour:02}:{minute}") for hour in range(24) for minute in ("00", "45")]
    moments = {table.newest(one.astimezone(ROME)) for one in looks}
    assert moments == {utc("2026-10-24T00:30"), utc("2026-10-25T00:30")}


@given(
    st.datetimes(utc("2020-01-01").replace(tzinfo=None), utc("2035-01-01").replace(tzinfo=None)),
    st.times(),
    st.integers(0, 6),
    st.sampled_from(list(Every)),
    st.sampled_from(["UTC", "Europe/Rome", "America/St_Johns", "Pacific/Apia", "Australia/Lord_Howe"]),
)
def test_now_lies_between_the_newest_and_the_next(now: datetime, at: time, day: int, every: Every, zone: str) -> None:
    table, moment = Timetable(every=every, at=at, weekday=day), now.replace(tzinfo=UTC)
    local = moment.astimezone(ZoneInfo(zone))
    assert table.newest(local) <= moment < table.next(local)
    assert table.newest(table.next(local).astimezone(ZoneInfo(zone))) == table.next(local)
