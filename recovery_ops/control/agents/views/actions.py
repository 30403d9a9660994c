"""The form by which people label, retire or bring back instances, one or many at once, with what came of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.models import Agent
from events.pages.rendering import render_page
from events.queries.fleet import agent_row
from events.rows import AgentRow
from recovery_ops.control.agents.services.instances import PERMISSION, Result, act_on_each
from recovery_ops.control.agents.services.labels import PERMISSION as LABELLING
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import ReasonForm, add_errors, new_key
from recovery_ops.control.core.labels import LABELS_CHARS
from recovery_ops.control.core.numbers import parse_numbers
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.core.undo import undo

UNPROCESSABLE = 422
_MOST = 500
ASKED_ABOVE = 50
"""So many are changed without their number being typed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How an act reads on its form, and who may."""

    title: str
    lead: str
    permission: str = PERMISSION


WORDS = {
    "label": Wording(
        title="Label",
        lead="A label filters and groups the list of agents. It changes no behavior.",
        permission=LABELLING,
    ),
    "retire": Wording(
        title="Retire",
        lead="A retired instance is not unreachable, and no change waits for it. Its next report restores it.",
    ),
    "offer": Wording(
        title="Offer again",
        lead="The client receives the policy that it rejected with its next message.",
    ),
    "restore": Wording(title="Restore", lead="The instance is unreachable until it reports, for 24 hours at most."),
}


class InstanceForm(ReasonForm):
    """Everything an act may need."""

    labels = forms.CharField(max_length=LABELS_CHARS, required=False)
    confirm = forms.CharField(max_length=8, required=False)
    key = forms.CharField(max_length=40, required=False)


@require_http_methods(["GET", "POST"])
def act(request: HttpRequest, *, environment: str, verb: str) -> HttpResponse:
    """The form of an act on the instances that are named (`agent`, a number, once or more), or the act itself."""
    words = WORDS.get(verb)
    if words is None:
        raise Http404(f"`{verb}` is not an action; use one of {', '.join(WORDS)}.")
    if not visit_of(request).grants.may(words.permission, environment):
        raise PermissionDenied(f"Your role lacks the permission `{words.permission}` in {environment}.")
    asked = _Asked(request, environment, verb, words)
    if not asked.agents:
        return redirect_with_notice(request, asked.back, "No instance selected; select at least one.")
    if request.method == "GET":
        return asked.page(InstanceForm(initial={"key": new_key()}))
    return asked.carried_out()


class _Asked:
    """One request for one act on some instances."""

    def __init__(self, request: HttpRequest, environment: str, verb: str, words: Wording) -> None:
        self.request, self.environment, self.verb, self.words = request, environment, verb, words
        self.now = timezone.now()
        self.given = request.POST if request.method == "POST" else request.GET
        numbers = parse_numbers(self.given.getlist("agent")[:_MOST])
        held = Agent.objects.filter(environment=environment, pk__in=numbers).order_by("service", "instance")
        self.agents: list[AgentRow] = [agent_row(one, self.now) for one in held]

    @property
    def back(self) -> str:
        """Where the asker came from: the fleet, or the page of an instance."""
        given, home = self.given.get("back", ""), reverse("agents")
        return given if given == home or given.startswith((f"{home}/settings?", f"{home}?")) else home

    @property
    def is_confirmed(self) -> bool:
        """Whether so many are meant that somebody has to type how many."""
        return len(self.agents) > ASKED_ABOVE

    def carried_out(self) -> HttpResponse:
        form = InstanceForm(self.request.POST)
        if not form.is_valid():
            return self.page(form, status=UNPROCESSABLE, problem="The form has errors; see the fields below.")
        said = form.cleaned_data
        if self.is_confirmed and said["confirm"].strip() != str(len(self.agents)):
            form.add_error("confirm", f"Type {len(self.agents)}, the number of instances.")
            return self.page(form, status=UNPROCESSABLE, problem="Not confirmed; nothing has changed.")
        results = act_on_each(
            self.verb,
            [(one.service, one.instance) for one in self.agents],
            by=actor_of(self.request),
            environment=self.environment,
            reason=said["reason"],
            key=said["key"] or None,
            now=self.now,
            labels=said["labels"],
        )
        refused = [one.rejection for one in results if one.rejection is not None]
        # What is wrong with what was typed is wrong for all of them: then nothing was done, and the form comes back.
        if refused and (len(results) == 1 or all({"reason", "labels"} & set(one.fields) for one in refused)):
            add_errors(form, refused[0].fields)
            return self.page(form, status=UNPROCESSABLE, problem=refused[0].detail)
        if refused:
            return self.page(form, status=UNPROCESSABLE, results=results)
        what = results[0].name if len(results) == 1 else f"{len(results)} instances"
        takes_back = None
        if self.verb == "retire" and not self.is_confirmed:
            numbers = [str(one.id) for one in self.agents]
            takes_back = undo(
                reverse("instances-act", args=["restore"]), self.environment, agent=numbers, back=self.back
            )
        return redirect_with_notice(self.request, self.back, f"{what}: {results[0].text}.", undo=takes_back)

    def page(
        self, form: InstanceForm, *, status: int = 200, problem: str = "", results: Sequence[Result] = ()
    ) -> HttpResponse:
        told = {one.name: one for one in results}
        context = {
            "now": self.now,
            "verb": self.verb,
            "words": self.words,
            "title": f"{self.words.title} {self._about()}",
            "form": form,
            "lines": [(one, told.get(f"{one.service}/{one.instance}")) for one in self.agents],
            "is_confirmed": self.is_confirmed,
            "is_done": bool(results),
            "refused": sum(one.rejection is not None for one in results),
            "back": self.back,
            "problem": problem,
        }
        return render_page(self.request, "agents/instance_act", context, status=status)

    def _about(self) -> str:
        if len(self.agents) == 1:
            return f"{self.agents[0].service}/{self.agents[0].instance}"
        return f"{len(self.agents)} instances"
