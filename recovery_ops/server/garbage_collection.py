"""How seldom a process that serves looks for objects that hold each other and nobody else holds."""

from __future__ import annotations

import gc

OBJECTS_BETWEEN_LOOKS = 50_000
"""How many more lists, maps and the like than before are a reason to look for cycles; Python's own choice is 700."""


def look_for_cycles_less_often() -> None:
    """Leave what was loaded at the start alone, and look at the rest once in a while.

    Facts on their way in are many objects and no cycles; looking for some took a tenth of the time that they take.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_LOOKS, 20, 20)
