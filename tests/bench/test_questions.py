"""Every question that a page, a figure or the API asks of the facts is one that is measured, or says why it is not."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from recovery_ops.bench import questions

ROOT = Path(__file__).resolve().parent.parent.parent
ASKING = (
    "events.queries.amplification",
    "events.capacity.asking",
    "events.degradations.asking",
    "events.failures.asking",
    "events.failures.clean",
    "events.failures.mixing",
    "events.failures.naming",
    "events.failures.unknown",
    "events.queries",
    "events.recoveries.asking",
    "events.runs.selectors",
    *(f"events.queries.{one.stem}" for one in sorted((ROOT / "events/queries").glob("[a-z]*.py"))),
)
"""Modules whose public functions ask the store."""
ASKERS = ("recovery_ops/control", "events/timelines", "events/*.py", "recovery_ops/bench/questions.py")

_WORKER = "asked by the worker, not by a page; see tests/events/queries/test_plans.py"
_ROW = "one row by its key"
NOT_MEASURED = {
    "queries.operations.is_known_operation": _ROW,
    "runs.selectors.reporting_ids": "one look at the fleet, which is measured",
    "runs.selectors.reporting_now": "one look at the fleet, which is measured",
    "capacity.asking.capacity_page": "measured as capacity_events, which asks it",
    "capacity.asking.numbers_of": "a part of what is asked where an act opens a question about an event",
    "capacity.asking.wholes_by_number": _WORKER,
    "failures.naming.called_lately": "asked where a sentence names a cause; reads a row for each kind and day",
    "failures.asking.agents_with": "one look at the fleet, which is measured",
    "failures.asking.busiest_hours": "asked once by an act; reads what read_failures reads",
    "failures.asking.counts_between": _WORKER,
    "failures.asking.counts_lately": _WORKER,
    "failures.asking.is_known": _ROW,
    "failures.asking.last_number": _ROW,
    "failures.asking.named_marks": _WORKER,
    "failures.asking.newest_marked": _WORKER,
    "failures.asking.read_with_before": "measured as read_failures and counts_before",
    "failures.asking.senders_between": _WORKER,
    "failures.clean.callers_between": _WORKER,
    "failures.clean.causes_met": _WORKER,
    "failures.clean.ends_between": _WORKER,
    "failures.clean.operations_by_cause": "asked once by an act; reads what read_failures reads",
    "failures.asking.settled_number": _WORKER,
    "failures.asking.versions_known": "asked once by an act; reads the instances",
    "failures.unknown.matched": "reads what unknown_causes reads",
    "failures.unknown.unknown_cause": "asks unknown_causes",
    "queries.breakers.is_named": _ROW,
    "queries.breakers.is_reported": _ROW,
    "queries.recordings.recorded_breaker": "asked where a person tries limits; reads 10,000 facts of a kind at most",
    "queries.recordings.recorded_run": "asked once, where a person keeps a run as golden; reads 2,000 facts at most",
    "queries.resting_keys.keys_at_rest": "reads events of two rare kinds by an index, a bounded number of them",
    "queries.resting_keys.keys_resting_at": "asks keys_at_rest",
    "queries.spend_accounts.spend_accounts": "reads one column of the instances that spend, of which there are few",
    "queries.spend_caps.caps_reached": "reads events of one rare kind by an index, a bounded number of them",
    "queries.sums.capacity_per_bin": "asks sums_per_bin",
    "recoveries.asking.recoveries": "two_spans is the longer one",
    "runs.selectors.get_runs": "a part of a page of runs",
}


def asked_in(path: Path) -> Iterator[str]:
    """The functions of `ASKING` that a file names, as `module.function` where each is defined."""
    modules: dict[str, ModuleType] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            for one in node.names:
                whole = f"{node.module}.{one.name}"
                if whole in ASKING:
                    modules[one.asname or one.name] = importlib.import_module(whole)
                elif node.module in ASKING:
                    yield from defined(importlib.import_module(node.module), one.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield from defined(modules[node.value.id], node.attr)


def defined(module: ModuleType, name: str) -> Iterator[str]:
    """The function, unless it is pure: what asks takes an environment, or says in how many queries."""
    found = getattr(module, name, None)
    if inspect.isfunction(found) and found.__module__ in ASKING and is_asking(found.__doc__ or "", found):
        yield f"{found.__module__.removeprefix('events.')}.{found.__name__}"


def is_asking(words: str, found: object) -> bool:
    return "environment" in inspect.signature(found).parameters or "quer" in words.lower()  # type: ignore[arg-type]


@pytest.mark.default
def test_every_question_in_use_is_measured_or_says_why_not() -> None:
    files = [path for place in ASKERS for path in found_at(place)]
    own = {f"{module.replace('.', '/')}.py" for module in ASKING}
    used = {
        name
        for path in files
        if str(path.relative_to(ROOT)) not in {*own, "recovery_ops/bench/questions.py"}
        for name in asked_in(path)
    }
    measured = set(asked_in(Path(questions.__file__)))
    assert len(used & measured) > 20, "what is compared is what is used"
    assert used - measured == set(NOT_MEASURED)


def found_at(place: str) -> list[Path]:
    return sorted(ROOT.glob(place)) if place.endswith(".py") else sorted((ROOT / place).rglob("*.py"))
