"""What a figure says before plotly draws it, and where it never does."""

from __future__ import annotations

import re
from pathlib import Path

from events.charts.stills import still_of
from events.timelines import instance_lanes
from events.timelines.charts import compose
from events.timelines.counts import blocked_band, failures_band
from tests.support.timelines import ALL_STATES, NOW, START, bins

_SPRITE = Path(__file__).parents[2] / "templates" / "_sprite.html"


def test_still_fills_exist_in_sprite() -> None:
    drawn = str(still_of(instance_lanes(ALL_STATES, "search_web")))
    fills = set(re.findall(r"url\(#(p-[^)]+)\)", drawn))
    assert {"p-open", "p-half_open", "p-forced_open"} <= fills
    assert fills <= set(re.findall(r'<pattern id="([^"]+)"', _SPRITE.read_text()))


def test_what_the_inks_of_stacked_columns_stand_for_is_said_and_what_its_row_names_is_not() -> None:
    failed = failures_band(bins({"timeout": [1, 2, 0, 0, 0], "schema_mismatch": [0, 1, 0, 0, 0]}), label="failed")
    chart = compose([failed, blocked_band(bins({"": [1, 0, 0, 0, 0]}))], start=START, end=NOW)
    told = dict(still_of(chart).inks)
    assert set(told) == {"timeout", "schema mismatch"}
    assert len(set(told.values())) == 2
