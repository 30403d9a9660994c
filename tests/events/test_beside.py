"""What stands beside the facts on the time axis: who reported, what was put to people, what they noted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import plotly.graph_objects as go
from hypothesis import given
from hypothesis import strategies as st

from events.charts.stills import still_of
from events.moments import to_us
from events.rows import Presence
from events.timelines import Chart, Kind, Mark, Question
from events.timelines.charts import compose, to_ms
from events.timelines.marks import marks_band
from events.timelines.questions import MOST_LANES, questions_band
from events.timelines.reporters import reporters_band
from tests.support.sentences import left_out
from tests.support.timelines import NOW, START, painted


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def there(name: str, born: float, ended: float | None = None, silent: Sequence[tuple[float, float]] = ()) -> Presence:
    spans = [(to_us(ago(quiet)), to_us(ago(heard))) for quiet, heard in silent]
    return Presence(name, to_us(ago(born)), None if ended is None else to_us(ago(ended)), spans)


def reporters(*presences: Presence) -> Chart:
    return compose([reporters_band(presences, start=START, end=NOW)], start=START, end=NOW)


def questions(*found: Question) -> Chart:
    return compose([questions_band(found, start=START, end=NOW)], start=START, end=NOW)


def question(number: int, asked: float, taken: float | None = None, ended: float | None = None) -> Question:
    return Question(
        name=f"ESC-{number}",
        what="charge: timeout",
        breaker="charge",
        href=f"/escalations/{number}",
        asked=ago(asked),
        taken=None if taken is None else ago(taken),
        by="" if taken is None else "ana",
        ended=None if ended is None else ago(ended),
    )


def test_who_came_fell_silent_and_left_is_counted_and_named() -> None:
    chart = reporters(there("old", 90), there("new", 30, silent=[(20, 10)]), there("gone", 90, ended=5))
    go.Figure(painted(chart.figure))
    told = [row[1:] for row in chart.table.rows]
    assert [row[:2] for row in told] == [(2, 2), (3, 3), (2, 3), (3, 3), (2, 2)]
    what = [str(row[2]) for row in told]
    assert [left_out(one, "new") for one in what] == [["new"], [], [], [], ["new"]]
    assert left_out(what[4], "gone") == []
    assert len(set(what)) == 5
    assert left_out(chart.caption, "2", f"{ago(20):%H:%M:%S}", "1", "3") == []
    lines = {trace["name"]: trace for trace in chart.figure["data"]}
    assert lines["reporting"]["y"][::2] == [2, 3, 2, 3, 2], "and the table says the same"
    assert lines["there"]["y"] == [2, 2, 3, 3, 3, 3, 3, 3, 2, 2]
    assert lines["reporting"]["x"][-1] == to_ms(NOW)
    assert "polyline" in str(still_of(chart).rows[-1].drawing)


def test_where_nobody_was_it_is_no_zero() -> None:
    chart = reporters()
    assert chart.figure["data"] == []
    assert chart.caption
    assert left_out(chart.caption, "0") == ["0"]


@given(st.lists(st.tuples(st.floats(0, 90), st.floats(0, 90)), max_size=900))
def test_however_many_came_and_went_few_steps_are_drawn_and_none_is_above_what_was_there(
    lives: list[tuple[float, float]],
) -> None:
    chart = reporters(*(there(f"a{n}", max(one), min(one)) for n, one in enumerate(lives)))
    for trace in chart.figure["data"]:
        assert len(trace["x"]) <= 804
        assert trace["x"] == sorted(trace["x"])
        assert min(trace["y"]) >= 0
    drawn = [trace["y"] for trace in chart.figure["data"]]
    assert not drawn or all(there_ >= told for there_, told in zip(*drawn, strict=True))


def test_what_is_snoozed_waits_for_nobody_to_take_it() -> None:
    chart = questions(question(7, 40), replace(question(8, 20), is_snoozed=True))
    assert [lane.value for lane in chart.bands[0].lanes] == ["unacknowledged", "snoozed"]
    assert left_out(chart.caption, "2", "ESC-7", "ESC-8") == ["ESC-8"]


def test_a_question_is_a_bar_until_somebody_takes_it_and_another_until_its_end() -> None:
    chart = questions(question(7, 40, 30, 10), question(8, 20))
    go.Figure(painted(chart.figure))
    asked, taken = chart.figure["data"]
    assert (asked["name"], asked["y"], taken["y"]) == ("asked", ["ESC-7", "ESC-8"], ["ESC-7"])
    assert [length // 60_000 for length in (*asked["x"], *taken["x"])] == [10, 20, 20]
    assert taken["customdata"][0][7] == ["Open ESC-7", "/escalations/7"]
    assert [lane.value for lane in chart.bands[0].lanes] == ["in 30m 00s", "unacknowledged"]
    assert left_out(chart.caption, "2", "1", "ESC-8", "ESC-7") == ["ESC-7"]
    assert chart.table.rows[0][4:] == ("ana", f"{ago(10):%H:%M:%S}", "10m 00s", "30m 00s")
    drawn = [str(row.drawing) for row in still_of(chart).rows if row.drawing]
    assert ["p-asked" in one for one in drawn] == [True, True]
    assert ["p-taken" in one for one in drawn] == [True, False]


def test_what_began_before_the_range_is_drawn_from_its_edge_on() -> None:
    asked, taken = questions(question(7, 120, 70)).figure["data"], questions(question(7, 120, 30)).figure["data"]
    assert [trace["name"] for trace in asked] == ["taken"], "it was taken before the range began"
    assert [trace["base"] for trace in taken] == [[to_ms(START)], [to_ms(ago(30))]]


def test_of_many_questions_the_first_have_lanes_and_all_are_in_the_table() -> None:
    chart = questions(*(question(number, 40 - number / 10) for number in range(30)))
    assert len(chart.bands[0].lanes) == MOST_LANES
    assert len(chart.table.rows) == 30
    assert left_out(chart.bands[0].title, str(MOST_LANES), "30") == []
    assert left_out(questions().caption, "0") == ["0"]


def test_an_annotation_that_lasts_has_a_rail_from_the_edge_of_the_range_on() -> None:
    noted = Mark(at=ago(90), kind=Kind.ANNOTATION, word="freeze", by="ana", why="", href="/x", until=ago(30))
    chart = compose([marks_band([noted], start=START, end=NOW)], start=START, end=NOW)
    go.Figure(painted(chart.figure))
    rail, mark = chart.figure["data"]
    assert (rail["base"], rail["x"]) == ([to_ms(START)], [to_ms(ago(30)) - to_ms(START)])
    assert (mark["x"], mark["marker"]["symbol"]) == ([to_ms(START)], "circle")
    assert chart.table.rows[0][0] == f"{ago(90):%H:%M:%S} – {ago(30):%H:%M:%S}"
    drawing = str(still_of(chart).rows[-1].drawing)
    assert "p-noted" in drawing
    assert 'class="pin"' in drawing
