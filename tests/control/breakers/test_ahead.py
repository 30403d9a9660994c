"""Overrides that begin later, probes, many at once, and which of several wins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from events import keys
from recovery_ops.control.breakers.models.overrides import BreakerProbe, Override
from recovery_ops.control.breakers.precedence import Ground, verdict_of
from recovery_ops.control.breakers.services import overrides as overrides_services
from recovery_ops.control.breakers.services import resets
from recovery_ops.control.breakers.services.overrides import resting_id
from recovery_ops.control.breakers.services.probes import probe
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.desired_state.document import read
from recovery_ops.control.policies.services import policies
from recovery_ops.rules.policy.scope import Place, Scope
from recovery_ops.wire.desired_state import parse_desired
from tests.support.actions import REASON, SEARCH, asked, trip
from tests.support.api_client import Program
from tests.support.fleet import today_fleet
from tests.support.html import Shown
from tests.support.pages import signed_in, troubled_fleet
from tests.support.stories import NOW
from tests.support.told import untold

UPGRADE = "the provider is upgraded tonight"
HERE = Place(service="research", instance="r-0", operation="search_web", breaker="search_web")


# -- a maintenance window ----------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("known")
def test_a_window_is_told_to_agents_now_and_holds_from_its_beginning_to_its_end() -> None:
    made = trip(starts_in_s=3600.0, expires_in_s=1800.0).object
    assert (made.starts_at, made.expires_at) == (NOW + timedelta(hours=1), NOW + timedelta(hours=1, minutes=30))
    [told] = parse_desired(desired.document("dev", now=NOW)).overrides
    holds = [told.holds_at((NOW + timedelta(minutes=at)).timestamp()) for at in (0, 59, 60, 89, 90)]
    assert holds == [False, False, True, True, False]
    assert list(Override.objects.in_force("dev", NOW)) == []


@pytest.mark.usefixtures("known")
def test_a_window_never_ends_what_holds_now() -> None:
    trip(expires_in_s=7200.0)
    with pytest.raises(CommandRejected) as refused:
        trip(starts_in_s=3600.0, reason=UPGRADE)
    assert (refused.value.status, refused.value.code) == (409, "held")
    later = trip(starts_in_s=7200.0, reason=UPGRADE)
    assert later.object.starts_at == NOW + timedelta(hours=2)
    told = parse_desired(desired.document("dev", now=NOW)).overrides
    holding = [sum(one.holds_at((NOW + timedelta(hours=at)).timestamp()) for one in told) for at in (0, 1.9, 2.5, 3)]
    assert holding == [1, 1, 1, 0], "the one that holds goes on until its own end"


@pytest.mark.usefixtures("known")
def test_what_holds_is_not_prolonged_into_a_window() -> None:
    held = trip().object
    window = trip(starts_in_s=2 * 3600.0, reason=UPGRADE).object
    with pytest.raises(CommandRejected) as refused:
        overrides_services.extend(**asked(override_id=held.pk, expires_in_s=3 * 3600.0))
    assert (refused.value.status, refused.value.code) == (409, "held")
    assert untold(str(refused.value), "16:26:18", UPGRADE) == []
    until = overrides_services.extend(**asked(override_id=held.pk, expires_in_s=2 * 3600.0)).object
    assert until.expires_at == window.starts_at
    overrides_services.release(**asked(override_id=window.pk))
    assert (
        overrides_services.extend(**asked(override_id=held.pk, expires_in_s=3 * 3600.0)).object.expires_at
        > window.starts_at
    )


@pytest.mark.usefixtures("known")
def test_a_window_of_next_week_is_prolonged_by_whom_it_was_set() -> None:
    week_s = 7 * 24 * 3600.0
    window = trip(starts_in_s=week_s, expires_in_s=3600.0).object
    longer = overrides_services.extend(**asked(override_id=window.pk, expires_in_s=week_s + 7200.0)).object
    assert longer.expires_at == window.starts_at + timedelta(hours=2)
    with pytest.raises(CommandRejected) as too_long:
        overrides_services.extend(**asked(override_id=window.pk, expires_in_s=week_s + 25 * 3600.0))
    assert (set(too_long.value.fields), untold(str(too_long.value), 86400)) == ({"expires_in_s"}, [])
    with pytest.raises(CommandRejected) as too_short:
        overrides_services.extend(**asked(override_id=window.pk, expires_in_s=3600.0))
    assert untold(str(too_short.value), "28 Nov", "16:26:18") == []


@pytest.mark.usefixtures("known")
def test_two_nights_are_two_windows_and_a_trip_now_leaves_both() -> None:
    nights = [trip(starts_in_s=hours * 3600.0, reason=f"upgrade of night {hours}").object for hours in (20, 44)]
    now = trip().object
    assert list(Override.objects.live("dev").order_by("starts_at")) == [now, *nights]
    claims = verdict_of(read("dev"), HERE, now=NOW).overrides
    assert [one.name for one in claims] == [now.pk, nights[1].pk, nights[0].pk], "behind what wins the newest first"
    # The same once more is the same; another within a window takes its place and no other's.
    assert trip(starts_in_s=20 * 3600.0, reason="upgrade of night 20").was_already
    longer = trip(starts_in_s=19 * 3600.0, expires_in_s=4 * 3600.0, reason="upgrade of night 20").object
    assert list(Override.objects.live("dev").order_by("starts_at")) == [now, longer, nights[1]]
    assert AuditEntry.objects.latest("number").before["id"] == nights[0].pk


@pytest.mark.usefixtures("known")
def test_a_trip_now_is_no_repeat_of_one_that_is_to_begin_and_ends_alike() -> None:
    trip(starts_in_s=1800.0, expires_in_s=1800.0)
    now = trip(expires_in_s=3600.0)
    assert not now.was_already
    assert [one.pk for one in Override.objects.in_force("dev", NOW)] == [now.object.pk]


@pytest.mark.usefixtures("known")
def test_a_name_means_what_holds_before_what_is_to_begin() -> None:
    night = trip(starts_in_s=72_000.0, reason=UPGRADE).object
    now = trip().object
    assert resting_id("dev", SEARCH) == now.pk
    overrides_services.release(**asked(override_id=now.pk))
    assert resting_id("dev", SEARCH) == night.pk
    # Nobody took its place: to end it twice is no conflict.
    assert overrides_services.release(**asked(override_id=now.pk)).was_already


@pytest.mark.usefixtures("known")
def test_a_reset_leaves_tonights_window_alone() -> None:
    night = trip(starts_in_s=72_000.0, reason=UPGRADE).object
    trip()
    resets.reset(**asked(scope=SEARCH))
    assert list(Override.objects.live("dev")) == [night]


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("starts_in_s", [-1.0, float("nan"), 1e9, "soon", True])
def test_when_it_begins_is_checked(starts_in_s: Any) -> None:
    with pytest.raises(CommandRejected) as refused:
        trip(starts_in_s=starts_in_s)
    assert set(refused.value.fields) == {"starts_in_s"}


@pytest.mark.django_db
def test_the_api_lists_what_holds_and_what_is_to_begin() -> None:
    keys.forget_keys()
    today_fleet()
    program = Program()
    program.post("breakers/search_web/trip", {"reason": REASON, "instance": "r-0"})
    program.post("breakers/search_web/observe", {"reason": REASON, "starts_in_s": 600, "expires_in_s": 600})
    _, found = program.get("overrides")
    assert ([one["mode"] for one in found["overrides"]], [one["mode"] for one in found["ahead"]]) == (
        ["forced_open"],
        ["metrics_only"],
    )


# -- a probe -----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("known")
def test_a_probe_is_state_that_agents_obey_once() -> None:
    done = probe(**asked(scope=SEARCH))
    [told] = parse_desired(desired.document("dev", service="research", instance="r-0", now=NOW)).probes
    assert (told.scope, told.revision) == (SEARCH, done.revision)
    probe(**asked(scope=SEARCH, reason="once more, a minute later", now=NOW + timedelta(minutes=1)))
    [newest] = parse_desired(desired.document("dev", now=NOW)).probes
    assert newest.revision == 2


@pytest.mark.usefixtures("known")
def test_a_probe_of_one_instance_is_not_told_to_others() -> None:
    probe(**asked(scope=Scope(operation="search_web", instance="r-1")))
    told = {
        instance: bool(parse_desired(desired.document("dev", service="research", instance=instance, now=NOW)).probes)
        for instance in ("r-0", "r-1")
    }
    assert told == {"r-0": False, "r-1": True}


@pytest.mark.usefixtures("known")
def test_an_old_probe_is_forgotten() -> None:
    probe(**asked(scope=SEARCH))
    trip(now=NOW + timedelta(hours=2))
    assert parse_desired(desired.document("dev", now=NOW)).probes == ()


@pytest.mark.django_db
@pytest.mark.usefixtures("now")
def test_a_probe_is_a_page_like_every_act() -> None:
    troubled_fleet()
    client = signed_in()
    assert 'href="/breakers/search_web/probe"' in client.get("/breakers/search_web").content.decode()
    assert "reason" in Shown(client.get("/breakers/search_web/probe")).fields
    form = {"scope": "all", "reason": REASON, "seen": "0", "key": "k-1"}
    assert client.post("/breakers/search_web/probe", form).status_code == 303
    assert BreakerProbe.objects.get().operation == "search_web"


# -- many at once ------------------------------------------------------------------------------------------------------
@pytest.mark.django_db
def test_each_of_many_is_done_or_refused_by_itself() -> None:
    keys.forget_keys()
    today_fleet()
    program = Program()
    body = {"reason": REASON, "verb": "trip", "names": ["search_web", "serch_web"], "expires_in_s": 600}
    status, found = program.post("breakers", body, Idempotency_Key="one click")
    assert (status, found["refused"]) == (200, 1)
    well, unwell = found["results"]
    assert (well["name"], well["done"]["override"]["mode"]) == ("search_web", "forced_open")
    assert (unwell["name"], unwell["problem"]["code"]) == ("serch_web", "unknown_breaker")
    program.post("breakers", body, Idempotency_Key="one click")
    assert Override.objects.count() == 1
    wrong: list[dict[str, Any]] = [{"verb": "melt"}, {"names": []}, {"names": [1]}, {"names": ["a"] * 201}]
    for changed in wrong:
        assert program.post("breakers", body | changed)[0] == 400


@pytest.mark.django_db
def test_what_many_touch_together_is_told_and_what_rests_on_them_is_prolonged_and_released() -> None:
    keys.forget_keys()
    today_fleet()
    program = Program()
    body: dict[str, Any] = {"reason": REASON, "names": ["search_web", "search_web"]}
    status, found = program.post("breakers", body | {"verb": "trip", "dry_run": True})
    assert (status, found["dry_run"], found["assumed"]) == (200, True, {"expires_in_s": 3600})
    assert (found["impact"]["instances"], len(found["results"]), Override.objects.count()) == (3, 1, 0)
    program.post("breakers", body | {"verb": "trip"})
    assert set(program.post("breakers", body | {"verb": "extend"})[1]["fields"]) == {"expires_in_s"}
    status, found = program.post("breakers", body | {"verb": "extend", "expires_in_s": 7200})
    assert (status, found["refused"], "assumed" in found) == (200, 0, False)
    status, found = program.post("breakers", body | {"verb": "release", "names": ["search_web", "calm"]})
    assert (status, found["refused"]) == (200, 1)
    assert found["results"][1]["problem"]["code"] == "nothing_held"
    assert not Override.objects.live("dev").exists()


# -- which wins --------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("known")
def test_the_more_specific_override_wins_and_says_why() -> None:
    wide = trip(scope=Scope(operation="search_*"), ahead=True).object
    narrow = overrides_services.observe(**asked(scope=Scope(operation="search_web", instance="r-0"))).object
    first, second = verdict_of(read("dev"), HERE, now=NOW).overrides
    assert (first.name, first.wins, first.ground) == (narrow.pk, True, Ground.SPECIFIC)
    assert (second.name, second.wins, second.ground) == (wide.pk, False, Ground.SPECIFIC)
    assert (second.beaten_by, untold(second.why, narrow.pk)) == (narrow.pk, [])
    [elsewhere] = verdict_of(read("dev"), Place(service="x", instance="y", operation="search_web"), now=NOW).overrides
    assert (elsewhere.name, elsewhere.wins, elsewhere.ground) == (wide.pk, True, Ground.ALONE)
    assert elsewhere.why != first.why


@pytest.mark.usefixtures("known")
def test_of_two_patterns_for_instances_the_one_with_more_letters_wins_and_says_so() -> None:
    wide = overrides_services.observe(**asked(scope=Scope(operation="search_web", instance="r*"))).object
    narrow = overrides_services.observe(**asked(scope=Scope(operation="search_web", instance="r-*"))).object
    first, second = verdict_of(read("dev"), HERE, now=NOW).overrides
    assert (first.name, first.wins, first.ground) == (narrow.pk, True, Ground.LETTERS)
    assert (second.name, second.ground, second.beaten_by) == (wide.pk, Ground.LETTERS, narrow.pk)


@pytest.mark.usefixtures("known")
def test_each_setting_names_the_rule_that_says_it() -> None:
    policies.set_operation_policy(**asked(operation="search_web", settings={"max_retries": 5, "jitter": 0.5}))
    policies.set_operation_policy(**asked(operation="search_web", service="research", settings={"max_retries": 1}))
    found = verdict_of(read("dev"), HERE, now=NOW)
    narrow, wide = found.rules
    assert (narrow.wins, wide.wins, wide.beaten_by) == (True, False, narrow.name)
    said = {one.name: (one.value, one.rule) for one in found.settings}
    assert said["max_retries"] == (1, narrow.name)
    assert said["jitter"] == (0.5, wide.name)
    assert said["base_delay_s"] == (0.5, ""), "code or default"


@pytest.mark.django_db
@pytest.mark.usefixtures("now")
def test_people_and_programs_read_the_same_verdict() -> None:
    keys.forget_keys()
    troubled_fleet()
    held = overrides_services.observe(**asked(scope=SEARCH)).object
    where = {"operation": "search_web", "service": "research"}
    page = Shown(signed_in().get("/explain", where)).one("claim", "override")
    [told] = Program("read").get("explain", **where)[1]["overrides"]
    assert (page.data["name"], page.data["ground"], "wins" in page.data) == (held.pk, Ground.ALONE, True)
    assert (told["name"], told["ground"], told["wins"]) == (held.pk, Ground.ALONE, True)
    assert told["why"] in page.text
    assert Shown(signed_in().get("/explain")).having("claim") == []


@pytest.mark.django_db
@pytest.mark.usefixtures("now")
def test_the_rules_of_its_service_hold_for_an_instance_that_is_named_alone() -> None:
    troubled_fleet()
    policies.set_operation_policy(**asked(operation="search_web", service="research", settings={"max_retries": 1}))
    page = Shown(signed_in().get("/explain?operation=search_web&instance=r-0"))
    [rule] = page.having("claim", "rule")
    assert page.one("setting", "max_retries").data["rule"] == rule.data["name"]
    assert page.fields["service"] == "research"
    assert Shown(signed_in().get("/explain?operation=search_web&instance=r-99")).having("claim", "rule") == []
