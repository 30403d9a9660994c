"""How many examples of Hypothesis a test takes that needs a database or many steps for each."""

from __future__ import annotations

import hypothesis


def examples(by_default: int, in_all: int) -> int:
    """The smaller number, except where everything runs (`--all`, `--slice`). Without this a test takes 20, or 200."""
    return in_all if hypothesis.settings.get_current_profile_name() == "all" else by_default
