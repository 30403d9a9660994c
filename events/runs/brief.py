"""Tells many runs by what can be counted of them, without a word for each fact: as `tell`, and several times as quick.

Failures, retries and successes are nearly all that runs tell: those are counted as they lie in the store. What is rare
goes the way of `Counted`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from events.moments import US_PER_S, from_us
from events.queries.readings import category_or_none, length_s_or_none, text_of
from events.runs.counting import Counted, models_of
from events.runs.rows import RunFact, RunStory, Wait
from events.runs.stored import BriefFact, Teller, briefs_of
from recovery_ops.rules.facts import AttemptSucceeded, FailureClassified, RetryScheduled
from recovery_ops.rules.words import Category
from recovery_ops.wire import names

_FAILED, _RETRY, _SUCCEEDED = (
    names.EVENTS[kind].name for kind in (FailureClassified, RetryScheduled, AttemptSucceeded)
)
_FREQUENT = (_FAILED, _RETRY, _SUCCEEDED)
_CATEGORIES = {category.value: category for category in Category}
_FINGERPRINT = names.attribute_of(FailureClassified, "fingerprint")
_DELAY = names.attribute_of(RetryScheduled, "delay_s")
_SAYS_CAUSE, _SAYS_DERIVED = f'"{_FINGERPRINT}"', f'"{names.DERIVED_FROM}"'
"""Where the text of the attributes does not hold these, nothing of it need be read."""

Row = Sequence[Any]
"""As `BriefFact`."""


class InBrief(NamedTuple):
    """How runs are told in brief: without `pieces`, `steps`, `moves`, `backends` and `is_foreground`, with their models
    where `has_models`, and with those waits that go on at `now_us`.
    """

    now_us: int
    has_models: bool


def tell_in_brief(
    environment: str, runs: Sequence[str], since_us: int, how: InBrief, *, first: int, newest: int
) -> Iterator[RunStory]:
    """The stories of those of these runs that are known, by their first and newest facts. Queries: `briefs_of`."""
    rows, tellers = briefs_of(
        environment, runs, first=first, newest=newest, since_us=since_us, has_backends=how.has_models
    )
    most = first + newest
    for place, group in groupby(rows, key=_PLACE):
        told = list(group)
        if len(told) > most:
            told = [*told[:first], *told[-newest:]]
        counted = _count(told, tellers, how.now_us)
        _, at_us, _, _, _, _, _, _, source, agent, attributes, *_ = told[0]
        service, instance, version = tellers[agent]
        yield counted.story(
            runs[place],
            from_us(at_us),
            service=service,
            instance=instance,
            version=version,
            source=source or next(filter(None, map(_SOURCE, told)), ""),
            is_foreground=False,
            policy=_text_in(attributes, names.POLICY_VERSION),
            pieces=(),
            steps=(),
            moves=(),
            models=models_of(dict.fromkeys(map(_BACKEND, told))) if how.has_models else (),
            is_cut=len(told) == most,
        )


def _columns(*wanted: str) -> Callable[[Row], Any]:
    return itemgetter(*map(BriefFact._fields.index, wanted))


_PLACE, _SOURCE, _BACKEND = _columns("place"), _columns("source"), _columns("provider", "model")
_ATTRIBUTES = _columns("attributes")
_COUNTED = _columns("at_us", "event", "operation", "breaker", "category", "attributes")


def _count(told: Sequence[Row], tellers: Mapping[int, Teller], now_us: int) -> Counted:
    found = Counted()
    failures, waits = found.failures, found.waits
    failed_us = 0
    said = "".join(map(_ATTRIBUTES, told))
    is_plain, has_cause = _SAYS_DERIVED not in said, _SAYS_CAUSE in said
    for row in told:
        at_us, event, operation, breaker, word, attributes = _COUNTED(row)
        if event not in _FREQUENT or not is_plain:
            found.count(_fact(row, tellers))
            continue
        delay_s = 0.0
        if event == _RETRY:
            found.retries += 1
            delay_s = _delay_in(attributes)
            if not delay_s:
                continue
            found.waited_s += delay_s
        elif event == _FAILED:
            category = _CATEGORIES.get(word, Category.UNKNOWN)
            failures[category] = failures.get(category, 0) + 1
            failed_us = at_us
            if has_cause and (cause := _text_in(attributes, _FINGERPRINT)):
                found.fingerprints[cause] = None
        found.level = found.level or 1
        if waits:
            waits.pop(operation or breaker, None)
        if delay_s and at_us + delay_s * US_PER_S > now_us:  # the others are over: they are not worth a moment
            waits[operation] = Wait(from_us(at_us) + timedelta(seconds=delay_s), category_or_none(word))
    if waits:
        now = from_us(now_us)
        found.waits = {name: wait for name, wait in waits.items() if wait.until > now}
    if failed_us:
        last = from_us(failed_us)
        found.last_failed = last if found.last_failed is None else max(found.last_failed, last)
    return found


def _said(attributes: str) -> Mapping[str, Any]:
    said = orjson.loads(attributes)
    return said if isinstance(said, dict) else {}


# Most attributes are one object without another in it, and then what follows a name is the value of that name: to look
# for it costs a fourth of reading them all. A text in which anything is escaped, and what is no plain number, is read.
_DELAYS = re.compile(rf'"{re.escape(_DELAY)}": ?([0-9]+(?:\.[0-9]+)?)[,}}]').search
_TEXTS = {
    name: re.compile(rf'"{re.escape(name)}": ?"([^"\\]*)"').search for name in (_FINGERPRINT, names.POLICY_VERSION)
}


def _is_flat(attributes: str) -> bool:
    return attributes[:1] == "{" and attributes.count("{") == 1


def _delay_in(attributes: str) -> float:
    found = _DELAYS(attributes)
    if found is not None and _is_flat(attributes):
        return length_s_or_none(float(found[1])) or 0.0
    return length_s_or_none(_said(attributes).get(_DELAY)) or 0.0


def _text_in(attributes: str, name: str) -> str:
    found = _TEXTS[name](attributes)
    if found is not None and _is_flat(attributes):
        return found[1]
    return text_of(_said(attributes).get(name))


def _fact(row: Row, tellers: Mapping[int, Teller]) -> RunFact:
    one = BriefFact(*row)
    service, instance, version = tellers[one.agent]
    return RunFact(
        fact_id=one.fact_id,
        at=from_us(one.at_us),
        event=one.event,
        operation=one.operation,
        breaker=one.breaker,
        category=category_or_none(one.category),
        state="",
        provider=one.provider,
        model=one.model,
        source=one.source,
        is_foreground=False,
        service=service,
        instance=instance,
        version=version,
        said=_said(one.attributes),
    )
