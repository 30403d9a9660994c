"""What was typed into the form of a whole policy, as a document again; and what the form's buttons do to it.

The names of the fields are those of `policy_form`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from recovery_ops.control.core.forms import parse_setting
from recovery_ops.control.core.numbers import parse_number, parse_numbers
from recovery_ops.control.policies.form import BOUNDS, NAMES_OF_RULES, OWN_SECTIONS, PARTS, rows_of
from recovery_ops.rules.enums import Category
from recovery_ops.rules.policy.classification_rules import PATTERNS
from recovery_ops.rules.policy.escalation_terms import BUILT_IN_TERMS, settings_of_terms
from recovery_ops.rules.policy.failure_effects import BRIEFS
from recovery_ops.rules.policy.fleet_settings import QUORUM_SETTINGS
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS
from recovery_ops.rules.policy.retry_table import Again
from recovery_ops.rules.policy.settings import SETTINGS, Setting

Fields = Mapping[str, str]
"""What was typed, by the field's name."""

_MOST_ROWS = 200
_MOST_DIGITS = 300
"""A number beyond that is none that a float could hold."""
_NEW_ROWS: dict[str, dict[str, Any]] = {
    "rules": {"scope": {}, "settings": {}},
    "retry_table": {
        "category": Category.TIMEOUT.value,
        "foreground": Again.NEVER.value,
        "background": Again.NEVER.value,
    },
    "quorum": {"operation": "", "share": 0.5, "minimum_count": 5, "hold_s": 30, "expires_s": 300},
    "classification": {"match": {}, "category": Category.SERVER_ERROR.value},
}
_NAMED_BY = {"rules": "id", "classification": "name"}
"""What the name of a new row is called, in sections whose rows have one."""


def document_typed(base: Mapping[str, Any], typed: Fields) -> tuple[dict[str, Any], dict[str, str]]:
    """The document that the form states, and the faults of fields that state nothing a document could hold.

    `base` is the document that the form was made from: what the form does not show stays as it is there.
    """
    faults: dict[str, str] = {}
    document = dict(base)
    if "foreground_sources" in typed:
        document["foreground_sources"] = _lines(typed["foreground_sources"])
    if "has_retry_table" in typed:
        document["retry_table"] = [
            _row_typed(typed, f"retry_table.{index}") for index in _indices(typed, "retry_table")
        ]
    if "has_failures" in typed:
        lists = _effects_typed(base.get("failures"), typed)
        if lists or "failures" in base:
            document["failures"] = lists
    if "has_classification" in typed:
        named = rows_of(base.get("classification"))
        document["classification"] = [
            _classification_typed(typed, index, named) for index in _indices(typed, "classification")
        ]
    if "has_defaults" in typed:
        document["defaults"] = _defaults_typed(base, typed)
    if "has_rules" in typed:
        before = rows_of(base.get("rules"))
        document["rules"] = [_rule_typed(typed, index, before, faults) for index in _indices(typed, "rules")]
    if "has_quorum" in typed:
        old = rows_of(base.get("quorum"))
        document["quorum"] = [_quorum_typed(typed, index, old) for index in _indices(typed, "quorum")]
    if "has_escalation_terms" in typed:
        terms = _terms_typed(base.get("escalation_terms"), typed)
        if terms or "escalation_terms" in base:
            document["escalation_terms"] = terms
    for section, (_, _, settings) in BOUNDS.items():
        if f"has_{section}" in typed:
            found = _settings_typed(typed, section, settings, base.get(section))
            if found or section in base:  # what was not there, and was left empty, is still not there
                document[section] = found
    for name in [name for name in base if name not in OWN_SECTIONS and f"section.{name}" in typed]:
        try:
            document[name] = json_of(typed[f"section.{name}"])
        except JsonUnread as unread:
            faults[f"section.{name}"] = str(unread)
    return document, faults


class JsonUnread(Exception):
    """A text that states no value; what is wrong with it, in words that go on after its name."""


def json_of(text: str) -> Any:
    """The value of a JSON text. Raises JsonUnread, for a name that an object says twice as well."""
    try:
        return json.loads(text, object_pairs_hook=_said_once, parse_int=_countable)
    except json.JSONDecodeError as error:
        raise JsonUnread(f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise JsonUnread("is nested too deeply") from error


def _said_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise JsonUnread(f"has {name} twice in one object; keep one")
        found[name] = value
    return found


def _countable(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise JsonUnread(f"has a whole number of {len(digits):,} digits; use at most {_MOST_DIGITS}")
    return int(digits)


def moved(document: Mapping[str, Any], move: str) -> dict[str, Any]:
    """The document after a button of the form: `rules.2.up`, `rules.2.down`, `rules.2.remove`, `rules.add` …

    What means no such button changes nothing.
    """
    name, _, rest = move.partition(".")
    if name not in _NEW_ROWS:
        return dict(document)
    rows = list(rows_of(document.get(name)))
    digits, _, verb = rest.partition(".")
    number = parse_number(digits)
    if rest == "add":
        named = {_NAMED_BY[name]: f"rule {len(rows) + 1}"} if name in _NAMED_BY else {}
        rows.append(named | _NEW_ROWS[name])
    elif number is not None and number < len(rows):
        row = rows.pop(number)
        if verb != "remove":
            rows.insert(max(0, number + {"up": -1, "down": 1}.get(verb, 0)), row)
    return {**document, name: rows}


def _row_typed(typed: Fields, name: str) -> dict[str, Any]:
    status = _of(typed, f"{name}.status_code")
    row: dict[str, Any] = {"category": _of(typed, f"{name}.category")}
    if status:
        row["status_code"] = _number_or_text(status)
    return row | {"foreground": _of(typed, f"{name}.foreground"), "background": _of(typed, f"{name}.background")}


def _quorum_typed(typed: Fields, index: int, before: list[Mapping[str, Any]]) -> dict[str, Any]:
    name = f"quorum.{index}"
    old = {key: value for key, value in before[index].items() if key != "operation"} if index < len(before) else {}
    return {"operation": _of(typed, f"{name}.operation"), **_settings_typed(typed, name, QUORUM_SETTINGS, old)}


def _classification_typed(typed: Fields, index: int, before: list[Mapping[str, Any]]) -> dict[str, Any]:
    name = f"classification.{index}"
    old = before[index] if index < len(before) else {}
    rule: dict[str, Any] = {**old, "name": _of(typed, f"{name}.name")}
    rule["match"] = {part: said for part in PATTERNS if (said := _of(typed, f"{name}.match.{part}"))}
    statuses = [one.strip() for one in _of(typed, f"{name}.match.status_codes").split(",") if one.strip()]
    if statuses:
        rule["match"]["status_codes"] = [_number_or_text(one) for one in statuses]
    rule["category"] = _of(typed, f"{name}.category")
    rule.pop("overrides", None)
    overrides = _lines(typed.get(f"{name}.overrides", ""))
    return rule | {"overrides": overrides} if overrides else rule


def _terms_typed(given: object, typed: Fields) -> dict[str, Any]:
    """Kinds that say nothing are left out, unless they stood there before."""
    found: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {}
    for kind in BUILT_IN_TERMS:
        name, before = f"escalation_terms.{kind}", found.get(kind)
        kept = {key: value for key, value in before.items() if key != "queue"} if isinstance(before, Mapping) else {}
        queue = _of(typed, f"{name}.queue")
        said = ({"queue": queue} if queue else {}) | _settings_typed(typed, name, settings_of_terms(kind), kept)
        if said or kind in found:
            found[kind] = said
    return found


def _defaults_typed(base: Mapping[str, Any], typed: Fields) -> dict[str, Any]:
    """Kinds that say nothing are left out, unless they stood there before."""
    given = base.get("defaults")
    before = given if isinstance(given, Mapping) else {}
    found: dict[str, Any] = {}
    for kind in [*before, *(one for one in BUILT_IN_DEFAULTS if one not in before)]:
        settings = _settings_typed(typed, f"defaults.{kind}", SETTINGS, before.get(kind))
        if settings or kind in before:
            found[str(kind)] = settings
    return found


def _rule_typed(typed: Fields, index: int, before: list[Mapping[str, Any]], faults: dict[str, str]) -> dict[str, Any]:
    name = f"rules.{index}"
    old = before[index] if index < len(before) else {}
    rule: dict[str, Any] = {**old, "id": _of(typed, f"{name}.id")}
    rule["scope"] = {part: said for part in PARTS if (said := _of(typed, f"{name}.scope.{part}"))}
    settings = _settings_typed(typed, f"{name}.settings", SETTINGS, old.get("settings"))
    added, value = _of(typed, f"{name}.add_setting"), _of(typed, f"{name}.add_value")
    if added in SETTINGS and value:
        settings[added] = parse_setting(SETTINGS[added], value)
    elif added in SETTINGS:
        faults[f"{name}.add_value"] = "needs a value"
    rule["settings"] = settings
    for part in NAMES_OF_RULES:
        names = _lines(typed.get(f"{name}.{part}", ""))
        rule.pop(part, None)
        if names:
            rule[part] = names
    return rule


def _effects_typed(given: object, typed: Fields) -> dict[str, Any]:
    """The lists that say something. One that is empty in the document stays empty: then nothing is on it."""
    before: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {}
    found = {name: said for name, said in before.items() if name not in BRIEFS}
    for name in BRIEFS:
        lines = _lines(typed.get(f"failures.{name}", ""))
        if lines or before.get(name) == []:
            found[name] = [_number_or_text(one) for one in lines]
    return found


def _settings_typed(typed: Fields, path: str, settings: Mapping[str, Setting], before: object) -> dict[str, Any]:
    """The settings that were typed, with those that are not known here as they were."""
    kept = (
        {name: value for name, value in before.items() if name not in settings} if isinstance(before, Mapping) else {}
    )
    said = {name: parse_setting(setting, _of(typed, f"{path}.{name}")) for name, setting in settings.items()}
    return {name: value for name, value in said.items() if value is not None} | kept


def _indices(typed: Fields, name: str) -> list[int]:
    """The numbers of the rows that the form sent, in order."""
    numbers = {one.split(".")[1] for one in typed if one.startswith(f"{name}.") and one.count(".") >= 2}
    return sorted(one for one in parse_numbers(numbers) if one < _MOST_ROWS)


def _number_or_text(typed: str) -> int | str:
    """The number that was typed; the text as it is where it is none, for the check of the policy to name it."""
    number = parse_number(typed)
    return typed if number is None else number


def _of(typed: Fields, name: str) -> str:
    return typed.get(name, "").strip()


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
