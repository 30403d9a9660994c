"""An error that climbs through a trace is told once, in whatever requests and order its spans come."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime
from itertools import pairwise
from threading import Thread
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import events.derived.traces
from events.derived.open_parents import OpenParent
from events.derived.traces import settle
from events.ingest.commits import writer
from events.ingest.reporters import reporters
from events.models import Fact, SpanMark
from events.otlp import reading
from events.otlp.sent import Encoding, Signal
from events.store.retention import sweep_facts
from events.store.writes import store_facts
from tests.support.examples import examples
from tests.support.otlp import Door, attributes, request
from tests.support.spans import CHAT, NOW_US, TRACE, exception, failed, logged, rows, span, traces
from tests.support.stores import store_at
from tests.support.traces import Span, check, clear, deliver, failures, outlived, read, store


def chain() -> list[Span]:
    """An agent's turn, the call of a model in it, and its request: all failed."""
    agent = failed("invoke_agent", raised=[exception("KeyError")])
    chat = failed("chat", parent=agent, ago_s=9.9, raised=[exception("openai.InternalServerError")])
    return [agent, chat, failed("POST", kind=3, parent=chat, ago_s=9.8, given={"http.response.status_code": 529})]


def test_a_climbing_error_is_one_failure_in_any_order_and_split(engine: str) -> None:
    for order in itertools.permutations(range(3)):
        for cuts in ((), (1,), (2,), (1, 2)):
            clear()
            spans = chain()
            arriving = [spans[place] for place in order]
            for start, end in pairwise([0, *cuts, 3]):
                deliver(*arriving[start:end])
            assert failures() == [spans[2]["spanId"]], (order, cuts)
            check()


@pytest.mark.django_db(transaction=True)
def test_an_error_that_was_told_too_early_stays_as_a_record_with_its_trace() -> None:
    agent, chat, post = chain()
    for one in (agent, chat, post):
        deliver(one)
    kept = Fact.objects.filter(event="log").order_by("at_us")
    assert {fact.span_id for fact in kept} == {agent["spanId"], chat["spanId"]}
    assert {fact.attributes["event.name"] for fact in kept} == {"exception"}
    assert {fact.attributes["recovery.derived_from"] for fact in kept} == {"span"}


@pytest.mark.django_db(transaction=True)
def test_an_exception_that_a_later_parent_dealt_with_was_told_by_the_child() -> None:
    outer = span("retry", raised=[exception("httpx.ReadTimeout")])
    inner = failed("call", parent=outer, raised=[exception("httpx.ReadTimeout")])
    for spans in ((inner, outer), (outer, inner)):
        clear()
        for one in spans:
            deliver(one)
        assert failures() == [inner["spanId"]]
        check()


@pytest.mark.django_db(transaction=True)
def test_a_failure_after_a_retry_that_went_well_is_its_own_in_later_requests_too() -> None:
    tool = failed("execute_tool", given={"gen_ai.tool.name": "parse"}, raised=[exception("ValueError", "no date")])
    first = failed("GET", parent=tool, kind=3, ago_s=9.9, given={"http.response.status_code": 503})
    then = span("GET", parent=tool, kind=3, ago_s=9.5, given={"http.response.status_code": 200})
    for one in (first, then, tool):
        deliver(one)
    assert failures() == sorted([first["spanId"], tool["spanId"]])
    check()


@pytest.mark.django_db(transaction=True)
def test_what_was_taken_for_passed_on_is_told_again_when_a_later_success_shows_that_it_was_not() -> None:
    tool = failed("execute_tool", raised=[exception("ValueError")])
    first = failed("GET", parent=tool, kind=3, ago_s=9.9, given={"http.response.status_code": 503})
    then = span("GET", parent=tool, kind=3, ago_s=9.5, given={"http.response.status_code": 200})
    for one in (tool, first, then):
        deliver(one)
    assert failures() == sorted([first["spanId"], tool["spanId"]])
    check()


@pytest.mark.django_db(transaction=True)
def test_failure_that_ends_beside_a_success_climbs() -> None:
    parent, below, then = outlived()
    then["endTimeUnixNano"] = below["endTimeUnixNano"]
    deliver(parent, below, then)
    assert failures() == [below["spanId"]]
    check()


@pytest.mark.django_db(transaction=True)
def test_requests_that_come_again_change_nothing() -> None:
    spans = chain()
    for one in (*spans, *spans, *spans[::-1]):
        deliver(one)
    assert failures() == [spans[2]["spanId"]]
    check()


SLOW_DOWN = exception("openai.RateLimitError", "Error code: 429 - slow down")


def repeated() -> dict[str, list[Span]]:
    """Traces in which several spans tell of one exception; the last span of each is the call."""
    root = failed("LangGraph", raised=[SLOW_DOWN])
    node = span("node", parent=root)
    turn = span("turn")
    return {
        "above a span that went well": [root, node, failed("chat", given=CHAT, parent=node, raised=[SLOW_DOWN])],
        "siblings": [
            turn,
            failed("generation", parent=turn, raised=[SLOW_DOWN]),
            failed("chat", given=CHAT, parent=turn, raised=[SLOW_DOWN]),
        ],
    }


@pytest.mark.parametrize("what", repeated())
def test_exception_that_several_spans_tell_counts_once(engine: str, what: str) -> None:
    spans = repeated()[what]
    for arrival in ARRIVALS:
        clear()
        for places in arrival:
            deliver(*(spans[place] for place in places))
        assert failures() == [spans[-1]["spanId"]], arrival
        check()


def test_parallel_calls_that_fail_alike_stay_apart(engine: str) -> None:
    turn = failed("turn", raised=[SLOW_DOWN])
    calls = [failed("chat", given=CHAT, parent=turn, raised=[SLOW_DOWN]) for _ in range(2)]
    for spans in ([turn, *calls], [*calls, turn]):
        clear()
        for one in spans:
            deliver(one)
        assert failures() == sorted(one["spanId"] for one in calls)
        check()


ARRIVALS = [
    [order[start:end] for start, end in pairwise([0, *cuts, 3])]
    for order in itertools.permutations(range(3))
    for cuts in ((), (1,), (2,), (1, 2))
]


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[Span], list[list[Span]]]:
    """A trace, and the same as it may arrive: in any order, split anywhere, some of it twice."""
    count = draw(st.integers(1, 7))
    may_succeed = draw(st.booleans())
    spans: list[Span] = []
    for number in range(count):
        parent = spans[draw(st.integers(0, number - 1))] if number and draw(st.integers(0, 4)) else None
        made = span if may_succeed and draw(st.booleans()) else failed
        raised = [exception(f"app.Error{draw(st.integers(0, 1))}") for _ in range(draw(st.integers(0, 2)))]
        spans.append(made("work", ago_s=100.0 - number, parent=parent, raised=raised))
    for ended, one in enumerate(spans[::-1]):  # a parent is made before its children, and ends after them
        one["endTimeUnixNano"] = str(NOW_US * 1000 - 10**9 + ended)
    arriving = draw(st.permutations(spans))
    again = draw(st.lists(st.sampled_from(spans), max_size=3))
    cuts = sorted(draw(st.lists(st.integers(0, count), max_size=4)))
    return spans, [arriving[start:end] for start, end in pairwise([0, *cuts, count])] + [[one] for one in again]


@settings(max_examples=examples(8, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(told=trees())
def test_any_split_of_a_trace_tells_what_the_whole_tells(
    engine: str, told: tuple[list[Span], list[list[Span]]]
) -> None:
    spans, requests = told
    clear()
    deliver(*spans)
    expected = failures()
    check()
    clear()
    for one in requests:
        deliver(*one)
    assert failures() == expected
    check()


@settings(max_examples=examples(8, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=trees(), data=st.data())
def test_a_trace_that_is_sent_twice_in_any_order_and_split_tells_what_the_whole_tells(
    engine: str, tree: tuple[list[Span], list[list[Span]]], data: st.DataObject
) -> None:
    spans, _ = tree
    clear()
    deliver(*spans)
    expected = failures()
    clear()
    arriving = data.draw(st.permutations(spans)) + data.draw(st.permutations(spans))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(arriving)), max_size=8)))
    for start, end in pairwise([0, *cuts, len(arriving)]):
        deliver(*arriving[start:end])
    assert failures() == expected
    check()


def kept() -> list[tuple[Any, ...]]:
    """The failures as they are stored, but for when each was received."""
    columns = ("span_id", "at_us", "uid", "attributes", "operation", "category", "provider", "model", "body")
    stored = Fact.objects.filter(event="failure_classified").order_by("uid")
    return [(*(getattr(fact, name) for name in columns), fact.agent.service) for fact in stored]


def test_a_child_that_went_well_shows_that_its_parent_failed_by_itself_whenever_it_is_sent(engine: str) -> None:
    spans = outlived()
    deliver(*spans)
    expected = kept()
    assert len(expected) == 2
    for arrival in ARRIVALS:
        clear()
        for places in (*arrival, *arrival):
            deliver(*(spans[place] for place in places))
        assert kept() == expected, arrival
        check()


def test_what_was_passed_on_as_far_as_was_known_is_told_without_being_sent_again(engine: str) -> None:
    spans = outlived()
    deliver(*spans)
    expected = kept()
    for arrival in ARRIVALS:
        clear()
        for places in arrival:
            deliver(*(spans[place] for place in places))
        assert kept() == expected, arrival
        check()


def test_an_error_that_stays_passed_on_leaves_no_fact_and_one_line_beside_its_mark(engine: str) -> None:
    agent, chat, post = chain()
    for requests in ([[post, chat, agent]], [[post], [chat], [agent]]):
        clear()
        for spans in requests:
            deliver(*spans)
        assert Fact.objects.count() == 1
        silent = SpanMark.objects.filter(passed_on__isnull=False).values_list("span_id", flat=True)
        assert set(silent) == {agent["spanId"], chat["spanId"]}


def test_what_cannot_be_told_again_is_told_when_it_is_sent_again(engine: str) -> None:
    """As after an upgrade: a server of before kept nothing of what was passed on."""
    parent, below, then = outlived()
    deliver(parent, below)
    SpanMark.objects.update(passed_on=None)
    deliver(then)
    assert failures() == [below["spanId"]]
    check()
    deliver(parent)
    assert failures() == sorted([below["spanId"], parent["spanId"]])
    check()


def test_what_an_agent_tells_itself_is_not_told_of_its_spans_either_when_it_is_no_longer_passed_on(
    engine: str,
) -> None:
    parent, below, then = outlived()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reporters, "_telling", lambda agents: agents)
        for spans in ((parent, below), (then,), (parent, below)):
            deliver(*spans)
    assert failures() == []
    check()


def test_requests_of_one_group_tell_what_they_tell_one_by_one(engine: str) -> None:
    spans = outlived()
    deliver(*spans)
    expected = kept()
    for order in itertools.permutations(range(3)):
        clear()
        intakes = [read(spans[place]) for place in order]
        for group in (intakes, intakes):
            store(*group)
        assert kept() == expected, order
        check()


def test_a_span_of_more_than_are_remembered_of_its_trace_is_told_by_itself(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events.derived.traces, "MARKS_MOST", 20)
    parent, below, then = outlived()
    others = [{**failed("other"), "spanId": f"{2**60 + number:016x}"} for number in range(1, 26)]
    for order in itertools.permutations([[below], others, [then], [parent]]):
        clear()
        for spans in order:
            deliver(*spans)
        assert {below["spanId"], parent["spanId"]} <= set(failures())
        assert len(failures()) == 27


def test_what_another_process_decides_about_a_trace_meanwhile_is_not_forgotten(
    migrated_postgres_url: str, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A success is read between what it shows of a trace and that which makes its parent's error a passed-on one."""
    parent, below, then = outlived()
    then["endTimeUnixNano"] = str(int(below["endTimeUnixNano"]) - 1)

    def elsewhere() -> None:
        with store_at(migrated_postgres_url):
            deliver(below)

    def lock_late(traces: Any) -> None:
        monkeypatch.undo()
        other = Thread(target=elsewhere)
        other.start()
        other.join(timeout=30)
        lock(traces)

    with store_at(migrated_postgres_url):
        deliver(parent)
        lock = events.derived.traces._lock
        monkeypatch.setattr(events.derived.traces, "_lock", lock_late)
        deliver(then)
        assert failures() == [below["spanId"]]
        then["endTimeUnixNano"] = str(int(below["endTimeUnixNano"]) + 1)
        deliver(then)
        assert failures() == sorted([below["spanId"], parent["spanId"]])
        check()


# -- through the door --------------------------------------------------------------------------------------------------


def test_a_parent_after_a_restart_is_recognised(door: Door) -> None:
    agent, chat, post = chain()
    for one in (post, chat, agent):
        assert door.post(json=traces(one), path="/v1/traces").status_code == 200
        writer.close(timeout_s=10)  # nothing is remembered in the process
    assert failures() == [post["spanId"]]
    assert SpanMark.objects.count() == 3


@pytest.mark.parametrize("is_log_first", [True, False])
def test_a_logged_exception_of_a_span_that_passes_it_on_is_no_failure(door: Door, is_log_first: bool) -> None:
    agent = failed("turn", raised=[exception("httpx.ReadTimeout")])
    tool = failed("call", parent=agent, ago_s=9.9, raised=[exception("httpx.ReadTimeout")])
    time_ns = int(agent["events"][0]["timeUnixNano"])
    log = request(logged(traceId=TRACE, spanId=agent["spanId"], timeUnixNano=str(time_ns + 3_000_000)))
    posts = [("/v1/traces", traces(tool)), ("/v1/traces", traces(agent))]
    for path, document in [("/v1/logs", log), *posts] if is_log_first else [*posts, ("/v1/logs", log)]:
        assert door.post(json=document, path=path).status_code == 200
    assert failures() == [tool["spanId"]]


def deliver_logs(*logs: dict[str, Any]) -> None:
    """One request, stored in one transaction; a server that fails then reads no other one, so twice if it has to."""
    body = json.dumps(request(*logs)).encode()
    intake = reading.read_request(Signal.LOGS, Encoding.JSON, body, environment="dev", received_us=NOW_US)
    for is_committed in (False, True):
        with transaction.atomic():
            store_facts(*settle([intake]))
            transaction.set_rollback(not is_committed)


@settings(max_examples=examples(8, 40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    requests=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=5),
    events=st.integers(0, 3),
    at=st.lists(st.integers(0, 5), max_size=2),
)
def test_equal_exceptions_of_one_second_are_told_once_each_however_they_are_batched_and_sent_again(
    engine: str, requests: list[list[int]], events: int, at: list[int]
) -> None:
    clear()
    second_ns = NOW_US * 1000 // 10**9 * 10**9 - 10 * 10**9
    one = span("turn", raised=[exception("a.Busy", str(number)) for number in range(events)])
    for number, event in enumerate(one["events"]):
        event["timeUnixNano"] = str(second_ns + 10**8 * number)

    def log(number: int) -> dict[str, Any]:
        at_ns = second_ns + 10**8 * number + 1000
        return logged("Busy", str(number), traceId=TRACE, spanId=one["spanId"], timeUnixNano=str(at_ns))

    for place, numbers in enumerate(requests):
        if place in at:
            deliver(one)
        deliver_logs(*map(log, numbers))
    deliver(one)
    told = {number for numbers in requests for number in numbers}
    assert len(failures()) == max(len(told), events)
    if not events:
        stored = Fact.objects.filter(event="failure_classified")
        assert {fact.attributes["recovery.message"] for fact in stored} == {str(number) for number in told}
    check()


@pytest.mark.django_db(transaction=True)
def test_exceptions_that_are_equal_but_for_the_module_of_their_type_are_told_once_each() -> None:
    place = {"traceId": TRACE, "spanId": "eee19b7ec3c1b174"}
    deliver_logs(logged("a.Busy", "one", **place), logged("Busy", "two", **place))
    deliver_logs(logged("b.Busy", "three", **place))
    assert len(failures()) == 3
    check()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_an_exception_that_is_logged_by_whoever_goes_on_was_told_by_the_child(
    door: Door, order: tuple[int, int, int]
) -> None:
    """A tool fails; the agent catches it, logs it and succeeds: the plainest of forms."""
    agent = span("turn")
    tool = failed("call", parent=agent, ago_s=9.9, raised=[exception("httpx.ReadTimeout")])
    time_ns = int(tool["endTimeUnixNano"])
    log = logged("ReadTimeout", traceId=TRACE, spanId=agent["spanId"], timeUnixNano=str(time_ns + 3_000_000))
    posts = [("/v1/logs", request(log)), ("/v1/traces", traces(tool)), ("/v1/traces", traces(agent))]
    for place in (*order, *order):
        path, document = posts[place]
        assert door.post(json=document, path=path).status_code == 200
        writer.close(timeout_s=10)
    assert failures() == [tool["spanId"]]
    check()


def test_an_exception_that_is_logged_beside_a_child_that_failed_otherwise_is_a_failure_of_its_own(door: Door) -> None:
    agent = span("turn")
    tool = failed("call", parent=agent, ago_s=9.9, raised=[exception("httpx.ReadTimeout")])
    log = logged("ValueError", traceId=TRACE, spanId=agent["spanId"], timeUnixNano=tool["endTimeUnixNano"])
    assert door.post(json=request(log), path="/v1/logs").status_code == 200
    assert door.post(json=traces(tool), path="/v1/traces").status_code == 200
    assert failures() == sorted([tool["spanId"], agent["spanId"]])
    check()


def test_what_is_logged_in_a_span_that_lasts_is_remembered_up_to_a_most_and_told_all_the_same(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events.derived.traces, "ERRORS_MOST", 3)
    for number in range(6):
        at_ns = NOW_US * 1000 - (10 - number) * 10**9
        log = logged(traceId=TRACE, spanId="eee19b7ec3c1b174", timeUnixNano=str(at_ns))
        assert door.post(json=request(log), path="/v1/logs").status_code == 200
    assert len(failures()) == 6
    assert len(SpanMark.objects.get().errors) == 3 + 3, "what they are, and which record each is"
    check()


def test_marks_are_forgotten_after_a_day(door: Door) -> None:
    door.post(json=traces(*chain()), path="/v1/traces")
    well = {**span("step", parent=span("turn")), "traceId": "ab" * 16}
    door.post(json=traces(well), path="/v1/traces")
    marks, parents = SpanMark.objects.all(), OpenParent.objects.all()
    sweep_facts(datetime.now(UTC))
    assert (marks.count(), parents.count()) == (3, 1)
    for remembered in (marks, parents):
        remembered.update(seen_us=NOW_US - 400 * 86_400 * 1_000_000)
    sweep_facts(datetime.now(UTC))
    assert (marks.count(), parents.count()) == (0, 0)


def test_what_a_request_holds_twice_is_told_once() -> None:
    """A Collector that was sent a batch twice may pass both on in one request."""
    chat = failed("chat gpt-4o", given=CHAT, raised=[exception("a.B"), exception("a.B")])
    twice, once = rows(chat, span(), chat), rows(chat, span())
    assert [row.uid for row in twice] == [row.uid for row in once]
    assert [row.attributes for row in twice] == [row.attributes for row in once]


def test_a_logged_exception_that_a_request_holds_twice_is_one_failure(door: Door) -> None:
    named = {**logged(), "attributes": attributes({"log.record.uid": "once", **exception("a.B")})}
    spanned = logged(traceId=TRACE, spanId="eee19b7ec3c1b174")
    assert door.post(json=request(named, spanned, named, spanned)).status_code == 200
    assert sorted(Fact.objects.values_list("event", flat=True)) == ["failure_classified"] * 2 + ["log"] * 2
