"""Every limit that the schema of a policy declares: the limit itself is taken, and the next value is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from recovery_ops.rules.policy.model import BUILT_IN, PolicyInvalid, parse_policy, whole_document_of
from recovery_ops.rules.policy.schema import policy_schema
from recovery_ops.rules.policy.settings import Problem

Path = tuple[str | int, ...]
BASES: dict[str, Any] = {
    "retry_table": [{"category": "timeout", "foreground": "retry", "background": "never"}],
    "rules": [{"id": "mine", "scope": {"operation": "a"}, "settings": {}}],
    "escalations": {},
    "playbook": whole_document_of(BUILT_IN)["playbook"],
    "quorum": [{"operation": "search_*"}],
    "classification": [{"name": "ledger", "category": "rate_limited", "match": {"exception_type": "acme.LedgerError"}}],
    "masking": {"rules": [{"name": "iban", "pattern": "IBAN", "replacement": "x"}], "attributes": ["customer.email"]},
    "tools": [{"operation": "pay"}],
}
"""What a section has to have around the value that is tried."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One word of the schema about the value at a path, a value at the limit and the next one beyond it."""

    path: Path
    word: str
    at: Any
    beyond: Any

    @property
    def name(self) -> str:
        return f"{'.'.join(map(str, self.path))} {self.word}"


def limits(schema: dict[str, Any], path: Path = ()) -> Iterator[Limit]:
    """Every limit under a part of the schema."""
    is_whole = "integer" in schema.get("type", ())
    for word, away in (("minimum", -1), ("maximum", 1)):
        if word in schema:
            at = schema[word]
            yield Limit(path, word, at, at + away if is_whole else math.nextafter(at, away * math.inf))
    if "maxLength" in schema:
        most = schema["maxLength"]
        yield Limit(path, "maxLength", "a" * most, "a" * (most + 1))
    if schema.get("minLength"):
        yield Limit(path, "minLength", "a" * schema["minLength"], "")
    if schema.get("maxItems"):
        most = schema["maxItems"]
        yield Limit(path, "maxItems", entries(path, most), entries(path, most + 1))
    for one in schema.get("anyOf", ()):
        yield from limits(one, path)
    for name, part in schema.get("properties", {}).items():
        yield from limits(part, (*path, name))
    if isinstance(part := schema.get("items"), dict):
        yield from limits(part, (*path, 0))
    if isinstance(part := schema.get("additionalProperties"), dict):
        yield from limits(part, (*path, "operation"))


def entries(path: Path, count: int) -> list[Any]:
    """So many entries of a list, each with a name of its own."""
    first = placed(path)[1][0]
    return [
        {**first, "name": f"n-{number}"} if isinstance(first, dict) else f"{first}{number}" for number in range(count)
    ]


def placed(path: Path, *value: Any) -> tuple[dict[str, Any], Any]:
    """A document with a value at a path, and what is there."""
    document: dict[str, Any] = {path[0]: deepcopy(BASES[str(path[0])])} if path[0] in BASES else {}
    here: Any = document
    for part, after in pairwise(path):
        if isinstance(here, dict) and part not in here:
            here[part] = [None] if isinstance(after, int) else {"queue": "people"} if path[0] == "escalations" else {}
        here = here[part]
    if value:
        here[path[-1]] = value[0]
    return document, here[path[-1]]


def problems(path: Path, value: Any) -> set[Problem]:
    """What is wrong with a document that has this value there."""
    try:
        parse_policy(placed(path, value)[0])
    except PolicyInvalid as invalid:
        return set(invalid.problems)
    return set()


def test_declared_limit_is_taken_and_next_refused(subtests: pytest.Subtests) -> None:
    found = [one for one in limits(policy_schema()) if one.path]
    assert len(found) > 300
    for limit in found:
        with subtests.test(limit.name):
            # Beside another setting of its section, the limit may have another fault than the next value.
            assert problems(limit.path, limit.beyond) - problems(limit.path, limit.at)
