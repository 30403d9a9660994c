"""Holds the store against the history: nothing acknowledged is missing, nothing is there twice or was never sent."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from events.models import BreakerState, Fact, KnownName, Tally
from events.projections.verification import differences, one_moment, refold
from recovery_ops.drill.history import History
from recovery_ops.drill.world import MOST_NAMES

_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Found:
    """What the store holds of one fault's facts, and what is wrong with it in words."""

    stored: int
    lost: int
    doubled: int
    problems: tuple[str, ...]


def check(history: History, processes: int) -> Found:
    """Compare one environment with its history, and every folded table with all facts."""
    kept = Counter(
        bytes(uid) for uid in Fact.objects.filter(environment=history.environment).values_list("uid", flat=True)
    )
    lost = len(history.sent - kept.keys()) + len(history.acknowledged - history.sent)
    doubled = sum(count - 1 for count in kept.values())
    strangers = len(kept.keys() - history.sent)
    problems = []
    if strangers and not history.is_open:
        problems.append(f"{strangers} facts were never sent")
    if not set(history.statuses) <= {0, 200, 503}:
        problems.append(f"a stock exporter would have dropped its data: {history.statuses}")
    problems += [*_fold_differs(), *_quarantine_differs(history), *_names_overflow(history, processes)]
    if BreakerState.objects.filter(environment=history.environment, breaker="clock").exclude(state="closed").exists():
        problems.append("a move from the future hides the one that came after it")
    return Found(len(kept), lost, doubled, tuple(problems))


def _fold_differs() -> list[str]:
    with one_moment():
        folded, _ = refold()
        return list(islice(differences(folded, None), _MOST_SHOWN))


def _quarantine_differs(history: History) -> list[str]:
    """A batch that was sent again sets its poison aside again: at least as many as there are poisons."""
    tally = Tally.objects.filter(environment=history.environment, name="set_aside").first()
    aside = tally.count if tally is not None else 0
    return [f"{aside} set aside of {history.poisoned} poisoned"] if aside < history.poisoned else []


def _names_overflow(history: History, processes: int) -> list[str]:
    known = KnownName.objects.filter(environment=history.environment, kind="operation").count()
    return [f"{known} operations have a place"] if known > MOST_NAMES * processes else []
