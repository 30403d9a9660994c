"""Server-drawn SVG: well-formed, in percentages, with words for those who do not see it, and safe."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from events.charts import drawing
from events.rows import MajoritySegment, Segment
from events.wording import NOT_YET, bin_text, state_word
from recovery_ops.rules.enums import State
from tests.support.sentences import left_out

NOW = datetime(2026, 11, 21, 14, 26, 18, tzinfo=UTC)
START = NOW - timedelta(hours=24)
STATES = [*State, None]


def segments_of(*steps: tuple[float, State | None]) -> list[Segment]:
    """Segments from (hours after the start, state), the last one going on."""
    moments = [START + timedelta(hours=hours) for hours, _ in steps]
    ends: list[datetime | None] = [*moments[1:], None]
    return [
        Segment(service="s", instance="i", breaker="b", state=state, start=begin, end=end)
        for (_, state), begin, end in zip(steps, moments, ends, strict=True)
    ]


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def percent(element: ET.Element, name: str) -> float:
    return float(element.attrib[name].removesuffix("%"))


def test_a_strip_is_a_rail_with_trouble_standing_out() -> None:
    strip = parsed(
        drawing.strip(segments_of((0, State.CLOSED), (12, State.OPEN)), start=START, end=NOW, label="search")
    )
    closed, opened = strip.findall("rect")
    assert (closed.attrib["height"], closed.attrib["width"], closed.attrib["y"]) == ("4", "50%", "5")
    assert (opened.attrib["height"], opened.attrib["x"], opened.attrib["fill"]) == ("14", "50%", "url(#p-open)")
    assert left_out(opened.findtext("title") or "", "open", "02:26:18") == []
    assert left_out(strip.attrib["aria-label"], "search", "open", "50 %") == []


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_a_pattern_in_the_sprite(state: State | None) -> None:
    sprite = (settings.BASE_DIR / "templates" / "_sprite.html").read_text()
    lane = drawing.lane(segments_of((0, state)), start=START, end=NOW, label="x")
    [fill] = {rect.attrib["fill"] for rect in parsed(lane).findall("rect") if "fill" in rect.attrib}
    assert f'id="{fill.removeprefix("url(#").removesuffix(")")}"' in sprite


@pytest.mark.parametrize("state", [State.FORCED_OPEN, State.DISABLED, State.METRICS_ONLY])
def test_what_a_person_holds_has_an_outline(state: State) -> None:
    strip = parsed(drawing.strip(segments_of((0, state)), start=START, end=NOW, label="x"))
    assert [rect.attrib.get("class") for rect in strip.findall("rect")] == [None, f"edge f-{state}"]


def test_a_short_outage_is_not_lost_in_a_day() -> None:
    strip = drawing.strip(
        segments_of((0, State.CLOSED), (12, State.OPEN), (12.001, State.CLOSED)), start=START, end=NOW, label="x"
    )
    last = parsed(strip).findall("rect")[-1]  # drawn over the rails
    assert last.attrib["fill"] == "url(#p-open)"
    assert percent(last, "width") >= 0.75


def test_a_thousand_moves_are_drawn_as_pixels() -> None:
    steps = [(hour / 50, State.OPEN if hour % 2 else State.CLOSED) for hour in range(1000)]
    strip = parsed(drawing.strip(segments_of(*steps), start=START, end=NOW, label="x"))
    assert len(strip.findall("rect")) <= 128


@given(
    st.lists(
        st.tuples(st.floats(-2, 26), st.sampled_from(STATES)), min_size=1, max_size=300, unique_by=lambda step: step[0]
    )
)
def test_nothing_is_drawn_outside(steps: list[tuple[float, State | None]]) -> None:
    lane = parsed(drawing.lane(segments_of(*sorted(steps, key=lambda step: step[0])), start=START, end=NOW, label="x"))
    for rect in lane.findall("rect"):
        assert percent(rect, "x") >= 0
        assert percent(rect, "x") + percent(rect, "width") <= 100.02


def test_names_from_outside_are_escaped() -> None:
    lane = drawing.lane(segments_of((0, State.CLOSED)), start=START, end=NOW, label='"><script>alert(1)</script>')
    assert "<script>" not in lane
    assert parsed(lane).attrib["aria-label"].startswith('"><script>')


def test_nothing_reported_is_said() -> None:
    empty, reported = (
        parsed(drawing.strip(some, start=START, end=NOW, label="x")).attrib["aria-label"]
        for some in ([], segments_of((0, State.CLOSED)))
    )
    assert (left_out(empty, "x", "closed"), left_out(reported, "x", "closed")) == (["closed"], [])
    assert empty != "x"


def test_a_heat_row_has_a_cell_per_bin_and_dots_where_nothing_is_known() -> None:
    row = drawing.heat_row([0, 3, 0, 100], start=START, bin_s=300, unknown=[False, False, True, False], label="helios")
    cells = parsed(row).findall("rect")
    assert [cell.attrib.get("class", cell.attrib.get("fill")) for cell in cells] == [
        "h0",
        "h1",
        "url(#p-unknown)",
        "h5",
    ]
    counted, dark = (str(cell.findtext("title")) for cell in cells[1:3])
    assert left_out(counted, "14:31:18", "3", bin_text(300)) == []
    assert left_out(dark, "14:36:18", state_word(None)) == []
    assert left_out(parsed(row).attrib["aria-label"], "helios", "103") == []
    cooler = parsed(drawing.heat_row([0, 100], start=START, bin_s=300, label="x", hottest=1000)).findall("rect")
    assert cooler[1].attrib["class"] == "h1"


def test_before_anybody_was_there_a_lane_is_empty_and_says_so() -> None:
    row = parsed(
        drawing.heat_row([0, 0, 3, 0], start=START, bin_s=300, unknown=[True] * 2 + [False] * 2, absent=2, label="x")
    )
    assert [cell.attrib["x"] for cell in row.findall("rect")] == ["50%", "75%"]
    assert not row.findall("text"), "half of a row has room for the words, and none was said to be empty"
    values = [0, 3] + [0] * 8
    begun = parsed(drawing.heat_row(values, start=START, bin_s=60, absent=1, label="x", empty=0.19))
    assert not begun.findall("text"), "the words would lie over the bin in which somebody came"
    nobody = MajoritySegment(
        breaker="b",
        state=None,
        start=START,
        end=START + timedelta(hours=12),
        most=0,
        last=0,
        known=0,
        unknown=0,
        worst=None,
        worst_count=0,
    )
    silent = replace(nobody, start=nobody.end, end=NOW, unknown=1)
    lane = parsed(drawing.lane([nobody, silent], start=START, end=NOW, label="x", empty=0.5))
    [bar] = lane.findall("rect")
    assert (bar.attrib["x"], bar.attrib["fill"]) == ("50%", "url(#p-unknown)")
    assert [text.text for text in lane.findall("text")] == [NOT_YET]
    narrow = parsed(drawing.lane([silent], start=START, end=NOW, label="x", empty=0.05))
    assert narrow.findall("text") == []
    there, dark = (
        parsed(drawing.strip([one], start=START, end=NOW, label="x")).attrib["aria-label"] for one in (nobody, silent)
    )
    assert there != dark, "nobody there is not unknown"


def test_cells_count_few_and_share_out_many() -> None:
    few = parsed(drawing.cells(["open", "closed", "closed", "wait"])).findall("rect")
    assert [(cell.attrib.get("fill"), cell.attrib.get("class"), cell.attrib["x"]) for cell in few] == [
        ("url(#p-open)", None, "0%"),
        ("url(#p-closed)", None, "25%"),
        ("url(#p-closed)", None, "50%"),
        (None, "wait", "75%"),
    ]
    many = parsed(drawing.cells(["open"] * 100 + ["closed"] * 300)).findall("rect")
    assert [cell.attrib["x"] for cell in many] == ["0%", "25%"]
    assert drawing.cells([]) == ""


def test_a_spark_is_interrupted_where_nothing_is_known() -> None:
    spark = parsed(drawing.spark([0, 2, None, 4, 4]))
    assert [line.attrib["points"] for line in spark.findall("polyline")] == ["0.0,22.0 25.0,12.0", "75.0,2.0 100.0,2.0"]
    assert parsed(drawing.spark([])).findall("polyline") == []
    assert parsed(drawing.spark([0])).find("polyline") is not None


def test_a_bullet_has_a_tick_at_its_limit_and_is_empty_when_not_known() -> None:
    bullet = parsed(drawing.bullet(0.65, 0.5))
    assert [rect.attrib["width"] for rect in bullet.findall("rect")] == ["100%", "65%"]
    assert bullet.find("line") is not None
    assert left_out(bullet.attrib["aria-label"], "65 %", "50 %") == []
    unknown = parsed(drawing.bullet(None))
    assert len(unknown.findall("rect")) == 1
    assert unknown.find("line") is None
    assert not re.search(r"\d", unknown.attrib["aria-label"])
    assert parsed(drawing.bullet(3.0)).findall("rect")[1].attrib["width"] == "100%"


@pytest.mark.parametrize("minutes", [1, 15, 60, 360, 1440, 10_080, 43_200])
def test_ticks_are_few_round_and_inside(minutes: int) -> None:
    start = NOW - timedelta(minutes=minutes)
    found = drawing.ticks(start, NOW)
    assert 1 <= len(found) <= 9
    assert all(0 <= float(tick.x.removesuffix("%")) <= 100 for tick in found)
    assert parsed(drawing.axis(start, NOW)).findall("text")[0].text == found[0].words
    assert drawing.grid(start, NOW).count("<line") == len(found)
