"""Keys and people: who may change them, what is told once, what is written down, and who is never locked out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from events.keys import find_key
from events.models import AgentKey
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.access.services import accounts, keys
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.commands import CommandResult
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.keys_and_people import EVERYWHERE_ADMIN, account

pytestmark = pytest.mark.django_db

ADMIN = person(Role.ADMIN)


def made(**changed: Any) -> CommandResult[keys.IssuedKey]:
    given: dict[str, Any] = {"name": "billing", "scopes": ["ingest"]}
    return keys.make_key(**asked(by=ADMIN, now=timezone.now()) | given | changed)


# -- keys -------------------------------------------------------------------------------------------------------------
def test_a_key_is_told_once_opens_and_leaves_no_secret_behind() -> None:
    first = made(days=30, key="k-1").object
    again = made(days=30, key="k-1")
    assert first.token
    assert (again.was_already, again.object.key, again.object.token) == (True, first.key, None)
    found = find_key(first.token)
    assert found is not None
    assert found.scopes == "ingest"
    assert first.key.expires_at is not None
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.object, entry.revision) == ("key.create", "billing", None)
    assert first.token not in str(list(AuditEntry.objects.values()))
    assert verify_chain("dev").is_whole


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": " "}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["all"]}, "scopes"),
        ({"days": 0}, "days"),
        ({"reason": "x" * 501}, "reason"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused_by_its_field(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(CommandRejected) as refused:
        made(**changed)
    assert field in refused.value.fields
    assert not AgentKey.objects.exists()


def test_a_replaced_key_goes_on_for_the_overlap_and_no_longer() -> None:
    old = made(days=30).object
    now = timezone.now() + timedelta(days=20)
    new = keys.rotate_key(**asked(by=ADMIN, now=now), prefix=old.key.prefix, overlap_s=3600.0).object
    old.key.refresh_from_db()
    assert old.key.expires_at == now + timedelta(hours=1)
    assert keys.is_good(old.key, now)
    assert not keys.is_good(old.key, now + timedelta(hours=1))
    assert (new.key.name, new.key.scopes, bool(new.token)) == ("billing", "ingest", True)
    assert new.key.expires_at is not None
    assert abs(new.key.expires_at - now - timedelta(days=30)) < timedelta(minutes=1)
    entry = AuditEntry.objects.get(verb="key.rotate")
    assert entry.after["replaces"] == old.key.prefix


@pytest.mark.parametrize(
    ("end_s", "ends_s"), [(None, 3600.0), (3599.0, 3599.0), (3600.0, 3600.0), (3601.0, 3600.0), (90000.0, 3600.0)]
)
def test_rotated_key_ends_with_overlap_at_latest(end_s: float | None, ends_s: float) -> None:
    old, now = made().object.key, timezone.now()
    AgentKey.objects.filter(pk=old.pk).update(expires_at=None if end_s is None else now + timedelta(seconds=end_s))
    keys.rotate_key(**asked(by=ADMIN, now=now), prefix=old.prefix, overlap_s=3600.0)
    old.refresh_from_db()
    assert old.expires_at == now + timedelta(seconds=ends_s)
    assert AuditEntry.objects.get(verb="key.rotate").after["old_ends_at"] == old.expires_at.isoformat()


@pytest.mark.parametrize("days", [None, 3])
def test_a_key_that_is_replaced_again_is_replaced_for_its_whole_life(days: int | None) -> None:
    """Its own end is that of the overlap by then."""
    now = timezone.now()
    old = made(days=days).object.key.prefix
    for number in range(3):
        new = keys.rotate_key(**asked(by=ADMIN, now=now, key=f"r-{number}"), prefix=old, overlap_s=3600.0).object.key
        assert (new.expires_at is None) is (days is None)
        if new.expires_at is not None and days is not None:
            assert abs(new.expires_at - now - timedelta(days=days)) < timedelta(minutes=1)


def test_a_key_that_is_over_is_not_replaced_and_one_of_elsewhere_is_not_found() -> None:
    prefix = made().object.key.prefix
    keys.revoke(**asked(by=ADMIN), prefix=prefix)
    with pytest.raises(CommandRejected) as over:
        keys.rotate_key(**asked(by=ADMIN), prefix=prefix)
    with pytest.raises(CommandRejected) as elsewhere:
        keys.revoke(**asked(by=person(Role.ADMIN, environment="prod"), environment="prod"), prefix=prefix)
    assert (over.value.status, elsewhere.value.status) == (409, 404)


def test_a_revoked_key_opens_nothing(django_capture_on_commit_callbacks: Any) -> None:
    issued = made().object
    assert issued.token
    assert find_key(issued.token)
    with django_capture_on_commit_callbacks(execute=True):
        keys.revoke(**asked(by=ADMIN), prefix=issued.key.prefix)
    assert find_key(issued.token) is None
    assert keys.revoke(**asked(by=ADMIN), prefix=issued.key.prefix).was_already


def test_only_admins_touch_keys_and_accounts() -> None:
    prefix = made().object.key.prefix
    approver = person(Role.APPROVER)
    for act in (
        lambda: made(by=approver),
        lambda: keys.revoke(**asked(by=approver), prefix=prefix),
        lambda: keys.rotate_key(**asked(by=approver), prefix=prefix),
        lambda: account(accounts.create_account, "eva", "dev", by=approver, role="viewer"),
        lambda: account(accounts.reset_account, "eva", by=ADMIN),  # an admin of one environment, and a whole account
    ):
        with pytest.raises(CommandRejected) as refused:
            act()
        assert refused.value.status == 403
    assert AgentKey.objects.filter(revoked_at=None).count() == 1
    assert not User.objects.exists()


# -- people -----------------------------------------------------------------------------------------------------------
def test_a_role_is_given_changed_and_taken_and_each_is_written_down() -> None:
    account(accounts.create_account, "eva", "dev", role="viewer")
    account(accounts.grant_role, "eva", "dev", role="operator")
    assert RoleGrant.objects.get().role == "operator"
    assert account(accounts.grant_role, "eva", "dev", role="operator").was_already
    account(accounts.take_role, "eva", "dev")
    assert not RoleGrant.objects.exists()
    told = [(one.verb, one.before, one.after) for one in AuditEntry.objects.order_by("number")]
    assert told == [
        ("account.create", None, {"role": "viewer", "environment": "dev"}),
        ("account.grant", {"role": "viewer"}, {"role": "operator"}),
        ("account.take", {"role": "operator"}, {"role": None}),
    ]


@pytest.mark.parametrize(
    "act",
    [
        lambda: account(accounts.disable_account, "last"),
        lambda: account(accounts.take_role, "last"),
        lambda: account(accounts.grant_role, "last", role="viewer"),
    ],
)
def test_the_last_admin_of_everything_stays_one(act: Callable[[], Any]) -> None:
    account(accounts.create_account, "last", role="admin")
    with pytest.raises(CommandRejected) as refused:
        act()
    assert refused.value.code == "last_admin"
    account(accounts.create_account, "other", role="admin")
    act()


@pytest.mark.parametrize(
    "made_other",
    [
        lambda: account(accounts.disable_account, "other"),
        lambda: account(accounts.grant_role, "other", role="approver"),
        lambda: account(accounts.take_role, "other"),
    ],
)
def test_admin_without_access_does_not_replace_the_last(made_other: Callable[[], Any]) -> None:
    for name in ("last", "other"):
        account(accounts.create_account, name, role="admin")
    made_other()
    account(accounts.grant_role, "other", "dev", role="admin")
    for act in (accounts.disable_account, accounts.take_role):
        with pytest.raises(CommandRejected) as refused:
            account(act, "last")
        assert refused.value.code == "last_admin"


def test_who_is_locked_out_loses_the_session_and_comes_in_again() -> None:
    made_ = account(accounts.create_account, "eva", "dev", role="viewer").object
    client = Client()
    assert client.login(username="eva", password=made_.password)
    account(accounts.disable_account, "eva")
    assert client.get("/settings/you").status_code == 302
    assert not Client().login(username="eva", password=made_.password)
    account(accounts.enable_account, "eva")
    assert Client().login(username="eva", password=made_.password)
    with pytest.raises(CommandRejected, match="own_account"):
        account(accounts.disable_account, "eva", by=replace(EVERYWHERE_ADMIN, user_id=made_.user.pk))
