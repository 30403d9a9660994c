"""What is kept of the records of a request that were refused, so that neither memory nor time grows with them.

A small request can hold thousands of them beside a large resource, of which each would be written down with its own,
and to hide the secrets in what is kept takes a second and a half for a megabyte.
"""

from __future__ import annotations

from dataclasses import dataclass

from events.otlp.sent import Encoding

KEPT_EACH = 100
"""What is kept of one request. All are counted."""
PAYLOAD_BYTES = 65_536
"""What is larger is shown in part and cannot be replayed."""
KEPT_BYTES = 4 * PAYLOAD_BYTES
"""So much is kept of all that is refused of one request; of what comes behind it, nothing but the reason."""
BEGINNING_BYTES = 12_288
"""What is kept of one that is not kept whole: what is shown, and what tells that it ends within no secret."""
_WRITTEN_DOWN = 8
"""To write down so many bytes costs as much as to hide the secrets in one of them."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A line for the quarantine: why, and what it was: whole, its beginning, or nothing where there was no room."""

    reason: str
    content: bytes
    encoding: Encoding | None = None
    """What it is written in, where that is not what was sent."""
    size_bytes: int = 0
    """What it was in all, where that is more than `content`."""

    @property
    def is_whole(self) -> bool:
        return bool(self.content) and self.size_bytes <= len(self.content)

    @property
    def cost_bytes(self) -> int:
        """What it takes of the room of its request."""
        return max(len(self.content), self.size_bytes // _WRITTEN_DOWN)


def kept_of(reason: str, content: bytes, encoding: Encoding | None, *, room_bytes: int) -> Refused:
    """What is kept of a record while its request has room."""
    size = len(content)
    whole = size <= min(PAYLOAD_BYTES, room_bytes)
    return Refused(reason, content if whole else content[:BEGINNING_BYTES], encoding, size)
