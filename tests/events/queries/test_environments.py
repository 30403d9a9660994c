"""No answer about one environment depends on what other environments report, nor on the order of arrival.

Every question is asked of a fleet's busy hours. Other environments have the same services, instances, operations,
breakers and runs, but other numbers of everything.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db.models import Model

from events import queries
from events.capacity import asking as capacity
from events.deployments.asking import deployments
from events.failures import asking as failures
from events.failures import clean
from events.failures.naming import called_lately
from events.failures.unknown import matched
from events.models import Agent
from events.queries.breakers import is_reported
from events.queries.operations import is_known_operation
from events.queries.trouble import open_degradations
from events.runs import selectors as runs
from events.runs.again import begun_again
from events.runs.narrowing import Narrow
from events.runs.stored import facts_of_run, is_told_of
from recovery_ops.bench import questions as questions_of_pages
from recovery_ops.bench.questions import Place, Question, questions
from recovery_ops.rules.enums import State
from recovery_ops.rules.events import RunStarted
from recovery_ops.rules.policy.classification_rules import Match
from tests.support.busy_hours import CATEGORIES, OPERATIONS, Entry, busy_hours, store
from tests.support.low_limits import read_little
from tests.support.stories import NOW, counted, failed, heartbeat, moved

HOUR = timedelta(hours=1)
ALL = 10**12
"""A number that no fact reaches."""
pytestmark = pytest.mark.django_db
RANGES = {"15 min": HOUR / 4, "1 h": HOUR, "24 h": 24 * HOUR}
NARROWED = (
    Narrow(status="running"),
    Narrow(status="recovered"),
    Narrow(status="lost"),
    Narrow(status="paused_for_person"),
    Narrow(category="overloaded", failures=2),
    Narrow(provider="helios"),
    Narrow(model="small", agent="a-1"),
    Narrow(service="billing", rung=2, waited_s=1),
    Narrow(q="errand 1", took_s=60),
    Narrow(cost_usd=0.5),
)
ALIKE = {
    "reported other",
    "known operation other",
    "story of other",
    "told of other",
    "facts of other",
    *(f"known cause {name}-other" for name in OPERATIONS),
}
"""Questions whose answer here is that about an environment without facts."""


def every(environment: str) -> Iterator[Question]:
    """The questions that pages ask, and those of the worker's checks."""
    yield from questions(Place(environment, NOW, "search_web"))
    span: dict[str, Any] = {"start": NOW - HOUR, "end": NOW}
    wanted = [f"{operation}-{which}" for operation in OPERATIONS for which in ("x", "y", "other")]
    ends = clean.ends_between(0, ALL, environment=environment)
    since = {f"run-{number}": NOW - 3 * HOUR for number in range(60)}
    window: dict[str, Any] = {"environment": environment}
    asked: dict[str, Any] = {
        "counts by number": partial(failures.counts_between, 0, ALL, **window),
        "senders by number": partial(failures.senders_between, 0, ALL, **window),
        "callers by number": partial(clean.callers_between, 0, ALL, **window),
        "ends by number": lambda: ends,
        "causes of runs": partial(clean.causes_met, environment, ends),
        "operations by cause": partial(clean.operations_by_cause, environment, **span),
        "named causes": partial(failures.named_marks, environment, **span),
        "newest of causes": partial(failures.newest_marked, environment, wanted, **span),
        "counts lately": partial(failures.counts_lately, environment, **span),
        "busiest hours": partial(failures.busiest_hours, environment, now=NOW),
        "versions": partial(failures.versions_known, environment),
        "called lately": partial(called_lately, environment, wanted, now=NOW),
        "what a rule matches": partial(matched, environment, Match(operation="*"), **span),
        "open degradations": partial(open_degradations, environment, or_ended_since=NOW - HOUR),
        "deployments": partial(deployments, environment, start=NOW - 24 * HOUR, end=NOW),
        "begun again": partial(begun_again, environment, since),
        "reporting": partial(runs.reporting_now, environment, NOW),
        "numbers of outages": partial(capacity.wholes_by_number, environment, range(1000), now=NOW),
        "outages that go on": partial(capacity.events_going_on, environment, now=NOW),
    }
    asked |= {f"known cause {name}": partial(failures.is_known, environment, name, since=NOW - HOUR) for name in wanted}
    for name in ("search_web", "other"):
        asked[f"reported {name}"] = partial(is_reported, environment, name)
        asked[f"known operation {name}"] = partial(is_known_operation, environment, name)
    for run in ("run-1", "run-2", "run-3", "other"):
        asked[f"told of {run}"] = partial(is_told_of, environment, run)
        asked[f"facts of {run}"] = lambda run=run: facts_of_run(environment, run).count()
        asked[f"story of {run}"] = partial(runs.run_of, environment, run)
    for at in (60, 4000):
        moment: dict[str, Any] = {"start": NOW - 3 * HOUR, "end": NOW - timedelta(seconds=at), "now": NOW}
        asked[f"instance lanes until {at}"] = partial(queries.segments, environment, **moment)
        asked[f"fleet lanes until {at}"] = partial(queries.fleet_lanes, environment, **moment)
        asked[f"lanes of a service until {at}"] = partial(queries.fleet_lanes, environment, **moment, service="billing")
    some: list[dict[str, Any]] = [{"operation": "summarize"}, {"breaker": "crm.update"}]
    for kept in some:
        asked[f"sums of {kept}"] = partial(queries.sums_per_bin, environment, **span, **kept)
        short: dict[str, Any] = {"start": NOW - HOUR / 5, "end": NOW}
        asked[f"fine failures of {kept}"] = partial(queries.sums_per_bin, environment, **short, **kept)
    for show in runs.Show:
        for narrow in NARROWED if show in (runs.Show.TROUBLED, runs.Show.ALL) else (Narrow(),):
            filters = runs.RunFilters(show=show, narrow=narrow)
            asked[f"runs: {show.value}, {narrow}"] = partial(_listed, environment, filters, span)
    yield from (Question(name, ask) for name, ask in asked.items())


def _listed(environment: str, filters: runs.RunFilters, span: dict[str, Any]) -> Any:
    found = runs.RunList.of(environment, filters, **span, now=NOW)
    outcomes = found.by_outcome(runs.reporting_ids(environment, NOW))
    return (
        found.page(limit=3).rows,
        found.count(),
        {f"{level} {word}": count for (level, word), count in outcomes.items()},
    )


def plain(found: Any, agents: Mapping[int, str]) -> Any:
    """An answer without the numbers of rows, instances by name instead of by number, and only what is in order as it
    is in order.
    """
    if isinstance(found, float):
        return float(f"{found:.9g}")
    if isinstance(found, enum.Enum | str | int | None):
        return found
    if isinstance(found, Agent):
        return agents[found.pk]
    named = _fields(found)
    if named is not None:
        return [plain(_named(value, agents) if name == "agent_id" else value, agents) for name, value in named]
    if isinstance(found, Mapping):
        pairs = [[plain(_named(key, agents), agents), plain(value, agents)] for key, value in found.items()]
        return pairs if set(found) <= IN_ORDER else sorted(pairs, key=repr)
    if isinstance(found, set | frozenset):
        return sorted((plain(_named(one, agents), agents) for one in found), key=repr)
    if isinstance(found, list | tuple):
        return [plain(one, agents) for one in found]
    return str(found)


def _fields(found: Any) -> list[tuple[str, Any]] | None:
    """What a row of the store, a dataclass or a named tuple consists of."""
    if is_dataclass(found):
        named = [one.name for one in fields(found)]
    elif isinstance(found, Model):
        named = [one.name for one in found._meta.fields]
    elif isinstance(found, tuple):
        named = list(getattr(found, "_fields", ()))
    else:
        named = []
    return [(name, getattr(found, name)) for name in named if name not in OF_ROWS] or None


def _named(value: Any, agents: Mapping[int, str]) -> Any:
    if type(value) is tuple:
        return tuple(_named(one, agents) for one in value)
    return agents.get(value, value) if type(value) is int else value


OF_ROWS = {"id", "fact_id", "pk", "environment", "position"}
"""What two environments with the same events have each of their own."""
IN_ORDER = {*OPERATIONS, *CATEGORIES, "helios / helios-large", "acme / small"}
"""Of what is told by these names, the order is a part of the answer."""


def answers(environment: str) -> dict[str, Any]:
    """Every answer about this environment, by question."""
    agents = {one.pk: f"{one.service}/{one.instance}" for one in Agent.objects.filter(environment=environment)}
    return {one.name: plain(one.ask(), agents) for one in every(environment)}


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [name for name in {**one, **other} if one.get(name) != other.get(name)]


def others() -> list[Entry]:
    """The same fleet with other numbers, and names that are known nowhere else."""
    extra = [
        Entry(30.0, "billing", "b-1", failed(operation="other", fingerprint=f"{operation}-other"), "other")
        for operation in OPERATIONS
    ]
    events = (
        heartbeat(),
        moved(State.OPEN, breaker="other"),
        counted(5, "other"),
        failed(operation="other", provider="other", model="other"),
    )
    elsewhere = [Entry(20.0, "other", "b-1", event, "other") for event in events]
    return [*busy_hours(8), *extra, *elsewhere, Entry(40.0, "billing", "b-1", RunStarted(), "other")]


def test_other_environments_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions_of_pages, "RANGES", RANGES)
    told = busy_hours(7)
    store("dev", told)
    alone = answers("dev")
    store("other", others())
    store("twin", sorted(told, key=lambda one: -one.at_us))
    found, nowhere = answers("dev"), answers("empty")
    assert differing(found, alone) == []
    assert differing(found, answers("twin")) == ["numbers of outages"]
    assert {name for name in nowhere if found[name] == nowhere[name]} == ALIKE


def test_other_environments_change_no_answer_that_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    read_little(monkeypatch)
    monkeypatch.setattr(questions_of_pages, "RANGES", {"3 h": 3 * HOUR})
    store("dev", busy_hours(7))
    alone = answers("dev")
    store("other", others())
    assert differing(answers("dev"), alone) == []
