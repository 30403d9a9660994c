"""Tells a run: which rungs it climbed, why, and how it ended. Pure: stored facts in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from events.queries.readings import length_s_or_none, text_of, whole_or_none
from events.rows import Derivation
from events.runs.counting import Counted, models_of, said
from events.runs.rows import Backend, Kind, Piece, RunFact, RunStory, Step
from events.wording import category_text, count_text, lasted_text, span_text
from recovery_ops.rules import facts
from recovery_ops.rules.words import Adjustment, Category, DelaySource, Rung, RunStatus
from recovery_ops.wire import names

_SHORTEST = timedelta(milliseconds=1)


def tell(run: str, told: Sequence[RunFact], *, is_cut: bool = False) -> RunStory:
    """The story of a run out of its facts in order; there is at least one."""
    counted, teller = Counted(), _Teller()
    for fact in told:
        counted.count(fact)
    teller.ended, teller.status = counted.ended, counted.status
    for fact in told:
        handler = _HANDLERS.get(fact.event)
        if handler is not None:
            handler(teller, fact)
    first = told[0]
    named = next((fact for fact in told if fact.source), first)
    return counted.story(
        run,
        first.at,
        service=first.service,
        instance=first.instance,
        version=first.version,
        source=named.source,
        is_foreground=named.is_foreground,
        policy=text_of(first.said.get(names.POLICY_VERSION)),
        pieces=tuple(teller.finished(told[-1].at)),
        steps=tuple(teller.steps),
        moves=tuple(teller.moves),
        models=models_of({(one.provider, one.model): 0 for one in told}),
        backends=_backends_of(told),
        is_cut=is_cut,
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
    teller.step(fact, mark, f"Finished: {teller.status.value if teller.status else 'it did not say how'}")


def _failed(teller: _Teller, fact: RunFact) -> None:
    lasted_s = length_s_or_none(said(fact, "duration_s")) or 0.0
    what = category_text(fact.category or Category.UNKNOWN)
    attempt = whole_or_none(said(fact, "attempt"))
    title = f"attempt {attempt} failed: {what}" if attempt else f"failed: {what}"
    asked_s = length_s_or_none(said(fact, "retry_after_s"))
    detail = [lasted_text(lasted_s) if lasted_s else "", f"Retry-After {span_text(asked_s)}" if asked_s else ""]
    detail.append(text_of(said(fact, "message")))
    teller.add(fact, Rung.RETRY, Kind.FAILED, f"{fact.operation} {title}", lasted_s=lasted_s)
    teller.step(fact, "open", title, "; ".join(filter(None, detail)), text_of(said(fact, "fingerprint")))


_SAID_BY = {
    DelaySource.RETRY_AFTER.value: ", as the server asked",
    DelaySource.GATE.value: ", until the gate opens",
    DelaySource.BACKOFF.value: " by backoff",
}


_ADJUSTED = {
    Adjustment.MAX_TOKENS.value: "with fewer tokens to answer in",
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
        f"waits {lasted_text(delay_s)}{_SAID_BY.get(text_of(said(fact, 'delay_source')), '')}" if delay_s else "at once"
    )
    adjusted = text_of(said(fact, "adjustment"))
    how = _ADJUSTED.get(adjusted, adjusted.replace("_", " "))
    _amend(teller, fact, f"tries again, {wait}" + (f", {how}" if how else ""))


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
    teller.add(fact, Rung.FALLBACK, Kind.SECOND_BEST, f"{stand_in} answers for {fact.operation}")
    why = text_of(said(fact, "reason")).replace("_", " ")
    detail = "; ".join(filter(None, (f"because of: {why}" if why else "", text_of(said(fact, "warning")))))
    teller.step(fact, "half_open", f"rung 2, fallback: {stand_in} answers", detail)


def _model_fell_back(teller: _Teller, fact: RunFact) -> None:
    old, new = text_of(said(fact, "from_model")), text_of(said(fact, "to_model")) or fact.model
    teller.add(fact, Rung.FALLBACK, Kind.SECOND_BEST, f"{new} answers instead of {old}")
    count = whole_or_none(said(fact, "consecutive"))
    detail = f"after {count_text(count, 'overload')} in a row" if count else ""
    teller.step(fact, "half_open", f"rung 2, another model: {new} instead of {old}", detail)


def _reduced(teller: _Teller, fact: RunFact) -> None:
    if text_of(said(fact, "kind")) != "withdrawn":
        return  # the fallback itself has been told
    teller.add(fact, Rung.DEGRADE, Kind.SECOND_BEST, f"{fact.operation} is withdrawn", lasted_s=None)
    why = text_of(said(fact, "reason")).replace("_", " ")
    teller.step(fact, "half_open", "rung 3, degrade: withdrawn, the run goes on without it", why)


def _asked(teller: _Teller, fact: RunFact) -> None:
    queue = text_of(said(fact, "queue")) or "a person"
    teller.add(fact, Rung.ASK, Kind.ASKED, f"asks {queue}", lasted_s=None)
    deadline_s = length_s_or_none(said(fact, "deadline_s"))
    detail = [text_of(said(fact, "reason")).replace("_", " "), text_of(said(fact, "message"))]
    detail.append(f"answer within {span_text(deadline_s)}" if deadline_s else "")
    teller.step(fact, "unknown", f"rung 4, asked a person: {queue}", "; ".join(filter(None, detail)))


def _gave_up(teller: _Teller, fact: RunFact) -> None:
    why = text_of(said(fact, "reason")).replace("_", " ")
    teller.add(fact, Rung.FAIL, Kind.GAVE_UP, f"{fact.operation} gives up: {why}")
    climbed = said(fact, "rungs")
    rungs = ", ".join(str(one) for one in climbed) if isinstance(climbed, list | tuple) else ""
    detail = [f"climbed {rungs.replace('_', ' ')}" if rungs else "", text_of(said(fact, "message"))]
    teller.step(fact, "open", f"rung 5, fail: gives up, {why}", "; ".join(filter(None, detail)))


def _stopped(teller: _Teller, fact: RunFact) -> None:
    why = text_of(said(fact, "reason")).replace("_", " ")
    teller.add(fact, Rung.FAIL, Kind.GAVE_UP, f"the run was stopped: {why}")
    teller.step(fact, "open", f"the run was stopped in code: {why}", text_of(said(fact, "message")))


def _moved(teller: _Teller, fact: RunFact) -> None:
    words = f"{fact.breaker} {fact.state}"
    teller.moves.append((fact.at, words))
    trigger = text_of(said(fact, "trigger")).replace("_", " ")
    teller.step(fact, fact.state or "unknown", f"the breaker is {fact.state} from here on", trigger)


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


_BY_KIND: dict[type[facts.Fact], Callable[[_Teller, RunFact], None]] = {
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
    facts.BreakerStateChanged: _moved,
    facts.GuardTripped: _other(lambda fact: f"guard {_word(fact, 'guard')} fired", "half_open"),
    facts.PermissionDenied: _other(lambda fact: f"our own check said no: {_word(fact, 'reason')}", "half_open"),
    facts.HookFailed: _other(lambda fact: f"hook {_word(fact, 'hook')} failed", "half_open"),
    facts.BudgetWarned: _other(lambda fact: f"budget {_word(fact, 'budget')} is nearly spent", "half_open"),
    facts.BudgetExhausted: _other(lambda fact: f"budget {_word(fact, 'budget')} is spent", "open"),
    facts.CompensationFinished: _other(
        lambda fact: f"{_word(fact, 'compensation')}: {_word(fact, 'outcome')}", "half_open"
    ),
    facts.ReversalRefused: _other(lambda fact: f"nothing was undone: {_word(fact, 'reason')}", "open"),
    facts.CheckpointSaved: _other(lambda fact: f"step {_word(fact, 'step')} is saved", "closed"),
    facts.CheckpointRestored: _other(lambda fact: f"step {_word(fact, 'step')} was done already", "closed"),
    facts.ToolErrorReturned: _other(lambda fact: "the model was told of the error", "half_open"),
}
_HANDLERS = {names.EVENTS[kind].name: handler for kind, handler in _BY_KIND.items()}
TOLD: tuple[str, ...] = tuple(_HANDLERS)
"""The events that a story is made of."""


def category_counts(failures: Mapping[Category, int]) -> str:
    """`4 × rate limited (429), 1 × timeout`: the two most frequent, and how many others."""
    ordered = sorted(failures.items(), key=lambda item: -item[1])
    kinds = [f"{count:,} × {category_text(category)}" for category, count in ordered[:2]]
    others = sum(count for _, count in ordered[2:])
    return ", ".join([*kinds, *([count_text(others, "other")] if others else [])])
