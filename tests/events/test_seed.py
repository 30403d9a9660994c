"""Made-up facts are facts: what is folded of them is right, and the same numbers give the same ones."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from events import verification
from events.models import Agent, BreakerState, Fact, SpanSum

NUMBERS: dict[str, Any] = {"facts": 9_000, "agents": 6, "breakers": 5, "runs": 7, "days": 0.1, "environment": "dev"}


def test_the_tables_are_what_the_seeded_facts_say(engine: str) -> None:
    call_command("seed", **NUMBERS)
    folded, count = verification.refold()
    assert (count, list(verification.differences(folded, timezone.now()))) == (9_000, [])
    assert Agent.objects.count() == 6
    assert set(Fact.objects.values_list("environment", flat=True)) == {"dev"}
    assert BreakerState.objects.values("breaker").distinct().count() == 5
    assert Fact.objects.exclude(run="").values("run").distinct().count() == 7
    assert SpanSum.objects.filter(minutes=120).exists()


@pytest.mark.django_db
def test_the_same_numbers_are_the_same_facts() -> None:
    until = timezone.now()
    for _ in range(2):
        call_command("seed", **NUMBERS | {"facts": 50}, until=until)
    assert Fact.objects.count() == 50


@pytest.mark.django_db
def test_numbers_have_to_be_some() -> None:
    with pytest.raises(CommandError, match="at least 1"):
        call_command("seed", agents=0)
