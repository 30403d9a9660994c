"""Runs that are begun a second time: whether that has come since somebody wanted it, and why it did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from events.models import Fact
from events.moments import US_PER_S, from_us, to_us
from events.runs.stored import facts_among
from events.store.stored_json import text_at
from recovery_ops.rules.events import HookFailed, RunStarted
from recovery_ops.wire import names

HOOK = "on_retry"
"""The agent's own function that begins a run again."""
_STARTED, _FAILED = names.EVENTS[RunStarted].name, names.EVENTS[HookFailed].name
_SKEW_US = 60 * US_PER_S
"""A clock of an agent that is behind by less does not hide that it obeyed. What came before the wish is none of it."""


@dataclass(slots=True)
class Again:
    """What a run has told since somebody wanted it begun again."""

    begun: datetime | None = None
    """When it began, the first time since then."""
    failure: str = ""
    """What the agent's own function raised last, in its words; empty where it did not."""


def begun_again(environment: str, wanted: Mapping[str, datetime]) -> dict[str, Again]:
    """What these runs have told since these moments, by the server's clock. One query; index `fact_by_run`."""
    found = {run: Again() for run in wanted}
    if not wanted:
        return found
    since = {run: to_us(at) for run, at in wanted.items()}
    first_us = min(since.values())
    since_first = _told(environment, list(wanted), (_STARTED, _FAILED)).filter(
        at_us__gte=first_us - _SKEW_US, received_us__gte=first_us
    )
    told = since_first.annotate(
        hook=text_at(names.attribute_of(HookFailed, "hook")),
        said=text_at(names.attribute_of(HookFailed, "message")),
        kind=text_at(names.attribute_of(HookFailed, "error_type")),
    )
    rows = told.order_by("at_us", "id").values_list("run", "event", "at_us", "received_us", "hook", "said", "kind")
    for run, event, at_us, received_us, hook, said, kind in rows:
        if received_us < since[run] or at_us < since[run] - _SKEW_US:
            continue
        again = found[run]
        if event == _STARTED:
            again.begun = again.begun or from_us(at_us)
        elif hook == HOOK:
            again.failure = ": ".join(filter(None, (kind, said))) or "no reason reported"
    return found


def _told(environment: str, runs: Sequence[str], events: Sequence[str]) -> QuerySet[Fact]:
    """What these runs have told of this kind. Not a bare column, else it would be looked for among all of the kind."""
    among = f"event || '' IN ({', '.join(['%s'] * len(events))})"
    return facts_among(environment, runs).extra(where=[among], params=list(events))  # noqa: S610  (only marks)
