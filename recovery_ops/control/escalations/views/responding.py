"""The forms with which people act on questions, on one or on many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events.pages.rendering import render_page
from events.wording import count_text
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.forms import ReasonForm, new_key
from recovery_ops.control.core.labels import LABELS_CHARS
from recovery_ops.control.core.list_neighbours import NUL
from recovery_ops.control.core.numbers import NumberField, parse_numbers
from recovery_ops.control.core.reasons import needs_reason
from recovery_ops.control.core.rejections import CONFLICT
from recovery_ops.control.core.responses import STILL_TYPED, redirect_with_notice
from recovery_ops.control.core.undo import undo
from recovery_ops.control.escalations.models import ANSWER_CHARS, Escalation
from recovery_ops.control.escalations.selectors import queue as asking
from recovery_ops.control.escalations.services.actions import RESPONSES, Response, Result, respond_to_each
from recovery_ops.control.notifications.escalation_policies import (
    EVERY_QUEUE,
    chain_for,
    chains_of,
    coming_of,
    names_of,
    preview,
)
from recovery_ops.control.notifications.filters import narrowed_down
from recovery_ops.control.notifications.recipients import called, names_of_responders
from recovery_ops.rules.notifications.escalation_levels import EVERYBODY, GOES_ON, parse_steps

UNPROCESSABLE = 422
_AT_ONCE = ("acknowledge", "reopen")
"""Acts that need no more words than the click."""
_TOMORROW, _MOMENT = "tomorrow", "moment"
_SNOOZES = [("900", "15 m"), ("3600", "1 h"), ("14400", "4 h"), (_TOMORROW, "tomorrow 9:00"), (_MOMENT, "custom time")]
_MORNING_H = 9
_NUMBERS_MOST = 500
ASKED_ABOVE = asking.ROWS_MOST
"""More than a page of the queue: then their number is typed before anything is done to them."""
_QUERY_CHARS = 2000
_QUEUES_MOST, _NAMED_MOST = 20, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How an act reads on its form: the heading, the button, what it needs, what it will do."""

    title: str
    button: str
    lead: str
    fields: tuple[str, ...] = ()
    answer: str = ""
    """What becomes of the words to the run."""


_WORDS = {
    "acknowledge": Wording(
        title="Acknowledge", button="Acknowledge", lead="It expires after half of the resolve time, at most 30 minutes."
    ),
    "assign": Wording(
        title="Assign", button="Assign", lead="The owner is responsible for the resolution.", fields=("to_person",)
    ),
    "snooze": Wording(
        title="Snooze", button="Snooze", lead="The escalation returns to the queue afterwards.", fields=("for_s",)
    ),
    "escalate": Wording(
        title="Change queue of", button="Change queue", lead="The acknowledge deadline restarts.", fields=("to",)
    ),
    GOES_ON: Wording(
        title="Escalate to a level:",
        button="Ask",
        lead="The level is notified at once; earlier levels are skipped. The acknowledgement ends.",
        fields=("step",),
    ),
    "note": Wording(title="Comment on", button="Comment", lead="Visible to all users of the environment."),
    "entry": Wording(
        title="Add entry to",
        button="Add entry",
        lead="The entry appears at its own time in the timeline.",
        fields=("happened_at",),
    ),
    "label": Wording(title="Label", button="Label", lead="Labels filter the queue.", fields=("labels",)),
    "merge": Wording(title="Merge", button="Merge", lead="It is closed and redirects to the target.", fields=("into",)),
    "resolve": Wording(title="Resolve", button="Resolve", lead="It is closed."),
    "reopen": Wording(title="Reopen", button="Reopen", lead="The deadlines restart."),
    "approve": Wording(
        title="Approve",
        button="Approve",
        lead="A waiting run continues.",
        fields=("text",),
        answer="Empty or unchanged: the run continues with its proposal. Other text replaces it.",
    ),
    "reject": Wording(
        title="Reject",
        button="Reject",
        lead="A waiting run receives the rejection.",
        fields=("text",),
        answer="The run receives it with the rejection.",
    ),
}


class RespondForm(ReasonForm):
    """Everything an act may need; which of it is asked for depends on the act."""

    to = forms.CharField(max_length=200, required=False)
    for_s = forms.ChoiceField(choices=_SNOOZES, required=False)
    until = forms.DateTimeField(
        required=False,
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"],
        error_messages={"invalid": "The value is not a time; use 2026-01-31T22:00."},
    )
    into = NumberField(min_value=1, required=False)
    step = NumberField(min_value=1, required=False)
    happened_at = forms.DateTimeField(
        required=False,
        input_formats=["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"],
        error_messages={"invalid": "The value is not a time; use 2026-01-31T22:00."},
    )
    text = forms.CharField(max_length=ANSWER_CHARS, required=False)
    labels = forms.CharField(max_length=LABELS_CHARS, required=False)
    confirm = forms.CharField(max_length=8, required=False)
    version = NumberField(min_value=1, required=False)
    key = forms.CharField(max_length=40, required=False)

    def clean(self) -> dict[str, Any]:
        """Who chose a moment says which."""
        cleaned: dict[str, Any] = self.cleaned_data
        if cleaned.get("for_s") == _MOMENT and not cleaned.get("until") and "until" not in self.errors:
            self.add_error("until", "The time is empty; use 2026-01-31T22:00.")
        return cleaned

    def snoozed_for_s(self, now: datetime) -> float:
        """How long it is put off, in seconds; moments are those of the reader's zone."""
        said, until = self.cleaned_data["for_s"], self.cleaned_data.get("until")
        if said == _MOMENT and until is not None:
            return float((until - now).total_seconds())
        return (tomorrow_morning(now) - now).total_seconds() if said == _TOMORROW else float(said or 3600)


def tomorrow_morning(now: datetime) -> datetime:
    """Nine o'clock of the reader's next day."""
    begins = timezone.localtime(now).replace(hour=_MORNING_H, minute=0, second=0, microsecond=0)
    return begins + timedelta(days=1)


@require_http_methods(["GET", "POST"])
def respond(request: HttpRequest, *, environment: str, verb: str) -> HttpResponse:
    """The form of an act on the escalations that are named (`number`, once or more), or the act itself."""
    kind = RESPONSES.get(verb)
    if kind is None:
        raise Http404(f"Action {verb} does not exist.")
    if not visit_of(request).grants.may(kind.permission, environment):
        raise PermissionDenied(f"Your role lacks the permission to {kind.permission} in {environment}.")
    given = request.POST if request.method == "POST" else request.GET
    every = given.get("matching")
    numbers = numbers_of(given.getlist("number")) if every is None else _every(request, environment, every)
    if not numbers:
        return redirect_with_notice(request, _back(request), "No escalation is selected; select at least one.")
    asked = _Asked(request, environment, verb, kind, numbers)
    # Of a whole list first what is meant is shown: the form then names each of them.
    return asked.carried_out() if request.method == "POST" and every is None else asked.page(asked.form())


def _every(request: HttpRequest, environment: str, query: str) -> list[int]:
    """The numbers of what the list with this query has on all its pages, the most urgent first."""
    if NUL in query:
        return []
    asked = QueryDict(query[:_QUERY_CHARS])
    tab = asked.get("tab", "open")
    now = timezone.now()
    narrowed = narrowed_down(asking.Narrowed.of(asked).as_shown, environment, now)
    rows, _ = asking.page_of(
        environment,
        tab if tab in asking.TABS else "open",
        by=request.user.pk,
        now=now,
        most=_NUMBERS_MOST,
        narrowed=narrowed,
    )
    return [row.number for row in rows]


class _Asked:
    """One request for one act on some escalations."""

    def __init__(
        self, request: HttpRequest, environment: str, verb: str, kind: Response, numbers: Sequence[int]
    ) -> None:
        self.request, self.environment, self.verb, self.kind, self.numbers = request, environment, verb, kind, numbers
        self.words = _WORDS[verb]
        self.now = timezone.now()

    @property
    def is_confirmed(self) -> bool:
        """Whether so many are meant that somebody has to type how many."""
        return len(self.numbers) > ASKED_ABOVE

    def form(self) -> RespondForm:
        initial: dict[str, Any] = {"key": new_key(), "for_s": "3600"}
        if len(self.numbers) == 1:
            one = found_by(self.environment, self.numbers[0])
            initial |= {
                "version": one.version,
                "to": "" if self.verb == "escalate" else self.request.user.get_username(),
                "text": one.proposal if self.verb == "approve" else "",
            }
        return self._form(initial=initial)

    def _form(self, *args: Any, **kwargs: Any) -> RespondForm:
        return RespondForm(*args, is_reason_needed=needs_reason(f"escalation.{self.verb}", self.environment), **kwargs)

    def carried_out(self) -> HttpResponse:
        form = self._form(self.request.POST)
        if not form.is_valid():
            return self.page(form, status=UNPROCESSABLE, problem="Some fields are invalid.")
        if self.is_confirmed and form.cleaned_data["confirm"].strip() != str(len(self.numbers)):
            form.add_error("confirm", f"The number does not match; type {len(self.numbers)}.")
            return self.page(form, status=UNPROCESSABLE, problem="Not confirmed.")
        results = self._done(form)
        refused = [one for one in results if not one.is_done]
        if len(results) == 1 and results[0].is_stale:
            return self.page(form, status=CONFLICT, problem=f"{results[0].text} {STILL_TYPED}")
        is_one_fault = len(refused) == len(results) and len({one.text for one in refused}) == 1
        if is_one_fault and self.verb not in _AT_ONCE:  # said once, however many were asked for
            return self.page(form, status=UNPROCESSABLE, problem=refused[0].text)
        if refused and len(results) > 1:
            return self.page(form, status=UNPROCESSABLE, results=results)
        done = [str(one.number) for one in results if one.is_done]
        takes_back = None
        if self.verb == "resolve" and done and not self.is_confirmed:
            address, back = reverse("respond", args=["reopen"]), _back(self.request)
            takes_back = undo(address, self.environment, number=done, back=back)
        return redirect_with_notice(self.request, _back(self.request), _notice(results), undo=takes_back)

    def _done(self, form: RespondForm) -> list[Result]:
        cleaned = form.cleaned_data
        is_alone = len(self.numbers) == 1
        key = cleaned["key"] if is_alone else ""  # one key stands for one change
        return respond_to_each(
            self.verb,
            self.numbers,
            by=actor_of(self.request),
            environment=self.environment,
            reason=cleaned["reason"],
            to=cleaned["to"],
            for_s=form.snoozed_for_s(self.now),
            text=cleaned["text"],
            labels=cleaned["labels"],
            into=cleaned["into"] or 0,
            step=cleaned["step"] or 0,
            happened_at=cleaned["happened_at"],
            version=cleaned["version"] if is_alone else None,
            key=key or None,
            now=self.now,
        )

    def page(
        self, form: RespondForm, *, status: int = 200, problem: str = "", results: Sequence[Result] = ()
    ) -> HttpResponse:
        """The form; after an act on many that was refused for some, with those alone chosen, and why for each."""
        told = {one.number: one for one in results if not one.is_done}
        numbers = list(told) or self.numbers
        found = Escalation.objects.filter(environment=self.environment, pk__in=numbers).order_by("pk")
        shown = found if told else found[:5]
        is_stale = status == CONFLICT
        known = [(asking.row_of(one, self.now), told.get(one.pk)) for one in shown]
        context = {
            "now": self.now,
            "verb": self.verb,
            "words": self.words,
            "form": form,
            # Whoever sends the form after a refusal has seen what is there now.
            "version": shown[0].version if is_stale else form["version"].value(),
            "is_stale": is_stale,
            "numbers": numbers,
            "is_confirmed": len(numbers) > ASKED_ABOVE,
            "most": _NUMBERS_MOST,
            "about": ", ".join(str(one) for one in found[:5]) + (" …" if len(numbers) > 5 else ""),
            "rows": known,
            "strangers": [(number, told[number]) for number in told if number not in {row.number for row, _ in known}],
            "refused": count_text(len(told), "was rejected and is", "were rejected and are") if told else "",
            "done": _notice([one for one in results if one.is_done]),
            "people": names_of_responders(self.environment, now=self.now) if self.verb == "assign" else [],
            "morning": tomorrow_morning(self.now),
            "queues": self._queues() if self.verb == "escalate" else [],
            **(self._steps() if self.verb == GOES_ON else {}),
            "back": _choosing(_back(self.request), numbers) if told else _back(self.request),
            "problem": problem,
        }
        return render_page(self.request, "escalations/respond", context, status=status)

    def _steps(self) -> dict[str, Any]:
        """The steps to come of each that is chosen, with whom they ask, and the numbers to choose from."""
        found = list(Escalation.objects.filter(environment=self.environment, pk__in=self.numbers).order_by("pk"))
        coming = coming_of(found, self.now)
        told: dict[int, dict[str, list[str]]] = {}
        for one in found:
            for step in coming.get(one.pk, []):
                told.setdefault(step.number, {}).setdefault(step.who, []).append(str(one))
        alone = len(found) == 1
        is_for_everybody = any(called(EVERYBODY) in who for asked in told.values() for who in asked)
        return {
            "steps": [
                (number, [(who, "" if alone else ", ".join(of)) for who, of in sorted(asked.items())])
                for number, asked in sorted(told.items())
            ],
            "everybody": self._everybody() if is_for_everybody else "",
            "without": ", ".join(str(one) for one in found if not coming.get(one.pk)),
        }

    def _everybody(self) -> str:
        return ", ".join(names_of_responders(self.environment, now=self.now)[:_NAMED_MOST])

    def _queues(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Queues that can be asked, each with whom its chain asks and when; nobody where it has none that is on."""
        chains, names = chains_of(self.environment), names_of(self.environment)
        everybody = self._everybody()
        queues = sorted({*asking.offered(self.environment).queues, *(one for one in chains if one != EVERY_QUEUE)})
        found = []
        for queue in queues[:_QUEUES_MOST]:
            chain = chain_for(queue, chains)
            steps, _ = parse_steps(chain.steps) if chain is not None and chain.is_on else ((), [])
            asked = preview(steps, names, self.now)
            people = [f" ({everybody})" if step.person == EVERYBODY and everybody else "" for step in steps]
            found.append((queue, [(one.who + who, one.after) for one, who in zip(asked, people, strict=True)]))
        return found


def found_by(environment: str, number: int) -> Escalation:
    one = asking.find(environment, number)
    if one is None:
        raise missing(environment, number)
    return one


def missing(environment: str, number: int) -> Http404:
    """What is said of a number that no question has."""
    return Http404(f"Escalation ESC-{number} does not exist in {environment}.")


def _back(request: HttpRequest) -> str:
    """Where the asker came from: a page of ours, named by the form itself."""
    given = (request.POST or request.GET).get("back", "")
    queue = reverse("escalations")
    is_ours = given in (queue, reverse("overview")) or given.startswith((f"{queue}/", f"{queue}?"))
    return given if is_ours else queue


def _choosing(address: str, numbers: Sequence[int]) -> str:
    """The same page of the queue with these chosen; another page as it is."""
    path, _, query = address.partition("?")
    if path != reverse("escalations"):
        return address
    kept = [(name, value) for name, value in parse_qsl(query) if name != "chosen"]
    return f"{path}?{urlencode([*kept, *(('chosen', number) for number in numbers)])}"


def numbers_of(given: Sequence[str]) -> list[int]:
    """What was chosen, as far as it can be a number."""
    return parse_numbers(given[:_NUMBERS_MOST])


def _notice(results: Sequence[Result]) -> str:
    done = [one for one in results if one.is_done]
    refused = [f"ESC-{one.number}: {one.text}" for one in results if not one.is_done]
    names = ", ".join(f"ESC-{one.number}" for one in done[:5]) + (f" and {len(done) - 5} more" if len(done) > 5 else "")
    told = [f"{names}: {done[0].text}."] if done else []
    return " ".join([*told, *refused[:3], *([f"{len(refused) - 3} more rejected."] if len(refused) > 3 else [])])
