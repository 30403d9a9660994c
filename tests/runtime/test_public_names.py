"""The names that others build on: their signatures, fields and tree, documented, and typed for a strict reader."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from recovery_ops import runtime
from recovery_ops.rules.failures import Failure
from recovery_ops.rules.retry import RetryDecision
from recovery_ops.runtime import errors
from tests.support.processes import ROOT, clean_environment

PROMISED = (
    *("classify", "retry_decision", "Failure", "RetryDecision", "Response", "Recovery", "guard", "run", "build_tool"),
    *("ToolRegistry", "run_tool", "gather", "Workflow", "resume", "dispatch_failure", "CircuitBreaker", "ErrorBudget"),
    *("Deadline", "ModelChain", "RecoveryError", "CircuitOpen", "RecoveryExhausted", "RunStopped", "DeadlineExceeded"),
    *("ModelFallback", "intervene"),
)


@pytest.mark.parametrize("name", PROMISED)
def test_what_is_promised_is_there_and_says_what_it_is(name: str) -> None:
    assert name in runtime.__all__
    assert inspect.getdoc(getattr(runtime, name))


def test_everything_public_is_listed_once_and_can_be_had() -> None:
    names = list(runtime.__all__)
    assert sorted(names) == sorted(set(names))
    assert all(hasattr(runtime, name) for name in names)


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
    assert {field.name for field in fields(runtime.Overflow)} == {"input_tokens", "limit_tokens", "available_tokens"}
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


SAMPLE = """
from recovery_ops.runtime import (
    CircuitBreaker, CircuitOpen, Deadline, ErrorBudget, Failure, ModelChain, Outcome, Recovery, RecoveryExhausted,
    Response, ToolRegistry, ToolResult, Workflow, build_tool, classify, dispatch_failure, gather, intervene, resume,
    retry_decision, run_tool, supplementary,
)
from recovery_ops.runtime.testing import Lab

recovery = Recovery("sample", url="")


@recovery.guard("search", is_destructive=False, max_retries=2, fallback=lambda query: [query])
def search(query: str) -> list[str]:
    return [query]


@recovery.guard("ask", kind="model", chain=ModelChain("large", "small"))
async def ask(prompt: str) -> str:
    return prompt


async def use() -> int:
    with recovery.run("task", source="main_agent", deadline_s=60.0) as run:
        found: list[str] = search("x")
        answer: str = await ask("y")
        return len(found) + len(answer) + run.turn()


failure: Failure = classify(Response(429, {"retry-after": "3"}), now=0.0)
decision = retry_decision(failure, attempt=1, max_retries=3, foreground=True)
wait: float = decision.delay_s
again: bool = decision.retry
left: int | None = failure.overflow.available_tokens if failure.overflow else None

registry = ToolRegistry(recovery, tools=[build_tool("search", search, is_destructive=False)])
result: ToolResult = run_tool(registry, {"id": "1", "name": "search", "input": {"query": "x"}})
whole: dict[str, object] = dict(gather({"a": supplementary(search, "x")}).data)
settled = dispatch_failure(failure, operation="search", recovery=recovery)
messages: list[object] = resume([{"role": "user", "content": "hi"}]).messages
number: int = Workflow("refund", "7", recovery=recovery).step("count", len, "abc")
text: str = intervene(str, 7, recovery=recovery)

breaker = CircuitBreaker("db")
spent = ErrorBudget(warn_after=3, abort_after=10).failed()
with Deadline(10.0) as deadline, breaker.attempt():
    seconds: float = deadline.remaining_s
try:
    search("z")
except (CircuitOpen, RecoveryExhausted) as error:
    print(error.retry_at)

lab = Lab()
mistake: int = search("x")  # the one line that is wrong
"""


def test_a_strict_reader_of_types_understands_all_of_it_and_catches_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "sample.py").write_text(SAMPLE)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--cache-dir", str(tmp_path), "sample.py"],
        env=clean_environment({"MYPYPATH": str(ROOT)}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=170,
    )
    faults = [line for line in checked.stdout.splitlines() if ": error:" in line]
    wrong = SAMPLE.splitlines().index('mistake: int = search("x")  # the one line that is wrong') + 1
    assert [fault.split(": error:")[0] for fault in faults] == [f"sample.py:{wrong}"], checked.stdout + checked.stderr
