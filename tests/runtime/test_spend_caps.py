"""Spend caps at work: model calls are admitted under the caps of run, source and day, and stop in order at a cap."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.rules.desired_state import NOTHING_DESIRED, Answer, Desired
from recovery_ops.rules.events import (
    DegradationStarted,
    Escalated,
    FailureClassified,
    InstanceHeartbeat,
    ModelFallback,
    RunFinished,
    RunStopped,
    SpendCapReached,
)
from recovery_ops.rules.policy.model import BUILT_IN
from recovery_ops.rules.policy.spend_settings import SpendCaps
from recovery_ops.rules.spending import NO_LIMIT, Spending
from recovery_ops.runtime import DeadlineExceeded, ModelChain, Recovery, StopRun, Workflow, attempt
from recovery_ops.runtime.spending.calls import accounts_of
from recovery_ops.runtime.spending.ledger import SpendLedger
from recovery_ops.runtime.testing import Lab
from tests.support.live_policy import obey

DAY = "2027-01-15"
"""The day on a laboratory's clock."""


def capped(**caps: Any) -> Desired:
    return replace(NOTHING_DESIRED, policy=replace(BUILT_IN, spend_caps=SpendCaps(**caps)))


def spent(lab: Lab, account: str) -> Spending:
    return accounts_of(lab.recovery).state(account).spent


def parked(lab: Lab, *calls: Callable[[], Any], **said: Any) -> StopRun:
    """How a run with these calls ends."""
    try:
        with lab.recovery.run("answer", **said):
            for call in calls:
                call()
    except StopRun as stop:
        return stop
    raise AssertionError("the run was not parked")


def asks(lab: Lab, function: Callable[..., Any] = lambda: "yes", name: str = "ask", **said: Any) -> Any:
    return lab.recovery.guard(name, kind="model", **said)(function)


def test_run_is_parked_at_its_cap() -> None:
    lab = Lab(desired=capped(run_calls=2))
    ask = asks(lab)
    stop = parked(lab, *[ask] * 5, run_id="r-1")
    assert (stop.reason, stop.operation) == ("spend_cap", "ask")
    assert stop.spend is not None
    assert (stop.spend.account, stop.spend.measure, stop.spend.spent, stop.spend.limit) == ("run:r-1", "calls", 2, 2)
    [reached] = lab.events_of(SpendCapReached)
    assert (reached.account, reached.measure, reached.action, reached.operation) == ("run:r-1", "calls", "park", "ask")
    assert [one.reason for one in lab.events_of(RunStopped)] == ["spend_cap"]
    assert lab.events_of(RunFinished)[0].status == "stopped"


def test_parked_run_refuses_next_turn() -> None:
    lab = Lab(desired=capped(run_calls=1))
    ask = asks(lab)
    with lab.recovery.run("answer") as run:
        ask()
        with pytest.raises(StopRun):
            ask()
        with pytest.raises(StopRun):
            run.turn()


def test_parked_workflow_resumes_where_it_was() -> None:
    lab = Lab(desired=capped(run_calls=1))
    ask, done = asks(lab), []

    def answer(flow: Workflow) -> None:
        for number in range(3):
            flow.step(f"ask-{number}", ask)
            done.append(number)

    def begun() -> None:
        with Workflow("report", "7", recovery=lab.recovery) as flow:
            answer(flow)

    stop = parked(lab, begun)
    assert (stop.resume_id, done) == ("report/7", [0])
    obey(lab, spend_caps={"run_calls": 10})
    with lab.recovery.run("second"), Workflow.resumed(stop.resume_id, recovery=lab.recovery) as flow:
        answer(flow)
    assert done == [0, 0, 1, 2]
    assert lab.events_of(SpendCapReached)[0].account.startswith("run:")


def test_retries_children_and_fallbacks_share_an_account() -> None:
    lab = Lab(desired=capped(run_calls=100))
    first = asks(lab, lab.script(ConnectionResetError("reset"), ConnectionResetError("reset"), "yes"), max_retries=2)
    second = asks(lab, name="small")
    third = asks(lab, lab.script(500), name="large", max_retries=0, fallback=second)
    with lab.recovery.run("parent", run_id="p", source="main_agent"):
        first()
        with lab.recovery.run("child", run_id="c", source="main_agent"):
            assert third() == "yes"
    assert spent(lab, "run:p").calls == 5
    assert spent(lab, "run:c").calls == 0


def test_tokens_and_dollars_of_the_run_are_charged() -> None:
    lab = Lab(desired=capped(run_tokens=100, day_cost_usd=9.0))
    ask = asks(lab)
    with lab.recovery.run("answer", run_id="r", source="main_agent") as run:
        ask()
        run.input_tokens, run.cost_usd = 60, 0.5
        ask()
        run.output_tokens = 40
        with pytest.raises(StopRun) as found:
            ask()
    assert (found.value.spend.measure, found.value.spend.spent) == ("tokens", 100)  # type: ignore[union-attr]
    assert spent(lab, f"day:{DAY}") == Spending(calls=2, tokens=100, cost_usd=0.5)


def test_end_of_run_charges_what_is_owed() -> None:
    lab = Lab(desired=capped(source_tokens=1000))
    ask = asks(lab)
    with lab.recovery.run("answer", source="titles") as run:
        ask()
        run.output_tokens = 300
    assert spent(lab, f"source:titles:{DAY}") == Spending(calls=1, tokens=300)


def test_source_and_day_have_accounts_of_their_own() -> None:
    lab = Lab(desired=capped(source_calls=2, day_calls=3))
    ask = asks(lab)
    for source in ("titles", "titles", "main_agent"):
        with lab.recovery.run("answer", source=source):
            ask()
    with pytest.raises(StopRun) as found, lab.recovery.run("answer", source="main_agent"):
        ask()
    assert found.value.spend.account == f"day:{DAY}"  # type: ignore[union-attr]
    lab.clock.push(86_400.0)
    with lab.recovery.run("answer", source="main_agent"):
        assert ask() == "yes"


def test_cheaper_model_has_its_share_of_the_cap() -> None:
    lab = Lab(desired=capped(run_calls=10, action="cheaper_model", cheaper_share=0.3))
    asked: list[str | None] = []

    def function() -> str:
        asked.append(attempt().model)
        return "yes"

    ask = asks(lab, function, chain=ModelChain("large", "small", "tiny"))
    parked(lab, *[ask] * 20, run_id="r")
    assert asked == ["large"] * 7 + ["small"] * 3
    cheaper, last = lab.events_of(SpendCapReached)
    assert (cheaper.action, cheaper.to_model, cheaper.spent, cheaper.limit) == ("cheaper_model", "small", 7, 7)
    assert (last.action, last.to_model, last.limit) == ("park", None, 10)
    assert not any(isinstance(one, ModelFallback | DegradationStarted | FailureClassified) for one in lab.events)


def test_cheaper_answer_may_be_a_fallback() -> None:
    lab = Lab(desired=capped(run_calls=1, action="cheaper_model"))
    ask = asks(lab, fallback=lambda: "from the cache")
    with lab.recovery.run("answer"):
        assert [ask(), ask()] == ["yes", "from the cache"]


def test_optional_call_is_left_out_at_a_cap() -> None:
    lab = Lab(desired=capped(run_calls=1))
    ask = asks(lab, optional=True)
    with lab.recovery.run("answer") as run:
        assert [bool(ask()), bool(ask())] == [True, False]
    assert run.withdrawn == {"ask"}


def test_guard_around_a_parked_call_adds_nothing() -> None:
    lab = Lab(desired=capped(run_calls=1))
    ask = asks(lab)
    outer = lab.recovery.guard("outer", read_only=True, max_retries=5, fallback=lambda: "a guess")(ask)
    stop = parked(lab, outer, outer, source="main_agent")
    assert (stop.operation, lab.events_of(FailureClassified)) == ("ask", [])


def test_model_call_inside_another_is_one_call() -> None:
    lab = Lab(desired=capped(run_tokens=100))
    inner = asks(lab, name="inner")
    outer = asks(lab, inner, name="outer")
    with lab.recovery.run("answer", run_id="r"):
        assert outer() == "yes"
    assert spent(lab, "run:r").calls == 1


@pytest.mark.parametrize(("decision", "calls"), [("approved", 2), ("denied", 1)])
def test_person_raises_a_cap_or_not(decision: str, calls: int) -> None:
    lab = Lab(desired=capped(run_calls=1, action="ask", ask_deadline_s=600.0))
    ask = asks(lab)

    def decide() -> None:
        ticket = lab.events_of(Escalated)[-1].escalation_id or ""
        desired = lab.recovery.desired
        answer = Answer(ticket=ticket, decision=decision, by="ana")
        lab.recovery.apply(replace(desired, revision=desired.revision + 1, answers=(*desired.answers, answer)))

    lab.waker.at(400.0, decide)
    began = lab.clock.now()
    parked(lab, *[ask] * 5, run_id="r", timeout=300)
    assert spent(lab, "run:r").calls == calls
    first = lab.events_of(Escalated)[0]
    assert (first.queue, first.reason, first.deadline_s) == ("budgets", "spend_cap", 600.0)
    assert first.default_action == "deny"
    assert [one.action for one in lab.events_of(SpendCapReached)][-2:] == ["ask", "park"]
    waited_s = 1000.0 if decision == "approved" else 400.0  # the second question is answered by nobody
    assert lab.clock.now() - began == waited_s


def test_user_who_is_there_is_asked() -> None:
    lab = Lab(desired=capped(run_calls=1, action="ask"))
    ask = asks(lab, ask_user=lambda question: question.reason == "spend_cap")
    with lab.recovery.run("answer", source="main_agent"):
        assert [ask() for _ in range(3)] == ["yes"] * 3
    assert lab.events_of(Escalated) == []


def test_live_edit_applies_to_the_next_call() -> None:
    lab = Lab()
    ask = asks(lab)
    parked(
        lab,
        *(ask, lambda: obey(lab, spend_caps={"run_calls": 2}), ask, ask),
        *(lambda: obey(lab, 2, spend_caps={"run_calls": 3}), ask, ask),
        run_id="r",
    )
    assert spent(lab, "run:r").calls == 3


def test_other_operations_are_not_limited() -> None:
    lab = Lab(desired=capped(run_calls=1))
    search = lab.recovery.guard("search", read_only=True)(lambda: "a page")
    with lab.recovery.run("answer"):
        assert [search() for _ in range(5)] == ["a page"] * 5


def test_blocks_and_attempts_are_limited() -> None:
    lab = Lab(desired=capped(run_calls=3))

    def block() -> None:
        with lab.recovery.guard("ask", kind="model"):
            pass

    def attempts() -> None:
        for one in lab.recovery.attempts("ask", kind="model"):
            with one:
                pass

    async def in_task() -> None:
        async with lab.recovery.guard("ask", kind="model"):
            pass

    parked(lab, block, attempts, lambda: asyncio.run(in_task()), block, run_id="r")
    assert spent(lab, "run:r").calls == 3


def test_dropped_stream_gives_its_reservation_back() -> None:
    lab = Lab(desired=capped(run_tokens=100))
    ask = asks(lab, lambda: iter(["a", "b"]))
    with lab.recovery.run("answer", run_id="r"):
        next(iter(ask()))
        assert list(ask()) == ["a", "b"]
    assert spent(lab, "run:r").calls == 2


@pytest.fixture
def recovery(tmp_path: Path) -> Any:
    made = Recovery("spending", url="", directory=tmp_path, is_background_work_wanted=False)
    yield made
    made.close()


def cost(run: Any, tokens: int) -> None:
    run.output_tokens = (run.output_tokens or 0) + tokens


def test_twenty_threads_overshoot_one_call(recovery: Recovery) -> None:
    recovery.apply(capped(run_tokens=100, call_tokens=30))
    lock = threading.Lock()

    with recovery.run("parent", run_id="p") as run:

        @recovery.guard("ask", kind="model")
        def ask() -> None:
            time.sleep(0.002)
            with lock:
                cost(run, 30)

        def child() -> int:
            with recovery.run("child"):
                for made in range(50):
                    try:
                        ask()
                    except StopRun:
                        return made
            return 50

        with ThreadPoolExecutor(20) as pool:
            made = [one.result() for one in [pool.submit(copy_context().run, child) for _ in range(20)]]
    assert sum(made) == 4
    assert accounts_of(recovery).state("run:p").spent.tokens == 120


def test_twenty_tasks_overshoot_one_call_and_do_not_block(recovery: Recovery) -> None:
    recovery.apply(capped(run_tokens=100))
    made = 0

    async def children() -> float:
        nonlocal made
        with recovery.run("parent", run_id="p") as run:

            @recovery.guard("ask", kind="model")
            async def ask() -> None:
                nonlocal made
                await asyncio.sleep(0.002)
                cost(run, 30)
                made += 1

            async def child() -> None:
                with recovery.run("child"):
                    while True:
                        await ask()

            ended = await asyncio.gather(*(child() for _ in range(20)), return_exceptions=True)
        assert all(isinstance(one, StopRun) for one in ended)
        return 0.0

    asyncio.run(children())
    assert made == 4


def test_settling_in_a_task_is_left_to_a_thread(recovery: Recovery, monkeypatch: pytest.MonkeyPatch) -> None:
    recovery.apply(capped(run_calls=10))
    ledger, threads = accounts_of(recovery)._ledger, set()
    for name in ("reserve", "commit"):
        own = getattr(ledger, name)

        def noted(*args: Any, own: Any = own, **said: Any) -> Any:
            threads.add(threading.get_ident())
            return own(*args, **said)

        monkeypatch.setattr(ledger, name, noted)

    @recovery.guard("ask", kind="model")
    async def ask() -> str:
        return "yes"

    async def one() -> int:
        with recovery.run("answer", run_id="r"):
            await ask()
        return threading.get_ident()

    loop_thread = asyncio.run(one())
    until = time.monotonic() + 10
    while ledger.state("run:r").spent.calls < 1 and time.monotonic() < until:
        time.sleep(0.01)
    assert ledger.state("run:r").spent.calls == 1
    assert len(threads) >= 1
    assert loop_thread not in threads


def test_cancelled_task_leaves_no_reservation(recovery: Recovery) -> None:
    recovery.apply(capped(run_tokens=100))

    @recovery.guard("ask", kind="model")
    async def ask() -> None:
        await asyncio.sleep(30)

    async def one() -> None:
        with recovery.run("answer", run_id="r"):
            tasks = [asyncio.create_task(ask()) for _ in range(3)]
            await asyncio.sleep(0.2)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(one())
    until = time.monotonic() + 10
    ledger = accounts_of(recovery)
    while ledger.state("run:r").open_calls.calls and time.monotonic() < until:
        time.sleep(0.01)
    state = ledger.state("run:r")
    assert (state.open_calls.calls, state.spent.calls) == (0, 1)


def test_wait_for_open_calls_ends_at_the_deadline(recovery: Recovery) -> None:
    recovery.apply(capped(run_tokens=100))
    is_open, may_end = threading.Event(), threading.Event()

    @recovery.guard("ask", kind="model")
    def ask(is_long: bool) -> None:
        if is_long:
            is_open.set()
            may_end.wait(20)

    with recovery.run("answer", timeout=0.4):
        pool = ThreadPoolExecutor(1)
        other = pool.submit(copy_context().run, ask, True)
        assert is_open.wait(10)
        with pytest.raises(DeadlineExceeded):
            ask(False)
        may_end.set()
        other.result()
        pool.shutdown()


def test_waiting_call_goes_on_when_the_cap_is_raised(recovery: Recovery) -> None:
    recovery.apply(capped(run_tokens=100))
    is_open, may_end = threading.Event(), threading.Event()

    @recovery.guard("ask", kind="model")
    def ask(is_long: bool) -> str:
        if is_long:
            is_open.set()
            may_end.wait(20)
        return "yes"

    with recovery.run("answer"), ThreadPoolExecutor(2) as pool:
        other = pool.submit(copy_context().run, ask, True)
        assert is_open.wait(10)
        waiting = pool.submit(copy_context().run, ask, False)
        time.sleep(0.1)
        assert not waiting.done()
        recovery.apply(capped(run_calls=9))
        assert waiting.result(timeout=10) == "yes"
        may_end.set()
        other.result()


def test_damaged_file_is_set_aside(tmp_path: Path) -> None:
    lab = Lab(desired=capped(run_calls=1), directory=tmp_path)
    path = accounts_of(lab.recovery).path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database" * 1000)
    parked(lab, asks(lab), lab.recovery.guard("ask", kind="model")(lambda: "yes"), run_id="r")
    assert spent(lab, "run:r").calls == 1
    assert path.with_name("spending.db.damaged").exists()


def test_directory_that_cannot_be_written_caps_this_process(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no directory")
    lab = Lab(desired=capped(run_calls=1), directory=blocked)
    ask = asks(lab)
    parked(lab, ask, ask)


CHILD = """
import sys, time
from dataclasses import replace
from recovery_ops.rules.desired_state import NOTHING_DESIRED
from recovery_ops.rules.policy.model import BUILT_IN
from recovery_ops.rules.policy.spend_settings import SpendCaps
from recovery_ops.runtime import Recovery, StopRun
caps = SpendCaps(run_tokens=100) if sys.argv[2] == "tokens" else SpendCaps(run_calls=7)
recovery = Recovery("spending", url="", directory=sys.argv[1], is_background_work_wanted=False,
                    desired=replace(NOTHING_DESIRED, policy=replace(BUILT_IN, spend_caps=caps)))
@recovery.guard("ask", kind="model")
def ask():
    print("made", flush=True)
    if sys.argv[2] == "hang":
        time.sleep(60)
    if sys.argv[2] == "tokens":
        run.output_tokens = (run.output_tokens or 0) + 30
with recovery.run("part", run_id="shared") as run:
    while True:
        try:
            ask()
        except StopRun:
            break
"""


def part_of_run(directory: Path, how: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHILD, str(directory), how], stdout=subprocess.PIPE, text=True)


def test_processes_of_one_run_share_its_cap(tmp_path: Path) -> None:
    parts = [part_of_run(tmp_path, "go") for _ in range(3)]
    made = [one.communicate(timeout=60)[0].count("made") for one in parts]
    assert sum(made) == 7


def test_processes_overshoot_one_call(tmp_path: Path) -> None:
    parts = [part_of_run(tmp_path, "tokens") for _ in range(4)]
    assert sum(one.communicate(timeout=60)[0].count("made") for one in parts) == 4


def test_killed_process_has_spent_its_open_call(tmp_path: Path) -> None:
    killed = part_of_run(tmp_path, "hang")
    assert killed.stdout is not None
    assert killed.stdout.readline() == "made\n"
    killed.kill()
    killed.communicate(timeout=60)
    after = part_of_run(tmp_path, "go")
    assert after.communicate(timeout=60)[0].count("made") == 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_forked_child_spends_from_the_same_account(recovery: Recovery) -> None:
    recovery.apply(capped(run_calls=3))

    @recovery.guard("ask", kind="model")
    def ask() -> None: ...

    with recovery.run("answer", run_id="r"):
        ask()
        child = os.fork()
        if not child:
            ask()
            os._exit(0)
        os.waitpid(child, 0)
        ask()
        with pytest.raises(StopRun):
            ask()


def beat(lab: Lab) -> InstanceHeartbeat:
    """The next heartbeat."""
    lab.clock.push(20.0)
    lab.recovery.housekeep()
    return lab.events_of(InstanceHeartbeat)[-1]


def test_heartbeat_reports_totals_of_accounts() -> None:
    lab = Lab(desired=capped(run_calls=9, source_tokens=900, day_cost_usd=5.0), default_source="nightly")
    ask = asks(lab)
    with lab.recovery.run("first", run_id="r-1"):
        ask()
    with lab.recovery.run("second", run_id="r-2") as run:
        ask()
        run.input_tokens, run.output_tokens, run.cost_usd = 30, 10, 0.5
        ask()
        with lab.recovery.run("child", run_id="r-3"):
            found = beat(lab)
    day, nightly = f"day:{DAY}", f"source:nightly:{DAY}"
    assert found.spent_calls == {"run:r-2": 2, day: 3, nightly: 3}
    assert found.spent_tokens == {"run:r-2": 40, day: 40, nightly: 40}
    assert found.spent_cost_usd == {"run:r-2": 0.5, day: 0.5, nightly: 0.5}
    again = beat(lab)
    assert (again.spend_ledger, again.cap_raises) == (found.spend_ledger, {})
    assert again.spent_calls == {day: 3, nightly: 3}


def test_heartbeat_reports_raised_caps() -> None:
    lab = Lab(desired=capped(day_calls=1, action="ask"))
    ask = asks(lab, ask_user=lambda question: True)
    with lab.recovery.run("answer", source="main_agent"):
        ask()
        ask()
    assert beat(lab).cap_raises == {f"day:{DAY}": 1}


def test_heartbeat_without_caps_reports_no_spending() -> None:
    lab = Lab()
    asks(lab)()
    assert (beat(lab).spend_ledger, beat(lab).spent_calls) == ("", {})


def test_heartbeat_goes_on_without_a_readable_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(desired=capped(day_calls=9))
    asks(lab)()
    monkeypatch.setattr(accounts_of(lab.recovery)._ledger, "_path", Path("/dev/null/no"))
    assert beat(lab).spend_ledger == ""


def test_processes_of_one_file_report_one_ledger(tmp_path: Path) -> None:
    path = tmp_path / "spending.db"
    first, second, other = SpendLedger(path), SpendLedger(path), SpendLedger()
    first.charge({f"day:{DAY}": NO_LIMIT}, Spending(calls=2, tokens=7, cost_usd=0.25))
    found = second.balances(DAY, [])
    assert found.ledger == first.balances(DAY, []).ledger != other.balances(DAY, []).ledger
    assert found.accounts[f"day:{DAY}"].spent == Spending(calls=2, tokens=7, cost_usd=0.25)
    assert second.balances("2027-01-16", ["r-9"]).accounts == {}
