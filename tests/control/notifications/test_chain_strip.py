"""Who is asked when, drawn: each message where it was sent, until somebody took it; what is to come in outline."""

from __future__ import annotations

import re
from datetime import datetime
from html import unescape
from xml.etree import ElementTree as ET

import pytest
from django.utils import timezone

from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.selectors import queue as asking
from recovery_ops.control.escalations.views.level_timeline import ChainStrip, chain_strip
from recovery_ops.control.notifications.escalation_policies import plan_of
from recovery_ops.control.notifications.models.notifications import Delivery
from recovery_ops.rules.roles import Role
from tests.support.channels import channel
from tests.support.escalation_policies import chain, minutes, told
from tests.support.escalations import act
from tests.support.html import Shown
from tests.support.notifications import question
from tests.support.pages import signed_in

pytestmark = pytest.mark.django_db


def strip_of(one: Escalation, now: datetime) -> ChainStrip:
    one.refresh_from_db()
    story = asking.story_of(one)
    found = chain_strip(one, story, plan_of(one, story, now), now)
    assert found is not None
    return found


def bars(found: ChainStrip, place: int) -> list[tuple[str, float, float]]:
    """What a lane shows: pattern, where it begins and ends, in per cent."""
    svg = ET.fromstring(str(found.rows[place].drawing))
    shown = []
    for bar in svg.findall("rect"):
        x, width = (float(bar.attrib[name].rstrip("%")) for name in ("x", "width"))
        shown.append((bar.attrib.get("fill", "coming").removeprefix("url(#p-").rstrip(")"), x, x + width))
    return shown


@pytest.fixture
def one() -> Escalation:
    """A question with a chain of three, whose first step was asked and reached."""
    chain((0, channel(name="chat")), (15, channel(name="lead")), (30, channel(name="boss")))
    found = question()
    told(minutes(0))
    Delivery.objects.update(state=Delivery.SENT)
    return found


def near(place: float) -> object:
    return pytest.approx(place, abs=0.2)


def test_what_was_asked_waits_and_what_is_to_come_is_an_outline_at_its_time(one: Escalation) -> None:
    found = strip_of(one, minutes(10))
    assert [row.label for row in found.rows][1:] == ["chat", "lead", "boss"]
    scale = 100 / (30 * 1.06)  # up to the last step, and a little beyond
    assert bars(found, 0) == []
    assert bars(found, 1) == [("asked", 0, near(10 * scale)), ("closed", 0, 1)]
    assert bars(found, 2) == [("coming", near(15 * scale), 100)]
    assert bars(found, 3) == [("coming", near(30 * scale), 100)]
    assert all(word in found.words for word in ("1 of 3", "lead", f"{minutes(15):%H:%M:%S}"))
    assert [told.step.due_at for told in found.steps] == [None, minutes(15), minutes(30)]
    for row, at in zip(found.rows[1:], ("%H:%M:%S", "%H:%M", "%H:%M"), strict=True):
        asked_at = {"chat": minutes(0), "lead": minutes(15), "boss": minutes(30)}[row.label]
        assert f"{asked_at:{at}}" in row.value


def test_whoever_takes_it_ends_the_waiting_and_nobody_else_is_to_come(one: Escalation) -> None:
    act("acknowledge", one, now=minutes(5))
    found = strip_of(one, minutes(10))
    assert bars(found, 0) == [("taken", near(50 / 1.06), near(100 / 1.06))]
    assert bars(found, 1)[0] == ("asked", 0, near(50 / 1.06))
    assert bars(found, 2) == []
    assert found.rows[0].value == "ana"
    for row, after in zip(found.rows[2:], ("15m 00s", "30m 00s"), strict=True):
        assert after in row.value
    assert (found.has_coming, "ana" in found.words) == (False, True)


def test_who_was_not_reached_waits_for_nothing(one: Escalation) -> None:
    Delivery.objects.update(state=Delivery.FAILED)
    found = strip_of(one, minutes(10))
    assert [pattern for pattern, _, _ in bars(found, 1)] == ["open"]
    assert found.steps[0].step.state == Delivery.FAILED
    assert found.rows[1].value == dict(found.legend)["open"]


def test_of_what_was_answered_nothing_goes_on(one: Escalation) -> None:
    act("acknowledge", one, now=minutes(5))
    act("resolve", one, now=minutes(8), reason="it came back by itself")
    found = strip_of(one, minutes(600))
    assert "ana" not in found.rows[0].value, "nobody has it any more"
    assert bars(found, 0) == [("taken", near(5 / 8 * 100 / 1.06), near(100 / 1.06))]
    assert [bars(found, place) for place in (2, 3)] == [[], []]
    assert [(told.step.asked_at, told.step.due_at) for told in found.steps[1:]] == [(None, None), (None, None)]
    assert not found.has_coming
    assert 'class="now"' not in str(found.rows[1].drawing)


def test_a_snooze_is_no_taking(one: Escalation) -> None:
    act("snooze", one, now=minutes(5), for_s=3600)
    found = strip_of(one, minutes(10))
    assert [pattern for pattern, _, _ in bars(found, 0)] == ["noted"]
    assert bars(found, 1)[0] == ("asked", 0, near(100 / 1.06)), "it was asked, and nobody took it"
    assert (found.has_coming, "ana" in found.words) == (False, True)


def test_the_list_says_what_the_lanes_say(one: Escalation, monkeypatch: pytest.MonkeyPatch) -> None:
    act("acknowledge", one, now=minutes(5))
    monkeypatch.setattr(timezone, "now", lambda: minutes(10))
    answer = signed_in(Role.VIEWER).get(f"/escalations/{one.pk}")
    step = Shown(answer).one("step", "1")
    assert (step.data["state"], step.data["taken-by"]) == ("sent", "ana")
    labels = [unescape(one) for one in re.findall(r'role="img" aria-label="([^"]+)"', answer.content.decode())]
    [label] = [one for one in labels if one.startswith("chat:")]
    for said in (step.text, label):
        assert all(word in said for word in (f"{minutes(0):%H:%M:%S}", "ana", "5m 00s"))
    assert [one for one in labels if "ana" in one and f"{minutes(5):%H:%M:%S}" in one], "who has it, from when"


def test_names_of_channels_are_text(one: Escalation, monkeypatch: pytest.MonkeyPatch) -> None:
    chain((0, channel(name="<b>x</b>")), name=one.queue)
    found = strip_of(one, minutes(1))
    assert any(row.label == "<b>x</b>" for row in found.rows)
    for row in found.rows:
        assert "<b>" not in str(row.drawing)
        ET.fromstring(str(row.drawing))


def test_where_nobody_is_asked_nothing_is_drawn() -> None:
    one = question()
    story = asking.story_of(one)
    assert chain_strip(one, story, plan_of(one, story, minutes(1)), minutes(1)) is None
