"""What a cause of failures is called in a sentence, where its fingerprint would say nothing to a person."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import NamedTuple

from events.failures.sums import kinds_named, newest_moments, stored_failures
from events.issues.fold import kind_of
from events.moments import to_us
from events.queries.readings import category_or_none, text_of
from events.wording import category_text
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import FailureClassified
from recovery_ops.wire import names

LOOKED_BACK = timedelta(days=7)
MESSAGE_CHARS = 60
_NAME_CHARS = 40
_SOON = timedelta(seconds=1)
_MESSAGE = names.attribute_of(FailureClassified, "message")


class Called(NamedTuple):
    """The category of its newest failure, the operation that failed, and what it said; empty where that was nothing."""

    category: str
    operation: str
    message: str

    @property
    def words(self) -> str:
        """`rate limited (429) “Too many requests”`, or `rate limited (429) of search_web`."""
        kind = category_text(category_or_none(self.category) or Category.UNKNOWN)
        said = _shortened(self.message)
        return f"{kind} “{said}”" if said else f"{kind} of {self.operation or 'a run'}"


def title_of(category: Category, message: str) -> str:
    """What a list calls a cause: what it says, or what it is where it says nothing."""
    return message or category_text(category)


def cause_words(cause: str, called: Called | None) -> str:
    """A cause in the middle of a sentence: by what it says, by its fingerprint where nothing is known of it."""
    if called is not None:
        return called.words
    return f"issue {cause if len(cause) <= _NAME_CHARS else f'{cause[:_NAME_CHARS]}…'}"


def cause_title(cause: str, called: Called | None) -> str:
    """The same where a sentence begins."""
    words = cause_words(cause, called)
    return words[:1].upper() + words[1:]


def called_lately(
    environment: str,
    causes: Collection[str],
    *,
    now: datetime,
    came_first: Mapping[str, datetime] = MappingProxyType({}),
) -> dict[str, Called]:
    """What these causes are called by their newest failure of a week; those of `came_first` by the failure of that
    moment. Three queries at most, none without a cause; indexes `failure_kind_by_issue`, `failure_sum_once`,
    `fact_by_event`.
    """
    kinds = kinds_named(environment, {*causes, *came_first})
    if not kinds:
        return {}
    wanted = set(causes)
    moments = {
        (kind.fingerprint, to_us(came_first[kind.fingerprint]))
        for kind in kinds.values()
        if kind.fingerprint in came_first
    }
    of_wanted = {digest: kind for digest, kind in kinds.items() if kind.fingerprint in wanted}
    moments |= {
        (kinds[digest].fingerprint, at_us)
        for digest, at_us in newest_moments(
            environment, of_wanted, to_us(now - LOOKED_BACK), to_us(now + _SOON)
        ).items()
    }
    found: dict[str, Called] = {}
    spans = sorted({(at_us, at_us + 1) for _, at_us in moments})
    for fact in stored_failures(environment, spans, kinds.values()):
        name = kind_of(fact).fingerprint
        if (name, fact.at_us) in moments:
            found.setdefault(name, Called(fact.category, fact.operation, text_of(fact.attributes.get(_MESSAGE))))
    return found


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_CHARS else f"{line[: MESSAGE_CHARS - 1]}…"
