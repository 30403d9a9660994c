"""The policy section `escalation_terms`: for each kind of question its severity, queue, times and default action.

The console obeys it when it opens an escalation; agents read whole documents, and leave it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.escalation_rules import ALWAYS, DENY, QUESTION, fault_of_queue
from recovery_ops.rules.policy.settings import Problem, Setting, fault_of
from recovery_ops.rules.run_limits import DENIALS, ERRORS

LOW, NORMAL, HIGH = "low", "normal", "high"
SEVERITIES = (LOW, NORMAL, HIGH)
REJECT, ABORT, STAY_CLOSED, ALLOW = "reject", "abort", "stay_closed", "allow"
REVERSAL_REFUSED, OTHER = "reversal_refused", "other"
_ACKNOWLEDGE_IN_S, _RESOLVE_IN_S = 900.0, 1800.0
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """One row. `queue` "" is the one that the agent names; times are seconds from when the question is opened."""

    severity: str = NORMAL
    queue: str = ""
    acknowledge_in_s: float = _ACKNOWLEDGE_IN_S
    resolve_in_s: float = _RESOLVE_IN_S
    default_action: str = ABORT


BUILT_IN_TERMS: dict[str, Terms] = {
    Category.POLICY_DENIED.value: Terms(severity=HIGH, default_action=REJECT),
    Category.PERMISSION.value: Terms(severity=HIGH, default_action=REJECT),
    DENIALS: Terms(default_action=REJECT),
    Category.QUOTA_EXHAUSTED.value: Terms(severity=HIGH),
    Category.UNKNOWN.value: Terms(default_action=STAY_CLOSED),
    REVERSAL_REFUSED: Terms(severity=HIGH, default_action=STAY_CLOSED),
    ERRORS: Terms(),
    QUESTION: Terms(),
    OTHER: Terms(),
}
"""The rows of the built-in policy by kind, in the order in which forms show them. No document has another kind."""

MAY_DEFAULT: dict[str, tuple[str, ...]] = {
    Category.POLICY_DENIED.value: (REJECT, STAY_CLOSED),
    Category.PERMISSION.value: (REJECT, STAY_CLOSED),
    DENIALS: (REJECT, ABORT),
    Category.QUOTA_EXHAUSTED.value: (ABORT, REJECT, ALLOW),
    Category.UNKNOWN.value: (STAY_CLOSED, REJECT),
    REVERSAL_REFUSED: (STAY_CLOSED,),
    ERRORS: (ABORT, REJECT),
    QUESTION: (ABORT, REJECT, ALLOW),
    OTHER: (ABORT, REJECT, ALLOW),
}
"""What silence may mean, by kind. What is put to a person always (`ALWAYS`) is never allowed by silence."""

TIME_SETTINGS: dict[str, Setting] = {
    "acknowledge_in_s": Setting(
        kind="number", minimum=60, maximum=7 * _DAY_S, unit="s", brief="Time until the acknowledgement is due"
    ),
    "resolve_in_s": Setting(
        kind="number", minimum=60, maximum=30 * _DAY_S, unit="s", brief="Time until the resolution is due"
    ),
}


def settings_of_terms(kind: str) -> dict[str, Setting]:
    """Every value of a kind's row but the queue, in the order in which forms show them."""
    return {
        "severity": Setting(kind="word", words=SEVERITIES, brief="Severity of the escalation"),
        **TIME_SETTINGS,
        "default_action": Setting(kind="word", words=MAY_DEFAULT[kind], brief="Default action at the deadline"),
    }


def queue_always(kind: str) -> str:
    """The one queue that a kind is put to whatever a document says; empty where there is none."""
    return next((queue for category, queue in ALWAYS.items() if category.value == kind), "")


def kind_of(reason: str, category: str = "") -> str:
    """The row that a question is about: by why it is asked, else by its failure; `other` where there is none."""
    for name in (reason, category):
        if name in BUILT_IN_TERMS and name != QUESTION:
            return name
    return QUESTION if reason == QUESTION else OTHER


def default_of(said: str, kind: str, terms: Terms, *, waits: bool) -> str:
    """What silence means. What a run that waits said when it asked goes first: it obeys that by itself.

    Silence allows nothing that is always put to a person (`ALWAYS`), and nothing that no run waits for, except where
    the agent says that it goes on so.
    """
    if said == ALLOW and not queue_always(kind):
        return ALLOW
    if said == DENY and waits:
        return REJECT
    if terms.default_action == ALLOW and not waits:
        return BUILT_IN_TERMS[kind].default_action
    return terms.default_action


def parse_terms(given: object, path: str, problems: list[Problem]) -> dict[str, Terms]:
    """The rows that a JSON object states, for every kind: what it leaves out is built in.

    `{"errors": {"severity": "high", "queue": "money", "resolve_in_s": 600, "default_action": "abort"}}`. Adds a problem
    for each fault, and takes the built-in row there. Keys of a row that are not known are ignored.
    """
    rows = dict(BUILT_IN_TERMS)
    if given is None:
        return rows
    if not isinstance(given, Mapping):
        problems.append(Problem(path, f"must be an object of kinds of escalations: {', '.join(rows)}"))
        return rows
    for kind, row in given.items():
        where = f"{path}.{kind}"
        if kind not in BUILT_IN_TERMS:
            problems.append(Problem(where, f"is no kind of question; there are {', '.join(BUILT_IN_TERMS)}"))
        elif not isinstance(row, Mapping):
            problems.append(Problem(where, f"must be an object with some of {', '.join(_NAMES)}"))
        else:
            rows[kind] = _terms(row, kind, where, problems) or rows[kind]
    return rows


def terms_document(rows: Mapping[str, Terms]) -> dict[str, dict[str, Any]]:
    """The JSON object that `parse_terms` reads back as the same rows."""
    return {kind: {name: getattr(terms, name) for name in _NAMES} for kind, terms in rows.items()}


_NAMES = tuple(part.name for part in fields(Terms))


def _terms(row: Mapping[str, object], kind: str, path: str, problems: list[Problem]) -> Terms | None:
    before, values = len(problems), dict[str, Any]()
    queue, always = row.get("queue"), queue_always(kind)
    if queue not in (None, ""):
        if fault := fault_of_queue(queue) or (f"must be {always}" if always and queue != always else ""):
            problems.append(Problem(f"{path}.queue", fault))
        values["queue"] = queue
    for name, setting in settings_of_terms(kind).items():
        value = row.get(name)
        fault = fault_of(setting, value) if value is not None else ""
        if fault:
            problems.append(Problem(f"{path}.{name}", fault))
        elif value is not None:
            values[name] = float(value) if setting.kind == "number" else value  # type: ignore[arg-type]  # fault_of looked
    if len(problems) > before:
        return None
    built_in = BUILT_IN_TERMS[kind]
    found = Terms(**({name: getattr(built_in, name) for name in _NAMES} | values))
    if found.acknowledge_in_s > found.resolve_in_s:
        said = f"must be at most resolve_in_s, {found.resolve_in_s:g} s"
        unsaid = "" if "acknowledge_in_s" in values else f"; the default is {found.acknowledge_in_s:g} s"
        problems.append(Problem(f"{path}.acknowledge_in_s", said + unsaid))
        return None
    return found
