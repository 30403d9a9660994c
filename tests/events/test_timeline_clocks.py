"""Figures on the clock of whoever reads them, also on the days on which that clock changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import plotly.graph_objects as go
import pytest
from django.utils import timezone

from events.charts import drawing
from events.rows import Bins
from events.timelines import (
    failure_bars,
    timeline,
)
from events.timelines.zones import as_read, on_clock
from recovery_ops.rules.enums import State
from tests.support.timelines import CHARTS, NOW, START, bins, capacity, everything, lanes_of, painted, reduced


def test_a_figure_is_on_the_clock_of_whoever_reads_it() -> None:
    chart = timeline(
        lanes_of({"crm": {"r-0": [(0.0, State.CLOSED), (0.5, State.OPEN)]}}),
        capacity=capacity(),
        failures=bins({"transient": [1, 0, 2]}),
        rejections=bins({"crm": [1, 0, 2]}),
        degradations=[reduced("crm", since=0.5, until=None)],
        began=START + (NOW - START) / 2,
    )
    ahead = timedelta(hours=5, minutes=30)
    shown = on_clock(chart.figure, ahead)
    ms = round(ahead / timedelta(milliseconds=1))
    assert shown["layout"]["meta"] == {"ahead_ms": ms}
    assert [datetime.fromisoformat(one) - ahead for one in shown["layout"]["xaxis"]["range"]] == [
        datetime.fromisoformat(one) for one in chart.figure["layout"]["xaxis"]["range"]
    ]
    for was, now in zip(chart.figure["data"], shown["data"], strict=True):
        if was.get("orientation") == "h":
            assert (now["base"], now["x"]) == ([one + ms for one in was["base"]], was["x"])
        elif "dx" in was:
            assert (now["x0"], now["dx"]) == (was["x0"] + ms, was["dx"])
        else:
            assert now["x"] == [one + ms for one in was["x"]]
    absent = [
        [one["x"] for one in each["layout"]["annotations"] if one["name"] == "absent"] for each in (chart.figure, shown)
    ]
    assert absent[0]
    assert absent[1] == [one + ms for one in absent[0]]


@pytest.fixture
def berlin() -> Iterator[None]:
    with timezone.override(ZoneInfo("Europe/Berlin")):
        yield


BACK = datetime(2026, 10, 25, 1, tzinfo=UTC)
"""When the clock of Berlin went from three back to two."""
FORTH = datetime(2026, 3, 29, 1, tzinfo=UTC)


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("change", [BACK, FORTH])
@pytest.mark.parametrize("hours", [1, 3, 12, 60, 360])
def test_where_the_clock_changes_every_label_is_that_of_its_own_moment(change: datetime, hours: int) -> None:
    start, end = change - timedelta(hours=hours), change + timedelta(hours=hours)
    counts = Bins(start=start, bin_s=3600, series={"transient": [1] * 2 * hours}, unknown=[False] * 2 * hours)
    shown = as_read(failure_bars(counts, start=start, end=end).figure, start, end)
    go.Figure(painted(shown))
    axis, ahead_ms = shown["layout"]["xaxis"], shown["layout"]["meta"]["ahead_ms"]
    assert shown["layout"]["meta"]["is_clock_changed"]
    true = [datetime.fromtimestamp((at - ahead_ms) / 1000, UTC) for at in axis["tickvals"]]
    assert 3 <= len(true) <= 10
    assert true == sorted(true)
    for at, words in zip(true, axis["ticktext"], strict=True):
        local = timezone.localtime(at)
        assert words in (f"{local:%H:%M}", f"{local.day} {local:%b}")
        assert local.minute % 5 == 0
        assert words[-3] == ":" or (local.hour, local.minute) == (0, 0), "a day begins at midnight"
    [bars] = [trace for trace in shown["data"] if "dx" in trace]
    assert [words.rpartition(" ")[2] for words in bars["text"]] == [
        f"{timezone.localtime(one):%H:%M:%S}" for one in counts.starts()
    ]
    assert "%{x" not in bars["hovertemplate"]
    assert "%{text}" in bars["hovertemplate"]
    assert [tick.words for tick in drawing.ticks(start, end)] == axis["ticktext"]


@pytest.mark.usefixtures("berlin")
def test_where_the_clock_does_not_change_plotly_makes_its_own_labels() -> None:
    figure = everything().figure
    assert as_read(figure, START, NOW) == on_clock(figure, timedelta(hours=1))
    assert "tickvals" not in figure["layout"]["xaxis"]


@pytest.mark.usefixtures("berlin")
def test_every_kind_of_figure_is_valid_where_the_clock_changes() -> None:
    start, end = BACK - timedelta(minutes=2), BACK + timedelta(minutes=3)
    for chart in CHARTS.values():
        go.Figure(painted(as_read(chart.figure, start, end)))
