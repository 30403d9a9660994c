"""What people answered a run stands in its story: at the rung on which it asked, on the page, in the API, in files."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from events import keys
from events.runs.rows import Kind
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.run_answers import Answered
from recovery_ops.control.escalations.services.due import BY as DEADLINE
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.merging import NAMED_MOST
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.services.raising import raise_about
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import Escalated, RunFinished, RunStarted
from recovery_ops.rules.roles import Role
from tests.support import actions
from tests.support.escalations import act, person
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
PROPOSAL = "amount: 120 EUR\nto: the card"
CHANGED = "amount: 80 EUR\nto: the card"
WHY = "She keeps one."


def a_question(run: str = "run-7", *, is_over: bool = True, **more: Any) -> Escalation:
    """A run that asked 50 s ago whether it may refund, and waited 30 s."""
    words: dict[str, Any] = {
        "operation": "refund",
        "queue": "refunds",
        "reason": "question",
        "message": "May it be refunded?",
        "proposal": PROPOSAL,
        "escalation_id": f"ticket-{run}",
        "deadline_s": 600.0,
        "default_action": "deny",
    } | more
    story = Story().tell(RunStarted(name="refund"), at=60, run=run)
    story.tell(Escalated(**words), at=50, run=run)
    if is_over:
        story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=50.0), at=10, run=run)
    story.store()
    open_escalations("dev", NOW - timedelta(seconds=49))
    return Escalation.objects.latest("pk")


def decide(one: Escalation, verb: str, **words: Any) -> None:
    act(verb, one, now=NOW - timedelta(seconds=20), reason=WHY, **words)


def answered_in(run: str = "run-7") -> list[Answered]:
    """The lines that people wrote in the story of a run, or silence, as they stand on its page."""
    page = signed_in(Role.VIEWER).get(f"/runs/{run}")
    shown = [key for key in Shown(page).values("key") if key.startswith("step-")]
    steps = [step for step, _, _ in page.context["steps"]]
    assert shown == [f"step-{step.fact_id}" for step in steps]
    return [step for step in steps if isinstance(step, Answered)]


@pytest.mark.parametrize(
    ("verb", "words", "resolution"),
    [
        ("approve", {}, "approved"),
        ("approve", {"text": CHANGED}, "edited"),
        ("reject", {"text": "It was used."}, "rejected"),
    ],
)
def test_the_answer_stands_where_it_was_given_with_who_and_why(
    verb: str, words: dict[str, str], resolution: str
) -> None:
    one = a_question()
    decide(one, verb, **words)
    page = signed_in(Role.VIEWER).get("/runs/run-7")
    steps = page.context["steps"]
    started, asked, answered, finished = (step for step, _, _ in steps)
    assert (started.at, finished.at) == (NOW - timedelta(seconds=60), NOW - timedelta(seconds=10))
    assert "refunds" in asked.title
    assert steps[1][2] == one, "the question stands with the line that asked it"
    assert isinstance(answered, Answered)
    assert (answered.number, answered.by, answered.resolution, answered.reason) == (one.pk, "ana", resolution, WHY)
    line = Shown(page).one("key", f"step-{answered.fact_id}").text
    assert left_out(line, "+40 s", "ana", "4", str(one), WHY) == []


def test_another_input_is_shown_as_it_differs_from_the_proposal() -> None:
    decide(a_question(), "approve", text=CHANGED)
    page = signed_in(Role.VIEWER).get("/runs/run-7").content.decode()
    [drawn] = re.findall(r'<pre class="diff".*?</pre>', page, re.DOTALL)
    assert re.findall(r"<(del|ins)>(.*?)</", drawn) == [("del", "- amount: 120 EUR"), ("ins", "+ amount: 80 EUR")]
    assert "<span>  to: the card</span>" in drawn


def test_the_drawing_shows_that_it_waited_up_to_the_answer_and_no_longer() -> None:
    one = a_question()
    before = signed_in(Role.VIEWER).get("/runs/run-7").content.decode()
    decide(one, "approve")
    after = signed_in(Role.VIEWER).get("/runs/run-7").content.decode()
    bar = re.compile(r'<rect fill="url\(#p-wait\)" x="20%" width="([\d.]+)%" y="\d+" height="14" rx="1"><title>(.*?)<')
    [(long, asks), (short, answered)] = bar.findall(before) + bar.findall(after)
    assert (long, short) == ("80", "60")
    assert left_out(asks, "refunds", "10 s") == left_out(answered, "refunds", "10 s") == []
    assert asks != answered
    page = signed_in(Role.VIEWER).get("/runs/run-7")
    assert (page.context["story"].answers, left_out(text_of(page), "1 of 1")) == (1, [])


def test_silence_is_told_as_silence() -> None:
    a_question(deadline_s=25.0)
    keep_deadlines("dev", NOW)
    [line] = answered_in()
    assert (line.by, line.resolution, line.reason) == (DEADLINE, "rejected", "")
    page = signed_in().get("/runs/run-7")
    assert page.context["story"].answers == 0
    assert Shown(page).values("answers") == []
    [asked] = [piece for piece in page.context["story"].pieces if piece.kind is Kind.ASKED]
    assert asked.decided is None


def test_what_goes_on_failing_closed_is_told_so_and_stays_open() -> None:
    a_question(escalation_id="", reason=Category.UNKNOWN.value, category=Category.UNKNOWN, queue="unclassified")
    keep_deadlines("dev", NOW + timedelta(hours=2))
    [line] = answered_in()
    assert (line.by, line.resolution, line.mark) == (DEADLINE, "", "unknown")
    assert Escalation.objects.get().is_open


def test_what_was_merged_has_the_answer_of_the_other() -> None:
    ticketless: dict[str, Any] = {"escalation_id": "", "reason": "permission", "category": Category.PERMISSION}
    first = a_question("run-7", **ticketless)
    second = a_question("run-8", **ticketless, operation="charge")
    act("merge", second, into=first.pk)
    decide(first, "resolve")
    [told] = answered_in("run-8")
    assert (told.number, told.by, told.resolution) == (first.pk, "ana", "resolved")


def test_a_run_that_the_question_does_not_name_any_more_has_the_answer_too() -> None:
    given: dict[str, Any] = {"escalation_id": "", "reason": "permission", "category": Category.PERMISSION}
    one = [a_question(f"run-{number}", **given) for number in range(NAMED_MOST + 1)][-1]
    assert f"run-{NAMED_MOST}" not in one.runs
    decide(one, "approve")
    [told] = answered_in(f"run-{NAMED_MOST}")
    assert (told.number, told.by, told.resolution) == (one.pk, "ana", "approved")


def test_an_open_question_has_no_answer_and_leads_to_its_page() -> None:
    one = a_question(is_over=False)
    page = signed_in(Role.VIEWER).get("/runs/run-7")
    assert f"/escalations/{one.pk}" in Shown(page).links
    assert (answered_in(), page.context["story"].answers) == ([], 0)


def test_programs_and_files_are_told_the_same() -> None:
    one = a_question()
    decide(one, "approve", text=CHANGED)
    keys.forget_keys()
    _, token = keys.create_key("reader", ("read",), "dev")
    told = Client(headers={"authorization": f"Bearer {token}"}).get("/api/v1/runs/run-7").json()
    assert told["run"]["answers"] == 1
    [answer] = [step["answer"] for step in told["steps"] if step["answer"]]
    assert answer == {
        "escalation": one.pk,
        "queue": "refunds",
        "by": "ana",
        "resolution": "edited",
        "reason": WHY,
        "proposal": PROPOSAL,
        "answer": CHANGED,
        "changed": [
            {"kind": "del", "text": "amount: 120 EUR"},
            {"kind": "ins", "text": "amount: 80 EUR"},
            {"kind": "same", "text": "to: the card"},
        ],
    }
    rows = list(csv.DictReader(io.StringIO(signed_in().get("/runs/run-7?format=csv").content.decode("utf-8-sig"))))
    [row] = [row for row in rows if row["question"]]
    assert (row["question"], row["answered by"], row["resolution"]) == (str(one), "ana", "edited")
    assert (row["proposed"], row["answered"]) == (PROPOSAL.replace("\n", " ⏎ "), CHANGED.replace("\n", " ⏎ "))
    told = signed_in().get("/runs/run-7?format=md").content.decode()
    [line] = [one for one in told.splitlines() if WHY in one]
    assert left_out(line, "ana", "80 EUR") == []


def test_what_a_person_wrote_is_no_markup() -> None:
    decide(a_question(), "approve", text="<script>alert(1)</script>")
    page = signed_in().get("/runs/run-7").content.decode()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_decision_is_a_full_diamond_where_it_was_made() -> None:
    one = a_question()
    page = signed_in(Role.VIEWER).get("/runs/run-7").content.decode()
    assert 'class="pin decided"' not in page
    decide(one, "approve")
    page = signed_in(Role.VIEWER).get("/runs/run-7").content.decode()
    drawing = page[page.index('<div class="ladder">') : page.index("</footer>")]
    asked, decided = re.findall(r'<svg x="([\d.]+)%" y="\d+"><path class="pin(?: decided)?"', drawing)
    assert float(asked) < float(decided)
    assert Shown(drawing).values("answers") == ["1"]


def test_run_has_one_open_question_per_queue() -> None:
    """The second time it is another one: after an answer, of another queue, or of another run."""
    for run in ("run-7", "run-8"):
        Story().tell(RunStarted(name="billing"), at=60, run=run).store()

    def ask(run: str, queue: str) -> tuple[int, bool]:
        done = raise_about(**actions.asked(by=person(), run=run, queue=queue, reason="why does it do that?"))
        return done.object.pk, done.was_already

    first, _ = ask("run-7", "owners")
    assert ask("run-7", "owners") == (first, True)
    others = {ask(*about) for about in (("run-7", "billing"), ("run-8", "owners"))}
    act("resolve", Escalation.objects.get(pk=first), reason="mended for good")
    second = ask("run-7", "owners")
    found = [(first, False), second, *others]
    assert len({number for number, _ in found}) == 4
    assert not any(was_already for _, was_already in found)
    assert ask("run-7", "owners") == (second[0], True)
