"""What is told of an outage to those who are not of the house: on its page, by the API, on the command line."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from events.capacity.asking import capacity_event
from events.capacity.detection import look
from events.capacity.models import CapacityEvent
from events.capacity.reach import read_reach
from events.capacity.rows import CapacityEventRow, Owner
from recovery_ops.control.capacity.status_text import NAMELESS, backends_of, customer_words
from recovery_ops.rules.enums import State
from tests.support.capacity import storm
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, moved
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

BEGAN = "21 Nov 2026 14:21"
"""When the outage began, as it is told."""


def outage(**more: Any) -> CapacityEventRow:
    """An outage that began five minutes ago, goes on, and opened a breaker."""
    storm(Story(), since=300, until=0, **more).tell(moved(State.OPEN, breaker="model:large"), at=200).store()
    look("dev", NOW)
    read_reach("dev", NOW)
    found = capacity_event("dev", CapacityEvent.objects.get(merged_into=None).pk, now=NOW)
    assert found is not None
    return found


def test_it_says_what_it_is_since_when_how_many_and_what_is_done() -> None:
    row = replace(outage(), fallbacks=7, waiting=5)
    words = customer_words(row, NOW)
    assert untold(words, BEGAN, "helios large", row.runs, 7, 5) == []
    less = (replace(row, breakers={}), replace(row, fallbacks=0), replace(row, waiting=0))
    told = [customer_words(one, NOW) for one in less]
    assert all(len(one) < len(words) for one in told), "each thing that is done has a sentence of its own"
    assert (untold(told[1], 7), untold(told[2], 5)) == (["7"], ["5"])


def test_of_one_that_is_over_it_says_from_when_to_when() -> None:
    row = replace(outage(), is_over=True, last=NOW - timedelta(seconds=60))
    words = customer_words(row, NOW)
    assert untold(words, BEGAN, "21 Nov 2026 14:25", "4m 00s", "helios large") == []
    now = customer_words(replace(row, is_over=False), NOW)
    assert set(words.split(". ")) & set(now.split(". ")) == set(), "what is over is told in the past"


def test_no_name_of_ours_is_in_it() -> None:
    row = outage(operation="ledger.book_secretly", provider=None, model=None)
    assert backends_of(row) == NAMELESS
    words = customer_words(row, NOW)
    for ours in (row.operation, *row.operations, *row.services, *row.breakers, "CE-"):
        assert ours not in words
    assert untold(words, BEGAN, NAMELESS) == []


@pytest.mark.parametrize("owner", [Owner.PROVIDER, Owner.QUOTA])
def test_of_two_it_speaks_in_the_plural(owner: Owner) -> None:
    one = replace(outage(), owner=owner)
    both = replace(one, parts=(one, replace(one, provider="atlas")))
    alone, together = (verb_behind(row) for row in (one, both))
    assert alone != together
    models = replace(both, parts=(one, replace(one, model="small")))
    assert verb_behind(models) == alone, "one provider, of which two models failed"


def verb_behind(row: CapacityEventRow) -> str:
    """The word that follows the names of the backends."""
    return customer_words(row, NOW).partition(f"{backends_of(row)} ")[2].split()[0]


@pytest.mark.parametrize("owner", list(Owner))
def test_whose_it_is_decides_the_words(owner: Owner) -> None:
    row = replace(outage(), owner=owner)
    now, then = customer_words(row, NOW), customer_words(replace(row, is_over=True), NOW)
    assert "helios large" in now
    assert now.split(".")[0] != then.split(".")[0]


def test_what_was_not_read_yet_is_not_counted_and_a_part_is_said_to_be_one() -> None:
    row = outage()
    assert untold(customer_words(replace(row, is_read=False), NOW), row.runs) == [str(row.runs)]
    whole, part = customer_words(row, NOW), customer_words(replace(row, is_partial=True), NOW)
    assert (untold(part, row.runs), part != whole) == ([], True)
    assert untold(customer_words(replace(row, runs=0, failures=20), NOW), 20) == []


def test_a_provider_of_which_several_models_failed_stands_once() -> None:
    row = outage()
    parts = (row, replace(row, model="small"), replace(row, provider="atlas", model="x"))
    assert backends_of(replace(row, parts=parts)) == "atlas x and helios"


def test_page_and_api_tell_the_same() -> None:
    row = outage()
    client = signed_in()
    told = client.get(f"/api/v1/capacity/events/{row.id}").json()["customer_words"]
    assert told == customer_words(row, NOW)
    page = client.get(f"/capacity/{row.id}")
    assert told in text_of(page)
    assert f'data-copy-text="{told}"' in page.content.decode()
