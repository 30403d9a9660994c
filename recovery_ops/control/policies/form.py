"""A whole policy document as fields of a form (`policy_typed` is the way back): one document, seen as form or JSON.

A field is called by its path (`rules.2.settings.jitter`), so what `parse_policy` finds wrong is beside what was typed.
Sections without a form of their own are edited as JSON, and what the form does not show stays in the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from recovery_ops.control.core.forms import choices_of, format_value, label_of
from recovery_ops.rules.enums import Category
from recovery_ops.rules.incidents.detection import OUTAGE_SETTINGS
from recovery_ops.rules.policy.classification_rules import MAY_BE_SAID, PATTERNS
from recovery_ops.rules.policy.escalation_terms import BUILT_IN_TERMS, queue_always, settings_of_terms
from recovery_ops.rules.policy.failure_effects import BRIEFS, BUILT_IN_EFFECTS, effects_document
from recovery_ops.rules.policy.fleet_settings import QUORUM_SETTINGS, RAMP_SETTINGS, STUCK_SETTINGS
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS
from recovery_ops.rules.policy.retry_table import Again
from recovery_ops.rules.policy.settings import SETTINGS, Setting
from recovery_ops.rules.policy.spend_settings import SPEND_SETTINGS
from recovery_ops.rules.run_limits import GUARD_SETTINGS

PARTS = ("operation", "service", "instance", "group")
BOUNDS: dict[str, tuple[str, str, Mapping[str, Setting]]] = {
    "guards": ("Run limits", "Limits of one run.", GUARD_SETTINGS),
    "spend_caps": ("Spend caps", "Limits of model calls per run, source and day (UTC).", SPEND_SETTINGS),
    "capacity_events": (
        "Capacity incidents",
        "Thresholds that turn failures of one backend into an incident.",
        OUTAGE_SETTINGS,
    ),
    "reset_ramp": ("Gradual reset", "Steps of a reset of several breakers, and the evidence of each.", RAMP_SETTINGS),
    "stuck_breakers": (
        "Stuck breakers",
        "Times after which a breaker without a state change is stuck.",
        STUCK_SETTINGS,
    ),
}
"""The sections that are numbers alone: title, hint and settings of each."""
NAMES_OF_RULES = {"fallbacks": "Fallbacks, one per line", "models": "Models after the first, one per line"}
"""The lists of names that a rule may state, and what their fields are called."""
OWN_SECTIONS = (
    "schema_version",
    "foreground_sources",
    "retry_table",
    "failures",
    "classification",
    "defaults",
    "rules",
    "quorum",
    "escalation_terms",
    *BOUNDS,
)
Choices = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field. `rows` above 1 is a text of several lines."""

    name: str
    label: str
    value: str
    hint: str = ""
    unit: str = ""
    choices: Choices = ()
    rows: int = 1
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Fields that belong together: a row of the retry table, a kind of operation, a rule."""

    name: str
    title: str
    fields: tuple[Field, ...]
    errors: tuple[str, ...] = ()
    is_open: bool = False
    is_ordered: bool = False
    """Whether its place among the others matters."""
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the document. `adds` is what a button adds to it, empty for nothing."""

    name: str
    title: str
    hint: str
    fields: tuple[Field, ...] = ()
    rows: tuple[Row, ...] = ()
    is_table: bool = False
    adds: str = ""
    errors: tuple[str, ...] = ()
    is_sent_empty: bool = False
    """Whether the form speaks for it even where it has no rows."""


@dataclass(slots=True)
class _Shown:
    """A document on its way to the page: its faults by field, and which of them found one."""

    faults: dict[str, str]
    unread: Mapping[str, str]
    """Texts that state no JSON, by their field."""
    placed: set[str] = field(default_factory=set)

    def of(self, name: str) -> tuple[str, ...]:
        if name not in self.faults:
            return ()
        self.placed.add(name)
        return (self.faults[name],)

    def within(self, name: str) -> tuple[str, ...]:
        """The faults of a list and of what stands in it, which has no field of its own."""
        below = [one for one in self.faults if one.startswith(f"{name}.")]
        self.placed.update(below)
        return (*self.of(name), *(f"{one.removeprefix(f'{name}.')}: {self.faults[one]}" for one in below))

    def is_about(self, prefix: str) -> bool:
        return any(name == prefix or name.startswith(f"{prefix}.") for name in self.faults)


def field_of(path: str) -> str:
    """The field that a path of `parse_policy` means: `rules[2].settings.jitter` is `rules.2.settings.jitter`."""
    return path.replace("[", ".").replace("]", "")


def section_of(path: str) -> str:
    """The section of the form that shows what stands at a path."""
    name = path.replace("[", ".").partition(".")[0]
    if name == "foreground_sources":
        return "foreground"
    return name if name in OWN_SECTIONS else "others"


# -- to the page ------------------------------------------------------------------------------------------------------
def sections_of(
    document: Mapping[str, Any], faults: Mapping[str, str], unread: Mapping[str, str]
) -> tuple[list[Section], list[str]]:
    """The document as sections, and the faults that have no field there, in words.

    `unread` has the texts of fields that state no JSON: they are shown instead of what the document says.
    """
    shown = _Shown({field_of(path): message for path, message in faults.items()}, unread)
    sections = [
        _sources(document, shown),
        _table(document, shown),
        _effects(document, shown),
        _classification(document, shown),
        _defaults(document, shown),
        _rules(document, shown),
        _quorum(document, shown),
        _terms(document, shown),
        *(_bounds(document, name, shown) for name in BOUNDS),
        _others(document, shown),
    ]
    return sections, [f"{name}: {message}" for name, message in shown.faults.items() if name not in shown.placed]


def _sources(document: Mapping[str, Any], shown: _Shown) -> Section:
    value = "\n".join(str(one) for one in _list(document.get("foreground_sources")))
    one = Field(
        name="foreground_sources",
        label="Sources, one per line",
        value=value,
        rows=4,
        errors=shown.of("foreground_sources"),
    )
    hint = "A user waits for these sources. All other work is background and fails fast while a provider is overloaded."
    return Section(name="foreground", title="Foreground", hint=hint, fields=(one,))


def _table(document: Mapping[str, Any], shown: _Shown) -> Section:
    rows = []
    for index, row in enumerate(rows_of(document.get("retry_table"))):
        name = f"retry_table.{index}"
        fields = (
            _choice(f"{name}.category", "Category", row.get("category"), [one.value for one in Category], shown),
            Field(
                name=f"{name}.status_code",
                label="Status",
                value=format_value(row.get("status_code")),
                errors=shown.of(f"{name}.status_code"),
            ),
            _choice(f"{name}.foreground", "Foreground", row.get("foreground"), [one.value for one in Again], shown),
            _choice(f"{name}.background", "Background", row.get("background"), [one.value for one in Again], shown),
        )
        rows.append(Row(name=name, title=str(row.get("category", "")), fields=fields, errors=shown.of(name)))
    hint = "Retries by category. A row with a status wins over one without. Categories without a row are not retried."
    errors = shown.of("retry_table")
    return Section(
        name="retry_table", title="Retry table", hint=hint, rows=tuple(rows), is_table=True, adds="row", errors=errors
    )


def _effects(document: Mapping[str, Any], shown: _Shown) -> Section:
    given, built_in = document.get("failures"), effects_document(BUILT_IN_EFFECTS)
    fields = tuple(
        Field(
            name=f"failures.{name}",
            label=f"{label_of(name)}, one per line",
            value="\n".join(str(one) for one in _list(_value(given, name))),
            hint=f"{brief}. Empty: {', '.join(str(one) for one in built_in[name])}.",
            rows=3,
            errors=shown.within(f"failures.{name}"),
        )
        for name, brief in BRIEFS.items()
    )
    hint = "Effects of failures other than retries. 4xx and 5xx mean all statuses of the class."
    errors = shown.of("failures")
    return Section(name="failures", title="Failures", hint=hint, fields=fields, errors=errors, is_sent_empty=True)


def _classification(document: Mapping[str, Any], shown: _Shown) -> Section:
    name = "classification"
    rows = [_classification_rule(index, rule, shown) for index, rule in enumerate(rows_of(document.get(name)))]
    hint = "Categories for unknown failures. The first matching rule wins; * matches any text."
    return Section(
        name=name, title="Classification", hint=hint, rows=tuple(rows), adds="rule", errors=shown.of("classification")
    )


def _classification_rule(index: int, rule: Mapping[str, Any], shown: _Shown) -> Row:
    name, match = f"classification.{index}", rule.get("match")

    def text(part: str, label: str, value: object, hint: str = "", rows: int = 1) -> Field:
        errors = shown.of(f"{name}.{part}")
        return Field(name=f"{name}.{part}", label=label, value=format_value(value), hint=hint, rows=rows, errors=errors)

    statuses = ", ".join(str(one) for one in _list(_value(match, "status_codes")))
    overrides = "\n".join(str(one) for one in _list(rule.get("overrides")))
    fields = [
        text("name", "Name", rule.get("name")),
        _choice(f"{name}.category", "Category", rule.get("category"), [one.value for one in MAY_BE_SAID], shown),
        *(text(f"match.{part}", label_of(part), _value(match, part), MATCH_HINTS[part]) for part in PATTERNS),
        text("match.status_codes", "Status codes", statuses, "Comma-separated. Only with an override."),
        text("overrides", "Overridden categories, one per line", overrides, "Empty: unknown failures only.", 2),
    ]
    errors = (*shown.of(name), *shown.of(f"{name}.match"))
    return Row(
        name=name,
        title=str(rule.get("name") or f"rule {index + 1}"),
        fields=tuple(fields),
        errors=errors,
        is_open=shown.is_about(name) or not match,
        is_ordered=True,
        number=index,
    )


MATCH_HINTS = {
    "exception_type": "Qualified name of the exception: ledger.errors.Busy, or ledger.*",
    "code": "Structured code in the error, such as e_busy.",
    "message": "Whole message; *is busy* matches messages with these words.",
    "operation": "Operation or tool. Empty: any.",
    "provider": "Empty: any.",
}


def _defaults(document: Mapping[str, Any], shown: _Shown) -> Section:
    given = document.get("defaults")
    said = given if isinstance(given, Mapping) else {}
    kinds = [*BUILT_IN_DEFAULTS, *(kind for kind in said if kind not in BUILT_IN_DEFAULTS)]
    rows = []
    for kind in kinds:
        name, settings = f"defaults.{kind}", said.get(kind)
        fields = tuple(_setting(f"{name}.{one}", one, SETTINGS[one], _value(settings, one), shown) for one in SETTINGS)
        rows.append(Row(name=name, title=str(kind), fields=fields, errors=shown.of(name), is_open=shown.is_about(name)))
    hint = "Settings for each kind of operation without a value from a rule or the agent’s code."
    return Section(name="defaults", title="Defaults by kind", hint=hint, rows=tuple(rows), errors=shown.of("defaults"))


def _rules(document: Mapping[str, Any], shown: _Shown) -> Section:
    rows = [_rule(index, rule, shown) for index, rule in enumerate(rows_of(document.get("rules")))]
    hint = "Settings for a policy scope. The more specific scope wins; at equal scope the later rule."
    return Section(name="rules", title="Rules", hint=hint, rows=tuple(rows), adds="rule", errors=shown.of("rules"))


def _rule(index: int, rule: Mapping[str, Any], shown: _Shown) -> Row:
    name = f"rules.{index}"
    scope, settings = rule.get("scope"), rule.get("settings")
    fields = [Field(name=f"{name}.id", label="Name", value=str(rule.get("id") or ""), errors=shown.of(f"{name}.id"))]
    for part in PARTS:
        value = str(_value(scope, part) or "")
        fields.append(
            Field(
                name=f"{name}.scope.{part}",
                label=part.capitalize(),
                value="" if value == "*" else value,
                hint="Empty: any. * is allowed at the end." if part == "operation" else "",
                errors=shown.of(f"{name}.scope.{part}"),
            )
        )
    said = [one for one in SETTINGS if isinstance(settings, Mapping) and one in settings]
    fields += [_setting(f"{name}.settings.{one}", one, SETTINGS[one], _value(settings, one), shown) for one in said]
    unsaid: Choices = (("", "–"), *((one, label_of(one)) for one in SETTINGS if one not in said))
    fields.append(Field(name=f"{name}.add_setting", label="Additional setting", value="", choices=unsaid))
    fields.append(Field(name=f"{name}.add_value", label="Value", value="", errors=shown.of(f"{name}.add_value")))
    fields += [
        Field(
            name=f"{name}.{part}",
            label=label,
            value="\n".join(str(one) for one in _list(rule.get(part))),
            hint="Order of those declared in the code. Empty: the code’s order.",
            rows=2,
            errors=shown.of(f"{name}.{part}"),
        )
        for part, label in NAMES_OF_RULES.items()
    ]
    title = str(rule.get("id") or f"rule {index + 1}")
    errors = (*shown.of(name), *shown.of(f"{name}.scope"), *shown.of(f"{name}.settings"))
    return Row(
        name=name,
        title=title,
        fields=tuple(fields),
        errors=errors,
        is_open=shown.is_about(name) or not scope,
        is_ordered=True,
        number=index,
    )


def _quorum(document: Mapping[str, Any], shown: _Shown) -> Section:
    rows = []
    for index, row in enumerate(rows_of(document.get("quorum"))):
        name, operation = f"quorum.{index}", format_value(row.get("operation"))
        fault = shown.of(f"{name}.operation")
        fields = (
            Field(name=f"{name}.operation", label="Operation or breaker", value=operation, errors=fault),
            *(_setting(f"{name}.{one}", one, setting, row.get(one), shown) for one, setting in QUORUM_SETTINGS.items()),
        )
        title = operation or f"rule {index + 1}"
        rows.append(Row(name=name, title=title, fields=fields, errors=shown.of(name), is_open=True, is_ordered=True))
    hint = "If enough instances opened a breaker, the server trips it on the others. No rule: never."
    return Section(
        name="quorum", title="Quorum", hint=hint, rows=tuple(rows), adds="quorum rule", errors=shown.of("quorum")
    )


def _terms(document: Mapping[str, Any], shown: _Shown) -> Section:
    given = document.get("escalation_terms")
    rows = []
    for kind, built_in in BUILT_IN_TERMS.items():
        name, said = f"escalation_terms.{kind}", _value(given, kind)
        settings = {
            one: _setting(f"{name}.{one}", one, setting, _value(said, one), shown)
            for one, setting in settings_of_terms(kind).items()
        }
        always = queue_always(kind)
        queue = Field(
            name=f"{name}.queue",
            label="Queue",
            value=format_value(_value(said, "queue")),
            hint=f"Always {always}." if always else "Empty: the queue that the agent names.",
            errors=shown.of(f"{name}.queue"),
        )
        unsaid = (
            replace(one, hint=f"{one.hint} {_else(one, getattr(built_in, part))}") for part, one in settings.items()
        )
        rows.append(
            Row(
                name=name,
                title=label_of(kind),
                fields=(queue, *unsaid),
                errors=shown.of(name),
                is_open=shown.is_about(name),
            )
        )
    hint = "Severity, queue, deadlines and default action of each kind of escalation."
    return Section(
        name="escalation_terms",
        title="Escalation terms",
        hint=hint,
        rows=tuple(rows),
        errors=shown.of("escalation_terms"),
    )


def _else(one: Field, value: object) -> str:
    """What holds where the field says nothing: `Empty: 900 s.`"""
    unit = f" {one.unit}" if one.unit else ""
    return f"{'Not set' if one.choices else 'Empty'}: {format_value(value).replace('_', ' ')}{unit}."


def _bounds(document: Mapping[str, Any], name: str, shown: _Shown) -> Section:
    title, hint, settings = BOUNDS[name]
    given = document.get(name)
    fields = tuple(
        _setting(f"{name}.{one}", one, setting, _value(given, one), shown) for one, setting in settings.items()
    )
    hint = f"{hint} Empty: the default."
    return Section(name=name, title=title, hint=hint, fields=fields, errors=shown.of(name), is_sent_empty=True)


def _others(document: Mapping[str, Any], shown: _Shown) -> Section:
    fields = []
    for name, part in document.items():
        if name in OWN_SECTIONS:
            continue
        text = shown.unread.get(f"section.{name}", json.dumps(part, indent=2, ensure_ascii=False))
        below = tuple(f"{one}: {shown.of(one)[0]}" for one in list(shown.faults) if one.startswith(f"{name}."))
        fields.append(
            Field(
                name=f"section.{name}",
                label=name.replace("_", " ").capitalize(),
                value=text,
                rows=min(16, text.count("\n") + 2),
                errors=(*shown.of(name), *shown.of(f"section.{name}"), *below),
            )
        )
    hint = "JSON of the playbook (compensation by verdict), tools (extra caution) and escalations (queues)."
    return Section(name="others", title="Other sections", hint=hint, fields=tuple(fields))


def _setting(path: str, name: str, setting: Setting, value: object, shown: _Shown) -> Field:
    return Field(
        name=path,
        label=label_of(name),
        value=format_value(value),
        hint=f"{setting.brief}.",
        unit=setting.unit,
        choices=choices_of(setting),
        errors=shown.of(path),
    )


def _choice(name: str, label: str, value: object, words: Iterable[str], shown: _Shown) -> Field:
    known = tuple((word, word.replace("_", " ")) for word in words)
    choices = known if value in dict(known) else ((format_value(value), format_value(value) or "–"), *known)
    return Field(name=name, label=label, value=format_value(value), choices=choices, errors=shown.of(name))


def rows_of(given: object) -> list[Mapping[str, Any]]:
    """The rows of a list that are objects."""
    return [row for row in given if isinstance(row, Mapping)] if isinstance(given, list) else []


def _list(given: object) -> list[Any]:
    return given if isinstance(given, list) else []


def _value(given: object, name: str) -> object:
    return given.get(name) if isinstance(given, Mapping) else None
