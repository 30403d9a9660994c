"""Who asked for a trip hears once that it stays incomplete, and once that it is complete after all."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from recovery_ops.control.actions import release
from recovery_ops.control.actors import Actor
from recovery_ops.control.models import Delivery, Override
from recovery_ops.control.notify.telling import tell
from tests.control.cast import asked, small_fleet, trip
from tests.control.notify.conftest import channel
from tests.control.visiting import signed_in, text_of
from tests.events.seeding import NOW, Story, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.fixture
def eve() -> Actor:
    """An operator with an account."""
    account = User.objects.create_user("eve", email="eve@example.org", first_name="Eve", last_name="Adams")
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
    tell("dev", NOW + timedelta(seconds=after_s))
    return list(Delivery.objects.order_by("pk").values_list("person", "title"))


def test_who_asked_hears_it_once_and_that_it_is_complete_later(eve: Actor) -> None:
    small_fleet(2)
    done = trip(by=eve)
    assert told(9) == [], "it may still be on its way"
    incomplete = ("eve", "Your trip of search_web is incomplete: 0 of 2 applied it")
    assert told(11) == [incomplete]
    assert Delivery.objects.get().lines == ["Not yet: r-0 and r-1."]
    assert told(12) == [incomplete]
    beats(done.object.revision, 0, at=-13)
    assert told(14) == [incomplete]
    beats(done.object.revision, done.object.revision, at=-15)
    complete = ("eve", "Your trip of search_web is applied everywhere now")
    assert told(16) == [incomplete, complete]
    assert told(17) == [incomplete, complete]
    assert "Your trip of search_web is incomplete" in text_of(signed_in().get("/settings/notifications/log"))


def test_what_all_obey_and_what_a_program_asked_for_is_not_told(eve: Actor) -> None:
    small_fleet(2)
    done = trip(by=eve)
    beats(done.object.revision, done.object.revision, at=-5)
    assert told(11) == []
    program = Actor(name="pipeline", kind="key", channel="api", may=lambda permission, place: True, user_id=None)
    release(**asked(by=program, override_id=Override.objects.get().pk, now=NOW + timedelta(seconds=12)))
    assert told(40) == []
