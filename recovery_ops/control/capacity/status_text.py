"""What can be told of an outage to those who are not of the house: for a status page, to be pasted.

No name of ours is in it: only the provider and the model, and where nobody said those, neither. Times are UTC, with
their day, because nobody knows where it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from events.capacity.rows import CapacityEventRow, Owner
from events.wording import count_text, listing, span_text

NAMES_MOST = 3
NAMELESS = "a service that we depend on"
_IS = {
    Owner.PROVIDER: "{who} {are} overloaded",
    Owner.QUOTA: "{who} {take} fewer requests from us than we have for {them}",
    Owner.NETWORK: "our connection to {who} is disturbed",
    Owner.UNREACHABLE: "{who} cannot be reached from our side",
}
_WAS = {
    Owner.PROVIDER: "{who} {were} overloaded",
    Owner.QUOTA: "{who} took fewer requests from us than we had for {them}",
    Owner.NETWORK: "our connection to {who} was disturbed",
    Owner.UNREACHABLE: "{who} could not be reached from our side",
}
_ONE = {"are": "is", "were": "was", "take": "takes", "them": "it"}
_SEVERAL = {word: word for word in _ONE}


def customer_words(row: CapacityEventRow, now: datetime) -> str:
    """What it is, since when, how many it reached, and what is done; of what is not known, nothing."""
    told = [_what(row, now), *(_reached(row) if row.is_read else ()), *(_done(row) if row.is_read else ())]
    told.append("It is over." if row.is_over else "We are following it.")
    return " ".join(told)


def backends_of(row: CapacityEventRow) -> str:
    """`helios large and atlas`; a provider of which several models failed stands once."""
    return listing(_backends(row), most=NAMES_MOST) or NAMELESS


def _backends(row: CapacityEventRow) -> list[str]:
    models: dict[str, list[str]] = {}
    for part in row.parts or (row,):
        mine = models.setdefault(part.provider, [])
        if part.model and part.model not in mine:
            mine.append(part.model)
    names = [
        f"{provider} {some[0]}".strip() if len(some) == 1 else provider or listing(sorted(some), most=NAMES_MOST)
        for provider, some in sorted(models.items())
    ]
    return [name for name in names if name]


def _what(row: CapacityEventRow, now: datetime) -> str:
    words = {"who": backends_of(row)} | (_SEVERAL if len(_backends(row)) > 1 else _ONE)
    if row.is_over:
        said = _WAS[row.owner].format_map(words)
        return f"From {_at(row.started)} to {_at(row.last)} ({span_text(int(row.lasted(now).total_seconds()))}) {said}."
    said = _IS[row.owner].format_map(words)
    return f"Since {_at(row.started)} {said}."


def _reached(row: CapacityEventRow) -> Iterator[str]:
    least = "At least " if row.is_partial else ""
    so_far = "" if row.is_over else " so far"
    if row.runs:
        tasks = count_text(row.runs, "task")
        yield f"{least}{tasks} met failed requests{so_far}."
    elif row.failures:
        yield f"{least}{count_text(row.failures, 'request')} failed{so_far}."


def _done(row: CapacityEventRow) -> Iterator[str]:
    if row.breakers:
        held = "were held back" if row.is_over else "are held back"
        yield f"Requests {held} for a while whenever too many failed, so that it can recover."
    if row.fallbacks:
        came = "came" if row.is_over else "have come"
        yield f"{count_text(row.fallbacks, 'answer')} {came} from a replacement."
    if row.waiting:
        yield f"{count_text(row.waiting, 'task waits', 'tasks wait')} to be tried again without anybody's help."


def _at(moment: datetime) -> str:
    moment = moment.astimezone(UTC)
    return f"{moment.day} {moment:%b %Y %H:%M} UTC"
