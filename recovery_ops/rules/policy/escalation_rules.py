"""Whom a failure is put to, as a part of the policy document: the queue, how long it may take, what silence means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.settings import Problem, Setting, fault_of

DENY, ALLOW = "deny", "allow"
_DAY_S = 86_400.0
LONGEST_QUEUE = 64
_LONGEST_TICKET = 200
QUESTION = "question"
"""The reason of what an agent asks in its own words."""
REASONS = frozenset(
    {QUESTION, "errors", "permission_denials", "repeated_calls", "reversal_refused", "spend_cap"}
    | {one.value for one in Category}
)
"""Every reason there is for asking a person: a failure's category, what was spent or refused, or a question."""
LONGEST_DEADLINE_S = 30 * _DAY_S
_DEADLINE = Setting(kind="number", minimum=1, maximum=LONGEST_DEADLINE_S, unit="s", brief="Time of a user to answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One row: the queue that is asked, how long it has to answer (seconds), and the answer if nobody does."""

    queue: str
    deadline_s: float = _DAY_S
    default_answer: str = DENY


ALWAYS: dict[Category, str] = {
    Category.PERMISSION: "policy_review",
    Category.POLICY_DENIED: "policy_review",
    Category.UNKNOWN: "unclassified",
}
"""What is put to a person whatever a document says, in this queue, and is denied by silence."""

ASKED_FIRST = frozenset({Category.POLICY_DENIED, Category.UNKNOWN, Category.QUOTA_EXHAUSTED})
"""What a person is asked before anything else is tried; everything else only when no other rung has held."""

BUILT_IN_ESCALATIONS: dict[Category, Asking] = {
    **{category: Asking(queue=queue) for category, queue in ALWAYS.items()},
    Category.QUOTA_EXHAUSTED: Asking(queue="quota"),
}


def faults_of_question(
    *, question: str, queue: str, reason: str, deadline_s: object, default: object, ticket: str
) -> dict[str, str]:
    """What is wrong with what an agent asks in its own words, by field; empty where nothing is."""
    faults = {
        "question": "" if question.strip() else "must say what the user decides",
        "queue": fault_of_queue(queue),
        "reason": "" if reason in REASONS else f"must be one of {', '.join(sorted(REASONS))}",
        "deadline_s": fault_of(_DEADLINE, deadline_s),
        "default": "" if default in (DENY, ALLOW) else f"must be {DENY} or {ALLOW}",
        "ticket": "" if len(ticket) <= _LONGEST_TICKET else f"must have at most {_LONGEST_TICKET} characters",
    }
    return {name: fault for name, fault in faults.items() if fault}


def parse_escalations(given: object, path: str, problems: list[Problem]) -> dict[Category, Asking]:
    """The rows a JSON object states, by category: `{"overloaded": {"queue": "capacity", "deadline_s": 3600}}`.

    What it leaves out of `ALWAYS` is asked all the same; of everything else only what it names. None is the built-in
    table. Adds a problem for each fault.
    """
    if given is None:
        return dict(BUILT_IN_ESCALATIONS)
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object of categories, each with a queue"))
        return dict(BUILT_IN_ESCALATIONS)
    rows = {category: BUILT_IN_ESCALATIONS[category] for category in ALWAYS}
    known = {category.value: category for category in Category if category is not Category.CANCELLED}
    for name, row in given.items():
        where = f"{path}.{name}"
        if name not in known:
            problems.append(Problem(where, "is no category of failures"))
        elif not isinstance(row, Mapping):
            problems.append(Problem(where, "must be an object with a queue"))
        else:
            asking = _asking(row, known[name], where, problems)
            if asking is not None:
                rows[known[name]] = asking
    return rows


def escalations_document(rows: Mapping[Category, Asking]) -> dict[str, Any]:
    """The JSON object that `parse_escalations` reads back as the same rows."""
    return {
        category.value: {"queue": one.queue, "deadline_s": one.deadline_s, "default_answer": one.default_answer}
        for category, one in rows.items()
    }


def fault_of_queue(queue: object) -> str:
    """What is wrong with the name of a queue; empty when nothing is."""
    is_name = isinstance(queue, str) and 0 < len(queue) <= LONGEST_QUEUE and queue == queue.strip()
    return "" if is_name else f"must be a name of at most {LONGEST_QUEUE} characters"


def _asking(row: Mapping[str, object], category: Category, path: str, problems: list[Problem]) -> Asking | None:
    queue, before = row.get("queue"), len(problems)
    if fault := fault_of_queue(queue):
        problems.append(Problem(f"{path}.queue", fault))
    elif queue != ALWAYS.get(category, queue):
        problems.append(Problem(f"{path}.queue", f"must be {ALWAYS[category]}"))
    deadline_s = row.get("deadline_s", _DAY_S)
    if fault := fault_of(_DEADLINE, deadline_s):
        problems.append(Problem(f"{path}.deadline_s", fault))
    answer = row.get("default_answer", DENY)
    if answer not in ((DENY,) if category in ALWAYS else (DENY, ALLOW)):
        allowed = DENY if category in ALWAYS else f"{DENY} or {ALLOW}"
        problems.append(Problem(f"{path}.default_answer", f"must be {allowed}"))
    if len(problems) > before:
        return None
    return Asking(queue=str(queue), deadline_s=float(deadline_s), default_answer=str(answer))  # type: ignore[arg-type]
