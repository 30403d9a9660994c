"""A run that repeats one call: played by the runtime, stored, shown on its page, put to people, replayed."""

from __future__ import annotations

import re

import pytest

from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.rules.events import RunFinished
from recovery_ops.rules.roles import Role
from recovery_ops.runtime import StopRun
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import live_limits, registry_of, scripted, use
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def looped(**limits: object) -> Lab:
    """A run whose model asks the same nine times; what it recorded is stored."""
    lab = Lab()
    live_limits(lab, **limits)
    registry = registry_of(lab, scripted(lab, "search_web", "found"))
    try:
        with lab.recovery.run("answer", source="main_agent"):
            registry.run_tools([use("search_web", str(number), query="breakers") for number in range(9)])
    except StopRun:
        pass
    story = Story()
    for place, event in enumerate(lab.events):
        story.tell(event, at=60 - place, run="run-loop", source="main_agent", is_foreground=True)
    story.store()
    return lab


def steps(run: str) -> list[str]:
    page = signed_in(Role.VIEWER).get(f"/runs/{run}").content.decode()
    found = re.findall(r'<li data-key="step-.*?</li>', page, flags=re.S)
    return [" ".join(re.sub(r"<[^>]+>", " ", one).split()) for one in found]


def test_run_page_shows_warning_limit_and_stop() -> None:
    looped()
    shown = "\n".join(steps("run-loop"))
    places = [shown.index(words) for words in ("3 repeated calls", "repeated calls (5 of 5)", "run stopped", "stopped")]
    assert places == sorted(places)


def test_stopped_run_asks_one_question_about_the_repeated_call() -> None:
    looped()
    assert open_escalations("dev", NOW) == 1
    question = Escalation.objects.get()
    assert (question.queue, question.reason, question.operation) == ("budgets", "repeated_calls", "search_web")
    page = signed_in(Role.RESPONDER).get(f"/escalations/{question.pk}").content.decode()
    assert "repeats the same call" in page


def test_question_of_a_waiting_run_has_a_ticket() -> None:
    """Nobody answers, so the run is stopped; it was asked once."""
    lab = looped(repeat_action="ask")
    assert lab.waits == [1800.0]
    open_escalations("dev", NOW)
    question = Escalation.objects.exclude(ticket="").get()
    assert (question.queue, question.reason) == ("budgets", "repeated_calls")


def test_finished_run_reports_its_largest_count() -> None:
    lab = looped(repeat_action="warn")
    [finished] = lab.events_of(RunFinished)
    assert finished.repeated_calls == 9
    assert "3 repeated calls" in "\n".join(steps("run-loop"))
