"""Resets that go in steps, as people and programs meet them: before the click, while one goes on, and by the API."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from recovery_ops import cli
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.breakers.services import ramps as ramps_services
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.command_line import WHY, Operator, operator
from tests.support.fleet import seen_now
from tests.support.html import Shown
from tests.support.pages import REASON, bulk, signed_in
from tests.support.ramps import FLEET, obey, opened_fleet, reopen, reset, told
from tests.support.stories import NOW

__all__ = ["operator"]  # the fixture

pytestmark = [pytest.mark.django_db]
SENT = {"reason": REASON, "seen": "1", "key": "k-1"}


@pytest.mark.usefixtures("now")
def test_the_form_says_before_the_click_that_it_goes_in_steps() -> None:
    opened_fleet()
    assert Shown(signed_in().get("/breakers/search_web/reset")).values("steps") == ["1 5 10"]
    assert Shown(signed_in().get("/breakers/search_web/trip")).values("steps") == []


@pytest.mark.usefixtures("now")
def test_a_reset_leads_to_the_page_that_shows_how_it_stands() -> None:
    opened_fleet()
    client = signed_in()
    form = {"scope": "all", "reason": REASON, "seen": "0", "key": "k-1"}
    answer = client.post("/breakers/search_web/reset", form)
    assert (answer.status_code, answer["Location"]) == (303, "/resets/1")
    page = client.get("/resets/1")
    shown = Shown(page).within("id", "ramp")
    ramp = shown.root.data
    assert (ramp["state"], ramp["step"], ramp["progress"]) == ("running", "1/3", "1/10")
    [line] = page.context["lines"]
    assert (line.seen.one.agent.instance, line.state) == (told(1)[0], "open")
    assert shown.values("evidence") == ["not_applied"]
    assert Shown(client.get("/breakers/search_web")).one("reset", "1").data["step"] == "1/3"
    assert Shown(client.get("/resets")).one("going-on", "1").data["halted"] == "0"


@pytest.mark.usefixtures("now")
def test_who_halted_it_is_named_and_a_person_goes_on_or_cancels(monkeypatch: pytest.MonkeyPatch) -> None:
    opened_fleet()
    reset()
    [first] = told(1)
    obey([first], 1, after=2)
    reopen(first, after=14)
    ramps_services.keep_ramps(now=NOW + timedelta(seconds=16))
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(seconds=20))
    client = signed_in()
    page = Shown(client.get("/resets/1"))
    ramp = page.within("id", "ramp").root
    assert (ramp.data["state"], ramp.data["progress"]) == ("halted", "1/10")
    culprit = page.one("culprit")
    assert culprit.data["evidence"] == "opened_again"
    assert "14 s" in culprit.text
    assert f"search_web on research/{first}" in page.root.text
    assert client.post("/resets/1", SENT | {"act": "continue"}).status_code == 409
    assert client.post("/resets/1", SENT | {"act": "continue", "seen": "2", "reason": "x" * 501}).status_code == 422
    assert client.post("/resets/1", SENT | {"act": "continue", "seen": "2"}).status_code == 303
    assert ResetRamp.objects.get().state == "running"
    assert client.post("/resets/1", SENT | {"act": "cancel", "seen": "3", "key": "k-2"}).status_code == 303
    page = Shown(client.get("/resets/1"))
    ramp = page.within("id", "ramp").root
    assert (ramp.data["state"], ramp.data["progress"]) == ("cancelled", "5/10")
    assert REASON in page.root.text
    assert client.get("/resets/2").status_code == 404


@pytest.mark.usefixtures("now")
def test_a_viewer_sees_and_does_nothing() -> None:
    opened_fleet()
    reset()
    viewer = signed_in(Role.VIEWER, "vic")
    page = viewer.get("/resets/1")
    assert page.status_code == 200
    assert 'name="act"' not in page.content.decode()
    assert viewer.post("/resets/1", SENT | {"act": "cancel"}).status_code == 403


@pytest.mark.usefixtures("now")
def test_several_breakers_lead_to_one_reset() -> None:
    opened_fleet(("search_web", "fetch"), FLEET[:2])
    form = {"verb": "reset", "name": ["search_web", "fetch"], "scope": "all", "seen": "0", "key": "k-1"}
    page = Shown(bulk(signed_in(), form | {"reason": REASON, "expires_in_s": "3600", "confirm": "dev"}))
    assert page.values("result") == ["in_steps", "in_steps"]
    assert "/resets/1" in page.links


def test_a_program_watches_it_and_takes_the_next_step() -> None:
    opened_fleet()
    reset()
    seen_now()
    program = Program("read", "act")
    status, found = program.get("resets")
    assert (status, [one["number"] for one in found["resets"]]) == (200, [1])
    assert [step["count"] for step in found["resets"][0]["steps"]] == [1, 5, 10]
    status, found = program.get("resets/1")
    assert (status, found["reset"]["state"], found["members"][0]["has_applied"]) == (200, "running", False)
    why = {"reason": REASON}
    status, problem = program.post("resets/1/continue", why, If_Match='"7"')
    assert (status, problem["code"]) == (409, "stale")
    status, done = program.post("resets/1/continue", why)
    assert (status, done["ramp"]["reset"]) == (200, 5)
    status, done = program.post("resets/1/cancel", why)
    assert (status, done["ramp"]["state"]) == (200, "cancelled")
    assert program.get("resets/9")[0] == 404


def test_a_reset_by_the_api_answers_with_the_ramp() -> None:
    opened_fleet()
    seen_now()
    status, tried = Program().post("breakers/search_web/reset", {"reason": REASON, "dry_run": True})
    assert (status, tried["ramp"]["total"], tried["impact"]["not_closed"]) == (200, 10, 10)
    status, done = Program().post("breakers/search_web/reset", {"reason": REASON})
    assert (status, done["ramp"]["number"], ResetRamp.objects.count()) == (200, 1, 1)


@pytest.mark.django_db(transaction=True)
def test_on_the_command_line(operator: Operator) -> None:
    opened_fleet()
    seen_now()
    assert operator.run("reset", "search_web", *WHY) == cli.DONE
    ramp = ResetRamp.objects.get()
    assert [count for count, _ in ramp.plan] == [1, 4, 7]
    assert all(word in operator.said[1] for word in ("search_web", "running", "1 → 4 → 7", "resets show 1"))
    assert operator.run("resets", "list") == cli.DONE
    [line] = operator.said
    assert all(word in line for word in ("search_web", "running", "1 of 7", "1 → 4 → 7"))
    assert operator.run("resets", "continue", "1", *WHY) == cli.DONE
    ramp.refresh_from_db()
    assert (ramp.state, ramp.done_count) == ("running", 4)
    assert operator.run("resets", "show", "1") == cli.DONE
    assert "4 of 7" in operator.said[0]
    members = operator.said[1:]
    assert {one.split(":")[0].strip() for one in members} == {"step 1", "step 2"}
    assert all("search_web on research/" in one for one in members)
    assert operator.run("resets", "cancel", "1", *WHY) == cli.DONE
    assert all(word in operator.said[0] for word in ("cancelled", "4 of 7", WHY[1]))
    ramp.refresh_from_db()
    assert (ramp.state, ramp.ended_by, ramp.end_reason) == ("cancelled", "ana", WHY[1])
    assert operator.run("resets", "cancel", "1", *WHY) == cli.REFUSED
