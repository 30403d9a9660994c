"""The desired state: one document for both sides, refused whole when it is not understood."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest

from recovery_ops import wire
from recovery_ops.rules.desired_state import (
    STOP,
    Abort,
    Answer,
    Override,
    Pause,
    Probe,
    Reset,
    Retry,
    Shed,
    winning_override,
)
from recovery_ops.rules.enums import Importance, State
from recovery_ops.rules.policy.model import BUILT_IN, document_of
from recovery_ops.rules.policy.scope import Place, Scope


def override(scope: Scope, *, revision: int = 1, mode: State = State.FORCED_OPEN, one_id: str = "ov") -> Override:
    return Override(
        id=one_id,
        mode=mode,
        scope=scope,
        reason="the provider is down",
        by="ana",
        starts_at=100.0,
        expires_at=200.0,
        revision=revision,
    )


def document(**changed: Any) -> dict[str, Any]:
    made = wire.desired_document(
        environment="dev",
        revision=3,
        policy=document_of(BUILT_IN),
        policy_version="12",
        overrides=[override(Scope(operation="search"), revision=3)],
        resets=[Reset(scope=Scope(operation="model:*"), revision=2)],
        issued_at=50.0,
    )
    return made | changed


def test_what_is_stated_is_what_is_read() -> None:
    desired = wire.parse_desired(document())
    assert desired.revision == 3
    assert desired.policy.version == "12"
    assert desired.overrides == (override(Scope(operation="search"), revision=3),)
    assert desired.resets == (Reset(scope=Scope(operation="model:*"), revision=2),)
    assert desired.config_hash == wire.config_hash(document())


SHED = Shed(id="s", least=Importance.CRITICAL, by="ana", reason="storm", starts_at=1.5, expires_at=2.5, revision=8)
ENTRIES: dict[str, Any] = {
    "overrides": replace(override(Scope(operation="search"), mode=State.DISABLED), ramp_s=12.5),
    "resets": Reset(scope=Scope(operation="model:*"), revision=2, ramp_s=7.5),
    "probes": Probe(scope=Scope(operation="search", service="research"), revision=5),
    "answers": Answer(
        ticket="t", decision="edited", text="five", by="ana", reason="too many", service="research", revision=4
    ),
    "aborts": Abort(run="r", by="ana", reason="loops", service="research", revision=6),
    "pauses": Pause(
        id="p", service="research", instance="i", by="ana", reason="deploy", expires_at=9.5, revision=7, kind=STOP
    ),
    "retries": Retry(
        id="x", run="r", service="research", instance="i", by="ana", reason="again", input="{}", revision=9
    ),
    "shed": SHED,
    "sheds_ahead": replace(SHED, id="later", starts_at=3.5),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_every_field_of_entry_survives_the_wire(name: str) -> None:
    entry = ENTRIES[name]
    unset = [
        one.name for one in fields(entry) if one.default is not MISSING and getattr(entry, one.name) == one.default
    ]
    stated: dict[str, Any] = {"overrides": [], "resets": [], name: entry if name == "shed" else [entry]}
    made = wire.desired_document(
        environment="dev", revision=9, policy=document_of(BUILT_IN), policy_version="12", issued_at=50.0, **stated
    )
    read = getattr(wire.parse_desired(json.loads(json.dumps(made))), name)
    assert (unset, read) == ([], entry if name == "shed" else (entry,))


def test_a_policy_that_is_known_is_not_read_again_and_another_one_is() -> None:
    first = document()
    known = (first["policy"], wire.parse_desired(first).policy)
    tripped = document(revision=4, overrides=[])
    assert wire.parse_desired(tripped, known=known).policy is known[1]
    other = document(policy=first["policy"] | {"version": "another"})
    assert wire.parse_desired(other, known=known).policy.version == "another"


def test_the_hash_is_of_what_is_to_be_obeyed() -> None:
    assert document()["config_hash"] == document(issued_at=99.0)["config_hash"] == wire.config_hash(document())
    assert wire.config_hash(document(revision=4)) != wire.config_hash(document())


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"schema_version": None}, "schema_version"),
        ({"revision": "3"}, "revision"),
        ({"revision": -1}, "revision"),
        ({"requires": ["telepathy"]}, "requires"),
        ({"policy": {"defaults": {"model": {"max_retries": 900}}}}, "policy.defaults.model.max_retries"),
        ({"overrides": {}}, "overrides"),
        ({"overrides": [{"id": "x", "mode": "closed", "expires_at": 1.0}]}, "overrides[0]"),
        ({"overrides": [{"id": "x", "mode": "forced_open", "expires_at": float("nan")}]}, "overrides[0]"),
        (
            {"overrides": [{"id": "x", "mode": "forced_open", "expires_at": 1.0, "scope": {"moon": "full"}}]},
            "overrides[0]",
        ),
        ({"resets": [{}]}, "resets[0]"),
    ],
)
def test_a_document_with_a_fault_is_refused_whole(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(wire.DesiredInvalid) as refused:
        wire.parse_desired(document(**changed))
    assert path in [problem.path for problem in refused.value.problems]


@pytest.mark.parametrize("rubbish", [None, [], "x", 1])
def test_what_is_no_document_is_refused(rubbish: object) -> None:
    with pytest.raises(wire.DesiredInvalid):
        wire.parse_desired(rubbish)


def test_keys_from_the_future_are_ignored() -> None:
    assert wire.parse_desired(document(weather="fine", schema_version=9)).revision == 3


PLACE = Place(service="research", instance="r-1", operation="search_web", breaker="helios", group="gold")

BY_RANK = [
    Scope(),
    Scope(group="gold"),
    Scope(service="research"),
    Scope(operation="search_web"),
    Scope(service="research", operation="search_web"),
    Scope(instance="r-1"),
]


def test_the_most_specific_scope_wins() -> None:
    for place_in_order, scope in enumerate(BY_RANK):
        others = [override(other, revision=9, one_id=f"o{n}") for n, other in enumerate(BY_RANK[:place_in_order])]
        mine = override(scope, revision=1, one_id="mine")
        assert winning_override([*others, mine], [PLACE], 150.0) == mine


def test_at_equal_scope_the_highest_revision_wins() -> None:
    old, new = (override(Scope(operation="helios"), revision=n, one_id=f"o{n}") for n in (4, 5))
    assert winning_override([new, old], [PLACE], 150.0) == new


@pytest.mark.parametrize(("now", "holds"), [(99.9, False), (100.0, True), (199.9, True), (200.0, False)])
def test_an_override_has_a_beginning_and_an_end(now: float, holds: bool) -> None:
    assert (winning_override([override(Scope())], [PLACE], now) is not None) is holds


@pytest.mark.parametrize(
    ("scope", "holds"),
    [
        (Scope(operation="search*"), True),
        (Scope(operation="helios"), True),
        (Scope(operation="search"), False),
        (Scope(operation="[s]earch_web"), False),
        (Scope(group="silver"), False),
        (Scope(service="research", instance="r-2"), False),
    ],
)
def test_which_places_a_scope_holds(scope: Scope, holds: bool) -> None:
    assert scope.holds(PLACE) is holds


def test_a_run_that_is_to_end_is_told_by_name_and_an_older_document_tells_none() -> None:
    wanted = Abort(run="run-7", by="ana", reason="it asks for the wrong customer", service="research", revision=3)
    made = wire.desired_document(
        environment="dev",
        revision=3,
        policy=document_of(BUILT_IN),
        policy_version="12",
        overrides=[],
        resets=[],
        issued_at=50.0,
        aborts=[wanted],
    )
    read = wire.parse_desired(made)
    assert read.aborts == (wanted,)
    assert (read.abort_of("run-7"), read.abort_of("run-8")) == (wanted, None)
    assert "aborts" not in document()
    assert wire.parse_desired(document()).aborts == ()
    with pytest.raises(wire.DesiredInvalid, match=r"aborts\[0\]"):
        wire.parse_desired(made | {"aborts": [{"reason": "whose?"}]})


def test_new_work_that_is_paused_is_told_with_its_end_and_an_older_document_tells_none() -> None:
    some = Pause(id="pz-1", service="research", instance="r-0", by="ana", reason="the host goes", expires_at=90.5)
    every = Pause(id="pz-2", service="research", revision=3)
    made = wire.desired_document(
        environment="dev",
        revision=3,
        policy=document_of(BUILT_IN),
        policy_version="12",
        overrides=[],
        resets=[],
        issued_at=50.0,
        pauses=[some, every],
    )
    assert wire.parse_desired(made).pauses == (some, every)
    assert "pauses" not in document()
    assert wire.parse_desired(document()).pauses == ()
    for wrong in ({"id": "pz-1"}, {"id": "pz-1", "service": "research", "expires_at": "soon"}):
        with pytest.raises(wire.DesiredInvalid, match=r"pauses\[0\]"):
            wire.parse_desired(made | {"pauses": [wrong]})


def test_stop_is_a_pause_to_versions_that_know_no_stop() -> None:
    held = Pause(id="pz-1", service="research", by="ana", reason="it spends", expires_at=90.5, revision=3)
    stop = replace(held, kind=STOP)
    made, paused = (
        wire.desired_document(
            environment="dev",
            revision=3,
            policy=document_of(BUILT_IN),
            policy_version="12",
            overrides=[],
            resets=[],
            issued_at=50.0,
            pauses=[one],
        )
        for one in (stop, held)
    )
    assert wire.parse_desired(made).pauses == (stop,)
    assert "requires" not in made, "an older version would refuse the whole document"
    told = made["pauses"][0]
    assert {name: value for name, value in told.items() if name != "kind"} == paused["pauses"][0]
    assert wire.parse_desired(made | {"pauses": [told | {"kind": "of a later version"}]}).pauses == (held,)
    assert made["config_hash"] != paused["config_hash"]


def test_runs_that_are_to_be_begun_again_are_stated_only_where_there_are_any() -> None:
    wanted = Retry(
        id="ry-1",
        run="run-7",
        service="research",
        instance="r-0",
        by="ana",
        reason="the bank is back",
        input='{"limit": 5}',
        revision=3,
    )
    made = wire.desired_document(
        environment="dev",
        revision=3,
        policy=document_of(BUILT_IN),
        policy_version="12",
        overrides=[],
        resets=[],
        issued_at=50.0,
        retries=[wanted],
    )
    assert wire.parse_desired(made).retries == (wanted,)
    assert "retries" not in document()
    assert wire.parse_desired(document()).retries == ()
    with pytest.raises(wire.DesiredInvalid, match=r"retries\[0\]"):
        wire.parse_desired(made | {"retries": [{"id": "ry-2", "run": "whose?"}]})
