"""What causes of failures are narrowed by, beside their list: each value with how many failures have it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.http import HttpRequest

from events.failures.asking import OF_AGENTS
from events.failures.rows import Field, Fingerprint, Sample
from events.wording import category_text
from recovery_ops.control.core.pagination import from_the_start
from recovery_ops.control.escalations.selectors.by_issue import OpenQuestions
from recovery_ops.rules.enums import Category

FIELD_WORDS = {
    Field.CATEGORY: "Category",
    Field.OPERATION: "Operation",
    Field.BREAKER: "Breaker",
    Field.BACKEND: "Provider and model",
    Field.PROVIDER: "Provider",
    Field.MODEL: "Model",
    Field.REGION: "Region",
    Field.SERVICE: "Service",
    Field.VERSION: "Version",
    Field.WAITS: "Request source",
    Field.INSTANCE: "Instance",
    Field.ATTEMPT: "Attempt",
    Field.AGAIN: "Recoverable",
    Field.TOLD_BY: "Reported by",
}
_MOST_VALUES = 8
_WHERE_CHOSEN = (Field.BACKEND, Field.BREAKER)
"""What is offered only where it was asked for: provider, model and operation each say more, or the same."""
BY_INSTANCE = ("by", "instance")
"""What an address says where failures are counted by instance and version, too, which reads more than all else."""
ASKED = "asked"
ASKED_WORDS = {"yes": "escalated", "no": "not escalated"}
"""What `asked` in an address means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One value of a field: how many failures have it, and the address that chooses it or lets it go."""

    word: str
    count: int
    href: str
    is_chosen: bool


def facets_of(
    request: HttpRequest,
    sample: Sample,
    unchosen: Sample,
    chosen: Mapping[Field, str],
    agents: Mapping[Field, Counter[str]],
) -> Iterator[tuple[str, Sequence[Choice]]]:
    """The fields by their words, each with its values. `unchosen` is all that matches but for the chosen values;
    `agents` are the counts by instance and version, where they were asked for.
    """
    for name, word in FIELD_WORDS.items():
        if name in OF_AGENTS:
            yield word, list(_choices(request, agents.get(name, Counter()), name, chosen))
        elif name not in _WHERE_CHOSEN or name in chosen:
            others = {field: value for field, value in chosen.items() if field not in (name, *OF_AGENTS)}
            counts = unchosen.matching(others).counts(name) if name in chosen else sample.counts(name)
            yield word, list(_choices(request, counts, name, chosen))


def asked_facet(
    request: HttpRequest, found: Sequence[Fingerprint], questions: OpenQuestions, chosen: str
) -> tuple[str, Sequence[Choice]]:
    """Whether people are asked about a cause now."""
    counts: Counter[str] = Counter()
    for one in found:
        counts["no" if questions.about(one) is None else "yes"] += one.count
    choices = [
        Choice(
            word=word,
            count=counts[value],
            href=without_word(request, ASKED) if value == chosen else with_word(request, ASKED, value),
            is_chosen=value == chosen,
        )
        for value, word in ASKED_WORDS.items()
        if counts[value] or value == chosen
    ]
    return "Escalation", choices


def _choices(request: HttpRequest, counts: Counter[str], name: Field, chosen: Mapping[Field, str]) -> Iterator[Choice]:
    """The values of a field; of the chosen one the others too, because one may want to change it."""
    for value, count in counts.most_common(_MOST_VALUES):
        if not value:
            continue
        is_chosen = chosen.get(name) == value
        word = category_text(Category(value)) if name is Field.CATEGORY and value in set(Category) else value
        href = without_word(request, name.value) if is_chosen else with_word(request, name.value, value)
        yield Choice(word=word, count=count, href=href, is_chosen=is_chosen)


def with_word(request: HttpRequest, name: str, value: str) -> str:
    """The address with a choice, from its first page."""
    query = from_the_start(request)
    query[name] = value
    return f"?{query.urlencode()}"


def without_word(request: HttpRequest, name: str) -> str:
    """The address without a choice, from its first page."""
    query = from_the_start(request)
    query.pop(name, None)
    return f"?{query.urlencode()}"
