"""Runs that people want begun again: asked for by whoever may, told to one instance, and shown as they are seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from events.runs.selectors import run_of
from recovery_ops.control.runs.retry_status import RetryTold, retry_told
from recovery_ops.control.runs.services.retries import retry_run
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import RunFinished, RunStarted
from tests.support.actions import asked
from tests.support.stories import NOW, Story, failed, heartbeat

WHY = "the bank answers again"


def ended(*runs: str, status: RunStatus | None = RunStatus.FAILED, instance: str = "r-0") -> None:
    """Runs of an instance that met a failure, and ended so; None: they go on."""
    story = Story()
    for run in runs:
        story.tell(RunStarted(name="due diligence"), at=60, run=run, instance=instance)
        story.tell(failed(Category.OVERLOADED), at=50, run=run, instance=instance)
        if status is not None:
            story.tell(RunFinished(status=status, duration_s=40.0), at=20, run=run, instance=instance)
    story.store()


def there(*instances: str, takes: bool | None = True, at: float = 5, service: str = "research", **more: Any) -> None:
    """Instances that report, and say whether they begin runs again."""
    for name in instances:
        Story().tell(heartbeat(takes_retries=takes, **more), at=at, service=service, instance=name).store()


def begun(run: str = "run-7", at: float = -3, instance: str = "r-0") -> None:
    Story().tell(RunStarted(name="due diligence"), at=at, run=run, instance=instance).store()


def retried(run: str = "run-7", **more: Any) -> Any:
    return retry_run(**asked(run=run, reason=WHY) | more)


def told(run: str = "run-7", **later: float) -> RetryTold:
    """What is observed of the wish."""
    story = run_of("dev", run)
    assert story is not None
    found = retry_told("dev", story, NOW + timedelta(**later))
    assert found is not None
    return found
