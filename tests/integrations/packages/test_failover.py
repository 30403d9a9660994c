"""Sixteen faults of a provider, answered through OpenAI's real client and through `guard(fallback=…)` around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import openai
import pytest

from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import AttemptSucceeded, FailureClassified, FallbackActivated
from recovery_ops.runtime import Model, ModelChain, attempt
from recovery_ops.runtime.integrations.model_streams import Usage
from recovery_ops.runtime.integrations.openai import with_recovery
from recovery_ops.runtime.testing import Lab
from tests.support.model_faults import BACKUP, FAULTS, PRIMARY, TEXT, USAGE, Provider, providing

SHORT: dict[str, Any] = {"response_timeout": 0.5, "first_token_timeout": 0.5, "stall_timeout": 0.5}
"""Instead of 30, 12 and 15 s, for the faults that are silences."""
SILENCES = {"timeout", "slow_first_token", "stall"}
MESSAGES: Any = [{"role": "user", "content": "Why is the sea salt?"}]
ONE_ATTEMPT = {"auth", "timeout", "slow_first_token", "stall", "malformed", "context_too_long", "content_filter"}
RETRIED = {"rate_limit_with_retry_after", "cut_before_the_first_token", "accounting"}
"""Faults that pass: the primary answers the second attempt."""
WAYS = ["client", "client async", "guard", "guard async", "guard of client"]
CHAIN = ModelChain(PRIMARY, Model(name=BACKUP, can_continue=True))


@dataclass
class Asker:
    """One way to ask with recovery: the integration with a chain, or a guard with a fallback around a client."""

    way: str
    lab: Lab
    provider: Provider
    options: dict[str, Any] = field(default_factory=dict)

    def ask(self, *, is_stream: bool) -> str:
        """The answer that the caller has in the end: what a stream began before it was restarted is dropped."""
        if "async" in self.way:
            return anyio.run(self._ask_async, is_stream)
        with plain(self.provider) as client:
            found = self._asking(client)(stream=is_stream)
            if not is_stream:
                return str(found.choices[0].message.content)
            return _kept((found, chunk) for chunk in found)

    async def _ask_async(self, is_stream: bool) -> str:
        async with openai.AsyncOpenAI(base_url=self.provider.url, api_key="k", max_retries=0) as client:
            found = await self._asking(client)(stream=is_stream)
            if not is_stream:
                return str(found.choices[0].message.content)
            texts: dict[int, str] = {}
            async for chunk in found:
                _keep(texts, found, chunk)
            return texts[max(texts)]

    def _asking(self, client: Any) -> Any:
        limits = SHORT if self.provider.fault in SILENCES else {}
        options = {**limits, **self.options}
        if self.way.startswith("client"):
            create = with_recovery(client, self.lab.recovery, chain=CHAIN, **options).chat.completions.create
            return partial(create, model=PRIMARY, messages=MESSAGES)
        if "client" in self.way:
            client = with_recovery(client, self.lab.recovery)
        create = client.chat.completions.create

        def backup(**request: Any) -> Any:
            return create(model=BACKUP, messages=MESSAGES, **request)

        def primary(**request: Any) -> Any:
            return create(model=PRIMARY, messages=MESSAGES, **request)

        async def backup_async(**request: Any) -> Any:
            return await create(model=BACKUP, messages=MESSAGES, **request)

        async def primary_async(**request: Any) -> Any:
            return await create(model=PRIMARY, messages=MESSAGES, **request)

        asked, other = (primary_async, backup_async) if "async" in self.way else (primary, backup)
        guard: Any = self.lab.recovery.guard("ask", kind="model", reraise=True, fallback=other, **options)
        return guard(asked)


def _kept(chunks: Iterator[tuple[Any, Any]]) -> str:
    texts: dict[int, str] = {}
    for stream, chunk in chunks:
        _keep(texts, stream, chunk)
    return texts[max(texts)]


def _keep(texts: dict[int, str], stream: Any, chunk: Any) -> None:
    restarts = getattr(stream, "restarts", 0)
    texts[restarts] = texts.get(restarts, "") + text_of(chunk)


@pytest.fixture
def lab() -> Lab:
    return Lab(default_source="user_request")


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as made:
        yield made


def text_of(chunk: Any) -> str:
    return (chunk.choices[0].delta.content or "") if chunk.choices else ""


def plain(provider: Provider) -> openai.OpenAI:
    return openai.OpenAI(base_url=provider.url, api_key="k", max_retries=0)


@pytest.fixture(params=WAYS)
def asker(request: pytest.FixtureRequest, lab: Lab, provider: Provider) -> Asker:
    """Asks for the answer in one piece, or as a stream that is held until it is whole."""
    return Asker(request.param, lab, provider, {"whole_streams": True})


@pytest.fixture(params=WAYS)
def reader(request: pytest.FixtureRequest, lab: Lab, provider: Provider) -> Asker:
    """Reads streams as they come."""
    return Asker(request.param, lab, provider)


def test_there_are_sixteen_faults() -> None:
    assert len(FAULTS) == 16


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("fault", sorted({*FAULTS} - {"content_filter", "down"}))
def test_fault_is_answered(provider: Provider, asker: Asker, fault: str, is_stream: bool) -> None:
    provider.fault = fault
    assert_answered(provider, asker, is_stream=is_stream)


@pytest.mark.parametrize("fault", ["cut_before_the_first_token", "cut_stream", "refused_prefill"])
def test_stream_cut_in_order_is_answered(provider: Provider, asker: Asker, fault: str) -> None:
    provider.fault, provider.ends_in_order = fault, True
    assert_answered(provider, asker, is_stream=True)


def assert_answered(provider: Provider, asker: Asker, *, is_stream: bool) -> None:
    fault = provider.fault
    assert asker.ask(is_stream=is_stream) == TEXT
    assert provider.asked(BACKUP) == (0 if fault in RETRIED else 1)
    assert provider.asked(PRIMARY) == (1 if fault in ONE_ATTEMPT else 2 if fault in RETRIED else 3)


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_content_filter_is_final(lab: Lab, provider: Provider, asker: Asker, is_stream: bool) -> None:
    provider.fault = "content_filter"
    with pytest.raises(openai.BadRequestError):
        asker.ask(is_stream=is_stream)
    assert (provider.asked(PRIMARY), provider.asked(BACKUP)) == (1, 0)
    assert {event.category for event in lab.events_of(FailureClassified)} == {Category.CONTENT_REFUSED}
    assert lab.events_of(FallbackActivated) == []


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_dead_primary_is_left_and_found_again(lab: Lab, provider: Provider, asker: Asker, is_stream: bool) -> None:
    provider.fault = "down"
    for _ in range(15):
        assert asker.ask(is_stream=is_stream) == TEXT
        lab.clock.push(4)
    assert provider.asked(PRIMARY) <= (5 if asker.way == "guard of client" else 4)  # the inner guard has no fallback
    provider.fault = ""
    lab.clock.push(75)
    before = provider.asked(BACKUP)
    assert [asker.ask(is_stream=is_stream) for _ in range(3)] == [TEXT] * 3
    assert provider.asked(BACKUP) == before


def test_usage_is_counted_once(lab: Lab, provider: Provider) -> None:
    def price(model: str, usage: Usage) -> float:
        return usage.output_tokens * 0.5

    expected = 0
    with plain(provider) as client, lab.recovery.run() as run:
        ours = with_recovery(client, lab.recovery, chain=ModelChain(PRIMARY, BACKUP), cost_usd=price, **SHORT)
        for fault in ("accounting", "timeout", "unavailable"):
            provider.fault = fault
            ours.chat.completions.create(model=PRIMARY, messages=MESSAGES)
            expected += 1
        provider.fault = "cut_stream"
        for _ in ours.chat.completions.create(model=BACKUP, messages=MESSAGES, stream=True):
            pass
        expected += 1
    assert (run.input_tokens, run.output_tokens) == (
        expected * USAGE["prompt_tokens"],
        expected * USAGE["completion_tokens"],
    )
    assert run.cost_usd == pytest.approx(expected * USAGE["completion_tokens"] * 0.5)


# Streams that the caller reads as they come


CUTS = [("cut_stream", False), ("cut_stream", True), ("stall", False), ("refused_prefill", True)]


@pytest.mark.parametrize(("fault", "ends_in_order"), CUTS)
@pytest.mark.parametrize("allowed", ["restart", "continue"])
def test_stream_goes_on_where_the_caller_allows_it(
    provider: Provider, reader: Asker, fault: str, ends_in_order: bool, allowed: str
) -> None:
    provider.fault, provider.ends_in_order = fault, ends_in_order
    reader.options["on_broken_stream"] = allowed
    assert reader.ask(is_stream=True) == TEXT
    has_chain = reader.way.startswith("client")
    assert provider.asked(BACKUP) == (2 if has_chain and allowed == "continue" else 1)


@pytest.mark.parametrize(("fault", "ends_in_order"), CUTS[:3])
def test_stream_without_permission_raises(
    lab: Lab, provider: Provider, reader: Asker, fault: str, ends_in_order: bool
) -> None:
    provider.fault, provider.ends_in_order = fault, ends_in_order
    with pytest.raises((openai.APIConnectionError, ConnectionError, TimeoutError)):
        reader.ask(is_stream=True)
    assert provider.asked(BACKUP) == 0
    assert {event.broken_stream for event in lab.events_of(FailureClassified)} == {"error"}
    assert lab.events_of(AttemptSucceeded) == []


def test_function_finds_its_limits(lab: Lab) -> None:
    seen = []
    lab.recovery.guard("model", kind="model", fallback=lambda: None, **SHORT)(lambda: seen.append(attempt()))()
    (found,) = seen
    assert (found.remaining_s, found.first_token_timeout_s, found.stall_timeout_s) == (0.5, 0.5, 0.5)
