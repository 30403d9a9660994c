"""Whether a document can be a policy: what the rules say of it, and what no store or screen could hold."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from recovery_ops.control.core.models.bases import NAME_CHARS
from recovery_ops.rules.policy.model import SCHEMA_VERSION, Policy, PolicyInvalid, parse_policy
from recovery_ops.wire.masking import fault_of_hidden

MOST_BYTES = 256 * 1024
MOST_DEPTH = 20
_VERSION = "version"
"""Comes from the release, never from the document."""


def faults_of_document(document: object) -> dict[str, str]:
    """What is wrong with a policy document, by the path to it; empty when agents would take it."""
    if not isinstance(document, Mapping):
        return {"document": "must be a JSON object"}
    faults = dict(_unstorable(document, "", 0))
    if faults:
        return faults
    size = len(json.dumps(document, ensure_ascii=False).encode())
    if size > MOST_BYTES:
        return {"document": f"has {size:,} bytes; use at most {MOST_BYTES:,}"}
    try:
        policy = parse_policy(document)
    except PolicyInvalid as invalid:
        return {problem.path or "document": problem.message for problem in invalid.problems}
    hidden = enumerate(policy.masking.attributes)
    faults = {f"masking.attributes[{index}]": fault for index, name in hidden if (fault := fault_of_hidden(name))}
    return _unknown_version(document) | _too_long(policy) | faults


def _unknown_version(document: Mapping[str, Any]) -> dict[str, str]:
    """Agents obey what they know of a newer document; nobody writes one here that this console does not know."""
    said = document.get("schema_version", SCHEMA_VERSION)
    return {} if said <= SCHEMA_VERSION else {"schema_version": f"is {said}; use at most {SCHEMA_VERSION}"}


def _too_long(policy: Policy) -> dict[str, str]:
    """Names of rules that no screen and no fact would hold."""
    lengths = {f"rules[{index}].id": len(rule.id) for index, rule in enumerate(policy.rules)}
    return {
        path: f"has {length} characters; use at most {NAME_CHARS}"
        for path, length in lengths.items()
        if length > NAME_CHARS
    }


def plain(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document as it is kept: without the version, which a release gives it."""
    return {name: part for name, part in document.items() if name != _VERSION}


def _unstorable(value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """What PostgreSQL cannot store, JSON cannot state, or nobody can read."""
    if depth > MOST_DEPTH:
        yield path or "document", f"has more than {MOST_DEPTH} levels of nesting"
    elif isinstance(value, Mapping):
        for name, part in value.items():
            if not isinstance(name, str) or not name.isprintable():
                yield path or "document", "has a name with unprintable characters"
            else:
                yield from _unstorable(part, f"{path}.{name}" if path else name, depth + 1)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _unstorable(part, f"{path}[{index}]", depth + 1)
    elif isinstance(value, str):
        if not all(one.isprintable() or one in "\n\t" for one in value):
            yield path, "has unprintable characters"
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield path, "must be a finite number"
    elif not (value is None or isinstance(value, bool | int)):
        yield path, "must be JSON"
