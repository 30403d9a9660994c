"""What people do about a class of failures: the list in the playbook, the page of one, its form, and its ticks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.wording import category_text
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.control.core.numbers import NumberField
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.core.settings_forms import SettingForm
from recovery_ops.control.core.views.settings import SettingsFormView, answer, require
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.runbooks.markdown import STEP, Block, blocks_of, steps_of
from recovery_ops.control.runbooks.models import TEXT_CHARS, Runbook
from recovery_ops.control.runbooks.services import (
    TICKING,
    WRITING,
    Tick,
    runbook_for,
    save_runbook,
    steps_and_ticks,
    tick_step,
)
from recovery_ops.rules.enums import Category


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One class of failures with what is written for it; `steps` is 0 where nothing is."""

    category: str
    words: str
    steps: int
    owner: str
    runbook: Runbook | None
    is_overdue: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """One line of the steps on the page of a question, and who ticked it."""

    block: Block
    tick: Tick | None

    @property
    def is_step(self) -> bool:
        """Whether it is ticked, or only read."""
        return self.block.kind == STEP


def lines_of(environment: str, now: datetime) -> list[Line]:
    """Every class of failures, those with steps first. One query."""
    written = {one.category: one for one in Runbook.objects.filter(environment=environment).exclude(text="")}
    found = [_line(category, written.get(category), now) for category in Category if category is not Category.CANCELLED]
    return sorted(found, key=lambda line: line.runbook is None)


def _line(category: Category, one: Runbook | None, now: datetime) -> Line:
    return Line(
        category=category.value,
        words=category_text(category),
        steps=len(steps_of(one.text)) if one else 0,
        owner=one.owner if one else "",
        runbook=one,
        is_overdue=_is_overdue(one, now),
    )


def _is_overdue(one: Runbook | None, now: datetime) -> bool:
    return one is not None and one.review_on is not None and one.review_on < now.date()


def runbook(request: HttpRequest, *, environment: str, category: str) -> HttpResponse:
    """The steps for one class of failures."""
    word, now = _category(category), timezone.now()
    one = runbook_for(environment, word)
    context = {
        "now": now,
        "category": word.value,
        "words": category_text(word),
        "one": one,
        "blocks": blocks_of(one.text) if one else [],
        "is_overdue": _is_overdue(one, now),
    }
    return render_page(request, "runbooks/runbook", context)


class RunbookForm(SettingForm):
    """The steps, whose they are, and by when somebody looks at them again."""

    markdown = forms.CharField(
        max_length=TEXT_CHARS,
        required=False,
        label="Steps",
        widget=forms.Textarea(attrs={"rows": 14, "spellcheck": "true"}),
        help_text="Lines with - are steps, lines with # headings. `code`, **strong** and "
        "[links](https://example.org) are formatted. Empty text deletes the runbook.",
    )
    owner = forms.CharField(max_length=NAME_CHARS, required=False, help_text="User responsible for the runbook.")
    review_on = forms.DateField(
        required=False,
        label="Review by",
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        error_messages={"invalid": "The date is invalid; use 2026-01-31."},
    )
    version = NumberField(required=False, widget=forms.HiddenInput)


@require_http_methods(["GET", "POST"])
def edit_runbook(request: HttpRequest, *, environment: str, category: str) -> HttpResponse:
    """The form of the steps for one class of failures."""
    require(request, WRITING, environment)
    word = _category(category)
    held = Runbook.objects.filter(environment=environment, category=word.value).first()

    def carry_out(typed: dict[str, Any]) -> CommandResult[Runbook]:
        return save_runbook(
            by=actor_of(request),
            environment=environment,
            reason=typed["reason"],
            key=typed["key"] or None,
            category=word.value,
            text=typed["markdown"],
            owner=typed["owner"],
            review_on=typed["review_on"],
            version=typed["version"],
        )

    first = {"markdown": held.text, "owner": held.owner, "review_on": held.review_on} if held else {}
    asking = SettingsFormView(
        title=f"Runbook: {category_text(word)}",
        lead=f"Shown with escalations of this category in {environment}.",
        button="Save",
        here="playbook",
        crumb=f"Runbook: {category_text(word)}",
        back=reverse("runbook", args=[word.value]),
        form=partial(_form, {**first, "version": held.version if held else 0}),
        carry_out=carry_out,
        told=lambda done: f"Runbook {category_text(word)} {'saved' if done.object.text else 'deleted'}.",
    )
    return answer(request, asking)


def _form(given: Mapping[str, Any], *args: Any, **kwargs: Any) -> RunbookForm:
    if "initial" in kwargs:
        kwargs["initial"] = {**kwargs["initial"], **given}
    return RunbookForm(*args, **kwargs)


@require_http_methods(["POST"])
def tick(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Tick a step for a question (`done`), or take the tick back (`undo`), by its key."""
    if not visit_of(request).grants.may(TICKING, environment):
        raise PermissionDenied(f"Your role lacks the permission to respond in {environment}.")
    done, undone = request.POST.get("done", ""), request.POST.get("undo", "")
    back = reverse("escalation", args=[number])
    try:
        tick_step(
            by=actor_of(request),
            environment=environment,
            reason="",
            number=number,
            step=done or undone,
            is_done=bool(done),
        )
    except CommandRejected as rejection:
        if rejection.status == 404:
            raise Http404(rejection.detail) from rejection
        return redirect_with_notice(request, back, rejection.detail)
    return redirect_with_notice(request, f"{back}#steps", "Step completed." if done else "Step reopened.")


def steps_on(one: Escalation) -> dict[str, Any]:
    """What the page of a question shows of the steps for its class of failures. One query; none where it has none."""
    if one.category not in set(Category):
        return {"is_written": False, "steps": []}
    text, ticks = steps_and_ticks(one)
    lines = [StepLine(block=block, tick=ticks.get(block.key)) for block in blocks_of(text)]
    steps = [line for line in lines if line.is_step]
    return {
        "is_written": bool(text),
        "steps": lines,
        "steps_of_words": category_text(Category(one.category)),
        "ticked": f"{sum(line.tick is not None for line in steps)} of {len(steps)} done",
    }


def _category(word: str) -> Category:
    if word not in set(Category):
        raise Http404(f"Category {word[:40]} does not exist.")
    return Category(word)
