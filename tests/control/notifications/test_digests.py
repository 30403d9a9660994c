"""Digests: what is down or needs somebody, once a day or a week, at most once each time, and calm when nothing is."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events import keys
from events.capacity.detection import look
from events.capacity.reach import read_reach
from recovery_ops import cli
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.notifications.digests import Down, what_is_down
from recovery_ops.control.notifications.models.digests import Digest
from recovery_ops.control.notifications.models.notifications import Channel, Delivery, Notification
from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.notifications.services.digests import set_digest
from recovery_ops.control.notifications.services.settings import remove_channel, save_channel
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, small_fleet, trip
from tests.support.api_client import Program
from tests.support.channels import EVA, channel
from tests.support.command_line import WHY, Operator, operator
from tests.support.html import Shown
from tests.support.notifications import messages, question, told
from tests.support.pages import REASON, signed_in, text_of
from tests.support.stories import NOW, Story, failed, heartbeat, moved

__all__ = ["operator"]  # the fixture
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
EIGHT = datetime(2026, 11, 22, 7, tzinfo=NOW.tzinfo)
"""The first 08:00 in Rome after NOW."""

CALM = Down(kinds=[]).title


def daily(to: Channel | None = None, **more: Any) -> Digest:
    given: dict[str, Any] = {"at": time(8), "zone": "Europe/Rome"} | more
    return set_digest(**asked(by=EVA, number=(to or channel()).pk, **given)).object


def opened() -> None:
    """A breaker that is still open at eight, in an instance that reports then."""
    before = (NOW - EIGHT).total_seconds() + 5
    Story().tell(heartbeat(), moved(State.OPEN), at=before, received=before).store()


def test_it_is_told_at_its_hour_once_whoever_looks_how_often() -> None:
    daily()
    opened()
    assert told(EIGHT - timedelta(seconds=1)) == []
    down = what_is_down("dev", EIGHT)
    assert down.counts == {"breakers": 1}
    [made] = messages(EIGHT)
    assert (made.title, made.lines, made.severity) == (down.title, down.lines, "warning")
    [line] = made.lines
    assert all(word in line for word in ("search_web", "open", "1 of 1"))
    for later_s in (0, 1, 60, 3600):
        assert told(EIGHT + timedelta(seconds=later_s)) == []
    with CaptureQueriesContext(connection) as queries:
        tell("dev", EIGHT + timedelta(seconds=61))
    assert len(queries) <= 10, "what was told is not looked up again"


def test_a_look_that_comes_late_tells_it_and_one_that_comes_too_late_leaves_it_out() -> None:
    daily(tells_calm=True)
    assert len(told(EIGHT + timedelta(hours=2))) == 1
    assert told(EIGHT + timedelta(days=1, hours=4)) == []
    assert len(told(EIGHT + timedelta(days=2))) == 1


@pytest.mark.parametrize(("tells_calm", "says"), [(False, []), (True, [(CALM, [], "info")])])
def test_when_nothing_is_down_it_says_nothing_or_one_line(tells_calm: bool, says: list[tuple[str, Any, str]]) -> None:
    daily(tells_calm=tells_calm)
    assert [(made.title, made.lines, made.severity) for made in messages(EIGHT)] == says
    assert what_is_down("dev", EIGHT).is_calm
    opened()
    assert told(EIGHT + timedelta(seconds=5)) == [], "that hour is over: what comes then is of the rules"


def test_what_was_to_be_told_before_it_was_set_is_not() -> None:
    daily(at=time(15, 20), tells_calm=True)  # it is 15:26 in Rome
    assert told(NOW) == []
    set_digest(**asked(by=EVA, number=Channel.objects.get().pk, is_on=False))
    assert told(NOW + timedelta(days=1)) == []


def test_a_weekly_one_waits_for_its_day() -> None:
    daily(every="weekly", weekday=0, tells_calm=True)  # NOW is a Saturday
    assert told(EIGHT) == []
    assert len(told(EIGHT + timedelta(days=1))) == 1
    assert told(EIGHT + timedelta(days=2)) == []
    assert len(told(EIGHT + timedelta(days=8))) == 1


def test_two_channels_have_digests_of_their_own_and_one_that_is_off_or_gone_has_none() -> None:
    ops, night, old = (channel(name=name) for name in ("ops", "night", "old"))
    for one in (ops, night, old):
        daily(one, tells_calm=True)
    save_channel(**asked(by=EVA, number=night.pk, name="night", is_on=False))
    remove_channel(**asked(by=EVA, number=old.pk))
    assert len(told(EIGHT)) == 1
    assert Delivery.objects.get().channel == ops


def test_it_lists_what_needs_somebody_the_gravest_first_and_nothing_else() -> None:
    small_fleet(2)
    trip()
    question()
    overloaded = failed(Category.OVERLOADED, provider="helios", model="large", status_code=529)
    story = Story()
    for number in range(8):
        story.tell(overloaded, at=20 - number, instance=f"r-{number % 2}", run=f"run-{number}")
    story.store()
    look("dev", NOW)
    read_reach("dev", NOW)
    down = what_is_down("dev", NOW + timedelta(seconds=15))
    assert list(down.counts.items()) == [("escalations", 1), ("acts", 1), ("outages", 1), ("agents", 1)]
    assert len(down.kinds) == len(down.lines) == 4
    assert str(Escalation.objects.get()) in down.lines[0]
    assert all(word in down.lines[1] for word in ("search_web", "0 of 2", "r-0 and r-1"))
    assert "helios / large" in down.lines[2]
    silent = what_is_down("dev", NOW + timedelta(minutes=10))
    assert silent.counts["agents"] == 3
    assert " 3 " in silent.title


@pytest.mark.parametrize("kind", ["people", "pagerduty"])
def test_a_channel_that_names_nobody_or_opens_incidents_has_none(kind: str) -> None:
    given: dict[str, Any] = {"address": "", "secret": ""} if kind == "people" else {}
    to = channel(kind=kind, **given)
    with pytest.raises(CommandRejected) as caught:
        daily(to)
    assert list(caught.value.fields) == ["channel"]
    home = Shown(signed_in(Role.EDITOR).get("/settings/notifications"))
    assert f"/settings/notifications/channels/{to.pk}" in home.links
    assert f"/settings/notifications/channels/{to.pk}/digest" not in home.links


# -- doors -------------------------------------------------------------------------------------------------------------
def test_the_page_shows_what_it_would_say_now_and_sends_nothing() -> None:
    client, to = signed_in(Role.EDITOR), channel()
    at = f"/settings/notifications/channels/{to.pk}/digest"
    assert at in Shown(client.get("/settings/notifications")).links
    shown = client.get(at)
    assert Shown(shown).values("sends") == ["nothing"]
    assert CALM in text_of(shown)
    asks = question()
    lines = Shown(client.get(at)).one("sends", "lines")
    assert str(asks) in lines.children[0].text, "the gravest first"
    form = {"every": "weekly", "weekday": "4", "at": "08:30", "zone": "Europe/Rome", "is_on": "on", "version": "0"}
    said = {"reason": REASON, "key": "d-1"}
    assert client.post(at, form | said).status_code == 303
    saved = Digest.objects.get()
    assert (saved.every, saved.weekday, f"{saved.at:%H:%M}", saved.zone) == ("weekly", 4, "08:30", "Europe/Rome")
    assert str(saved) in Shown(client.get("/settings/notifications")).one("key", f"channel-{to.pk}").text
    assert not Delivery.objects.exists()
    assert client.post(at, form | said | {"key": "d-2", "zone": "Mars/Olympus"}).status_code in (400, 409)
    assert client.post(at, form | said | {"key": "d-3", "at": "09:00"}).status_code == 409, "its version is 1 by now"
    entry = AuditEntry.objects.get(verb="digest.save", result=AuditEntry.OK)
    assert (entry.object, entry.after["at"]) == ("the digest of ops", "08:30")
    assert verify_chain("dev").is_whole
    assert signed_in(Role.OPERATOR, "oleg").get(at).status_code == 403


def test_a_program_sets_it_and_reads_what_it_would_say() -> None:
    keys.forget_keys()
    program, to = Program("read", "settings"), channel()
    at = f"notifications/channels/{to.pk}/digest"
    assert program.get(at)[1]["digest"] is None
    for wrong in ({"at": "25:00"}, {"every": "hourly"}, {"weekday": 7}, {"zone": "Mars/Olympus"}):
        assert list(program._send("PUT", at, {"reason": REASON, **wrong}, {})[1]["fields"]) == list(wrong)
    status, answer = program._send("PUT", at, {"reason": REASON, "at": "08:00", "tells_calm": True}, {})
    assert (status, answer["digest"]["every"]) == (200, "daily"), answer
    answer = program._send("PUT", at, {"reason": REASON, "zone": "Europe/Rome"}, {})[1]["digest"]
    assert (answer["at"], answer["tells_calm"], answer["next_at"]) == ("08:00", True, "2026-11-22T07:00:00+00:00")
    assert program.get(at)[1]["now"]["is_calm"] is True
    assert not Notification.objects.exists()
    assert program.get("notifications/channels/999/digest")[0] == 404


def test_an_operator_sets_it_from_a_terminal(operator: Operator) -> None:
    to = channel()
    assert operator.run("notifications", "digest", str(to.pk)) == cli.DONE
    assert len(operator.said) == 2
    assert CALM in operator.said[1]
    assert not Digest.objects.exists()
    off = operator.said[0]
    hour = ("--every", "weekly", "--on", "4", "--at", "08:30", "--zone", "Europe/Rome", "--calm")
    assert operator.run("notifications", "digest", str(to.pk), *hour, *WHY) == cli.DONE
    one = Digest.objects.get()
    assert operator.said[0].startswith(str(one))
    assert (one.every, f"{one.at:%H:%M}", one.zone) == ("weekly", "08:30", "Europe/Rome")
    assert (one.weekday, one.tells_calm) == (4, True)
    assert operator.run("notifications", "digest", str(to.pk), "--every", "never", *WHY) == cli.DONE
    assert operator.said[0] == off
    assert not Digest.objects.get().is_on
