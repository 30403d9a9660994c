"""Runs the faults on one engine, in a process whose Django looks at that engine.

`engine.py ENGINE EVENTS SEED NAMES FAULTS` says a line of JSON for each fault as it ends; `manage.py drill facts` reads
them.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from recovery_ops.drill.catalogue import FAULTS
from recovery_ops.drill.faults import Drill
from recovery_ops.drill.history import History, p99
from recovery_ops.drill.room import Room
from recovery_ops.drill.world import NotHere, Postgres, Server


@dataclass(frozen=True, slots=True)
class Outcome:
    """One fault on one engine."""

    fault: str
    engine: str
    sent: int = 0
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    tries: int = 0
    unanswered: int = 0
    refused: int = 0
    """Requests that were told to come again."""
    p99_s: float = 0.0
    took_s: float = 0.0
    note: str = ""
    problems: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, nothing doubled, and nothing else is wrong."""
        return not (self.lost or self.doubled or self.problems)


def main(engine: str, events: str, seed: str, endless: str, *names: str) -> None:
    """Run these faults, or all."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="recovery-ops-drill-")))
        data = folder / "data"
        data.mkdir(mode=0o700)
        postgres = None
        if engine == "postgresql":
            postgres = Postgres()
            room = postgres.room
            stack.callback(postgres.close)
            postgres.start()
            postgres.make_database()
        else:
            room = Room(data)
            stack.callback(room.close)
        url = postgres.url if postgres is not None else ""
        os.environ |= {"RECOVERY_OPS_DATA": str(data), "RECOVERY_OPS_DATABASE_URL": url}
        os.environ["DJANGO_SETTINGS_MODULE"] = "recovery_ops.settings"
        set_up_store()
        servers = [Server(data, url) for _ in range(2 if postgres is not None else 1)]
        for server in servers:
            stack.callback(server.close)
            server.start()
        chance = random.Random(f"{seed} {engine}")
        drill = Drill(engine, data, servers, postgres, 0, chance, _keys(), room, int(endless))
        for outcome in _run(drill, int(events), names):
            print(json.dumps(asdict(outcome)), flush=True)


def set_up_store(*, is_migrated: bool = False) -> None:
    import django
    from django.core.management import call_command

    django.setup()
    if not is_migrated:
        call_command("migrate", verbosity=0)


def _keys() -> Callable[[str], str]:
    """Make a key for an environment, and give it again."""
    from events.keys import create_key

    keys: dict[str, str] = {}

    def key_of(environment: str) -> str:
        if environment not in keys:
            keys[environment] = create_key("drill", ["ingest"], environment)[1]
        return keys[environment]

    return key_of


def _run(drill: Drill, events: int, names: tuple[str, ...]) -> Iterator[Outcome]:
    is_here = drill.postgres is not None
    chosen = [fault for fault in FAULTS if (not names or fault.name in names) and (is_here or not fault.needs_postgres)]
    drill.records = -(-events // max(1, sum(not fault.is_small for fault in chosen)))
    for fault in chosen:
        history = History(fault.name.lower())
        drill.key_of(history.environment)
        began = time.monotonic()
        problems: list[str] = []
        with _fresh_connections():
            try:
                fault.act(drill, history)
            except NotHere as missing:
                problems.append(f"not run, for this machine has no {missing}")  # what was not done proves nothing
            except Exception as error:  # a drill goes on: the next fault may be the one that tells why
                problems.append(f"{type(error).__name__}: {error}")
        if fault.is_outage and history.answers:
            history.notes.append(f"at most {history.longest_without(200):.2f} s in which nothing was taken")
        yield _outcome(fault.name, drill, history, time.monotonic() - began, problems)


@contextmanager
def _fresh_connections() -> Iterator[None]:
    """Our own connections do not survive what is done to the database."""
    from django.db import connections

    connections.close_all()
    yield
    connections.close_all()


def _outcome(name: str, drill: Drill, history: History, took_s: float, problems: list[str]) -> Outcome:
    from recovery_ops.drill.checking import check

    found = check(history, len(drill.servers))
    return Outcome(
        fault=name,
        engine=drill.engine,
        sent=len(history.sent),
        acknowledged=len(history.acknowledged),
        lost=found.lost,
        doubled=found.doubled,
        tries=history.tries,
        unanswered=history.statuses.get(0, 0),
        refused=history.statuses.get(503, 0),
        p99_s=round(p99(history.times_s), 3),
        took_s=round(took_s, 1),
        note=", ".join(history.notes),
        problems=(*problems, *found.problems),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
