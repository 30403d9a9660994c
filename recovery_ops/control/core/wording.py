"""Forms of words in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def all_of(number: int, noun: str, singular: str, many: str) -> str:
    return f"The one {noun} {singular}" if number == 1 else f"All {number:,} {noun}s {many}"


def verb_form(number: int, singular: str, many: str) -> str:
    return singular if number == 1 else many


def with_reason(by: str, reason: str) -> str:
    """A user, and the reason where one was given: `ana: “the tests are green”`."""
    return f"{by}: “{reason}”" if reason else by


def join_clauses(clauses: Sequence[str]) -> str:
    return "; ".join(clauses) + "."
