"""Reads how many tokens a request had and how many it may have, from the error that refused it. Never guesses.

Each sentence is a vendor's own (`vendor_errors`), anchored at the start of the error's message: a prompt that is echoed
in an error cannot match. Characters, and counts that are lower bounds, make an overflow without counts.
"""

from __future__ import annotations

from collections.abc import Mapping

from recovery_ops.rules.classification.quoted_responses import unwrapped
from recovery_ops.rules.classification.sentence_patterns import matches_in
from recovery_ops.rules.enums import Category
from recovery_ops.rules.lazy_dataclass import dataclass

_OVERFLOW = (Category.CONTEXT_OVERFLOW,)
_MOST_TOKENS = 10**12


@dataclass(frozen=True, slots=True)
class Overflow:
    """Exact counts, in tokens; `available_tokens` is what is left for the answer, never below 0."""

    input_tokens: int
    limit_tokens: int
    available_tokens: int


def overflow_of(input_tokens: int, limit_tokens: int) -> Overflow:
    """The overflow of an input against a limit, both in tokens."""
    return Overflow(input_tokens, limit_tokens, max(0, limit_tokens - input_tokens))


def states_overflow(message: str) -> bool:
    """Whether the message is a vendor's sentence about a full context."""
    return any(True for _ in matches_in(unwrapped(message), _OVERFLOW))


def counts_in(message: str, body: Mapping[str, object] | None) -> Overflow | None:
    """The exact counts: from fields of the structured error where it has them, otherwise from the vendor's sentence."""
    return counts_in_body(body) or _counted(unwrapped(message))


def _counted(sentence: str) -> Overflow | None:
    for _, found in matches_in(sentence, _OVERFLOW):
        counts = found.groupdict(default="0")
        if "input" in counts and "limit" in counts:
            asked = _whole(counts["input"]) + _whole(counts.get("more", "0"))
            return overflow_of(asked, _whole(counts["limit"]))
    return None


_INPUT_FIELDS = ("input_tokens", "n_prompt_tokens", "prompt_tokens", "input_token_count")
_LIMIT_FIELDS = ("limit_tokens", "n_ctx", "context_limit", "context_window", "context_length", "max_context_tokens")


def counts_in_body(body: Mapping[str, object] | None) -> Overflow | None:
    """Counts that the error carries as fields, in `error` or in `error.details`."""
    if body is None:
        return None
    error = body.get("error")
    for part in (error, error.get("details") if isinstance(error, dict) else None, body):
        if isinstance(part, dict):
            asked, limit = _field(part, _INPUT_FIELDS), _field(part, _LIMIT_FIELDS)
            if asked is not None and limit is not None:
                return overflow_of(asked, limit)
    return None


def _field(part: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = part.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS:
            return value
    return None


def _whole(digits: str) -> int:
    return int(digits.replace(",", ""))
