"""First steps in an environment; a step is done when the store shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from events.pages.rendering import render_page
from recovery_ops.control.dashboard.due import CHANNEL, FAILED, RELEASED, Due, due_in, of_kind
from recovery_ops.control.dashboard.views.connect import connecting

SELF_TEST = "python -m recovery_ops.runtime.self_test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step, done by a `command` or on a page."""

    title: str
    detail: str
    is_done: bool
    word: str = "to do"
    command: str = ""
    href: str = ""
    button: str = ""
    permission: str = ""
    """The permission that the page asks for; empty for a command."""


def steps_of(due: Sequence[Due], *, is_connected: bool) -> list[Step]:
    """All four, in their best order."""
    return [
        Step(
            title="Connect an agent",
            detail="A key and one snippet.",
            is_done=is_connected,
            word="waiting",
        ),
        Step(
            title="Send a test failure",
            detail="Run this where the agent runs. One call fails and recovers.",
            is_done=bool(of_kind(due, FAILED)),
            command=SELF_TEST,
        ),
        Step(
            title="Release a policy",
            detail="Until then the default policy applies.",
            is_done=bool(of_kind(due, RELEASED)),
            href=reverse("policies"),
            button="Policies",
            permission="edit_policy",
        ),
        Step(
            title="Add a notification channel",
            detail="Slack, e-mail or a webhook.",
            is_done=bool(of_kind(due, CHANNEL)),
            href=reverse("notifications"),
            button="Notifications",
            permission="manage_notifications",
        ),
    ]


def still_to_do(due: Sequence[Due]) -> Mapping[str, object]:
    """The open steps of an environment in which agents report; empty when all are done."""
    steps = steps_of(due, is_connected=True)
    left = [step for step in steps if not step.is_done]
    return {**_counted(steps), "steps": left} if left else {}


def _counted(steps: Sequence[Step]) -> Mapping[str, object]:
    return {"steps": steps, "steps_done": sum(step.is_done for step in steps), "steps_all": len(steps)}


def first_run(request: HttpRequest, environment: str, now: datetime) -> HttpResponse:
    """The page of an environment without an event: how to connect an agent, and rejected requests."""
    due = due_in(environment, now=now, wants_beginnings=True)
    context = {**connecting(request, environment), **_counted(steps_of(due, is_connected=False))}
    return render_page(request, "dashboard/first_run", context)
