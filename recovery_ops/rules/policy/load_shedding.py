"""Who is shed first when an operator sheds load: how important each source is, as a part of the policy document."""

from __future__ import annotations

from collections.abc import Mapping

from recovery_ops.rules.enums import Importance
from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.settings import Problem

ORDER: tuple[Importance, ...] = tuple(Importance)
"""The most important first."""

_WORDS = ", ".join(one.value for one in ORDER)


def importance_of(said: Mapping[str, Importance], source: str, *, is_foreground: bool) -> Importance:
    """What the document says of a source; else work that somebody waits for is critical, and all other sheddable."""
    return said.get(source) or (Importance.CRITICAL if is_foreground else Importance.SHEDDABLE)


@dataclass(frozen=True, slots=True)
class Shedding:
    """Load that is shed for a time; `ends_at` is on the driver's own clock."""

    least: Importance
    ends_at: float


def stricter(one: str | None, other: str | None) -> str | None:
    """Of two words for the least that passes, the one that lets less pass; None lets all pass."""
    said = [Importance(word) for word in (one, other) if word is not None]
    return min(said, key=ORDER.index, default=None)


def is_shed(importance: Importance, least: str | None) -> bool:
    """Whether work of this importance is refused where `least` is the least that passes; None lets all pass."""
    return least is not None and ORDER.index(importance) > ORDER.index(Importance(least))


def parse_importance(given: object, path: str, problems: list[Problem]) -> dict[str, Importance]:
    """The importance a JSON object states, by source: `{"nightly_report": "sheddable"}`."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        problems.append(Problem(path, "must be an object of sources"))
        return {}
    found: dict[str, Importance] = {}
    for source, word in given.items():
        if not isinstance(source, str) or word not in ORDER:
            problems.append(Problem(f"{path}.{source}", f"must be one of {_WORDS}"))
        else:
            found[source] = Importance(word)
    return found
