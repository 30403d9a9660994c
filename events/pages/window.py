"""The span of time a page looks at: a preset that ends now or two instants, read from the address.

Without a word it is the shortest preset that holds everything there is, six hours at most, from shortly before the
first event on: a store that is ten minutes old would be lost at the edge of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest
from django.utils import timezone

from events.moments import from_us, to_us
from events.pages.scoped import scope_query
from events.queries.beginnings import first_receipt_and_event
from events.wording import zone_word

PRESETS: dict[str, timedelta] = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
LONGEST_DEFAULT = "6h"
LONGEST = timedelta(days=31)
SHORTEST = timedelta(minutes=1)

_REMEMBERED = frozenset({"15m", "1h", "6h"})  # a long range is never restored: it would make every page slow
PARAMETERS = ("range", "from", "to")
"""What an address asks for a range with."""
_EMPTY_SHARE = 0.1
"""As much as this of what the store holds is shown of the time before, where nobody asked for more."""
_SESSION_KEY = "range"
_BEGAN_KEY = "beginnings"
_RELATIVE = re.compile(r"^now(?:-(\d{1,5})([smhd]))?$")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


_TITLES = {
    "15m": "Last 15 minutes",
    "1h": "Last hour",
    "6h": "Last 6 hours",
    "24h": "Last 24 hours",
    "7d": "Last 7 days",
    "30d": "Last 30 days",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From `start` to `end`, aware UTC. `name` is the preset it came from; empty for two instants."""

    start: datetime
    end: datetime
    name: str = ""
    problem: str = ""
    """Why what the address asked for is not shown; empty when it is."""
    is_default: bool = False
    """Nobody asked for it, so no address names it, and it grows with the store."""
    began: datetime | None = None
    """When the environment first gave a sign of life; None where that is not known."""
    relative: tuple[str, str] | None = None
    """`from` and `to` as they were asked for, where one of them moves with the clock."""
    along: str = ""
    """What else goes along to other screens, as the part of an address."""

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    @property
    def query(self) -> str:
        """The part of an address that asks for the same window: relative where asked so, nothing for the default."""
        if self.is_default:
            return ""
        if self.relative is not None:
            return urlencode(dict(zip(("from", "to"), self.relative, strict=True)), safe=":")
        return urlencode({"range": self.name}) if self.name else self.absolute_query

    @property
    def link(self) -> str:
        """The same, and what goes along, behind an address that has no other parameters."""
        return f"?{self._rest}" if self._rest else ""

    @property
    def also(self) -> str:
        """The same, and what goes along, behind an address that has parameters already."""
        return f"&{self._rest}" if self._rest else ""

    @property
    def _rest(self) -> str:
        return "&".join(filter(None, (self.query, self.along)))

    @property
    def absolute_query(self) -> str:
        """The part of an address that still shows the same rows tomorrow."""
        return urlencode({"from": instant_words(self.start), "to": instant_words(self.end)}, safe=":")

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The same for a form that is sent with GET."""
        return parse_qsl(self.query)

    @property
    def typed(self) -> tuple[str, str]:
        """`from` and `to` as a person would type them to get this window."""
        if self.relative is not None:
            return self.relative
        if self.name:
            return f"now-{self.name}", "now"
        return instant_words(self.start), instant_words(self.end)

    @property
    def earlier(self) -> tuple[str, str]:
        """`from` and `to` of the window before this one."""
        return instant_words(self.start - self.length), instant_words(self.start)

    @property
    def later(self) -> tuple[str, str]:
        """`from` and `to` of the window after this one."""
        return instant_words(self.end), instant_words(self.end + self.length)

    @property
    def instants(self) -> tuple[str, str]:
        """`from` and `to` of this window as it stands now, for an address that shows the same tomorrow."""
        return instant_words(self.start), instant_words(self.end)

    @property
    def wider(self) -> tuple[str, str]:
        """`from` and `to` of a window that is twice as long: to both sides, or back where this one ends now."""
        if self.typed[1] == "now":
            start = max(self.end - LONGEST, self.start - self.length)
            return f"now-{int((self.end - start).total_seconds()) // 60}m", "now"
        half = min(self.length, LONGEST - self.length) / 2
        return instant_words(self.start - half), instant_words(self.end + half)

    @property
    def up_to_now(self) -> tuple[str, str]:
        """`from` and `to` of the window of the same length that ends now."""
        return f"now-{max(1, int(self.length.total_seconds()) // 60)}m", "now"

    @property
    def words(self) -> str:
        """The resolved range, as it stands on the page: `13:26:18 – 14:26:18 UTC`, with days where they differ."""
        start, end = timezone.localtime(self.start), timezone.localtime(self.end)
        if start.date() == end.date():
            return f"{start:%H:%M:%S} – {end:%H:%M:%S} {zone_word(end)}"
        return f"{start.day} {start:%b %H:%M:%S} – {end.day} {end:%b %H:%M:%S} {zone_word(end)}"

    @property
    def title(self) -> str:
        """What a panel that shows it is called."""
        if self.name and self.length < PRESETS[self.name]:
            return "Since the first event"
        return _TITLES.get(self.name, "Chosen range")


def window_in(request: HttpRequest, environment: str, *, now: datetime) -> Window:
    """The window that a request looks at in an environment. One query in the first request of a session."""
    began, first = _beginnings(request, environment)
    return replace(window_of(request, now=now, began=began, first=first), along=scope_query(request))


def carried(request: HttpRequest) -> str:
    """The part of an address that takes the range this one asks for along; nothing where none can be read in it.

    Links to other screens carry it, so that a long range goes with the reader without ever being remembered.
    """
    asked = {name: request.GET[name] for name in PARAMETERS if request.GET.get(name)}
    if "range" in asked:
        return urlencode({"range": asked["range"]}) if asked["range"] in PRESETS else ""
    now = timezone.now()
    found = _chosen(asked.get("from", ""), asked.get("to", "now"), _preset(LONGEST_DEFAULT, now, None))
    return "" if found.problem else urlencode(asked, safe=":")


def _beginnings(request: HttpRequest, environment: str) -> tuple[datetime, datetime] | tuple[None, None]:
    """The first sign of life, and the first event; kept in the session, because they hardly change any more."""
    kept = request.session.get(_BEGAN_KEY, {})
    if environment not in kept:
        found = first_receipt_and_event(environment)
        if found is None:
            return None, None
        request.session[_BEGAN_KEY] = kept = {**kept, environment: [to_us(one) for one in found]}
    began_us, first_us = kept[environment]
    return from_us(began_us), from_us(first_us)


def window_of(
    request: HttpRequest, *, now: datetime, began: datetime | None = None, first: datetime | None = None
) -> Window:
    """The window that a request asks for, else the one of this session, else the default for what `began` then and
    whose `first` event was then.

    `from` and `to` are ISO instants or `now-90m`; `range` is a preset. What cannot be read is named in `problem`.
    """
    asked = request.GET.get("range", "")
    if asked in PRESETS:
        if asked in _REMEMBERED and request.session.get(_SESSION_KEY) != asked:
            request.session[_SESSION_KEY] = asked
        return _preset(asked, now, began)
    fallback = _fallback(request, now, began, first)
    if "from" in request.GET or "to" in request.GET:
        return _chosen(request.GET.get("from", ""), request.GET.get("to", "now"), fallback)
    if asked:
        return replace(fallback, problem=f"There is no range {asked[:20]}; ranges are {', '.join(PRESETS)}.")
    return fallback


def _fallback(request: HttpRequest, now: datetime, began: datetime | None, first: datetime | None) -> Window:
    kept = request.session.get(_SESSION_KEY, "")
    if kept in PRESETS:
        return _preset(kept, now, began)
    window = _preset(default_for(first or began, now), now, began)
    return replace(window, start=_since(first, window), is_default=True)


def _since(first: datetime | None, window: Window) -> datetime:
    """The start of a window, or shortly before the first event of all where that is later."""
    if first is None or first > window.end:
        return window.start
    return max(window.start, first - max(SHORTEST, (window.end - first) * _EMPTY_SHARE))


def default_for(began: datetime | None, now: datetime) -> str:
    """The shortest preset that holds everything since then, at most `LONGEST_DEFAULT`."""
    if began is None:
        return LONGEST_DEFAULT
    fitting = (name for name, length in PRESETS.items() if length >= now - began or name == LONGEST_DEFAULT)
    return next(fitting)


def _preset(name: str, now: datetime, began: datetime | None) -> Window:
    return Window(start=now - PRESETS[name], end=now, name=name, began=began)


def _chosen(start_words: str, end_words: str, fallback: Window) -> Window:
    now, began = fallback.end, fallback.began
    start, end = instant_of(start_words, now), instant_of(end_words, now)
    if start is None or end is None:
        return replace(fallback, problem="The range could not be read: write 2026-01-31T14:00:00Z or now-90m.")
    if end - start < SHORTEST:
        return replace(fallback, problem="The range has to end at least a minute after it begins.")
    if end - start > LONGEST:
        problem = f"Only the last {LONGEST.days} days of the range are shown."
        return Window(start=end - LONGEST, end=end, problem=problem, began=began)
    is_moving = any(_RELATIVE.match(words) for words in (start_words, end_words))
    return Window(start=start, end=end, began=began, relative=(start_words, end_words) if is_moving else None)


def instant_of(words: str, now: datetime) -> datetime | None:
    """The moment that `now-90m` or an ISO time names, UTC where it says no zone; None where it names none."""
    relative = _RELATIVE.match(words)
    if relative:
        number, unit = relative.groups()
        return now - timedelta(seconds=int(number) * _UNIT_S[unit]) if number else now
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        return None
    return in_utc(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)


def in_utc(moment: datetime) -> datetime | None:
    """A moment with a zone in UTC; None for one of years in which nothing happens, which no engine stores alike."""
    try:
        found = moment.astimezone(UTC)
    except OverflowError:
        return None
    return found if datetime(1971, 1, 1, tzinfo=UTC) < found < datetime(9000, 1, 1, tzinfo=UTC) else None


def instant_words(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
