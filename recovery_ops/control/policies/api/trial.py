"""The machines' door to a failure tried under the live policy and a draft."""

from __future__ import annotations

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.core.api.requests import ApiView, BodySpec
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.serializers import Document
from recovery_ops.control.policies.trial import Pasted, Under, told_of
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS

_FIELDS: dict[str, type] = {
    "text": str,
    "status": int,
    "operation": str,
    "service": str,
    "kind": str,
    "is_foreground": bool,
    "is_repeatable": bool,
}


class CheckFailure(ApiView):
    """`POST /api/v1/failures/check`: classification of an error (`text`), and its recovery steps.

    The text is a message, a traceback, a JSON body, an HTTP response or an OTLP log record as JSON. `draft` is the
    number of a proposal to compare with the live policy. Assumes that every attempt fails with this error at once;
    breakers, fallbacks in the code and answers of users are unknown. Writes nothing; the key permission `read` is
    enough.
    """

    is_reading = True
    takes = {"POST": BodySpec(_FIELDS | {"draft": int}, needed=("text",))}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        if body.get("kind", "operation") not in BUILT_IN_DEFAULTS:
            fault = f"must be one of {', '.join(BUILT_IN_DEFAULTS)}"
            raise CommandRejected(
                "invalid", f"kind must be one of {', '.join(BUILT_IN_DEFAULTS)}.", fields={"kind": fault}
            )
        asked = Pasted(**{name: body[name] for name in _FIELDS if name in body})
        told = told_of(self.environment, asked, draft=body.get("draft"), now=timezone.now())
        return Response(
            {
                "environment": self.environment,
                "read_as": told.read_as,
                "policies": [_of_policy(one) for one in told.policies],
            }
        )


def _of_policy(one: Under) -> Document:
    failure, found = one.failure, one.foreseen
    return {
        "policy": one.name,
        "category": failure.category.value,
        "evidence": failure.evidence.value,
        "rule": failure.rule,
        "instead_of": None if failure.instead_of is None else failure.instead_of.value,
        "status_code": failure.status_code,
        "error_type": failure.error_type,
        "retry_after_s": failure.retry_after_s,
        "fingerprint": failure.fingerprint,
        "retries": [
            {
                "attempt": wait.attempt,
                "least_s": wait.least_s,
                "most_s": wait.most_s,
                "source": wait.source.value,
                "adjustment": None if wait.adjustment is None else wait.adjustment.value,
            }
            for wait in found.waits
        ],
        "no_more_because": found.reason or None,
        "rungs": [rung.value for rung in found.rungs],
        "queue": found.queue or None,
    }
