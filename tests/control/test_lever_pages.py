"""Levers that move much at once: several breakers, every breaker of a group, what begins later, and shed load."""

from __future__ import annotations

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings

from events.models import Agent
from recovery_ops.control.actions.shedding import shed
from recovery_ops.control.models import AuditEntry, LoadShed, Override
from recovery_ops.control.roles import Role
from recovery_ops.rules.scope import Scope
from tests.support.actions import REASON, asked, person
from tests.support.pages import bulk, sent, signed_in, text_of, troubled_fleet, weight_of
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def test_several_breakers_are_tripped_with_a_result_for_each() -> None:
    troubled_fleet()
    client = signed_in()
    client.post("/breakers/calm/disable", sent(key="k-0", reason="calm needs to be measured"))
    ahead = (NOW + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M")
    form = sent(verb="observe", name=["search_web", "calm"], starts_at=ahead, seen="")
    first = bulk(client, form | {"expires_in_s": "900"})
    assert first.status_code == 200
    text = text_of(first)
    # The one on calm is over before this one begins, so neither is in the other's way.
    assert "2 of 2 done" in text
    assert text.count("done: revision") == 2
    again = bulk(client, form | {"expires_in_s": "900"})
    assert text_of(again).count("was so already") == 2
    assert Override.objects.filter(mode="metrics_only").count() == 2


def test_one_that_is_refused_stops_no_other() -> None:
    troubled_fleet()
    client = signed_in()
    client.post("/breakers/calm/disable", sent(key="k-0", reason="calm needs to be measured"))
    answer = bulk(client, sent(verb="trip", name=["search_web", "calm"], seen="0", key="k-1"))
    text = text_of(answer)
    assert "1 of 2 done, 1 refused" in text
    assert "ana disabled calm" in text
    assert list(Override.objects.live("dev").values_list("operation", "mode")) == [
        ("calm", "disabled"),
        ("search_web", "forced_open"),
    ]


def test_what_several_touch_together_is_said_before_anything_is_done() -> None:
    troubled_fleet()
    client = signed_in()
    form = sent(verb="trip", name=["search_web", "calm"])
    shown = client.post("/bulk", form)
    page = text_of(shown)
    assert (shown.status_code, Override.objects.exists()) == (200, False)
    assert "What 2 chosen breakers touch, each instance and call counted once." in page
    assert "runs in flight" in page
    assert "search_web" in page.split("What 2 chosen")[1]
    assert "Do it for 2 breakers" in page
    weighed = weight_of(shown)
    # What was shown is not what is asked now.
    assert "What 1 chosen breaker touches" in text_of(
        client.post("/bulk", form | {"name": ["calm"], "weighed": weighed})
    )
    assert not Override.objects.exists()
    assert "2 of 2 done" in text_of(client.post("/bulk", form | {"weighed": weighed}))


def test_several_overrides_are_prolonged_and_released_with_a_result_for_each() -> None:
    troubled_fleet()
    client = signed_in()
    client.post("/breakers/search_web/trip", sent(key="k-0"))
    names = ["search_web", "calm"]
    page = text_of(bulk(client, sent(verb="extend", name=names, expires_in_s="14400", seen="1")))
    assert "1 of 2 done, 1 refused" in page
    assert "No override rests on exactly calm." in page
    override = Override.objects.get()
    assert override.expires_at - override.starts_at > timedelta(hours=3)
    page = text_of(bulk(client, sent(verb="release", name=names, expires_in_s="", seen="2", key="k-2")))
    assert "1 of 2 done, 1 refused" in page
    assert not Override.objects.live("dev").exists()


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"name": []}, "Choose at least one breaker."),
        ({"name": ["moon"]}, "moon is not known here."),
        ({"verb": "melt"}, "Choose what to do."),
        ({"expires_in_s": ""}, "Choose when it ends."),
        ({"starts_at": "soon"}, "Write a moment in UTC"),
        ({"starts_at": "2020-01-01T00:00"}, "That moment has gone by."),
        ({"scope": "group"}, "Choose the group."),
    ],
)
def test_a_form_for_several_says_what_is_wrong(changed: dict[str, object], fault: str) -> None:
    troubled_fleet()
    answer = signed_in().post("/bulk", sent(verb="trip", name=["search_web"]) | changed)
    assert answer.status_code == 422
    assert fault in text_of(answer)
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
    assert "Begins JST; empty: at once" in text_of(client.get(page))
    assert "Write a moment in JST, as 2026-01-31T22:00" in text_of(client.post(page, sent(starts_at="soon", **also)))
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
    page = text_of(client.get("/breakers/search_web"))
    assert "Begins" in page
    assert "Call off" in page
    client.post(f"/breakers/search_web/release?override={override.pk}", sent(key="k-2", seen="1"))
    assert "Call off" not in text_of(client.get("/breakers/search_web"))


def test_load_is_shed_with_the_environment_typed_and_passes_again_without() -> None:
    troubled_fleet()
    client = signed_in()
    page = text_of(client.get("/shed"))
    assert "of them would fail fast" in page
    assert "Everything passes now." in page
    assert "Let it go on" not in page
    ends = f"{NOW + timedelta(hours=1):%H:%M:%S}"
    form = sent(act="critical")
    assert client.post("/shed", form).status_code == 422
    assert client.post("/shed", form | {"confirm": "dev", "expires_in_s": ""}).status_code == 422
    assert not LoadShed.objects.exists()
    answer = client.post("/shed", form | {"confirm": "dev"}, follow=True)
    assert answer.redirect_chain == [("/shed", 303)]
    assert f"Load is to be shed until {ends} UTC: revision 1." in text_of(answer)
    page = text_of(client.get("/shed"))
    assert "Load is being shed: what is less important than critical fails" in page
    assert f"Reason {REASON}" in page
    for path in ("/", "/breakers", "/amplification"):
        assert f"fails at once until {ends} UTC. ana: {REASON}" in text_of(client.get(path))
    assert "Expiring soon" in (overview := text_of(client.get("/")))
    assert "Shedding of what is less than critical" in overview
    assert client.post("/shed", sent(act="extend", expires_in_s="14400", key="k-2", seen="1")).status_code == 303
    assert client.post("/shed", sent(act="pass", expires_in_s="", key="k-3", seen="2")).status_code == 303
    assert "Everything passes now." in text_of(client.get("/shed"))
    told = [one.verb for one in AuditEntry.objects.order_by("number")]
    assert told == ["load.shed", "load.extend", "load.pass"]


def test_a_stale_tab_is_told_who_shed_load() -> None:
    troubled_fleet()
    shed(**asked(by=person(name="ben"), confirm="dev", now=NOW))
    answer = signed_in().post("/shed", sent(act="pass", seen="0"))
    assert answer.status_code == 409
    assert "ben shed less important work at" in text_of(answer)
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
    page = text_of(client.get(led["Location"]))
    assert "Trip search_* in dev" in page
    assert "Breakers that fit now: search_web ." in page
    assert "breaker 1" in page
    assert client.post("/breakers/search_*/trip", sent()).status_code == 303
    assert Override.objects.get().scope == Scope(operation="search_*")
    listed = text_of(client.get("/breakers"))
    assert "More overrides" in listed
    assert "dev, search_* until" in listed
    # On the page of a breaker that it holds it is named for what it is.
    released = text_of(client.get("/breakers/search_web/release"))
    assert "Return to auto: search_* in dev" in released
    assert f"It rests on search_*, by ana: {REASON}" in released


def test_a_pattern_in_production_is_typed() -> None:
    troubled_fleet(environment="prod")
    client = signed_in(environment="prod")
    form = sent(environment="prod")
    assert client.post("/breakers/search_*/trip", form).status_code == 422
    assert client.post("/breakers/search_*/trip", form | {"confirm": "search_*"}).status_code == 303


def test_what_stands_for_every_breaker_is_typed_however_it_is_written() -> None:
    troubled_fleet()
    client = signed_in()
    assert "Trip every breaker in dev" in text_of(client.get("/breakers/**/trip"))
    assert client.post("/breakers/**/trip", sent()).status_code == 422
    assert client.post("/breakers/**/trip", sent(confirm="dev")).status_code == 303


def test_a_service_and_an_instance_make_one_scope() -> None:
    troubled_fleet()
    Agent.objects.filter(instance="r-0").update(group="canary-2")
    client = signed_in()
    form = sent(scope="parts", service="research", instance="r-*", group="canary-*")
    assert client.post("/breakers/search_web/disable", form).status_code == 303
    scope = Scope(operation="search_web", service="research", instance="r-*", group="canary-*")
    assert Override.objects.get().scope == scope
    assert "on instance r-* in group canary-*" in text_of(client.get("/breakers"))


def test_what_a_part_touches_is_shown_without_doing_anything() -> None:
    troubled_fleet()
    client = signed_in()
    form = sent(scope="parts", service="research", instance="r-0", reason="too short", starts_at="2031-01-31T22:00")
    answer = client.post("/breakers/search_web/trip", form | {"weigh": "yes", "reason": "short"})
    page = text_of(answer)
    assert (answer.status_code, Override.objects.exists()) == (200, False)
    assert "What search_web of service research on instance r-0 touches now:" in page
    assert "instance 1" in page
    # What was typed is kept, and nothing of it is called wrong yet.
    html = answer.content.decode()
    assert 'value="2031-01-31T22:00"' in html
    assert ">short</textarea>" in html
    assert "aria-invalid" not in html


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"scope": "parts"}, "Say at least one of service, group and instance."),
        ({"scope": "service"}, "Choose the service."),
        ({"scope": "moon"}, "Choose where."),
    ],
)
def test_a_part_that_names_nothing_is_none(changed: dict[str, str], fault: str) -> None:
    troubled_fleet()
    answer = signed_in().post("/breakers/search_web/trip", sent() | changed)
    assert answer.status_code == 422
    assert fault in text_of(answer)


def test_what_nobody_has_reported_is_ruled_ahead_and_called_off() -> None:
    troubled_fleet()
    client = signed_in()
    unknown = client.get("/named?name=model:*&verb=disable")
    assert unknown.status_code == 422
    assert "has ever reported model:*" in text_of(unknown)
    assert client.get("/breakers/model:*/disable").status_code == 404
    led = client.get("/named?name=model:*&verb=disable&ahead=yes")
    assert led["Location"] == "/breakers/model:*/disable?ahead=yes"
    page = client.get(led["Location"])
    assert "Nobody has reported model:* yet." in text_of(page)
    assert 'name="ahead" value="yes" checked' in page.content.decode()
    ahead = (NOW + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M")
    form = sent(starts_at=ahead, ahead="yes", scope="service", service="billing")
    assert client.post("/breakers/model:*/disable", form).status_code == 303
    override = Override.objects.get()
    assert override.scope == Scope(operation="model:*", service="billing")
    listed = client.get("/breakers")
    assert "dev, model:* of service billing from" in text_of(listed)
    call_off = f"/breakers/model:*/release?override={override.pk}"
    assert f'href="{call_off}"' in listed.content.decode()
    assert "It has not begun: what holds now stays as it is." in text_of(client.get(call_off))
    assert client.post(call_off, sent(key="k-2", seen="1")).status_code == 303
    assert "More overrides" not in text_of(client.get("/breakers"))


def test_a_part_that_nobody_reported_is_refused_at_its_field_unless_meant_ahead() -> None:
    troubled_fleet()
    client = signed_in()
    form = sent(scope="parts", service="billing", instance="b-9")
    refused = client.post("/breakers/search_web/trip", form)
    assert refused.status_code == 404
    assert 'id="service-error"' in refused.content.decode()
    assert client.post("/breakers/search_web/trip", form | {"ahead": "yes"}).status_code == 303
    several = sent(verb="observe", name=["calm"], scope="parts", service="billing", ahead="yes", seen="", key="k-2")
    assert "1 of 1 done" in text_of(bulk(client, several))
    assert Override.objects.get(operation="calm").scope == Scope(operation="calm", service="billing")


@pytest.mark.parametrize("verb", ["reset", "probe"])
def test_nothing_is_reset_or_probed_ahead(verb: str) -> None:
    troubled_fleet()
    answer = signed_in().get(f"/named?name=moon&verb={verb}&ahead=yes")
    assert f"has ever reported moon: there is nothing to {verb}." in text_of(answer)
    assert signed_in().get(f"/breakers/moon/{verb}?ahead=yes").status_code == 404


def test_load_is_shed_ahead_and_called_off() -> None:
    troubled_fleet()
    client = signed_in()
    ahead = (NOW + timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M")
    assert client.post("/shed", sent(act="critical", confirm="dev", starts_at=ahead)).status_code == 303
    page = text_of(client.get("/shed"))
    assert "Put off by ana" in page
    assert "Do not shed from 20:26:00 to 21:26:00 UTC" in page
    gone = f"pass:{LoadShed.objects.get().pk}"
    assert client.post("/shed", sent(act=gone, expires_in_s="", key="k-2", seen="1")).status_code == 303
    assert not LoadShed.objects.live("dev").exists()
