"""A failure that a person pastes: what the live policy and a draft make of it, and what they would do next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.runs.rows import RUNG_WORDS
from events.wording import category_text, count_text, listing, span_text
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core.forms import add_errors
from recovery_ops.control.core.numbers import NumberField
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.policies.trial import TEXT_CHARS, Pasted, Told, Under, told_of
from recovery_ops.rules.enums import Adjustment, DelaySource, Rung
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS
from recovery_ops.rules.resilience.forecast import Foreseen, Wait

_DRAFTS_MOST = 50
_WAITS_TOLD = 6
FOREGROUND, BACKGROUND = "foreground", "background"
WHY_NOT = {
    "attempts": "the policy’s limit of attempts is reached",
    "not_retryable": "failures of this category are not retried",
    "exhausted_inside": "a guard inside the call has already used its retries",
    "capacity_in_background": "background work does not retry capacity errors",
    "capacity_not_retried": "the policy does not retry capacity errors",
    "server_said_no": "the server forbids a retry",
    "may_do_harm_twice": "the call is not safe to repeat",
    "overflow_not_fixable": "the excess length is unknown, or leaves no room for an answer",
    "already_tried": "the only adjustment was already tried",
    "fallback_ready": "a fallback or another model answers sooner",
    "retry_budget": "the retry budget of the last 10 s is used up",
    "deadline": "the retry would miss the deadline of the step",
    "cancelled": "the caller cancelled the call",
    "shed": "the policy sheds such work before the call",
    "stopped_by_operator": "an operator stopped the agent",
    "gate_closed": "a Retry-After is in effect, and a fallback answers sooner",
}
"""Why no retry follows, by the word of the rules."""
_FIRST = {
    Adjustment.REFRESH_CREDENTIALS: "with new credentials",
    Adjustment.REFRESH_EVIDENCE: "with fresh evidence",
    Adjustment.MAX_TOKENS: "with a smaller answer",
    Adjustment.DISABLE_KEEPALIVE: "over a new connection",
}


class PastedForm(forms.Form):
    """An error, where it happened, and who waits for the call."""

    text = forms.CharField(max_length=TEXT_CHARS, error_messages={"required": "The error is empty; paste one."})
    status = NumberField(required=False, min_value=100, max_value=599)
    operation = forms.CharField(max_length=200, required=False)
    service = forms.CharField(max_length=200, required=False)
    kind = forms.ChoiceField(choices=[(one, one) for one in BUILT_IN_DEFAULTS], required=False)
    waits = forms.ChoiceField(choices=[(FOREGROUND, FOREGROUND), (BACKGROUND, BACKGROUND)], required=False)
    once = forms.BooleanField(required=False)
    draft = NumberField(required=False, min_value=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One policy's verdict: facts about the failure, and the steps that follow, each a rung and its words."""

    name: str
    foreseen: Foreseen
    facts: list[tuple[str, str]]
    steps: list[tuple[str, str]]


@require_http_methods(["GET", "POST"])
def trying(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The form; sent, the form with the verdicts below it. Nothing is stored, and nothing stands in an address."""
    drafts = PolicyProposal.objects.filter(environment=environment, state__in=PolicyProposal.OPEN)
    context: dict[str, Any] = {
        "now": timezone.now(),
        "drafts": drafts.order_by("-number").values_list("number", "title")[:_DRAFTS_MOST],
        "kinds": list(BUILT_IN_DEFAULTS),
    }
    if request.method == "GET":
        prefilled = {name: request.GET.get(name, "")[:200] for name in ("operation", "service", "kind", "draft")}
        return render_page(request, "policies/policy_try", context | {"form": PastedForm(initial=prefilled)})
    form = PastedForm(request.POST)
    if not form.is_valid():
        return render_page(request, "policies/policy_try", context | {"form": form}, status=UNPROCESSABLE)
    said = form.cleaned_data
    try:
        told = told_of(environment, _asked(said), draft=said["draft"], now=context["now"])
    except CommandRejected as rejection:
        add_errors(form, rejection.fields)
        context |= {"form": form, "problem": rejection.detail}
        return render_page(request, "policies/policy_try", context, status=rejection.status)
    return render_page(request, "policies/policy_try", context | {"form": form, **_shown(told)})


def _asked(said: dict[str, Any]) -> Pasted:
    return Pasted(
        text=said["text"],
        status=said["status"],
        operation=said["operation"],
        service=said["service"],
        kind=said["kind"] or "operation",
        is_foreground=said["waits"] != BACKGROUND,
        is_repeatable=not said["once"],
    )


def _shown(told: Told) -> dict[str, Any]:
    policies = [
        Shown(name=one.name, foreseen=one.foreseen, facts=list(_facts(one)), steps=list(_steps(one.foreseen)))
        for one in told.policies
    ]
    first = policies[0]
    is_same = all((one.facts, one.steps) == (first.facts, first.steps) for one in policies[1:])
    return {"read_as": told.read_as, "verdicts": policies, "is_same": len(policies) > 1 and is_same}


def _facts(one: Under) -> Iterable[tuple[str, str]]:
    failure = one.failure
    yield "Category", category_text(failure.category)
    yield "Evidence", failure.evidence.value.replace("_", " ")
    if failure.rule is not None and failure.instead_of is not None:
        yield "Rule", f"{failure.rule}, instead of {failure.instead_of.value}"
    yield "Status", "none" if failure.status_code is None else str(failure.status_code)
    yield "Error type", failure.error_type
    if failure.code:
        yield "Code", failure.code
    if failure.retry_after_s is not None:
        yield "Retry after", span_text(failure.retry_after_s)
    yield "Fingerprint", failure.fingerprint


def _steps(found: Foreseen) -> Iterable[tuple[str, str]]:
    yield RUNG_WORDS[Rung.RETRY], _retries(found)
    for rung in found.rungs:
        if rung is Rung.ASK:
            first = " as the first step" if found.is_asked_first else ""
            yield RUNG_WORDS[rung], f"escalation to the queue {found.queue}{first}; similar ones are grouped"
        elif rung is Rung.FALLBACK:
            yield RUNG_WORDS[rung], "fallbacks that the agent\u2019s code declares, in the order of the policy"
        elif rung is Rung.DEGRADE:
            yield RUNG_WORDS[rung], "a reduced result, or none, if the agent\u2019s code allows it"
        else:
            yield RUNG_WORDS[rung], "the call fails and reports the reason to the run"


def _retries(found: Foreseen) -> str:
    why = "" if found.is_cut else f"{WHY_NOT.get(found.reason, found.reason)}."
    if not found.waits:
        return f"none: {why}"
    told = listing([_wait(one) for one in found.waits], most=_WAITS_TOLD)
    if found.is_cut:
        return f"unlimited attempts, first {told}"
    return f"{count_text(len(found.waits), 'retry', 'retries')}: {told}. Then none: {why}"


def _wait(one: Wait) -> str:
    least, most = _seconds(one.least_s), _seconds(one.most_s)
    span = least if least == most else f"{least}–{most}"
    asked = " (Retry-After)" if one.source is DelaySource.RETRY_AFTER else ""
    changed = f", {_FIRST[one.adjustment]}" if one.adjustment is not None else ""
    return f"at once{changed}" if not one.most_s else f"after {span} s{asked}{changed}"


def _seconds(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
