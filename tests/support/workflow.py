"""Workflows through their door: what is done once, what is done again, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import trio

from recovery_ops.runtime.workflows.workflow import Workflow


def step(workflow: Workflow, *args: Any, **kwargs: Any) -> Any:
    return workflow.step(*args, **kwargs)


def step_in_a_task(workflow: Workflow, *args: Any, **kwargs: Any) -> Any:
    async def whole() -> Any:
        async with workflow:
            return await workflow.step_async(*args, **kwargs)

    return asyncio.run(whole())


def step_in_trio(workflow: Workflow, *args: Any, **kwargs: Any) -> Any:
    async def whole() -> Any:
        return await workflow.step_async(*args, **kwargs)

    return trio.run(whole)


@pytest.fixture(params=[step, step_in_a_task, step_in_trio], ids=["thread", "asyncio", "trio"])
def do(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """One step, in each of the ways."""
    way: Callable[..., Any] = request.param
    return way
