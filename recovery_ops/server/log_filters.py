"""What the logs of the server may not keep: the key that stands in the link to a wallboard.

Django writes the address beside every answer of 500 and above, uvicorn that of every request. Standard library only:
settings read it before Django exists.
"""

from __future__ import annotations

import logging
import re

HIDDEN = "/wall/…"
_LINK = re.compile(r"/wall/[^\s?\"]+")


class WithoutLinks(logging.Filter):
    """Says `/wall/…` where a record would say the address that a screen is let in by."""

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(_LINK.sub(HIDDEN, one) if isinstance(one, str) else one for one in record.args)
        return True
