"""The queue narrowed by age, provider and step; what its rows lead to; and until when a question is put off."""

from __future__ import annotations

from datetime import timedelta
from html import unescape
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.conf import settings
from django.http import QueryDict
from django.test import Client

from events import keys
from events.pages.empties import Why
from recovery_ops.control.escalations.export import EscalationsFile
from recovery_ops.control.escalations.models import Escalation, EscalationNote
from recovery_ops.control.escalations.services.actions import respond
from recovery_ops.control.exports.lists import Wish
from recovery_ops.control.notifications.escalation_policies import EVERY_QUEUE, ask
from recovery_ops.control.notifications.models.notifications import Channel, EscalationChain
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.actions import asked as of_ana
from tests.support.escalation_pages import questions
from tests.support.form_faults import faults_of
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of, troubled_fleet
from tests.support.rows import row
from tests.support.stories import NOW, Story, counted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


TOLD, MENDED = "the vendor was told", "the vendor mends it"


def place_in(answer: Any) -> tuple[int, int]:
    """At which place of how many in its list the question of a page stands."""
    beside = answer.context["beside"]
    return beside.place, beside.of


def shown(client: Client, query: str = "") -> str:
    return unescape(client.get(f"/escalations?{query}").content.decode())


def chain(queue: str, *steps: float) -> EscalationChain:
    channel = row(Channel, environment="dev", name="on-call", kind="slack")
    told = [{"after_s": after_s, "channel": channel.pk, "person": ""} for after_s in steps]
    made: EscalationChain = row(
        EscalationChain, environment="dev", name=queue, is_on=True, steps=told, since=NOW - timedelta(days=1)
    )
    return made


def test_old_questions_are_found_by_their_age() -> None:
    old, new = questions("old", "new")
    Escalation.objects.filter(pk=old.pk).update(opened_at=NOW - timedelta(hours=5))
    client = signed_in(Role.RESPONDER)
    page = shown(client, "age=4h")
    assert f"/escalations/{old.pk}" in page
    assert f'data-key="escalation-{new.pk}"' not in page
    assert f'data-key="escalation-{new.pk}"' in shown(client, "age=moon"), "what is no age narrows nothing"
    nobody = client.get("/escalations?age=9d")
    assert 'data-key="escalation-' not in nobody.content.decode()
    assert nobody.context["empty"].left == 2


def test_questions_are_found_by_whose_work_they_are_about() -> None:
    Story().tell(counted(1, provider="sol"), counted(1, "crm", provider="helios"), at=5).store()
    troubled_fleet(2)
    [other, one] = questions("crm", "search_web")
    page = shown(signed_in(Role.RESPONDER), "provider=sol")
    assert f'data-key="escalation-{one.pk}"' in page
    assert f'data-key="escalation-{other.pk}"' not in page
    assert "<option>helios</option>" in page
    assert 'data-key="escalation-' not in shown(signed_in(Role.RESPONDER), "provider=moon")


def test_questions_are_found_by_the_step_that_their_chain_has_reached(django_assert_max_num_queries: Any) -> None:
    [one, two] = questions("charge_card", "search_web", category=Category.POLICY_DENIED)
    chain(one.queue, 0, 600)
    respond("acknowledge", **of_ana(number=two.pk, reason="I look at it"))
    Escalation.objects.filter(pk=two.pk).update(queue="elsewhere")
    client = signed_in(Role.RESPONDER)
    page = shown(client, "step=1")
    assert f'data-key="escalation-{one.pk}"' in page
    assert f'data-key="escalation-{two.pk}"' not in page
    assert 'data-key="escalation-' not in shown(client, "step=2")
    with django_assert_max_num_queries(15):
        client.get("/escalations?step=1")
    given = client.get("/escalations?step=1&format=csv").content.decode()
    assert str(one) in given
    assert str(two) not in given


def test_a_queue_whose_own_chain_is_off_asks_nobody_and_no_list_says_otherwise() -> None:
    """Lists went by the chain of every queue, which asks nobody for a queue that has one of its own."""
    keys.forget_keys()
    [one] = questions("charge_card", category=Category.POLICY_DENIED)
    own = chain(one.queue, 600)
    at_once = [{**own.steps[0], "after_s": 0}]
    row(EscalationChain, environment="dev", name=EVERY_QUEUE, is_on=True, steps=at_once, since=own.since)
    client = signed_in(Role.RESPONDER)
    program = Client(headers={"authorization": f"Bearer {keys.create_key('a', ['read'], 'dev')[1]}"})
    for is_on, numbers in ((True, [one.pk]), (False, [])):
        EscalationChain.objects.filter(pk=own.pk).update(is_on=is_on)
        assert ask("dev", NOW) == 0
        assert (f'data-key="escalation-{one.pk}"' in shown(client, "step=0")) == is_on
        answer = client.get("/escalations/act/resolve", {"matching": "step=0"})
        assert (f'value="{one.pk}"' in answer.content.decode()) == is_on
        found = program.get("/api/v1/escalations?step=0").json()["escalations"]
        assert [each["number"] for each in found] == numbers
    assert shown(client, "step=1").count('data-key="escalation-') == 0


def test_what_hides_everything_is_named_beside_a_step() -> None:
    """The steps were those of what the other filter left: none of both alone seemed to leave anything."""
    [one] = questions("charge_card")
    chain(one.queue, 600)
    answer = signed_in(Role.RESPONDER).get("/escalations?step=0&q=nowhere")
    empty = answer.context["empty"]
    assert (empty.why, empty.left) == (Why.NO_MATCH, 1), "the step alone leaves one"
    assert "step=0" in empty.href
    assert "q=nowhere" not in empty.href


def test_acts_on_all_that_match_mean_what_the_list_shows() -> None:
    [one] = questions("charge_card")
    client = signed_in(Role.RESPONDER)
    query = "severity=bogus&age=moon"
    assert f'data-key="escalation-{one.pk}"' in shown(client, query)
    answer = client.get("/escalations/act/resolve", {"matching": query})
    assert answer.status_code == 200
    assert f'value="{one.pk}"' in answer.content.decode()


def test_programs_narrow_by_the_same_and_are_told_what_is_none() -> None:
    keys.forget_keys()
    [one] = questions("charge_card")
    client = Client(headers={"authorization": f"Bearer {keys.create_key('a', ['read'], 'dev')[1]}"})

    def asked(query: str) -> Any:
        return client.get(f"/api/v1/escalations?{query}").json()

    assert asked("age=1h")["escalations"] == []
    assert [found["number"] for found in asked("age=0m")["escalations"]] == [one.pk]
    assert asked("age=moon")["fields"].keys() == {"age"}
    assert asked("step=moon")["fields"].keys() == {"step"}
    assert asked("provider=moon")["escalations"] == []


def test_a_row_shows_the_last_comment_and_leads_to_its_breaker() -> None:
    troubled_fleet(2)
    [one] = questions("search_web")
    respond("note", **of_ana(number=one.pk, reason=TOLD))
    respond("note", **of_ana(number=one.pk, reason=MENDED, now=NOW + timedelta(seconds=5)))
    page = shown(signed_in(Role.RESPONDER))
    assert f"ana: {MENDED}" in page
    assert TOLD not in page
    assert 'href="/breakers/search_web"' in page


# -- put off -----------------------------------------------------------------------------------------------------------
def put_off(client: Client, one: Escalation, **said: str) -> Any:
    client.post("/escalations/act/snooze", {"number": one.pk} | said)
    one.refresh_from_db()
    return one.snoozed_until


def test_a_question_is_put_off_until_the_readers_next_morning_or_a_moment_of_their_zone() -> None:
    [one] = questions("search_web")
    Escalation.objects.update(resolve_by=NOW + timedelta(days=30), default_action="stay_closed")
    client = signed_in(Role.RESPONDER)
    client.cookies[f"{settings.COOKIE_PREFIX}zone"] = "Asia/Tokyo"
    there = ZoneInfo("Asia/Tokyo")
    until = put_off(client, one, for_s="tomorrow").astimezone(there)
    assert (until.date() - NOW.astimezone(there).date(), f"{until:%H:%M:%S}") == (timedelta(days=1), "09:00:00")
    moment = (NOW + timedelta(days=3)).astimezone(there).replace(second=0, microsecond=0)
    assert put_off(client, one, for_s="moment", until=f"{moment:%Y-%m-%dT%H:%M}") == moment
    answer = client.post("/escalations/act/snooze", {"number": one.pk, "for_s": "moment"})
    assert (answer.status_code, list(faults_of(answer))) == (422, ["until"])
    answer = client.post("/escalations/act/snooze", {"number": one.pk, "for_s": "moment", "until": "2001-01-01T00:00"})
    assert answer.status_code == 422


def test_who_asks_another_queue_sees_whom_its_chain_asks() -> None:
    [one] = questions("search_web")
    chain("night", 0, 900)
    page = signed_in(Role.RESPONDER).get(f"/escalations/act/escalate?number={one.pk}")
    asked = dict(page.context["queues"])["night"]
    assert [(who, "15m 00s" in after) for who, after in asked] == [("on-call", False), ("on-call", True)]
    assert "15m 00s" in text_of(page)


# -- from one to the next ----------------------------------------------------------------------------------------------
def test_one_goes_from_a_question_to_the_next_of_the_list_it_was_opened_from() -> None:
    one, two, three = questions("one", "two", "three")
    client = signed_in(Role.RESPONDER)
    Escalation.objects.filter(pk=two.pk).update(queue="elsewhere")
    page = shown(client, "queue=unclassified")
    address = f"/escalations/{one.pk}?list=queue%3Dunclassified"
    assert f'href="{address}"' in page
    answer = client.get(address)
    assert place_in(answer) == (1, 2)
    after = Shown(answer).one("press", "]").attributes["href"]
    assert after == f"/escalations/{three.pk}?list=queue%3Dunclassified"
    assert Shown(answer).having("press", "[") == []
    assert place_in(client.get(f"/escalations/{two.pk}"))[1] == 3, "the list as it opens"
    elsewhere = client.get(f"/escalations/{two.pk}?list=queue%3Dunclassified")
    assert place_in(elsewhere) == (0, 0)
    assert Shown(elsewhere).having("press", "]") == []
    assert place_in(client.get(f"/escalations/{two.pk}?list=q%3D%2500&kind=moon"))[1] == 3
    nothing = client.get("/escalations/act/resolve?matching=q%3D%2500", follow=True)
    assert nothing.redirect_chain == [("/escalations", 303)], "PostgreSQL answers the list with an error"
    assert not Escalation.objects.exclude(resolved_at=None).exists()


def test_a_file_of_questions_asks_once_and_not_for_what_it_does_not_tell(django_assert_max_num_queries: Any) -> None:
    made = questions("old", "new")
    for one in made:
        EscalationNote.objects.create(escalation=one, at=NOW, by="ana", verb="note", text="the vendor knows")
    wish = Wish(environment="dev", given=QueryDict(""), start=None, end=None, user_id=None, now=NOW)
    with django_assert_max_num_queries(1) as asked:
        [batch] = EscalationsFile().batches(wish)
    assert {cells[0] for cells in batch.rows} == {str(one) for one in made}
    assert "escalationnote" not in asked.captured_queries[0]["sql"], "of many rows the notes are the dearest"
