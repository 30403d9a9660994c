"""A question to a person: asked once, answered by the desired state, settled by silence, taken up after a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from recovery_ops.rules.desired_state import Answer
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Escalated
from recovery_ops.rules.policy.escalation_rules import REASONS
from recovery_ops.rules.run_limits import DENIALS, ERRORS
from recovery_ops.runtime import ConfigurationError, DeadlineExceeded, RunCancelled
from recovery_ops.runtime.testing import Lab
from recovery_ops.wire import desired_document, parse_desired


def decided(lab: Lab, decision: str = "approved", **more: Any) -> None:
    """A person answers the newest question."""
    ticket = lab.events_of(Escalated)[-1].escalation_id or ""
    answer = Answer(ticket=ticket, decision=decision, by="ana", **more)
    desired = lab.recovery.desired
    lab.recovery.apply(replace(desired, revision=desired.revision + 1, answers=(*desired.answers, answer)))


def asked(lab: Lab, how: str, question: str = "Refund?", **said: Any) -> Any:
    if how == "sync":
        return lab.recovery.escalate(question, **said)
    return asyncio.run(lab.recovery.escalate_async(question, **said))


HOWS = pytest.mark.parametrize("how", ["sync", "async"])


@HOWS
def test_the_answer_of_a_person_comes_back_at_once(how: str) -> None:
    lab = Lab()
    lab.waker.at(7.0, lambda: decided(lab))
    began = lab.clock.now()
    found = asked(lab, how, proposal='{"amount": 120}', queue="refunds", operation="refund")
    assert (found.is_approved, found.text, found.by, found.is_default) == (True, '{"amount": 120}', "ana", False)
    assert lab.clock.now() == began + 7.0
    [fact] = lab.events_of(Escalated)
    assert (fact.queue, fact.operation, fact.escalation_id) == ("refunds", "refund", found.ticket)
    assert (fact.message, fact.proposal) == ("Refund?", '{"amount": 120}')
    assert (fact.deadline_s, fact.default_action) == (1800.0, "deny")


@HOWS
def test_secrets_stay_in_the_agent_and_come_back_to_it(how: str) -> None:
    lab = Lab()
    lab.waker.at(1.0, lambda: decided(lab))
    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    found = asked(lab, how, proposal=f"call it with {secret}")
    [fact] = lab.events_of(Escalated)
    assert secret not in fact.proposal
    assert found.text == f"call it with {secret}"


@HOWS
@pytest.mark.parametrize(
    ("decision", "text", "is_approved", "comes_back"),
    [("rejected", "", False, "100"), ("edited", "80", True, "80"), ("approved", "", True, "100")],
)
def test_each_decision(how: str, decision: str, text: str, is_approved: bool, comes_back: str) -> None:
    lab = Lab()
    lab.waker.at(1.0, lambda: decided(lab, decision, text=text))
    found = asked(lab, how, proposal="100")
    assert (found.is_approved, found.text) == (is_approved, comes_back)


@HOWS
@pytest.mark.parametrize("default", ["deny", "allow"])
def test_silence_means_what_the_caller_said(how: str, default: str) -> None:
    lab = Lab()
    began = lab.clock.now()
    found = asked(lab, how, timeout=60.0, default=default)
    assert (found.is_approved, found.is_default, found.by) == (default == "allow", True, "deadline")
    assert lab.clock.now() == began + 60.0


def test_without_a_word_silence_denies() -> None:
    assert not Lab().recovery.escalate("Refund?", timeout=1.0).is_approved


@HOWS
def test_the_deadline_of_the_run_stands_still_meanwhile(how: str) -> None:
    lab = Lab()

    def both() -> bool:
        with lab.recovery.run("job", source="main_agent", timeout=30.0):
            lab.waker.at(600.0, lambda: decided(lab))
            return bool(lab.recovery.escalate("Refund?").is_approved)

    async def task() -> bool:
        async with lab.recovery.run("job", source="main_agent", timeout=30.0):
            lab.waker.at(600.0, lambda: decided(lab))
            return (await lab.recovery.escalate_async("Refund?")).is_approved

    assert both() if how == "sync" else asyncio.run(task())


def test_a_run_that_is_called_off_waits_no_longer() -> None:
    lab = Lab()
    with lab.recovery.run("job", source="main_agent") as run:
        lab.waker.at(20.0, run.cancel)
        with pytest.raises(RunCancelled):
            lab.recovery.escalate("Refund?", operation="refund")


def test_a_ticket_finds_the_answer_later_and_asks_nothing_twice() -> None:
    lab = Lab()
    ticket = lab.recovery.ask("Refund?")
    assert lab.recovery.answer_to(ticket) is None
    decided(lab, "edited", text="50")
    found = lab.recovery.answer_to(ticket)
    assert found is not None
    assert (found.is_approved, found.text) == (True, "50")
    assert lab.recovery.escalate("Refund?", ticket=ticket) == found
    assert len(lab.events_of(Escalated)) == 1


def test_what_was_left_as_proposed_is_what_was_proposed_for_a_ticket_as_for_who_waits() -> None:
    lab = Lab()
    ticket = lab.recovery.ask("Refund?", proposal="120 EUR")
    assert lab.recovery.answer_to(ticket, proposal="120 EUR") is None
    decided(lab)
    by_ticket = lab.recovery.answer_to(ticket, proposal="120 EUR")
    assert by_ticket is not None
    assert (by_ticket.is_approved, by_ticket.text) == (True, "120 EUR")
    assert lab.recovery.escalate("Refund?", proposal="120 EUR", ticket=ticket) == by_ticket


def test_answers_to_others_are_nobody_elses() -> None:
    lab = Lab()
    first = lab.recovery.ask("One?")
    lab.recovery.ask("Two?")
    decided(lab)
    assert lab.recovery.answer_to(first) is None


def test_answers_travel_and_one_that_is_not_understood_spoils_nothing() -> None:
    answer = Answer(ticket="t", decision="edited", text="50", by="ana", service="billing", revision=7)
    document = desired_document(
        environment="dev",
        revision=7,
        policy={},
        policy_version="1",
        overrides=[],
        resets=[],
        issued_at=0.0,
        answers=[answer],
    )
    document["answers"].append({"ticket": "u", "decision": "postponed"})
    assert parse_desired(document).answers == (answer,)


def test_without_answers_a_document_is_what_it_always_was() -> None:
    document = desired_document(
        environment="dev", revision=7, policy={}, policy_version="1", overrides=[], resets=[], issued_at=0.0
    )
    assert "answers" not in document


def test_who_asks_again_under_a_ticket_asks_the_same_question() -> None:
    lab = Lab()
    for _ in range(2):
        lab.waker.at(1.0, lambda: decided(lab) if len(lab.events_of(Escalated)) == 2 else None)
        lab.recovery.escalate("Refund?", ticket="order-17", timeout=3.0)
    assert [fact.escalation_id for fact in lab.events_of(Escalated)] == ["order-17", "order-17"]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"reason": "because"}, "reason"),
        ({"timeout": -5}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": 1e9}, "timeout"),
        ({"timeout": "soon"}, "timeout"),
        ({"default": "maybe"}, "default"),
        ({"queue": ""}, "queue"),
        ({"queue": "x" * 65}, "queue"),
        ({"ticket": "x" * 201}, "ticket"),
        ({"question": " "}, "question"),
    ],
)
@HOWS
def test_what_nobody_could_answer_is_refused_where_it_is_written(how: str, said: dict[str, Any], field: str) -> None:
    lab = Lab()
    with pytest.raises(ConfigurationError, match=rf"\b{field} must "):
        asked(lab, how, **said)
    assert not lab.events_of(Escalated)


@HOWS
def test_unknown_question_option_is_a_type_error(how: str) -> None:
    with pytest.raises(TypeError, match="timeot"):
        asked(Lab(), how, timeot=60)


def test_every_reason_that_the_rules_themselves_give_is_one() -> None:
    assert {DENIALS, ERRORS, *Category} <= REASONS


def test_unanswered_question_lets_the_run_deadline_go_on() -> None:
    lab = Lab()
    with lab.recovery.run("refund", timeout=10):
        assert lab.recovery.escalate("Refund?", timeout=60).is_default
        assert lab.recovery.guard("search")(lambda: "in time")() == "in time"
        lab.clock.push(11.0)
        with pytest.raises(DeadlineExceeded):
            lab.recovery.guard("search")(lambda: "late")()
