"""What a careful colleague asks about the classification rules of a policy before it goes live.

Three questions: does an earlier rule take all that this one is about, is the pattern so wide that it takes what nobody
meant, and does it say otherwise than a status, a code or a type that the rules know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from recovery_ops.rules.classification.codes import GENERAL_CODES, category_of_code, category_of_status
from recovery_ops.rules.classification.exception_types import meaning_of
from recovery_ops.rules.enums import CAPACITY, Category
from recovery_ops.rules.policy.classification_rules import PATTERNS, ClassificationRule, Match, pattern_fits

LEAST_LETTERS = 4
"""A pattern with fewer literal characters fits what nobody thought of."""
_OF_ANYTHING = frozenset({"Exception", "BaseException", "Error", "RuntimeError", "OSError"})
_REFINES: dict[Category, frozenset[Category]] = {
    Category.RATE_LIMITED: frozenset({Category.RATE_LIMIT_WINDOW, Category.QUOTA_EXHAUSTED}),
    Category.SERVER_ERROR: frozenset({Category.OVERLOADED}),
    Category.INVALID_REQUEST: frozenset({Category.CONTEXT_OVERFLOW, Category.POLICY_DENIED, Category.CONTENT_REFUSED}),
    Category.CONFLICT: frozenset({Category.IDEMPOTENCY_CONFLICT}),
}
"""What a rule may say more exactly than a status does, without contradicting it."""


class Doubt(NamedTuple):
    """Where in the document, a word for programs, and what to ask."""

    path: str
    code: str
    message: str


def doubts_of(rules: Sequence[ClassificationRule], path: str = "classification") -> Iterator[Doubt]:
    """Every doubt, in the order of the rules."""
    for index, rule in enumerate(rules):
        where = f"{path}[{index}]"
        before = next((other for other in rules[:index] if _takes_all(other, rule)), None)
        if before is not None:
            yield Doubt(where, "unreachable", f"never matches: the rule {before.name} before it matches all of these")
        yield from _width(rule.match, f"{where}.match")
        yield from _structure(rule, where)


def _takes_all(other: ClassificationRule, rule: ClassificationRule) -> bool:
    """Whether whatever the rule names, the other has named before."""
    if not set(rule.overrides) <= set(other.overrides):
        return False
    statuses = other.match.status_codes
    if statuses and not (rule.match.status_codes and set(rule.match.status_codes) <= set(statuses)):
        return False
    return all(_is_wider(getattr(other.match, name), getattr(rule.match, name)) for name in PATTERNS)


def _is_wider(pattern: str, other: str) -> bool:
    """Whether a pattern surely fits all that the other fits; a star of the other stands for itself here."""
    return not pattern or (bool(other) and pattern_fits(pattern, other))


def _width(match: Match, path: str) -> Iterator[Doubt]:
    for name in ("message", "exception_type", "code"):
        pattern = getattr(match, name)
        letters = len(pattern.replace("*", "").strip())
        if "*" in pattern and letters < LEAST_LETTERS:
            told = f"has only {letters} literal characters beside * and matches too much"
            yield Doubt(f"{path}.{name}", "too_wide", told)
    if not (match.message or match.code or match.status_codes):
        what = match.exception_type.rpartition(".")[2]
        if not match.exception_type:
            yield Doubt(path, "too_wide", "matches every unknown failure at this place; add a type, code or message")
        elif what in _OF_ANYTHING:
            yield Doubt(f"{path}.exception_type", "too_wide", f"is too general: {what} means any error; add a message")


def _structure(rule: ClassificationRule, path: str) -> Iterator[Doubt]:
    for status in rule.match.status_codes:
        known = category_of_status(status)
        if known is not None:
            yield from _against(rule, known, f"status {status}", f"{path}.match.status_codes", is_sure=True)
    code = rule.match.code
    if code and "*" not in code:
        known = category_of_code(code) or GENERAL_CODES.get(code)
        if known is not None:
            yield from _against(rule, known, f"the code {code}", f"{path}.match.code", is_sure=False)
    name = rule.match.exception_type
    meaning = meaning_of((name,)) if name and "*" not in name else None
    if meaning is not None and meaning.category is not None:
        yield from _against(rule, meaning.category, f"the type {name}", f"{path}.match.exception_type", is_sure=False)
    for category in rule.overrides:
        if category in CAPACITY and rule.category not in CAPACITY:
            told = f"turns {category.value} into {rule.category.value}: background work is then retried"
            yield Doubt(f"{path}.overrides", "feeds_overload", f"{told} while the provider is overloaded")


def _against(rule: ClassificationRule, known: Category, what: str, path: str, *, is_sure: bool) -> Iterator[Doubt]:
    """What a rule that is about `what` has to do with the category that this says by itself."""
    says = f"{what} already means {known.value}"
    if known is not rule.category and rule.category not in _REFINES.get(known, ()):
        yield Doubt(path, "contradicts_structure", f"{says}, but this rule says {rule.category.value}")
    if is_sure and not rule.overrides:
        yield Doubt(path, "never_applies", f"{says}, and the rule has no overrides: it never matches these")
