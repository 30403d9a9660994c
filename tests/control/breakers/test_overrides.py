"""Trip, disable, observe, release, extend, and the end by time: what each one means, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services import overrides as overrides_services
from recovery_ops.control.core import audit_log as audit
from recovery_ops.control.core.actors import system_actor
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.policies.services import policies
from recovery_ops.rules.enums import State
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, SEARCH, asked, person, small_fleet, trip, written
from tests.support.stories import NOW

pytestmark = pytest.mark.usefixtures("known")

DAY_S = 24 * 3600


def rejection(**changed: Any) -> CommandRejected:
    """Why a trip is refused; and nothing is written but the refusal itself."""
    before = current_revision("dev")
    with pytest.raises(CommandRejected) as refused:
        trip(**changed)
    assert current_revision("dev") == before
    return refused.value


def document() -> dict[str, Any]:
    return desired.document("dev", service="research", instance="r-0", group="", now=NOW)


@pytest.mark.parametrize(
    ("action", "mode"),
    [
        (overrides_services.trip, State.FORCED_OPEN),
        (overrides_services.disable, State.DISABLED),
        (overrides_services.observe, State.METRICS_ONLY),
    ],
)
def test_agents_are_told_who_imposed_what_and_until_when(action: Any, mode: State) -> None:
    done = action(**asked(scope=SEARCH))
    [told] = document()["overrides"]
    assert told == {
        "id": done.object.pk,
        "mode": mode.value,
        "scope": {"operation": "search_web"},
        "reason": REASON,
        "by": "ana",
        "starts_at": NOW.timestamp(),
        "expires_at": NOW.timestamp() + 3600,
        "revision": 1,
        "ramp_s": 0.0,
    }


@pytest.mark.parametrize(
    ("role", "expires_in_s", "bound"),
    [
        (Role.OPERATOR, 60, ""),
        (Role.OPERATOR, 59.9, "60"),
        (Role.OPERATOR, float("nan"), "60"),
        (Role.OPERATOR, DAY_S, ""),
        (Role.OPERATOR, DAY_S + 1, "86400"),
        (Role.ADMIN, 30 * DAY_S, ""),
        (Role.ADMIN, 30 * DAY_S + 1, "2592000"),
        (Role.ADMIN, 10**400, "2592000"),
        (Role.ADMIN, True, "number"),
    ],
)
def test_an_override_has_an_end_within_bounds(role: Role, expires_in_s: Any, bound: str) -> None:
    if not bound:
        assert trip(by=person(role), expires_in_s=expires_in_s).object.expires_at == NOW + timedelta(
            seconds=expires_in_s
        )
    else:
        [(name, fault)] = rejection(by=person(role), expires_in_s=expires_in_s).fields.items()
        assert name == "expires_in_s"
        assert bound in fault.split()


@pytest.mark.parametrize(
    ("scope", "code", "fields"),
    [
        (Scope(operation="serch_web"), "unknown_breaker", {"operation"}),
        (Scope(operation="sear_*"), "unknown_breaker", {"operation"}),
        (Scope(operation="search_web", service="billing"), "unknown_scope", {"service"}),
        (Scope(operation="search_web", instance="r-9"), "unknown_scope", {"instance"}),
        (Scope(operation="search_web", group="canary"), "unknown_scope", {"group"}),
    ],
)
def test_what_nobody_reported_is_404_unless_meant_ahead(scope: Scope, code: str, fields: set[str]) -> None:
    refused = rejection(scope=scope)
    assert (refused.status, refused.code, set(refused.fields)) == (404, code, fields)
    assert "ahead" in refused.detail
    assert trip(scope=scope, ahead=True).revision == 1


@pytest.mark.parametrize(
    "scope",
    [
        Scope(operation="search_web", service="research"),
        Scope(operation="search_web", instance="r-1"),
        Scope(operation="search_*"),
        Scope(operation="*", service="resea*"),
        Scope(),
    ],
)
def test_every_part_of_an_environment_that_reported_can_be_ruled(scope: Scope) -> None:
    assert trip(scope=scope).object.scope == scope


def test_a_breaker_of_another_environment_is_not_known() -> None:
    small_fleet(environment="prod")
    assert rejection(by=person(environment="test"), environment="test").code == "unknown_breaker"


def test_a_scope_part_is_a_name_that_can_be_shown() -> None:
    faults = rejection(scope=Scope(operation="", service="x" * 201, instance="a\0b"), ahead=True).fields
    assert faults.keys() == {"operation", "service", "instance"}


# -- twice, and too late ----------------------------------------------------------------------------------------------


def test_tripping_twice_is_not_an_error_and_changes_nothing() -> None:
    first = trip(seen=0)
    before = written()
    second = trip(seen=0, now=NOW + timedelta(seconds=2))
    assert (second.was_already, second.object, second.revision) == (True, first.object, 1)
    assert written() == before


@pytest.mark.parametrize(
    "changed", [{"reason": "another reason altogether"}, {"expires_in_s": 7200}, {"now": NOW + timedelta(minutes=5)}]
)
def test_a_trip_with_other_content_takes_the_place_of_the_first(changed: dict[str, Any]) -> None:
    first, second = trip(), trip(**changed)
    assert (second.was_already, second.revision) == (False, 2)
    first.object.refresh_from_db()
    assert (first.object.ended_by, first.object.end_reason, first.object.end_revision) == ("ana", "replaced: trip", 2)
    assert [one["id"] for one in document()["overrides"]] == [second.object.pk]


def test_who_looked_too_early_is_told_who_changed_what_and_when() -> None:
    why = "helios answers 529 everywhere"
    trip(reason=why)
    refused = rejection(by=person(name="bob"), seen=0, reason="bob has his own reasons")
    assert (refused.status, refused.code) == (409, "stale")
    assert all(word in refused.detail for word in ("ana", "search_web", "14:26:18 UTC", "revision 1", f"“{why}”"))
    assert [(entry.verb, entry.revision) for entry in refused.changes] == [("breaker.trip", 1)]
    again = trip(by=person(name="bob"), seen=1, reason="bob has his own reasons")
    assert again.revision == 2


def by_the_console(verb: str, **more: Any) -> None:
    """What the console does by itself, as the quorum rule, a ramp or the clock do."""
    deed = audit.AuditRecord(verb=verb, object="search_web", operation="search_web", reason="so says a rule", **more)
    audit.append("dev", deed, by=system_actor("quorum"), at=NOW)


@pytest.mark.parametrize("verb", ["breaker.trip", "breaker.release", "breaker.reset"])
def test_who_looked_before_a_rule_acted_is_told_of_it(verb: str) -> None:
    trip(scope=Scope(operation="other"), ahead=True)
    by_the_console(verb, revision=1)
    refused = rejection(seen=0)
    assert (refused.code, [entry.verb for entry in refused.changes]) == ("stale", [verb])
    assert refused.detail.startswith("quorum ")


@pytest.mark.parametrize("verb", ["breaker.expire", "breaker.extend"])
def test_what_ended_by_its_time_or_went_on_makes_nobody_late(verb: str) -> None:
    trip(scope=Scope(operation="other"), ahead=True)
    by_the_console(verb, revision=1)
    assert trip(seen=0).revision == 2


def test_many_changes_of_others_hide_no_change_of_this() -> None:
    trip(reason="helios answers 529 everywhere")
    for number in range(201):
        deed = audit.AuditRecord(
            verb="breaker.trip", object="x", operation=f"x-{number}", reason="one of many", revision=1
        )
        audit.append("dev", deed, by=person(), at=NOW)
    assert [entry.operation for entry in rejection(by=person(name="bob"), seen=0).changes] == ["search_web"]
    wide = rejection(scope=Scope(operation="x-*"), seen=0, ahead=True)
    assert len(wide.changes) == 200


@pytest.mark.parametrize(
    "elsewhere",
    [
        lambda: trip(scope=Scope(operation="other"), ahead=True),
        lambda: policies.set_operation_policy(
            **asked(by=person(Role.EDITOR), operation="search_web", settings={"max_retries": 5})
        ),
    ],
)
def test_what_happened_elsewhere_makes_nobody_late(elsewhere: Any) -> None:
    elsewhere()
    assert trip(seen=0).revision == 2


@pytest.mark.parametrize("pattern", ["search_*", "*", "*_web"])
def test_a_wildcard_over_the_name_is_a_change_of_it(pattern: str) -> None:
    trip(scope=Scope(operation=pattern))
    assert rejection(seen=0).code == "stale"


@pytest.mark.parametrize(
    ("part", "is_asked"),
    [
        ({"service": "re*"}, True),
        ({"instance": "r-*"}, True),
        ({"service": "res*", "instance": "*-*"}, True),
        ({"instance": "r-0*"}, False),
        ({"service": "re*", "instance": "r-1"}, False),
    ],
)
def test_every_breaker_of_all_who_report_is_everybody_however_it_is_written(
    part: dict[str, str], *, is_asked: bool
) -> None:
    asked_for = asked(scope=Scope(**part), expires_in_s=60.0) | {"confirm": ""}
    if is_asked:
        with pytest.raises(CommandRejected) as refused:
            overrides_services.observe(**asked_for)
        assert list(refused.value.fields) == ["confirm"]
    assert (
        overrides_services.observe(**asked_for | ({"confirm": "dev"} if is_asked else {})).object.mode == "metrics_only"
    )


@pytest.mark.parametrize("every", ["*", "**", "?*", "*?"])
def test_every_breaker_takes_a_fresh_sign_in_however_it_is_written(every: str) -> None:
    stale = replace(person(), is_fresh=False)
    assert rejection(by=stale, scope=Scope(operation=every)).code == "sign_in_again"
    trip(by=stale, scope=Scope(operation="search_*"))


def test_a_revision_from_the_future_is_stale_too() -> None:
    refused = rejection(seen=7)
    assert (refused.status, list(refused.fields)) == (409, ["seen"])


def test_who_did_not_look_is_not_late() -> None:
    trip()
    assert trip(seen=None, reason="an emergency, by API").revision == 2


def test_an_end_that_everybody_foresaw_makes_nobody_late() -> None:
    trip(expires_in_s=60)
    later = NOW + timedelta(minutes=2)
    overrides_services.end_expired("dev", now=later)
    assert trip(seen=1, now=later).revision == 3


# -- release and extend -----------------------------------------------------------------------------------------------


def release(override: Override, **changed: Any) -> Any:
    return overrides_services.release(**asked(override_id=override.pk) | changed)


def test_a_release_takes_it_out_of_the_document() -> None:
    held = trip().object
    assert release(held).revision == 2
    assert document()["overrides"] == []
    held.refresh_from_db()
    assert (held.ended_at, held.ended_by, held.end_reason, held.end_revision) == (NOW, "ana", REASON, 2)


def test_releasing_twice_is_not_an_error() -> None:
    held = trip().object
    release(held)
    again = release(held, by=person(name="bob"), seen=1)
    assert (again.was_already, again.revision, current_revision("dev")) == (True, 2, 2)


def test_who_would_release_what_was_replaced_is_told() -> None:
    held = trip().object
    why = "it must flow after all"
    overrides_services.disable(**asked(by=person(name="bob"), scope=SEARCH, reason=why))
    with pytest.raises(CommandRejected) as refused:
        release(held, seen=1)
    assert (refused.value.status, refused.value.code) == (409, "stale")
    assert all(word in refused.value.detail for word in ("bob", "disabled", f"“{why}”"))


@pytest.mark.parametrize("action", [overrides_services.release, overrides_services.extend])
def test_an_override_that_is_not_there_is_404(action: Any) -> None:
    rest = {} if action is overrides_services.release else {"expires_in_s": 600}
    for environment in ("dev", "prod"):
        by = person(environment=environment)
        held = trip().object.pk if environment == "prod" else "ov-23456789"
        with pytest.raises(CommandRejected) as refused:
            action(**asked(by=by, environment=environment, override_id=held, **rest))
        assert (refused.value.status, refused.value.code) == (404, "unknown_override")


def extend(override: Override, expires_in_s: float, **changed: Any) -> Any:
    return overrides_services.extend(**asked(override_id=override.pk, expires_in_s=expires_in_s) | changed)


def test_an_extension_keeps_the_override_and_moves_its_end() -> None:
    held = trip().object
    half_an_hour_on = NOW + timedelta(minutes=30)
    done = extend(held, 4 * 3600, now=half_an_hour_on)
    assert (done.object.pk, done.revision) == (held.pk, 2)
    [told] = document()["overrides"]
    assert (told["id"], told["revision"]) == (held.pk, 2)
    assert told["expires_at"] == (half_an_hour_on + timedelta(hours=4)).timestamp()
    assert extend(held, 4 * 3600, now=half_an_hour_on, seen=1).was_already


@pytest.mark.parametrize(
    ("expires_in_s", "passed_s", "status", "code"),
    [(600, 0, 400, "invalid"), (2 * DAY_S, 0, 400, "invalid"), (600, 3600, 409, "ended")],
)
def test_an_extension_neither_shortens_nor_revives(
    expires_in_s: float, passed_s: float, status: int, code: str
) -> None:
    held = trip().object
    with pytest.raises(CommandRejected) as refused:
        extend(held, expires_in_s, now=NOW + timedelta(seconds=passed_s))
    assert (refused.value.status, refused.value.code) == (status, code)


# -- the end by time --------------------------------------------------------------------------------------------------


def test_time_ends_an_override_once_whoever_looks() -> None:
    short, long = trip(expires_in_s=60).object, trip(scope=Scope(operation="other"), ahead=True).object
    at = NOW + timedelta(seconds=60)
    assert overrides_services.end_expired("dev", now=at - timedelta(seconds=1)) == []
    assert [one.pk for one in overrides_services.end_expired("dev", now=at)] == [short.pk]
    assert overrides_services.end_expired("dev", now=at) == []
    assert current_revision("dev") == 3
    assert [one["id"] for one in document()["overrides"]] == [long.pk]
    short.refresh_from_db()
    assert (short.ended_at, short.ended_by, short.end_reason, short.end_revision) == (at, "expiry", "expired", 3)
    entry = AuditEntry.objects.latest("number")
    assert (entry.verb, entry.actor_kind, entry.channel, entry.revision) == ("breaker.expire", "system", "task", 3)
    assert verify_chain("dev").is_whole


def test_several_ends_by_time_share_one_revision() -> None:
    scopes = [SEARCH, Scope(operation="other"), Scope(operation="third")]
    first, second, _ = (
        trip(scope=scope, ahead=True, expires_in_s=60.0 * minute).object
        for scope, minute in zip(scopes, (1, 2, 9), strict=True)
    )
    before = current_revision("dev")
    ended = overrides_services.end_expired("dev", now=NOW + timedelta(minutes=5))
    assert {one.pk for one in ended} == {first.pk, second.pk}
    assert current_revision("dev") == before + 1
    found = Override.objects.filter(end_revision=before + 1).order_by("ended_at")
    assert [one.ended_at for one in found] == [NOW + timedelta(minutes=minute) for minute in (1, 2)]


def test_scope_without_override_names_its_last() -> None:
    release(trip().object)
    last = trip().object
    release(last)
    assert overrides_services.resting_id("dev", SEARCH) == last.pk


def test_extension_by_a_late_reader_is_refused() -> None:
    held = trip().object
    trip(scope=Scope(operation="other"), ahead=True)
    with pytest.raises(CommandRejected) as refused:
        extend(held, 7200, seen=0)
    assert (refused.value.status, refused.value.code) == (409, "stale")


def test_a_trip_over_one_that_expired_unnoted_leaves_a_true_history() -> None:
    short = trip(expires_in_s=60).object
    later = NOW + timedelta(hours=1)
    done = trip(now=later)
    assert (done.was_already, done.revision) == (False, 2)
    short.refresh_from_db()
    assert (short.ended_at, short.end_reason) == (NOW + timedelta(seconds=60), "expired")


@pytest.mark.parametrize(("instances", "ramp_s"), [(10, 0.0), (11, 2.75), (40, 10.0), (130, 30.0)])
def test_a_large_fleet_comes_back_over_a_ramp(instances: int, ramp_s: float) -> None:
    small_fleet(instances)
    assert trip().object.ramp_s == ramp_s
    assert overrides_services.disable(**asked(scope=SEARCH)).object.ramp_s == 0.0
