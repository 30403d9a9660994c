"""The search: a page of its own, and the palette that scripts open over any page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from events.pages.rendering import fragment_of, render_page
from events.wording import count_text
from recovery_ops.control.core.environment import visit_of
from recovery_ops.control.dashboard.search import LONGEST, Group
from recovery_ops.control.dashboard.search import find as found_by

RESULTS = "find-results"


def find(request: HttpRequest, *, environment: str) -> HttpResponse:
    """What fits `q`; with the header of the results' fragment only those."""
    asked = request.GET.get("q", "").strip()[:LONGEST]
    groups = found_by(asked, environment, visit_of(request).grants)
    context = {"q": asked, "groups": groups, "sentence": _sentence(asked, groups, environment)}
    part = "core/_find_results.html" if fragment_of(request) == RESULTS else ""
    return render_page(request, "core/find", context, part=part)


def _sentence(asked: str, groups: list[Group], environment: str) -> str:
    if not asked:
        return "Pages and actions. Type to find breakers, operations, agents, runs, issues and escalations."
    hits = sum(len(group.hits) for group in groups)
    if hits:
        return f"{count_text(hits, 'hit')} in {environment}."
    return f"No match in {environment}. Runs are found by their full id, other objects by part of the name."
