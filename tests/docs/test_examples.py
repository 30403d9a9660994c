"""The examples of the guide do what they say; what they print is looked at with the guide."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.enums import (
    Adjustment,
    Category,
    CompensationOutcome,
    DelaySource,
    RunStatus,
    StopReason,
    Verdict,
)
from recovery_ops.runtime import GatherBlocked, RecoveryExhausted, Settings, Workflow
from recovery_ops.runtime.testing import HttpError, Lab, transcript_faults
from tests.support.sentences import left_out

Example = Callable[[str], Any]
OLD_PRICES = "prices up to 1 h old"
"""The warning that the example's fallback declares."""
NOT_ON_SUNDAYS = "nobody may call delete_page on a Sunday"
"""What the example's own check says."""


class TestReactLoop:
    """What every kind of trouble comes to. The transcript is whole after each."""

    ENDINGS = {
        "an unknown tool": "answered",
        "malformed arguments": "answered",
        "arguments that do not fit": "answered",
        "a tool that crashes": "answered",
        "our own check says no": "answered",
        "the upstream says 403": "stopped (permission)",
        "a foundational tool is down": "stopped (foundational_failed)",
        "an optional tool is down": "answered",
        "a breaker is open": "answered",
        "ten errors": "stopped (errors)",
        "no end": "stopped (turns)",
        "a loop": "stopped (repeated_calls)",
        "a context that overflows": "answered",
        "a context that is too long": "answered",
        "an overloaded model": "answered",
        "a user who cancels": "cancelled",
    }

    @staticmethod
    def played(example: Example, trouble: str) -> Any:
        stage = example("react_troubles").TROUBLES[trouble]()
        stage.ending = asyncio.run(stage.play())
        assert transcript_faults(stage.messages) == []
        return stage

    def test_every_trouble_is_looked_at_here(self, example: Example) -> None:
        assert set(example("react_troubles").TROUBLES) == {*self.ENDINGS, "no model answers"}

    @pytest.mark.parametrize("trouble", ENDINGS)
    def test_it_ends_in_order(self, example: Example, trouble: str) -> None:
        stage = self.played(example, trouble)
        how, _, words = stage.ending.partition(": ")
        assert (how, bool(words)) == (self.ENDINGS[trouble], how != "cancelled")
        calls = [block for one in stage.messages if one["role"] == "assistant" for block in one["content"]]
        assert len(stage.results()) == len([block for block in calls if block["type"] == "tool_use"])

    @pytest.mark.parametrize(
        ("trouble", "told"),
        [
            ("an unknown tool", ("search_web", "related", "delete_page", "hang")),
            ("malformed arguments", ("search_web", "schema")),
            ("arguments that do not fit", ('{"type": "object", "properties": {"query"',)),
            ("a tool that crashes", ("bug",)),
            ("our own check says no", (NOT_ON_SUNDAYS,)),
            ("an optional tool is down", ("related", "server_error")),
            ("a breaker is open", ("search_web", "2027-01-15T08:15:00Z")),
        ],
    )
    def test_the_model_is_told_what_happened_and_what_next(
        self, example: Example, trouble: str, told: tuple[str, ...]
    ) -> None:
        first = self.played(example, trouble).results()[0]
        assert left_out(first, *told) == []
        assert "Suggestion: " in first
        assert "Traceback" not in first

    def test_what_was_wrong_is_never_called(self, example: Example) -> None:
        for trouble in ("a breaker is open", "our own check says no", "ten errors"):
            assert self.played(example, trouble).search_calls.calls == 0
        for trouble in ("an unknown tool", "malformed arguments", "arguments that do not fit"):
            assert self.played(example, trouble).search_calls.calls == 1

    def test_after_an_upstreams_403_the_model_gets_no_turn_and_a_person_is_asked(self, example: Example) -> None:
        stage = self.played(example, "the upstream says 403")
        assert stage.model_calls.calls == 1
        assert "403" not in "".join(stage.results())
        assert [fact.queue for fact in stage.lab.events_of(events.Escalated)] == ["policy_review"]
        assert [fact.status for fact in stage.lab.events_of(events.RunFinished)] == [RunStatus.STOPPED]

    def test_foundational_tool_uses_its_retries_before_stop(self, example: Example) -> None:
        stage = self.played(example, "a foundational tool is down")
        assert (stage.search_calls.calls, stage.lab.waits) == (3, [0.5, 1.0])

    def test_a_withdrawn_tool_is_not_offered_again(self, example: Example) -> None:
        stage = self.played(example, "an optional tool is down")
        offered = [[tool["name"] for tool in said["tools"]] for _, said in stage.model_calls.arguments]
        assert ["related" in names for names in offered] == [True, False]
        assert [fact.status for fact in stage.lab.events_of(events.RunFinished)] == [RunStatus.DEGRADED]

    def test_the_budget_is_ten_errors_and_the_cap_is_twenty_turns(self, example: Example) -> None:
        stage = self.played(example, "ten errors")
        assert [(one.spent, one.limit) for one in stage.lab.events_of(events.BudgetExhausted)] == [(10, 10)]
        assert self.played(example, "no end").model_calls.calls == 20
        assert self.played(example, "a loop").model_calls.calls == 5

    def test_an_overflow_is_asked_again_with_what_is_left(self, example: Example) -> None:
        stage = self.played(example, "a context that overflows")
        assert [said["max_tokens"] for _, said in stage.model_calls.arguments] == [8000, 200_000 - 188_240]
        (retry,) = stage.lab.events_of(events.RetryScheduled)
        assert (retry.adjustment, retry.delay_s) == (Adjustment.MAX_TOKENS, 0.0)

    def test_a_conversation_that_is_too_long_becomes_shorter_and_stays_whole(self, example: Example) -> None:
        stage = self.played(example, "a context that is too long")
        assert [told.startswith("(left out") for told in stage.results()] == [True, False]

    def test_three_overloads_switch_the_model(self, example: Example) -> None:
        stage = self.played(example, "an overloaded model")
        assert [said["model"] for _, said in stage.model_calls.arguments] == ["large"] * 3 + ["small"]
        (switch,) = stage.lab.events_of(events.ModelFallback)
        assert (switch.from_model, switch.to_model, switch.consecutive) == ("large", "small", 3)

    def test_without_any_model_the_run_fails_with_a_time_to_try_again(self, example: Example) -> None:
        stage = self.played(example, "no model answers")
        assert stage.ending.startswith("failed: ")
        assert left_out(stage.ending, "ask_model") == []
        assert re.search(r"\d\d:\d\d:\d\d", stage.ending), "when to try again"
        assert [fact.status for fact in stage.lab.events_of(events.RunFinished)] == [RunStatus.FAILED]

    def test_after_a_cancel_each_call_says_how_far_it_came(self, example: Example) -> None:
        found, hanging, never = self.played(example, "a user who cancels").results()
        assert found == '["a page"]'
        assert left_out(hanging, "hang", "search_web") == ["search_web"]
        assert left_out(never, "search_web", "hang") == ["hang"]


class TestRefundOnce:
    def test_it_is_booked_once_and_the_provider_is_asked_what_there_is(self, example: Example) -> None:
        module, lab = example("refund_once"), Lab()
        payments = module.Payments()
        refunds = module.Refunds(lab.recovery, payments)
        refund = refunds.refund("order-7", 1999)
        assert payments.booked == [refund]
        assert payments.requests == ["refund-order-7-1999"] * 2
        assert [fact.category for fact in lab.events_of(events.FailureClassified)] == [
            Category.NETWORK,
            Category.IDEMPOTENCY_CONFLICT,
        ]
        assert len(lab.events_of(events.RetryScheduled)) == 1
        assert (refunds.settled.verdict, refunds.settled.outcome) == (
            Verdict.IDEMPOTENCY_CONFLICT,
            CompensationOutcome.DEPRECATED,
        )
        assert [one.outcome for one in lab.events_of(events.CompensationFinished)] == [CompensationOutcome.DEPRECATED]

    def test_a_key_that_was_used_for_something_else_is_a_persons_matter(self, example: Example) -> None:
        module = example("refund_once")
        payments = module.Payments(booked=[module.Refund("order-8", 5, "refund-order-7-1999")])
        refunds = module.Refunds(Lab().recovery, payments)
        with pytest.raises(HttpError) as caught:
            refunds.refund("order-7", 1999)
        assert caught.value.status_code == 409
        assert len(payments.booked) == 1

    def test_where_nothing_goes_wrong_there_is_nothing_to_settle(self, example: Example) -> None:
        module = example("refund_once")
        payments = module.Payments(loses_first_answer=False)
        refunds = module.Refunds(Lab().recovery, payments)
        assert refunds.refund("order-7", 1999) == payments.booked[0]
        assert (len(payments.requests), refunds.settled) == (1, None)


class TestHundredSteps:
    @pytest.mark.parametrize("kind", ["key", "probe"])
    def test_killed_at_47_and_resumed_each_payout_is_made_once(
        self, example: Example, tmp_path: Path, kind: str
    ) -> None:
        module = example("hundred_steps")
        assert module.killed(tmp_path, kind) == -signal.SIGKILL
        bank = module.the_bank(tmp_path, kind)
        assert bank.times() == dict.fromkeys(range(1, 48), 1)

        lab = Lab(directory=tmp_path)
        assert module.pay_all(lab.recovery, bank) == [f"receipt {number}" for number in range(1, 101)]
        assert bank.times() == dict.fromkeys(range(1, 101), 1)
        restored = [fact.step for fact in lab.events_of(events.CheckpointRestored)]
        assert restored == [f"pay-{number}" for number in range(1, 47)]
        assert lab.events_of(events.CheckpointSaved)[0].step == "pay-47"
        begun_twice = [
            one.step for one in Workflow("payouts", "2026-11", recovery=lab.recovery).steps() if one.attempts > 1
        ]
        assert begun_twice == ["pay-47"]

    def test_with_neither_key_nor_probe_it_would_have_been_paid_twice(self, example: Example, tmp_path: Path) -> None:
        """The example proves something: this bank forgets keys, and nobody asks it."""
        module = example("hundred_steps")
        module.killed(tmp_path, "key")
        bank = module.Bank(tmp_path / "ledger", knows_keys=True)
        bank.lines = list
        module.pay_all(Lab(directory=tmp_path).recovery, bank)
        assert [number for number, times in module.the_bank(tmp_path, "key").times().items() if times > 1] == [47]


class TestUnattendedJob:
    def test_half_an_hour_is_waited_out_with_a_heartbeat_each_thirty_seconds(self, example: Example) -> None:
        module, lab = example("unattended_job"), Lab()
        script = lab.script_async(module.COME_BACK_IN_30_MIN, "a digest")
        job = module.NightlyDigest(lab.recovery, script)
        assert asyncio.run(job.run("minutes")) == "a digest"
        assert job.told == lab.events_of(events.WaitHeartbeat)
        assert lab.waits == [30.0] * 60
        beats = lab.events_of(events.WaitHeartbeat)
        assert [beat.waited_s for beat in beats] == [30.0 * number for number in range(1, 60)]
        assert {beat.waited_s + beat.remaining_s for beat in beats} == {1800.0}
        (retry,) = lab.events_of(events.RetryScheduled)
        assert (retry.delay_s, retry.delay_source, retry.max_retries) == (1800.0, DelaySource.RETRY_AFTER, None)
        assert script.calls == 2

    def test_called_off_in_the_middle_it_ends_at_once(self, example: Example) -> None:
        module, lab = example("unattended_job"), Lab()
        script = lab.script_async(module.COME_BACK_IN_30_MIN, "a digest")
        began = lab.clock.now()
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(module.cancelled_after(610.0, lab, module.NightlyDigest(lab.recovery, script)))
        assert (script.calls, lab.clock.now() - began) == (1, 610.0)
        (run,) = lab.events_of(events.RunFinished)
        assert (run.status, run.duration_s) == (RunStatus.CANCELLED, 610.0)

    def test_in_background_nothing_waits_for_capacity(self, example: Example) -> None:
        """What the guide says of sources: persistent or not, who does not say that somebody waits fails at once."""
        lab = Lab()
        waiting = lab.script(example("unattended_job").COME_BACK_IN_30_MIN, "a digest")
        guarded = lab.recovery.guard("summarize", idempotent=True, settings=Settings(persistent=True))(waiting)
        with pytest.raises(HttpError), lab.recovery.run("nightly digest", source="nightly"):
            guarded()
        assert (waiting.calls, lab.waits) == (1, [])

    def test_a_pause_longer_than_it_may_wait_is_not_waited_for(self, example: Example) -> None:
        module, lab = example("unattended_job"), Lab()
        job = module.NightlyDigest(
            lab.recovery, lab.script_async(module.Response(429, headers={"retry-after": "25200"}))
        )
        with pytest.raises(RecoveryExhausted) as caught:
            asyncio.run(job.run("minutes"))
        assert (caught.value.reason, lab.waits) == (StopReason.DEADLINE, [])


class TestPartialAnswers:
    @staticmethod
    def pages(example: Example, lab: Lab, **services: Any) -> Any:
        usual = {"flights": ["LX 38"], "prices": {"LX 38": 400}, "price_cache": {"LX 38": 420}, "reviews": ["good"]}
        scripts = {name: lab.script(*services.get(name, [answer])) for name, answer in usual.items()}
        return example("partial_answers").TripPages(lab.recovery, scripts), scripts

    def test_a_fallback_answers_with_a_warning_and_an_optional_part_is_left_out(self, example: Example) -> None:
        lab = Lab()
        pages, scripts = self.pages(example, lab, prices=[503], reviews=[404])
        page = pages.make("Oslo")
        assert page.parts == {"prices": {"LX 38": 420}, "flights": ["LX 38"]}
        assert list(page.missing) == ["reviews"]
        assert page.warnings[0] == OLD_PRICES
        assert scripts["prices"].calls == 2
        (fallback,) = lab.events_of(events.FallbackActivated)
        assert (fallback.fallback, fallback.data_age_s) == ("price_cache", 3600.0)
        assert [fact.status for fact in lab.events_of(events.RunFinished)] == [RunStatus.DEGRADED]

    def test_only_what_is_not_there_is_asked_for_again(self, example: Example) -> None:
        pages, scripts = self.pages(example, Lab(), flights=[503, 503, ["LX 40"]])
        page = pages.make("Bergen")
        assert page.parts["flights"] == ["LX 40"]
        assert (scripts["flights"].calls, scripts["prices"].calls) == (3, 1)
        assert page.missing == {}

    def test_without_flights_there_is_no_page(self, example: Example) -> None:
        pages, _ = self.pages(example, Lab(), flights=[404])
        with pytest.raises(GatherBlocked) as caught:
            pages.make("Atlantis")
        assert not caught.value.can_retry
        assert set(caught.value.done) == {"prices", "reviews"}
