"""How long the server asks to wait, in seconds from now: the first readable value of several places.

`retry-after-ms`, then `retry-after`, the exception's own `retry_after`, the body's structured delay, for rate limits
the reset headers of vendors, and at last the sentence. Negative, infinite and unreadable values are ignored, wherever
they stand; a number too large to be meant is `LONGEST_WAIT_S`, longer than any deadline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import inf

from recovery_ops.rules.classification.error_bodies import details_in, error_part
from recovery_ops.rules.lazy_patterns import compiled

_NUMBER = compiled(r"\s*(\d{1,512}(?:\.\d{0,9})?|\.\d{1,9})\s*\Z", re.ASCII)
_DURATION = compiled(
    r"\s*(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,9}(?:\.\d{1,12})?)s)?(?:(\d{1,9}(?:\.\d{1,12})?)ms)?\s*\Z",
    re.ASCII,
)
_RETRY_IN = compiled(
    r"(?:\A|[\n.,;:!] ?)(?:please )?(?:re)?try(?: (?:again|your request(?: again)?))? (?:in|after) "
    r"(\d[\dhms.]{0,23}) ?(milliseconds?|ms|minutes?|mins?|seconds?|secs?|hours?|days?)?(?![\w])",
    re.ASCII | re.IGNORECASE,
)
_UNIT_S = {"mi": 60.0, "ms": 0.001, "se": 1.0, "ho": 3600.0, "da": 86_400.0}

LONGEST_WAIT_S = 100 * 365.25 * 86_400.0

# An epoch in seconds, and one in milliseconds: no vendor asks for a pause of thirty years.
_FIRST_EPOCH_S = 1e9
_FIRST_EPOCH_MS = 1e12
_LARGEST = 1e18

RESET_PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-", "ratelimit-", "x-codex-")
"""How the names of the vendors' quota headers begin."""


def server_wait_s(
    headers: Mapping[str, str],
    body: Mapping[str, object] | None,
    message: str,
    *,
    is_rate_limit: bool,
    now: float,
    asked: str | None = None,
) -> float | None:
    """Seconds to wait by the server's own word, None where it gave none. `now` is seconds since the epoch.

    `asked` is the `retry_after` of the exception itself, in the form of the header.
    """
    wait = _asked_s(headers, body, asked, now=now)
    if wait is None and is_rate_limit:
        wait = _reset_s(headers, now)
    if wait is None:
        wait = _in_sentence(message)
    return None if wait is None else min(wait, LONGEST_WAIT_S)


def meant_s(wait_s: float | None) -> float:
    """A named wait that a backend can rest for; 0 where none is named, or one that is too large to be meant."""
    return wait_s if wait_s is not None and 0 < wait_s < LONGEST_WAIT_S else 0.0


def _asked_s(
    headers: Mapping[str, str], body: Mapping[str, object] | None, asked: str | None, *, now: float
) -> float | None:
    """What is said in structure about this failure itself."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    for text in (headers.get("retry-after"), asked):
        if text is None:
            continue
        seconds = _number(text)
        if seconds is None:
            seconds = _until(_http_date(text), now)
        if seconds is not None:
            return seconds
    return _in_body(body, now)


def _in_sentence(message: str) -> float | None:
    """Seconds of "Please try again in 6m0s", "retry after 45 seconds", "Try again in 900 ms"."""
    found = _RETRY_IN.search(message)
    if found is None:
        return None
    amount, unit = found[1].rstrip("."), (found[2] or "").lower()
    if not unit:
        return _duration(amount)
    number = _number(amount)
    key = "ms" if unit.startswith(("ms", "milli")) else unit[:2]
    return None if number is None else number * _UNIT_S[key]


def _number(text: str | None) -> float | None:
    found = _NUMBER.match(text) if text is not None else None
    return min(float(found[1]), _LARGEST) if found else None


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
        if isinstance(wait, (int, float)) and not isinstance(wait, bool) and 0 <= wait < inf:
            return float(min(wait, LONGEST_WAIT_S))
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
