"""What the overview tells of keys that end, questions that come back, and causes that are new or back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from events.models import AgentKey, Fact
from events.moments import from_us
from recovery_ops.control.dashboard.views.needs_attention import Item
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.control.notifications.models.notifications import SeenFailure
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import HOSTILE, signed_in, text_of
from tests.support.query_counts import asked_of
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, failed, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

MENDED = "the gateway was mended"
LATE = "Read timed out after 30 s"
HOSTILE_IMAGE = "<img src=x>"


def a_key(name: str, ends_in: timedelta, **more: Any) -> AgentKey:
    given: dict[str, Any] = {
        "environment": "dev",
        "scopes": "ingest",
        "created_at": NOW,
        "prefix": name,
        "digest": name,
    }
    return AgentKey.objects.create(name=name, expires_at=NOW + ends_in, **(given | more))


def asleep(wakes_in: timedelta, **more: Any) -> Escalation:
    given: dict[str, Any] = {
        "environment": "dev",
        "key": str(wakes_in),
        "queue": "ops",
        "reason": "question",
        "operation": "search_web",
        "opened_at": NOW,
        "seen_at": NOW,
        "acknowledge_by": NOW + timedelta(days=3),
        "resolve_by": NOW + timedelta(days=3),
        "snoozed_until": NOW + wakes_in,
    }
    return Escalation.objects.create(**(given | more))


def a_case(name: str, **more: Any) -> FailureCase:
    given = {"environment": "dev", "state": FailureCase.REGRESSED, "decided_at": NOW, "decided_by": "Ana"}
    return FailureCase.objects.create(fingerprint=name, **(given | more))


def items_of(page: Any) -> dict[str, Item]:
    """What needs somebody, by its key."""
    return {one.key: one for one in page.context["items"].shown}


def panel_of(page: str, name: str) -> str:
    return page.partition(f'aria-labelledby="{name}-title"')[2].partition("</section>")[0]


def test_keys_that_end_within_days_and_questions_that_come_back_stand_with_what_prolongs_them() -> None:
    Story().tell(heartbeat(), at=5).store()
    a_key("soon", timedelta(days=2))
    a_key("later", timedelta(days=30))
    a_key("over", -timedelta(hours=1))
    a_key("gone", timedelta(days=1), revoked_at=NOW)
    a_key("other", timedelta(days=1), environment="prod")
    one = asleep(timedelta(hours=2))
    asleep(timedelta(days=2))
    asleep(timedelta(hours=3), resolved_at=NOW)
    shown = panel_of(signed_in(Role.ADMIN).get("/").content.decode(), "expiring")
    assert shown.count("<li") == 2
    assert shown.index(f"ESC-{one.pk}") < shown.index("Key soon"), "what ends first stands first"
    assert "/settings/keys/soon/replace" in shown
    assert f"/escalations/act/snooze?number={one.pk}" in shown
    seen = panel_of(signed_in(Role.VIEWER).get("/").content.decode(), "expiring")
    assert "Key soon" in seen
    assert "/replace" not in seen
    assert "/act/snooze" not in seen


def test_causes_that_are_back_or_were_never_seen_before_need_somebody() -> None:
    Story().tell(heartbeat(), at=5).tell(failed(Category.TIMEOUT), at=60).store()
    a_case("f00d", reason=MENDED)
    a_case("cafe", state=FailureCase.RESOLVED)
    a_case("beef", environment="prod")
    SeenFailure.objects.create(environment="dev", fingerprint=HOSTILE, first_at=NOW - timedelta(minutes=9), last_at=NOW)
    SeenFailure.objects.create(environment="dev", fingerprint="old", first_at=NOW - timedelta(hours=2), last_at=NOW)
    client = signed_in(Role.VIEWER)
    page = client.get("/")
    said, items = text_of(page), items_of(page)
    back, new = items["back-f00d"], items["new-causes"]
    assert ("f00d" in back.title, left_out(back.detail, "Ana", MENDED), back.href) == (True, [], "/failures/f00d")
    assert (HOSTILE in new.title, new.since) == (True, NOW - timedelta(minutes=9))
    assert f"{back.detail}" in said
    assert "9m 00s ago" in said
    assert "<img" not in panel_of(page.content.decode(), "now")
    for word in ("cafe", "beef", "Cause old"):
        assert word not in said
    for number in range(4):
        a_case(f"more-{number}")
        SeenFailure.objects.create(environment="dev", fingerprint=f"new-{number}", first_at=NOW, last_at=NOW)
    page = client.get("/")
    for key, count in (("back-rest", "2"), ("new-causes", "5")):
        item = items_of(page)[key]
        assert item.title.startswith(f"{count} ")
        assert Shown(page).within("key", key).links[0] == "/failures"
    assert asked_of(client, "/") <= 15


def test_the_overview_stays_within_its_questions_where_a_shortage_goes_on_for_hours() -> None:
    story = Story().tell(heartbeat(), at=5)
    for at in range(3, 9000, 120):
        story.tell(failed(Category.RATE_LIMITED), at=at)
    story.store()
    client = signed_in(Role.VIEWER)
    client.get("/")
    assert asked_of(client, "/") <= 15


def test_a_cause_that_is_back_or_new_goes_by_what_it_says_where_that_is_known() -> None:
    story = Story().tell(heartbeat(), at=5)
    story.tell(failed(Category.TIMEOUT, fingerprint="beef", message=LATE), at=60)
    story.tell(failed(Category.RATE_LIMITED, fingerprint="f00d"), at=70)
    long = f"{HOSTILE_IMAGE} " + 30 * "again "
    story.tell(failed(Category.OVERLOADED, fingerprint="cafe", message=long), at=80).store()
    a_case("f00d", reason=MENDED)
    a_case("gone")
    first = Fact.objects.get(category=Category.TIMEOUT)
    SeenFailure.objects.create(environment="dev", fingerprint="beef", first_at=from_us(first.at_us), last_at=NOW)
    client = signed_in(Role.VIEWER)
    for address in ("/", "/wallboard"):
        page = client.get(address)
        said, items = text_of(page), items_of(page)
        assert f"Timeout “{LATE}”" in items["new-causes"].title
        back = items["back-f00d"].title
        assert ("(429)" in back, "search_web" in back) == (True, True)
        assert "gone" in items["back-gone"].title, "nothing is known of it but its name"
        assert [one.title for one in items.values() if one.title not in said] == []
        assert "f00d" not in said
    second = Fact.objects.get(category=Category.OVERLOADED)
    SeenFailure.objects.create(environment="dev", fingerprint="cafe", first_at=from_us(second.at_us), last_at=NOW)
    page = client.get("/")
    new = items_of(page)["new-causes"]
    assert new.title.startswith("2 ")
    assert f"overloaded (529) “{HOSTILE_IMAGE}" in new.detail
    assert f"timeout “{LATE}”" in new.detail
    assert "again…”" in new.detail or "again …”" in new.detail, "a long one is cut"
    assert HOSTILE_IMAGE not in panel_of(page.content.decode(), "now")
