"""A run is told from its facts: which rungs it climbed, why, how it ended; and runs are found without reading all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from events.runs.rows import RunStory
from events.runs.selectors import Place, RunFilters, RunList, RunPage, Show, run_of
from recovery_ops.rules.enums import Category, DelaySource, RunStatus, State, StopReason
from recovery_ops.rules.events import (
    AttemptSucceeded,
    BudgetWarned,
    DegradationStarted,
    Escalated,
    Event,
    Exhausted,
    FallbackActivated,
    RetryScheduled,
    RunFinished,
    RunStarted,
)
from tests.support.stories import NOW, Story, failed, moved

SEARCH = "search_web"


def retry(attempt: int, delay_s: float) -> RetryScheduled:
    return RetryScheduled(
        operation=SEARCH,
        attempt=attempt,
        delay_s=delay_s,
        delay_source=DelaySource.RETRY_AFTER,
        category=Category.OVERLOADED,
        max_retries=3,
    )


def ended(status: RunStatus, duration_s: float = 30.0) -> RunFinished:
    return RunFinished(status=status, duration_s=duration_s, name="due diligence", turns=4, cost_usd=0.41)


CLIMB: list[tuple[float, Event]] = [
    (60, RunStarted(name="due diligence")),
    (59, failed(attempt=1, status_code=529, duration_s=0.5, message="helios says 529", retry_after_s=3.0)),
    (59, retry(2, 3.0)),
    (55, failed(attempt=2, status_code=529, duration_s=0.5)),
    (55, moved(State.OPEN)),
    (54.9, FallbackActivated(operation=SEARCH, fallback="search_cache", level=1, reason="overloaded")),
    (54, failed(Category.TIMEOUT, "fetch_prices")),
    (53, DegradationStarted(operation="fetch_prices", kind="withdrawn", reason="timeout")),
    (52, failed(Category.TIMEOUT, "send_mail", attempt=1, duration_s=2.0)),
    (51.5, AttemptSucceeded(operation="send_mail", attempt=2, duration_s=0.4)),
    (50, BudgetWarned(budget="failures of one tool", spent=3, limit=4)),
    (45, Escalated(operation="publish", queue="editors", reason="policy_denied", deadline_s=600)),
    (40, Exhausted(operation="publish", reason=StopReason.NOT_RETRYABLE, attempts=1, rungs=("retry", "fail"))),
    (30, ended(RunStatus.DEGRADED)),
]


def tell_run(run: str = "run-1", told: list[tuple[float, Event]] = CLIMB, *, later: float = 0.0) -> None:
    story = Story()
    for at, fact in told:
        story.tell(fact, at=at - later, run=run, source="main_agent", is_foreground=True)
    story.store()


def known(run: str = "run-1") -> RunStory:
    found = run_of("dev", run)
    assert found is not None
    return found


def listed(show: Show = Show.TROUBLED, **more: Any) -> RunList:
    """The runs of the last hour that filters leave."""
    start, end = more.pop("start", NOW - timedelta(hours=1)), more.pop("end", NOW)
    return RunList.of("dev", RunFilters(show=show, **more), start=start, end=end, now=NOW)


def page(show: Show = Show.TROUBLED, *, limit: int = 50, after: Place | None = None, **more: Any) -> RunPage:
    return listed(show, **more).page(after, limit)
