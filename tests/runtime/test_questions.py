"""A question to a person: asked once, answered by the desired state, settled by silence, taken up after a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from recovery_ops.rules.budget import DENIALS, ERRORS
from recovery_ops.rules.escalations import REASONS
from recovery_ops.rules.facts import Escalated
from recovery_ops.rules.intent import Answer
from recovery_ops.rules.words import Category
from recovery_ops.runtime import NotConfigured, RunCancelled, answer_to, ask, escalate_to_human, escalate_to_human_async
from recovery_ops.runtime.testing import Lab
from recovery_ops.wire import desired_document, parse_desired


def decided(lab: Lab, decision: str = "approved", **more: Any) -> None:
    """A person answers the newest question."""
    ticket = lab.facts_of(Escalated)[-1].escalation_id or ""
    answer = Answer(ticket=ticket, decision=decision, by="ana", **more)
    desired = lab.recovery.desired
    lab.recovery.apply(replace(desired, revision=desired.revision + 1, answers=(*desired.answers, answer)))


def asked(lab: Lab, how: str, question: str = "Refund?", **said: Any) -> Any:
    if how == "sync":
        return escalate_to_human(lab.recovery, question, **said)
    return asyncio.run(escalate_to_human_async(lab.recovery, question, **said))


HOWS = pytest.mark.parametrize("how", ["sync", "async"])


@HOWS
def test_the_answer_of_a_person_comes_back_at_once(how: str) -> None:
    lab = Lab()
    lab.waker.at(7.0, lambda: decided(lab))
    began = lab.clock.now()
    found = asked(lab, how, proposal='{"amount": 120}', queue="refunds", operation="refund")
    assert (found.is_approved, found.text, found.by, found.is_default) == (True, '{"amount": 120}', "ana", False)
    assert lab.clock.now() == began + 7.0
    [fact] = lab.facts_of(Escalated)
    assert (fact.queue, fact.operation, fact.escalation_id) == ("refunds", "refund", found.ticket)
    assert (fact.message, fact.proposal) == ("Refund?", '{"amount": 120}')
    assert (fact.deadline_s, fact.default_action) == (1800.0, "deny")


@HOWS
def test_secrets_stay_in_the_agent_and_come_back_to_it(how: str) -> None:
    lab = Lab()
    lab.waker.at(1.0, lambda: decided(lab))
    secret = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    found = asked(lab, how, proposal=f"call it with {secret}")
    [fact] = lab.facts_of(Escalated)
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
    found = asked(lab, how, deadline_s=60.0, default=default)
    assert (found.is_approved, found.is_default, found.by) == (default == "allow", True, "deadline")
    assert lab.clock.now() == began + 60.0


def test_without_a_word_silence_denies() -> None:
    assert not escalate_to_human(Lab().recovery, "Refund?", deadline_s=1.0).is_approved


@HOWS
def test_the_deadline_of_the_run_stands_still_meanwhile(how: str) -> None:
    lab = Lab()

    def both() -> bool:
        with lab.recovery.run("job", source="main_agent", deadline_s=30.0):
            lab.waker.at(600.0, lambda: decided(lab))
            return bool(escalate_to_human(lab.recovery, "Refund?").is_approved)

    async def task() -> bool:
        async with lab.recovery.run("job", source="main_agent", deadline_s=30.0):
            lab.waker.at(600.0, lambda: decided(lab))
            return (await escalate_to_human_async(lab.recovery, "Refund?")).is_approved

    assert both() if how == "sync" else asyncio.run(task())


def test_a_run_that_is_called_off_waits_no_longer() -> None:
    lab = Lab()
    with lab.recovery.run("job", source="main_agent") as run:
        lab.waker.at(20.0, run.cancel)
        with pytest.raises(RunCancelled):
            escalate_to_human(lab.recovery, "Refund?", operation="refund")


def test_a_ticket_finds_the_answer_later_and_asks_nothing_twice() -> None:
    lab = Lab()
    ticket = ask(lab.recovery, "Refund?")
    assert answer_to(lab.recovery, ticket) is None
    decided(lab, "edited", text="50")
    found = answer_to(lab.recovery, ticket)
    assert found is not None
    assert (found.is_approved, found.text) == (True, "50")
    assert escalate_to_human(lab.recovery, "Refund?", ticket=ticket) == found
    assert len(lab.facts_of(Escalated)) == 1


def test_what_was_left_as_proposed_is_what_was_proposed_for_a_ticket_as_for_who_waits() -> None:
    lab = Lab()
    ticket = ask(lab.recovery, "Refund?", proposal="120 EUR")
    assert answer_to(lab.recovery, ticket, proposal="120 EUR") is None
    decided(lab)
    by_ticket = answer_to(lab.recovery, ticket, proposal="120 EUR")
    assert by_ticket is not None
    assert (by_ticket.is_approved, by_ticket.text) == (True, "120 EUR")
    assert escalate_to_human(lab.recovery, "Refund?", proposal="120 EUR", ticket=ticket) == by_ticket


def test_answers_to_others_are_nobody_elses() -> None:
    lab = Lab()
    first = ask(lab.recovery, "One?")
    ask(lab.recovery, "Two?")
    decided(lab)
    assert answer_to(lab.recovery, first) is None


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
        lab.waker.at(1.0, lambda: decided(lab) if len(lab.facts_of(Escalated)) == 2 else None)
        escalate_to_human(lab.recovery, "Refund?", ticket="order-17", deadline_s=3.0)
    assert [fact.escalation_id for fact in lab.facts_of(Escalated)] == ["order-17", "order-17"]


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"reason": "because"}, "reason"),
        ({"deadline_s": -5}, "deadline_s"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"deadline_s": float("nan")}, "deadline_s"),
        ({"deadline_s": 1e9}, "deadline_s"),
        ({"deadline_s": "soon"}, "deadline_s"),
        ({"default": "maybe"}, "default"),
        ({"queue": ""}, "queue"),
        ({"queue": "x" * 65}, "queue"),
        ({"ticket": "x" * 201}, "ticket"),
        ({"question": " "}, "question"),
        ({"deadlin_s": 60}, "deadlin_s"),
    ],
)
@HOWS
def test_what_nobody_could_answer_is_refused_where_it_is_written(how: str, said: dict[str, Any], field: str) -> None:
    lab = Lab()
    with pytest.raises(NotConfigured, match=rf"\b{field} (is|has|says)"):
        asked(lab, how, **said)
    assert not lab.facts_of(Escalated)


def test_every_reason_that_the_rules_themselves_give_is_one() -> None:
    assert {DENIALS, ERRORS, *Category} <= REASONS
