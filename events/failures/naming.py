"""What a cause of failures is called in a sentence, where its fingerprint would say nothing to a person."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, NamedTuple

from django.db.models import QuerySet, Subquery
from django.db.models.functions import Coalesce

from events.failures.asking import READ, named_mark
from events.models import Fact
from events.moments import to_us
from events.queries.readings import category_or_none, text_of
from events.queries.sums import FAILED
from events.stored_json import text_at
from events.wording import category_text
from recovery_ops.rules.facts import FailureClassified
from recovery_ops.rules.words import Category
from recovery_ops.wire import names

LOOKED_BACK = timedelta(days=7)
MESSAGE_CHARS = 60
_NAME_CHARS = 40
_SOON = timedelta(seconds=1)
_FINGERPRINT = names.attribute_of(FailureClassified, "fingerprint")
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
    return f"cause {cause if len(cause) <= _NAME_CHARS else f'{cause[:_NAME_CHARS]}…'}"


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
    """What these causes are called, as far as the newest failures of a week tell; those of `came_first` by the failure
    of that moment, which no flood hides.

    So many failures are read and no more, however many there are. One query, none without a cause; index
    `fact_by_event`.
    """
    wanted = {*causes, *came_first}
    parts = []
    here = Fact.objects.filter(environment=environment, event=FAILED)
    if came_first:
        parts.append(_told(here.filter(at_us__in={to_us(moment) for moment in came_first.values()})))
    if causes:
        here = here.filter(at_us__gte=to_us(now - LOOKED_BACK), at_us__lt=to_us(now + _SOON))
        oldest = here.order_by("-at_us", "-id").values("at_us")[READ : READ + 1]
        parts.append(_told(here.filter(at_us__gt=Coalesce(Subquery(oldest), 0))))
    rows = [] if not parts else parts[0] if len(parts) == 1 else parts[0].union(parts[1], all=True)
    found: dict[str, Called] = {}
    for mark, category, operation, said, _ in sorted(rows, key=lambda row: row[-1], reverse=True):
        name = named_mark(mark, category, operation)
        if name in wanted:
            found.setdefault(name, Called(category, operation, text_of(said)))
    return found


def _told(failures: QuerySet[Fact]) -> QuerySet[Any, Any]:
    mark, said = text_at(_FINGERPRINT), text_at(_MESSAGE)
    told: QuerySet[Any, Any] = failures.order_by().annotate(mark=mark, said=said)
    return told.values_list("mark", "category", "operation", "said", "at_us")


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MESSAGE_CHARS else f"{line[: MESSAGE_CHARS - 1]}…"
