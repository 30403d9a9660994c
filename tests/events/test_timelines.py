"""Figures: Plotly takes them, tables say the same numbers, nothing overlaps, and they stay small."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go
import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from events.charts.stills import still_of
from events.timelines import (
    Bar,
    Chart,
    breaker_lanes,
    capacity_heat,
    failure_bars,
    fallback_lanes,
    instance_lanes,
    rejections_line,
    timeline,
)
from events.timelines.charts import to_ms
from events.timelines.counts import heat_step
from events.timelines.fallbacks import reduced_spans
from events.timelines.majority import majority
from events.timelines.states import AUTO
from events.wording import NOT_YET, span_text, state_text
from recovery_ops.rules.enums import State
from tests.support.sentences import left_out
from tests.support.timelines import (
    ALL_STATES,
    CHARTS,
    NOW,
    START,
    bins,
    capacity,
    drawn,
    everything,
    lanes_of,
    painted,
    reduced,
)

each_chart = pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)


def tokens(value: Any) -> Iterator[str]:
    if isinstance(value, str) and value.startswith("token:"):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from tokens(part)


@each_chart
def test_plotly_takes_the_figure(chart: Chart) -> None:
    figure = go.Figure(painted(chart.figure))
    assert figure.layout.uirevision == "timeline"
    assert figure.layout.height == chart.height_px
    assert (figure.layout.margin.l, figure.layout.margin.r) == (172, 132)
    assert figure.layout.showlegend is False


@each_chart
def test_every_colour_is_a_token_of_the_theme(chart: Chart) -> None:
    theme = (settings.BASE_DIR / "static" / "tokens.css").read_text()
    found = set(tokens(chart.figure))
    assert found
    assert all(f"{token.removeprefix('token:').split('/')[0]}:" in theme for token in found)
    assert "#" not in json.dumps(chart.figure)


@each_chart
def test_every_figure_has_a_sentence_and_tables_that_are_rectangular(chart: Chart) -> None:
    assert chart.caption.endswith(".")
    assert chart.tables
    assert all(len(row) == len(table.columns) for table in chart.tables for row in table.rows)


def test_lanes_tile_the_window_and_the_table_says_the_same() -> None:
    chart = breaker_lanes(ALL_STATES)
    bars = drawn(chart)
    for lane in ALL_STATES:
        mine = [bar for bar in bars if bar[0] == lane]
        assert (mine[0][2], mine[-1][3]) == (to_ms(START), to_ms(NOW))
        assert all(one[3] == other[2] for one, other in pairwise(mine))
    assert Counter((lane, state) for lane, state, _, _ in bars) == Counter(row[:2] for row in chart.table.rows)
    lengths = Counter((lane, state, span_text((until - begin) / 1000)) for lane, state, begin, until in bars)
    assert lengths == Counter((row[0], row[1], row[5]) for row in chart.table.rows)


def test_each_state_has_its_own_width_colour_and_pattern() -> None:
    chart = instance_lanes(ALL_STATES, "search_web")
    marks = {trace["name"]: trace for trace in chart.figure["data"]}
    assert set(marks) == {"closed", "open", "half_open", "forced_open", "unknown"}
    assert marks["closed"]["width"] < marks["open"]["width"]
    patterns = {name: trace["marker"].get("pattern", {}).get("shape", "") for name, trace in marks.items()}
    assert patterns == {"closed": "", "open": "x", "half_open": "/", "forced_open": "|", "unknown": "."}
    assert len({trace["marker"]["color"] for trace in marks.values()}) == 5


def test_what_is_not_known_at_the_end_is_not_said_to_flow() -> None:
    opened = [(0, State.CLOSED), (0.2, State.OPEN), (0.5, None)]
    nobody = breaker_lanes(lanes_of({"search_web": {"a-0": opened}}))
    some = breaker_lanes(lanes_of({"search_web": {"a-0": opened}, "crm.update": {"a-1": [(0, State.CLOSED)]}}))
    known = breaker_lanes(lanes_of({"search_web": {"a-0": [*opened[:2], (0.5, State.CLOSED)]}}))
    assert [lane.value for lane in nobody.bands[0].lanes] == ["unknown"]
    assert [lane.value for lane in some.bands[0].lanes] == ["unknown", "closed 1/1"]
    assert left_out(nobody.caption, "search_web") == []
    assert left_out(some.caption, "search_web", "1") == []
    assert len({nobody.caption, some.caption, known.caption}) == 3


def test_what_nobody_holds_is_no_state_of_its_own() -> None:
    wanted = [
        Bar(lane="", state=State.CLOSED, start=START, end=NOW, why="the rules decide", is_auto=True),
        Bar(lane="", state=State.FORCED_OPEN, start=NOW, end=None, why="ana"),
    ]
    chart = instance_lanes(ALL_STATES, "search_web", desired=wanted)
    assert [(name, state) for name, state, _, _ in drawn(chart) if name == "Desired"] == [
        ("Desired", AUTO),
        ("Desired", "forced open"),
    ]
    assert [row[1] for row in chart.tables[0].rows if row[0] == "Desired"] == [AUTO, "forced open"]


def test_the_fleet_lane_says_how_many_and_why() -> None:
    chart = breaker_lanes(ALL_STATES)
    values = {note["y"]: note["text"] for note in chart.figure["layout"]["annotations"] if note["name"] == "value"}
    assert values == {"search_web": "forced 1/3", "crm.update": "disabled", "vector.query": "forced_open"}
    opened = next(row for row in chart.table.rows if row[:2] == ("search_web", "open"))
    assert opened[2] == "2 of 3"
    assert left_out(str(opened[6]), "a-0", "13", "20", "65 %", "50 %", "overloaded (529)", "1", "3") == []
    assert left_out(chart.caption, "2", "search_web (forced 1/3)", "vector.query (forced_open)") == []
    assert left_out(chart.caption, "crm.update") == ["crm.update"]


def test_the_page_of_a_breaker_shows_the_desired_lane_first_and_names_what_it_leaves_out() -> None:
    desired = [
        Bar(lane="", state=State.CLOSED, start=START, end=NOW - timedelta(minutes=5), why="auto"),
        Bar(lane="", state=State.FORCED_OPEN, start=NOW - timedelta(minutes=5), end=None, why="Ana Ruiz: too slow"),
    ]
    chart = instance_lanes(ALL_STATES, "search_web", desired=desired, most_lanes=2)
    layout = chart.figure["layout"]
    assert layout["yaxis"]["categoryarray"] == ["Desired", "Observed, majority"]
    assert layout["yaxis2"]["categoryarray"] == ["a-0", "a-1"]
    headings = [note["text"] for note in layout["annotations"] if note["name"] == "heading"]
    assert headings == [band.title for band in chart.bands]
    assert left_out(headings[1], "2", "3") == []
    assert ("Desired", "forced open", "", "14:21:18", "so far", "5m 00s", "Ana Ruiz: too slow") in chart.tables[0].rows
    assert left_out(chart.caption, "search_web", "6", "3") == []


def test_failures_are_stacked_and_the_table_has_every_bin_that_counted() -> None:
    chart = failure_bars(bins({"transient": [1, 0, 7], "semantic": [0, 0, 1]}), start=START, end=NOW)
    assert [(trace["name"], trace["y"]) for trace in chart.figure["data"]] == [
        ("transient", [1, 0, 7]),
        ("semantic", [0, 0, 1]),
    ]
    assert chart.table.columns == ("From", "transient", "semantic")
    assert chart.table.rows == (("13:26:18", 1, 0), ("13:28:18", 7, 1))
    assert left_out(chart.caption, "9", "13:28:18", "8", "transient", "semantic") == []


def test_few_series_are_drawn_and_the_rest_is_summed() -> None:
    chart = failure_bars(bins({f"c{n}": [10 - n] for n in range(9)}), start=START, end=NOW, by="category")
    assert [trace["name"] for trace in chart.figure["data"]] == ["c0", "c1", "c2", "other"]
    assert sum(trace["y"][0] for trace in chart.figure["data"]) == sum(range(2, 11))


def test_unknown_bins_are_hatched_and_not_zero() -> None:
    counts = bins({"search_web": [0, 0, 0, 4, 0]}, [True, True, False, False, True])
    for chart in (rejections_line(counts, start=START, end=NOW), failure_bars(counts, start=START, end=NOW)):
        hatched = next(trace for trace in chart.figure["data"] if trace["name"] == "unknown")
        assert hatched["width"] == [120_000, 60_000]
        assert max(hatched["y"]) < 0.5, "a rail at the foot, and no column that looks like the most of all"
        assert [row[1] for row in chart.table.rows] == ["unknown", "unknown", 4, "unknown"]
        assert left_out(chart.caption, "3", "5") == []
    line = rejections_line(counts, start=START, end=NOW).figure["data"][0]
    assert line["y"] == [0, 0, 4, 4, None]
    assert [(at - to_ms(START)) // 60_000 for at in line["x"]] == [2, 3, 3, 4, 4]


def test_before_the_first_sign_of_life_nothing_is_drawn_and_that_is_said() -> None:
    counts = bins({"search_web": [0, 0, 0, 4, 0]}, [True, True, False, False, True])
    began = START + timedelta(seconds=100)
    chart = rejections_line(counts.since(began), start=START, end=NOW)
    hatched = next(trace for trace in chart.figure["data"] if trace["name"] == "unknown")
    assert hatched["width"] == [60_000, 60_000]  # the bin in which it began was not whole, and the last one
    assert [row[1] for row in chart.table.rows] == ["unknown", 4, "unknown"]
    assert left_out(chart.caption, "2", "4") == []
    assert counts.since(None) == counts
    assert counts.since(NOW).absent == 2  # what was counted is there, whatever is said


def test_the_empty_span_is_named_once_in_each_band_that_has_room_for_it() -> None:
    def named(began: datetime | None) -> int:
        chart = timeline(
            ALL_STATES,
            capacity=capacity(),
            failures=bins({"transient": [1]}),
            rejections=bins({}),
            degradations=[],
            began=began,
        )
        notes = [note for note in chart.figure["layout"]["annotations"] if note["name"] == "absent"]
        assert all(note["text"] == NOT_YET for note in notes)
        go.Figure(painted(chart.figure))
        return len(notes)

    half = START + (NOW - START) / 2
    assert named(half) == 4  # the fallbacks have none and say so
    assert [named(None), named(START), named(START + (NOW - START) / 20)] == [0, 0, 0]


def test_a_breaker_that_nobody_had_yet_is_no_unknown_one() -> None:
    lanes = lanes_of({"late": {"a-0": [(0.5, State.CLOSED), (0.8, None)]}})
    bars = drawn(breaker_lanes(lanes))
    assert [(state, begin) for _, state, begin, _ in bars] == [
        ("closed", to_ms(START + (NOW - START) * 0.5)),
        ("unknown", to_ms(START + (NOW - START) * 0.8)),
    ]


def test_capacity_is_one_hue_in_six_steps_and_the_table_tells_429_from_529() -> None:
    chart = capacity_heat(capacity(), start=START, end=NOW)
    heat = chart.figure["data"][0]
    assert heat["z"] == [[0, 1, 1, 5, 1], [0, 0, 0, 0, 0]]
    assert heat["customdata"][0] == [[0, 0], [2, 0], [0, 30], [9, 200], [1, 5]]
    assert chart.table.columns == (
        "From",
        *("helios / large, 429", "helios / large, 529"),
        *("helios / embed, 429", "helios / embed, 529"),
    )
    assert chart.table.rows[2][:3] == ("13:29:18", 9, 200)
    assert left_out(chart.caption, "12 × 429", "235 × 529", "helios / large") == []


@given(count=st.integers(0, 10_000), hottest=st.integers(0, 10_000))
def test_heat_has_zero_for_none_and_never_less_for_more(count: int, hottest: int) -> None:
    step = heat_step(min(count, hottest), hottest)
    assert (step == 0) == (min(count, hottest) == 0)
    assert 0 <= step <= 5
    assert heat_step(hottest, hottest) == max(heat_step(n, hottest) for n in (0, hottest // 2, hottest))


def test_degradations_of_many_instances_are_one_bar_with_a_count() -> None:
    rows = [
        reduced("search_web", since=50, until=40),
        reduced("search_web", since=45, until=30),
        reduced("search_web", since=20, until=None),
        reduced("search_web", since=90, until=70),
        reduced("search_web", since=80, until=55),
    ]
    spans = reduced_spans(rows, start=START, end=NOW)
    minutes = [((NOW - one.start).seconds // 60, one.end and (NOW - one.end).seconds // 60) for one in spans]
    assert minutes == [(60, 55), (50, 30), (20, None)]
    assert [one.instances for one in spans] == [1, 2, 1]
    chart = fallback_lanes(rows, start=START, end=NOW)
    assert len(drawn(chart)) == len(chart.table.rows) == 3
    assert [lane.value for lane in chart.bands[0].lanes] == ["1 now"]
    assert left_out(chart.caption, "search_web") == []


def test_bands_lie_below_each_other_over_one_axis() -> None:
    layout = everything().figure["layout"]
    domains = [layout[axis]["domain"] for axis in ("yaxis", "yaxis2", "yaxis3", "yaxis4", "yaxis5")]
    assert all(upper[0] > lower[1] for upper, lower in pairwise(domains))
    assert (domains[0][1] < 1, domains[-1][0]) == (True, 0)
    assert {trace["xaxis"] for trace in everything().figure["data"]} == {"x"}


def test_a_band_without_lanes_says_why() -> None:
    chart = CHARTS["nothing"]
    notes = [note["text"] for note in chart.figure["layout"]["annotations"] if note["name"] == "empty"]
    without = [band for band in chart.bands if band.key in {"capacity", "breakers", "fallbacks"}]
    assert notes == [band.caption for band in without]
    assert len(set(notes)) == 3
    assert left_out(notes[0], "60") == []


def test_names_from_outside_cannot_bring_markup() -> None:
    hostile = '<a href="https://evil.example">click</a>'
    chart = breaker_lanes(lanes_of({hostile: {hostile: [(0, State.CLOSED), (0.5, State.OPEN)]}}))
    text = (
        json.dumps(chart.figure)
        .replace("<b>", "")
        .replace("</b>", "")
        .replace("<br>", "")
        .replace("<extra></extra>", "")
    )
    assert "<" not in text
    assert chart.table.rows[0][0] == hostile  # the table is escaped by its template


STEPS = st.lists(st.tuples(st.floats(0.001, 0.999), st.sampled_from([*State, None])), max_size=6)


@given(instances=st.lists(STEPS, min_size=1, max_size=4))
def test_the_majority_lane_sums_up_to_the_window(instances: list[list[tuple[float, State | None]]]) -> None:
    spans = {
        f"a-{number}": [(0.0, State.CLOSED), *sorted(steps, key=lambda step: step[0])]
        for number, steps in enumerate(instances)
    }
    lanes = lanes_of({"b": spans})
    [lane] = majority(lanes).values()
    assert sum(((one.end - one.start) for one in lane), timedelta()) == NOW - START
    bars = drawn(breaker_lanes(lanes))
    assert sum(until - begin for _, _, begin, until in bars) >= to_ms(NOW) - to_ms(START)
    assert {state for _, state, _, _ in bars} == {state_text(one.state) for one in lane}


def day_of(flips: int) -> Chart:
    """Forty breakers that move so often in a day."""
    states = (State.OPEN, State.HALF_OPEN, State.CLOSED)
    steps: list[tuple[float, State | None]] = [(0.0, State.CLOSED)]
    steps += [((n + 1) / (flips + 1), states[n % 3]) for n in range(flips)]
    spans = {f"operation-{number:02}": {"agent-00": steps} for number in range(40)}
    return breaker_lanes(lanes_of(spans, start=NOW - timedelta(hours=24)))


@pytest.mark.parametrize(("flips", "most_bytes"), [(2, 50_000), (11, 105_000)])
def test_a_day_of_forty_breakers_is_small(flips: int, most_bytes: int) -> None:
    written = json.dumps(day_of(flips).figure, separators=(",", ":"), ensure_ascii=False).encode()
    assert len(written) <= most_bytes
    assert len(gzip.compress(written)) <= 15_000


def test_the_most_bars_we_draw_travel_in_fifty_kilobytes() -> None:
    chart = day_of(49)
    assert len(drawn(chart)) == 2000
    assert len(gzip.compress(json.dumps(chart.figure, separators=(",", ":")).encode())) <= 50_000


def test_the_hours_stand_at_both_ends_of_a_tall_figure_and_move_together() -> None:
    layout = everything().figure["layout"]
    assert layout["xaxis2"]["range"] == layout["xaxis"]["range"]
    assert (layout["xaxis2"]["side"], layout["xaxis2"]["matches"]) == ("top", "x")
    assert [note["text"] for note in layout["annotations"] if note["name"] == "zone"] == ["UTC"]
    assert still_of(everything()).zone == "UTC"
    assert "xaxis2" not in CHARTS["breakers"].figure["layout"], "a small one has them once"


def test_the_label_of_a_breaker_leads_to_its_page() -> None:
    chart = timeline(
        ALL_STATES,
        capacity=capacity(),
        failures=bins({}),
        rejections=bins({}),
        degradations=[],
        page_of=lambda name: f"/breakers/{name}",
    )
    assert chart.figure["layout"]["meta"]["leads"]["y2"]["search_web"] == "/breakers/search_web"
    assert {row.label: row.href for row in still_of(chart).rows}["search_web"] == "/breakers/search_web"
