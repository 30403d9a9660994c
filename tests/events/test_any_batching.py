"""What is derived from a trace is decided by its spans and logs together, in whatever order and requests they come."""

from __future__ import annotations

import itertools
import json
from itertools import pairwise
from typing import Any

from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from events.derived.traces import settle
from events.models import Fact, MinuteSum
from events.otlp import reading
from events.otlp.sent import Encoding, Signal
from events.store.writes import store_facts
from tests.support.examples import examples
from tests.support.otlp import request
from tests.support.spans import CHAT, NOW_US, TRACE, exception, failed, logged, span
from tests.support.traces import Span, check, clear, deliver

OVERFLOW = (
    "Error code: 400 - {'error': {'message': \"This model's maximum context length is 8192 tokens. However, your "
    "messages resulted in 9000 tokens.\", 'type': 'invalid_request_error', 'code': 'context_length_exceeded'}}"
)
POST = {"http.request.method": "POST", "server.address": "api.openai.com"}


def deliver_logs(*logs: dict[str, Any]) -> None:
    body = json.dumps(request(*logs)).encode()
    intake = reading.read_request(Signal.LOGS, Encoding.JSON, body, environment="dev", received_us=NOW_US)
    with transaction.atomic():
        store_facts(*settle([intake]))


def in_order(parts: list[Span], order: tuple[int, ...], cuts: tuple[int, ...]) -> None:
    """Deliver these in this order, cut into requests; a log is a request of its own."""
    arriving = [parts[place] for place in order]
    for start, end in pairwise([0, *cuts, len(parts)]):
        spans = [one for one in arriving[start:end] if "name" in one]
        if spans:
            deliver(*spans)
        for log in arriving[start:end]:
            if "name" not in log:
                deliver_logs(log)


def every_way(count: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    places = range(1, count)
    cuts = [cut for length in range(count) for cut in itertools.combinations(places, length)]
    return list(itertools.product(itertools.permutations(range(count)), cuts))


def told() -> tuple[Any, ...]:
    """The failures, and what is counted of calls. Sums that were corrected to nothing are as good as none."""
    columns = ("span_id", "category", "operation", "provider", "model", "run", "body")
    failures = sorted(Fact.objects.filter(event="failure_classified").values_list(*columns))
    calls = sorted(
        (
            fact.operation,
            fact.attributes["recovery.attempts"],
            sorted(fact.attributes.get("recovery.failures", {}).items()),
        )
        for fact in Fact.objects.filter(event="calls_counted")
    )
    sums = MinuteSum.objects.values_list("calls", "attempts", "failures")
    totals = [sum(column) for column in zip(*sums, strict=True)]
    return failures, calls, totals if any(totals) else []


def same_in_every_way(parts: list[Span]) -> tuple[Any, ...]:
    """What is told of these, which is the same in every order and cut."""
    expected: tuple[Any, ...] = ()
    for order, cuts in every_way(len(parts)):
        clear()
        in_order(parts, order, cuts)
        check()
        found = told()
        expected = expected or found
        assert found == expected, (order, cuts)
    return expected


def test_closest_category_of_a_call_wins_in_any_batching(engine: str) -> None:
    turn = failed("turn", given={"session.id": "r-1"}, raised=[exception("KeyError")])
    chat = failed("chat", given=CHAT, parent=turn, raised=[exception("openai.BadRequestError", OVERFLOW)])
    post = failed("POST", kind=3, parent=chat, given={**POST, "http.response.status_code": 400})
    [row], [call], sums = same_in_every_way([turn, chat, post])
    assert row[:6] == (post["spanId"], "context_overflow", "gpt-4o", "openai", "gpt-4o", "r-1")
    assert call == ("gpt-4o", 1, [("context_overflow", 1)])
    assert sums == [1, 1, 1]


def test_retried_request_is_of_its_call_in_any_batching(engine: str) -> None:
    turn = span("turn", given={"gen_ai.conversation.id": "r-1"})
    chat = span("chat", given=CHAT, parent=turn)
    post = failed("POST", kind=3, parent=chat, given={**POST, "http.response.status_code": 429})
    [row], [call], sums = same_in_every_way([turn, chat, post])
    assert row[:6] == (post["spanId"], "rate_limited", "gpt-4o", "openai", "gpt-4o", "r-1")
    assert call == ("gpt-4o", 2, [("rate_limited", 1)])
    assert sums == [1, 2, 1]


def test_logged_exception_is_of_its_span_in_any_batching(engine: str) -> None:
    turn = span("turn", given={"session.id": "r-1"})
    chat = failed("chat", given=CHAT, parent=turn, raised=[exception("openai.RateLimitError", "Error code: 429")])
    at_ns = int(chat["events"][0]["timeUnixNano"])
    log = logged("RateLimitError", "boom", traceId=TRACE, spanId=chat["spanId"], timeUnixNano=str(at_ns + 1000))
    [row], [call], sums = same_in_every_way([turn, chat, log])
    assert row[:6] == (chat["spanId"], "rate_limited", "gpt-4o", "openai", "gpt-4o", "r-1")
    assert call == ("gpt-4o", 1, [("rate_limited", 1)])
    assert sums == [1, 1, 1]


def test_call_that_two_instrumentations_tell_is_one_in_any_batching(engine: str) -> None:
    outer = span("ChatOpenAI", given=CHAT)
    inner = span("chat", given=CHAT, parent=outer)
    _, calls, sums = same_in_every_way([outer, inner])
    assert (len(calls), sums[:2]) == (1, [1, 1])


def test_spans_that_come_again_in_other_batches_count_once(engine: str) -> None:
    eight = [span("chat", given=CHAT) for _ in range(8)]
    deliver(*eight[:4])
    deliver(*eight)
    deliver(*eight[2:6])
    assert told()[2][:2] == [8, 8]
    check()


def test_span_that_says_nothing_leads_from_a_failure_to_its_run(engine: str) -> None:
    turn = failed("turn", ago_s=20, given={"session.id": "r-1"})
    post = span("POST", ago_s=19, kind=3, parent=turn, given={**POST, "http.response.status_code": 200})
    chat = failed("chat", ago_s=18, given=CHAT, parent=post)
    found = []
    for parts in ([turn, post, chat], [chat, post, turn], [turn, chat, post], [chat, turn, post]):
        clear()
        for one in parts:
            deliver(one)
        check()
        found.append(told())
    assert {row[5] for row in found[0][0]} == {"r-1"}
    assert found == found[:1] * 4


def test_child_that_went_well_afterwards_gives_each_failure_its_own_category(engine: str) -> None:
    """The parent fails by itself then, so its category is not that of the child which failed before."""
    turn = failed("turn", ago_s=20, given={"session.id": "r-1"}, raised=[exception("openai.BadRequestError", OVERFLOW)])
    child = failed("turn", ago_s=19, parent=turn, given={"session.id": "r-2"})
    other = span("turn", ago_s=18, parent=turn, given={"session.id": "r-3"})
    for ended, one in enumerate((child, other, turn)):
        one["endTimeUnixNano"] = str(NOW_US * 1000 - 10**9 + ended * 10**6)
    rows, _, sums = same_in_every_way([turn, child, other])
    assert {row[5]: row[1] for row in rows} == {"r-1": "context_overflow", "r-2": "unknown"}
    assert sums[2] == 2


def says_something(one: Span) -> bool:
    return one["name"] in ("turn", "chat") or "status" in one


@st.composite
def traces(draw: st.DrawFn) -> list[Span]:
    """A trace of turns, calls, requests and steps, some of which fail."""
    spans: list[Span] = []
    for number in range(draw(st.integers(1, 6))):
        parent = spans[draw(st.integers(0, number - 1))] if number else None
        kind = draw(st.sampled_from(["turn", "chat", "POST", "step"]))
        says: dict[str, dict[str, Any]] = {"chat": dict(CHAT), "turn": {"session.id": f"r-{number}"}}
        said = says.get(kind, {})
        is_failed = draw(st.booleans())
        if kind == "POST":
            said = {**POST, "http.response.status_code": draw(st.sampled_from([400, 429, 500])) if is_failed else 200}
        raised = [exception("openai.BadRequestError", OVERFLOW)] if is_failed and draw(st.booleans()) else []
        made = failed if is_failed else span
        of_client: dict[str, Any] = {"kind": 3} if kind == "POST" else {}
        spans.append(made(kind, ago_s=20 - number, parent=parent, given=said, raised=raised, **of_client))
    for ended, one in enumerate(spans[::-1]):
        one["endTimeUnixNano"] = str(NOW_US * 1000 - 10**9 + ended * 10**6)
    return spans


@settings(max_examples=examples(10, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(spans=traces(), data=st.data())
def test_any_batching_of_any_trace_tells_the_same(engine: str, spans: list[Span], data: st.DataObject) -> None:
    clear()
    deliver(*spans)
    expected = told()
    check()
    clear()
    again = data.draw(st.lists(st.sampled_from(range(len(spans))), max_size=3))
    order = data.draw(st.permutations(range(len(spans)))) + again
    # A span that says nothing and comes before all that its trace says is not remembered (docs/decisions/0009).
    first = next((place for place in order if says_something(spans[place])), None)
    order.sort(key=lambda place: place != first)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=5)))
    for start, end in pairwise([0, *cuts, len(order)]):
        if start < end:
            deliver(*(spans[place] for place in order[start:end]))
    assert told() == expected
    check()
