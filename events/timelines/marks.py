"""A band of what people and the policy did: a mark with a glyph and a word at the moment of each act.

What they are is for whoever draws the page to say: the store of facts knows nothing of what people want.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.utils import timezone

from events.timelines.charts import Band, Lane, Table, Trace, Trail, plain, to_ms
from events.wording import clock_text, count_text, listing

GLYPHS = {
    "deployment": "hexagon",
    "policy": "square",
    "override": "diamond",
    "escalation": "triangle-up",
    "annotation": "circle",
}
"""What each kind is drawn as, by plotly and by the page alike."""
COLUMNS = ("At", "Kind", "What", "By", "Why")
KEY = "changes"
_NEAR = 1 / 80
"""Marks of one lane that are closer than this share of the window cannot be told apart, and are one with a number."""
_CHARS = 150
"""So many letters would fit beside each other on a wide screen; a word that has no room stands in the hover alone."""
_SAID = 8
"""So many acts of one mark are named where it is clicked; the table has all."""
_LATE = 0.8
_RAIL, _BELOW = 3 / 24, 8 / 24
"""A rail of what lasts lies at the foot of its lane, where it strikes no word out."""


class Kind(StrEnum):
    """What was done: each kind has a lane and a glyph."""

    DEPLOYMENT = "deployment"
    POLICY = "policy"
    OVERRIDE = "override"
    ESCALATION = "escalation"
    ANNOTATION = "annotation"


_LANES = {
    Kind.DEPLOYMENT: "Deployments",
    Kind.POLICY: "Policy",
    Kind.OVERRIDE: "Overrides",
    Kind.ESCALATION: "Escalations",
    Kind.ANNOTATION: "Annotations",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One act, or what somebody noted; that may last `until`. `href` is the page of what it was done to."""

    at: datetime
    kind: Kind
    word: str
    by: str
    why: str
    href: str
    until: datetime | None = None
    tags: tuple[str, ...] = ()
    """Of what somebody noted."""


def marks_band(marks: Iterable[Mark], *, start: datetime, end: datetime, is_cut: bool = False) -> Band:
    """A lane per kind that has a mark in the window, oldest mark first. `is_cut`: older ones were left out."""
    inside = sorted((one for one in marks if _is_inside(one, start, end)), key=lambda one: one.at)
    lanes = {kind: [one for one in inside if one.kind is kind] for kind in Kind}
    title = "Deployments, policy, overrides and annotations"
    return Band(
        key=KEY,
        title=title,
        lanes=tuple(Lane(name=_LANES[kind], value=_last(found)) for kind, found in lanes.items() if found),
        traces=(
            *_spans(lanes[Kind.ANNOTATION], start, end),
            *(_trace(kind, found, start, end) for kind, found in lanes.items() if found),
        ),
        table=_table(title, inside, end),
        caption=_caption(lanes, is_cut),
        is_named_empty=False,
    )


def _is_inside(one: Mark, start: datetime, end: datetime) -> bool:
    return (start <= one.at or (one.until is not None and one.until >= start)) and one.at <= end


def gathered(marks: Sequence[Mark], *, start: datetime, end: datetime) -> list[list[Mark]]:
    """The marks (oldest first) put together where they are too close to be told apart."""
    groups: list[list[Mark]] = []
    for one in marks:
        if groups and one.at - groups[-1][0].at < (end - start) * _NEAR:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def _spans(marks: Sequence[Mark], start: datetime, end: datetime) -> list[Trace]:
    """A rail behind the marks of what lasted."""
    lasting = [(max(one.at, start), min(one.until, end)) for one in marks if one.until is not None]
    if not lasting:
        return []
    return [
        {
            "type": "bar",
            "orientation": "h",
            "name": "noted",
            "y": [_LANES[Kind.ANNOTATION]] * len(lasting),
            "base": [to_ms(begin) for begin, _ in lasting],
            "x": [max(1, to_ms(until) - to_ms(begin)) for begin, until in lasting],
            "width": _RAIL,
            "offset": _BELOW,
            "marker": {"color": "token:--ink/42", "line": {"width": 0}},
            "hoverinfo": "skip",
        }
    ]


def _trace(kind: Kind, marks: Sequence[Mark], start: datetime, end: datetime) -> Trace:
    groups = gathered(marks, start=start, end=end)
    moments = [max(group[0].at, start) for group in groups]
    shares = [(moment - start) / (end - start) for moment in moments]
    texts, places = _texts([_word(group) for group in groups], shares)
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": kind.value,
        "meta": "marks",
        "x": [to_ms(moment) for moment in moments],
        "y": [_LANES[kind]] * len(groups),
        "text": texts,
        "textposition": places,
        "textfont": {"size": 11, "color": "token:--ink-2"},
        "marker": {
            "symbol": GLYPHS[kind],
            "size": 10,
            "color": "token:--panel",
            "line": {"color": "token:--ink", "width": 1.5},
        },
        "cliponaxis": False,
        "customdata": [_said(group, end) for group in groups],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
    }


def _word(group: Sequence[Mark]) -> str:
    return plain(group[0].word) if len(group) == 1 else f"{plain(group[0].word)} and {len(group) - 1} more"


def _texts(words: Sequence[str], shares: Sequence[float]) -> tuple[list[str], list[str]]:
    """Each word on the side of its mark that has room for it, a little off it, or none."""
    texts, places = [], []
    taken = 0.0
    for place, (word, share) in enumerate(zip(words, shares, strict=True)):
        width = (len(word) + 3) / _CHARS
        next_one = shares[place + 1] if place + 1 < len(shares) else 1.0
        has_room_right = next_one - share >= width
        is_left = share - taken >= width and (share > _LATE or not has_room_right)
        has_room = is_left or has_room_right
        gapped = f"{word}\N{NO-BREAK SPACE}" if is_left else f"\N{NO-BREAK SPACE}{word}"
        texts.append(gapped if has_room else "")
        places.append("middle left" if is_left else "middle right")
        taken = share if is_left or not has_room else share + width
    return texts, places


def _said(group: Sequence[Mark], end: datetime) -> list[object]:
    """What hover and click show: words, the newest line, each act with its page, and how many are left out."""
    lines = [
        [clock_text(one.at, today=end), plain(one.word), plain(_by_and_why(one)), one.href] for one in group[:_SAID]
    ]
    head = f"{clock_text(group[0].at, today=end)}{f' {plain(_by_and_why(group[0]))}' if len(group) == 1 else ''}"
    return [_word(group), head, lines, len(group) - len(lines)]


def _by_and_why(one: Mark) -> str:
    return ": ".join(part for part in (one.by, one.why) if part)


def _last(marks: Sequence[Mark]) -> str:
    return f"last {timezone.localtime(marks[-1].at):%H:%M}"


def _table(title: str, marks: Sequence[Mark], end: datetime) -> Table:
    return Table(
        title=title,
        columns=COLUMNS,
        rows=tuple((_when(one, end), one.kind.value, one.word, one.by, one.why) for one in marks),
        trails=tuple(Trail(href=one.href) for one in marks),
    )


def _when(one: Mark, end: datetime) -> str:
    until = "" if one.until is None else f" – {clock_text(one.until, today=end)}"
    return f"{clock_text(one.at, today=end)}{until}"


_COUNTED = {
    Kind.DEPLOYMENT: ("deployment", "deployments"),
    Kind.POLICY: ("policy change", "policy changes"),
    Kind.OVERRIDE: ("override change", "override changes"),
    Kind.ESCALATION: ("escalation event", "escalation events"),
    Kind.ANNOTATION: ("annotation", "annotations"),
}


def _caption(lanes: dict[Kind, list[Mark]], is_cut: bool) -> str:
    counted = [count_text(len(found), *_COUNTED[kind]) for kind, found in lanes.items() if found]
    if not counted:
        return "No deployment, policy change, override change or annotation."
    return f"{listing(counted, most=4)}{'; only the newest are shown' if is_cut else ''}."
