"""When people are told: at once, settled, summed up, after quiet hours; and that the end is always told."""

from __future__ import annotations

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.rules.notifications.grouping import CALM, Held, Phase, Quiet, Sent, Severity, due_at

BEGAN, ENDED, TOLD = Phase.BEGAN, Phase.ENDED, Phase.TOLD


def flappy(at: float, phase: Phase = BEGAN, severity: Severity = Severity.WARNING) -> Held:
    return Held(at, phase, severity, is_flappy=True)


def messages(moves: list[tuple[float, Phase]], *, until: float, step: float = 1.0) -> list[tuple[float, int, Phase]]:
    """What goes out while a clock ticks: when, about how many moves, and the last word."""
    sent: list[Sent] = []
    held: list[Held] = []
    out: list[tuple[float, int, Phase]] = []
    waiting = sorted(moves)
    now = 0.0
    while now <= until:
        while waiting and waiting[0][0] <= now:
            held.append(flappy(*waiting.pop(0)))
        due = due_at(held, sent, now=now)
        if due is not None and due <= now:
            out.append((now, len(held), held[-1].phase))
            sent.append(Sent(now, held[-1].phase))
            held = []
        now += step
    return out


def test_twenty_flaps_in_five_minutes_are_an_alert_and_a_summary() -> None:
    moves = [move for number in range(20) for move in ((number * 15.0, BEGAN), (number * 15.0 + 7, ENDED))]
    out = messages(moves, until=3600)
    assert [(count, phase) for _, count, phase in out] == [(1, BEGAN), (39, ENDED)]
    assert out[0][0] == 0
    assert out[1][0] <= 7 + CALM.flap_s


def test_what_flaps_for_an_hour_is_summed_up_every_five_minutes() -> None:
    moves = [move for number in range(240) for move in ((number * 15.0, BEGAN), (number * 15.0 + 7, ENDED))]
    assert 12 <= len(messages(moves, until=3900)) <= 14


def test_an_end_that_stays_is_told_when_it_has_settled() -> None:
    assert messages([(0.0, BEGAN), (90.0, ENDED)], until=600) == [(0.0, 1, BEGAN), (120.0, 1, ENDED)]


def test_slow_flapping_is_bounded_too() -> None:
    moves = [move for number in range(20) for move in ((number * 80.0, BEGAN), (number * 80.0 + 40, ENDED))]
    out = messages(moves, until=1600)
    for at, _, _ in out:
        assert sum(at <= other < at + CALM.flap_s for other, _, _ in out) <= CALM.most


@given(st.lists(st.tuples(st.floats(0, 2000), st.sampled_from([BEGAN, ENDED])), max_size=60))
def test_nothing_is_held_for_ever_and_the_last_word_is_told(moves: list[tuple[float, Phase]]) -> None:
    out = messages(moves, until=3600)
    assert sum(count for _, count, _ in out) == len(moves)
    if moves:
        assert out[-1][2] == sorted(moves)[-1][1]


def test_the_first_waits_for_what_comes_with_it() -> None:
    held = [Held(10.0, BEGAN, Severity.INFO)]
    assert due_at(held, [], now=10.0, group_s=30.0) == 40.0
    assert due_at([], [], now=10.0) is None


@pytest.mark.parametrize(
    ("held", "sent", "due"),
    [
        ([Held(10.0, BEGAN, Severity.WARNING)], [], 500.0),
        ([Held(10.0, BEGAN, Severity.CRITICAL)], [], 10.0),
        ([Held(10.0, ENDED, Severity.INFO)], [Sent(5.0, BEGAN)], 10.0),
        ([Held(10.0, BEGAN, Severity.WARNING), Held(20.0, ENDED, Severity.WARNING)], [], 500.0),
        ([Held(10.0, TOLD, Severity.WARNING)], [Sent(5.0, ENDED)], 500.0),
    ],
    ids=["waits", "passes", "the end of what was told", "began and ended", "another thing"],
)
def test_quiet_hours(held: list[Held], sent: list[Sent], due: float) -> None:
    assert due_at(held, sent, now=30.0, quiet_until=500.0) == due


@pytest.mark.parametrize(
    ("hours", "at", "until"),
    [
        (("22:00", "07:00"), "2026-11-21T23:30", "2026-11-22T07:00"),
        (("22:00", "07:00"), "2026-11-21T06:59", "2026-11-21T07:00"),
        (("22:00", "07:00"), "2026-11-21T07:00", None),
        (("12:00", "13:00"), "2026-11-21T12:00", "2026-11-21T13:00"),
        (("12:00", "13:00"), "2026-11-21T11:59", None),
        (("00:00", "00:00"), "2026-11-21T11:59", None),
    ],
)
def test_the_hours_are_those_of_the_wall_clock(hours: tuple[str, str], at: str, until: str | None) -> None:
    zone = ZoneInfo("Europe/Rome")
    quiet = Quiet(begins=time.fromisoformat(hours[0]), ends=time.fromisoformat(hours[1]))
    local = datetime.fromisoformat(at).replace(tzinfo=UTC).astimezone(UTC).replace(tzinfo=zone)
    expected = None if until is None else datetime.fromisoformat(until).replace(tzinfo=zone)
    assert quiet.until(local) == expected


def test_severities_are_in_order() -> None:
    assert Severity.CRITICAL.reaches(Severity.WARNING)
    assert Severity.INFO.reaches(Severity.INFO)
    assert not Severity.WARNING.reaches(Severity.CRITICAL)


def test_more_messages_than_the_bound_wait_for_the_last_ones() -> None:
    sent = [Sent(10.0 * number, TOLD) for number in range(CALM.most + 1)]
    assert due_at([flappy(50.0, TOLD)], sent, now=60.0) == sent[-CALM.most].at + CALM.flap_s


@pytest.mark.parametrize(("begins", "ends"), [(time(22), time(7)), (time(7), time(22))])
def test_quiet_hours_hold_from_begin_until_end(begins: time, ends: time) -> None:
    quiet, day = Quiet(begins=begins, ends=ends), datetime(2027, 3, 1, tzinfo=UTC)
    end = quiet.until(datetime.combine(day, begins, tzinfo=UTC))
    assert end == datetime.combine(day.replace(day=2 if begins > ends else 1), ends, tzinfo=UTC)
    assert quiet.until(end) is None
