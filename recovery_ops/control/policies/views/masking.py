"""What is masked: the rules of the live policy, edited and tried on a text before they hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.wording import count_text, listing
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.numbers import parse_number, parse_version
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.core.views.settings import UNPROCESSABLE, settings_page
from recovery_ops.control.policies.masking import TESTED_CHARS, Tested, live_masking, recent_texts, tested
from recovery_ops.control.policies.services.masking import propose_masking, said_of, set_masking
from recovery_ops.control.policies.services.review import is_review_needed
from recovery_ops.rules.classification.redaction import MASK
from recovery_ops.rules.policy.masking_patterns import PATTERN_CHARS
from recovery_ops.rules.policy.masking_rules import (
    MOST_RULES,
    NAME_CHARS,
    REPLACEMENT_CHARS,
    Masking,
    masking_document,
    parse_masking,
)

_PARTS = ("name", "pattern", "replacement")
_LABELS = {"name": "Name", "pattern": "Pattern", "replacement": "Replacement"}
_LENGTHS = {"name": NAME_CHARS, "pattern": PATTERN_CHARS, "replacement": REPLACEMENT_CHARS}
_RULE = re.compile(r"rule\.([0-9]{1,3})\.[a-z]+").fullmatch
_SETS, _PROPOSES, _CHECKS = "set", "propose", "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a rule as it is shown."""

    name: str
    label: str
    value: str
    most: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """What stands in the form."""

    section: Mapping[str, Any]
    sample: str = ""
    faults: Mapping[str, str]

    @property
    def masking(self) -> Masking:
        """The rules that can be read; the others hide nothing while they are typed."""
        rows = [
            row
            for index, row in enumerate(self.section["rules"])
            if not any(path.startswith(f"rules[{index}]") for path in self.faults)
        ]
        return parse_masking({"rules": rows, "attributes": []}, "masking", [])


@require_http_methods(["GET", "POST"])
def masking(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The rules and the tester. POST `act`: `check` tries what is typed, `set` releases it, `propose` drafts it."""
    if request.method == "GET":
        section = masking_document(live_masking(environment))
        typed = Typed(section=section, sample=_sample(request, environment), faults={})
        return _page(request, environment, typed, ReasonForm(initial={"key": new_key()}))
    act = request.POST.get("act", _CHECKS)
    typed = _typed(request, environment)
    form = ReasonForm(request.POST, is_reason_needed=act == _SETS and needs_reason("masking.set", environment))
    if act not in (_SETS, _PROPOSES):
        form.full_clean()
        form.errors.clear()  # nobody has to say why they look
        return _page(request, environment, typed, form)
    permission = "propose_policy" if act == _PROPOSES else "edit_policy"
    if not visit_of(request).grants.may(permission, environment):
        raise PermissionDenied(f"Your role lacks the permission to change masking rules in {environment}.")
    if not form.is_valid() or typed.faults:
        return _page(request, environment, typed, form, status=UNPROCESSABLE)
    return _carried_out(request, environment, typed, form, act)


def _carried_out(request: HttpRequest, environment: str, typed: Typed, form: ReasonForm, act: str) -> HttpResponse:
    asked: Any = {
        "by": actor_of(request),
        "environment": environment,
        "reason": form.cleaned_data["reason"],
        "key": form.cleaned_data["key"] or None,
        "rules": typed.section["rules"],
        "attributes": typed.section["attributes"],
    }
    try:
        if act == _PROPOSES:
            number = propose_masking(**asked).object.number
            return redirect_with_notice(
                request, reverse("proposal", args=[number]), f"Proposal {number} drafted with the rules."
            )
        done = set_masking(**asked, seen=parse_version(request.POST.get("seen", "")))
    except CommandRejected as rejection:
        if rejection.status == 403 and rejection.code != "review_needed":
            raise PermissionDenied(rejection.detail) from rejection
        add_errors(form, rejection.fields)
        return _page(request, environment, typed, form, status=rejection.status, problem=rejection.detail)
    told = (
        "The rules are already live; nothing changed."
        if done.was_already
        else f"Policy {done.object.version} is live: {done.object.summary}."
    )
    return redirect_with_notice(request, reverse("masking"), told)


def _typed(request: HttpRequest, environment: str) -> Typed:
    said = request.POST
    numbers = sorted({int(found[1]) for name in said if (found := _RULE(name))})
    rows = []
    for number in numbers[: MOST_RULES + 1]:
        row = {part: said.get(f"rule.{number}.{part}", "").strip() for part in _PARTS}
        if row["name"] or row["pattern"]:
            rows.append({**row, "replacement": row["replacement"] or MASK})
    attributes = [line.strip() for line in said.get("attributes", "").splitlines() if line.strip()]
    section, faults = said_of(rows, attributes)
    return Typed(section=section, sample=_sample(request, environment), faults=faults)


def _sample(request: HttpRequest, environment: str) -> str:
    """The text to try: what was pasted or, where a fact was chosen, what that says."""
    chosen = request.POST.get("fact", "") or request.GET.get("fact", "")
    if (number := parse_number(chosen)) is not None:
        for row in recent_texts(environment, timezone.now()):
            if row.fact_id == number:
                return row.message
    return request.POST.get("sample", "").replace("\r\n", "\n")[:TESTED_CHARS]


def _page(
    request: HttpRequest, environment: str, typed: Typed, form: ReasonForm, *, status: int = 200, problem: str = ""
) -> HttpResponse:
    rows = [*typed.section["rules"]]
    found = tested(typed.masking, typed.sample) if typed.sample else None
    grants = visit_of(request).grants
    context = {
        "now": timezone.now(),
        "rows": [_fields(index, row, typed.faults) for index, row in enumerate(rows)],
        "new": _fields(len(rows), {}, {}) if len(rows) < MOST_RULES else [],
        "attributes": "\n".join(typed.section["attributes"]),
        "attribute_faults": [
            f"{path}: {fault}" for path, fault in typed.faults.items() if path.startswith("attributes")
        ],
        "other_faults": [f"{path}: {fault}" for path, fault in typed.faults.items() if path in ("rules", "document")],
        "sample": typed.sample,
        "sample_most": TESTED_CHARS,
        "tested": found,
        "told": "" if found is None else _words(found),
        "texts": recent_texts(environment, timezone.now()),
        "form": form,
        "problem": problem,
        "seen": request.POST.get("seen") or current_revision(environment),
        "may_edit": grants.may("edit_policy", environment),
        "is_review_needed": is_review_needed(environment),
        "sentence": _sentence(environment, live_masking(environment)),
    }
    return settings_page(request, "policies/masking", context, here="stored", status=status)


def _fields(index: int, row: Mapping[str, str], faults: Mapping[str, str]) -> list[Field]:
    whole = faults.get(f"rules[{index}]", "")
    return [
        Field(
            name=f"rule.{index}.{part}",
            label=_LABELS[part],
            value=str(row.get(part, "")),
            most=_LENGTHS[part],
            error=faults.get(f"rules[{index}].{part}", whole if part == "name" else ""),
        )
        for part in _PARTS
    ]


def _words(found: Tested) -> str:
    if not found.hidden:
        return "No part of this text is masked."
    return f"Masked: {listing([f'{rule} {times} ×' for rule, times in found.hidden], most=20)}."


def _sentence(environment: str, live: Masking) -> str:
    if not live:
        return f"{environment} has the default masking: keys and tokens of many vendors, passwords, headers, cookies."
    parts = [count_text(len(live.rules), "rule")] if live.rules else []
    parts += [f"{count_text(len(live.attributes), 'attribute')} fully masked"] if live.attributes else []
    return f"{environment} has {listing(parts, most=2)} in addition to the default masking."
