"""All queries of stored events. Pages, figures, API and exports use these and no others."""

from events.queries.breakers import breaker, breakers, breakers_named, instance_states, is_named, is_reported
from events.queries.fleet import count_silent, fleet, reporting_spans, retired
from events.queries.fleet_lanes import fleet_lanes
from events.queries.in_force import agent_named, settings_in_force
from events.queries.lanes import rounded_out, segments
from events.queries.operations import operations
from events.queries.overview import overview_numbers
from events.queries.overview_rows import CapacityNow, OverviewNumbers
from events.queries.situation import last_trouble, sentence, worst_incident
from events.queries.sums import (
    Sums,
    capacity_per_bin,
    fallbacks_per_bin,
    rejections_per_bin,
    sums_per_bin,
)
from events.queries.transitions import transitions
from events.queries.trends import Ranges
from events.queries.trouble import degradations, recent_failures
from events.rows import (
    RANK,
    WORST_FIRST,
    AgentRow,
    Bins,
    BreakerRow,
    CapacityBins,
    DegradationRow,
    FailureRow,
    Fleet,
    InstanceState,
    Lanes,
    MajoritySegment,
    OperationRow,
    Segment,
    SettingsRow,
    Transition,
)
from events.timelines.majority import majority

__all__ = [
    "RANK",
    "WORST_FIRST",
    "AgentRow",
    "Bins",
    "BreakerRow",
    "CapacityBins",
    "CapacityNow",
    "DegradationRow",
    "FailureRow",
    "Fleet",
    "InstanceState",
    "Lanes",
    "MajoritySegment",
    "OperationRow",
    "OverviewNumbers",
    "Ranges",
    "Segment",
    "SettingsRow",
    "Sums",
    "Transition",
    "agent_named",
    "breaker",
    "breakers",
    "breakers_named",
    "capacity_per_bin",
    "count_silent",
    "degradations",
    "fallbacks_per_bin",
    "fleet",
    "fleet_lanes",
    "instance_states",
    "is_named",
    "is_reported",
    "last_trouble",
    "majority",
    "operations",
    "overview_numbers",
    "recent_failures",
    "rejections_per_bin",
    "reporting_spans",
    "retired",
    "rounded_out",
    "segments",
    "sentence",
    "settings_in_force",
    "sums_per_bin",
    "transitions",
    "worst_incident",
]
