"""Saved views: the list for one page, and what is done with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from events.pages.rendering import fragment_of, render_page
from recovery_ops.control.core.environment import actor_of
from recovery_ops.control.core.numbers import parse_number
from recovery_ops.control.core.pagination import page_of
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice, see_other
from recovery_ops.control.saved_views import services as saved_view_services
from recovery_ops.control.saved_views.models import SavedView
from recovery_ops.control.saved_views.selectors import PARAMETER, lasting

MOST = 200
UNPROCESSABLE = 422


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One view as the list shows it."""

    view: SavedView
    href: str
    is_here: bool


@require_http_methods(["GET", "POST"])
def saved(request: HttpRequest, *, environment: str) -> HttpResponse:
    """One's own views of one page (`screen`); POST saves, renames or deletes one (`act`)."""
    given = request.POST if request.method == "POST" else request.GET
    screen, query = given.get("screen", ""), lasting(given.get("query", ""))
    if screen not in saved_view_services.SCREENS:
        raise Http404(f"{screen[:40]!r} has no views; use one of {', '.join(saved_view_services.SCREENS)}.")
    if request.method != "POST":
        return _page(request, environment, screen, query)
    try:
        notice = _done(request, environment, screen, query)
    except CommandRejected as rejection:
        if rejection.status == NOT_FOUND:
            raise Http404(rejection.detail) from rejection
        return _page(request, environment, screen, query, problem=rejection.detail, status=UNPROCESSABLE)
    return redirect_with_notice(request, _address(screen, query), notice)


def _done(request: HttpRequest, environment: str, screen: str, query: str) -> str:
    """Do what was asked for; return what to say."""
    owner_id, act, name = _owner_id(request), request.POST.get("act", ""), request.POST.get("name", "")
    if act == "save":
        kept = saved_view_services.save_view(
            owner_id=owner_id, environment=environment, screen=screen, name=name, query=query
        )
        return f"View {kept.name} saved."
    if act not in ("rename", "delete"):
        raise Http404(f"{act[:40]!r} is not an action; use save, rename or delete.")
    number = parse_number(request.POST.get("view", ""))
    if number is None:
        raise Http404("The view does not exist.")
    if act == "rename":
        renamed = saved_view_services.rename_view(owner_id=owner_id, environment=environment, number=number, name=name)
        return f"View renamed to {renamed.name}."
    deleted = saved_view_services.delete_view(owner_id=owner_id, environment=environment, number=number)
    return f"View {deleted.name} deleted."


def _owner_id(request: HttpRequest) -> int:
    user_id = actor_of(request).user_id
    if user_id is None:
        raise Http404("Views belong to users.")
    return user_id


def _page(
    request: HttpRequest, environment: str, screen: str, query: str, *, problem: str = "", status: int = 200
) -> HttpResponse:
    if request.method == "GET" and not fragment_of(request) and request.GET.get("go"):
        return see_other(_address(screen, query))
    page = page_of(request, _lines(request, environment, screen, query), _place, (str, int), MOST)
    context = {
        "screen": screen,
        "query": query,
        "page": page,
        "lines": page.rows,
        "back": _address(screen, query),
        "name": request.POST.get("name", "") or request.GET.get("name", ""),
        "problem": problem,
    }
    return render_page(request, "saved_views/saved_views", context, status=status)


def _lines(request: HttpRequest, environment: str, screen: str, query: str) -> Sequence[Line]:
    own = SavedView.objects.filter(owner_id=request.user.pk, environment=environment, screen=screen)
    return [
        Line(view=view, href=_opened(reverse(screen), view.query, view.pk), is_here=view.query == query) for view in own
    ]


def _place(line: Line) -> tuple[str, int]:
    return line.view.name, line.view.pk


def _opened(path: str, query: str, view: int) -> str:
    """The page as a view shows it, with the view's number, by which it is known that it was opened with it."""
    return f"{path}?{query}&{PARAMETER}={view}" if query else f"{path}?{PARAMETER}={view}"


def _address(screen: str, query: str) -> str:
    return f"{reverse(screen)}?{query}" if query else reverse(screen)
