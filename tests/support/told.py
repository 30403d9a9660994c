"""What a text for people tells, however it is worded: the names, ids and numbers in it."""

from __future__ import annotations

import re
from datetime import datetime


def untold(text: str, *values: object) -> list[str]:
    """Those of the values that do not stand in the text by themselves; a `3` within `30` or `r-3` does not count."""
    return [str(one) for one in values if not re.search(rf"(?<![\w.-]){re.escape(str(one))}(?![\w-])", text)]


def moment(at: datetime) -> str:
    """A moment as the command line tells it."""
    return f"{at:%Y-%m-%dT%H:%M:%S}"
