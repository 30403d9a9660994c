"""What an outage reached and cost, as lines of its page: each with a code, a heading, a sentence and its value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils import timezone

from events import queries
from events.capacity.moves import BreakerMoves
from events.capacity.rows import OWNER_WORDS, CapacityEventRow
from events.rows import FailureRow
from events.wording import clock_text, count_text, listing, span_text, state_text, zone_word
from recovery_ops.control.runs.views.run import dollars


def reached(row: CapacityEventRow) -> str:
    return _reached_on(row, f"{count_text(row.runs, 'run')} on " if row.runs else "")


def reached_beside_runs(row: CapacityEventRow) -> str:
    """The same where its runs have a column of their own."""
    return _reached_on(row, "")


def _reached_on(row: CapacityEventRow, runs: str) -> str:
    if not row.is_read:
        return "loading"
    least = "≥ " if row.is_partial else ""
    most = "≥ " if row.parts else ""  # of several incidents the most in one of them
    waiting = f", {most}{count_text(row.waiting, 'run waiting', 'runs waiting')}" if row.waiting else ""
    return f"{least}{runs}{count_text(row.instances, 'instance')}{waiting}"


def codes_of(row: CapacityEventRow) -> str:
    """`316 × overloaded, 16 × rate_limited`: the two most frequent, and how many others."""
    kinds = [f"{count:,} × {one.value}" for one, count in row.categories.items()]
    others = sum(list(row.categories.values())[2:])
    return ", ".join([*kinds[:2], *([count_text(others, "other")] if others else [])])


def answers_of(row: CapacityEventRow) -> str:
    """`529 (122 times), 429 (37 times) and no answer (4 times)`: what the service said, the most frequent first."""
    told = [f"{code or 'no answer'} ({count_text(count, 'time')})" for code, count in row.codes.items()]
    return listing(told, most=6)


def _agents(row: CapacityEventRow) -> str:
    """`research-agent (5 instances) and support-agent (4 instances)`."""
    return listing([f"{name} ({count_text(count, 'instance')})" for name, count in row.services.items()], most=6)


def _regions(row: CapacityEventRow) -> str:
    """`eu-west-1 (316 failures), us-east-1 (16 failures)`, and how many did not say where."""
    told = [f"{region} ({count_text(count, 'failure')})" for region, count in row.regions.items()]
    unsaid = row.failures - sum(row.regions.values())
    return listing([*told, *([f"{count_text(unsaid, 'failure')} without one"] if unsaid > 0 else [])], most=6)


@dataclass(frozen=True, slots=True)
class OutageFact:
    """One line of what an event was: its code, its heading, what is said, and the value behind it where one is."""

    name: str
    word: str
    said: str
    value: object = None


def facts_of(
    row: CapacityEventRow, *, now: datetime, oldest: FailureRow | None = None, outcomes: str = ""
) -> list[OutageFact]:
    """Who is at fault, since when and with what failure, and what our side did, come first: they are read on a phone.

    `oldest` is its first failure while it is kept, `outcomes` how its runs ended.
    """
    of_newest = ", of those that were read one by one" if sum(row.codes.values()) < row.failures else ""
    told = [
        OutageFact("owner", "Attribution", OWNER_WORDS[row.owner], row.owner.value),
        OutageFact("first", "First failure", _first(row, oldest, now), None if oldest is None else oldest.operation),
        OutageFact("reached", "Impact", reached(row)),
        *([OutageFact("outcomes", "Run outcomes", outcomes)] if outcomes else []),
        _opened(row, now),
        OutageFact("fallbacks", "Fallbacks", f"{row.fallbacks:,}", row.fallbacks),
        OutageFact(
            "failures",
            "Failed attempts",
            f"{row.failures:,}: {row.foreground:,} foreground, {row.background:,} background",
            row.failures,
        ),
        *([OutageFact("regions", "Regions", _regions(row))] if row.regions else []),
        *([OutageFact("codes", "Codes", answers_of(row) + of_newest)] if row.codes else []),
        *([OutageFact("agents", "Agents", _agents(row))] if row.services else []),
        OutageFact("peak", "Peak minute", _worst_minute(row), row.peak_per_min),
        OutageFact(
            "wait",
            "Retry-After",
            "none" if row.longest_wait_s is None else f"up to {span_text(row.longest_wait_s)}",
            row.longest_wait_s,
        ),
        OutageFact(
            "waiting",
            "Runs waiting",
            f"{'≥ ' if row.parts else ''}{count_text(row.waiting, 'run')}" if row.waiting else "none",
            row.waiting,
        ),
        OutageFact(
            "tokens",
            "Estimated tokens",
            _estimate(row, "" if row.tokens is None else f"{row.tokens:,}", row.spent.tokens_runs),
            row.tokens,
        ),
        OutageFact("cost", "Estimated cost", _estimate(row, dollars(row.cost_usd), row.spent.cost_runs), row.cost_usd),
    ]
    return told if row.is_read else told[:1]


def _first(row: CapacityEventRow, oldest: FailureRow | None, now: datetime) -> str:
    at = f"{clock_text(row.started, today=now)} {zone_word(row.started)}"
    return at if oldest is None else f"{at}, {described(oldest)}"


def described(failure: FailureRow) -> str:
    """`search_web on a-1: Overloaded`."""
    return f"{failure.operation} on {failure.instance}: {failure.message or failure.category}"


def _opened(row: CapacityEventRow, now: datetime) -> OutageFact:
    """By its moves; an event that was over before those were counted knows only what opened."""
    names = [one.breaker for one in row.moves] or list(row.breakers)
    said = listing(names, most=6) or "none"
    closed = [one.closed_at for one in row.moves if one.closed_at is not None]
    if closed and len(closed) == len(row.moves):
        said = f"{said}; all closed at {clock_text(max(closed), today=now)}"
    return OutageFact("opened", "Breakers opened", said, len(names))


def breakers_now(row: CapacityEventRow, environment: str, now: datetime) -> list[OutageFact]:
    """How the breakers of an outage that goes on stand, as the overview says it: who comes by a link reads it here."""
    if row.is_over:
        return []
    meant = {one.breaker for one in row.moves} | set(row.breakers) | set(row.operations)
    told = [
        f"{one.name} is {state_text(one.worst)} on {one.counts.get(one.worst, 0)} of {one.instances}"
        for one in queries.breakers_named(environment, meant, now=now)
        if one.worst is not None and not one.is_flowing
    ]
    return [OutageFact("breakers", "Breakers now", listing(told, most=4) or "none blocking calls", len(told))]


def _estimate(row: CapacityEventRow, amount: str, told: int) -> str:
    """What the runs that it reached used in all, and by how many of them that is known."""
    if not row.runs:
        return "unknown: no affected run"
    if not amount:
        return f"unknown: not reported by {count_text(row.runs, 'run')}"
    if told >= row.runs and not row.is_partial:
        return f"{amount} in {count_text(told, 'run')}"
    least = "≥ " if row.is_partial else ""
    return f"about {amount}, reported by {told:,} of {least}{count_text(row.runs, 'run')}"


def _worst_minute(row: CapacityEventRow) -> str:
    if not row.peak_at:
        return "unknown"
    at = timezone.localtime(row.peak_at)
    return f"{peak_failures(row)} at {at:%H:%M} {zone_word(at)}"


def peak_failures(row: CapacityEventRow) -> str:
    """`60 failures`; of several incidents that are one the most of one of them, so at least so many."""
    return f"{'≥ ' if row.parts else ''}{count_text(row.peak_per_min, 'failure')}"


def moved(one: BreakerMoves) -> str:
    """`opened 6 times in 4 instances from 14:02:07 UTC, half-open 5 times, closed at 14:05:30 UTC`, without the day."""
    opened = f"opened {count_text(one.openings, 'time')} in {count_text(one.instances, 'instance')}"
    tried = f", half-open {count_text(one.half_openings, 'time')}" if one.half_openings else ""
    if one.closed_at is not None:
        end = f"closed in all at {one.closed_at:%H:%M:%S} UTC"
    else:
        end = f"still open in {one.not_closed}"
    return f"{opened} from {one.opened_at:%H:%M:%S} UTC{tried}, {end}"


def telling(row: CapacityEventRow, now: datetime) -> str:
    """`helios / large: provider overloaded, no action needed, since 14:02:07; 14 runs on 9 instances.`"""
    owner = OWNER_WORDS[row.owner]
    when = (
        f"from {clock_text(row.started, today=now)} to {clock_text(row.last, today=now)}"
        if row.is_over
        else f"since {clock_text(row.started, today=now)}"
    )
    impact = f"; {reached(row)}" if row.is_read else ""
    return f"{row.name}: {owner[:1].lower()}{owner[1:]}, {when}{impact}."
