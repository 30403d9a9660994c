"""Tells a run: which rungs it climbed, why, and how it ended. Pure: stored facts in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from events.queries.readings import length_s_or_none, number_or_none, text_of, whole_or_none
from events.rows import Derivation
from events.runs.rows import Backend, Kind, Piece, RunFact, Step
from events.wording import category_text, count_text, lasted_text, span_text, spend_text
from recovery_ops.rules import events as facts
from recovery_ops.rules.enums import Adjustment, Category, DelaySource, Rung, RunStatus
from recovery_ops.rules.policy.spend_settings import ASK, CHEAPER_MODEL, PARK
from recovery_ops.rules.run_limits import REPEATED_CALLS
from recovery_ops.wire import names

_SHORTEST = timedelta(milliseconds=1)


def said(fact: RunFact, name: str) -> Any:
    """The value of a field; None where there is none."""
    return fact.said.get(_attribute(fact.event, name))


@cache
def _attribute(event: str, name: str) -> str:
    return names.attribute_of(names.KIND_OF[event], name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The parts of a `RunStory` that take every event."""

    pieces: Sequence[Piece]
    steps: Sequence[Step]
    moves: Sequence[tuple[datetime, str]]
    backends: Sequence[Backend]


def tell(told: Sequence[RunFact], ended: datetime | None, status: RunStatus | None) -> Told:
    """The steps of a run out of its events in order; it ended then and so."""
    teller = _Teller(ended, status)
    for fact in told:
        handler = _HANDLERS.get(fact.event)
        if handler is not None:
            handler(teller, fact)
    return Told(
        pieces=tuple(teller.finished(told[-1].at)) if told else (),
        steps=tuple(teller.steps),
        moves=tuple(teller.moves),
        backends=_backends_of(told),
    )


def _backends_of(told: Sequence[RunFact]) -> tuple[Backend, ...]:
    """What it called: an operation by its name alone where no fact of it says whose it is."""
    named = {fact.operation for fact in told if fact.provider or fact.model}
    each = (Backend(one.provider, one.model, one.operation) for one in told)
    return tuple(dict.fromkeys(one for one in each if one.provider or one.model or one.operation not in {"", *named}))


@dataclass(slots=True)
class _Teller:
    """What is being put into words about one run, which ended then and so, as far as it said."""

    ended: datetime | None = None
    status: RunStatus | None = None
    pieces: list[Piece] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    moves: list[tuple[datetime, str]] = field(default_factory=list)

    def step(self, fact: RunFact, mark: str, title: str, detail: str = "", fingerprint: str = "") -> None:
        """One more line."""
        self.steps.append(
            Step(
                fact_id=fact.fact_id,
                at=fact.at,
                mark=mark,
                title=title,
                operation=fact.operation,
                detail=detail,
                fingerprint=fingerprint,
                derived=Derivation.of(fact.said, fact.trace_id, fact.span_id),
            )
        )

    def add(self, fact: RunFact, rung: Rung, kind: Kind, words: str, *, lasted_s: float | None = 0.0) -> None:
        """One more piece, which ends with the fact; with `lasted_s` None it begins there and goes on."""
        begin = fact.at - timedelta(seconds=lasted_s or 0.0)
        end = None if lasted_s is None else max(fact.at, begin + _SHORTEST)
        operation = fact.operation or fact.breaker
        self.pieces.append(
            Piece(rung=rung, kind=kind, operation=operation, start=begin, end=end, words=words, fact_id=fact.fact_id)
        )

    def finished(self, last: datetime) -> list[Piece]:
        """The pieces; a wait ends with the next piece of its operation, and everything with the run."""
        found: list[Piece] = []
        for place, piece in enumerate(self.pieces):
            end = piece.end
            if piece.kind is Kind.WAITING:
                later = (one.start for one in self.pieces[place + 1 :] if one.operation == piece.operation)
                end = min(end or last, next(later, end or last))
            if self.ended is not None:
                end = min(end or self.ended, max(self.ended, piece.start + _SHORTEST))
            if end is None or end > piece.start:
                found.append(piece if end == piece.end else replace(piece, end=end))
        return found


# -- one handler per kind of fact -------------------------------------------------------------------------------------
def _run_started(teller: _Teller, fact: RunFact) -> None:
    name = text_of(said(fact, "name"))
    teller.step(fact, "closed", "Started" + (f": {name}" if name else ""))


def _run_finished(teller: _Teller, fact: RunFact) -> None:
    is_good = teller.status in (RunStatus.SUCCEEDED, None)
    mark = "closed" if is_good else "half_open" if teller.status is RunStatus.DEGRADED else "open"
    teller.step(fact, mark, f"Finished: {teller.status.value if teller.status else 'no status reported'}")


def _failed(teller: _Teller, fact: RunFact) -> None:
    lasted_s = length_s_or_none(said(fact, "duration_s")) or 0.0
    what = category_text(fact.category or Category.UNKNOWN)
    attempt = whole_or_none(said(fact, "attempt"))
    title = f"attempt {attempt} failed: {what}" if attempt else f"failed: {what}"
    asked_s = length_s_or_none(said(fact, "retry_after_s"))
    detail = [lasted_text(lasted_s) if lasted_s else "", f"Retry-After {span_text(asked_s)}" if asked_s else ""]
    label = text_of(said(fact, "credential"))
    detail += [f"key {label}" if label else "", text_of(said(fact, "message"))]
    teller.add(fact, Rung.RETRY, Kind.FAILED, f"{fact.operation} {title}", lasted_s=lasted_s)
    teller.step(fact, "open", title, "; ".join(filter(None, detail)), text_of(said(fact, "fingerprint")))


_SAID_BY = {
    DelaySource.RETRY_AFTER.value: " (Retry-After)",
    DelaySource.GATE.value: " (Retry-After of another call)",
    DelaySource.BACKOFF.value: " (backoff)",
}


_ADJUSTED = {
    Adjustment.MAX_TOKENS.value: "with lower max_tokens",
    Adjustment.REFRESH_CREDENTIALS.value: "with fresh credentials",
    Adjustment.DISABLE_KEEPALIVE.value: "on a new connection",
    Adjustment.REFRESH_EVIDENCE.value: "with fresh evidence",
}


def _retry(teller: _Teller, fact: RunFact) -> None:
    delay_s = length_s_or_none(said(fact, "delay_s")) or 0.0
    if delay_s:
        words = f"{fact.operation} waits {lasted_text(delay_s)}"
        end = fact.at + timedelta(seconds=delay_s)
        teller.pieces.append(
            Piece(
                rung=Rung.RETRY,
                kind=Kind.WAITING,
                operation=fact.operation,
                start=fact.at,
                end=end,
                words=words,
                category=fact.category,
            )
        )
    wait = (
        f"after {lasted_text(delay_s)}{_SAID_BY.get(text_of(said(fact, 'delay_source')), '')}"
        if delay_s
        else "immediately"
    )
    adjusted = text_of(said(fact, "adjustment"))
    how = _ADJUSTED.get(adjusted, adjusted.replace("_", " "))
    label = text_of(said(fact, "credential"))
    with_key = f", with key {label}" if label else ""
    _amend(teller, fact, f"retry {wait}" + (f", {how}" if how else "") + with_key)


def _amend(teller: _Teller, fact: RunFact, words: str) -> None:
    """Put what follows a failure into its line; into one of its own where there is none."""
    for place in range(len(teller.steps) - 1, max(-1, len(teller.steps) - 4), -1):
        step = teller.steps[place]
        if step.operation == fact.operation and step.mark == "open":
            teller.steps[place] = replace(step, detail="; ".join(filter(None, (step.detail, words))))
            return
    teller.step(fact, "half_open", words)


def _succeeded(teller: _Teller, fact: RunFact) -> None:
    attempt = whole_or_none(said(fact, "attempt"))
    lasted_s = length_s_or_none(said(fact, "duration_s")) or 0.0
    title = f"attempt {attempt} succeeded" if attempt else "succeeded"
    teller.add(fact, Rung.RETRY, Kind.SUCCEEDED, f"{fact.operation} {title}", lasted_s=lasted_s)
    teller.step(fact, "closed", title, lasted_text(lasted_s) if lasted_s else "")


def _fell_back(teller: _Teller, fact: RunFact) -> None:
    stand_in = text_of(said(fact, "fallback"))
    teller.add(fact, Rung.FALLBACK, Kind.SECOND_BEST, f"fallback {stand_in} for {fact.operation}")
    why = text_of(said(fact, "reason")).replace("_", " ")
    detail = "; ".join(filter(None, (f"reason: {why}" if why else "", text_of(said(fact, "warning")))))
    teller.step(fact, "half_open", f"step 2, fallback: {stand_in}", detail)


def _model_fell_back(teller: _Teller, fact: RunFact) -> None:
    old, new = text_of(said(fact, "from_model")), text_of(said(fact, "to_model")) or fact.model
    teller.add(fact, Rung.FALLBACK, Kind.SECOND_BEST, f"fallback {new} for {old}")
    count = whole_or_none(said(fact, "consecutive"))
    why = category_text(fact.category or Category.OVERLOADED)
    detail = f"after {count_text(count, 'consecutive failure')}: {why}" if count else f"{old} not called: {why}"
    teller.step(fact, "half_open", f"step 2, model fallback: {new} instead of {old}", detail)


def _reduced(teller: _Teller, fact: RunFact) -> None:
    if text_of(said(fact, "kind")) != "withdrawn":
        return  # the fallback itself has been told
    teller.add(fact, Rung.DEGRADE, Kind.SECOND_BEST, f"{fact.operation} withdrawn", lasted_s=None)
    why = text_of(said(fact, "reason")).replace("_", " ")
    teller.step(fact, "half_open", "step 3, degrade: operation withdrawn, run continues", why)


def _asked(teller: _Teller, fact: RunFact) -> None:
    queue = text_of(said(fact, "queue")) or "no queue"
    teller.add(fact, Rung.ASK, Kind.ASKED, f"escalation to {queue}", lasted_s=None)
    deadline_s = length_s_or_none(said(fact, "deadline_s"))
    detail = [text_of(said(fact, "reason")).replace("_", " "), text_of(said(fact, "message"))]
    detail.append(f"deadline {span_text(deadline_s)}" if deadline_s else "")
    teller.step(fact, "unknown", f"step 4, human input: {queue}", "; ".join(filter(None, detail)))


def _gave_up(teller: _Teller, fact: RunFact) -> None:
    why = text_of(said(fact, "reason")).replace("_", " ")
    teller.add(fact, Rung.FAIL, Kind.GAVE_UP, f"{fact.operation} failed: {why}")
    climbed = said(fact, "rungs")
    rungs = ", ".join(str(one) for one in climbed) if isinstance(climbed, list | tuple) else ""
    detail = [f"steps: {rungs.replace('_', ' ')}" if rungs else "", text_of(said(fact, "message"))]
    teller.step(fact, "open", f"step 5, fail: {why}", "; ".join(filter(None, detail)))


def _stopped(teller: _Teller, fact: RunFact) -> None:
    why = text_of(said(fact, "reason")).replace("_", " ")
    teller.add(fact, Rung.FAIL, Kind.GAVE_UP, f"run stopped: {why}")
    teller.step(fact, "open", f"run stopped by code: {why}", text_of(said(fact, "message")))


_AT_CAP = {PARK: "run parked", ASK: "a person is asked"}


def _cap_reached(teller: _Teller, fact: RunFact) -> None:
    spent, limit = (number_or_none(said(fact, name)) or 0.0 for name in ("spent", "limit"))
    action, model = text_of(said(fact, "action")), text_of(said(fact, "to_model")) or fact.model
    follows = f"{model} instead" if action == CHEAPER_MODEL else _AT_CAP.get(action, action)
    if action == CHEAPER_MODEL:
        teller.add(fact, Rung.FALLBACK, Kind.SECOND_BEST, f"fallback {model}: spend cap")
    title = f"spend cap reached: {spend_text(spent, limit, text_of(said(fact, 'measure')))}"
    teller.step(fact, "half_open", title, f"{text_of(said(fact, 'account'))}; {follows}")


def _moved(teller: _Teller, fact: RunFact) -> None:
    words = f"{fact.breaker} {fact.state}"
    teller.moves.append((fact.at, words))
    trigger = text_of(said(fact, "trigger")).replace("_", " ")
    teller.step(
        fact,
        fact.state or "unknown",
        f"breaker {(fact.state or '').replace('half_open', 'half-open').replace('_', ' ')}",
        trigger,
    )


def _other(title: Callable[[RunFact], str], mark: str) -> Callable[[_Teller, RunFact], None]:
    def handler(teller: _Teller, fact: RunFact) -> None:
        message = text_of(said(fact, "message")) if "message" in _fields(fact) else ""
        teller.step(fact, mark, title(fact), message)

    return handler


def _fields(fact: RunFact) -> frozenset[str]:
    return frozenset(names.KIND_OF[fact.event].__dataclass_fields__)


def _word(fact: RunFact, name: str) -> str:
    value = said(fact, name)
    return "" if value is None else str(value).replace("_", " ")


def _limit_reached(fact: RunFact) -> str:
    count, limit = (whole_or_none(said(fact, name)) for name in ("count", "limit"))
    counts = f" ({count} of {limit})" if count is not None and limit is not None else ""
    return f"run limit reached: {_word(fact, 'guard')}{counts}"


def _warned(fact: RunFact) -> str:
    budget = _word(fact, "budget")
    if said(fact, "budget") != REPEATED_CALLS:
        return f"budget {budget} nearly exhausted"
    count = whole_or_none(said(fact, "spent"))
    return f"model warned: {count} {budget}" if count is not None else f"model warned: {budget}"


_BY_KIND: dict[type[facts.Event], Callable[[_Teller, RunFact], None]] = {
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
    facts.SpendCapReached: _cap_reached,
    facts.BreakerStateChanged: _moved,
    facts.GuardTripped: _other(_limit_reached, "half_open"),
    facts.PermissionDenied: _other(lambda fact: f"permission denied: {_word(fact, 'reason')}", "half_open"),
    facts.HookFailed: _other(lambda fact: f"hook {_word(fact, 'hook')} failed", "half_open"),
    facts.BudgetWarned: _other(_warned, "half_open"),
    facts.BudgetExhausted: _other(lambda fact: f"budget {_word(fact, 'budget')} exhausted", "open"),
    facts.CompensationFinished: _other(
        lambda fact: f"{_word(fact, 'compensation')}: {_word(fact, 'outcome')}", "half_open"
    ),
    facts.ReversalRefused: _other(lambda fact: f"reversal rejected: {_word(fact, 'reason')}", "open"),
    facts.CheckpointSaved: _other(lambda fact: f"workflow step {_word(fact, 'step')} saved", "closed"),
    facts.CheckpointRestored: _other(lambda fact: f"workflow step {_word(fact, 'step')} restored", "closed"),
    facts.ToolErrorReturned: _other(lambda fact: "error returned to the model", "half_open"),
}
_HANDLERS = {names.EVENTS[kind].name: handler for kind, handler in _BY_KIND.items()}


def category_counts(failures: Mapping[Category, int]) -> str:
    """`4 × rate limited (429), 1 × timeout`: the two most frequent, and how many others."""
    ordered = sorted(failures.items(), key=lambda item: -item[1])
    kinds = [f"{count:,} × {category_text(category)}" for category, count in ordered[:2]]
    others = sum(count for _, count in ordered[2:])
    return ", ".join([*kinds, *([count_text(others, "other")] if others else [])])
