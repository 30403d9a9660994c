"""What ends a tool call around its function: terminal stops, cancels, hooks, and which of several reasons wins."""

from __future__ import annotations

import asyncio
import concurrent.futures
import re
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.rules.tools.results import Detail, ResultKind
from recovery_ops.runtime import ConfigurationError, Response, Settings, StopRun, attempt, build_tool
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import PLAYS, Play, open_tool, registry_of, scripted, use
from tests.support.tool_calls import one


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture(params=PLAYS)
def play(request: pytest.FixtureRequest) -> Play:
    return PLAYS[request.param]


class TestTerminalStop:
    def test_an_upstreams_permission_ends_the_run_and_the_model_learns_nothing(self, play: Play, lab: Lab) -> None:
        error = Response(403, body={"error": {"message": "role arn:aws:iam::1:role/agent may not"}})
        registry = registry_of(lab, scripted(lab, "buckets", error), scripted(lab, "search", "x"))
        with pytest.raises(StopRun) as stopped, lab.recovery.run(source="main_agent"):
            play(registry, [use("search", "1"), use("buckets", "2"), use("search", "3")])
        assert stopped.value.category is Category.PERMISSION
        before, own, after = stopped.value.results
        assert (before.kind, own.detail, after.kind) == (
            ResultKind.SUCCEEDED,
            Detail.RUN_STOPPED,
            ResultKind.CANCELLED,
        )
        for word in ("arn:aws", "403", "ermission"):
            assert word not in own.content
        assert [fact.queue for fact in lab.events_of(events.Escalated)] == ["policy_review"]
        assert len(lab.events_of(events.RunStopped)) == 1

    def test_foundational_tool_exhausted_ends_run(self, play: Play, lab: Lab) -> None:
        script = lab.script(503)
        registry = registry_of(lab, open_tool("bank", script, read_only=True, max_retries=2, foundational=True))
        with pytest.raises(StopRun) as stopped, lab.recovery.run(source="main_agent"):
            play(registry, [use("bank")])
        assert script.calls == 3
        assert (stopped.value.reason, stopped.value.operation) == ("foundational_failed", "bank")
        assert stopped.value.category is Category.SERVER_ERROR
        (fact,) = lab.events_of(events.RunStopped)
        assert (fact.reason, fact.operation) == ("foundational_failed", "bank")
        record = stopped.value.results[0].for_developer
        assert record is not None
        assert len(record.attempts) == 3
        assert record.steps == ("retry", "fail")

    def test_required_tool_exhausted_is_a_result(self, play: Play, lab: Lab) -> None:
        script = lab.script(503)
        result = one(play, lab, open_tool("bank", script, read_only=True, max_retries=2))
        assert (result.kind, result.detail, result.category) == (ResultKind.FAILED, Detail.NONE, Category.SERVER_ERROR)
        assert lab.events_of(events.RunStopped) == []

    def test_setting_ends_run_of_required_tool(self, play: Play, lab: Lab) -> None:
        rule = {"id": "strict", "scope": {"operation": "bank"}, "settings": {"stop_on_exhausted": True}}
        lab.recovery.apply(Desired(revision=2, policy=parse_policy({"rules": [rule]})))
        with pytest.raises(StopRun) as stopped, lab.recovery.run(source="main_agent"):
            play(registry_of(lab, open_tool("bank", lab.script(503), read_only=True)), [use("bank")])
        assert stopped.value.reason == "foundational_failed"

    def test_optional_and_foundational_contradict(self) -> None:
        with pytest.raises(ConfigurationError):
            build_tool("bank", lambda: "x", optional=True, foundational=True)
        with pytest.raises(ConfigurationError):
            Lab().recovery.guard("bank", optional=True, foundational=True)

    @pytest.mark.parametrize(
        ("said", "kind"),
        [
            ({"optional": True}, Detail.WITHDRAWN),
            ({"fallback": lambda: "cached"}, Detail.NONE),
            ({"idempotent": False}, Detail.NONE),
        ],
        ids=["optional", "fallback", "may have been done"],
    )
    def test_where_there_is_a_way_on_the_run_goes_on(
        self, play: Play, lab: Lab, said: dict[str, Any], kind: Detail
    ) -> None:
        tool = scripted(lab, "bank", TimeoutError(), **{"idempotent": True, "max_retries": 1} | said)
        assert one(play, lab, tool).detail is kind

    def test_a_run_that_has_ended_calls_nothing_more(self, play: Play, lab: Lab) -> None:
        script = lab.script("x")
        registry = registry_of(lab, scripted(lab, "buckets", 403), open_tool("search", script))
        with lab.recovery.run(source="main_agent") as run:
            with pytest.raises(StopRun):
                play(registry, [use("buckets")])
            with pytest.raises(StopRun) as again:
                play(registry, [use("search"), use("nothing")])
            with pytest.raises(StopRun):
                run.turn()
        assert {result.kind for result in again.value.results} == {ResultKind.CANCELLED}
        assert script.calls == 0
        assert len(lab.events_of(events.RunStopped)) == 1

    def test_outside_a_run_the_stop_is_raised_all_the_same(self, play: Play, lab: Lab) -> None:
        with pytest.raises(StopRun):
            play(registry_of(lab, scripted(lab, "buckets", 403)), [use("buckets")])

    def test_a_run_that_a_handler_ended_within_is_ended(self, play: Play, lab: Lab) -> None:
        inner = registry_of(lab, scripted(lab, "buckets", 403))

        def outer() -> str:
            PLAYS["threads"](inner, [use("buckets")])
            return "never"

        with pytest.raises(StopRun) as stopped, lab.recovery.run(source="main_agent"):
            play(registry_of(lab, open_tool("outer", outer)), [use("outer")])
        assert stopped.value.category is Category.PERMISSION


class TestCancelled:
    @pytest.mark.parametrize("error", [asyncio.CancelledError(), concurrent.futures.CancelledError()])
    def test_a_cancel_of_the_tools_own_is_no_error(self, play: Play, lab: Lab, error: BaseException) -> None:
        registry = registry_of(lab, scripted(lab, "search", error, "found"))
        with lab.recovery.run(source="main_agent") as run:
            first, second = play(registry, [use("search", "1"), use("search", "2")])
        assert (first.kind, first.is_error, second.value) == (ResultKind.CANCELLED, False, "found")
        assert run.scope.guards.budget.total == 0
        assert lab.events_of(events.ToolErrorReturned) == []


class TestHooks:
    def test_a_call_whose_key_cannot_be_made_is_not_made(self, play: Play, lab: Lab) -> None:
        script = lab.script("paid")

        def key(**arguments: Any) -> str:
            raise RuntimeError("no key store")

        result = one(play, lab, open_tool("pay", script, idempotency_key=key))
        assert result.kind is ResultKind.FAILED
        assert script.calls == 0
        (fact,) = lab.events_of(events.HookFailed)
        assert (fact.hook, fact.operation) == ("idempotency_key", "pay")

    def test_a_key_travels_with_every_attempt_and_allows_a_retry(self, play: Play, lab: Lab) -> None:
        keys: list[str | None] = []

        def pay(order: int) -> str:
            keys.append(attempt().idempotency_key)
            if len(keys) < 2:
                raise TimeoutError
            return "paid"

        tool = open_tool("pay", pay, max_retries=1, idempotency_key=lambda order: f"order-{order}")
        assert one(play, lab, tool, use("pay", order=7)).value == "paid"
        assert keys == ["order-7", "order-7"]


class TestWhoWins:
    """Live policy > code > policy defaults > fail-closed; what may do harm is code's alone."""

    @pytest.mark.parametrize(
        ("live", "code", "calls"), [(None, None, 1), (None, 2, 3), (1, 4, 2), (3, None, 4), (0, 4, 1)]
    )
    def test_the_live_policy_beats_the_code_and_the_code_its_defaults(
        self, play: Play, lab: Lab, live: int | None, code: int | None, calls: int
    ) -> None:
        script = lab.script(ConnectionResetError())
        tool = open_tool("search", script, read_only=True, optional=True, max_retries=code)
        if live is not None:
            rule = {"scope": {"operation": "search"}, "settings": {"max_retries": live}}
            lab.recovery.apply(Desired(revision=1, policy=parse_policy({"rules": [rule]})))
        one(play, lab, tool)
        assert script.calls == calls

    def test_no_policy_makes_a_destructive_tool_repeatable(self, play: Play, lab: Lab) -> None:
        script = lab.script(TimeoutError())
        rule = {"scope": {"operation": "pay"}, "settings": {"max_retries": 9}, "fallbacks": ["made-up"]}
        lab.recovery.apply(Desired(revision=1, policy=parse_policy({"rules": [rule]})))
        one(play, lab, open_tool("pay", script, fallback=lambda: "never"))
        assert script.calls == 1
        assert lab.events_of(events.FallbackActivated) == []

    def test_the_breaker_settings_of_the_code_hold(self, play: Play, lab: Lab) -> None:
        tool = scripted(lab, "search", TimeoutError(), settings=Settings(consecutive_failures=1))
        registry = registry_of(lab, tool)
        with lab.recovery.run(source="main_agent"):
            first, second = play(registry, [use("search", "1"), use("search", "2")])
        assert (first.category, second.detail) == (Category.TIMEOUT, Detail.REFUSED)


@pytest.mark.parametrize(("chars", "seen"), [(300, 300), (12, 12), (0, 0)])
def test_the_model_sees_as_much_of_a_foreign_message_as_the_policy_allows(
    play: Play, lab: Lab, chars: int, seen: int
) -> None:
    lab.recovery.apply(Desired(revision=1, policy=parse_policy({"guards": {"outside_chars": chars}})))
    error = Response(400, body={"error": {"message": "z" * 900}})
    with lab.recovery.run(source="main_agent"):
        [result] = play(registry_of(lab, scripted(lab, "search", error)), [use("search", "1")])
    assert result.is_error
    found = re.search(r'instructions\): "(.*)"', result.content)
    assert len(found.group(1) if found else "") == seen


def test_the_model_sees_as_much_of_a_reason_to_deny_as_the_policy_allows(play: Play, lab: Lab) -> None:
    lab.recovery.apply(Desired(revision=1, policy=parse_policy({"guards": {"outside_chars": 12}})))
    tool = build_tool("search", lab.script("ok"), require_permission=True)
    registry = registry_of(lab, tool, permission=lambda *_: "because " * 20)
    with lab.recovery.run(source="main_agent"):
        [result] = play(registry, [use("search", "1")])
    assert "Why: because bec…" in result.content
