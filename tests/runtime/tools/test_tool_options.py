"""Every option of `build_tool` has its effect on a call, in threads and in tasks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.tools.results import NO_BYPASS, Detail, ResultKind
from recovery_ops.runtime import RecoveryError, Response, StopRun, Tool, ToolResult, attempt, build_tool
from recovery_ops.runtime.testing import Lab
from recovery_ops.runtime.tools.tool import MoreOfATool
from tests.runtime.tools.toolboxes import PLAYS, Play, open_tool, registry_of, use

SAFE: dict[str, Any] = {"idempotent": True, "max_retries": 1}
SECRET = "sk-" + "a1B2" * 10


class Denied(Exception):
    kind = "policy_denied"


class Bench:
    """One tool, played in one way; `said` are its options."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.lab = Lab(reraise=False)

    def call(self, *outcomes: Any, source: str = "main_agent", times: int = 1, **said: Any) -> ToolResult:
        """The last of so many results of a scripted tool."""
        self.script = self.lab.script(*outcomes)
        return self.play_tool(self.script, source=source, times=times, **said)

    def play_tool(self, handler: Any, *, source: str = "main_agent", times: int = 1, **said: Any) -> ToolResult:
        registry = registry_of(self.lab, open_tool("pay", handler, **said))
        with self.lab.recovery.run(source=source):
            results = [self.play(registry, [use("pay", f"u{number}", order=7)])[0] for number in range(times)]
        self.standing = self.lab.recovery.operations["pay"].standing
        return results[-1]


def breaker(bench: Bench) -> None:
    bench.call("paid", breaker="bank")
    assert bench.standing.breaker.name == "bank"


def fallback(bench: Bench) -> None:
    assert bench.call(503, fallback=lambda order: f"later {order}").content.startswith("later 7")


def fallback_allowed(bench: Bench) -> None:
    assert bench.call(503, fallback=lambda order: "later", fallback_allowed=False).kind is ResultKind.FAILED


def permission(bench: Bench) -> None:
    assert bench.call(403, permission="tell_model").kind is ResultKind.FAILED
    other = Bench(bench.play)
    with pytest.raises(RecoveryError):
        other.call(403, permission="stop")


def idempotent(bench: Bench) -> None:
    assert bench.call(TimeoutError(), "paid", idempotent=True, max_retries=1).kind is ResultKind.SUCCEEDED


def read_only(bench: Bench) -> None:
    assert bench.call(TimeoutError(), "paid", read_only=True, max_retries=1).kind is ResultKind.SUCCEEDED


def max_retries(bench: Bench) -> None:
    bench.call(TimeoutError(), TimeoutError(), "paid", idempotent=True, max_retries=2)
    assert bench.script.calls == 3
    other = Bench(bench.play)
    result = other.call(TimeoutError(), TimeoutError(), "paid", idempotent=True, max_retries=1)
    assert (result.kind, other.script.calls) == (ResultKind.FAILED, 2)


def foundational(bench: Bench) -> None:
    with pytest.raises(StopRun) as stopped:
        bench.call(TimeoutError(), TimeoutError(), "paid", foundational=True, **SAFE)
    assert (stopped.value.reason, bench.script.calls) == ("foundational_failed", 2)


def base_delay(bench: Bench) -> None:
    bench.call(TimeoutError(), "paid", base_delay=0.25, **SAFE)
    assert bench.lab.waits == [0.25]


def attempt_timeout(bench: Bench) -> None:
    assert bench.play_tool(lambda order: attempt().remaining_s, attempt_timeout=4.0).content.startswith("4")


def timeout(bench: Bench) -> None:
    assert bench.play_tool(lambda order: attempt().remaining_s, timeout=3.0).content.startswith("3")


def kind(bench: Bench) -> None:
    assert bench.play_tool(lambda order: attempt().remaining_s, kind="sandbox").content.startswith("120")


def settings(bench: Bench) -> None:
    bench.call("paid", settings=Settings(consecutive_failures=9))
    assert bench.standing.policy.settings.consecutive_failures == 9


def idempotency_key(bench: Bench) -> None:
    seen: list[Any] = []

    def pay(order: int) -> str:
        seen.append(attempt().idempotency_key)
        if len(seen) < 2:
            raise TimeoutError
        return "paid"

    bench.play_tool(pay, max_retries=1, idempotency_key=lambda order: f"key-{order}")
    assert seen == ["key-7"] * 2


def refresh_credentials(bench: Bench) -> None:
    refreshed: list[int] = []
    result = bench.call(401, "paid", refresh_credentials=lambda: refreshed.append(1), **SAFE)
    assert (result.kind, refreshed) == (ResultKind.SUCCEEDED, [1])


def refresh_evidence(bench: Bench) -> None:
    refreshed: list[int] = []
    result = bench.call(412, "paid", refresh_evidence=lambda: refreshed.append(1), **SAFE)
    assert (result.kind, refreshed) == (ResultKind.SUCCEEDED, [1])


def on_heartbeat(bench: Bench) -> None:
    beats: list[Any] = []
    later = Response(503, {"retry-after": "90"})
    bench.call(later, "paid", idempotent=True, settings=Settings(persistent=True), on_heartbeat=beats.append)
    assert [beat.waited_s for beat in beats] == [30.0, 60.0]


def ask_user(bench: Bench) -> None:
    assert bench.call(Denied(), "paid", ask_user=lambda question: True, **SAFE).kind is ResultKind.SUCCEEDED


def provider(bench: Bench) -> None:
    bench.call("paid", provider="helios")
    assert bench.standing.provider == "helios"


def region(bench: Bench) -> None:
    bench.call("paid", region="eu")
    assert bench.standing.region == "eu"


def source(bench: Bench) -> None:
    script = bench.lab.script(529, "paid")
    registry = registry_of(bench.lab, open_tool("pay", script, source="nightly", **SAFE))
    with bench.lab.recovery.run(source="main_agent"):
        bench.play(registry, [use("pay")])
    assert script.calls == 1


def optional(bench: Bench) -> None:
    assert bench.call(503, optional=True).detail is Detail.WITHDRAWN


def require_permission(bench: Bench) -> None:
    bench.call("paid", require_permission=True)
    assert bench.script.calls == 0


def masks_output(bench: Bench) -> None:
    assert SECRET in bench.call(SECRET, masks_output=False).content
    assert SECRET not in Bench(bench.play).call(SECRET, masks_output=True).content


def bypass_allowed(bench: Bench) -> None:
    assert NO_BYPASS in bench.call(503, bypass_allowed=False).suggestion
    assert NO_BYPASS not in Bench(bench.play).call(503, bypass_allowed=True).suggestion


def polling(bench: Bench) -> None:
    assert bench.call("paid", polling=True, times=8).advice == ""


def output_schema(bench: Bench) -> None:
    assert bench.call("paid", output_schema={"type": "integer"}).category == "schema_mismatch"


def input_schema(bench: Bench) -> None:
    bench.call("paid", input_schema={"type": "object", "required": ["amount"]})
    assert bench.script.calls == 0


def state_probe(bench: Bench) -> None:
    pay = open_tool("pay", lambda order: "paid", state_probe=lambda order: order == 7)
    block = {"type": "tool_use", "id": "u1", "name": "pay", "input": {"order": 7}}
    taken_up = registry_of(bench.lab, pay).resume([{"role": "assistant", "content": [block]}])
    assert [result.kind for result in taken_up.filled] == [ResultKind.SUCCEEDED]


def file_arguments(bench: Bench) -> None:
    pay = open_tool("pay", lambda order: "paid", file_arguments=["order"])
    block = {"type": "tool_use", "id": "u1", "name": "pay", "input": {"order": "/no/such/file"}}
    taken_up = registry_of(bench.lab, pay).resume([{"role": "assistant", "content": [block]}])
    assert taken_up.files_gone == ("/no/such/file",)


def description(bench: Bench) -> None:
    assert open_tool("pay", lambda order: "paid", description="Pays.").as_anthropic()["description"] == "Pays."


def is_destructive(bench: Bench) -> None:
    """What the permission checker is given."""
    seen: list[bool] = []

    def may(tool: Tool, arguments: object) -> bool:
        seen.append(tool.caution.is_destructive)
        return True

    for said in (True, False):
        pay = open_tool("pay", lambda order: "paid", is_destructive=said, require_permission=True)
        bench.play(registry_of(Lab(), pay, permission=may), [use("pay", order=7)])
    assert seen == [True, False]


EFFECTS: dict[str, Callable[[Bench], None]] = {
    effect.__name__: effect
    for effect in (
        ask_user,
        attempt_timeout,
        base_delay,
        breaker,
        bypass_allowed,
        description,
        fallback,
        fallback_allowed,
        file_arguments,
        foundational,
        idempotency_key,
        idempotent,
        input_schema,
        is_destructive,
        kind,
        masks_output,
        max_retries,
        on_heartbeat,
        optional,
        output_schema,
        permission,
        polling,
        provider,
        read_only,
        refresh_credentials,
        refresh_evidence,
        region,
        require_permission,
        settings,
        source,
        state_probe,
        timeout,
    )
}


def test_every_tool_option_is_in_the_table() -> None:
    own = {name for name, one in inspect.signature(build_tool).parameters.items() if one.kind is one.KEYWORD_ONLY}
    assert set(EFFECTS) == own | set(MoreOfATool.__annotations__)


@pytest.mark.parametrize("option", EFFECTS)
@pytest.mark.parametrize("play", PLAYS)
def test_tool_option_has_its_effect(play: str, option: str) -> None:
    EFFECTS[option](Bench(PLAYS[play]))
