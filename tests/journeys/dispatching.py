"""Plays what the playbook does about one failure: through the rules alone, in a thread and in a task."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.events import Event, FailureClassified
from recovery_ops.rules.playbook import compensation as rules
from recovery_ops.rules.policy.model import BUILT_IN, Policy, document_of, parse_policy
from recovery_ops.rules.policy.scope import Place
from recovery_ops.rules.resilience import steps
from recovery_ops.runtime import classify
from recovery_ops.runtime.failures.signals import classify_with
from recovery_ops.runtime.playbook.reversal import ReversalToken
from recovery_ops.runtime.testing import Lab
from tests.journeys.playing import Told, World

BOOK = "book"


def policy_of(journey: dict[str, Any]) -> Policy:
    playbook = document_of(BUILT_IN)["playbook"] | journey.get("playbook", {})
    return parse_policy({"playbook": playbook, "classification": journey.get("classification")})


def raised_by(world: World, name: str) -> Exception:
    try:
        world.answer(name)
    except Exception as error:
        return error
    raise AssertionError(f"{name} must fail")


def world_of(journey: dict[str, Any], push: Callable[[float], None]) -> World:
    names = ("failure", "retry", "refresh", "undo")
    outcomes = {
        name: [journey[name]] if name == "failure" else list(journey[name]) for name in names if name in journey
    }
    return World(push, outcomes, journey.get("takes_s", 0.0))


def alone(journey: dict[str, Any]) -> Told:
    """The plainest driver of the playbook there is."""
    told, clock = Told(), [1000.0]

    def push(seconds: float) -> None:
        clock[0] += seconds

    world, policy = world_of(journey, push), policy_of(journey)
    failure = classify_with(policy.classification, raised_by(world, "failure"), now=0.0, operation=BOOK)
    place = Place(service="lab", instance="lab-1", operation=BOOK)
    case = rules.Case(
        operation=BOOK,
        playbook=policy.playbook,
        policy=policy.for_operation(place),
        is_foreground=journey.get("foreground", True),
        is_repeatable=journey.get("idempotent", False),
        started_at=clock[0],
        deadline_at=clock[0] + journey.get("deadline_s", 300.0),
        chance=lambda: 0.0,
        can_retry="retry" in journey,
        can_refresh="refresh" in journey,
        reverses=journey.get("reversal"),
        action_id="order-7" if "reversal" in journey else None,
    )
    compensating, answer = rules.compensate(case, failure), None
    while True:
        try:
            step = compensating.send(answer)
        except StopIteration as end:
            told.ends = [end.value.outcome.value, end.value.reason]
            return told
        answer = None
        if isinstance(step, steps.Emit):
            told.facts.append(step.event)
        elif isinstance(step, rules.Ask):
            told.facts.append(step.question)
        elif isinstance(step, steps.Wait):
            told.waits.append(step.delay_s)
            push(step.delay_s)
            answer = steps.Woke(clock[0])
        else:
            name = {steps.Call: "retry", rules.Refresh: "refresh", rules.Reverse: "undo"}[type(step)]
            answer = _done(world, name, clock)


def _done(world: World, name: str, clock: list[float]) -> Any:
    began = clock[0]
    try:
        world.answer(name)
    except Exception as error:
        return steps.Raised(clock[0], classify(error, now=0.0), clock[0] - began)
    return steps.Returned(clock[0], clock[0] - began)


def in_runtime(journey: dict[str, Any], *, is_async: bool) -> Told:
    """The same by way of `dispatch_failure`."""
    lab = Lab(desired=Desired(revision=1, policy=policy_of(journey)))
    world = world_of(journey, lab.clock.push)
    error = raised_by(world, "failure")

    def hook(name: str) -> Any:
        async def answer_async() -> str:
            return world.answer(name)

        return answer_async if is_async else lambda: world.answer(name)

    said: dict[str, Any] = {
        "operation": BOOK,
        "foreground": journey.get("foreground", True),
        "idempotent": journey.get("idempotent", False),
        "timeout": journey.get("deadline_s"),
        **({"retry": hook("retry")} if "retry" in journey else {}),
        **({"refresh_evidence": hook("refresh")} if "refresh" in journey else {}),
    }
    if "reversal" in journey:
        # The process remembers redeemed tokens for good, so each play is about an order of its own.
        said["reversal"] = ReversalToken(journey["reversal"], f"order-{uuid.uuid4().hex}", hook("undo"))
    settled = (
        asyncio.run(lab.recovery.dispatch_failure_async(error, **said))
        if is_async
        else lab.recovery.dispatch_failure(error, **said)
    )
    return Told(lab.events, [settled.outcome.value, settled.reason], lab.waits)


def replayed(facts: list[Event], journey: dict[str, Any]) -> list[tuple[object, object]]:
    """The verdict and compensation that the recorded failures alone lead to, one pair for each."""
    playbook = policy_of(journey).playbook
    found = [(fact, playbook.play_for(fact)) for fact in facts if isinstance(fact, FailureClassified)]
    return [(fact.verdict, play.compensation if play else None) for fact, play in found]
