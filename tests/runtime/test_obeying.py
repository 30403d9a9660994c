"""The desired state in force: what a process does with what people want of it, and within whose limits."""

from __future__ import annotations

import pytest

from recovery_ops.rules import facts
from recovery_ops.rules.intent import Desired, Reset
from recovery_ops.rules.policy import parse_policy
from recovery_ops.rules.scope import Scope
from recovery_ops.rules.words import State, Trigger
from recovery_ops.runtime import (
    CircuitOpen,
    Fallback,
    Limits,
    RecoveryExhausted,
    Response,
)
from recovery_ops.runtime.testing import Lab
from tests.support.recovery import broken, state, tripped


@pytest.fixture
def lab() -> Lab:
    return Lab()


class TestDesired:
    def test_a_trip_stops_the_calls_and_says_why(self, lab: Lab) -> None:
        script = lab.script("ok")
        guarded = lab.recovery.guard("search")(script)
        lab.recovery.apply(tripped(lab, Scope(operation="search")))
        with pytest.raises(CircuitOpen, match="Ana Ruiz: the provider is down"):
            guarded()
        assert script.calls == 0

    def test_it_applies_to_breakers_that_do_not_exist_yet(self, lab: Lab) -> None:
        lab.recovery.apply(tripped(lab, Scope(operation="model:*")))
        with pytest.raises(CircuitOpen):
            lab.recovery.guard("model:large")(lab.script("ok"))()

    def test_it_ends_by_the_agents_own_clock(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search")(lab.script("ok"))
        lab.recovery.apply(tripped(lab, Scope(), lasts_s=60.0))
        lab.clock.push(60.0)
        lab.recovery.sweep()
        assert lab.facts_of(facts.BreakerStateChanged)[-1].trigger is Trigger.OVERRIDE_EXPIRED
        assert guarded() == "ok"

    def test_one_that_was_planned_begins_by_itself(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search")(lab.script("ok"))
        lab.recovery.apply(tripped(lab, Scope(), lasts_s=60.0, in_s=10.0))
        assert guarded() == "ok"
        lab.clock.push(10.0)
        lab.recovery.sweep()
        with pytest.raises(CircuitOpen):
            guarded()

    @pytest.mark.parametrize(
        ("scope", "holds"),
        [
            (Scope(service="lab"), True),
            (Scope(service="other"), False),
            (Scope(instance="lab-1"), True),
            (Scope(instance="lab-2"), False),
            (Scope(service="lab", operation="search"), True),
        ],
    )
    def test_only_in_its_scope(self, lab: Lab, scope: Scope, holds: bool) -> None:
        guarded = lab.recovery.guard("search")(lab.script("ok"))
        lab.recovery.apply(tripped(lab, scope))
        if holds:
            with pytest.raises(CircuitOpen):
                guarded()
        else:
            assert guarded() == "ok"

    def test_a_reset_is_obeyed_once(self, lab: Lab) -> None:
        broken(lab)
        desired = Desired(revision=4, resets=(Reset(scope=Scope(operation="search"), revision=4),))
        lab.recovery.apply(desired)
        assert state(lab) == "closed"
        broken(lab)
        lab.recovery.apply(desired)
        assert state(lab) == "open"

    def test_a_policy_edit_changes_attempts_and_keeps_breakers(self, lab: Lab) -> None:
        broken(lab)
        document = {"rules": [{"id": "r", "scope": {"operation": "*"}, "knobs": {"max_retries": 1, "base_delay_s": 3}}]}
        lab.recovery.apply(Desired(revision=2, policy=parse_policy(document)))
        other = lab.recovery.guard("fetch", is_destructive=False)(lab.script(TimeoutError()))
        with pytest.raises(RecoveryExhausted), lab.recovery.run(source="main_agent"):
            other()
        assert lab.waits == [3.0]
        breaker = lab.recovery.breaker("search")
        assert breaker is not None
        assert breaker.state is State.OPEN

    def test_a_trip_ends_a_wait_at_once(self, lab: Lab) -> None:
        guarded = lab.recovery.guard(
            "search", is_destructive=False, fallback=Fallback(lab.script("old"), name="cache")
        )(lab.script(Response(500, {"retry-after": "20"}), "ok"))
        lab.waker.at(5.0, lambda: lab.recovery.apply(tripped(lab, Scope(operation="search"))))
        began = lab.clock.now()
        with lab.recovery.run(source="main_agent"):
            assert guarded() == "old"
        assert lab.clock.now() - began == pytest.approx(5.0)

    def test_a_policy_that_no_longer_retries_ends_a_wait(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", is_destructive=False)(
            lab.script(Response(500, {"retry-after": "20"}), "ok")
        )
        policy = parse_policy({"rules": [{"id": "r", "scope": {}, "knobs": {"max_retries": 0}}]})
        lab.waker.at(5.0, lambda: lab.recovery.apply(Desired(revision=1, policy=policy)))
        with pytest.raises(RecoveryExhausted), lab.recovery.run(source="main_agent"):
            guarded()
        assert lab.clock.now() == pytest.approx(1005.0)

    def test_any_other_change_does_not_bring_a_retry_forward(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", is_destructive=False)(
            lab.script(Response(500, {"retry-after": "20"}), "ok")
        )
        lab.waker.at(5.0, lambda: lab.recovery.apply(Desired(revision=1)))
        with lab.recovery.run(source="main_agent"):
            assert guarded() == "ok"
        assert lab.clock.now() == pytest.approx(1020.0)

    def test_shared_backends_share_a_breaker(self, lab: Lab) -> None:
        broken(lab, "search", breaker="helios")
        other = lab.recovery.guard("fetch", breaker="helios")(lab.script("ok"))
        with pytest.raises(CircuitOpen):
            other()


class TestLimits:
    def test_local_ceilings_cannot_be_widened(self) -> None:
        lab = Lab(limits=Limits(most_retries=1, longest_override_s=30.0, may_be_disabled=False))
        guarded = lab.recovery.guard("search", is_destructive=False)(lab.script(TimeoutError()))
        clamped = lab.recovery.apply(tripped(lab, Scope(operation="search"), lasts_s=600.0))
        assert set(clamped) == {"search.max_retries", "search.max_retries_background", "ov-1.expires_at"}
        lab.clock.push(30.0)
        lab.recovery.sweep()
        with pytest.raises(RecoveryExhausted) as failed:
            guarded()
        assert failed.value.attempts == 1, "the first call after a trip is a probe"

    def test_an_agent_may_refuse_to_be_disabled(self) -> None:
        lab = Lab(limits=Limits(may_be_disabled=False))
        lab.recovery.guard("search")(lab.script("ok"))
        assert lab.recovery.apply(tripped(lab, Scope(), mode=State.DISABLED)) == ("ov-1.mode",)
        breaker = lab.recovery.breaker("search")
        assert breaker is not None
        assert breaker.state is State.CLOSED
