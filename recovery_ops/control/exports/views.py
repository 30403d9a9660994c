"""Long lists as files: the dialog that says how long they are, the page of one that is written, and the file."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.pages.table_files import CSV, KINDS, ONLY
from events.pages.window import PARAMETERS, Window, in_utc, window_in
from events.wording import count_text
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import new_key
from recovery_ops.control.core.jobs import put_into_tray
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.dashboard.views.jobs import line_of
from recovery_ops.control.exports.catalogue import LISTS
from recovery_ops.control.exports.files import file_answer
from recovery_ops.control.exports.lists import FileList, Wish, wish_in
from recovery_ops.control.exports.models import Export
from recovery_ops.control.exports.services import cancel_export, exports_of, may_fetch, start_export

REFRESH_S = 2
_WORDS = {CSV: "CSV", "json": "JSON", "ndjson": "NDJSON"}
_REASON = "Requested as a file"


@require_http_methods(["GET", "POST"])
def new_export(request: HttpRequest, *, environment: str) -> HttpResponse:
    """How many rows a list has as its page is narrowed, and which file is wanted; POST asks for one that takes long."""
    given = request.GET if request.method == "GET" else QueryDict(request.POST.get("query", ""))
    one = LISTS.get(request.POST.get("of") or request.GET.get("of", ""))
    if one is None:
        raise Http404("The list does not exist.")
    now = timezone.now()
    window = _window(request, one, environment, now)
    wish = replace(wish_in(request, environment, window, now), given=_narrowing(one, given))
    permission, where = one.needs(wish)
    if not visit_of(request).grants.may(permission, where):
        raise PermissionDenied(f"Your role lacks the permission to read {one.title}.")
    problem, status = "", 200
    if request.method == "POST":
        try:
            return _started(request, one, wish, now)
        except CommandRejected as rejection:
            problem, status = rejection.detail, rejection.status
    return _dialog(request, one, wish, window, problem=problem, status=status)


def _dialog(
    request: HttpRequest, one: FileList, wish: Wish, window: Window | None, *, problem: str, status: int
) -> HttpResponse:
    total = one.total(wish, most=one.at_once_most)
    is_long = total > one.at_once_most
    span = _span(window)
    context = {
        "now": wish.now,
        "one": one,
        "total_words": _total_words(one, total),
        "is_long": is_long,
        "is_many": total > 0,
        "narrowed": wish.conditions(one.asks),
        "kinds": [(kind, _WORDS[kind]) for kind in KINDS],
        "columns": one.columns,
        "page": reverse(one.page),
        "fields": [*wish.given.items(), *span],
        "back": _address(one, wish, span),
        "range_words": window.words if window else "",
        "query": wish.given.urlencode(),
        "span": [(name, moment) for name, moment in (("start", wish.start), ("end", wish.end)) if moment is not None],
        "key": new_key(),
        "keep_days": settings.KEEP_EXPORTS_DAYS,
        "problem": problem,
        "action": reverse("new-export"),
    }
    return render_page(request, "exports/new_export", context, status=status)


def _started(request: HttpRequest, one: FileList, wish: Wish, now: datetime) -> HttpResponse:
    moments = {name: _moment(request.POST.get(name, "")) for name in ("start", "end")}
    exact = replace(wish, start=moments["start"], end=moments["end"])
    window = None
    if exact.start is not None and exact.end is not None:
        window = Window(start=exact.start, end=exact.end)
    done = start_export(
        by=actor_of(request),
        environment=wish.environment,
        reason=_REASON,
        key=request.POST.get("key") or None,
        what=one.name,
        query=exact.given.urlencode(),
        address=request.build_absolute_uri(_address(one, exact, _span(window))),
        kind=request.POST.get("format", CSV),
        columns=request.POST.getlist(ONLY),
        start=exact.start,
        end=exact.end,
    )
    put_into_tray(request.session, now)
    return redirect_with_notice(request, reverse("export", args=[done.object.number]), "Export requested.")


@require_http_methods(["GET", "POST"])
def export(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """How far somebody's own export has come, and where its file is; POST calls it off."""
    found = _own(request, environment, number)
    if request.method == "POST":
        cancel_export(by=actor_of(request), environment=environment, number=number, reason="Cancelled by the requester")
        return redirect_with_notice(request, reverse("export", args=[number]), f"Export {number} cancelled.")
    one, now = LISTS[found.what], timezone.now()
    context = {
        "now": now,
        "export": found,
        "line": line_of(found, now),
        "one": one,
        "narrowed": list(QueryDict(found.query).items()),
        "rows_words": count_text(found.rows, one.one, one.several),
        "kept_until": found.finished_at and found.finished_at + timedelta(days=settings.KEEP_EXPORTS_DAYS),
        "range_words": Window(start=found.start_at, end=found.end_at).words
        if found.start_at is not None and found.end_at is not None
        else "",
    }
    answer = render_page(request, "exports/export", context)
    if found.is_unfinished:
        answer["Refresh"] = str(REFRESH_S)
    return answer


def export_file(request: HttpRequest, *, environment: str, number: int) -> HttpResponseBase:
    """The file, for its owner alone, while they may read what it was made of."""
    found = _own(request, environment, number)
    if not may_fetch(actor_of(request), found):
        raise PermissionDenied("You no longer have the permission to read this data.")
    if found.state != Export.DONE:
        raise Http404(f"Export {number} is {found.state}; no file.")
    return file_answer(found)


def _span(window: Window | None) -> list[tuple[str, str]]:
    """The range as an address says it, to the second; nothing for a list of all times."""
    return [] if window is None else list(zip(("from", "to"), window.instants, strict=True))


def _own(request: HttpRequest, environment: str, number: int) -> Export:
    found = exports_of(actor_of(request), environment).filter(number=number).first()
    if found is None:
        raise Http404(f"Export {number} does not exist in {environment}.")
    return found


def _window(request: HttpRequest, one: FileList, environment: str, now: datetime) -> Window | None:
    is_asked = any(request.GET.get(name) for name in PARAMETERS)
    return window_in(request, environment, now=now) if one.has_range or (one.name == "audit" and is_asked) else None


def _narrowing(one: FileList, given: QueryDict) -> QueryDict:
    """What of an address narrows the list. What else stands in it is about the page."""
    found = QueryDict(mutable=True)
    for name, value in given.items():
        if name in one.asks and value:
            found[name] = str(value)
    return found


def _address(one: FileList, wish: Wish, span: list[tuple[str, str]]) -> str:
    query = urlencode([*wish.given.items(), *span], safe=":")
    return f"{reverse(one.page)}{'?' if query else ''}{query}"


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return in_utc(found) if found.tzinfo is not None else None


def _total_words(one: FileList, total: int) -> str:
    """`1,240 entries`, `more than 50,000 entries`, `at most 1,240 runs`."""
    if total > one.at_once_most:
        words = count_text(one.at_once_most, one.one, one.several)
        return f"about {words}" if one.is_bound else f"more than {words}"
    words = count_text(total, one.one, one.several)
    return f"at most {words}" if one.is_bound and total else words
