"""Names from outside as parts of addresses, where browsers and proxies take `.` and `..` for steps."""

from __future__ import annotations

import re

_STEP = re.compile(r"(^|/)(?=~*\.{0,2}(?:/|\Z))")
_MARKED = re.compile(r"(^|/)~(?=~*\.{0,2}(?:/|\Z))")


def part_of(name: str) -> str:
    """The name as it is written in an address: a `~` before each part that would be a step, or empty."""
    return _STEP.sub(r"\1~", name)


def name_in(part: str) -> str:
    """The name that stands in an address; one that was written there as it is, is that name."""
    return _MARKED.sub(r"\1", part)
