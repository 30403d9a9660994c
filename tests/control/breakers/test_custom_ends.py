"""The end of an override as a moment on the reader's clock, instead of a duration."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, SEARCH
from tests.support.form_faults import faults_of
from tests.support.pages import signed_in

pytestmark = pytest.mark.usefixtures("known")
TRIP = f"/breakers/{SEARCH.operation}/trip"
FORM = {"reason": REASON, "scope": "all", "expires_in_s": "custom"}


def local(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M}"


def in_minutes(minutes: float) -> datetime:
    return timezone.now().replace(second=0, microsecond=0) + timedelta(minutes=minutes)


def test_override_ends_at_the_typed_moment() -> None:
    ends_at = in_minutes(47)
    assert signed_in(Role.OPERATOR).post(TRIP, FORM | {"ends_at": local(ends_at)}).status_code == 303
    assert abs(Override.objects.get().expires_at - ends_at) < timedelta(seconds=5)


def test_scheduled_override_ends_at_the_typed_moment() -> None:
    starts_at, ends_at = in_minutes(60), in_minutes(85)
    typed = {"starts_at": local(starts_at), "ends_at": local(ends_at)}
    assert signed_in(Role.OPERATOR).post(TRIP, FORM | typed).status_code == 303
    made = Override.objects.get()
    assert abs(made.starts_at - starts_at) < timedelta(seconds=5)
    assert abs(made.expires_at - ends_at) < timedelta(seconds=5)


@pytest.mark.parametrize(
    ("typed", "faults"),
    [
        ({}, {"ends_at": "required"}),
        ({"ends_at": "soon"}, {"ends_at": "invalid"}),
        ({"ends_at": local(in_minutes(-10))}, {"ends_at": "past"}),
        ({"ends_at": local(in_minutes(30)), "starts_at": local(in_minutes(40))}, {"ends_at": "past"}),
    ],
)
def test_faulty_end_is_named_beside_its_field(typed: dict[str, str], faults: dict[str, str]) -> None:
    assert faults_of(signed_in(Role.OPERATOR).post(TRIP, FORM | typed)) == faults
    assert not Override.objects.exists()


def test_end_too_far_away_is_refused() -> None:
    answer = signed_in(Role.OPERATOR).post(TRIP, FORM | {"ends_at": local(in_minutes(25 * 60))})
    assert answer.status_code == 400
    assert list(answer.context["form"].errors) == ["expires_in_s"]


def test_typed_end_counts_only_where_it_is_chosen() -> None:
    form = FORM | {"expires_in_s": "600", "ends_at": local(in_minutes(300))}
    assert signed_in(Role.OPERATOR).post(TRIP, form).status_code == 303
    made = Override.objects.get()
    assert abs((made.expires_at - made.starts_at).total_seconds() - 600) < 5


@pytest.mark.parametrize("address", ["/bulk", "/shed"])
def test_other_forms_take_a_typed_end(address: str) -> None:
    form = FORM | {"verb": "trip", "name": SEARCH.operation, "act": "critical", "confirm": "dev", "ends_at": "soon"}
    assert faults_of(signed_in(Role.ADMIN).post(address, form)) == {"ends_at": "invalid"}
