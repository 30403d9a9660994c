"""`POST /v1/opamp`: the door for standard OpAMP clients, which take the desired state as their remote configuration."""

from __future__ import annotations

import logging

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from events.keys import KeyBusy, KeyRefused, KeyStoreAway, authenticate
from events.otlp.bodies import BodyRefused, Room, inflate
from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.environment import origin_of
from recovery_ops.control.desired_state import stream
from recovery_ops.control.desired_state.opamp import messages
from recovery_ops.control.desired_state.opamp.agents import Away, answer
from recovery_ops.control.desired_state.status import newest

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/x-protobuf"
RETRY_AFTER_S = 30
"""What OpAMP asks clients to wait at least."""
_ENCODINGS = ("", "identity", "gzip")
_room = Room(4 * settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


@login_not_required
@csrf_exempt
def opamp(request: HttpRequest) -> HttpResponse:
    """Answer one message. Never a redirect, a page or a 500: a client would take each of them for something else."""
    try:
        return _answered(request)
    except KeyBusy as busy:
        return _problem(busy.status, "too_often", busy.message, {"Retry-After": str(RETRY_AFTER_S)})
    except KeyRefused as refusal:
        challenge = {"WWW-Authenticate": "Bearer"} if refusal.status == 401 else {}
        return _problem(refusal.status, "key_refused", refusal.message, challenge)
    except BodyRefused as refusal:
        retry = {"Retry-After": str(RETRY_AFTER_S)} if refusal.status == 503 else {}
        return _problem(refusal.status, "body_refused", refusal.reason, retry)
    except (Away, KeyStoreAway) as error:
        logger.info("OpAMP client rejected, retry requested: %r", error)
    except Exception:  # whatever it is, a client that is told to come again loses nothing
        logger.exception("OpAMP message failed")
    later = {"Retry-After": str(RETRY_AFTER_S)}
    return _problem(503, "away", "Internal server error. Retry in 30 seconds.", later)


def _answered(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _problem(405, "method_not_allowed", "Method not allowed; use POST.", {"Allow": "POST"})
    key = authenticate(request.headers.get("Authorization"), stream.SCOPE, origin_of(request)["ip"])
    if set(request.GET.getlist("environment")) - {key.environment, ""}:
        return _problem(400, "invalid", f"The key belongs to {key.environment}; omit `environment`.")
    if request.content_type != MEDIA_TYPE:
        return _problem(415, "unsupported", f"Content-Type must be {MEDIA_TYPE}.")
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        return _problem(415, "unsupported", "Content-Encoding must be gzip or absent.")
    try:
        report = messages.parse(_body(request, encoding))
    except messages.Malformed as fault:
        reply = messages.Reply(uid=b"", error=(messages.BAD_REQUEST, str(fault)))
    else:
        reply = answer(key.environment, report, newest(key.environment).snapshot, now=timezone.now())
    return HttpResponse(messages.encode(reply), content_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


def _body(request: HttpRequest, encoding: str) -> bytes:
    if encoding != "gzip":
        return request.body
    with _room.share() as share:
        try:
            return inflate(request.body, "gzip", share, most_bytes=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        except BodyRefused as refusal:
            if refusal.status == 400:
                raise messages.Malformed(refusal.reason) from refusal
            raise


def _problem(status: int, code: str, detail: str, headers: dict[str, str] | None = None) -> HttpResponse:
    problem = documents.problem_document(status, code, detail)
    told = JsonResponse(problem, status=status, content_type="application/problem+json", headers=headers or {})
    told["Cache-Control"] = "no-store"
    return told
