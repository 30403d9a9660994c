"""What is left to do about an incident: by its attribution, and its open escalations, breakers and runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.urls import reverse

from events.capacity.rows import CapacityEventRow, Owner
from events.runs.going import Goes
from events.wording import count_text
from recovery_ops.control.capacity.views.runs import OutcomeCount
from recovery_ops.control.escalations.selectors.by_incident import Said
from recovery_ops.control.runbooks.models import Runbook
from recovery_ops.rules.enums import RunStatus

_ADVICE: dict[Owner, str] = {
    Owner.PROVIDER: "The provider is overloaded. Agents retry and fall back; shed background load if it lasts.",
    Owner.QUOTA: "Our quota is used up. Shed background load, or raise the limit with the provider.",
    Owner.NETWORK: "Check DNS, routes and proxies of the affected instances.",
    Owner.UNREACHABLE: "Check the provider's status page, then the network of the affected instances.",
}
_NEED_SOMEBODY = (RunStatus.FAILED, Goes.LOST, Goes.PAUSED_FOR_PERSON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remaining:
    """One thing to do or to know; `name` is its code, `href` where it is done."""

    name: str
    text: str
    href: str = ""


def remaining_of(
    row: CapacityEventRow, environment: str, questions: Iterable[Said], outcomes: Sequence[OutcomeCount]
) -> list[Remaining]:
    """What is left; empty where nothing is. One query."""
    return [
        *_advice(row),
        *_escalations(questions),
        *_breakers(row),
        *_runs(outcomes),
        *_runbooks(row, environment),
    ]


def _advice(row: CapacityEventRow) -> Iterator[Remaining]:
    if not row.is_over:
        yield Remaining(name="advice", text=_ADVICE[row.owner])


def _escalations(questions: Iterable[Said]) -> Iterator[Remaining]:
    for one in questions:
        if one.is_open:
            text = f"ESC-{one.pk} is open, {one.owner or 'unassigned'}."
            yield Remaining(name="escalation", text=text, href=reverse("escalation", args=[one.pk]))


def _breakers(row: CapacityEventRow) -> Iterator[Remaining]:
    """Those of an incident that is over: while it goes on, open breakers are what they should be."""
    for one in row.moves if row.is_over else ():
        if one.not_closed:
            text = f"Breaker {one.breaker} has not closed on {count_text(one.not_closed, 'instance')}."
            yield Remaining(name="breaker", text=text, href=reverse("breaker", args=[one.breaker]))


def _runs(outcomes: Sequence[OutcomeCount]) -> Iterator[Remaining]:
    for one in outcomes:
        if one.status in _NEED_SOMEBODY:
            yield Remaining(name="runs", text=f"{count_text(one.count, 'run')} {one.word}.", href=one.href)


def _runbooks(row: CapacityEventRow, environment: str) -> Iterator[Remaining]:
    categories = [one.value for one in row.categories]
    written = Runbook.objects.filter(environment=environment, category__in=categories).exclude(text="")
    for category in written.order_by("category").values_list("category", flat=True):
        text = f"Runbook for {category}."
        yield Remaining(name="runbook", text=text, href=reverse("runbook", args=[category]))
