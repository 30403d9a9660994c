"""A band of what was put to people: a lane per question, from when it was asked until it was answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from events.timelines.charts import Band, Lane, Table, Trace, Trail, plain, to_ms
from events.wording import clock_text, count_text, listing, span_text

MOST_LANES = 8
"""As many have a lane of their own; of all others there are marks, and all of them are in the table."""
COLUMNS = ("Question", "What", "Asked", "Taken", "By", "Ended", "Waited", "Lasted")
TITLE = "Escalations, from open to resolved"
_FILL = 10 / 24
_MARKERS: dict[str, dict[str, object]] = {
    "asked": {
        "color": "token:--half-open",
        "line": {"width": 0},
        "pattern": {
            "shape": "/",
            "fgcolor": "token:--panel",
            "fgopacity": 1,
            "fillmode": "overlay",
            "size": 8,
            "solidity": 0.15,
        },
    },
    "taken": {"color": "token:--ink/62", "line": {"width": 0}},
}
"""While nobody has taken it, and while somebody works on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question to people. `taken` is when somebody took it first, None where nobody did, or holds it any more while
    it is open; `ended` is when it was answered, None: not yet. While it `is_snoozed`, nobody is to take it.
    """

    name: str
    what: str
    breaker: str
    href: str
    asked: datetime
    taken: datetime | None = None
    by: str = ""
    ended: datetime | None = None
    is_snoozed: bool = False

    @property
    def is_untaken(self) -> bool:
        """Whether it waits for somebody to take it."""
        return self.ended is None and self.taken is None and not self.is_snoozed

    def waited_until(self, end: datetime) -> datetime:
        """Until when nobody had taken it."""
        return min(one for one in (self.taken, self.ended, end) if one is not None)

    def lasted_until(self, end: datetime) -> datetime:
        """Until when it was open, `end` at the latest."""
        return end if self.ended is None else min(self.ended, end)


def questions_band(questions: Sequence[Question], *, start: datetime, end: datetime) -> Band:
    """Lanes of the first `MOST_LANES`, as they are given, oldest on top; `title` says how many have none."""
    drawn = sorted(questions[:MOST_LANES], key=lambda one: one.asked)
    shown = f"{len(drawn)} of {len(questions)} escalations, open first"
    return Band(
        key="escalations",
        title=TITLE if len(drawn) == len(questions) else shown,
        lanes=tuple(Lane(name=one.name, value=_value(one, end), href=one.href) for one in drawn),
        traces=tuple(trace for kind in _MARKERS for trace in _bars(kind, drawn, start, end)),
        table=_table(questions, end),
        caption=_caption(questions),
        is_named_empty=False,
    )


def _value(one: Question, end: datetime) -> str:
    if one.ended is not None:
        return f"in {span_text(one.ended - one.asked)}"
    if one.is_untaken:
        return "unacknowledged"
    return "snoozed" if one.taken is None else "acknowledged"


def _bars(kind: str, questions: Sequence[Question], start: datetime, end: datetime) -> list[Trace]:
    spans = [(one, *_span(kind, one, end)) for one in questions]
    mine = [(one, max(begin, start), until) for one, begin, until in spans if max(begin, start) < until]
    if not mine:
        return []
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": kind,
            "y": [plain(one.name) for one, _, _ in mine],
            "base": [to_ms(begin) for _, begin, _ in mine],
            "x": [max(1, to_ms(until) - to_ms(begin)) for _, begin, until in mine],
            "width": _FILL,
            "marker": _MARKERS[kind],
            "customdata": [_said(kind, one, end) for one, _, _ in mine],
            "hovertemplate": "%{y} %{customdata[3]}<br>%{customdata[0]} – %{customdata[1]}, %{customdata[2]}"
            "<extra></extra>",
        }
    ]


def _span(kind: str, one: Question, end: datetime) -> tuple[datetime, datetime]:
    waited = one.waited_until(end)
    return (one.asked, waited) if kind == "asked" else (waited, one.lasted_until(end))


def _said(kind: str, one: Question, end: datetime) -> list[object]:
    """As spans are told to the page's script, and at the end the page of the question."""
    begin, until = _span(kind, one, end)
    goes_on = one.ended is None and until >= end
    who = f"{one.what}; acknowledged by {one.by}" if kind == "taken" and one.by else one.what
    said = [clock_text(begin, today=end), "so far" if goes_on else clock_text(until, today=end)]
    return [*said, span_text(until - begin), plain(who), None, "", quote(one.breaker), [f"Open {one.name}", one.href]]


def _table(questions: Sequence[Question], end: datetime) -> Table:
    return Table(
        title="Escalations",
        columns=COLUMNS,
        rows=tuple(
            (
                *(one.name, one.what, clock_text(one.asked, today=end)),
                *("–" if one.taken is None else clock_text(one.taken, today=end), one.by or "–"),
                "so far" if one.ended is None else clock_text(one.ended, today=end),
                span_text(one.waited_until(end) - one.asked),
                span_text(one.lasted_until(end) - one.asked),
            )
            for one in questions
        ),
        trails=tuple(Trail(href=one.href) for one in questions),
    )


def _caption(questions: Sequence[Question]) -> str:
    if not questions:
        return "No escalation was open."
    waiting = [one.name for one in questions if one.is_untaken]
    is_open = sum(one.ended is None for one in questions)
    told = f"{count_text(len(questions), 'escalation')}, {is_open} of them open at the end"
    return f"{told}; unacknowledged: {listing(waiting, most=3)}." if waiting else f"{told}."
