"""What is particular to an engine: documents as JSON, a long reading that is written beside, numbers taken at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from events.window import Window
from recovery_ops.control import actions
from recovery_ops.control.actions.annotations import annotate
from recovery_ops.control.actions.replays import start_replay
from recovery_ops.control.actions.shedding import shed
from recovery_ops.control.audit import verify
from recovery_ops.control.marks import marks_in
from recovery_ops.control.models import PolicyProposal, PolicyRelease, Replay
from recovery_ops.control.questions import questions_in
from recovery_ops.control.replay import job
from recovery_ops.control.roles import Role
from tests.control.cast import SEARCH, asked, person
from tests.control.taping import Studio
from tests.control.test_replay import BUILT_IN_DOCUMENT, call, policy
from tests.events.conftest import engine
from tests.events.seeding import NOW

__all__ = ["engine"]  # the fixture

EVA = person(Role.EDITOR, "eva")


def test_a_proposal_lives_and_is_returned_from(engine: str) -> None:
    document = policy(max_retries=5, jitter=0.5)
    made = actions.propose(**asked(by=EVA, title="more patience", document=document)).object
    actions.submit(**asked(by=EVA, number=made.number))
    actions.approve(**asked(by=person(Role.APPROVER, "tom"), number=made.number))
    release = actions.release_proposal(**asked(by=EVA, number=made.number)).object
    assert PolicyRelease.objects.get(pk=release.pk).document == document
    again = actions.revise  # the same document again changes nothing, whatever the engine made of its numbers
    made = actions.propose(**asked(by=EVA, title="the same", document=document)).object
    assert again(**asked(by=EVA, number=made.number, document=document)).was_already
    assert actions.roll_back(**asked(version=1)).was_already
    assert not actions.roll_back(**asked(version=0)).was_already
    assert PolicyProposal.objects.get(number=1).state == "rolled_back"
    assert verify("dev").is_whole


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
    tripped = actions.trip(**asked(scope=SEARCH, ahead=True)).object
    shed(**asked(least="critical", confirm="dev"))
    actions.release(**asked(override_id=tripped.pk, now=NOW + timedelta(minutes=1)))
    annotate(**asked(text="deploy", at=NOW - timedelta(minutes=9)))
    annotate(**asked(text="freeze", at=NOW - timedelta(days=9), goes_on=True))
    window = Window(start=NOW - timedelta(hours=1), end=NOW + timedelta(hours=1))
    found = marks_in("dev", window, "")
    assert sorted(mark.word for mark in found) == [
        *("auto search_web", "deploy", "forced_open search_web", "freeze", "shed below critical"),
    ]
    assert {mark.word: mark.until for mark in found if mark.until} == {"freeze": window.end}
    assert "freeze" in {mark.word for mark in marks_in("dev", window, "search_web")}
    assert questions_in("dev", window, "search_web") == []
