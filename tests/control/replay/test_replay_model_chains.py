"""Replay of operations with a chain of models: each model has a breaker of its own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from events.queries.recordings import Part, Told, recordings
from recovery_ops.control.replay.affected_calls import replay_both
from recovery_ops.control.replay.engine import replay
from recovery_ops.control.replay.operation_traits import Traits
from recovery_ops.control.replay.recorded_calls import Listener, Recording
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.runtime import ModelChain, Response
from recovery_ops.runtime.testing import HttpError
from tests.support.recording import Studio
from tests.support.replays import BUILT_IN_DOCUMENT, call, compared, policy

pytestmark = pytest.mark.django_db

OLD = parse_policy(BUILT_IN_DOCUMENT)
REFUSED_SMALL = ("breaker_rejected", "ask:small")


def asking(studio: Studio, outcomes: list[Any], *more: str) -> Callable[[], Any]:
    return studio.guard("ask", outcomes, kind="model", chain=ModelChain("large", "small", *more))


def told(studio: Studio) -> list[Told]:
    """All events of the only instance."""
    studio.store()
    end_us = int(studio.lab.clock.wall() * 1e6) + 1
    window = Part(environment="dev", start_us=int(studio.began_s * 1e6) - 1, end_us=end_us)
    [facts] = [list(facts) for _, facts in recordings(window)]
    return facts


def heard(studio: Studio, facts: list[Told]) -> Recording:
    [speaker] = [speaker for speaker, _ in recordings(Part(environment="dev", start_us=0, end_us=10**18))]
    return Listener(speaker, studio.began_s).listen(facts)


@pytest.mark.parametrize("seed", range(24))
def test_chain_of_models_is_decided_as_it_was(seed: int) -> None:
    rng = random.Random(seed)
    studio = Studio(BUILT_IN_DOCUMENT)
    bad = [503, 500, 529, TimeoutError("slow"), ConnectionRefusedError(111, "refused"), "ok", "ok", "ok"]
    ask = asking(studio, [rng.choice(bad) for _ in range(150)])
    for _ in range(60):
        call(studio, ask, rng.choice(["main_agent", "nightly"]), pause_s=rng.random() * 9)
    found = compared(studio, BUILT_IN_DOCUMENT)
    assert found["measures"]["old"] == pytest.approx(found["measures"]["recorded"], abs=0.11)
    assert found["matched_endings"] == found["told_endings"] > 5


@pytest.mark.parametrize("seed", range(12))
def test_chain_at_rest_is_decided_as_it_was(seed: int) -> None:
    """Nobody waits at a closed gate here: when such a call began is in no event."""
    rng = random.Random(seed)
    studio = Studio(BUILT_IN_DOCUMENT)
    named = HttpError(Response(429, {"retry-after": "20"}))
    bad = [503, 500, 529, TimeoutError("slow"), 429, 402, 404, 401, named, *["ok"] * 7]
    ask = asking(studio, [rng.choice(bad) for _ in range(150)], "tiny")
    for _ in range(60):
        call(studio, ask, "nightly", pause_s=rng.random() * 9)
    found = compared(studio, BUILT_IN_DOCUMENT)
    assert found["measures"]["old"] == pytest.approx(found["measures"]["recorded"], abs=0.11)
    assert found["matched_endings"] == found["told_endings"] > 0


def test_success_of_second_model_resets_its_overloads() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    ask = asking(studio, [503, 503, 503, 503, "ok", 529, 529, "ok", 529, "ok"])
    for source in ("main_agent", "nightly", "nightly", "main_agent", "main_agent"):
        call(studio, ask, source)
    found = compared(studio, BUILT_IN_DOCUMENT)
    assert found["measures"]["old"] == pytest.approx(found["measures"]["recorded"], abs=0.11)
    assert found["matched_endings"] == found["told_endings"] == 4


@pytest.mark.parametrize("is_from_start", [True, False])
def test_breaker_of_second_model_is_not_the_operations(is_from_start: bool) -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    ask = asking(studio, [TimeoutError("slow")] * 60)
    for _ in range(12):
        call(studio, ask, pause_s=9.0)
    facts = told(studio)
    first = next(place for place, fact in enumerate(facts) if (fact.event, fact.breaker) == REFUSED_SMALL)
    traits = heard(studio, facts if is_from_start else facts[first:]).traits["ask"]
    assert (traits.breaker, traits.models, traits.breakers) == ("ask", ["large", "small"], {"ask", "ask:small"})


def test_override_of_a_models_breaker_holds_in_parts() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    ask = asking(studio, [TimeoutError("slow"), "ok", *[503] * 9])
    call(studio, ask)
    call(studio, studio.guard("fetch", [503] * 9))
    studio.lab.trip("ask:small")
    call(studio, ask)
    recorded, new = heard(studio, told(studio)), parse_policy(policy("fetch", max_retries=0))
    assert [move.breaker for move in recorded.moves] == ["ask:small"]
    assert replay_both(recorded, OLD, new)[0] == replay(recorded, OLD, OLD)


def test_first_models_failure_names_the_operations_breaker() -> None:
    traits = Traits("ask:small")  # a refusal came before: no event names its model
    traits.model_failed("large", "ask")
    traits.name_breaker("ask")
    assert (traits.models, traits.breaker) == (["large"], "ask")


def test_model_heard_of_late_is_put_before_its_fallback() -> None:
    traits = Traits("ask")
    traits.model_failed("small", "ask:small")
    traits.model_switched("large", "small")
    traits.name_breaker("ask")
    assert (traits.models, traits.breaker) == (["large", "small"], "ask")
