"""Levers that move much at once: several breakers, every breaker of a group, what begins later, and shed load."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings

from events.models import Agent
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services.load_shedding import shed
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, asked, person
from tests.support.form_faults import faults_of
from tests.support.html import Shown
from tests.support.pages import bulk, sent, signed_in, text_of, troubled_fleet, weight_of
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def offered(page: Any) -> set[str]:
    """The acts that a form lets choose."""
    inputs = (one.attributes for one in Shown(page).root.all() if one.tag == "input")
    return {one["value"] for one in inputs if one.get("name") == "act"}


def test_several_breakers_are_tripped_with_a_result_for_each() -> None:
    troubled_fleet()
    client = signed_in()
    client.post("/breakers/calm/disable", sent(key="k-0", reason="calm needs to be measured"))
    ahead = (NOW + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M")
    form = sent(verb="observe", name=["search_web", "calm"], starts_at=ahead, seen="")
    first = bulk(client, form | {"expires_in_s": "600"})
    assert first.status_code == 200
    # The one on calm is over before this one begins, so neither is in the other's way.
    assert Shown(first).values("result") == ["done", "done"]
    again = bulk(client, form | {"expires_in_s": "600"})
    assert Shown(again).values("result") == ["already", "already"]
    assert Override.objects.filter(mode="metrics_only").count() == 2


def test_one_that_is_refused_stops_no_other() -> None:
    troubled_fleet()
    client = signed_in()
    client.post("/breakers/calm/disable", sent(key="k-0", reason="calm needs to be measured"))
    answer = bulk(client, sent(verb="trip", name=["search_web", "calm"], seen="0", key="k-1"))
    assert sorted(Shown(answer).values("result")) == ["done", "refused"]
    assert all(word in Shown(answer).one("result", "refused").text for word in ("ana", "calm"))
    assert list(Override.objects.live("dev").values_list("operation", "mode")) == [
        ("calm", "disabled"),
        ("search_web", "forced_open"),
    ]


def test_what_several_touch_together_is_said_before_anything_is_done() -> None:
    troubled_fleet()
    client = signed_in()
    form = sent(verb="trip", name=["search_web", "calm"])
    shown = client.post("/bulk", form)
    assert (shown.status_code, Override.objects.exists()) == (200, False)
    touched = Shown(shown).one("weighed", "2")
    assert "search_web" in touched.text
    assert [int(number) for _, number in shown.context["impact"][:2]] == [3, 4], "each instance and run once"
    weighed = weight_of(shown)
    # What was shown is not what is asked now.
    assert Shown(client.post("/bulk", form | {"name": ["calm"], "weighed": weighed})).values("weighed") == ["1"]
    assert not Override.objects.exists()
    assert Shown(client.post("/bulk", form | {"weighed": weighed})).values("result") == ["done", "done"]


def test_several_overrides_are_prolonged_and_released_with_a_result_for_each() -> None:
    troubled_fleet()
    client = signed_in()
    client.post("/breakers/search_web/trip", sent(key="k-0"))
    names = ["search_web", "calm"]
    page = Shown(bulk(client, sent(verb="extend", name=names, expires_in_s="14400", seen="1")))
    assert sorted(page.values("result")) == ["done", "refused"]
    assert "calm" in page.one("result", "refused").text
    override = Override.objects.get()
    assert override.expires_at - override.starts_at > timedelta(hours=3)
    page = Shown(bulk(client, sent(verb="release", name=names, expires_in_s="", seen="2", key="k-2")))
    assert sorted(page.values("result")) == ["done", "refused"]
    assert not Override.objects.live("dev").exists()


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"name": []}, {"name": "required"}),
        ({"name": ["moon"]}, {"name": "invalid_choice"}),
        ({"verb": "melt"}, {"verb": "invalid_choice"}),
        ({"expires_in_s": ""}, {"expires_in_s": ""}),
        ({"starts_at": "soon"}, {"starts_at": "invalid"}),
        ({"starts_at": "2020-01-01T00:00"}, {"starts_at": "past"}),
        ({"scope": "group"}, {"group": ""}),
    ],
)
def test_a_form_for_several_says_what_is_wrong(changed: dict[str, object], fault: dict[str, str]) -> None:
    troubled_fleet()
    answer = signed_in().post("/bulk", sent(verb="trip", name=["search_web"]) | changed)
    assert answer.status_code == 422
    assert faults_of(answer) == fault
    assert not Override.objects.exists()


def test_all_of_production_needs_its_name_for_several_too() -> None:
    troubled_fleet(environment="prod")
    client = signed_in(environment="prod")
    form = sent(verb="trip", name=["search_web"], environment="prod")
    assert client.post("/bulk", form).status_code == 422
    assert bulk(client, form | {"confirm": "prod"}).status_code == 200
    assert Override.objects.count() == 1


def test_every_breaker_of_a_group_is_tripped_with_the_environment_typed() -> None:
    troubled_fleet()
    Agent.objects.filter(instance="r-0").update(group="canary")
    client = signed_in()
    assert "<option>canary</option>" in client.get("/breakers/*/trip").content.decode()
    assert client.post("/breakers/*/trip", sent()).status_code == 422
    form = sent(scope="group", group="canary")
    assert client.post("/breakers/*/trip", form).status_code == 303
    override = Override.objects.get()
    assert (override.operation, override.group, override.service) == ("*", "canary", "*")
    assert client.post("/breakers/*/trip", sent(confirm="dev", key="k-2", seen="1")).status_code == 303


@pytest.mark.parametrize(
    ("page", "also"),
    [
        ("/breakers/search_web/trip", {}),
        ("/bulk", {"verb": "trip", "name": ["search_web"]}),
        ("/shed", {"act": "critical", "confirm": "dev"}),
    ],
)
def test_what_begins_later_does_so_on_the_clock_that_its_label_names(page: str, also: dict[str, object]) -> None:
    troubled_fleet()
    client = signed_in()
    client.cookies[f"{settings.COOKIE_PREFIX}zone"] = "Asia/Tokyo"
    assert "JST" in client.get(page).context["form"]["starts_at"].help_text
    wrong = client.post(page, sent(starts_at="soon", **also))
    assert "JST" in Shown(wrong).within("id", "starts_at-error").root.text
    ahead = NOW.replace(second=0, microsecond=0) + timedelta(hours=6)
    form = sent(starts_at=f"{ahead.astimezone(ZoneInfo('Asia/Tokyo')):%Y-%m-%dT%H:%M}", **also)
    bulk(client, form) if page == "/bulk" else client.post(page, form)
    held = LoadShed.objects.get() if page == "/shed" else Override.objects.get()
    assert abs(held.starts_at - ahead) < timedelta(minutes=1)


def test_what_begins_later_is_told_and_can_be_called_off() -> None:
    troubled_fleet()
    client = signed_in()
    ahead = (NOW + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M")
    assert client.post("/breakers/search_web/trip", sent(starts_at=ahead)).status_code == 303
    override = Override.objects.get()
    assert timedelta(hours=5, minutes=59) < override.starts_at - NOW <= timedelta(hours=6)
    assert override.expires_at - override.starts_at == timedelta(hours=1)
    call_off = f"/breakers/search_web/release?override={override.pk}"
    page = client.get("/breakers/search_web")
    assert call_off in Shown(page).links
    assert f"{override.starts_at:%H:%M:%S}" in text_of(page)
    client.post(call_off, sent(key="k-2", seen="1"))
    assert call_off not in Shown(client.get("/breakers/search_web")).links


def test_load_is_shed_with_the_environment_typed_and_passes_again_without() -> None:
    troubled_fleet()
    client = signed_in()
    page = client.get("/shed")
    assert [number for _, number in page.context["impact"]] == ["2", "4", "24", "24"]
    assert Shown(page).values("shedding") == ["no"]
    assert "pass" not in offered(page)
    ends = f"{NOW + timedelta(hours=1):%H:%M:%S}"
    form = sent(act="critical")
    assert client.post("/shed", form).status_code == 422
    assert client.post("/shed", form | {"confirm": "dev", "expires_in_s": ""}).status_code == 422
    assert not LoadShed.objects.exists()
    answer = client.post("/shed", form | {"confirm": "dev"}, follow=True)
    assert answer.redirect_chain == [("/shed", 303)]
    held = LoadShed.objects.get()
    assert (held.least, held.revision, f"{held.expires_at:%H:%M:%S}") == ("critical", 1, ends)
    assert f"{ends} UTC" in Shown(answer).within("id", "toasts").root.text
    page = client.get("/shed")
    assert Shown(page).one("shedding", "now").data["least"] == "critical"
    assert {"pass", "extend"} <= offered(page)
    assert REASON in text_of(page)
    for path in ("/", "/breakers", "/amplification"):
        said = text_of(client.get(path))
        assert f"{ends} UTC" in said
        assert f"ana: {REASON}" in said
    overview = Shown(client.get("/"))
    assert "critical" in overview.one("key", f"override-{held.pk}").text
    assert client.post("/shed", sent(act="extend", expires_in_s="14400", key="k-2", seen="1")).status_code == 303
    assert client.post("/shed", sent(act="pass", expires_in_s="", key="k-3", seen="2")).status_code == 303
    assert Shown(client.get("/shed")).values("shedding") == ["no"]
    told = [one.verb for one in AuditEntry.objects.order_by("number")]
    assert told == ["load.shed", "load.extend", "load.pass"]


def test_a_stale_tab_is_told_who_shed_load() -> None:
    troubled_fleet()
    shed(**asked(by=person(name="ben"), confirm="dev", now=NOW))
    answer = signed_in().post("/shed", sent(act="pass", seen="0"))
    assert answer.status_code == 409
    assert "ben" in Shown(answer).one("problem").text
    assert LoadShed.objects.live("dev").exists()


@pytest.mark.parametrize("path", ["/bulk", "/shed", "/breakers/*/trip", "/breakers/search_*/trip"])
def test_who_may_only_look_is_not_let_near(path: str) -> None:
    troubled_fleet()
    assert signed_in(Role.VIEWER).get(path).status_code == 403
    assert signed_in(Role.VIEWER).post(path, sent()).status_code == 403


@pytest.mark.parametrize("path", ["/breakers/", "/agents/", "/breakers/search_web/"])
def test_a_slash_too_many_leads_to_the_page(path: str) -> None:
    troubled_fleet()
    answer = signed_in().get(f"{path}?show=all", follow=True)
    assert (answer.status_code, answer.redirect_chain) == (200, [(f"{path.rstrip('/')}?show=all", 302)])


def test_a_length_that_is_none_leaves_the_usual_one_chosen() -> None:
    troubled_fleet()
    page = signed_in().post("/breakers/search_web/trip", sent(expires_in_s="7")).content.decode()
    assert 'value="3600" checked' in page


# -- by a name or a pattern, and in a part of a part ------------------------------------------------------------------
def test_a_pattern_is_tripped_after_its_impact_was_shown() -> None:
    troubled_fleet()
    client = signed_in()
    led = client.get("/named?name=search_*&verb=trip")
    assert (led.status_code, led["Location"]) == (302, "/breakers/search_*/trip")
    page = client.get(led["Location"])
    assert "search_*" in Shown(page).within("id", "act-title").root.text
    assert Shown(page).values("matched") == ["search_web"]
    assert page.context["impact"][0] == ("breaker", "1")
    assert client.post("/breakers/search_*/trip", sent()).status_code == 303
    override = Override.objects.get()
    assert override.scope == Scope(operation="search_*")
    assert "dev, search_*" in Shown(client.get("/breakers")).one("key", f"override-{override.pk}").text
    # On the page of a breaker that it holds it is named for what it is.
    released = Shown(client.get("/breakers/search_web/release"))
    assert "search_*" in released.within("id", "act-title").root.text
    assert f"ana: {REASON}" in released.one("rests-on", "search_*").text


def test_a_pattern_in_production_is_typed() -> None:
    troubled_fleet(environment="prod")
    client = signed_in(environment="prod")
    form = sent(environment="prod")
    assert client.post("/breakers/search_*/trip", form).status_code == 422
    assert client.post("/breakers/search_*/trip", form | {"confirm": "search_*"}).status_code == 303


def test_what_stands_for_every_breaker_is_typed_however_it_is_written() -> None:
    troubled_fleet()
    client = signed_in()
    assert "confirm" in Shown(client.get("/breakers/**/trip")).fields
    assert client.post("/breakers/**/trip", sent()).status_code == 422
    assert client.post("/breakers/**/trip", sent(confirm="dev")).status_code == 303


def test_a_service_and_an_instance_make_one_scope() -> None:
    troubled_fleet()
    Agent.objects.filter(instance="r-0").update(group="canary-2")
    client = signed_in()
    form = sent(scope="parts", service="research", instance="r-*", group="canary-*")
    assert client.post("/breakers/search_web/disable", form).status_code == 303
    scope = Scope(operation="search_web", service="research", instance="r-*", group="canary-*")
    override = Override.objects.get()
    assert override.scope == scope
    listed = Shown(client.get("/breakers")).one("key", f"override-{override.pk}").text
    assert all(name in listed for name in ("research", "r-*", "canary-*"))


def test_what_a_part_touches_is_shown_without_doing_anything() -> None:
    troubled_fleet()
    client = signed_in()
    form = sent(scope="parts", service="research", instance="r-0", reason="too short", starts_at="2031-01-31T22:00")
    answer = client.post("/breakers/search_web/trip", form | {"weigh": "yes", "reason": "short"})
    assert (answer.status_code, Override.objects.exists()) == (200, False)
    assert all(name in Shown(answer).one("touched").text for name in ("search_web", "research", "r-0"))
    assert answer.context["impact"][0] == ("instance", "1")
    # What was typed is kept, and nothing of it is called wrong yet.
    html = answer.content.decode()
    assert 'value="2031-01-31T22:00"' in html
    assert ">short</textarea>" in html
    assert "aria-invalid" not in html


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"scope": "parts"}, {"scope": ""}),
        ({"scope": "service"}, {"service": ""}),
        ({"scope": "moon"}, {"scope": "invalid_choice"}),
    ],
)
def test_a_part_that_names_nothing_is_none(changed: dict[str, str], fault: dict[str, str]) -> None:
    troubled_fleet()
    answer = signed_in().post("/breakers/search_web/trip", sent() | changed)
    assert answer.status_code == 422
    assert faults_of(answer) == fault


def test_what_nobody_has_reported_is_ruled_ahead_and_called_off() -> None:
    troubled_fleet()
    client = signed_in()
    unknown = client.get("/named?name=model:*&verb=disable")
    assert unknown.status_code == 422
    assert "model:*" in Shown(unknown).within("id", "name-error").root.text
    assert client.get("/breakers/model:*/disable").status_code == 404
    led = client.get("/named?name=model:*&verb=disable&ahead=yes")
    assert led["Location"] == "/breakers/model:*/disable?ahead=yes"
    page = client.get(led["Location"])
    assert "model:*" in Shown(page).one("reported", "no").text
    [ahead_box] = [one for one in Shown(page).root.all() if one.attributes.get("name") == "ahead"]
    assert "checked" in ahead_box.attributes
    ahead = (NOW + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M")
    form = sent(starts_at=ahead, ahead="yes", scope="service", service="billing")
    assert client.post("/breakers/model:*/disable", form).status_code == 303
    override = Override.objects.get()
    assert override.scope == Scope(operation="model:*", service="billing")
    listed, key = client.get("/breakers"), f"override-{override.pk}"
    line = Shown(listed).within("key", key)
    assert all(name in line.root.text for name in ("model:*", "billing", f"{override.starts_at:%H:%M:%S}"))
    call_off = f"/breakers/model:*/release?override={override.pk}"
    assert call_off in line.links
    assert Shown(client.get(call_off)).values("begun") == ["no"]
    assert client.post(call_off, sent(key="k-2", seen="1")).status_code == 303
    assert key not in Shown(client.get("/breakers")).values("key")


def test_a_part_that_nobody_reported_is_refused_at_its_field_unless_meant_ahead() -> None:
    troubled_fleet()
    client = signed_in()
    form = sent(scope="parts", service="billing", instance="b-9")
    refused = client.post("/breakers/search_web/trip", form)
    assert refused.status_code == 404
    assert 'id="service-error"' in refused.content.decode()
    assert client.post("/breakers/search_web/trip", form | {"ahead": "yes"}).status_code == 303
    several = sent(verb="observe", name=["calm"], scope="parts", service="billing", ahead="yes", seen="", key="k-2")
    assert Shown(bulk(client, several)).values("result") == ["done"]
    assert Override.objects.get(operation="calm").scope == Scope(operation="calm", service="billing")


@pytest.mark.parametrize("verb", ["reset", "probe"])
def test_nothing_is_reset_or_probed_ahead(verb: str) -> None:
    troubled_fleet()
    answer = signed_in().get(f"/named?name=moon&verb={verb}&ahead=yes")
    assert answer.status_code == 422
    assert all(word in Shown(answer).within("id", "name-error").root.text for word in ("moon", verb))
    assert signed_in().get(f"/breakers/moon/{verb}?ahead=yes").status_code == 404


def test_load_is_shed_ahead_and_called_off() -> None:
    troubled_fleet()
    client = signed_in()
    ahead = (NOW + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M")
    assert client.post("/shed", sent(act="critical", confirm="dev", starts_at=ahead)).status_code == 303
    page = client.get("/shed")
    assert Shown(page).values("shedding") == ["later"]
    gone = f"pass:{LoadShed.objects.get().pk}"
    assert gone in offered(page)
    assert all(moment in text_of(page) for moment in ("20:26:00", "21:26:00"))
    assert client.post("/shed", sent(act=gone, expires_in_s="", key="k-2", seen="1")).status_code == 303
    assert not LoadShed.objects.live("dev").exists()
