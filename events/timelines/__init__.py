"""Figures for Plotly out of the rows that the queries give: pure, each with its tables and its sentence."""

from events.timelines.charts import MARGIN, NARROW_MARGIN, Chart, Table
from events.timelines.choosing import Choice
from events.timelines.counts import Earlier
from events.timelines.figures import (
    breaker_lanes,
    capacity_heat,
    failure_bars,
    fallback_lanes,
    instance_lanes,
    rejections_line,
    timeline,
)
from events.timelines.marks import Kind, Mark
from events.timelines.questions import Question
from events.timelines.states import Bar

__all__ = [
    "MARGIN",
    "NARROW_MARGIN",
    "Bar",
    "Chart",
    "Choice",
    "Earlier",
    "Kind",
    "Mark",
    "Question",
    "Table",
    "breaker_lanes",
    "capacity_heat",
    "failure_bars",
    "fallback_lanes",
    "instance_lanes",
    "rejections_line",
    "timeline",
]
