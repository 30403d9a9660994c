"""Failures that nobody could name: listed by cause, given a name by a proposed rule, or left so knowingly."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.failures.asking import is_known
from events.failures.unknown import Matched
from events.moments import to_us
from events.pages.rendering import render_page
from events.pages.table_files import Cell, is_asked, rows_answer
from events.wording import category_text, clock_text, count_text
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.pagination import page_of
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.policies.empty_states import no_unknown_cause, not_unknown_lately
from recovery_ops.control.policies.form import MATCH_HINTS
from recovery_ops.control.policies.services.unclassified import dismiss_cause, propose_rule, reopen_cause
from recovery_ops.control.policies.unclassified import (
    DISMISSED,
    NAMED,
    PROPOSED,
    WAITING,
    Inbox,
    Item,
    draft_of,
    inbox,
    preview_of,
)
from recovery_ops.rules.policy.classification_rules import MAY_BE_SAID, NAME_CHARS, PATTERN_CHARS, PATTERNS

STATE_WORDS = {WAITING: "open", PROPOSED: "proposed", DISMISSED: "dismissed", NAMED: "matched by a rule"}
MOST = 100
MOST_KNOWN = 20
_PATTERN_MOST = 400
_LATELY = timedelta(days=31)
"""A failure within so long has a page, though it is not among the unknown ones any more."""


class RuleForm(ReasonForm):
    """A rule for one cause; empty patterns are left out."""

    name = forms.CharField(max_length=NAME_CHARS, error_messages={"required": "Type a name for the rule."})
    category = forms.ChoiceField(
        choices=[("", "choose"), *((one.value, one.value.replace("_", " ")) for one in MAY_BE_SAID)],
        error_messages={"required": "Choose a category.", "invalid_choice": "Choose a category in the list."},
    )
    exception_type = forms.CharField(max_length=PATTERN_CHARS, required=False)
    code = forms.CharField(max_length=PATTERN_CHARS, required=False)
    message = forms.CharField(max_length=PATTERN_CHARS, required=False)
    operation = forms.CharField(max_length=PATTERN_CHARS, required=False)
    provider = forms.CharField(max_length=PATTERN_CHARS, required=False)

    def rule(self) -> dict[str, Any]:
        """What was typed, as a rule of the document."""
        typed = {name: str(self.data.get(name, "")).strip() for name in self.fields}
        match = {name: typed[name] for name in PATTERNS if typed[name]}
        category = {"category": typed["category"]} if typed["category"] else {}
        return {"name": typed["name"], "match": match, **category}


_COLUMNS = (
    *("fingerprint", "state", "failures", "runs", "instances", "first", "last", "operations", "providers"),
    *("exception type", "code", "message", "suggested", "because"),
)


def unclassified(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Causes of the last seven days that nobody could name, the most frequent first."""
    now = timezone.now()
    found = inbox(environment, now=now)
    if is_asked(request):
        return rows_answer(request, f"unclassified {environment}", _COLUMNS, map(_cells, found.items))
    page = page_of(request, found.of(WAITING), _place, (int, int, str), MOST)
    waiting, is_answered = page.rows, bool(found.items or found.quiet)
    context = {
        "now": now,
        "sentence": _sentence(found),
        "waiting": [(one, new_key()) for one in waiting],
        "page": page,
        "empty": None if waiting else no_unknown_cause(environment, is_answered=is_answered, now=now),
        "others": [(STATE_WORDS[one.state], one) for one in found.items if one.state != WAITING],
        "quiet": found.quiet,
    }
    return render_page(request, "policies/unclassified", context)


def _place(item: Item) -> tuple[int, int, str]:
    """The most frequent first."""
    return -item.cause.count, -to_us(item.cause.last), item.cause.fingerprint


@require_http_methods(["GET", "POST"])
def cause(request: HttpRequest, *, environment: str, fingerprint: str) -> HttpResponse:
    """One cause with a rule for it: POST `act` shows what the rule would match, proposes it, dismisses or reopens."""
    now = timezone.now()
    found = inbox(environment, now=now)
    item = next((one for one in found.items if one.cause.fingerprint == fingerprint), None)
    if request.method == "POST" and request.POST.get("act") in ("dismiss", "reopen"):
        return _left(request, environment, fingerprint, item)
    if item is None and request.method == "GET" and is_known(environment, fingerprint, since=now - _LATELY):
        context = {"fingerprint": fingerprint, "empty": not_unknown_lately(fingerprint)}
        return render_page(request, "policies/unclassified_none", context)
    if item is None:
        raise Http404(f"{environment} has no unknown failure {fingerprint[:80]} in the last 7 days.")
    if request.method == "POST" and request.POST.get("act") == "propose_at_once":
        return _proposed_at_once(request, environment, item)
    if request.method == "POST":
        return _named(request, environment, item)
    draft = draft_of(item)
    preview, _ = preview_of(environment, draft, now=now)
    return _page(request, item, _drafted(draft), preview=preview)


def _proposed_at_once(request: HttpRequest, environment: str, item: Item) -> HttpResponse:
    """Propose the narrowest rule as it is, to be edited in the draft; the form where no word says what it is."""
    if not visit_of(request).grants.may("propose_policy", environment):
        raise PermissionDenied(f"Your role lacks the permission to propose rules in {environment}.")
    draft, now = draft_of(item), timezone.now()
    form = _drafted(draft)
    if "category" not in draft:
        return _page(request, item, form, problem="No suggested category; choose one.", status=UNPROCESSABLE)
    pattern = ", ".join(f"{_label(name).lower()} {text}" for name, text in draft["match"].items())
    try:
        done = propose_rule(
            by=actor_of(request),
            environment=environment,
            reason=f"Proposed with one click by its pattern: {pattern}"[:_PATTERN_MOST],
            key=request.POST.get("key") or None,
            fingerprint=item.cause.fingerprint,
            rule=draft,
            now=now,
        )
    except CommandRejected as rejection:
        return _page(request, item, form, problem=rejection.detail, status=rejection.status)
    number = done.object.number
    notice = f"Proposal {number} drafted with the rule. Check it, then submit it for review."
    return redirect_with_notice(request, reverse("proposal", args=[number]), notice)


def _drafted(draft: Mapping[str, Any]) -> RuleForm:
    """The form with a first draft in it."""
    said = {"name": draft["name"], "category": draft.get("category", ""), **draft["match"]}
    return RuleForm(initial={**said, "key": new_key()})


def _named(request: HttpRequest, environment: str, item: Item) -> HttpResponse:
    """Show what the typed rule would match, or propose it."""
    if not visit_of(request).grants.may("propose_policy", environment):
        raise PermissionDenied(f"Your role lacks the permission to propose rules in {environment}.")
    form = RuleForm(request.POST)
    rule, now = form.rule(), timezone.now()
    preview, faults = preview_of(environment, rule, now=now)
    if request.POST.get("act") != "propose":
        form.full_clean()
        form.errors.pop("reason", None)  # nobody has to say why they look
        problem = _placed(form, faults)
        return _page(request, item, form, preview=preview, problem=problem, status=UNPROCESSABLE if faults else 200)
    if not form.is_valid() or faults:
        return _page(request, item, form, preview=preview, problem=_placed(form, faults), status=UNPROCESSABLE)
    try:
        done = propose_rule(
            by=actor_of(request),
            environment=environment,
            reason=form.cleaned_data["reason"],
            key=form.cleaned_data["key"] or None,
            fingerprint=item.cause.fingerprint,
            rule=rule,
            now=now,
        )
    except CommandRejected as rejection:
        rest = {path.rpartition(".")[2]: fault for path, fault in rejection.fields.items()}
        problem = " ".join([rejection.detail, *add_errors(form, rest)])
        return _page(request, item, form, preview=preview, problem=problem, status=rejection.status)
    number = done.object.number
    notice = f"Proposal {number} drafted with the rule. Replay it, then submit it for review."
    return redirect_with_notice(request, reverse("proposal", args=[number]), notice)


def _placed(form: RuleForm, faults: Mapping[str, str]) -> str:
    """Put faults of the rule beside their fields; what has none, in words."""
    rest = add_errors(form, {path.rpartition(".")[2]: f"This {fault}." for path, fault in faults.items()})
    return " ".join(one.removeprefix("match: ") for one in rest)


def _left(request: HttpRequest, environment: str, fingerprint: str, item: Item | None) -> HttpResponse:
    """Dismiss it, or let it wait again."""
    if not visit_of(request).grants.may("propose_policy", environment):
        raise PermissionDenied(f"Your role lacks the permission to dismiss failures in {environment}.")
    act = request.POST["act"]
    form = ReasonForm(request.POST)
    if not form.is_valid() and item is not None:
        return _page(request, item, _drafted(draft_of(item)), leaving=form, status=UNPROCESSABLE)
    try:
        (dismiss_cause if act == "dismiss" else reopen_cause)(
            by=actor_of(request),
            environment=environment,
            reason=request.POST.get("reason", ""),
            key=request.POST.get("key") or None,
            fingerprint=fingerprint,
            now=timezone.now(),
        )
    except CommandRejected as rejection:
        if rejection.status == 404:
            raise Http404(rejection.detail) from rejection
        return redirect_with_notice(request, reverse("unclassified"), rejection.detail)
    notice = "Failure dismissed; it stays unknown." if act == "dismiss" else "Failure reopened."
    return redirect_with_notice(request, reverse("unclassified"), notice)


def _page(
    request: HttpRequest,
    item: Item,
    form: RuleForm,
    *,
    preview: Matched | None = None,
    leaving: ReasonForm | None = None,
    problem: str = "",
    status: int = 200,
) -> HttpResponse:
    now = timezone.now()
    context = {
        "now": now,
        "item": item,
        "cause": item.cause,
        "case": item.cause.cases[0],
        "state": STATE_WORDS[item.state],
        "sentence": _telling(item, now),
        "form": form,
        "patterns": [(form[name], _label(name), MATCH_HINTS[name]) for name in PATTERNS],
        "suggested": category_text(item.suggestion.category) if item.suggestion is not None else "",
        "preview": preview,
        "preview_words": "" if preview is None else _preview_words(preview),
        "known": [] if preview is None else [(category_text(one), *rest) for one, *rest in preview.known[:MOST_KNOWN]],
        "wordings": list(dict.fromkeys(one.message for one in item.cause.cases))[:5],
        "leaving": leaving or ReasonForm(initial={"key": new_key()}),
        "problem": problem,
    }
    return render_page(request, "policies/unclassified_cause", context, status=status)


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _preview_words(found: Matched) -> str:
    """`Matches 14 of the 230 failures …: 12 unknown, 2 with another category.`"""
    total = found.unknown + found.known_count
    read = count_text(found.read, "failure")
    span = (
        f"the newest {read}, back to {found.since:%d %b %H:%M} UTC"
        if found.is_cut
        else f"the {read} of the last 7 days"
    )
    unknown = (
        f"{found.unknown:,} unknown, {count_text(found.causes, 'fingerprint')}" if found.unknown else "none unknown"
    )
    return f"Matches {total:,} of {span}: {unknown}; {found.known_count:,} with another category."


def _sentence(found: Inbox) -> str:
    waiting = found.of(WAITING)
    if not waiting:
        return "No open unknown failures."
    times = sum(one.cause.count for one in waiting)
    causes = count_text(len(waiting), "fingerprint")
    failures = count_text(times, "failure")
    return f"{causes} without a category, {failures} in the last 7 days. Agents escalate them instead of a retry."


def _telling(item: Item, now: Any) -> str:
    cause = item.cause
    runs = f" in {count_text(cause.runs, 'run')}" if cause.runs else ""
    first, last = clock_text(cause.first, today=now), clock_text(cause.last, today=now)
    return f"{count_text(cause.count, 'time')}{runs} in the last 7 days, first {first}, last {last}."


def _cells(one: Item) -> tuple[Cell, ...]:
    cause, case = one.cause, one.cause.cases[0]
    suggested = ("", "") if one.suggestion is None else (one.suggestion.category.value, one.suggestion.because)
    return (
        *(cause.fingerprint, one.state, cause.count, cause.runs, cause.instances, cause.first, cause.last),
        *(", ".join(cause.operations), ", ".join(cause.providers), case.exception_type, case.code, case.message),
        *suggested,
    )
