"""The demonstration's script, its provider and its agents' code in this process: what ends with a person, and when."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from recovery_ops.demo import agent
from recovery_ops.demo.client import Client
from recovery_ops.demo.errands import TRANSLATES_EVERY_S, bibliography, closing, payment, translation
from recovery_ops.demo.provider import Provider
from recovery_ops.demo.weather import EMBED_BAD, EMBED_WELL, LASTS_S, SCRIPT, phase_at, spell_of
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import (
    BreakerStateChanged,
    BudgetExhausted,
    Escalated,
    Event,
    FailureClassified,
    RetryScheduled,
    ReversalRefused,
    RunFinished,
    RunStopped,
)
from recovery_ops.runtime import RecoveryError
from recovery_ops.runtime.testing import Lab

TEN_MINUTES_S = 600
SERVICES = ("large", "small", "search", "prices", "crm", "mail", "ledger", "archive", "payments")


async def hung_up() -> None:
    """Every connection is at its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others)
    await asyncio.sleep(0)  # closing a transport takes one more turn


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread of its own: the client waits for what it answers."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    asyncio.run_coroutine_threadsafe(hung_up(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def client(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Client]]:
    """Talks to the provider in the phase of this name, from its beginning."""
    servers: list[asyncio.Server] = []

    def in_phase(name: str) -> Client:
        phase = next(phase for phase in SCRIPT if phase.name == name and (phase.first or name != "healthy"))
        monkeypatch.setattr("recovery_ops.demo.provider.phase_at", lambda elapsed_s: (0, phase))
        server = asyncio.run_coroutine_threadsafe(Provider().serve("127.0.0.1", 0), loop).result(10)
        servers.append(server)
        host, port = server.sockets[0].getsockname()[:2]
        return Client(f"http://{host}:{port}")

    yield in_phase
    for server in servers:
        loop.call_soon_threadsafe(server.close)


@pytest.mark.default
def test_whoever_looks_for_ten_minutes_has_seen_every_phase_of_the_script() -> None:
    assert LASTS_S <= TEN_MINUTES_S
    seen = dict(phase_at(second) for second in range(int(LASTS_S)))
    assert list(seen.items()) == list(enumerate(SCRIPT))
    assert phase_at(LASTS_S) == (len(SCRIPT), SCRIPT[0]), "it begins again"
    drawn = {trouble for phase in SCRIPT for service in SERVICES for trouble in spell_of(service, phase).trouble}
    troubles = drawn | {trouble for phase in SCRIPT for staged in phase.first.values() for trouble in staged}
    assert troubles >= {"429", "529", "503", "timeout", "reset", "bad_json", "409", "412", "overflow"}
    assert troubles >= {"odd", "resting", "quota", "refused"}


def test_one_backend_has_two_regions_and_one_of_them_goes_bad() -> None:
    bad = {phase.name for phase in SCRIPT if "503" in spell_of(EMBED_BAD, phase).trouble}
    assert bad == {"overload"}
    assert not [phase for phase in SCRIPT if spell_of(EMBED_WELL, phase).trouble]
    assert {f"embed-{region}" for region in agent.REGIONS.values()} == {EMBED_BAD, EMBED_WELL}


def test_a_call_says_in_which_region_it_failed(client: Callable[[str], Client]) -> None:
    lab = Lab(reraise=False)
    embed = agent.embedding(lab.recovery, client("overload"), "eu-central-1")
    for number in range(8):
        with suppress(RecoveryError):
            embed(f"text {number}")
    failures = [fact for fact in lab.events if isinstance(fact, FailureClassified)]
    assert {(fact.provider, fact.region) for fact in failures} == {("selene", "eu-central-1")}


def told(lab: Lab, *kinds: type[Event]) -> list[Event]:
    return [fact for fact in lab.events if isinstance(fact, kinds)]


def questions(lab: Lab) -> dict[str, str]:
    """What was asked of whom: queue by operation."""
    return {fact.operation: fact.queue for fact in lab.events_of(Escalated)}


def test_what_nobody_knows_and_what_a_policy_refuses_is_put_to_a_person(client: Callable[[str], Client]) -> None:
    lab = Lab(reraise=False)
    publish = agent.research_operations(lab.recovery, client("healthy"))["publish_report"]
    for _ in range(2):
        with suppress(RecoveryError), lab.recovery.run("due diligence", source="main_agent"):
            publish("a report")
    assert [fact.category for fact in lab.events_of(FailureClassified)] == [Category.UNKNOWN, Category.POLICY_DENIED]
    assert {fact.queue for fact in lab.events_of(Escalated)} == {"unclassified", "policy_review"}


def test_a_spent_quota_is_put_to_a_person_and_the_tool_is_withdrawn(client: Callable[[str], Client]) -> None:
    lab = Lab(reraise=False)
    prices = agent.research_operations(lab.recovery, client("quota spent"))["fetch_prices"]
    with lab.recovery.run("due diligence", source="main_agent") as run:
        prices("a name")
    assert questions(lab) == {"fetch_prices": "quota"}
    assert run.withdrawn == {"fetch_prices"}


def test_a_bibliography_of_lost_records_spends_the_error_budget(client: Callable[[str], Client]) -> None:
    lab = Lab(reraise=False)
    bibliography(lab.recovery, client("healthy"))()
    [spent] = lab.events_of(BudgetExhausted)
    assert (spent.spent, spent.limit) == (10, 10)
    assert told(lab, RunStopped)


def test_a_payment_that_cannot_be_undone_is_a_refused_reversal(client: Callable[[str], Client]) -> None:
    lab = Lab(reraise=False)
    take = payment(lab.recovery, client("healthy"))
    asyncio.run(take("order-1"))
    [refused] = lab.events_of(ReversalRefused)
    assert (refused.operation, refused.reason) == ("payment.capture", "no_token")
    categories = [fact.category for fact in lab.events_of(FailureClassified)]
    assert categories == [Category.NETWORK, Category.IDEMPOTENCY_CONFLICT]


def test_a_run_says_what_its_model_has_cost(client: Callable[[str], Client]) -> None:
    lab = Lab(reraise=False)
    with lab.recovery.run("due diligence", source="main_agent") as run:
        agent.spend(run, {"usage": {"input_tokens": 1000, "output_tokens": 100}})
        agent.spend(run, {"answer": "from a cache"})
    assert (run.input_tokens, run.output_tokens) == (1000, 100)
    assert run.cost_usd == pytest.approx(0.0045)


@pytest.mark.parametrize("phase", sorted({phase.name for phase in SCRIPT}))
def test_no_run_is_taken_for_a_loop(client: Callable[[str], Client], phase: str) -> None:
    """Whatever the provider does, no run of the demonstration makes one call again and again."""
    provider, labs = client(phase), [Lab(reraise=False), Lab(reraise=False)]
    threads, tasks = (lab.recovery for lab in labs)
    research = agent.diligence(threads, agent.research_operations(threads, provider))
    operations = agent.support_operations(tasks, provider) | {"ledger.close": closing(tasks, provider)}
    support = agent.ticketing(tasks, operations)
    for number in range(3):
        with suppress(RecoveryError):
            research(subject=f"subject {number}", is_published=True)
        with suppress(RecoveryError):
            asyncio.run(support(ticket=f"ticket-{number}", ends=("close", "send")))
    bibliography(threads, provider)()
    assert [len(lab.events_of(RunFinished)) for lab in labs] == [4, 3]
    assert {one.repeated_calls for lab in labs for one in lab.events_of(RunFinished)} == {None}


def test_a_book_closes_when_it_is_asked_for_the_third_time(client: Callable[[str], Client]) -> None:
    lab = Lab(reraise=False)
    close = closing(lab.recovery, client("healthy"))
    for book in ("may", "june"):
        asyncio.run(close(book))
    retries, books = len(lab.events_of(RetryScheduled)), 2
    assert retries == 2 * books, "twenty times as many as one for each ten calls, and 14.4 times is an alert"
    assert lab.events_of(Escalated) == []


def test_a_loose_wire_opens_and_closes_the_breaker_twenty_times_in_its_phase(client: Callable[[str], Client]) -> None:
    lab = Lab(reraise=False)
    translate = translation(lab.recovery, client("loose wire"))
    for _ in range(int(next(phase.lasts_s for phase in SCRIPT if phase.name == "loose wire") / TRANSLATES_EVERY_S)):
        with suppress(RecoveryError):
            translate("a page")
        lab.clock.push(TRANSLATES_EVERY_S)
    moves = [fact.state for fact in lab.events_of(BreakerStateChanged)]
    assert moves.count(State.OPEN) + moves.count(State.CLOSED) >= 20
    assert lab.events_of(Escalated) == [], "nobody is asked about it"
