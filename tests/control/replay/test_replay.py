"""Replay: what was recorded is decided again as it was, otherwise under another policy, and only as far as known."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import connections
from django.utils import timezone

from events.queries.recordings import Part, count_recorded, recordings
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.replay import job
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.control.replay.services.replays import cancel_replay, start_replay
from recovery_ops.rules.events import (
    Escalated,
)
from recovery_ops.rules.policy.model import Settings
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.recording import Studio
from tests.support.replays import BUILT_IN_DOCUMENT, call, compared, compared_again, endings, policy, spent

pytestmark = pytest.mark.django_db


# -- the same policy gives the same ------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(8))
def test_under_the_policy_it_ran_under_a_recording_is_decided_as_it_was(seed: int) -> None:
    rng = random.Random(seed)
    studio = Studio(BUILT_IN_DOCUMENT)

    def outcomes() -> list[Any]:
        found: list[Any] = []
        while len(found) < 300:
            is_storm = rng.random() < 0.4
            bad = [503, 500, 529, 429, TimeoutError("slow"), 404, "ok"]
            found += [rng.choice(bad) if is_storm else "ok" for _ in range(rng.randrange(1, 12))]
        return found

    guards = [studio.guard("search_web", outcomes()), studio.guard("fetch", outcomes(), optional=True)]
    for _ in range(150):
        source = rng.choice(["main_agent", "nightly"])
        call(studio, rng.choice(guards), source, pause_s=rng.random() * 3)
    found = compared(studio, BUILT_IN_DOCUMENT)
    assert found["measures"]["old"] == pytest.approx(found["measures"]["recorded"], abs=0.11)
    assert found["measures"]["new"] == found["measures"]["old"]
    assert found["matched_endings"] == found["told_endings"] > 5
    assert (found["affected_calls"], found["unknown"], found["loose_facts"]) == (0, {"old": {}, "new": {}}, 0)


@pytest.mark.parametrize("seed", range(4))
def test_what_counted_for_a_breaker_then_counts_again(seed: int) -> None:
    rng = random.Random(seed)
    ruled = {**BUILT_IN_DOCUMENT, "failures": {"open_breakers": ["not_found"], "close_gates": [503]}}
    studio = Studio(ruled)
    search = studio.guard("search_web", [rng.choice([404, 404, 404, 500, 503, "ok"]) for _ in range(400)])
    for _ in range(120):
        call(studio, search, pause_s=rng.random() * 3)
    found = compared(studio, ruled, ruled)
    assert found["measures"]["recorded"]["openings"] > 0
    assert found["measures"]["old"] == pytest.approx(found["measures"]["recorded"], abs=0.11)
    built_in = compared_again(studio, BUILT_IN_DOCUMENT, ruled)
    assert built_in["measures"]["new"]["openings"] < found["measures"]["old"]["openings"]


def test_a_fallback_that_answered_answers_again() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    cache = studio.guard("cache", [])
    search = studio.guard("search_web", [503] * 40, fallback=[cache])
    for _ in range(6):
        call(studio, search)
    found = compared(studio, BUILT_IN_DOCUMENT)
    assert found["measures"]["old"]["fallbacks"] == found["measures"]["recorded"]["fallbacks"] == 6
    assert found["unknown"] == {"old": {}, "new": {}}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_keys_that_rest_are_decided_as_they_were(seed: int) -> None:
    rng = random.Random(seed)
    studio = Studio(BUILT_IN_DOCUMENT)
    ask = studio.guard(
        "ask",
        [rng.choice([402, 401, 429, 503, "ok", "ok", "ok"]) for _ in range(100)],
        kind="model",
        credentials=["team-a", "team-b", "team-c"],
    )
    for _ in range(40):
        call(studio, ask, rng.choice(["main_agent", "nightly"]), pause_s=rng.random() * 500)
    found = compared(studio, BUILT_IN_DOCUMENT)
    for measure in ("attempts", "retries"):
        assert found["measures"]["old"][measure] == pytest.approx(found["measures"]["recorded"][measure], abs=3)
    assert found["told_endings"] - 2 <= found["matched_endings"]
    assert found["told_endings"] > 5


def test_optional_tool_that_stayed_is_decided_as_it_was() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    search = studio.guard(
        "search", [404, "ok", 503, 503, 503, 503, "ok", 422], optional=True, kind="tool", tool="search"
    )
    for _ in range(5):
        call(studio, search)
    found = compared(studio, BUILT_IN_DOCUMENT)
    assert found["measures"]["old"] == pytest.approx(found["measures"]["recorded"], abs=0.11)
    assert found["matched_endings"] == found["told_endings"]


def test_declared_transient_is_decided_as_it_was() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    search = studio.guard("search_web", [ValueError("x"), 403, "ok", 422, 422, "ok"], retry_on=Exception)
    for _ in range(3):
        call(studio, search)
    found = compared(studio, BUILT_IN_DOCUMENT)
    assert found["measures"]["old"] == pytest.approx(found["measures"]["recorded"], abs=0.11)
    assert (found["matched_endings"], found["unknown"]) == (found["told_endings"], {"old": {}, "new": {}})


# -- another policy gives something else -------------------------------------------------------------------------------
def test_fewer_retries_end_a_call_that_was_answered() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("search_web", [503, 503, "ok"]))
    found = compared(studio, policy(max_retries=1))
    assert endings(found) == {("answered", "failed"): 1}
    old, new = found["measures"]["old"], found["measures"]["new"]
    assert (old["attempts"], new["attempts"]) == (3, 2)
    assert (old["retries"], new["retries"]) == (2, 1)
    assert old["waiting_s"] > new["waiting_s"] > 0
    assert (found["affected_calls"], found["affected_runs"], found["runs"]) == (1, 1, 1)


def test_operation_that_loses_most_comes_before_unchanged() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("calm", [503, "ok"]))
    call(studio, studio.guard("search_web", [503, 503, "ok"]))
    found = compared(studio, policy(max_retries=1))
    assert [one["operation"] for one in found["operations"]] == ["search_web", "calm"]


def test_what_attempts_cost_is_told_by_the_price_of_the_runs() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    spent(studio, cost_usd=0.06)
    found = compared(studio, policy("model:primary", max_retries=0))
    old, new = found["measures"]["old"], found["measures"]["new"]
    assert (old["tokens"], new["tokens"]) == (3000, 1000)
    assert (old["cost_usd"], new["cost_usd"]) == (0.06, 0.02)
    assert found["unknown"] == {"old": {}, "new": {}}
    [operation] = found["operations"]
    assert (operation["old"]["cost_usd"], operation["new"]["cost_usd"]) == (0.06, 0.02)


@pytest.mark.parametrize(("cost_usd", "tokens"), [(None, 1000), (0.06, 0)])
def test_a_cost_that_nobody_told_is_no_cost_of_nothing(cost_usd: float | None, tokens: int) -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    spent(studio, cost_usd=cost_usd, tokens=tokens)
    found = compared(studio, policy("model:primary", max_retries=0))
    assert (found["measures"]["old"]["cost_usd"], found["measures"]["new"]["cost_usd"]) == (None, None)
    assert found["unknown"] == {"old": {"no_cost": 3}, "new": {"no_cost": 1}}


def test_an_attempt_that_nobody_made_is_not_made_up() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("search_web", [503] * 9))
    found = compared(studio, policy(max_retries=4, consecutive_failures=9))
    assert endings(found) == {("failed", "unknown"): 1}
    assert found["unknown"]["new"] == {"not_made": 1}
    assert (found["measures"]["old"]["failed"], found["measures"]["new"]["failed"]) == (1, 0)


def test_a_lower_threshold_opens_sooner_and_refuses_what_went_well() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    search = studio.guard("search_web", [503, 503, 503, "ok"])
    call(studio, search)
    for _ in range(30):
        call(studio, search)
    call(studio, studio.guard("fetch", []))
    call(studio, studio.guard("search_web", [503, "ok"]))
    found = compared(studio, policy(consecutive_failures=2, wait_duration_in_open_s=10))
    assert (found["measures"]["old"]["openings"], found["measures"]["new"]["openings"]) == (0, 1)
    assert endings(found)[("answered", "failed")] == 1
    assert 7 <= endings(found)[("answered", "refused")] <= 10


def test_a_fallback_that_never_answered_this_call_is_counted_as_not_known() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    cache = studio.guard("cache", [])
    search = studio.guard("search_web", [404, 503, "ok"], fallback=[cache])
    call(studio, search)
    call(studio, search)
    found = compared(studio, policy(max_retries=0))
    assert endings(found)[("answered", "fallback")] == 1
    assert found["unknown"]["new"] == {"not_asked": 1}


def test_a_forbidden_fallback_lets_the_call_fail() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    search = studio.guard("search_web", [404], fallback=[studio.guard("cache", [])])
    call(studio, search)
    assert endings(compared(studio, policy(fallback_allowed=False))) == {("fallback", "failed"): 1}


def test_what_was_refused_and_would_be_made_is_not_known() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    search = studio.guard("search_web", [503] * 5)
    for _ in range(10):
        call(studio, search, pause_s=0.1)
    found = compared(studio, policy(consecutive_failures=0, failure_rate_threshold=0))
    assert found["measures"]["old"]["refused"] == found["measures"]["recorded"]["refused"] > 5
    assert found["unknown"]["new"]["not_admitted"] > 5
    assert found["measures"]["new"]["refused"] == 0


def test_what_the_code_said_holds_where_the_policy_says_nothing() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("search_web", [503, 503, 503], settings=Settings(max_retries=1)))
    assert compared(studio, policy(operation="other", max_retries=9))["affected_calls"] == 0
    assert endings(compared(studio, policy(max_retries=0))) == {("failed", "failed"): 1}


def test_what_may_do_harm_twice_is_not_retried_by_any_policy() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("pay", [TimeoutError("slow"), "ok"], idempotent=False))
    found = compared(studio, policy(operation="pay", max_retries=9))
    assert (found["affected_calls"], found["measures"]["new"]["retries"]) == (0, 0)


def test_a_trip_by_a_person_holds_under_any_policy() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    search = studio.guard("search_web", [503, "ok"])
    call(studio, search)
    studio.lab.trip("search_web")
    for _ in range(3):
        call(studio, search)
    found = compared(studio, policy(consecutive_failures=1))
    assert found["measures"]["new"]["refused"] >= found["measures"]["old"]["refused"] == 3


def test_people_are_asked_again_by_the_ladder_and_by_code() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    unknown = studio.guard("search_web", [RuntimeError("nobody has seen this before"), 402])
    call(studio, unknown)
    question = Escalated(operation="refund", queue="refunds", reason="question", escalation_id="e-1")
    studio.tape.emit(question, source="main_agent")
    found = compared(studio, policy(max_retries=1))
    assert [found["measures"][which]["escalations"] for which in ("recorded", "old", "new")] == [2, 2, 2]
    assert found["asked_by_code"] == 1


def test_an_instance_that_only_asked_is_counted_too() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    studio.tape.emit(Escalated(operation="refund", queue="refunds", reason="question", escalation_id="e-1"))
    found = compared(studio, policy(max_retries=1))
    assert [found["measures"][which]["escalations"] for which in ("recorded", "old", "new")] == [1, 1, 1]


def test_the_examples_show_both_ways_step_by_step() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("search_web", [503, 503, "ok"]))
    [example] = compared(studio, policy(max_retries=1))["examples"]
    assert (example["operation"], example["recorded"]) == ("search_web", "answered")
    assert [step["what"] for step in example["new"]["steps"]] == [
        "attempt 1: server_error",
        "waits 0.6 s",
        "attempt 2: server_error",
        "failed",
    ]
    assert [step["what"] for step in example["old"]["steps"]][-2:] == ["attempt 3: answered", "answered"]


def test_only_the_part_that_was_asked_for_is_read() -> None:
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("search_web", [404]))
    call(studio, studio.guard("fetch", [404]))
    studio.store()
    end_us = int(studio.lab.clock.wall() * 1e6) + 1
    window: dict[str, Any] = {"start_us": int(studio.began_s * 1e6) - 1, "end_us": end_us}
    for part, expected in (
        (Part(environment="dev", **window, operation="fetch"), {"fetch"}),
        (Part(environment="dev", **window, service="research"), {"", "fetch", "search_web"}),
        (Part(environment="dev", **window, service="billing"), set()),
        (Part(environment="prod", **window), set()),
    ):
        assert {fact.operation for _, told in recordings(part) for fact in told} == expected
        assert bool(count_recorded(part)) == bool(expected)


# -- the job -----------------------------------------------------------------------------------------------------------
def recorded() -> Studio:
    studio = Studio(BUILT_IN_DOCUMENT)
    call(studio, studio.guard("search_web", [503, 503, "ok"]))
    studio.store()
    return studio


def started(studio: Studio, **changed: Any) -> Replay:
    start = datetime.fromtimestamp(studio.began_s, UTC) - timedelta(seconds=1)
    given: dict[str, Any] = {"start": start, "end": start + timedelta(hours=1), "document": policy(max_retries=1)}
    given["now"] = start + timedelta(hours=1)
    return start_replay(**asked(**given) | changed).object


NOW = datetime(2027, 1, 16, tzinfo=UTC)


def test_a_replay_is_started_once_run_and_read() -> None:
    made = started(recorded())
    assert (made.state, made.number) == ("waiting", 1)
    ran: list[int] = []
    assert job.start_next(now=NOW, start=lambda one: ran.append(one.pk)) == made
    assert job.start_next(now=NOW, start=lambda one: ran.append(one.pk)) is None
    assert ran == [made.pk]
    job.run(Replay.objects.get(pk=made.pk))
    made.refresh_from_db()
    assert (made.state, made.problem, made.done_facts) == ("done", "", made.total_facts)
    assert made.result is not None
    assert made.result["endings"] == [{"old": "answered", "new": "failed", "calls": 1}]
    assert AuditEntry.objects.get().verb == "replay.start"


def test_one_runs_at_a_time_and_the_first_asked_is_the_first_done() -> None:
    studio = recorded()
    first, second = started(studio), started(studio, now=NOW)
    order: list[int] = []
    for one in (first, second):
        job.start_next(now=NOW, start=lambda found: order.append(found.pk))
        job.run(Replay.objects.get(pk=one.pk))
    assert order == [first.pk, second.pk]


def test_a_waiting_replay_is_cancelled_at_once_and_a_running_one_at_its_next_look() -> None:
    studio = recorded()
    waiting = started(studio)
    assert cancel_replay(**asked(number=waiting.number)).object.state == "cancelled"
    running = started(studio)
    job.claim(running.pk, now=NOW)
    cancel_replay(**asked(number=running.number))
    ticks = iter(range(0, 10_000, 5))
    job.run(Replay.objects.get(pk=running.pk), clock=lambda: float(next(ticks)))
    running.refresh_from_db()
    assert (running.state, running.result) == ("cancelled", None)


def test_a_replay_whose_process_is_gone_says_so_and_lets_the_next_begin() -> None:
    studio = recorded()
    lost, next_one = started(studio), started(studio)
    job.claim(lost.pk, now=NOW)
    assert job.start_next(now=NOW + timedelta(seconds=30), start=lambda one: None) is None
    assert job.start_next(now=NOW + timedelta(seconds=61), start=lambda one: None) == next_one
    lost.refresh_from_db()
    assert (lost.state, lost.problem != "", lost.result) == ("failed", True, None)


@pytest.mark.django_db(transaction=True)
def test_it_tells_how_far_it_is_while_others_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses a write on a connection whose reading began before somebody else wrote."""
    studio = Studio(BUILT_IN_DOCUMENT)
    operation = studio.guard("search_web", [503] * 30)
    for _ in range(5):
        call(studio, operation)
    studio.store()
    made = job.claim(started(studio).pk, now=datetime.now(UTC))
    assert made is not None
    others = ThreadPoolExecutor(1)

    def somebody_writes() -> datetime:
        others.submit(Revision.objects.create, environment=str(uuid4()), changed_at=datetime.now(UTC)).result()
        return datetime.now(UTC)

    monkeypatch.setattr(job, "BEAT_S", 0.0)
    monkeypatch.setattr("events.queries.recordings._PAGE", 1)
    monkeypatch.setattr(timezone, "now", somebody_writes)
    nicer: list[int] = []
    monkeypatch.setattr(os, "nice", nicer.append)  # here it is the process of all tests
    call_command("replay", str(made.pk))
    assert nicer == [job.NICE]
    with connections["default"].cursor() as cursor:
        if connections["default"].vendor == "sqlite":
            cursor.execute("PRAGMA temp_store")
            assert cursor.fetchone() == (1,), "a long recording is sorted in memory"
            cursor.execute("PRAGMA temp_store = MEMORY")
    others.submit(connections.close_all).result()
    others.shutdown()
    made.refresh_from_db()
    assert (made.state, made.problem) == (Replay.DONE, "")
    assert Revision.objects.count() > 10


def test_what_goes_wrong_is_written_down(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    made = started(recorded())
    job.claim(made.pk, now=NOW)
    monkeypatch.setattr(job, "stored", lambda part: 1 / 0)
    job.run(Replay.objects.get(pk=made.pk))
    made.refresh_from_db()
    assert (made.state, made.problem) == ("failed", "ZeroDivisionError: division by zero")


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"end": datetime(2020, 1, 1, tzinfo=UTC)}, {"end"}),
        ({"start": datetime(2020, 1, 1, tzinfo=UTC)}, {"start"}),
        ({"document": {"rules": 1}}, {"rules"}),
        ({"operation": "x" * 300}, {"operation"}),
    ],
)
def test_what_cannot_be_replayed_is_refused_by_field(changed: dict[str, Any], fields: set[str]) -> None:
    with pytest.raises(CommandRejected) as refused:
        started(recorded(), **changed)
    assert (refused.value.status, set(refused.value.fields)) == (400, fields)


def test_too_many_at_once_and_those_who_may_not_are_refused() -> None:
    studio = recorded()
    for _ in range(5):
        started(studio)
    with pytest.raises(CommandRejected) as refused:
        started(studio)
    assert refused.value.code == "too_many"
    with pytest.raises(CommandRejected) as forbidden:
        started(studio, by=person(Role.VIEWER))
    assert forbidden.value.status == 403
