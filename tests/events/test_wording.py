"""Words for moments, durations, shares and causes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from events.rows import Transition
from events.wording import (
    bin_text,
    bins_text,
    cause_sentence,
    clock_text,
    count_text,
    evidence_text,
    listing,
    rate_text,
    share_beside,
    share_text,
    span_text,
)
from recovery_ops.rules.enums import Category, State, Trigger
from tests.support.sentences import left_out

NOW = datetime(2026, 11, 21, 14, 26, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("share", "bound", "words"),
    [
        (0.1, 0.1, "10 %"),
        (0.5, 0.1, "50 %"),
        (0.104, 0.1, "10.4 %"),
        (0.096, 0.1, "9.6 %"),
        (1.0004, 1.0, "100.04 %"),
        (0.99999, 1.0, "99.999 %"),
    ],
)
def test_a_share_reads_on_its_own_side_of_a_bound(share: float, bound: float, words: str) -> None:
    assert share_beside(share, bound) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.44, "0.4 s"),
        (14, "14 s"),
        (59.9, "59 s"),
        (386, "6m 26s"),
        (3600, "1h 00m 00s"),
        (8043, "2h 14m 03s"),
        (274_200, "3d 04h 10m"),
    ],
)
def test_durations_are_never_cut_to_their_largest_unit_nor_rounded_up(seconds: float, words: str) -> None:
    assert span_text(seconds) == span_text(timedelta(seconds=seconds)) == words


def test_moments_have_their_day_when_it_is_another() -> None:
    assert clock_text(NOW, today=NOW) == "14:26:18"
    assert clock_text(NOW - timedelta(days=2), today=NOW) == "19 Nov 14:26:18"


def test_shares_counts_rates_and_bins() -> None:
    assert [share_text(share) for share in (0, 0.004, 0.65, 1)] == ["0 %", "0.4 %", "65 %", "100 %"]
    assert [count_text(n, "entry", "entries") for n in (0, 1, 1240)] == ["0 entries", "1 entry", "1,240 entries"]
    assert [rate_text(rate) for rate in (0, 0.4, 12.3)] == ["0", "0.4", "12"]
    assert [bin_text(bin_s) for bin_s in (10, 60, 300, 3600, 86_400)] == ["10 s", "minute", "5 minutes", "hour", "day"]


def test_long_lists_say_how_many_more_there_are() -> None:
    assert listing([]) == ""
    assert listing(["a"]) == "a"
    assert listing(["a", "b", "c"]) == "a, b and c"
    assert listing(["a", "b", "c", "d"]) == "a, b and 2 others"


TOLD = ("5", "13", "20", "50 %", "65 %", "overloaded (529)", "timeout", "open", "42")
"""What the sentence of some cause tells."""


def cause(**given: object) -> Transition:
    values = {
        "fact_id": 1,
        "at": NOW,
        "service": "s",
        "instance": "i",
        "breaker": "b",
        "state": State.OPEN,
        "previous_state": State.CLOSED,
        "trigger": Trigger.FAILURE_RATE,
        "calls": 20,
        "failures": 13,
        "failure_rate": 0.65,
        "threshold": 0.5,
        "last_category": Category.OVERLOADED,
        "override_id": "",
        "revision": None,
    }
    return Transition(**(values | given))  # type: ignore[arg-type]  # a table of values


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ({}, {"13", "20", "65 %", "50 %", "overloaded (529)"}),
        ({"calls": None, "threshold": None}, {"65 %", "overloaded (529)"}),
        ({"failure_rate": None, "last_category": None}, {"13", "20"}),
        (
            {"trigger": Trigger.CONSECUTIVE_FAILURES, "threshold": 5.0, "last_category": Category.TIMEOUT},
            {"5", "13", "20", "timeout"},
        ),
        (
            {"trigger": Trigger.CONSECUTIVE_FAILURES, "threshold": None, "calls": None, "last_category": None},
            set(),
        ),
        ({"trigger": None, "last_category": None}, {"open"}),
        ({"state": State.CLOSED, "trigger": Trigger.PROBE_SUCCEEDED}, set()),
        (
            {"state": State.FORCED_OPEN, "trigger": Trigger.OPERATOR_TRIP, "override_id": "o-1", "revision": 42},
            {"42"},
        ),
    ],
)
def test_a_cause_is_said_with_its_numbers(given: dict[str, object], values: set[str]) -> None:
    one = cause(**given)
    assert set(TOLD) - set(left_out(cause_sentence(one, state=one.state), *TOLD)) == values


@pytest.mark.parametrize(
    ("threshold", "values"),
    [(None, []), (0.25, ["25 %"]), (0.5, []), (5.0, ["5"])],
)
def test_a_limit_above_one_counts_failures_in_a_row(threshold: float | None, values: list[str]) -> None:
    words = evidence_text(0.3, threshold)
    limits = ("25 %", "50 %", "500 %", "5")
    assert [one for one in limits if one not in left_out(words, *limits)] == values
    assert left_out(words, "30 %") == []


def test_bins_are_named_by_their_width() -> None:
    words = [bins_text(bin_s) for bin_s in (10, 60, 300, 7200, 86_400)]
    assert words == ["10 s bins", "1 min bins", "5 min bins", "2 h bins", "1 d bins"]


def test_every_trigger_has_words() -> None:
    told = [cause_sentence(cause(trigger=trigger), state=State.OPEN) for trigger in Trigger]
    assert all(told)
    assert len(set(told)) == len(told)


def test_what_nobody_saw_has_no_cause() -> None:
    dark, still = cause_sentence(None, state=None), cause_sentence(None, state=State.CLOSED)
    assert dark
    assert still
    assert dark != still
