"""The forms with which people assign, put away, resolve, merge and split causes of failures, one or many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

from django import forms
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.failures.grouping import SPLIT_FIELDS
from events.failures.naming import Called, called_lately, cause_title, cause_words
from events.models import FINGERPRINT_CHARS
from events.pages.rendering import render_page
from recovery_ops.control.core.environment import actor_of, form_command_context, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.numbers import NumberField, parse_number
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CONFLICT, CommandRejected
from recovery_ops.control.core.responses import STILL_TYPED, redirect_with_notice
from recovery_ops.control.core.undo import undo
from recovery_ops.control.issues.models import FailureCase, FailureGrouping
from recovery_ops.control.issues.selectors import grouping_of
from recovery_ops.control.issues.services.issues import (
    ACTS,
    MOST_CLEAN_RUNS,
    MOST_MORE,
    Result,
    merge_failures,
    split_failure,
    triage_each,
    undo_grouping,
)
from recovery_ops.control.issues.services.notes import note_on_cause
from recovery_ops.control.issues.services.regrouping import Preview, changed_rule, edit_grouping, preview_of
from recovery_ops.control.issues.views.issues import matching_names

UNPROCESSABLE = 422
_OF_RULES = ("undo", "edit")
"""Acts on a merge or a split, not on causes."""
_MOST = 500
ASKED_ABOVE = 50
"""More than a page of rows: then their number is typed before anything is done to them."""
_ARCHIVES = [(3600, "1 h"), (86_400, "1 day"), (7 * 86_400, "7 days"), (30 * 86_400, "30 days")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How an act reads on its form, what it needs, and who may."""

    title: str
    lead: str
    permission: str = "respond"


WORDS = {
    "assign": Wording(title="Assign", lead="The owner finds the issue under Mine."),
    "archive": Wording(title="Archive", lead="The issue leaves the open list until the condition is met."),
    "resolve": Wording(title="Resolve", lead="A new failure reopens the issue as regressed."),
    "reopen": Wording(title="Reopen", lead="The issue returns to the open list."),
    "note": Wording(title="Add note", lead="Visible to all users of the environment."),
    "merge": Wording(
        title="Merge",
        lead="Current and future failures become one issue with the title of the first. Undo: unmerge.",
        permission="arrange",
    ),
    "split": Wording(
        title="Split",
        lead="Current and future failures with this value become a separate issue. Undo: unmerge.",
        permission="arrange",
    ),
    "edit": Wording(
        title="Edit grouping",
        lead="A preview shows the effect on the issues of the last 7 days.",
        permission="arrange",
    ),
    "undo": Wording(
        title="Unmerge",
        lead="Failures are grouped by their own fingerprints.",
        permission="arrange",
    ),
}


_ACTION = {"edit": "regroup"}
"""The word of the audit log for a verb of the pages, where it is another."""


class TriageForm(ReasonForm):
    """Everything an act may need; which of it is asked for depends on the act."""

    to = forms.CharField(max_length=200, required=False)
    link = forms.CharField(max_length=2000, required=False)
    until = forms.ChoiceField(
        choices=[*((str(s), word) for s, word in _ARCHIVES), ("more", "more"), ("escalating", "escalating")],
        required=False,
    )
    how = forms.ChoiceField(choices=[("now", "now"), ("next", "next"), ("clean", "clean")], required=False)
    more = NumberField(min_value=1, max_value=MOST_MORE, required=False)
    clean_runs = NumberField(min_value=1, max_value=MOST_CLEAN_RUNS, required=False)
    previewed = forms.CharField(max_length=3000, required=False)
    confirm = forms.CharField(max_length=8, required=False)
    version = NumberField(required=False)
    key = forms.CharField(max_length=40, required=False)


@require_http_methods(["GET", "POST"])
def triage(request: HttpRequest, *, environment: str, verb: str) -> HttpResponse:
    """The form of an act on the causes that are named (`fingerprint`, once or more), or the act itself."""
    words = WORDS.get(verb)
    if words is None:
        raise Http404(f"Action {verb} does not exist.")
    if not visit_of(request).grants.may(words.permission, environment):
        raise PermissionDenied(f"Your role lacks the permission to {words.permission} in {environment}.")
    asked = _Asked(request, environment, verb, words)
    if not asked.names and verb not in _OF_RULES:
        return redirect_with_notice(request, asked.back, "No issue is selected; select at least one.")
    if verb == "note" and len(asked.names) > 1:
        return redirect_with_notice(request, asked.back, "A note needs exactly one issue; select one.")
    return asked.carried_out() if request.method == "POST" else asked.page(asked.form())


class _Asked:
    """One request for one act on some causes."""

    def __init__(self, request: HttpRequest, environment: str, verb: str, words: Wording) -> None:
        self.request, self.environment, self.verb, self.words = request, environment, verb, words
        self.now = timezone.now()
        self.given = request.POST if request.method == "POST" else request.GET
        every = self.given.get("matching")
        listed = self.given.getlist("fingerprint")
        if every is not None and request.method == "GET":
            listed = matching_names(request, environment, every, self.now)
        named = [one[:FINGERPRINT_CHARS] for one in listed[:_MOST] if one.isprintable()]
        self.names = list(dict.fromkeys(one for one in named if one))
        self.field, self.value = (self.given.get(name, "")[:FINGERPRINT_CHARS] for name in ("field", "value"))
        self.rule = self._rule() if verb in _OF_RULES else None
        if verb == "split" and self.field not in SPLIT_FIELDS:
            raise Http404(f"The field is invalid; issues are split by {' or '.join(SPLIT_FIELDS)}.")

    @property
    def back(self) -> str:
        """Where the asker came from: a page of failures, named by the form itself."""
        given = self.given.get("back", "")
        home = reverse("failures")
        return given if given == home or given.startswith((f"{home}/", f"{home}?")) else home

    @cached_property
    def called(self) -> Mapping[str, Called]:
        """How the chosen causes are called. One query."""
        return called_lately(self.environment, self.names, now=self.now)

    @property
    def is_confirmed(self) -> bool:
        """Whether so many are meant that somebody has to type how many."""
        return len(self.names) > ASKED_ABOVE

    def form(self) -> TriageForm:
        initial: dict[str, Any] = {
            "key": new_key(),
            "until": "86400",
            "how": "now",
            "to": self.request.user.get_username(),
        }
        if len(self.names) == 1:
            initial["version"] = self._version()
        return self._form(initial=initial)

    def _version(self) -> int:
        """How often the one cause that is meant was decided on; what was merged is decided on as the whole."""
        head = grouping_of(self.environment).head(self.names[0])
        case = FailureCase.objects.filter(environment=self.environment, fingerprint=head).first()
        return case.version if case else 0

    def _form(self, *args: Any, **kwargs: Any) -> TriageForm:
        return TriageForm(
            *args,
            is_reason_needed=needs_reason(f"failure.{_ACTION.get(self.verb, self.verb)}", self.environment),
            **kwargs,
        )

    def carried_out(self) -> HttpResponse:
        form = self._form(self.request.POST)
        if not form.is_valid():
            return self.page(form, status=UNPROCESSABLE, problem="Some fields are invalid.")
        if self.is_confirmed and form.cleaned_data["confirm"].strip() != str(len(self.names)):
            form.add_error("confirm", f"The number does not match; type {len(self.names)}.")
            return self.page(form, status=UNPROCESSABLE, problem="Not confirmed.")
        if self.verb in ACTS:
            return self._each(form)
        if self.verb == "edit" and form.cleaned_data["previewed"] != self._wished(form.cleaned_data):
            return self._previewed(form)
        try:
            made = self._arranged(form.cleaned_data)
        except CommandRejected as rejection:
            add_errors(form, rejection.fields)
            return self.page(form, status=UNPROCESSABLE, problem=rejection.detail)
        name = cause_words(made, self.called[made]) if made in self.called else made
        told = {"merge": f"Merged into {name}.", "split": f"Split off {name}.", "undo": f"{name} unmerged."}
        told |= {"edit": f"Grouping saved: {name}.", "note": "Note added."}
        return redirect_with_notice(self.request, self.back, told[self.verb])

    def _each(self, form: TriageForm) -> HttpResponse:
        cleaned = form.cleaned_data
        is_alone = len(self.names) == 1
        more: dict[str, Any] = {}
        if self.verb == "assign":
            more["to"] = cleaned["to"]
        if self.verb == "archive" and cleaned["until"] == "more":
            more["more"] = cleaned["more"] or 0
        elif self.verb == "archive" and cleaned["until"] == "escalating":
            more["escalating"] = True
        elif self.verb == "archive":
            more["for_s"] = float(cleaned["until"] or 86_400)
        if self.verb == "resolve":
            more["next_version"] = cleaned["how"] == "next"
            if cleaned["how"] == "clean":
                more["clean_runs"] = cleaned["clean_runs"] or 0
        results = triage_each(
            "unassign" if self.verb == "assign" and not cleaned["to"] else self.verb,
            self.names,
            by=actor_of(self.request),
            environment=self.environment,
            reason=cleaned["reason"],
            version=cleaned["version"] if is_alone else None,
            key=cleaned["key"] or None,
            now=self.now,
            **more,
        )
        refused = [one for one in results if one.rejection is not None]
        if refused and is_alone:
            assert refused[0].rejection is not None  # noqa: S101  # it was chosen for having one
            add_errors(form, refused[0].rejection.fields)
            if refused[0].rejection.code == "stale":
                return self.page(form, status=CONFLICT, problem=f"{refused[0].text} {STILL_TYPED}")
            return self.page(form, status=UNPROCESSABLE, problem=refused[0].text)
        if refused:
            return self.page(form, status=UNPROCESSABLE, results=results)
        what = cause_title(self.names[0], self.called.get(self.names[0])) if is_alone else f"{len(results)} issues"
        takes_back = None
        if self.verb in ("archive", "resolve") and not self.is_confirmed:
            address = reverse("triage", args=["reopen"])
            takes_back = undo(address, self.environment, fingerprint=self.names, back=self.back)
        return redirect_with_notice(self.request, self.back, f"{what}: {results[0].text}.", undo=takes_back)

    def _arranged(self, cleaned: dict[str, Any]) -> str:
        who = form_command_context(self.request, self.environment, cleaned, self.now)
        if self.verb == "merge":
            return merge_failures(**who, fingerprints=self._with_link(cleaned["link"])).object
        if self.verb == "split":
            return split_failure(**who, fingerprint=self.names[0], field=self.field, value=self.value).object
        if self.verb == "note":
            return note_on_cause(**who, fingerprint=self.names[0]).object.fingerprint
        if self.verb == "edit":
            wanted = self._wanted(cleaned)
            return edit_grouping(**who, grouping=self.rule.pk if self.rule else 0, **wanted).object
        return undo_grouping(**who, grouping=self.rule.pk if self.rule else 0).object

    def _wanted(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        """What the rule is to say from now on."""
        if self.rule is not None and self.rule.kind == FailureGrouping.MERGE:
            return {"into": _cause_at(cleaned["link"]) if cleaned["link"] else ""}
        return {"field": self.field, "value": self.value}

    def _wished(self, cleaned: dict[str, Any]) -> str:
        return " ".join((cleaned["link"], self.field, self.value)).strip()

    def _previewed(self, form: TriageForm) -> HttpResponse:
        number = self.rule.pk if self.rule else 0
        try:
            wanted = self._wanted(form.cleaned_data)
            preview = preview_of(*changed_rule(self.environment, number, **wanted), now=self.now)
        except CommandRejected as rejection:
            add_errors(form, {"link" if name == "into" else name: fault for name, fault in rejection.fields.items()})
            return self.page(form, status=UNPROCESSABLE, problem=rejection.detail)
        return self.page(form, preview=preview, previewed=self._wished(form.cleaned_data))

    def _with_link(self, link: str) -> list[str]:
        """The chosen ones, and the cause whose page or name was pasted, if any."""
        return list(dict.fromkeys([*self.names, *([_cause_at(link)] if link else [])]))

    def page(
        self,
        form: TriageForm,
        *,
        status: int = 200,
        problem: str = "",
        results: Sequence[Result] = (),
        preview: Preview | None = None,
        previewed: str = "",
    ) -> HttpResponse:
        told = {one.fingerprint: one for one in results}
        context = {
            "now": self.now,
            "verb": self.verb,
            "words": self.words,
            "title": f"{self.words.title} {self._about()}",
            "form": form,
            # Whoever sends the form after a refusal has seen what is there now.
            "version": self._version() if status == CONFLICT else form["version"].value(),
            "is_stale": status == CONFLICT,
            "lines": [(one, cause_title(one, self.called.get(one)), told.get(one)) for one in self.names],
            "is_confirmed": self.is_confirmed,
            "most": _MOST,
            "is_done": bool(results),
            "refused": sum(one.rejection is not None for one in results),
            "field": self.field if self.verb == "split" else "",
            "value": self.value,
            "wanted_field": self.field or (self.rule.field if self.rule else ""),
            "wanted_value": self.value or (self.rule.value if self.rule else ""),
            "split_fields": SPLIT_FIELDS,
            "preview": preview,
            "previewed": previewed,
            "rule": self.rule,
            "people": self._people(),
            "archives": [(str(seconds), word) for seconds, word in _ARCHIVES],
            "back": self.back,
            "problem": problem,
        }
        return render_page(self.request, "issues/triage", context, status=status)

    def _about(self) -> str:
        if self.rule is not None:
            return f"the {self.rule.kind} of {self.rule.fingerprint}"
        if len(self.names) == 1:
            return cause_words(self.names[0], self.called.get(self.names[0]))
        return f"{len(self.names)} issues"

    def _people(self) -> list[str]:
        if self.verb != "assign":
            return []
        people = get_user_model().objects.filter(is_active=True).order_by("username")
        return list(people.values_list("username", flat=True))

    def _rule(self) -> FailureGrouping:
        number = parse_number(self.given.get("grouping", "")) or 0
        made = FailureGrouping.objects.filter(environment=self.environment, pk=number).first()
        if made is None:
            raise Http404("The grouping does not exist.")
        return made


def _cause_at(link: str) -> str:
    """The cause whose page or name this is. Raises CommandRejected where it is neither."""
    try:
        path = unquote(urlsplit(link).path if "/" in link else link)
    except ValueError:  # an address whose host is none
        path = ""
    name = path.rpartition("/")[2] if path.startswith(f"{reverse('failures')}/") else path
    if not name or "/" in name or not name.isprintable() or len(name) > FINGERPRINT_CHARS:
        told = "is the link or fingerprint of an issue"
        raise CommandRejected(
            "fields", "The link is not of an issue; use its link or fingerprint.", fields={"link": told}
        )
    return name
