"""The form of an escalation chain: its steps, and before it is saved a preview of who is asked when."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.wording import count_text
from recovery_ops.control.core.environment import actor_of
from recovery_ops.control.core.forms import add_errors, new_key
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.core.views.settings import UNPROCESSABLE, SettingsFormView, answer, require, settings_page
from recovery_ops.control.notifications.escalation_policies import Planned, names_of, open_under, preview
from recovery_ops.control.notifications.forms import ChainForm, ReasonOnlyForm
from recovery_ops.control.notifications.models.notifications import Channel, EscalationChain
from recovery_ops.control.notifications.recipients import names_of_responders
from recovery_ops.control.notifications.services import settings as notifying
from recovery_ops.rules.notifications.escalation_levels import parse_steps

HERE = "notifications"
PREVIEW = "preview"


@require_http_methods(["GET", "POST"])
def chain(request: HttpRequest, *, environment: str, number: int | None = None) -> HttpResponse:
    """The form of a new chain or of one that is there; a preview of it; or it is saved."""
    require(request, notifying.PERMISSION, environment)
    one = None if number is None else _found(environment, number)
    asked = _Asked(request, environment, one)
    if request.method == "GET":
        form = asked.form(initial={"key": new_key(), "name": request.GET.get("queue", one.name if one else "*")})
        steps, _ = parse_steps(one.steps) if one else ((), [])
        return asked.page(form, preview(steps, asked.names, asked.now))
    return asked.posted()


@require_http_methods(["GET", "POST"])
def remove_chain(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Take a chain away."""
    require(request, notifying.PERMISSION, environment)
    one = _found(environment, number)
    asking = SettingsFormView(
        title=f"Delete the escalation policy of {_queue(one.name)}",
        lead="No further level is notified, also for open escalations. Sent messages stay in the log.",
        button="Delete policy",
        here=HERE,
        back=reverse(HERE),
        form=ReasonOnlyForm,
        carry_out=lambda typed: notifying.remove_chain(
            by=actor_of(request),
            environment=environment,
            reason=typed["reason"],
            key=typed["key"] or None,
            number=one.pk,
        ),
        told=lambda done: f"Escalation policy of {_queue(one.name)} deleted.",
    )
    return answer(request, asking)


class _Asked:
    """One request about one chain."""

    def __init__(self, request: HttpRequest, environment: str, one: EscalationChain | None) -> None:
        self.request, self.environment, self.one = request, environment, one
        self.now = timezone.now()
        self.names = names_of(environment)
        self.start = self.now
        """When the escalation of the preview is opened."""

    def form(self, *args: Any, **kwargs: Any) -> ChainForm:
        channels = Channel.objects.filter(environment=self.environment, removed_at=None).order_by("name")
        people = get_user_model().objects.filter(is_active=True).order_by("username")
        names = list(people.values_list("username", flat=True))
        return ChainForm(*args, channels=channels, people=names, chain=self.one, **kwargs)

    def posted(self) -> HttpResponse:
        form = self.form(self.request.POST)
        is_valid = form.is_valid()
        steps, problems = parse_steps(form.steps())
        self.start = form.cleaned_data.get("opened_at") or self.now
        planned = preview(steps, self.names, self.start)
        if PREVIEW in self.request.POST:
            problem = "No level has a channel; select one for at least one level." if problems else ""
            return self.page(form, planned, problem=problem)
        if not is_valid:
            return self.page(form, planned, status=UNPROCESSABLE)
        try:
            done = self._saved(form)
        except CommandRejected as rejection:
            if rejection.status == 403:
                raise PermissionDenied(rejection.detail) from rejection
            elsewhere = add_errors(form, rejection.fields)
            problem = "" if rejection.fields and not elsewhere else rejection.detail
            return self.page(form, planned, status=rejection.status, problem=problem)
        return redirect_with_notice(self.request, reverse(HERE), f"Escalation policy of {_queue(done.name)} saved.")

    def _everybody(self) -> str:
        """Who may respond then, as far as it is known now."""
        return ", ".join(names_of_responders(self.environment, now=self.start)) or "nobody"

    def _open_under(self, form: ChainForm) -> str:
        """What a change means for what is asked already; empty where nothing is."""
        name = form["name"].value()
        waiting = open_under(str(name or "").strip(), self.environment)
        return count_text(waiting, "open escalation follows", "open escalations follow") if waiting else ""

    def _saved(self, form: ChainForm) -> EscalationChain:
        typed = form.cleaned_data
        return notifying.save_chain(
            by=actor_of(self.request),
            environment=self.environment,
            reason=typed["reason"],
            key=typed["key"] or None,
            number=self.one.pk if self.one else None,
            version=typed["version"],
            name=typed["name"],
            is_on=typed["is_on"],
            steps=form.steps(),
        ).object

    def page(self, form: ChainForm, planned: list[Planned], *, status: int = 200, problem: str = "") -> HttpResponse:
        context = {
            "now": self.now,
            "form": form,
            "planned": planned,
            "start": self.start,
            "everybody": self._everybody() if any(step.is_for_everybody for step in planned) else "",
            "open_under": self._open_under(form),
            "problem": problem,
            "title": f"Escalation policy of {_queue(self.one.name)}" if self.one else "New escalation policy",
            "action": self.request.path,
            "back": reverse(HERE),
        }
        return settings_page(self.request, "notifications/chain_form", context, here=HERE, status=status)


def _found(environment: str, number: int) -> EscalationChain:
    one = EscalationChain.objects.filter(environment=environment, removed_at=None, pk=number).first()
    if one is None:
        raise Http404(f"The escalation policy does not exist in {environment}.")
    return one


def _queue(name: str) -> str:
    return "all queues" if name == "*" else name
