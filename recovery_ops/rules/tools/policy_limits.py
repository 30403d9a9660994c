"""What a live policy may say about tools: more caution than their code asks for, never less.

Whether a tool may be repeated, is destructive, may be left out, needs permission or may be bypassed is the code's alone
to relax. The policy section `tools` is a list of rows, each for the operations that a name or pattern (`pay_*`) fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.scope import Place, Scope
from recovery_ops.rules.policy.settings import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Caution:
    """How careful the runtime is with one tool. The defaults are the most restrictive."""

    idempotent: bool = False
    is_destructive: bool = True
    optional: bool = False
    require_permission: bool = True
    bypass_allowed: bool = True
    """False: the text for the model suggests no other way. The one default that is not the most restrictive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRule:
    """One row: what holds for the tools that `operation` fits, whatever their code says. False says nothing."""

    operation: str
    require_permission: bool = False
    is_destructive: bool = False
    is_unrepeatable: bool = False
    """An idempotent tool is treated as one that may do harm when done twice."""
    is_required: bool = False
    """An optional tool is not left out: it fails."""
    forbids_bypass: bool = False
    """The model is not told of other ways; an optional tool is not left out."""


def tightened(caution: Caution, rules: Iterable[ToolRule], place: Place) -> Caution:
    """The caution of the code and of every row that fits, taken together."""
    for rule in rules:
        if Scope(operation=rule.operation).holds(place):
            caution = Caution(
                idempotent=caution.idempotent and not rule.is_unrepeatable,
                is_destructive=caution.is_destructive or rule.is_destructive,
                optional=caution.optional and not rule.is_required and not rule.forbids_bypass,
                require_permission=caution.require_permission or rule.require_permission,
                bypass_allowed=caution.bypass_allowed and not rule.forbids_bypass,
            )
    return caution


_TIGHTER: dict[str, bool] = {
    "require_permission": True,
    "is_destructive": True,
    "idempotent": False,
    "optional": False,
    "bypass_allowed": False,
}


def parse_tool_rules(given: object, path: str, problems: list[Problem]) -> tuple[ToolRule, ...]:
    """The rows that a JSON list states: `{"operation": "pay_*", "require_permission": true}`.

    `idempotent`, `optional` and `bypass_allowed` may only be false, the other two only true: anything else would relax
    what code says, and is a problem.
    """
    if given is None:
        return ()
    if not isinstance(given, list):
        problems.append(Problem(path, "must be a list of rows"))
        return ()
    rules = []
    for index, row in enumerate(given):
        at = f"{path}[{index}]"
        if not isinstance(row, Mapping) or not isinstance(row.get("operation"), str) or not row["operation"]:
            problems.append(Problem(at, "needs an operation: a name, or a pattern such as pay_*"))
            continue
        said = {name: row[name] for name in _TIGHTER if row.get(name) is not None}
        for name, value in said.items():
            if value is not _TIGHTER[name]:
                allowed = str(_TIGHTER[name]).lower()
                problems.append(Problem(f"{at}.{name}", f"must be {allowed} or absent; a policy only tightens"))
        rules.append(
            ToolRule(
                operation=row["operation"],
                require_permission=said.get("require_permission") is True,
                is_destructive=said.get("is_destructive") is True,
                is_unrepeatable=said.get("idempotent") is False,
                is_required=said.get("optional") is False,
                forbids_bypass=said.get("bypass_allowed") is False,
            )
        )
    return tuple(rules)


def tool_rules_document(rules: Iterable[ToolRule]) -> list[dict[str, Any]]:
    """The JSON list that `parse_tool_rules` reads back as the same rows."""
    rows = []
    for rule in rules:
        row: dict[str, Any] = {"operation": rule.operation}
        said = {
            "require_permission": rule.require_permission,
            "is_destructive": rule.is_destructive,
            "idempotent": rule.is_unrepeatable,
            "optional": rule.is_required,
            "bypass_allowed": rule.forbids_bypass,
        }
        rows.append(row | {name: _TIGHTER[name] for name, is_said in said.items() if is_said})
    return rows
