"""Failures by class over time on the capacity page: bars and table say the same, over what people did meanwhile."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from events.capacity.detection import look
from events.capacity.reach import read_reach
from events.timelines import Kind
from recovery_ops.rules.enums import Category, State
from recovery_ops.rules.roles import Role
from tests.support.capacity import storm
from tests.support.html import Shown
from tests.support.pages import held, signed_in
from tests.support.query_counts import asked_of
from tests.support.stories import NOW, Story, ago, heartbeat, moved
from tests.support.told import untold

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def stormy() -> None:
    story = storm(Story(), since=600, until=300)  # 61 × 529
    storm(story, since=500, until=400, category=Category.RATE_LIMITED, provider="atlas")  # 21 × 429
    storm(story, since=450, until=440, category=Category.RATE_LIMIT_WINDOW, provider="atlas")  # 3 more
    storm(story, since=500, until=460, category=Category.SERVER_ERROR, provider="boreas")  # 9 × 5xx
    storm(story, since=500, until=480, category=Category.TIMEOUT, provider="selene")  # 5 timeouts
    storm(story, since=500, until=480, category=Category.AUTH, provider="selene")
    story.tell(moved(State.CLOSED, before=State.HALF_OPEN, breaker="search_web"), at=590, instance="a-1")
    story.tell(moved(State.OPEN, breaker="model:large"), at=500, instance="a-1")
    story.tell(moved(State.CLOSED, before=State.OPEN, breaker="model:large"), at=200, instance="a-1")
    story.tell(heartbeat(), at=5, instance="a-1").store()
    look("dev", NOW)
    read_reach("dev", NOW)


def panel_of(page: str) -> str:
    return page.partition('aria-labelledby="classes-title"')[2].partition("</section>")[0]


def test_bars_and_table_say_the_same_by_class_and_what_people_did_stands_under_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stormy()
    client = signed_in(Role.OPERATOR)
    held(client)
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(seconds=30))
    page = client.get("/capacity?range=15m")
    panel = panel_of(page.content.decode())
    assert "61 × 529" in panel
    drawn = dict.fromkeys(("429", "529", "5xx", "timeout"), 0)
    for count, code in re.findall(r": ([\d,]+) × (\w+)</title>", panel):
        drawn[code] += int(count)
    assert drawn == {"429": 24, "529": 61, "5xx": 9, "timeout": 5}
    rows = re.findall(r'</th>((?:<td class="num">[\d,]+</td>){5})</tr>', panel)
    sums = [sum(map(int, column)) for column in zip(*(re.findall(r">(\d+)<", row) for row in rows), strict=True)]
    assert sums == [24, 61, 9, 5, 99]
    classes = page.context["classes"]
    assert untold(" ".join(row.value for row in classes.lanes.rows), 99) == []
    titles = re.findall(r"<title>([^<]*)</title>", panel)
    assert any(untold(one, "model:large", "14:17:58", "14:22:58") == [] for one in titles)
    assert 'href="#g-diamond"' in panel
    assert [(one.kind, one.by) for one in classes.happened] == [(Kind.OVERRIDE, "ana")]
    assert Shown(panel).values("happened") == [Kind.OVERRIDE]
    assert asked_of(client, "/capacity?range=15m") <= 15
    before = {name: f"{ago(at):%Y-%m-%dT%H:%M:%SZ}" for name, at in (("from", 720), ("to", 570))}
    panel = panel_of(client.get("/capacity", before).content.decode())
    assert "<title>" in panel
    assert "model:large" not in panel, "none of them had opened by then"


def test_where_nothing_failed_so_there_is_no_figure() -> None:
    Story().tell(heartbeat(), at=5, instance="a-1").store()
    assert "classes-title" not in signed_in().get("/capacity").content.decode()
