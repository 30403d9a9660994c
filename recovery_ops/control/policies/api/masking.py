"""The machines' door to masking rules: read, try, replace."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from recovery_ops.control.core import serializers as documents
from recovery_ops.control.core.api.requests import BREAK_GLASS_FIELDS, COMMAND_FIELDS, ApiView, BodySpec
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.policies.masking import TESTED_CHARS, Tested, live_masking, tested
from recovery_ops.control.policies.services.masking import propose_masking, said_of, set_masking
from recovery_ops.rules.policy.masking_rules import masking_document, parse_masking

_SECTION: dict[str, type] = {"rules": list, "attributes": list}


class MaskingRules(ApiView):
    """`/api/v1/policies/masking`: GET the masking rules on top of the default masking, PUT to replace them.

    A rule is `{"name", "pattern", "replacement"}`; `attributes` are names whose values are never stored. `propose`
    drafts a proposal instead of a release.
    """

    takes = {
        "PUT": BodySpec(
            COMMAND_FIELDS | _SECTION | {"propose": bool} | BREAK_GLASS_FIELDS, needed=("rules", "attributes")
        ),
    }

    def get(self, request: Request) -> Response:
        revision = current_revision(self.environment)
        return self.seen_at({"masking": masking_document(live_masking(self.environment))}, revision)

    def put(self, request: Request) -> Response:
        body = self.body(request)
        asked: Any = {**self.asked(request, body), "rules": body["rules"], "attributes": body["attributes"]}
        done = propose_masking(**asked) if body.get("propose") else set_masking(**asked)
        return Response(documents.result_document(done))


class CheckMasking(ApiView):
    """`POST /api/v1/policies/masking/check` `sample`: the text after masking; without `rules`, by the live ones."""

    is_reading = True
    takes = {"POST": BodySpec(_SECTION | {"sample": str}, needed=("sample",))}

    def post(self, request: Request) -> Response:
        body = self.body(request)
        if len(body["sample"]) > TESTED_CHARS:
            raise CommandRejected(
                "invalid",
                f"sample has more than {TESTED_CHARS} characters; use a shorter text.",
                fields={"sample": f"has more than {TESTED_CHARS} characters"},
            )
        masking = live_masking(self.environment)
        if "rules" in body or "attributes" in body:
            section, faults = said_of(body.get("rules", []), body.get("attributes", []))
            if faults:
                told = "; ".join(f"{path} {fault}" for path, fault in faults.items())
                raise CommandRejected("invalid", f"The masking rules are invalid: {told}.", fields=faults)
            masking = parse_masking(section, "masking", [])
        return Response({"environment": self.environment, **of_tested(tested(masking, body["sample"]))})


def of_tested(found: Tested) -> dict[str, Any]:
    """What is left of a text, and which rule hid what."""
    return {
        "text": found.text,
        "pieces": [{"text": piece.text, "rule": piece.rule or None} for piece in found.pieces],
        "hidden": [{"rule": rule, "times": times} for rule, times in found.hidden],
    }
