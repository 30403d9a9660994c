"""Annotations on the pages: the form that adds one, and the page of one, where it is ended or removed."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.pages.window import Window
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of
from recovery_ops.control.core.forms import new_key
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.numbers import parse_version
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.core.settings_forms import SettingForm
from recovery_ops.control.core.views.settings import SettingsFormView, answer, require
from recovery_ops.control.dashboard.models import TAGS_CHARS, TEXT_CHARS, Annotation
from recovery_ops.control.dashboard.services import (
    PERMISSION,
    annotate,
    end_annotation,
    remove_annotation,
    version_of_annotation,
)

_REASON = "annotation"
_ACTS = {"end": end_annotation, "remove": remove_annotation}
_AROUND = timedelta(minutes=30)
MOMENT, SPAN, GOES_ON = "moment", "span", "on"


class AnnotationForm(SettingForm):
    """What, when, and for how long. Moments are those of the reader's clock."""

    reason = None  # type: ignore[assignment]  # the text says why
    text = forms.CharField(
        max_length=TEXT_CHARS,
        label="What",
        help_text="Such as a deployment, an external change or a maintenance.",
        error_messages={"required": "Enter a text."},
    )
    at = forms.CharField(max_length=40, required=False, label="When")
    lasts = forms.ChoiceField(
        choices=[(MOMENT, "one moment"), (SPAN, "until"), (GOES_ON, "open end")],
        initial=MOMENT,
        label="Duration",
    )
    until = forms.CharField(
        max_length=40, required=False, label="Until", help_text="Only for an annotation with an end."
    )
    operation = forms.CharField(
        max_length=NAME_CHARS, required=False, label="Breaker", help_text="Empty: all operations."
    )
    tags = forms.CharField(max_length=TAGS_CHARS, required=False, help_text="Separated by commas: deploy, eu")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        zone = f"{timezone.localtime():%Z}"
        self.fields["at"].help_text = f"{zone}, such as 2026-01-31 14:05:00; empty: now."

    def clean_at(self) -> datetime | None:
        """The moment, on the reader's clock; None for now."""
        return self._moment("at")

    def clean_until(self) -> datetime | None:
        """The end, on the reader's clock."""
        return self._moment("until")

    def _moment(self, name: str) -> datetime | None:
        text = self.cleaned_data[name].strip()
        if not text:
            return None
        try:
            found = parse_datetime(text)
        except ValueError:
            found = None
        if found is None or not 2000 <= found.year < 2200:
            raise forms.ValidationError("Enter a time, such as 2026-01-31 14:05:00.")
        return timezone.make_aware(found) if found.tzinfo is None else found

    def clean(self) -> dict[str, Any]:
        """An end belongs to what lasts until then."""
        typed: dict[str, Any] = super().clean() or self.cleaned_data
        if typed.get("lasts") == SPAN and "until" not in self.errors and typed.get("until") is None:
            self.add_error("until", "Enter the end.")
        return typed


@require_http_methods(["GET", "POST"])
def annotating(request: HttpRequest, *, environment: str) -> HttpResponse:
    """Note something on the time axis; `at` and `operation` of the address are filled in already."""
    require(request, PERMISSION, environment)
    given = {name: request.GET.get(name, "")[:NAME_CHARS] for name in ("at", "operation")}
    back = reverse("timelines")

    def carry_out(typed: dict[str, Any]) -> CommandResult[Annotation]:
        return annotate(
            by=actor_of(request),
            environment=environment,
            reason=_REASON,
            key=typed["key"] or None,
            text=typed["text"],
            at=typed["at"],
            until=typed["until"] if typed["lasts"] == SPAN else None,
            goes_on=typed["lasts"] == GOES_ON,
            operation=typed["operation"],
            tags=typed["tags"].split(","),
        )

    asking = SettingsFormView(
        title="Annotate",
        lead=f"The annotation appears on the timelines of {environment} for all users.",
        button="Annotate",
        here="timelines",
        crumb="Timelines",
        back=back,
        form=partial(_form, given),
        carry_out=carry_out,
        told=lambda done: f"“{done.object.text}” added.",
    )
    return answer(request, asking)


def _form(given: dict[str, str], *args: Any, **kwargs: Any) -> AnnotationForm:
    if "initial" in kwargs:
        kwargs["initial"] = {**kwargs["initial"], **given}
    return AnnotationForm(*args, **kwargs)


@require_http_methods(["GET", "POST"])
def annotation(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """One annotation; POST `act` (`end` or `remove`) ends what goes on, or takes it from the time axis."""
    one = Annotation.objects.filter(environment=environment, number=number, removed_at=None).first()
    if one is None:
        raise Http404(f"Annotation {number} does not exist in {environment}.")
    problem, status = "", 200
    if request.method == "POST":
        done = _acted(request, environment, one)
        if isinstance(done, HttpResponse):
            return done
        problem, status = done.detail, done.status
    now = timezone.now()
    until = one.ends(now)
    around = Window(start=one.at - _AROUND, end=(until or one.at) + _AROUND)
    context = {
        "now": now,
        "one": one,
        "problem": problem,
        "key": new_key(),
        "seen": version_of_annotation(one),
        "timelines_href": f"{reverse('timelines')}?{around.absolute_query}",
    }
    return render_page(request, "dashboard/annotation", context, status=status)


def _acted(request: HttpRequest, environment: str, one: Annotation) -> HttpResponse | CommandRejected:
    act = request.POST.get("act", "")
    if act not in _ACTS:
        raise Http404(f"Nothing is called {act[:40]!r}.")
    try:
        _ACTS[act](
            by=actor_of(request),
            environment=environment,
            reason=_REASON,
            key=request.POST.get("key") or None,
            seen=parse_version(request.POST.get("seen", "")),
            number=one.number,
        )
    except CommandRejected as rejection:
        if rejection.status == 403:
            raise PermissionDenied(rejection.detail) from rejection
        return rejection
    here = reverse("annotation", args=[one.number]) if act == "end" else reverse("timelines")
    return redirect_with_notice(request, here, f"“{one.text}” {'ended' if act == 'end' else 'deleted'}.")
