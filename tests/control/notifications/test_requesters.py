"""Who asked for a trip hears once that it stays incomplete, and once that it is complete after all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.breakers.services import bulk
from recovery_ops.control.breakers.services.overrides import release
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.notifications.models.notifications import Channel, Delivery, Notification
from recovery_ops.control.notifications.requesters import COMPLETE, INCOMPLETE
from recovery_ops.control.notifications.rules import tell
from recovery_ops.rules.policy.scope import Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, small_fleet, trip
from tests.support.channels import channel
from tests.support.html import Shown
from tests.support.notifications import notes_of
from tests.support.pages import REASON, signed_in, text_of
from tests.support.ramps import opened_fleet
from tests.support.stories import NOW, Story, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
LATE, WHOLE = ("eve", INCOMPLETE), ("eve", COMPLETE)


@pytest.fixture
def eve() -> Actor:
    """An operator with an account."""
    account = User.objects.create_user("eve", email="eve@example.org", first_name="Eve", last_name="Adams")
    RoleGrant.objects.create(user=account, environment="dev", role=Role.OPERATOR)
    return Actor(name="Eve Adams", kind="person", channel="web", may=lambda permission, place: True, user_id=account.pk)


@pytest.fixture(autouse=True)
def mail() -> None:
    channel(kind="people", name="mail", address="", secret="")


def beats(*revisions: int, at: float) -> None:
    """Instances r-0, r-1 … say which revision they obey."""
    story = Story()
    for number, revision in enumerate(revisions):
        story.tell(heartbeat(revision=revision), at=at, instance=f"r-{number}")
    story.store()


def told(after_s: float) -> list[tuple[str, str]]:
    """To whom each message so far went, and whether it tells of what is incomplete or complete."""
    tell("dev", NOW + timedelta(seconds=after_s))
    made = Delivery.objects.order_by("pk")
    return [(one.person, kind) for one in made for kind in sorted({note.kind for note in notes_of(one)})]


def test_who_asked_hears_it_once_and_that_it_is_complete_later(eve: Actor) -> None:
    small_fleet(2)
    done = trip(by=eve)
    assert told(9) == [], "it may still be on its way"
    assert told(11) == [LATE]
    late = Delivery.objects.get()
    assert all(word in late.title for word in ("search_web", "0 of 2"))
    assert all(name in late.lines[0] for name in ("r-0", "r-1"))
    assert told(12) == [LATE]
    beats(done.object.revision, 0, at=-13)
    assert told(14) == [LATE]
    beats(done.object.revision, done.object.revision, at=-15)
    assert told(16) == [LATE, WHOLE]
    assert told(17) == [LATE, WHOLE]
    row = Shown(signed_in().get("/settings/notifications/log")).one("key", f"delivery-{late.pk}")
    assert late.title in row.text


def test_what_all_obey_and_what_a_program_asked_for_is_not_told(eve: Actor) -> None:
    small_fleet(2)
    done = trip(by=eve)
    beats(done.object.revision, done.object.revision, at=-5)
    assert told(11) == []
    program = Actor(name="pipeline", kind="key", channel="api", may=lambda permission, place: True, user_id=None)
    release(**asked(by=program, override_id=Override.objects.get().pk, now=NOW + timedelta(seconds=12)))
    assert told(40) == []


def test_it_is_complete_only_where_everybody_is_heard_of(eve: Actor) -> None:
    small_fleet(2)
    done = trip(by=eve)
    assert len(told(11)) == 1
    story = Story()
    story.tell(heartbeat(revision=done.object.revision), at=-120, instance="r-0")
    story.store()
    assert len(told(121)) == 1, "r-1 is silent, and may not know of it"
    beats(done.object.revision, done.object.revision, at=-122)
    assert told(123)[1:] == [WHOLE]


@pytest.mark.parametrize("how", ["released", "expired", "replaced"])
def test_what_holds_no_more_is_closed_without_a_word(how: str, eve: Actor) -> None:
    small_fleet(1)
    done = trip(by=eve, expires_in_s=60)
    assert len(told(11)) == 1
    program = Actor(name="pipeline", kind="key", channel="api", may=lambda permission, place: True, user_id=None)
    later = NOW + timedelta(seconds=12)
    if how == "released":
        release(**asked(by=program, override_id=done.object.pk, now=later))
    if how == "replaced":
        trip(by=program, reason="for longer, and for another reason", expires_in_s=7200, now=later)
    beats(9, at=-70)
    assert len(told(71)) == 1
    assert not Notification.objects.filter(is_open=True)


def test_many_acts_cost_as_many_queries_as_one_and_none_are_asked_for_again(eve: Actor) -> None:
    small_fleet(2)
    names = [f"b{number}" for number in range(20)]
    revisions = [trip(by=eve, scope=Scope(operation=name), ahead=True).object.revision for name in names]
    beats(revisions[-1], revisions[-1], at=-5)
    counts = []
    for after_s in (11, 13):
        with CaptureQueriesContext(connection) as queries:
            assert told(after_s) == []
        counts.append(len(queries))
    assert counts[0] <= 30
    assert counts[1] <= 11


def test_who_was_first_seen_after_an_act_is_not_late_for_it(eve: Actor) -> None:
    small_fleet(2)
    done = trip(by=eve)
    beats(done.object.revision, done.object.revision, 0, at=-5)
    assert told(11) == []


def test_several_late_acts_are_one_message(eve: Actor) -> None:
    small_fleet(1)
    for name in ("b0", "b1"):
        trip(by=eve, scope=Scope(operation=name), ahead=True)
    assert told(11) == [LATE]
    late = Delivery.objects.get()
    assert all(name in late.title for name in ("b0", "b1"))
    for name, line in zip(("b0", "b1"), late.lines, strict=True):
        assert all(word in line for word in (name, "0 of 1", "r-0"))
    assert len(told(12)) == 1
    beats(2, at=-13)
    assert told(14)[1:] == [WHOLE]
    assert all(name in Delivery.objects.latest("pk").title for name in ("b0", "b1"))


def test_a_reset_of_many_is_one_act(eve: Actor) -> None:
    opened_fleet(("b0", "b1"), ["r-0"])
    wish: Any = asked(by=eve)
    assert all(one.done for one in bulk.each("reset", ["b0", "b1"], wish, where={}))
    assert told(11) == [LATE]
    late = Delivery.objects.get()
    assert late.path == "/breakers"
    assert all(word in late.title for word in ("reset", "b0, b1", "0 of 1"))


@pytest.mark.parametrize("who", ["without an address", "not there any more"])
def test_who_cannot_be_written_to_is_not(who: str, eve: Actor) -> None:
    small_fleet(1)
    trip(by=eve)
    if who == "without an address":
        User.objects.update(email="")
    else:
        RoleGrant.objects.all().delete()
    assert told(11) == []


def test_entries_of_two_environments_have_the_same_numbers(eve: Actor) -> None:
    mail = Channel.objects.get()
    Channel.objects.create(environment="prod", kind=mail.kind, name="mail", changed_at=NOW, changed_by="eva")
    RoleGrant.objects.create(user=User.objects.get(), environment="prod", role=Role.OPERATOR)
    for environment, names in (("dev", ["b0"]), ("prod", ["b0", "b1"])):  # making dev's channel was its entry 1
        small_fleet(1, environment)
        for name in names:
            trip(by=eve, environment=environment, scope=Scope(operation=name), ahead=True)
        tell(environment, NOW + timedelta(seconds=11))
    assert set(Delivery.objects.values_list("environment", flat=True)) == {"dev", "prod"}


# -- in the console itself ---------------------------------------------------------------------------------------------
def tray(client: Client) -> list[tuple[str, str]]:
    """How far each of what they asked for has come, and the text of its note."""
    shown = Shown(client.get("/jobs/tray", headers={"X-Fragment": "tray"}))
    return [(one.data["job-state"], one.text) for one in shown.having("job-state")]


def at(monkeypatch: pytest.MonkeyPatch, after_s: float) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(seconds=after_s))


def tripped(client: Client) -> int:
    """By the form, as a person does; the revision."""
    form = {"reason": REASON, "seen": "0", "key": "t-1", "expires_in_s": "3600", "scope": "all"}
    answer = client.post("/breakers/search_web/trip", form)
    assert answer.status_code == 303, text_of(answer)
    return Override.objects.get().revision


def test_the_header_of_every_page_says_it_to_who_asked_until_it_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    small_fleet(2)
    client, other = signed_in(Role.OPERATOR, "eve"), signed_in(Role.OPERATOR, "bob")
    assert 'id="tray"' not in client.get("/failures").content.decode()
    revision = tripped(client)
    assert 'id="tray"' in client.get("/failures").content.decode(), "wherever they go"
    [(state, said)] = tray(client)
    assert (state, "search_web" in said) == ("applying", True)
    assert all(word in said for word in ("0 of 2", "r-0", "r-1"))
    at(monkeypatch, 11)
    beats(0, 0, at=-10)
    [(state, said)] = tray(client)
    assert (state, "search_web" in said) == ("late", True)
    assert all(word in said for word in ("0 of 2", "r-0", "r-1"))
    assert Shown(client.get("/jobs")).values("state") == ["late"]
    fragment = Shown(client.get("/jobs/tray", headers={"X-Fragment": "tray"}))
    assert (fragment.values("poll-s"), fragment.values("late")) == (["10"], ["1"])
    assert tray(other) == [], "nobody else asked for it"
    beats(revision, revision, at=-13)
    at(monkeypatch, 14)
    [(state, said)] = tray(client)
    assert (state, "search_web" in said) == ("whole", True)
    at(monkeypatch, 14 + 16 * 60)
    assert tray(client) == []
    assert 'id="tray"' not in client.get("/failures").content.decode()


def test_what_all_obey_at_once_leaves_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    small_fleet(1)
    client = signed_in(Role.OPERATOR, "eve")
    revision = tripped(client)
    beats(revision, at=-5)
    at(monkeypatch, 6)
    assert tray(client) == []
    assert 'id="tray"' not in client.get("/failures").content.decode()


def test_what_was_released_meanwhile_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, eve: Actor) -> None:
    small_fleet(1)
    client = signed_in(Role.OPERATOR, "bob")
    tripped(client)
    at(monkeypatch, 11)
    assert [state for state, _ in tray(client)] == ["late"]
    later = NOW + timedelta(seconds=12)
    release(**asked(by=eve, override_id=Override.objects.get().pk, now=later))
    at(monkeypatch, 13)
    assert tray(client) == []


def test_the_overview_names_what_who_asked_for_and_who_is_behind(monkeypatch: pytest.MonkeyPatch, eve: Actor) -> None:
    small_fleet(2)
    done = trip(by=eve)
    beats(done.object.revision, 0, at=-5)
    at(monkeypatch, 8)
    client = signed_in(Role.VIEWER, "vera")
    key = f"act-{AuditEntry.objects.get(verb='breaker.trip').number}"
    assert key not in Shown(client.get("/")).values("key"), "it may still be on its way"
    at(monkeypatch, 11)
    item = Shown(client.get("/")).one("key", key)
    assert all(word in item.text for word in ("search_web", "1 of 2", "Eve Adams", "r-1"))
    assert "r-0" not in item.text
    with CaptureQueriesContext(connection) as queries:
        client.get("/")
    assert len(queries) <= 15
    beats(done.object.revision, done.object.revision, at=-12)
    at(monkeypatch, 13)
    assert key not in Shown(client.get("/")).values("key")
