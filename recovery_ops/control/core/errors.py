"""What is answered when nothing else can be: a page to people, a problem document to programs.

A database that is away is not a fault in the code.
"""

from __future__ import annotations

import sys
from urllib.parse import quote

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.urls import is_valid_path
from django.utils import timezone
from django.views import defaults
from django.views.csrf import csrf_failure

from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.rejections import CommandRejected

RETRY_AFTER_S = 5
_OF_PROGRAMS = ("/api", "/v1", "/metrics")


def malformed(request: HttpRequest, exception: Exception) -> HttpResponse:
    """400: a request that cannot be what it says it is."""
    if _is_api(request):
        return problem(400, "invalid", "The request is malformed.")
    return defaults.bad_request(request, exception)


def refused(request: HttpRequest, exception: Exception) -> HttpResponse:
    """403, with the reason that was given."""
    if _is_api(request):
        return problem(403, "forbidden", str(exception) or "Your role lacks the permission.")
    _note(request, exception)
    return defaults.permission_denied(request, exception)


def _note(request: HttpRequest, exception: Exception) -> None:
    """Write a rejected form to the audit log of the user's environment. What an action rejects, it notes itself."""
    if (
        request.method != "POST"
        or not request.user.is_authenticated
        or isinstance(exception.__cause__, CommandRejected)
    ):
        return
    visit = visit_of(request)
    if visit.grants.may("see", visit.environment):
        deed = audit.AuditRecord(verb="form.send", object=quote(request.path), code="forbidden")
        audit.append(visit.environment, deed, by=actor_of(request), at=timezone.now())


def forged(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403: a form that did not come from a page of ours."""
    if _is_api(request):
        return problem(403, "forbidden", "This address accepts no forms.")
    return csrf_failure(request, reason)


def missing(request: HttpRequest, exception: Exception) -> HttpResponse:
    """404 for an address that leads nowhere; a page that was asked for with a slash at its end is shown without."""
    if _is_api(request):
        said = exception.args[0] if exception.args else None
        told = said if isinstance(said, str) else "The address does not exist. The API starts at /api/v1/."
        return problem(404, "not_found", told)
    shorter = request.path.rstrip("/")
    if shorter and shorter != request.path and request.method == "GET" and is_valid_path(shorter):
        query = request.META.get("QUERY_STRING", "")
        return HttpResponseRedirect(f"/{shorter.lstrip('/')}{'?' if query else ''}{query}")
    return defaults.page_not_found(request, exception)


def failed(request: HttpRequest) -> HttpResponse:
    """Answer 503 while the database is away, else 500. Nothing here may ask the database again."""
    is_away = isinstance(sys.exc_info()[1], OperationalError | InterfaceError)
    status = 503 if is_away else 500
    if _is_api(request):
        away, fault = "The database is unavailable.", "The server failed; the server log has the details."
        answer = problem(status, "away" if is_away else "internal", away if is_away else fault)
    else:
        answer = HttpResponse(render_to_string(f"{status}.html", {"request": request}), status=status)
        answer["Cache-Control"] = "no-store"
    if is_away:
        answer["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def is_of_programs(path: str) -> bool:
    """Whether programs ask here: they are answered problem documents, and never sent elsewhere."""
    return path.startswith(tuple(f"{one}/" for one in _OF_PROGRAMS)) or path in _OF_PROGRAMS


def _is_api(request: HttpRequest) -> bool:
    return is_of_programs(request.path)


def problem(status: int, code: str, detail: str) -> HttpResponse:
    """A problem document, without asking anything of the request."""
    document = documents.problem_document(status, code, detail)
    answer = JsonResponse(document, status=status, content_type="application/problem+json")
    answer["Cache-Control"] = "no-store"
    return answer
