"""Each way in which a tool call can end, in threads and in tasks: every row of the rules of tools."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired, Override
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.tools.results import Detail, ResultKind
from recovery_ops.rules.tools.transcript import ToolUse
from recovery_ops.runtime import Fallback, Response, Settings, StopRun, attempt, build_tool
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import PLAYS, Play, open_tool, registry_of, scripted, use
from tests.support.tool_calls import one

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture(params=PLAYS)
def play(request: pytest.FixtureRequest) -> Play:
    return PLAYS[request.param]


def tripped(lab: Lab, operation: str, *, lasts_s: float = 60.0) -> Desired:
    now = lab.clock.wall()
    override = Override(
        id="ov-1",
        mode=State.FORCED_OPEN,
        scope=Scope(operation=operation),
        reason="the provider is down",
        by="Ana Ruiz",
        starts_at=now,
        expires_at=now + lasts_s,
        revision=1,
    )
    return Desired(revision=1, overrides=(override,))


class TestSuccess:
    def test_the_model_gets_what_the_handler_returned(self, play: Play, lab: Lab) -> None:
        result = one(play, lab, scripted(lab, "search", {"hits": 3}))
        assert (result.kind, result.is_error, result.value) == (ResultKind.SUCCEEDED, False, {"hits": 3})
        assert result.content == '{"hits": 3}'
        assert result.tool_use_id == "use-search"
        assert lab.events_of(events.ToolErrorReturned) == []

    def test_async_handlers_are_awaited(self, play: Play, lab: Lab) -> None:
        async def search(q: str) -> str:
            await asyncio.sleep(0)
            return q.upper()

        assert one(play, lab, build_tool("search", search, require_permission=False), use("search", q="x")).value == "X"

    def test_a_handler_that_returns_an_awaitable_is_awaited(self, play: Play, lab: Lab) -> None:
        async def later() -> str:
            return "later"

        def search() -> Any:
            return later()

        assert one(play, lab, open_tool("search", search)).value == "later"

    def test_arguments_come_by_name_from_json_text_too(self, play: Play, lab: Lab) -> None:
        script = lab.script("ok")
        one(play, lab, open_tool("search", script), ToolUse("1", "search", '{"q": "x", "n": 2}'))
        assert script.arguments == [((), {"q": "x", "n": 2})]

    @pytest.mark.parametrize("arguments", [None, "", "  ", {}, "{}"])
    def test_no_arguments_are_no_arguments(self, play: Play, lab: Lab, arguments: object) -> None:
        script = lab.script("ok")
        one(play, lab, open_tool("search", script), ToolUse("1", "search", arguments))
        assert script.arguments == [((), {})]

    def test_each_attempt_gets_arguments_of_its_own(self, play: Play, lab: Lab) -> None:
        seen: list[list[int]] = []

        def broken(items: list[int]) -> str:
            seen.append(list(items))
            items.clear()
            if len(seen) < 2:
                raise TimeoutError
            return "ok"

        tool = open_tool("sum", broken, read_only=True, max_retries=1)
        assert one(play, lab, tool, use("sum", items=[1, 2])).value == "ok"
        assert seen == [[1, 2], [1, 2]]

    def test_what_looks_like_a_secret_is_masked_unless_code_says_otherwise(self, play: Play, lab: Lab) -> None:
        key = "sk-canary0123456789ab"
        assert one(play, lab, scripted(lab, "a", {"key": key})).content == '{"key": "[masked]"}'
        assert key in one(play, lab, scripted(lab, "b", key, masks_output=False)).content


class TestUnknownTool:
    def test_it_lists_the_tools_there_are(self, play: Play, lab: Lab) -> None:
        result = one(play, lab, scripted(lab, "search", "x"), use("serach"))
        assert (result.kind, result.is_error, result.category) == (
            ResultKind.UNKNOWN_TOOL,
            True,
            Category.MODEL_OUTPUT,
        )
        assert "there is no tool named serach" in result.content
        assert "Tools: search." in result.content

    def test_it_is_told_without_making_an_operation_of_the_models_words(self, play: Play, lab: Lab) -> None:
        one(play, lab, scripted(lab, "search", "x"), use("serach"))
        (fact,) = lab.events_of(events.ToolErrorReturned)
        assert (fact.operation, fact.tool, fact.category) == ("", "serach", Category.MODEL_OUTPUT)
        (failed,) = lab.events_of(events.FailureClassified)
        assert (failed.operation, failed.tool, failed.retryable) == ("", "serach", False)
        assert "serach" not in lab.recovery.operations


class TestInvalidArguments:
    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({}, "'n' is a required property"),
            ({"n": "one"}, "is not of type"),
            ({"n": 1, "m": 2}, "'m' was unexpected"),
            ("{not json", "could not be read as JSON"),
            ("[1]", "is not of type object"),
            ("7", "is not of type object"),
            ('{"n": NaN}', "NaN is not JSON"),
            (7, "is not of type object"),
            ("[" * 100_000, "they could not be read"),
        ],
    )
    def test_the_model_is_told_where_and_which_schema(self, play: Play, lab: Lab, arguments: object, said: str) -> None:
        script = lab.script("never")
        tool = open_tool("sum", script, input_schema=SCHEMA)
        result = one(play, lab, tool, ToolUse("1", "sum", arguments))
        assert (result.kind, result.detail) == (ResultKind.FAILED, Detail.INVALID_ARGUMENTS)
        assert result.category is Category.MODEL_OUTPUT
        assert said in result.content
        assert '"required": ["n"]' in result.content
        assert script.calls == 0

    def test_it_is_a_failure_that_the_loop_never_retries(self, play: Play, lab: Lab) -> None:
        tool = scripted(lab, "sum", 1, input_schema=SCHEMA, read_only=True, max_retries=5)
        one(play, lab, tool, use("sum"))
        (fact,) = lab.events_of(events.FailureClassified)
        assert (fact.category, fact.operation, fact.retryable) == (Category.MODEL_OUTPUT, "sum", False)
        assert lab.waits == []
        breaker = lab.recovery.breaker("sum")
        assert breaker is not None
        assert breaker.window.successes_since_failure() == 0

    def test_the_schema_of_a_handler_without_one_is_its_signature(self, play: Play, lab: Lab) -> None:
        def send(to: str, copies: int = 1) -> str:
            return to * copies

        tool = build_tool("send", send, require_permission=False)
        assert one(play, lab, tool, use("send", to="a", copies=2)).value == "aa"
        assert "'to' is a required property" in one(play, Lab(), tool, use("send", copies=2)).content


class TestOutput:
    def test_an_answer_that_fails_its_schema_counts_for_the_breaker(self, play: Play, lab: Lab) -> None:
        tool = scripted(lab, "sum", {"n": "one"}, output_schema=SCHEMA, settings=Settings(consecutive_failures=1))
        result = one(play, lab, tool)
        assert (result.kind, result.category) == (ResultKind.FAILED, Category.SCHEMA_MISMATCH)
        (changed,) = lab.events_of(events.BreakerStateChanged)
        assert changed.state is State.OPEN

    def test_an_answer_is_held_against_the_schema_as_the_model_would_see_it(self, play: Play, lab: Lab) -> None:
        assert one(play, lab, scripted(lab, "sum", (1, 2), output_schema={"type": "array"})).value == (1, 2)

    def test_a_fallback_that_only_pretends_to_answer_does_not(self, play: Play, lab: Lab) -> None:
        tool = scripted(lab, "sum", ValueError(), fallback=lambda: "not a number", output_schema={"type": "integer"})
        assert one(play, lab, tool).kind is ResultKind.FAILED


class TestExecutionFailure:
    @pytest.mark.parametrize(
        ("error", "category"),
        [
            (ValueError("x"), Category.BUG),
            (KeyError("x"), Category.NOT_FOUND),
            (404, Category.NOT_FOUND),
            (400, Category.INVALID_REQUEST),
            (OSError(28, "No space left on device"), Category.RESOURCE),
            (RuntimeError("hm"), Category.UNKNOWN),
            (Response(402), Category.QUOTA_EXHAUSTED),
            (StopIteration(7), Category.UNKNOWN),
            (TimeoutError(), Category.TIMEOUT),
        ],
    )
    def test_it_is_an_error_that_the_model_reads(self, play: Play, lab: Lab, error: Any, category: Category) -> None:
        result = one(play, lab, scripted(lab, "search", error))
        assert (result.kind, result.is_error, result.category) == (ResultKind.FAILED, True, category)
        assert f"Category: {category.value}" in result.content
        (fact,) = lab.events_of(events.ToolErrorReturned)
        assert (fact.operation, fact.tool, fact.category, fact.call_id) == (
            "search",
            "search",
            category,
            "use-search",
        )

    def test_what_went_wrong_is_classified_before_it_is_returned(self, play: Play, lab: Lab) -> None:
        one(play, lab, scripted(lab, "search", ValueError("x")))
        kinds = [type(fact) for fact in lab.events]
        assert kinds.index(events.FailureClassified) < kinds.index(events.ToolErrorReturned)

    def test_the_developer_gets_everything(self, play: Play, lab: Lab) -> None:
        cause = OSError("inner")
        error = ValueError("token=canary0123456789")
        error.__cause__ = cause
        tool = scripted(lab, "search", 503, error, read_only=True, max_retries=3)
        result = one(play, lab, tool)
        record = result.for_developer
        assert record is not None
        assert (record.tool, record.reason, record.state, record.source) == (
            "search",
            "not_retryable",
            "closed",
            "main_agent",
        )
        assert record.causes == ("ValueError", "OSError")
        assert [(one.number, one.category) for one in record.attempts] == [
            (1, Category.SERVER_ERROR),
            (2, Category.BUG),
        ]
        assert record.attempts[1].began_s == pytest.approx(0.5)
        assert "canary" not in repr(record)
        assert record.run_id

    def test_the_user_is_told_in_plain_words(self, play: Play, lab: Lab) -> None:
        told = one(play, lab, scripted(lab, "search", ValueError("host db-7"))).for_user
        assert told is not None
        assert told.message == "Something is broken on our side."
        assert told.can_retry is False

    def test_a_retry_that_helps_is_a_success(self, play: Play, lab: Lab) -> None:
        tool = scripted(lab, "search", 503, "found", read_only=True, max_retries=1)
        assert one(play, lab, tool).value == "found"
        assert lab.waits == [0.5]

    def test_nobody_retries_unless_somebody_said_so(self, play: Play, lab: Lab) -> None:
        script = lab.script(503)
        one(play, lab, open_tool("search", script, optional=True, read_only=True))
        assert script.calls == 1

    def test_the_deadline_of_an_attempt_is_a_timeout(self, lab: Lab) -> None:
        async def hang() -> None:
            await asyncio.sleep(30)

        result = one(PLAYS["tasks"], lab, open_tool("hang", hang, attempt_timeout=0.01))
        assert result.category is Category.TIMEOUT
        assert result.for_developer is not None
        assert [one.category for one in result.for_developer.attempts] == [Category.TIMEOUT]

    def test_an_async_handler_in_a_thread_has_its_deadline_too(self, lab: Lab) -> None:
        async def hang() -> None:
            await asyncio.sleep(30)

        assert one(PLAYS["threads"], lab, open_tool("hang", hang, attempt_timeout=0.01)).category is Category.TIMEOUT

    def test_a_sync_handler_is_handed_what_is_left(self, play: Play, lab: Lab) -> None:
        result = one(play, lab, open_tool("look", lambda: attempt().remaining_s, kind="document"))
        assert result.value == pytest.approx(60.0)

    def test_a_policy_no_of_the_upstream_leaves_no_chance_to_rephrase(self, play: Play, lab: Lab) -> None:
        refusal = Response(400, body={"error": {"code": "blocked_by_policy"}})
        registry = registry_of(lab, scripted(lab, "draw", refusal))
        with lab.recovery.run(source="main_agent"):
            first, second = play(registry, [use("draw", "1"), use("draw", "2")])
            assert registry.offered() == ()
        assert first.category is Category.POLICY_DENIED
        assert second.detail is Detail.STOPPED_TOOL
        assert "a person has to decide first" in second.content
        assert [fact.queue for fact in lab.events_of(events.Escalated)] == ["policy_review"]

    def test_filtered_content_leaves_tool_on_offer(self, play: Play, lab: Lab) -> None:
        filtered = Response(400, body={"error": {"code": "content_filter"}})
        registry = registry_of(lab, scripted(lab, "draw", filtered))
        with lab.recovery.run(source="main_agent"):
            [result] = play(registry, [use("draw", "1")])
            assert [tool.name for tool in registry.offered()] == ["draw"]
        assert (result.category, result.is_error) == (Category.CONTENT_REFUSED, True)
        assert lab.events_of(events.Escalated) == []


class TestRefused:
    def test_an_operators_trip_is_a_result_and_ends_no_run(self, play: Play, lab: Lab) -> None:
        script = lab.script("never")
        lab.recovery.apply(tripped(lab, "search"))
        result = one(play, lab, open_tool("search", script))
        assert (result.kind, result.detail, result.is_error) == (ResultKind.FAILED, Detail.REFUSED, True)
        assert result.retry_at is not None
        assert result.retry_at.timestamp() == pytest.approx(lab.clock.wall() + 60)
        assert f"search was not called: it is refused until {result.retry_at:%Y-%m-%dT%H:%M:%SZ}" in result.content
        assert script.calls == 0

    def test_refusals_count_in_no_guard(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", "never"))
        lab.recovery.apply(tripped(lab, "search"))
        with lab.recovery.run(source="main_agent") as run:
            results = play(registry, [use("search", str(number)) for number in range(12)])
        assert {result.detail for result in results} == {Detail.REFUSED}
        assert run.scope.guards.budget.total == 0

    def test_a_fallback_answers_and_says_so(self, play: Play, lab: Lab) -> None:
        cache = Fallback(lambda: 7, name="cache", warning="prices up to 1 h old", data_age_s=3600.0)
        tool = scripted(lab, "prices", "never", fallback=cache)
        lab.recovery.apply(tripped(lab, "prices"))
        result = one(play, lab, tool)
        assert (result.kind, result.value, result.fallback) == (ResultKind.SUCCEEDED, 7, "cache")
        assert "this comes from cache instead of prices; prices up to 1 h old" in result.content

    def test_no_time_left_is_said(self, play: Play, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "search", "never"))
        with lab.recovery.run(source="main_agent", timeout=5.0):
            lab.clock.push(6.0)
            (result,) = play(registry, [use("search")])
        assert result.detail is Detail.REFUSED
        assert "its deadline has passed" in result.content

    def test_the_gate_of_a_vendor_is_a_refusal_too(self, play: Play, lab: Lab) -> None:
        tool = scripted(lab, "search", Response(429, {"retry-after": "600"}), read_only=True)
        registry = registry_of(lab, tool)
        with lab.recovery.run(source="titles"):
            (first,), (second,) = play(registry, [use("search")]), play(registry, [use("search")])
        assert first.category is Category.RATE_LIMITED
        assert second.detail is Detail.REFUSED
        assert second.retry_at is not None


class TestWithdrawn:
    def test_an_optional_tool_is_left_out_of_the_rest_of_the_run(self, play: Play, lab: Lab) -> None:
        script = lab.script(TimeoutError())
        registry = registry_of(lab, open_tool("mood", script, optional=True), scripted(lab, "search", "x"))
        with lab.recovery.run(source="main_agent") as run:
            first, second = play(registry, [use("mood", "1"), use("mood", "2")])
            assert [tool.name for tool in registry.offered()] == ["search"]
        assert {first.detail, second.detail} == {Detail.WITHDRAWN}
        assert not first.is_error
        assert "mood is withdrawn for the rest of this task" in second.content
        assert script.calls == 1
        assert run.scope.guards.budget.total == 0

    def test_it_is_back_in_the_next_run(self, lab: Lab) -> None:
        registry = registry_of(lab, scripted(lab, "mood", TimeoutError(), "fine", optional=True))
        found = []
        for _ in range(2):
            with lab.recovery.run(source="main_agent"):
                assert [tool.name for tool in registry.offered()] == ["mood"]
                found += PLAYS["threads"](registry, [use("mood")])
        assert found[1].value == "fine"


def test_switched_off_tools_are_called_straight_and_still_give_results(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOVERY_OPS_OFF", "1")
    lab = Lab()
    tools = [scripted(lab, "search", "x"), scripted(lab, "broken", ValueError()), build_tool("asked", lambda: 1)]
    results = play(registry_of(lab, *tools), [use("search"), use("broken"), use("asked"), use("none")])
    assert [result.kind for result in results] == [
        ResultKind.SUCCEEDED,
        ResultKind.FAILED,
        ResultKind.DENIED,
        ResultKind.UNKNOWN_TOOL,
    ]
    with pytest.raises(StopRun):
        play(registry_of(lab, scripted(lab, "buckets", 403)), [use("buckets")])


def test_both_ways_tell_the_same_facts(lab: Lab) -> None:
    """Threads and tasks, the same outcomes: the same facts, but for the run's id."""
    told = []
    for play in PLAYS.values():
        own = Lab()
        tools = [
            scripted(own, "flaky", 503, "ok", read_only=True, max_retries=1),
            scripted(own, "broken", ValueError("x")),
            scripted(own, "mood", TimeoutError(), optional=True),
            scripted(own, "ended", StopIteration()),
            build_tool("asked", lambda: 1),
        ]
        with own.recovery.run(source="main_agent"):
            play(registry_of(own, *tools), [use(tool.name) for tool in tools] + [use("none")])
        told.append([replace(fact) for fact in own.events])
    assert told[0] == told[1]
