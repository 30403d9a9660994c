"""Who is asked when: the steps of an escalation chain, and the clock that runs while nobody has the question.

The clock of a chain runs while its escalation is open, not taken and not snoozed. It stands still while somebody has
it, goes on when an acknowledgement expires or a snooze ends, and starts anew when the question is asked of another
queue or is opened again. Somebody may have it go on to a later step at once: what lies between is passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from recovery_ops.rules.lazy_dataclass import dataclass
from recovery_ops.rules.policy.settings import Problem

STEPS_MOST = 20
LONGEST_S = 7 * 86_400.0
EVERYBODY = "*"
"""As a step's person: everybody who may respond, where the channel writes to people."""

STARTS = frozenset({"opened", "reopen", "escalate"})
"""The verbs with which a round begins."""
_RUNS = frozenset({"expired", "returned"})
_STANDS = frozenset({"acknowledge", "snooze"})
GOES_ON = "step"
"""The verb with which somebody has a later step asked at once."""
_ENDS = frozenset({"resolve", "approve", "reject", "merged", "closed", "withdraw"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStep:
    """After so many seconds of the chain's clock a channel (its id) is asked, for a person or for whoever hears it."""

    after_s: float
    channel: int
    person: str = ""


@dataclass(frozen=True, slots=True)
class StepKey:
    """A step wherever it stands in its chain: channel, person, and for which time (from 1) they are asked."""

    channel: int
    person: str
    time: int


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that happened to an escalation: when (seconds), and the verb of its story.

    `to_s`: where it had the clock go on to a step, how far that is.
    """

    at: float
    verb: str
    to_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainClock:
    """How a chain stands: which round it is, how far its clock is (seconds), and whether it runs.

    `waited_s` is how long it has run: less than `ran_s` where somebody had it go on to a later step.
    `passed_over` are spans of it whose steps, those between their ends, are not asked.
    """

    round: int = 0
    ran_s: float = 0.0
    waited_s: float = 0.0
    is_running: bool = False
    passed_over: tuple[tuple[float, float], ...] = ()

    def passes(self, step: ChainStep) -> bool:
        """Whether somebody had the clock go on to a later step before this one was due."""
        return any(start < step.after_s < end for start, end in self.passed_over)

    def eta(self, step: ChainStep, now: float) -> float | None:
        """When a step is due if nobody takes it before, in seconds; None while the clock stands."""
        return now + max(0.0, step.after_s - self.ran_s) if self.is_running else None


def clock_at(turns: Iterable[Turn], now: float, begins: float = 0.0) -> ChainClock:
    """How the chain of an escalation with this story stands now. Turns are in order of time.

    `begins`: when the chain was set up (seconds). What was waited before does not count, and a step asked before was
    one of another chain: the clock runs since, and goes on to nowhere.
    """
    round_, ran_s, waited_s, since = 0, 0.0, 0.0, None
    passed: tuple[tuple[float, float], ...] = ()
    for turn in turns:
        if turn.verb in STARTS:
            round_, ran_s, waited_s, since, passed = round_ + 1, 0.0, 0.0, turn.at, ()
        elif turn.verb == GOES_ON and turn.at >= begins:
            more_s = _run_s(since, turn.at, begins)
            ran_s, waited_s = ran_s + more_s, waited_s + more_s
            passed += ((ran_s, turn.to_s),)
            ran_s, since = max(ran_s, turn.to_s), turn.at
        elif turn.verb in _RUNS or turn.verb == GOES_ON:
            since = turn.at if since is None else since
        elif turn.verb in _STANDS | _ENDS:
            more_s = _run_s(since, turn.at, begins)
            ran_s, waited_s, since = ran_s + more_s, waited_s + more_s, None
    more_s = _run_s(since, now, begins)
    return ChainClock(
        round=round_,
        ran_s=ran_s + more_s,
        waited_s=waited_s + more_s,
        is_running=since is not None,
        passed_over=passed,
    )


class Standstill(NamedTuple):
    """While the clock of a chain stood: from the turn at this place on, up to a moment. `until` None: it stands."""

    place: int
    since: float
    until: float | None


def standstills(turns: Sequence[Turn]) -> list[Standstill]:
    """When the clock of the last round stood, and which turn had it stand: who took it, or put it off."""
    begins = max((place for place, turn in enumerate(turns) if turn.verb in STARTS), default=0)
    found: list[Standstill] = []
    for place, turn in enumerate(turns):
        is_turn = turn.verb in _RUNS | _STANDS | _ENDS or turn.verb == GOES_ON
        if place < begins or not is_turn:
            continue
        if found and found[-1].until is None:
            found[-1] = found[-1]._replace(until=turn.at)
        if turn.verb in _STANDS:
            found.append(Standstill(place, turn.at, None))
    return found


def _run_s(since: float | None, until: float, begins: float) -> float:
    """How long the clock ran that was started then, None for one that stands."""
    return 0.0 if since is None else max(0.0, until - max(since, begins))


def keys_of(steps: Iterable[ChainStep]) -> list[StepKey]:
    """What tells the steps of a chain apart when it changes: whom each asks, and for which time."""
    times: Counter[tuple[int, str]] = Counter()
    keys = []
    for step in steps:
        times[step.channel, step.person] += 1
        keys.append(StepKey(step.channel, step.person, times[step.channel, step.person]))
    return keys


def due_steps(steps: Sequence[ChainStep], clock: ChainClock) -> list[int]:
    """The places of the steps that are due, done or not, and not passed over; none while the clock stands."""
    due = [place for place, step in enumerate(steps) if step.after_s <= clock.ran_s and not clock.passes(step)]
    return due if clock.is_running else []


def parse_steps(given: object, path: str = "steps") -> tuple[tuple[ChainStep, ...], list[Problem]]:
    """The steps that a JSON list states, earliest first, and a problem for each that is none.

    Each is `{"after_s": 900, "channel": 3}`, where one person is meant with `"person": "li"`.
    """
    if not isinstance(given, Sequence) or isinstance(given, str) or not 1 <= len(given) <= STEPS_MOST:
        return (), [Problem(path, f"must be a list of 1 to {STEPS_MOST} steps")]
    steps, problems = [], []
    for place, row in enumerate(given):
        fault = _fault(row)
        if fault:
            problems.append(Problem(f"{path}[{place}]", fault))
        else:
            steps.append(
                ChainStep(after_s=float(row["after_s"]), channel=row["channel"], person=row.get("person") or "")
            )
    return tuple(sorted(steps, key=lambda step: step.after_s)), problems


def steps_document(steps: Iterable[ChainStep]) -> list[dict[str, object]]:
    """The JSON list that `parse_steps` reads back as the same steps."""
    return [{"after_s": one.after_s, "channel": one.channel, "person": one.person} for one in steps]


def _fault(row: object) -> str:
    if not isinstance(row, Mapping):
        return "must be an object with after_s and a channel"
    if unknown := [name for name in row if name not in ("after_s", "channel", "person", "who")]:
        return f"has {unknown[0]}; there are after_s, channel and person"
    after_s, channel, person = row.get("after_s"), row.get("channel"), row.get("person") or ""
    if isinstance(after_s, bool) or not isinstance(after_s, int | float) or not 0 <= after_s <= LONGEST_S:
        return f"has an after_s from 0 to {LONGEST_S:.0f} s"
    if not isinstance(person, str):
        return "names a person"
    return "" if isinstance(channel, int) and not isinstance(channel, bool) else "names a channel by its number"
