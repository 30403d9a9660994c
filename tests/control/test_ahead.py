"""Overrides that begin later, probes, many at once, and which of several wins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from events import keys
from recovery_ops.control import actions, desired
from recovery_ops.control.actions import Refused
from recovery_ops.control.actions.overrides import resting_id
from recovery_ops.control.actions.probes import probe
from recovery_ops.control.desired import read
from recovery_ops.control.models import AuditEntry, BreakerProbe, Override
from recovery_ops.control.precedence import verdict_of
from recovery_ops.rules.scope import Place, Scope
from recovery_ops.wire.desired import parse_desired
from tests.support.actions import REASON, SEARCH, asked, trip
from tests.support.api_client import Program
from tests.support.fleet import today_fleet
from tests.support.pages import signed_in, text_of, troubled_fleet
from tests.support.stories import NOW

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
    with pytest.raises(Refused) as refused:
        trip(starts_in_s=3600.0, reason="the provider is upgraded tonight")
    assert (refused.value.status, refused.value.code) == (409, "held")
    later = trip(starts_in_s=7200.0, reason="the provider is upgraded tonight")
    assert later.object.starts_at == NOW + timedelta(hours=2)
    told = parse_desired(desired.document("dev", now=NOW)).overrides
    holding = [sum(one.holds_at((NOW + timedelta(hours=at)).timestamp()) for one in told) for at in (0, 1.9, 2.5, 3)]
    assert holding == [1, 1, 1, 0], "the one that holds goes on until its own end"


@pytest.mark.usefixtures("known")
def test_what_holds_is_not_prolonged_into_a_window() -> None:
    held = trip().object
    window = trip(starts_in_s=2 * 3600.0, reason="the provider is upgraded tonight").object
    with pytest.raises(Refused) as refused:
        actions.extend(**asked(override_id=held.pk, expires_in_s=3 * 3600.0))
    assert (refused.value.status, refused.value.code) == (409, "held")
    assert "from 16:26:18 UTC on: “the provider is upgraded tonight”" in str(refused.value)
    until = actions.extend(**asked(override_id=held.pk, expires_in_s=2 * 3600.0)).object
    assert until.expires_at == window.starts_at
    actions.release(**asked(override_id=window.pk))
    assert actions.extend(**asked(override_id=held.pk, expires_in_s=3 * 3600.0)).object.expires_at > window.starts_at


@pytest.mark.usefixtures("known")
def test_a_window_of_next_week_is_prolonged_by_whom_it_was_set() -> None:
    week_s = 7 * 24 * 3600.0
    window = trip(starts_in_s=week_s, expires_in_s=3600.0).object
    longer = actions.extend(**asked(override_id=window.pk, expires_in_s=week_s + 7200.0)).object
    assert longer.expires_at == window.starts_at + timedelta(hours=2)
    with pytest.raises(Refused, match=r"is at most 86400 seconds \(24 h\) after it begins; an admin"):
        actions.extend(**asked(override_id=window.pk, expires_in_s=week_s + 25 * 3600.0))
    with pytest.raises(Refused, match=r"it lasts until 28 Nov 16:26:18 UTC"):
        actions.extend(**asked(override_id=window.pk, expires_in_s=3600.0))


@pytest.mark.usefixtures("known")
def test_two_nights_are_two_windows_and_a_trip_now_leaves_both() -> None:
    nights = [trip(starts_in_s=hours * 3600.0, reason=f"upgrade of night {hours}").object for hours in (20, 44)]
    now = trip().object
    assert list(Override.objects.live("dev").order_by("starts_at")) == [now, *nights]
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
    night = trip(starts_in_s=72_000.0, reason="the provider is upgraded tonight").object
    now = trip().object
    assert resting_id("dev", SEARCH) == now.pk
    actions.release(**asked(override_id=now.pk))
    assert resting_id("dev", SEARCH) == night.pk
    # Nobody took its place: to end it twice is no conflict.
    assert actions.release(**asked(override_id=now.pk)).was_already


@pytest.mark.usefixtures("known")
def test_a_reset_leaves_tonights_window_alone() -> None:
    night = trip(starts_in_s=72_000.0, reason="the provider is upgraded tonight").object
    trip()
    actions.reset(**asked(scope=SEARCH))
    assert list(Override.objects.live("dev")) == [night]


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("starts_in_s", [-1.0, float("nan"), 1e9, "soon", True])
def test_when_it_begins_is_checked(starts_in_s: Any) -> None:
    with pytest.raises(Refused) as refused:
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
    assert "Let one call through" in text_of(client.get("/breakers/search_web/probe"))
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
    assert program.post("breakers", body | {"verb": "extend"})[1]["fields"] == {"expires_in_s": "is missing"}
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
    narrow = actions.observe(**asked(scope=Scope(operation="search_web", instance="r-0"))).object
    first, second = verdict_of(read("dev"), HERE, now=NOW).overrides
    assert (first.name, first.wins, first.why) == (
        narrow.pk,
        True,
        "it is the most specific: it speaks of an instance",
    )
    assert (second.name, second.wins) == (wide.pk, False)
    assert second.why == f"{narrow.pk} is more specific: it speaks of an instance"
    [elsewhere] = verdict_of(read("dev"), Place(service="x", instance="y", operation="search_web"), now=NOW).overrides
    assert (elsewhere.name, elsewhere.wins, elsewhere.why) == (wide.pk, True, "nothing else speaks of this place")


@pytest.mark.usefixtures("known")
def test_of_two_patterns_for_instances_the_one_with_more_letters_wins_and_says_so() -> None:
    wide = actions.observe(**asked(scope=Scope(operation="search_web", instance="r*"))).object
    narrow = actions.observe(**asked(scope=Scope(operation="search_web", instance="r-*"))).object
    first, second = verdict_of(read("dev"), HERE, now=NOW).overrides
    letters = "of those that speak of an instance it has more letters beside the stars"
    assert (first.name, first.why) == (narrow.pk, f"it is the most specific: {letters}")
    assert (second.name, second.why) == (wide.pk, f"{narrow.pk} is more specific: {letters}")


@pytest.mark.usefixtures("known")
def test_each_knob_names_the_rule_that_says_it() -> None:
    actions.set_operation_policy(**asked(operation="search_web", knobs={"max_retries": 5, "jitter": 0.5}))
    actions.set_operation_policy(**asked(operation="search_web", service="research", knobs={"max_retries": 1}))
    found = verdict_of(read("dev"), HERE, now=NOW)
    said = {one.name: (one.value, one.by) for one in found.knobs}
    assert said["max_retries"] == (1, "rule search_web of research")
    assert said["jitter"] == (0.5, "rule search_web")
    assert said["base_delay_s"] == (0.5, "code or default")
    assert [(one.name, one.wins) for one in found.rules] == [("search_web of research", True), ("search_web", False)]


@pytest.mark.django_db
@pytest.mark.usefixtures("now")
def test_people_and_programs_read_the_same_verdict() -> None:
    keys.forget_keys()
    troubled_fleet()
    held = actions.observe(**asked(scope=SEARCH)).object
    said = text_of(signed_in().get("/explain?operation=search_web&service=research"))
    assert held.pk in said
    assert "nothing else speaks of this place" in said
    assert "Which rule wins?" in text_of(signed_in().get("/explain"))


@pytest.mark.django_db
@pytest.mark.usefixtures("now")
def test_the_rules_of_its_service_hold_for_an_instance_that_is_named_alone() -> None:
    troubled_fleet()
    actions.set_operation_policy(**asked(operation="search_web", service="research", knobs={"max_retries": 1}))
    said = text_of(signed_in().get("/explain?operation=search_web&instance=r-0"))
    assert "rule search_web of research" in said
    assert 'value="research"' in signed_in().get("/explain?operation=search_web&instance=r-0").content.decode()
    assert "rule search_web of research" not in text_of(signed_in().get("/explain?operation=search_web&instance=r-99"))
