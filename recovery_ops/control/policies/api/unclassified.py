"""The machines' door to causes that nobody could name."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.pagination import page_of, paged
from recovery_ops.control.core.api.requests import COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.rejections import NOT_FOUND, CommandRejected
from recovery_ops.control.policies import unclassified_serializers as documents_unclassified
from recovery_ops.control.policies.services.unclassified import LOOK_BACK, dismiss_cause, propose_rule, reopen_cause
from recovery_ops.control.policies.unclassified import draft_of, inbox, preview_of


class Unclassified(ApiView):
    """`GET /api/v1/failures/unclassified`: unknown failures of the last 7 days, each with a draft rule."""

    asks = paged()

    def get(self, request: Request) -> Response:
        now = timezone.now()
        found = inbox(self.environment, now=now)
        shown, further = page_of(request, found.items, lambda one: (one.cause.fingerprint,), (str,))
        answer = {
            "environment": self.environment,
            "causes": [documents_unclassified.unclassified_item_document(one) for one in shown],
            "next": further,
            "since": documents_unclassified.moment_text(now - LOOK_BACK),
            "is_cut": False,
        }
        return Response(answer)


class CheckRule(ApiView):
    """`POST /api/v1/failures/unclassified/check` `rule`: failures of the last 7 days that the rule matches."""

    is_reading = True
    takes = {"POST": BodySpec({"rule": dict}, needed=("rule",))}

    def post(self, request: Request) -> Response:
        found, faults = preview_of(self.environment, self.body(request)["rule"], now=timezone.now())
        if found is None:
            told = "; ".join(f"{path or 'it'} {fault}" for path, fault in faults.items())
            fields = {f"rule.{path}": one for path, one in faults.items()}
            raise CommandRejected("invalid", f"The rule is invalid: {told}.", fields=fields)
        return Response({"environment": self.environment, **documents_unclassified.matched_document(found)})


class ProposeRule(ApiView):
    """`POST /api/v1/failures/unclassified/<fingerprint>/propose`: draft a proposal with a rule.

    `rule` is one of the policy's section `classification`; without it the narrowest match under `category`.
    """

    takes = {"POST": BodySpec(COMMAND_FIELDS | {"rule": dict, "category": str})}

    def post(self, request: Request, fingerprint: str) -> Response:
        body = self.body(request)
        rule = body.get("rule")
        if rule is None:
            rule = self._drafted(fingerprint)
        if "category" in body:
            rule = {**rule, "category": body["category"]}
        elif "rule" not in body:
            detail = "The category is unknown; set `category` or a whole `rule`."
            raise CommandRejected("invalid", detail, fields={"category": "is missing"})
        done = propose_rule(**self.asked(request, body), fingerprint=fingerprint, rule=rule)
        return Response(documents.result_document(done))

    def _drafted(self, fingerprint: str) -> dict[str, Any]:
        found = inbox(self.environment, now=timezone.now()).items
        item = next((one for one in found if one.cause.fingerprint == fingerprint), None)
        if item is None:
            detail = f"{self.environment} has no unknown failure with this fingerprint in the last 7 days."
            raise CommandRejected("unknown_cause", detail, status=NOT_FOUND, fields={"fingerprint": "is unknown"})
        return draft_of(item)


class LeaveCause(ApiView):
    """`POST /api/v1/failures/unclassified/<fingerprint>/dismiss`, `/reopen`: dismiss the failure, or reopen it."""

    verb = ""
    takes = {"POST": BodySpec(COMMAND_FIELDS)}

    def post(self, request: Request, fingerprint: str) -> Response:
        asked = self.asked(request, self.body(request))
        act = dismiss_cause if self.verb == "dismiss" else reopen_cause
        return Response(documents.result_document(act(**asked, fingerprint=fingerprint)))
