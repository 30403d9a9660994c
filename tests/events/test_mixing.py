"""What became of the runs that met a cause."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.failures import mixing
from events.failures.asking import read_failures
from events.failures.mixing import Ending, Mix, ending_of, mixes
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import DegradationStarted, Escalated, Event, FallbackActivated, RunFinished
from tests.support.stories import NOW, Story, failed

START = NOW - timedelta(hours=1)

stored = pytest.mark.django_db


@pytest.mark.parametrize(
    ("status", "has_asked", "has_second_best", "ending"),
    [
        ("succeeded", False, False, Ending.ALONE),
        ("succeeded", False, True, Ending.SECOND_BEST),
        ("degraded", False, True, Ending.SECOND_BEST),
        ("degraded", False, False, Ending.ALONE),
        ("succeeded", True, False, Ending.HELPED),
        ("succeeded", True, True, Ending.HELPED),
        ("failed", True, True, Ending.LOST),
        ("stopped", False, False, Ending.LOST),
        ("cancelled", True, True, None),
        ("", False, True, None),
    ],
)
def test_an_ending_is_the_last_word_and_what_it_took(
    status: str, has_asked: bool, has_second_best: bool, ending: Ending | None
) -> None:
    assert ending_of(status, has_asked=has_asked, has_second_best=has_second_best) is ending


def ran(
    story: Story, run: str, *facts: Event, status: RunStatus | None, fingerprint: str = "f00d", at: float = 90
) -> None:
    told = failed(Category.OVERLOADED, "crm", fingerprint=fingerprint)
    for fact in (told, *facts, *([RunFinished(status=status, duration_s=1.0)] if status else [])):
        at -= 1
        story.tell(fact, at=at, run=run, instance="r-0")


def became(*causes: str) -> dict[str, Mix]:
    sample = read_failures("dev", start=START, end=NOW)
    return dict(mixes("dev", sample, causes or ["f00d"], start=START, end=NOW))


def stand_in(operation: str) -> FallbackActivated:
    return FallbackActivated(operation=operation, fallback="cache", level=1)


@stored
def test_runs_are_told_apart_by_how_they_recovered() -> None:
    story = Story()
    less = DegradationStarted(operation="crm", kind="fallback", reason="open", to_name="cache")
    ask = Escalated(operation="crm", queue="editors", reason="policy_denied")
    ran(story, "alone", status=RunStatus.SUCCEEDED)
    ran(story, "replaced", stand_in("crm"), status=RunStatus.SUCCEEDED)
    ran(story, "elsewhere", stand_in("search_web"), status=RunStatus.SUCCEEDED)
    ran(story, "less", less, status=RunStatus.DEGRADED)
    ran(story, "asked", ask, status=RunStatus.SUCCEEDED)
    ran(story, "lost", less, status=RunStatus.FAILED)
    ran(story, "goes on", status=None)
    ran(story, "another", status=RunStatus.FAILED, fingerprint="beef")
    story.store()
    assert became("f00d", "moon") == {"f00d": Mix(alone=2, second_best=2, helped=1, lost=1), "moon": Mix()}


@stored
def test_the_last_end_counts_and_failures_without_a_run_have_none() -> None:
    story = Story()
    ran(story, "again", status=RunStatus.FAILED)
    ran(story, "again", status=RunStatus.SUCCEEDED, at=50)
    ran(story, "", status=None)
    story.store()
    assert became() == {"f00d": Mix(alone=1)}


@stored
def test_the_newest_runs_are_looked_at_with_two_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixing, "RUNS_EACH", 3)
    story = Story()
    for number in range(6):
        ran(
            story, f"run-{number}", status=RunStatus.FAILED if number < 3 else RunStatus.SUCCEEDED, at=200 - 20 * number
        )
    story.store()
    sample = read_failures("dev", start=START, end=NOW)
    with CaptureQueriesContext(connection) as queries:
        assert mixes("dev", sample, ["f00d"], start=START, end=NOW) == {"f00d": Mix(alone=3)}
    assert len(queries) <= 2
