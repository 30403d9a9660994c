"""Questions that people made one: where they are asked from then on, and what comes back when one is opened again."""

from __future__ import annotations

from typing import Any

import pytest

from events.runs.selectors import run_of
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.run_answers import asked_by
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import BudgetExhausted, CheckpointSaved, RunStopped
from tests.support.escalations import act, asked, one_open
from tests.support.stories import NOW, Story, ago

pytestmark = pytest.mark.django_db


def asks(operation: str, run: str, *, at: float, instance: str = "a-1", **more: Any) -> int:
    """One more fact; how many questions are new by it."""
    Story().tell(asked(operation=operation, **more), at=at, run=run, instance=instance).store()
    return open_escalations("dev", NOW)


def test_what_was_merged_is_asked_there_as_long_as_that_is_open() -> None:
    first, second, third = one_open(), one_open(operation="other"), one_open(operation="third")
    act("merge", third, into=second.pk)
    act("merge", second, into=first.pk)
    assert asks("other", "run-7", at=500, instance="a-7") == 0
    assert asks("third", "run-8", at=400) == 0
    stopped = RunStopped(operation="third", reason="unknown", category=Category.UNKNOWN, message="no")
    Story().tell(stopped, at=390, run="run-8").store()
    assert open_escalations("dev", NOW) == 0, "what stopped the run was asked already"
    first.refresh_from_db()
    assert (first.occurrences, first.runs, first.instances) == (5, ["run-1", "run-7", "run-8"], ["a-1", "a-7"])
    assert first.seen_at == ago(390)
    act("resolve", first, reason="mended by hand")
    assert asks("other", "run-9", at=300) == 1, "what was answered is asked anew"


def test_what_is_merged_brings_its_runs_and_takes_its_number_away_again() -> None:
    first = one_open()
    asks("other", "run-1", at=900)
    asks("other", "run-2", at=800, instance="a-2")
    second = Escalation.objects.latest("pk")
    act("merge", second, into=first.pk)
    first.refresh_from_db()
    assert (first.occurrences, first.runs, first.instances) == (3, ["run-1", "run-2"], ["a-1", "a-2"])
    assert first.seen_at == second.seen_at
    version = first.version
    act("reopen", second, reason="it was something else")
    first.refresh_from_db()
    assert first.occurrences == 1
    assert first.version == version + 1, "who looks at it is told"
    note = first.notes.latest("pk")
    assert (note.verb, str(second) in note.text) == ("parted", True)
    assert asks("other", "run-3", at=100) == 0, "it is open again, so it is asked there"
    second.refresh_from_db()
    assert second.occurrences == 3


def test_what_silence_leaves_stopped_counts_the_checkpoints_of_the_runs_that_it_got() -> None:
    spent = BudgetExhausted(budget="errors", spent=10, limit=10)
    saved = CheckpointSaved(operation="pay", workflow="payouts", step="pay-1")
    Story().tell(saved, at=1100, run="run-1").tell(spent, at=1000, run="run-1").store()
    Story().tell(spent, at=990, run="run-2", service="billing").store()
    open_escalations("dev", NOW)
    first, second = (Escalation.objects.get(runs=[run]) for run in ("run-1", "run-2"))
    act("merge", second, into=first.pk)
    first.refresh_from_db()
    assert (first.saved_runs, "1 of 2" in then_of(first)) == (1, True)


def test_what_is_opened_again_has_no_answer_until_it_gets_one() -> None:
    one = one_open()
    act("reject", one, text="not before the audit")
    assert act("reopen", one, reason="the audit is over").answer == ""
    assert act("resolve", one, reason="done by hand").answer == ""


def test_what_leaves_a_chain_of_merges_is_given_back_all_the_way_up() -> None:
    first, second, third = one_open(), one_open(operation="other"), one_open(operation="third")
    act("merge", third, into=second.pk)
    act("merge", second, into=first.pk)
    first.refresh_from_db()
    assert first.occurrences == 3
    act("reopen", third, reason="it was something else")
    assert list(Escalation.objects.order_by("pk").values_list("occurrences", flat=True)) == [2, 1, 1]


def test_a_run_names_what_it_asked_once_wherever_that_went() -> None:
    first, second, third = one_open(), one_open(operation="other"), one_open(operation="third")
    asks("third", "run-2", at=900)
    act("merge", third, into=second.pk)
    act("merge", second, into=first.pk)
    story = run_of("dev", "run-2")
    assert story is not None
    assert [one.pk for one in asked_by("dev", story).questions] == [third.pk]
