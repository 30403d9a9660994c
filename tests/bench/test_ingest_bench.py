"""What is measured is what is said: every record has a uid of its own, and both servers store what they acknowledge."""

from __future__ import annotations

import gzip
import time
from itertools import islice
from pathlib import Path

import psycopg
import pytest

from events.derived import derive_from_spans
from events.ingest.records import read_records
from events.otlp.protobuf_requests import read_logs
from events.otlp.sent import Encoding
from events.otlp.spans import read_spans
from recovery_ops.bench import ingest, raw, sending
from recovery_ops.bench.cluster import cluster
from recovery_ops.bench.figures import Report


def told(count: int = 3, sender: int = 1) -> list[bytes]:
    return list(islice(sending.bodies(sender, time.time_ns()), count))


def test_no_two_records_have_the_same_uid_and_all_are_facts() -> None:
    received_us = time.time_ns() // 1000
    bodies = told() + told(sender=2)
    intakes = [read_records(read_logs(gzip.decompress(body)), "dev", received_us) for body in bodies]
    rows = [row for intake in intakes for row in intake.rows]
    assert len({row.uid for row in rows}) == len(rows) == 6 * sending.BATCH
    assert {row.event for row in rows} == {"failure_classified"}
    assert [row.at_us for row in intakes[0].rows] == sorted({row.at_us for row in intakes[0].rows})
    assert sum(len(intake.refused) + intake.ignored for intake in intakes) == 0


def test_the_server_without_us_stores_the_same_columns(tmp_path: Path) -> None:
    rows = [row for body in told() for row in raw.decoded(body)]
    store = raw.Store(str(tmp_path / "raw.sqlite3"))
    store.insert(rows)
    assert len({row[1] for row in rows}) == len(rows) == 3 * sending.BATCH


def test_spans_are_calls_of_traces_of_their_own(tmp_path: Path) -> None:
    bodies = [body for sender in (1, 2) for body in islice(sending.span_bodies(sender, time.time_ns()), 2)]
    intakes = [
        read_records(
            derive_from_spans(read_spans(gzip.decompress(body), Encoding.PROTOBUF)).batches,
            "dev",
            time.time_ns() // 1000,
        )
        for body in bodies
    ]
    failed = [row for intake in intakes for row in intake.rows if row.event == "failure_classified"]
    assert len({row.trace_id for row in failed}) == len(failed) == 4 * sending.BATCH // 10
    assert {row.category for row in failed} == {"overloaded"}
    rows = [row for body in bodies for row in raw.decoded_spans(body)]
    raw.Store(str(tmp_path / "raw.sqlite3")).insert(rows)
    assert len({row[1] for row in rows}) == len(rows) == 4 * sending.BATCH


def figures(report: Report) -> dict[str, float]:
    return {figure.what: figure.value for figure in report.figures if figure.value is not None}


@pytest.mark.parametrize("engine", ingest.ENGINES)
def test_a_short_run_loses_and_doubles_nothing(
    engine: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if engine == "postgresql":
        request.getfixturevalue("postgres_url")  # where there is none: skipped, and in CI an error
    monkeypatch.setattr(ingest, "WARM_S", 0.2)
    monkeypatch.setattr(ingest, "SPANS_S", 0.5)
    monkeypatch.setattr(ingest, "SLICE_S", 0.25)  # two of them: the second goes on with facts that are new
    [report] = ingest.measure(0.5, engine, count=2)
    found = figures(report)
    assert found["records committed"] > 0
    assert found["without us: decode and insert"] > 0
    assert found["spans taken in"] > 0
    assert found["share of spans that are stored without us"] > 0
    assert found["batches of spans answered with anything but 200"] == 0
    assert (found["acknowledged and lost"], found["stored twice"]) == (0, 0)
    assert found["bytes for each fact"] > 100
    assert found["server memory, most"] >= found["server memory, at the end"] > 0


def test_a_cluster_that_is_measured_has_its_log_and_no_more(request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("postgres_url")
    steps: list[int] = []
    with cluster() as where, psycopg.connect(where.new_database("ours")) as connection:
        assert connection.execute("SHOW min_wal_size").fetchone() == ("8GB",)
        [before] = connection.execute("SELECT count(*) FROM pg_ls_waldir()").fetchone() or (0,)
        assert where.run_in(100) == 0
        assert where.run_in(300, steps.append) == 256
        [after] = connection.execute("SELECT count(*) FROM pg_ls_waldir()").fetchone() or (0,)
        left = connection.execute("SELECT count(*) FROM pg_class WHERE relname = 'run_in'").fetchone()
    assert steps == [128, 256]
    assert after >= before + 256 // 16 - 1  # in files of 16 MB
    assert left == (0,)


def test_aims_are_told_by_how_fast_the_machine_was_while_it_was_measured() -> None:
    ran = ingest.Ran()
    ran.add(sending.Sent([0.1] * 80), lasted_s=2.0, cpu_s=1.4, share=1.0)
    ran.add(sending.Sent([0.1] * 40), lasted_s=2.0, cpu_s=2.8, share=0.25)
    assert ran.rate == 15_000
    assert ran.aim_per_s == ingest.AIM_PER_S * 0.625
    assert ran.cpu_s_each_10k == pytest.approx(0.7)
    assert ran.aim_cpu_s == pytest.approx(ingest.AIM_CPU_S * 2)
    assert ran.slowest == 10_000
