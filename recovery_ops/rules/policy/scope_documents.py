"""Lists of names and scopes of policy rules, as they stand in a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.policy.settings import Problem


def parse_names(given: object, path: str, problems: list[Problem]) -> tuple[str, ...]:
    """The names of a JSON list, each once. Adds a problem where it is no list of names."""
    if not isinstance(given, list) or not all(isinstance(name, str) and name.strip() for name in given):
        problems.append(Problem(path, "must be a list of names"))
        return ()
    return tuple(dict.fromkeys(given))


def parse_rule_names(
    rule: Mapping[str, object], path: str, name: str, problems: list[Problem]
) -> tuple[str, ...] | None:
    """A list of names that a rule may leave out."""
    said = rule.get(name)
    return None if said is None else parse_names(said, f"{path}.{name}", problems)


def parse_scope(given: object, path: str, problems: list[Problem]) -> Scope:
    """The scope that a JSON object states. Adds a problem for each fault."""
    known = {part.name for part in fields(Scope)}
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object of service, operation, instance, group"))
        return Scope()
    values = {}
    for name, value in given.items():
        if name not in known or not isinstance(value, str) or not value:
            problems.append(Problem(f"{path}.{name}", f"a scope has {', '.join(sorted(known))}, each a name or *"))
        else:
            values[name] = value
    return Scope(**values)
