"""`manage.py drill`: every fault of the list, J1 to J18, once, with what was counted of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from recovery_ops.drill.catalogue import FAULTS
from recovery_ops.drill.engine import Outcome

FAILOVER = (
    "in words: a replica that is promoted while replication is asynchronous lacks the last moments before it. "
    "Facts acknowledged in them are lost, because their senders have dropped them, and so is what people did then; "
    "an agent that obeyed it does so until two connections in a row tell it the lower revision. With synchronous "
    "replication (synchronous_standby_names) nothing that was acknowledged is lost."
)
_J5, _J6 = "Redis flushed and killed", "workers killed in mid-task, schedulers too"
_BROKER, _HANDS = "Redis", ("workers", "schedulers", "nobody")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One fault of the list on one way to run it. Counts are of facts; None where nothing is sent."""

    fault: str
    words: str
    way: str = ""
    sent: int | None = None
    acknowledged: int | None = None
    lost: int | None = None
    doubled: int | None = None
    note: str = ""
    is_good: bool = True


def lines(outcomes: Sequence[Outcome], work: Mapping[str, Any]) -> list[Line]:
    """The whole list, in its order."""
    words = {fault.name: fault.words for fault in FAULTS}
    found = [
        Line(
            fault=one.fault,
            words=words[one.fault],
            way=one.engine,
            sent=one.sent,
            acknowledged=one.acknowledged,
            lost=one.lost,
            doubled=one.doubled,
            note="; ".join(part for part in (one.note, *one.problems) if part),
            is_good=one.is_good,
        )
        for one in outcomes
    ]
    found += _of_work(work)
    found.append(Line(fault="J18", words="replica promoted", note=FAILOVER))
    return sorted(found, key=lambda line: int(line.fault[1:]))


def missing(found: Sequence[Line]) -> list[str]:
    """The faults of the list that were not run."""
    return sorted(
        {f"J{number}" for number in range(1, 19)} - {line.fault for line in found}, key=lambda name: int(name[1:])
    )


def document(found: Sequence[Line]) -> list[dict[str, Any]]:
    """The list as JSON."""
    return [asdict(line) for line in found]


def _of_work(work: Mapping[str, Any]) -> list[Line]:
    """J5 and J6 are done to the same run, so what was lost and doubled in it is said of both."""
    way = work["ways"].get("services")
    if way is None:
        return []
    counts, done = way["counts"], way["done"]
    messages = f"{counts['messages']} messages, {counts['twice']} sent twice, {counts['in_doubt']} in doubt"

    beside, back = way["beside"], f"a worker was back {way['redis_back_s']:.2f} s after Redis"
    quiet = f"facts were taken all the time: {beside['silent_s']:.2f} s at most without a 200"

    def line(fault: str, words: str, starts: Sequence[str], more: Mapping[str, int], *notes: str) -> Line:
        harm = ", ".join(f"{name} {count}×" for name, count in done.items() if name.startswith(tuple(starts)))
        return Line(
            fault=fault,
            words=words,
            way="postgresql",
            sent=way["facts"] + more.get("sent", 0),
            acknowledged=way["facts"] + more.get("acknowledged", 0),
            lost=counts["lost"] + more.get("lost", 0),
            doubled=counts["doubled"] + more.get("doubled", 0),
            note="; ".join([harm, *notes, messages, *way["problems"], *counts["which"]]),
            is_good=bool(work["is_good"]),
        )

    return [line("J5", _J5, (_BROKER,), beside, quiet, back), line("J6", _J6, _HANDS, {})]
