"""A new policy reaches running agents: every section is obeyed at once, and nothing that was counted is lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from recovery_ops import wire
from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired, Probe, Shed
from recovery_ops.rules.enums import CompensationOutcome, Importance, State, Trigger
from recovery_ops.rules.policy.model import BUILT_IN, document_of, parse_policy
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.tools.results import Detail, ResultKind
from recovery_ops.runtime import CircuitOpen, Limits, LoadShed, RecoveryExhausted, StopRun
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import open_tool, registry_of, use
from tests.support.live_policy import obey

PLAYBOOK = document_of(BUILT_IN)["playbook"]


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


def shed_now(lab: Lab, *, expires_in_s: float, starts_in_s: float = 0.0) -> Shed:
    now = lab.clock.wall()
    return Shed(
        id="sh-1",
        least=Importance.CRITICAL,
        reason="the provider is down",
        by="ann",
        starts_at=now + starts_in_s,
        expires_at=now + starts_in_s + expires_in_s,
        revision=1,
    )


def imposed(lab: Lab, revision: int = 1, **when: float) -> None:
    """An operator sheds load; as it comes from a server."""
    whole = wire.desired_document(
        environment="dev",
        revision=revision,
        policy={},
        policy_version="1",
        overrides=[],
        resets=[],
        issued_at=0.0,
        shed=shed_now(lab, **when),
    )
    lab.recovery.apply(wire.parse_desired(whole))


class TestGuards:
    def test_a_lower_limit_counts_what_has_failed_already(self, lab: Lab) -> None:
        registry = registry_of(lab, open_tool("search", lab.script(ValueError())))
        with lab.recovery.run(source="main_agent"):
            registry.run_tool(use("search"))
            obey(lab, guards={"tool_failures": 2})
            registry.run_tool(use("search"))
            assert registry.run_tool(use("search")).detail is Detail.STOPPED_TOOL

    def test_a_higher_limit_lets_a_run_go_on(self, lab: Lab) -> None:
        with lab.recovery.run(source="main_agent") as run:
            for _ in range(20):
                run.turn()
            obey(lab, guards={"turns": 21})
            assert run.turn() == 21
            with pytest.raises(StopRun):
                run.turn()

    def test_the_deadline_of_a_step_follows_its_floor_and_factor(self, lab: Lab) -> None:
        def attempts(**guards: float) -> int:
            obey(lab, guards=guards)
            script = lab.script(503)
            name = f"op-{len(lab.recovery.operations)}"
            guarded = lab.recovery.guard(
                name, idempotent=True, max_retries=9, base_delay=8.0, attempt_timeout=1.0, source="main_agent"
            )(script)
            with pytest.raises(RecoveryExhausted):
                guarded()
            return script.calls

        assert attempts() == 3  # waits of 8 and 16 s fit into 30 s
        assert attempts(step_floor_s=10) == 2
        assert attempts(step_floor_s=1, step_factor=60) == 4


class TestPlaybook:
    def test_a_dispatch_goes_by_the_live_playbook(self, lab: Lab) -> None:
        script = lab.script("ok")
        obey(lab, playbook={**PLAYBOOK, "transient_timeout": {"compensation": "deprecate_tool_call"}})
        settled = lab.recovery.dispatch_failure(
            TimeoutError(), operation="book", retry=script, idempotent=True, foreground=True
        )
        assert (settled.outcome, script.calls) == (CompensationOutcome.DEPRECATED, 0)

    def test_a_question_has_the_deadline_of_its_row(self, lab: Lab) -> None:
        row = {"queue": "policy_review", "deadline_s": 60}
        obey(lab, escalations={"policy_denied": row})
        asked: list[events.Escalated] = []
        lab.recovery.dispatch_failure(_denied(), operation="book", escalate=asked.append, foreground=True)
        assert [(one.queue, one.deadline_s, one.default_action) for one in asked] == [("policy_review", 60.0, "deny")]


def _denied() -> Exception:
    error = Exception("the gateway says no")
    error.kind = "policy_denied"  # type: ignore[attr-defined]  # as an adapter says it
    return error


class TestTools:
    def test_a_live_rule_asks_for_permission_where_code_did_not(self, lab: Lab) -> None:
        script = lab.script("paid")
        registry = registry_of(lab, open_tool("pay_now", script))
        assert registry.run_tool(use("pay_now")).kind is ResultKind.SUCCEEDED
        obey(lab, tools=[{"operation": "pay_*", "require_permission": True}])
        assert registry.run_tool(use("pay_now")).kind is ResultKind.DENIED
        obey(lab, 2)
        assert registry.run_tool(use("pay_now")).kind is ResultKind.SUCCEEDED
        assert script.calls == 2


class TestShedding:
    def shed(self, lab: Lab, least: str) -> None:
        obey(lab, rules=[{"scope": {"operation": "search"}, "settings": {"least_importance": least}}])

    def test_work_that_is_not_important_enough_is_refused_and_goes_to_its_fallback(self, lab: Lab) -> None:
        script, cache = lab.script("fresh"), lab.script("cached")
        search = lab.recovery.guard("search")(script)
        self.shed(lab, "critical")
        with lab.recovery.run(source="nightly"):
            with pytest.raises(LoadShed) as refused:
                search()
            with_cache = lab.recovery.guard("search", fallback=cache)(script)
            assert with_cache() == "cached"
        with lab.recovery.run(source="main_agent"):
            assert search() == "fresh"
        assert script.calls == 1
        assert (refused.value.operation, refused.value.retry_at) == ("search", None)
        lab.recovery.flush()
        assert [(one.reason, one.count) for one in lab.events_of(events.BreakerRejected)] == [("shed", 2)]

    def test_it_ends_with_the_policy_that_said_so(self, lab: Lab) -> None:
        script = lab.script("fresh")
        search = lab.recovery.guard("search")(script)
        self.shed(lab, "critical_plus")
        with lab.recovery.run(source="main_agent"):
            with pytest.raises(LoadShed):
                search()
            obey(lab, 2)
            assert search() == "fresh"

    def test_what_an_operator_sheds_passes_again_when_its_time_is_over_without_a_server(self, lab: Lab) -> None:
        script = lab.script("fresh", "fresh")
        search = lab.recovery.guard("search")(script)
        imposed(lab, expires_in_s=60)
        with lab.recovery.run(source="nightly"):
            with pytest.raises(LoadShed, match="ann: the provider is down") as refused:
                search()
            assert refused.value.retry_at == datetime.fromtimestamp(lab.clock.wall() + 60, UTC)
            lab.clock.push(59)
            lab.recovery.sweep()
            with pytest.raises(LoadShed):
                search()
            lab.clock.push(1)
            assert search() == "fresh"
        with lab.recovery.run(source="main_agent"):
            imposed(lab, 2, expires_in_s=60)
            assert search() == "fresh"

    def test_what_is_shed_begins_and_is_taken_back_by_state(self, lab: Lab) -> None:
        search = lab.recovery.guard("search")(lab.script("fresh", "fresh"))
        with lab.recovery.run(source="nightly"):
            imposed(lab, starts_in_s=30, expires_in_s=60)
            assert search() == "fresh"
            lab.clock.push(30)
            lab.recovery.sweep()
            with pytest.raises(LoadShed):
                search()
            lab.recovery.apply(Desired(revision=2))
            assert search() == "fresh"

    def test_the_next_begins_by_the_agents_own_clock_when_the_first_is_over(self, lab: Lab) -> None:
        search = lab.recovery.guard("search")(lab.script("fresh"))
        first, second = shed_now(lab, expires_in_s=60), shed_now(lab, starts_in_s=90, expires_in_s=60)
        lab.recovery.apply(Desired(revision=1, shed=first, sheds_ahead=(replace(second, id="sh-2"),)))
        passes = []
        for _ in range(5):
            with lab.recovery.run(source="nightly"):
                try:
                    passes.append(search() == "fresh")
                except LoadShed:
                    passes.append(False)
            lab.clock.push(40)
            lab.recovery.sweep()
        assert passes == [False, False, True, False, True], "at 0, 40, 80, 120 and 160 s"

    def test_the_stricter_of_policy_and_operator_holds(self, lab: Lab) -> None:
        search = lab.recovery.guard("search")(lab.script("fresh"))
        obey(lab, rules=[{"scope": {"operation": "search"}, "settings": {"least_importance": "critical_plus"}}])
        lab.recovery.apply(replace(lab.recovery.desired, revision=2, shed=shed_now(lab, expires_in_s=60)))
        with lab.recovery.run(source="main_agent"), pytest.raises(LoadShed):
            search()

    def test_a_local_ceiling_ends_it_sooner(self) -> None:
        lab = Lab(limits=Limits(max_override_s=60), reraise=False)
        search = lab.recovery.guard("search")(lab.script("fresh"))
        assert lab.recovery.apply(Desired(revision=1, shed=shed_now(lab, expires_in_s=3600))) == ("sh-1.expires_at",)
        lab.clock.push(61)
        with lab.recovery.run(source="nightly"):
            assert search() == "fresh"

    def test_the_model_is_told_that_a_tool_is_refused_for_now(self, lab: Lab) -> None:
        registry = registry_of(lab, open_tool("search", lab.script("fresh")))
        self.shed(lab, "critical_plus")
        with lab.recovery.run(source="main_agent"):
            result = registry.run_tool(use("search"))
        assert (result.detail, result.is_error) == (Detail.REFUSED, True)
        assert "load is shed" in result.content


def test_a_breaker_keeps_its_state_and_its_window_through_every_edit(lab: Lab) -> None:
    script = lab.script(503)
    search = lab.recovery.guard("search", idempotent=True, max_retries=0)(script)
    for number in range(5):
        obey(lab, number + 1, guards={"turns": number + 1}, playbook=PLAYBOOK)
        with pytest.raises(RecoveryExhausted), lab.recovery.run(source="main_agent"):
            search()
    breaker = lab.recovery.breaker("search")
    assert breaker is not None
    assert breaker.state is State.OPEN
    obey(lab, 9, defaults={"operation": {"consecutive_failures": 100, "failure_rate_threshold": 0}})
    with pytest.raises(CircuitOpen):
        search()


def test_a_policy_that_does_not_validate_changes_nothing(lab: Lab) -> None:
    obey(lab, guards={"turns": 7}, playbook=PLAYBOOK)
    before = lab.recovery.desired
    faulty: list[dict[str, Any]] = [
        *({"guards": {"turns": 0}}, {"playbook": {}}, {"tools": "pay"}, {"escalations": 1}, {"importance": 2})
    ]
    for broken in faulty:
        with pytest.raises(wire.DesiredInvalid):
            obey(lab, 2, **broken)
    assert lab.recovery.desired is before
    assert lab.recovery.desired == Desired(
        revision=1, policy=parse_policy({"guards": {"turns": 7}}, version="1"), environment="dev",
        config_hash=before.config_hash,
    )  # fmt: skip


class TestProbes:
    def open(self, lab: Lab) -> Any:
        search = lab.recovery.guard("search", idempotent=True, max_retries=0)(lab.script(*[503] * 5, "well"))
        for _ in range(5):
            with pytest.raises(RecoveryExhausted):
                search()
        return search

    def probe(self, lab: Lab, revision: int) -> None:
        whole = wire.desired_document(
            environment="dev", revision=revision, policy={}, policy_version="1", overrides=[], resets=[],
            probes=[Probe(scope=Scope(operation="search"), revision=1)], issued_at=0.0,
        )  # fmt: skip
        lab.recovery.apply(wire.parse_desired(whole))

    def test_one_call_is_let_through_now(self, lab: Lab) -> None:
        search = self.open(lab)
        with pytest.raises(CircuitOpen):
            search()
        self.probe(lab, 1)
        assert search() == "well"
        triggers = [fact.trigger for fact in lab.events_of(events.BreakerStateChanged)]
        assert triggers == [Trigger.CONSECUTIVE_FAILURES, Trigger.OPERATOR_PROBE, Trigger.PROBE_SUCCEEDED]

    def test_the_same_request_is_obeyed_once_however_often_it_comes(self, lab: Lab) -> None:
        self.probe(lab, 1)
        search = self.open(lab)
        self.probe(lab, 2)
        with pytest.raises(CircuitOpen):
            search()

    def test_a_closed_breaker_and_a_tripped_one_do_not_move(self, lab: Lab) -> None:
        search = lab.recovery.guard("search")(lab.script("well"))
        self.probe(lab, 1)
        assert search() == "well"
        assert lab.events_of(events.BreakerStateChanged) == []


class TestClassification:
    RULE = {"name": "busy", "match": {"message": "*is busy*", "operation": "post"}, "category": "server_error"}

    def test_a_rule_that_arrives_names_the_next_failure_and_nobody_is_asked_any_more(self, lab: Lab) -> None:
        post = lab.recovery.guard("post", idempotent=True, max_retries=1)(lab.script(Ledger("it is busy")))
        with lab.recovery.run(source="main_agent"):
            with pytest.raises(RecoveryExhausted) as before:
                post()
            obey(lab, classification=[self.RULE])
            with pytest.raises(RecoveryExhausted) as after:
                post()
        assert (before.value.category, before.value.attempts) == ("unknown", 1)
        assert (after.value.category, after.value.attempts) == ("server_error", 2)
        assert [one.queue for one in lab.events_of(events.Escalated)] == ["unclassified"]
        assert [one.rule for one in lab.events_of(events.FailureClassified)] == [None, "busy", "busy"]

    def test_in_a_task_as_in_a_thread(self, lab: Lab) -> None:
        obey(lab, classification=[self.RULE])

        @lab.recovery.guard("post", idempotent=True, max_retries=1)
        async def post() -> None:
            raise Ledger("it is busy")

        with pytest.raises(RecoveryExhausted) as found:
            asyncio.run(post())
        assert found.value.category == "server_error"
        assert found.value.failure is not None
        assert found.value.failure.instead_of == "unknown"

    def test_a_tool_and_the_playbook_go_by_it_too(self, lab: Lab) -> None:
        obey(lab, classification=[self.RULE | {"category": "not_found"}])
        registry = registry_of(lab, open_tool("post", lab.script(Ledger("it is busy"))))
        assert registry.run_tool(use("post")).category == "not_found"
        found = lab.recovery.dispatch_failure(Ledger("it is busy"), operation="post")
        assert (found.failure.category, found.verdict) == ("not_found", None)

    def test_a_list_with_a_part_that_is_not_known_changes_nothing(self, lab: Lab) -> None:
        obey(lab, classification=[self.RULE])
        with pytest.raises(wire.DesiredInvalid):
            obey(lab, 2, classification=[self.RULE | {"match": {"message": "*busy*", "region": "eu"}}])
        assert lab.recovery.failure_of(Ledger("it is busy"), "post").rule == "busy"


class Ledger(Exception):
    """What nobody knows."""
