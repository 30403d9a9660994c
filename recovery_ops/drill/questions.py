"""Makes up, from a seed, what people have to hear of: outages, questions with deadlines, and what must come of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from recovery_ops.drill.story import made, uid_of
from recovery_ops.rules.incidents.detection import Hit, OutageBounds, outages
from recovery_ops.rules.policy.escalation_terms import ALLOW, MAY_DEFAULT
from recovery_ops.wire import names

BOUNDS = OutageBounds(quiet_s=10.0, merge_s=60.0)
"""As short as a policy may make them: an outage is told to be over a minute after its last failure."""
BEGAN_BEFORE_S = 180.0
"""So long ago the outages began: within the quick look's reach, and over before anybody looks twice."""
ASKED, WAITS = "asked", "waits"
"""The queue of questions that stay open, which has a chain, and of those that a run waits for."""
DEADLINES_S = (4.0, 12.0)
_A = names.ATTRIBUTES
_ASK_KINDS = ("policy_denied", "permission", "quota_exhausted")

Uid = bytes
Said = tuple[str, Uid, LogRecord]
"""The instance that says it, its uid, and what it says."""
Outage = tuple[str, str, int, int, int]
"""Provider, model, first and last failure in microseconds, and how many there are between, both included."""


@dataclass(slots=True)
class Expected:
    """What must stand in the tables in the end, whatever was done to those who put it there."""

    outages: list[Outage] = field(default_factory=list)
    open: Counter[str] = field(default_factory=Counter)
    """How many facts asked each question that stays open, by operation."""
    decided: dict[str, str] = field(default_factory=dict)
    """What silence decides, by ticket."""

    @property
    def messages(self) -> Counter[tuple[str, str]]:
        """How many messages of each rule and kind: each thing once."""
        steps = {("chain", "chain_step"): 2 * len(self.open)}
        ends = {("questions", "escalation_closed"): len(self.decided)}
        begins = {("questions", "escalation_opened"): len(self.open) + len(self.decided)}
        told = {("outages", kind): len(self.outages) for kind in ("capacity_began", "capacity_ended")}
        return Counter(steps | ends | begins | told)


@dataclass(frozen=True, slots=True)
class Plot:
    """What is said, in parts that come one after the other, and what must come of it."""

    parts: Sequence[Sequence[Said]]
    expected: Expected


def plot(seed: int, now_ns: int, *, questions: int, parts: int) -> Plot:
    """The same for the same seed and the same moment, in whichever process it is made.

    So many questions with a deadline and half as many without, and an outage for every five; of every fact that asks,
    a third is said twice.
    """
    chance = random.Random(f"{seed} work")
    expected = Expected()
    said = [*_outages(chance, now_ns, max(2, questions // 5), expected)]
    for number in range(questions):
        ticket = f"ticket-{number:04}"
        allows = chance.random() < 0.5
        # What silence never allows, it refuses, whatever the run said.
        is_allowed = allows and ALLOW in MAY_DEFAULT[_kind(number)]
        expected.decided[ticket] = "approved" if is_allowed else "rejected"
        said.append(_asked(chance, now_ns, number, ticket, "allow" if allows else "deny"))
    for number in range(max(2, questions // 2)):
        for _ in range(chance.randint(1, 3)):
            said.append(_asked(chance, now_ns, number))
            expected.open[f"tool-{number}"] += 1
    said += [one for one in said if one[2].event_name.endswith("escalated") and chance.random() < 0.33]
    chance.shuffle(said)
    return Plot([said[part::parts] for part in range(parts)], expected)


def _outages(chance: random.Random, now_ns: int, count: int, expected: Expected) -> Iterable[Said]:
    """Outages, and beside each a run that hammers, which is none."""
    for number in range(count):
        hits = [
            (chance.uniform(0, 25), f"run-{number}-{chance.randrange(4)}", f"agent-{chance.randrange(4)}")
            for _ in range(chance.randint(20, 40))
        ]
        lonely = [(1.5 * n, f"alone-{number}", "agent-9") for n in range(20)]
        for model, some in ((f"model-{number}", hits), (f"decoy-{number}", lonely)):
            began_ns = now_ns - int(BEGAN_BEFORE_S * 1e9)
            times = [(began_ns + int(at_s * 1e9), run, instance) for at_s, run, instance in some]
            for at_ns, run, instance in times:
                yield instance, *_failed(chance, at_ns, model, run)
            failed = [Hit(at_ns // 1000 / 1e6, run, instance) for at_ns, run, instance in times]
            for one in outages(failed, BOUNDS):
                count = sum(one.started <= hit.at <= one.last for hit in failed)
                expected.outages.append(
                    (_provider(model), model, round(one.started * 1e6), round(one.last * 1e6), count)
                )


def _provider(model: str) -> str:
    """One of its own for each: what fails at once of one provider is one outage."""
    return f"maker of {model}"


def _failed(chance: random.Random, at_ns: int, model: str, run: str) -> tuple[Uid, LogRecord]:
    said: dict[str, object] = {
        _A["category"]: "overloaded",
        _A["provider"]: _provider(model),
        _A["model"]: model,
        _A["breaker"]: model,
        names.OPERATION: f"call {model}",
        names.RUN: run,
    }
    return _made(chance, "failure_classified", said, at_ns)


def _asked(chance: random.Random, now_ns: int, number: int, ticket: str = "", default: str = "") -> Said:
    said: dict[str, object] = {_A["queue"]: ASKED, _A["reason"]: _kind(number), names.OPERATION: f"tool-{number}"}
    if ticket:
        deadline_s = round(chance.uniform(*DEADLINES_S), 1)
        said |= {_A["queue"]: WAITS, _A["escalation_id"]: ticket, names.RUN: f"run of {ticket}"}
        said |= {_A["deadline_s"]: deadline_s, _A["default_action"]: default, _A["message"]: f"May {ticket} go on?"}
    return f"agent-{chance.randrange(4)}", *_made(chance, "escalated", said, now_ns - chance.randrange(10**9))


def _kind(number: int) -> str:
    return _ASK_KINDS[number % len(_ASK_KINDS)]


def _made(chance: random.Random, kind: str, said: dict[str, object], at_ns: int) -> tuple[Uid, LogRecord]:
    uid = chance.randbytes(16)
    given = {names.UID: uid_of(uid), names.SEQUENCE_NUMBER: chance.randrange(10**9), **said}
    return uid, made(names.PREFIX + kind, given, at_ns)
