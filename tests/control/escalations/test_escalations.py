"""Questions to people: opened once for many facts, taken, put off, decided; and what happens when nobody answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.cursors import place_of
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state.document import document
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.selectors.queue import PLACE, Narrowed, page_of, row_of, rows_of
from recovery_ops.control.escalations.services.actions import RESPONSES, respond_to_each
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import BudgetExhausted, CheckpointSaved, ReversalRefused, RunStopped
from recovery_ops.rules.roles import Role
from recovery_ops.wire import parse_desired
from tests.support.escalations import act, asked, one_open, person
from tests.support.isolated import rolled_back
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story

pytestmark = pytest.mark.django_db
REASON = "it came back on Monday"


# -- opening -----------------------------------------------------------------------------------------------------------
def test_many_questions_are_opened_with_few_transactions_and_statements(
    django_assert_max_num_queries: Callable[[int], Any],
) -> None:
    story = Story()
    for number in range(120):
        story.tell(asked(operation=f"charge-{number}"), at=100, run=f"run-{number}")
        story.tell(asked(operation="refund"), at=100, run=f"run-{number}")
    story.store()
    with django_assert_max_num_queries(600) as told:
        assert open_escalations("dev", NOW) == 121
    begun = [one["sql"] for one in told.captured_queries if one["sql"].startswith("SAVEPOINT")]
    assert len(begun) <= 5
    assert open_escalations("dev", NOW) == 0
    one = Escalation.objects.get(operation="charge-7")
    assert (one.occurrences, one.runs, one.instances) == (1, ["run-7"], ["a-1"])
    again = Escalation.objects.get(operation="refund")
    assert (again.occurrences, len(again.runs), again.notes.count()) == (120, 20, 1)


def test_forty_agents_that_ask_one_thing_ask_it_once() -> None:
    story = Story()
    for number in range(40):
        story.tell(asked(), at=100 - number, instance=f"a-{number}", run=f"run-{number}")
    story.store()
    assert open_escalations("dev", NOW) == 1
    assert open_escalations("dev", NOW) == 0
    one = Escalation.objects.get()
    assert (one.occurrences, len(one.instances), len(one.runs)) == (40, 20, 20)
    assert one.seen_at == NOW - timedelta(seconds=61)
    assert (one.acknowledge_by, one.resolve_by) == (NOW + timedelta(minutes=15), NOW + timedelta(minutes=30))
    assert one.default_action == "stay_closed"
    assert [note.verb for note in one.notes.all()] == ["opened"]


def test_question_is_alike_in_any_order(subtests: pytest.Subtests) -> None:
    for order in permutations((300, 200, 100)):
        with subtests.test(order=order), rolled_back():
            for at in order:
                Story().tell(asked(), at=at, instance=f"a-{at}", run=f"run-{at}").store()
                open_escalations("dev", NOW)
            one = Escalation.objects.get()
            assert (one.occurrences, one.seen_at) == (3, NOW - timedelta(seconds=100))
            assert (one.instances, one.runs) == ([f"a-{at}" for at in order], [f"run-{at}" for at in order])
            assert one.resolve_by == NOW + timedelta(minutes=30)


def test_other_questions_are_other_escalations() -> None:
    Story().tell(
        asked(), asked(operation="other"), asked(queue="policy_review"), asked(Category.QUOTA_EXHAUSTED), at=10
    ).tell(ReversalRefused(operation="charge_card", reason="no token"), at=9).store()
    assert open_escalations("dev", NOW) == 5
    assert Escalation.objects.get(reason="reversal_refused").message == "no token"


def test_a_run_that_was_stopped_is_put_to_somebody_once() -> None:
    tried = RunStopped(operation="charge_card", reason="timeout", category=Category.TIMEOUT, message="too slow")
    denied = RunStopped(operation="charge_card", reason="permission", category=Category.PERMISSION, message="no")
    story = Story()
    for number in range(3):
        story.tell(tried, at=100 - number, run=f"slow-{number}")
        story.tell(asked(Category.PERMISSION, queue="permissions"), denied, at=50 - number, run=f"denied-{number}")
    story.store()
    assert open_escalations("dev", NOW) == 2
    slow, refused = Escalation.objects.get(queue="stopped_runs"), Escalation.objects.get(queue="permissions")
    assert (slow.reason, slow.message, slow.occurrences, slow.default_action) == ("timeout", "too slow", 3, "abort")
    assert refused.occurrences == 3


def test_a_spent_budget_is_put_to_somebody_once_whatever_the_run_spent_it_on() -> None:
    story = Story()
    for number, tool in enumerate(("search_web", "charge_card")):
        spent = BudgetExhausted(budget="errors", spent=10, limit=10)
        stopped = RunStopped(operation=tool, reason="errors", category=Category.TIMEOUT, message="Too many errors.")
        story.tell(spent, stopped, at=100 - number, run=f"run-{number}")
    story.tell(RunStopped(reason="turns", message="Too many turns."), at=10, run="run-0").store()
    assert open_escalations("dev", NOW) == 2
    one = Escalation.objects.get(reason="errors")
    assert (one.queue, one.occurrences, one.runs, one.default_action) == ("budgets", 2, ["run-0", "run-1"], "abort")
    assert "10 of 10" in one.message
    assert Escalation.objects.get(reason="turns").queue == "budgets"


def test_a_run_that_waits_has_its_own_question_and_its_own_deadline() -> None:
    Story().tell(asked(escalation_id="t-1", deadline_s=3600.0), asked(escalation_id="t-2"), asked(), at=600).store()
    assert open_escalations("dev", NOW) == 3
    assert Escalation.objects.get(ticket="t-1").resolve_by == NOW + timedelta(seconds=3000)


def test_a_run_that_waits_for_less_has_all_of_its_time_at_the_beginning() -> None:
    Story().tell(asked(escalation_id="t-1", deadline_s=300.0), at=10).store()
    open_escalations("dev", NOW)
    one = Escalation.objects.get()
    begun, half = row_of(one, NOW).acknowledging, row_of(one, NOW + timedelta(seconds=145)).acknowledging
    assert (begun.share_left, half.share_left) == (1.0, 0.5)
    acknowledged = act("acknowledge", one, now=NOW + timedelta(seconds=86))
    assert row_of(acknowledged, NOW + timedelta(seconds=90)).acknowledging.took == timedelta(seconds=86)


@pytest.mark.parametrize("deadline_s", [-5.0, 0.0, 1e300])
def test_a_deadline_that_is_none_decides_nothing_at_once(deadline_s: float) -> None:
    one = one_open(escalation_id="t-1", deadline_s=deadline_s)
    keep_deadlines("dev", NOW)
    one.refresh_from_db()
    assert one.is_open
    assert one.resolve_by > NOW + timedelta(minutes=10)


def test_a_reason_that_nobody_here_knows_is_asked_in_the_words_of_the_agent() -> None:
    row = row_of(one_open(reason="large_refund", message="May 900 EUR be refunded?"), NOW)
    assert row.asks == "May 900 EUR be refunded?"


def test_what_is_asked_again_under_its_ticket_has_its_answer() -> None:
    one = act("reject", one_open(escalation_id="order-17"))
    Story().tell(asked(escalation_id="order-17"), at=5, instance="after the restart").store()
    assert open_escalations("dev", NOW) == 0
    one.refresh_from_db()
    assert (one.occurrences, one.resolution, Escalation.objects.count()) == (2, "rejected", 1)


def test_what_was_resolved_is_asked_anew() -> None:
    first = one_open()
    act("resolve", first)
    Story().tell(asked(), at=5).store()
    assert open_escalations("dev", NOW) == 1
    assert Escalation.objects.count() == 2


# -- what people do ----------------------------------------------------------------------------------------------------
def test_who_takes_it_holds_it_until_it_runs_out() -> None:
    one = act("acknowledge", one_open())
    assert (one.acknowledged_by, one.assigned_to) == ("ana", "ana")
    assert keep_deadlines("dev", NOW + timedelta(minutes=14)) == 0
    assert keep_deadlines("dev", NOW + timedelta(minutes=15)) == 1, "half of the time in which it is to be resolved"
    one.refresh_from_db()
    assert (one.is_open, one.acknowledged_at) == (True, None)
    note = one.notes.get(verb="expired").text
    assert ("ana" in note, "15m 00s" in note) == (True, True)
    assert one.first_acknowledged_at == NOW
    assert one.assigned_to == "ana"


def test_who_let_it_lie_leaves_all_of_the_time_to_take_it_to_others_but_no_more_than_is_left() -> None:
    one = one_open()
    Escalation.objects.filter(pk=one.pk).update(resolve_by=NOW + timedelta(hours=4), resolve_in_s=4 * 3600)
    act("acknowledge", one)
    again = NOW + timedelta(minutes=31)
    keep_deadlines("dev", again)
    one.refresh_from_db()
    assert one.acknowledge_by == again + timedelta(minutes=15)
    assert not row_of(one, again).is_breached, "it was taken in time"
    act("acknowledge", one, now=NOW + timedelta(hours=3, minutes=20))
    keep_deadlines("dev", NOW + timedelta(hours=3, minutes=51))
    one.refresh_from_db()
    assert one.acknowledge_by == one.resolve_by


def test_it_is_given_to_a_person_who_is_there() -> None:
    one = one_open()
    li = get_user_model().objects.create_user("li")
    with pytest.raises(CommandRejected) as rejection:
        act("assign", one, to="li")
    assert rejection.value.code == "may_not_respond"
    RoleGrant.objects.create(user=li, environment="dev", role=Role.RESPONDER)
    assert act("assign", one, to="li").assigned_to == "li"
    with pytest.raises(CommandRejected) as rejection:
        act("assign", one, to="ghost")
    assert rejection.value.code == "unknown_person"


def test_a_snooze_ends_by_itself() -> None:
    one = act("snooze", one_open(), for_s=900)
    assert one.is_snoozed_at(NOW)
    keep_deadlines("dev", NOW + timedelta(minutes=15))
    one.refresh_from_db()
    assert one.snoozed_until is None
    assert "returned" in [note.verb for note in one.notes.all()]


@pytest.mark.parametrize("for_s", [0, 59, 8 * 86_400, float("nan")])
def test_a_snooze_has_bounds(for_s: float) -> None:
    with pytest.raises(CommandRejected) as rejection:
        act("snooze", one_open(), for_s=for_s)
    assert re.findall(r"\d+", rejection.value.fields["for_s"])[:2] == ["60", "604800"]


def test_nobody_sleeps_past_the_deadline_of_a_run_that_waits() -> None:
    one = one_open(escalation_id="t", deadline_s=1500.0)
    with pytest.raises(CommandRejected) as rejection:
        act("snooze", one, for_s=3600)
    assert rejection.value.code == "too_late"


def test_another_queue_is_asked_from_the_beginning() -> None:
    one = act("acknowledge", one_open())
    later = NOW + timedelta(minutes=10)
    moved = act("escalate", one, to="security", reason="this is theirs to judge", now=later)
    assert (moved.queue, moved.acknowledged_at, moved.assigned_to) == ("security", None, "")
    assert moved.acknowledge_by == later + timedelta(minutes=15)


def test_it_is_not_resolved_without_a_reason_while_its_cause_is_active() -> None:
    Story().tell(asked(), at=60).store()
    open_escalations("dev", NOW)
    one = Escalation.objects.get()
    with pytest.raises(CommandRejected) as rejection:
        act("resolve", one)
    assert rejection.value.code == "still_active"
    assert act("resolve", one, reason=REASON).resolution == "resolved"


def test_merging_leaves_one_and_the_old_number_leads_to_it() -> None:
    first, second = one_open(), one_open(operation="other")
    merged = act("merge", second, into=first.pk)
    first.refresh_from_db()
    assert (merged.merged_into_id, merged.is_open, first.occurrences) == (first.pk, False, 2)
    assert act("reopen", merged, reason="it was something else").merged_into is None


def test_a_decision_for_a_run_that_waits_is_a_new_revision() -> None:
    one = one_open(escalation_id="t-1")
    decided = act("approve", one, reason="the customer agreed on the phone", text='{"amount": 10}')
    assert (decided.resolution, decided.answer) == ("edited", '{"amount": 10}')
    assert decided.revision == current_revision("dev") == 1


def test_a_decision_that_nobody_waits_for_is_no_new_revision() -> None:
    assert act("reject", one_open()).resolution == "rejected"
    assert current_revision("dev") == 0


def test_what_a_run_waits_for_is_decided_and_not_just_closed() -> None:
    first, one = one_open(), one_open(escalation_id="t")
    with pytest.raises(CommandRejected) as resolving:
        act("resolve", one)
    with pytest.raises(CommandRejected) as merging:
        act("merge", one, into=first.pk)
    assert (resolving.value.code, merging.value.code) == ("waited_for", "waited_for")
    act("reject", one)
    with pytest.raises(CommandRejected) as reopening:
        act("reopen", one, reason="I was mistaken there")
    assert reopening.value.code == "answered"


def test_decision_on_an_escalation_needs_no_reason() -> None:
    assert act("approve", one_open()).resolution == Escalation.APPROVED


def test_who_acts_on_an_old_page_is_told_what_happened() -> None:
    one = one_open()
    act("acknowledge", one, by=person("li"), version=1)
    with pytest.raises(CommandRejected, match=r"\bli\b.*14:26:18 UTC") as rejection:
        act("reject", one, version=1)
    assert (rejection.value.status, rejection.value.code) == (409, "stale")


def test_a_closed_one_can_only_be_opened_and_commented_on() -> None:
    one = act("reject", one_open())
    with pytest.raises(CommandRejected) as rejection:
        act("acknowledge", one)
    assert rejection.value.code == "closed"
    act("note", one, reason=REASON)
    assert act("reopen", one, reason=REASON).is_open


@pytest.mark.parametrize("verb", RESPONSES)
def test_who_may_only_look_changes_nothing(verb: str) -> None:
    one = one_open()
    with pytest.raises(CommandRejected) as rejection:
        act(verb, one, by=person("vi", may=("see",)), reason="let me do it, please")
    assert rejection.value.status == 403
    assert EscalationNote.objects.exclude(verb="opened").count() == 0


def test_one_of_another_environment_is_not_there() -> None:
    one = one_open()
    with pytest.raises(CommandRejected) as rejection:
        act("acknowledge", one, environment="prod")
    assert rejection.value.status == 404


def test_every_act_is_in_the_chain_with_what_it_changed() -> None:
    one = act("acknowledge", one_open())
    entry = AuditEntry.objects.latest("number")
    assert (entry.verb, entry.object, entry.before["acknowledged_by"], entry.after["acknowledged_by"]) == (
        "escalation.acknowledge",
        f"ESC-{one.pk}",
        "",
        "ana",
    )
    assert audit.verify_chain("dev").problem == ""


def test_the_same_key_does_it_once() -> None:
    one = one_open()
    act("note", one, reason="asked the vendor", key="k-1")
    act("note", one, reason="asked the vendor", key="k-1")
    assert one.notes.filter(verb="note").count() == 1


def test_of_many_one_that_is_refused_holds_no_other_back() -> None:
    numbers = [one_open(operation=f"tool-{number}").pk for number in range(3)]
    act("reject", Escalation.objects.get(pk=numbers[1]))
    results = respond_to_each(
        "acknowledge", [*numbers, 999, numbers[0]], by=person(), environment="dev", reason="", now=NOW
    )
    assert [(one.number, one.is_done, one.code) for one in results] == [
        (numbers[0], True, ""),
        (numbers[1], False, "closed"),
        (numbers[2], True, ""),
        (999, False, "unknown_escalation"),
    ]
    assert "ana" in results[1].text


# -- back to the agent -------------------------------------------------------------------------------------------------
def test_the_decision_stands_in_what_the_agents_of_that_service_are_told() -> None:
    one = one_open(escalation_id="t-1")
    assert "answers" not in document("dev", service="research", now=NOW)
    act("approve", one, reason="the customer agreed on the phone", text="50")
    [answer] = parse_desired(document("dev", service="research", now=NOW)).answers
    assert (answer.ticket, answer.decision, answer.text, answer.by, answer.revision) == (
        "t-1",
        "edited",
        "50",
        "ana",
        1,
    )
    assert "answers" not in document("dev", service="billing", now=NOW)


def test_an_answer_is_told_for_two_days() -> None:
    act("reject", one_open(escalation_id="t-1"))
    later = NOW + timedelta(days=3)
    act("reject", one_open(escalation_id="t-2"), now=later)
    assert [answer["ticket"] for answer in document("dev", service="research", now=later)["answers"]] == ["t-2"]


def prioritised(name: str, severity: str, due_min: int, late: bool = False) -> int:
    """A question of this severity, taken in time, that is to be resolved in so many minutes."""
    one = one_open(operation=name)
    due = NOW + timedelta(minutes=due_min)
    times = {"acknowledged_at": None if late else NOW, "acknowledge_by": NOW + timedelta(minutes=-1 if late else 15)}
    Escalation.objects.filter(pk=one.pk).update(severity=severity, resolve_by=due, **times)
    return one.pk


def test_the_queue_goes_by_breached_then_severity_then_deadline_on_every_page_of_it() -> None:
    low_soon = prioritised("a", "low", 2)
    high_late = prioritised("b", "high", 60)
    breached_low = prioritised("c", "low", -2)
    normal = prioritised("d", "normal", 5)
    high_soon = prioritised("e", "high", 30)
    breached_high = prioritised("f", "high", 40, late=True)
    over = prioritised("g", "high", -9)
    Escalation.objects.filter(pk=over).update(default_done_at=NOW)
    order = [breached_high, breached_low, high_soon, high_late, normal, low_soon, over]
    assert [one.number for one in rows_of("dev", "open", by=None, now=NOW)] == order
    met, after = [], None
    for later in range(len(order)):  # meanwhile deadlines pass, and nothing is met twice or missed
        now = NOW + timedelta(minutes=10 * later)
        [row], cursor = page_of("dev", "open", by=None, now=now, after=after, most=1)
        met.append(row.number)
        after = place_of(cursor, PLACE) if cursor else None
    assert (met, after) == (order, None)
    high = [breached_high, high_soon, high_late, over]
    assert [one.number for one in rows_of("dev", "open", by=None, now=NOW, narrowed=Narrowed(severity="high"))] == high


def test_that_the_state_of_a_run_is_saved_is_said_where_a_checkpoint_of_it_is_known() -> None:
    spent = BudgetExhausted(budget="errors", spent=10, limit=10)
    saved = CheckpointSaved(operation="pay", workflow="payouts", step="pay-1")
    Story().tell(saved, at=1100, run="run-1").tell(spent, at=1000, run="run-1").store()
    Story().tell(spent, at=1000, run="run-2", service="billing").store()
    open_escalations("dev", NOW)
    with_state, without = (Escalation.objects.get(runs=[run]) for run in ("run-1", "run-2"))
    assert (with_state.saved_runs, without.saved_runs) == (1, 0)
    alone, unsaved = then_of(with_state), then_of(without)
    assert alone != unsaved
    said = text_of(signed_in(Role.VIEWER).get(f"/escalations/{without.pk}"))
    assert (unsaved in said, alone in said) == (True, False)
    Story().tell(spent, at=900, run="run-3").store()
    open_escalations("dev", NOW)
    with_state.refresh_from_db()
    assert "1 of 2" in then_of(with_state)
    Story().tell(saved, at=890, run="run-3").store()
    Story().tell(saved, at=890, run="run-2", service="billing").store()
    assert keep_deadlines("dev", NOW + timedelta(hours=1)) == 2
    told = {one: one.notes.get(verb="default").text for one in (with_state, without)}
    for one in told:
        one.refresh_from_db()
    assert (with_state.saved_runs, without.saved_runs) == (2, 1), "it came late"
    assert [then_of(one) in text for one, text in told.items()] == [True, True]
    assert (alone in told[with_state], alone in told[without]) == (False, True)


def test_run_with_two_checkpoints_is_saved_once() -> None:
    spent = BudgetExhausted(budget="errors", spent=10, limit=10)
    story = Story()
    for step in ("pay-1", "pay-2"):
        story.tell(CheckpointSaved(operation="pay", workflow="payouts", step=step), at=1100, run="run-1")
    for run in ("run-1", "run-2"):
        story.tell(spent, at=1000, run=run)
    story.store()
    open_escalations("dev", NOW)
    one = Escalation.objects.get()
    assert (set(one.runs), one.saved_runs) == ({"run-1", "run-2"}, 1)
