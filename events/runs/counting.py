"""Counts what a run went through: what a file and a list say of it, without a word for each of its facts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from events.queries.readings import length_s_or_none, number_or_none, text_of
from events.queries.sums import capacity_name
from events.rows import DERIVED_WORDS
from events.runs.rows import RUNGS, RunFact, RunStory, Wait, level_of
from recovery_ops.rules import facts
from recovery_ops.rules.words import Category, Rung, RunStatus
from recovery_ops.wire import names

_STATUSES = {status.value: status for status in RunStatus}
_NUMBERS = ("turns", "attempts", "input_tokens", "output_tokens", "cost_usd")


def said(fact: RunFact, name: str) -> Any:
    """What a fact says in one of its fields; None where it says nothing."""
    return fact.said.get(_attribute(fact.event, name))


@cache
def _attribute(event: str, name: str) -> str:
    return names.attribute_of(names.KIND_OF[event], name)


@dataclass(slots=True)
class Counted:
    """What is being added up about one run. Fields as in `RunStory`."""

    name: str = ""
    started: datetime | None = None
    begun: RunFact | None = None
    """How it was begun last."""
    ended: datetime | None = None
    status: RunStatus | None = None
    level: int = 0
    failures: Counter[Category] = field(default_factory=Counter)
    retries: int = 0
    waited_s: float = 0.0
    stood_in: dict[str, str] = field(default_factory=dict)
    gave_up: list[str] = field(default_factory=list)
    questions: int = 0
    last_failed: datetime | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    fingerprints: dict[str, None] = field(default_factory=dict)
    derived: int = 0
    waits: dict[str, Wait] = field(default_factory=dict)
    """By operation, those that nothing followed."""

    lasting: list[tuple[Rung, datetime]] = field(default_factory=list)
    """Rungs on which it stays until its end, and since when."""

    @property
    def rung(self) -> Rung | None:
        if not self.lasting:
            return RUNGS[self.level - 1] if self.level else None
        stayed = (level_of(rung) for rung, at in self.lasting if self.ended is None or at < self.ended)
        level = max([self.level, *stayed])
        return RUNGS[level - 1] if level else None

    def count(self, fact: RunFact) -> None:
        """Add one fact, the next in order."""
        handler = _HANDLERS.get(fact.event)
        if handler is not None:
            handler(self, fact)
        if fact.said.get(names.DERIVED_FROM) in DERIVED_WORDS and fact.event != _RETRY:  # which has no line of its own
            self.derived += 1

    def story(self, run: str, began: datetime, **told: Any) -> RunStory:
        """The run as it was counted; `began` is its first fact, `told` what else is known of it."""
        begun = self.begun
        is_mine = begun is not None and begun.service == told["service"]  # another one’s part has the same name
        return RunStory(
            run=run,
            last_begun=None if begun is None else begun.at,
            begun_by=begun.instance if begun is not None and is_mine else "",
            name=self.name,
            started=self.started or began,
            is_start_known=self.started is not None,
            ended=self.ended,
            status=self.status,
            rung=self.rung,
            failures=dict(self.failures if len(self.failures) < 2 else self.failures.most_common()),
            retries=self.retries,
            waited_s=self.waited_s,
            waits=tuple(self.waits.values()),
            stood_in=self.stood_in,
            gave_up=tuple(self.gave_up),
            questions=self.questions,
            numbers=self.numbers,
            fingerprints=tuple(self.fingerprints),
            derived_steps=self.derived,
            last_failed=self.last_failed,
            **told,
        )

    def reach(self, rung: Rung, fact: RunFact) -> None:
        """It climbed to this rung at least, and does not wait for this operation any more."""
        self.level = max(self.level, level_of(rung))
        self.waits.pop(fact.operation or fact.breaker, None)

    def stay(self, rung: Rung, fact: RunFact) -> None:
        """It climbed to this rung, and stays there; what is told behind its end does not count."""
        self.lasting.append((rung, fact.at))
        self.waits.pop(fact.operation or fact.breaker, None)


def models_of(backends: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The providers and models of these pairs, as "helios / large"."""
    return tuple(filter(None, (capacity_name(provider, model, "") for provider, model in backends)))


def _run_started(found: Counted, fact: RunFact) -> None:
    found.started, found.begun = found.started or fact.at, fact
    found.ended = found.status = None  # one that was ended is begun again: it goes on
    found.name = found.name or text_of(said(fact, "name"))


def _run_finished(found: Counted, fact: RunFact) -> None:
    found.ended = fact.at
    found.status = _STATUSES.get(text_of(said(fact, "status")))
    found.name = found.name or text_of(said(fact, "name"))
    numbers = {name: number_or_none(said(fact, name)) for name in _NUMBERS}
    found.numbers = {name: number for name, number in numbers.items() if number is not None}


def _failed(found: Counted, fact: RunFact) -> None:
    found.failures[fact.category or Category.UNKNOWN] += 1
    found.last_failed = fact.at
    found.reach(Rung.RETRY, fact)
    fingerprint = text_of(said(fact, "fingerprint"))
    if fingerprint:
        found.fingerprints[fingerprint] = None


def _retry(found: Counted, fact: RunFact) -> None:
    found.retries += 1
    delay_s = length_s_or_none(said(fact, "delay_s")) or 0.0
    if delay_s:
        found.waited_s += delay_s
        found.reach(Rung.RETRY, fact)
        found.waits[fact.operation] = Wait(fact.at + timedelta(seconds=delay_s), fact.category)


def _succeeded(found: Counted, fact: RunFact) -> None:
    found.reach(Rung.RETRY, fact)


def _fell_back(found: Counted, fact: RunFact) -> None:
    found.stood_in[fact.operation] = text_of(said(fact, "fallback"))
    found.reach(Rung.FALLBACK, fact)


def _model_fell_back(found: Counted, fact: RunFact) -> None:
    old, new = text_of(said(fact, "from_model")), text_of(said(fact, "to_model")) or fact.model
    found.stood_in[old or fact.operation] = new
    found.reach(Rung.FALLBACK, fact)


def _reduced(found: Counted, fact: RunFact) -> None:
    if text_of(said(fact, "kind")) == "withdrawn":  # any other is told by the fallback itself
        found.stay(Rung.DEGRADE, fact)


def _asked(found: Counted, fact: RunFact) -> None:
    found.questions += 1
    found.stay(Rung.ASK, fact)


def _gave_up(found: Counted, fact: RunFact) -> None:
    found.gave_up.append(fact.operation)
    found.reach(Rung.FAIL, fact)


def _stopped(found: Counted, fact: RunFact) -> None:
    found.reach(Rung.FAIL, fact)


_BY_KIND: dict[type[facts.Fact], Callable[[Counted, RunFact], None]] = {
    facts.RunStarted: _run_started,
    facts.RunFinished: _run_finished,
    facts.FailureClassified: _failed,
    facts.RetryScheduled: _retry,
    facts.AttemptSucceeded: _succeeded,
    facts.FallbackActivated: _fell_back,
    facts.ModelFallback: _model_fell_back,
    facts.DegradationStarted: _reduced,
    facts.Escalated: _asked,
    facts.Exhausted: _gave_up,
    facts.RunStopped: _stopped,
}
_HANDLERS = {names.EVENTS[kind].name: handler for kind, handler in _BY_KIND.items()}
_RETRY = names.EVENTS[facts.RetryScheduled].name
