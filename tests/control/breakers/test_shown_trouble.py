"""A breaker that blocks no calls says in a word that they fail or are rejected; two screens show one figure."""

from __future__ import annotations

import pytest

from recovery_ops.cli.looking import breaker_lines
from recovery_ops.control.breakers.impact import impact_of
from recovery_ops.rules.enums import Category, Refusal, State
from recovery_ops.rules.events import BreakerRejected
from recovery_ops.rules.policy.scope import Scope
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, counted, failed, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


@pytest.fixture
def fleet() -> None:
    """`pay` is closed and fails, `crm` is closed and rejects, `mail` is open on one of two, `calm` is well."""
    story = Story()
    for name in ("r-0", "r-1"):
        closed = [moved(State.CLOSED, breaker=breaker) for breaker in ("pay", "crm", "mail", "calm")]
        story.tell(heartbeat(), *closed, at=50, instance=name)
    story.tell(moved(State.OPEN, breaker="mail"), at=40, instance="r-1")
    story.tell(*[failed(Category.CONFLICT, "pay")] * 10, counted(10, "pay"), at=20, instance="r-0")
    rejected = BreakerRejected(operation="crm", breaker="crm", state=State.CLOSED, count=60, reason=Refusal.SHED)
    story.tell(rejected, counted(61, "crm", attempts=1), at=20, instance="r-0")
    story.tell(counted(30, "calm"), counted(4, "mail"), at=20, instance="r-0").store()


@pytest.mark.usefixtures("fleet")
def test_closed_breaker_names_its_trouble() -> None:
    client = signed_in()
    listed, overview = Shown(client.get("/breakers")), Shown(client.get("/"))
    assert listed.values("troubled") == ["2"]
    for name, word in (("pay", "failing"), ("crm", "rejecting")):
        assert listed.within("key", f"breaker-{name}").one("trouble").data["trouble"] == word
        assert Shown(client.get(f"/breakers/{name}")).one("trouble").data["trouble"] == word
    assert overview.having("key", "trouble-crm")
    assert overview.having("key", "trouble-pay") or overview.having("key", "stuck-pay")
    for name in ("mail", "calm"):
        assert listed.within("key", f"breaker-{name}").having("trouble") == []
    assert {row.breaker.name for row in client.get("/breakers?show=troubled").context["rows"]} == {"pay", "crm"}


@pytest.mark.usefixtures("fleet")
def test_program_reads_trouble_of_breaker() -> None:
    rows = {row["name"]: row for row in signed_in().get("/api/v1/breakers").json()["breakers"]}
    troubles = {name: row["trouble"] for name, row in rows.items()}
    assert troubles == {"pay": "failing", "crm": "rejecting", "mail": None, "calm": None}
    assert rows["pay"]["worst"] == "closed"
    lines = {name: next(iter(breaker_lines(row))) for name, row in rows.items()}
    assert "failing" in lines["pay"]
    assert "rejecting" in lines["crm"]
    assert not {"failing", "rejecting"} & set(lines["calm"].split())


@pytest.mark.usefixtures("fleet")
def test_rates_agree_on_list_page_and_dialog() -> None:
    client = signed_in()
    rows = {row.breaker.name: row.breaker for row in client.get("/breakers").context["rows"]}
    for name, row in rows.items():
        page, impact = client.get(f"/breakers/{name}").context["row"], impact_of("dev", Scope(operation=name), now=NOW)
        rates = (row.calls_per_min, row.rejected_per_min)
        assert (page.calls_per_min, page.rejected_per_min) == rates
        assert (impact.calls_per_min, impact.rejected_per_min) == pytest.approx(rates)


@pytest.mark.usefixtures("fleet")
def test_state_agrees_on_list_page_and_timelines() -> None:
    client = signed_in()
    listed, timelines = client.get("/breakers").context["rows"], client.get("/timelines").content.decode()
    ratios = {row.breaker.name: (row.breaker.worst, row.ratio) for row in listed}
    assert ratios["mail"] == (State.OPEN, "1/2")
    page = client.get("/breakers/mail")
    assert (page.context["row"].worst, page.context["ratio"]) == ratios["mail"]
    assert "open 1/2" in timelines
    assert "closed 1/2" not in timelines
