"""A merge or a split in force is changed, after it was shown what that does to the causes of the last days."""

from __future__ import annotations

from typing import Any

import pytest

from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.issues.models import FailureGrouping
from recovery_ops.control.issues.selectors import grouping_of
from recovery_ops.control.issues.services.issues import merge_failures, split_failure
from recovery_ops.control.issues.services.regrouping import Move, changed_rule, edit_grouping, preview_of
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
WHY = "they have another reason than we thought"
DAY_S = 86_400.0


@pytest.fixture(autouse=True)
def story() -> None:
    for name, operation, times, ago_s in (
        ("one", "crm.update", 4, 600.0),
        ("two", "crm.update", 3, 2 * DAY_S),
        ("three", "search_web", 2, 6 * DAY_S),
        ("three", "crm.update", 1, 6 * DAY_S),
        ("two", "crm.update", 5, 8 * DAY_S),
    ):
        told = [failed(Category.TIMEOUT, operation, fingerprint=name)] * times
        Story().tell(*told, at=ago_s).store()


def who() -> dict[str, Any]:
    by = Actor(name="ana", kind="person", channel="web", may=lambda permission, environment: True, user_id=None)
    return {"by": by, "environment": "dev", "reason": WHY, "now": NOW}


def merged() -> FailureGrouping:
    merge_failures(fingerprints=["one", "two"], **who())
    return FailureGrouping.objects.get(ended_at=None)


def test_a_merge_that_leads_elsewhere_puts_apart_and_together() -> None:
    rule = merged()
    preview = preview_of(*changed_rule("dev", rule.pk, into="three"), now=NOW)
    assert preview.moves == [Move("one", "three", 3, True)], "only what failed in the last seven days"
    assert preview.read == 10
    assert edit_grouping(grouping=rule.pk, into="three", **who()).object == "three"
    assert grouping_of("dev").head("two") == "three"
    entry = AuditEntry.objects.latest("number")
    assert (entry.verb, entry.before["into"], entry.after["into"]) == ("failure.regroup", "one", "three")


def test_a_split_that_tells_apart_by_another_value_makes_a_cause_of_its_own() -> None:
    split_failure(fingerprint="three", field="operation", value="search_web", **who())
    rule = FailureGrouping.objects.get()
    preview = preview_of(*changed_rule("dev", rule.pk, value="crm.update"), now=NOW)
    assert set(preview.moves) == {
        Move("three~search_web", "three", 2, True),
        Move("three", "three~crm.update", 1, False),
    }


@pytest.mark.parametrize(("into", "code"), [("two", "invalid"), ("moon", "unknown_failure")])
def test_a_merge_leads_to_another_cause_that_is_known(into: str, code: str) -> None:
    rule = merged()
    with pytest.raises(CommandRejected) as refused:
        edit_grouping(grouping=rule.pk, into=into, **who())
    assert refused.value.code == code
    assert grouping_of("dev").head("two") == "one"


def test_what_was_changed_meanwhile_is_not_changed_again() -> None:
    rule = merged()
    edit_grouping(grouping=rule.pk, into="three", **who())
    with pytest.raises(CommandRejected) as refused:
        edit_grouping(grouping=rule.pk, into="one", **who())
    assert refused.value.status == 409


def test_the_form_shows_it_first_and_saves_it_then() -> None:
    rule, client = merged(), signed_in()
    assert f"/failures/act/edit?grouping={rule.pk}" in client.get("/failures/one?range=1h").content.decode()
    first = client.get(f"/failures/act/edit?grouping={rule.pk}")
    assert (first.context["preview"], Shown(first).fields["previewed"]) == (None, "")
    said = {"grouping": rule.pk, "link": "three", "reason": WHY, "previewed": ""}
    shown = client.post("/failures/act/edit", said)
    assert (shown.status_code, grouping_of("dev").head("two")) == (200, "one")
    assert shown.context["preview"].moves == [Move("one", "three", 3, True)]
    assert Shown(shown).values("moved") == ["3"]
    assert client.post("/failures/act/edit", said | {"link": "two"}).status_code == 422
    assert client.post("/failures/act/edit", said | {"previewed": "three"}).status_code == 303
    assert grouping_of("dev").head("two") == "three"


def test_a_program_tries_it_first() -> None:
    rule = merged()
    body = {"reason": WHY, "into": "three", "dry_run": True}
    status, told = Program().post(f"failures/groupings/{rule.pk}/edit", body)
    assert (status, told["dry_run"]) == (200, True)
    assert told["preview"]["moves"] == [{"from": "one", "to": "three", "failures": 3, "is_together": True}]
    assert grouping_of("dev").head("two") == "one"
    assert Program().post(f"failures/groupings/{rule.pk}/edit", body | {"dry_run": False})[0] == 200
    assert grouping_of("dev").head("two") == "three"


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    "body",
    [
        {"reason": WHY, "into": "three"},
        {"reason": WHY, "into": "three", "dry_run": True},
        {"reason": WHY, "into": "two"},
        {"reason": WHY, "into": "moon"},
        {"reason": WHY},
        {"into": 3, "moon": True},
        {},
    ],
)
def test_whoever_may_not_arrange_is_not_told_which_rules_there_are(body: dict[str, Any], is_known: bool) -> None:
    number = merged().pk if is_known else 999
    client = signed_in(Role.VIEWER)
    answer = client.post(f"/api/v1/failures/groupings/{number}/edit", body, "application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert set(FailureGrouping.objects.values_list("ended_at", flat=True)) <= {None}


def test_that_somebody_was_held_back_is_written_down() -> None:
    rule = merged()
    body = {"reason": WHY, "into": "three"}
    signed_in(Role.VIEWER).post(f"/api/v1/failures/groupings/{rule.pk}/edit", body, "application/json")
    entry = AuditEntry.objects.latest("number")
    assert (entry.verb, entry.code, entry.object) == ("failure.regroup", "forbidden", f"grouping {rule.pk}")


@pytest.mark.parametrize("link", ["/failures/", "http://[x", "https://console.example/failures/"])
def test_a_link_that_names_no_cause_is_refused(link: str) -> None:
    rule, client = merged(), signed_in()
    edited = client.post("/failures/act/edit", {"grouping": rule.pk, "link": link, "reason": WHY})
    joined = client.post("/failures/act/merge", {"fingerprint": ["one", "three"], "link": link, "reason": WHY})
    for answer in (edited, joined):
        assert (answer.status_code, list(answer.context["form"].errors)) == (422, ["link"])
        assert "link-error" in Shown(answer).ids
    assert grouping_of("dev").head("three") == "three"
