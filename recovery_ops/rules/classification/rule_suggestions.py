"""First drafts for people who name unknown failures: what it may be, and the narrowest match that fits all of them.

A suggestion is a guess from words that people use for such things. It always says which word it goes by, and decides
nothing: who proposes the rule chooses the category.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recovery_ops.rules.classification.failure_text import without_variables
from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.classification_rules import MOST_STARS, PATTERN_CHARS, Case, Match, pattern_fits

_C = Category
_WORDS: tuple[tuple[Category, str], ...] = (
    (_C.QUOTA_EXHAUSTED, "quota|credit|billing|spend limit|budget exceeded|insufficient funds"),
    (_C.RATE_LIMITED, "rate limit|ratelimit|too many|throttl"),
    (_C.OVERLOADED, "overload|at capacity|no capacity|busy|try again later"),
    (_C.TIMEOUT, "timed out|timeout|time limit|deadline|took too long"),
    (_C.AUTH, "unauthenticated|unauthorized|unauthorised|token expired|expired token|credential|login required"),
    (_C.PERMISSION, "forbidden|not allowed|permission|access denied|not authorized|not authorised"),
    (_C.CONTENT_REFUSED, "content filter|content policy|content management policy|moderation|safety system"),
    (_C.POLICY_DENIED, "policy violation|blocked by policy"),
    (_C.STALE_EVIDENCE, "stale|out of date|version mismatch|etag|precondition"),
    (_C.IDEMPOTENCY_CONFLICT, "idempotency|duplicate request|already processed"),
    (_C.CONFLICT, "conflict|deadlock|locked|already exists|concurrent"),
    (_C.NOT_FOUND, "not found|notfound|no such|does not exist|unknown id|missing"),
    (_C.RESOURCE, "disk full|no space|out of memory|too many open files"),
    (_C.SCHEMA_MISMATCH, "schema|unexpected field|missing field|malformed response|unexpected response"),
    (_C.NETWORK, "connection|connect|network|socket|dns|unreachable|reset by peer|broken pipe|tls|handshake"),
    (_C.INVALID_REQUEST, "invalid|malformed|bad request|unsupported|illegal argument|must be"),
    (_C.SERVER_ERROR, "internal error|internal server|unavailable|server error|backend failed|crashed"),
)
"""Words by category, the more telling first."""
MOST_CASES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """What a failure may be, and why it looks so, as a sentence for people."""

    category: Category
    because: str


def suggested_category(case: Case) -> Suggestion | None:
    """A guess by the words of the code, the type and the message; None where they say nothing.

    A code is a word that somebody chose for programs, so it is looked at first, then the type's name.
    """
    name = case.exception_type.rpartition(".")[2]
    looked_at = (("code", case.code.replace("_", " ")), ("type", _spaced(name)), ("message", case.message))
    for where, text in looked_at:
        lower = text.casefold()
        for category, words in _WORDS:
            word = next((one for one in words.split("|") if one in lower), "")
            if word:
                because = f"by the word “{word}” in its {where}; no other evidence."
                return Suggestion(category=category, because=because)
    return None


def narrowest_match(cases: Sequence[Case]) -> Match:
    """What all of these have in common, and as little else as patterns can say.

    Ids, numbers, addresses and quoted words of the messages become `*`. What differs among them is left out.
    """
    some = cases[:MOST_CASES]
    match = Match(
        exception_type=_common(case.exception_type for case in some),
        code=_common(case.code for case in some),
        message=message_pattern([case.message for case in some]),
        operation=_common(case.operation for case in some),
    )
    return match if not match.is_empty else Match(provider=_common(case.provider for case in some))


def message_pattern(messages: Sequence[str]) -> str:
    """A pattern that fits all of these messages; empty where they have nothing in common."""
    shapes = list(dict.fromkeys(_shape(message) for message in messages))
    if not shapes or not all(shapes):
        return ""
    pattern = shapes[0] if len(shapes) == 1 else _ends(shapes)
    pattern = _bounded(pattern)
    return pattern if pattern.strip("* ") and all(pattern_fits(pattern, one) for one in messages) else ""


def _shape(message: str) -> str:
    """A message with a star for whatever may be another thing the next time."""
    text = without_variables(message.removesuffix("…"), "*") + ("*" if message.endswith("…") else "")
    return _joined(text)


def _ends(shapes: Sequence[str]) -> str:
    """What several begin and end with."""
    first = _shared(shapes)
    last = _shared([one[len(first) :][::-1] for one in shapes])[::-1]
    return _joined(f"{first}*{last}")


def _shared(texts: Sequence[str]) -> str:
    """What all of these begin with."""
    least, most = min(texts), max(texts)
    length = next((at for at, sign in enumerate(least) if sign != most[at]), len(least))
    return least[:length]


def _joined(text: str) -> str:
    """The same with one star where there are several in a row."""
    while "**" in text:
        text = text.replace("**", "*")
    return text.strip()


def _bounded(pattern: str) -> str:
    """No longer and with no more stars than a pattern may have; what is cut off at the end may be anything."""
    parts = pattern.split("*")
    if len(parts) - 1 > MOST_STARS:
        pattern = "*".join(parts[:MOST_STARS]) + "*"
    if len(pattern) > PATTERN_CHARS:
        pattern = pattern[: PATTERN_CHARS - 1].rstrip(" *") + "*"
    return pattern


def _common(values: Iterable[str]) -> str:
    """The value that all have; empty where they differ, or it is longer than a pattern may be."""
    found = set(values)
    value = found.pop() if len(found) == 1 else ""
    return value if len(value) <= PATTERN_CHARS and value.isprintable() and value == value.strip() else ""


def _spaced(name: str) -> str:
    """`TokenExpiredError` → `Token Expired Error`."""
    return "".join(f" {sign}" if sign.isupper() else sign for sign in name).replace("_", " ").strip()
