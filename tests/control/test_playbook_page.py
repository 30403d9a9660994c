"""The tab of the playbook: what answers each verdict, what was done lately, and the drawing that says the same."""

from __future__ import annotations

import re
from html import unescape

import pytest

from events.sankey import sankey
from recovery_ops.control.roles import Role
from recovery_ops.rules.facts import CompensationFinished
from recovery_ops.rules.words import Compensation, CompensationOutcome, Verdict
from tests.support.pages import signed_in, text_of
from tests.support.stories import Story, counted, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
RETRY, ASK = Compensation.RETRY_WITH_BACKOFF, Compensation.ESCALATE_TO_HUMAN
WELL, ASKED = CompensationOutcome.SUCCEEDED_AFTER_COMPENSATION, CompensationOutcome.ESCALATED


def done(verdict: Verdict | None, compensation: Compensation, outcome: CompensationOutcome) -> CompensationFinished:
    return CompensationFinished(verdict=verdict, compensation=compensation, outcome=outcome)


def test_the_playbook_says_what_answers_each_verdict_and_what_came_of_it() -> None:
    story = Story().tell(heartbeat(), counted(40), at=300)
    story.tell(*[done(Verdict.TRANSIENT_TIMEOUT, RETRY, WELL)] * 3, done(None, ASK, ASKED), at=60)
    story.tell(done(Verdict.TRANSIENT_TIMEOUT, RETRY, CompensationOutcome.EXHAUSTED), at=50).store()
    page = signed_in(Role.VIEWER).get("/policies?tab=playbook&range=15m")
    said = text_of(page)
    assert "5 failures answered; most often transient timeout with retry with backoff (4)." in said
    assert "3 succeeded, 1 exhausted" in said
    assert "after 200 ms, 600 ms and 1.8 s" in said
    rows = re.findall(r'data-key="verdict-([^"]+)"', page.content.decode())
    assert rows == [*(one.value.replace("_", " ") for one in Verdict), "not proven"]
    [told] = re.findall(r'class="sankey"[^>]*aria-label="([^"]+)"', page.content.decode())
    assert unescape(told) == (
        "From left to right: transient timeout to retry with backoff 4, not proven to escalate to human 1"
    )


def test_what_another_playbook_did_is_marked() -> None:
    Story().tell(heartbeat(), done(Verdict.TRANSIENT_TIMEOUT, ASK, ASKED), at=60).store()
    said = text_of(signed_in().get("/policies?tab=playbook&range=15m"))
    assert "the playbook in force answers otherwise" in said
    assert "retry with backoff after 200 ms, 600 ms and 1.8 s in this range: 1 × escalate to human" in said


def test_nothing_done_says_which_kind_of_nothing_it_is() -> None:
    assert 'data-why="never set up"' in signed_in().get("/policies?tab=playbook").content.decode()
    Story().tell(heartbeat(), counted(40), at=3000).tell(heartbeat(), counted(40), at=1).store()
    assert 'data-why="all good"' in signed_in().get("/policies?tab=playbook&range=15m").content.decode()


def test_ribbons_are_as_thick_as_what_they_stand_for_and_changes_are_darker() -> None:
    drawn = sankey([("failed", "failed", 60), ("failed", "answered", 40)], marks_changes=True)
    ways = re.findall(r'class="(flow[^"]*)" d="M0 ([\d.]+) C50 .*? L100 .*? 0 ([\d.]+) Z"', drawn)
    thick = {name: float(end) - float(begin) for name, begin, end in ways}
    assert thick["flow"] / thick["flow moved"] == pytest.approx(1.5, rel=0.01)
    assert "<b>" not in sankey([("<b>", "x", 1)])
