"""Which saved view a page was opened with, and whether it still shows what the view says."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from django.http import HttpRequest, QueryDict

from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.saved_views.models import QUERY_CHARS, SavedView

PARAMETER = "view"
_LEFT_OUT = (PARAMETER, "environment", "before", "cursor", "all", "peek", "chosen")
"""What is not part of a view: where one has paged to, what one looks into, and where one is."""


@dataclass(frozen=True, slots=True)
class InUse:
    """The view that a page was opened with. `is_modified`: somebody has changed what it shows since."""

    id: int
    name: str
    is_modified: bool


def lasting(query: str) -> str:
    """A query without what is not part of a view."""
    kept = [
        (name, value)
        for name, values in QueryDict(query[:QUERY_CHARS]).lists()
        if name not in _LEFT_OUT
        for value in values
    ]
    return urlencode(kept, safe=":")


def in_use(request: HttpRequest, environment: str) -> InUse | None:
    """The view that the address names. No query where it names none, else one."""
    number = parse_number(request.GET.get(PARAMETER, ""))
    match = request.resolver_match
    if match is None or number is None:
        return None
    own = SavedView.objects.filter(owner_id=request.user.pk, environment=environment)
    view = own.filter(pk=number, screen=match.view_name).first()
    if view is None:
        return None
    here = lasting(request.META.get("QUERY_STRING", ""))
    return InUse(view.pk, view.name, sorted(parse_qsl(here)) != sorted(parse_qsl(view.query)))
