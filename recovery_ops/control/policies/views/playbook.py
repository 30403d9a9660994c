"""The playbook that is in force: what answers each verdict, what it was asked for lately, and how that ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from events.charts.sankey import sankey
from events.pages.empties import none_in
from events.pages.rendering import render_page
from events.pages.window import PRESETS, window_in
from events.queries.plays import READ, PlayedRow, played
from events.wording import category_text, count_text, lasted_text, listing
from recovery_ops.control.desired_state.status import Standing
from recovery_ops.control.runbooks.views import lines_of
from recovery_ops.rules.enums import VERDICT_OF, Compensation, CompensationOutcome, Verdict
from recovery_ops.rules.playbook.verdicts import ADVICE, UNPROVEN, Play

_ENDED = {
    CompensationOutcome.SUCCEEDED_AFTER_COMPENSATION: "succeeded",
    CompensationOutcome.DEPRECATED: "skipped",
    CompensationOutcome.ESCALATED: "escalated",
    CompensationOutcome.REVERSED: "undone",
    CompensationOutcome.EXHAUSTED: "exhausted",
}
_NOT_PROVEN = "not proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One verdict: what leads to it, what answers it and how, what the agent does next, and what came of it lately."""

    verdict: str
    causes: str
    compensation: str
    how: str
    advice: str
    count: int
    ended: str
    last: datetime | None
    otherwise: str
    """What answered it in the range that this playbook does not say; empty for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """So often a verdict went to a compensation; `is_other` where the playbook in force would answer otherwise."""

    verdict: str
    compensation: str
    count: int
    ended: str
    is_other: bool


def playbook(request: HttpRequest, *, environment: str) -> HttpResponse:
    """The playbook and what was done by it in a range."""
    now = timezone.now()
    window = window_in(request, environment, now=now)
    standing = Standing(environment, now=now)
    found = played(environment, start=window.start, end=window.end)
    flows = _flows(found.rows, standing)
    empty = None
    if not flows:
        text = "The playbook handled no failure in this range; agents reported throughout it."
        empty = none_in(environment, window, now=now, title="No compensations in this range", text=text)
    version = standing.snapshot.policy.version
    context = {
        "now": now,
        "window": window,
        "presets": PRESETS,
        "lines": [*_lines(found.rows, standing), _unproven(found.rows)],
        "flows": flows,
        "sankey": sankey([(one.verdict, one.compensation, one.count) for one in flows]) if flows else "",
        "sentence": _sentence(flows, is_cut=found.is_cut),
        "source": f"of policy {version}" if version.isdigit() else "of the default policy",
        "empty": empty,
        "runbooks": lines_of(environment, now),
    }
    return render_page(request, "policies/playbook", context)


def _lines(rows: Sequence[PlayedRow], standing: Standing) -> Iterable[Line]:
    for verdict, play in standing.policy.playbook.plays.items():
        causes = [category_text(category) for category, one in VERDICT_OF.items() if one is verdict]
        mine = [row for row in rows if row.verdict == verdict]
        yield _line(_words(verdict), ", ".join(causes), play, ADVICE[verdict], mine)


def _unproven(rows: Sequence[PlayedRow]) -> Line:
    mine = [row for row in rows if not row.verdict]
    return _line(_NOT_PROVEN, "unknown failures", UNPROVEN, "Wait for the answer.", mine)


def _line(word: str, causes: str, play: Play, advice: str, rows: Sequence[PlayedRow]) -> Line:
    return Line(
        verdict=word,
        causes=causes,
        compensation=_words(play.compensation),
        how=_how(play),
        advice=advice,
        count=sum(row.count for row in rows),
        ended=_ended(rows),
        last=max((row.last for row in rows), default=None),
        otherwise=_otherwise(rows, play),
    )


def _otherwise(rows: Sequence[PlayedRow], play: Play) -> str:
    """`12 × issue reversal`: where a call's own code says how, or another playbook was in force."""
    sums: Counter[str] = Counter()
    for row in rows:
        if row.compensation != play.compensation:
            sums[_words(row.compensation)] += row.count
    return listing([f"{count:,} × {words}" for words, count in sums.most_common()])


def _how(play: Play) -> str:
    if play.delays_s:
        return f"after {listing([lasted_text(one) for one in play.delays_s], most=6)}"
    if play.compensation is Compensation.ESCALATE_TO_HUMAN:
        return f"escalates to {play.queue}"
    return f"ticket in {play.queue}" if play.queue else ""


def _flows(rows: Sequence[PlayedRow], standing: Standing) -> list[Flow]:
    """What went where, the most frequent first."""
    sums: Counter[tuple[str, str]] = Counter()
    for row in rows:
        sums[row.verdict, row.compensation] += row.count
    plays = standing.policy.playbook.plays
    known = set(Verdict)
    return [
        Flow(
            verdict=_words(verdict) if verdict else _NOT_PROVEN,
            compensation=_words(compensation),
            count=count,
            ended=_ended([row for row in rows if (row.verdict, row.compensation) == (verdict, compensation)]),
            is_other=verdict in known and plays[Verdict(verdict)].compensation != compensation,
        )
        for (verdict, compensation), count in sums.most_common()
    ]


def _ended(rows: Iterable[PlayedRow]) -> str:
    """`12 succeeded, 3 exhausted`; empty for nothing."""
    sums: Counter[str] = Counter()
    for row in rows:
        known = row.outcome in set(CompensationOutcome)
        sums[_ENDED[CompensationOutcome(row.outcome)] if known else row.outcome or "not reported"] += row.count
    return ", ".join(f"{count:,} {word}" for word, count in sums.most_common())


def _sentence(flows: Sequence[Flow], *, is_cut: bool) -> str:
    if not flows:
        return "Compensation of failures by verdict."
    total = sum(one.count for one in flows)
    least = f"Of the newest {READ:,}: " if is_cut else ""
    most = flows[0]
    told = f"{least}{count_text(total, 'failure')} compensated; most often {most.verdict} by {most.compensation}"
    return f"{told} ({most.count:,})."


def _words(word: str) -> str:
    return word.replace("_", " ") or "not reported"
