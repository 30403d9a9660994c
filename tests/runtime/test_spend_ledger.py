"""The ledger of spend caps: threads, tasks, forked and killed processes share one account."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recovery_ops.rules.spending import UNKNOWN_CALL, Admission, SpendCap, Spending
from recovery_ops.runtime.spending.ledger import KEPT_S, SpendLedger

CALL = Spending(calls=1, tokens=30, cost_usd=0.5)

CHILD = """
import sys
from pathlib import Path
from recovery_ops.rules.spending import SpendCap, Spending
from recovery_ops.runtime.spending.ledger import SpendLedger
ledger = SpendLedger(Path(sys.argv[1]))
found = ledger.reserve({"run": SpendCap(cost_usd=1.0)}, Spending(calls=1, tokens=30, cost_usd=float(sys.argv[2])))
print(found.is_admitted, flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["file", "memory"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> SpendLedger:
    return SpendLedger(tmp_path / "spending.db" if request.param == "file" else None)


def spend_until_cap(ledger: SpendLedger, cap: SpendCap) -> None:
    while True:
        found = ledger.reserve({"run": cap}, CALL)
        if found.is_admitted:
            ledger.commit(found, CALL)
        elif found.ruling.admission is Admission.AT_CAP:
            return


def test_twenty_threads_overshoot_one_call(ledger: SpendLedger) -> None:
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda _: spend_until_cap(ledger, SpendCap(tokens=100)), range(20)))
    assert ledger.state("run").spent == Spending(calls=4, tokens=120, cost_usd=2.0)


def test_twenty_tasks_overshoot_one_call(ledger: SpendLedger) -> None:
    async def child() -> None:
        while True:
            found = ledger.reserve({"run": SpendCap(cost_usd=1.7)}, UNKNOWN_CALL)
            await asyncio.sleep(0)
            if found.is_admitted:
                ledger.commit(found, CALL)
            elif found.ruling.admission is Admission.AT_CAP:
                return

    async def children() -> None:
        await asyncio.gather(*(child() for _ in range(20)))

    asyncio.run(children())
    assert ledger.state("run").spent == Spending(calls=4, tokens=120, cost_usd=2.0)


def test_refused_call_reserves_in_no_account(ledger: SpendLedger) -> None:
    caps = {"run": SpendCap(calls=5), "day": SpendCap(calls=0)}
    assert ledger.reserve(caps, CALL).ruling.account == "day"
    assert ledger.state("run").open_calls == Spending()


def test_released_call_spends_nothing(ledger: SpendLedger) -> None:
    found = ledger.reserve({"run": SpendCap(calls=1)}, CALL)
    ledger.release(found)
    ledger.commit(found, CALL)
    assert ledger.state("run").spent == Spending()
    assert ledger.reserve({"run": SpendCap(calls=1)}, CALL).is_admitted


def test_settled_ledger_leaves_no_lock_file(tmp_path: Path) -> None:
    ledger = SpendLedger(tmp_path / "spending.db")
    ledger.commit(ledger.reserve({"run": SpendCap()}, CALL), CALL)
    assert [one.name for one in tmp_path.iterdir()] == ["spending.db"]


@pytest.mark.parametrize(("bound", "charged"), [("0.75", 0.75), ("inf", 0.0)])
def test_killed_process_is_charged_its_bound(tmp_path: Path, bound: str, charged: float) -> None:
    path = tmp_path / "spending.db"
    ledger = SpendLedger(path)
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path), bound], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "True\n"
        assert ledger.state("run").open_calls.cost_usd == float(bound)
        child.kill()
        child.wait()
    assert ledger.state("run").spent == Spending(calls=1, tokens=30, cost_usd=charged)
    assert ledger.state("run").open_calls == Spending()


def test_account_is_kept_for_its_time(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    ledger = SpendLedger(tmp_path / "spending.db", wall=lambda: now[0])
    held = ledger.reserve({"held": SpendCap()}, CALL)
    ledger.commit(ledger.reserve({"held": SpendCap(), "old": SpendCap()}, CALL), CALL)
    for passed_s, kept in ((KEPT_S - 1, 1), (3601.0, 0)):
        now[0] += passed_s
        ledger.release(ledger.reserve({"other": SpendCap()}, CALL))
        assert ledger.state("old").spent.calls == kept
    assert ledger.state("held").spent.calls == 1
    ledger.commit(held, CALL)


def test_file_is_its_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "spending.db"
    ledger = SpendLedger(path)
    ledger.commit(ledger.reserve({"run": SpendCap()}, CALL), CALL)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_forked_child_shares_the_account(tmp_path: Path) -> None:
    ledger = SpendLedger(tmp_path / "spending.db")
    first = ledger.reserve({"run": SpendCap(calls=3)}, CALL)
    child = os.fork()
    if not child:
        ledger.commit(ledger.reserve({"run": SpendCap(calls=3)}, CALL), CALL)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert ledger.state("run").spent.calls == 1
    ledger.commit(first, CALL)
    assert ledger.state("run").spent.calls == 2


def test_inner_call_takes_the_place_of_the_outer(tmp_path: Path) -> None:
    ledger, caps = SpendLedger(tmp_path / "spending.db"), {"run": SpendCap(calls=5)}
    outer = ledger.reserve(caps, CALL)
    inner = ledger.reserve(caps, CALL, instead_of=outer.id)
    assert ledger.state("run").open_calls == CALL
    ledger.commit(inner, CALL)
    assert [one.name for one in tmp_path.iterdir()] == ["spending.db"]
    ledger.commit(outer, CALL)
    assert ledger.state("run").spent == CALL


def test_debt_is_taken_once_with_the_call(ledger: SpendLedger) -> None:
    taken: list[Spending] = []

    def owed() -> Spending:
        taken.append(Spending(tokens=7))
        return taken[-1]

    found = ledger.reserve({"run": SpendCap()}, CALL)
    for _ in range(2):
        ledger.commit(found, CALL, owed)
    assert len(taken) == 1
    assert ledger.state("run").spent == CALL.plus(taken[0])


def test_raised_cap_is_not_lowered(ledger: SpendLedger) -> None:
    found = []
    for times in (1, 3, 2):
        ledger.raise_cap("run", times)
        found.append(ledger.state("run").raises)
    assert found == [1, 3, 3]
