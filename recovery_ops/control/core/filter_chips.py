"""The chips of what is kept to from screen to screen, and what of it the screen at hand is not narrowed by."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest

from events.pages.scoped import scope_of
from recovery_ops.control.core.unknown_parameters import TrackedQuery

WORDS = {"provider": "provider", "model": "model", "service": "service"}
_PLACES = ("cursor", "before")
"""Where in a list a page begins: of another list it would leave out rows."""
_IN_PART = {
    "overview": "capacity errors and backend lanes",
    "capacity": "error rates, their charts and the incident list",
    "agents": "instances",
    "breakers": "breakers in the list",
    "escalations": "escalations in the list",
}
"""Screens of which only a part is narrowed, and which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One thing that is kept to. `without_href` lets go of it."""

    name: str
    value: str
    without_href: str
    is_applied: bool

    @property
    def words(self) -> str:
        """`provider helios`."""
        return f"{WORDS[self.name]} {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chips:
    """All of them, the address without any, and what of the page they narrow where it is not all of it."""

    chips: list[Chip]
    clear_href: str
    in_part: str

    @property
    def untold(self) -> list[Chip]:
        """Those that do not narrow this screen."""
        return [chip for chip in self.chips if not chip.is_applied]

    @property
    def is_applied(self) -> bool:
        """Whether any narrows it."""
        return len(self.untold) < len(self.chips)


def chips_of(request: HttpRequest) -> Chips:
    """The chips as they stand once the page has read its address: what it did not ask for does not narrow it."""
    asked = request.GET.heard if isinstance(request.GET, TrackedQuery) else set()
    said, match = scope_of(request), request.resolver_match
    chips = [
        Chip(name=name, value=value, without_href=_without(request, name), is_applied=name in asked)
        for name, value in said.items()
    ]
    in_part = _IN_PART.get(match.view_name, "") if match is not None else ""
    return Chips(chips=chips, clear_href=_without(request, *said), in_part=in_part)


def _without(request: HttpRequest, *names: str) -> str:
    query = request.GET.copy()
    for name in (*names, *_PLACES):
        query.pop(name, None)
    return f"?{query.urlencode()}"
