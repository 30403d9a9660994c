"""What people did, beside the facts: each act has a mark with a glyph, a word where there is room, and a row."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from itertools import pairwise

import plotly.graph_objects as go
from hypothesis import given
from hypothesis import strategies as st

from events.charts.stills import still_of
from events.timelines import Chart, Kind, Mark
from events.timelines.charts import compose, to_ms
from events.timelines.marks import gathered, marks_band
from tests.support.timelines import NOW, START, painted

SHARES = st.lists(st.floats(0, 0.9999), max_size=200)


def mark(share: float, word: str = "policy 4", kind: Kind = Kind.POLICY, why: str = "less patience") -> Mark:
    at = START + (NOW - START) * share
    return Mark(at=at, kind=kind, word=word, by="ana", why=why, href="/policies/releases/4")


def chart_of(*marks: Mark) -> Chart:
    return compose([marks_band(marks, start=START, end=NOW)], start=START, end=NOW)


def test_each_kind_has_a_lane_a_glyph_and_a_word() -> None:
    chart = chart_of(
        mark(0.2),
        mark(0.4, "forced_open search_web", Kind.OVERRIDE),
        mark(0.6, "ESC-7 opened", Kind.ESCALATION),
        mark(0.7, "research 2.9.0", Kind.DEPLOYMENT),
    )
    go.Figure(painted(chart.figure))
    drawn = {trace["name"]: trace for trace in chart.figure["data"]}
    assert {name: trace["marker"]["symbol"] for name, trace in drawn.items()} == {
        "deployment": "hexagon",
        "policy": "square",
        "override": "diamond",
        "escalation": "triangle-up",
    }
    words = [[text.strip() for text in trace["text"]] for trace in drawn.values()]
    assert words == [["research 2.9.0"], ["policy 4"], ["forced_open search_web"], ["ESC-7 opened"]]
    assert drawn["policy"]["x"] == [to_ms(START + (NOW - START) * 0.2)]
    assert chart.table.rows[0][1:] == ("policy", "policy 4", "ana", "less patience")
    assert [trail.href for trail in chart.table.trails] == ["/policies/releases/4"] * 4
    assert re.findall(r"\d+", chart.caption) == ["1"] * 4
    still = [str(row.drawing) for row in still_of(chart).rows if row.drawing]
    assert all('class="pin"' in lane for lane in still)
    assert "ESC-7 opened" in still[3]


def test_where_nobody_did_anything_it_is_said() -> None:
    chart = chart_of()
    assert chart.caption
    assert not re.search(r"\d", chart.caption)
    assert chart.table.rows == ()
    go.Figure(painted(chart.figure))


@given(SHARES)
def test_no_act_is_lost_however_many_there_are_and_few_are_drawn(shares: list[float]) -> None:
    marks = sorted((mark(share) for share in shares), key=lambda one: one.at)
    groups = gathered(marks, start=START, end=NOW)
    assert [one for group in groups for one in group] == marks
    assert len(groups) <= 81
    chart = chart_of(*marks)
    assert len(chart.table.rows) == len(marks)
    told = [said for trace in chart.figure["data"] for said in trace["customdata"]]
    assert sum(len(lines) + left for _, _, lines, left in told) == len(marks)


@given(SHARES)
def test_words_never_lie_over_each_other(shares: list[float]) -> None:
    chart = chart_of(*(mark(share) for share in shares))
    for trace in chart.figure["data"]:
        spans = []
        for x, text, side in zip(trace["x"], trace["text"], trace["textposition"], strict=True):
            at = (x - to_ms(START)) / (to_ms(NOW) - to_ms(START))
            width = len(text) / 150
            if text:
                spans.append((at - width, at) if side == "middle left" else (at, at + width))
        assert all(one[1] <= other[0] + 1e-3 for one, other in pairwise(spans))


def test_what_was_done_outside_of_the_window_is_not_drawn() -> None:
    late = mark(0.5)
    outside = Mark(at=NOW + timedelta(hours=1), kind=late.kind, word="x", by="", why="", href="/")
    assert len(chart_of(late, outside).table.rows) == 1


def test_words_from_outside_bring_no_markup() -> None:
    hostile = "<a href=//evil.example>x</a>"
    chart = chart_of(mark(0.5, hostile, why=hostile))
    assert "<a" not in json.dumps(chart.figure)
    assert "<a" not in "".join(str(row.drawing) for row in still_of(chart).rows)
