"""The tab of the playbook: what answers each verdict, what was done lately, and the drawing that says the same."""

from __future__ import annotations

import re
from html import unescape

import pytest

from events.charts.sankey import sankey
from events.pages.empties import Why
from recovery_ops.rules.enums import Compensation, CompensationOutcome, Verdict
from recovery_ops.rules.events import CompensationFinished
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.stories import Story, counted, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
RETRY, ASK = Compensation.RETRY_WITH_BACKOFF, Compensation.ESCALATE_TO_HUMAN
WELL, ASKED = CompensationOutcome.SUCCEEDED_AFTER_COMPENSATION, CompensationOutcome.ESCALATED


def words(name: str) -> str:
    """A verdict or a compensation as a page writes it."""
    return name.replace("_", " ")


TIMEOUT = words(Verdict.TRANSIENT_TIMEOUT)


def done(verdict: Verdict | None, compensation: Compensation, outcome: CompensationOutcome) -> CompensationFinished:
    return CompensationFinished(verdict=verdict, compensation=compensation, outcome=outcome)


def test_the_playbook_says_what_answers_each_verdict_and_what_came_of_it() -> None:
    story = Story().tell(heartbeat(), counted(40), at=300)
    story.tell(*[done(Verdict.TRANSIENT_TIMEOUT, RETRY, WELL)] * 3, done(None, ASK, ASKED), at=60)
    story.tell(done(Verdict.TRANSIENT_TIMEOUT, RETRY, CompensationOutcome.EXHAUSTED), at=50).store()
    page = signed_in(Role.VIEWER).get("/policies?tab=playbook&range=15m")
    said = text_of(page)
    assert [(one.verdict, one.compensation, one.count) for one in page.context["flows"]] == [
        (TIMEOUT, words(RETRY), 4),
        ("not proven", words(ASK), 1),
    ]
    assert "5 failures" in page.context["sentence"]
    assert page.context["sentence"] in said
    assert "3 succeeded, 1 exhausted" in said
    assert all(word in said for word in ("200 ms", "600 ms", "1.8 s"))
    rows = re.findall(r'data-key="verdict-([^"]+)"', page.content.decode())
    assert rows == [*(words(one) for one in Verdict), "not proven"]
    [told] = re.findall(r'class="sankey"[^>]*aria-label="([^"]+)"', page.content.decode())
    places = [unescape(told).index(word) for word in (TIMEOUT, f"{words(RETRY)} 4", "not proven", f"{words(ASK)} 1")]
    assert places == sorted(places)


def test_what_another_playbook_did_is_marked() -> None:
    Story().tell(heartbeat(), done(Verdict.TRANSIENT_TIMEOUT, ASK, ASKED), at=60).store()
    page = signed_in().get("/policies?tab=playbook&range=15m")
    [flow] = page.context["flows"]
    assert (flow.verdict, flow.compensation, flow.is_other) == (TIMEOUT, words(ASK), True)
    row = Shown(page).one("key", f"verdict-{TIMEOUT}").text
    assert all(word in row for word in (words(RETRY), f"1 × {words(ASK)}"))
    assert len(Shown(page).values("other")) == 1


def test_nothing_done_says_which_kind_of_nothing_it_is() -> None:
    assert Why.NEVER in Shown(signed_in().get("/policies?tab=playbook")).values("why")
    Story().tell(heartbeat(), counted(40), at=3000).tell(heartbeat(), counted(40), at=1).store()
    assert Why.GOOD in Shown(signed_in().get("/policies?tab=playbook&range=15m")).values("why")


def test_ribbons_are_as_thick_as_what_they_stand_for_and_changes_are_darker() -> None:
    drawn = sankey([("failed", "failed", 60), ("failed", "answered", 40)], marks_changes=True)
    ways = re.findall(r'class="(flow[^"]*)" d="M0 ([\d.]+) C50 .*? L100 .*? 0 ([\d.]+) Z"', drawn)
    thick = {name: float(end) - float(begin) for name, begin, end in ways}
    assert thick["flow"] / thick["flow moved"] == pytest.approx(1.5, rel=0.01)
    assert "<b>" not in sankey([("<b>", "x", 1)])
