"""Plays a run with its guards: through the rules alone, in a thread and in a task."""

from __future__ import annotations

import asyncio
from typing import Any

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.model import Policy, parse_policy
from recovery_ops.rules.repeated_calls import mark_of_call
from recovery_ops.rules.resilience import steps
from recovery_ops.rules.run_limits import (
    ERRORS,
    OFF,
    REPEATED_CALLS,
    TURNS,
    Effect,
    GuardLimits,
    Ruling,
    RunGuards,
    RunStop,
    asked,
)
from recovery_ops.rules.tools.results import RUN_TELLINGS, ResultKind
from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.runtime import StopRun, Tool, ToolRegistry, build_tool
from recovery_ops.runtime.runs.repeated_calls import question_about
from recovery_ops.runtime.testing import Lab
from tests.journeys.playing import Alone, Told, World

SOURCE = "main_agent"


def policy_of(journey: dict[str, Any]) -> dict[str, Any]:
    return {"guards": journey.get("guards", {}), **journey.get("policy", {})}


class AloneWithGuards(Alone):
    """The rules of a run, applied by hand: the ladder for each call, and the counts of `RunGuards`."""

    def __init__(self, journey: dict[str, Any]) -> None:
        self.run = RunGuards()
        self.withdrawn: set[str] = set()
        tools = {name: {"kind": "tool", "settings": {"max_retries": 0, "max_retries_background": 0}} | said
                 for name, said in journey["tools"].items()}  # fmt: skip
        super().__init__({"operations": tools, "policy": policy_of(journey), "calls": []})
        self.script = journey
        self.limits: GuardLimits = self.desired.policy.guards

    def play(self) -> Told:
        for step in self.script["steps"]:
            self.push(step.get("after_s", 0.0))
            for _ in range(step.get("times", 1)):
                if not self.do(step):
                    return self.told
        return self.told

    def do(self, step: dict[str, Any]) -> bool:
        """One step; False where it ended the run."""
        if "use" in step:
            self.told.ends.append(self.use(step["use"], step))
        elif "turn" in step:
            ruling = self.run.turn(self.limits)
            self.record(ruling)
            if ruling.effect is Effect.STOP_RUN:
                self.stop(RunStop(TURNS, None, RUN_TELLINGS[TURNS].message))
        elif step["compaction"]:
            self.run.compaction_succeeded()
        else:
            self.record(self.run.compaction_failed(self.limits))
        if self.run.stop is not None:
            self.told.ends.append(f"stopped: {self.run.stop.reason}")
        return self.run.stop is None

    def use(self, name: str, step: dict[str, Any]) -> str:
        if name not in self.standings:
            return self.failed("", Category.MODEL_OUTPUT, "unknown_tool")
        if name in self.withdrawn:
            return "withdrawn"
        if name in self.run.stopped_tools | self.run.waits_for_a_person:
            return "stopped_tool"
        no = self.script.get("denied", {}).get(name)
        if no is not None:
            ruling = self.run.denied(name, no, self.limits)
            self.record(ruling)
            if ruling.effect is Effect.ASK_A_PERSON:
                self.told.facts.append(asked(name, no, self.desired.policy.escalations[Category.PERMISSION]))
            return "permission_denied"
        self.run.permitted()
        ending = self.climb(name, step)
        if isinstance(ending, steps.Answered):
            self.run.tool_succeeded(name)
            self.compare(name, step)
            return "succeeded"
        if isinstance(ending, steps.Withdrawn):
            self.withdrawn.add(name)
            return "withdrawn"
        if isinstance(ending, steps.Refused | steps.CalledOff):
            return "refused" if isinstance(ending, steps.Refused) else "cancelled"
        assert not isinstance(ending, steps.Parked)
        failure = ending.failure
        assert failure is not None
        if isinstance(ending, steps.Stopped):
            reason = ending.reason or failure.category.value
            self.run.stop = RunStop(reason, failure.category, failure.user_message, name)
            return "run_stopped"
        if failure.category is Category.POLICY_DENIED:
            self.run.waits_for_a_person.add(name)
        is_over = self.run.stop is not None
        result = self.failed(name, failure.category, "failed")
        if not is_over and self.run.stop is None and name not in self.run.stopped_tools:
            self.compare(name, step)
        return result

    def compare(self, name: str, step: dict[str, Any]) -> None:
        """Count the call among those of the run; nobody answers what a person is asked."""
        if self.limits.repeat_action == OFF:
            return
        is_polling = self.script["tools"][name].get("polling", False)
        mark = mark_of_call((name, step.get("arguments", {})), str(step.get("outcomes", ["ok"])[-1]))
        ruling = self.run.call_made(name, None if is_polling else mark, self.limits)
        self.record(ruling)
        if ruling.effect is Effect.ASK_A_PERSON:
            self.told.facts.append(
                events.Escalated(
                    operation=name,
                    queue="budgets",
                    reason=REPEATED_CALLS,
                    message=question_about(name, ruling.count),
                    deadline_s=1800.0,
                    default_action="deny",
                )
            )
            self.told.waits.append(1800.0)
        if ruling.effect in (Effect.STOP_RUN, Effect.ASK_A_PERSON):
            self.stop(RunStop(REPEATED_CALLS, None, RUN_TELLINGS[REPEATED_CALLS].message, name))

    def climb(self, name: str, step: dict[str, Any]) -> steps.Ending:
        told, self.told = self.told, Told()
        ended: list[steps.Ending] = []
        drive = self.drive

        def noting(climbing: Any, world: World) -> steps.Ending:
            ended.append(drive(climbing, world))
            return ended[0]

        self.drive = noting  # type: ignore[method-assign]  # to hear how it ended
        self.call({"operation": name, "source": SOURCE, "outcomes": {name: step.get("outcomes", ["ok"])},
                   "deadline_s": 30.0, "tool": name})  # fmt: skip
        self.drive = drive  # type: ignore[method-assign]
        told.facts += self.told.facts
        told.waits += self.told.waits
        self.told = told
        return ended[0]

    def failed(self, name: str, category: Category, result: str) -> str:
        ruling = self.run.tool_failed(name, self.limits)
        self.record(ruling)
        if ruling.effect is Effect.STOP_RUN:
            self.stop(RunStop(ERRORS, category, RUN_TELLINGS[ERRORS].message, name))
        return result

    def record(self, ruling: Ruling) -> None:
        self.told.facts += ruling.events

    def stop(self, stop: RunStop) -> None:
        self.run.stop = stop
        self.told.facts.append(
            events.RunStopped(
                operation=stop.operation, reason=stop.reason, category=stop.category, message=stop.user_message
            )
        )


def in_runtime(journey: dict[str, Any], *, is_async: bool) -> Told:
    """The same by way of a registry of tools."""
    policy: Policy = parse_policy(policy_of(journey))
    lab, told = Lab(desired=Desired(revision=1, policy=policy)), Told()
    world = World(lab.clock.push)

    def tool(name: str, said: dict[str, Any]) -> Tool:
        def handler(**_: Any) -> str:
            return world.answer(name)

        async def handler_async(**_: Any) -> str:
            return world.answer(name)

        return build_tool(
            name,
            handler_async if is_async else handler,
            input_schema={"type": "object"},
            idempotent=said.get("idempotent", False),
            optional=said.get("optional", False),
            foundational=said.get("foundational", False),
            permission=said.get("permission", "stop"),
            require_permission=True,
            max_retries=said.get("settings", {}).get("max_retries", 0),
            polling=said.get("polling", False),
        )

    denied = journey.get("denied", {})
    registry = ToolRegistry(lab.recovery, permission=lambda one, arguments: denied.get(one.name, True))
    for name, said in journey["tools"].items():
        registry.add(tool(name, said))
    try:
        with lab.recovery.run(source=SOURCE) as run:
            for step in journey["steps"]:
                lab.clock.push(step.get("after_s", 0.0))
                for _ in range(step.get("times", 1)):
                    _do(step, registry, run, world, told, is_async=is_async)
    except StopRun as stop:
        told.ends.append(f"stopped: {stop.reason}")
    left_out = (events.RunStarted, events.RunFinished, events.ToolErrorReturned)
    told.facts = [fact for fact in lab.events if not isinstance(fact, left_out)]
    told.waits = lab.waits
    return told


def _do(step: dict[str, Any], registry: ToolRegistry, run: Any, world: World, told: Told, *, is_async: bool) -> None:
    if "turn" in step:
        run.turn()
    elif "compaction" in step:
        run.compaction(has_worked=step["compaction"])
    else:
        world.outcomes = {step["use"]: list(step.get("outcomes", ["ok"]))}
        use, into = ToolUse("use", step["use"], step.get("arguments", {})), list[Any]()
        try:
            if is_async:
                asyncio.run(registry.run_tools_async([use], into=into))
            else:
                registry.run_tools([use], into=into)
        finally:
            told.ends += [one.detail.value if _tells_more(one) else one.kind.value for one in into]


def _tells_more(result: Any) -> bool:
    return result.kind is ResultKind.FAILED and result.detail.value != ""
