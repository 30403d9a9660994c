"""The span of time a page looks at: a preset that ends now or two instants, read from the address."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest

PRESETS: dict[str, timedelta] = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
}
DEFAULT = "6h"
LONGEST = timedelta(days=7)
SHORTEST = timedelta(minutes=1)

_REMEMBERED = frozenset({"15m", "1h", "6h"})  # a long range is never restored: it would make every page slow
_SESSION_KEY = "range"
_RELATIVE = re.compile(r"^now(?:-(\d{1,5})([smhd]))?$")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """From `start` to `end`, aware UTC. `name` is the preset it came from; empty for two instants."""

    start: datetime
    end: datetime
    name: str = ""
    problem: str = ""
    """Why what the address asked for is not shown; empty when it is."""

    @property
    def length(self) -> timedelta:
        return self.end - self.start

    @property
    def query(self) -> str:
        """The part of an address that asks for the same window: relative when it ends now."""
        return urlencode({"range": self.name}) if self.name else self.absolute_query

    @property
    def absolute_query(self) -> str:
        """The part of an address that still shows the same rows tomorrow."""
        return _between(self.start, self.end)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The same for a form that is sent with GET."""
        return parse_qsl(self.query)

    @property
    def earlier_query(self) -> str:
        return _between(self.start - self.length, self.start)

    @property
    def later_query(self) -> str:
        return _between(self.end, self.end + self.length)

    @property
    def words(self) -> str:
        """The resolved range, as it stands on the page: `13:26:18 – 14:26:18 UTC`, with days where they differ."""
        if self.start.date() == self.end.date():
            return f"{self.start:%H:%M:%S} – {self.end:%H:%M:%S} UTC"
        return f"{self.start.day} {self.start:%b %H:%M:%S} – {self.end.day} {self.end:%b %H:%M:%S} UTC"

    @property
    def title(self) -> str:
        """What a panel that shows it is called."""
        titles = {"15m": "Last 15 minutes", "1h": "Last hour", "6h": "Last 6 hours", "24h": "Last 24 hours"}
        return titles.get(self.name, "Chosen range")


def window_of(request: HttpRequest, *, now: datetime, default: str = DEFAULT) -> Window:
    """The window that a request asks for, else the one of this session, else the default.

    `from` and `to` are ISO instants or `now-90m`; `range` is a preset. What cannot be read is named in `problem`.
    """
    asked = request.GET.get("range", "")
    if asked in PRESETS:
        if asked in _REMEMBERED and request.session.get(_SESSION_KEY) != asked:
            request.session[_SESSION_KEY] = asked
        return _preset(asked, now)
    kept = request.session.get(_SESSION_KEY, default)
    fallback = kept if kept in PRESETS else default
    if "from" in request.GET or "to" in request.GET:
        return _chosen(request.GET.get("from", ""), request.GET.get("to", "now"), fallback, now)
    problem = f"There is no range {asked[:20]}; ranges are {', '.join(PRESETS)}." if asked else ""
    return _preset(fallback, now, problem)


def _preset(name: str, now: datetime, problem: str = "") -> Window:
    return Window(start=now - PRESETS[name], end=now, name=name, problem=problem)


def _chosen(start_words: str, end_words: str, fallback: str, now: datetime) -> Window:
    start, end = _instant(start_words, now), _instant(end_words, now)
    if start is None or end is None:
        return _preset(fallback, now, "The range could not be read: write 2026-01-31T14:00:00Z or now-90m.")
    if end - start < SHORTEST:
        return _preset(fallback, now, "The range has to end at least a minute after it begins.")
    if end - start > LONGEST:
        problem = f"Only the last {LONGEST.days} days of the range are shown."
        return Window(start=end - LONGEST, end=end, problem=problem)
    return Window(start=start, end=end)


def _instant(words: str, now: datetime) -> datetime | None:
    relative = _RELATIVE.match(words)
    if relative:
        number, unit = relative.groups()
        return now - timedelta(seconds=int(number) * _UNIT_S[unit]) if number else now
    try:
        moment = datetime.fromisoformat(words)
    except ValueError:
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment if datetime(1971, 1, 1, tzinfo=UTC) < moment < datetime(9000, 1, 1, tzinfo=UTC) else None


def _between(start: datetime, end: datetime) -> str:
    def instant(moment: datetime) -> str:
        return moment.isoformat(timespec="seconds").replace("+00:00", "Z")

    return urlencode({"from": instant(start), "to": instant(end)}, safe=":")
