"""Runs that people want to end: asked for by page, program and command line, told to agents, and shown as seen."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from events.models import Agent
from events.runs import selectors
from events.runs.selectors import run_of
from recovery_ops import cli
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.runs.abort_status import AbortTold, Observed, abort_told
from recovery_ops.control.runs.models.aborts import RunAbort
from recovery_ops.control.runs.services.aborts import abort_run, abort_runs, withdraw_abort
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import RunFinished, RunStarted
from recovery_ops.rules.roles import Role
from recovery_ops.wire import parse_desired
from tests.support.actions import asked, person
from tests.support.api_client import Program
from tests.support.command_line import Operator, operator
from tests.support.html import Shown
from tests.support.pages import HOSTILE, signed_in, text_of
from tests.support.stories import NOW, Story, failed, heartbeat

__all__ = ["operator"]  # the fixture

pytestmark = [pytest.mark.django_db]
WHY, BACK = "it writes to the wrong customer", "it was the right one"


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


def told(run: str = "run-7", **later: float) -> AbortTold:
    """What the page says is observed of the wish."""
    story = run_of("dev", run)
    assert story is not None
    found = abort_told("dev", story, NOW + timedelta(**later))
    assert found is not None
    return found


def audited(verb: str) -> str:
    """The key of the newest entry of this verb on a page."""
    return f"audit-{AuditEntry.objects.filter(verb=verb).latest('number').number}"


# -- the act -----------------------------------------------------------------------------------------------------------
def test_it_is_state_that_its_service_alone_is_told_with_who_and_why() -> None:
    going("run-7")
    done = aborted()
    [wish] = parse_desired(desired.document("dev", service="research", instance="r-1", now=NOW)).aborts
    assert (wish.run, wish.by, wish.reason, wish.revision) == ("run-7", "ana", WHY, done.revision)
    assert parse_desired(desired.document("dev", service="billing", instance="b-0", now=NOW)).aborts == ()
    [entry] = AuditEntry.objects.filter(verb="run.abort")
    assert (entry.object, entry.reason, entry.revision) == ("run run-7", WHY, done.revision)


def test_abort_of_one_run_leaves_those_of_others() -> None:
    going("run-7", "run-8")
    aborted("run-8")
    aborted("run-7")
    assert set(RunAbort.objects.filter(withdrawn_at=None).values_list("run", flat=True)) == {"run-7", "run-8"}


def test_asked_for_twice_it_is_one_wish_and_a_trial_writes_nothing() -> None:
    going("run-7")
    assert aborted(dry_run=True).is_dry_run
    assert not RunAbort.objects.exists()
    assert current_revision("dev") == 0
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
    with pytest.raises(CommandRejected) as refused:
        abort_runs(**asked(runs=["run-1", "run-3"], reason=WHY, key="k-1"))
    assert refused.value.code == "key_used"
    assert not RunAbort.objects.filter(run="run-3").exists()


def test_what_is_not_known_or_has_ended_is_refused() -> None:
    going("run-7")
    ended("run-7", RunStatus.SUCCEEDED, at=20)
    with pytest.raises(CommandRejected) as unknown:
        aborted("moon")
    with (
        timezone.override("Asia/Tokyo"),
        pytest.raises(CommandRejected, match="14:25:58 UTC") as over,
    ):
        aborted()
    with pytest.raises(CommandRejected) as forbidden:
        aborted(by=person(Role.RESPONDER))
    with pytest.raises(CommandRejected) as held:
        withdraw_abort(**asked(run="run-7"))
    assert [one.value.status for one in (unknown, over, forbidden, held)] == [404, 409, 403, 409]


def test_taken_back_nobody_is_told_any_more_and_it_can_be_asked_for_anew() -> None:
    going("run-7")
    aborted()
    done = withdraw_abort(**asked(run="run-7", reason="it was the right customer after all"))
    now = parse_desired(desired.document("dev", service="research", instance="r-0", now=NOW))
    assert (now.revision, now.aborts) == (done.revision, ())
    assert (told().state, "ana" in told().words) == (Observed.WITHDRAWN, True)
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
    assert told().state is Observed.EXPIRED
    done = aborted()
    assert (done.was_already, done.revision) == (False, 2)
    [wish] = parse_desired(desired.document("dev", service="research", instance="r-0", now=NOW)).aborts
    assert wish.revision == 2
    assert told().state is Observed.UNHEARD


def test_a_run_that_ended_and_is_begun_again_can_be_aborted() -> None:
    going("run-7")
    ended("run-7", RunStatus.FAILED, at=40)
    with pytest.raises(CommandRejected):
        aborted()
    Story().tell(RunStarted(name="due diligence"), at=30, run="run-7", instance="r-0").store()
    assert not aborted().was_already
    ended("run-7", RunStatus.CANCELLED, at=-3)
    assert (told().state, "3.0 s" in told().words) == (Observed.CALLED_OFF, True)


def test_the_end_of_a_run_of_many_facts_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "EVENTS_OF_ONE", 3)
    going("run-7")
    Story().tell(*(failed(Category.OVERLOADED) for _ in range(4)), at=45, run="run-7", instance="r-0").store()
    ended("run-7", RunStatus.SUCCEEDED, at=20)
    story = run_of("dev", "run-7")
    assert story is not None
    assert (story.is_cut, story.status, len(story.steps)) == (True, RunStatus.SUCCEEDED, 4)
    with pytest.raises(CommandRejected) as refused:
        aborted()
    assert refused.value.code == "ended"


# -- what is seen of it ------------------------------------------------------------------------------------------------
def test_what_is_shown_is_what_its_agent_said() -> None:
    going("run-7")
    revision = aborted().revision
    assert told().state is Observed.UNHEARD
    assert all(word in told().words for word in ("r-0", " 0."))
    Agent.objects.filter(instance="r-0").update(revision=revision)
    assert told().state is Observed.HEARD
    assert told(minutes=5).state is Observed.SILENT
    ended("run-7", RunStatus.CANCELLED, at=-3)
    assert (told().state, "3.0 s" in told().words) == (Observed.CALLED_OFF, True)


def test_a_run_that_ends_by_itself_was_not_called_off() -> None:
    going("run-7")
    aborted()
    ended("run-7", RunStatus.SUCCEEDED, at=-3)
    assert told().state is Observed.ENDED
    assert all(word in told().words for word in ("3.0 s", "succeeded"))


def test_a_sender_that_follows_nobody_ends_nothing() -> None:
    Story().tell(failed(Category.OVERLOADED), at=50, run="run-7", instance="r-0").store()
    aborted()
    assert told().state is Observed.UNLED


# -- the pages ---------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("now")
def test_an_operator_has_a_run_end_and_lets_it_go_on_again() -> None:
    going("run-7")
    client = signed_in(Role.OPERATOR)
    assert "/runs/run-7/abort" in Shown(client.get("/runs/run-7")).links
    form = client.get("/runs/run-7/abort")
    assert (form.context["about"], form.context["environment"]) == ("run-7", "dev")
    line = Shown(form).one("run", "run-7").text
    assert all(word in line for word in ("due diligence", "r-0"))
    assert client.post("/runs/run-7/abort", {"reason": "x" * 501}).status_code == 422
    answer = client.post("/runs/run-7/abort", {"reason": WHY})
    assert answer.headers["Location"] == "/runs/run-7"
    page = client.get("/runs/run-7")
    wish = page.context["abort"]
    assert (wish.state, wish.wish.by) == (Observed.UNHEARD, "ana")
    assert all(said in text_of(page) for said in (f"“{WHY}”", wish.words))
    assert "/runs/run-7/abort" not in Shown(page).links, "asked already"
    assert Shown(client.get("/runs")).within("key", "run-run-7").values("asked") == ["abort"]
    assert "run run-7" in Shown(client.get("/runs/run-7?tab=audit")).one("key", audited("run.abort")).text
    client.post("/runs/run-7/withdraw-abort", {"reason": "it was the right customer"})
    assert Shown(client.get("/runs")).values("asked") == []
    assert "/runs/run-7/abort" in Shown(client.get("/runs/run-7")).links


@pytest.mark.usefixtures("now")
def test_hostile_reason_of_an_abort_is_text() -> None:
    going("run-7")
    aborted(reason=HOSTILE)
    page = signed_in().get("/runs/run-7")
    assert page.context["abort"].wish.reason == HOSTILE
    assert "<img src=x" not in page.content.decode()


@pytest.mark.usefixtures("now")
def test_who_may_not_is_not_offered_it() -> None:
    going("run-7")
    client = signed_in(Role.RESPONDER)
    operator = signed_in(Role.OPERATOR, "olga")
    for path, leads in (("/runs", 'formaction="/runs/act/abort"'), ("/runs/run-7", 'href="/runs/run-7/abort"')):
        assert leads not in client.get(path).content.decode()
        assert leads in operator.get(path).content.decode()
    for path in ("/runs/run-7/abort", "/runs/run-7/withdraw-abort"):
        assert client.post(path, {"reason": WHY}).status_code == 403
    assert client.post("/runs/act/abort", {"run": ["run-7"], "reason": WHY}).status_code == 403


@pytest.mark.usefixtures("now")
def test_of_several_those_that_ended_meanwhile_hold_nobody_back() -> None:
    going("run-7", "run-8", "run-9")
    ended("run-8", RunStatus.SUCCEEDED, at=20)
    client = signed_in(Role.OPERATOR)
    form = client.get("/runs/act/abort?run=run-7&run=run-8&run=run-9")
    assert (list(form.context["runs"]), form.context["environment"]) == (["run-7", "run-8", "run-9"], "dev")
    assert [number for _, number in form.context["impact"]] == [2, 1, 1], "runs, instances, and what ended already"
    assert sorted(Shown(form).values("run")) == ["run-7", "run-9"]
    page = client.post("/runs/act/abort", {"run": ["run-7", "run-8", "run-9"], "reason": WHY}, follow=True)
    [said] = [str(one) for one in page.context["messages"]]
    assert re.findall(r"\d+", said) == ["2", "1"], "to end, and nothing to be done about"
    assert set(RunAbort.objects.values_list("run", "revision")) == {("run-7", 1), ("run-9", 1)}, "one revision for all"
    assert "3 runs" in Shown(client.get("/runs/run-9?tab=audit")).one("key", audited("run.abort")).text
    assert client.get("/runs/act/abort?run=moon&run=run-7").status_code == 404
    refused = client.post("/runs/act/abort", {"run": ["run-8", "run-8"], "reason": WHY})
    assert refused.status_code == 409


@pytest.mark.usefixtures("now")
def test_where_nothing_is_to_be_aborted_the_form_asks_for_nothing() -> None:
    going("over")
    ended("over", RunStatus.SUCCEEDED, at=1)
    answer = signed_in(Role.OPERATOR).get("/runs/over/abort")
    assert answer.context["is_over"]
    page = Shown(answer)
    assert page.one("problem").text, "it says why"
    assert "reason" not in page.fields
    assert page.having("kind", "primary") == []


def test_many_are_typed() -> None:
    names = [f"run-{number}" for number in range(51)]
    going(*names)
    client = signed_in(Role.OPERATOR)
    refused = client.post("/runs/act/abort", {"run": names, "reason": WHY})
    assert refused.status_code == 422
    assert list(refused.context["form"].errors) == ["confirm"]
    assert "51" in refused.context["form"].errors["confirm"][0]
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
    assert program.post("runs/run-7/withdraw-abort", {"reason": BACK})[1]["abort"]["withdrawn_by"] == "deployer"
    assert program.get("runs/run-7")[1]["abort"] is None


def test_an_operator_has_a_run_end_on_the_command_line(operator: Operator) -> None:
    from django.utils import timezone

    late = (NOW - timezone.now()).total_seconds()
    Story().tell(RunStarted(name="due diligence"), at=late + 60, run="run-7").store()
    assert operator.run("runs", "abort", "run-7", "--reason", WHY, "--dry-run") == cli.DONE
    assert not RunAbort.objects.exists()
    assert all("run-7" in said for said in operator.said)
    assert operator.run("runs", "abort", "run-7", "--reason", WHY) == cli.DONE
    wish = RunAbort.objects.get(run="run-7")
    assert (wish.revision, wish.withdrawn_at) == (1, None)
    assert all(word in operator.said[0] for word in ("run-7", " 1 "))
    assert operator.run("runs", "show", "run-7") == cli.DONE
    assert operator.said[1].endswith(f": {WHY}")
    assert operator.run("runs", "withdraw-abort", "run-7", "--reason", BACK) == cli.DONE
    assert all(word in operator.said[0] for word in ("run-7", " 2 "))
    wish.refresh_from_db()
    assert (wish.withdrawn_revision, wish.withdrawn_by) == (2, "ana")
