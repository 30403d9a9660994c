"""What was sent and what was acknowledged, as the senders saw it."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(slots=True)
class History:
    """One fault's facts, by their uids. `poisoned` are records that nobody may store; they are not facts."""

    environment: str
    sent: set[bytes] = field(default_factory=set)
    acknowledged: set[bytes] = field(default_factory=set)
    poisoned: int = 0
    """Requests with a record that has to be set aside."""
    tries: int = 0
    times_s: list[float] = field(default_factory=list)
    """How long each accepted batch took, with all its tries."""
    answers: list[tuple[float, int]] = field(default_factory=list)
    """When each try was answered, on the monotonic clock, and with which status."""
    statuses: dict[int, int] = field(default_factory=dict)
    """How often each status was answered; 0 is no answer."""
    notes: list[str] = field(default_factory=list)
    is_open: bool = False
    """Whether facts may be stored that nobody wrote down: an agent was killed before it could say what it kept."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note_try(self, status: int) -> None:
        """One request was answered so."""
        with self._lock:
            self.tries += 1
            self.answers.append((time.monotonic(), status))
            self.statuses[status] = self.statuses.get(status, 0) + 1

    def until_answered(self, statuses: set[int], since: float) -> float | None:
        """How many seconds after a moment the first of these statuses was answered; None where it never was."""
        with self._lock:
            return next((at - since for at, status in self.answers if at >= since and status in statuses), None)

    def longest_without(self, status: int) -> float:
        """The longest time in seconds, between the first and the last try, in which nobody was answered so."""
        with self._lock:
            good = [at for at, answered in self.answers if answered == status]
            ends = [at for at, _ in self.answers[:1] + self.answers[-1:]]
        moments = sorted([*ends, *good])
        return max((later - at for at, later in pairwise(moments)), default=0.0)

    def note_sent(self, uids: list[bytes]) -> None:
        """These are on their way, and have to arrive."""
        with self._lock:
            self.sent.update(uids)

    def note_acknowledged(self, uids: list[bytes], took_s: float) -> None:
        """The server answered 200 for these."""
        with self._lock:
            self.acknowledged.update(uids)
            self.times_s.append(took_s)


def p99(times_s: Sequence[float]) -> float:
    """The 99th percentile, 0 of nothing."""
    return sorted(times_s)[int(len(times_s) * 0.99)] if times_s else 0.0


def uid_text(uid: bytes) -> str:
    """A uid as it travels."""
    return str(uuid.UUID(bytes=uid))
