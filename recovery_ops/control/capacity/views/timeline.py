"""What happened in the course of an incident, in order: failures, breakers, fallbacks, actions, deployments, policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.urls import reverse

from events.capacity.models import CapacityArrangement
from events.capacity.occurrences import first_fallbacks
from events.capacity.rows import OWNER_CHIPS, CapacityEventRow
from events.deployments.asking import deployments
from events.pages.window import Window
from events.rows import FailureRow
from events.timelines import Kind, Mark
from events.wording import category_text, count_text
from recovery_ops.control.capacity.views.impact import described, peak_failures
from recovery_ops.control.core.wording import with_reason
from recovery_ops.control.dashboard.marks import acts_about, deployment_mark
from recovery_ops.control.escalations.selectors.by_incident import Said

BEFORE = timedelta(minutes=30)
"""What was deployed or edited so shortly before the first failure may be the cause of it."""
AFTER = timedelta(minutes=10)
"""What people did so soon after the last failure belongs to it."""


class Happened(StrEnum):
    """The kinds of entries."""

    FAILURE = "failure"
    BREAKER = "breaker"
    FALLBACK = "fallback"
    ESCALATION = "escalation"
    ACTION = "action"
    DEPLOYMENT = "deployment"
    POLICY = "policy"
    NOTE = "note"
    INCIDENT = "incident"
    ATTRIBUTION = "attribution"


_OF_MARKS = {
    Kind.DEPLOYMENT: Happened.DEPLOYMENT,
    Kind.POLICY: Happened.POLICY,
    Kind.OVERRIDE: Happened.ACTION,
    Kind.ESCALATION: Happened.ESCALATION,
    Kind.ANNOTATION: Happened.NOTE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing that happened; `href` is the page that tells more of it, empty where there is none."""

    at: datetime
    kind: Happened
    text: str
    detail: str = ""
    href: str = ""
    is_before: bool = False
    """Whether it was there before the first failure."""


def timeline_of(
    row: CapacityEventRow,
    environment: str,
    *,
    now: datetime,
    oldest: FailureRow | None,
    questions: Sequence[Said],
    notes: Sequence[Said],
    arrangements: Iterable[CapacityArrangement],
) -> list[Entry]:
    """All that happened, oldest first. `oldest` is its first failure while it is kept. Three queries."""
    end = row.last + AFTER if row.is_over else now
    window = Window(start=row.started - BEFORE, end=min(end, now))
    found = [
        *_failures(row, oldest),
        *_breakers(row),
        *_fallbacks(row, environment),
        *_done(row, environment, window, {f"ESC-{one.pk}" for one in questions}),
        *_asked(questions),
        *_noted(notes),
        *_arranged(arrangements),
        *_attributed(row),
    ]
    return sorted(found, key=lambda one: (one.at, one.kind is not Happened.FAILURE))


def _failures(row: CapacityEventRow, oldest: FailureRow | None) -> Iterator[Entry]:
    run_href = reverse("run", args=[oldest.run]) if oldest is not None and oldest.run else ""
    detail = "" if oldest is None else described(oldest)
    yield Entry(at=row.started, kind=Happened.FAILURE, text="First failure", detail=detail, href=run_href)
    for part in row.parts:
        if part.started > row.started:
            yield Entry(at=part.started, kind=Happened.FAILURE, text=f"First failure of {part.name}")
    if row.peak_at is not None and row.peak_at > row.started:
        text = f"Peak minute: {peak_failures(row)}"
        yield Entry(at=row.peak_at, kind=Happened.FAILURE, text=text)
    if row.is_over:
        yield Entry(at=row.last, kind=Happened.FAILURE, text="Last failure")


def _breakers(row: CapacityEventRow) -> Iterator[Entry]:
    for one in row.moves:
        href, instances = reverse("breaker", args=[one.breaker]), count_text(one.instances, "instance")
        text = f"Breaker {one.breaker} opened"
        detail = f"{count_text(one.openings, 'opening')} on {instances} in the incident"
        yield Entry(at=one.opened_at, kind=Happened.BREAKER, text=text, detail=detail, href=href)
        if one.closed_at is not None:
            text = f"Breaker {one.breaker} closed"
            yield Entry(at=one.closed_at, kind=Happened.BREAKER, text=text, detail=f"on all {instances}", href=href)


def _fallbacks(row: CapacityEventRow, environment: str) -> Iterator[Entry]:
    for one in first_fallbacks(row, environment):
        text = f"First fallback {one.fallback}".rstrip()
        href = reverse("run", args=[one.run]) if one.run else ""
        yield Entry(at=one.at, kind=Happened.FALLBACK, text=text, detail=f"for {one.operation}", href=href)


def _done(row: CapacityEventRow, environment: str, window: Window, linked: set[str]) -> Iterator[Entry]:
    """What people, the policy and deployments did about its operations and services; not what `linked` tells better."""
    about = {*row.operations, *row.breakers, *(one.breaker for one in row.moves)}
    acts = acts_about(environment, window, about)
    told = deployments(environment, start=window.start, end=window.end)
    marks = [*acts, *(deployment_mark(one) for one in told if one.service in row.services)]
    for mark in marks:
        if mark.kind is Kind.ESCALATION and mark.word.partition(" ")[0] in linked:
            continue
        if window.start <= mark.at:
            yield Entry(
                at=mark.at,
                kind=_OF_MARKS[mark.kind],
                text=_capital(mark.word),
                detail=_by(mark),
                href=mark.href,
                is_before=mark.at < row.started,
            )


def _asked(questions: Sequence[Said]) -> Iterator[Entry]:
    for one in questions:
        href = reverse("escalation", args=[one.pk])
        opened = f"ESC-{one.pk} opened"
        yield Entry(at=one.when, kind=Happened.ESCALATION, text=opened, detail=f"{one.who}: {one.said}", href=href)
        if one.resolved_at is not None:
            text = f"ESC-{one.pk} {one.resolution or 'resolved'}"
            yield Entry(at=one.resolved_at, kind=Happened.ESCALATION, text=text, detail=one.resolved_by, href=href)


def _noted(notes: Sequence[Said]) -> Iterator[Entry]:
    for one in notes:
        yield Entry(at=one.when, kind=Happened.NOTE, text=f"Note by {one.who}", detail=one.said)


def _arranged(arrangements: Iterable[CapacityArrangement]) -> Iterator[Entry]:
    words = {
        CapacityArrangement.MERGE: "CE-{} merged into CE-{}",
        CapacityArrangement.APART: "CE-{} unmerged from CE-{}",
        CapacityArrangement.CUT: "CE-{} split from CE-{}",
    }
    for made in arrangements:
        text = words[made.kind].format(made.event_id, made.other_id)
        detail = with_reason(made.made_by, made.reason)
        yield Entry(at=made.made_at, kind=Happened.INCIDENT, text=text, detail=detail)
        if made.ended_at is not None:
            yield Entry(at=made.ended_at, kind=Happened.INCIDENT, text=f"Undone: {text}", detail=made.ended_by)


def _attributed(row: CapacityEventRow) -> Iterator[Entry]:
    for one in row.attributions:
        part = f" of CE-{one.number}" if row.parts else ""
        text = f"Attribution{part}: {OWNER_CHIPS[one.before]} → {OWNER_CHIPS[one.after]}"
        counts = ", ".join(f"{count:,} × {category_text(category)}" for category, count in one.categories.items())
        yield Entry(at=one.at, kind=Happened.ATTRIBUTION, text=text, detail=f"Failures so far: {counts}")


def _by(mark: Mark) -> str:
    return ": ".join(filter(None, (mark.by, mark.why)))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
