"""Plays a journey through the rules alone, in a thread and in a task; each way tells its facts and endings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recovery_ops import wire
from recovery_ops.rules import ladder, steps
from recovery_ops.rules.breaker import Breaker, Imposed
from recovery_ops.rules.facts import Fact, FallbackActivated
from recovery_ops.rules.intent import Desired, Override, Reset
from recovery_ops.rules.model_chain import ModelChain
from recovery_ops.rules.policy import Knobs, Policy, parse_policy
from recovery_ops.rules.scope import Place, Scope
from recovery_ops.rules.standing import Alternative, Climb, Standing
from recovery_ops.rules.words import Adjustment, State
from recovery_ops.runtime import (
    Degraded,
    Fallback,
    RecoveryExhausted,
    Refused,
    Response,
    RunStopped,
)
from recovery_ops.runtime.signals import classify_with
from recovery_ops.runtime.testing import HttpError, Lab

FOLDER = Path(__file__).parent
FIXES = {
    "max_tokens": Adjustment.MAX_TOKENS,
    "credentials": Adjustment.REFRESH_CREDENTIALS,
    "evidence": Adjustment.REFRESH_EVIDENCE,
}
RAISED: dict[str, Callable[[], BaseException]] = {
    "TimeoutError": lambda: TimeoutError("it took too long"),
    "ConnectionResetError": lambda: ConnectionResetError(104, "Connection reset by peer"),
    "ConnectionRefusedError": lambda: ConnectionRefusedError(111, "Connection refused"),
    "PermissionError": lambda: PermissionError("not yours"),
    "ValueError": lambda: ValueError("a bug"),
    "KeyError": lambda: KeyError("items"),
    "FileNotFoundError": lambda: FileNotFoundError(2, "No such file or directory"),
    "NoSpace": lambda: OSError(28, "No space left on device"),
    "JSONDecodeError": lambda: json.JSONDecodeError("Expecting value", "{", 1),
    "CancelledError": asyncio.CancelledError,
    "Strange": lambda: type("Strange", (Exception,), {})("nobody knows"),
}


class Adapted(Exception):
    """What an adapter raises that knows its upstream."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__("the adapter says so")


@dataclass
class Told:
    """What came of a journey."""

    facts: list[Fact] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)


@dataclass
class World:
    """What each operation answers next; time passes with each answer."""

    push: Callable[[float], None]
    outcomes: dict[str, list[Any]] = field(default_factory=dict)
    takes_s: float = 0.0
    calls: int = 0

    def answer(self, operation: str) -> str:
        self.calls += 1
        self.push(self.takes_s)
        left = self.outcomes.get(operation, ["ok"])
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if outcome == "ok":
            return "ok"
        if isinstance(outcome, dict) and "raises" in outcome:
            error = RAISED[outcome["raises"]]()
            raise error
        if isinstance(outcome, dict) and "kind" in outcome:
            raise Adapted(outcome["kind"])
        if isinstance(outcome, int):
            raise HttpError(outcome)
        raise HttpError(Response(outcome["status"], outcome.get("headers", {}), outcome.get("body")))


def desired_at(journey: dict[str, Any], until: int, epoch: float) -> Desired:
    """The desired state after the steps up to this one. Revisions count the steps."""
    policy = parse_policy(journey.get("policy", {}))
    overrides: dict[str, Override] = {}
    resets: list[Reset] = []
    for number, step in enumerate(journey["calls"][: until + 1], start=1):
        at = epoch + step.get("at_s", 0.0)
        if "policy" in step:
            policy = parse_policy(step["policy"])
        for verb, mode in (("trip", State.FORCED_OPEN), ("disable", State.DISABLED), ("observe", State.METRICS_ONLY)):
            if verb in step:
                scope = Scope(**step[verb])
                overrides[repr(scope)] = Override(
                    id=f"ov-{number}",
                    mode=mode,
                    scope=scope,
                    reason="a journey",
                    by="ana",
                    starts_at=at,
                    expires_at=at + step.get("lasts_s", 3600.0),
                    revision=number,
                )
        if "release" in step:
            overrides.pop(repr(Scope(**step["release"])), None)
        if "reset" in step:
            overrides.pop(repr(Scope(**step["reset"])), None)
            resets.append(Reset(scope=Scope(**step["reset"]), revision=number))
    return Desired(revision=until + 1, policy=policy, overrides=tuple(overrides.values()), resets=tuple(resets))


def is_call(step: dict[str, Any]) -> bool:
    return "outcomes" in step or not {"trip", "disable", "observe", "release", "reset", "policy"} & set(step)


def knobs_of(said: dict[str, Any]) -> Knobs:
    return Knobs(**said.get("knobs", {}))


def chain_of(said: dict[str, Any]) -> ModelChain | None:
    return ModelChain(*said["chain"]) if "chain" in said else None


# --- the rules alone -------------------------------------------------------------------------------------------------


class Alone:
    """The plainest driver there is: a loop over recorded outcomes on a virtual clock."""

    def __init__(self, journey: dict[str, Any]) -> None:
        self.journey, self.told = journey, Told()
        self.now, self.epoch = 1000.0, 1_800_000_000.0
        self.breakers: dict[str, Breaker] = {}
        self.standings: dict[str, Standing] = {}
        self.resets_done = 0
        self.obey(desired_at(journey, -1, self.epoch))

    def wall(self) -> float:
        return self.epoch + self.now - 1000.0

    def push(self, seconds: float) -> None:
        self.now += seconds

    def place(self, name: str) -> Place:
        said = self.journey["operations"][name]
        return Place(service="lab", instance="lab-1", operation=name, breaker=said.get("breaker", name))

    def obey(self, desired: Desired) -> None:
        self.desired = desired
        for name, said in self.journey["operations"].items():
            place = self.place(name)
            breaker = self.breakers.setdefault(place.breaker, Breaker(place.breaker))
            policy: Policy = desired.policy
            found = policy.for_operation(place, kind=kind_of(self.journey, name), code=knobs_of(said))
            made = Standing(name, found, breaker, provider=said.get("provider"), chain=chain_of(said))
            standing = self.standings.setdefault(name, made)
            standing.policy = found
            breaker.configure(found.knobs)
            if standing.chain is not None:
                standing.chain.configure(found.knobs)
        for name in dict.fromkeys(self.place(name).breaker for name in self.standings):
            self.reset(name)
            self.impose(name)

    def reset(self, name: str) -> None:
        place = next(self.place(op) for op in self.standings if self.place(op).breaker == name)
        due = [one.revision for one in self.desired.resets if one.scope.holds(place)]
        if due and max(due) == self.desired.revision:
            for standing in self.standings.values():
                if standing.breaker.name == name:
                    standing.gate.opens_at = None
            self.told.facts += self.breakers[name].reset(self.now)

    def impose(self, name: str) -> None:
        from recovery_ops.rules.intent import winning_override

        place = next(self.place(op) for op in self.standings if self.place(op).breaker == name)
        wanted = winning_override(self.desired.overrides, place, self.wall())
        breaker = self.breakers[name]
        if wanted is None:
            if breaker.override is not None:
                ended = breaker.override.ends_at - self.now <= 5.0
                self.told.facts += breaker.expire(self.now) if ended else breaker.impose(None, self.now)
            return
        self.told.facts += breaker.impose(
            Imposed(
                id=wanted.id,
                mode=wanted.mode,
                revision=wanted.revision,
                ends_at=self.now + wanted.expires_at - self.wall(),
                ramp_s=wanted.ramp_s,
            ),
            self.now,
        )

    def play(self) -> Told:
        for number, step in enumerate(self.journey["calls"]):
            self.now = max(self.now, 1000.0 + step.get("at_s", 0.0))
            if is_call(step):
                self.call(step)
            else:
                self.obey(desired_at(self.journey, number, self.epoch))
        return self.told

    def call(self, step: dict[str, Any]) -> None:
        name = step.get("operation") or next(iter(self.journey["operations"]))
        said = self.journey["operations"][name]
        world = World(self.push, {op: list(o) for op, o in step.get("outcomes", {}).items()}, step.get("takes_s", 0.0))
        climbing = ladder.climb(
            Climb(
                standing=self.standings[name],
                source=step.get("source", "main_agent"),
                started_at=self.now,
                deadline_at=self.now + step.get("deadline_s", 300.0),
                chance=lambda: 0.0,
                alternatives=tuple(
                    Alternative(
                        standing=self.standings[other],
                        is_repeatable=not self.journey["operations"][other].get("is_destructive", True),
                        warning=self.journey["operations"][other].get("warning"),
                    )
                    for other in said.get("fallback", [])
                ),
                is_optional=said.get("optional", False),
                is_repeatable=not said.get("is_destructive", True),
                fixes=frozenset(FIXES[fix] for fix in said.get("fixes", [])),
                tool=step.get("tool"),
            )
        )
        self.told.ends.append(ended(self.drive(climbing, world)))

    def drive(self, climbing: ladder.Climbing, world: World) -> steps.Ending:
        reply: steps.Reply = None
        while True:
            try:
                step = climbing.send(reply)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            reply = None
            if isinstance(step, steps.Emit):
                self.told.facts.append(step.fact)
            elif isinstance(step, steps.Wait):
                self.told.waits.append(step.delay_s)
                self.now += step.delay_s
                reply = steps.Woke(self.now)
            elif isinstance(step, steps.Call):
                reply = self.attempt(step, world)

    def attempt(self, step: steps.Call, world: World) -> steps.Reply:
        began = self.now
        try:
            world.answer(step.operation)
        except Exception as error:
            rules = self.desired.policy.classification
            failure = classify_with(rules, error, now=self.wall(), operation=step.operation)
            return steps.Raised(self.now, failure, self.now - began)
        except BaseException:
            return steps.Cancelled(self.now)
        return steps.Returned(self.now, self.now - began)


def ended(ending: steps.Ending) -> str:
    if isinstance(ending, steps.Answered):
        return "fallback" if ending.level else "answered"
    names = {
        steps.Withdrawn: "withdrawn",
        steps.Refused: "refused",
        steps.Failed: "failed",
        steps.Stopped: "stopped",
        steps.CalledOff: "cancelled",
    }
    return names[type(ending)]


def kind_of(journey: dict[str, Any], name: str) -> str:
    """An operation that only ever stands in for another is one that nobody declared."""
    said = journey["operations"][name]
    is_fallback = any(name in other.get("fallback", []) for other in journey["operations"].values())
    return str(said.get("kind", "undeclared" if is_fallback else "operation"))


# --- the runtime -----------------------------------------------------------------------------------------------------


class InRuntime:
    """The same journey through `Recovery`, in a thread or in a task."""

    def __init__(self, journey: dict[str, Any], *, is_async: bool) -> None:
        self.journey, self.is_async, self.told = journey, is_async, Told()
        self.lab = Lab(desired=desired_at(journey, -1, 0.0))
        self.epoch, self.began = self.lab.clock.wall(), self.lab.clock.now()
        self.world = World(self.lab.clock.push)
        self.guards = self.made()

    def made(self) -> dict[str, Any]:
        guards: dict[str, Any] = {}
        for name in sorted(
            self.journey["operations"], key=lambda op: bool(self.journey["operations"][op].get("fallback"))
        ):
            guards[name] = self.guard(name, guards)
        return guards

    def guard(self, name: str, guards: dict[str, Any]) -> Any:
        said = self.journey["operations"][name]
        fixes = said.get("fixes", [])
        decorate = self.lab.recovery.guard(
            name,
            kind=kind_of(self.journey, name),
            breaker=said.get("breaker", ""),
            optional=said.get("optional", False),
            is_destructive=said.get("is_destructive", True),
            knobs=knobs_of(said),
            provider=said.get("provider"),
            chain=chain_of(said),
            adjusts_max_tokens="max_tokens" in fixes,
            refresh_credentials=(lambda: None) if "credentials" in fixes else None,
            refresh_evidence=(lambda: None) if "evidence" in fixes else None,
            fallback=[
                Fallback(
                    guards[other],
                    warning=self.journey["operations"][other].get("warning"),
                    is_destructive=self.journey["operations"][other].get("is_destructive", True),
                )
                for other in said.get("fallback", [])
            ]
            or None,
        )

        def answer() -> str:
            return self.world.answer(name)

        async def answer_async() -> str:
            return self.world.answer(name)

        function: Callable[[], Any] = answer_async if self.is_async else answer
        return decorate(function)

    def play(self) -> Told:
        for number, step in enumerate(self.journey["calls"]):
            self.lab.clock.push(self.began + step.get("at_s", 0.0) - self.lab.clock.now())
            if is_call(step):
                self.call(step)
            else:
                self.lab.recovery.apply(desired_at(self.journey, number, self.epoch))
        self.told.facts = [
            fact for fact in self.lab.facts if wire.names.EVENTS[type(fact)].name not in ("run_started", "run_finished")
        ]
        self.told.waits = self.lab.waits
        return self.told

    def call(self, step: dict[str, Any]) -> None:
        name = step.get("operation") or next(iter(self.journey["operations"]))
        self.world.outcomes = {op: list(outcomes) for op, outcomes in step.get("outcomes", {}).items()}
        self.world.takes_s = step.get("takes_s", 0.0)
        run = self.lab.recovery.run(source=step.get("source", "main_agent"), deadline_s=step.get("deadline_s"))
        with run:
            self.told.ends.append(self.outcome(self.guards[name]))

    def outcome(self, guarded: Any) -> str:
        before = len(self.lab.facts_of(FallbackActivated))
        try:
            value = guarded()
            if self.is_async:
                value = asyncio.run(value)
        except Refused:
            return "refused"
        except RecoveryExhausted:
            return "failed"
        except RunStopped:
            return "stopped"
        except (asyncio.CancelledError, Adapted):
            return "cancelled"
        if isinstance(value, Degraded):
            return "withdrawn"
        return "fallback" if len(self.lab.facts_of(FallbackActivated)) > before else "answered"
