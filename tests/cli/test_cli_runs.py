"""Runs on the operator's command line, against a running console."""

from __future__ import annotations

import re

from django.utils import timezone

from recovery_ops import cli
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import RunFinished, RunStarted
from tests.support.command_line import Operator, operator
from tests.support.stories import NOW, Story, failed

__all__ = ["operator"]  # the fixture


def test_runs_are_listed_read_and_asked_about(operator: Operator) -> None:
    late = (NOW - timezone.now()).total_seconds()
    story = Story().tell(RunStarted(name="due diligence"), at=late + 60, run="run-7")
    story.tell(failed(Category.TIMEOUT, message="no answer"), at=late + 50, run="run-7")
    story.tell(RunFinished(status=RunStatus.FAILED, duration_s=40.0), at=late + 20, run="run-7").store()
    assert operator.run("runs", "list") == cli.DONE
    line = "run-7 (due diligence) failed on rung 1 of 5 after 1 x timeout; 40.0 s"
    assert operator.said == [line]
    assert operator.run("runs", "list", "--operation", "moon") == cli.DONE
    assert (len(operator.said), "run-7" in operator.said[0]) == (1, False)
    assert operator.run("runs", "show", "run-7") == cli.DONE
    assert operator.said[0] == line
    step = operator.said[2].partition("search_web: ")[2]
    assert re.search(r"\b1\b.*\btimeout\b.*\bno answer$", step)
    ask = ("runs", "ask", "run-7", "--queue", "editors", "--reason", "Was that the provider's fault?")
    assert operator.run(*ask, "--dry-run") == cli.DONE
    assert not Escalation.objects.exists()
    assert operator.run(*ask) == cli.DONE
    [first] = operator.said
    assert (first.split()[0], first.split()[-1]) == ("editors", str(Escalation.objects.get()))
    assert operator.run(*ask) == cli.DONE
    [again] = operator.said
    assert (again.split()[-1], again != first) == (str(Escalation.objects.get()), True)
    assert operator.run("runs", "show", "moon") == cli.REFUSED
