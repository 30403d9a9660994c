"""The loop around a model: modify, transform, ask, and fail with what is needed to go on later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.desired_state import Desired
from recovery_ops.rules.enums import Category
from recovery_ops.rules.playbook.interventions import HELPS, MODIFICATIONS, Intervention, next_intervention
from recovery_ops.rules.policy.model import parse_policy
from recovery_ops.runtime import ConfigurationError, Failure, RecoveryExhausted, Response, StopRun
from recovery_ops.runtime.testing import Lab

FULL = Response(400, {}, {"error": {"message": "prompt is too long: 208310 tokens > 200000 maximum"}})
TIGHT = Response(400, {}, {"error": {"message": "prompt is too long: 199000 tokens > 200000 maximum"}})
Asking = Callable[..., Any]


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


@pytest.fixture(params=["thread", "task"])
def ask(request: pytest.FixtureRequest, lab: Lab) -> Asking:
    """Asks a guarded model that plays a script, in a thread or in a task, and notes the requests it got."""

    def asking(*outcomes: Any, requests: list[Any] | None = None, **hooks: Any) -> Any:
        script = lab.script(*outcomes)

        def model(request: Any) -> Any:
            if requests is not None:
                requests.append(request)
            return script()

        async def model_async(request: Any) -> Any:
            return model(request)

        said: dict[str, Any] = {"kind": "model", "max_retries": 0}
        if request.param == "thread":
            return lab.recovery.intervene(lab.recovery.guard("model", **said)(model), "hello", **hooks)
        guarded = lab.recovery.guard("model", **said)(model_async)
        return asyncio.run(lab.recovery.intervene_async(guarded, "hello", **hooks))

    return asking


def noting(request: str, how: Intervention, failure: Failure) -> str:
    return f"{request} {how.value}"


def test_a_request_that_is_answered_is_left_alone(ask: Asking) -> None:
    requests: list[str] = []
    assert (ask("hi", requests=requests, modify=noting), requests) == ("hi", ["hello"])


def test_each_modification_is_tried_once_in_order_then_the_context(ask: Asking) -> None:
    requests: list[str] = []
    answer = ask(FULL, FULL, FULL, FULL, "hi", requests=requests, modify=noting, transform=lambda *_: "compact")
    assert answer == "hi"
    assert requests == [
        "hello",
        "hello smaller_answer",
        "hello smaller_answer cut_input",
        "hello smaller_answer cut_input split",
        "compact",
    ]


def test_a_way_that_is_not_open_is_passed_over(lab: Lab, ask: Asking) -> None:
    requests: list[str] = []

    def cuts(request: str, how: Intervention, failure: Failure) -> str | None:
        assert failure.category is Category.CONTEXT_OVERFLOW
        return request[: int(len(request) * lab.recovery.input_share)] if how is Intervention.CUT_INPUT else None

    assert ask(TIGHT, "hi", requests=requests, modify=cuts) == "hi"
    assert requests == ["hello", "hel"]


def test_an_overloaded_model_is_exchanged(ask: Asking) -> None:
    requests: list[str] = []
    assert ask(529, "hi", requests=requests, modify=noting) == "hi"
    assert requests == ["hello", "hello other_model"]


def test_broken_output_goes_back_with_the_error(ask: Asking) -> None:
    error = Exception("no JSON")
    error.kind = "model_output"  # type: ignore[attr-defined]  # as an adapter says it
    requests: list[str] = []
    assert ask(error, "{}", requests=requests, modify=noting) == "{}"
    assert requests == ["hello", "hello tell_error"]


def test_a_persons_yes_sends_the_same_request_again(ask: Asking) -> None:
    requests: list[str] = []
    assert ask(ValueError(), "hi", requests=requests, ask_user=lambda failure: True) == "hi"
    assert requests == ["hello", "hello"]


@pytest.mark.parametrize("answer", [False, None, "yes"])
def test_at_last_it_fails_with_a_resume_id(ask: Asking, answer: object) -> None:
    saved: list[str] = []

    def save(request: str) -> str:
        saved.append(request)
        return "chat/7"

    with pytest.raises(RecoveryExhausted) as exhausted:
        ask(FULL, modify=noting, ask_user=lambda failure: answer, save=save)
    assert (exhausted.value.resume_id, saved) == ("chat/7", ["hello smaller_answer cut_input split"])
    assert exhausted.value.can_retry is False


def test_a_terminal_stop_is_no_occasion_for_any_of_it(ask: Asking) -> None:
    with pytest.raises(StopRun):
        ask(403, "hi", modify=noting, ask_user=lambda failure: True)


def test_a_hook_that_raises_is_told_and_passed_over(lab: Lab, ask: Asking) -> None:
    def broken(*what: object) -> str:
        raise OSError("no disk")

    with pytest.raises(RecoveryExhausted) as exhausted:
        ask(FULL, modify=broken, transform=broken, ask_user=broken, save=broken)
    assert exhausted.value.resume_id == ""
    assert [fact.hook for fact in lab.events_of(events.HookFailed)] == [
        *("smaller_answer", "cut_input", "split", "transform_context", "ask_user", "save")
    ]


def test_compaction_is_off_for_the_run_after_three_failures(lab: Lab) -> None:
    compactions: list[str] = []

    def compact(request: str, failure: Failure) -> str:
        compactions.append(request)
        return "still too long"

    model = lab.recovery.guard("model", max_retries=0)(lambda request: lab.script(FULL)())
    with lab.recovery.run(source="main_agent") as run:
        for _ in range(5):
            with pytest.raises(RecoveryExhausted):
                lab.recovery.intervene(model, "hello", transform=compact)
        assert not run.may_compact
    assert len(compactions) == 3


def test_async_callables_need_the_async_form(lab: Lab) -> None:
    async def model(request: str) -> str:
        return request

    with pytest.raises(ConfigurationError, match="intervene_async"):
        lab.recovery.intervene(model, "hello")


@pytest.mark.parametrize("category", list(Category))
def test_it_always_ends_and_offers_nothing_twice(category: Category) -> None:
    tried: set[Intervention] = set()
    offered = {*MODIFICATIONS, Intervention.TRANSFORM_CONTEXT, Intervention.ASK_A_PERSON}
    while (how := next_intervention(category, tried=tried, offered=offered)) is not Intervention.FAIL:
        assert how not in tried
        tried.add(how)
    is_askable = category not in (Category.PERMISSION, Category.CANCELLED)
    assert tried == {*HELPS.get(category, ()), *([Intervention.ASK_A_PERSON] if is_askable else [])}
    assert next_intervention(category, tried=set(), offered=set()) is Intervention.FAIL


def test_the_live_policy_says_how_much_of_the_input_is_left(lab: Lab) -> None:
    assert lab.recovery.input_share == 0.75
    lab.recovery.apply(Desired(revision=1, policy=parse_policy({"guards": {"input_share": 0.5}})))
    assert lab.recovery.input_share == 0.5
    with lab.recovery.run(source="main_agent"):
        assert lab.recovery.input_share == 0.5
