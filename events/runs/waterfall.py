"""The traces of a run as trees of spans with what was told in each, and when each of these was under way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.utils.html import format_html
from django.utils.safestring import SafeString

from events.models import SpanMark
from events.queries.readings import number_or_none
from events.runs.records import RunRecord
from recovery_ops.rules.events import FailureClassified
from recovery_ops.wire import names

ITEMS_MOST = 2_000
_LEAST = 0.6
"""Per cent: what is shorter is drawn so wide, or nobody would see it."""
_DAY_S = 86_400.0
_DEEPEST = 32
"""What lies deeper begins at the margin again."""
_FAILED = names.EVENTS[FailureClassified].name
_LASTED = tuple(names.ATTRIBUTES[one] for one in ("duration_s", "waited_s"))
"""What says how long something had lasted when it was told."""
_TO_COME = tuple(names.ATTRIBUTES[one] for one in ("delay_s", "wait_s"))
"""What says how long it was going to last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One line of a tree, `depth` levels in: a span, or a fact that was told in it (`record`)."""

    depth: int
    name: str
    start: datetime
    end: datetime
    is_error: bool
    is_wait: bool = False
    record: RunRecord | None = None

    @property
    def steps_in(self) -> range:
        """One for each level that it lies in."""
        return range(self.depth)

    @property
    def took(self) -> timedelta:
        """How long it was under way; zero for a moment."""
        return self.end - self.start

    def says(self, text: str) -> bool:
        """Whether it has this text in its name or in what was told, in any case."""
        one = self.record
        told = (one.event, one.operation, one.category, one.instance, one.body, one.span_id) if one is not None else ()
        return text.lower() in " ".join((self.name, *told)).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One trace, in the order in which it is read; empty `trace_id`: what names none, by operation."""

    trace_id: str
    root_span: str
    items: Sequence[Item]
    start: datetime
    end: datetime

    def drawn(self, item: Item, *, is_critical: bool = False) -> SafeString:
        """An item as a bar over the time of the whole tree; underlined where it `is_critical`."""
        length_s = max(0.001, (self.end - self.start).total_seconds())
        width = max(_LEAST, 100 * item.took.total_seconds() / length_s)
        x = min(100 * (item.start - self.start).total_seconds() / length_s, 100 - width)
        fill = "open" if item.is_error else "wait" if item.is_wait else "closed"
        bar = '<rect x="{}%" y="{}" width="{}%" height="{}" fill="url(#p-{})"/>'
        shape = f'<svg class="strip" aria-hidden="true">{bar}{bar if is_critical else ""}</svg>'
        left, long = f"{max(0.0, x):.2f}", f"{width:.2f}"
        top, height = (2, 10) if item.record is not None else (5, 4)
        if is_critical:
            return format_html(shape, left, 0, long, 9, fill, left, 11, long, 3, "taken")
        return format_html(shape, left, top, long, height, fill)


_Kept = Mapping[tuple[str, str], str]
"""The parents that are remembered of spans, by trace and span."""


def parents_of(environment: str, records: Iterable[RunRecord]) -> dict[tuple[str, str], str]:
    """The parents that are remembered of the spans of these traces: for a day, of plain instrumentation. One query."""
    traces = {one.trace_id for one in records if one.trace_id}
    if not traces:
        return {}
    marks = SpanMark.objects.filter(environment=environment, trace_id__in=traces).exclude(parent_id="")
    return {(trace, span): parent for trace, span, parent in marks.values_list("trace_id", "span_id", "parent_id")}


def trees_of(records: Sequence[RunRecord], parents: _Kept) -> list[Tree]:
    """The traces of the records in the order in which they began; what names no trace comes last, by operation."""
    by_trace: dict[str, list[RunRecord]] = {}
    for one in records[:ITEMS_MOST]:
        by_trace.setdefault(one.trace_id, []).append(one)
    untraced = by_trace.pop("", [])
    found = [_tree(trace, mine, parents) for trace, mine in by_trace.items()]
    return [*found, *([_tree("", untraced, {})] if untraced else [])]


def _tree(trace: str, records: Sequence[RunRecord], parents: _Kept) -> Tree:
    told: dict[str, list[RunRecord]] = {}
    for one in records:
        told.setdefault(one.span_id if trace else one.operation, []).append(one)
    children = _children(trace, told, parents)
    items = list(_walk("", children, told, depth=0))
    return Tree(
        trace_id=trace,
        root_span=next(iter(told)) if trace else "",
        items=items,
        start=min(one.start for one in items),
        end=max(one.end for one in items),
    )


def _children(trace: str, told: Mapping[str, Sequence[RunRecord]], parents: _Kept) -> dict[str, list[str]]:
    """The spans under each span, in order of their first record; under none those whose parent nobody remembers."""
    children: dict[str, list[str]] = {}
    for span in told:
        # Spans in which nothing was told are left out: what was told hangs under the next one that told something.
        above = [one for one in _above(trace, span, parents) if one in told]
        children.setdefault(above[0] if 0 < len(above) < _DEEPEST else "", []).append(span)
    return children


def _above(trace: str, span: str, parents: _Kept) -> Iterator[str]:
    """The spans around one, from the inside out: so many at most, for strangers say whose child a span is."""
    for _ in range(2 * _DEEPEST):
        span = parents.get((trace, span), "")
        if not span:
            return
        yield span


def _walk(
    above: str,
    children: Mapping[str, Sequence[str]],
    told: Mapping[str, Sequence[RunRecord]],
    *,
    depth: int,
) -> Iterator[Item]:
    for span in children.get(above, ()):
        own = [_item(one, depth + 1) for one in told[span]]
        below = list(_walk(span, children, told, depth=depth + 1)) if span else []
        inside = [*own, *below]
        head = Item(
            depth=depth,
            name=span,
            start=min(one.start for one in inside),
            end=max(one.end for one in inside),
            is_error=any(one.is_error for one in own),
        )
        yield head
        yield from sorted(own, key=lambda one: one.start)
        yield from below


def _item(one: RunRecord, depth: int) -> Item:
    lasted_s, to_come_s = _seconds(one, _LASTED), _seconds(one, _TO_COME)
    item = Item(depth=depth, name=one.event, start=one.at, end=one.at, is_error=_is_trouble(one), record=one)
    if to_come_s:
        return replace(item, end=one.at + timedelta(seconds=to_come_s), is_wait=True)
    return replace(item, start=one.at - timedelta(seconds=lasted_s))


def _seconds(one: RunRecord, attributes: Sequence[str]) -> float:
    said = (number_or_none(one.attributes.get(name)) for name in attributes)
    return min(_DAY_S, max(0.0, next((number for number in said if number is not None), 0.0)))


def _is_trouble(one: RunRecord) -> bool:
    """Whether it was told as an error, or is a failed attempt."""
    return one.is_error or one.event == _FAILED
