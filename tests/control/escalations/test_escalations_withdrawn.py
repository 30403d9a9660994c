"""A run that waited for an answer and was called off: nobody is asked any more, whatever order its facts come in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.desired_state.document import read
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.queue import counts_of, rows_of
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.services.withdrawing import withdraw_called_off
from recovery_ops.control.runs.models.aborts import RunAbort
from recovery_ops.control.runs.services.aborts import abort_run
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import RunFinished, RunStarted
from recovery_ops.rules.roles import Role
from tests.support.actions import person
from tests.support.escalations import act, asked
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def asks(ago_s: float, **more: Any) -> None:
    """A run asks, and waits for 30 minutes."""
    given: dict[str, Any] = {"escalation_id": "t", "deadline_s": 1800.0, "category": Category.POLICY_DENIED} | more
    Story().tell(asked(**given), at=ago_s, run="run-1").store()


def is_to_end(ago_s: float, *, withdrawn_s: float | None = None) -> None:
    """Somebody wants the run to end; took that back so many seconds ago."""
    RunAbort.objects.create(
        environment="dev",
        run="run-1",
        reason="it pays twice",
        by="ana",
        at=NOW - timedelta(seconds=ago_s),
        revision=1,
        withdrawn_at=None if withdrawn_s is None else NOW - timedelta(seconds=withdrawn_s),
    )


def ends(ago_s: float, status: RunStatus = RunStatus.CANCELLED) -> None:
    Story().tell(RunFinished(status=status, duration_s=9.0), at=ago_s, run="run-1").store()


def look(after_s: float = 0) -> Escalation:
    """What the worker does each second."""
    now = NOW + timedelta(seconds=after_s)
    open_escalations("dev", now)
    withdraw_called_off("dev", now)
    keep_deadlines("dev", now)
    return Escalation.objects.get()


def test_what_a_run_waited_for_that_was_called_off_is_asked_of_nobody_any_more() -> None:
    asks(100)
    assert look().is_open
    is_to_end(60)
    ends(50)
    one = look(1)
    assert (one.resolution, one.resolved_by, one.revision) == ("withdrawn", "console", None)
    note = one.notes.latest("pk")
    assert (note.verb, note.by) == ("withdraw", "console")
    assert [word in note.text for word in ("ana", "2026-11-21 14:25:28 UTC", "it pays twice")] == [True] * 3
    assert AuditEntry.objects.latest("number").verb == "escalation.withdraw"
    assert counts_of("dev", by=None, now=NOW)["open"] == 0
    client = signed_in(Role.OPERATOR)
    page = client.get(f"/escalations/{one.pk}")
    assert Shown(page).one("withdrawn").text == note.text
    assert not any(link.startswith("/escalations/act/reopen") for link in Shown(page).links)
    [line] = client.get("/escalations?tab=resolved").context["rows"]
    assert (line.row.one.pk, line.row.one.resolution) == (one.pk, "withdrawn")
    with pytest.raises(CommandRejected) as rejection:
        act("reopen", one, reason="it is still to be decided")
    assert rejection.value.code == "called_off"
    notes = one.notes.count()
    assert look(2).notes.count() == notes, "a second look does it once"


@pytest.mark.parametrize("status", [RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.DEGRADED])
def test_a_run_that_ended_otherwise_withdraws_nothing(status: RunStatus) -> None:
    asks(100)
    is_to_end(60)
    ends(50, status)
    assert look().is_open


@pytest.mark.parametrize("wish", [None, {"ago_s": 80, "withdrawn_s": 55}, {"ago_s": 49 * 3600}])
def test_a_run_that_was_cancelled_with_its_process_may_come_back_for_its_answer(wish: dict[str, float] | None) -> None:
    asks(100)
    if wish is not None:
        is_to_end(**wish)
    ends(50)
    one = look()
    assert one.is_open, "nobody had it called off, or no more"
    act("approve", one, reason="it is to be paid")
    assert [(a.ticket, a.decision) for a in read("dev").answers] == [("t", "approved")]


def test_what_waits_for_no_answer_stays_to_be_done() -> None:
    asks(100, escalation_id="")
    is_to_end(60)
    ends(50)
    assert look().is_open


def test_a_wish_alone_ends_nothing_and_is_told_and_so_is_whose_it_was() -> None:
    Story().tell(RunStarted(name="refund"), at=200, run="run-1").store()
    asks(100)
    one = look()
    client = signed_in(Role.OPERATOR, "ana")
    assert Shown(client.get("/escalations")).values("abort") == []
    abort_run(
        by=person(Role.OPERATOR, "ana"),
        environment="dev",
        run="run-1",
        reason="it pays twice",
        now=NOW - timedelta(seconds=60),
    )
    assert look().is_open
    assert Shown(client.get("/escalations")).values("abort") == ["ana"]
    assert [row.abort_by for row in rows_of("dev", "open", by=None, now=NOW)] == ["ana"]
    assert "it pays twice" in Shown(client.get(f"/escalations/{one.pk}")).one("abort", "ana").text
    ends(30)
    one = look(1)
    note = one.notes.latest("pk")
    assert (one.resolution, note.verb, "ana" in note.text) == ("withdrawn", "withdraw", True)
    page = Shown(client.get(f"/escalations/{one.pk}"))
    assert (page.values("abort"), page.one("withdrawn").text) == ([], note.text)
    assert note.text[:40] in text_of(client.get("/escalations?tab=resolved"))


def test_an_end_that_is_stored_before_the_question_withdraws_it_in_the_same_look() -> None:
    is_to_end(60)
    ends(50)
    asks(100)
    assert look().resolution == "withdrawn"


def test_a_fact_that_comes_late_or_twice_brings_nothing_back() -> None:
    asks(100)
    is_to_end(60)
    ends(50)
    look()
    asks(90)
    asks(90)
    one = look(1)
    assert (one.resolution, one.occurrences) == ("withdrawn", 3)


def test_a_run_that_is_begun_again_and_asks_the_same_is_answered() -> None:
    asks(100)
    is_to_end(60, withdrawn_s=20)
    ends(50)
    first = look()
    asks(10, proposal="30 EUR")
    one = look(1)
    assert (one.pk, one.proposal) == (first.pk, "30 EUR"), "it is asked as the run asks now"
    assert (one.is_open, one.resolution, one.notes.latest("pk").verb) == (True, "", "reopen")
    assert one.resolve_by == NOW + timedelta(seconds=1790)
    [row] = rows_of("dev", "open", by=None, now=NOW)
    assert row.last_note == f"console: {one.notes.latest('pk').text}", "not that it ended"
    act("approve", one, reason="it is to be paid")
    assert [(a.ticket, a.decision) for a in read("dev").answers] == [("t", "approved")]


def test_a_newer_question_that_is_stored_before_the_end_of_the_run_stays_open() -> None:
    asks(100)
    look()
    is_to_end(60)
    asks(10)
    ends(50)
    assert look(1).is_open
    ends(5)
    assert look(2).resolution == "withdrawn"


@pytest.mark.parametrize(("default", "decision"), [("deny", "rejected"), ("allow", "approved")])
def test_whoever_looks_for_the_answer_elsewhere_finds_at_its_deadline_what_silence_says(
    default: str, decision: str
) -> None:
    asks(100, category=Category.OVERLOADED, default_action=default)
    is_to_end(60)
    ends(50)
    look()
    assert read("dev").answers == ()
    assert look(1699).default_done_at is None
    one = look(1701)
    assert (one.resolution, one.is_open) == ("withdrawn", False)
    assert [(a.ticket, a.decision) for a in read("dev").answers] == [("t", decision)]
    asks(-1702, category=Category.OVERLOADED, default_action=default)
    assert look(1710).resolution == "withdrawn", "it has its answer for good"


def test_question_of_two_runs_stays_while_one_waits() -> None:
    question = asked(escalation_id="t", deadline_s=1800.0, category=Category.POLICY_DENIED)
    for ago_s, run in ((100, "run-1"), (90, "run-2")):
        Story().tell(question, at=ago_s, run=run).store()
    assert look().runs == ["run-1", "run-2"]
    is_to_end(60)
    ends(50)
    assert look(1).is_open
