"""A whole policy document as fields of a form (`policy_typed` is the way back): one document, seen as form or JSON.

A field is called by its path (`rules.2.knobs.jitter`), so what `parse_policy` finds wrong stands beside what was typed.
Sections without a form of their own are edited as JSON, and what the form does not show stays in the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from recovery_ops.control.forms import as_typed, choices_of, label_of
from recovery_ops.rules.budget import GUARD_KNOBS
from recovery_ops.rules.classification import MAY_BE_SAID, PATTERNS
from recovery_ops.rules.effects import BRIEFS, BUILT_IN_EFFECTS, effects_document
from recovery_ops.rules.escalation_terms import BUILT_IN_TERMS, knobs_of_terms, queue_always
from recovery_ops.rules.fleet_bounds import QUORUM_KNOBS, RAMP_KNOBS, STUCK_KNOBS
from recovery_ops.rules.knobs import KNOBS, Knob
from recovery_ops.rules.outages import OUTAGE_KNOBS
from recovery_ops.rules.policy import BUILT_IN_DEFAULTS
from recovery_ops.rules.retry_table import Again
from recovery_ops.rules.words import Category

PARTS = ("operation", "service", "instance", "group")
BOUNDS: dict[str, tuple[str, str, Mapping[str, Knob]]] = {
    "guards": ("Guards of a run", "The limits of one run.", GUARD_KNOBS),
    "capacity_events": ("Capacity events", "When many failures of one backend are one outage.", OUTAGE_KNOBS),
    "reset_ramp": ("Reset of many", "In which steps a reset of many goes, and what each waits for.", RAMP_KNOBS),
    "stuck_breakers": ("Stuck breakers", "From when on a breaker that does not move is a finding.", STUCK_KNOBS),
}
"""The sections that are numbers alone: title, hint and knobs of each."""
NAMES_OF_RULES = {"fallbacks": "Fallbacks, one a line", "models": "Models after the first, one a line"}
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
    """The field that a path of `parse_policy` means: `rules[2].knobs.jitter` is `rules.2.knobs.jitter`."""
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
        label="Sources, one a line",
        value=value,
        rows=4,
        errors=shown.of("foreground_sources"),
    )
    hint = "Somebody waits for these. All other work is background: it fails fast while a provider is overloaded."
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
                value=as_typed(row.get("status_code")),
                errors=shown.of(f"{name}.status_code"),
            ),
            _choice(f"{name}.foreground", "Foreground", row.get("foreground"), [one.value for one in Again], shown),
            _choice(f"{name}.background", "Background", row.get("background"), [one.value for one in Again], shown),
        )
        rows.append(Row(name=name, title=str(row.get("category", "")), fields=fields, errors=shown.of(name)))
    hint = "What may be retried at all. A row with a status beats one without; what is not listed is not retried."
    errors = shown.of("retry_table")
    return Section(
        name="retry_table", title="Retry table", hint=hint, rows=tuple(rows), is_table=True, adds="row", errors=errors
    )


def _effects(document: Mapping[str, Any], shown: _Shown) -> Section:
    given, built_in = document.get("failures"), effects_document(BUILT_IN_EFFECTS)
    fields = tuple(
        Field(
            name=f"failures.{name}",
            label=f"{label_of(name)}, one a line",
            value="\n".join(str(one) for one in _list(_value(given, name))),
            hint=f"{brief}. Empty: {', '.join(str(one) for one in built_in[name])}.",
            rows=3,
            errors=shown.within(f"failures.{name}"),
        )
        for name, brief in BRIEFS.items()
    )
    hint = "What a failure leads to beside a retry. 4xx and 5xx stand for all statuses of their class."
    errors = shown.of("failures")
    return Section(name="failures", title="Failures", hint=hint, fields=fields, errors=errors, is_sent_empty=True)


def _classification(document: Mapping[str, Any], shown: _Shown) -> Section:
    name = "classification"
    rows = [_classification_rule(index, rule, shown) for index, rule in enumerate(rows_of(document.get(name)))]
    hint = "What failures are that are otherwise unknown. The first rule that matches wins; * stands for any text."
    return Section(
        name=name, title="Classification", hint=hint, rows=tuple(rows), adds="rule", errors=shown.of("classification")
    )


def _classification_rule(index: int, rule: Mapping[str, Any], shown: _Shown) -> Row:
    name, match = f"classification.{index}", rule.get("match")

    def text(part: str, label: str, value: object, hint: str = "", rows: int = 1) -> Field:
        errors = shown.of(f"{name}.{part}")
        return Field(name=f"{name}.{part}", label=label, value=as_typed(value), hint=hint, rows=rows, errors=errors)

    statuses = ", ".join(str(one) for one in _list(_value(match, "status_codes")))
    overrides = "\n".join(str(one) for one in _list(rule.get("overrides")))
    fields = [
        text("name", "Name", rule.get("name")),
        _choice(f"{name}.category", "Is a failure of", rule.get("category"), [one.value for one in MAY_BE_SAID], shown),
        *(text(f"match.{part}", label_of(part), _value(match, part), MATCH_HINTS[part]) for part in PATTERNS),
        text("match.status_codes", "Status codes", statuses, "With commas. Of no use without an override."),
        text("overrides", "May override, one a line", overrides, "Known categories. Empty: only unknown failures.", 2),
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
    "exception_type": "The qualified name of the exception: ledger.errors.Busy, or ledger.*",
    "code": "The structured code in the error, such as e_busy.",
    "message": "The whole message: *is busy* for those that hold these words.",
    "operation": "The operation or tool. Empty: any.",
    "provider": "Empty: any.",
}


def _defaults(document: Mapping[str, Any], shown: _Shown) -> Section:
    given = document.get("defaults")
    said = given if isinstance(given, Mapping) else {}
    kinds = [*BUILT_IN_DEFAULTS, *(kind for kind in said if kind not in BUILT_IN_DEFAULTS)]
    rows = []
    for kind in kinds:
        name, knobs = f"defaults.{kind}", said.get(kind)
        fields = tuple(_knob(f"{name}.{one}", one, KNOBS[one], _value(knobs, one), shown) for one in KNOBS)
        rows.append(Row(name=name, title=str(kind), fields=fields, errors=shown.of(name), is_open=shown.is_about(name)))
    hint = "What holds for each kind of operation where neither a rule nor the agent’s code says otherwise."
    return Section(name="defaults", title="Defaults by kind", hint=hint, rows=tuple(rows), errors=shown.of("defaults"))


def _rules(document: Mapping[str, Any], shown: _Shown) -> Section:
    rows = [_rule(index, rule, shown) for index, rule in enumerate(rows_of(document.get("rules")))]
    hint = "Knobs for parts of the environment. The more specific scope wins; at equal scope the rule further down."
    return Section(name="rules", title="Rules", hint=hint, rows=tuple(rows), adds="rule", errors=shown.of("rules"))


def _rule(index: int, rule: Mapping[str, Any], shown: _Shown) -> Row:
    name = f"rules.{index}"
    scope, knobs = rule.get("scope"), rule.get("knobs")
    fields = [Field(name=f"{name}.id", label="Name", value=str(rule.get("id") or ""), errors=shown.of(f"{name}.id"))]
    for part in PARTS:
        value = str(_value(scope, part) or "")
        fields.append(
            Field(
                name=f"{name}.scope.{part}",
                label=part.capitalize(),
                value="" if value == "*" else value,
                hint="Empty: any. * may stand at the end." if part == "operation" else "",
                errors=shown.of(f"{name}.scope.{part}"),
            )
        )
    said = [one for one in KNOBS if isinstance(knobs, Mapping) and one in knobs]
    fields += [_knob(f"{name}.knobs.{one}", one, KNOBS[one], _value(knobs, one), shown) for one in said]
    unsaid: Choices = (("", "–"), *((one, label_of(one)) for one in KNOBS if one not in said))
    fields.append(Field(name=f"{name}.add_knob", label="Another knob", value="", choices=unsaid))
    fields.append(Field(name=f"{name}.add_value", label="Its value", value="", errors=shown.of(f"{name}.add_value")))
    fields += [
        Field(
            name=f"{name}.{part}",
            label=label,
            value="\n".join(str(one) for one in _list(rule.get(part))),
            hint="Their order, of those that the code declares. Empty: as the code says.",
            rows=2,
            errors=shown.of(f"{name}.{part}"),
        )
        for part, label in NAMES_OF_RULES.items()
    ]
    title = str(rule.get("id") or f"rule {index + 1}")
    errors = (*shown.of(name), *shown.of(f"{name}.scope"), *shown.of(f"{name}.knobs"))
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
        name, operation = f"quorum.{index}", as_typed(row.get("operation"))
        fault = shown.of(f"{name}.operation")
        fields = (
            Field(name=f"{name}.operation", label="Operation or breaker", value=operation, errors=fault),
            *(_knob(f"{name}.{one}", one, knob, row.get(one), shown) for one, knob in QUORUM_KNOBS.items()),
        )
        title = operation or f"rule {index + 1}"
        rows.append(Row(name=name, title=title, fields=fields, errors=shown.of(name), is_open=True, is_ordered=True))
    hint = "When enough instances opened a breaker by themselves, the console trips the rest. No rule: it never does."
    return Section(
        name="quorum", title="Quorum", hint=hint, rows=tuple(rows), adds="quorum rule", errors=shown.of("quorum")
    )


def _terms(document: Mapping[str, Any], shown: _Shown) -> Section:
    given = document.get("escalation_terms")
    rows = []
    for kind, built_in in BUILT_IN_TERMS.items():
        name, said = f"escalation_terms.{kind}", _value(given, kind)
        knobs = {
            one: _knob(f"{name}.{one}", one, knob, _value(said, one), shown)
            for one, knob in knobs_of_terms(kind).items()
        }
        always = queue_always(kind)
        queue = Field(
            name=f"{name}.queue",
            label="Queue",
            value=as_typed(_value(said, "queue")),
            hint=f"Always {always}." if always else "Empty: the one that the agent names.",
            errors=shown.of(f"{name}.queue"),
        )
        unsaid = (replace(one, hint=f"{one.hint} {_else(one, getattr(built_in, part))}") for part, one in knobs.items())
        rows.append(
            Row(
                name=name,
                title=label_of(kind),
                fields=(queue, *unsaid),
                errors=shown.of(name),
                is_open=shown.is_about(name),
            )
        )
    hint = "How urgent each kind of question is, who is asked, how long it may take, and what silence means."
    return Section(
        name="escalation_terms",
        title="Terms of escalations",
        hint=hint,
        rows=tuple(rows),
        errors=shown.of("escalation_terms"),
    )


def _else(one: Field, value: object) -> str:
    """What holds where the field says nothing: `Empty: 900 s.`"""
    unit = f" {one.unit}" if one.unit else ""
    return f"{'Not set' if one.choices else 'Empty'}: {as_typed(value).replace('_', ' ')}{unit}."


def _bounds(document: Mapping[str, Any], name: str, shown: _Shown) -> Section:
    title, hint, knobs = BOUNDS[name]
    given = document.get(name)
    fields = tuple(_knob(f"{name}.{one}", one, knob, _value(given, one), shown) for one, knob in knobs.items())
    hint = f"{hint} An empty field is the default."
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
    hint = "Edited as JSON: the playbook answers each verdict, tools add caution, escalations name queues."
    return Section(name="others", title="Other sections", hint=hint, fields=tuple(fields))


def _knob(path: str, name: str, knob: Knob, value: object, shown: _Shown) -> Field:
    return Field(
        name=path,
        label=label_of(name),
        value=as_typed(value),
        hint=f"{knob.brief}.",
        unit=knob.unit,
        choices=choices_of(knob),
        errors=shown.of(path),
    )


def _choice(name: str, label: str, value: object, words: Iterable[str], shown: _Shown) -> Field:
    known = tuple((word, word.replace("_", " ")) for word in words)
    choices = known if value in dict(known) else ((as_typed(value), as_typed(value) or "–"), *known)
    return Field(name=name, label=label, value=as_typed(value), choices=choices, errors=shown.of(name))


def rows_of(given: object) -> list[Mapping[str, Any]]:
    """The rows of a list that are objects."""
    return [row for row in given if isinstance(row, Mapping)] if isinstance(given, list) else []


def _list(given: object) -> list[Any]:
    return given if isinstance(given, list) else []


def _value(given: object, name: str) -> object:
    return given.get(name) if isinstance(given, Mapping) else None
