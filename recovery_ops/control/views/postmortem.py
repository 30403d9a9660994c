"""One escalation as a file to learn from: what it was, whom it reached, what happened when, and who did what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse

from events.exports import JSON, is_asked, json_answer, markdown_answer
from events.timelines import Table
from events.wording import count_text, span_text
from recovery_ops.control.documents.escalations import of_escalation, of_follow_up, of_note, of_plan
from recovery_ops.control.escalations.asking import EscalationRow, Similar
from recovery_ops.control.escalations.learning import is_starred
from recovery_ops.control.models import EscalationNote, FollowUp
from recovery_ops.control.notify.chains import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PostMortem:
    """What the page of an escalation shows, to be taken along. `whole_story` is newest first, as on the page."""

    row: EscalationRow
    paragraph: str
    then: str
    whole_story: Sequence[EscalationNote]
    plan: Plan
    failures: Sequence[Any]
    outages: Sequence[Any]
    similar: Sequence[Similar]
    follow_ups: Sequence[FollowUp]

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> PostMortem:
        """From what the page was given."""
        return cls(**{name: context[name] for name in cls.__slots__})

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Markdown, or the same as JSON where `format=json` asks for it."""
        name = f"post-mortem {self.row.one}"
        if is_asked(request, JSON):
            return json_answer(request, name, self._document())
        title = f"Post-mortem of {self.row.one}: {self.row.title}"
        return markdown_answer(request, name, title, [self.paragraph, *self._impact()], self._tables())

    def _document(self) -> dict[str, Any]:
        return {
            "summary": self.paragraph,
            "escalation": of_escalation(self.row),
            "impact": list(self._impact()),
            "timeline": [of_note(note) for note in reversed(self.whole_story)],
            "asked": of_plan(self.plan),
            "participants": self._people(),
            "similar": [one.pk for one, _ in self.similar],
            "fixed_by": {str(one.pk): text for one, text in self.similar if text},
            "follow_ups": [of_follow_up(one) for one in self.follow_ups],
        }

    def _impact(self) -> Iterator[str]:
        one = self.row.one
        reached = f"{count_text(len(one.runs), 'run')} on {count_text(len(one.instances), 'instance')}"
        yield f"It reached {reached}; it was asked {count_text(one.occurrences, 'time')}."
        for event in self.outages:
            yield f"Beside it: {event.number}, {event.name}."
        took = self.row.acknowledging.took
        if took is not None:
            yield f"It was taken after {span_text(int(took.total_seconds()))}."
        if one.resolved_at is not None:
            lasted = span_text(int((one.resolved_at - one.opened_at).total_seconds()))
            yield f"It was {one.resolution} by {one.resolved_by} after {lasted}."
        else:
            yield f"It is open. If nobody decides: {self.then}."
        if one.answer:
            yield f"The answer: {one.answer}"
        if self._people():
            yield f"Who took part: {', '.join(self._people())}."

    def _people(self) -> list[str]:
        return list(dict.fromkeys(note.by for note in reversed(self.whole_story)))

    def _tables(self) -> Iterator[Table]:
        yield Table(
            title="Timeline",
            columns=("At", "Who", "Did", "In words", "Starred"),
            rows=tuple(
                (_at(note.moment), note.by, note.verb, note.text, "★" if is_starred(note) else "")
                for note in reversed(self.whole_story)
            ),
        )
        asked = [(step.who, step.after, _at(step.asked_at), _at(step.due_at)) for step in self.plan.steps]
        yield Table(title="Who was asked", columns=("Who", "When", "Asked at", "Due at"), rows=tuple(asked))
        yield Table(
            title="Newest failures",
            columns=("At", "Instance", "Operation", "Category", "Status", "What it said"),
            rows=tuple(
                (_at(one.at), one.instance, one.operation, one.category, one.status_code, one.message)
                for one in self.failures
            ),
        )
        yield Table(
            title="Similar, resolved before",
            columns=("Which", "How", "By", "What ended it"),
            rows=tuple((str(one), one.resolution, one.resolved_by, text) for one, text in self.similar),
        )
        agreed = tuple(
            (one.text, one.owner, str(one.due_on or "–"), f"{one.done_by}, {_at(one.done_at)}" if one.done_at else "–")
            for one in self.follow_ups
        )
        nothing = (("to be agreed", "", "", ""),)
        yield Table(title="Follow-ups", columns=("What", "Who", "By when", "Done"), rows=agreed or nothing)


def _at(moment: datetime | None) -> str:
    return "–" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
