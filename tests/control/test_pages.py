"""The console's pages: who may see them, what they say, and that nothing from outside runs in them."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from django.contrib.auth import get_user_model
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from events.keys import create_key
from events.models import Agent
from events.pages.empties import Why
from events.timelines.charts import plain
from recovery_ops.control.breakers.models.overrides import Override, Reset
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.rules.enums import ApplyStatus, State
from recovery_ops.rules.events import DesiredStateApplied
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.isolated import rolled_back
from tests.support.pages import (
    ACTS,
    HOSTILE,
    PAGES,
    REASON,
    edited,
    held,
    sent,
    signed_in,
    text_of,
    troubled_fleet,
)
from tests.support.stories import NOW, Story, heartbeat, moved
from tests.support.templates import templates_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
FIRST_RUN = "dashboard/_first_run.html"
LEVERS = ("trip", "named", "bulk", "shed", "counts", "triage", "annotate")
"""What is not a page that a viewer may open."""


# -- who sees what -----------------------------------------------------------------------------------------------------
@pytest.mark.quick
def test_nobody_sees_anything_before_signing_in(subtests: pytest.Subtests) -> None:
    for path in (path for path in PAGES.values() if path != "/counts"):
        with subtests.test(path=path):
            answer = Client().get(path)
            assert answer.status_code == 302
            assert answer.headers["Location"].startswith("/sign-in?next=")


OF_ONE = re.compile(r"/(breakers|failures|runs)/[^/]*[-_]|/policies/releases/")
"""Addresses that name an object: whoever has no role there is not told whether it exists."""
CLOSED = [path for path in PAGES.values() if not path.startswith("/settings/you")]


@pytest.mark.quick
def test_somebody_without_a_role_sees_a_clean_refusal(subtests: pytest.Subtests) -> None:
    client = signed_in(None)
    for path in (path for path in CLOSED if not OF_ONE.match(path)):
        with subtests.test(path=path):
            answer = client.get(path)
            assert answer.status_code == 403
            assert "403.html" in templates_of(answer)
            assert "dev" in text_of(answer)


@pytest.mark.quick
def test_somebody_without_a_role_is_not_told_what_there_is(subtests: pytest.Subtests) -> None:
    troubled_fleet()
    client = signed_in(None)
    for path in (path for path in CLOSED if OF_ONE.match(path)):
        with subtests.test(path=path):
            assert client.get(path).status_code == 404


@pytest.mark.quick
def test_a_viewer_sees_every_page(subtests: pytest.Subtests) -> None:
    troubled_fleet()
    client = signed_in(Role.VIEWER)
    for path in (path for name, path in PAGES.items() if name not in LEVERS):
        with subtests.test(path=path), rolled_back():
            assert client.get(path).status_code == 200


def test_a_viewer_is_offered_no_act() -> None:
    troubled_fleet()
    pages = [signed_in(Role.VIEWER).get(path).content.decode() for path in ("/", "/breakers", "/breakers/search_web")]
    assert not [verb for page in pages for verb in ("/trip", "/reset", "/release", "/extend") if f'{verb}"' in page]


def test_an_operator_is_offered_acts_and_the_policy() -> None:
    troubled_fleet()
    page = signed_in(Role.OPERATOR).get("/breakers/search_web").content.decode()
    assert all(f'href="/breakers/search_web/{verb}"' in page for verb in ACTS)
    assert ">Edit</a>" in page
    assert ">Edit</a>" not in signed_in(Role.RESPONDER, "li").get("/breakers/search_web").content.decode()


@pytest.mark.parametrize("verb", ACTS)
def test_a_viewer_who_posts_is_refused_and_nothing_changes(verb: str) -> None:
    troubled_fleet()
    answer = signed_in(Role.VIEWER).post(f"/breakers/search_web/{verb}", sent())
    assert answer.status_code == 403
    assert "403.html" in templates_of(answer)
    assert not Override.objects.exists()
    assert not Reset.objects.exists()
    noted = AuditEntry.objects.get()
    assert (noted.result, noted.actor_name, noted.code) == (AuditEntry.REFUSED, "ana", "forbidden")
    assert noted.object == f"/breakers/search_web/{verb}"


def test_a_responder_may_not_edit_a_policy() -> None:
    troubled_fleet()
    answer = signed_in(Role.RESPONDER).post(
        "/policies/operations/search_web", {"reason": REASON, "max_retries": "1", "service": "*"}
    )
    assert answer.status_code == 403
    assert not PolicyRelease.objects.exists()


# -- what pages say ----------------------------------------------------------------------------------------------------
def test_the_overview_names_what_is_wrong() -> None:
    troubled_fleet()
    page = Shown(signed_in().get("/"))
    silent = Agent.objects.get(instance="r-1")
    assert "529" in page.one("key", "capacity-helios / large").text
    assert "1 of 3" in page.one("key", "breaker-search_web").text
    assert "cache" in page.one("key", "degraded-search_web-fallback-cache").text
    assert "r-1" in page.one("key", f"silent-{silent.pk}").text


def test_the_overview_is_the_way_in_before_anybody_reported() -> None:
    answer = signed_in().get("/")
    assert FIRST_RUN in templates_of(answer)
    assert "RECOVERY_OPS_URL=http://testserver" in text_of(answer)


def test_first_page_leads_to_the_demonstration() -> None:
    assert "/?environment=demo" not in Shown(signed_in().get("/")).links
    create_key("demonstration fleet", ["ingest"], "demo")
    client = signed_in(environment="demo")
    assert "/?environment=demo" in Shown(client.get("/")).links
    Story(environment="demo").tell(heartbeat(), at=1).store()
    assert Shown(client.get("/?environment=demo")).having("demo")


def test_the_first_fact_turns_the_first_page_into_the_overview() -> None:
    client = signed_in()
    before = client.get("/", headers={"X-Fragment": "overview"})
    Story().tell(heartbeat(), at=1).store()
    after = client.get("/", headers={"X-Fragment": "overview", "If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200
    assert FIRST_RUN in templates_of(before)
    assert FIRST_RUN not in templates_of(after)
    assert 'id="overview"' in after.content.decode()


def test_a_breaker_shows_what_is_asked_and_what_is_seen_apart() -> None:
    troubled_fleet()
    client = signed_in()
    held(client)
    page = client.get("/breakers/search_web")
    said = text_of(page)
    assert (page.context["desired_revision"], page.context["override"].mode) == (1, State.FORCED_OPEN)
    assert REASON in said
    applying = page.context["apply"]
    behind = {status: [one.instance for one in rows] for status, rows in applying.agents.items() if rows}
    assert (applying.applied, applying.total) == (0, 3)
    assert behind == {ApplyStatus.PENDING: ["r-0", "r-2"], ApplyStatus.UNREACHABLE: ["r-1"]}
    assert "14:16:18" in said, "when it was last seen"


def test_a_breaker_whose_instances_are_silent_is_unknown_and_not_closed() -> None:
    Story().tell(heartbeat(), at=900).store()
    troubled_fleet(2)
    page = signed_in().get("/breakers/calm")
    assert page.context["row"].unknown == 1
    assert "unknown 1" in text_of(page)


def test_breakers_of_which_nobody_reports_are_not_said_to_flow() -> None:
    story = Story()
    for number in range(2):
        story.tell(heartbeat(), moved(State.CLOSED, breaker=f"b-{number}"), at=900, instance=f"r-{number}")
    story.store()
    client = signed_in()
    assert Shown(client.get("/breakers")).one("dark", "2").data["blocking"] == "0"
    back = Story()
    back.tell(heartbeat(), at=1, instance="r-0")
    back.store()
    assert Shown(client.get("/breakers")).one("dark", "1").data["total"] == "2"
    troubled_fleet()
    page = Shown(client.get("/breakers"))
    assert page.one("dark").data["blocking"] == "1"
    assert "1 of 3" in page.one("dark").text


def test_a_breaker_that_nobody_reported_is_not_found() -> None:
    troubled_fleet()
    assert signed_in().get("/breakers/nothing").status_code == 404
    assert signed_in().get("/breakers/nothing/trip").status_code == 404


def test_the_list_shows_one_state_and_says_so_when_there_is_none() -> None:
    troubled_fleet()
    assert "calm" not in text_of(signed_in().get("/breakers?show=open"))
    answer = signed_in().get("/breakers?show=disabled")
    empty = answer.context["empty"]
    assert Shown(answer).one("why").data["why"] == Why.NO_MATCH
    assert all(word in empty.text for word in ("disabled", "2"))
    assert "show" not in empty.href


@pytest.mark.parametrize("path", ["/", "/breakers", "/agents", "/policies", "/timelines?view=table", "/audit"])
def test_names_from_outside_are_shown_and_never_run(path: str) -> None:
    troubled_fleet(name=HOSTILE)
    answer = signed_in(Role.EDITOR).get(path)
    assert answer.status_code == 200
    assert "<img" not in answer.content.decode()


@pytest.mark.parametrize("path", ["", "/trip", "/reset", "/figure", "/tables"])
def test_a_hostile_breaker_has_pages_like_any_other(path: str) -> None:
    troubled_fleet(name="a<b>/c d?e#f%")
    answer = signed_in().get(f"/breakers/a%3Cb%3E/c%20d%3Fe%23f%25{path}")
    assert answer.status_code == 200
    shown = json.dumps(answer.json()["figure"]) if path == "/figure" else answer.content.decode()
    assert "a<b>" not in shown


def test_a_hostile_reason_is_shown_and_never_run() -> None:
    troubled_fleet()
    client = signed_in()
    client.post("/breakers/search_web/trip", sent(reason=HOSTILE))
    for path in ("/", "/breakers/search_web", "/audit"):
        assert "<img" not in client.get(path).content.decode()


# -- audit -------------------------------------------------------------------------------------------------------------
def test_the_audit_log_shows_before_and_after_and_that_the_chain_holds() -> None:
    troubled_fleet()
    client = signed_in()
    held(client)
    client.post("/breakers/search_web/release", sent(key="k-2", seen="1"))
    page = client.get("/audit")
    said = text_of(page)
    assert page.context["badge"].is_whole
    assert [row.entry.number for row in page.context["rows"]] == [2, 1]
    assert "+ mode: forced_open" in said
    assert "- mode: forced_open" in said


def test_a_tampered_entry_shows() -> None:
    troubled_fleet()
    client = signed_in()
    held(client)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE control_auditentry SET reason = 'nothing happened here'")
    assert Shown(client.get("/audit")).one("chain", "changed").data["entry"] == "1"


def test_a_missing_newest_entry_shows() -> None:
    troubled_fleet()
    client = signed_in()
    held(client)
    client.post("/breakers/search_web/release", sent(key="k-2", seen="1"))
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM control_auditentry WHERE number = 2")
    assert Shown(client.get("/audit")).one("chain", "cut").data["entry"] == "1"


def test_a_refused_change_stands_in_the_log() -> None:
    troubled_fleet()
    held(signed_in())
    signed_in(name="ben").post("/breakers/search_web/disable", sent(key="k-2"))
    assert AuditEntry.objects.filter(result=AuditEntry.REFUSED).count() == 1
    assert "rejected: stale" in text_of(signed_in().get("/audit"))


# -- signing in, themes, errors ----------------------------------------------------------------------------------------
def test_a_person_signs_in_and_out() -> None:
    signed_in()

    user = get_user_model().objects.get()
    user.set_password("a long enough password")
    user.save()
    client = Client()
    wrong = client.post("/sign-in", {"username": "ana", "password": "no"})
    assert wrong.status_code == 422
    assert wrong.context["form"].errors
    assert client.get("/").status_code == 302
    right = client.post("/sign-in", {"username": "ana", "password": "a long enough password", "next": "/breakers"})
    assert right.headers["Location"] == "/breakers"
    assert client.post("/sign-out").headers["Location"] == "/sign-in"
    assert client.get("/").status_code == 302


@pytest.mark.parametrize(("asked", "shown"), [("dark", ' data-theme="dark"'), ("light", ' data-theme="light"')])
def test_the_server_writes_the_chosen_theme_so_that_nothing_flashes(asked: str, shown: str) -> None:
    client = signed_in()
    answer = client.post("/look", {"theme": asked, "next": "/breakers"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/breakers")
    assert f'<html lang="en"{shown}>' in client.get("/").content.decode()


@pytest.mark.parametrize("asked", ["system", '"><script>', ""])
def test_any_other_theme_is_the_system_s(asked: str) -> None:
    client = signed_in()
    client.cookies["recovery-theme"] = '"><script>'
    client.post("/look", {"theme": asked})
    assert '<html lang="en">' in client.get("/").content.decode()


@pytest.mark.parametrize("address", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil"])
def test_a_theme_never_sends_anybody_elsewhere(address: str) -> None:
    assert signed_in().post("/look", {"theme": "dark", "next": address}).headers["Location"] == "/"


@pytest.mark.parametrize("query", ["", "?range=1h", "?from=now-2h"])
@pytest.mark.parametrize("path", ["/breakers/search_web", "/timelines", "/timelines?breaker=search_web"])
def test_every_figure_of_a_page_is_there(path: str, query: str) -> None:
    troubled_fleet()
    client = signed_in()
    page = client.get(path + (query.replace("?", "&") if "?" in path else query)).content.decode()
    figures = re.findall(r'data-figure-url="([^"]+)"', page)
    assert figures
    for address in map(unescape, figures):
        assert client.get(address).json()["figure"]["data"], address


def test_the_server_draws_what_a_breaker_was_in_and_says_it_as_the_figure_does() -> None:
    troubled_fleet()
    client = signed_in()
    held(client)
    page = client.get("/breakers/search_web?range=1h").content.decode()
    figure = client.get("/breakers/search_web/figure?range=1h").json()
    panel = page.partition('id="states"')[2].partition("</section>")[0]
    lanes = [unescape(name) for name in re.findall(r'<div class="lane"><span aria-hidden="true">([^<]+)</span>', panel)]
    drawn = {name for trace in figure["figure"]["data"] for name in trace.get("y", ())}
    assert {plain(name) for name in lanes} == drawn
    assert lanes[:2] == ["Desired", "Observed, majority"]
    assert "url(#p-open)" in panel
    assert figure["caption"] in unescape(panel)


LONG = {
    name: PAGES[name]
    for name in (
        *("overview", "overview strip", "breakers", "breaker", "breaker figure", "breaker counts figure", "timelines"),
        *("timelines figure", "capacity", "degradations", "amplification", "failures", "runs"),
    )
}


@pytest.mark.parametrize("length", ["7d", "30d"])
@pytest.mark.parametrize("path", LONG.values())
def test_a_long_range_is_shown_on_every_page_and_is_nobody_s_default(path: str, length: str) -> None:
    troubled_fleet()
    client = signed_in(Role.VIEWER)
    client.get(path)  # the first visit of a session asks a little more
    with CaptureQueriesContext(connection) as asked:
        page = client.get(f"{path}?range={length}")
    assert page.status_code == 200
    assert len(asked) <= 15
    assert client.session.get("range") is None
    if "<nav" in page.content.decode():
        assert f'href="/runs?range={length}"' in page.content.decode()


def test_another_range_keeps_what_else_the_address_says() -> None:
    troubled_fleet()
    page = signed_in().get("/timelines?breaker=search_web&view=table").content.decode()
    presets = re.findall(r'href="([^"]*range=1h[^"]*)"', page)
    assert [unescape(one) for one in presets] == ["?breaker=search_web&view=table&range=1h"]


def test_a_lag_is_told_only_of_the_revision_that_was_asked() -> None:
    troubled_fleet()
    client = signed_in(Role.EDITOR)
    held(client)

    def says(revision: int, after_s: float) -> str:
        document = desired.document("dev", service="research", instance="r-0", group="", now=NOW)
        applied = DesiredStateApplied(revision=revision, config_hash=str(document["config_hash"]))
        Story().tell(applied, at=-after_s, received=-after_s, instance="r-0").store()
        return text_of(client.get("/breakers/search_web"))

    assert "0.00 s" in says(1, 0)
    edited(client, seen="1", max_retries="5")
    later = says(2, 7.25)
    assert "1/3 applied" in later
    assert "7.25 s" not in later


def test_an_unknown_address_is_explained() -> None:
    answer = signed_in().get("/nowhere")
    assert answer.status_code == 404
    assert "404.html" in templates_of(answer)


@pytest.mark.parametrize(("error", "status"), [("OperationalError", 503), ("ValueError", 500)])
def test_a_failing_server_says_whether_it_is_its_own_fault(
    error: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fail(*_: object, **__: object) -> None:
        raise {"OperationalError": OperationalError, "ValueError": ValueError}[error]("boom")

    client = signed_in()
    client.raise_request_exception = False
    monkeypatch.setattr("events.queries.breakers", fail)
    answer = client.get("/breakers")
    assert answer.status_code == status
    assert f"{status}.html" in templates_of(answer)
    assert "boom" not in text_of(answer)
