"""Why a list has no rows, in four kinds: never set up, nothing matches, all good, not known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.urls import reverse

from events.moments import Span, from_us, to_us
from events.pages.window import Window
from events.queries.beginnings import first_sign_of_life
from events.queries.fleet import reporting_spans
from events.queries.sums import calls_between
from events.wording import clock_text, count_text, zone_word


class Why(StrEnum):
    """The kinds."""

    NEVER = "never set up"
    NO_MATCH = "nothing matches"
    GOOD = "all good"
    UNKNOWN = "cannot know"


@dataclass(frozen=True, slots=True, kw_only=True)
class Empty:
    """What stands where rows would: a title, a sentence, and the one thing to do about it, if there is one."""

    why: Why
    title: str
    text: str
    href: str = ""
    button: str = ""
    total: int = 0
    """How many there are that do not match, where nothing matches."""
    left: int = 0
    """How many of them there would be without what keeps out most."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of what was asked for: its words, how much there would be without it, and the address without it."""

    words: str
    without: int
    href: str


def relaxed(clauses: Iterable[Clause], *, total: int, what: str, several: str = "") -> Empty:
    """Nothing matches: which clause keeps out most, and the list without it. `several` is the plural of `what`."""
    text = "Nothing is left of them."
    widest = max(clauses, key=lambda one: one.without, default=None)
    title = f"0 of {count_text(total, what, several)}"
    if widest is None:
        return Empty(why=Why.NO_MATCH, title=title, text=text, total=total)
    if not widest.without:
        text = f"Each of what is chosen alone leaves none, {widest.words} too."
    else:
        left = count_text(widest.without, what, several)
        text = f"Most are kept out by {widest.words}: without it there would be {left}."
    return Empty(
        why=Why.NO_MATCH,
        title=title,
        text=text,
        href=widest.href,
        button=f"Let go of {widest.words}",
        total=total,
        left=widest.without,
    )


def nobody_yet() -> Empty:
    """No agent has ever reported."""
    return Empty(
        why=Why.NEVER,
        title="No agent has reported yet",
        text="Nothing has been measured here, so nothing can be said.",
        href=reverse("overview"),
        button="Connect an agent",
    )


def none_in(
    environment: str,
    window: Window,
    *,
    now: datetime,
    title: str,
    text: str,
    is_of_calls: bool = True,
    reporting: Sequence[Span] | None = None,
) -> Empty:
    """None in a range: `title` and `text` where somebody lived to report it all through; else what is not known.

    Of what calls come to (`is_of_calls`), nothing is said where none was counted. Two queries, one with `reporting`.
    """
    if window.began is None:
        return nobody_yet()
    start, end = max(window.start, window.began), min(window.end, now)
    if reporting is None:
        reporting = reporting_spans(environment, start=window.start, end=window.end)
    heard = [one for one in reporting if one[0] < to_us(end) and one[1] > to_us(start)]
    if not heard:
        return Empty(
            why=Why.UNKNOWN,
            title="No agent reported in this range",
            text="The figures are unknown, not zero.",
            href=reverse("agents"),
            button="Agents",
        )
    last = heard[-1][1]
    if last < to_us(end):
        at = f"{clock_text(from_us(last), today=end)} {zone_word(end)}"
        return Empty(
            why=Why.UNKNOWN,
            title=f"{title}, as far as it was told",
            text=f"The last agent fell silent at {at}. What happened since is not known, and not the same as zero.",
            href=reverse("agents"),
            button="Agents",
        )
    if not is_of_calls:
        return Empty(why=Why.GOOD, title=title, text=text)
    calls = calls_between(environment, start=start, end=end)
    if calls:
        return Empty(why=Why.GOOD, title=title, text=f"{text} {count_text(calls, 'call')} seen.")
    return Empty(
        why=Why.UNKNOWN,
        title=f"{title}, and no call was seen",
        text="Agents report, but none has counted a call, so that says nothing.",
        href=reverse("agents"),
        button="Agents",
    )


def no_agent(environment: str) -> Empty:
    """Nobody reported for a day: because nobody ever did, or because they fell silent. One query."""
    if first_sign_of_life(environment) is None:
        return nobody_yet()
    return Empty(
        why=Why.UNKNOWN,
        title="No agent has reported in the last 24 hours",
        text="Agents did report before. Whether they still work is not known: nothing is being measured.",
        href=f"{reverse('agents')}/intake",
        button="Look at what comes in",
    )
