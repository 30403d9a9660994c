"""The tab of a run that shows its traces: spans with a waterfall, narrowed to errors, the critical path or a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils.safestring import SafeString

from events.pages.narrowing import one_of
from events.runs.critical import CriticalPath, critical_path
from events.runs.records import records_of
from events.runs.rows import RunStory
from events.runs.waterfall import ITEMS_MOST, Item, Tree, parents_of, trees_of
from events.wording import lasted_text, listing

ERRORS, CRITICAL = "errors", "critical"
ONLY = (ERRORS, CRITICAL)
SHOWN = 300
"""So many lines are shown until somebody asks for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a tree beside its bar."""

    item: Item
    offset: str
    took: str
    bar: SafeString
    is_critical: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One trace with its lines that are asked for."""

    tree: Tree
    href: str
    lines: list[Line]
    took: str


def trace_context(environment: str, story: RunStory, given: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """What the tab shows: `only=errors` or `critical`, `find=` a text, `all` for what does not fit. Two queries."""
    records = records_of(environment, story.run, most=ITEMS_MOST)
    trees = trees_of(records, parents_of(environment, records))
    told_until = min(now, max((one.end for one in trees), default=now))
    critical = critical_path(trees, start=story.started, end=story.until(told_until))
    only, find = one_of(given, "only", ONLY), given.get("find", "").strip()[:100]
    left = ITEMS_MOST * 2 if "all" in given else SHOWN
    panels, found = [], 0
    for tree in trees:
        wanted = [one for one in tree.items if _is_wanted(one, only, critical) and (not find or one.says(find))]
        found += len(wanted)
        shown, left = wanted[:left], max(0, left - len(wanted))
        panels.append(_panel(tree, shown, story, critical))
    return {
        "panels": [one for one in panels if one.lines],
        "is_traced": any(tree.trace_id for tree in trees),
        "untraced": sum(not one.trace_id for one in records[:ITEMS_MOST]),
        "errors": sum(one.is_error and one.record is not None for tree in trees for one in tree.items),
        "critical": len(critical.facts),
        "critical_words": _in_words(critical, is_over=story.ended is not None),
        "only": only,
        "find": find,
        "found": found,
        "shown": sum(len(one.lines) for one in panels),
        "is_cut": len(records) > ITEMS_MOST,
        "most": ITEMS_MOST,
    }


def _is_wanted(one: Item, only: str, critical: CriticalPath) -> bool:
    if only == ERRORS:
        return one.is_error
    return only != CRITICAL or _is_in(one, critical)


def _is_in(one: Item, critical: CriticalPath) -> bool:
    return one.record is not None and one.record.fact_id in critical.facts


def _in_words(found: CriticalPath, *, is_over: bool) -> str:
    """What the chain was made of, in one sentence; empty where nothing that was told took time."""
    if not found.facts:
        return ""
    whole = f"{lasted_text(found.length_s)}{'' if is_over else ' so far'}"
    attempts = lasted_text(found.attempts_s)
    if not found.waits_s:
        return f"{attempts} of {whole} were attempts; no waits."
    waited = lasted_text(sum(found.waits_s.values()))
    if len(found.waits_s) == 1:
        told = f"{waited} of {whole} were waits for {next(iter(found.waits_s))}"
    else:
        waits = [f"{lasted_text(spent_s)} for {name}" for name, spent_s in found.waits_s.items()]
        told = f"{waited} of {whole} were waits, {listing(waits, most=3)}"
    return f"{told}; {attempts} were attempts." if found.attempts_s >= 0.0005 else f"{told}."


def _panel(tree: Tree, shown: list[Item], story: RunStory, critical: CriticalPath) -> Panel:
    lines = [
        Line(
            item=one,
            offset=offset_of(one.start - story.started),
            took=lasted_text(one.took.total_seconds()) if one.took else "–",
            bar=tree.drawn(one, is_critical=_is_in(one, critical)),
            is_critical=_is_in(one, critical),
        )
        for one in shown
    ]
    return Panel(
        tree=tree,
        href=_trace_href(tree) if tree.trace_id else "",
        lines=lines,
        took=lasted_text((tree.end - tree.start).total_seconds()),
    )


def _trace_href(tree: Tree) -> str:
    """Where the trace can be seen; empty where nobody said."""
    return settings.TRACE_URL.replace("{trace_id}", tree.trace_id).replace("{span_id}", tree.root_span)


def offset_of(since: timedelta) -> str:
    """How long after the start; what was told of a moment before it has a minus."""
    seconds = since.total_seconds()
    return f"+{lasted_text(max(0.0, seconds))}" if seconds > -0.0005 else f"-{lasted_text(-seconds)}"
