"""Escalations that nobody answers: what silence decides, when, and for whom."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.core.revisions import current_revision
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors.queue import row_of, rows_of
from recovery_ops.control.escalations.services.due import keep_deadlines
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.escalations.terms import then_of
from recovery_ops.rules.enums import Category
from tests.support.escalations import act, asked, one_open
from tests.support.stories import NOW, Story

pytestmark = pytest.mark.django_db


def test_silence_rejects_what_a_run_waits_for_and_tells_it() -> None:
    one = one_open(category=Category.POLICY_DENIED, escalation_id="t", deadline_s=1600.0)
    assert keep_deadlines("dev", NOW + timedelta(seconds=599)) == 0
    assert keep_deadlines("dev", NOW + timedelta(seconds=601)) == 1
    one.refresh_from_db()
    assert (one.resolution, one.resolved_by, one.revision) == ("rejected", "deadline", 1)
    assert current_revision("dev") == 1
    assert AuditEntry.objects.latest("number").verb == "escalation.default"
    assert keep_deadlines("dev", NOW + timedelta(hours=2)) == 0


@pytest.mark.parametrize(
    ("category", "resolution"), [(Category.OVERLOADED, "approved"), (Category.POLICY_DENIED, "rejected")]
)
def test_silence_allows_only_where_a_policy_may_say_so(category: Category, resolution: str) -> None:
    one_open(category=category, escalation_id="t", deadline_s=1600.0, default_action="allow")
    keep_deadlines("dev", NOW + timedelta(hours=1))
    assert Escalation.objects.get().resolution == resolution


@pytest.mark.parametrize(
    ("more", "default", "resolution"),
    [
        ({"category": Category.POLICY_DENIED}, "reject", "rejected"),
        ({"category": Category.QUOTA_EXHAUSTED}, "abort", "aborted"),
        ({"category": Category.OVERLOADED, "default_action": "allow"}, "allow", "approved"),
    ],
)
def test_silence_decides_what_no_run_waits_for_too_and_a_later_fact_asks_anew(
    more: dict[str, Any], default: str, resolution: str
) -> None:
    one = one_open(**more)
    act("acknowledge", one)
    late = NOW + timedelta(minutes=30)
    assert keep_deadlines("dev", NOW + timedelta(minutes=15)) == 1, "it asks again"
    act("acknowledge", one, now=NOW + timedelta(minutes=20))
    assert keep_deadlines("dev", late - timedelta(seconds=1)) == 0
    assert keep_deadlines("dev", late) == 1
    one.refresh_from_db()
    assert (one.resolution, one.resolved_by, one.resolved_at) == (resolution, "deadline", late)
    assert (one.revision, current_revision("dev")) == (None, 0), "no agent waits to hear of it"
    assert one.default_action == default
    assert then_of(one) in one.notes.get(verb="default").text
    entry = AuditEntry.objects.latest("number")
    assert (entry.verb, entry.after["resolution"]) == ("escalation.default", resolution)
    assert keep_deadlines("dev", late + timedelta(hours=2)) == 0
    Story().tell(asked(**more), at=-3600, run="run-2").store()
    assert open_escalations("dev", NOW + timedelta(seconds=3600)) == 1


def test_a_failure_that_nobody_named_goes_on_failing_closed_and_waits_without_a_clock() -> None:
    named, other = one_open(), one_open(operation="refund", category=Category.OVERLOADED, at=400)
    late = NOW + timedelta(minutes=31)
    Escalation.objects.filter(pk=other.pk).update(resolve_by=late + timedelta(hours=1))
    assert keep_deadlines("dev", late) == 1
    named.refresh_from_db()
    assert (named.is_open, named.default_done_at) == (True, late)
    assert named.default_action == "stay_closed"
    assert then_of(named) in named.notes.get(verb="default").text
    assert keep_deadlines("dev", late + timedelta(minutes=59)) == 0
    later = late + timedelta(hours=1)
    row = row_of(named, later)
    assert (row.is_breached, row.resolving.is_running, row.acknowledging.is_running) == (False, False, False)
    assert row.resolving.took is None
    assert [one.number for one in rows_of("dev", "open", by=None, now=late)] == [other.pk, named.pk], "it comes last"
    act("resolve", named, reason="a rule names it now", now=later)
    named.refresh_from_db()
    assert row_of(named, later).resolving.is_breached


def test_what_its_deadline_decides_is_not_put_off_beyond_it() -> None:
    one = one_open(category=Category.POLICY_DENIED)
    with pytest.raises(CommandRejected, match="14:56:18 UTC") as rejection:
        act("snooze", one, for_s=1800.0)
    assert rejection.value.code == "too_late"
    act("snooze", one, for_s=1700.0)
    act("snooze", one_open(), for_s=7200.0)
