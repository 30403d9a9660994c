"""Metrics as Prometheus reads them, for who knows the token."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone

from recovery_ops.control.core.errors import problem
from recovery_ops.control.self_monitoring.readings import Reading, readings

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def metrics(request: HttpRequest) -> HttpResponse:
    """Everything that is measured. 404 where no token is set, 401 for who does not know it."""
    if request.method not in ("GET", "HEAD"):
        answer = problem(405, "method_not_allowed", "The method is not allowed; use GET.")
        answer["Allow"] = "GET, HEAD"
        return answer
    token = settings.METRICS_TOKEN
    if not token:
        raise Http404("Metrics are disabled; set RECOVERY_OPS_METRICS_TOKEN.")
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not secrets.compare_digest(given.encode(), token.encode()):
        refused = problem(401, "not_signed_in", "Send the header `Authorization: Bearer <token>`.")
        refused["WWW-Authenticate"] = "Bearer"
        return refused
    text = exposition(readings(timezone.now()))
    return HttpResponse(text, content_type=CONTENT_TYPE, headers={"Cache-Control": "no-store"})


def exposition(found: Iterable[Reading]) -> str:
    """The text format 0.0.4. Names of environments come from people, so labels are escaped."""
    lines = []
    for one in found:
        lines += [f"# HELP {one.name} {one.help}", f"# TYPE {one.name} {one.kind}"]
        lines += [f"{one.name}{_labels(labels)} {value:.15g}" for labels, value in one.points]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    said = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{said}}}" if said else ""
