"""When no agent reports, breakers keep their last reported states, marked as stale, on every screen and in the API."""

from __future__ import annotations

from datetime import timedelta

import pytest

from recovery_ops.cli.looking import breaker_lines
from recovery_ops.rules.enums import State
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def fleet(ago_s: float, *, goodbye: bool) -> None:
    """`pay` was open on one of two instances, `crm` closed; both fell silent, or said goodbye, so long ago."""
    story = Story()
    for name in ("r-0", "r-1"):
        closed = [moved(State.CLOSED, breaker=breaker) for breaker in ("pay", "crm")]
        story.tell(heartbeat(), *closed, at=ago_s + 50, instance=name)
    story.tell(moved(State.OPEN, breaker="pay"), at=ago_s + 20, instance="r-1")
    for name in ("r-0", "r-1"):
        story.tell(heartbeat("stopped" if goodbye else "running"), at=ago_s, instance=name)
    story.store()


@pytest.mark.parametrize("goodbye", [False, True], ids=["silent", "stopped"])
@pytest.mark.parametrize("ago_s", [120.0, 1200.0, 100_000.0])
def test_silent_fleet_keeps_stale_states(ago_s: float, goodbye: bool) -> None:
    fleet(ago_s, goodbye=goodbye)
    client = signed_in()

    listed = Shown(client.get("/breakers"))
    assert {listed.within("key", f"breaker-{name}").one("stale").data["stale"] for name in ("pay", "crm")} == {
        "open",
        "closed",
    }
    sentence = client.get("/breakers").context["sentence"]
    last = NOW - timedelta(seconds=ago_s)
    assert f"{last:%H:%M:%S}" in sentence

    tile = Shown(client.get("/")).one("tile", "breakers").data
    assert (tile["figure"], tile["unknown"]) == ("–", "2")

    rows = {row["name"]: row for row in client.get("/api/v1/breakers").json()["breakers"]}
    assert {name: (row["worst"], row["last_worst"], row["unknown"]) for name, row in rows.items()} == {
        "pay": (None, "open", 2),
        "crm": (None, "closed", 2),
    }
    assert "open" in next(iter(breaker_lines(rows["pay"])))


def test_gone_instance_is_forgotten_while_another_reports() -> None:
    story = Story()
    story.tell(heartbeat(), moved(State.OPEN, breaker="old"), at=90_000, instance="r-0")
    story.tell(heartbeat(), moved(State.CLOSED, breaker="new"), at=5, instance="r-1").store()
    rows = signed_in().get("/api/v1/breakers").json()["breakers"]
    assert [(row["name"], row["worst"], row["last_worst"]) for row in rows] == [("new", "closed", None)]


def test_page_of_breaker_shows_stopped_instances() -> None:
    fleet(1200.0, goodbye=True)
    page = signed_in().get("/breakers/pay")
    assert page.context["row"].instances == 2
    assert page.context["row"].worst is None
