"""Runs that people want to end: asked for by page, program and command line, told to agents, and shown as seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from events.models import Agent
from events.runs import asking
from events.runs.asking import run_of
from recovery_ops import cli
from recovery_ops.control import desired
from recovery_ops.control.aborted import abort_told
from recovery_ops.control.actions import Refused
from recovery_ops.control.actions.aborting import abort_run, abort_runs, withdraw_abort
from recovery_ops.control.models import AuditEntry, RunAbort
from recovery_ops.control.roles import Role
from recovery_ops.rules.facts import RunFinished, RunStarted
from recovery_ops.rules.words import Category, RunStatus
from recovery_ops.wire import parse_desired
from tests.support.actions import asked, person
from tests.support.api_client import Program
from tests.support.command_line import Operator, operator
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, failed, heartbeat

__all__ = ["operator"]  # the fixture

pytestmark = [pytest.mark.django_db]
WHY = "it writes to the wrong customer"


def going(*runs: str, service: str = "research", instance: str = "r-0") -> None:
    """Runs that met a failure and go on."""
    story = Story().tell(heartbeat(runs_in_flight=len(runs)), at=5, service=service, instance=instance)
    for run in runs:
        story.tell(RunStarted(name="due diligence"), at=60, run=run, service=service, instance=instance)
        story.tell(failed(Category.OVERLOADED), at=50, run=run, service=service, instance=instance)
    story.store()


def ended(run: str, status: RunStatus, at: float) -> None:
    Story().tell(RunFinished(status=status, duration_s=40.0), at=at, run=run, instance="r-0").store()


def aborted(run: str = "run-7", **more: Any) -> Any:
    return abort_run(**asked(run=run, reason=WHY) | more)


def told(run: str = "run-7", **later: float) -> str:
    """What the page says is observed of the wish."""
    story = run_of("dev", run)
    assert story is not None
    found = abort_told("dev", story, NOW + timedelta(**later))
    assert found is not None
    return found.words


# -- the act -----------------------------------------------------------------------------------------------------------
def test_it_is_state_that_its_service_alone_is_told_with_who_and_why() -> None:
    going("run-7")
    done = aborted()
    [wish] = parse_desired(desired.document("dev", service="research", instance="r-1", now=NOW)).aborts
    assert (wish.run, wish.by, wish.reason, wish.revision) == ("run-7", "ana", WHY, done.revision)
    assert parse_desired(desired.document("dev", service="billing", instance="b-0", now=NOW)).aborts == ()
    [entry] = AuditEntry.objects.filter(verb="run.abort")
    assert (entry.object, entry.reason, entry.revision) == ("run run-7", WHY, done.revision)


def test_asked_for_twice_it_is_one_wish_and_a_trial_writes_nothing() -> None:
    going("run-7")
    assert aborted(dry_run=True).is_dry_run
    assert not RunAbort.objects.exists()
    assert desired.current_revision("dev") == 0
    first, again = aborted(), aborted(by=person(name="ben"))
    assert (again.was_already, again.object.by, again.revision) == (True, "ana", first.revision)
    assert RunAbort.objects.count() == 1


def test_a_key_stands_for_the_runs_that_were_meant_and_not_for_how_many_they_were() -> None:
    going("run-1", "run-2", "run-3")
    first = abort_runs(**asked(runs=["run-1", "run-2"], reason=WHY, key="k-1"))
    ended("run-2", RunStatus.CANCELLED, at=10)
    again = abort_runs(**asked(runs=["run-2", "run-1"], reason=WHY, key="k-1"))
    assert (again.was_already, again.revision) == (True, first.revision)
    assert [one.run for one in again.object] == ["run-1", "run-2"]
    with pytest.raises(Refused, match="used for another change"):
        abort_runs(**asked(runs=["run-1", "run-3"], reason=WHY, key="k-1"))
    assert not RunAbort.objects.filter(run="run-3").exists()


def test_what_is_not_known_or_has_ended_is_refused() -> None:
    going("run-7")
    ended("run-7", RunStatus.SUCCEEDED, at=20)
    with pytest.raises(Refused) as unknown:
        aborted("moon")
    with (
        timezone.override("Asia/Tokyo"),
        pytest.raises(Refused, match="14:25:58 UTC: there is nothing to abort") as over,
    ):
        aborted()
    with pytest.raises(Refused) as forbidden:
        aborted(by=person(Role.RESPONDER))
    with pytest.raises(Refused) as held:
        withdraw_abort(**asked(run="run-7"))
    assert [one.value.status for one in (unknown, over, forbidden, held)] == [404, 409, 403, 409]


def test_taken_back_nobody_is_told_any_more_and_it_can_be_asked_for_anew() -> None:
    going("run-7")
    aborted()
    done = withdraw_abort(**asked(run="run-7", reason="it was the right customer after all"))
    now = parse_desired(desired.document("dev", service="research", instance="r-0", now=NOW))
    assert (now.revision, now.aborts) == (done.revision, ())
    assert told() == "Taken back by ana."
    assert not aborted().was_already


def test_after_two_days_it_is_no_longer_told() -> None:
    going("run-7", "run-8")
    aborted(now=NOW - timedelta(days=3))
    aborted("run-8")
    [wish] = parse_desired(desired.document("dev", service="research", instance="r-0", now=NOW)).aborts
    assert wish.run == "run-8"


def test_who_wants_it_after_two_days_asks_again() -> None:
    going("run-7")
    aborted(now=NOW - timedelta(days=3))
    assert told() == "It is told no more: after two days it has to be asked for again."
    done = aborted()
    assert (done.was_already, done.revision) == (False, 2)
    [wish] = parse_desired(desired.document("dev", service="research", instance="r-0", now=NOW)).aborts
    assert wish.revision == 2
    assert told() == "r-0 has not heard it yet: it obeys revision 0."


def test_a_run_that_ended_and_is_begun_again_can_be_aborted() -> None:
    going("run-7")
    ended("run-7", RunStatus.FAILED, at=40)
    with pytest.raises(Refused):
        aborted()
    Story().tell(RunStarted(name="due diligence"), at=30, run="run-7", instance="r-0").store()
    assert not aborted().was_already
    ended("run-7", RunStatus.CANCELLED, at=-3)
    assert told() == "It was called off 3.0 s later."


def test_the_end_of_a_run_of_many_facts_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "FACTS_OF_ONE", 3)
    going("run-7")
    Story().tell(*(failed(Category.OVERLOADED) for _ in range(4)), at=45, run="run-7", instance="r-0").store()
    ended("run-7", RunStatus.SUCCEEDED, at=20)
    story = run_of("dev", "run-7")
    assert story is not None
    assert (story.is_cut, story.status, len(story.steps)) == (True, RunStatus.SUCCEEDED, 4)
    with pytest.raises(Refused, match="there is nothing to abort"):
        aborted()


# -- what is seen of it ------------------------------------------------------------------------------------------------
def test_what_is_shown_is_what_its_agent_said() -> None:
    going("run-7")
    revision = aborted().revision
    assert told() == "r-0 has not heard it yet: it obeys revision 0."
    Agent.objects.filter(instance="r-0").update(revision=revision)
    assert told() == "r-0 has heard it, and has not told an end yet: a call under way ends first."
    assert told(minutes=5) == "r-0 is silent: it hears of it when it is back."
    ended("run-7", RunStatus.CANCELLED, at=-3)
    assert told() == "It was called off 3.0 s later."


def test_a_run_that_ends_by_itself_was_not_called_off() -> None:
    going("run-7")
    aborted()
    ended("run-7", RunStatus.SUCCEEDED, at=-3)
    assert told() == "It ended by itself 3.0 s later: succeeded."


def test_a_sender_that_follows_nobody_ends_nothing() -> None:
    Story().tell(failed(Category.OVERLOADED), at=50, run="run-7", instance="r-0").store()
    aborted()
    assert told() == "r-0 follows no console: nothing here ends it."


# -- the pages ---------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("now")
def test_an_operator_has_a_run_end_and_lets_it_go_on_again() -> None:
    going("run-7")
    client = signed_in(Role.OPERATOR)
    assert 'href="/runs/run-7/abort"' in client.get("/runs/run-7").content.decode()
    form = text_of(client.get("/runs/run-7/abort"))
    assert "Abort run-7 in dev" in form
    assert "due diligence, waits to try again on r-0" in form or "due diligence, running on r-0" in form
    assert client.post("/runs/run-7/abort", {"reason": "short"}).status_code == 422
    answer = client.post("/runs/run-7/abort", {"reason": WHY})
    assert answer.headers["Location"] == "/runs/run-7"
    page = client.get("/runs/run-7")
    assert "Asked to end" in text_of(page)
    assert f"“{WHY}”" in text_of(page)
    assert "r-0 has not heard it yet" in text_of(page)
    assert 'href="/runs/run-7/abort"' not in page.content.decode(), "asked already"
    assert "asked to end" in text_of(client.get("/runs"))
    assert "asked to end run run-7" in text_of(client.get("/runs/run-7?tab=audit"))
    client.post("/runs/run-7/withdraw-abort", {"reason": "it was the right customer"})
    assert "asked to end" not in text_of(client.get("/runs"))
    assert 'href="/runs/run-7/abort"' in client.get("/runs/run-7").content.decode()


@pytest.mark.usefixtures("now")
def test_who_may_not_is_not_offered_it() -> None:
    going("run-7")
    client = signed_in(Role.RESPONDER)
    for path in ("/runs", "/runs/run-7"):
        assert "Abort…" not in text_of(client.get(path))
    for path in ("/runs/run-7/abort", "/runs/run-7/withdraw-abort"):
        assert client.post(path, {"reason": WHY}).status_code == 403
    assert client.post("/runs/act/abort", {"run": ["run-7"], "reason": WHY}).status_code == 403


@pytest.mark.usefixtures("now")
def test_of_several_those_that_ended_meanwhile_hold_nobody_back() -> None:
    going("run-7", "run-8", "run-9")
    ended("run-8", RunStatus.SUCCEEDED, at=20)
    client = signed_in(Role.OPERATOR)
    form = text_of(client.get("/runs/act/abort?run=run-7&run=run-8&run=run-9"))
    assert "Abort 3 runs in dev" in form
    page = client.post("/runs/act/abort", {"run": ["run-7", "run-8", "run-9"], "reason": WHY}, follow=True)
    assert "2 runs to end; nothing was to be done about 1 other." in text_of(page)
    assert set(RunAbort.objects.values_list("run", "revision")) == {("run-7", 1), ("run-9", 1)}, "one revision for all"
    assert "asked to end 3 runs" in text_of(client.get("/runs/run-9?tab=audit"))
    assert client.get("/runs/act/abort?run=moon&run=run-7").status_code == 404
    refused = client.post("/runs/act/abort", {"run": ["run-8", "run-8"], "reason": WHY})
    assert refused.status_code == 409


@pytest.mark.usefixtures("now")
def test_where_nothing_is_to_be_aborted_the_form_asks_for_nothing() -> None:
    going("over")
    ended("over", RunStatus.SUCCEEDED, at=1)
    page = signed_in(Role.OPERATOR).get("/runs/over/abort").content.decode()
    assert "It has ended: there is nothing to abort." in page
    assert 'name="reason"' not in page
    assert '<button class="button" data-kind="primary">' not in page


def test_many_are_typed() -> None:
    names = [f"run-{number}" for number in range(51)]
    going(*names)
    client = signed_in(Role.OPERATOR)
    refused = client.post("/runs/act/abort", {"run": names, "reason": WHY})
    assert "Type 51: so many are meant." in text_of(refused)
    assert not RunAbort.objects.exists()
    client.post("/runs/act/abort", {"run": names, "reason": WHY, "confirm": "51"})
    assert RunAbort.objects.count() == 51


# -- programs and the command line -------------------------------------------------------------------------------------
@pytest.mark.usefixtures("now")
def test_a_program_has_a_run_end() -> None:
    going("run-7")
    program = Program()
    status, done = program.post("runs/run-7/abort", {"reason": WHY})
    assert (status, done["was_already"], done["abort"]["by"], done["abort"]["instance"]) == (
        200,
        False,
        "deployer",
        "r-0",
    )
    _, found = program.get("runs/run-7")
    assert found["abort"]["reason"] == WHY
    assert program.post("runs/moon/abort", {"reason": WHY})[0] == 404
    assert program.post("runs/run-7/withdraw-abort", {"reason": "it was the right one"})[1]["abort"]["withdrawn_by"]
    assert program.get("runs/run-7")[1]["abort"] is None


def test_an_operator_has_a_run_end_on_the_command_line(operator: Operator) -> None:
    from django.utils import timezone

    late = (NOW - timezone.now()).total_seconds()
    Story().tell(RunStarted(name="due diligence"), at=late + 60, run="run-7").store()
    assert operator.run("runs", "abort", "run-7", "--reason", WHY, "--dry-run") == cli.DONE
    assert operator.said == ["Nothing was changed. run-7 would be told: is to end."]
    assert operator.run("runs", "abort", "run-7", "--reason", WHY) == cli.DONE
    assert operator.said == ["run-7 is to end, from revision 1 on."]
    assert operator.run("runs", "show", "run-7") == cli.DONE
    assert operator.said[1].endswith(f": {WHY}")
    assert operator.run("runs", "withdraw-abort", "run-7", "--reason", "it was the right one") == cli.DONE
    assert operator.said == ["run-7 may go on, from revision 2 on."]
