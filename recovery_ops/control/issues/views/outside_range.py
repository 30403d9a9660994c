"""A cause without a failure in the range that is looked at: its name and what people said of it stay in reach."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import quote, urlencode

from django.http import Http404, HttpRequest, HttpResponse

from events.failures.ever import Ever
from events.failures.grouping import Grouping
from events.failures.naming import called_lately, cause_title
from events.pages.empties import none_in
from events.pages.rendering import render_page
from events.pages.window import PRESETS, Window, instant_words
from recovery_ops.control.escalations.selectors.by_issue import asked_about
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.control.issues.selectors import notes_on, standing_of
from recovery_ops.control.issues.views.occurrences import log_of

_AROUND = timedelta(minutes=15)
OLDEST = "oldest"
"""What `order` says where the oldest failure comes first."""
_LONGEST = max(PRESETS, key=lambda name: PRESETS[name])


def seen_of(request: HttpRequest, ever: Ever | None) -> list[tuple[str, datetime, str]]:
    """When an issue was seen first and last of all time, each with the address of the range around that failure."""
    if ever is None:
        return []
    first_href, last_href = (_around(request, one) for one in (ever.first, ever.last))
    return [
        ("first", ever.first, f"{first_href}&order={OLDEST}#failures"),
        ("last", ever.last, f"{last_href}#failures"),
    ]


def _around(request: HttpRequest, moment: datetime) -> str:
    start, end = moment - _AROUND, moment + _AROUND
    asked = {"from": instant_words(start), "to": instant_words(end)}
    return f"{quote(request.path)}?{urlencode(asked, safe=':')}"


def failure_elsewhere(
    request: HttpRequest,
    environment: str,
    asked_for: str,
    *,
    grouping: Grouping,
    window: Window,
    now: datetime,
    ever: Ever | None,
) -> HttpResponse:
    """What is known of a cause that did not fail in the window but `ever` before or after. 404 for one never met."""
    name = grouping.head(asked_for)
    parts = grouping.parts(name)
    case = FailureCase.objects.filter(environment=environment, fingerprint=name).first()
    notes = notes_on(environment, parts)
    called = called_lately(environment, parts, now=now)
    is_told_of = case or notes or called or len(parts) > 1 or grouping.split_from(name)
    if not is_told_of and ever is None:
        raise Http404(f"Issue {name[:80]} does not exist in {environment}.")
    is_log = request.GET.get("tab") == "log"
    text = "Notes and actions are shown."
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "longest": _LONGEST,
        "name": name,
        "asked_for": asked_for if asked_for != name else "",
        "seen": seen_of(request, ever),
        "title": cause_title(name, next((called[part] for part in parts if part in called), None)),
        "standing": standing_of(case, last=None, now=now),
        "empty": none_in(environment, window, now=now, title="No failures in this range", text=text),
        "tab": "log" if is_log else "",
        "log": log_of(environment, parts) if is_log else [],
        "questions": asked_about(environment, parts),
        "notes": notes,
    }
    return render_page(request, "issues/failure_elsewhere", context)
