"""The queue of questions to people, each question's page, and the acts on one of them or on many at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from events import queries
from events.capacity.asking import capacity_events
from events.empties import Clause, Empty
from events.exports import JSON, MARKDOWN, is_asked, rows_answer
from events.pages import render_page
from events.wording import clock_text, count_text, span_text, zone_word
from recovery_ops.control.actions.escalations import RESPONSES, Response, Result, respond_to_each
from recovery_ops.control.context import actor_of, visit_of
from recovery_ops.control.escalations import asking
from recovery_ops.control.escalations.asking import EscalationRow
from recovery_ops.control.escalations.merging import NAMED_MOST
from recovery_ops.control.escalations.presence import BEAT_S, others_at
from recovery_ops.control.escalations.terms import matter_of, then_of
from recovery_ops.control.exporting.escalations import EscalationsFile, narrowed_of, tab_of
from recovery_ops.control.exporting.lists import rows_at_once, wish_in
from recovery_ops.control.forms import REASON_MOST_CHARS, new_key
from recovery_ops.control.models import Escalation
from recovery_ops.control.models.escalations import ANSWER_CHARS, LABELS_CHARS
from recovery_ops.control.notify.chains import plan_of
from recovery_ops.control.notify.people import names_of_responders
from recovery_ops.control.views.answers import changed
from recovery_ops.control.views.linked import cause_href, fingerprint_about
from recovery_ops.control.views.nothing import no_escalation
from recovery_ops.control.views.paging import from_the_start, page, place_asked
from recovery_ops.control.views.postmortem import PostMortem
from recovery_ops.control.views.queue_rows import columns_of, with_steps
from recovery_ops.control.views.runbooks import steps_on
from recovery_ops.rules.escalation_terms import SEVERITIES
from recovery_ops.rules.words import Category

UNPROCESSABLE = 422
_TAB_WORDS = {
    "open": "Open",
    "unacknowledged": "Not taken",
    "mine": "Mine",
    "snoozed": "Snoozed",
    "resolved": "Resolved",
}
_AT_ONCE = ("acknowledge", "reopen")
"""Acts that need no more words than the click."""
_SNOOZES = [(900, "15 m"), (3600, "1 h"), (14_400, "4 h"), (86_400, "1 day")]
_EVIDENCE_FOR = timedelta(hours=24)
_PAGE = asking.ROWS_MOST
_NUMBERS_MOST = 500
ASKED_ABOVE = asking.ROWS_MOST
"""More than a page of the queue: then their number is typed before anything is done to them."""
_QUERY_CHARS = 2000


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
        title="Take", button="Take", lead="You hold it for half of its time, at most 30 minutes; then it asks again."
    ),
    "assign": Wording(title="Assign", button="Assign", lead="Who is to answer it?", fields=("to_person",)),
    "snooze": Wording(title="Snooze", button="Snooze", lead="It comes back by itself.", fields=("for_s",)),
    "escalate": Wording(
        title="Ask another queue about", button="Ask", lead="Its clock to be taken starts anew.", fields=("to",)
    ),
    "note": Wording(title="Comment on", button="Comment", lead="Everybody who looks at it reads this."),
    "label": Wording(title="Label", button="Label", lead="The queue can be narrowed to a label.", fields=("labels",)),
    "merge": Wording(
        title="Merge", button="Merge", lead="It is closed, and its number leads to the other.", fields=("into",)
    ),
    "resolve": Wording(title="Resolve", button="Resolve", lead="Nothing more is to be done about it."),
    "reopen": Wording(title="Reopen", button="Reopen", lead="Its clocks start anew."),
    "approve": Wording(
        title="Approve",
        button="Approve",
        lead="A run that waits goes on.",
        fields=("text",),
        answer="Unchanged or empty: it goes on as it proposed. What you write instead it goes on with.",
    ),
    "reject": Wording(
        title="Reject",
        button="Reject",
        lead="A run that waits is told no.",
        fields=("text",),
        answer="What it reads with the no.",
    ),
}


class RespondForm(forms.Form):
    """Everything an act may need; which of it is asked for depends on the act."""

    reason = forms.CharField(max_length=REASON_MOST_CHARS, required=False)
    to = forms.CharField(max_length=200, required=False)
    for_s = forms.TypedChoiceField(choices=_SNOOZES, coerce=int, required=False, empty_value="3600")
    into = forms.IntegerField(min_value=1, required=False)
    text = forms.CharField(max_length=ANSWER_CHARS, required=False)
    labels = forms.CharField(max_length=LABELS_CHARS, required=False)
    confirm = forms.CharField(max_length=8, required=False)
    version = forms.IntegerField(min_value=1, required=False)
    key = forms.CharField(max_length=40, required=False)


def escalations(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The queue: one tab of it, of all queues or of one."""
    now, me = timezone.now(), request.user.pk
    wish = wish_in(request, environment, None, now)
    tab, narrowed = tab_of(wish), narrowed_of(wish)
    after = place_asked(request, asking.PLACE)
    if is_asked(request):
        rows_of_file, columns_of_file = rows_at_once(EscalationsFile(), wish), EscalationsFile.columns
        return rows_answer(request, f"escalations {environment} {tab}", columns_of_file, rows_of_file)
    rows, cursor = asking.page_of(environment, tab, by=me, now=now, after=after, most=_PAGE, narrowed=narrowed)
    columns = columns_of(request, environment, is_whole=after is None and not cursor)
    counts = asking.counts_of(environment, by=me, now=now)
    offered = asking.offered(environment)
    context = {
        "now": now,
        "tab": tab,
        "tabs": [(name, _TAB_WORDS[name], counts[name], _address(name, narrowed)) for name in asking.TABS],
        "narrowed": narrowed,
        "choices": _choices(tab, narrowed, offered),
        "owners": offered.owners,
        "labels": offered.labels,
        "services": offered.services,
        "categories": offered.categories,
        "let_go": [
            (_CLAUSE_WORDS[name].format(value), _address(tab, narrowed.without(name)))
            for name, value in narrowed.given.items()
            if name in ("owner", "label", "service", "category", "q")
        ],
        "rows": with_steps(columns.in_order(rows), now),
        "columns": columns,
        "exports": "escalations",
        "page": page(request, rows, after, cursor),
        "found": asking.count_of(environment, tab, by=me, now=now, narrowed=narrowed) if cursor else len(rows),
        "every": from_the_start(request).urlencode(),
        "chosen": _numbers(request.GET.getlist("chosen")),
        "empty": None if rows else _empty(environment, tab, me, narrowed, counts, now),
        "sentence": _sentence(rows if tab == "open" and len(rows) == counts["open"] else None, counts, now),
    }
    return render_page(request, "control/escalations", context)


_CLAUSE_WORDS = {
    "queue": "queue {}",
    "severity": "severity {}",
    "owner": "owner {}",
    "label": "label {}",
    "due": "due {}",
    "service": "agent {}",
    "category": "cause {}",
    "q": "“{}”",
}
_DUE_WORDS = {"late": "Late", "soon": "Due within 15 min"}


def _choices(
    tab: str, narrowed: asking.Narrowed, offered: asking.Offered
) -> list[tuple[str, str, str, list[tuple[str, str, bool]]]]:
    """The chips: what they choose by, the words and the address for all of them, and each with its address."""
    queues = {name: name for name in offered.queues} if len(offered.queues) > 1 or narrowed.queue else {}
    severities = {word: word for word in reversed(SEVERITIES)}
    rows = (
        ("queue", "All queues", queues),
        ("severity", "All severities", severities),
        ("due", "Any time", _DUE_WORDS),
    )
    found = []
    for name, every, words in rows:
        here = getattr(narrowed, name)
        chips = [
            (word, _address(tab, replace(narrowed, **{name: value})), value == here) for value, word in words.items()
        ]
        if chips and not (name == "due" and tab == "resolved"):
            found.append((name, every, _address(tab, narrowed.without(name)), chips))
    return found


def _empty(
    environment: str, tab: str, me: int | None, narrowed: asking.Narrowed, counts: Mapping[str, int], now: datetime
) -> Empty:
    """Why nothing is shown: each filter that is asked for says what it hides."""
    clauses = []
    for name, value in narrowed.given.items():
        rest = narrowed.without(name)
        without = asking.count_of(environment, tab, by=me, now=now, narrowed=rest)
        words = _CLAUSE_WORDS[name].format(value)
        clauses.append(Clause(words=words, without=without, href=_address(tab, rest)))
    return no_escalation(environment, tab, clauses, counts, now=now)


def escalation(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """One question: the paragraph, the decision, the clocks, what was said, what it is about, what was like it."""
    now = timezone.now()
    one = _found(environment, number)
    if one.merged_into_id is not None:
        return redirect("escalation", number=one.merged_into_id)
    row = asking.row_of(one, now)
    story = asking.story_of(one)
    start = min(one.opened_at, one.seen_at) - timedelta(minutes=5)
    # What stopped a run as a whole lies in the run: any operation of it.
    about: dict[str, Any] = {"operation": one.operation} if one.operation else {"runs": set(one.runs) - {""}}
    failures = queries.recent_failures(environment, start=max(start, now - _EVIDENCE_FOR), end=now, limit=10, **about)
    cause = fingerprint_about(one, failures)
    outages = capacity_events(environment, start=start, end=one.resolved_at or now, now=now)
    context = {
        "now": now,
        "row": row,
        "one": one,
        "paragraph": _paragraph(row, now),
        "then": then_of(one),
        "others": others_at(one, request.user, now) if isinstance(request.user, User) else [],
        "beat_s": BEAT_S,
        "story": story,
        "plan": plan_of(one, story, now),
        "failures": failures,
        "cause": cause if one.category == Category.UNKNOWN else "",
        "cause_href": cause_href(one, cause, now),
        "has_breaker": queries.breaker(environment, one.operation, now=now) is not None if one.operation else False,
        "outages": [event for event in outages if one.operation in event.operations][:3],
        "similar": asking.similar_to(one),
        **steps_on(one),
    }
    if is_asked(request, MARKDOWN, JSON):
        return PostMortem.of(context).answer(request)
    return render_page(request, "control/escalation", context)


@require_http_methods(["GET", "POST"])
def respond(request: HttpRequest, *, environment: str, verb: str) -> HttpResponse:
    """The form of an act on the escalations that are named (`number`, once or more), or the act itself."""
    kind = RESPONSES.get(verb)
    if kind is None:
        raise Http404(f"There is no act {verb}.")
    if not visit_of(request).grants.may(kind.permission, environment):
        raise PermissionDenied(f"Your role does not let you {kind.permission} in {environment}.")
    given = request.POST if request.method == "POST" else request.GET
    every = given.get("matching")
    numbers = _numbers(given.getlist("number")) if every is None else _every(request, environment, every)
    if not numbers:
        return changed(request, _back(request), "Choose at least one escalation first.")
    asked = _Asked(request, environment, verb, kind, numbers)
    # Of a whole list first what is meant is shown: the form then names each of them.
    return asked.carried_out() if request.method == "POST" and every is None else asked.page(asked.form())


def _every(request: HttpRequest, environment: str, query: str) -> list[int]:
    """The numbers of what the list with this query has on all its pages, the most urgent first."""
    asked = QueryDict(query[:_QUERY_CHARS])
    tab = asked.get("tab", "open")
    rows, _ = asking.page_of(
        environment,
        tab if tab in asking.TABS else "open",
        by=request.user.pk,
        now=timezone.now(),
        most=_NUMBERS_MOST,
        narrowed=asking.Narrowed.of(asked),
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
        initial: dict[str, Any] = {"key": new_key(), "for_s": 3600}
        if len(self.numbers) == 1:
            one = _found(self.environment, self.numbers[0])
            initial |= {
                "version": one.version,
                "to": "" if self.verb == "escalate" else self.request.user.get_username(),
                "text": one.proposal if self.verb == "approve" else "",
            }
        return RespondForm(initial=initial)

    def carried_out(self) -> HttpResponse:
        form = RespondForm(self.request.POST)
        if not form.is_valid():
            return self.page(form, status=UNPROCESSABLE, problem="Look at what you typed.")
        if self.is_confirmed and form.cleaned_data["confirm"].strip() != str(len(self.numbers)):
            form.add_error("confirm", f"Type {len(self.numbers)}: so many are meant.")
            return self.page(form, status=UNPROCESSABLE, problem="Nothing was done.")
        results = self._done(form.cleaned_data)
        refused = [one for one in results if not one.is_done]
        is_one_fault = len(refused) == len(results) and len({one.text for one in refused}) == 1
        if is_one_fault and self.verb not in _AT_ONCE:  # said once, however many were asked for
            return self.page(form, status=UNPROCESSABLE, problem=refused[0].text)
        if refused and len(results) > 1:
            return self.page(form, status=UNPROCESSABLE, results=results)
        return changed(self.request, _back(self.request), _notice(results))

    def _done(self, cleaned: dict[str, Any]) -> list[Result]:
        is_alone = len(self.numbers) == 1
        key = cleaned["key"] if is_alone else ""  # one key stands for one change
        return respond_to_each(
            self.verb,
            self.numbers,
            by=actor_of(self.request),
            environment=self.environment,
            reason=cleaned["reason"],
            to=cleaned["to"],
            for_s=float(cleaned["for_s"]),
            text=cleaned["text"],
            labels=cleaned["labels"],
            into=cleaned["into"] or 0,
            version=cleaned["version"] if is_alone else None,
            key=key or None,
            now=self.now,
        )

    def page(
        self, form: RespondForm, *, status: int = 200, problem: str = "", results: Sequence[Result] = ()
    ) -> HttpResponse:
        """The form; after an act on many that was refused for some, with those alone chosen, and why for each."""
        told = {one.number: one.text for one in results if not one.is_done}
        numbers = list(told) or self.numbers
        found = Escalation.objects.filter(environment=self.environment, pk__in=numbers).order_by("pk")
        shown = found if told else found[:5]
        known = [(asking.row_of(one, self.now), told.get(one.pk, "")) for one in shown]
        context = {
            "now": self.now,
            "verb": self.verb,
            "words": self.words,
            "form": form,
            "numbers": numbers,
            "is_confirmed": len(numbers) > ASKED_ABOVE,
            "most": _NUMBERS_MOST,
            "about": ", ".join(str(one) for one in found[:5]) + (" …" if len(numbers) > 5 else ""),
            "rows": known,
            "strangers": [(number, told[number]) for number in told if number not in {row.number for row, _ in known}],
            "refused": count_text(len(told), "was refused and is", "were refused and are") if told else "",
            "done": _notice([one for one in results if one.is_done]),
            "is_reason_needed": not self.kind.reason,
            "people": names_of_responders(self.environment, now=self.now) if self.verb == "assign" else [],
            "back": _choosing(_back(self.request), numbers) if told else _back(self.request),
            "problem": problem,
        }
        return render_page(self.request, "control/respond", context, status=status)


def _found(environment: str, number: int) -> Escalation:
    one = asking.find(environment, number)
    if one is None:
        raise Http404(f"There is no escalation ESC-{number} in {environment}.")
    return one


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


def _numbers(given: Sequence[str]) -> list[int]:
    """What was chosen, as far as it can be a number."""
    return [int(text) for text in given[:_NUMBERS_MOST] if text.isascii() and text.isdigit() and len(text) < 19]


def _address(tab: str, narrowed: asking.Narrowed) -> str:
    asked = {**({} if tab == "open" else {"tab": tab}), **narrowed.given}
    return f"?{urlencode(asked)}" if asked else "?"


def _notice(results: Sequence[Result]) -> str:
    done = [one for one in results if one.is_done]
    refused = [f"ESC-{one.number}: {one.text}" for one in results if not one.is_done]
    names = ", ".join(f"ESC-{one.number}" for one in done[:5]) + (f" and {len(done) - 5} more" if len(done) > 5 else "")
    told = [f"{names}: {done[0].text}."] if done else []
    return " ".join([*told, *refused[:3], *([f"{len(refused) - 3} more were refused."] if len(refused) > 3 else [])])


def _sentence(rows: Sequence[EscalationRow] | None, counts: dict[str, int], now: datetime) -> str:
    if not counts["open"]:
        snoozed = f"; {count_text(counts['snoozed'], 'one is', 'are')} snoozed" if counts["snoozed"] else ""
        return f"Nobody is asked anything{snoozed}."
    taken = f"{counts['unacknowledged']} of {counts['open']} not taken"
    if not rows:
        return f"{taken}."
    late = sum(row.is_breached for row in rows)
    if late:
        return f"{taken}; {count_text(late, 'deadline has', 'deadlines have')} passed."
    running = [row for row in rows if not row.one.is_defaulted]
    if not running:
        return f"{taken}. No deadline runs: what silence means was carried out."
    first = min(running, key=lambda row: (row.due, row.number))
    left = span_text(int((first.due - now).total_seconds()))
    return f"{taken}. The next deadline is that of {first.one}, in {left}: then {_then(first)}."


def _then(row: EscalationRow) -> str:
    if row.due == row.resolving.ends:
        return then_of(row.one, otherwise="it is late")
    return "nobody has taken it in time"


def _paragraph(row: EscalationRow, now: datetime) -> str:
    """What failed, how often, who asks, and what happens if nobody answers."""
    one = row.one
    who = f"{one.operation} of {one.service}" if one.operation else f"A run of {one.service}"
    matter = matter_of(one.reason, one.category)
    what = f"{who} asks {one.queue}" if row.is_question else f"{who}: {matter}"
    if one.fingerprint:
        what = f"A person asks {one.queue} about a cause of failures, last seen in {who}"
    if one.category and not row.is_question:
        what = f"{who} failed, {matter}"
    said = "" if row.is_question or not one.message else f": “{one.message.rstrip('. ')}”"
    times = "once" if one.occurrences == 1 else f"{one.occurrences:,} times"
    least = "at least " if len(one.runs) >= NAMED_MOST else ""
    runs = f" in {least}{count_text(len(one.runs), 'run')}" if one.runs else ""
    asked = f"It was asked {times}{runs}, last at {clock_text(one.seen_at, today=now)} {zone_word(now)}."
    if not one.is_open:
        return f"{what}{said}. {asked}"
    waits = "A run waits for the answer. " if one.ticket else ""
    then = then_of(one)
    end = f"If nobody decides by {clock_text(one.resolve_by, today=now)} {zone_word(now)}, {then}."
    if one.default_done_at is not None:
        end = f"Nobody decided in time: {then}. It stays open until somebody does."
    return f"{what}{said}. {asked} {waits}{end}"
