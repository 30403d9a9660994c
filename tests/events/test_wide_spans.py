"""Spans with very many attributes: each is looked through a few times, however much failed in it and below it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.derived import derive_from_spans
from events.derived.evidence import read_of
from events.derived.readings import TEXT_CHARS, Attributes
from events.otlp.sent import Sent, SentSpan, SpanBatch, SpanEvent
from recovery_ops.rules.events import FailureClassified
from recovery_ops.wire import names
from recovery_ops.wire import otel_names as foreign

TRACE, AT_NS = "5b8efff798038103d269b633813fc60c", 1_795_000_000 * 10**9
FAILED = names.EVENTS[FailureClassified].full_name
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.agent.name": "scribe"}


class Watched(dict[str, object]):
    """Attributes that count how often somebody looked through all of them."""

    def __init__(self, given: Attributes) -> None:
        super().__init__(given)
        self.times = 0

    def __iter__(self) -> Iterator[str]:
        self.times += 1
        return super().__iter__()

    def keys(self) -> Any:
        self.times += 1
        return super().keys()

    def items(self) -> Any:
        self.times += 1
        return super().items()

    def copy(self) -> dict[str, object]:
        self.times += 1
        return super().copy()

    def __or__(self, other: Any) -> Any:
        self.times += 1
        return super().__or__(other)


def span(attributes: dict[str, object], *, number: int = 1, parent: int = 0, **rest: Any) -> SentSpan:
    events = tuple(SpanEvent("exception", AT_NS + at, one) for at, one in enumerate(rest.get("raised", ())))
    ids = f"{number:016x}", f"{parent:016x}" if parent else ""
    return SentSpan("work", 1, AT_NS, AT_NS + 9, rest.get("status", 0), "", attributes, events, TRACE, *ids)


def told(*spans: SentSpan) -> list[Sent]:
    derived = derive_from_spans([SpanBatch({}, "tests", list(spans))])
    return [sent for batch in (*derived.batches, *derived.held) for sent in batch.records]


def test_the_attributes_of_a_caller_are_not_looked_through_for_each_failure_below_it() -> None:
    def times(below: int) -> int:
        caller = Watched(CHAT)
        found = told(span(caller), *(span({}, number=2 + one, parent=1, status=2) for one in range(below)))
        failures = [sent for sent in found if sent.event_name == FAILED]
        assert len(failures) == below
        assert {sent.attributes["gen_ai.agent.name"] for sent in failures} == {"scribe"}
        return caller.times

    assert times(40) == times(1)


@pytest.mark.parametrize("status", [0, 2])
def test_the_attributes_of_a_span_are_not_looked_through_for_each_exception_in_it(status: int) -> None:
    def times(raised: int) -> int:
        own = Watched(CHAT)
        found = told(span(own, status=status, raised=[{"exception.type": f"app.Odd{n}"} for n in range(raised)]))
        assert sum(sent.event_name == FAILED for sent in found) == raised
        return own.times

    assert times(40) == times(2)


def test_what_is_kept_of_a_span_for_its_exceptions_has_a_most() -> None:
    headers: dict[str, object] = {f"http.response.header.x-{number}": "1" for number in range(5000)}
    many: dict[str, object] = {f"a{number}": "1" for number in range(5000)}
    assert len(read_of(headers | many)) <= 32


def test_what_failures_share_of_a_long_text_has_a_most() -> None:
    long: dict[str, object] = dict.fromkeys(foreign.READ, "x y" * 10**6)
    raised: list[dict[str, object]] = [{"exception.type": "app.Odd"}, {"exception.type": "app.Even"}]
    for sent in told(span(long, raised=raised), span({}, number=2, parent=1, status=2)):
        assert all(len(value) <= TEXT_CHARS for value in sent.attributes.values() if isinstance(value, str))


def test_every_name_that_is_read_stands_in_the_list_of_them() -> None:
    """Else what is filtered by it would lose that name."""
    no_names = {"EXCEPTION_EVENT", "EXCEPTION_EVENTS", "RETRY_EVENTS", "EXCEPTION_PREFIX", "HTTP_HEADER_PREFIX"}
    no_names |= {"CONTAINERS", "READ"}
    said = {name: value for name, value in vars(foreign).items() if name.isupper() and name not in no_names}
    found = {one for value in said.values() for one in ((value,) if isinstance(value, str) else value)}
    assert found == foreign.READ


HEADERS = [f"http.response.header.{name}" for name in ("retry-after", "Retry-After", "x-should-retry", "x-1", "x-2")]
VALUES = st.sampled_from(["7", "429", 503, 14, "RateLimitError", "openai.APIError", "true", ["3"], [], None, 1.5, ""])
ATTRIBUTES = st.dictionaries(st.sampled_from([*sorted(foreign.READ), *HEADERS, "a", "b"]), VALUES, max_size=12)


@given(caller=ATTRIBUTES, own=ATTRIBUTES, raised=st.lists(ATTRIBUTES, max_size=4), status=st.sampled_from([0, 1, 2]))
def test_what_is_not_looked_at_says_nothing(
    caller: dict[str, object], own: dict[str, object], raised: list[dict[str, object]], status: int
) -> None:
    spans = (span(CHAT | caller), span(own, number=2, parent=1, raised=raised, status=status))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("events.derived.spans.read_of", dict)
        patch.setattr("events.derived.spans.ChainMap", lambda first, second: {**second, **first})
        expected = told(*spans)
    assert told(*spans) == expected
