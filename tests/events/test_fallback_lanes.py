"""The lanes of fallbacks: what silent instances were reduced in is not said to go on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from events.rows import DegradationRow
from events.timelines.charts import to_ms
from events.timelines.fallbacks import reduced_spans
from events.timelines.figures import fallback_lanes
from tests.support.sentences import left_out

NOW = datetime(2026, 7, 1, 14, 26, 18, tzinfo=UTC)
START, MINUTE = NOW - timedelta(hours=1), timedelta(minutes=1)


def reduced(operation: str, *, since: float, until: float | None = None, silent: float = 0) -> DegradationRow:
    """An interval between so many minutes ago, of an instance that was heard of so many minutes ago."""
    return DegradationRow(
        operation=operation,
        kind="fallback",
        from_name=operation,
        to_name="cache",
        reason="open",
        category=None,
        service="research",
        instance="a-0",
        heard=NOW - timedelta(minutes=silent),
        started=NOW - timedelta(minutes=since),
        ended=None if until is None else NOW - timedelta(minutes=until),
        calls=0 if until is None else 4,
    )


ROWS = [
    reduced("embed", since=30, silent=10),
    reduced("fetch_page", since=30, silent=10),
    reduced("fetch_page", since=20),
    reduced("search_web", since=50, silent=40),
    reduced("search_web", since=30, until=20),
]


def test_whether_what_a_silent_instance_was_in_goes_on_is_not_known() -> None:
    chart = fallback_lanes(ROWS, start=START, end=NOW)
    [dark] = [trace for trace in chart.figure["data"] if trace["name"] == "unknown"]
    gaps = zip(dark["y"], dark["base"], dark["x"], strict=True)
    assert [(lane, (to_ms(NOW) - base) // 60_000, length // 60_000) for lane, base, length in gaps] == [
        ("embed", 10, 10),
        ("search_web", 40, 10),
    ]
    assert [lane.value for lane in chart.bands[0].lanes] == ["unknown", "2 now", "recovered 14:06"]
    assert left_out(str(chart.table.rows[0][5]), "14:16:18") == []
    assert chart.table.rows[0][6] == "20m 00s"


def test_the_sentence_tells_what_goes_on_from_what_is_not_known() -> None:
    spans = reduced_spans(ROWS, start=START, end=NOW)
    assert {one.operation for one in spans if one.goes_on} == {"fetch_page"}
    assert {one.operation for one in spans if one.dark_until == NOW} == {"embed"}
    caption = fallback_lanes(ROWS, start=START, end=NOW).caption
    assert left_out(caption, "fetch_page", "embed", "search_web") == ["search_web"]
    goes_on, is_lost = (
        fallback_lanes([reduced("embed", since=30, silent=silent)], start=START, end=NOW).caption for silent in (0, 10)
    )
    assert goes_on != is_lost
    assert is_lost in caption


def test_answers_of_ongoing_fallback_are_lower_bound() -> None:
    rows = [reduced("crm.update", since=30, until=10), reduced("crm.update", since=20), *ROWS]
    told = {(row[0], row[-1]) for row in fallback_lanes(rows, start=START, end=NOW).table.rows}
    assert {("crm.update", "≥ 4"), ("fetch_page", "–"), ("search_web", 4)} <= told


def test_what_was_lost_before_the_window_is_dark_all_through_it() -> None:
    chart = fallback_lanes([reduced("embed", since=600, silent=300)], start=START, end=NOW)
    assert [(trace["name"], trace["base"], trace["x"]) for trace in chart.figure["data"] if "base" in trace] == [
        ("fallback", [], []),
        ("unknown", [to_ms(START)], [3_600_000]),
    ]
    assert chart.bands[0].lanes[0].value == "unknown"


def test_a_window_that_ended_while_the_instance_was_heard_of_knows_that_it_went_on() -> None:
    chart = fallback_lanes([reduced("embed", since=50, silent=20)], start=START, end=NOW - timedelta(minutes=30))
    assert [lane.value for lane in chart.bands[0].lanes] == ["1 now"]


@given(st.lists(st.tuples(st.integers(1, 25), st.integers(1, 20)), min_size=1, max_size=6))
def test_spans_are_what_intervals_cover_together(intervals: list[tuple[int, int]]) -> None:
    """Against minutes painted one by one: even marks are minutes, odd ones are between two."""
    rows = [reduced("embed", since=since, until=max(0, since - length)) for since, length in intervals]
    covered = [range(2 * max(0, since - length), 2 * since + 1) for since, length in intervals]
    painted = [sum(mark in one for one in covered) for mark in range(102)]
    expected = [
        (max(marks) // 2, min(marks) // 2, max(painted[mark] for mark in marks if mark % 2))
        for is_covered, group in groupby(range(102), key=lambda mark: painted[mark] > 0)
        if is_covered and (marks := list(group))
    ]
    found = reduced_spans(rows, start=START, end=NOW)
    ago = [((NOW - one.start) // MINUTE, (NOW - (one.end or NOW)) // MINUTE, one.instances) for one in found]
    assert sorted(ago) == sorted(expected)
    assert sum(one.calls for one in found) == 4 * len(rows)
