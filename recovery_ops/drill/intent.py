"""Faults of what people want: two at once, a page that is old, and policies that change while servers die."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from recovery_ops.drill.faults import BATCH, Drill
from recovery_ops.drill.floods import Felt
from recovery_ops.drill.history import History
from recovery_ops.drill.world import ROOT, Server, wait_until

ROUNDS = 40
EDITS = 12
KILLED_AFTER = (4, 8)
FOLLOWERS, STOCK = 6, 3
"""Agents with the real runtime, and stock OpAMP clients."""
_OBEYED_WITHIN_S = 60.0
_SENT_WITHIN_S = 60.0
_OPERATION = "tool_0"


def two_people(drill: Drill, history: History) -> None:
    """J14: two people trip and reset (or disable) one breaker at once, from the same page; then it is sent again.

    One wins, the other hears of a conflict; the winner's page sent again is no second deed, the loser's stays refused.
    """
    from recovery_ops.control.breakers.services import overrides, resets
    from recovery_ops.control.core.audit_log import verify_chain
    from recovery_ops.control.core.models.audit import AuditEntry
    from recovery_ops.control.core.revisions import current_revision

    with drill.senders(history, records=BATCH * 4):
        pass  # so that the breaker is known
    place = history.environment
    first, counts, released = current_revision(place), Counter[str](), 0
    for number in range(ROUNDS):
        released += _let_go(place)
        others: list[Callable[..., Any]] = [overrides.disable, resets.reset]
        second = drill.chance.choice(others)
        page: dict[str, Any] = {"environment": place, "seen": current_revision(place), "number": number}
        calls = [partial(_attempt, "ana", overrides.trip, **page), partial(_attempt, "tom", second, **page)]
        found = _at_once(calls)
        counts.update(found)
        counts.update(f"sent again: {call()}" for call in calls)
        if sorted(found) != ["refused", "won"]:
            raise Felt(f"two at once: {found}")
    done = current_revision(place) - first - released
    rows = AuditEntry.objects.filter(environment=place, result=AuditEntry.OK).count() - released
    if not done == rows == counts["won"] == counts["sent again: again"] == counts["sent again: refused"] == ROUNDS:
        raise Felt(f"{done} revisions, {rows} rows of the audit log: {dict(counts)}")
    if not verify_chain(place).is_whole:
        raise Felt(f"the audit log is not whole: {verify_chain(place).problem}")
    history.notes.append(f"{4 * ROUNDS} tries, {ROUNDS} done, {2 * ROUNDS} refused, {ROUNDS} known already")


def _attempt(name: str, act: Callable[..., Any], *, environment: str, seen: int, number: int) -> str:
    """What becomes of one person's click on a page that showed the revision `seen`."""
    from recovery_ops.control.core.rejections import CommandRejected
    from recovery_ops.rules.policy.scope import Scope

    scope, reason = Scope(operation=_OPERATION, instance="i-0"), "Drilled: two people at once."
    try:
        done = act(
            by=person(name), environment=environment, reason=reason, scope=scope, seen=seen, key=f"{name}-{number}"
        )
    except CommandRejected as refused:
        return "refused" if refused.status == 409 else f"refused as {refused.code}"
    return "again" if done.was_already else "won"


def _let_go(environment: str) -> int:
    """End every override; how many there were."""
    from recovery_ops.control.breakers.models.overrides import Override
    from recovery_ops.control.breakers.services import overrides

    held = list(Override.objects.filter(environment=environment, ended_at=None))
    for one in held:
        reason = "Drilled: the next two come."
        overrides.release(by=person("eva"), environment=environment, reason=reason, override_id=one.pk)
    return len(held)


def _at_once(calls: Sequence[Callable[[], str]]) -> list[str]:
    """What each of them returned, begun together in threads of their own."""
    from django.db import connection

    gate, found = threading.Barrier(len(calls)), [""] * len(calls)

    def run(number: int) -> None:
        gate.wait()
        try:
            found[number] = calls[number]()
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def person(name: str) -> Any:
    """Somebody who may do anything."""
    from recovery_ops.control.core.actors import Actor

    return Actor(name=name, kind="person", channel="web", may=lambda permission, environment: True, user_id=None)


def policy_edits(drill: Drill, history: History) -> None:
    """J15: a policy is edited again and again while agents with the real runtime and stock OpAMP clients follow, and
    their server is killed.

    In the end every agent obeys the last revision by its one hash, and none has applied an older one after a newer one.
    """
    from events.keys import create_key

    with drill.senders(history, records=BATCH * 4):
        pass  # so that the operation is known
    history.is_open = True  # what the agents tell of themselves is not written down here
    place = history.environment
    key = create_key("drill", ["ingest", "desired"], place)[1]
    server = Server(drill.data, os.environ["RECOVERY_OPS_DATABASE_URL"], door="application")
    with tempfile.TemporaryDirectory(prefix="recovery-ops-drill-followers-") as folder, ExitStack() as stack:
        stack.callback(server.close)
        server.start()
        url = f"http://{server.address}"
        ours = stack.enter_context(_agents("follower", url, key, folder, str(FOLLOWERS)))
        stock = stack.enter_context(_agents("stock_follower", url, key, str(STOCK)))
        expected = _arrived(place, stock)
        revision = _edit(drill, place, server)
        obeying, hashes = _obeying(place, revision, expected)
        ours.communicate(timeout=_SENT_WITHIN_S)
        said = stock.communicate(timeout=_SENT_WITHIN_S)[0]
    applied, backwards = _applied(place)
    taken, back = _taken(said)
    if obeying < expected or hashes != 1 or backwards or back:
        found = f"{obeying} of {expected} agents obey the last revision, by {hashes} hashes"
        raise Felt(f"{found}; {backwards} of ours, {back} OpAMP clients applied an older after a newer one")
    words_killed = f"{EDITS} edits, the server killed {len(KILLED_AFTER)} times"
    clients = f"{STOCK} stock OpAMP clients that took on {taken}" if taken else "no stock OpAMP client on this machine"
    obeyed = "obey the last by one hash"
    history.notes.append(f"{words_killed}; {FOLLOWERS} agents of ours and {clients} {obeyed}, none backwards")
    history.notes.append(f"{applied} applied in all")


@contextmanager
def _agents(module: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process of agents that follow until its input ends."""
    command, pipe = [sys.executable, "-m", f"recovery_ops.drill.{module}", *words], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _arrived(place: str, stock: subprocess.Popen[str]) -> int:
    """Wait until all agents have been heard; return how many they are: without the stock client only ours."""
    from events.models import Agent

    ours = Agent.objects.filter(environment=place, instance__startswith="follower-")
    others = Agent.objects.filter(environment=place, instance__startswith="stock-")
    wait_until(lambda: ours.count() == FOLLOWERS, "every agent of ours")
    wait_until(lambda: stock.poll() is not None or others.count() == STOCK, "every stock OpAMP client")
    return FOLLOWERS + others.count()


def _edit(drill: Drill, place: str, server: Server) -> int:
    """Edit the policy so many times, and kill the server now and then; return the last revision."""
    from recovery_ops.control.policies.services import policies as policies_services

    revision = 0
    for number in range(1, EDITS + 1):
        done = policies_services.set_operation_policy(
            by=person("ana"),
            environment=place,
            reason="Drilled: edited while agents follow.",
            operation=_OPERATION,
            settings={"max_retries": number},
        )
        revision = done.revision
        time.sleep(drill.chance.uniform(0.05, 0.4))
        if number in KILLED_AFTER:
            server.kill()
            server.start()
    return revision


def _obeying(place: str, revision: int, expected: int) -> tuple[int, int]:
    """How many agents obey a revision, waited for within bounds, and by how many different hashes."""
    from events.models import Agent

    obeying = Agent.objects.filter(environment=place, applied_revision=revision, revision=revision)
    until = time.monotonic() + _OBEYED_WITHIN_S
    while obeying.count() < expected and time.monotonic() < until:
        time.sleep(0.1)
    return obeying.count(), obeying.values("config_hash").distinct().count()


def _taken(said: str) -> tuple[int, int]:
    """How many documents the stock clients took on, by their own words, and how many of them after a newer one."""
    newest, count, backwards = Counter[str](), 0, 0
    for line in said.splitlines():
        instance, revision, _ = line.split()
        count, backwards = count + 1, backwards + (int(revision) < newest[instance])
        newest[instance] = max(newest[instance], int(revision))
    return count, backwards


def _applied(environment: str) -> tuple[int, int]:
    """How many revisions were applied in all, and how many of them after a newer one."""
    from events.models import Fact
    from recovery_ops.wire import names

    told = Fact.objects.filter(environment=environment, event="desired_state_applied")
    newest, count, backwards = Counter[int](), 0, 0
    for agent, attributes in told.order_by("agent", "sequence_number").values_list("agent", "attributes"):
        revision = int(attributes[names.ATTRIBUTES["revision"]])
        count, backwards = count + 1, backwards + (revision < newest[agent])
        newest[agent] = max(newest[agent], revision)
    return count, backwards
