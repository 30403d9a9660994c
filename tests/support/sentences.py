"""What of a sentence is data: the names and numbers in it, however it is worded."""

from __future__ import annotations

import re


def left_out(text: str, *values: str) -> list[str]:
    """Those of the values that a text does not tell, each as a whole: `5` is not told by `15` or `0.5`."""
    return [one for one in values if not re.search(rf"(?<![\w.,:]){re.escape(one)}(?![\w]|[.,:]\d)", text)]
