"""What people do about causes of failures: whose they are, when they are put away, what is back, and which are one."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth import get_user_model

from events.failures.rows import Course
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.issues.models import FailureCase, FailureGrouping
from recovery_ops.control.issues.selectors import cases_of, grouping_of, standing_of
from recovery_ops.control.issues.services.due import keep_failures
from recovery_ops.control.issues.services.issues import (
    ACTS,
    merge_failures,
    split_failure,
    triage,
    triage_each,
    undo_grouping,
)
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import hidden, signed_in, text_of
from tests.support.stories import NOW, Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

WHY = "it is the same database behind both"


@pytest.fixture(autouse=True)
def storm() -> None:
    """Three fingerprints; one of them in two operations."""
    story = Story()
    story.tell(*[failed(Category.TIMEOUT, "crm.update", fingerprint="one")] * 4, at=500, run="run-1")
    story.tell(failed(Category.TIMEOUT, "search_web", fingerprint="one"), at=400)
    story.tell(
        failed(Category.TIMEOUT, "crm.update", fingerprint="two"), failed(Category.BUG, fingerprint="three"), at=300
    )
    story.store()


def person(name: str = "ana", *, may: tuple[str, ...] = ("see", "respond", "arrange")) -> Actor:
    user, _ = get_user_model().objects.get_or_create(username=name)
    return Actor(
        name=name, kind="person", channel="web", may=lambda permission, environment: permission in may, user_id=user.pk
    )


def who(**more: Any) -> dict[str, Any]:
    return {"by": person(), "environment": "dev", "reason": WHY, "now": NOW} | more


def act(verb: str, name: str = "one", **more: Any) -> FailureCase:
    return triage(verb, fingerprint=name, **who(**more)).object


def fails_again(name: str = "one", times: int = 1, *, ago_s: float = -5) -> None:
    Story().tell(*[failed(Category.TIMEOUT, "crm.update", fingerprint=name)] * times, at=ago_s).store()


def listed(query: str = "", role: Role = Role.RESPONDER) -> Any:
    return signed_in(role).get(f"/failures?range=1h{query}")


# -- one cause ---------------------------------------------------------------------------------------------------------
def test_it_is_given_to_somebody_and_taken_again() -> None:
    assert act("assign", to="ana").assigned_to == "ana"
    assert triage("assign", fingerprint="one", **who(to="ana")).was_already
    assert act("unassign").assigned_to == ""
    assert [one.verb for one in AuditEntry.objects.order_by("number")] == ["failure.assign", "failure.unassign"]
    assert audit.verify_chain("dev").is_whole


def test_pages_of_changes_lead_to_the_cause_that_a_line_is_about() -> None:
    act("resolve")
    for path in ("/", "/audit"):
        page = unescape(signed_in(Role.ADMIN).get(path).content.decode())
        assert re.search(r'<a[^>]* href="/failures/one">[^<]*timeout of search_web</a>', page), path


def test_a_resolved_cause_is_back_as_regressed_when_it_fails_again() -> None:
    case = act("resolve")
    assert standing_of(case, last=NOW - timedelta(seconds=400), now=NOW).state == "resolved"
    assert keep_failures("dev", now=NOW + timedelta(seconds=1)) == 0
    fails_again()
    later = NOW + timedelta(seconds=10)
    assert standing_of(case, last=NOW + timedelta(seconds=5), now=later).state == "regressed"
    assert keep_failures("dev", now=later) == 1
    assert keep_failures("dev", now=later) == 0
    assert FailureCase.objects.get().state == "regressed"
    assert AuditEntry.objects.latest("number").verb == "failure.regress"


@pytest.mark.parametrize(("days", "state"), [(6.9, "archived"), (7.0, "returned")])
def test_what_is_archived_for_a_time_comes_back(days: float, state: str) -> None:
    case, later = act("archive", for_s=7 * 86_400.0), NOW + timedelta(days=days)
    assert standing_of(case, last=NOW, now=later).state == state
    assert keep_failures("dev", now=later) == (state == "returned")
    assert FailureCase.objects.get().state == ("open" if state == "returned" else "archived")


def test_what_is_archived_until_so_many_more_counts_each_once() -> None:
    act("archive", more=3)
    fails_again(times=2, ago_s=-5)
    for second in (10, 11, 12):
        assert keep_failures("dev", now=NOW + timedelta(seconds=second)) == 0
    assert FailureCase.objects.get().seen_more == 2
    fails_again(times=1, ago_s=-20)
    assert keep_failures("dev", now=NOW + timedelta(seconds=30)) == 1
    case = FailureCase.objects.get()
    assert (case.state, re.findall(r"\d+", case.reason)) == ("open", ["3"])


@pytest.mark.parametrize("happened_ago_s", [-4, 3_600])
def test_what_comes_late_counts_when_it_comes(happened_ago_s: float) -> None:
    act("archive", more=2)
    fails_again(ago_s=-5)
    assert keep_failures("dev", now=NOW + timedelta(seconds=10)) == 0
    fails_again("two", times=5, ago_s=-6)  # another cause is not counted
    late = failed(Category.TIMEOUT, "crm.update", fingerprint="one")
    Story().tell(late, at=happened_ago_s, received=-12, instance="r-offline").store()
    assert keep_failures("dev", now=NOW + timedelta(seconds=20)) == 1
    assert re.findall(r"\d+", FailureCase.objects.get().reason) == ["2"]


def test_what_is_resolved_stays_so_when_old_failures_come_late() -> None:
    act("resolve")
    Story().tell(failed(Category.TIMEOUT, "crm.update", fingerprint="one"), at=3_600, received=-12).store()
    assert keep_failures("dev", now=NOW + timedelta(seconds=20)) == 0
    fails_again()
    assert keep_failures("dev", now=NOW + timedelta(seconds=30)) == 1


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({}, "for_s"),
        ({"for_s": 60.0, "more": 3}, "for_s"),
        ({"for_s": 1.0}, "for_s"),
        ({"for_s": float("nan")}, "for_s"),
        ({"more": 0}, "more"),
    ],
)
def test_an_archive_needs_one_sound_end(more: dict[str, Any], field: str) -> None:
    with pytest.raises(CommandRejected) as caught:
        act("archive", **more)
    assert field in caught.value.fields


def test_whoever_looked_at_an_older_decision_is_told_of_the_newer() -> None:
    act("resolve", version=0)
    with pytest.raises(CommandRejected) as caught:
        act("archive", for_s=3600.0, version=0)
    assert (caught.value.status, caught.value.code) == (409, "stale")


@pytest.mark.parametrize("verb", ACTS)
def test_who_may_not_is_refused_and_nothing_changes(verb: str) -> None:
    with pytest.raises(CommandRejected) as caught:
        act(verb, by=person("max", may=("see",)), to="ana", for_s=3600.0)
    assert caught.value.status == 403
    assert not FailureCase.objects.exists()


def test_nobody_decides_about_what_nobody_reported() -> None:
    with pytest.raises(CommandRejected) as caught:
        act("resolve", "moon")
    assert caught.value.status == 404


def test_the_same_key_does_it_once_and_a_trial_does_nothing() -> None:
    assert triage("resolve", fingerprint="one", **who(dry_run=True)).is_dry_run
    assert not FailureCase.objects.exists()
    act("resolve", key="k")
    act("reopen")
    assert triage("resolve", fingerprint="one", **who(key="k")).was_already
    assert FailureCase.objects.get().state == "open"


def test_of_many_one_that_is_refused_holds_no_other_back() -> None:
    found = triage_each("resolve", ["one", "moon", "two"], **who())
    assert [one.rejection is None for one in found] == [True, False, True]


# -- which are one -----------------------------------------------------------------------------------------------------
def test_merged_causes_are_one_for_failures_to_come_too_and_are_told_apart_again() -> None:
    assert merge_failures(fingerprints=["one", "two"], **who()).object == "one"
    assert merge_failures(fingerprints=["two", "one"], **who()).was_already
    act("resolve", "two")
    assert set(cases_of("dev")) == {"one"}, "what is decided about a part is decided about the whole"
    fails_again("two")
    assert keep_failures("dev", now=NOW + timedelta(seconds=10)) == 1
    rule = FailureGrouping.objects.get()
    assert undo_grouping(grouping=rule.pk, **who()).object == "two"
    assert undo_grouping(grouping=rule.pk, **who()).was_already
    assert grouping_of("dev").head("two") == "two"


def test_merges_of_merges_have_one_head_and_no_circle() -> None:
    merge_failures(fingerprints=["one", "two"], **who())
    merge_failures(fingerprints=["three", "one"], **who())
    assert merge_failures(fingerprints=["two", "three"], **who()).was_already
    assert {grouping_of("dev").head(name) for name in ("one", "two", "three")} == {"three"}
    assert grouping_of("dev").parts("three")[0] == "three"


@pytest.mark.parametrize("names", [["one"], ["one", "one"], ["one", "moon"]])
def test_a_merge_needs_two_that_are_known(names: list[str]) -> None:
    with pytest.raises(CommandRejected):
        merge_failures(fingerprints=names, **who())
    assert not FailureGrouping.objects.exists()


def test_a_part_of_a_cause_is_split_off_by_what_tells_it_apart() -> None:
    name = split_failure(fingerprint="one", field="operation", value="search_web", **who()).object
    assert name == "one~search_web"
    client = signed_in(Role.RESPONDER)
    courses = {row.found.fingerprint: row.found.course for row in client.get("/failures?range=1h").context["rows"]}
    assert len(courses) == 4
    assert sum(course is Course.NEW for course in courses.values()) != 3
    counts = {cause: client.get(f"/failures/{cause}?range=1h").context["found"].count for cause in (name, "one")}
    assert counts == {name: 1, "one": 4}
    act("resolve", name)
    assert set(cases_of("dev")) == {name}
    with pytest.raises(CommandRejected):
        split_failure(fingerprint="one", field="instance", value="x", **who())


# -- pages -------------------------------------------------------------------------------------------------------------
def test_the_list_shows_what_is_open_and_the_tabs_the_rest() -> None:
    act("resolve", "one")
    act("archive", "two", for_s=3600.0)
    act("assign", "three", to="ana")
    tabs = {name: count for name, _, count, _ in listed().context["tabs"]}
    assert tabs == {"open": 1, "mine": 1, "archived": 1, "resolved": 1, "all": 3}
    [archived] = listed("&tab=archived").context["rows"]
    assert (archived.found.fingerprint, archived.standing.state) == ("two", "archived")
    assert archived.standing.words in text_of(listed("&tab=archived"))
    [mine] = listed("&tab=mine").context["rows"]
    assert (mine.found.fingerprint, mine.standing.assigned_to) == ("three", "ana")


def test_forms_do_it_and_say_what_became_of_each() -> None:
    client = signed_in(Role.RESPONDER)
    form = client.get("/failures/act/resolve?fingerprint=one&fingerprint=two")
    assert re.findall(r"\d+", Shown(form).within("id", "act-title").root.text) == ["2"]
    assert "timeout of search_web" in text_of(form).lower(), "a cause goes by what it says, not by its fingerprint"
    done = client.post("/failures/act/resolve", {"fingerprint": ["one", "two"], "key": "a"}, follow=True)
    assert FailureCase.objects.filter(fingerprint__in=["one", "two"], state="resolved").count() == 2
    assert done.status_code == 200
    half = client.post("/failures/act/reopen", {"fingerprint": ["one", "moon"], "key": "b"})
    assert half.status_code == 422
    refusals = {name: result.rejection for name, _, result in half.context["lines"]}
    assert (refusals["one"], refusals["moon"].code) == (None, "unknown_failure")
    assert FailureCase.objects.get(fingerprint="one").state == "open"
    merged = client.post("/failures/act/merge", {"fingerprint": ["one", "two"], "reason": WHY, "key": "c"}, follow=True)
    notice = Shown(merged).within("id", "toasts").root.text
    assert "timeout of search_web" in notice, "its newest failure says no more of itself"
    page = client.get("/failures/two?range=1h")
    assert (page.context["asked_for"], page.context["found"].fingerprint) == ("two", "one")
    assert WHY in text_of(page)
    rule = FailureGrouping.objects.get()
    assert client.get(f"/failures/act/undo?grouping={rule.pk}").status_code == 200
    client.post("/failures/act/undo", {"grouping": rule.pk, "reason": WHY, "key": "d"})
    assert FailureGrouping.objects.get().ended_by == "ana"


@pytest.mark.parametrize(
    "body", [{"until": "more", "more": ""}, {"until": "soon"}, {"until": "more", "more": "-1"}, {"version": "-9"}]
)
def test_a_slip_comes_back_with_the_form(body: dict[str, str]) -> None:
    answer = signed_in(Role.RESPONDER).post("/failures/act/archive", {"fingerprint": "one", "key": "x"} | body)
    assert answer.status_code == 422
    assert not FailureCase.objects.exists()


def test_an_old_form_is_refused_with_what_changed_and_goes_through_when_it_is_sent_again() -> None:
    client = signed_in(Role.RESPONDER)
    act("resolve", "one")
    late = {"fingerprint": "one", "version": "0", "until": "86400", "key": "late"}
    answer = client.post("/failures/act/archive", late)
    assert answer.status_code == 409
    assert answer.context["is_stale"]
    assert re.search(r"\bana\b", Shown(answer).one("problem").text)
    assert 'href="/failures/one"' in answer.content.decode()
    version = hidden(answer, "version")
    assert client.post("/failures/act/archive", late | {"version": version}).status_code == 303
    assert FailureCase.objects.get(fingerprint="one").state == "archived"


def test_a_viewer_is_offered_nothing_and_may_do_nothing() -> None:
    client = signed_in(Role.VIEWER)
    assert b"/failures/act/" not in client.get("/failures?range=1h").content
    assert client.post("/failures/act/resolve", {"fingerprint": "one"}).status_code == 403
    assert signed_in(Role.RESPONDER).get("/failures/act/burn?fingerprint=one").status_code == 404
    assert not FailureCase.objects.exists()


def test_a_name_from_outside_is_shown_and_never_run() -> None:
    name = "<script>alert(1)</script>"
    Story().tell(failed(Category.BUG, fingerprint=name), at=5).store()
    act("resolve", name)
    page = signed_in(Role.RESPONDER).get("/failures?range=1h&tab=resolved").content.decode()
    assert name not in page
    assert "&lt;script&gt;" in page


def test_an_answer_is_the_same_however_often_the_duty_looks(django_assert_max_num_queries: Any) -> None:
    moments: list[datetime] = [NOW + timedelta(seconds=step) for step in range(3)]
    with django_assert_max_num_queries(3):  # nothing is decided: one look at the cases each time
        assert [keep_failures("dev", now=at) for at in moments] == [0, 0, 0]


def runs_of(cause: str) -> set[str]:
    """The runs to which the page of a cause leads."""
    client = signed_in(Role.RESPONDER)
    page = client.get(f"/failures/{quote(cause, safe='')}?range=1h").content.decode()
    [href] = re.findall(r'href="(/runs\?fingerprint=[^"]+)">Show', page)
    return set(re.findall(r'data-key="run-([^"]+)"', client.get(unescape(href)).content.decode()))


def test_from_a_cause_of_several_and_from_a_part_of_one_to_the_runs_that_met_it() -> None:
    story = Story()
    story.tell(failed(Category.TIMEOUT, "search_web", fingerprint="one"), at=200, run="run-2")
    story.tell(failed(Category.TIMEOUT, "crm.update", fingerprint="two"), at=200, run="run-3")
    story.tell(failed(Category.TIMEOUT, "crm.update"), at=200, run="run-4")
    story.store()
    assert runs_of("one") == {"run-1", "run-2"}
    assert runs_of("unnamed-timeout-crm.update") == {"run-4"}
    part = split_failure(fingerprint="one", field="operation", value="search_web", **who()).object
    assert (runs_of(part), runs_of("one")) == ({"run-2"}, {"run-1"})
    merge_failures(fingerprints=["one", "two"], **who())
    assert runs_of("one") == {"run-1", "run-3"}


def test_a_merge_takes_the_link_of_a_cause_that_is_not_in_the_list() -> None:
    client = signed_in(Role.EDITOR)
    given = {"fingerprint": "one", "reason": WHY, "link": "https://console.example/failures/two?range=1h", "key": "k1"}
    assert client.post("/failures/act/merge", given).status_code == 303
    assert grouping_of("dev").head("two") == "one"
    refused = client.post("/failures/act/merge", given | {"link": "/runs/run-1", "key": "k2"})
    assert refused.status_code == 422
    assert list(refused.context["form"].errors) == ["link"]
    assert Shown(refused).within("id", "link-error").root.text


def many_causes(number: int) -> None:
    story = Story()
    for place in range(number):
        story.tell(failed(Category.TIMEOUT, f"crm.{place}", fingerprint=f"many-{place:03d}"), at=2 + place)
    story.store()


def test_all_that_match_are_meant_once_somebody_types_how_many() -> None:
    many_causes(60)
    client = signed_in(Role.RESPONDER)
    page = client.get("/failures?range=1h&q=operation:crm.").content.decode()
    [every] = re.findall(r'name="matching" value="([^"]*)"', page)
    form = client.get(f"/failures/act/resolve?matching={quote(unescape(every))}").content.decode()
    names = re.findall(r'name="fingerprint" value="([^"]+)"', form)
    assert len(names) == len(set(names)) > 60
    given = {"fingerprint": names, "key": "k1"}
    unsaid = client.post("/failures/act/resolve", given | {"confirm": "60"})
    assert unsaid.status_code == 422
    assert not cases_of("dev")
    assert client.post("/failures/act/resolve", given | {"confirm": str(len(names))}).status_code == 303
    assert {case.state for case in cases_of("dev").values()} == {"resolved"}
    assert len(cases_of("dev")) == len(names)
