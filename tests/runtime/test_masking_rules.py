"""What an environment hides, in an agent: neither in its outbox nor on its way is a text that a rule names."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from recovery_ops import wire
from recovery_ops.rules.events import HookFailed, Instance
from recovery_ops.runtime import Recovery, RecoveryExhausted
from recovery_ops.runtime.process.clock import Clock
from recovery_ops.runtime.telemetry.exporter import Exporter
from recovery_ops.runtime.telemetry.outbox import Outbox
from recovery_ops.runtime.telemetry.pipeline import Telemetry
from tests.support.http_server import Request, answer, attributes, serving

SECRET, ADDRESS = "CUST-0123456789", "ann@example.org"
SECTION = {
    "rules": [{"name": "customer", "pattern": r"CUST-\d{10}", "replacement": "[customer]"}],
    "attributes": ["recovery.run.name"],
}


def desired(policy: dict[str, Any]) -> dict[str, Any]:
    return wire.desired_document(
        environment="dev",
        revision=1,
        policy=policy,
        policy_version="1",
        overrides=[],
        resets=[],
        issued_at=0.0,
    )


def said(requests: list[Request]) -> list[dict[str, Any]]:
    return [attributes(record) for one in requests if one.path == "/v1/logs" for _, record in one.exported]


def test_a_telemetry_that_the_application_made_hides_as_well(tmp_path: Path) -> None:
    """Two recoveries send by it: what either of their policies names leaves the process by neither."""
    clock, outbox = Clock(), Outbox(tmp_path / "own.outbox", clock=Clock())
    other = {"rules": [{"name": "address", "pattern": r"ann@example\.org"}]}
    with serving() as server:
        own = Telemetry(
            Instance(service="billing", instance="b-1"), outbox=outbox, clock=clock, send=Exporter(server.url, "k")
        )
        first, second = (
            Recovery(
                "billing", sink=own, desired=wire.parse_desired(desired({"masking": section})), url="", reraise=False
            )
            for section in (SECTION, other)
        )
        for one in (first, second):
            one.emit(
                HookFailed(
                    operation="pay", hook="after", error_type="ValueError", message=f"no account {SECRET} of {ADDRESS}"
                )
            )
        assert own.flush(20.0)
        kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        facts = said(server.requests)
        first.close()
        second.close()
        own.close()
    told = [one["recovery.message"] for one in facts if "recovery.message" in one]
    assert told == ["no account [customer] of [masked]"] * 2
    assert SECRET.encode() not in kept
    assert ADDRESS.encode() not in kept


def test_a_shared_telemetry_keeps_no_recovery_and_hides_what_one_that_is_gone_has_told(tmp_path: Path) -> None:
    own = Telemetry(
        Instance(service="billing", instance="b-1"), outbox=Outbox(tmp_path / "own.outbox"), clock=Clock(), send=None
    )
    held = wire.parse_desired(desired({"masking": SECTION}))
    gone: list[weakref.ref[Recovery]] = []
    for _ in range(3):
        one = Recovery("billing", sink=own, desired=held, url="", reraise=False)
        one.close()
        gone.append(weakref.ref(one))
        del one
    gc.collect()
    assert [ref() for ref in gone] == [None] * 3
    other = Recovery("billing", sink=own, desired=wire.parse_desired(desired({})), url="", reraise=False)
    own.emit(HookFailed(operation="pay", hook="after", error_type="ValueError", message=f"no account {SECRET}"))
    assert own.flush(20.0)
    other.close()
    own.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"no account [customer]" in kept
    assert SECRET.encode() not in kept


@pytest.mark.parametrize("is_told", [True, False])
def test_an_agent_hides_before_it_keeps_or_sends(tmp_path: Path, is_told: bool) -> None:
    """The server takes nothing, so all that was said lies in the outbox, and was on its way."""
    held = wire.parse_desired(desired({"masking": SECTION} if is_told else {}))
    with serving(answer(503, retry_after="1")) as server:
        recovery = Recovery("billing", url=server.url, key="k", directory=tmp_path, desired=held, reraise=False)

        def pay() -> None:
            raise ValueError(f"no account {SECRET} of {ADDRESS}")

        guarded = recovery.guard(f"pay {SECRET}", idempotent=True)(pay)
        with recovery.run(f"run of {ADDRESS}", source="main_agent"), pytest.raises((RecoveryExhausted, ValueError)):
            guarded()
        recovery.flush(5.0)
        kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        recovery.close()
        facts = said(server.requests)
    assert any(one.get("recovery.failure.category") for one in facts), "texts that were never said prove nothing"
    on_the_way = "\n".join(map(str, facts))
    assert (SECRET not in on_the_way) is is_told
    assert (SECRET.encode() not in kept) is is_told
    assert ("[customer]" in on_the_way) is is_told
    names = {one["recovery.run.name"] for one in facts if "recovery.run.name" in one}
    assert names == ({"[masked]"} if is_told else {f"run of {ADDRESS}"})
