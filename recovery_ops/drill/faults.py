"""The faults, each against running servers while senders go on. Numbers as in the project's list (J1 …)."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from recovery_ops.drill.history import History
from recovery_ops.drill.room import Room
from recovery_ops.drill.senders import Senders
from recovery_ops.drill.world import Postgres, Server, is_running, wait_until

THREADS = 4
BATCH = 200
CHILDREN = 2
ORPHANS_END_S = 15.0
"""So long a child may stay without its master: what it has begun may take ten seconds."""


class Stayed(Exception):
    """A process went on that nobody would end."""


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

    def senders(
        self, history: History, *, addresses: list[str] | None = None, records: int | None = None, batch: int = BATCH
    ) -> Senders:
        """Senders of ordinary facts, in a context."""
        self.seeds += 1
        return Senders(
            addresses or self.addresses,
            self.key_of(history.environment),
            history,
            records=self.records if records is None else records,
            seed=self.chance.randrange(2**40),
            batch=batch,
            threads=THREADS,
        )


def killed_servers(drill: Drill, history: History) -> None:
    """J1: kill -9 servers under load, then a child of a master and the master of children; none of them may stay."""
    kills = 3
    with ExitStack() as stack:
        masters = []
        if drill.postgres is not None:  # a store of one file has one process
            masters.append(Server(drill.data, drill.postgres.url, workers=CHILDREN))
            stack.callback(masters[0].close)
            masters[0].start()
        addresses = [*(master.address for master in masters), *drill.addresses]
        with drill.senders(history, addresses=addresses):
            bereft = [(master, _kill_a_child(master, drill.chance)) for master in masters]
            for _ in range(kills):
                time.sleep(drill.chance.uniform(0.2, 1.0))
                server = drill.chance.choice(drill.servers)
                server.kill()
                server.start()
            ended_s = [_kill_the_master(master, before) for master, before in bereft]
    history.notes.append(f"{kills} kills")
    for took_s in ended_s:
        words = f"a child and the master of {CHILDREN} killed, every child gone after {took_s:.2f} s"
        history.notes.append(f"{words}, and its port free")


def _kill_a_child(master: Server, chance: random.Random) -> set[int]:
    """Kill one, which its master replaces; return which there were."""
    before = set(master.children)
    os.kill(chance.choice(sorted(before)), signal.SIGKILL)
    return before


def _kill_the_master(master: Server, before: set[int]) -> float:
    """Kill it once it has replaced one of those before; return after how many seconds no child was left. Start anew."""
    wait_until(lambda: len(set(master.children) - before) > 0, "a new child of the master")
    left = master.children
    master.kill()
    began = time.monotonic()
    while (stay := [pid for pid in left if is_running(pid)]) and time.monotonic() < began + ORPHANS_END_S:
        time.sleep(0.02)
    if stay:
        raise Stayed(f"{len(stay)} of {len(left)} children stayed {ORPHANS_END_S:g} s after their master was killed")
    took_s = time.monotonic() - began
    master.start()
    return took_s


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
