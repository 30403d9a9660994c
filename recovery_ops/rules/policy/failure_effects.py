"""The policy section `failures`: which failures open a breaker, close a gate, or let the server insist on a retry.

What stands here says what a failure leads to beside the retry table; what no document may say is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recovery_ops.rules.enums import BREAKER_COUNTS, Category
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.settings import Problem

NEVER_OPENS: frozenset[Category] = frozenset({Category.RATE_LIMITED, Category.MODEL_OUTPUT, Category.CANCELLED})
"""A 429 closes the gate instead (docs/decisions/0007), a backend does not fail where a model writes nonsense, and a
cancel is no failure."""
MAY_OPEN: tuple[Category, ...] = tuple(one for one in Category if one not in NEVER_OPENS)

STATUSES = range(400, 600)
CLASSES = ("4xx", "5xx")
"""Words that stand for all statuses of their class."""

Status = int | str
BRIEFS: dict[str, str] = {
    "open_breakers": "Categories that count as failures of a breaker",
    "close_gates": "Statuses whose Retry-After closes the gate of the operation",
    "heed_retry_header": "Statuses for which x-should-retry: true beats the retry table",
}
"""What each list is, in the order in which forms show them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The section, as it is written. `opens`, `closes` and `insists` are asked by the rules."""

    open_breakers: tuple[Category, ...] = tuple(one for one in Category if one in BREAKER_COUNTS)
    close_gates: tuple[Status, ...] = (429, 503, 529)
    heed_retry_header: tuple[Status, ...] = (408, 409, 429, "5xx")

    def opens(self, category: Category | None) -> bool:
        """Whether a failure of this category counts for a breaker."""
        return category in self.open_breakers

    def closes(self, status_code: int | None) -> bool:
        """Whether a Retry-After that comes with this status closes the gate."""
        return _holds(self.close_gates, status_code)

    def insists(self, status_code: int | None) -> bool:
        """Whether a server that asks for a retry with this status is heard."""
        return _holds(self.heed_retry_header, status_code)


BUILT_IN_EFFECTS = Effects()


def parse_effects(given: object, path: str, problems: list[Problem]) -> Effects:
    """The lists that a JSON object states; what it leaves out is built in. Adds a problem for each fault."""
    if given is None:
        return BUILT_IN_EFFECTS
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object of lists"))
        return BUILT_IN_EFFECTS
    said: dict[str, Any] = {}
    for name in BRIEFS:
        value = given.get(name)
        if value is None:
            continue
        if not isinstance(value, list):
            problems.append(Problem(f"{path}.{name}", "must be a list"))
            continue
        parse = _categories if name == "open_breakers" else _statuses
        said[name] = parse(value, f"{path}.{name}", problems)
    return Effects(**said)


def effects_document(effects: Effects) -> dict[str, Any]:
    """The JSON object that `parse_effects` reads back as the same lists."""
    return {
        "open_breakers": [one.value for one in effects.open_breakers],
        "close_gates": list(effects.close_gates),
        "heed_retry_header": list(effects.heed_retry_header),
    }


def _categories(given: list[Any], path: str, problems: list[Problem]) -> tuple[Category, ...]:
    found: list[Category] = []
    for index, word in enumerate(given):
        is_word = isinstance(word, str)
        if is_word and word in MAY_OPEN:
            found.append(Category(word))
        elif is_word and word in NEVER_OPENS:
            problems.append(Problem(f"{path}[{index}]", f"{word} never counts for a breaker"))
        else:
            problems.append(Problem(f"{path}[{index}]", "must be a category of the rules"))
    return tuple(dict.fromkeys(found))


def _statuses(given: list[Any], path: str, problems: list[Problem]) -> tuple[Status, ...]:
    found: list[Status] = []
    for index, one in enumerate(given):
        is_status = isinstance(one, int) and not isinstance(one, bool) and one in STATUSES
        if is_status or (isinstance(one, str) and one in CLASSES):
            found.append(one)
        else:
            problems.append(Problem(f"{path}[{index}]", "must be an HTTP status from 400 to 599, 4xx or 5xx"))
    return tuple(dict.fromkeys(found))


def _holds(given: tuple[Status, ...], status_code: int | None) -> bool:
    return status_code is not None and (status_code in given or f"{status_code // 100}xx" in given)
