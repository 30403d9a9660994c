"""The store of workflows: leases, checkpoints that do not change, tokens; and two runners in any order."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from recovery_ops.runtime.errors import CheckpointError
from recovery_ops.runtime.process.file_lock import Claim
from recovery_ops.runtime.workflows.checkpoint_store import Flow, Progress, StepError, StepRecord
from recovery_ops.runtime.workflows.sqlite_checkpoints import SqliteCheckpoints
from tests.support.examples import examples

FLOW = Flow("refund", "order-7")
OTHER = Flow("refund", "order-8")
LEASE_S = 30.0


def record(step: str = "pay", progress: Progress = Progress.FINISHED, **more: Any) -> StepRecord:
    return StepRecord(step=step, progress=progress, input_hash="in", attempts=1, at=1.5, codec="json", **more)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "checkpoints.db"


@pytest.fixture
def store(path: Path) -> SqliteCheckpoints:
    return SqliteCheckpoints(path)


def acquire(store: SqliteCheckpoints, owner: str, now: float = 0.0, flow: Flow = FLOW) -> str | None:
    """Who has it instead; None where the owner has it now."""
    holder = store.acquire(flow, owner, now=now, lease_s=LEASE_S)
    return None if holder is None else holder.owner


class TestSteps:
    def test_what_is_written_is_read_back(self, store: SqliteCheckpoints) -> None:
        error = StepError("ValueError", "bug", "m", "u", "s", can_retry=False, is_outcome_unknown=False)
        failed = record("tell", Progress.FAILED, error=error)
        acquire(store, "a")
        assert store.write(FLOW, "a", record(content=b"[1]"))
        assert store.write(FLOW, "a", failed)
        assert store.read(FLOW, "tell") == failed
        assert store.steps(FLOW) == (record(content=b"[1]"), failed)
        assert store.read(OTHER, "pay") is None

    def test_a_finished_step_does_not_change(self, store: SqliteCheckpoints, path: Path) -> None:
        acquire(store, "a")
        assert store.write(FLOW, "a", record(content=b"1"))
        assert not store.write(FLOW, "a", record(content=b"2"))
        assert not store.write(FLOW, "a", record(progress=Progress.STARTED))
        with sqlite3.connect(path) as db, pytest.raises(sqlite3.IntegrityError, match="does not change"):
            db.execute("UPDATE step SET content = x'32'")
        db.close()
        assert store.read(FLOW, "pay") == record(content=b"1")

    def test_only_the_owner_writes(self, store: SqliteCheckpoints) -> None:
        assert not store.write(FLOW, "a", record())
        acquire(store, "a")
        assert not store.write(FLOW, "b", record())
        assert store.steps(FLOW) == ()

    def test_steps_keep_the_order_in_which_they_were_begun(self, store: SqliteCheckpoints) -> None:
        acquire(store, "a")
        for progress in (Progress.STARTED, Progress.FINISHED):
            for step in "cab":
                assert store.write(FLOW, "a", record(step, progress))
        assert [one.step for one in store.steps(FLOW)] == ["c", "a", "b"]

    def test_forgetting_drops_one_execution(self, store: SqliteCheckpoints) -> None:
        for flow in (FLOW, OTHER):
            acquire(store, "a", flow=flow)
            store.write(flow, "a", record())
        store.forget(FLOW)
        assert (store.steps(FLOW), len(store.steps(OTHER))) == ((), 1)


class TestLease:
    def test_one_at_a_time(self, store: SqliteCheckpoints, path: Path) -> None:
        other = SqliteCheckpoints(path)
        assert acquire(store, "a") is None
        assert acquire(other, "b", now=29.0) == "a"
        assert acquire(other, "b", now=29.0, flow=OTHER) is None
        store.release(FLOW, "a")
        assert acquire(other, "b", now=29.0) is None

    def test_an_owner_that_hangs_is_waited_for_until_its_lease_expires(
        self, store: SqliteCheckpoints, path: Path
    ) -> None:
        other = SqliteCheckpoints(path)
        acquire(store, "a")
        assert store.renew(FLOW, "a", now=20.0, lease_s=LEASE_S)
        assert acquire(other, "b", now=49.9) == "a"
        assert acquire(other, "b", now=50.0) is None
        assert not store.renew(FLOW, "a", now=50.0, lease_s=LEASE_S)
        assert not store.write(FLOW, "a", record())

    def test_an_owner_that_died_is_not_waited_for(self, store: SqliteCheckpoints, path: Path) -> None:
        acquire(store, "a")
        store.close()  # what the death of the process does: the lock of the system is given back, the lease stands
        assert acquire(SqliteCheckpoints(path), "b") is None

    def test_whoever_took_over_from_one_that_hangs_is_not_taken_for_dead(
        self, store: SqliteCheckpoints, path: Path
    ) -> None:
        acquire(store, "a")
        second, third = SqliteCheckpoints(path), SqliteCheckpoints(path)
        assert acquire(second, "b", now=31.0) is None  # without the lock of the system: "a" lives, and has it
        store.close()
        assert acquire(third, "c", now=32.0) == "b"

    def test_taking_it_again_keeps_it(self, store: SqliteCheckpoints, path: Path) -> None:
        assert acquire(store, "a") is None
        assert acquire(store, "a", now=10.0) is None
        assert acquire(SqliteCheckpoints(path), "b", now=31.0) == "a"

    def test_an_owner_without_locks_of_the_system_still_has_its_lease(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none(path: Path) -> Claim:
            raise OSError("this file system knows no locks")

        monkeypatch.setattr(Claim, "take", none)
        store, other = SqliteCheckpoints(path), SqliteCheckpoints(path)
        assert acquire(store, "a") is None
        assert acquire(other, "b") == "a"
        assert acquire(other, "b", now=31.0) is None

    def test_nothing_is_left_of_a_lease_that_was_given_back(self, store: SqliteCheckpoints, path: Path) -> None:
        acquire(store, "a")
        store.release(FLOW, "a")
        assert list(path.with_name(path.name + ".leases").iterdir()) == []


class TestTokens:
    def test_a_token_is_redeemed_once_by_whoever_comes_first(self, path: Path) -> None:
        firsts: list[bool] = []
        stores = [SqliteCheckpoints(path) for _ in range(8)]
        threads = [
            threading.Thread(target=lambda one=store: firsts.append(one.redeem("t-1", now=1.0))) for store in stores
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(firsts) == [False] * 7 + [True]
        assert stores[0].redeem("t-2", now=1.0)


class TestFile:
    def test_only_its_owner_may_look(self, store: SqliteCheckpoints, path: Path) -> None:
        acquire(store, "a")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700

    def test_it_is_written_ahead_and_synced(self, store: SqliteCheckpoints, path: Path) -> None:
        acquire(store, "a")
        store.write(FLOW, "a", record())
        db = sqlite3.connect(path)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        db.close()
        assert store._db is not None
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)

    def test_a_damaged_file_is_said_and_left_alone(self, store: SqliteCheckpoints, path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(b"no database" * 1000)
        with pytest.raises(CheckpointError, match="damaged"):
            store.read(FLOW, "pay")
        assert path.read_bytes().startswith(b"no database")

    def test_a_file_of_a_newer_version_is_refused(self, store: SqliteCheckpoints, path: Path) -> None:
        path.parent.mkdir()
        db = sqlite3.connect(path)
        db.execute("PRAGMA user_version=99")
        db.close()
        with pytest.raises(CheckpointError, match="newer version"):
            store.steps(FLOW)

    def test_a_place_that_cannot_be_written_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(CheckpointError, match="RECOVERY_OPS_DIR"):
            SqliteCheckpoints(tmp_path / "file" / "checkpoints.db").read(FLOW, "pay")

    def test_a_full_disk_changes_nothing(self, store: SqliteCheckpoints) -> None:
        acquire(store, "a")
        assert store._db is not None
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(CheckpointError, match="full"):
            store.write(FLOW, "a", record(content=bytes(100_000)))
        assert store.read(FLOW, "pay") is None
        assert store.write(FLOW, "a", record(content=b"1"))

    def test_its_default_place_is_the_state_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RECOVERY_OPS_DIR", str(tmp_path))
        assert SqliteCheckpoints().path == tmp_path / "checkpoints.db"


class Runner:
    """One process as the store sees it: it takes the lease, does the effect of a step, and writes it down."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.store = SqliteCheckpoints(path)
        self.has_lease = False
        self.effect: tuple[str, bytes] | None = None


class TwoRunners(RuleBasedStateMachine):
    """Any interleaving of two runners that may hang, die and start again: no effect is recorded twice or changed."""

    def __init__(self) -> None:
        super().__init__()
        self.home = tempfile.TemporaryDirectory()
        self.path = Path(self.home.name) / "checkpoints.db"
        self.runners = {name: Runner(self.path, name) for name in "ab"}
        self.now = 0.0
        self.recorded: dict[str, bytes] = {}
        self.serial = 0

    who = st.sampled_from("ab")
    step = st.sampled_from(["one", "two"])

    @rule(who=who)
    def takes_the_lease(self, who: str) -> None:
        runner = self.runners[who]
        holder = runner.store.acquire(FLOW, runner.name, now=self.now, lease_s=LEASE_S)
        runner.has_lease = holder is None
        if holder is not None:
            assert holder.owner != runner.name
            assert holder.until > self.now

    @rule(who=who, step=step)
    def does_an_effect(self, who: str, step: str) -> None:
        runner = self.runners[who]
        found = runner.store.read(FLOW, step)
        if not runner.has_lease or (found is not None and found.progress is Progress.FINISHED):
            return
        if runner.store.write(FLOW, runner.name, record(step, Progress.STARTED)):
            self.serial += 1
            runner.effect = (step, json.dumps(self.serial).encode())

    @rule(who=who)
    def writes_it_down(self, who: str) -> None:
        runner = self.runners[who]
        if runner.effect is None:
            return
        (step, content), runner.effect = runner.effect, None
        if runner.store.write(FLOW, runner.name, record(step, content=content)):
            assert step not in self.recorded
            self.recorded[step] = content

    @rule(who=who)
    def renews(self, who: str) -> None:
        runner = self.runners[who]
        if runner.has_lease:
            runner.has_lease = runner.store.renew(FLOW, runner.name, now=self.now, lease_s=LEASE_S)

    @rule(who=who)
    def gives_it_back(self, who: str) -> None:
        runner = self.runners[who]
        runner.store.release(FLOW, runner.name)
        runner.has_lease, runner.effect = False, None

    @rule(who=who)
    def dies_and_starts_again(self, who: str) -> None:
        self.runners[who].store.close()
        self.serial += 1
        self.runners[who] = Runner(self.path, f"{who}{self.serial}")

    @rule(seconds=st.sampled_from([1.0, 29.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def what_was_recorded_stays(self) -> None:
        found = {one.step: one.content for one in self.runners["a"].store.steps(FLOW) if one.progress == "finished"}
        assert found == self.recorded

    def teardown(self) -> None:
        for runner in self.runners.values():
            runner.store.close()
        self.home.cleanup()


TwoRunners.TestCase.settings = settings(max_examples=examples(15, 60), stateful_step_count=40, deadline=None)
TestTwoRunners = TwoRunners.TestCase
