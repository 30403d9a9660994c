"""A chain that is set up, changed, switched off or removed while questions are open: who was asked, and who will be."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors import queue
from recovery_ops.control.notifications.escalation_policies import (
    Coming,
    Plan,
    Reached,
    coming_of,
    open_under,
    plan_of,
    reached_by,
)
from recovery_ops.control.notifications.models.notifications import Channel, EscalationChain
from recovery_ops.control.notifications.services.settings import remove_chain, save_chain
from recovery_ops.rules.roles import Role
from tests.support.actions import asked
from tests.support.channels import EVA, channel
from tests.support.escalation_policies import chain, minutes, told
from tests.support.escalations import act, one_open
from tests.support.html import Shown
from tests.support.notifications import question
from tests.support.pages import signed_in
from tests.support.stories import NOW

pytestmark = pytest.mark.django_db


def changed(one: EscalationChain, *steps: tuple[float, Channel], at: float, **more: Any) -> EscalationChain:
    rows = [{"after_s": after * 60, "channel": to.pk} for after, to in steps]
    given = asked(by=EVA, number=one.pk, name=one.name, steps=rows, now=minutes(at))
    return save_chain(**given | more).object


def plan(one: Escalation, at: float) -> Plan:
    one.refresh_from_db()
    return plan_of(one, queue.story_of(one), minutes(at))


def lines(one: Escalation, at: float) -> list[tuple[str, datetime | None, datetime | None, bool]]:
    return [(step.who, step.asked_at, step.due_at, step.is_former) for step in plan(one, at).steps]


def test_a_step_that_is_put_before_others_takes_nobody_elses_place() -> None:
    chat, lead, boss = channel(name="chat"), channel(name="lead"), channel(name="boss")
    made = chain((0, chat), (15, lead))
    one = question()
    told(minutes(0))
    changed(made, (0, boss), (5, chat), (15, lead), at=2)
    assert lines(one, 2) == [
        ("boss", None, minutes(2), False),
        ("chat", NOW, None, False),
        ("lead", None, minutes(15), False),
    ]
    assert plan(one, 2).changed_at == minutes(2)
    assert told(minutes(2)) == [("boss", "began")], "whose time has passed is asked at once"
    assert told(minutes(6)) == [], "who was asked is not asked again because the step has moved"
    assert told(minutes(15)) == [("lead", "began")]


def test_who_was_asked_and_is_no_longer_in_the_chain_is_said() -> None:
    chat, lead, boss = channel(name="chat"), channel(name="lead"), channel(name="boss")
    made = chain((0, chat), (15, lead))
    one = question()
    told(minutes(0))
    changed(made, (10, boss), at=5)
    assert lines(one, 5) == [("chat", NOW, None, True), ("boss", None, minutes(10), False)]
    act("resolve", one, reason="mended by hand", now=minutes(6))
    assert told(minutes(6)) == [("chat", "ended")], "whoever was asked hears the end"


def test_one_channel_may_be_asked_twice_and_a_change_keeps_count() -> None:
    chat, lead = channel(name="chat"), channel(name="lead")
    made = chain((0, chat), (20, chat))
    one = question()
    told(minutes(0))
    changed(made, (0, chat), (10, lead), (20, chat), at=5)
    assert [(who, due) for who, _, due, _ in lines(one, 5)] == [
        ("chat", None),
        ("lead", minutes(10)),
        ("chat", minutes(20)),
    ]


def test_a_chain_that_is_set_up_later_begins_then_and_not_all_at_once() -> None:
    one = question()
    assert plan(one, 60).chain is None
    chat, lead = channel(name="chat"), channel(name="lead")
    rows = [{"after_s": after * 60, "channel": to.pk} for after, to in ((0, chat), (15, lead))]
    save_chain(**asked(by=EVA, name="*", steps=rows, now=minutes(60)))
    assert [(who, due) for who, _, due, _ in lines(one, 60)] == [("chat", minutes(60)), ("lead", minutes(75))]
    assert told(minutes(61)) == [("chat", "began")]
    assert told(minutes(74)) == []
    assert told(minutes(75)) == [("lead", "began")]


def test_switched_off_it_asks_nobody_and_switched_on_it_begins_where_nobody_was_asked() -> None:
    chat, lead, boss = channel(name="chat"), channel(name="lead"), channel(name="boss")
    made = chain((0, chat), (15, lead), (30, boss))
    steps = ((0.0, chat), (15.0, lead), (30.0, boss))
    one = question()
    told(minutes(0))
    changed(made, *steps, at=5, is_on=False)
    assert [(step.who, step.is_former) for step in plan(one, 6).steps] == [("chat", True)]
    assert told(minutes(20)) == []
    changed(made, *steps, at=40)
    assert told(minutes(41)) == []
    assert told(minutes(55)) == [("lead", "began")]
    remove_chain(**asked(by=EVA, number=made.pk, now=minutes(56)))
    assert plan(one, 57).chain is None
    assert told(minutes(90)) == []


def test_end_is_told_although_policy_is_off() -> None:
    chat = channel(name="chat")
    made = chain((0, chat))
    one = question()
    told(minutes(0))
    changed(made, (0, chat), at=5, is_on=False)
    act("resolve", one, reason="mended by hand", now=minutes(6))
    assert told(minutes(6)) == [("chat", "ended")]


def test_a_change_says_what_it_does_to_what_is_open() -> None:
    chat, lead = channel(name="chat"), channel(name="lead")
    made = chain((0, chat), (15, lead))
    question()
    question("capacity")
    told(minutes(0))
    page = signed_in(Role.EDITOR).get(f"/settings/notifications/chains/{made.pk}")
    assert open_under(made.name, "dev") == 2
    assert Shown(page).one("open").text.startswith("2 ")


def test_who_would_be_asked_after_the_run_is_answered_is_not_said_to_be_asked() -> None:
    chat, lead = channel(name="chat"), channel(name="lead")
    chain((0, chat), (4, lead), (10, lead))
    one = one_open(escalation_id="t-1", deadline_s=1300.0)
    steps = plan(one, 0).steps
    assert one.resolve_by == minutes(5)
    assert [(step.due_at, step.is_too_late) for step in steps] == [
        (NOW, False),
        (minutes(4), False),
        (None, True),
    ]
    assert Shown(signed_in(Role.VIEWER).get(f"/escalations/{one.pk}")).one("step", "3").data["state"] == "late"


def test_plan_leaves_earlier_rounds_out() -> None:
    chat, lead = channel(name="chat"), channel(name="lead")
    made = chain((0, chat), (15, lead))
    one = question()
    told(minutes(0))
    assert plan(one, 0).changed_at is None
    changed(made, (0, chat), (20, lead), at=5)
    assert plan(one, 6).changed_at == minutes(5)
    act("escalate", one, to="capacity", now=minutes(10), reason="they know more of this")
    told(minutes(10))
    assert lines(one, 11) == [("chat", minutes(10), None, False), ("lead", None, minutes(30), False)]
    assert plan(one, 11).changed_at is None


def test_open_questions_count_under_their_own_policy() -> None:
    chain((0, channel(name="chat")))
    chain((0, channel(name="lead")), name="capacity")
    question("capacity")
    question("policy_review")
    question("publish")
    act("resolve", question("refunds"), reason="mended by hand")
    Escalation.objects.filter(pk=question("elsewhere").pk).update(environment="prod")
    assert [open_under(name, "dev") for name in ("*", "capacity", "policy_review", "refunds")] == [2, 1, 1, 0]


def test_level_due_now_was_reached() -> None:
    chat, lead, boss = channel(name="chat"), channel(name="lead"), channel(name="boss")
    chain((0, chat), (15, lead), (15, boss), (30, boss))
    one = question()
    told(minutes(0))
    assert reached_by([one], minutes(15)) == {one.pk: Reached(step=3, steps=4, who="boss", at=minutes(30))}
    assert coming_of([one], minutes(14)) == {one.pk: [Coming(2, 900.0, "lead and boss"), Coming(4, 1800.0, "boss")]}
    assert coming_of([one], minutes(15)) == {one.pk: [Coming(4, 1800.0, "boss")]}
    own = chain((0, boss), name="unclassified")
    changed(own, (0, boss), at=1, is_on=False)
    assert (reached_by([one], minutes(15)), coming_of([one], minutes(15))) == ({}, {})
