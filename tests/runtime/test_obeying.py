"""The desired state in force: what a process does with what people want of it, and within whose limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired, Probe, Reset, Shed
from recovery_ops.rules.enums import Importance, State, Trigger
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.runtime import (
    CallRejected,
    CircuitOpen,
    Fallback,
    Limits,
    RecoveryExhausted,
    Response,
)
from recovery_ops.runtime.background_thread import SETTINGS_AFTER_S
from recovery_ops.runtime.testing import Lab
from tests.support.recovery import broken, state, tripped


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


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
        assert lab.events_of(events.BreakerStateChanged)[-1].trigger is Trigger.OVERRIDE_EXPIRED
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
        document = {
            "rules": [{"id": "r", "scope": {"operation": "*"}, "settings": {"max_retries": 1, "base_delay_s": 3}}]
        }
        lab.recovery.apply(Desired(revision=2, policy=parse_policy(document)))
        other = lab.recovery.guard("fetch", idempotent=True)(lab.script(TimeoutError()))
        with pytest.raises(RecoveryExhausted), lab.recovery.run(source="main_agent"):
            other()
        assert lab.waits == [3.0]
        breaker = lab.recovery.breaker("search")
        assert breaker is not None
        assert breaker.state is State.OPEN

    def test_a_trip_ends_a_wait_at_once(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", idempotent=True, fallback=Fallback(lab.script("old"), name="cache"))(
            lab.script(Response(500, {"retry-after": "8"}), "ok")
        )
        lab.waker.at(5.0, lambda: lab.recovery.apply(tripped(lab, Scope(operation="search"))))
        began = lab.clock.now()
        with lab.recovery.run(source="main_agent"):
            assert guarded() == "old"
        assert lab.clock.now() - began == pytest.approx(5.0)

    def test_a_policy_that_no_longer_retries_ends_a_wait(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script(Response(500, {"retry-after": "20"}), "ok"))
        policy = parse_policy({"rules": [{"id": "r", "scope": {}, "settings": {"max_retries": 0}}]})
        lab.waker.at(5.0, lambda: lab.recovery.apply(Desired(revision=1, policy=policy)))
        with pytest.raises(RecoveryExhausted), lab.recovery.run(source="main_agent"):
            guarded()
        assert lab.clock.now() == pytest.approx(1005.0)

    def test_any_other_change_does_not_bring_a_retry_forward(self, lab: Lab) -> None:
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script(Response(500, {"retry-after": "20"}), "ok"))
        lab.waker.at(5.0, lambda: lab.recovery.apply(Desired(revision=1)))
        with lab.recovery.run(source="main_agent"):
            assert guarded() == "ok"
        assert lab.clock.now() == pytest.approx(1020.0)

    def test_shared_backends_share_a_breaker(self, lab: Lab) -> None:
        broken(lab, "search", breaker="helios")
        other = lab.recovery.guard("fetch", breaker="helios")(lab.script("ok"))
        with pytest.raises(CircuitOpen):
            other()


@pytest.mark.parametrize("named", ["search", "fetch", "helios"])
@pytest.mark.parametrize("order", [("search", "fetch"), ("fetch", "search")])
class TestSharedBreaker:
    """Whatever is wanted of one of its operations holds for both, whichever was there first."""

    def shared(self, lab: Lab, order: tuple[str, str]) -> dict[str, Any]:
        return {name: lab.recovery.guard(name, breaker="helios")(lab.script("ok")) for name in order}

    def opened(self, lab: Lab, order: tuple[str, str]) -> None:
        broken(lab, order[0], breaker="helios")
        lab.recovery.guard(order[1], breaker="helios")(lab.script("ok"))

    def test_trip_of_either_operation_rejects_both(self, lab: Lab, order: tuple[str, str], named: str) -> None:
        guards = self.shared(lab, order)
        lab.recovery.apply(tripped(lab, Scope(operation=named)))
        for guarded in guards.values():
            with pytest.raises(CircuitOpen) as rejected:
                guarded()
            assert (rejected.value.state, rejected.value.note) == (
                State.FORCED_OPEN,
                "Ana Ruiz: the provider is down",
            )

    def test_trip_before_registration_rejects_both(self, lab: Lab, order: tuple[str, str], named: str) -> None:
        lab.recovery.apply(tripped(lab, Scope(operation=named)))
        for guarded in self.shared(lab, order).values():
            with pytest.raises(CircuitOpen):
                guarded()

    def test_cleared_trip_lets_one_probe_pass(self, lab: Lab, order: tuple[str, str], named: str) -> None:
        guards = self.shared(lab, order)
        lab.recovery.apply(tripped(lab, Scope(operation=named)))
        lab.recovery.apply(Desired(revision=2))
        assert state(lab, "helios") == "half_open"
        assert guards["search"]() == "ok"

    def test_reset_of_either_operation_closes(self, lab: Lab, order: tuple[str, str], named: str) -> None:
        self.opened(lab, order)
        lab.recovery.apply(Desired(revision=4, resets=(Reset(scope=Scope(operation=named), revision=4),)))
        assert state(lab, "helios") == "closed"

    def test_probe_of_either_operation_half_opens(self, lab: Lab, order: tuple[str, str], named: str) -> None:
        self.opened(lab, order)
        desired = Desired(revision=4, probes=(Probe(scope=Scope(operation=named), revision=4),))
        lab.recovery.apply(desired)
        assert state(lab, "helios") == "half_open"

    def test_reset_before_registration_stays_past(self, lab: Lab, order: tuple[str, str], named: str) -> None:
        asked = Scope(operation=named)
        desired = Desired(
            revision=4, resets=(Reset(scope=asked, revision=4),), probes=(Probe(scope=asked, revision=4),)
        )
        lab.recovery.guard(order[0], breaker="helios")(lab.script("ok"))
        lab.recovery.apply(desired)
        broken(lab, order[1], breaker="helios")
        lab.recovery.apply(desired)
        assert state(lab, "helios") == "open"

    def test_settings_report_the_override_of_both(self, lab: Lab, order: tuple[str, str], named: str) -> None:
        self.shared(lab, order)
        lab.recovery.apply(tripped(lab, Scope(operation=named)))
        lab.clock.push(SETTINGS_AFTER_S)
        lab.recovery.housekeep()
        told = {fact.operation: fact.settings.get("override") for fact in lab.events_of(events.SettingsInForce)}
        assert (told["search"], told["fetch"]) == ("forced_open", "forced_open")


class TestLimits:
    def test_local_ceilings_cannot_be_widened(self) -> None:
        lab = Lab(limits=Limits(max_retries=1, max_override_s=30.0, allow_disable=False), reraise=False)
        guarded = lab.recovery.guard("search", idempotent=True)(lab.script(TimeoutError()))
        clamped = lab.recovery.apply(tripped(lab, Scope(operation="search"), lasts_s=600.0))
        assert set(clamped) == {"search.max_retries", "search.max_retries_background", "ov-1.expires_at"}
        lab.clock.push(30.0)
        lab.recovery.sweep()
        with pytest.raises(RecoveryExhausted) as failed:
            guarded()
        assert failed.value.attempts == 1, "the first call after a trip is a probe"

    @pytest.mark.parametrize("what", ["override", "shed"])
    def test_ceiling_counts_from_start_through_later_documents(self, what: str) -> None:
        lab = Lab(limits=Limits(max_override_s=60.0), reraise=False)
        guarded = lab.recovery.guard("search")(lab.script("ok"))
        now = lab.clock.wall()
        shed = Shed(
            id="s-1", least=Importance.CRITICAL, reason="r", by="b", starts_at=now, expires_at=now + 600, revision=1
        )
        document = tripped(lab, Scope(), lasts_s=600.0) if what == "override" else Desired(revision=1, shed=shed)
        passed = []
        for revision in range(1, 6):
            lab.recovery.apply(replace(document, revision=revision))
            with lab.recovery.run(source="nightly"):
                try:
                    passed.append(guarded() == "ok")
                except CallRejected:
                    passed.append(False)
            lab.clock.push(25.0)
            lab.recovery.sweep()
        assert passed == [False, False, False, True, True], "at 0, 25, 50, 75 and 100 s"

    def test_an_agent_may_refuse_to_be_disabled(self) -> None:
        lab = Lab(limits=Limits(allow_disable=False), reraise=False)
        lab.recovery.guard("search")(lab.script("ok"))
        assert lab.recovery.apply(tripped(lab, Scope(), mode=State.DISABLED)) == ("ov-1.mode",)
        breaker = lab.recovery.breaker("search")
        assert breaker is not None
        assert breaker.state is State.CLOSED
