"""Facts made here from plain OpenTelemetry instrumentation: what spans and exceptions say about recovery. Pure.

An agent that has only standard instrumentation tells of failures in its own words: a span with an error, an exception
recorded on a span or logged, a model that answered though another was asked. The same rules that an agent with our
runtime obeys classify them, and what comes out are records like any other, marked `recovery.derived_from`.
"""

from __future__ import annotations

from events.derived.coding_agents import agent_event_of, derive_from_agent_event
from events.derived.facts import Keys
from events.derived.logs import derive_from_log, is_exception
from events.derived.spans import Derived, Rules, derive_from_spans

__all__ = [
    "Derived",
    "Keys",
    "Rules",
    "agent_event_of",
    "derive_from_agent_event",
    "derive_from_log",
    "derive_from_spans",
    "is_exception",
]
