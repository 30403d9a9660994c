"""Several issues at once, here and elsewhere: what is done to one changes no other, the second time too."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.issues.models import FailureCase, FailureGrouping
from recovery_ops.control.issues.selectors import notes_on
from recovery_ops.control.issues.services.due import keep_failures
from recovery_ops.control.issues.services.issues import (
    LEAST_ARCHIVE_S,
    LONGEST_ARCHIVE_S,
    MOST_MORE,
    merge_failures,
    triage,
    undo_grouping,
)
from recovery_ops.control.issues.services.notes import note_on_cause
from recovery_ops.rules.enums import Category
from tests.support.actions import asked, person
from tests.support.isolated import rolled_back
from tests.support.stories import NOW, Story, failed

pytestmark = pytest.mark.django_db

NAMES = ("one", "two", "three")


def fails(name: str, at_s: float, environment: str = "dev") -> None:
    """An issue has a failure so many seconds after NOW."""
    Story(environment).tell(failed(Category.TIMEOUT, "crm.update", fingerprint=name), at=-at_s).store()


def does(verb: str, name: str, at_s: float = 0, environment: str = "dev", **more: Any) -> Any:
    by, now = person(environment=environment), NOW + timedelta(seconds=at_s)
    return triage(**asked(verb=verb, fingerprint=name, by=by, environment=environment, now=now, **more))


def states(environment: str = "dev") -> dict[str, str]:
    return dict(FailureCase.objects.filter(environment=environment).values_list("fingerprint", "state"))


@pytest.fixture
def resolved() -> None:
    for environment in ("dev", "test"):
        for name in NAMES:
            fails(name, -60, environment)
            does("resolve", name, environment=environment)


@pytest.mark.usefixtures("resolved")
def test_only_issue_that_fails_again_regresses() -> None:
    before = dict.fromkeys(NAMES, FailureCase.RESOLVED)
    fails("three", 0)  # at the moment of the decision
    fails("one", 60)
    assert keep_failures("dev", now=NOW + timedelta(seconds=120)) == 1
    assert (states(), states("test")) == (before | {"one": FailureCase.REGRESSED}, before)
    assert keep_failures("dev", now=NOW + timedelta(seconds=130)) == 0
    does("resolve", "one", 140)
    assert keep_failures("dev", now=NOW + timedelta(seconds=150)) == 0
    fails("one", 200)
    fails("two", 200, "test")
    assert keep_failures("dev", now=NOW + timedelta(seconds=260)) == 1
    assert (states(), states("test")) == (before | {"one": FailureCase.REGRESSED}, before)
    assert keep_failures("test", now=NOW + timedelta(seconds=260)) == 1
    assert states("test") == before | {"two": FailureCase.REGRESSED}


@pytest.mark.usefixtures("resolved")
def test_repeated_request_answers_with_its_own_issue() -> None:
    done = [does("archive", name, 10, key=f"k-{name}", more=5).object for name in NAMES]
    again = [does("archive", name, 20, key=f"k-{name}", more=5) for name in NAMES]
    assert [one.object for one in again] == done
    assert all(one.was_already for one in again)
    assert set(states("test").values()) == {FailureCase.RESOLVED}
    noted = [note_on_cause(**asked(fingerprint=name, reason=f"a note on {name}", key=f"n-{name}")) for name in NAMES]
    repeated = [note_on_cause(**asked(fingerprint=name, reason=f"a note on {name}", key=f"n-{name}")) for name in NAMES]
    assert [one.object for one in repeated] == [one.object for one in noted]


@pytest.mark.usefixtures("resolved")
def test_notes_of_one_moment_are_told_newest_first() -> None:
    texts = [f"a note with number {number}" for number in range(3)]
    for text in texts:
        note_on_cause(**asked(fingerprint="one", reason=text))
    assert [one.text for one in notes_on("dev", ["one"]) if one.text in texts] == texts[::-1]


@pytest.mark.usefixtures("resolved")
def test_undo_ends_only_its_own_grouping() -> None:
    fails("four", -60)
    merge_failures(**asked(fingerprints=["one", "two"]))
    merge_failures(**asked(fingerprints=["three", "four"]))
    first, second = FailureGrouping.objects.order_by("pk")
    assert not undo_grouping(**asked(grouping=first.pk)).was_already
    assert FailureGrouping.objects.get(ended_at=None) == second
    audited = AuditEntry.objects.get(verb="failure.undo")
    assert audited.after == {"into": first.into, "fingerprint": first.fingerprint, "kind": first.kind}
    assert undo_grouping(**asked(grouping=first.pk)).was_already


@pytest.mark.usefixtures("resolved")
def test_archive_takes_its_limits_and_nothing_beyond(subtests: pytest.Subtests) -> None:
    limits: tuple[tuple[str, float, float], ...] = (
        ("for_s", LEAST_ARCHIVE_S, LONGEST_ARCHIVE_S),
        ("more", 1, MOST_MORE),
    )
    for name, least, most in limits:
        for value in (least, most):
            with subtests.test(name, value=value), rolled_back():
                more: dict[str, Any] = {name: value}
                assert not does("archive", "one", **more).was_already
        for value in (least - 1, most + 1):
            with subtests.test(name, value=value), rolled_back():
                more = {name: value}
                with pytest.raises(CommandRejected) as rejected:
                    does("archive", "one", **more)
                assert list(rejected.value.fields) == [name]
