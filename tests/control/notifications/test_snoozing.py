"""Notices of one provider held back for a time: nothing is lost, and what waits for a person is told all the same."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from events import keys
from recovery_ops import cli
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.notifications.models.mutes import NoticeSnooze
from recovery_ops.control.notifications.models.notifications import Delivery, Notification
from recovery_ops.control.notifications.retention import KEPT_FOR, forget_old
from recovery_ops.control.notifications.services.muting import lift, snooze
from recovery_ops.rules.enums import State
from recovery_ops.rules.roles import Role
from tests.support import notifications
from tests.support.actions import asked, person, trip
from tests.support.api_client import Program
from tests.support.channels import channel, rule
from tests.support.command_line import WHY, Operator, operator
from tests.support.html import Shown
from tests.support.narrowed_rules import served
from tests.support.notifications import question
from tests.support.pages import REASON, signed_in, text_of
from tests.support.stories import NOW, Story, counted, heartbeat, moved

__all__ = ["operator"]  # the fixture
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
HOME = "/settings/notifications"
OPENED, CLOSED = ("breaker_opened", "breaker search_web"), ("breaker_closed", "breaker search_web")


def held(provider: str = "helios", **more: Any) -> NoticeSnooze:
    return snooze(**asked(by=person(Role.OPERATOR), provider=provider, **more)).object


def opened(*breakers: str, at: float = 0.0, state: State = State.OPEN) -> None:
    story = Story()
    story.tell(heartbeat(), *(moved(state, breaker=name) for name in breakers), at=at, received=at).store()


def told(after_s: float) -> list[tuple[str, str]]:
    return notifications.told(NOW + timedelta(seconds=after_s))


def held_back() -> tuple[bool, list[str]]:
    """Whether the newest message names the provider, and how many things it says were held back."""
    title = Delivery.objects.latest("pk").title
    return "helios" in title, re.findall(r"\d+", title)


def at(monkeypatch: pytest.MonkeyPatch, after_s: float) -> datetime:
    moment = NOW + timedelta(seconds=after_s)
    monkeypatch.setattr(timezone, "now", lambda: moment)
    return moment


def test_what_is_held_back_is_counted_and_named_when_its_time_is_over() -> None:
    served()
    rule(channel(), "breaker_moved")
    held(expires_in_s=600.0)
    opened("search_web", "pay", at=-5)
    assert told(6) == [("breaker_opened", "breaker pay")], "others are told of as ever"
    assert held_back() == (False, [])
    assert told(590) == []
    assert Notification.objects.filter(delivery=None).count() == 1
    assert told(601) == [OPENED]
    assert held_back() == (True, ["1"])
    [line] = Delivery.objects.latest("pk").lines
    assert all(word in line for word in ("search_web", "a-1", "65 %", "20"))
    assert told(602) == []


def test_what_began_and_ended_meanwhile_is_told_as_over() -> None:
    served()
    rule(channel(), "breaker_moved")
    held(expires_in_s=600.0)
    opened("search_web", at=-5)
    assert told(6) == []
    opened("search_web", at=-100, state=State.CLOSED)
    assert told(101) == []
    assert told(601) == [CLOSED]
    assert held_back() == (True, ["1"])
    made = Delivery.objects.latest("pk")
    assert (made.phase, "search_web" in made.lines[0]) == ("ended", True)


def test_the_end_of_what_was_told_before_is_told() -> None:
    served()
    rule(channel(), "breaker_moved")
    opened("search_web", at=5)
    assert told(0) == [OPENED]
    held(expires_in_s=3600.0)
    opened("search_web", at=-400, state=State.CLOSED)
    assert told(460) == [CLOSED]
    assert held_back() == (False, [])


def test_who_lifts_it_hears_at_once_and_what_comes_then_is_told() -> None:
    served()
    rule(channel(), "breaker_moved")
    one = held(expires_in_s=3600.0)
    opened("search_web", at=-5)
    assert told(6) == []
    lift(**asked(by=person(Role.OPERATOR), number=one.pk, now=NOW + timedelta(seconds=10)))
    assert told(11) == [OPENED]
    assert held_back() == (True, ["1"])
    assert not lift(**asked(by=person(Role.OPERATOR), number=one.pk)).object.holds_at(NOW)
    verbs = list(AuditEntry.objects.order_by("number").values_list("verb", "object"))
    assert verbs[-2:] == [("notices.snooze", "messages of helios"), ("notices.lift", "messages of helios")]
    assert verify_chain("dev").is_whole


def test_what_waits_for_a_person_is_told_all_the_same() -> None:
    served()
    rule(channel(), "escalation", "override_expiring", expiry_lead_min=60)
    held(expires_in_s=3600.0)
    question()
    trip(expires_in_s=600.0)
    assert len(told(1)) == 1
    kinds = {note.kind for note in notifications.notes_of(Delivery.objects.get())}
    assert kinds == {"escalation_opened", "override_expiring"}


def test_what_is_of_another_provider_too_is_told() -> None:
    served()
    Story().tell(counted(10, provider="solo"), at=1900).store()
    rule(channel(), "breaker_moved")
    held()
    opened("search_web", at=-5)
    assert told(6) == [OPENED]


def test_it_is_prolonged_by_asking_again_and_begins_anew_when_it_is_over() -> None:
    served()
    first = held(expires_in_s=600.0)
    again = held(expires_in_s=1200.0, now=NOW + timedelta(seconds=60))
    assert (again.pk, again.expires_at) == (first.pk, NOW + timedelta(seconds=1260))
    entry = AuditEntry.objects.filter(verb="notices.snooze").latest("number")
    assert entry.before["expires_at"] != entry.after["expires_at"]
    later = held(expires_in_s=600.0, now=NOW + timedelta(seconds=2000))
    assert later.pk != first.pk
    assert NoticeSnooze.objects.filter(ended_at=None).count() == 1


@pytest.mark.parametrize(
    ("role", "more", "code"),
    [
        (Role.RESPONDER, {}, "forbidden"),
        (Role.OPERATOR, {"provider": "nobody"}, "unknown_provider"),
        (Role.OPERATOR, {"expires_in_s": 5.0}, "invalid"),
        (Role.OPERATOR, {"expires_in_s": 90_000.0}, "invalid"),
    ],
)
def test_who_may_not_and_what_cannot_be_is_refused(role: Role, more: dict[str, Any], code: str) -> None:
    served()
    with pytest.raises(CommandRejected) as caught:
        snooze(**asked(**{"by": person(role), "provider": "helios"} | more))
    assert caught.value.code == code
    assert not NoticeSnooze.objects.exists()


def test_capacity_settings_and_overview_show_it_while_it_holds_and_lift_it(monkeypatch: pytest.MonkeyPatch) -> None:
    served()
    rule(channel(), "breaker_moved")
    client, viewer = signed_in(Role.OPERATOR), signed_in(Role.VIEWER, "vera")
    form = {"provider": "helios", "expires_in_s": "3600", "reason": REASON, "key": "s-1"}
    shown = client.get(f"{HOME}/snoozes/new?provider=helios").content.decode()
    assert '<option value="helios" selected>' in shown
    answer = client.post(f"{HOME}/snoozes/new?provider=helios&back=/capacity", form)
    assert (answer.status_code, answer["Location"]) == (303, "/capacity")
    opened("search_web", at=-5)
    told(6)
    at(monkeypatch, 7)
    one = NoticeSnooze.objects.get()
    lifting = f"{HOME}/snoozes/{one.pk}/lift"
    page = client.get("/capacity")
    assert [(held.provider, held.until) for held in page.context["snoozed"]] == [("helios", one.expires_at)]
    assert "15:26:18" in text_of(page)
    assert any(link.startswith(lifting) for link in Shown(page).links)
    assert not any(link.startswith(lifting) for link in Shown(viewer.get("/capacity")).links)
    assert Shown(client.get(HOME)).one("key", f"snooze-{one.pk}").data["held"] == "1"
    assert "helios" in Shown(client.get("/")).one("key", f"override-notices-{one.pk}").text
    assert re.findall(r"\d+", client.get(lifting).context["asking"].lead) == ["1"]
    lifted = client.post(f"{HOME}/snoozes/{one.pk}/lift?back=//evil.example/", {"reason": REASON, "key": "l-1"})
    assert lifted["Location"] == HOME
    assert not client.get("/capacity").context["snoozed"]
    assert "snoozes" in Shown(client.get(HOME)).values("empty")
    assert viewer.get(f"{HOME}/snoozes/new").status_code == 403


def test_a_program_snoozes_and_lifts() -> None:
    keys.forget_keys()
    served()
    program = Program("read", "act")
    status, answer = program.post("notifications/snoozes", {"reason": REASON, "provider": "helios", "dry_run": True})
    assert (status, answer["dry_run"], NoticeSnooze.objects.count()) == (200, True, 0)
    status, answer = program.post("notifications/snoozes", {"reason": REASON, "provider": "helios"})
    assert status == 200, answer
    number = answer["snooze"]["number"]
    [row] = program.get("notifications/snoozes")[1]["snoozes"]
    assert (row["provider"], row["held"]) == ("helios", 0)
    assert program.post(f"notifications/snoozes/{number}/lift", {"reason": REASON})[0] == 200
    assert program.get("notifications/snoozes")[1]["snoozes"] == []
    assert program.post("notifications/snoozes/999/lift", {"reason": REASON})[0] == 404


def test_an_operator_snoozes_from_a_terminal(operator: Operator) -> None:
    served()
    assert operator.run("notifications", "snooze", "helios", "--for", "30m", *WHY) == cli.DONE
    one = NoticeSnooze.objects.get()
    until = f"{one.expires_at:%Y-%m-%dT%H:%M:%S}"
    assert (one.provider, one.ended_at) == ("helios", None)
    assert all(word in operator.said[0] for word in ("helios", until))
    assert operator.run("notifications", "list") == cli.DONE
    assert all(word in operator.said[-1] for word in (f"snooze {one.pk} ", "helios", until))
    assert operator.run("notifications", "lift", str(one.pk), *WHY) == cli.DONE
    assert re.findall(r"\d+", operator.said[0]) == ["0"], "so many were held back"
    one.refresh_from_db()
    assert one.ended_at is not None
    assert operator.run("notifications", "snooze", "nobody", *WHY) == cli.REFUSED


def test_old_ones_are_forgotten_once_nothing_names_them() -> None:
    served()
    held(expires_in_s=600.0)
    forget_old(NOW + KEPT_FOR)
    assert NoticeSnooze.objects.exists()
    forget_old(NOW + KEPT_FOR + timedelta(hours=1))
    assert not NoticeSnooze.objects.exists()
