"""What the end of a run waited for, out of the lines of its trace: the chain backwards from the end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from events.runs.critical import critical_path
from events.runs.records import RunRecord
from events.runs.waterfall import trees_of
from recovery_ops.wire import names
from tests.support.stories import NOW

TRACE = "ab" * 16
ROOT, INNER, BESIDE = "01" * 8, "02" * 8, "03" * 8
UNDER = {(TRACE, INNER): ROOT, (TRACE, BESIDE): ROOT}
A = names.ATTRIBUTES


def told(number: int, event: str, at_s: float, operation: str = "search", span: str = ROOT, **said: Any) -> RunRecord:
    """A fact `number`, told so many seconds after the start of the run."""
    return RunRecord(
        fact_id=number,
        at=NOW + timedelta(seconds=at_s),
        event=event,
        severity=9,
        operation=operation,
        category="",
        instance="a-1",
        trace_id=TRACE if span else "",
        span_id=span,
        body="",
        attributes={A[name]: value for name, value in said.items()},
    )


def failed(
    number: int, at_s: float, took_s: float, operation: str = "search", span: str = ROOT, **said: Any
) -> RunRecord:
    return told(number, "failure_classified", at_s, operation, span, duration_s=took_s, **said)


def waits(number: int, at_s: float, delay_s: float, operation: str = "search", span: str = ROOT) -> RunRecord:
    return told(number, "retry_scheduled", at_s, operation, span, delay_s=delay_s)


def ended(number: int, at_s: float) -> RunRecord:
    return told(number, "run_finished", at_s, "", duration_s=at_s)


def chain(records: list[RunRecord], end_s: float) -> tuple[list[int], dict[str, float], float]:
    found = critical_path(trees_of(records, UNDER), start=NOW, end=NOW + timedelta(seconds=end_s))
    waited = {name: round(spent_s, 3) for name, spent_s in found.waits_s.items()}
    return sorted(found.facts), waited, round(found.attempts_s, 3)


def test_attempts_and_waits_of_one_call_are_the_chain_and_the_run_itself_is_not() -> None:
    records = [
        failed(1, 0.5, 0.4, provider="helios"),
        waits(2, 0.5, 2.4),
        told(3, "attempt_succeeded", 3.1, duration_s=0.2),
        ended(4, 3.1),
    ]
    assert chain(records, 3.1) == ([1, 2, 3], {"helios": 2.4}, 0.6)


@pytest.mark.parametrize("span", [ROOT, ""])
def test_of_two_at_the_same_time_the_one_that_ended_later_was_waited_for(span: str) -> None:
    """Also where one lay within the other by its moments alone: nothing says that it was a part of it."""
    records = [
        failed(1, 1.0, 1.0, "slow", span),
        waits(2, 1.0, 2.0, "slow", span),
        failed(3, 2.0, 0.5, "quick", span),
        failed(4, 4.0, 1.0, "slow", span),
        failed(5, 3.9, 0.2, "quick", span),
        ended(6, 4.0),
    ]
    assert chain(records, 4.0) == ([1, 2, 4], {"slow": 2.0}, 2.0)


def test_an_attempt_is_gone_into_where_spans_stand_under_its_own() -> None:
    records = [
        failed(1, 1.0, 0.5, "model", INNER, provider="helios"),
        waits(2, 1.0, 1.5, "model", INNER),
        failed(3, 3.0, 0.5, "model", INNER, provider="helios"),
        failed(4, 2.0, 0.5, "cache", BESIDE),
        failed(5, 3.2, 3.0, "answer", ROOT),
    ]
    assert chain(records, 3.2) == ([1, 2, 3, 5], {"helios": 1.5}, 1.5)


def test_a_wait_lasts_until_the_next_attempt_and_nothing_lasts_longer_than_the_run() -> None:
    called_sooner = [failed(1, 1.0, 1.0), waits(2, 1.0, 60.0), failed(3, 3.0, 0.5), waits(4, 3.0, 60.0)]
    assert chain(called_sooner, 5.0) == ([1, 2, 3, 4], {"search": 3.5}, 1.5)


def test_what_was_told_of_a_gate_or_of_the_whole_call_is_no_link() -> None:
    records = [told(1, "gate_closed", 1.0, wait_s=30.0), told(2, "exhausted", 4.0, duration_s=4.0), ended(3, 5.0)]
    assert chain(records, 5.0) == ([], {}, 0.0)


@pytest.mark.parametrize("rounded_s", [-0.004, 0.0, 0.004])
def test_rounded_lengths_do_not_break_the_chain(rounded_s: float) -> None:
    records = [failed(1, 1.0, 1.0), waits(2, 1.0, 1.0 + rounded_s), failed(3, 3.0, 1.0)]
    assert chain(records, 3.0)[0] == [1, 2, 3]
