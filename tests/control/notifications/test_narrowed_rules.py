"""Rules that are about some causes of failures, or about some providers, alone; and how they begin on other pages."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from events import keys
from events.capacity.detection import look
from events.capacity.reach import read_reach
from recovery_ops import cli
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.issues.services.issues import merge_failures
from recovery_ops.control.notifications.forms import RuleForm
from recovery_ops.control.notifications.models.notifications import Delivery, NotificationRule
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.events import Escalated
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.api_client import Program
from tests.support.channels import channel, rule
from tests.support.command_line import Operator, operator
from tests.support.html import Shown
from tests.support.narrowed_rules import served
from tests.support.notification_pages import new_rule
from tests.support.notifications import told
from tests.support.pages import REASON, signed_in
from tests.support.stories import NOW, Story, failed, moved

__all__ = ["operator"]  # the fixture
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
NEW = "/settings/notifications/rules/new"
CALLED = "Overloaded (529) of search_web"
"""What the cause of the tests is called."""


# -- causes ------------------------------------------------------------------------------------------------------------
def test_many_failures_of_a_named_cause_are_told_and_of_no_other() -> None:
    one = rule(channel(), "failures_many", failures=5, within_min=2, causes=["f00d"])
    for number in range(6):
        Story().tell(failed(fingerprint="f00d"), failed(fingerprint="other"), at=number).store()
    assert told() == [("failures_many", f"failures {one.pk} f00d")]
    title = Delivery.objects.get().title
    assert CALLED in title
    assert re.findall(r"\b\d\b", title) == ["6", "2"]
    assert told(NOW + timedelta(seconds=30)) == []
    assert told(NOW + timedelta(minutes=3)) == [("failures_fewer", f"failures {one.pk} f00d")]


def test_the_parts_of_a_merged_cause_count_as_one() -> None:
    one = rule(channel(), "failures_many", failures=6, within_min=2, causes=["f00d"])
    for number in range(3):
        Story().tell(failed(fingerprint="f00d"), failed(fingerprint="beef"), at=number).store()
    assert told() == []
    whole = merge_failures(**asked(by=person(Role.RESPONDER), fingerprints=["f00d", "beef"])).object
    assert told() == [("failures_many", f"failures {one.pk} {whole}")]
    assert re.findall(r"\b\d\b", Delivery.objects.get().title) == ["6", "2"]


def test_a_cause_that_others_drown_has_not_ended() -> None:
    one = rule(channel(), "failures_many", failures=5, within_min=5, causes=["mine"])
    for number in range(6):
        Story().tell(failed(fingerprint="mine"), at=60 + number).store()
    assert told() == [("failures_many", f"failures {one.pk} mine")]
    drowning = Story()
    for number in range(5_100):
        drowning.tell(failed(fingerprint="other"), at=-number / 1000)
    drowning.store()
    assert told(NOW + timedelta(seconds=10)) == []
    assert told(NOW + timedelta(minutes=7)) == [("failures_fewer", f"failures {one.pk} mine")]


@pytest.mark.parametrize("length", [290, 350])
def test_a_cause_with_a_long_name_is_told_once_and_its_end_once(length: int) -> None:
    name = "x" * length
    rule(channel(), "failures_many", failures=5, within_min=2, causes=[name])
    for number in range(6):
        Story().tell(failed(fingerprint=name), at=number).store()
    [(kind, subject)] = told()
    assert kind == "failures_many"
    for second in (10, 70):
        assert told(NOW + timedelta(seconds=second)) == []
    assert told(NOW + timedelta(minutes=3)) == [("failures_fewer", subject)]
    assert told(NOW + timedelta(minutes=4)) == []


def test_a_cause_whose_name_has_a_comma_is_one_cause() -> None:
    name = "timeout, then 529"
    form = RuleForm.base_fields["causes"]
    assert form.clean(form.prepare_value([name])) == [name]
    assert form.clean("one\r\n two \n\none") == ["one", "two"]


def test_one_that_is_back_is_told_only_where_it_is_named() -> None:
    rule(channel(), "regressed", causes=["mine"])
    Story().tell(failed(fingerprint="mine"), failed(fingerprint="other"), at=500).store()
    assert told() == []
    day = 90_000
    Story().tell(
        failed(fingerprint="mine", operation="pay"), failed(fingerprint="other"), at=-day, received=-day
    ).store()
    assert told(NOW + timedelta(seconds=day + 1)) == [("regressed", "fingerprint mine")]


def test_a_question_is_told_where_it_names_the_cause() -> None:
    rule(channel(), "escalation", causes=["f00d"])
    Story().tell(
        failed(fingerprint="f00d"), Escalated(operation="publish", queue="editors", reason="policy_denied"), at=30
    ).store()
    said = {"fingerprint": "f00d", "queue": "owners", "question": "Is that the vendor's?", "reason": REASON}
    keys.forget_keys()
    status, answer = Program("read", "act").post("failures/escalate", said)
    assert status < 300, answer
    asks = Escalation.objects.get(queue="owners")
    assert told(NOW + timedelta(seconds=1)) == [("escalation_opened", str(asks))]


def test_with_causes_only_what_can_be_about_one_is_asked_for() -> None:
    keys.forget_keys()
    program, to = Program("read", "settings"), channel()

    def fields(**words: object) -> list[str]:
        body = {"reason": REASON, "name": "some", "channel": to.pk, "triggers": ["regressed"], **words}
        status, answer = program.post("notifications/rules", body)
        return list(answer["fields"]) if status == 400 else []

    assert fields(causes=["f00d"], triggers=["regressed", "capacity"]) == ["triggers"]
    assert fields(providers=["helios"], triggers=["monthly_report"]) == ["triggers"]
    assert fields(causes=["f00d"], triggers=["failures_many"], failures=1_000_001) == ["failures"]
    assert fields(causes=["x" * 500]) == ["causes"]
    assert fields(causes=[7]) == ["causes"]
    assert fields(causes=[f"c{number}" for number in range(51)]) == ["causes"]
    assert fields(providers=["a\0"]) == ["providers"]
    assert fields(causes=["f00d"], triggers=[{}]) == ["triggers"]
    assert fields(causes=["f00d"], providers=["helios"]) == []
    [one] = program.get("notifications/rules")[1]["rules"]
    assert (one["causes"], one["providers"]) == (["f00d"], ["helios"])
    changed = program.patch(f"notifications/rules/{one['number']}", {"reason": REASON, "group_s": 5})[1]["rule"]
    assert changed["causes"] == ["f00d"], "what is not named stays"


# -- providers ---------------------------------------------------------------------------------------------------------
def test_breakers_of_one_provider_are_told_and_of_no_other() -> None:
    served()
    rule(channel(), "breaker_moved", providers=["hel*"])
    Story().tell(moved(State.OPEN, breaker="search_web"), moved(State.OPEN, breaker="pay"), at=20).store()
    assert told() == [("breaker_opened", "breaker search_web")]


def test_what_names_no_provider_is_not_for_a_rule_that_does() -> None:
    served()
    rule(channel(), "breaker_moved", providers=["helios"])
    Story().tell(moved(State.OPEN, breaker="nobody-knows-whose"), at=20).store()
    assert told() == []


def test_outages_of_one_provider() -> None:
    rule(channel(), "capacity", providers=["solo"])
    story = Story()
    overloaded = failed(Category.OVERLOADED, provider="helios", model="large", status_code=529)
    for number in range(8):
        story.tell(overloaded, at=20 - number, instance=f"r-{number % 3}", run=f"run-{number}")
    story.store()
    look("dev", NOW)
    read_reach("dev", NOW)
    assert told() == []
    NotificationRule.objects.update(providers=["helios"])
    assert len(told(NOW + timedelta(seconds=1))) == 1


def test_many_failures_are_counted_by_provider() -> None:
    one = rule(channel(), "failures_many", failures=5, within_min=2, providers=["solo"])
    for number in range(4):
        Story().tell(failed(provider="solo", operation="pay"), failed(provider="helios"), at=number).store()
    for number in range(4):
        Story().tell(failed(provider="helios", operation="pay"), at=number).store()
    assert told() == [], "four of solo, whatever helios did"
    Story().tell(failed(provider="solo", operation="pay"), at=5).store()
    assert told(NOW + timedelta(seconds=1)) == [("failures_many", f"failures {one.pk} pay")]
    assert re.findall(r"\d+", Delivery.objects.get().title) == ["5", "2"]


# -- pages -------------------------------------------------------------------------------------------------------------
def begun(query: str) -> dict[str, Any]:
    """What the form of a new rule holds when it is opened with this."""
    form = signed_in(Role.EDITOR).get(f"{NEW}?{query}").context["form"]
    return dict(form.initial)


def test_a_rule_keeps_what_is_typed_and_says_what_it_is_about() -> None:
    client = signed_in(Role.EDITOR)
    channel()
    saved = new_rule(client, triggers=["regressed"], causes="f00d\nbeef\nf00d", providers="helios")
    assert saved.status_code == 303
    one = NotificationRule.objects.get()
    assert (one.causes, one.providers) == (["f00d", "beef"], ["helios"])
    row = Shown(client.get("/settings/notifications")).one("key", f"rule-{one.pk}")
    assert all(name in row.text for name in ("f00d", "beef", "helios"))
    assert "f00d\nbeef" in client.get(f"/settings/notifications/rules/{one.pk}").content.decode()
    assert AuditEntry.objects.get(verb="rule.save").after["causes"] == ["f00d", "beef"]


def test_a_rule_begins_on_the_page_of_a_cause() -> None:
    client = signed_in(Role.EDITOR)
    to = channel()
    Story().tell(failed(fingerprint="f00d"), at=30).store()
    assert f"{NEW}?cause=f00d" in client.get("/failures/f00d").content.decode()
    form = begun("cause=f00d")
    assert (form["name"], form["causes"], "first_seen" in form["triggers"]) == (CALLED, ["f00d"], False)
    assert "nowhere" in begun("cause=nowhere")["name"]
    saved = new_rule(client, name="Cause f00d", triggers=["regressed"], causes="f00d", channel=str(to.pk))
    assert saved.status_code == 303
    viewer = signed_in(Role.OPERATOR, "oleg")
    for page in ("/failures/f00d", "/failures"):
        assert NEW not in viewer.get(page).content.decode()


def test_a_search_by_provider_is_a_rule_about_it_also_of_what_is_new() -> None:
    client = signed_in(Role.EDITOR)
    channel()
    Story().tell(failed(provider="helios", fingerprint="f00d"), at=30).store()
    query = "provider=helios&operation=search_web&range=1h"
    assert any(link.startswith(f"{NEW}?failures=") for link in Shown(client.get(f"/failures?{query}")).links)
    form = begun(f"failures={quote(query)}")
    assert (form["operation"], form["providers"]) == ("search_web", ["helios"])
    assert all(name in form["name"] for name in ("search_web", "helios"))
    assert "first_seen" in form["triggers"], "also what was never seen before"
    assert "causes" not in form
    shown = client.get(f"{NEW}?failures={quote(query)}").content.decode()
    assert "\nhelios</textarea>" in shown
    assert "f00d" not in shown


def test_a_search_for_words_is_a_rule_about_the_causes_it_finds_on_all_its_pages() -> None:
    client = signed_in(Role.EDITOR)
    channel()
    story = Story()
    for name in ("f00d", "beef"):
        story.tell(failed(provider="helios", fingerprint=name, message=f"no capacity {name}"), at=30)
    story.tell(failed(fingerprint="cafe", message="something else"), at=20).store()
    form = begun(f"failures={quote('q=capacity&range=1h')}")
    assert sorted(form["causes"]) == ["beef", "f00d"]
    assert "first_seen" not in form["triggers"]
    shown = client.get(f"{NEW}?failures={quote('q=capacity&range=1h')}").content.decode()
    assert all(name in shown for name in ("f00d", "beef"))
    assert "cafe" not in shown
    assert begun(f"failures={quote('q=nowhere&range=1h')}")["causes"] == []


def test_the_command_line_says_what_a_rule_is_about(operator: Operator) -> None:
    one = rule(channel(), "regressed", name="some", causes=["f00d"], providers=["helios"])
    assert operator.run("notifications", "list") == cli.DONE
    [line] = [said for said in operator.said if said.startswith(f"rule {one.pk} ")]
    assert all(name in line for name in ("some", f"channel {one.channel_id}", "regressed", "f00d", "helios"))
