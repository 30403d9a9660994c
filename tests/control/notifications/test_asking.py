"""Chains at work: asked in time and once, stopped by whoever takes it, gone on with when that runs out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.utils import timezone

from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.escalations.selectors import queue
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.control.notifications import dispatcher
from recovery_ops.control.notifications.escalation_policies import plan_of
from recovery_ops.control.notifications.models.notifications import Channel, Delivery
from recovery_ops.control.notifications.recipients import called, names_of_responders, without_address
from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.notifications.services.settings import remove_channel, save_chain
from recovery_ops.rules.notifications.escalation_levels import EVERYBODY
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.api_client import Program
from tests.support.channels import EVA, channel, rule
from tests.support.escalation_policies import chain, minutes, told
from tests.support.escalations import act
from tests.support.escalations import person as somebody
from tests.support.html import Shown
from tests.support.notifications import question
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW

pytestmark = pytest.mark.django_db


def test_a_later_step_is_asked_at_once_by_page_and_api_and_says_whom_it_reaches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timezone, "now", lambda: minutes(1))
    chat, lead, boss = channel(name="chat"), channel(name="lead"), channel(name="boss")
    chain((0, chat), (15, lead), (30, boss))
    one, other = question(), question("publish")
    assert told(minutes(0)) == [("chat", "began"), ("chat", "began")]
    client = signed_in(Role.RESPONDER)
    client.post("/escalations/act/acknowledge", {"number": one.pk})
    monkeypatch.setattr(timezone, "now", lambda: minutes(2))
    form = text_of(client.get(f"/escalations/act/step?number={one.pk}&number={other.pk}"))
    assert all(reaches in form for reaches in (f"2: lead {one}, {other}", f"3: boss {one}, {other}"))
    assert client.post("/escalations/act/step", {"number": one.pk, "step": "1"}).status_code == 422
    assert client.post("/escalations/act/step", {"number": one.pk, "step": "3"}).status_code == 303
    assert [to for to, phase in told(minutes(2)) if phase == "began"] == ["boss"]
    assert "1m 00s" in Delivery.objects.get(channel__name="boss").lines[0], "so long nobody has it"
    assert told(minutes(20)) == [("lead", "began")], "the other goes on by its clock; of this one that is passed over"
    step = Shown(client.get(f"/escalations/{one.pk}")).one("step", "2")
    assert (step.data["state"], "lead" in step.text) == ("passed", True)
    tried = {"reason": "nobody of the team is awake", "step": 3, "dry_run": True}
    assert Program().post(f"escalations/{other.pk}/step", tried)[1]["reaches"] == "boss"
    assert told(minutes(20)) == []


def test_each_step_is_asked_once_and_everybody_hears_the_end() -> None:
    chat, pager = channel(name="chat"), channel(name="pager")
    chain((0, chat), (15, pager), (20, chat))
    one = question()
    assert told(minutes(0)) == [("chat", "began")]
    assert told(minutes(14)) == []
    assert told(minutes(15)) == [("pager", "began")]
    assert told(minutes(25)) == [("chat", "began")]
    act("resolve", one, reason="mended by hand", now=minutes(26))
    assert sorted(told(minutes(26))) == [("chat", "ended"), ("pager", "ended")]
    assert told(minutes(27)) == []
    assert told(minutes(60)) == []


def test_who_takes_it_stops_the_chain_until_it_runs_out() -> None:
    chat, pager = channel(name="chat"), channel(name="pager")
    chain((0, chat), (10, pager))
    one = question()
    assert told(minutes(0)) == [("chat", "began")]
    act("acknowledge", one, now=minutes(5))
    assert told(minutes(6)) == [("chat", "acknowledged")]
    assert told(minutes(19)) == []
    assert told(minutes(20)) == []  # the acknowledgement expires: the clock goes on from five minutes
    assert told(minutes(24)) == []
    assert told(minutes(25)) == [("pager", "began")]


def test_another_queue_begins_its_own_chain() -> None:
    chat, pager = channel(name="chat"), channel(name="pager")
    chain((0, chat))
    chain((0, pager), name="capacity")
    one = question()
    assert told(minutes(0)) == [("chat", "began")]
    act("escalate", one, to="capacity", now=minutes(1), reason="they know more of this")
    assert told(minutes(1)) == [("pager", "began")]


def test_after_an_absence_nothing_is_asked_twice() -> None:
    chat = channel(name="chat")
    chain((0, chat), (15, channel(name="pager")))
    question()
    assert told(minutes(20)) == [("chat", "began"), ("pager", "began")]
    assert told(minutes(21)) == []


def test_the_plan_says_who_was_asked_and_who_will_be() -> None:
    somebody("li")
    chat, pager = channel(name="chat"), channel(name="pager")
    chain((0, chat), (15, pager), person="li")
    one = question()
    told(minutes(0))
    plan = plan_of(one, queue.story_of(one), minutes(5))
    assert [(step.who, step.asked_at, step.due_at) for step in plan.steps] == [
        ("li, by chat", NOW, None),
        ("li, by pager", None, minutes(15)),
    ]
    assert Delivery.objects.get().title.startswith("li: ")
    act("acknowledge", one, now=minutes(5))
    assert plan_of(one, queue.story_of(one), minutes(6)).steps[1].due_at is None


def test_a_chain_asks_only_who_is_there() -> None:
    here = channel(name="chat")
    with pytest.raises(CommandRejected) as nobody:
        chain((0, here), person="ghost")
    with pytest.raises(CommandRejected) as nowhere:
        save_chain(**asked(by=EVA, name="*", steps=[{"after_s": 0, "channel": 999_999}]))
    assert [list(one.value.fields) for one in (nobody, nowhere)] == [["steps"], ["steps"]]
    assert ["ghost" in one.value.fields["steps"] for one in (nobody, nowhere)] == [True, False]
    chain((0, here))
    with pytest.raises(CommandRejected) as used:
        remove_channel(**asked(by=EVA, number=here.pk))
    assert used.value.code == "used"


def test_a_decision_through_the_api_is_told_too() -> None:
    chat = channel(name="chat")
    chain((0, chat))
    one = question()
    told(minutes(0))
    respond("approve", number=one.pk, **asked(by=person(), now=minutes(1)))
    assert told(minutes(1)) == [("chat", "ended")]


# -- to people ---------------------------------------------------------------------------------------------------------
def letters(now: datetime) -> list[tuple[str, tuple[str, ...]]]:
    """What is written to whom, as the outbox sends it."""
    mail.outbox.clear()
    tell("dev", now)
    dispatcher.send_due(now=lambda: now, chance=lambda: 0.0)
    return [(str(letter.subject), tuple(letter.recipients())) for letter in mail.outbox]


def people() -> Channel:
    """A channel that writes to people; ana and bob have an address, cleo has none, and dan may only look."""
    for name, role in (("ana", Role.RESPONDER), ("bob", Role.ADMIN), ("cleo", Role.OPERATOR), ("dan", Role.VIEWER)):
        user = User.objects.create_user(name, email="" if name == "cleo" else f"{name}@example.org")
        RoleGrant.objects.create(user=user, environment="dev", role=role)
    return channel(kind="people", name="mail", address="", secret="")


def test_a_step_writes_to_the_person_that_it_names(settings: Any) -> None:
    settings.EMAIL_IS_SET_UP = True
    to = people()
    chain((0, to), person="ana")
    chain((0, to), person="*", name="refunds")
    one = question()
    [(subject, receivers)] = letters(minutes(0))
    assert (receivers, f"ana: {one}" in subject) == (("ana@example.org",), True)
    assert Delivery.objects.get().person == "ana"
    [step] = plan_of(one, queue.story_of(one), minutes(1)).steps
    assert step.who == "ana, by mail"
    act("resolve", one, reason="mended by hand", now=minutes(2))
    assert [to for _, to in letters(minutes(2))] == [("ana@example.org",)], "who was asked hears the end"
    assert letters(minutes(3)) == []


def test_everybody_who_may_respond_is_written_to_at_once(settings: Any) -> None:
    settings.EMAIL_IS_SET_UP = True
    chain((0, people()), person="*")
    one = question()
    assert [to for _, to in letters(minutes(0))] == [("ana@example.org", "bob@example.org")]
    assert mail.outbox[0].to == [], "nobody reads where the others are written to"
    [step] = plan_of(one, queue.story_of(one), minutes(1)).steps
    assert step.who == f"{called(EVERYBODY)}, by mail"


@pytest.mark.parametrize(
    "held",
    [
        pytest.param({"group": "payments"}, id="for one group of agents"),
        pytest.param({"expires_at": NOW - timedelta(minutes=1)}, id="for a time that is over"),
        pytest.param({"environment": "prod"}, id="elsewhere"),
    ],
)
@pytest.mark.parametrize("asks", ["*", "eve"])
def test_nobody_is_written_to_who_may_not_answer_here_now(settings: Any, held: dict[str, Any], asks: str) -> None:
    settings.EMAIL_IS_SET_UP = True
    to = people()
    eve = User.objects.create_user("eve", email="eve@example.org")
    RoleGrant.objects.create(user=eve, **{"environment": "dev", "role": Role.ADMIN} | held)
    chain((0, to), person=asks)
    question()
    everybody = ("ana@example.org", "bob@example.org")
    assert [receivers for _, receivers in letters(minutes(0))] == ([everybody] if asks == "*" else [])
    assert "eve" not in names_of_responders("dev", now=NOW)


def test_a_role_that_groups_of_the_provider_stand_for_is_a_role(settings: Any) -> None:
    settings.EMAIL_IS_SET_UP = True
    to = people()
    eve = User.objects.create_user("eve", email="eve@example.org")
    RoleGrant.objects.create(
        user=eve,
        environment="*",
        role=Role.RESPONDER,
        source=RoleGrant.BY_GROUPS,
        expires_at=NOW + timedelta(minutes=1),
    )
    chain((0, to), person="eve")
    question()
    assert [receivers for _, receivers in letters(minutes(0))] == [("eve@example.org",)]


def test_who_gave_no_address_is_named_in_the_log(settings: Any) -> None:
    settings.EMAIL_IS_SET_UP = True
    chain((0, people()), person="cleo")
    question()
    assert letters(minutes(0)) == []
    made = Delivery.objects.get()
    assert (made.state, made.problem) == ("failed", without_address("cleo"))
    assert "cleo" in made.problem


def test_a_step_that_writes_to_people_names_them_and_a_rule_does_not() -> None:
    to = people()
    faults = []
    for into, person_ in ((to, ""), (to, "nobody-here"), (channel(), "*")):
        with pytest.raises(CommandRejected) as refused:
            chain((0, into), person=person_)
        assert list(refused.value.fields) == ["steps"]
        faults.append(refused.value.fields["steps"])
    assert ["nobody-here" in fault for fault in faults] == [False, True, False]
    assert len(set(faults)) == 3, "each says what is wrong with it"
    with pytest.raises(CommandRejected) as refused:
        rule(to, "capacity")
    assert list(refused.value.fields) == ["channel"]
