"""How long the server asks to be left alone, in seconds from now: the first readable word of several places.

`retry-after-ms`, then `retry-after`, then what the body says, then – for rate limits – the reset headers of vendors.
Negative, infinite and unreadable values are ignored, wherever they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from recovery_ops.rules.evidence.bodies import details_in, error_part
from recovery_ops.rules.patterns import compiled

_NUMBER = compiled(r"\s*(\d{1,15}(?:\.\d{0,9})?|\.\d{1,9})\s*\Z", re.ASCII)
_DURATION = compiled(
    r"\s*(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,9}(?:\.\d{1,12})?)s)?(?:(\d{1,9}(?:\.\d{1,12})?)ms)?\s*\Z",
    re.ASCII,
)
_RETRY_IN = compiled(r"(?:\A|[\n.] ?)Please retry in ([\d.]{1,24}m?s)\b", re.ASCII)

# An epoch in seconds, and one in milliseconds: no vendor asks for a pause of thirty years.
_FIRST_EPOCH_S = 1e9
_FIRST_EPOCH_MS = 1e12

RESET_PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-", "ratelimit-", "x-codex-")
"""How the names of the vendors' quota headers begin."""


def server_wait_s(
    headers: Mapping[str, str], body: Mapping[str, object] | None, message: str, *, is_rate_limit: bool, now: float
) -> float | None:
    """Seconds to wait by the server's own word, None where it gave none. `now` is seconds since the epoch."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after")
    if asked is not None:
        seconds = _number(asked)
        if seconds is None:
            seconds = _until(_http_date(asked), now)
        if seconds is not None:
            return seconds
    said = _in_body(body, now)
    if said is not None:
        return said
    if not is_rate_limit:
        return None
    reset = _reset_s(headers, now)
    if reset is not None:
        return reset
    sentence = _RETRY_IN.search(message)
    return _duration(sentence[1]) if sentence else None


def _number(text: str | None) -> float | None:
    found = _NUMBER.match(text) if text is not None else None
    return float(found[1]) if found else None


def _duration(text: str) -> float | None:
    """Seconds of `6m0s`, `1.5s`, `900.2ms`."""
    found = _DURATION.match(text)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds, milliseconds = (float(group or 0) for group in found.groups())
    return days * 86_400 + hours * 3_600 + minutes * 60 + seconds + milliseconds / 1_000


def _until(moment: datetime | None, now: float) -> float | None:
    if moment is None:
        return None
    wait = moment.timestamp() - now
    return wait if wait >= 0 else None


_MONTHS = "janfebmaraprmayjunjulaugsepoctnovdec"
_HTTP_DATE = compiled(
    r"\s*(?:[A-Za-z]{3,9}, )?(\d{1,2})[ -]([A-Za-z]{3})[ -](\d{4}|\d{2}) (\d{2}):(\d{2}):(\d{2}) (?:GMT|UTC)\s*\Z",
    re.ASCII,
)
_ASCTIME = compiled(r"\s*[A-Za-z]{3} ([A-Za-z]{3}) ([ \d]\d) (\d{2}):(\d{2}):(\d{2}) (\d{4})\s*\Z", re.ASCII)


def _http_date(text: str) -> datetime | None:
    """The three forms of RFC 9110; written out here because the standard library's parser draws in sockets."""
    found = _HTTP_DATE.match(text)
    if found is not None:
        day, month, year, *clock = found.groups()
    else:
        found = _ASCTIME.match(text)
        if found is None:
            return None
        month, day, *clock, year = found.groups()
    place = _MONTHS.find(month.lower())
    if place % 3:
        return None
    full_year = int(year) if len(year) == 4 else 2000 + int(year)
    hour, minute, second = map(int, clock)
    try:
        return datetime(full_year, place // 3 + 1, int(day), hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def _in_body(body: Mapping[str, object] | None, now: float) -> float | None:
    part = error_part(body)
    if part is None:
        return None
    for detail in details_in(body):
        delay = detail.get("retryDelay")
        if isinstance(delay, str):
            return _duration(delay)
    for name in ("resets_in_seconds", "retry_after_seconds", "retry_after"):
        wait = part.get(name)
        if isinstance(wait, (int, float)) and not isinstance(wait, bool) and 0 <= wait < _FIRST_EPOCH_S:
            return float(wait)
    epoch = part.get("resets_at")
    if isinstance(epoch, (int, float)) and not isinstance(epoch, bool) and now <= epoch < _FIRST_EPOCH_MS:
        return epoch - now
    return None


def _reset_s(headers: Mapping[str, str], now: float) -> float | None:
    """The latest reset of the limits that are used up; of all of them where no header says which those are."""
    spent: list[float] = []
    others: list[float] = []
    for name, is_spent in _resets(headers):
        wait = _moment(headers[name], now)
        if wait is not None:
            (spent if is_spent else others).append(wait)
    return max(spent or others, default=None)


def _resets(headers: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    for name in headers:
        if "reset" not in name or not name.startswith(RESET_PREFIXES):
            continue
        stem = name.partition("-reset")[0]
        used = _number(headers.get(f"{stem}-used-percent"))
        is_spent = (
            _number(headers.get(name.replace("reset", "remaining"))) == 0
            or headers.get(f"{stem}-status") == "rejected"
            or (used is not None and used >= 100)
        )
        yield name, is_spent


def _moment(text: str, now: float) -> float | None:
    """Seconds from now of an epoch, a delay, a duration or an RFC 3339 time."""
    number = _number(text)
    if number is not None:
        if number < _FIRST_EPOCH_S:
            return number
        wait = (number / 1000 if number >= _FIRST_EPOCH_MS else number) - now
        return wait if wait >= 0 else None
    duration = _duration(text)
    if duration is not None:
        return duration
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return _until(moment if moment.tzinfo else moment.replace(tzinfo=UTC), now)
