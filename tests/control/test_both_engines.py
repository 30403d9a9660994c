"""What is particular to an engine: documents as JSON, a long reading that is written beside, numbers taken at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from events.failures.naming import called_lately
from events.models import Fact
from events.moments import from_us
from events.pages.window import Window
from events.runs.again import begun_again
from events.runs.selectors import get_runs
from recovery_ops.control.breakers.services import overrides
from recovery_ops.control.breakers.services.load_shedding import shed
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.dashboard.marks import marks_in
from recovery_ops.control.dashboard.services import annotate
from recovery_ops.control.escalations.models import EscalationNote
from recovery_ops.control.escalations.selectors.queue import rows_of
from recovery_ops.control.escalations.selectors.timeline import questions_in
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.services.withdrawing import withdraw_called_off
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.services import proposals, releases
from recovery_ops.control.replay import job
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.control.replay.services.replays import start_replay
from recovery_ops.control.runs.services.aborts import abort_run
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.events import Escalated, RunFinished, RunStarted
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, SEARCH, asked, person
from tests.support.engines import engine
from tests.support.recording import Studio
from tests.support.replays import BUILT_IN_DOCUMENT, call, policy
from tests.support.stories import NOW, Story, failed
from tests.support.told import untold

__all__ = ["engine"]  # the fixture

EVA = person(Role.EDITOR, "eva")


def test_a_proposal_lives_and_is_returned_from(engine: str) -> None:
    document = policy(max_retries=5, jitter=0.5)
    made = proposals.propose(**asked(by=EVA, title="more patience", document=document)).object
    proposals.submit(**asked(by=EVA, number=made.number))
    proposals.approve(**asked(by=person(Role.APPROVER, "tom"), number=made.number))
    release = proposals.release_proposal(**asked(by=EVA, number=made.number)).object
    assert PolicyRelease.objects.get(pk=release.pk).document == document
    again = proposals.revise  # the same document again changes nothing, whatever the engine made of its numbers
    made = proposals.propose(**asked(by=EVA, title="the same", document=document)).object
    assert again(**asked(by=EVA, number=made.number, document=document)).was_already
    assert releases.roll_back(**asked(version=1)).was_already
    assert not releases.roll_back(**asked(version=0)).was_already
    assert PolicyProposal.objects.get(number=1).state == "rolled_back"
    assert verify_chain("dev").is_whole


@pytest.mark.parametrize("operation", ["", "search_web"])
def test_a_replay_reads_what_was_recorded(engine: str, operation: str) -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    search = studio.guard("search_web", [503, 503, "ok"] * 3)
    for _ in range(3):
        call(studio, search)
    studio.store()
    start = datetime.fromtimestamp(studio.began_s, UTC) - timedelta(seconds=1)
    end = start + timedelta(hours=1)
    made = start_replay(
        **asked(start=start, end=end, now=end, document=policy(max_retries=1), operation=operation)
    ).object
    found = job.claim(made.pk, now=start)
    assert found is not None
    job.run(found)
    done = Replay.objects.get(pk=made.pk)
    assert (done.state, done.problem) == ("done", "")
    assert done.result is not None
    assert done.result["endings"] == [{"old": "answered", "new": "failed", "calls": 3}]


def test_acts_of_every_table_are_marks(engine: str) -> None:
    """One union over tables whose columns are of different kinds."""
    tripped = overrides.trip(**asked(scope=SEARCH, ahead=True)).object
    shed(**asked(least="critical", confirm="dev"))
    overrides.release(**asked(override_id=tripped.pk, now=NOW + timedelta(minutes=1)))
    annotate(**asked(text="deploy", at=NOW - timedelta(minutes=9)))
    annotate(**asked(text="freeze", at=NOW - timedelta(days=9), goes_on=True))
    window = Window(start=NOW - timedelta(hours=1), end=NOW + timedelta(hours=1))
    found = marks_in("dev", window, "")
    assert sorted(mark.word for mark in found) == [
        *("deploy", "forced open search_web", "freeze", "load shedding below critical", "override cleared search_web"),
    ]
    assert {mark.word: mark.until for mark in found if mark.until} == {"freeze": window.end}
    assert "freeze" in {mark.word for mark in marks_in("dev", window, "search_web")}
    assert questions_in("dev", window, "search_web") == []


def test_what_was_called_off_is_withdrawn_and_a_wish_is_told(engine: str) -> None:
    question = Escalated(
        operation="refund", queue="editors", reason="policy_denied", escalation_id="t", deadline_s=900.0
    )
    Story().tell(RunStarted(name="refund"), question, at=100, run="run-1").store()
    open_escalations("dev", NOW)
    before = NOW - timedelta(seconds=60)
    abort_run(run="run-1", by=person(), environment="dev", reason=REASON, now=before)
    assert [row.abort_by for row in rows_of("dev", "open", by=None, now=NOW)] == ["ana"]
    Story().tell(RunFinished(status=RunStatus.CANCELLED, duration_s=9.0), at=30, run="run-1").store()
    assert withdraw_called_off("dev", NOW) == 1
    [row] = rows_of("dev", "resolved", by=None, now=NOW + timedelta(seconds=1))
    note = EscalationNote.objects.latest("pk")
    assert (note.by, row.one.resolution, untold(note.text, "ana", REASON)) == ("console", "withdrawn", [])
    assert untold(row.last_note, "console", "ana") == []


def test_causes_are_called_by_what_they_say_by_either_way(engine: str) -> None:
    story = Story().tell(failed(fingerprint="beef", message="no place left"), at=600)
    story.tell(failed(fingerprint="f00d", message="read timed out"), at=60).store()
    first = from_us(Fact.objects.earliest("at_us").at_us)
    found = called_lately("dev", ["f00d", "nowhere"], now=NOW, came_first={"beef": first})
    assert {name: one.message for name, one in found.items()} == {"f00d": "read timed out", "beef": "no place left"}
    assert called_lately("dev", [], now=NOW, came_first={"beef": first}).keys() == {"beef"}
    assert called_lately("dev", ["f00d"], now=NOW).keys() == {"f00d"}
    assert called_lately("dev", [], now=NOW) == {}


def test_that_a_run_was_begun_again_is_found_among_its_facts(engine: str) -> None:
    story = Story()
    for run in ("run-7", "run-8"):
        story.tell(RunStarted(name="due diligence"), at=60, run=run, instance="r-0")
    story.tell(RunFinished(status=RunStatus.FAILED, duration_s=1.0), at=50, run="run-7", instance="r-0")
    story.tell(RunStarted(name="due diligence"), at=-3, run="run-7", instance="r-1").store()
    found = begun_again("dev", {"run-7": NOW, "run-8": NOW})
    assert {run: one.begun for run, one in found.items()} == {"run-7": NOW + timedelta(seconds=3), "run-8": None}
    assert [one.holder for one in get_runs("dev", ["run-7", "run-8"])] == ["r-1", "r-0"]
