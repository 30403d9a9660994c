"""The faults, each against running servers while senders go on. Numbers as in the project's list (J1 …)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from recovery_ops.drill.history import History
from recovery_ops.drill.room import Room
from recovery_ops.drill.senders import Senders
from recovery_ops.drill.world import Postgres, Server

THREADS = 4
BATCH = 200


@dataclass(slots=True)
class Drill:
    """One engine's world, and how much is sent in each fault. `key_of` makes a key for an environment."""

    engine: str
    data: Path
    servers: list[Server]
    postgres: Postgres | None
    records: int
    chance: random.Random
    key_of: Callable[[str], str]
    room: Room
    endless: int
    """How many names without end there are."""
    seeds: int = field(default=0)

    @property
    def addresses(self) -> list[str]:
        """Where facts are taken."""
        return [server.address for server in self.servers]

    def senders(self, history: History, *, addresses: list[str] | None = None, records: int | None = None) -> Senders:
        """Senders of ordinary facts, in a context."""
        self.seeds += 1
        return Senders(
            addresses or self.addresses,
            self.key_of(history.environment),
            history,
            records=self.records if records is None else records,
            seed=self.chance.randrange(2**40),
            batch=BATCH,
            threads=THREADS,
        )


def killed_servers(drill: Drill, history: History) -> None:
    """J1: kill -9 servers under load."""
    kills = 3
    with drill.senders(history):
        for _ in range(kills):
            time.sleep(drill.chance.uniform(0.2, 1.0))
            server = drill.chance.choice(drill.servers)
            server.kill()
            server.start()
    history.notes.append(f"{kills} kills")


def killed_database(drill: Drill, history: History) -> None:
    """J2: kill -9 PostgreSQL, then an immediate stop."""
    assert drill.postgres is not None  # noqa: S101  # the table says which faults need it
    with drill.senders(history):
        for end in (drill.postgres.kill, drill.postgres.stop_at_once):
            time.sleep(0.5)
            end()
            time.sleep(0.3)
            drill.postgres.start()
    history.notes.append("a kill and an immediate stop")


def dropped_connections(drill: Drill, history: History) -> None:
    """J3: every pooled connection is terminated, twice."""
    assert drill.postgres is not None  # noqa: S101  # the table says which faults need it
    with drill.senders(history):
        dropped = 0
        for _ in range(2):
            time.sleep(0.4)
            dropped += drill.postgres.drop_connections()
    history.notes.append(f"{dropped} connections dropped")


def full_disk(drill: Drill, history: History) -> None:
    """J4: no room for a byte more, then room again; nobody lends a hand but whoever keeps services running.

    The store lies on a volume of its own, where this machine lets us have one; else no file of a writer may grow.
    """
    room, moments = drill.room, []
    writers = drill.servers if drill.postgres is None else [drill.postgres]
    with drill.senders(history):
        for is_full in (True, False):
            time.sleep(0.5)
            if room.is_there:
                (room.fill if is_full else room.empty)()
            else:
                for writer in writers:
                    writer.limit_files(65_536 if is_full else -1)
            moments.append(time.monotonic())
        if drill.postgres is not None and drill.postgres.has_ended:
            drill.postgres.start()  # as its unit would
            history.notes.append("PostgreSQL gave up and was started again")
    full, free = moments
    refused_s, taken_s = history.until_answered({503}, full), history.until_answered({200}, free)
    kind = "a volume of its own was full" if room.is_there else "no volume of its own: files could not grow"
    history.notes.append(f"{kind} for half a second")
    if refused_s is not None and taken_s is not None:
        history.notes.append(f"503 after {refused_s:.2f} s, 200 again {taken_s:.2f} s after there was room")
