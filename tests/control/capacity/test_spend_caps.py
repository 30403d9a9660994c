"""Spend caps on the screens: Capacity says which are set and reached, a run says how it went on, people are asked."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from events.queries.spend_accounts import spend_accounts
from events.queries.spend_caps import caps_reached
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.policies.services import proposals
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.events import (
    Escalated,
    InstanceHeartbeat,
    RunFinished,
    RunStarted,
    RunStopped,
    SpendCapReached,
)
from recovery_ops.rules.policy.spend_settings import SpendCaps
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, ago, heartbeat

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

DAY = "day:2026-11-21"
NIGHTLY = "source:nightly:2026-11-21"


def reached(account: str = DAY, action: str = "park", **said: float | str) -> SpendCapReached:
    numbers = {"measure": "cost_usd", "spent": 5.25, "limit": 5.0, **said}
    return SpendCapReached(operation="ask", account=account, action=action, **numbers)  # type: ignore[arg-type]


def panel(query: str = "") -> Shown:
    client: Client = signed_in(Role.VIEWER)
    return Shown(client.get(f"/amplification?{query}")).within("id", "spend-caps")


def test_account_is_one_row_with_its_newest_numbers() -> None:
    story = Story().tell(reached(spent=5.0), at=300, run="r-1").tell(reached(), at=50, service="billing")
    story.tell(reached(), at=100, run="r-2")
    story.tell(reached(f"run:{'r' * 32}", "cheaper_model"), at=200, run="r-3").store()
    shown = panel()
    assert shown.values("key") == [
        f"cap-billing-{DAY}-cost_usd",
        f"cap-research-{DAY}-cost_usd",
        f"cap-research-run:{'r' * 32}-cost_usd",
    ]
    assert "5.25 of 5.00 USD" in shown.one("key", f"cap-research-{DAY}-cost_usd").text
    [_, day, _] = caps_reached("dev", start=ago(3600), end=NOW)
    assert (day.events, day.runs, day.run, day.first_at, day.last_at) == (2, {"r-1", "r-2"}, "r-2", ago(300), ago(100))


def test_set_caps_are_shown() -> None:
    assert panel().values("empty") == ["spend-caps"]
    document = {"spend_caps": {"day_cost_usd": 250, "run_tokens": 40_000, "action": "cheaper_model"}}
    editor = person(Role.EDITOR, "eva")
    made = proposals.propose(**asked(by=editor, document=document, title="caps")).object
    proposals.release_proposal(**asked(by=editor, number=made.number))
    shown = panel()
    facts = [(one.data["fact"], one.text) for one in shown.having("fact")]
    assert facts == [("Run tokens", "40,000"), ("Day cost", "250.00 USD"), ("Action", "cheaper model")]


def live_caps(**caps: float | str) -> None:
    editor = person(Role.EDITOR, "eva")
    made = proposals.propose(**asked(by=editor, document={"spend_caps": caps}, title="caps")).object
    proposals.release_proposal(**asked(by=editor, number=made.number))


def spent(accounts: dict[str, float], ledger: str = "l-1", raises: dict[str, int] | None = None) -> InstanceHeartbeat:
    """A heartbeat with dollars by account, and two calls and 300 tokens in each."""
    return heartbeat(
        spend_ledger=ledger,
        spent_calls=dict.fromkeys(accounts, 2),
        spent_tokens=dict.fromkeys(accounts, 300),
        spent_cost_usd=accounts,
        cap_raises=raises or {},
    )


def test_spending_is_shown_against_the_cap() -> None:
    live_caps(day_cost_usd=4, day_calls=100, source_tokens=1000, run_cost_usd=2)
    story = Story().tell(spent({DAY: 1.0, "day:2026-11-20": 9.0, NIGHTLY: 0.5}), at=40)
    story.tell(spent({DAY: 3.0, "run:run-1": 1.9}), at=5, instance="r-1").store()
    shown = panel()
    rows = ["spent-research-l-1-run:run-1", f"spent-research-l-1-{DAY}", f"spent-research-l-1-{NIGHTLY}"]
    assert shown.values("key") == rows
    assert [one.text for one in shown.within("key", rows[1]).having("spent")] == [
        "2 of 100 calls",
        "300 tokens",
        "3.00 of 4.00 USD",
    ]
    assert [shown.one("key", row).data["share"] for row in rows] == ["0.9500", "0.7500", "0.3000"]
    assert shown.within("key", rows[0]).links == ["/runs/run-1"]


def test_machines_of_a_service_have_a_row_each() -> None:
    live_caps(day_cost_usd=4)
    story = Story().tell(spent({DAY: 1.0}), at=40)
    story.tell(spent({DAY: 4.0}, "l-2", {DAY: 1}), at=30, instance="r-1")
    story.tell(heartbeat(), at=20, instance="r-2").store()
    rows = spend_accounts("dev", SpendCaps(day_cost_usd=4.0), NOW)
    assert [(row.ledger, row.share, row.raises, row.instances) for row in rows] == [
        ("l-2", 0.5, 1, {"r-1"}),
        ("l-1", 0.25, 0, {"a-1"}),
    ]


def test_runs_of_silent_instances_are_not_in_flight() -> None:
    live_caps(day_cost_usd=4, run_cost_usd=2)
    Story().tell(spent({DAY: 3.0, "run:run-1": 1.9}), at=900).store()
    assert panel().values("key") == [f"spent-research-l-1-{DAY}"]


def test_spending_is_shown_under_caps_alone() -> None:
    Story().tell(spent({DAY: 3.0}), at=5).store()
    assert panel().values("empty") == ["spend-caps"]
    live_caps(day_cost_usd=4)
    assert panel().values("empty") == ["spend-caps"]
    assert panel().having("spent")


def test_run_page_shows_spending_of_its_account() -> None:
    live_caps(run_cost_usd=2)
    given: dict[str, Any] = {"run": "run-1", "source": "main_agent", "is_foreground": True}
    Story().tell(RunStarted(name="report"), at=60, **given).tell(spent({"run:run-1": 1.5}), at=5).store()
    page = signed_in(Role.VIEWER).get("/runs/run-1").content.decode()
    assert "2 calls, 300 tokens and 1.50 of 2.00 USD" in page


def test_programs_read_spending() -> None:
    live_caps(day_cost_usd=4)
    Story().tell(spent({DAY: 3.0}), at=5).store()
    [row] = Program("read").get("spend-accounts")[1]["accounts"]
    assert (row["account"], row["share_of_cap"], row["instances"], row["run"]) == (DAY, 0.75, ["a-1"], None)
    assert (row["cost_usd"], row["tokens"]) == ({"spent": 3.0, "limit": 4.0}, {"spent": 300.0, "limit": None})


def test_run_page_tells_what_followed() -> None:
    given: dict[str, Any] = {"run": "run-7", "source": "main_agent", "is_foreground": True}
    story = Story().tell(RunStarted(name="report"), at=60, **given)
    story.tell(reached("run:run-7", "cheaper_model", to_model="small", spent=4.0, limit=4.0), at=50, **given)
    story.tell(reached("run:run-7", measure="tokens", spent=1200, limit=1000), at=40, **given)
    story.tell(RunStopped(operation="ask", reason="spend_cap"), at=40, **given)
    story.tell(RunFinished(status=RunStatus.STOPPED, duration_s=20.0), at=40, **given).store()
    page = signed_in(Role.VIEWER).get("/runs/run-7").content.decode()
    assert "spend cap reached: 4.00 of 4.00 USD" in page
    assert "run:run-7; small instead" in page
    assert "spend cap reached: 1,200 of 1,000 tokens" in page
    assert "run:run-7; run parked" in page


def test_cap_makes_a_run_known() -> None:
    Story().tell(reached("run:run-8"), at=50, run="run-8").store()
    assert signed_in(Role.VIEWER).get("/runs/run-8").status_code == 200


def test_parked_runs_are_one_question_about_budgets() -> None:
    story = Story()
    for number in range(3):
        story.tell(reached(), RunStopped(operation="ask", reason="spend_cap"), at=100 - number, run=f"run-{number}")
    question = Escalated(queue="budgets", reason="spend_cap", escalation_id="spend_cap-1", deadline_s=600.0)
    story.tell(question, at=10, run="run-9").store()
    assert open_escalations("dev", NOW) == 2
    parked = Escalation.objects.get(ticket="")
    assert (parked.queue, parked.reason, parked.occurrences) == ("budgets", "spend_cap", 3)
