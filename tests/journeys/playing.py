"""Plays a journey through the rules alone, in a thread and in a task; each way tells its facts and endings."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recovery_ops import wire
from recovery_ops.rules.classification.classify import Failure
from recovery_ops.rules.desired_state import Desired, Override, Reset
from recovery_ops.rules.enums import Adjustment, Category, Evidence, OnBrokenStream, State
from recovery_ops.rules.events import Event, FallbackActivated
from recovery_ops.rules.policy.model import Policy, Settings, parse_policy
from recovery_ops.rules.policy.scope import Place, Scope
from recovery_ops.rules.resilience import call_steps as ladder
from recovery_ops.rules.resilience import steps
from recovery_ops.rules.resilience.breaker_settings import Member, shared_thresholds
from recovery_ops.rules.resilience.call_context import Alternative, CallContext, OperationState
from recovery_ops.rules.resilience.circuit_breaker import Breaker, Imposed
from recovery_ops.rules.resilience.credentials import Credential
from recovery_ops.rules.resilience.model_chain import ModelChain
from recovery_ops.rules.spending import Admission, SpendBook, Spending, account_caps
from recovery_ops.runtime import (
    CallRejected,
    Degraded,
    Fallback,
    Response,
    StopRun,
)
from recovery_ops.runtime.calls.operation import Declaration
from recovery_ops.runtime.failures.signals import classify_with
from recovery_ops.runtime.testing import HttpError, Lab
from tests.journeys.streams import Broken, read, read_async, streamed, streamed_async

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
    "Untrusted": lambda: ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate has expired"),
    "RetryAfter": lambda: _limited(retry_after=30),
    "CancelledError": asyncio.CancelledError,
    "Strange": lambda: type("Strange", (Exception,), {})("nobody knows"),
}


def _limited(**said: object) -> Exception:
    error = HttpError(429)
    error.__dict__.update(said)
    return error


DECLARED: dict[str, type[Exception]] = {"Exception": Exception, "ValueError": ValueError}
"""What `retry_on` of an operation may name."""


class Adapted(Exception):
    """What an adapter raises that knows its upstream."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__("the adapter says so")


@dataclass
class Told:
    """What came of a journey."""

    facts: list[Event] = field(default_factory=list)
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
        if isinstance(outcome, dict) and "returns" in outcome:
            return str(outcome["returns"])
        if isinstance(outcome, dict) and "breaks" in outcome:
            raise Broken(RAISED[outcome["breaks"]]())
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


def settings_of(said: dict[str, Any]) -> Settings:
    return Settings(**said.get("settings", {}))


def chain_of(said: dict[str, Any]) -> ModelChain | None:
    return ModelChain(*said["chain"]) if "chain" in said else None


# --- the rules alone -------------------------------------------------------------------------------------------------


class Alone:
    """The plainest driver there is: a loop over recorded outcomes on a virtual clock."""

    def __init__(self, journey: dict[str, Any]) -> None:
        self.journey, self.told = journey, Told()
        self.now, self.epoch = 1000.0, 1_800_000_000.0
        self.breakers: dict[str, Breaker] = {}
        self.standings: dict[str, OperationState] = {}
        self.resets_done = 0
        self.credentials: dict[str, Credential] = {}
        self.book = SpendBook()
        self.played: dict[str, Any] = {}
        self.obey(desired_at(journey, -1, self.epoch))

    def wall(self) -> float:
        return self.epoch + self.now - 1000.0

    def push(self, seconds: float) -> None:
        self.now += seconds

    def place(self, name: str) -> Place:
        said = self.journey["operations"][name]
        return Place(service="lab", instance="lab-1", operation=name, breaker=said.get("breaker", name))

    def member(self, name: str) -> Member:
        return Member(
            place=self.place(name), kind=kind_of(self.journey, name), code=settings_of(self.journey["operations"][name])
        )

    def places(self, breaker: str) -> list[Place]:
        found = []
        for name, standing in self.standings.items():
            own = (standing, *standing.models.values())
            found += [replace(self.place(name), breaker=breaker) for one in own if one.breaker.name == breaker]
        return found

    def obey(self, desired: Desired) -> None:
        self.desired, members = desired, {name: self.member(name) for name in self.journey["operations"]}
        for name, said in self.journey["operations"].items():
            place = self.place(name)
            breaker = self.breakers.setdefault(place.breaker, Breaker(place.breaker))
            policy: Policy = desired.policy
            sharing = [one for one in members.values() if one.place.breaker == place.breaker]
            found = members[name].policy(policy, shared_thresholds(policy, sharing))
            if name not in self.standings:
                self.standings[name] = OperationState(
                    name,
                    found,
                    breaker,
                    provider=said.get("provider"),
                    chain=chain_of(said),
                    breaker_of=lambda model: self.breakers.setdefault(model, Breaker(model)),
                    is_model=kind_of(self.journey, name) == "model",
                )
                self.standings[name].credentials.update((one.label, one) for one in self.keys(name))
            self.standings[name].obey(found)
        for name in self.breakers:
            self.reset(name)
            self.impose(name)

    def keys(self, name: str) -> tuple[Credential, ...]:
        labels = self.journey["operations"][name].get("credentials", [])
        return tuple(self.credentials.setdefault(label, Credential(label)) for label in labels)

    def reset(self, name: str) -> None:
        due = [one.revision for one in self.desired.resets if one.scope.holds_any(self.places(name))]
        if due and max(due) == self.desired.revision:
            for standing in self.standings.values():
                for one in (standing, *standing.models.values()):
                    if one.breaker.name == name:
                        one.gate.opens_at = None
                        self.told.facts += one.open_keys(self.now)
            self.told.facts += self.breakers[name].reset(self.now)

    def impose(self, name: str) -> None:
        from recovery_ops.rules.desired_state import winning_override

        wanted = winning_override(self.desired.overrides, self.places(name), self.wall())
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
        world = World(self.push, {op: list(o) for op, o in step.get("outcomes", {}).items()}, step.get("takes_s", 0.0))
        self.played = step
        self.told.ends.append(ended(self.drive(self.climbing(name, step), world)))

    def climbing(self, name: str, step: dict[str, Any]) -> ladder.CallSteps:
        said = self.journey["operations"][name]
        return ladder.call_steps(
            CallContext(
                standing=self.standings[name],
                credentials=self.keys(name),
                source=step.get("source", "main_agent"),
                started_at=self.now,
                deadline_at=self.now + step.get("deadline_s", 300.0),
                chance=lambda: 0.0,
                alternatives=tuple(
                    Alternative(
                        standing=self.standings[other],
                        is_guarded=is_guarded(self.journey, other),
                        is_repeatable=self.journey["operations"][other].get("idempotent", False),
                        warning=self.journey["operations"][other].get("warning"),
                    )
                    for other in said.get("fallback", [])
                ),
                is_optional=said.get("optional", False),
                is_foundational=said.get("foundational", False),
                is_repeatable=is_idempotent(self.journey, name),
                fixes=frozenset(FIXES[fix] for fix in said.get("fixes", [])),
                tool=step.get("tool"),
                tells_model=said.get("permission") == "tell_model",
                on_broken_stream=OnBrokenStream(said.get("on_broken_stream", "error")),
            )
        )

    def drive(self, climbing: ladder.CallSteps, world: World) -> steps.Ending:
        reply: steps.Reply = None
        while True:
            try:
                step = climbing.send(reply)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            reply = None
            if isinstance(step, steps.Emit):
                self.told.facts.append(step.event)
            elif isinstance(step, steps.Wait):
                self.told.waits.append(step.delay_s)
                self.now += step.delay_s
                reply = steps.Woke(self.now)
            elif isinstance(step, steps.Reserve):
                reply = self.reserve(step)
            elif isinstance(step, steps.Call):
                is_own = step.level > 0 and is_guarded(self.journey, step.operation)
                reply = self.guarded(step, world) if is_own else self.attempt(step, world)

    def reserve(self, step: steps.Reserve) -> steps.Reply:
        caps, source = self.desired.policy.spend_caps, self.played.get("source", "main_agent")
        limits = account_caps(caps, run="", source=source, at_s=self.wall(), has_cheaper=step.has_cheaper)
        ruling = self.book.admit(limits)
        if ruling.admission is not Admission.ADMITTED:
            return steps.OverCap(self.now, ruling)
        self.book.charge(limits, Spending(calls=1))
        return steps.Reserved(self.now)

    def guarded(self, step: steps.Call, world: World) -> steps.Reply:
        """A fallback that climbs by itself."""
        began = self.now
        ending = self.drive(self.climbing(step.operation, self.played), world)
        if isinstance(ending, steps.Answered):
            return steps.Returned(self.now, self.now - began)
        if isinstance(ending, steps.Withdrawn):
            return steps.LeftOut(self.now)
        return steps.Raised(self.now, Failure(Category.UNKNOWN, Evidence.NONE), self.now - began)

    def attempt(self, step: steps.Call, world: World) -> steps.Reply:
        began = self.now
        is_partial = False
        try:
            try:
                world.answer(step.operation)
            except Broken as broken:
                is_partial = True
                raise broken.error from None
        except Exception as error:
            rules = self.desired.policy.classification
            is_model_output = kind_of(self.journey, step.operation) == "model"
            failure = classify_with(
                rules, error, now=self.wall(), operation=step.operation, is_model_output=is_model_output
            )
            if isinstance(error, retry_on_of(self.journey, step.operation)):
                failure = replace(failure, is_declared_transient=True)
            return steps.Raised(self.now, failure, self.now - began, is_partial)
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
        steps.Parked: "stopped",
        steps.CalledOff: "cancelled",
    }
    return names[type(ending)]


def kind_of(journey: dict[str, Any], name: str) -> str:
    """An operation that only ever stands in for another is one that nobody declared."""
    said = journey["operations"][name]
    is_fallback = any(name in other.get("fallback", []) for other in journey["operations"].values())
    return str(said.get("kind", "undeclared" if is_fallback and not is_guarded(journey, name) else "operation"))


def is_guarded(journey: dict[str, Any], name: str) -> bool:
    """Whether a fallback has a guard of its own."""
    return bool(journey["operations"][name].get("guarded", False))


def retry_on_of(journey: dict[str, Any], name: str) -> tuple[type[Exception], ...]:
    """What an operation declares transient."""
    return tuple(DECLARED[one] for one in journey["operations"][name].get("retry_on", []))


def is_idempotent(journey: dict[str, Any], name: str) -> bool:
    """Without a word of its own only a model may be asked twice."""
    found: bool = journey["operations"][name].get("idempotent", kind_of(journey, name) == "model")
    return found


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
        for name in self.journey["operations"]:
            self.make(name, guards)
        return guards

    def make(self, name: str, guards: dict[str, Any]) -> None:
        """The guard of an operation, after those of its fallbacks."""
        for other in self.journey["operations"][name].get("fallback", []):
            self.make(other, guards)
        if name not in guards:
            guards[name] = self.guard(name, guards)

    def guard(self, name: str, guards: dict[str, Any]) -> Any:
        said = self.journey["operations"][name]
        fixes = said.get("fixes", [])
        kind: Any = kind_of(self.journey, name)
        if kind == "undeclared":
            self.lab.recovery.operations.declare(
                name, Declaration(breaker=said.get("breaker") or name, code=settings_of(said))
            )
            return self.answer(name)
        decorate = self.lab.recovery.guard(
            name,
            kind=kind,
            breaker=said.get("breaker", ""),
            optional=said.get("optional", False),
            foundational=said.get("foundational", False),
            permission=said.get("permission", "stop"),
            idempotent=said.get("idempotent"),
            retry_on=retry_on_of(self.journey, name),
            settings=settings_of(said),
            provider=said.get("provider"),
            chain=chain_of(said),
            credentials=said.get("credentials"),
            on_broken_stream=said.get("on_broken_stream", "error"),
            adjusts_max_tokens="max_tokens" in fixes,
            refresh_credentials=(lambda: None) if "credentials" in fixes else None,
            refresh_evidence=(lambda: None) if "evidence" in fixes else None,
            fallback=[
                Fallback(
                    guards[other],
                    name=other,
                    warning=self.journey["operations"][other].get("warning"),
                    idempotent=self.journey["operations"][other].get("idempotent", False),
                )
                for other in said.get("fallback", [])
            ]
            or None,
        )
        return decorate(self.answer(name))

    def answer(self, name: str) -> Callable[[], Any]:
        def answer() -> Any:
            try:
                return self.world.answer(name)
            except Broken as broken:
                return streamed(broken.error)

        async def answer_async() -> Any:
            try:
                return self.world.answer(name)
            except Broken as broken:
                return streamed_async(broken.error)

        return answer_async if self.is_async else answer

    def play(self) -> Told:
        for number, step in enumerate(self.journey["calls"]):
            self.lab.clock.push(self.began + step.get("at_s", 0.0) - self.lab.clock.now())
            if is_call(step):
                self.call(step)
            else:
                self.lab.recovery.apply(desired_at(self.journey, number, self.epoch))
        self.told.facts = [
            fact
            for fact in self.lab.events
            if wire.names.EVENTS[type(fact)].name not in ("run_started", "run_finished")
        ]
        self.told.waits = self.lab.waits
        return self.told

    def call(self, step: dict[str, Any]) -> None:
        name = step.get("operation") or next(iter(self.journey["operations"]))
        self.world.outcomes = {op: list(outcomes) for op, outcomes in step.get("outcomes", {}).items()}
        self.world.takes_s = step.get("takes_s", 0.0)
        run = self.lab.recovery.run(source=step.get("source", "main_agent"), timeout=step.get("deadline_s"))
        with run:
            self.told.ends.append(self.outcome(self.guards[name]))

    def outcome(self, guarded: Any) -> str:
        before = len(self.lab.events_of(FallbackActivated))
        try:
            value = asyncio.run(read_async(guarded)) if self.is_async else read(guarded())
        except CallRejected:
            return "refused"
        except StopRun:
            return "stopped"
        except asyncio.CancelledError:
            return "cancelled"
        except Exception as error:
            return "failed" if self.lab.recovery.report(error) else "cancelled"
        if isinstance(value, Degraded):
            return "withdrawn"
        return "fallback" if len(self.lab.events_of(FallbackActivated)) > before else "answered"
