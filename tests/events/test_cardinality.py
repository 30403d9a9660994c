"""However many names there are, tables stay small; no fact is lost for it, and everybody can see it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction

from events.deployments.models import ServiceVersion
from events.ingest.cardinality import OTHER, UNSEEN_DAYS, Kind, give_way, known_names, standings
from events.ingest.records import read_records
from events.ingest.tallies import tallies_of
from events.models import Agent, BreakerState, Fact, KnownName, MinuteSum
from events.otlp.sent import Batch, Sent
from events.store.writes import store_facts
from tests.support.otlp import Door, record, request

NOW_US = 1_795_000_000_000_000
DAY_US = 86_400_000_000


@pytest.fixture
def narrow(settings: Any) -> None:
    """Three names of each kind have a place."""
    settings.MOST_NAMES = {kind.value: 3 for kind in Kind}


def store(count: int, name: str, *, environment: str = "dev", at_us: int = NOW_US, **rest: str) -> None:
    """Facts with as many names of one kind, stored the way the writer does."""
    records = [
        Sent("failure", at_us * 1000 - number, 0, 13, "", {**rest, name: f"{name}-{number}"}, "", "")
        for number in range(count)
    ]
    rows = read_records([Batch({"service.name": "billing"}, "t", records)], environment, at_us).rows
    with transaction.atomic():
        known_names.bound(rows)
        store_facts(rows)


def folded(environment: str = "dev") -> dict[str, int]:
    return {one.kind.value: one.folded for one in standings(environment, tallies_of(environment)) if one.folded}


@pytest.mark.parametrize("name", ["service.version", "recovery.failure.fingerprint"])
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("value", [["a", "b"], {"a": ["b"]}, 3, 1.5, True])
def test_a_name_that_is_no_text_is_stored_like_any_other(name: str, value: Any) -> None:
    """One such record was answered 503 for ever, and kept all beside it from being stored."""
    store(1, name)
    records = [Sent("failure", NOW_US * 1000, 0, 13, "", {name: value}, "", "")]
    rows = read_records([Batch({"service.name": "billing"}, "t", records)], "dev", NOW_US).rows
    with transaction.atomic():
        known_names.bound(rows)
        store_facts(rows)
    assert Fact.objects.count() == 2


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("recovery.operation.name", Kind.OPERATION),
        ("recovery.breaker.name", Kind.BREAKER),
        ("recovery.query_source", Kind.SOURCE),
        ("gen_ai.provider.name", Kind.PROVIDER),
        ("gen_ai.request.model", Kind.MODEL),
        ("cloud.region", Kind.REGION),
        ("service.version", Kind.VERSION),
        ("recovery.failure.fingerprint", Kind.FINGERPRINT),
    ],
)
@pytest.mark.usefixtures("narrow", "store")
def test_names_beyond_the_bound_are_one_and_keep_their_own(name: str, kind: Kind) -> None:
    store(10, name)
    assert Fact.objects.count() == 10
    assert KnownName.objects.filter(kind=kind.value).count() == 3
    assert folded() == {kind.value: 7}
    kept = [fact.attributes.get(f"recovery.folded.{kind.value}") for fact in Fact.objects.order_by("-at_us")]
    assert kept == [None] * 3 + [f"{name}-{number}" for number in range(3, 10)]
    if kind is Kind.REGION:
        assert set(Fact.objects.values_list("region", flat=True)) == {*(f"{name}-{n}" for n in range(3)), OTHER}
    elif kind is Kind.VERSION:
        assert set(ServiceVersion.objects.values_list("version", flat=True)) == {
            *(f"{name}-{n}" for n in range(3)),
            OTHER,
        }
    elif kind is not Kind.FINGERPRINT:
        assert set(MinuteSum.objects.values_list(kind.value, flat=True)) == {*(f"{name}-{n}" for n in range(3)), OTHER}
    assert sum(MinuteSum.objects.values_list("failures", flat=True)) == 10


@pytest.mark.usefixtures("narrow")
def test_instances_and_services_are_bounded_through_the_door(door: Door) -> None:
    for number in range(6):
        resource = {"service.name": f"s{number % 5}", "service.instance.id": f"i{number}"}
        given = {"recovery.breaker.name": "b", "recovery.breaker.state": "open"}
        assert door.post(json=request(record("breaker_state", given=given), resource=resource)).status_code == 200
    assert Fact.objects.count() == 6
    assert {(agent.service, agent.instance) for agent in Agent.objects.all()} == {
        *(("s0", "i0"), ("s1", "i1"), ("s2", "i2")),
        *((OTHER, OTHER), ("s0", OTHER)),
    }
    assert BreakerState.objects.count() == 5
    assert folded() == {"service": 2, "instance": 3}


@pytest.mark.usefixtures("narrow", "store")
def test_other_environments_are_not_affected() -> None:
    store(10, "recovery.operation.name")
    store(3, "recovery.operation.name", environment="prod")
    assert folded("prod") == {}


@pytest.mark.usefixtures("narrow", "store")
def test_the_same_facts_again_are_not_stored_twice_and_names_with_a_place_keep_it() -> None:
    store(5, "recovery.operation.name")
    known_names.forget()  # as another process, or after a restart
    store(5, "recovery.operation.name")
    assert Fact.objects.count() == 5
    assert Fact.objects.filter(operation=OTHER).count() == 2


@pytest.mark.usefixtures("narrow", "store")
def test_a_name_that_nobody_uses_gives_way() -> None:
    store(3, "recovery.operation.name")
    later = NOW_US + (UNSEEN_DAYS + 2) * DAY_US
    store(1, "recovery.operation.name", at_us=later)  # the first of them is still used
    assert give_way(later) > 0
    assert KnownName.objects.filter(kind="operation").count() == 1
    known_names.forget()
    store(3, "recovery.operation.name", at_us=later + 1, more="x")
    assert Fact.objects.filter(operation=OTHER).count() == 0


@pytest.mark.usefixtures("store")
def test_a_rollback_leaves_nothing_behind_in_memory(narrow: None, door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise RuntimeError("away")

    with monkeypatch.context() as broken:
        broken.setattr("events.ingest.commits.store_facts", fail)
        for number in range(5):
            door.post(json=request(record(given={"recovery.operation.name": f"lost-{number}"})))
    door.post(json=request(record(given={"recovery.operation.name": "kept"})))
    assert list(KnownName.objects.filter(kind="operation").values_list("name", flat=True)) == ["kept"]


def test_names_without_end_leave_small_tables(engine: str, settings: Any) -> None:
    known_names.forget()
    settings.MOST_NAMES = {kind.value: 100 for kind in Kind}
    for start in range(0, 20_000, 5000):
        records = [
            Sent("failure", NOW_US * 1000 - number, 0, 13, "", {"recovery.operation.name": f"op-{number}"}, "", "")
            for number in range(start, start + 5000)
        ]
        rows = read_records([Batch({"service.name": "s"}, "t", records)], "dev", NOW_US).rows
        with transaction.atomic():
            known_names.bound(rows)
            store_facts(rows)
    assert KnownName.objects.filter(kind="operation").count() == 100
    assert MinuteSum.objects.count() == 101
    assert folded() == {"operation": 19_900}
    known_names.forget()
