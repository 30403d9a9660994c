"""How many there may be of one kind: the last one fits, one more is refused, and one that ends makes room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import models as columns

from recovery_ops.control import models
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.exports import services as exports
from recovery_ops.control.replay.services import golden, replays
from recovery_ops.control.saved_views import services as views
from tests.support.actions import asked
from tests.support.golden import MUST, run
from tests.support.isolated import rolled_back
from tests.support.rows import row
from tests.support.stories import NOW

__all__ = ["run"]  # the fixture

pytestmark = pytest.mark.django_db

MOST = 3


@dataclass(frozen=True)
class Limit:
    """`made`: the columns of the n-th row that counts; `freed`: those by which it counts no more, else it is deleted.

    `others`: columns of rows that count elsewhere.
    """

    name: str
    service: Any
    model: type[columns.Model]
    act: Callable[[str], Any]
    made: Callable[[int], dict[str, Any]]
    freed: dict[str, Any]
    others: Callable[[], dict[str, Any]] = lambda: {"environment": "test"}


def user(name: str) -> User:
    return User.objects.get_or_create(username=name)[0]


def replay(run: str) -> Any:
    return replays.start_replay(**asked(start=NOW - timedelta(hours=1), end=NOW, document={}))


def view(run: str, name: str = "mine") -> models.SavedView:
    return views.save_view(owner_id=user("ana").pk, environment="dev", screen="runs", name=name, query="")


LIMITS = (
    Limit(
        "MOST_CASES",
        golden,
        models.GoldenCase,
        lambda run: golden.mark_golden(**asked(run=run, name="third time lucky", must=MUST)),
        lambda number: {"number": number, "run": f"run-{number}"},
        {"retired_at": NOW},
    ),
    Limit(
        "MOST_UNFINISHED",
        exports,
        models.Export,
        lambda run: exports.start_export(**asked(what="audit", query="", address="/audit")),
        lambda number: {"number": number, "what": "audit", "query": "", "address": ""},
        {"state": models.Export.DONE},
    ),
    Limit(
        "MOST_UNFINISHED",
        replays,
        models.Replay,
        replay,
        lambda number: {"number": number},
        {"state": models.Replay.CANCELLED},
    ),
    Limit(
        "MOST_OF_ONE",
        views,
        models.SavedView,
        view,
        lambda number: {"screen": "runs", "name": f"v-{number}", "owner": user("ana")},
        {},
        lambda: {"owner": user("ben")},
    ),
)


def test_last_one_fits_and_next_is_refused(
    run: str, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for limit in LIMITS:
        monkeypatch.setattr(limit.service, limit.name, MOST)
        with subtests.test(limit.model.__name__), rolled_back():
            for number in range(1, MOST + 2):
                row(limit.model, **limit.made(number) | limit.others())
            kept = [row(limit.model, **limit.made(number)) for number in range(1, MOST + 1)]
            with pytest.raises(CommandRejected) as refused, rolled_back():
                limit.act(run)
            assert refused.value.code == "too_many"
            free = limit.model._default_manager.filter(pk=kept[0].pk)
            if limit.freed:
                free.update(**limit.freed)
            else:
                free.delete()
            assert not getattr(limit.act(run), "was_already", False)


def test_view_in_place_of_another_needs_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_OF_ONE", 1)
    assert view("") == view("")
    with pytest.raises(CommandRejected):
        view("", name="other")
