"""What an environment hides beside what is hidden anyway: a part of the policy document.

The built-in patterns (`rules.masking`) look first, always; these see what they leave, and can only hide more. Agents
apply them before they send, the console again on arrival, both with `Masking.masked`: so an agent that is not ours, or
that has not been told yet, leaves nothing behind either.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from recovery_ops.rules import enums as words
from recovery_ops.rules.classification.redaction import MASK, visible
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.masking_patterns import MaskPattern, PatternRefused, mask_pattern
from recovery_ops.rules.policy.settings import Problem

MOST_RULES = 50
MOST_ATTRIBUTES = 100
NAME_CHARS = 64
REPLACEMENT_CHARS = 40
ATTRIBUTE_CHARS = 128
CUT = "…"
"""How a text ends that was cut; what stands before it may be the begin of something to hide."""
_SEEN = (MASK + CUT,)

OUR_WORDS = frozenset(
    str(word.value)
    for found in vars(words).values()
    if isinstance(found, type) and issubclass(found, enum.StrEnum)
    for word in found
)
"""The words that rules and screens decide by. A text that is nothing but one of them is no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskRule:
    """One rule: what its pattern finds is replaced. `pattern` is of `rules.mask_patterns`."""

    name: str
    pattern: str
    replacement: str = MASK


@dataclass(frozen=True, slots=True)
class Hidden:
    """A piece of a text that is hidden: from `start` to before `end`, by the rule of this name."""

    start: int
    end: int
    rule: str
    replacement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Masking:
    """The rules of an environment, and the attributes of which no value is kept, whatever it looks like."""

    rules: tuple[MaskRule, ...] = ()
    attributes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules or self.attributes)

    def masked(self, text: str) -> str:
        """The text without what the rules find, and without invisible characters."""
        if not self.rules or text in OUR_WORDS:
            return text
        text = visible(text)
        pieces, at = [], 0
        for one in self.found(text):
            pieces += [text[at : one.start], one.replacement]
            at = one.end
        return "".join([*pieces, text[at:]]) if pieces else text

    def found(self, text: str) -> list[Hidden]:
        """What would be hidden of a visible text, in its order; where two rules find the same, by the earlier rule.

        Of a text that was cut the last characters go, too, as far as a rule may have lost its match by the cut.
        """
        spans = [
            Hidden(one.start(), one.end(), rule.name, rule.replacement)
            for rule in self.rules
            for one in mask_pattern(rule.pattern).strict.finditer(text)
        ]
        if text.endswith(CUT) and not text.endswith(tuple(rule.replacement + CUT for rule in self.rules) + _SEEN):
            end = len(text) - len(CUT)
            start = max(0, end - max(mask_pattern(rule.pattern).decided for rule in self.rules) + 1)
            if start < end:
                spans.append(Hidden(start, end, "", MASK))
        return _apart(spans)

    def blotted(self, content: bytes) -> bytes:
        """What was sent, with an asterisk for each byte that a rule hides: as long as it was."""
        if not self.rules:
            return content
        text = content.decode("utf-8", "surrogateescape")
        for rule in self.rules:
            text = mask_pattern(rule.pattern).loose.sub(_starred, text)
        return text.encode("utf-8", "surrogateescape")

    def hides(self, attribute: str) -> bool:
        """Whether no value of this attribute is kept."""
        return bool(self.attributes) and attribute.lower() in _lowered(self.attributes)


NOTHING_MORE = Masking()
"""Only what is hidden anyway."""


def together(several: Sequence[Masking]) -> Masking:
    """What any of them hides."""
    found = [one for one in several if one]
    if len(found) < 2:
        return found[0] if found else NOTHING_MORE
    return Masking(
        rules=tuple(dict.fromkeys(rule for one in found for rule in one.rules)),
        attributes=tuple(dict.fromkeys(name for one in found for name in one.attributes)),
    )


@lru_cache(maxsize=64)
def _lowered(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _starred(found: re.Match[str]) -> str:
    return "*" * len(found[0].encode("utf-8", "surrogateescape"))


def _apart(spans: list[Hidden]) -> list[Hidden]:
    """The spans in their order, those that touch each other as one, under the name of the one that begins first."""
    merged: list[Hidden] = []
    for one in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and one.start < merged[-1].end:
            last = merged[-1]
            if one.end > last.end:
                merged[-1] = Hidden(last.start, one.end, last.rule or one.rule, last.replacement)
        else:
            merged.append(one)
    return merged


# -- as a part of the document ----------------------------------------------------------------------------------------
def parse_masking(given: object, path: str, problems: list[Problem]) -> Masking:
    """The section `masking`; None is none. Adds a problem for each fault.

    `{"rules": [{"name": "customer", "pattern": "CUST-\\\\d{10}"}], "attributes": ["customer.email"]}`

    Keys that are not known are refused, not ignored: without them a rule might hide less than it says.
    """
    if given is None:
        return NOTHING_MORE
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object with rules and attributes"))
        return NOTHING_MORE
    _unknown(given, ("rules", "attributes"), path, problems)
    rows = given.get("rules", [])
    if not isinstance(rows, list) or len(rows) > MOST_RULES:
        problems.append(Problem(f"{path}.rules", f"must be a list of at most {MOST_RULES} rules"))
        rows = []
    rules: dict[str, MaskRule] = {}
    for index, row in enumerate(rows):
        rule = parse_mask_rule(row, f"{path}.rules[{index}]", problems)
        if rule is not None and rule.name in rules:
            problems.append(Problem(f"{path}.rules[{index}].name", f"{rule.name} is used twice"))
        elif rule is not None:
            rules[rule.name] = rule
    _check_together(tuple(rules.values()), path, problems)
    return Masking(
        rules=tuple(rules.values()), attributes=_attributes(given.get("attributes", []), f"{path}.attributes", problems)
    )


def parse_mask_rule(row: object, path: str, problems: list[Problem]) -> MaskRule | None:
    """One rule; None with a problem for each fault."""
    if not isinstance(row, Mapping):
        problems.append(Problem(path, "must be an object with name, pattern and replacement"))
        return None
    before = len(problems)
    _unknown(row, ("name", "pattern", "replacement"), path, problems)
    name, pattern, replacement = row.get("name"), row.get("pattern"), row.get("replacement", MASK)
    if not _is_line(name, NAME_CHARS):
        problems.append(Problem(f"{path}.name", f"must be a name of at most {NAME_CHARS} characters"))
    if not _is_line(replacement, REPLACEMENT_CHARS):
        problems.append(Problem(f"{path}.replacement", f"must be a text of 1 to {REPLACEMENT_CHARS} characters"))
    try:
        found: MaskPattern | None = mask_pattern(pattern) if isinstance(pattern, str) else None
    except PatternRefused as refused:
        problems.append(Problem(f"{path}.pattern", str(refused)))
        return None
    if found is None:
        problems.append(Problem(f"{path}.pattern", "is missing"))
    if len(problems) > before:
        return None
    return MaskRule(name=str(name), pattern=str(pattern), replacement=str(replacement))


def masking_document(masking: Masking) -> dict[str, Any]:
    """The JSON object that `parse_masking` reads back as the same section."""
    return {
        "rules": [
            {"name": rule.name, "pattern": rule.pattern, "replacement": rule.replacement} for rule in masking.rules
        ],
        "attributes": list(masking.attributes),
    }


def _check_together(rules: tuple[MaskRule, ...], path: str, problems: list[Problem]) -> None:
    """No rule may hide what another puts in: each pass would hide it anew, and no two copies of a text be the same."""
    for index, rule in enumerate(rules):
        for other in rules:
            if mask_pattern(other.pattern).strict.search(rule.replacement):
                fault = f"is what {other.name} would hide again"
                problems.append(Problem(f"{path}.rules[{index}].replacement", fault))
                break


def _attributes(given: object, path: str, problems: list[Problem]) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > MOST_ATTRIBUTES:
        problems.append(Problem(path, f"must be a list of at most {MOST_ATTRIBUTES} names"))
        return ()
    found = []
    for index, name in enumerate(given):
        if _is_line(name, ATTRIBUTE_CHARS):
            found.append(str(name))
        else:
            problems.append(Problem(f"{path}[{index}]", f"is the name of an attribute, of 1 to {ATTRIBUTE_CHARS}"))
    return tuple(dict.fromkeys(found))


def _unknown(given: Mapping[str, object], known: Iterable[str], path: str, problems: list[Problem]) -> None:
    problems.extend(
        Problem(f"{path}.{name}", f"is unknown; use {', '.join(known)}") for name in given if name not in known
    )


def _is_line(given: object, most: int) -> bool:
    return isinstance(given, str) and 0 < len(given) <= most and given == given.strip() and given.isprintable()
