"""The harm that is done to the background work: workers killed in mid-task, Redis flushed and away, schedulers gone."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import psycopg

from recovery_ops.drill.receiving import Receiver
from recovery_ops.drill.workers import Program, Redis
from recovery_ops.drill.world import wait_until

_LOCKED = (
    ("control_audithead", "opening questions"),
    ("control_notifylook", "telling people"),
    ("events_capacitylook", "finding outages"),
)
"""The row that a task waits for while we hold it, and which task that is."""
_WAITING = (
    "SELECT application_name FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
_CAUGHT_S = 30.0
_REDIS_AWAY_S = 1.0


class Mischief:
    """One harm after each part, in turn. `done` counts what was done, and what could not be."""

    def __init__(
        self,
        store: str,
        broker: Redis,
        workers: Sequence[Program],
        schedulers: Sequence[Program],
        receiver: Receiver,
        chance: random.Random,
        environment: str,
        beside: Callable[[], AbstractContextManager[object]],
    ) -> None:
        self._store, self._broker, self._receiver, self._chance = store, broker, receiver, chance
        self._workers, self._schedulers, self._environment = workers, schedulers, environment
        self._beside = beside
        self.done: Counter[str] = Counter()
        self.redis_back_s = 0.0
        """How long after Redis was there again the first worker waited for tasks, at most."""
        self._turns: Sequence[Callable[[int], None]] = (
            self._kill_while_sending,
            self._kill_at_a_lock,
            self._lose_redis,
            self._lose_a_scheduler,
        )

    def do(self, number: int) -> None:
        """Do what is next."""
        round_, turn = divmod(number, len(self._turns))
        self._turns[turn](round_)

    def mend(self) -> None:
        """Let everybody run again who does not."""
        for program in (*self._workers, *self._schedulers):
            if not program.is_running:
                program.start()

    def _kill_while_sending(self, round_: int) -> None:
        """A message is with its receiver, and nobody noted yet that it arrived. Who sends cannot be seen: both die."""
        self._receiver.hold_next()
        is_caught = self._receiver.waits_for_held(_CAUGHT_S)
        for program in self._workers:
            self._kill_worker(program, "while sending" if is_caught else "at no message")
        self._receiver.let_go()

    def _kill_at_a_lock(self, round_: int) -> None:
        """A task has begun its transaction, and waits for a row that we hold: it dies there. The other one goes on."""
        for table, task in _LOCKED:
            with self._held(table):
                name = self._who_waits()
                for program in self._workers:
                    if program.name == name:
                        self._kill_worker(program, f"while {task}")
                if not name:
                    self.done[f"nobody found {task}"] += 1

    def _lose_redis(self, round_: int) -> None:
        """Everything in it is forgotten, then it is away for a moment and comes back empty; others send all the time,
        until a worker is back.
        """
        with self._beside():
            time.sleep(self._chance.uniform(0.0, 1.0))
            self._broker.flush()
            self.done["Redis flushed"] += 1
            time.sleep(self._chance.uniform(0.0, 1.0))
            self._broker.kill()
            time.sleep(_REDIS_AWAY_S)
            self._broker.start()
            began = time.monotonic()
            wait_until(self._broker.is_read, "a worker at Redis")
            self.redis_back_s = max(self.redis_back_s, time.monotonic() - began)
            self.done["Redis killed"] += 1

    def _lose_a_scheduler(self, round_: int) -> None:
        """The other goes on alone; in the next round it is the other's turn."""
        for program in self._schedulers:
            if not program.is_running:
                program.start()
        self._schedulers[round_ % len(self._schedulers)].kill()
        self.done["schedulers killed"] += 1

    def _kill_worker(self, program: Program, when: str) -> None:
        """Kill it; a new one starts in its place."""
        program.kill()
        program.start()
        self.done[f"workers killed {when}"] += 1

    @contextmanager
    def _held(self, table: str) -> Iterator[None]:
        """Hold our environment's row of a table."""
        with psycopg.connect(self._store) as connection:
            held = f"SELECT 1 FROM {table} WHERE environment = %s FOR UPDATE"  # noqa: S608  # names of ours
            connection.execute(held, (self._environment,))
            yield
            connection.rollback()

    def _who_waits(self) -> str:
        """Wait until a worker waits for a row; return its name, empty where none does."""
        until = time.monotonic() + _CAUGHT_S
        with psycopg.connect(self._store, autocommit=True) as connection:
            while time.monotonic() < until:
                found = connection.execute(_WAITING).fetchone()
                if found:
                    return str(found[0])
                time.sleep(0.02)
        return ""
