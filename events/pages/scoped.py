"""What somebody keeps to from screen to screen: a provider, a model, a service. Only the address says it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.http import HttpRequest

from events.pages.narrowing import TEXT_CHARS, Narrowed

NAMES = ("provider", "model", "service")
"""The names in addresses; every list that knows such a field is narrowed by it under this name."""
_OF_ONE = frozenset(
    {"policy", "try-failure", "explain", "agent-settings", "agent-label", "say-feedback", "snooze-notices"}
)
"""Pages whose `service` names what they are about: nobody chose it for other screens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend(Narrowed):
    """The part of it that says to whom calls went."""

    provider: str = ""
    model: str = ""

    def fits(self, provider: str, model: str) -> bool:
        """Whether calls to this model of this provider are asked for."""
        return self.provider in ("", provider) and self.model in ("", model)

    @property
    def words(self) -> str:
        """`helios / large`; empty for any."""
        return " / ".join(filter(None, (self.provider, self.model)))


ANYBODY = Backend()


def scope_of(request: HttpRequest) -> dict[str, str]:
    """What is kept to, by name. Read past whoever notes what a page asks of its address: the page itself has not."""
    match = request.resolver_match
    if match is not None and match.view_name in _OF_ONE:
        return {}
    given = dict(request.GET.lists())
    said = {name: str(given[name][-1]).strip()[:TEXT_CHARS] for name in NAMES if given.get(name)}
    return {name: value for name, value in said.items() if value}


def scope_query(request: HttpRequest) -> str:
    """The part of an address that takes it along; empty for nothing."""
    return urlencode(scope_of(request))
