"""What a 401 or 403 of the upstream leads to: the fallback, a part left out, an answer, or the end of the run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.rules.enums import Category
from recovery_ops.rules.tools.results import ResultKind
from recovery_ops.runtime import ConfigurationError, Degraded, RecoveryExhausted, StopRun, build_tool
from recovery_ops.runtime.testing import Lab
from tests.runtime.tools.toolboxes import PLAYS, Play, registry_of, scripted, use


@pytest.fixture
def lab() -> Lab:
    return Lab(reraise=False)


@pytest.fixture(params=list(PLAYS))
def play(request: pytest.FixtureRequest) -> Play:
    return PLAYS[request.param]


@pytest.mark.parametrize("status", [401, 403])
class TestGuard:
    def test_forbidden_primary_takes_its_fallback(self, lab: Lab, status: int) -> None:
        guarded = lab.recovery.guard("search", fallback=lab.script("cached"))(lab.script(status))
        assert guarded() == "cached"
        assert not lab.events_of(events.Escalated)

    def test_forbidden_optional_operation_is_left_out(self, lab: Lab, status: int) -> None:
        guarded = lab.recovery.guard("search", optional=True)(lab.script(status))
        assert isinstance(guarded(), Degraded)

    def test_forbidden_required_operation_stops_run(self, lab: Lab, status: int) -> None:
        with pytest.raises(StopRun) as stopped:
            lab.recovery.guard("search")(lab.script(status))()
        assert stopped.value.category in (Category.AUTH, Category.PERMISSION)

    def test_forbidden_page_is_an_answer(self, lab: Lab, status: int) -> None:
        guarded = lab.recovery.guard("read_page", permission="tell_model")(lab.script(status))
        with pytest.raises(RecoveryExhausted):
            guarded()
        assert not lab.events_of(events.Escalated)

    def test_forbidden_task_takes_its_fallback(self, lab: Lab, status: int) -> None:
        async def cached() -> str:
            return "cached"

        guarded = lab.recovery.guard("search", fallback=cached)(lab.script_async(status))
        assert asyncio.run(guarded()) == "cached"


def test_person_stops_run_when_second_call_is_forbidden(lab: Lab) -> None:
    """`ask_user` says yes to a spent quota; the one call more is forbidden."""
    guarded = lab.recovery.guard("search", ask_user=lambda question: True)(lab.script(402, 403))
    with pytest.raises(StopRun), lab.recovery.run(source="main_agent"):
        guarded()


def test_unknown_permission_word_is_refused(lab: Lab) -> None:
    said: Any = {"permission": "tell"}
    with pytest.raises(ConfigurationError):
        lab.recovery.guard("search", **said)(lab.script("ok"))
    with pytest.raises(ConfigurationError):
        build_tool("search", lambda: None, **said)


@pytest.mark.parametrize("error", [ValueError("no"), KeyError("x"), 404, 422, 412])
def test_fixable_error_keeps_optional_tool(play: Play, lab: Lab, error: Any) -> None:
    registry = registry_of(lab, scripted(lab, "search", error, "found", optional=True))
    with lab.recovery.run(source="main_agent") as run:
        (first,) = play(registry, [use("search")])
        assert [tool.name for tool in registry.offered()] == ["search"]
        (second,) = play(registry, [use("search")])
    assert (first.kind, first.is_error, second.kind) == (ResultKind.FAILED, True, ResultKind.SUCCEEDED)
    assert not run.withdrawn


@pytest.mark.parametrize("error", [503, 529, 429, 401, 403, 402, TimeoutError(), ConnectionResetError()])
def test_unavailable_optional_tool_is_withdrawn(play: Play, lab: Lab, error: Any) -> None:
    registry = registry_of(lab, scripted(lab, "search", error, optional=True))
    with lab.recovery.run(source="main_agent") as run:
        (first,) = play(registry, [use("search")])
        assert not registry.offered()
    assert (first.is_error, run.withdrawn) == (False, frozenset({"search"}))


@pytest.mark.parametrize(("status", "is_off"), [(401, False), (403, False), (401, True), (403, True)])
def test_forbidden_page_is_a_result(
    play: Play, lab: Lab, status: int, is_off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_off:
        monkeypatch.setattr(lab.recovery, "is_off", True)
    registry = registry_of(lab, scripted(lab, "read_page", status, "text", permission="tell_model"))
    first, second = play(registry, [use("read_page", "a"), use("read_page", "b")])
    assert (first.kind, first.is_error, second.kind) == (ResultKind.FAILED, True, ResultKind.SUCCEEDED)


@pytest.mark.parametrize("is_off", [False, True])
def test_unauthorised_required_tool_stops_run(
    play: Play, lab: Lab, is_off: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_off:
        monkeypatch.setattr(lab.recovery, "is_off", True)
    registry = registry_of(lab, scripted(lab, "search", 401))
    with pytest.raises(StopRun) as stopped, lab.recovery.run(source="main_agent"):
        play(registry, [use("search")])
    assert stopped.value.category is Category.AUTH
