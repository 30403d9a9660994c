"""The desired state for agents that ask for it instead of following the stream: one document, and an ETag."""

from __future__ import annotations

import time

from django.contrib.auth.decorators import login_not_required
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from events.keys import KeyBusy, KeyRefused, KeyStoreAway, authenticate
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.environment import origin_of
from recovery_ops.control.desired_state import stream
from recovery_ops.control.desired_state.document import read


@login_not_required
@csrf_exempt
def desired(request: HttpRequest) -> HttpResponse:
    """`GET /api/v1/desired?service=&instance=&group=` with a key of permission `desired`; 304 if nothing changed."""
    if request.method != "GET":
        return _problem(405, "method_not_allowed", "Method not allowed; use GET.", {"Allow": "GET"})
    try:
        key = authenticate(request.headers.get("Authorization"), stream.SCOPE, origin_of(request)["ip"])
        who = stream.who_of(dict(request.GET.lists()), key.environment)
        snapshot = read(key.environment)
    except KeyBusy as busy:
        return _problem(busy.status, "too_often", busy.message, {"Retry-After": str(busy.retry_after_s)})
    except KeyRefused as refusal:
        challenge = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
        return _problem(refusal.status, "key_refused", refusal.message, challenge)
    except stream.Refused as refusal:
        return _problem(refusal.status, "invalid", refusal.detail)
    except (KeyStoreAway, OperationalError, InterfaceError):
        return _problem(503, "away", "The database is unavailable. Retry in a second.", {"Retry-After": "1"})
    document = snapshot.document(snapshot.reach(who), issued_at=time.time())
    # Weak: `issued_at` differs from answer to answer, and asks for nothing.
    tag = f'W/"{snapshot.revision}-{document["config_hash"]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if tag in _tags(request.headers.get("If-None-Match", "")):
        return HttpResponse(status=304, headers=headers)
    return JsonResponse(document, headers=headers)


def _tags(header: str) -> set[str]:
    """The tags of an If-None-Match header, all as weak ones, which is how GET compares them."""
    return {"W/" + tag.strip().removeprefix("W/") for tag in header.split(",")}


def _problem(status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> HttpResponse:
    problem = documents.problem_document(status, code, detail)
    answer = JsonResponse(problem, status=status, content_type="application/problem+json", headers=headers or {})
    answer["Cache-Control"] = "no-store"
    return answer
