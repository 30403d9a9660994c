"""The patterns of masking rules: a part of regular expressions that costs the same for every text of one length.

What there is: characters, `\\d \\w \\s \\D \\W \\S`, classes `[A-Z0-9-]`, `.`, `\\b`, `{3}`, `{2,8}`, `?`, `*` and
`+` at the end; groups `(one|two)`, which may be left out (`?`) and never be repeated. What is repeated gives nothing
back (possessive), so nothing is tried twice: a text of n characters costs at most n × `cost` looks, whoever wrote it. A
pattern that would only work by giving back is refused, with what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from recovery_ops.rules.lazy_dataclass import dataclass

PATTERN_CHARS = 200
LEAST_CHARS = 3
"""What matches less would hide most of every text."""
LONGEST_DECIDED = 128
"""Characters within which a match is decided: what stands behind the last required one never takes it back."""
MOST_COST = 1024
_DEEPEST = 4
_UNBOUNDED = 1 << 30
_SPECIAL = frozenset("\\.[]{}()*+?|^$")
_CLASSES = "dDwWsS"
_ALPHABET = "".join(map(chr, range(128))) + "éß×日本٣\u00a0\u3000\U0001f600"
"""What two parts are compared by: ASCII, and of the rest a letter, a digit, a space and a sign of several kinds."""
_BOUNDARY = r"\b"


class PatternRefused(ValueError):
    """A pattern that no rule may have; says why, in words that follow its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskPattern:
    """A pattern that was looked at. `least`: the fewest characters that it matches. `decided`: as `LONGEST_DECIDED`."""

    source: str
    least: int
    decided: int
    cost: int
    strict: re.Pattern[str]
    loose: re.Pattern[str]
    """Without `\\b`, for text that may touch what is no text."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A character that is repeated, a boundary (`most` is 0), or a group of alternatives."""

    chars: frozenset[str]
    source: str
    least: int = 1
    most: int = 1
    groups: tuple[tuple[_Part, ...], ...] = ()


@lru_cache(maxsize=512)
def mask_pattern(text: str) -> MaskPattern:
    """The pattern that a text states. Raises PatternRefused."""
    if not text or len(text) > PATTERN_CHARS or not text.isprintable():
        raise PatternRefused(f"must be one line of 1 to {PATTERN_CHARS} characters")
    reader = _Reader(text)
    alternatives = reader.alternatives(0)
    if reader.at < len(text):
        raise PatternRefused(f"has an unmatched ) at {reader.at + 1}")
    nothing = frozenset[str]()
    for one in alternatives:
        _check(one, nothing, is_last=True)
    least = min(map(_least, alternatives))
    decided = max(map(_decided, alternatives))
    paths = sum(map(_paths, alternatives))
    if least < LEAST_CHARS:
        raise PatternRefused(f"can match fewer than {LEAST_CHARS} characters; use a longer pattern")
    if decided > LONGEST_DECIDED:
        raise PatternRefused(f"needs {decided} characters for a match; use at most {LONGEST_DECIDED}")
    if paths * decided > MOST_COST:
        raise PatternRefused(
            f"needs {paths * decided:,} steps per character of a text; use at most {MOST_COST:,}. "
            "Split it into two rules"
        )
    strict, loose = (_compiled(alternatives, is_loose=is_loose) for is_loose in (False, True))
    return MaskPattern(source=text, least=least, decided=decided, cost=paths * decided, strict=strict, loose=loose)


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def alternatives(self, depth: int) -> tuple[tuple[_Part, ...], ...]:
        if depth > _DEEPEST:
            raise PatternRefused(f"has more than {_DEEPEST} levels of groups")
        found: list[tuple[_Part, ...]] = []
        parts: list[_Part] = []
        while (sign := self._next()) and sign != ")":
            if sign == "|":
                self.at += 1
                found.append(tuple(parts))
                parts = []
            else:
                parts.append(self._part(sign, depth))
        return (*found, tuple(parts))

    def _next(self) -> str:
        return self.text[self.at : self.at + 1]

    def _part(self, sign: str, depth: int) -> _Part:
        self.at += 1
        if sign == "(":
            return self._group(depth)
        if sign in "*+?{":
            raise PatternRefused(f"has a {sign} at {self.at} with nothing to repeat before it")
        if sign in "^$":
            raise PatternRefused(
                f"has a {sign} at {self.at}; anchors are not allowed, because a secret can be anywhere in a text. "
                f"For the character itself write \\{sign}"
            )
        if sign == "\\":
            source = self._escaped()
            if source == _BOUNDARY:
                return _Part(frozenset(), source, 0, 0)
        elif sign == "[":
            source = self._class()
        elif sign in "]}":
            raise PatternRefused(f"has an unmatched {sign} at {self.at}; for the character itself write \\{sign}")
        else:
            source = sign if sign == "." else re.escape(sign)
        least, most = self._times()
        return _Part(_chars(source, _ALPHABET + self.text), source, least, most)

    def _escaped(self) -> str:
        sign = self._next()
        self.at += 1
        if sign and (sign in _CLASSES or sign == "b"):
            return f"\\{sign}"
        if sign and not sign.isalnum():
            return re.escape(sign)
        raise PatternRefused(f"has a \\{sign} at {self.at - 1}; use \\d \\w \\s \\D \\W \\S \\b or punctuation")

    def _class(self) -> str:
        """`[…]`, up to its end. Python reads what is in it."""
        begin = self.at - 1
        self.at += self._next() == "^"
        while (sign := self._next()) and sign != "]":
            if sign == "[":
                raise PatternRefused(f"has a [ within [ ] at {self.at + 1}; write \\[")
            if sign == "\\" and not (
                (after := self.text[self.at + 1 : self.at + 2]) in _CLASSES or not after.isalnum()
            ):
                raise PatternRefused(f"has a \\{after} within [ ] at {self.at + 1}; use \\d \\w \\s or punctuation")
            self.at += 1 + (sign == "\\")
        self.at += 1
        source = self.text[begin : self.at]
        if len(source) < 3 or not source.endswith("]") or source == "[^]":
            raise PatternRefused(f"has an incomplete class [ ] at {begin + 1}")
        if any(doubled in source for doubled in ("--", "&&", "~~", "||")):
            raise PatternRefused(f"has a character twice within [ ] at {begin + 1}")
        try:
            re.compile(source)
        except re.error as fault:
            raise PatternRefused(f"has an invalid class {source}: {fault.msg}") from None
        return source

    def _times(self) -> tuple[int, int]:
        sign = self._next()
        if not sign or sign not in "*+?{":
            return 1, 1
        self.at += 1
        times = {"*": (0, _UNBOUNDED), "+": (1, _UNBOUNDED), "?": (0, 1)}.get(sign) or self._counted()
        after = self._next()
        if after and after in "*+?{":
            raise PatternRefused(f"has a second quantifier {after} at {self.at + 1}")
        return times

    def _counted(self) -> tuple[int, int]:
        said, closing, _ = self.text[self.at :].partition("}")
        low, comma, high = said.partition(",")
        if not closing or not all(_is_number(one) for one in ((low, high) if comma else (low,))):
            raise PatternRefused(f"has a {{ at {self.at}; use a quantifier such as {{3}} or {{2,8}}")
        self.at += len(said) + 1
        least, most = int(low), int(high if comma else low)
        if not 0 < most <= LONGEST_DECIDED or least > most:
            raise PatternRefused(f"has {{{said}}}; use numbers up to {LONGEST_DECIDED}, the smaller one first")
        return least, most

    def _group(self, depth: int) -> _Part:
        begin = self.at
        if self.text[self.at : self.at + 2] == "?:":
            self.at += 2
        elif self._next() == "?":
            raise PatternRefused(f"has a (? at {begin}; use groups ( ) or (?: ) only")
        groups = self.alternatives(depth + 1)
        if self._next() != ")":
            raise PatternRefused(f"has an unmatched ( at {begin}")
        self.at += 1
        if any(_least(one) < 1 for one in groups):
            raise PatternRefused(f"has a group at {begin} that can be empty; put the ? after the group")
        least, most = self._times()
        if most > 1:
            raise PatternRefused(
                f"repeats the group at {begin}: nested repetition never ends. Repeat characters or classes only"
            )
        first = frozenset[str]().union(*(_first(one, frozenset()) for one in groups))
        return _Part(first, "", least, most, groups)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3


@lru_cache(maxsize=512)
def _chars(source: str, alphabet: str) -> frozenset[str]:
    return frozenset(re.compile(source, re.DOTALL).findall(alphabet))


def _first(parts: Sequence[_Part], after: frozenset[str]) -> frozenset[str]:
    """What the first character may be; what follows, too, where all may be left out."""
    found = frozenset[str]()
    for part in parts:
        found |= part.chars
        if part.least:
            return found
    return found | after


def _check(parts: Sequence[_Part], after: frozenset[str], *, is_last: bool) -> None:
    """Raise PatternRefused where a part that may be longer could take what has to follow."""
    for index, part in enumerate(parts):
        rest = parts[index + 1 :]
        follows = _first(rest, after)
        is_end = (
            is_last and not rest
        )  # not even a \b: a long run before one that fails would be looked at again and again
        for one in part.groups:
            _check(one, follows, is_last=is_end)
        if part.most == _UNBOUNDED and not is_end:
            raise PatternRefused(f"has {part.source} with * or + before its end; use a limit, such as {{1,40}}")
        if part.most > part.least and part.chars & follows:
            shared = min(part.chars & follows)
            raise PatternRefused(
                f"has {part.source or 'a group'} of variable length before a part that can start with {shared!r} too. "
                "Use a fixed length, or remove that character from one of them"
            )


def _least(parts: Sequence[_Part]) -> int:
    return sum(part.least * (min(map(_least, part.groups)) if part.groups else 1) for part in parts)


def _decided(parts: Sequence[_Part]) -> int:
    """Characters after which a match, however long it goes on, is one."""
    found = 0
    for part in parts:
        if part.groups:
            found += max(map(_decided, part.groups))
        else:
            found += part.least if part.most == _UNBOUNDED else part.most
    return found


def _paths(parts: Sequence[_Part]) -> int:
    """In how many ways groups may be gone through."""
    found = 1
    for part in parts:
        if part.groups:
            found *= sum(map(_paths, part.groups)) + (not part.least)
    return found


def _compiled(alternatives: Sequence[Sequence[_Part]], *, is_loose: bool) -> re.Pattern[str]:
    return re.compile("|".join(_written(one, is_loose) for one in alternatives), re.DOTALL)


def _written(parts: Sequence[_Part], is_loose: bool) -> str:
    return "".join(_one(part, is_loose) for part in parts)


def _one(part: _Part, is_loose: bool) -> str:
    if part.groups:
        inner = "|".join(_written(one, is_loose) for one in part.groups)
        return f"(?:{inner}){'' if part.least else '?'}"
    if part.source == _BOUNDARY:
        return "" if is_loose else _BOUNDARY
    if (part.least, part.most) == (1, 1):
        return part.source
    most = "" if part.most == _UNBOUNDED else part.most
    return f"{part.source}{{{part.least},{most}}}+"
