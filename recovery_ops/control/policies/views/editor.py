"""The editor of a whole policy: a form and its JSON, one document; every fault beside what was typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from recovery_ops.control.breakers.views.actions import UNPROCESSABLE
from recovery_ops.control.core import checks
from recovery_ops.control.core.differences import Part, parts_of, written
from recovery_ops.control.core.environment import form_command_context, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.json_positions import Place, Places
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.desired_state.document import LivePolicy, live_policy
from recovery_ops.control.policies.document_checks import faults_of_document
from recovery_ops.control.policies.form import field_of, section_of, sections_of
from recovery_ops.control.policies.form_input import JsonUnread, document_typed, json_of, moved
from recovery_ops.control.policies.models.policies import TITLE_CHARS, PolicyProposal
from recovery_ops.control.policies.services import proposals
from recovery_ops.control.policies.templates import TEMPLATES, begun_with
from recovery_ops.control.replay.views.replays import start_of_last_day
from recovery_ops.rules.policy.lint import Finding, lint
from recovery_ops.rules.policy.model import parse_policy

FORM, JSON = "form", "json"
_SAVE, _REPLAY = "save", "replay"


@dataclass(slots=True, kw_only=True)
class Typed:
    """What stands in the editor: a document, or a text that is none yet."""

    document: dict[str, Any]
    text: str = ""
    faults: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    """The texts of fields that state no JSON, by the field: they stay as they were typed."""
    title: str = ""
    mode: str = FORM


@require_http_methods(["GET", "POST"])
def edit(request: HttpRequest, *, environment: str, number: int | None = None) -> HttpResponse:
    """A new proposal made from the live policy, or another edition of one. 403 for who may not propose, 404."""
    if not visit_of(request).grants.may("propose_policy", environment):
        raise PermissionDenied(f"Your role lacks the permission to propose policies in {environment}.")
    asked = _Asked(request, environment, _found(environment, number))
    return asked.shown() if request.method == "GET" else asked.carried_out()


class _Asked:
    """One request for the editor."""

    def __init__(self, request: HttpRequest, environment: str, proposal: PolicyProposal | None) -> None:
        self.request, self.environment, self.proposal = request, environment, proposal
        self.now = timezone.now()
        self.live: LivePolicy = live_policy(environment)

    def shown(self) -> HttpResponse:
        """The editor with the document as it is."""
        mode = JSON if self.request.GET.get("mode") == JSON else FORM
        begun = begun_with(self.live.document, self.request.GET.get("template", ""))
        document = begun if self.proposal is None else dict(self.proposal.document)
        title = "" if self.proposal is None else self.proposal.title
        seen = None if self.proposal is None else self.proposal.step
        form = ReasonForm(initial={"seen": seen, "key": new_key()})
        return self.page(form, Typed(document=document, text=written(document), title=title, mode=mode))

    def carried_out(self) -> HttpResponse:
        """Save it, or show it in the other view, or with a row more or less: only saving keeps anything."""
        typed, act = typed_in(self.request), self.request.POST.get("act", _SAVE)
        form = ReasonForm(self.request.POST)
        if act not in (_SAVE, _REPLAY):
            if act in (FORM, JSON) and not typed.faults:
                typed.mode, typed.text = act, written(typed.document)
            elif not typed.faults:
                typed.document = moved(typed.document, act)
            form = ReasonForm(initial={name: self.request.POST.get(name, "") for name in ("reason", "seen", "key")})
            typed.faults = _all_faults(typed)
            return self.page(form, typed)
        if not form.is_valid() or typed.faults:
            typed.faults = _all_faults(typed)
            return self.page(form, typed, status=UNPROCESSABLE)
        try:
            saved = self._saved(form, typed)
        except CommandRejected as rejection:
            return self._refused(form, typed, rejection)
        if act == _REPLAY:
            key = checks.derive_part_key(form.cleaned_data["key"] or None, "replay")
            return start_of_last_day(self.request, self.environment, saved.number, key=key, now=self.now)
        address = reverse("proposal", args=[saved.number])
        return redirect_with_notice(self.request, address, f"Proposal {saved.number} saved. Nothing is live yet.")

    def _saved(self, form: ReasonForm, typed: Typed) -> PolicyProposal:
        cleaned = form.cleaned_data
        asked = form_command_context(self.request, self.environment, cleaned, self.now) | {
            "document": typed.document,
            "title": typed.title,
        }
        if self.proposal is None:
            return proposals.propose(**asked).object
        asked |= {"number": self.proposal.number, "seen": cleaned["seen"]}
        return proposals.revise(**asked, is_onto_live=bool(self.request.POST.get("is_onto_live"))).object

    def _refused(self, form: ReasonForm, typed: Typed, rejection: CommandRejected) -> HttpResponse:
        if rejection.status == 403:
            raise PermissionDenied(rejection.detail)
        typed.faults = {name: fault for name, fault in rejection.fields.items() if name not in form.fields}
        add_errors(form, {name: fault for name, fault in rejection.fields.items() if name in form.fields})
        problem = "" if rejection.fields and rejection.status == 400 else rejection.detail
        if rejection.status == 409:
            problem += " Your input is kept; save again to overwrite."
        return self.page(form, typed, status=rejection.status, problem=problem)

    def _is_unsaved(self, form: ReasonForm, typed: Typed) -> bool:
        """Whether the page holds what nobody keeps: to leave it would lose that."""
        kept = self.live.document if self.proposal is None else self.proposal.document
        title = "" if self.proposal is None else self.proposal.title
        is_typed = bool(form["reason"].value()) or typed.title != title or bool(typed.faults)
        return self.request.method == "POST" and (is_typed or typed.document != kept)

    def _changes(self, typed: Typed) -> list[Part]:
        """What agents would do differently from under the live policy; nothing while something is at fault."""
        return [] if typed.faults else parts_of(self.live.document, typed.document)

    def page(self, form: ReasonForm, typed: Typed, *, status: int = 200, problem: str = "") -> HttpResponse:
        """The editor with what was typed."""
        sections, unplaced = sections_of(typed.document, typed.faults, typed.unread)
        places = Places(typed.text) if typed.mode == JSON else None
        proposal, changes = self.proposal, self._changes(typed)
        seen = proposal.step if proposal is not None and status == 409 else form["seen"].value()
        context = {
            "now": self.now,
            "proposal": proposal,
            "live": self.live,
            "templates": TEMPLATES if proposal is None and self.request.method == "GET" else (),
            "form": form,
            "seen": "" if seen is None else seen,
            "typed": typed,
            "title_error": typed.faults.get("title", ""),
            "title_chars": TITLE_CHARS,
            "base": json.dumps(typed.document, ensure_ascii=False),
            "sections": sections,
            "faulty": {section_of(path) for path in typed.faults},
            "altered": {section_of(one.path) for one in changes},
            "changes": changes,
            "as_json": written(typed.document),
            "faults": [_Fault(path, message, *_address(places, path)) for path, message in typed.faults.items()],
            "unplaced": [one for one in unplaced if not one.startswith("title:")],
            "findings": [
                _Fault(one.path, one.message, *_address(places, one.path), level=one.level, code=one.code)
                for one in findings_of(typed)
            ],
            "problem": problem,
            "is_unsaved": self._is_unsaved(form, typed),
            "is_behind": proposal is not None and proposal.base_version != self.live.version,
            "back": reverse("policies") if proposal is None else reverse("proposal", args=[proposal.number]),
        }
        return render_page(self.request, "policies/policy_editor", context, status=status)


def typed_in(request: HttpRequest) -> Typed:
    """What the request states, in whichever view it was typed."""
    data = {name: str(value) for name, value in request.POST.items()}
    mode, title = (JSON if data.get("mode") == JSON else FORM), data.get("title", "")
    if mode == JSON:
        text = data.get("text", "").replace("\r\n", "\n")  # as it stands in the browser: places are counted in it
        document, fault = _read(text)
        return Typed(document=document, text=text, faults=fault, title=title, mode=mode)
    base, fault = _read(data.get("base", ""))
    document, faults = document_typed(base, data)
    unread = {name: data[name] for name in faults if name in data}
    return Typed(document=document, text="", faults=fault | faults, unread=unread, title=title, mode=mode)


def _all_faults(typed: Typed) -> dict[str, str]:
    """Those of the fields that state nothing, and those of the document that the others state."""
    if "document" in typed.faults:
        return typed.faults
    return typed.faults | faults_of_document(typed.document)


class _Fault(NamedTuple):
    """A fault or a question, and where it is: the field's id, or a stretch of the text."""

    path: str
    message: str
    field: str
    place: Place | None
    level: str = ""
    code: str = ""
    """Of a question: a word for it."""


def _address(places: Places | None, path: str) -> tuple[str, Place | None]:
    """The form has a field for a path, the JSON (`places`) a place."""
    if path == "title":
        return "title", None
    if places is not None:
        return "text", places.of("" if path == "document" else path)
    return field_of(path), None


def findings_of(typed: Typed) -> tuple[Finding, ...]:
    """What to ask about a document that agents would take."""
    if typed.faults or faults_of_document(typed.document):
        return ()
    return lint(parse_policy(typed.document), typed.document)


def _read(text: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A JSON object, or what is wrong with the text and where."""
    try:
        found = json_of(text)
    except JsonUnread as unread:
        return {}, {"document": str(unread)}
    if not isinstance(found, Mapping):
        return {}, {"document": "must be a JSON object"}
    return dict(found), {}


def _found(environment: str, number: int | None) -> PolicyProposal | None:
    if number is None:
        return None
    proposal = PolicyProposal.objects.filter(environment=environment, number=number).first()
    if proposal is None:
        raise Http404(f"{environment} has no proposal {number}.")
    return proposal
