"""What a workflow keeps and where: codecs, checkpoint stores of others, and results that do not travel."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recovery_ops.rules import events
from recovery_ops.runtime import ConfigurationError, Recovery
from recovery_ops.runtime.errors import CheckpointError, StepChanged
from recovery_ops.runtime.playbook.reversal import ReversalToken
from recovery_ops.runtime.testing import Lab
from recovery_ops.runtime.workflows.checkpoint_store import CheckpointStore, Flow, Holder, Progress, StepRecord
from recovery_ops.runtime.workflows.sqlite_checkpoints import SqliteCheckpoints
from recovery_ops.runtime.workflows.workflow import Workflow
from tests.support.workflow import do

__all__ = ["do"]  # the fixture

Make = Callable[..., Workflow]


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.db"


@pytest.fixture
def make(lab: Lab, path: Path) -> Make:
    """A workflow as a process of its own would make it: with a connection of its own."""

    def workflow(name: str = "refund", workflow_id: str = "order-7", **more: Any) -> Workflow:
        return Workflow(name, workflow_id, **{"recovery": lab.recovery, "store": SqliteCheckpoints(path), **more})

    return workflow


class Upper:
    """A codec of the caller's."""

    name = "upper"

    def encode(self, value: Any) -> bytes:
        return json.dumps(value, default=sorted).upper().encode()

    def decode(self, content: bytes) -> Any:
        return json.loads(content)


class TestCodecs:
    @pytest.mark.parametrize(
        ("value", "fault"),
        [
            ({1, 2}, "it is a set"),
            ({"a": [{"b": b"x"}]}, "it['a'][0]['b'] is a bytes"),
            ({1: "x"}, "it has the key 1, which is not text"),
            (float("nan"), "it is nan"),
        ],
    )
    def test_what_json_cannot_hold_is_an_error_with_its_place(self, make: Make, value: Any, fault: str) -> None:
        with pytest.raises(CheckpointError) as failed:
            make().step("pay", lambda: value)
        assert fault in str(failed.value)
        assert "result of step pay, which was done" in str(failed.value)
        (lost,) = make().steps()
        assert lost.progress is Progress.LOST

    def test_what_refers_to_itself_is_an_error_too(self, make: Make) -> None:
        value: list[Any] = []
        value.append(value)
        with pytest.raises(CheckpointError, match="100 levels"):
            make().step("pay", lambda: value)

    def test_arguments_that_cannot_be_stored_are_given_an_identity(self, lab: Lab, make: Make) -> None:
        client, script = object(), lab.script("paid")
        with pytest.raises(CheckpointError, match=r"\[0\]\[0\] is a object.*|identity="):
            make().step("pay", script, client, 10)
        assert make().step("pay", script, client, 10, identity=10) == "paid"
        assert make().step("pay", script, object(), 10, identity=10) == "paid"
        with pytest.raises(StepChanged):
            make().step("pay", script, client, 11, identity=11)
        assert script.calls == 1

    def test_a_codec_of_the_callers_is_used_and_must_stay(self, lab: Lab, make: Make) -> None:
        assert make(codec=Upper()).step("pay", lab.script({"b", "a"})) == ["A", "B"]
        assert make(codec=Upper()).step("pay", lab.script("never")) == ["A", "B"]
        with pytest.raises(CheckpointError, match="stored as upper"):
            make().step("pay", lab.script("never"))

    def test_a_step_whose_result_cannot_be_stored_is_not_done_again(
        self, lab: Lab, make: Make, do: Callable[..., Any]
    ) -> None:
        script = lab.script(datetime(2026, 11, 21, tzinfo=UTC))
        with pytest.raises(CheckpointError, match=r"result of step pay, which was done, .*: it is a datetime.*codec"):
            do(make(), "pay", script, 10)
        for _ in range(3):
            with pytest.raises(
                CheckpointError, match=r"step pay .* was done, .*datetime.*not done again.*already_done"
            ):
                do(make(), "pay", script, 10)
        assert script.calls == 1
        (lost,) = make().steps()
        assert (lost.progress, lost.attempts, lost.content) == (Progress.LOST, 1, b"")
        assert not [fact for fact in lab.events if isinstance(fact, events.CheckpointSaved)]

    def test_a_probe_gives_the_result_that_was_lost(self, lab: Lab, make: Make, do: Callable[..., Any]) -> None:
        script = lab.script({1, 2}, "twice")
        with pytest.raises(CheckpointError):
            do(make(), "pay", script, 10)
        with pytest.raises(CheckpointError, match="not done again"):
            do(make(), "pay", script, 10, already_done=lambda amount: None)
        with pytest.raises(ConnectionError):
            do(make(), "pay", script, 10, already_done=lab.script(ConnectionError()))
        with pytest.raises(CheckpointError, match="not done again"):
            do(make(), "pay", script, 10)
        assert do(make(), "pay", script, 10, already_done=lambda amount: [amount]) == [10]
        assert do(make(), "pay", script, 10) == [10]
        assert script.calls == 1

    def test_a_step_whose_result_was_lost_may_not_be_given_another_input(self, lab: Lab, make: Make) -> None:
        with pytest.raises(CheckpointError):
            make().step("pay", lab.script({1}), 10)
        with pytest.raises(StepChanged) as no:
            make().step("pay", lab.script("paid"), 20, already_done=lambda amount: amount)
        assert no.value.was_done

    def test_a_codec_that_breaks_loses_the_result_and_not_the_step(self, lab: Lab, make: Make) -> None:
        class Broken(Upper):
            def encode(self, value: Any) -> bytes:
                return b"[]" if value == [[], {}] else bytes(value.nothing)

        script = lab.script("paid", "twice")
        with pytest.raises(CheckpointError, match="nothing"):
            make(codec=Broken()).step("pay", script)
        with pytest.raises(CheckpointError, match="not done again"):
            make(codec=Broken()).step("pay", script)
        assert script.calls == 1

    def test_pickles_are_refused(self, make: Make) -> None:
        class Pickled:
            name = "pickle"
            encode = staticmethod(pickle.dumps)
            decode = staticmethod(pickle.loads)

        for codec in (pickle, Pickled()):
            with pytest.raises(ConfigurationError, match="never pickled"):
                make(codec=codec)

    def test_what_is_no_codec_is_refused(self, make: Make) -> None:
        with pytest.raises(ConfigurationError, match="encode"):
            make(codec=json)


class InMemory(CheckpointStore):
    """A store of somebody else's: the smallest thing that keeps the promise."""

    def __init__(self) -> None:
        self.held: dict[Flow, Holder] = {}
        self.kept: dict[tuple[Flow, str], StepRecord] = {}
        self.tokens: set[str] = set()

    def acquire(self, flow: Flow, owner: str, *, now: float, lease_s: float) -> Holder | None:
        holder = self.held.get(flow)
        if holder is not None and holder.owner != owner and holder.until > now:
            return holder
        self.held[flow] = self.LeaseHolder(owner, now + lease_s)
        return None

    def renew(self, flow: Flow, owner: str, *, now: float, lease_s: float) -> bool:
        return flow in self.held and self.held[flow].owner == owner

    def release(self, flow: Flow, owner: str) -> None:
        if self.renew(flow, owner, now=0, lease_s=0):
            del self.held[flow]

    def read(self, flow: Flow, step: str) -> StepRecord | None:
        return self.kept.get((flow, step))

    def write(self, flow: Flow, owner: str, record: StepRecord) -> bool:
        known = self.read(flow, record.step)
        if not self.renew(flow, owner, now=0, lease_s=0) or (known and known.progress is Progress.FINISHED):
            return False
        self.kept[flow, record.step] = record
        return True

    def steps(self, flow: Flow) -> tuple[StepRecord, ...]:
        return tuple(record for (one, _), record in self.kept.items() if one == flow)

    def forget(self, flow: Flow) -> None:
        self.kept = {key: record for key, record in self.kept.items() if key[0] != flow}

    def redeem(self, token_id: str, *, now: float) -> bool:
        is_first = token_id not in self.tokens
        self.tokens.add(token_id)
        return is_first


class TestStores:
    def test_any_store_will_do(self, lab: Lab, make: Make, do: Callable[..., Any]) -> None:
        store: CheckpointStore = InMemory()
        script = lab.script("paid")
        assert do(make(store=store), "pay", script) == "paid"
        assert do(make(store=store), "pay", script) == "paid"
        assert script.calls == 1

    def test_the_default_is_a_file_of_the_service(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RECOVERY_OPS_DIR", str(tmp_path))
        script = Lab().script("paid")
        # No laboratories: each of those keeps its checkpoints to itself.
        recoveries = [
            Recovery(service, url="", is_background_work_wanted=False) for service in ("billing", "billing", "shop")
        ]
        made = [Workflow("refund", "order-7", recovery=recovery) for recovery in recoveries]
        for workflow in made:
            workflow.step("pay", script)
        assert script.calls == 2
        assert made[0].store is made[1].store
        assert len(list((tmp_path / "checkpoints").glob("*.db"))) == 2

    def test_a_store_that_fails_stops_the_step_before_its_effect(self, lab: Lab, make: Make, path: Path) -> None:
        script = lab.script("paid")
        path.write_bytes(b"no database" * 1000)
        with pytest.raises(CheckpointError) as failed:
            make().step("pay", script)
        assert (script.calls, failed.value.resume_id) == (0, "refund/order-7")

    def test_a_token_is_redeemed_once_in_all_processes(self, lab: Lab, path: Path) -> None:
        token = ReversalToken("book", "order-across", lab.script("undone"))
        SqliteCheckpoints(path).redeem(token.id, now=lab.clock.wall())  # by another process
        assert not token.redeem(SqliteCheckpoints(path), now=lab.clock.wall())

    @pytest.mark.parametrize(("name", "workflow_id", "lease_s"), [("", "1", 30.0), ("a", "", 30.0), ("a", "1", 0.0)])
    def test_a_workflow_has_a_name_an_id_and_a_lease(
        self, make: Make, name: str, workflow_id: str, lease_s: float
    ) -> None:
        with pytest.raises(ConfigurationError):
            make(name, workflow_id, lease_s=lease_s)
