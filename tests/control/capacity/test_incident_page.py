"""The page of an incident: what happened in order, over time, which failures were first, and what is left to do."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client

from events.capacity.detection import look
from events.capacity.following import follow_runs
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.models import Fact
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.capacity.models import CapacityNote
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.runbooks.models import Runbook
from recovery_ops.rules.enums import Category, RunStatus, State
from recovery_ops.rules.events import FallbackActivated, RunFinished
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import trip
from tests.support.capacity import storm
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.rows import row
from tests.support.stories import NOW, Story, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

SINCE_S, UNTIL_S = 300, 200
FAILURES = 21


@pytest.fixture
def event() -> CapacityEvent:
    """An outage of a minute and 40 s that is over, with a breaker that stays open and a fallback."""
    story = storm(Story(), since=SINCE_S, until=UNTIL_S, status_code=529, message="Overloaded", breaker="model:large")
    story.tell(moved(State.OPEN, breaker="model:large"), at=SINCE_S - 20, instance="a-0")
    fallback = FallbackActivated(operation="model:large", fallback="model:small", level=1)
    story.tell(fallback, at=SINCE_S - 30, run="run-1")
    story.tell(FallbackActivated(operation="embed", fallback="cache", level=1), at=SINCE_S - 25, run="run-1")
    story.tell(RunFinished(status=RunStatus.FAILED, duration_s=9.0), at=UNTIL_S - 10, run="run-0").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    follow_runs("dev", NOW)
    return CapacityEvent.objects.get()


def shown(client: Client, event: CapacityEvent, query: str = "") -> Shown:
    return Shown(client.get(f"/capacity/{event.pk}{query}"))


def happened(page: Shown) -> list[tuple[str, str]]:
    """Kind and text of each entry of the timeline, in order."""
    return [(one.data["happened"], " ".join(one.text.split()[1:])) for one in page.having("happened")]


def test_timeline_has_what_happened_in_order(event: CapacityEvent) -> None:
    trip(scope=Scope(operation="model:large"), ahead=True)
    trip(scope=Scope(operation="embed"), ahead=True)
    at = {"model:large": SINCE_S - 40, "embed": SINCE_S - 40}
    for name, ago_s in at.items():
        Override.objects.filter(operation=name).update(starts_at=NOW - timedelta(seconds=ago_s))
    asked = row(
        *(Escalation,), environment="dev", capacity_event=event.pk, queue="capacity", message="look",
        opened_at=NOW - timedelta(seconds=SINCE_S - 50), resolved_at=NOW - timedelta(seconds=10),
        resolution="resolved", resolved_by="ben",
    )  # fmt: skip
    row(CapacityNote, environment="dev", event=event.pk, by="ana", text="told them", at=NOW - timedelta(seconds=220))
    kinds = [kind for kind, _ in happened(shown(signed_in(Role.VIEWER), event))]
    assert kinds == [
        *("failure", "breaker", "fallback", "action"),  # the first failure, and what followed on it
        *("failure", "escalation", "note"),  # the worst minute
        *("failure", "escalation"),  # the last failure, and the resolution
    ], f"ESC-{asked.pk} is there once, and nothing of the operation embed"


def test_changes_shortly_before_are_marked_and_older_ones_left_out(event: CapacityEvent) -> None:
    trip(scope=Scope(operation="model:large"), ahead=True)
    client = signed_in(Role.VIEWER)
    for ago_s, marks in ((SINCE_S + 60, [True]), (SINCE_S + 31 * 60, []), (UNTIL_S + 50, [False])):
        Override.objects.update(starts_at=NOW - timedelta(seconds=ago_s))
        found = [one for one in shown(client, event).having("happened") if one.data["happened"] == "action"]
        assert ["before" in one.data for one in found] == marks


def test_impact_says_what_failed_first_and_what_was_done(event: CapacityEvent) -> None:
    facts = {one.data["fact"]: one.data.get("value") for one in shown(signed_in(Role.VIEWER), event).having("fact")}
    assert list(facts)[:5] == ["owner", "first", "reached", "outcomes", "opened"]
    assert (facts["owner"], facts["first"], facts["opened"]) == ("provider", "model:large", "1")


def test_bars_add_up_to_the_failures(event: CapacityEvent) -> None:
    page = shown(signed_in(Role.VIEWER), event)
    counts = [int(one) for one in page.values("bar")]
    assert (sum(counts), len(counts)) == (FAILURES, 51)
    Fact.objects.filter(at_us__lt=event.last_us - 60_000_000).delete()
    assert 0 < sum(map(int, shown(signed_in(Role.VIEWER), event).values("bar"))) < FAILURES


def test_first_failures_are_reached_and_every_failure_stands_on_one_page(event: CapacityEvent) -> None:
    client = signed_in(Role.VIEWER)
    newest, oldest = (
        [one for one in shown(client, event, query).values("key") if one.startswith("failure-")]
        for query in ("", "?order=oldest")
    )
    first = Fact.objects.filter(event="failure_classified").earliest("at_us")
    assert oldest[0] == f"failure-{first.pk}"
    assert len(newest) == len(oldest) == FAILURES - 1
    for query, seen in (("", newest), ("?order=oldest", oldest)):
        href = client.get(f"/capacity/{event.pk}{query}").context["failures"].further_href
        page = client.get(f"/capacity/{event.pk}{href}")
        rest = [one for one in Shown(page).values("key") if one.startswith("failure-")]
        assert len({*seen, *rest}) == FAILURES
        assert page.context["failures"].further_href == ""


def test_runs_are_counted_by_status_and_lead_to_their_list(event: CapacityEvent) -> None:
    client = signed_in(Role.VIEWER)
    counts = {one.data["outcome"]: int(one.data["value"]) for one in shown(client, event).having("outcome")}
    assert counts["failed"] == 1
    assert sum(counts.values()) == 3
    for one in client.get(f"/capacity/{event.pk}").context["outcomes"]:
        assert len(client.get(one.href).context["rows"]) == one.count


def test_what_is_left_is_said_until_nothing_is(event: CapacityEvent) -> None:
    client = signed_in(Role.VIEWER)
    asked = row(Escalation, environment="dev", capacity_event=event.pk, queue="capacity", opened_at=NOW)
    row(Runbook, environment="dev", category=Category.OVERLOADED, text="1. look", changed_at=NOW)
    row(Runbook, environment="prod", category=Category.OVERLOADED, text="1. look", changed_at=NOW)
    row(Runbook, environment="dev", category=Category.TIMEOUT, text="1. look", changed_at=NOW)
    later = NOW + timedelta(minutes=30)
    assert sorted({*shown(client, event).values("remaining")}) == ["breaker", "escalation", "runbook", "runs"]
    Story().tell(moved(State.CLOSED, breaker="model:large"), at=100, instance="a-0").tell(
        RunFinished(status=RunStatus.SUCCEEDED, duration_s=9.0), at=UNTIL_S - 20, run="run-0"
    ).store()
    follow_runs("dev", later)
    Escalation.objects.filter(pk=asked.pk).update(resolved_at=NOW)
    Runbook.objects.all().delete()
    assert {*shown(client, event).values("remaining")} == {"runs"}


def test_advice_stands_while_it_goes_on() -> None:
    storm(Story(), since=60, until=0, status_code=529).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    page = shown(signed_in(Role.VIEWER), CapacityEvent.objects.get())
    assert "advice" in page.values("remaining")
    assert [text for _, text in happened(page) if "Last" in text] == []
