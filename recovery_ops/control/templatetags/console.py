"""How the console writes what it knows: states with their marks, moments, durations, shares and counts.

The script in `static/js/console.js` ticks the times on; its words are those of `events.wording`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django import template
from django.conf import settings
from django.http import HttpRequest
from django.template.context import RequestContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from events.pages.window import Window
from events.rows import Derivation
from events.timelines import Table
from events.timelines.charts import Trail
from events.wording import (
    clock_text,
    count_text,
    lasted_text,
    rate_text,
    share_beside,
    share_text,
    span_text,
    state_text,
    zone_word,
)
from recovery_ops.control.core.preferences import Preferences, preferences_of
from recovery_ops.control.core.undo import undo_in
from recovery_ops.control.core.wording import with_reason
from recovery_ops.control.escalations.durations import BY_ITSELF
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.escalation_terms import HIGH

register = template.Library()

NOTHING = "–"

_DRAWN = {*State, "unknown"}
_WITHIN_NAMES = re.compile(r"(?<=[_.:/])(?=[^_.:/\s])")


# -- marks ------------------------------------------------------------------------------------------------------------
register.filter("state_text", state_text)


@register.simple_tag
def icon(name: str) -> SafeString:
    """A drawing from the sprite, beside a word that says the same."""
    return format_html('<svg class="icon" aria-hidden="true"><use href="#i-{}"/></svg>', name)


@register.filter
def by_icon(name: str) -> str:
    """The drawing of who did something: a person, or the console where it did so by itself."""
    return "system" if name in BY_ITSELF else "person"


register.filter("undo_in", undo_in)
register.filter("with_reason", with_reason)


@register.simple_tag
def mark(state: object) -> SafeString:
    """The glyph and pattern of a state, without its word: for lists whose text says the state."""
    return format_html(
        '<svg class="mark" width="24" height="14" aria-hidden="true"><use href="#m-{}"/></svg>', _word(state)
    )


@register.simple_tag
def state(value: object, count: object = "") -> SafeString:
    """A state as label, glyph, pattern and colour; None is `unknown`. `count` follows it, small."""
    word = _word(value)
    behind = format_html(" <small>{}</small>", count) if count not in ("", None) else ""
    return format_html(
        '<span class="state"><svg aria-hidden="true"><use href="#m-{}"/></svg>{}{}</span>',
        word,
        state_text(word),
        behind,
    )


@register.simple_tag
def severity(word: str) -> SafeString:
    """How grave a question is, as word and glyph; what is high has a bar, too."""
    name = "high" if word == HIGH else "other"
    drawn = '<span class="state"><svg aria-hidden="true"><use href="#m-severity-{}"/></svg>{}</span>'
    return format_html(drawn, name, word)


@register.simple_tag
def derived(one: Derivation | None) -> SafeString:
    """That a fact was made of plain instrumentation, with its trace and span: a link where traces can be seen."""
    if one is None:
        return SafeString("")
    ids = format_html("trace <code>{}</code> span <code>{}</code>", one.trace_id, one.span_id) if one.trace_id else ""
    if ids and settings.TRACE_URL:
        address = settings.TRACE_URL.replace("{trace_id}", one.trace_id).replace("{span_id}", one.span_id)
        ids = format_html('<a href="{}" rel="noreferrer">{}</a>', address, ids)
    words = f"{one.words.removeprefix('derived ')}{': ' if ids else ''}"
    return format_html('<small class="derived"><span class="tag">derived</span> {}{}</small>', words, ids)


def _word(value: object) -> str:
    word = str(value) if value else "unknown"
    return word if word in _DRAWN else "unknown"


# -- time -------------------------------------------------------------------------------------------------------------
@register.filter
def duration(value: timedelta | float | None) -> str:
    """A length of time down to the second, never rounded up and never cut to its largest unit: `1h 55m 04s`."""
    return NOTHING if value is None else span_text(value)


@register.filter
def lag(value: timedelta | float | None) -> str:
    """A short measured time: hundredths below ten seconds, then as `duration`."""
    if value is None:
        return NOTHING
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    return f"{max(0.0, seconds):.2f} s" if seconds < 10 else span_text(seconds)


@register.filter
def lasted(value: timedelta | float | None) -> str:
    """A short measured time: `46 ms`, `1.4 s`."""
    if value is None:
        return NOTHING
    return lasted_text(value.total_seconds() if isinstance(value, timedelta) else float(value))


@register.simple_tag(takes_context=True)
def at(context: Mapping[str, Any], moment: datetime | None) -> SafeString | str:
    """A moment as `14:26:04`; with its day when that is not today. The whole of it is in the title."""
    if moment is None:
        return NOTHING
    words = clock_text(moment, today=_now(context))
    return format_html('<time datetime="{}" title="{}">{}</time>', _iso(moment), _whole(moment), words)


@register.simple_tag
def whole(moment: datetime) -> str:
    """A moment with its day and its zone: `2026-01-31 14:26:04 UTC`."""
    return _whole(moment)


@register.simple_tag(takes_context=True)
def age(context: Mapping[str, Any], moment: datetime | None) -> SafeString | str:
    """How long ago: `14 s ago`, ticking."""
    return _ticking(context, moment, "age", "{} ago")


@register.simple_tag(takes_context=True)
def so_far(context: Mapping[str, Any], moment: datetime | None) -> SafeString | str:
    """How long since, without "ago", ticking: for what still goes on."""
    return _ticking(context, moment, "so_far", "{}")


@register.simple_tag(takes_context=True)
def left(context: Mapping[str, Any], moment: datetime | None) -> SafeString | str:
    """How long until: `59m 46s`, ticking down to `0 s`."""
    if moment is None:
        return NOTHING
    return _time(moment, "left", _whole_seconds(moment - _now(context)))


def _ticking(context: Mapping[str, Any], moment: datetime | None, kind: str, words: str) -> SafeString | str:
    if moment is None:
        return NOTHING
    return _time(moment, kind, words.format(_whole_seconds(_now(context) - moment)))


def _whole_seconds(span: timedelta) -> str:
    """What ticks has no tenths."""
    return span_text(math.floor(span.total_seconds()))


def _time(moment: datetime, kind: str, words: str) -> SafeString:
    return format_html(
        '<time datetime="{}" data-tick="{}" title="{}">{}</time>', _iso(moment), kind, _whole(moment), words
    )


def _whole(moment: datetime) -> str:
    moment = timezone.localtime(moment)
    return f"{moment:%Y-%m-%d %H:%M:%S} {zone_word(moment)}"


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _now(context: Mapping[str, Any]) -> datetime:
    found = context.get("now")
    return found if isinstance(found, datetime) else timezone.now()


@register.simple_tag(takes_context=True)
def now_ms(context: Mapping[str, Any]) -> int:
    """The server's clock in milliseconds since the epoch, for the script that ticks."""
    return round(_now(context).timestamp() * 1000)


# -- numbers ----------------------------------------------------------------------------------------------------------
@register.filter
def breaks(name: str) -> SafeString:
    """A name that a narrow column breaks between its words rather than within one."""
    return format_html_join(SafeString("<wbr>"), "{}", ((part,) for part in _WITHIN_NAMES.split(name)))


@register.filter
def percent(share: float | None) -> str:
    """A share as `91 %`; less than one per cent keeps a decimal, so that little is not nothing."""
    return NOTHING if share is None else share_text(share)


@register.filter
def percent_beside(share: float | None, bound: float) -> str:
    """A share with as many decimals as it takes to read on its own side of a bound: `100.4 %` beside 100 %."""
    return NOTHING if share is None else share_beside(share, bound)


@register.filter
def share(part: float) -> str:
    """A share as the width of a drawing: `52.4%`."""
    return f"{part * 100:.4g}%"


@register.filter
def count(number: float | None) -> str:
    """A number, or a number per minute: `1,240`, with a decimal below ten where it has one."""
    if number is None:
        return NOTHING
    return f"{number:,.0f}" if number == int(number) else rate_text(number)


@register.filter
def ratio(number: float | None) -> str:
    """How many of one thing for one of another: `1.04`."""
    return NOTHING if number is None else f"{number:.2f}"


@register.filter
def setting(value: object) -> str:
    """The value of a policy's setting as a person writes it."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


@register.filter
def plural(number: int, word: str) -> str:
    """`1 breaker`, `2 breakers`; a plural of its own stands behind a comma: `entry,entries`."""
    one, _, many = word.partition(",")
    return count_text(number, one, many)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@register.filter
def columns(table: Table) -> list[tuple[str, bool]]:
    """The columns of a table, and whether they hold numbers."""
    return [(name, any(_is_number(row[place]) for row in table.rows)) for place, name in enumerate(table.columns)]


@register.filter
def led(table: Table) -> list[tuple[list[tuple[object, bool]], list[tuple[str, str, str]]]]:
    """The rows of a table, of each cell whether its column holds numbers, and where each row leads: words, address, and
    what it is about, for who only hears it."""
    trails = table.trails or (Trail(),) * len(table.rows)
    holds = [holds_numbers for _, holds_numbers in columns(table)]
    return [
        (list(zip(row, holds, strict=True)), list(_links(trail, " ".join(map(str, row[:2])))))
        for row, trail in zip(table.rows, trails, strict=True)
    ]


def _links(trail: Trail, about: str) -> Iterator[tuple[str, str, str]]:
    """The same links as the popover of `static/js/evidence.js` has."""
    if trail.href:
        yield "Open", trail.href, about
    if trail.fact_id is not None:
        yield "Evidence", reverse("move", args=[trail.fact_id]), about
    if trail.start is None or trail.end is None:
        return
    room = max(timedelta(minutes=1), (trail.end - trail.start) * 0.1)
    span = Window(start=trail.start - room, end=trail.end + room).absolute_query
    yield "Zoom", f"{reverse('timelines')}?{span}", about
    exact = Window(start=trail.start, end=max(trail.end, trail.start + timedelta(minutes=1))).absolute_query
    kind = urlencode({"breaker": trail.breaker}) if trail.breaker else "show=all"
    yield "Runs", f"{reverse('runs')}?{kind}&{exact}", about


@register.filter
def initials(name: str) -> str:
    """Two letters for the round of a person."""
    words = [word for word in name.replace(".", " ").replace("_", " ").replace("-", " ").split() if word]
    return "".join(word[0] for word in words[:2]).upper() or "?"


@register.simple_tag
def operation(name: str) -> str:
    """An operation with a link to its policy; some events name none."""
    if not name:
        return "no operation"
    return format_html('<a href="{}"><code>{}</code></a>', reverse("policy", args=[name]), name)


@register.filter
def parameters(request: HttpRequest) -> list[tuple[str, list[str]]]:
    """The parameters of an address, each with its values. A template takes `request.GET.lists` for one called so."""
    return list(request.GET.lists())


# -- the page's own manners -------------------------------------------------------------------------------------------
@register.simple_tag(takes_context=True)
def preferences(context: RequestContext) -> Preferences:
    """How the reader wants it: theme, contrast, density, zone and keys, from cookies."""
    request = context.get("request")
    return preferences_of(request) if request is not None else Preferences()


@register.simple_tag
def zone() -> str:
    """The time zone that moments on this page are in: `UTC`, `CEST`."""
    return zone_word(timezone.now())


@register.filter
def spaced(name: object) -> str:
    """A word of the rules as it reads in a sentence: `model output`."""
    return str(name).replace("_", " ")


@register.filter
def words(text: str) -> list[str]:
    """The words of a text, to loop over."""
    return text.split()


@register.filter
def pairs(text: str) -> list[tuple[str, str]]:
    """`a:b c:d` as pairs, to loop over."""
    return [(first, second) for first, _, second in (word.partition(":") for word in text.split())]
