"""Faults of delivery: answers that get lost, copies out of order, clocks that are wrong, agents that are killed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
import uuid
from typing import IO

from recovery_ops.drill.faults import BATCH, Drill
from recovery_ops.drill.history import History
from recovery_ops.drill.proxy import LossyProxy
from recovery_ops.drill.senders import NeverAccepted, deliver
from recovery_ops.drill.story import Story, body_of, made, uid_of
from recovery_ops.drill.window import Window, words_of
from recovery_ops.drill.world import ROOT
from recovery_ops.wire import names

_KILLS = 3
_DAY_NS = 86_400 * 10**9
_TWO_WEEKS_NS = 14 * _DAY_NS


def lost_answers(drill: Drill, history: History) -> None:
    """J7: two of three answers are lost after the server has stored."""
    with LossyProxy(drill.servers[0].port, keeps=3) as proxy:
        with drill.senders(history, addresses=[proxy.address]):
            time.sleep(0.5)
        history.notes.append(f"{proxy.dropped} answers lost")


def shuffled_copies(drill: Drill, history: History) -> None:
    """J8: three copies of everything, shuffled, up to two weeks late."""
    story = Story(drill.chance.randrange(2**40), when=lambda chance: time.time_ns() - chance.randrange(_TWO_WEEKS_NS))
    batches = [story.batch(BATCH) for _ in range(max(3, drill.records // BATCH // 3))]
    copies = [records for records in batches for _ in range(3)]
    drill.chance.shuffle(copies)
    key = drill.key_of(history.environment)
    for number, records in enumerate(copies):
        mixed = drill.chance.sample(records, len(records))
        instance = f"i-{batches.index(records) % 4}"
        body = body_of([record for _, record in mixed], instance)
        address = drill.addresses[number % len(drill.addresses)]
        deliver([address], key, body, [uid for uid, _ in records], history)
    history.notes.append("3 copies of each")


def wrong_clocks(drill: Drill, history: History) -> None:
    """J9: clocks a day off, no time, the last time there is, and time that runs backwards."""
    last = time.time_ns() + _DAY_NS

    def when(chance: random.Random) -> int:
        nonlocal last
        last -= 1_000_000_000
        now = time.time_ns()
        return chance.choice([now - _DAY_NS, now + _DAY_NS, 0, 2**64 - 1, last])

    story = Story(drill.chance.randrange(2**40), when=when)
    key = drill.key_of(history.environment)
    for number in range(max(2, drill.records // BATCH)):
        records = story.batch(BATCH)
        body = body_of([record for _, record in records], f"i-{number % 4}")
        deliver(drill.addresses, key, body, [uid for uid, _ in records], history)
    # Whatever the future said, the newest move of a breaker is the one that came last.
    uid = drill.chance.randbytes(16)
    said = {names.UID: uid_of(uid), names.ATTRIBUTES["breaker"]: "clock", names.ATTRIBUTES["state"]: "open"}
    later = {**said, names.UID: uid_of(uid[::-1]), names.ATTRIBUTES["state"]: "closed"}
    event = "recovery.breaker_state_changed"
    deliver(drill.addresses, key, body_of([made(event, said, time.time_ns() + _DAY_NS)], "i-0"), [uid], history)
    deliver(drill.addresses, key, body_of([made(event, later, time.time_ns())], "i-0"), [uid[::-1]], history)


def killed_agents(drill: Drill, history: History) -> None:
    """J16: an agent is killed between emitting and sending; the next one with its outbox sends what it left.

    What had been told and was in no file yet is counted, and how long a fact was in that window.
    """
    path, key = drill.data / "agent.outbox", drill.key_of(history.environment)
    history.is_open = True
    command = [sys.executable, "-m", "recovery_ops.drill.agent", str(path), f"http://{drill.addresses[0]}", key]
    windows = []
    for _ in range(_KILLS):
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as agent:
            told = _until_it_tells(agent.stdout) if agent.stdout else ""
            time.sleep(drill.chance.uniform(0.3, 0.8))
            agent.kill()
            rest = agent.stdout.read() if agent.stdout else ""
        window = Window.of(told + rest)
        windows.append(window)
        history.note_sent([uuid.UUID(uid).bytes for uid in window.kept])
    drained = subprocess.run([*command, "drain"], check=False, cwd=ROOT, capture_output=True, timeout=90)
    if drained.returncode:
        raise NeverAccepted(f"the outbox was not drained: {drained.stderr.decode(errors='replace')[-500:]}")
    history.note_acknowledged(list(history.sent), 0.0)
    history.notes.append(words_of(windows))


def _until_it_tells(said: IO[str]) -> str:
    """What an agent says up to its second fact: with the first it loads what it needs, which may take seconds."""
    told = ""
    while told.count(".\n") < 2 and (line := said.readline()):
        told += line
    return told
