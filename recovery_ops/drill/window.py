"""What a kill can catch: the facts that an agent had told the runtime and that were in no file yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

_WORDS = 3


@dataclass(frozen=True, slots=True)
class Window:
    """One agent up to its end, by its own words: facts told, and of those committed how long that took by uid.

    `kept_s` and `urgent_s` are without the first fact, whose time is `first_s`: OpenTelemetry was loaded for it.
    """

    told: int
    kept: Mapping[str, float]
    urgent_s: Sequence[float]
    first_s: float

    @staticmethod
    def of(said: str) -> Window:
        """Read what `drill.agent` said. A line that a kill cut off counts for nothing."""
        lines = said.splitlines()
        kept: dict[str, float] = {}
        urgent_s = []
        for line in lines:
            words = line.split()
            if len(words) == _WORDS:
                kept[words[0]] = int(words[1]) / 1e6
                if words[2] == "ALWAYS":
                    urgent_s.append(kept[words[0]])
        return Window(lines.count("."), kept, urgent_s, next(iter(kept.values()), 0.0))

    @property
    def kept_s(self) -> Sequence[float]:
        """From telling to commit, without the first."""
        return list(self.kept.values())[1:]

    @property
    def caught(self) -> int:
        """Told and not committed. One committed and not yet said so is among them: it is an upper bound."""
        return max(0, self.told - len(self.kept))


def words_of(windows: Sequence[Window]) -> str:
    """What was seen of all of them, in words."""
    caught = [window.caught for window in windows]
    kept_s = [took_s for window in windows for took_s in window.kept_s] or [0.0]
    urgent_s = [took_s for window in windows for took_s in window.urgent_s] or [0.0]
    first_s = max((window.first_s for window in windows), default=0.0)
    return (
        f"{len(windows)} kills caught {sum(caught)} facts that were told and in no file yet, "
        f"{max(caught, default=0)} at most; from telling to the outbox {median(kept_s) * 1000:.0f} ms at the median "
        f"and {max(kept_s) * 1000:.0f} ms at most, for transitions {median(urgent_s) * 1000:.0f} and "
        f"{max(urgent_s) * 1000:.0f} ms; {first_s:.1f} s for the first fact of a process"
    )
