"""What an operator says about failures that the rules do not know: an ordered list, as a part of the policy document.

A rule is asked about a failure that is classified already, and sees of it no more than its event tells: so a replay, a
preview and an agent come to the same. The first rule that matches wins. It names what is otherwise unknown; a known
category it changes only where it says so (`overrides`), and what was refused or already happened it never changes.

Patterns are whole texts with `*` for any run of characters, compared without case. There are no other signs, so what a
pattern costs is bounded by its length times that of the text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from recovery_ops.rules.classification.codes import normal_code
from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.settings import Problem

MOST_RULES = 200
NAME_CHARS = 64
PATTERN_CHARS = 200
MOST_STARS = 8
STATUS_CODES = range(400, 600)
"""Of no other status does the event of a failure tell."""

NEVER_CHANGED = frozenset(
    {
        *(Category.PERMISSION, Category.POLICY_DENIED, Category.CONTENT_REFUSED),
        *(Category.IDEMPOTENCY_CONFLICT, Category.CANCELLED),
    }
)
"""What no rule changes: it was refused, it already happened, or it is no failure."""
MAY_BE_SAID = tuple(one for one in Category if one not in (Category.UNKNOWN, Category.CANCELLED))
"""What a rule may say that a failure is."""
MAY_BE_OVERRIDDEN = tuple(one for one in Category if one is not Category.UNKNOWN and one not in NEVER_CHANGED)

PATTERNS = ("exception_type", "code", "message", "operation", "provider")
"""The parts of a match that are patterns, in the order in which forms show them."""
_ANY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A failure as a rule sees it: what its event tells, and where it happened. Empty is not told.

    `code`: the most specific structured code of the error, in its normal form. `message`: masked, one line.
    """

    category: Category
    exception_type: str = ""
    code: str = ""
    message: str = ""
    status_code: int | None = None
    operation: str = ""
    provider: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Which failures a rule is about: all that is said has to fit. Patterns may hold `*`; empty is anything."""

    exception_type: str = ""
    code: str = ""
    message: str = ""
    operation: str = ""
    provider: str = ""
    status_codes: tuple[int, ...] = ()

    def fits(self, case: Case) -> bool:
        """Whether the failure is one of these."""
        if self.status_codes and case.status_code not in self.status_codes:
            return False
        return all(
            not (pattern := getattr(self, name)) or pattern_fits(pattern, getattr(case, name)) for name in PATTERNS
        )

    def hinges_on_untold(self, case: Case) -> bool:
        """Whether only a code or a message keeps it from fitting, and the failure's record tells none.

        Events of older senders tell no code, and golden runs keep no message: of these it cannot be known.
        """
        code, message = (self.code if case.code else ""), (self.message if case.message else "")
        is_untold = (code, message) != (self.code, self.message)
        return is_untold and replace(self, code=code, message=message).fits(case)

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing, and would fit everything."""
        return not self.status_codes and not any(getattr(self, name) for name in PATTERNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassificationRule:
    """One rule. `overrides`: the known categories that it may change; a failure that is unknown it may always name."""

    name: str
    match: Match
    category: Category
    overrides: tuple[Category, ...] = ()

    def may_name(self, category: Category) -> bool:
        """Whether a failure of this category is the rule's to name."""
        return category is Category.UNKNOWN or (category in self.overrides and category not in NEVER_CHANGED)


def rule_for(rules: Iterable[ClassificationRule], case: Case) -> ClassificationRule | None:
    """The first rule that names this failure."""
    if case.category in NEVER_CHANGED:
        return None
    return next((rule for rule in rules if rule.may_name(case.category) and rule.match.fits(case)), None)


def pattern_fits(pattern: str, text: str) -> bool:
    """Whether the whole text is what the pattern says."""
    parts = _parts(pattern)
    text = text.casefold()
    if len(parts) == 1:
        return text == parts[0]
    first, last = parts[0], parts[-1]
    if len(text) < len(first) + len(last) or not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in parts[1:-1]:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


@lru_cache(maxsize=1024)
def _parts(pattern: str) -> tuple[str, ...]:
    """What stands between the stars, in the form in which it is compared; made when the pattern is first asked."""
    return tuple(pattern.casefold().split(_ANY))


# -- as a part of the document ----------------------------------------------------------------------------------------
def parse_classification(given: object, path: str, problems: list[Problem]) -> tuple[ClassificationRule, ...]:
    """The rules a JSON list states; None is none. Adds a problem for each fault.

    `[{"name": "ledger busy", "match": {"exception_type": "ledger.*"}, "category": "overloaded"}]`

    A part of `match` that is not known is refused, not ignored: without it the rule would match more than it says.
    """
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > MOST_RULES:
        problems.append(Problem(path, f"must be a list of at most {MOST_RULES} rules"))
        return ()
    rules: list[ClassificationRule] = []
    for index, row in enumerate(given):
        rule = _rule(row, f"{path}[{index}]", problems)
        if rule is None:
            continue
        if any(other.name == rule.name for other in rules):
            problems.append(Problem(f"{path}[{index}].name", f"{rule.name} is used twice"))
        rules.append(rule)
    return tuple(rules)


def classification_document(rules: Iterable[ClassificationRule]) -> list[dict[str, Any]]:
    """The JSON list that `parse_classification` reads back as the same rules."""
    return [rule_document(rule) for rule in rules]


def rule_document(rule: ClassificationRule) -> dict[str, Any]:
    """One rule as JSON."""
    match: dict[str, Any] = {name: said for name in PATTERNS if (said := getattr(rule.match, name))}
    if rule.match.status_codes:
        match["status_codes"] = list(rule.match.status_codes)
    found: dict[str, Any] = {"name": rule.name, "match": match, "category": rule.category.value}
    if rule.overrides:
        found["overrides"] = [one.value for one in rule.overrides]
    return found


def _rule(row: object, path: str, problems: list[Problem]) -> ClassificationRule | None:
    if not isinstance(row, Mapping):
        problems.append(Problem(path, "must be an object with name, match and category"))
        return None
    before = len(problems)
    name = row.get("name")
    if not isinstance(name, str) or not name or len(name) > NAME_CHARS or not _is_plain(name):
        problems.append(Problem(f"{path}.name", f"must be a name of at most {NAME_CHARS} characters"))
    match = _match(row.get("match"), f"{path}.match", problems)
    category = row.get("category")
    if category not in MAY_BE_SAID:
        problems.append(Problem(f"{path}.category", f"must be one of {', '.join(MAY_BE_SAID)}"))
    overrides = _overrides(row.get("overrides"), category, f"{path}.overrides", problems)
    if len(problems) > before or match is None:
        return None
    return ClassificationRule(name=str(name), match=match, category=Category(str(category)), overrides=overrides)


def _match(given: object, path: str, problems: list[Problem]) -> Match | None:
    known = (*PATTERNS, "status_codes")
    if not isinstance(given, Mapping):
        problems.append(Problem(path, f"must be an object of {', '.join(known)}"))
        return None
    before = len(problems)
    problems.extend(
        Problem(f"{path}.{name}", f"is unknown; use {', '.join(known)}") for name in given if name not in known
    )
    patterns = {name: _pattern(given.get(name), f"{path}.{name}", problems) for name in PATTERNS}
    patterns["code"] = normal_code(patterns["code"])
    codes = given.get("status_codes")
    codes = [] if codes is None else codes
    if not isinstance(codes, list) or any(type(one) is not int or one not in STATUS_CODES for one in codes):
        problems.append(Problem(f"{path}.status_codes", "must be a list of HTTP statuses from 400 to 599"))
        codes = []
    if len(problems) > before:
        return None
    match = Match(**patterns, status_codes=tuple(dict.fromkeys(codes)))
    if match.is_empty:
        problems.append(Problem(path, f"says nothing, and would match everything: give one of {', '.join(known)}"))
    return match


def _pattern(given: object, path: str, problems: list[Problem]) -> str:
    if given is None:
        return ""
    if not isinstance(given, str) or len(given) > PATTERN_CHARS or not _is_plain(given):
        problems.append(Problem(path, f"must be one line of at most {PATTERN_CHARS} characters; * stands for any"))
        return ""
    if given.count(_ANY) > MOST_STARS:
        problems.append(Problem(path, f"must have at most {MOST_STARS} times *"))
    if given and not given.strip(_ANY):
        problems.append(Problem(path, "is nothing but *: leave it out"))
    return given


def _overrides(given: object, category: object, path: str, problems: list[Problem]) -> tuple[Category, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(one in MAY_BE_OVERRIDDEN for one in given):
        problems.append(Problem(path, f"must be a list of {', '.join(MAY_BE_OVERRIDDEN)}"))
        return ()
    if category in given:
        problems.append(Problem(path, f"names {category}, which the rule says anyway"))
    return tuple(dict.fromkeys(Category(one) for one in given))


def _is_plain(text: str) -> bool:
    return text == text.strip() and text.isprintable()
