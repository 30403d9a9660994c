"""One way to run the console's background work, with facts going in and messages coming out: `work_world.py WAY …`.

`services` is PostgreSQL, Redis, two workers and two schedulers, and things are done to them; `embedded` is
`manage.py up` on SQLite, left in peace. Says a line `ready`, reads the moment that both begin with, and says in one
line of JSON what it found.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recovery_ops.drill.engine import set_up_store
from recovery_ops.drill.history import History
from recovery_ops.drill.mischief import Mischief
from recovery_ops.drill.questions import ASKED, BOUNDS, Plot, Said, plot
from recovery_ops.drill.receiving import Receiver
from recovery_ops.drill.senders import Senders, deliver
from recovery_ops.drill.story import body_of
from recovery_ops.drill.workers import Program, Redis, address_of, embedded, scheduler, worker
from recovery_ops.drill.world import Postgres, Server, wait_until

ENVIRONMENT = "drill"
BESIDE = "drill-beside"
"""Whose facts come in while Redis is away."""
BESIDE_THREADS, BESIDE_BATCH = 2, 50
LONGEST_SILENCE_S = 10.0
"""So long without a 200 and a stock exporter would have dropped its data."""
LEASE_S = 12
"""The shortest that the setting takes: what a dead worker held is free after it."""
CHAIN_S = (0.0, 3.0)
SETTLED_WITHIN_S = 90.0
QUIET_S = 4.0
"""So long nothing more may come: two rounds of every scheduler."""


def main(way: str, seed: str, questions: str, rounds: str, store: str) -> None:
    """Run one way."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"recovery-ops-drill-{way}-")))
        receiver = Receiver()
        stack.callback(receiver.close)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "recovery_ops.settings",
            "RECOVERY_OPS_DATA": str(folder),
            "RECOVERY_OPS_NOTIFY_HOSTS": receiver.host,
            "RECOVERY_OPS_NOTIFY_LEASE_S": str(LEASE_S),
        }
        world = _services(stack, folder, store) if way == "services" else _embedded(stack, folder, store)
        print(json.dumps(_play(world, receiver, int(seed), int(questions), int(rounds))), flush=True)


def _end_with(parent: int) -> None:
    """Take down what was started when whoever started us is gone: nobody else would."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


class Beside:
    """Senders of ordinary facts in an environment of their own, and what became of those."""

    def __init__(self, address: str, seed: int) -> None:
        self._address, self._chance, self._key = address, random.Random(f"{seed} beside"), ""
        self._histories: list[History] = []

    def senders(self) -> Senders:
        """Some that send as long as the context lasts."""
        from events.keys import create_key

        self._key = self._key or create_key("drill", ["ingest"], BESIDE)[1]
        self._histories.append(History(BESIDE))
        return Senders(
            [self._address],
            self._key,
            self._histories[-1],
            records=0,
            seed=self._chance.randrange(2**40),
            batch=BESIDE_BATCH,
            threads=BESIDE_THREADS,
        )

    def told(self) -> dict[str, Any]:
        """Counts of them, the longest time in seconds without a 200, and what is wrong in words."""
        from recovery_ops.drill.checking import check

        whole = History(BESIDE)
        for one in self._histories:
            whole.sent |= one.sent
            whole.acknowledged |= one.acknowledged
            whole.statuses = dict(Counter(whole.statuses) + Counter(one.statuses))
        found = check(whole, 1)
        silent_s = max((one.longest_without(200) for one in self._histories), default=0.0)
        problems = list(found.problems)
        if refused := {status: count for status, count in whole.statuses.items() if status != 200}:
            problems.append(f"beside Redis the intake answered {refused}")
        if silent_s > LONGEST_SILENCE_S:
            problems.append(f"beside Redis nothing was answered 200 for {silent_s:.2f} s")
        return {
            "sent": len(whole.sent),
            "acknowledged": len(whole.acknowledged),
            "lost": found.lost,
            "doubled": found.doubled,
            "silent_s": round(silent_s, 2),
            "problems": problems,
        }


class World:
    """Where facts go in, and what can be done to those who read them; None where nothing is to be done."""

    def __init__(self, address: str, mischief: Callable[[Receiver, random.Random, Beside], Mischief] | None) -> None:
        self.address, self.mischief = address, mischief


def _services(stack: ExitStack, folder: Path, given: str) -> World:
    broker = Redis(folder)
    stack.callback(broker.kill)
    broker.start()
    store = given or _own_postgres(stack)
    os.environ |= {"RECOVERY_OPS_DATABASE_URL": store, "RECOVERY_OPS_BROKER_URL": broker.url}
    set_up_store(is_migrated=bool(given))
    workers = [worker(f"worker-{number}", folder) for number in (1, 2)]
    schedulers = [scheduler(f"scheduler-{number}", folder) for number in (1, 2)]
    for program in (*workers, *schedulers):
        stack.callback(program.kill)
        program.start()
    server = Server(folder, store)
    stack.callback(server.close)
    server.start()
    wait_until(_works, "a worker")
    return World(
        server.address,
        lambda receiver, chance, beside: Mischief(
            store, broker, workers, schedulers, receiver, chance, ENVIRONMENT, beside.senders
        ),
    )


def _own_postgres(stack: ExitStack) -> str:
    """The URL of an empty database in a cluster of our own."""
    store = Postgres()
    stack.callback(store.close)
    store.start()
    store.make_database()
    return store.url


def _works() -> bool:
    """Whether some task has run to its end."""
    from recovery_ops.control.core.models.heartbeats import Beat

    return Beat.objects.exclude(name=Beat.SCHEDULER).exists()


def _embedded(stack: ExitStack, folder: Path, given: str) -> World:
    if given:
        shutil.copy(given, folder / "db.sqlite3")
    set_up_store(is_migrated=bool(given))
    program: Program = embedded(folder, folder)
    stack.callback(program.kill)
    program.start()
    return World(address_of(program), None)


def _play(world: World, receiver: Receiver, seed: int, questions: int, rounds: int) -> dict[str, Any]:
    from recovery_ops.control.core.revisions import current_revision
    from recovery_ops.drill.found import Found, is_settled, judge

    key = _set_up(receiver)
    revisions = current_revision(ENVIRONMENT)
    print("ready", flush=True)
    now_ns = int(sys.stdin.readline())
    story = plot(seed, now_ns, questions=questions, parts=4 * rounds)
    history = History(ENVIRONMENT)
    beside = Beside(world.address, seed)
    mischief = world.mischief(receiver, random.Random(f"{seed} mischief"), beside) if world.mischief else None
    _tell(story, world.address, key, history, mischief)
    until = time.monotonic() + SETTLED_WITHIN_S
    while not is_settled(ENVIRONMENT, story.expected) and time.monotonic() < until:
        time.sleep(0.2)
    settled = is_settled(ENVIRONMENT, story.expected)
    time.sleep(QUIET_S)
    counts, problems = judge(ENVIRONMENT, story.expected, receiver.counts, revisions)
    if not settled:
        problems.append(f"not everything had come to its end after {SETTLED_WITHIN_S:g} s")
    if history.statuses.keys() - {200}:
        problems.append(f"the intake answered {history.statuses}")
    found, others = Found.of(ENVIRONMENT), beside.told()
    return {
        "facts": len(history.sent),
        "outages": len(found.outages),
        "questions": len(found.questions),
        "done": mischief.done if mischief else {},
        "redis_back_s": round(mischief.redis_back_s, 2) if mischief else 0.0,
        "beside": others,
        "counts": asdict(counts),
        "found": found.document(),
        "problems": [*problems, *others["problems"]],
    }


def _tell(story: Plot, address: str, key: str, history: History, mischief: Mischief | None) -> None:
    """Hand the parts in, and do something after each."""
    for number, part in enumerate(story.parts):
        for instance in sorted({one for one, _, _ in part}):
            _hand_in(part, instance, address, key, history)
        if mischief is not None:
            mischief.do(number)
    if mischief is not None:
        mischief.mend()


def _hand_in(part: Sequence[Said], instance: str, address: str, key: str, history: History) -> None:
    said = [(uid, record) for one, uid, record in part if one == instance]
    body = body_of([record for _, record in said], instance)
    deliver([address], key, body, [uid for uid, _ in said], history)


def _set_up(receiver: Receiver) -> str:
    """Whom the console tells what, an hour ago; return a key for facts."""
    from datetime import timedelta

    from django.utils import timezone

    from events.capacity.bounds import keep_bounds
    from events.keys import create_key
    from recovery_ops.control.core.actors import system_actor
    from recovery_ops.control.notifications.rules import tell
    from recovery_ops.control.notifications.services.settings import save_chain, save_channel, save_rule

    keep_bounds(ENVIRONMENT, BOUNDS)
    frame: dict[str, Any] = {"by": system_actor("drill"), "environment": ENVIRONMENT, "reason": "Set up for a drill."}
    frame["now"] = timezone.now() - timedelta(hours=1)
    address = f"http://{receiver.host}/"
    channel = save_channel(**frame, name="hook", kind="webhook", address=address, secret="s" * 16).object
    for name, trigger in (("questions", "escalation"), ("outages", "capacity")):
        save_rule(**frame, name=name, channel=channel.pk, words={"triggers": [trigger], "group_s": 0})
    steps = [{"after_s": after_s, "channel": channel.pk} for after_s in CHAIN_S]
    save_chain(**frame, name=ASKED, steps=steps)
    tell(ENVIRONMENT, timezone.now())  # once, so that there is a row to hold
    return create_key("drill", ["ingest"], ENVIRONMENT)[1]


if __name__ == "__main__":
    main(*sys.argv[1:])
