"""The rolling window of one breaker as a figure: the share that failed, its limit, probes, and the table of it."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from events.charts.stills import still_of
from events.queries import sums_per_bin
from events.rows import Bins, Transition
from events.timelines.charts import compose
from events.timelines.counts import blocked_band
from events.timelines.shares import ILL, LOST, WELL, Shares, probes_table, shares_band
from recovery_ops.rules.enums import Category, State, Trigger
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat

START = ago(240).replace(second=0)


def bins(*, unknown: int = -1, **series: list[int]) -> Bins:
    return Bins(start=START, bin_s=60, series=series, unknown=[place == unknown for place in range(4)])


def probe(trigger: Trigger, *, at_s: int) -> Transition:
    """A probe of `r-0` came to an end, so many seconds after the beginning."""
    given: dict[str, Any] = dict.fromkeys(("previous_state", "calls", "failures", "failure_rate", "threshold"))
    state = State.CLOSED if trigger is Trigger.PROBE_SUCCEEDED else State.OPEN
    return Transition(
        fact_id=at_s,
        at=START + timedelta(seconds=at_s),
        service="research",
        instance="r-0",
        breaker="search_web",
        state=state,
        trigger=trigger,
        last_category=None,
        override_id="",
        revision=None,
        **given,
    )


def shares(*, limit: float | None = 0.5, unknown: int = -1, **rest: Any) -> Shares:
    """30 of 40, then none of 10, then nothing at all, then 5 of 5."""
    failures = bins(unknown=unknown, overloaded=[20, 0, 0, 5], timeout=[10, 0, 0, 0], not_found=[7, 0, 3, 0])
    given: dict[str, Any] = {"counting": {"overloaded", "timeout"}, "moves": ()} | rest
    return Shares.of(failures, [10, 10, 0, 0], limit=limit, **given)


def test_the_share_is_of_what_counts_for_a_breaker_and_unknown_where_nothing_did() -> None:
    found = shares()
    assert [found.share(place) for place in range(4)] == [0.75, 0.0, None, 1.0]
    band = shares_band(found, label="search_web")
    line, limit = band.traces
    assert line["y"] == [75.0, 75.0, 0.0, 0.0, None, 100.0, 100.0]
    assert limit["y"] == [50.0, 50.0]
    assert band.value == "100 %"
    assert found.highest == 3
    assert left_out(band.caption, "100 %", f"{START + timedelta(minutes=3):%H:%M:%S}", "50 %") == []


def test_the_table_has_the_numbers_of_the_line() -> None:
    band = shares_band(shares(unknown=1), label="search_web")
    assert band.table.columns == ("From", "Failed", "Succeeded", "Share")
    assert [row[1:] for row in band.table.rows] == [(30, 10, "75 %"), ("unknown",) * 3, (5, 0, "100 %")]
    assert left_out(band.table.title, "50 %") == []
    assert left_out(band.caption, "1", "4") == []


def test_without_a_limit_of_shares_there_is_no_line_and_nothing_is_said_of_one() -> None:
    band = shares_band(shares(limit=None), label="search_web")
    assert [trace["name"] for trace in band.traces] == ["failure share"]
    assert left_out(band.caption, "50 %") == ["50 %"]


def test_where_nothing_was_counted_the_sentence_says_so() -> None:
    empty = Shares.of(bins(), [0] * 4, counting=(), limit=0.5, moves=())
    band = shares_band(empty, label="search_web")
    assert (empty.highest, band.table.rows) == (None, ())
    assert left_out(band.caption, "0 %", "50 %") == ["0 %", "50 %"]


def test_probes_stand_low_where_they_went_well_and_high_where_they_did_not() -> None:
    moves = [
        probe(Trigger.PROBE_SUCCEEDED, at_s=150),
        probe(Trigger.PROBE_FAILED, at_s=90),
        probe(Trigger.PROBE_ABANDONED, at_s=120),
        probe(Trigger.FAILURE_RATE, at_s=30),
    ]
    found = shares(moves=moves)
    band = shares_band(found, label="search_web")
    dots = {trace["name"]: (trace["y"], trace["marker"]["symbol"]) for trace in band.traces if trace.get("marker")}
    assert dots == {
        f"probe {WELL}": ([8.0], "circle"),
        f"probe {ILL}": ([92.0], "diamond"),
        f"probe {LOST}": ([92.0], "triangle-up"),
    }
    assert left_out(band.caption, "3", "1") == []
    assert [row[2] for row in probes_table(found).rows] == [ILL, LOST, WELL]
    chart = compose([band], start=START, end=NOW)
    drawn = "".join(str(row.drawing) for row in still_of(chart).rows)
    assert drawn.count('class="pin"') == 3
    assert re.findall(r'<svg x="[^"]+" y="([\d.-]+)" overflow', drawn) == ["76.3", "-4.3", "-4.3"]
    assert drawn.count('class="limit"') == 1


def test_blocked_calls_are_bars() -> None:
    band = blocked_band(bins(search_web=[0, 4, 0, 1]))
    assert [(trace["type"], trace["y"]) for trace in band.traces] == [("bar", [0, 4, 0, 1])]
    assert left_out(band.caption, "5", "4") == []


@pytest.mark.django_db
def test_what_went_well_is_read_of_one_breaker_where_it_is_asked_for() -> None:
    Story().tell(heartbeat(), at=240).tell(counted(7), at=130).tell(counted(9, "other"), at=130).tell(
        failed(Category.OVERLOADED), counted(2), at=70
    ).store()
    asked: dict[str, Any] = {"start": ago(240), "end": NOW, "breaker": "search_web"}
    assert sum(sums_per_bin("dev", **asked, has_successes=True).successes()) == 9
    assert (
        sums_per_bin("dev", **asked, has_successes=True).failures()
        == sums_per_bin("dev", **asked).in_minutes().failures()
    )
