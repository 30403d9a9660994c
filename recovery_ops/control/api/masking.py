"""The machines' door to masking rules: read, try, replace."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control import documents
from recovery_ops.control.actions.masking import propose_masking, said_of, set_masking
from recovery_ops.control.api.requests import GLASS, WHY, Api, Takes
from recovery_ops.control.desired import current_revision
from recovery_ops.control.masking import TESTED_CHARS, Tested, live_masking, tested
from recovery_ops.control.refusals import Refused
from recovery_ops.rules.masking_rules import masking_document, parse_masking

_SECTION: dict[str, type] = {"rules": list, "attributes": list}


class MaskingRules(Api):
    """`/api/v1/policies/masking`: GET what is masked beside what is masked anyway, PUT to replace it.

    A rule is `{"name", "pattern", "replacement"}`; `attributes` are names of which no value is kept. With `propose` a
    proposal is drafted instead of a release.
    """

    takes = {
        "PUT": Takes(WHY | _SECTION | {"propose": bool} | GLASS, needed=("reason", "rules", "attributes")),
    }

    def get(self, request: Request) -> Response:
        revision = current_revision(self.environment)
        return self.seen_at({"masking": masking_document(live_masking(self.environment))}, revision)

    def put(self, request: Request) -> Response:
        body = self.body(request)
        asked: Any = {**self.asked(request, body), "rules": body["rules"], "attributes": body["attributes"]}
        done = propose_masking(**asked) if body.get("propose") else set_masking(**asked)
        return Response(documents.of_done(done))


class CheckMasking(Api):
    """`POST /api/v1/policies/masking/check` `sample`: what rules would leave of it; without `rules`, the live ones."""

    is_reading = True
    takes = {"POST": Takes(_SECTION | {"sample": str}, needed=("sample",))}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        if len(body["sample"]) > TESTED_CHARS:
            raise Refused("invalid", f"At most {TESTED_CHARS} characters are tried.", fields={"sample": "is too long"})
        masking = live_masking(self.environment)
        if "rules" in body or "attributes" in body:
            section, faults = said_of(body.get("rules", []), body.get("attributes", []))
            if faults:
                told = "; ".join(f"{path} {fault}" for path, fault in faults.items())
                raise Refused("invalid", f"These are no masking rules: {told}.", fields=faults)
            masking = parse_masking(section, "masking", [])
        return Response({"environment": self.environment, **of_tested(tested(masking, body["sample"]))})


def of_tested(found: Tested) -> dict[str, Any]:
    """What is left of a text, and which rule hid what."""
    return {
        "text": found.text,
        "pieces": [{"text": piece.text, "rule": piece.rule or None} for piece in found.pieces],
        "hidden": [{"rule": rule, "times": times} for rule, times in found.hidden],
    }
