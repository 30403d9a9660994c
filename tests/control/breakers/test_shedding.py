"""Shedding load: who still passes, until when, and that it goes by the rules of overrides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from events import keys
from recovery_ops.control.breakers.models.load_shedding import LoadShed
from recovery_ops.control.breakers.services.load_shedding import end_expired_shed, extend_shed, let_pass, shed
from recovery_ops.control.core import commands
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.desired_state import document as desired
from recovery_ops.control.policies.models.policies import PolicyRelease
from recovery_ops.control.policies.services import policies, review
from recovery_ops.rules.enums import Importance
from recovery_ops.rules.roles import Role
from recovery_ops.wire import parse_desired
from tests.support.actions import REASON, asked, person
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW

pytestmark = pytest.mark.usefixtures("known")
MOVED = "tonight they move the index"


def obeyed() -> tuple[Importance, float] | None:
    """The least importance that an agent lets pass, and for how many seconds from now."""
    told = parse_desired(desired.document("dev", service="research", instance="r-0", now=NOW)).shed
    return None if told is None else (told.least, told.expires_at - NOW.timestamp())


def begin(**changed: Any) -> commands.CommandResult[LoadShed]:
    return shed(**asked(confirm="dev") | changed)


@pytest.mark.parametrize("other", [{"least": "sheddable_plus"}, {"expires_in_s": 7200.0}])
def test_a_key_stands_for_one_least_and_one_length(other: dict[str, Any]) -> None:
    begin(key="one click")
    assert begin(key="one click").was_already
    with pytest.raises(CommandRejected) as refused:
        begin(key="one click", **other)
    assert refused.value.code == "key_used"


def test_it_ends_in_an_hour_where_nobody_says_when_and_passes_again() -> None:
    begin()
    assert obeyed() == (Importance.CRITICAL, 3600.0)
    let_pass(**asked(reason="the provider is well again"))
    assert obeyed() is None
    assert not PolicyRelease.objects.exists()


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"least": "very"}, "least"),
        ({"least": 3}, "least"),
        ({"least": "sheddable"}, "least"),
        ({"reason": "no"}, "reason"),
        ({"expires_in_s": 86_401.0}, "expires_in_s"),
        ({"expires_in_s": 1.0}, "expires_in_s"),
        ({"confirm": ""}, "confirm"),
        ({"confirm": "prod"}, "confirm"),
    ],
)
def test_it_goes_by_the_rules_of_overrides(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(CommandRejected) as refused:
        begin(**changed)
    assert set(refused.value.fields) == {field}
    assert not LoadShed.objects.exists()


def test_an_admin_may_shed_for_longer_and_a_dry_run_needs_no_confirmation() -> None:
    assert shed(**asked(dry_run=True)).is_dry_run
    assert not LoadShed.objects.exists()
    begin(by=person(Role.ADMIN), expires_in_s=90_000.0)
    assert obeyed() == (Importance.CRITICAL, 90_000.0)


def test_it_is_prolonged_and_never_cut_short() -> None:
    with pytest.raises(CommandRejected, match="ended"):
        extend_shed(**asked(expires_in_s=7200.0))
    begin()
    extend_shed(**asked(expires_in_s=7200.0))
    assert obeyed() == (Importance.CRITICAL, 7200.0)
    assert LoadShed.objects.get().revision == current_revision("dev") == 2
    with pytest.raises(CommandRejected) as sooner:
        extend_shed(**asked(expires_in_s=600.0))
    assert set(sooner.value.fields) == {"expires_in_s"}
    assert obeyed() == (Importance.CRITICAL, 7200.0)


def test_its_end_is_noted_once_by_nobody() -> None:
    begin(expires_in_s=60.0)
    later = NOW + timedelta(seconds=60)
    assert end_expired_shed("dev", now=NOW) is None
    assert end_expired_shed("dev", now=later) is not None
    assert end_expired_shed("dev", now=later) is None
    assert obeyed() is None
    noted = AuditEntry.objects.order_by("number").values_list("verb", "actor_name", "revision")
    assert list(noted) == [("load.shed", "ana", 1), ("load.expire", "expiry", 2)]


def test_asked_twice_it_is_done_once_and_a_stale_view_is_told_who_was_quicker() -> None:
    first = begin(key="k-1")
    assert begin(key="k-1").was_already
    assert begin().was_already
    with pytest.raises(CommandRejected, match="ana") as refused:
        begin(least="sheddable_plus", by=person(name="ben"), seen=0)
    assert (refused.value.status, refused.value.code) == (409, "stale")
    second = begin(least="sheddable_plus", by=person(name="ben"), seen=first.revision)
    assert (second.object.by, LoadShed.objects.live("dev").count()) == ("ben", 1)


def test_letting_pass_twice_is_no_fault_and_what_was_never_shed_is() -> None:
    with pytest.raises(CommandRejected, match="nothing_shed"):
        let_pass(**asked())
    begin()
    assert not let_pass(**asked()).was_already
    assert let_pass(**asked()).was_already


def test_it_waits_for_nobodys_approval_but_a_setting_of_the_policy_does() -> None:
    review.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    begin()
    with pytest.raises(CommandRejected, match="review_needed"):
        policies.set_operation_policy(**asked(operation="*", settings={"least_importance": "critical"}))


def test_programs_shed_extend_and_let_pass_and_are_told_what_was_assumed() -> None:
    keys.forget_keys()
    program = Program()
    status, problem = program.post("shed", {"reason": REASON})
    assert (status, list(problem["fields"]), "dev" in problem["fields"]["confirm"]) == (400, ["confirm"], True)
    status, done = program.post("shed", {"reason": REASON, "confirm": "dev"})
    assert (status, done["shed"]["least"], done["assumed"]) == (200, "critical", {"expires_in_s": 3600})
    assert program.get("shed")[1]["shed"]["id"] == program.get("status")[1]["shed"]["id"] == done["shed"]["id"]
    status, done = program.post("shed/extend", {"reason": REASON, "expires_in_s": 7200})
    assert (status, "assumed" in done) == (200, False)
    status, done = program.post("shed/release", {"reason": REASON})
    assert (status, done["shed"]["ended_by"]) == (200, "deployer")
    assert program.get("shed")[1]["shed"] is None


class TestAhead:
    """Load that is to be shed later."""

    def test_agents_are_told_now_and_keep_the_time_themselves(self) -> None:
        begin(starts_in_s=7200.0, expires_in_s=1800.0)
        told = parse_desired(desired.document("dev", service="research", instance="r-0", now=NOW)).shed
        assert told is not None
        at = NOW.timestamp()
        assert [told.holds_at(at + after_s) for after_s in (0, 7199, 7200, 8999, 9000)] == [
            *(False, False, True, True, False)
        ]
        assert not LoadShed.objects.in_force("dev", NOW).exists()

    def test_it_is_called_off_and_replaced_like_what_holds(self) -> None:
        first = begin(starts_in_s=7200.0).object
        assert begin(starts_in_s=7200.0).was_already
        second = begin(starts_in_s=5400.0).object
        first.refresh_from_db()
        assert first.end_reason == "replaced"
        let_pass(**asked(reason="the provider needs no pause"))
        second.refresh_from_db()
        assert (second.ended_at, obeyed()) == (NOW, None)

    def test_what_holds_is_not_ended_by_what_is_to_begin(self) -> None:
        begin(expires_in_s=3600.0)
        with pytest.raises(CommandRejected) as refused:
            begin(starts_in_s=1800.0, expires_in_s=7200.0)
        assert (refused.value.status, refused.value.code, LoadShed.objects.count()) == (409, "held", 1)
        assert set(refused.value.fields) == {"starts_in_s"}

    def test_what_is_to_begin_gives_way_to_what_is_needed_now_at_the_same_time(self) -> None:
        first, second = (begin(starts_in_s=at_s, reason=f"the report of {at_s}").object for at_s in (1800.0, 9000.0))
        now = begin().object
        assert obeyed() == (Importance.CRITICAL, 3600.0)
        assert list(LoadShed.objects.live("dev")) == [now, second]
        assert AuditEntry.objects.latest("number").before["id"] == first.pk

    def test_one_can_be_set_behind_what_holds_and_two_nights_are_two(self) -> None:
        held = begin(expires_in_s=3600.0).object
        nights = [begin(starts_in_s=h * 3600.0, reason=f"the close of night {h}").object for h in (1, 24, 48)]
        assert list(LoadShed.objects.live("dev")) == [held, *nights]
        told = parse_desired(desired.document("dev", service="research", instance="r-0", now=NOW))
        at = NOW.timestamp()
        shed_by = [one.id if (one := told.shed_at(at + h * 3600.0)) else None for h in (0, 1, 2, 24.5, 30, 48, 49)]
        assert shed_by == [held.pk, nights[0].pk, None, nights[1].pk, None, nights[2].pk, None]
        # Noted ends leave the others alone.
        assert end_expired_shed("dev", now=NOW + timedelta(hours=2)) == held
        assert end_expired_shed("dev", now=NOW + timedelta(hours=2)) == nights[0]
        assert list(LoadShed.objects.live("dev")) == nights[1:]

    def test_what_holds_is_not_prolonged_into_the_next(self) -> None:
        begin(expires_in_s=3600.0)
        later = begin(starts_in_s=7200.0, reason="the close of the month").object
        with pytest.raises(CommandRejected, match="the close of the month") as refused:
            extend_shed(**asked(expires_in_s=7201.0 + 60.0))
        assert (refused.value.status, refused.value.code) == (409, "held")
        assert extend_shed(**asked(expires_in_s=7200.0)).object.expires_at == later.starts_at

    def test_programs_see_all_and_call_off_one(self) -> None:
        keys.forget_keys()
        program = Program()
        body = {"reason": REASON, "confirm": "dev", "expires_in_s": 600}
        made = [program.post("shed", body | {"starts_in_s": at_s})[1]["shed"]["id"] for at_s in (1000, 3000, 5000)]
        told = program.get("shed")[1]
        assert [told["ahead"]["id"], *(one["id"] for one in told["later"])] == made
        assert program.post("shed/release", {"reason": REASON, "shed_id": made[1]})[1]["shed"]["id"] == made[1]
        assert program.post("shed/release", {"reason": REASON, "shed_id": made[1]})[1]["was_already"]
        assert program.post("shed/release", {"reason": REASON, "shed_id": "sh-none"})[0] == 404
        assert program.post("shed/release", {"reason": REASON})[1]["shed"]["id"] == made[0]
        assert program.get("shed")[1]["ahead"]["id"] == made[2]

    @pytest.mark.parametrize("starts_in_s", [-1.0, 1e9, float("nan"), "soon"])
    def test_a_time_that_is_none_is_refused(self, starts_in_s: Any) -> None:
        with pytest.raises(CommandRejected) as refused:
            begin(starts_in_s=starts_in_s)
        assert set(refused.value.fields) == {"starts_in_s"}

    @pytest.mark.django_db
    @pytest.mark.usefixtures("now")
    def test_the_page_puts_it_off_shows_it_and_calls_it_off(self) -> None:
        client = signed_in(Role.OPERATOR)
        form = {"act": "critical", "reason": REASON, "expires_in_s": "1800", "confirm": "dev", "seen": "0", "key": "k"}
        begins = (timezone.now() + timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M")
        assert client.post("/shed", form | {"starts_at": begins}).status_code == 303
        one = LoadShed.objects.get()
        assert (one.starts_at.strftime("%Y-%m-%dT%H:%M"), one.expires_at - one.starts_at) == (
            begins,
            timedelta(minutes=30),
        )
        page = client.get("/shed").context
        assert (page["held"], [ahead["one"].id for ahead in page["ahead"]]) == (None, [one.pk])
        assert f"pass:{one.pk}" in dict(page["form"].fields["act"].choices)
        gone = {"act": f"pass:{one.pk}", "reason": REASON, "seen": "1", "key": "k2"}
        assert client.post("/shed", form | gone).status_code == 303
        assert LoadShed.objects.get().ended_at is not None

    def test_who_sheds_over_what_is_planned_is_told_which(self) -> None:
        client = signed_in(Role.OPERATOR)
        planned = begin(now=timezone.now(), starts_in_s=7200.0, reason=MOVED).object
        form = {"act": "critical", "reason": REASON, "expires_in_s": "14400", "confirm": "dev", "seen": "1", "key": "k"}
        assert client.post("/shed", form).status_code == 303
        planned.refresh_from_db()
        assert planned.end_reason == "replaced"
        assert f"ana: {MOVED}" in Shown(client.get("/shed")).within("id", "toasts").root.text
