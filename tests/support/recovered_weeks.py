"""A week of recovered calls."""

from __future__ import annotations

from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import Escalated, RunFinished
from recovery_ops.rules.events import Event as Told
from tests.support.stories import Story, failed

DAY_S = 86_400.0


def ended(status: RunStatus, took_s: float = 60.0, cost_usd: float | None = None) -> RunFinished:
    return RunFinished(status=status, duration_s=took_s, cost_usd=cost_usd)


def lived(story: Story, run: str, *facts: Told, at: float = 600.0) -> Story:
    """A run that met this."""
    return story.tell(*facts, at=at, run=run)


def week(story: Story | None = None, *, at: float = 600.0) -> Story:
    """One run of every kind ends at this moment."""
    story = story if story is not None else Story()
    asked = Escalated(operation="publish", queue="editors", reason="policy_denied")
    lived(story, "plain", ended(RunStatus.SUCCEEDED), at=at)
    lived(story, "alone", failed(), failed(), ended(RunStatus.SUCCEEDED, 120.0, 0.25), at=at)
    lived(story, "less", failed(Category.TIMEOUT, "crm.update"), ended(RunStatus.DEGRADED, 30.0), at=at)
    lived(story, "helped", failed(), asked, ended(RunStatus.SUCCEEDED, 300.0, 1.0), at=at)
    lived(story, "lost", failed(), failed(Category.TIMEOUT), ended(RunStatus.FAILED, 90.0, 0.5), at=at)
    lived(story, "stopped", ended(RunStatus.STOPPED, 10.0), at=at)
    lived(story, "cancelled", failed(), ended(RunStatus.CANCELLED, 10.0), at=at)
    return story
