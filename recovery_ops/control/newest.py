"""Which fact was the newest when a page was begun, so that a page that has it is not asked for again at once."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from events import live


def newest_noted(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: keep with a request what the live streams of this process were told last, before anything is read.

    It may be older than what the page will show, or missing where nobody follows; then the page asks again, as it must.
    """

    def answer(request: HttpRequest) -> HttpResponse:
        request.__dict__["_newest_fact"] = live.app.newest
        return get_response(request)

    return answer


def newest_of(request: HttpRequest) -> str:
    """The id of that fact; empty where it is not known."""
    return str(request.__dict__.get("_newest_fact") or "")
