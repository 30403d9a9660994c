"""The wrappers of Anthropic's and OpenAI's clients around stand-ins that have the one method which they replace."""

from __future__ import annotations

import asyncio
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from recovery_ops.rules.classification.redaction import MASK
from recovery_ops.rules.desired_state import NOTHING_DESIRED
from recovery_ops.rules.events import FailureClassified
from recovery_ops.rules.policy.model import BUILT_IN
from recovery_ops.rules.policy.spend_settings import SpendCaps
from recovery_ops.rules.spending import UNKNOWN_CALL, Spending
from recovery_ops.runtime import ConfigurationError, ModelChain, Response
from recovery_ops.runtime.integrations import model_calls
from recovery_ops.runtime.integrations.model_calls import ModelCalls
from recovery_ops.runtime.spending.calls import accounts_of
from recovery_ops.runtime.testing import HttpError, Lab

VENDORS = {
    "anthropic": ("/v1/messages", {"content": [], "usage": SimpleNamespace(input_tokens=100, output_tokens=12)}),
    "openai": (
        "/chat/completions",
        {"choices": [1], "usage": SimpleNamespace(prompt_tokens=100, completion_tokens=12)},
    ),
}


class NotGiven:
    """The vendors' mark of an option that was left out; known by its name."""


class Client:
    """A vendor's client: it answers by a script, and notes what was sent and how."""

    def __init__(self, script: Any, *, is_async: bool, timeout: Any = 600.0) -> None:
        self.script, self.timeout, self.is_async, self.max_retries = script, timeout, is_async, 2
        self.sent: list[Any] = []
        self.api_key = ""
        if is_async:
            self.request = self._request_async
        else:
            self.request = self._request

    def with_options(self, **changes: Any) -> Client:
        made = Client(self.script, is_async=self.is_async)
        made.sent, made.timeout, made.max_retries = self.sent, self.timeout, self.max_retries
        made.api_key = self.api_key
        made.__dict__.update(changes)
        return made

    def _request(self, cast_to: Any, options: Any, *, stream: bool = False) -> Any:
        self.sent.append(SimpleNamespace(options=options, client=self, cast_to=cast_to, stream=stream))
        return self.script()

    async def _request_async(self, cast_to: Any, options: Any, *, stream: bool = False) -> Any:
        return self._request(cast_to, options, stream=stream)


class Bench:
    """A client of one vendor, wrapped; requests are made in one of its ways."""

    def __init__(self, vendor: str, *, is_async: bool, wrap: Callable[..., Any]) -> None:
        self.vendor, self.is_async, self.wrap = vendor, is_async, wrap
        self.url, self.fine = VENDORS[vendor]
        self.lab = Lab()

    def answer(self, **more: Any) -> Any:
        return SimpleNamespace(**{**self.fine, **more})

    def wrapped(self, *outcomes: Any, timeout: Any = 600.0, **options: Any) -> Any:
        self.script = self.lab.script(*(outcomes or [self.answer()]))
        self.client = Client(self.script, is_async=self.is_async, timeout=timeout)
        return self.wrap(self.client, self.lab.recovery, **options)

    def ask(self, client: Any, *, url: str = "", method: str = "post", timeout: Any = None, **body: Any) -> Any:
        timeout = NotGiven() if timeout is None else timeout
        body = {"model": "large", **body}
        options = SimpleNamespace(method=method, url=url or self.url, json_data=body, timeout=timeout, headers={})
        found = client.request(dict, options)
        return asyncio.run(found) if self.is_async else found

    @property
    def sent(self) -> list[Any]:
        return self.client.sent


@pytest.fixture(params=[(vendor, is_async) for vendor in VENDORS for is_async in (False, True)], ids=str)
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    vendor, is_async = request.param
    name = f"{model_calls.__package__}.{vendor}"
    if vendor not in sys.modules:
        package = ModuleType(vendor)
        package.DEFAULT_TIMEOUT = 600.0  # type: ignore[attr-defined]  # a module of our own
        monkeypatch.setitem(sys.modules, vendor, package)
    monkeypatch.delitem(sys.modules, name, raising=False)
    yield Bench(vendor, is_async=is_async, wrap=importlib.import_module(name).with_recovery)
    sys.modules.pop(name, None)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda client: client,
    "with_options": lambda client: client.with_options(timeout=3.0),
    "copy": lambda client: client.copy(),
    "twice": lambda client: client.with_options(timeout=3.0).copy(),
}
OPTIONS: dict[str, Any] = {
    "kind": "tool",
    "breaker": "shared",
    "fallback_allowed": False,
    "max_retries": 4,
    "base_delay": 0.25,
    "attempt_timeout": 7.0,
    "provider": "helios",
    "region": "eu",
    "chain": ModelChain("large", "small"),
}
"""Options that a guard's operation has after it was made."""


@pytest.mark.parametrize("change", CHANGES)
def test_changed_client_keeps_every_option(bench: Bench, change: str) -> None:
    options = {**OPTIONS, "operation": "answers", "source": "nightly", "fallback": lambda asking: "later"}
    seen: list[dict[str, Any]] = []
    for chosen in ("itself", change):
        bench.lab = Lab()
        bench.ask(CHANGES[chosen](bench.wrapped(**options)))
        (operation,) = (one for one in bench.lab.recovery.operations.values() if one.name == "answers")
        seen.append({"declared": operation.standing.policy, "provider": operation.standing.provider})
    assert seen[0] == seen[1]


@pytest.mark.parametrize("change", CHANGES)
def test_changed_client_still_recovers(bench: Bench, change: str) -> None:
    prices: list[Any] = []

    def price(model: str, usage: Any) -> float:
        prices.append((model, usage.input_tokens, usage.output_tokens))
        return 0.5

    outcomes = (HttpError(500), HttpError(500), bench.answer())
    client = bench.wrapped(*outcomes, source="main_agent", max_retries=3, cost_usd=price)
    with bench.lab.recovery.run(source="nightly") as run:
        bench.ask(CHANGES[change](client))
    assert bench.lab.waits == [0.5, 1.0]
    assert prices == [("large", 100, 12)]
    assert (run.input_tokens, run.output_tokens, run.cost_usd) == (100, 12, 0.5)


@pytest.mark.parametrize("change", CHANGES)
def test_changed_client_has_its_fallback_and_chain(bench: Bench, change: str) -> None:
    options: dict[str, Any] = {"chain": ModelChain("large", "small"), "max_retries": 0, "source": "main_agent"}
    client = CHANGES[change](bench.wrapped(HttpError(500), fallback=lambda asking: "later", **options))
    assert bench.ask(client) == "later"
    assert [one.options.json_data["model"] for one in bench.sent] == ["large", "small"]


def test_request_for_another_model_leaves_the_chain(bench: Bench) -> None:
    client = bench.wrapped(HttpError(500), chain=ModelChain("large", "small"), max_retries=0, operation="answers")
    for model in ("other", "large"):
        with pytest.raises(HttpError):
            bench.ask(client, model=model)
    assert [one.options.json_data["model"] for one in bench.sent] == ["other", "large", "small"]
    assert {"model:other", "answers"} <= set(bench.lab.recovery.operations)


def test_clients_own_retries_are_off(bench: Bench) -> None:
    bench.ask(bench.wrapped())
    (one,) = bench.sent
    assert (one.client.max_retries, one.options.max_retries, bench.client.max_retries) == (0, 0, 2)


@pytest.mark.parametrize("request_", [{"method": "get"}, {"url": "/v1/files"}, {"model": None}, {"model": 7}], ids=str)
def test_request_that_asks_no_model_is_left_alone(bench: Bench, request_: dict[str, Any]) -> None:
    client = bench.wrapped(HttpError(500), max_retries=3)
    with pytest.raises(HttpError):
        bench.ask(client, **request_)
    assert (bench.script.calls, bench.lab.recovery.operations) == (1, {})


@pytest.mark.parametrize(
    ("of_client", "of_request", "expected"), [(600.0, None, 7.0), (30.0, None, None), (600.0, 30.0, 30.0)]
)
def test_default_timeout_alone_is_replaced(
    bench: Bench, of_client: float, of_request: float | None, expected: float | None
) -> None:
    bench.ask(bench.wrapped(timeout=of_client, attempt_timeout=7.0), timeout=of_request)
    timeout = bench.sent[0].options.timeout
    if bench.is_async and of_request is None:  # a task is cancelled
        expected = None
    assert (None if isinstance(timeout, NotGiven) else timeout) == expected


def test_retry_takes_what_is_left_of_the_run(bench: Bench) -> None:
    client = bench.wrapped(HttpError(500), bench.answer(), attempt_timeout=7.0)
    with bench.lab.recovery.run(source="main_agent", timeout=3.0):
        bench.ask(client)
    limits = [getattr(one.options.timeout, "__class__", None) is float and one.options.timeout for one in bench.sent]
    assert limits == ([False, False] if bench.is_async else [3.0, 2.5])


def test_models_are_not_remembered_without_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_calls, "MOST_MODELS", 2)
    client = bench.wrapped()
    for model in ("a", "b", "c", "a"):
        bench.ask(client, model=model)
    assert set(bench.lab.recovery.operations) == {"model:a", "model:b"}


CAPPED = replace(
    NOTHING_DESIRED, policy=replace(BUILT_IN, spend_caps=SpendCaps(run_tokens=5000, run_cost_usd=10.0, day_calls=50))
)


def test_answers_are_charged_to_the_spend_accounts(bench: Bench) -> None:
    bench.lab = Lab(desired=CAPPED)
    client = bench.wrapped(HttpError(500), bench.answer(), source="main_agent", cost_usd=lambda *_: 0.25)
    with bench.lab.recovery.run("answer", run_id="r"):
        bench.ask(client)
        bench.ask(client)
    ledger = accounts_of(bench.lab.recovery)
    deadline = time.monotonic() + 10
    while ledger.state("run:r").open_calls.calls and time.monotonic() < deadline:
        time.sleep(0.01)  # a task's call is settled by a thread
    assert ledger.state("run:r").spent == Spending(calls=3, tokens=224, cost_usd=0.5)


def test_request_of_text_is_bounded_by_its_size(bench: Bench) -> None:
    bench.lab = Lab(desired=CAPPED)
    bounds: list[Spending] = []
    client = bench.wrapped(cost_usd=lambda model, usage: usage.output_tokens / 1000)
    accounts: Any = accounts_of(bench.lab.recovery)
    own = accounts.reserve

    def reserve(limits: Any, bound: Spending, *rest: Any) -> Any:
        bounds.append(bound)
        return own(limits, bound, *rest)

    accounts.reserve = reserve
    image = [{"role": "user", "content": [{"type": "image", "source": {}}]}]
    with bench.lab.recovery.run("answer"):
        bench.ask(client, max_tokens=300, messages=[{"role": "user", "content": "x" * 400}])
        bench.ask(client, max_tokens=300, messages=image)
        bench.ask(client, messages=[])
    first, second, third = bounds
    assert (first.cost_usd, 2448 + 300 < first.tokens < 2448 + 500) == (0.3, True)
    assert second == third == UNKNOWN_CALL


KEYS = {"team-a": "sk-first-1234567890", "team-b": "sk-other-1234567890"}


def sent_keys(bench: Bench) -> list[str]:
    return [one.client.api_key for one in bench.sent]


@pytest.mark.parametrize("status", [401, 402, 429])
def test_sibling_key_answers(bench: Bench, status: int) -> None:
    client = bench.wrapped(HttpError(status), bench.answer(), credentials=KEYS, source="main_agent")
    bench.ask(client)
    assert sent_keys(bench) == [*KEYS.values()]
    assert all(one.client.max_retries == 0 for one in bench.sent)
    bench.ask(client)
    assert sent_keys(bench)[2:] == [KEYS["team-b"]]
    assert bench.lab.waits == []


def test_spent_key_rests_for_other_models(bench: Bench) -> None:
    client = bench.wrapped(HttpError(402), bench.answer(), credentials=KEYS, source="main_agent")
    bench.ask(client)
    bench.ask(client, model="small")
    assert sent_keys(bench) == [KEYS["team-a"], KEYS["team-b"], KEYS["team-b"]]


def test_streams_use_the_key(bench: Bench) -> None:
    client = bench.wrapped(HttpError(402), bench.answer(), credentials=KEYS, source="main_agent")
    bench.ask(client, stream_options={})
    assert [one.credential for one in bench.lab.events_of(FailureClassified)] == ["team-a"]


def test_client_given_a_key_uses_it_alone(bench: Bench) -> None:
    client = bench.wrapped(credentials=KEYS)
    bench.ask(client.with_options(api_key="sk-own-1234567890"))
    bench.ask(client.with_options(timeout=5.0))
    assert sent_keys(bench) == ["sk-own-1234567890", KEYS["team-a"]]


def test_keys_are_shown_nowhere(bench: Bench) -> None:
    client = bench.wrapped(HttpError(402), bench.answer(), credentials=KEYS, source="main_agent")
    bench.ask(client)
    [calls] = [cell.cell_contents for cell in client.request.__closure__ if isinstance(cell.cell_contents, ModelCalls)]
    operation = bench.lab.recovery.operations["model:large"]
    shown = f"{calls.keys!r}{calls.options}{bench.lab.events}{operation.standing.credentials}"
    assert "team-a" in shown
    assert not any(key in shown for key in KEYS.values())


def test_key_that_the_provider_quotes_is_masked(bench: Bench) -> None:
    keys = {"team-a": "gateway 1234567890", "team-b": "gateway 1234567890 b"}
    refused = [HttpError(Response(429, body={"error": {"message": f"{key} is throttled"}})) for key in keys.values()]
    client = bench.wrapped(*refused, bench.answer(), credentials=keys, source="main_agent")
    bench.ask(client)
    failures = bench.lab.events_of(FailureClassified)
    assert [one.credential for one in failures] == [*keys]
    assert {one.message for one in failures} == {f"{MASK} is throttled"}


@pytest.mark.parametrize(
    "wrong",
    [["team-a"], {}, {"team-a": ""}, {"team-a": 7}, {"sk-first-12": KEYS["team-a"]}, {"first-123": KEYS["team-a"]}],
)
def test_wrong_keys_are_refused_unseen(bench: Bench, wrong: Any) -> None:
    with pytest.raises(ConfigurationError) as refused:
        bench.wrapped(credentials=wrong)
    assert "1234567890" not in str(refused.value)
