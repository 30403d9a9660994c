"""What one move of a breaker was made of: its evidence, and the failures that its instance had met by then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import orjson
from django.utils import timezone

from events.models import Fact
from events.moments import US_PER_S, to_us
from events.queries.readings import MOVED, Attributes, number_or_none, text_of
from events.queries.sums import FAILED
from events.queries.transitions import moves_of, transition_of
from events.queries.trouble import failure_row
from events.rows import FailureRow, Transition
from recovery_ops.rules.events import BreakerStateChanged
from recovery_ops.wire import names

MOST = 20
REACH = timedelta(minutes=15)
"""So far back failures are read: a window that counts by time is rarely longer."""
_LATELY = timedelta(days=8)
"""Where a move is looked for first: in what the widest range of the pages shows, and the days that are made ahead."""
_MORE = Attributes(BreakerStateChanged, "wait_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One move, and the newest failures of its breaker in its instance up to then, newest first, at most `MOST`."""

    move: Transition
    operation: str
    policy: str
    """The policy that decided; empty where nobody said."""
    wait_s: float | None
    failures: list[FailureRow]


def evidence_of(environment: str, fact_id: int) -> Evidence | None:
    """None where this is no move of the environment. Three queries, four where it is older; index `fact_by_breaker`.

    What the clock says changes how it is found, never what: a number tells no day, and most that are asked for are new.
    """
    # By nothing else but days, or PostgreSQL takes another index where a day is small.
    found = Fact.objects.filter(pk=fact_id)
    stored = found.filter(at_us__gte=to_us(timezone.now() - _LATELY)).first() or found.first()
    if stored is None or (stored.environment, stored.event) != (environment, MOVED):
        return None
    move = next(moves_of(found.filter(at_us=stored.at_us)))  # only now it is known of which day it is
    said = orjson.loads(move.written)
    met = Fact.objects.filter(
        environment=environment,
        breaker=move.breaker,
        event=FAILED,
        agent_id=move.agent_id,
        at_us__lte=move.at_us,
        at_us__gt=move.at_us - int(REACH.total_seconds()) * US_PER_S,
    )
    newest = met.select_related("agent").order_by("-at_us", "-sequence_number", "-id")[:MOST]
    return Evidence(
        move=transition_of(move),
        operation=stored.operation,
        policy=text_of(said.get(names.POLICY_VERSION)),
        wait_s=number_or_none(_MORE.of(said)["wait_s"]),
        failures=[failure_row(one) for one in newest],
    )
