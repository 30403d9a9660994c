"""The forms with which people merge capacity events, split one, take that back, or note something on one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods

from events.capacity.arranging import steps_of
from events.capacity.asking import capacity_event, capacity_events
from events.capacity.models import CapacityArrangement
from events.capacity.quiet import quietest_minute
from events.capacity.rows import CapacityEventRow
from events.pages.rendering import render_page
from recovery_ops.control.capacity.services import (
    MERGE_MOST,
    NOTING,
    PERMISSION,
    merge_events,
    note_on_event,
    set_event_apart,
    split_event,
    undo_arrangement,
)
from recovery_ops.control.core.environment import form_command_context, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.numbers import parse_number, parse_numbers
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice

UNPROCESSABLE = 422
_WORDS = {
    "merge": ("Merge", "The lowest number names the merged incident. A merge can be undone."),
    "split": ("Split", "Failures from this time on are a second incident."),
    "apart": ("Unmerge", "It is its own incident, even if others of the provider fail at the same time."),
    "note": ("Note", "The page shows it with your name and the time."),
    "undo": ("Undo", "Merged incidents are two again; split or unmerged ones are one."),
}
_NEAR = timedelta(hours=12)
"""How far away an event may lie that a form offers to merge with."""
_OFFERED_MOST = 10


class ArrangeForm(ReasonForm):
    """A reason, and for a split the moment."""

    at = forms.CharField(required=False, max_length=40)

    def clean_at(self) -> datetime | None:
        """The moment in UTC, where one was typed."""
        text = self.cleaned_data["at"].strip()
        if not text:
            return None
        try:
            found = parse_datetime(text)
        except ValueError:
            found = None
        if found is None:
            raise forms.ValidationError("Write it as 2026-01-31T14:05:00.")
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found


@require_http_methods(["GET", "POST"])
def arrange(request: HttpRequest, *, environment: str, verb: str) -> HttpResponse:
    """The form of `merge`, `split`, `apart`, `note` or `undo`, or the act itself, on the events named (`number`)."""
    if verb not in _WORDS:
        raise Http404(f"There is no act {verb}.")
    permission = NOTING if verb == "note" else PERMISSION
    if not visit_of(request).grants.may(permission, environment):
        raise PermissionDenied(f"Your role does not let you {permission} the capacity events of {environment}.")
    asked = _Asked(request, environment, verb)
    if request.method == "GET":
        return asked.page(asked.form())
    return asked.carried_out()


class _Asked:
    """One request for one arrangement."""

    def __init__(self, request: HttpRequest, environment: str, verb: str) -> None:
        self.request, self.environment, self.verb = request, environment, verb
        self.now = timezone.now()
        given = request.POST if request.method == "POST" else request.GET
        self.numbers = parse_numbers(given.getlist("number"))[:MERGE_MOST]
        self.made = self._made(given.get("arrangement", ""))
        self.rows = [self._row(number) for number in self.numbers]

    def form(self) -> ArrangeForm:
        initial: dict[str, Any] = {"key": new_key(), "seen": steps_of(self.environment)}
        if self.verb == "split" and self.rows:
            initial["at"] = f"{quietest_minute(self.environment, self.rows[0]):%Y-%m-%dT%H:%M:%S}"
        return self._form(initial=initial)

    def _form(self, *args: Any, **kwargs: Any) -> ArrangeForm:
        return ArrangeForm(*args, is_reason_needed=needs_reason(f"capacity.{self.verb}", self.environment), **kwargs)

    def carried_out(self) -> HttpResponse:
        form = self._form(self.request.POST)
        is_sound = form.is_valid()
        if is_sound and self.verb == "split" and form.cleaned_data["at"] is None:
            form.add_error("at", "Enter the start of the second incident.")
        if form.errors:
            return self.page(form, status=UNPROCESSABLE)
        try:
            number = self._done(form.cleaned_data)
        except CommandRejected as rejection:
            if rejection.status == 403:
                raise PermissionDenied(rejection.detail) from rejection
            add_errors(form, rejection.fields)
            return self.page(form, status=rejection.status, rejection=rejection)
        told = {
            "merge": f"Merged into CE-{number}.",
            "split": f"Split; the second is CE-{number}.",
            "apart": f"CE-{number} unmerged.",
            "note": "Note added.",
            "undo": "Change undone.",
        }
        return redirect_with_notice(self.request, reverse("capacity-event", args=[number]), told[self.verb])

    def _done(self, cleaned: dict[str, Any]) -> int:
        who = form_command_context(self.request, self.environment, cleaned, self.now) | {"seen": cleaned["seen"]}
        if self.verb == "merge":
            return merge_events(**who, numbers=self.numbers).object.pk
        if self.verb == "split":
            return split_event(**who, number=self.numbers[0] if self.numbers else 0, at=cleaned["at"]).object.pk
        if self.verb == "apart":
            return set_event_apart(**who, number=self.numbers[0] if self.numbers else 0).object.pk
        if self.verb == "note":
            return note_on_event(**who, number=self.numbers[0] if self.numbers else 0).object.event
        return undo_arrangement(**who, arrangement=self.made.pk if self.made else 0).object.pk

    def page(self, form: ArrangeForm, *, status: int = 200, rejection: CommandRejected | None = None) -> HttpResponse:
        word, lead = _WORDS[self.verb]
        # The first was asked about; the others were chosen beside it, and can be chosen otherwise.
        is_offering = self.verb == "merge" and bool(self.rows)
        rows = self.rows[:1] if is_offering else self.rows
        context = {
            "now": self.now,
            "verb": self.verb,
            "title": f"{word} {', '.join(row.number for row in rows)}".strip(),
            "lead": lead,
            "button": word,
            "form": form,
            "rows": rows,
            "others": self._near(self.rows[0]) if is_offering else [],
            "chosen": self.numbers[1:],
            "made": self.made,
            "back": self._back(),
            "problem": rejection.detail if rejection else "",
            "code": rejection.code if rejection else "",
        }
        return render_page(self.request, "capacity/arrange", context, status=status)

    def _near(self, row: CapacityEventRow) -> list[CapacityEventRow]:
        """Events around the same time and those chosen already, the nearest first."""
        found = capacity_events(self.environment, start=row.started - _NEAR, end=row.last + _NEAR, now=self.now)
        away = {one.id: max(one.started - row.last, row.started - one.last) for one in found if one.id != row.id}
        near = sorted((one for one in found if one.id in away), key=lambda one: away[one.id])
        chosen = [one for one in self.rows[1:] if one.id not in {other.id for other in near[:_OFFERED_MOST]}]
        return near[:_OFFERED_MOST] + chosen

    def _row(self, number: int) -> CapacityEventRow:
        row = capacity_event(self.environment, number, now=self.now)
        if row is None:
            raise Http404(f"There is no capacity event CE-{number} in {self.environment}.")
        return row

    def _made(self, given: str) -> CapacityArrangement | None:
        if self.verb != "undo":
            return None
        held = CapacityArrangement.objects.filter(environment=self.environment, pk=parse_number(given) or 0)
        if (made := held.first()) is None:
            raise Http404("There is no such arrangement.")
        return made

    def _back(self) -> str:
        given = (self.request.POST or self.request.GET).get("back", "")
        home = reverse("capacity")
        return given if given == home or given.startswith((f"{home}/", f"{home}?")) else home
