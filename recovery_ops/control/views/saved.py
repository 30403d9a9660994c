"""Saved views: the list for one page, what is done with them, and with which one a page opens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from events.pages import fragment_of, render_page
from recovery_ops.control.actions import Refused, views
from recovery_ops.control.context import actor_of, visit_of
from recovery_ops.control.models import DefaultView, SavedView
from recovery_ops.control.numbers import number_in
from recovery_ops.control.saved_views import PARAMETER, lasting
from recovery_ops.control.views.answers import changed, see_other
from recovery_ops.control.views.paging import page_of

NONE = "none"
MOST = 200
UNPROCESSABLE = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One view as the list shows it."""

    view: SavedView
    href: str
    is_mine: bool
    is_default: bool
    is_here: bool


@require_http_methods(["GET", "POST"])
def saved(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The views of one page (`screen`); POST saves, renames, deletes or chooses one (`act`)."""
    given = request.POST if request.method == "POST" else request.GET
    screen, query = given.get("screen", ""), lasting(given.get("query", ""))
    if screen not in views.SCREENS:
        raise Http404(f"There are no views of {screen[:40]!r}; choose one of {', '.join(views.SCREENS)}.")
    if request.method != "POST":
        return _page(request, environment, screen, query)
    try:
        told, address = _done(request, environment, screen, query)
    except Refused as refusal:
        if refusal.status == 403:
            raise PermissionDenied(refusal.detail) from refusal
        if refusal.status == 404:
            raise Http404(refusal.detail) from refusal
        return _page(request, environment, screen, query, problem=refusal.detail, status=UNPROCESSABLE)
    return changed(request, address, told)


def default_address(request: HttpRequest, environment: str) -> str:
    """Where the bare address of a page leads a person who chose a view to open it with; empty for who did not."""
    match = request.resolver_match
    is_bare = request.method == "GET" and not request.META.get("QUERY_STRING") and not fragment_of(request)
    if not is_bare or match is None or match.view_name not in views.SCREENS or not request.user.pk:
        return ""
    place = {"user_id": request.user.pk, "environment": environment, "screen": match.view_name}
    found = DefaultView.objects.filter(**place).values_list("view__query", "view_id").first()
    return _opened(request.path, *found) if found and found[0] else ""


def _done(request: HttpRequest, environment: str, screen: str, query: str) -> tuple[str, str]:
    """Do what was asked for; return what to say, and where to go."""
    asked: Any = {"by": actor_of(request), "environment": environment, "reason": "", "key": None}
    act, name = request.POST.get("act", ""), request.POST.get("name", "")
    page = _address(screen, query)
    if act == "save":
        is_team = request.POST.get("for") == "team"
        kept = views.save_view(**asked, screen=screen, name=name, query=query, is_team=is_team).object
        return f"Saved as {kept.name}.", page
    number = number_in(request.POST.get("view", ""))
    if number is None:
        raise Http404("There is no such view.")
    if act == "rename":
        return f"It is called {views.rename_view(**asked, view=number, name=name).object.name} now.", page
    if act == "delete":
        return f"{views.delete_view(**asked, view=number).object.name} is deleted.", page
    if act == "default":
        view = views.open_with(**asked, view=number).object
        return f"The page {'opens' if _default(request, environment, screen) else 'no longer opens'} with {view}.", page
    raise Http404(f"Nothing is called {act[:40]!r}.")


def _page(
    request: HttpRequest, environment: str, screen: str, query: str, *, problem: str = "", status: int = 200
) -> HttpResponse:
    if request.method == "GET" and not fragment_of(request) and request.GET.get("go"):
        return see_other(_address(screen, query))
    page = page_of(request, _lines(request, environment, screen, query), _place, (str, int), MOST)
    lines = page.rows
    context = {
        "screen": screen,
        "query": query,
        "page": page,
        "mine": [line for line in lines if line.is_mine],
        "team": [line for line in lines if not line.is_mine],
        "bare": f"{reverse(screen)}?{PARAMETER}={NONE}",
        "back": _address(screen, query),
        "name": request.POST.get("name", "") or request.GET.get("name", ""),
        "may_share": visit_of(request).grants.may("share_view", environment),
        "problem": problem,
    }
    return render_page(request, "control/saved", context, status=status)


def _lines(request: HttpRequest, environment: str, screen: str, query: str) -> Sequence[Line]:
    seen = SavedView.objects.filter(
        Q(owner_id=request.user.pk) | Q(is_team=True), environment=environment, screen=screen
    )
    default = _default(request, environment, screen)
    return [
        Line(
            view=view,
            href=_opened(reverse(screen), view.query, view.pk),
            is_mine=view.owner_id == request.user.pk,
            is_default=view.pk == default,
            is_here=view.query == query,
        )
        for view in seen.select_related("owner")
    ]


def _place(line: Line) -> tuple[str, int]:
    return line.view.name, line.view.pk


def _default(request: HttpRequest, environment: str, screen: str) -> int | None:
    place = {"user_id": request.user.pk, "environment": environment, "screen": screen}
    return DefaultView.objects.filter(**place).values_list("view_id", flat=True).first()


def _opened(path: str, query: str, view: int) -> str:
    """The page as a view shows it, with the view's number, by which it is known that it was opened with it."""
    return f"{path}?{query}&{PARAMETER}={view}" if query else f"{path}?{PARAMETER}={view}"


def _address(screen: str, query: str) -> str:
    return f"{reverse(screen)}?{query or f'{PARAMETER}={NONE}'}"
