"""What becomes of what an outage reached: which runs wait, what those that ended said they used, which breakers closed.

Asked again and again while it goes on, for an hour after it, and for as long as one of them waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from events.capacity.bounds import bounds_of
from events.capacity.models import CapacityEvent
from events.capacity.moves import moves_of, opened_in
from events.capacity.reach import FOLLOWED_S, failures_of
from events.moments import US_PER_S, to_us
from events.queries.readings import Attributes, length_s_or_none, number_or_none
from events.runs.rows import RunFact
from events.runs.stored import facts_of
from recovery_ops.rules.events import Escalated, RetryScheduled, RunFinished
from recovery_ops.wire import names

RUNS_MOST = 200
"""So many runs of one outage are asked, the newest: the price of following it does not grow with what it reached."""
FAILURES_READ = 2_000
"""The newest failures that name them."""
EVERY_S = 10
GRACE_S = 30.0
"""The attempt after a wait says nothing while it lasts: so long a run still waits that has waited long enough."""
_TOKENS_MOST = 2**63 - 1
"""The most that the column holds."""
_AT_ONCE = 100
"""SQLite puts at most 500 parts into one statement."""

_RETRY, _ASKED = names.EVENTS[RetryScheduled].name, names.EVENTS[Escalated].name
_FINISHED = names.EVENTS[RunFinished].name
_DELAY = Attributes(RetryScheduled, "delay_s")
_QUESTION = Attributes(Escalated, "deadline_s", "escalation_id")
_USED = Attributes(RunFinished, "input_tokens", "output_tokens", "cost_usd")


def follow_runs(environment: str, now: datetime) -> int:
    """Ask the runs of the events that are followed; return of how many. A query, and at most seven and a write each."""
    now_us = to_us(now)
    due: QuerySet[CapacityEvent] = CapacityEvent.objects.filter(
        environment=environment,
        merged_into=None,
        follow_until_us__gte=now_us,
        followed_us__lte=now_us - EVERY_S * US_PER_S,
    )
    if not due:
        return 0
    count, bounds = 0, bounds_of(environment)
    for event in due:
        followed = _followed(event, now_us, within_s=bounds.within_s)
        count += CapacityEvent.objects.filter(pk=event.pk).update(followed_us=now_us, **followed)
    return count


def _followed(event: CapacityEvent, now_us: int, *, within_s: float) -> dict[str, Any]:
    runs, breakers = _newest_of(event)
    # The last failure opens the breaker behind it: what the reader of its reach could not see yet is seen here.
    opened = opened_in(event, {*breakers, *event.breakers}, within_s=within_s)
    waits: list[int] = []
    tokens: list[float] = []
    costs: list[float] = []
    for words in _newest_words(event.environment, runs):
        until_us = _waits_until(words[-1], event.operations)
        if until_us > now_us:
            waits.append(until_us)
        ended = next((word for word in reversed(words) if word.event == _FINISHED), None)
        used = _USED.of(ended.said if ended else {})
        spoken = [number_or_none(used[name]) for name in ("input_tokens", "output_tokens")]
        if any(one is not None for one in spoken):
            tokens.append(sum(one or 0.0 for one in spoken))
        if (cost := number_or_none(used["cost_usd"])) is not None:
            costs.append(cost)
    return {
        "waits": sorted(waits),
        "tokens": min(_TOKENS_MOST, int(sum(tokens))),
        "tokens_runs": len(tokens),
        "cost_usd": sum(costs),
        "cost_runs": len(costs),
        "breakers": event.breakers | opened,
        "moves": moves_of(event, event.breakers | opened, followed_s=FOLLOWED_S),
        "follow_until_us": max([event.last_us + FOLLOWED_S * US_PER_S, *waits]),
    }


def _newest_of(event: CapacityEvent) -> tuple[list[str], set[str]]:
    """The runs of its newest failures, the newest first, and their breakers."""
    rows = list(failures_of(event).order_by("-at_us").values_list("run", "breaker")[:FAILURES_READ])
    runs = [run for run in dict.fromkeys(run for run, _ in rows) if run][:RUNS_MOST]
    return runs, {breaker for _, breaker in rows} - {""}


def _newest_words(environment: str, runs: Sequence[str]) -> Iterator[list[RunFact]]:
    """The last two words of each run, in order: the end of a run may be followed by a breaker that moves late."""
    for start in range(0, len(runs), _AT_ONCE):
        by_run: dict[str, list[RunFact]] = {}
        for run, fact in facts_of(environment, runs[start : start + _AT_ONCE], first=0, newest=2):
            by_run.setdefault(run, []).append(fact)
        yield from by_run.values()


def _waits_until(word: RunFact, operations: Collection[str]) -> int:
    """Until when a run waits that said this last, for an operation that failed in the outage; 0 where it does not."""
    if word.operation not in operations:
        return 0
    if word.event == _RETRY:
        wait_s = length_s_or_none(_DELAY.of(word.said)["delay_s"])
    elif word.event == _ASKED:
        said = _QUESTION.of(word.said)
        # Without a ticket nobody waits for the answer: the run goes on, or has failed.
        wait_s = length_s_or_none(said["deadline_s"]) if said["escalation_id"] else None
    else:
        wait_s = None
    return 0 if wait_s is None else to_us(word.at) + int((wait_s + GRACE_S) * US_PER_S)
