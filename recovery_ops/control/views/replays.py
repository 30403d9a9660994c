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

from events.pages import render_page
from events.sankey import sankey
from events.wording import category_text, count_text, share_text
from recovery_ops.control.actions import Refused
from recovery_ops.control.actions.replays import cancel_replay, start_replay
from recovery_ops.control.context import actor_of, visit_of
from recovery_ops.control.differences import lines_of
from recovery_ops.control.jobs import put_into_tray
from recovery_ops.control.models import PolicyProposal, Replay
from recovery_ops.control.replay.deciding import NO_COST, NOT_ADMITTED, NOT_ASKED, NOT_MADE, OTHER_MODEL
from recovery_ops.control.replay.loop import LOOP_WORDS
from recovery_ops.control.replay.measures import COST, WORDS
from recovery_ops.control.templatetags.console import count
from recovery_ops.control.views.answers import changed
from recovery_ops.rules.words import Category

WINDOWS = [("3600", "the last hour"), ("21600", "6 hours"), ("86400", "24 hours"), ("604800", "7 days")]
REFRESH_S = 2
MOST_OPERATIONS = 20

DOUBTS = {
    NOT_MADE: (
        "attempt would be made that nobody made",
        "attempts would be made that nobody made",
        "Whether that would have gone well is not recorded.",
    ),
    NOT_ASKED: (
        "call would go to a fallback that never answered it",
        "calls would go to a fallback that never answered them",
        "Its answers and its load are not recorded.",
    ),
    NOT_ADMITTED: (
        "call was refused and would be made",
        "calls were refused and would be made",
        "What would have come of that is not recorded.",
    ),
    OTHER_MODEL: (
        "attempt would ask another model",
        "attempts would ask another model",
        "It is taken to have ended as with the recorded one.",
    ),
    NO_COST: (
        "attempt at a model has no cost that is known",
        "attempts at models have no cost that is known",
        "Tokens were not counted, or no run of the instance told tokens and cost.",
    ),
}
"""What cannot be known, in words of one and of several, and why."""
_IN_BETWEEN = "Facts do not tell when a tool went well, so how many failures came in a row is not recorded."
_AFTERWARDS = "What a run that ends sooner would have left undone, or one that goes on have come to, is not recorded."
_STEPS = "How long steps took is recorded of those alone that failed, so how many would be cut is not known."
UNDECIDED = {
    "errors_before_warning": ("Failures in a row before the model must change its approach", _IN_BETWEEN),
    "errors_before_abort": ("Failures in all that end a run", _AFTERWARDS),
    "step_floor_s": ("The least a step may take, in seconds", _STEPS),
    "step_factor": ("How many times its call deadline a step may take", _STEPS),
    "input_share": (
        "The share of its input that a request keeps when it is cut",
        "How long inputs were, and whether a shorter one would have been answered, is not recorded.",
    ),
    "outside_chars": (
        "Characters of a message from outside that the model sees",
        "What a model would have made of more or less of a message is not recorded.",
    ),
}
"""Guards that are not decided again, in words."""
NOT_TOLD = (
    "failure of which a classification rule asks for a code or a message that its record does not tell",
    "failures of which a classification rule asks for a code or a message that their records do not tell",
    "Older agents told no code. They are taken not to match.",
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
        raise PermissionDenied(f"Your role does not let you replay policies in {environment}.")
    if not PolicyProposal.objects.filter(environment=environment, number=number).exists():
        raise Http404(f"There is no proposal {number} in {environment}.")
    form = ReplayForm(request.POST)
    if not form.is_valid():
        back = reverse("proposal", args=[number])
        return changed(request, back, "Nothing was started: choose how far to look back.")
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
            reason=f"to see what proposal {number} would change",
            key=cleaned["key"] or None,
            number=number,
            start=now - timedelta(seconds=cleaned["window"]),
            end=now,
            operation=cleaned["operation"],
            service=cleaned["service"],
            now=now,
        )
    except Refused as refusal:
        return changed(request, reverse("proposal", args=[number]), refusal.detail)
    put_into_tray(request.session, now)
    return changed(request, reverse("replay", args=[done.object.number]), "The replay begins within seconds.")


@require_http_methods(["GET", "POST"])
def replay(request: HttpRequest, *, environment: str, number: int) -> HttpResponse:
    """How far a replay has come, or what came of it; POST calls it off."""
    found = Replay.objects.filter(environment=environment, number=number).select_related("proposal").first()
    if found is None:
        raise Http404(f"There is no replay {number} in {environment}.")
    if request.method == "POST":
        return _cancelled(request, found)
    result = found.result or {}
    context = {
        "now": timezone.now(),
        "replay": found,
        "result": result,
        "sentence": sentence_of(found),
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
    answer = render_page(request, "control/policy_replay", context)
    if found.is_unfinished:
        answer["Refresh"] = str(REFRESH_S)
    return answer


def _sankey(endings: Sequence[Mapping[str, Any]]) -> str:
    """How affected calls end under the one policy and under the other, as a drawing; nothing where none is affected."""
    flows = [(str(one["old"]), str(one["new"]), int(one["calls"])) for one in endings]
    return sankey(flows, marks_changes=True) if flows else ""


def _cancelled(request: HttpRequest, found: Replay) -> HttpResponse:
    if not visit_of(request).grants.may("propose_policy", found.environment):
        raise PermissionDenied(f"Your role does not let you cancel replays in {found.environment}.")
    cancel_replay(
        by=actor_of(request),
        environment=found.environment,
        number=found.number,
        reason="nobody waits for it any more",
    )
    return changed(request, reverse("replay", args=[found.number]), f"Replay {found.number} is called off.")


def sentence_of(found: Replay) -> str:
    """What came of it, in one sentence."""
    result = found.result
    if found.state == Replay.WAITING:
        return "It waits for its turn."
    if found.state == Replay.RUNNING:
        read = f"{found.read_facts:,} read, " if found.read_facts > found.done_facts else ""
        return f"Of {found.total_facts:,} facts {read}{found.done_facts:,} decided again."
    if result is None:
        return found.problem or "It was called off before it was done."
    if not result["calls"]:
        return "Nothing in this window failed or was refused, so no policy would have decided otherwise."
    calls = count_text(result["affected_calls"], "call")
    if not result["affected_calls"]:
        renamed = result.get("classification", {}).get("failures", 0)
        if renamed:
            failures = count_text(renamed, "failure")
            return f"{failures} would be classified otherwise; no call would end or wait otherwise."
        return f"Of {count_text(result['calls'], 'call')} that failed, none would be decided otherwise."
    parts = [
        f"{row.change} {WORDS_SHORT[row.name]}"
        for row in rows_of(result["measures"])
        if row.change and row.name in WORDS_SHORT
    ]
    told = f": {', '.join(parts)}" if parts else ""
    return f"{calls} of {result['calls']:,} that failed would be decided otherwise{told}."


WORDS_SHORT = {
    "attempts": "attempts",
    "waiting_s": "waiting",
    "refused": "refusals",
    "fallbacks": "answers from a fallback",
    "failed": "failed calls",
    COST: "cost",
}
"""What the sentence tells of."""


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
        (f"{what}: {guards[name]['old']:g} under the old policy, {guards[name]['new']:g} under the new", why)
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
    return f"{share} of {count_text(told, 'call')} whose end was recorded end the same under the old policy."


def named(version: str) -> str:
    """A version in words."""
    return f"policy {version}" if version.isdigit() else "the built-in policy"
