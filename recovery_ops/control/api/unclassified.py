"""The machines' door to causes that nobody could name."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control import documents
from recovery_ops.control.actions.unclassified import dismiss_cause, propose_rule, reopen_cause
from recovery_ops.control.api.paging import page_of, paged
from recovery_ops.control.api.requests import WHY, Api, Takes
from recovery_ops.control.documents import unclassified as documents_unclassified
from recovery_ops.control.refusals import UNKNOWN, Refused
from recovery_ops.control.unclassified import draft_of, inbox, preview_of


class Unclassified(Api):
    """`GET /api/v1/failures/unclassified`: unknown causes of the last seven days by name, each with a draft rule."""

    asks = paged()

    def get(self, request: Request) -> Response:
        found = inbox(self.environment, now=timezone.now())
        shown, further = page_of(request, found.items, lambda one: (one.cause.fingerprint,), (str,))
        answer = {
            "environment": self.environment,
            "causes": [documents_unclassified.of_item(one) for one in shown],
            "next": further,
            "since": documents_unclassified.moment_text(found.causes.since),
            "is_cut": found.causes.is_cut,
        }
        return Response(answer)


class CheckRule(Api):
    """`POST /api/v1/failures/unclassified/check` `rule`: which of the last seven days' failures it would match."""

    is_reading = True
    takes = {"POST": Takes({"rule": dict}, needed=("rule",))}

    def post(self, request: Request) -> Response:
        found, faults = preview_of(self.environment, self.body(request)["rule"], now=timezone.now())
        if found is None:
            told = "; ".join(f"{path or 'it'} {fault}" for path, fault in faults.items())
            fields = {f"rule.{path}": one for path, one in faults.items()}
            raise Refused("invalid", f"That is no rule: {told}.", fields=fields)
        return Response({"environment": self.environment, **documents_unclassified.of_matched(found)})


class ProposeRule(Api):
    """`POST /api/v1/failures/unclassified/<fingerprint>/propose`: draft a proposal with a rule.

    `rule` is one of the policy's section `classification`; without it the narrowest match under `category`.
    """

    takes = {"POST": Takes(WHY | {"rule": dict, "category": str})}

    def post(self, request: Request, fingerprint: str) -> Response:
        body = self.body(request)
        rule = body.get("rule")
        if rule is None:
            rule = self._drafted(fingerprint)
        if "category" in body:
            rule = {**rule, "category": body["category"]}
        elif "rule" not in body:
            detail = "Say what it is: `category`, or a whole `rule`. Nobody knows it but you."
            raise Refused("invalid", detail, fields={"category": "is missing"})
        done = propose_rule(**self.asked(request, body), fingerprint=fingerprint, rule=rule)
        return Response(documents.of_done(done))

    def _drafted(self, fingerprint: str) -> dict[str, Any]:
        found = inbox(self.environment, now=timezone.now()).items
        item = next((one for one in found if one.cause.fingerprint == fingerprint), None)
        if item is None:
            detail = f"No failure of the last 7 days in {self.environment} is unknown under this fingerprint."
            raise Refused("unknown_cause", detail, status=UNKNOWN, fields={"fingerprint": "is not known"})
        return draft_of(item)


class LeaveCause(Api):
    """`POST /api/v1/failures/unclassified/<fingerprint>/dismiss`, `/reopen`: leave it unknown, or let it wait again."""

    verb = ""
    takes = {"POST": Takes(WHY)}

    def post(self, request: Request, fingerprint: str) -> Response:
        asked = self.asked(request, self.body(request))
        act = dismiss_cause if self.verb == "dismiss" else reopen_cause
        return Response(documents.of_done(act(**asked, fingerprint=fingerprint)))
