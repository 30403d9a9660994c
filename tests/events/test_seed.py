"""Made-up facts are facts: what is folded of them is right, and the same numbers give the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from events.keys import create_key
from events.models import Agent, BreakerState, Fact, SpanSum
from events.projections import verification
from events.seeding import Plan, seed
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.escalations.durations import is_by_person
from recovery_ops.control.escalations.models import Escalation, EscalationNote, EscalationSource
from recovery_ops.control.escalations.services.due import BY
from recovery_ops.control.tasks import keep_escalations
from tests.support.stories import NOW

NUMBERS: dict[str, Any] = {"facts": 9_000, "agents": 6, "breakers": 5, "runs": 7, "days": 0.1, "environment": "dev"}


def test_the_tables_are_what_the_seeded_facts_say(engine: str) -> None:
    call_command("seed", **NUMBERS, escalations=20)
    folded, count = verification.refold()
    asked = EscalationSource.objects.count()
    assert (count - asked, list(verification.differences(folded, timezone.now()))) == (9_000, [])
    assert Agent.objects.count() == 6
    assert set(Fact.objects.values_list("environment", flat=True)) == {"dev"}
    assert BreakerState.objects.values("breaker").distinct().count() == 5
    assert Fact.objects.exclude(run="").values("run").distinct().count() == 7
    assert SpanSum.objects.filter(minutes=120).exists()


@pytest.mark.django_db
def test_a_run_begins_before_all_that_is_told_of_it_and_ends_after_it_and_once() -> None:
    call_command("seed", **NUMBERS | {"facts": 6_000, "runs": 60, "days": 1.0})
    told: dict[str, list[str]] = {}
    for run, event in Fact.objects.exclude(run="").order_by("at_us", "sequence_number").values_list("run", "event"):
        told.setdefault(run, []).append(event)
    begun = [events for events in told.values() if "run_started" in events]
    ended = [events for events in told.values() if "run_finished" in events]
    assert min(len(begun), len(ended)) > 5
    assert all(events.index("run_started") == 0 and events.count("run_started") == 1 for events in begun)
    assert all(events.index("run_finished") == len(events) - 1 for events in ended)


@pytest.mark.django_db
def test_the_same_numbers_are_the_same_facts_and_questions() -> None:
    for environment in ("dev", "dev", "prod"):
        call_command("seed", **NUMBERS | {"facts": 50, "environment": environment}, escalations=30, until=NOW)
    dev, prod = (Fact.objects.filter(environment=name).values_list("uid", flat=True) for name in ("dev", "prod"))
    assert sorted(map(bytes, dev)) == sorted(map(bytes, prod))
    assert len(dev) == 50 + EscalationSource.objects.filter(environment="dev").count()
    assert _told("dev") == _told("prod"), "and telling it twice changed nothing"


@pytest.mark.django_db
def test_another_seed_gives_other_facts() -> None:
    for number, environment in enumerate(("dev", "prod"), 1):
        call_command("seed", **NUMBERS | {"facts": 50, "environment": environment}, seed=number, until=NOW)
    dev, prod = (Fact.objects.filter(environment=name).values_list("uid", flat=True) for name in ("dev", "prod"))
    assert set(map(bytes, dev)).isdisjoint(map(bytes, prod))


def _told(environment: str) -> list[Any]:
    notes = EscalationNote.objects.filter(escalation__environment=environment).order_by("pk")
    return list(notes.values_list("at", "by", "verb", "text", "escalation__key", "escalation__occurrences"))


@pytest.mark.django_db
def test_questions_are_asked_taken_and_answered_as_on_any_day() -> None:
    call_command("seed", **NUMBERS | {"facts": 100, "days": 3.0}, escalations=120, until=NOW)
    asked = list(Escalation.objects.all())
    assert len(asked) == 120
    assert {one.queue for one in asked} >= {"refunds", "policy_review", "unclassified", "quota"}
    assert {one.resolution for one in asked} == {"", "approved", "rejected", "edited", "resolved", "aborted"}
    people = {one.resolved_by for one in asked if is_by_person(one)}
    assert len(people) == 5
    assert any(one.resolved_by == BY for one in asked), "some a deadline answered"
    for one in asked:
        moments = [one.opened_at, one.first_acknowledged_at, one.resolved_at, NOW]
        known = [moment for moment in moments if moment is not None]
        assert known == sorted(known)
        assert not one.ticket or not one.is_open or one.resolve_by > NOW, "no run waits for an answer for ever"
    assert [note.at for note in EscalationNote.objects.order_by("pk")] == sorted(
        EscalationNote.objects.values_list("at", flat=True)
    )
    assert audit.verify_chain("dev").is_whole


@pytest.mark.django_db
def test_a_worker_that_lives_meanwhile_decides_nothing_by_its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def beside_a_worker(plan: Plan) -> Iterator[int]:
        for made in seed(plan):
            yield made
            keep_escalations()

    create_key(name="agents", environment="dev", scopes=["ingest"])
    monkeypatch.setattr("recovery_ops.control.management.commands.seed.seed", beside_a_worker)
    call_command("seed", **NUMBERS | {"facts": 100, "days": 3.0}, escalations=120, until=NOW)
    assert Escalation.objects.filter(resolved_at=None, default_done_at=None).exists()
    assert not EscalationNote.objects.filter(at__gt=NOW).exists()


@pytest.mark.django_db
def test_numbers_have_to_be_some() -> None:
    with pytest.raises(CommandError, match="at least 1"):
        call_command("seed", agents=0)
