"""How the console looks to one person: kept in cookies, so that it needs no script, no query and no account.

A cookie that holds anything else than what can be chosen is as good as none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

UTC_NAME = "UTC"
_YEAR_S = 365 * 24 * 3600
_NAMES = ("theme", "contrast", "density", "motion", "keys", "zone")
_CHOICES = {
    "theme": ("light", "dark"),
    "contrast": ("more",),
    "density": ("compact",),
    "motion": ("less",),
    "keys": ("off",),
}
"""What can be chosen beside the usual, which is no cookie at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What was chosen; empty for the usual. `zone` is the name of a time zone, `UTC` for the usual."""

    theme: str = ""
    contrast: str = ""
    density: str = ""
    motion: str = ""
    keys: str = ""
    zone: str = UTC_NAME

    @property
    def is_utc(self) -> bool:
        """Whether moments are written as they are stored."""
        return self.zone == UTC_NAME

    @property
    def cookie_prefix(self) -> str:
        """What the names of the cookies begin with, for the script that writes them."""
        return str(settings.COOKIE_PREFIX)


@cache
def zones() -> tuple[str, ...]:
    """The names of time zones that people live in, in order; those of no place come first."""
    named = sorted(name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "SystemV/")))
    return (UTC_NAME, *named)


def preferences_of(request: HttpRequest) -> Preferences:
    """What this browser's cookies say."""
    chosen = {name: request.COOKIES.get(_cookie(name), "") for name in _NAMES}
    return Preferences(**{name: value for name, value in chosen.items() if is_choice(name, value)})


def is_choice(name: str, value: str) -> bool:
    """Whether this can be chosen, and is not the usual."""
    return value in zones() if name == "zone" else value in _CHOICES[name]


def remember(answer: HttpResponse, chosen: Mapping[str, str]) -> None:
    """Keep what was chosen; what is not a choice goes back to the usual. Names that are none of ours are ignored."""
    for name, value in chosen.items():
        if name not in _NAMES:
            continue
        if is_choice(name, value) and value != UTC_NAME:
            answer.set_cookie(_cookie(name), value, max_age=_YEAR_S, samesite="Lax", secure=settings.TLS)
        else:
            answer.delete_cookie(_cookie(name), samesite="Lax")


def _cookie(name: str) -> str:
    return f"{settings.COOKIE_PREFIX}{name}"


def in_own_zone(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: every moment of an answer is written in the reader's zone. Programs are always told UTC."""

    def answer(request: HttpRequest) -> HttpResponse:
        if request.path.startswith("/api/"):
            return get_response(request)
        name = preferences_of(request).zone
        if name == UTC_NAME:
            return get_response(request)
        try:
            zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, OSError):  # the list had it, the files of this machine do not
            return get_response(request)
        with timezone.override(zone):
            return get_response(request)

    return answer
