"""One run: its ladder, the same by operation, its trace, what was said, its attributes, and what people did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import orjson
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers
from django.utils.safestring import SafeString

from events.pages.rendering import render_page
from events.pages.table_files import MARKDOWN, Cell, is_asked, markdown_answer, rows_answer
from events.pages.window import Window
from events.queries.spend_accounts import Account, spend_accounts
from events.rows import AgentRow
from events.runs.behind import OutageTold, with_outages
from events.runs.ladder import RungLine, by_operation, drawn, rung_lines
from events.runs.records import RECORDS_MOST, RunRecord, records_of
from events.runs.rows import LOST, RUNG_WORDS, RunStory, Step, level_of
from events.runs.selectors import reporting_of, run_of
from events.runs.stored import is_told_of
from events.runs.story import category_counts
from events.timelines import Table
from events.wording import clock_text, count_text, lasted_text, listing
from recovery_ops.control.audit.guarded_content import show_facts
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.dashboard.views.changes import change_of
from recovery_ops.control.desired_state.document import live_policy
from recovery_ops.control.escalations.selectors.run_answers import Answered, Asked, asked_by, with_answers
from recovery_ops.control.policies.models.feedback import Feedback
from recovery_ops.control.runs.abort_status import abort_told
from recovery_ops.control.runs.empty_states import no_step
from recovery_ops.control.runs.retry_status import RetryTold, chance_of, fleet_for, retry_told
from recovery_ops.control.runs.status import Standing, reporting_in, standing_of
from recovery_ops.control.runs.stop_status import stop_told
from recovery_ops.control.runs.views.neighbours import beside_run
from recovery_ops.control.runs.views.trace import offset_of, trace_context
from recovery_ops.rules.enums import Rung
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.spend_settings import NO_CAPS

TABS = {
    "ladder": "Recovery steps",
    "timeline": "By operation",
    "trace": "Trace",
    "messages": "Messages",
    "attributes": "Attributes",
    "audit": "Audit",
}
_ALIKE_MOST = 5
_AROUND = timedelta(minutes=2)
_LOOKED_THROUGH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Climb:
    """A ladder as a panel shows it: drawn, with what stands beside its rungs."""

    story: RunStory
    drawing: SafeString
    rungs: Sequence[RungLine]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """What every tab is made of."""

    request: HttpRequest
    environment: str
    story: RunStory
    standing: Standing
    asked: Asked
    now: datetime
    facts: Sequence[RunRecord] | None = None
    """What was sent, where somebody asked for it and that is written down."""


def story_of(environment: str, run: str) -> RunStory:
    """What is known of a run. Raises Http404 where that is nothing."""
    story = run_of(environment, run) if run.isprintable() else None  # PostgreSQL takes no NUL
    if story is None:
        raise Http404(f"Run {run} does not exist in {environment}.")
    return story


def one_run(request: HttpRequest, *, environment: str, run: str) -> HttpResponse:
    """One run in one of its tabs (`tab=`); `with=` puts the ladder of another one under its own.

    POST shows the values of the tab of attributes, once it is written down who asked.
    """
    now = timezone.now()
    try:
        told = story_of(environment, run)
    except Http404:
        if request.method != "GET" or not (run.isprintable() and is_told_of(environment, run)):
            raise
        return render_page(request, "runs/run_none", {"run": run, "short": short(run), "empty": no_step()})
    people = asked_by(environment, told)
    # Of one that goes on, who there is says how it stands and who could begin it again: asked once.
    agents = fleet_for(environment, [told], now) if told.ended is None else None
    standing = standing_of(told, now, reporting_of(agents or ()))
    story = with_outages(with_answers(told, people), environment, now, is_lost=standing.word == LOST)
    sentence = _telling(story, standing, now)
    if is_asked(request):
        return rows_answer(request, f"run {run}", _COLUMNS, map(_cells, story.steps))
    if is_asked(request, MARKDOWN):
        return _told_in_markdown(request, environment, story, sentence, standing, now)
    asked = request.GET.get("tab", "")
    tab = asked if asked in TABS else "ladder"
    facts = _asked_facts(request, environment, run) if request.method == "POST" and tab == "attributes" else None
    page = _Page(
        request=request, environment=environment, story=story, standing=standing, asked=people, now=now, facts=facts
    )
    again = _retry(request, environment, story, standing, agents, now)
    context = {
        "now": now,
        "story": story,
        "short": short(run),
        "beside": beside_run(request, environment, run, now),
        "standing": standing,
        "is_open": facts is None and (again["is_awaited"] or (story.ended is None and standing.word != LOST)),
        "sentence": sentence,
        "abort": abort_told(environment, story, now),
        "stop": stop_told(environment, story, now),
        **again,
        "tab": tab,
        "tabs": [(name, word, str(place)) for place, (name, word) in enumerate(TABS.items(), start=1)],
        "question": next((one for one in people.questions if one.is_open), None),
        "bad_operation": next((step.operation for step in story.steps if step.operation and step.mark == "open"), ""),
        "timelines_href": _timelines_href(story, now),
        **_TAB_CONTEXTS[tab](page),
    }
    answer = render_page(request, "runs/run", context)
    if facts is not None:
        add_never_cache_headers(answer)
    return answer


def _retry(
    request: HttpRequest,
    environment: str,
    story: RunStory,
    standing: Standing,
    agents: Sequence[AgentRow] | None,
    now: datetime,
) -> Mapping[str, Any]:
    """The wish that it begins again, and of one that ended badly whether that can be asked for; `agents` are read where
    they are not yet."""
    told: RetryTold | None = retry_told(environment, story, now)
    may = visit_of(request).grants.may("retry", environment)
    is_asked_for = told is not None and told.is_waiting
    if not may or is_asked_for:
        return {"retry": told, "is_awaited": is_asked_for, "can_retry": False, "why_no_retry": "", "no_retry": None}
    agents = fleet_for(environment, [story], now) if agents is None else agents
    chance = chance_of(story, standing, agents, now)
    why_not = chance.why_not if chance.is_over_badly else ""
    return {
        "retry": told,
        "is_awaited": False,
        "can_retry": bool(chance.instances),
        "why_no_retry": why_not,
        "no_retry": chance.fault,
    }


def _asked_facts(request: HttpRequest, environment: str, run: str) -> Sequence[RunRecord]:
    try:
        return show_facts(by=actor_of(request), environment=environment, run=run)
    except CommandRejected as rejection:
        raise (PermissionDenied if rejection.status == 403 else Http404)(rejection.detail) from rejection


def short(run: str) -> str:
    """An id as it stands where there is little room; the whole of it is in the title and in the address."""
    return run if len(run) <= 18 else f"{run[:12]}…"


def dollars(cost_usd: float | None) -> str:
    """What a run cost, to the cent, or to its hundredth where that is little; empty where nobody said."""
    return "" if cost_usd is None else f"${cost_usd:.2f}" if cost_usd >= 0.1 else f"${cost_usd:.4f}"


def _ladder(page: _Page) -> Mapping[str, Any]:
    other = page.request.GET.get("with", "").strip()[:200]
    beside = run_of(page.environment, other) if other and other.isprintable() else None
    if beside is not None:
        beside = with_answers(beside, asked_by(page.environment, beside))
        how = standing_of(beside, page.now, reporting_in(page.environment, [beside], page.now))
        beside = with_outages(beside, page.environment, page.now, is_lost=how.word == LOST)
    climbs = [_climb(one, page.now) for one in (page.story, beside) if one is not None and one.pieces]
    return {
        "climbs": climbs,
        "with": other,
        "is_with_unknown": bool(other) and beside is None,
        "facts": list(_facts(page.story, page.standing, page.now, _account(page.environment, page.story, page.now))),
        "steps": [
            (step, offset_of(step.at - page.story.started), page.asked.by_fact.get(step.fact_id))
            for step in page.story.steps
        ],
        "alike": _alike(page.story),
        "not_taken": list(_not_taken(page.story)),
    }


def _alike(story: RunStory) -> list[tuple[str, str]]:
    """The causes that it met, each with what its last failure of it was."""
    said = {
        step.fingerprint: f"{step.operation} {step.title}{f': {step.detail}' if step.detail else ''}"
        for step in story.steps
        if step.fingerprint
    }
    return [(name, said.get(name, "")) for name in story.fingerprints[:_ALIKE_MOST]]


def _climb(story: RunStory, now: datetime) -> Climb:
    return Climb(story=story, drawing=drawn(story, now), rungs=rung_lines(story))


def _timeline(page: _Page) -> Mapping[str, Any]:
    moves = [(words, offset_of(at - page.story.started)) for at, words in page.story.moves]
    return {"lanes": by_operation(page.story, page.now) if page.story.pieces else None, "moves": moves}


def _trace(page: _Page) -> Mapping[str, Any]:
    return trace_context(page.environment, page.story, page.request.GET, page.now)


def _messages(page: _Page) -> Mapping[str, Any]:
    return {"said": [(step, offset_of(step.at - page.story.started)) for step in page.story.steps if step.detail]}


def _attributes(page: _Page) -> Mapping[str, Any]:
    records = page.facts if page.facts is not None else records_of(page.environment, page.story.run)
    is_errors = page.request.GET.get("only") == "errors"
    shown = [one for one in records[:RECORDS_MOST] if one.is_error or not is_errors]
    lines = [
        (one, offset_of(one.at - page.story.started), _said(one) if page.facts is not None else _only_named(one))
        for one in shown
    ]
    is_shown = page.facts is not None
    return {
        "records": lines,
        "is_shown": is_shown,
        "is_errors": is_errors,
        "total": len(records[:RECORDS_MOST]),
        "most": RECORDS_MOST,
    }


def _only_named(one: RunRecord) -> list[tuple[str, str]]:
    return [(name, "") for name in sorted(one.attributes)]


def _said(one: RunRecord) -> list[tuple[str, str]]:
    return [
        (name, value if isinstance(value, str) else orjson.dumps(value).decode())
        for name, value in sorted(one.attributes.items())
    ]


def _audit(page: _Page) -> Mapping[str, Any]:
    if not visit_of(page.request).grants.may("see_audit", page.environment):
        return {"changes": [], "is_hidden": True}
    said = Feedback.objects.filter(environment=page.environment, run=page.story.run)
    feedback = said.values_list("operation", flat=True)
    objects = {f"run {page.story.run}", *map(str, page.asked.questions)}
    operations = {"", "*", *feedback, *(one.operation for one in page.asked.questions)}
    entries = AuditEntry.objects.filter(
        environment=page.environment, operation__in=operations, result=AuditEntry.OK, at__gte=page.story.started
    ).order_by("-number")[:_LOOKED_THROUGH]
    run = page.story.run
    mine = [one for one in entries if one.object in objects or _is_feedback_on(one, run) or _is_of_many(one, run)]
    return {"changes": list(map(change_of, mine)), "is_hidden": False}


def _is_feedback_on(entry: AuditEntry, run: str) -> bool:
    return entry.verb == "feedback.say" and (entry.after or {}).get("run") == run


def _is_of_many(entry: AuditEntry, run: str) -> bool:
    verbs = ("run.abort", "run.retry", "run.begun", "run.forget_retry")
    return entry.verb in verbs and run in (entry.after or {}).get("runs", ())


_TAB_CONTEXTS = {
    "ladder": _ladder,
    "timeline": _timeline,
    "trace": _trace,
    "messages": _messages,
    "attributes": _attributes,
    "audit": _audit,
}


_COLUMNS = (
    *("at", "stands", "operation", "what", "detail", "fingerprint", "derived"),
    *("question", "answered by", "resolution", "proposed", "answered", "reason"),
)


def _cells(step: Step) -> tuple[Cell, ...]:
    said = (
        (f"ESC-{step.number}", step.by, step.resolution, step.proposal, step.answer, step.reason)
        if isinstance(step, Answered)
        else ("",) * 6
    )
    return (
        *(step.at, step.mark, step.operation, _title(step), step.detail, step.fingerprint),
        "" if step.derived is None else step.derived.words,
        *said,
    )


def _title(step: Step) -> str:
    """As the page says it, with the number that is a link there."""
    return f"{step.title} (CE-{step.event})" if isinstance(step, OutageTold) else step.title


def _told_in_markdown(
    request: HttpRequest, environment: str, story: RunStory, sentence: str, standing: Standing, now: datetime
) -> HttpResponse:
    facts = [f"{word}: {value}" for word, value in _facts(story, standing, now, _account(environment, story, now))]
    rows = tuple(
        (clock_text(step.at, today=now), offset_of(step.at - story.started), step.operation, _title(step), step.detail)
        for step in story.steps
    )
    table = Table(title="Timeline", columns=("Time", "Offset", "Operation", "Event", "Detail"), rows=rows)
    return markdown_answer(request, f"run {story.run}", f"Run {story.run}", [sentence, *facts], [table])


def _telling(story: RunStory, standing: Standing, now: datetime) -> str:
    """`Recovered at recovery step 2 of 5 after 6 × rate limited (429); fallback search_cache for search_web. 14 s.`"""
    took = lasted_text(story.length(now).total_seconds())
    so_far = " so far" if story.ended is None and standing.word != LOST else ""
    if not story.pieces:
        return f"No failures. {took}{so_far}."
    after = f" after {category_counts(story.failures)}" if story.failures else ""
    words = [f"{standing.word.capitalize()} at recovery step {story.level} of {level_of(Rung.FAIL)}{after}"]
    if story.stood_in:
        words.append(listing([f"fallback {stand_in} for {name}" for name, stand_in in story.stood_in.items()]))
    if story.gave_up:
        words.append(f"{listing(list(dict.fromkeys(story.gave_up)))} failed")
    cost = dollars(story.numbers.get("cost_usd"))
    return f"{'; '.join(words)}. {took}{so_far}{f', {cost}' if cost else ''}."


def _account(environment: str, story: RunStory, now: datetime) -> Account | None:
    """The spend account of a run under way, as its agent reports it; None without caps."""
    is_asked = story.ended is None and story.has_spending
    caps = parse_policy(live_policy(environment).document).spend_caps if is_asked else NO_CAPS
    found = spend_accounts(environment, caps, now, run=story.run) if caps.is_on else []
    return found[0] if found else None


def _facts(story: RunStory, standing: Standing, now: datetime, account: Account | None) -> Iterator[tuple[str, str]]:
    yield "Status", standing.word
    yield "Agent", f"{story.instance} {story.version}".strip()
    if story.source:
        yield "Request source", f"{story.source}, {'foreground' if story.is_foreground else 'background'}"
    yield "Duration", lasted_text(story.length(now).total_seconds()) + ("" if story.ended else " so far")
    yield "Failed attempts", f"{story.failed_attempts:,}, {count_text(story.retries, 'retry', 'retries')}"
    waited_s = story.waited_by(now)
    yield "Waited", lasted_text(waited_s) if waited_s else "none"
    numbers = story.numbers
    if "turns" in numbers:
        yield "Turns", f"{numbers['turns']:,.0f}"
    if "input_tokens" in numbers or "output_tokens" in numbers:
        yield "Tokens", f"{numbers.get('input_tokens', 0):,.0f} in, {numbers.get('output_tokens', 0):,.0f} out"
    if cost := dollars(numbers.get("cost_usd")):
        yield "Cost", cost
    if account is not None:
        yield "Spent", listing([one.numbers for one in account.balances])
    if story.policy:
        yield "Policy", story.policy


def _not_taken(story: RunStory) -> Iterator[tuple[str, str]]:
    """The rungs that were not needed or not to be had, as far as the facts tell."""
    reached = {piece.rung for piece in story.pieces}
    for place, rung in enumerate(Rung, start=1):
        if rung not in reached:
            is_above = place > story.level
            yield (
                f"{place} {RUNG_WORDS[rung]}",
                "not needed" if is_above else "skipped: no attempt reported",
            )


def _timelines_href(story: RunStory, now: datetime) -> str:
    around = Window(start=story.started - _AROUND, end=story.until(now) + _AROUND)
    return f"{reverse('timelines')}?{around.absolute_query}"
