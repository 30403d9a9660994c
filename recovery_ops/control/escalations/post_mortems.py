"""One question as a document to learn from: what a page, Markdown and JSON tell of it, all three from one source.

It says what it was, whom it reached, what happened when, what was changed meanwhile, who did what, and what is agreed.
Its moments are in UTC, because it is read elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q

from events.capacity.rows import CapacityEventRow
from events.pages.table_files import markdown_of
from events.rows import FailureRow
from events.timelines import Table
from events.wording import count_text, span_text
from recovery_ops.control.audit.wording import name_of, verb_of
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.selectors.queue import EscalationRow, Similar, row_of, similar_to
from recovery_ops.control.escalations.selectors.subject import began, failures_of, outages_of, paragraph_of
from recovery_ops.control.escalations.serializers import (
    escalation_document,
    levels_document,
    note_document,
)
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.control.notifications.escalation_policies import Plan, Planned, plan_of
from recovery_ops.rules.policy.scope import Place, Scope

_LEVERS = ("breaker.", "load.", "policy.", "rollout.", "ramp.")
"""Acts that change how calls go; the others are about questions, people and papers."""
_CHANGES_READ, _CHANGES_MOST = 500, 50
_FACT_FIELDS = {"Queue": "Put to", "Opened": "Asked", "Acknowledged": "First taken", "Resolved": "Ended"}
"""The API field of a fact, where it differs from the label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostMortem:
    """What is known of one question at `now`. `story` and `changes` are oldest first."""

    row: EscalationRow
    now: datetime
    paragraph: str
    story: Sequence[EscalationNote]
    plan: Plan
    changes: Sequence[AuditEntry]
    failures: Sequence[FailureRow]
    outages: Sequence[CapacityEventRow]
    similar: Sequence[Similar]

    @property
    def title(self) -> str:
        return f"Post-mortem of {self.row.one}: {self.row.title}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Label and value of each key fact."""
        one = self.row.one
        taken = one.first_acknowledged_at
        return [
            ("Environment", one.environment),
            ("Queue", one.queue),
            ("Severity", one.severity),
            ("Opened", _at(one.opened_at)),
            ("Acknowledged", "unacknowledged" if taken is None else _at(taken)),
            ("Owner", one.assigned_to or "unassigned"),
            ("Resolved", "open" if one.resolved_at is None else f"{one.resolution}, {_at(one.resolved_at)}"),
            ("As of", _at(self.now)),
        ]

    @property
    def impact(self) -> list[str]:
        """Whom it reached, how long it took, and how it ended: a sentence each."""
        return list(self._impact())

    @property
    def tables(self) -> list[Table]:
        """The rest; one without rows says nothing and is left out."""
        of_people = (self._timeline(), self._changed(), self._asked(), self._took_part())
        return [table for table in (*of_people, self._failed(), self._alike()) if table.rows]

    def markdown(self, address: str) -> str:
        """The same as text; `address` says where it can be seen."""
        return markdown_of(self.title, self.lines, self.tables, address=address)

    @property
    def lines(self) -> list[str]:
        """What stands above the tables of a file."""
        return [self.paragraph, *(f"{word}: {value}" for word, value in self.facts), *self.impact]

    def document(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "title": self.title,
            "summary": self.paragraph,
            "facts": {_FACT_FIELDS.get(label, label): value for label, value in self.facts},
            "escalation": escalation_document(self.row),
            "impact": self.impact,
            "timeline": [note_document(note) for note in self.story],
            "actions": [_of_change(entry) for entry in self.changes],
            "asked": levels_document(self.plan),
            "participants": self._people(),
            "capacity_events": [event.number for event in self.outages],
            "similar": [one.pk for one, _ in self.similar],
            "fixed_by": {str(one.pk): text for one, text in self.similar if text},
        }

    def _impact(self) -> Iterator[str]:
        one = self.row.one
        times = "once" if one.occurrences == 1 else f"{one.occurrences:,} times"
        reached = f"{count_text(len(one.runs), 'run')} on {count_text(len(one.instances), 'instance')}"
        yield f"Impact: {reached}. Escalated {times}."
        for event in self.outages:
            lasted = f"{span_text(event.lasted(self.now))}{'' if event.is_over else ' so far'}"
            least = "≥ " if event.is_partial else ""
            runs = f"{least}{count_text(event.runs, 'run')}" if event.is_read else "runs pending"
            yield f"Concurrent incident: {event.number}, {event.name}, {lasted}, {runs}."
        took = self.row.acknowledging.took
        if took is not None:
            yield f"Acknowledged after {span_text(int(took.total_seconds()))}."
        if one.resolved_at is not None:
            lasted = span_text(int((one.resolved_at - one.opened_at).total_seconds()))
            yield f"{one.resolution.capitalize()} by {one.resolved_by} after {lasted}."
        else:
            yield f"Open. Default action at the deadline: {then_of(one)}."
        if one.answer:
            yield f"Answer: {one.answer}"
        if self._people():
            yield f"Participants: {', '.join(self._people())}."

    def _people(self) -> list[str]:
        return list(dict.fromkeys(note.by for note in self.story))

    def _timeline(self) -> Table:
        return Table(
            title="Timeline",
            columns=("Time", "User", "Action", "Text"),
            rows=tuple((_at(note.moment), note.by, note.did, note.text) for note in self.story),
        )

    def _changed(self) -> Table:
        return Table(
            title="Changes during the escalation",
            columns=("Time", "User", "Action", "Object", "Reason"),
            rows=tuple(
                (_at(one.at), one.actor_name, verb_of(one), name_of(one), one.reason or "–") for one in self.changes
            ),
        )

    def _asked(self) -> Table:
        rows = [
            (step.who, step.after, _at(step.asked_at), became_of(step), _at(step.due_at)) for step in self.plan.steps
        ]
        return Table(
            title="Escalation levels", columns=("Target", "Delay", "Notified", "Delivery", "Due"), rows=tuple(rows)
        )

    def _took_part(self) -> Table:
        rows = []
        for name in self._people():
            mine = [note for note in self.story if note.by == name]
            done = ", ".join(
                f"{did} × {count}" if count > 1 else did for did, count in Counter(n.did for n in mine).items()
            )
            rows.append((name, done, _at(mine[0].moment), _at(mine[-1].moment)))
        return Table(title="Participants", columns=("User", "Actions", "First", "Last"), rows=tuple(rows))

    def _failed(self) -> Table:
        return Table(
            title="Newest failures",
            columns=("Time", "Instance", "Operation", "Category", "Status", "Message"),
            rows=tuple(
                (_at(one.at), one.instance, one.operation, one.category, str(one.status_code or "–"), one.message)
                for one in self.failures
            ),
        )

    def _alike(self) -> Table:
        return Table(
            title="Similar resolved escalations",
            columns=("Escalation", "Resolution", "User", "Reason"),
            rows=tuple((str(one), one.resolution, one.resolved_by, text or "–") for one, text in self.similar),
        )


def post_mortem_of(one: Escalation, story: Sequence[EscalationNote], now: datetime) -> PostMortem:
    """What is known of a question; `story` is newest first, as it is read."""
    until = one.resolved_at or now
    row, failures = row_of(one, now), failures_of(one, until=until)
    operations = {one.operation, *(failure.operation for failure in failures)} - {""}
    return PostMortem(
        row=row,
        now=now,
        paragraph=paragraph_of(row, now),
        story=story[::-1],
        plan=plan_of(one, story, now),
        changes=_changes_of(one, operations, until),
        failures=failures,
        outages=outages_of(one, now),
        similar=similar_to(one),
    )


def became_of(step: Planned) -> str:
    """What became of the message of a step, in words."""
    if step.asked_at is None:
        return "not notified"
    words = {"sent": "delivered", "failed": "not delivered", "unknown": "delivery unknown", "dropped": "dropped"}
    return words.get(step.state, "pending")


def _changes_of(one: Escalation, operations: Iterable[str], until: datetime) -> list[AuditEntry]:
    """What was changed about its operations while it was open, oldest first. One query; index `audit_by_time`."""
    levers = Q()
    for word in _LEVERS:
        levers |= Q(verb__startswith=word)
    done = AuditEntry.objects.filter(
        levers, environment=one.environment, at__gte=began(one), at__lte=until, result=AuditEntry.OK
    )
    read = list(done.defer("before_text", "after_text").order_by("-at", "-number")[:_CHANGES_READ])
    places = [Place(service=one.service, instance="", operation=name, breaker=name) for name in operations]
    mine = [entry for entry in read if any(Scope(operation=entry.operation).holds(place) for place in places)]
    return mine[:_CHANGES_MOST][::-1]


def _of_change(entry: AuditEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "at": entry.at.isoformat(timespec="milliseconds"),
        "by": entry.actor_name,
        "verb": entry.verb,
        "object": entry.object,
        "reason": entry.reason,
        "revision": entry.revision,
    }


def _at(moment: datetime | None) -> str:
    return "–" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
