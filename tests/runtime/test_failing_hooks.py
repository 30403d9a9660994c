"""Every hook that raises is recorded with its name, operation, error and message, in its run and source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules.events import HookFailed
from recovery_ops.rules.policy.model import Settings
from recovery_ops.runtime import Response
from recovery_ops.runtime.testing import HttpError, Lab
from tests.runtime.tools.toolboxes import PLAYS, live_limits, open_tool, registry_of, use

SAFE: dict[str, Any] = {"idempotent": True, "max_retries": 1}
Broken = Callable[..., Any]


class Denied(Exception):
    kind = "policy_denied"


def guarded(lab: Lab, *outcomes: Any, **said: Any) -> None:
    lab.recovery.guard("pay", **SAFE | said)(lab.script(*outcomes))()


def refresh_credentials(lab: Lab, broken: Broken) -> None:
    guarded(lab, 401, refresh_credentials=broken)


def refresh_evidence(lab: Lab, broken: Broken) -> None:
    guarded(lab, 412, refresh_evidence=broken)


def on_heartbeat(lab: Lab, broken: Broken) -> None:
    later = Response(503, {"retry-after": "40"})
    guarded(lab, later, "paid", on_heartbeat=broken, settings=Settings(persistent=True))


def ask_user(lab: Lab, broken: Broken) -> None:
    guarded(lab, Denied(), ask_user=broken)


def permission(lab: Lab, broken: Broken) -> None:
    pay = open_tool("pay", lambda: "paid", require_permission=True)
    PLAYS["threads"](registry_of(lab, pay, permission=broken), [use("pay")])


def ask_person(lab: Lab, broken: Broken) -> None:
    live_limits(lab, denials_in_a_row=1)
    pay = open_tool("pay", lambda: "paid", require_permission=True)
    registry = registry_of(lab, pay, permission=lambda tool, arguments: False, ask_person=broken)
    for number in range(2):
        PLAYS["threads"](registry, [use("pay", str(number))])


def state_probe(lab: Lab, broken: Broken) -> None:
    block = {"type": "tool_use", "id": "u1", "name": "pay", "input": {}}
    pay = open_tool("pay", lambda: "paid", state_probe=broken)
    registry_of(lab, pay).resume([{"role": "assistant", "content": [block]}])


def dispatched_evidence(lab: Lab, broken: Broken) -> None:
    said: dict[str, Any] = {"retry": lab.script("paid"), "refresh_evidence": broken, "idempotent": True}
    lab.recovery.dispatch_failure(HttpError(412), operation="pay", **said)


def dispatched_escalation(lab: Lab, broken: Broken) -> None:
    lab.recovery.dispatch_failure(Denied(), operation="pay", escalate=broken)


def intervention(lab: Lab, broken: Broken) -> None:
    lab.recovery.intervene(lab.script(ValueError("bad")), "hi", ask_user=broken)


HOOKS: list[tuple[Callable[[Lab, Broken], None], str, str]] = [
    (refresh_credentials, "refresh_credentials", "pay"),
    (refresh_evidence, "refresh_evidence", "pay"),
    (on_heartbeat, "on_heartbeat", "pay"),
    (ask_user, "ask_user", "pay"),
    (permission, "permission", "pay"),
    (ask_person, "ask_person", "pay"),
    (state_probe, "state_probe", "pay"),
    (dispatched_evidence, "refresh_evidence", "pay"),
    (dispatched_escalation, "escalate", "pay"),
    (intervention, "ask_user", ""),
]


@pytest.mark.parametrize(("trigger", "hook", "operation"), HOOKS, ids=lambda one: getattr(one, "__name__", ""))
def test_failing_hook_is_recorded_whole(trigger: Callable[[Lab, Broken], None], hook: str, operation: str) -> None:
    def broken(*args: Any, **kwargs: Any) -> Any:
        raise OSError("no line")

    lab, ended = Lab(), ""
    try:
        with lab.recovery.run(source="main_agent", run_id="r-7"):
            trigger(lab, broken)
    except Exception as error:
        ended = type(error).__name__  # some end the run, and all are recorded before that
    found = [
        (fact, source, run)
        for fact, source, run in zip(lab.read.all, lab.read.sources, lab.read.runs, strict=True)
        if isinstance(fact, HookFailed)
    ]
    expected = HookFailed(operation=operation, hook=hook, error_type="OSError", message="no line")
    assert found[:1] == [(expected, "main_agent", "r-7")], ended
