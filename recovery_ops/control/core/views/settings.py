"""The sections of the settings, and how each act on them is asked for, carried out and answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers

from events.pages.rendering import render_page
from recovery_ops.control.core.commands import SIGN_IN_AGAIN, CommandResult
from recovery_ops.control.core.environment import visit_of
from recovery_ops.control.core.forms import add_errors, new_key
from recovery_ops.control.core.rejections import ApprovalPending, CommandRejected
from recovery_ops.control.core.responses import redirect_to_request, redirect_with_notice
from recovery_ops.control.core.settings_forms import SettingForm

UNPROCESSABLE = 422
_SECTIONS = (
    ("preferences", "You", "Appearance, password and keyboard shortcuts."),
    ("keys", "Keys", "API keys of agents and programs."),
    ("people", "Access", "Users, roles and permissions."),
    ("environment-rules", "Environment", "Production, review of policies and second approver."),
    ("notifications", "Notifications", "Channels, rules, mutes and escalation policies."),
    ("stored", "Data", "Retention, size, cardinality and quarantine."),
    ("health", "Health", "Intake, worker, scheduler, streams and database."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One page of the settings."""

    name: str
    title: str
    lead: str
    href: str


def sections() -> list[Section]:
    """The pages that there are, in order."""
    found = []
    for name, title, lead in _SECTIONS:
        try:
            found.append(Section(name=name, title=title, lead=lead, href=reverse(name)))
        except NoReverseMatch:  # a section whose pages are not part of this installation
            continue
    return found


def settings_page(
    request: HttpRequest, name: str, context: Mapping[str, Any], *, here: str, status: int = 200
) -> HttpResponse:
    """A page of the settings with its row of sections; `here` is the section that is shown."""
    shared = {"now": timezone.now(), "sections": sections(), "here": here}
    return render_page(request, name, {**shared, **context}, status=status)


def index(request: HttpRequest, *, environment: str) -> HttpResponse:
    """What can be set, and where."""
    return settings_page(request, "core/settings", {}, here="settings")


def require(request: HttpRequest, permission: str, environment: str) -> None:
    """Raise PermissionDenied, before a form is shown that would be refused."""
    if not visit_of(request).grants.may(permission, environment):
        raise PermissionDenied(f"Your role lacks the permission to {permission.replace('_', ' ')} in {environment}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFormView:
    """One act: its words, its form, what it does, and what is answered when it is done.

    `carry_out` is given what was typed. `told` says what happened on the page `back`; `shown` answers with a page of
    its own instead, where something is told this once.
    """

    title: str
    lead: str
    button: str
    here: str
    back: str
    form: Callable[..., SettingForm]
    carry_out: Callable[[dict[str, Any]], CommandResult[Any]]
    told: Callable[[CommandResult[Any]], str] = lambda done: "Done."
    shown: Callable[[CommandResult[Any]], HttpResponse] | None = None
    crumb: str = ""
    """What `back` is called where it is no page of the settings."""
    page: str = "core/setting_act"
    """The page that holds the form, and what it shows `beside`."""
    beside: Mapping[str, Any] = field(default_factory=dict)


def answer(request: HttpRequest, asking: SettingsFormView) -> HttpResponse:
    """Show the form, or carry the act out; what is wrong stands beside its field and keeps what was typed."""
    if request.method != "POST":
        return _form_page(request, asking, asking.form(initial={"key": new_key()}))
    form = asking.form(request.POST)
    if not form.is_valid():
        return _form_page(request, asking, form, status=UNPROCESSABLE)
    try:
        done = asking.carry_out(dict(form.cleaned_data))
    except ApprovalPending as pending:
        return redirect_to_request(request, pending)
    except CommandRejected as rejection:
        if rejection.status == 403 and rejection.code != SIGN_IN_AGAIN:
            raise PermissionDenied(rejection.detail) from rejection
        if rejection.status == 404:
            raise Http404(rejection.detail) from rejection
        elsewhere = add_errors(form, rejection.fields)
        problem = "" if rejection.fields and not elsewhere else rejection.detail
        return _form_page(request, asking, form, status=rejection.status, problem=problem)
    if asking.shown is None:
        return redirect_with_notice(request, asking.back, asking.told(done))
    shown = asking.shown(done)
    add_never_cache_headers(shown)  # it may hold a secret
    return shown


def _form_page(
    request: HttpRequest, asking: SettingsFormView, form: forms.Form, *, status: int = 200, problem: str = ""
) -> HttpResponse:
    context = {"asking": asking, "form": form, "problem": problem, "action": request.get_full_path(), **asking.beside}
    return settings_page(request, asking.page, context, here=asking.here, status=status)
