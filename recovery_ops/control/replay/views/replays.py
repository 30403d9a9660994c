"""Replays: asked for on the page of a proposal, watched while they run, read when they are done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_http_methods

from events.charts.sankey import sankey
from events.pages.rendering import render_page
from events.wording import category_text, count_text, share_text
from recovery_ops.control.core.differences import lines_of
from recovery_ops.control.core.environment import actor_of, visit_of
from recovery_ops.control.core.jobs import put_into_tray
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.responses import redirect_with_notice
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.replay.agent_loop import LOOP_WORDS
from recovery_ops.control.replay.engine import NO_COST, NOT_ADMITTED, NOT_ASKED, NOT_MADE, OTHER_MODEL, UNKNOWN
from recovery_ops.control.replay.measures import COST, WORDS
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.control.replay.services.replays import cancel_replay, start_replay
from recovery_ops.control.templatetags.console import count
from recovery_ops.rules.enums import Category

WINDOWS = [("3600", "the last hour"), ("21600", "6 hours"), ("86400", "24 hours"), ("604800", "7 days")]
REFRESH_S = 2
MOST_OPERATIONS = 20

DOUBTS = {
    NOT_MADE: (
        "additional attempt without a recorded result",
        "additional attempts without a recorded result",
        "The recording has no answer for them.",
    ),
    NOT_ASKED: (
        "call to a fallback without a recorded answer",
        "calls to a fallback without a recorded answer",
        "The fallback’s answers and load are not recorded.",
    ),
    NOT_ADMITTED: (
        "rejected call that would be made",
        "rejected calls that would be made",
        "Their results are not recorded.",
    ),
    OTHER_MODEL: (
        "attempt at another model",
        "attempts at another model",
        "Assumption: the same result as with the recorded model.",
    ),
    NO_COST: (
        "attempt at a model with unknown cost",
        "attempts at models with unknown cost",
        "Tokens were not counted, or no run of the instance reported tokens and cost.",
    ),
}
"""Unknown outcomes: singular, plural, reason."""
_IN_BETWEEN = "Successful tool calls are not recorded, so consecutive failures are unknown."
_AFTERWARDS = "The course of a run after an earlier or later end is not recorded."
_STEPS = "Durations are recorded of failed steps only, so the number of affected steps is unknown."
UNDECIDED = {
    "errors_before_warning": ("Consecutive failures before the model must change approach", _IN_BETWEEN),
    "errors_before_abort": ("Total failures that end a run", _AFTERWARDS),
    "step_floor_s": ("Shortest deadline of a step, in seconds", _STEPS),
    "step_factor": ("Deadline of a step as a multiple of its call deadline", _STEPS),
    "input_share": (
        "Share of the input that remains after a cut",
        "Lengths of inputs and answers to shorter inputs are not recorded.",
    ),
    "outside_chars": (
        "Most characters of an external message for the model",
        "The model’s reaction to a longer or shorter message is not recorded.",
    ),
}
"""Guards that are not decided again, in words."""
NOT_TOLD = (
    "failure without the code or message that a classification rule needs",
    "failures without the code or message that a classification rule needs",
    "Older agents reported no code. Assumption: no match.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRow:
    """One line of the table of results; `change` in words, empty where nothing changes."""

    name: str
    word: str
    recorded: float | None
    old: float
    new: float
    change: str

    @property
    def told_old(self) -> str:
        """The figure under the old policy, as it is shown."""
        return _told(self.name, self.old)

    @property
    def told_new(self) -> str:
        """The figure under the new policy, as it is shown."""
        return _told(self.name, self.new)


class ReplayForm(forms.Form):
    """Which part of the recording."""

    window = forms.TypedChoiceField(choices=WINDOWS, coerce=int, initial="86400")
    operation = forms.CharField(max_length=200, required=False)
    service = forms.CharField(max_length=200, required=False)
    key = forms.CharField(max_length=64, required=False)


@require_http_methods(["POST"])
def start(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """Ask for a replay of one proposal, and go to the page that shows it."""
    if not visit_of(request).grants.may("propose_policy", environment):
        raise PermissionDenied(f"Your role lacks the permission to replay policies in {environment}.")
    if not PolicyProposal.objects.filter(environment=environment, number=number).exists():
        raise Http404(f"{environment} has no proposal {number}.")
    form = ReplayForm(request.POST)
    if not form.is_valid():
        back = reverse("proposal", args=[number])
        return redirect_with_notice(request, back, "Replay not started; choose a time range.")
    return _started(request, environment, number, form.cleaned_data, now=timezone.now())


def start_of_last_day(
    request: HttpRequest, environment: str, number: int, *, key: str | None, now: datetime
) -> HttpResponse:
    """Ask for a replay of the last 24 hours of a proposal that was just saved."""
    cleaned = {"window": 86_400, "operation": "", "service": "", "key": key}
    return _started(request, environment, number, cleaned, now=now)


def _started(
    request: HttpRequest, environment: str, number: int, cleaned: Mapping[str, Any], *, now: datetime
) -> HttpResponse:
    try:
        done = start_replay(
            by=actor_of(request),
            environment=environment,
            reason=f"effect of proposal {number}",
            key=cleaned["key"] or None,
            number=number,
            start=now - timedelta(seconds=cleaned["window"]),
            end=now,
            operation=cleaned["operation"],
            service=cleaned["service"],
            now=now,
        )
    except CommandRejected as rejection:
        return redirect_with_notice(request, reverse("proposal", args=[number]), rejection.detail)
    put_into_tray(request.session, now)
    return redirect_with_notice(
        request, reverse("replay", args=[done.object.number]), "Replay queued; it starts within seconds."
    )


@require_http_methods(["GET", "POST"])
def replay(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """How far a replay has come, or what came of it; POST calls it off."""
    found = Replay.objects.filter(environment=environment, number=number).select_related("proposal").first()
    if found is None:
        raise Http404(f"{environment} has no replay {number}.")
    if request.method == "POST":
        return _cancelled(request, found)
    result = found.result or {}
    context = {
        "now": timezone.now(),
        "replay": found,
        "result": result,
        "sentence": sentence_of(found),
        "unknown_endings": unknown_endings_of(result),
        "share": (found.read_facts + found.done_facts) / 2 / found.total_facts if found.total_facts else 0.0,
        "old_name": named(found.old_version),
        "new_name": f"proposal {found.proposal.number}" if found.proposal is not None else "the document",
        "lines": lines_of(found.old_document, found.new_document),
        "rows": rows_of(result.get("measures")),
        "doubts": doubts_of(result),
        "undecided": undecided_of(result),
        "loop": loop_rows(result),
        "renamed": renamed_of(result),
        "endings": result.get("endings", []),
        "sankey": _sankey(result.get("endings", [])),
        "operations": operations_of(result.get("operations", [])),
        "examples": examples_of(result.get("examples", [])),
        "is_outdated": found.proposal is not None and found.proposal.edition != found.edition,
        "trust": trust_of(result),
    }
    answer = render_page(request, "replay/policy_replay", context)
    if found.is_unfinished:
        answer["Refresh"] = str(REFRESH_S)
    return answer


def _sankey(endings: Sequence[Mapping[str, Any]]) -> str:
    """How affected calls end under the one policy and under the other, as a drawing; nothing where none is affected."""
    flows = [(str(one["old"]), str(one["new"]), int(one["calls"])) for one in endings]
    return sankey(flows, marks_changes=True) if flows else ""


def _cancelled(request: HttpRequest, found: Replay) -> HttpResponse:
    if not visit_of(request).grants.may("propose_policy", found.environment):
        raise PermissionDenied(f"Your role lacks the permission to cancel replays in {found.environment}.")
    cancel_replay(
        by=actor_of(request),
        environment=found.environment,
        number=found.number,
        reason="no longer needed",
    )
    return redirect_with_notice(request, reverse("replay", args=[found.number]), f"Replay {found.number} cancelled.")


def sentence_of(found: Replay) -> str:
    """What came of it, in one sentence."""
    result = found.result
    if found.state == Replay.WAITING:
        return "Queued."
    if found.state == Replay.RUNNING:
        read = f"{found.read_facts:,} read, " if found.read_facts > found.done_facts else ""
        return f"{found.total_facts:,} events: {read}{found.done_facts:,} replayed."
    if result is None:
        return found.problem or "Cancelled before the end."
    if not result["calls"]:
        return "No call failed or was rejected in this window, so no policy has a different outcome."
    calls = count_text(result["affected_calls"], "call")
    if not result["affected_calls"]:
        renamed = result.get("classification", {}).get("failures", 0)
        if renamed:
            failures = count_text(renamed, "failure")
            return f"{failures} with a different category; no call with a different outcome."
        return f"{count_text(result['calls'], 'failed call')}, none with a different outcome."
    unknown = unknown_endings_of(result)
    known = LOAD_WORDS if unknown > MOST_UNKNOWN * result["affected_calls"] else LOAD_WORDS | OUTCOME_WORDS
    parts = [
        f"{row.change} {known[row.name]}" for row in rows_of(result["measures"]) if row.change and row.name in known
    ]
    told = f": {', '.join(parts)}" if parts else ""
    first = f"{count_text(unknown, 'outcome')} unknown. " if unknown else ""
    return f"{first}{calls} of {result['calls']:,} failed calls with a different outcome{told}."


MOST_UNKNOWN = 0.1
"""With a larger share of unknown outcomes among the affected calls, the headline compares only the load."""
LOAD_WORDS = {"attempts": "attempts", "waiting_s": "waits", "refused": "rejected calls"}
"""What the headline compares always: it follows from the recording and the policy."""
OUTCOME_WORDS = {"fallbacks": "fallback answers", "failed": "failed calls", COST: "cost"}
"""What the headline compares only where nearly all outcomes are known."""


def unknown_endings_of(result: Mapping[str, Any]) -> int:
    """How many affected calls have an unknown outcome under the new policy."""
    return sum(int(one["calls"]) for one in result.get("endings", []) if one["new"] == UNKNOWN)


def rows_of(measures: Mapping[str, Mapping[str, float | None]] | None) -> list[MeasureRow]:
    """The table of results."""
    if not measures:
        return []
    rows = []
    for name, word in WORDS.items():
        old, new = measures["old"].get(name), measures["new"].get(name)
        if old is None and new is None:
            continue  # nobody told what anything cost, or the replay is older than the measure
        was, will = old or 0.0, new or 0.0
        change = cost_change_of(was, will) if name == COST else change_of(was, will)
        recorded = None if name in ("tokens", COST) else measures["recorded"][name]
        rows.append(MeasureRow(name=name, word=word, recorded=recorded, old=was, new=will, change=change))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRow:
    """One line about guards, playbook and tools; `unknown` counts what stays open under the new policy."""

    word: str
    old: int
    new: int
    change: str
    unknown: int


def loop_rows(result: Mapping[str, Any]) -> list[LoopRow]:
    """What both policies make of the loop around calls; what neither does anything about is left out."""
    sides, unknown = result.get("loop"), result.get("loop_unknown", {}).get("new", {})
    if not sides:
        return []
    names = [*LOOP_WORDS, *sorted({*sides["old"], *sides["new"]} - LOOP_WORDS.keys())]
    rows = []
    for name in names:
        old, new = sides["old"].get(name, 0), sides["new"].get(name, 0)
        word = LOOP_WORDS.get(name) or f"Failures {name.replace('_', ' ')}"
        rows.append(LoopRow(word=word, old=old, new=new, change=change_of(old, new), unknown=unknown.get(name, 0)))
    return [row for row in rows if row.old or row.new or row.unknown]


def change_of(old: float, new: float) -> str:
    """`−30.1 %`; `+13` where there was too little for a share; empty for no change."""
    if round(old, 1) == round(new, 1):
        return ""
    sign = "+" if new > old else "−"
    if old < 20:
        return f"{sign}{abs(new - old):,.0f}" if abs(new - old) >= 1 else f"{sign}{abs(new - old):.1f}"
    return f"{sign}{share_text(abs(new - old) / old)}"


def cost_change_of(old_usd: float, new_usd: float) -> str:
    """`−30.1 %`; `+0.02` where there was nothing; empty for no change."""
    if _told(COST, old_usd) == _told(COST, new_usd):
        return ""
    sign, moved = "+" if new_usd > old_usd else "−", abs(new_usd - old_usd)
    return f"{sign}{share_text(moved / old_usd)}" if old_usd else f"{sign}{_told(COST, moved)}"


def _told(name: str, number: float) -> str:
    """`1,240`; dollars with two decimals, and four below one."""
    if name != COST:
        return count(number)
    return f"{number:,.2f}" if number >= 1 else f"{number:.4f}"


def doubts_of(result: Mapping[str, Any]) -> list[tuple[int, str, str]]:
    """What cannot be known under the proposed policy: how many, what, and why."""
    unknown = result.get("unknown", {}).get("new", {})
    found = [(unknown.get(name, 0), words) for name, words in DOUBTS.items()]
    found.append((result.get("classification", {}).get("not_told", 0), NOT_TOLD))
    return [(number, one if number == 1 else several, why) for number, (one, several, why) in found if number]


def undecided_of(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Limits that the two policies state otherwise, and of which no fact tells what that changes: what, and why."""
    guards = result.get("undecided_guards", {})
    return [
        (f"{what}: {guards[name]['old']:g} under the old policy, {guards[name]['new']:g} under the new one", why)
        for name, (what, why) in UNDECIDED.items()
        if name in guards
    ]


def renamed_of(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Failures that the two policies classify otherwise, with the categories in words."""
    changes = result.get("classification", {}).get("changes", [])
    return [{**one, "old": _category(one["old"]), "new": _category(one["new"])} for one in changes]


def _category(word: str) -> str:
    return category_text(Category(word)) if word in set(Category) else word


def operations_of(operations: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[MeasureRow]]]:
    """The operations for which something changes, with what does."""
    found = []
    for one in operations:
        rows = [row for row in rows_of({"old": one["old"], "new": one["new"], "recorded": one["old"]}) if row.change]
        if rows:
            found.append((str(one["operation"]), rows))
    return found[:MOST_OPERATIONS]


def examples_of(examples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The examples with their moments read."""
    return [{**one, "at": parse_datetime(one["at"])} for one in examples]


def trust_of(result: Mapping[str, Any]) -> str:
    """How well the replay tells what is known: the recording against the policy it is taken to have run under."""
    told = result.get("told_endings", 0)
    if not told:
        return ""
    share = share_text(result["matched_endings"] / told)
    return f"{share} of {count_text(told, 'call')} with a recorded end have the same end under the old policy."


def named(version: str) -> str:
    """A version in words."""
    return f"policy {version}" if version.isdigit() else "the default policy"
