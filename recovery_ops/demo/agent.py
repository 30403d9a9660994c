"""One agent of the demonstration: runs come in, tools and models are called through guards, the provider misbehaves.

    RECOVERY_OPS_URL=… RECOVERY_OPS_KEY=… python -m recovery_ops.demo.agent --provider http://127.0.0.1:9000 \
        --service research-agent --instance research-agent-01

Research agents are threads, support agents are tasks: both drivers of the runtime are at work.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

from recovery_ops.demo.beginnings import Beginnings
from recovery_ops.demo.client import Client
from recovery_ops.demo.errands import (
    BIBLIOGRAPHY,
    CLOSING_RUNS,
    bibliography,
    closing,
    payment,
    translate_on,
    translation,
)
from recovery_ops.runtime import Fallback, Limits, Recovery, RecoveryError, Run, Workflow

Operation = Callable[..., Any]
DILIGENCE, TICKET = "due diligence", "answer a ticket"
"""Runs that keep their steps: whoever asks for one again gets it from where it was."""
_USD_PER_TOKEN = {"input_tokens": 3e-6, "output_tokens": 15e-6}
_ERRAND_EVERY, _FIRST_ERRAND = 100, 5
"""Runs between two errands of one agent, and the run after which it does its first."""


REGIONS = {"research-agent": "eu-central-1", "support-agent": "us-east-1"}
"""Where each service has its texts embedded: one backend, of which one region now and then goes bad."""


def embedding(recovery: Recovery, client: Client, region: str) -> Operation:
    """A model of another vendor, in the region next to the service; optional, because a run can do without."""

    @recovery.guard(
        "embed",
        kind="model",
        provider="selene",
        model="selene-embed",
        region=region,
        idempotent=True,
        optional=True,
    )
    def embed(text: str) -> Any:
        return client.post(f"embed-{region}", text=text)

    return embed


def model(recovery: Recovery, client: Client) -> Operation:
    """The large model, answered for by the small one when it cannot."""

    @recovery.guard("model:small", kind="model", provider="helios", model="helios-small", idempotent=True)
    def small(prompt: str) -> Any:
        return client.post("small", prompt=prompt)

    @recovery.guard(
        "model:large",
        kind="model",
        provider="helios",
        model="helios-large",
        idempotent=True,
        adjusts_max_tokens=True,
        fallback=Fallback(small, warning="written by the smaller model", idempotent=True),
    )
    def large(prompt: str) -> Any:
        return client.post("large", prompt=prompt)

    return large


def research_operations(recovery: Recovery, client: Client) -> dict[str, Operation]:
    """A model with a fallback, a tool with a fallback, an optional tool, a tool with neither, and background work."""

    def search_cache(query: str) -> dict[str, str]:
        return {"answer": f"what was known about {query} an hour ago"}

    @recovery.guard(
        "search_web",
        kind="tool",
        provider="helios",
        tool="search_web",
        idempotent=True,
        fallback=Fallback(search_cache, warning="search results are up to 1 h old", data_age_s=3600.0),
    )
    def search_web(query: str) -> Any:
        return client.post("search", query=query)

    @recovery.guard("fetch_prices", kind="tool", tool="fetch_prices", optional=True, idempotent=True)
    def fetch_prices(name: str) -> Any:
        return client.post("prices", name=name)

    @recovery.guard("publish_report", kind="tool", tool="publish_report")
    def publish_report(text: str) -> Any:
        return client.post("mail", text=text)

    @recovery.guard(
        "title_run", kind="model", provider="helios", model="helios-large", source="titles", idempotent=True
    )
    def title_run(text: str) -> Any:
        return client.post("large", prompt=f"a title for {text}", max_tokens=20)

    return {
        "search_web": search_web,
        "embed": embedding(recovery, client, REGIONS["research-agent"]),
        "fetch_prices": fetch_prices,
        "model:large": model(recovery, client),
        "publish_report": publish_report,
        "title_run": title_run,
    }


def support_operations(recovery: Recovery, client: Client) -> dict[str, Operation]:
    """The same for tasks: a model with a fallback, a ticket system with keys, an optional tool, background indexing.

    The ledger is a row that everybody wants at once: most of its attempts meet somebody else's, and are made again.
    """

    @recovery.guard(
        "crm.update",
        kind="tool",
        tool="crm.update",
        idempotency_key=lambda ticket: f"ticket-{ticket}",
        refresh_evidence=lambda: asyncio.to_thread(client.post, "small", prompt="read the ticket again"),
    )
    async def update(ticket: str) -> Any:
        return await asyncio.to_thread(client.post, "crm", ticket=ticket)

    @recovery.guard("ledger.book", kind="tool", tool="ledger.book", idempotent=True)
    async def book(ticket: str) -> Any:
        return await asyncio.to_thread(client.post, "ledger", ticket=ticket)

    @recovery.guard("sentiment", kind="tool", tool="sentiment", optional=True, idempotent=True)
    async def sentiment(text: str) -> Any:
        return await asyncio.to_thread(client.post, "prices", text=text)

    @recovery.guard("send_mail", kind="tool", tool="send_mail")
    async def send_mail(text: str) -> Any:
        return await asyncio.to_thread(client.post, "mail", text=text)

    @recovery.guard("index_ticket", kind="tool", tool="index_ticket", source="indexing", idempotent=True)
    async def index_ticket(ticket: str) -> Any:
        return await asyncio.to_thread(client.post, "search", ticket=ticket)

    return {
        "refund": refund_operation(recovery, client),
        "embed": embedding(recovery, client, REGIONS["support-agent"]),
        "sentiment": sentiment,
        "model:large": support_model(recovery, client),
        "crm.update": update,
        "ledger.book": book,
        "send_mail": send_mail,
        "index_ticket": index_ticket,
    }


def support_model(recovery: Recovery, client: Client) -> Operation:
    """A model, and the smaller one that stands in for it."""

    @recovery.guard("model:small", kind="model", provider="helios", model="helios-small", idempotent=True)
    async def small(prompt: str) -> Any:
        return await asyncio.to_thread(client.post, "small", prompt=prompt)

    @recovery.guard(
        "model:large",
        kind="model",
        provider="helios",
        model="helios-large",
        idempotent=True,
        fallback=Fallback(small, warning="written by the smaller model", idempotent=True),
    )
    async def large(prompt: str) -> Any:
        return await asyncio.to_thread(client.post, "large", prompt=prompt)

    return large


def refund_operation(recovery: Recovery, client: Client) -> Operation:
    """What is done only once a person has said yes, and then once."""

    @recovery.guard("refund", kind="tool", tool="refund", idempotency_key=lambda ticket, order: f"refund-{ticket}")
    async def refund(ticket: str, order: str) -> Any:
        return await asyncio.to_thread(client.post, "crm", ticket=ticket, order=order)

    return refund


def diligence(recovery: Recovery, operations: dict[str, Operation]) -> Callable[..., None]:
    """Look something up and write about it; what was found and written is kept until the run has come to its end."""

    def work(run_id: str = "", other: str = "", *, subject: str = "", is_published: bool = False) -> None:
        with (
            recovery.run(DILIGENCE, source="main_agent", run_id=run_id, timeout=90.0) as run,
            Workflow(DILIGENCE, run.id, recovery=recovery) as flow,
        ):
            given = {"subject": subject, "is_published": is_published}
            asked = flow.step("what is asked", lambda: given, identity=run.id)
            about = other or asked["subject"]

            def write(about: str) -> Any:
                answer = operations["model:large"](about)
                spend(run, answer)
                return answer

            flow.step(f"search {about}", operations["search_web"], about)
            operations["embed"](about)
            operations["fetch_prices"](about)
            flow.step(f"write {about}", write, about)
            if asked["is_published"]:
                flow.step(f"publish {about}", operations["publish_report"], about)
            flow.forget()

    return work


def ticketing(recovery: Recovery, operations: dict[str, Operation]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Answer a ticket and write it down; the same for tasks."""
    close_book = operations["ledger.close"]

    async def work(run_id: str = "", other: str = "", *, ticket: str = "", ends: tuple[str, ...] = ()) -> None:
        async with (
            recovery.run(TICKET, source="user_request", run_id=run_id, timeout=60.0) as run,
            Workflow(TICKET, run.id, recovery=recovery) as flow,
        ):
            given = {"ticket": ticket, "ends": list(ends)}
            asked = await flow.step_async("what is asked", lambda: given, identity=run.id)
            about = other or asked["ticket"]

            async def write(about: str) -> Any:
                answer = await operations["model:large"](about)
                spend(run, answer)
                return answer

            await operations["sentiment"](about)
            await asyncio.to_thread(operations["embed"], about)
            await flow.step_async(f"write {about}", write, about)
            await flow.step_async(f"note {about}", operations["crm.update"], about)
            await operations["ledger.book"](about)
            if "close" in asked["ends"]:
                await close_book(about)
            if "send" in asked["ends"]:
                await flow.step_async(f"send {about}", operations["send_mail"], about)
            await asyncio.to_thread(flow.forget)

    return work


def research(recovery: Recovery, client: Client, pause_s: float, beginnings: Beginnings) -> None:
    """Runs, one after another, without end. A run that cannot be finished is given up; the agent lives on."""
    operations, chance = research_operations(recovery, client), random.Random(recovery.instance.instance)
    check_bibliography, work = bibliography(recovery, client), diligence(recovery, operations)
    beginnings.add(BIBLIOGRAPHY, check_bibliography)
    beginnings.add(DILIGENCE, work)
    for number in itertools.count(1):
        time.sleep(pause_s * (0.5 + chance.random()))
        recovery.wait_for_work()
        subject = f"subject {number}"
        if number % _ERRAND_EVERY == _FIRST_ERRAND:
            check_bibliography()
        with contextlib.suppress(RecoveryError):
            work(subject=subject, is_published=number % 5 == 0)
        with contextlib.suppress(RecoveryError):
            operations["title_run"](subject)


async def support(recovery: Recovery, client: Client, pause_s: float, beginnings: Beginnings) -> None:
    """The same, for tasks."""
    operations, chance = support_operations(recovery, client), random.Random(recovery.instance.instance)
    operations["ledger.close"] = closing(recovery, client)
    take_payment, work = payment(recovery, client), ticketing(recovery, operations)
    beginnings.add_tasks(TICKET, work)
    asking: asyncio.Task[None] | None = None
    for number in itertools.count(1):
        if number % 8 == 3 and (asking is None or asking.done()):
            asking = asyncio.create_task(refund_if_allowed(recovery, operations["refund"], number))
        await asyncio.sleep(pause_s * (0.5 + chance.random()))
        await recovery.wait_for_work_async()
        ticket = f"{recovery.instance.instance}-{number}"
        with contextlib.suppress(RecoveryError):
            if number % _ERRAND_EVERY == _FIRST_ERRAND:
                await take_payment(f"order-{ticket}")
            ends = {"close": number in CLOSING_RUNS, "send": number % 4 == 0}
            await work(ticket=ticket, ends=tuple(name for name, is_due in ends.items() if is_due))
            await operations["index_ticket"](ticket)


async def refund_if_allowed(recovery: Recovery, refund: Operation, number: int) -> None:
    """Ask a person first; without an answer within five minutes there is no refund."""
    ticket = f"{recovery.instance.instance}-{number}"
    with contextlib.suppress(RecoveryError):
        async with recovery.run("refund", source="user_request", timeout=60.0):
            decision = await recovery.escalate_async(
                f"May ticket {ticket} be refunded?",
                proposal="40 EUR, to the card that was charged",
                queue="refunds",
                operation="refund",
                timeout=300.0,
            )
            if decision.is_approved:
                await refund(ticket, decision.text)


def spend(run: Run, answer: Any) -> None:
    """Say what a model's answer has cost, as its provider counts it."""
    used = answer.get("usage", {})
    run.input_tokens = (run.input_tokens or 0) + used.get("input_tokens", 0)
    run.output_tokens = (run.output_tokens or 0) + used.get("output_tokens", 0)
    run.cost_usd = (run.cost_usd or 0.0) + sum(price * used.get(kind, 0) for kind, price in _USD_PER_TOKEN.items())


def end_with_input() -> None:
    """Whoever started us has ended, or wants us to: the same as a signal."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGTERM)


def end(number: int, frame: FrameType | None) -> None:
    """Interrupt whatever call or wait is going on: a cancel, not a failure. Once; then the goodbye is left in peace."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise SystemExit(0)


def main(arguments: list[str]) -> None:
    """Work until standard input ends or a signal comes."""
    parser = argparse.ArgumentParser(prog="recovery_ops.demo.agent")
    parser.add_argument("--provider", required=True)
    parser.add_argument("--service", default="research-agent", choices=["research-agent", "support-agent"])
    parser.add_argument("--instance", required=True)
    parser.add_argument("--pause-s", type=float, default=2.0)
    parser.add_argument("--translates", action="store_true", help="also translate, over a wire that gets loose")
    parser.add_argument("--max-retries", type=int, help="a ceiling of its own, that no policy can widen")
    said = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    threading.Thread(target=end_with_input, daemon=True).start()
    limits = Limits(max_retries=said.max_retries)
    beginnings = Beginnings()
    recovery = beginnings.recovery = Recovery(
        said.service, instance=said.instance, version="2.8.1", limits=limits, on_retry=beginnings, reraise=False
    )
    client = Client(said.provider)
    if said.translates:
        threading.Thread(target=translate_on, args=(translation(recovery, client),), daemon=True).start()
    try:
        if said.service == "research-agent":
            research(recovery, client, said.pause_s, beginnings)
        else:
            asyncio.run(support(recovery, client, said.pause_s, beginnings))
    finally:
        recovery.close()


if __name__ == "__main__":
    main(sys.argv[1:])
