"""The tab of a run that shows its traces: trees of spans with a waterfall, narrowed to errors or to a text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils.safestring import SafeString

from events.runs.records import records_of
from events.runs.rows import RunStory
from events.runs.waterfall import ITEMS_MOST, Item, Tree, parents_of, trees_of
from events.wording import lasted_text

SHOWN = 300
"""So many lines are shown until somebody asks for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a tree beside its bar."""

    item: Item
    offset: str
    took: str
    bar: SafeString


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One trace with its lines that are asked for."""

    tree: Tree
    href: str
    lines: list[Line]
    took: str


def trace_context(environment: str, story: RunStory, given: Mapping[str, str]) -> dict[str, Any]:
    """What the tab shows: `only=errors`, `find=` a text, `all` for what does not fit. At most two queries."""
    records = records_of(environment, story.run, most=ITEMS_MOST)
    trees = trees_of(records, parents_of(environment, records))
    is_errors, find = given.get("only") == "errors", given.get("find", "").strip()[:100]
    left = ITEMS_MOST * 2 if "all" in given else SHOWN
    panels, found = [], 0
    for tree in trees:
        wanted = [one for one in tree.items if (one.is_error or not is_errors) and (not find or one.says(find))]
        found += len(wanted)
        shown, left = wanted[:left], max(0, left - len(wanted))
        panels.append(_panel(tree, shown, story))
    return {
        "panels": [one for one in panels if one.lines],
        "is_traced": any(tree.trace_id for tree in trees),
        "untraced": sum(not one.trace_id for one in records[:ITEMS_MOST]),
        "errors": sum(one.is_error and one.record is not None for tree in trees for one in tree.items),
        "is_errors": is_errors,
        "find": find,
        "found": found,
        "shown": sum(len(one.lines) for one in panels),
        "is_cut": len(records) > ITEMS_MOST,
        "most": ITEMS_MOST,
    }


def _panel(tree: Tree, shown: list[Item], story: RunStory) -> Panel:
    lines = [
        Line(
            item=one,
            offset=offset_of(one.start - story.started),
            took=lasted_text(one.took.total_seconds()) if one.took else "–",
            bar=tree.drawn(one),
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
