"""Runs that people want begun again: asked for by whoever may, told to one instance, and shown as they are seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from events.models import Agent
from recovery_ops import cli
from recovery_ops.control.core.commands import execute
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.runs.models.retries import RunRetry
from recovery_ops.control.runs.retry_status import RetryFault, RetryState
from recovery_ops.control.runs.services.aborts import abort_run, held_abort
from recovery_ops.control.runs.services.retries import NotRetried, end_old, note_begun, retry_runs, withdraw_retry
from recovery_ops.rules.desired_state import Retry
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.events import HookFailed, RunFinished, RunStarted
from recovery_ops.rules.roles import Role
from recovery_ops.wire import parse_desired
from tests.support.actions import asked, person
from tests.support.api_client import Program
from tests.support.command_line import Operator, operator
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.retries import WHY, begun, ended, retried, there, told
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, heartbeat

__all__ = ["operator"]  # the fixture

pytestmark = [pytest.mark.django_db]
STOPPED = "it writes to the wrong customer"
TAKEN_BACK = "it was the right one"


def refused(run: str = "run-7", **more: Any) -> CommandRejected:
    with pytest.raises(CommandRejected) as caught:
        retried(run, **more)
    return caught.value


def fault(run: str = "run-7") -> RetryFault | None:
    """Why nobody can begin it again."""
    found = refused(run)
    assert isinstance(found, NotRetried)
    return found.fault


def wishes(instance: str, service: str = "research") -> tuple[Retry, ...]:
    """What an instance is told."""
    return parse_desired(desired.document("dev", service=service, instance=instance, now=NOW)).retries


# -- the act -----------------------------------------------------------------------------------------------------------
def test_it_is_state_that_one_instance_alone_is_told_with_who_why_and_the_input() -> None:
    ended("run-7")
    there("r-0", "r-1")
    done = retried(input='{"limit": 5}')
    [wish] = wishes("r-0")
    assert (wish.run, wish.by, wish.reason, wish.input, wish.revision) == (
        "run-7",
        "ana",
        WHY,
        '{"limit": 5}',
        done.revision,
    )
    assert wishes("r-1") == wishes("r-0", service="billing") == ()
    [entry] = AuditEntry.objects.filter(verb="run.retry")
    assert (entry.object, entry.reason, entry.revision) == ("run run-7", WHY, done.revision)
    assert "limit" not in str(entry.after), "what it is given may be private, and the audit log is for ever"


def test_asked_for_twice_it_is_one_wish_and_another_input_is_refused_and_a_trial_writes_nothing() -> None:
    ended("run-7")
    there("r-0")
    assert retried(dry_run=True).is_dry_run
    assert not RunRetry.objects.exists()
    first, again = retried(), retried(by=person(name="ben"))
    assert (again.was_already, again.object.pk, again.revision) == (True, first.object.pk, first.revision)
    other = refused(input="another")
    assert (other.status, other.code) == (409, "retried_already")
    assert left_out(other.detail, "ana", "r-0") == []


def test_two_who_ask_in_one_moment_have_it_begun_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one's wish is written after the second has read that there is none, and before it writes its own."""
    ended("run-7")
    there("r-0")
    place = "recovery_ops.control.runs.services.retries.execute"

    def second(*given: Any, **more: Any) -> Any:
        monkeypatch.setattr(place, execute)
        retried()
        return execute(*given, **more)

    monkeypatch.setattr(place, second)
    assert retried(by=person(name="ben")).was_already
    monkeypatch.setattr(place, second)
    with pytest.raises(CommandRejected):
        retry_runs(**asked(runs=["run-7"], reason=WHY))
    assert RunRetry.objects.count() == 1


def test_a_key_stands_for_this_input() -> None:
    ended("run-7")
    there("r-0")
    first = retried(input="one", key="k-1")
    assert retried(input="one", key="k-1").revision == first.revision
    assert refused(input="two", key="k-1").code == "key_used"


def test_the_wish_that_it_ends_is_taken_back_with_it() -> None:
    ended("run-7", status=None)
    there("r-0")
    abort_run(**asked(run="run-7", reason=STOPPED))
    Story().tell(RunFinished(status=RunStatus.CANCELLED, duration_s=40.0), at=1, run="run-7", instance="r-0").store()
    retried()
    document = parse_desired(desired.document("dev", service="research", instance="r-0", now=NOW))
    assert [one.run for one in document.retries] == ["run-7"]
    assert document.aborts == ()
    assert held_abort("dev", "run-7", NOW) is None


@pytest.mark.parametrize(
    ("instances", "best"),
    [
        (["web-1-4711", "web-2-12", "web-2-99"], "web-2-99"),
        (["web-1-4711", "web-2-12"], "web-2-12"),
        (["web-1-4711", "db-3-1"], "db-3-1"),
    ],
)
def test_its_own_instance_then_one_beside_it_then_another(instances: list[str], best: str) -> None:
    ended("run-7", instance="web-2-99")
    there(*instances)
    assert retried().object.instance == best


def test_who_is_named_has_to_be_there_and_to_take_retries() -> None:
    ended("run-7")
    there("r-0", "r-1")
    there("r-2", takes=False)
    assert list(refused(instance="r-2").fields) == ["instance"]
    assert retried(instance="r-1").object.instance == "r-1"


@pytest.mark.parametrize("status", [RunStatus.SUCCEEDED, RunStatus.DEGRADED])
def test_a_run_that_came_to_its_end_is_not_begun_again(status: RunStatus) -> None:
    ended("run-7", status=status)
    there("r-0")
    assert fault() is RetryFault.ENDED_WELL


def test_a_run_that_goes_on_is_not_begun_again_and_one_whose_agent_is_gone_is() -> None:
    ended("run-7", status=None)
    there("r-0")
    assert fault() is RetryFault.RUNS
    Agent.objects.filter(instance="r-0").update(last_seen_us=0)
    there("r-1")
    assert retried().object.instance == "r-1"


def test_a_run_whose_process_was_replaced_under_the_same_name_is_begun_again_and_then_goes_on() -> None:
    ended("run-7", status=None)
    there("r-0", uptime_s=30.0)
    assert retried().object.instance == "r-0", "up for 30 s, and it began a minute ago"
    begun(at=2)
    withdraw_retry(**asked(run="run-7", reason="it was begun by somebody else"))
    assert fault() is RetryFault.RUNS


def test_a_run_that_another_instance_has_begun_again_is_in_its_hands() -> None:
    ended("run-7", status=None)
    Agent.objects.update(last_seen_us=0)
    there("r-1")
    retried()
    begun(at=1, instance="r-1")
    withdraw_retry(**asked(run="run-7", reason="it was begun, as it seems"))
    assert fault() is RetryFault.RUNS
    assert abort_run(**asked(run="run-7", reason=STOPPED)).object.instance == "r-1"


def test_why_nobody_can_is_said_in_words() -> None:
    ended("run-7")
    Agent.objects.update(last_seen_us=0)
    assert fault() is RetryFault.NOBODY_THERE
    there("b-0", service="billing")
    assert fault() is RetryFault.NOBODY_THERE
    assert "research" in refused().detail
    there("r-0", takes=None)
    assert fault() is RetryFault.NOT_SAID
    there("r-1", takes=False)
    assert fault() is RetryFault.NO_HOOK
    assert "on_retry" in refused().detail


@pytest.mark.parametrize(
    ("given", "told"), [("x" * 16385, ["16,385", "16,384"]), ("a\0b", []), ("\ud800", [])], ids=["long", "nul", "half"]
)
def test_what_it_is_given_is_bounded_text(given: str, told: list[str]) -> None:
    ended("run-7")
    there("r-0")
    found = refused(input=given)
    assert (found.status, list(found.fields)) == (400, ["input"])
    assert left_out(found.fields["input"], *told) == []


def test_who_may_not_and_what_is_not_known_is_refused() -> None:
    ended("run-7")
    there("r-0")
    assert refused("moon").status == 404
    assert refused(by=person(Role.RESPONDER)).status == 403
    with pytest.raises(CommandRejected) as nothing:
        withdraw_retry(**asked(run="run-7"))
    assert nothing.value.status == 409


def test_taken_back_nobody_is_told_any_more_and_it_can_be_asked_for_anew() -> None:
    ended("run-7")
    there("r-0")
    retried()
    done = withdraw_retry(**asked(run="run-7", reason="the bank is away again"))
    assert (done.revision, wishes("r-0")) == (2, ())
    assert (told().state, told().wish.ended_by) == (RetryState.TAKEN_BACK, "ana")
    again = retried()
    assert (again.was_already, [one.id for one in wishes("r-0")]) == (False, [again.object.pk])


def test_after_two_days_it_is_no_longer_told_and_can_be_asked_for_anew() -> None:
    ended("run-7", "run-8")
    there("r-0")
    retried("run-8")
    assert told("run-8", days=3).state is RetryState.FORGOTTEN
    assert end_old("dev", now=NOW + timedelta(days=2, seconds=-1)) == []
    [old] = end_old("dev", now=NOW + timedelta(days=2))
    assert (old.run, wishes("r-0")) == ("run-8", ()), "where nothing else was changed since, too"
    assert told("run-8", days=3).state is RetryState.FORGOTTEN
    [entry] = AuditEntry.objects.filter(verb="run.forget_retry")
    assert (entry.object, entry.actor_name, entry.revision) == ("run run-8", "expiry", 2)
    there("r-0", at=-3 * 86400)
    later = NOW + timedelta(days=3)
    retried("run-7", now=later)
    assert [one.run for one in wishes("r-0")] == ["run-7"]
    assert not retried("run-8", now=later).was_already


def test_of_several_those_that_can_are_in_one_revision() -> None:
    ended("run-1", "run-2")
    ended("run-3", status=RunStatus.SUCCEEDED)
    there("r-0")
    retried("run-2")
    done = retry_runs(**asked(runs=["run-1", "run-2", "run-3"], reason=WHY))
    assert [one.run for one in done.object] == ["run-1"]
    with pytest.raises(CommandRejected, match="not_retried"):
        retry_runs(**asked(runs=["run-2", "run-3"], reason=WHY))


# -- what is seen of it ------------------------------------------------------------------------------------------------
def test_what_is_shown_is_what_its_agent_and_the_run_said() -> None:
    ended("run-7")
    there("r-0")
    revision = retried().revision
    assert (told().state, told().wish.instance) == (RetryState.UNHEARD, "r-0")
    Agent.objects.filter(instance="r-0").update(revision=revision)
    assert told().state is RetryState.HEARD
    Agent.objects.filter(instance="r-0").update(takes_new_work=False)
    assert told().state is RetryState.PAUSED
    assert told(minutes=5).state is RetryState.SILENT
    begun()
    assert (told().state, told().begun_after_s) == (RetryState.BEGUN, 3)


def test_a_function_of_the_agent_that_raised_is_told_with_its_words() -> None:
    ended("run-7")
    there("r-0")
    retried()
    raised = HookFailed(hook="on_retry", error_type="KeyError", message="no order 7")
    Story().tell(raised, at=-2, run="run-7", instance="r-0").store()
    assert told().state is RetryState.RAISED
    assert "KeyError: no order 7" in told().words
    begun()
    assert told().begun_after_s == 3


def test_what_was_told_before_the_wish_is_no_proof() -> None:
    ended("run-7")
    there("r-0")
    retried()
    assert told().state is RetryState.UNHEARD, "it began 60 s before somebody wanted that"


def test_an_agent_whose_clock_is_a_little_behind_is_believed() -> None:
    ended("run-7")
    there("r-0")
    retried()
    Story().tell(RunStarted(name="due diligence"), at=15, received=-3, run="run-7", instance="r-0").store()
    found = told()
    assert found.state is RetryState.BEGUN
    assert found.begun_after_s is not None
    assert found.begun_after_s < 1


def test_once_it_was_begun_no_agent_is_told_any_more_and_the_log_says_so() -> None:
    ended("run-7", "run-8")
    there("r-0")
    retry_runs(**asked(runs=["run-7", "run-8"], reason=WHY))
    assert note_begun("dev", now=NOW) == []
    begun("run-7")
    [noted] = note_begun("dev", now=NOW + timedelta(seconds=5))
    assert (noted.run, noted.begun_at) == ("run-7", NOW + timedelta(seconds=3))
    assert note_begun("dev", now=NOW + timedelta(seconds=6)) == []
    assert [one.run for one in wishes("r-0")] == ["run-8"]
    [entry] = AuditEntry.objects.filter(verb="run.begun")
    assert (entry.object, entry.actor_name, entry.revision) == ("run run-7", "runs", 2)
    assert told().begun_after_s == 3


def test_a_run_that_was_begun_and_failed_again_can_be_asked_for_again_at_once() -> None:
    ended("run-7")
    there("r-0")
    first = retried()
    begun(at=-3)
    Story().tell(RunFinished(status=RunStatus.FAILED, duration_s=1.0), at=-4, run="run-7", instance="r-0").store()
    again = retried(now=NOW + timedelta(seconds=10))
    assert (again.was_already, again.object.pk == first.object.pk) == (False, False)
    assert RunRetry.objects.get(pk=first.object.pk).begun_at is not None


# -- the pages ---------------------------------------------------------------------------------------------------------
def leads_to_retry(answer: Any) -> bool:
    """Whether a page has a link or a button that has runs begun again."""
    page = Shown(answer)
    buttons = [one.attributes.get("formaction", "") for one in page.root.all()]
    return any(one.endswith("/retry") for one in (*page.links, *buttons))


def asked_in_the_list(client: Client) -> list[str]:
    """The runs that the list shows as asked to begin again."""
    rows = Shown(client.get("/runs")).having("key")
    return [row.data["key"].removeprefix("run-") for row in rows if Shown(row).values("asked") == ["retry"]]


def shown_acts(client: Client, run: str) -> list[str]:
    """The verbs of the audit entries that the page of a run shows."""
    keys = Shown(client.get(f"/runs/{run}?tab=audit")).values("key")
    numbers = [int(key.removeprefix("audit-")) for key in keys if key.startswith("audit-")]
    return [AuditEntry.objects.get(number=number).verb for number in numbers]


@pytest.mark.usefixtures("now")
def test_an_operator_has_a_run_begun_again_and_takes_that_back() -> None:
    ended("run-7")
    there("r-0", "r-1")
    client = signed_in(Role.OPERATOR)
    assert "/runs/run-7/retry" in Shown(client.get("/runs/run-7")).links
    form = client.get("/runs/run-7/retry").context
    assert ([one.instance for one in form["instances"]], form["own"]) == (["r-0", "r-1"], "r-0")
    assert client.post("/runs/run-7/retry", {"reason": "x" * 501}).status_code == 422
    too_long = client.post("/runs/run-7/retry", {"reason": WHY, "input": "x" * 17000})
    assert (too_long.status_code, "input-error" in Shown(too_long).ids) == (400, True)
    given = {"reason": WHY, "input": "{\r\n}", "instance": "r-0"}
    answer = client.post("/runs/run-7/retry", given)
    assert answer.headers["Location"] == "/runs/run-7"
    assert RunRetry.objects.get().input == "{\n}"
    page = Shown(client.get("/runs/run-7"))
    assert page.values("retry") == [RetryState.UNHEARD]
    assert page.within("id", "run").values("refresh-url"), "what its agent says of it is seen as it comes"
    assert f"“{WHY}”" in page.one("retry").text
    assert "/runs/run-7/retry" not in page.links, "asked already"
    assert Shown(client.get("/runs/run-7/retry")).values("no-retry") == ["asked_already"]
    assert asked_in_the_list(client) == ["run-7"]
    assert shown_acts(client, "run-7") == ["run.retry"]
    client.post("/runs/run-7/withdraw-retry", {"reason": "the bank is away again"})
    assert asked_in_the_list(client) == []
    again = Shown(client.get("/runs/run-7"))
    assert "/runs/run-7/retry" in again.links
    assert again.within("id", "run").values("refresh-url") == []


@pytest.mark.usefixtures("now")
def test_who_may_not_is_not_offered_it_and_does_not_read_the_input() -> None:
    ended("run-7")
    there("r-0")
    retried(input="the secret order")
    client = signed_in(Role.RESPONDER)
    for path in ("/runs", "/runs/run-7"):
        assert not leads_to_retry(client.get(path))
    page = client.get("/runs/run-7")
    assert Shown(page).values("input") == ["hidden"]
    assert "the secret order" not in text_of(page)
    for path in ("/runs/run-7/retry", "/runs/run-7/withdraw-retry"):
        assert client.post(path, {"reason": WHY}).status_code == 403
    assert client.post("/runs/act/retry", {"run": ["run-7"], "reason": WHY}).status_code == 403
    assert "the secret order" in text_of(signed_in(Role.OPERATOR).get("/runs/run-7"))


@pytest.mark.usefixtures("now")
def test_where_nobody_can_the_page_says_why_and_the_form_asks_for_nothing() -> None:
    ended("run-7")
    there("r-0", takes=False)
    client = signed_in(Role.OPERATOR)
    page = client.get("/runs/run-7")
    assert Shown(page).values("no-retry") == [RetryFault.NO_HOOK]
    assert "/runs/run-7/retry" not in Shown(page).links
    form = Shown(client.get("/runs/run-7/retry"))
    assert form.values("no-retry") == [RetryFault.NO_HOOK]
    assert "reason" not in form.fields
    assert client.post("/runs/run-7/retry", {"reason": WHY}).status_code == 409


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize("status", [None, RunStatus.SUCCEEDED])
def test_a_run_that_goes_on_or_went_well_is_not_offered_it(status: RunStatus | None) -> None:
    ended("run-7", status=status)
    there("r-0")
    page = Shown(signed_in(Role.OPERATOR).get("/runs/run-7"))
    assert "/runs/run-7/retry" not in page.links
    assert page.values("no-retry") == []


@pytest.mark.usefixtures("now")
def test_of_several_in_the_list_those_that_can_are_begun_again() -> None:
    ended("run-7", "run-9")
    ended("run-8", status=RunStatus.SUCCEEDED)
    there("r-0")
    client = signed_in(Role.OPERATOR)
    assert leads_to_retry(client.get("/runs"))
    form = Shown(client.get("/runs/act/retry?run=run-7&run=run-8&run=run-9"))
    assert form.values("run") == ["run-7", "run-9"]
    assert ["r-0" in one.text for one in form.having("run")] == [True, True]
    done = client.post("/runs/act/retry", {"run": ["run-7", "run-8", "run-9"], "reason": WHY})
    assert done.status_code == 303
    assert set(RunRetry.objects.values_list("run", "revision")) == {("run-7", 1), ("run-9", 1)}
    assert shown_acts(client, "run-9") == ["run.retry"]
    assert client.post("/runs/act/retry", {"run": ["run-7", "run-8"], "reason": WHY}).status_code == 409
    assert client.get("/runs/act/retry?run=moon&run=run-7").status_code == 404


# -- programs and the command line -------------------------------------------------------------------------------------
@pytest.mark.usefixtures("now")
def test_a_program_has_a_run_begun_again() -> None:
    ended("run-7")
    there("r-0")
    program = Program()
    assert program.get("runs/run-7")[1]["retry"] is None
    status, done = program.post("runs/run-7/retry", {"reason": WHY, "input": "{}"})
    assert (status, done["was_already"], done["retry"]["by"], done["retry"]["instance"]) == (
        200,
        False,
        "deployer",
        "r-0",
    )
    assert done["retry"]["input_bytes"] == 2
    _, found = program.get("runs/run-7")
    assert (found["retry"]["is_waiting"], found["retry"]["state"]) == (True, RetryState.UNHEARD)
    assert program.post("runs/moon/retry", {"reason": WHY})[0] == 404
    assert program.post("runs/run-7/retry", {"reason": WHY, "input": 7})[0] == 400
    assert program.post("runs/run-7/withdraw-retry", {"reason": TAKEN_BACK})[1]["retry"]["ended_by"]
    assert program.get("runs/run-7")[1]["retry"]["is_waiting"] is False


def test_an_operator_has_a_run_begun_again_on_the_command_line(operator: Operator) -> None:
    from django.utils import timezone

    late = (NOW - timezone.now()).total_seconds()
    Story().tell(RunStarted(name="due diligence"), at=late + 60, run="run-7", instance="r-0").tell(
        RunFinished(status=RunStatus.FAILED, duration_s=1.0), at=late + 30, run="run-7", instance="r-0"
    ).tell(heartbeat(takes_retries=True), at=late, instance="r-0").store()
    assert operator.run("runs", "retry", "run-7", "--reason", WHY, "--dry-run") == cli.DONE
    assert not RunRetry.objects.exists()
    assert operator.run("runs", "retry", "run-7", "--reason", WHY, "--input", "{}") == cli.DONE
    [said] = operator.said
    assert ["run-7" in said, "r-0" in said, "revision 1" in said] == [True] * 3
    assert RunRetry.objects.get().input == "{}"
    assert operator.run("runs", "show", "run-7") == cli.DONE
    assert left_out(operator.said[1], WHY, "r-0") == []
    assert operator.run("runs", "withdraw-retry", "run-7", "--reason", TAKEN_BACK) == cli.DONE
    assert "revision 2" in operator.said[0]
    assert RunRetry.objects.get().ended_by == "ana"
