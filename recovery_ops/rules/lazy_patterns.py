"""`compiled`: a regular expression that is compiled when it is first asked, not when its module is imported.

An agent reads its first error seldom, and compiling every sentence that a vendor may say took a seventh of the
runtime's import. What a pattern accepts is still checked: a test compiles them all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    compiled = re.compile
else:

    class compiled:  # noqa: N801  # it stands for `re.compile`
        """As `re.compile(source, flags)`."""

        def __init__(self, source: str, flags: int = 0) -> None:
            self._said = source, flags

        def __getattr__(self, name: str) -> Any:
            # Bound once: the next use finds the method of the real pattern among the object's own attributes.
            found = self.__dict__[name] = getattr(re.compile(*self._said), name)
            return found
