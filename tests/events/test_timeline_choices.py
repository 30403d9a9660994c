"""Figures of what was picked, beside an earlier time, and the tables that tell the same."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import plotly.graph_objects as go

from events.charts.stills import still_of
from events.moments import to_us
from events.rows import WORST_FIRST, MajoritySegment, Presence
from events.timelines import (
    Chart,
    Choice,
    Earlier,
    Question,
    timeline,
)
from events.timelines.choosing import BANDS
from events.timelines.cursor import as_json, tracks_of, values_at
from events.timelines.majority import majority, worst_first
from events.wording import NOT_YET, state_word
from recovery_ops.rules.enums import State
from tests.support.sentences import left_out
from tests.support.timelines import ALL_STATES, CHARTS, NOW, START, bins, capacity, everything, painted, reduced


def chosen(**words: Any) -> Chart:
    counts = bins({"transient": [1, 0, 7, 3, 2]})
    fleet = majority(ALL_STATES)
    fleet.presences = [Presence("agent-1", to_us(START), None)]
    asking = Question(
        name="ESC-7", what="search_web: timeout", breaker="search_web", href="/escalations/7", asked=START
    )
    rows = [reduced("search_web", since=30, until=None), reduced("embed", since=20, until=10)]
    given: dict[str, Any] = {"marks": (), "questions": (asking,), **words}
    return timeline(fleet, capacity=capacity(), failures=counts, rejections=counts, degradations=rows, **given)


def lanes_drawn(chart: Chart) -> dict[str, list[str]]:
    return {band.key: [lane.name for lane in band.lanes] for band in chart.bands}


def test_bands_and_lanes_can_be_picked() -> None:
    assert list(lanes_drawn(chosen())) == list(BANDS)
    some = chosen(
        choice=Choice.of(["breakers", "fallbacks", "moon"], ["breakers:search_web", "moon:x", "breakers:"], "")
    )
    assert lanes_drawn(some) == {"breakers": ["search_web"], "fallbacks": ["embed", "search_web"]}
    assert {row[0] for row in some.tables[-1].rows} == {"search_web"}, "the time in state is that of what is shown"
    go.Figure(painted(some.figure))


def test_a_band_in_which_nothing_matches_does_not_claim_that_there_was_nothing() -> None:
    found = chosen(choice=Choice.of([], [], " SEARCH "))
    assert lanes_drawn(found) == {
        "breakers": ["search_web"],
        "failures": [],
        "rejections": [],
        "fallbacks": ["search_web"],
        "escalations": ["ESC-7"],
        "agents": [],
        "changes": [],
    }
    nothing = chosen(choice=Choice.of(["capacity"], [], "moon"))
    assert (nothing.bands, nothing.captions) == ((), ())
    go.Figure(painted(nothing.figure))


def test_an_earlier_time_is_a_dotted_line_a_column_and_a_sentence() -> None:
    then = bins({"transient": [4, 0, 0, 9, 0], "semantic": [1, 0, 0, 0, 0]}, [False, False, True, False, False])
    nothing, heat = bins({}), capacity()
    chart = chosen(earlier=tuple(Earlier(bins=one, words="a day earlier") for one in (then, nothing, heat)))
    go.Figure(painted(chart.figure))
    band = chart.band("failures")
    assert band is not None
    [line] = [trace for trace in band.traces if trace["type"] == "scatter"]
    assert (line["name"], line["line"]["dash"]) == ("a day earlier", "dot")
    assert line["y"] == [5, 5, 0, 0, None, 9, 9, 0, 0]
    assert band.top == 9
    assert band.table.columns == ("From", "transient", "a day earlier")
    assert [row[1:] for row in band.table.rows] == [(1, 5), (7, "unknown"), (3, 9), (2, 0)]
    assert left_out(band.caption, "14", "13", "1", "5") == []
    assert any("limit" in str(row.drawing) for row in still_of(chart).rows)
    heated = chart.band("capacity")
    assert heated is not None
    assert heated.table.columns[-1] == "a day earlier"
    assert heated.caption.count(f" {sum(heat.total())}") == 2, "then and now"


def test_before_anybody_was_there_an_earlier_time_is_no_zero() -> None:
    then = Earlier(bins=bins({}, [True] * 5).since(NOW), words="just before")
    band = chosen(earlier=(then, then, then)).band("failures")
    assert band is not None
    zeros = Earlier(bins=bins({}), words="just before")
    counted = chosen(earlier=(zeros, zeros, zeros)).band("failures")
    assert counted is not None
    assert (left_out(band.caption, "0"), left_out(counted.caption, "0")) == (["0"], [])
    assert {row[-1] for row in band.table.rows} == {"unknown"}


def test_the_legend_and_the_table_tell_the_same_times() -> None:
    chart = chosen()
    assert chart.times is not None
    together = {row[1]: (row[2], row[4]) for row in chart.tables[-1].rows if row[0] == "all instances"}
    legend = {word: text for word, text in chart.legend if text}
    assert legend == {word: time if share == "–" else f"{time}, {share}" for word, (time, share) in together.items()}
    assert [word for word, _ in chart.legend] == [state_word(state) for state in (*reversed(WORST_FIRST), None)]
    lanes = {row[0] for row in chart.tables[-1].rows} - {"all instances"}
    assert lanes == set(ALL_STATES)


def test_every_row_of_a_table_leads_somewhere() -> None:
    for chart in (everything(), CHARTS["instances"]):
        for band in chart.bands:
            assert len(band.table.trails) == len(band.table.rows)
    opened = next(
        trail
        for row, trail in zip(CHARTS["breakers"].table.rows, CHARTS["breakers"].table.trails, strict=True)
        if row[:2] == ("search_web", "open")
    )
    assert (opened.breaker, opened.fact_id) == ("search_web", 7)


def test_what_counts_per_bin_says_how_long_its_bins_are() -> None:
    counted = [one for one in everything().figure["data"] if "dx" in one or one["type"] in ("heatmap", "scatter")]
    assert {one["type"] for one in counted} == {"bar", "heatmap", "scatter"}
    assert {one["meta"] for one in counted} == {60_000}


def test_bands_are_moved_and_an_order_says_all_of_them() -> None:
    moved = Choice.of([], [], "", order=Choice().moved("failures", -2))
    assert moved.places[:3] == ["failures", "capacity", "breakers"]
    assert [band.key for band in chosen(choice=moved).bands] == moved.places
    assert Choice.of([], [], "", order=moved.moved("failures", 2)) == Choice(), "the usual order is not said"
    assert Choice.of([], [], "", order="agents,moon,agents").places[:2] == ["agents", "capacity"]
    assert moved.moved("failures", -1) == ",".join(moved.places), "the first stays where it is"


def test_breakers_stand_by_trouble_or_by_name() -> None:
    by_name = Choice.of([], [], "", sort="name")
    assert by_name == replace(Choice(), is_by_name=True)
    worst = lanes_drawn(chosen())["breakers"]
    names = lanes_drawn(chosen(choice=by_name))["breakers"]
    assert names == sorted(worst) != worst
    assert worst == worst_first(majority(ALL_STATES))


def test_worst_at_the_end_stands_first_then_what_was_longest_not_closed() -> None:
    def lane(*spans: tuple[State, int]) -> list[MajoritySegment]:
        begin, found = START, []
        for state, length_s in spans:
            until = begin + timedelta(seconds=length_s)
            counts: dict[str, Any] = {"most": 1, "last": 1, "known": 1, "unknown": 0, "worst_count": 1}
            found.append(MajoritySegment(breaker="", state=state, start=begin, end=until, worst=state, **counts))
            begin = until
        return found

    lanes = {
        "calm": lane((State.CLOSED, 60)),
        "was short": lane((State.OPEN, 10), (State.CLOSED, 50)),
        "was long": lane((State.OPEN, 20), (State.CLOSED, 40)),
        "is": lane((State.CLOSED, 59), (State.OPEN, 1)),
        "a tie": lane((State.CLOSED, 59), (State.OPEN, 1)),
    }
    assert worst_first(lanes) == ["a tie", "is", "was long", "was short", "calm"]


def test_what_is_pinned_stands_above_all_bands_whatever_else_is_picked() -> None:
    pinned = Choice.of([], [], "", pins=["breakers:search_web", "capacity:helios / large", "moon:x"], order="failures")
    chart = chosen(choice=pinned)
    drawn = [(band.key, band.is_part, [lane.name for lane in band.lanes]) for band in chart.bands]
    whole = lanes_drawn(chosen())
    assert drawn[0] == ("capacity", True, ["helios / large"])
    assert drawn[1] == ("breakers", True, ["search_web"])
    assert chart.bands[2].key == "failures"
    assert ("breakers", False, [one for one in whole["breakers"] if one != "search_web"]) in drawn
    for pinned_band in chart.bands[:2]:
        rest = chart.band(pinned_band.key)
        assert rest is not None
        assert pinned_band.title != rest.title, "its heading says that it is pinned"
    assert sorted(chart.tables, key=str) == sorted(chosen().tables, key=str), "tables speak of all lanes"
    assert set(chart.captions) == set(chosen().captions)
    go.Figure(painted(chart.figure))
    assert still_of(chart).rows[0].label == chart.bands[0].title
    alone = chosen(choice=Choice.of(["failures"], [], "moon", pins=["breakers:search_web"]))
    assert [(band.key, len(band.lanes)) for band in alone.bands] == [("breakers", 1), ("failures", 0)]
    assert {row[0] for row in alone.tables[0].rows} == {"search_web"}


def test_a_pinned_lane_is_drawn_as_before() -> None:
    whole, pinned = (
        chosen(),
        chosen(choice=Choice.of([], [], "", pins=["breakers:search_web", "capacity:helios / large"])),
    )

    def bars(chart: Chart) -> list[tuple[Any, ...]]:
        found = (trace for band in chart.bands for trace in band.traces if trace.get("orientation") == "h")
        return sorted(
            (trace["name"], *place)
            for trace in found
            for place in zip(trace["y"], trace["base"], trace["x"], strict=True)
        )

    assert bars(pinned) == bars(whole)


def test_a_cursor_reads_of_every_lane_what_is_drawn_there() -> None:
    chart = chosen()
    at = START + timedelta(minutes=2, seconds=30)
    said = {name: value for _, name, value in values_at(chart, at)}
    [failures] = [value for band, _, value in values_at(chart, at) if band.startswith("Failures")]
    assert failures == "7 transient"
    assert re.findall(r"\d+", said["instances"]) == ["1", "1"]
    open_now = {name: value for _, name, value in values_at(chart, NOW - timedelta(seconds=1))}
    assert open_now["ESC-7"] == "asked"
    assert left_out(open_now["search_web"], "search_cache", "1") == [], "after the lane of the breaker"


def test_a_cursor_says_zero_unknown_and_not_yet_apart() -> None:
    gap = bins({"transient": [1, 0, 7, 0, 2], "model_output": [0, 0, 1, 0, 0]}, [False, False, False, True, False])
    chart = timeline(majority(ALL_STATES), capacity=capacity(), failures=gap, rejections=bins({}), degradations=())

    def failures(minute: float) -> str:
        moment = START + timedelta(minutes=minute)
        return next(value for band, _, value in values_at(chart, moment) if band.startswith("Failures"))

    one, none, several, dark = (failures(minute) for minute in (0.5, 1.5, 2.5, 3.5))
    assert left_out(one, "1", "transient") == []
    assert (none, dark) == ("0", state_word(None))
    assert left_out(several, "8", "7 transient", "1 model output") == []
    early = timeline(
        majority(ALL_STATES), capacity=capacity(), failures=bins({}), rejections=bins({}), degradations=(), began=NOW
    )
    assert values_at(early, START)[-1][2] == NOT_YET


def test_the_script_is_handed_the_same_pieces() -> None:
    chart = chosen()
    handed = as_json(chart)["tracks"]
    assert [track[:3] for track in handed] == [[one.band, one.name, one.otherwise] for one in tracks_of(chart)]
    assert all(start < end for *_, pieces in handed for start, end, _ in pieces)
