"""The names that others build on: their signatures, fields and tree, documented, and typed for a strict reader."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest

from recovery_ops import runtime
from recovery_ops.rules.classification.classify import Failure, Overflow
from recovery_ops.rules.resilience.retry import RetryDecision
from recovery_ops.runtime import errors
from recovery_ops.runtime.human_input import QuestionOptions
from recovery_ops.runtime.playbook.interventions import Hooks
from recovery_ops.runtime.playbook.results import DispatchOptions
from recovery_ops.wire import names
from tests.support.type_checkers import CHECKERS, faults_of

MOST_NAMES = 45


def test_public_names_are_few_and_listed_once() -> None:
    assert len(runtime.__all__) <= MOST_NAMES
    assert len(set(runtime.__all__)) == len(runtime.__all__)


TWINS = ("escalate", "gather", "dispatch_failure", "intervene")
"""Methods of a client with a form for tasks."""


@pytest.mark.parametrize("name", TWINS)
def test_client_twins_take_the_same_options(name: str) -> None:
    one, twin = (_options_of(getattr(runtime.Recovery, form)) for form in (name, f"{name}_async"))
    assert one == twin != set()


def _options_of(method: Callable[..., object]) -> set[str]:
    """The keyword parameters, also those that a TypedDict lists."""
    found = inspect.signature(method).parameters.values()
    options = {one.name for one in found if one.kind is one.KEYWORD_ONLY}
    for one in found:
        if one.kind is one.VAR_KEYWORD:
            options |= set(OPTIONS[re.sub(r"Unpack\[(\w+)\]", r"\1", str(one.annotation))].__annotations__)
    return options


OPTIONS: dict[str, type] = {one.__name__: one for one in (DispatchOptions, Hooks, QuestionOptions)}


def test_question_options_are_those_of_ask() -> None:
    assert _options_of(runtime.Recovery.ask) == set(QuestionOptions.__annotations__)


def parameters(name: str) -> list[str]:
    """`error, *, now=None` as a list; what comes after the promised ones must have a default."""
    found, is_keyword_only = [], False
    for one in inspect.signature(getattr(runtime, name)).parameters.values():
        if one.kind is one.KEYWORD_ONLY and not is_keyword_only:
            found.append("*")
            is_keyword_only = True
        found.append(one.name if one.default is one.empty else f"{one.name}={one.default!r}")
    return found


def test_the_two_signatures_are_as_they_were_promised() -> None:
    assert parameters("classify") == ["error", "*", "now=None", "is_model_output=False"]
    assert parameters("retry_decision") == [
        *("failure", "*", "attempt", "max_retries", "foreground", "policy=None", "rng=None", "idempotent=True")
    ]


def test_what_a_failure_and_a_decision_tell() -> None:
    told = {field.name for field in fields(Failure)} | {
        name for name, value in vars(Failure).items() if isinstance(value, property)
    }
    assert told >= {
        *("category", "family", "evidence", "verdict", "retry_after_s", "overflow"),
        *("user_message", "suggestion", "can_retry"),
    }
    assert {field.name for field in fields(Overflow)} == {"input_tokens", "limit_tokens", "available_tokens"}
    assert {field.name for field in fields(RetryDecision)} >= {"retry", "delay_s", "adjustment", "max_tokens", "reason"}


def test_the_tree_of_errors_is_the_one_that_is_drawn() -> None:
    drawn: dict[str, str] = {}
    above: dict[int, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│ ├└─]*)([A-Z]\w+)", line)
        if found:
            depth, name = len(found[1]) // 4, found[2]
            above[depth] = name
            if depth:
                drawn[name] = above[depth - 1]
    made = {
        name: base.__name__
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, errors.RecoveryError) and kind.__module__ == errors.__name__
        for base in kind.__bases__
        if issubclass(base, errors.RecoveryError)
    }
    assert drawn == made
    assert set(made) <= set(runtime.__all__)


def test_no_exception_shares_its_name_with_an_event() -> None:
    events = {kind.__name__ for kind in names.EVENTS}
    own = {name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)}
    assert own & events == set()


SAMPLE = """
from recovery_ops.runtime import (
    CircuitBreaker, CircuitOpen, Deadline, Decision, Failure, ModelChain, Part, Recovery, RecoveryExhausted, Response,
    ToolRegistry, ToolResult, Workflow, build_tool, classify, retry_decision,
)
from recovery_ops.runtime.testing import Lab

recovery = Recovery("sample", url="")


def cached(query: str) -> list[str]:
    return [query]


@recovery.guard("search", idempotent=True, max_retries=2, fallback=cached)
def search(query: str) -> list[str]:
    return [query]


@recovery.guard("ask", kind="model", chain=ModelChain("large", "small"))
async def ask(prompt: str) -> str:
    return prompt


async def use() -> int:
    with recovery.run("task", source="main_agent", timeout=60.0) as run:
        found: list[str] = search("x")
        answer: str = await ask("y")
        gathered = await recovery.gather_async({"a": Part.foundational(ask, "z")})
        decision: Decision = await recovery.escalate_async("May it?", timeout=60.0)
        return len(found) + len(answer) + run.turn() + len(gathered.data) + len(decision.text)


failure: Failure = classify(Response(429, {"retry-after": "3"}), now=0.0)
decision = retry_decision(failure, attempt=1, max_retries=3, foreground=True)
wait: float = decision.delay_s
again: bool = decision.retry
left: int | None = failure.overflow.available_tokens if failure.overflow else None

registry = ToolRegistry(recovery, tools=[build_tool("search", search, idempotent=True)])
result: ToolResult = registry.run_tool({"id": "1", "name": "search", "input": {"query": "x"}})
whole: dict[str, object] = dict(recovery.gather({"a": Part.supplementary(search, "x")}).data)
settled = recovery.dispatch_failure(failure, operation="search")
messages: list[object] = registry.resume([{"role": "user", "content": "hi"}]).messages
number: int = Workflow("refund", "7", recovery=recovery).step("count", len, "abc")
text: str = recovery.intervene(str, 7)
ticket: str = recovery.ask("May it?", default="allow")
known: Decision | None = recovery.answer_to(ticket)

breaker = CircuitBreaker("db")
with Deadline(10.0) as deadline, breaker.attempt():
    seconds: float = deadline.remaining_s
try:
    search("z")
except (CircuitOpen, RecoveryExhausted) as error:
    print(error.retry_at)

lab = Lab()
mistake: int = search("x")  # the one line that is wrong
"""


@pytest.mark.default
@pytest.mark.parametrize("checker", CHECKERS)
def test_public_names_are_typed_for_checker(checker: str, tmp_path: Path) -> None:
    faults = faults_of(checker, SAMPLE, tmp_path)
    wrong = SAMPLE.splitlines().index('mistake: int = search("x")  # the one line that is wrong') + 1
    assert set(faults) == {wrong}, faults
