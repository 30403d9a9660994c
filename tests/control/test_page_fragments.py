"""What pages answer to the script that refreshes them, and how often they ask the store."""

from __future__ import annotations

import json
import os
import re
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from recovery_ops.rules.roles import Role
from tests.support.pages import PAGES, edited, held, signed_in, troubled_fleet
from tests.support.query_counts import asked_of, asked_question
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

COUNTS = Path(__file__).parent.parent / "query_counts.json"

_MASKED = re.compile(r'(?<=name="csrfmiddlewaretoken" value=")[^"]*')

FRAGMENTS = {
    "overview": "/",
    "strip": "/overview/strip",
    "breakers": "/breakers",
    "breaker": "/breakers/search_web",
    "ramps": "/resets",
    "failures": "/failures",
    "unclassified": "/failures/unclassified",
    "runs": "/runs",
    "policies": "/policies",
    "agents": "/agents",
    "agent_settings": "/agents/settings?service=research&instance=r-0",
    "audit": "/audit",
    "timelines": "/timelines",
    "capacity": "/capacity",
    "escalations": "/escalations",
}


NARROWED_LISTS = {
    "question of a provider": "provider=helios",
    "question at a step": "step=1",
    "question of a provider at a step": "provider=helios&step=1",
}
"""Lists of the queue that other tables narrow, by what a question that was opened from them is called."""


@pytest.mark.parametrize(("part", "path"), FRAGMENTS.items())
def test_a_fragment_is_what_its_page_includes(part: str, path: str) -> None:
    troubled_fleet()
    client = signed_in(Role.EDITOR)
    held(client)
    client.get("/")  # takes the notice away
    page = _MASKED.sub("", client.get(path).content.decode())
    fragment = _MASKED.sub("", client.get(path, headers={"X-Fragment": part}).content.decode())
    assert f'id="{part}"' in fragment
    assert "<html" not in fragment
    assert fragment.partition('<span class="meta" id="range-words">')[0].strip() in page


@pytest.mark.parametrize(("part", "path"), FRAGMENTS.items())
def test_what_did_not_change_is_not_sent_again(part: str, path: str) -> None:
    troubled_fleet()
    client = signed_in()
    first = client.get(path, headers={"X-Fragment": part})
    again = client.get(path, headers={"X-Fragment": part, "If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "X-Fragment" in again.headers["Vary"]
    assert again.headers["Cache-Control"] == "private, no-cache"


def test_a_time_that_ticks_on_is_not_a_change(monkeypatch: pytest.MonkeyPatch) -> None:

    troubled_fleet()
    client = signed_in()
    headers = {"X-Fragment": "agents"}
    first = client.get("/agents", headers=headers)
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(seconds=3))
    headers["If-None-Match"] = first.headers["ETag"]
    assert client.get("/agents", headers=headers).status_code == 304


def test_pages_ask_no_more_than_is_written_down_however_large_the_fleet_is() -> None:
    troubled_fleet(3)
    client = signed_in(Role.EDITOR)
    held(client)
    edited(client, seen="1", max_retries="5")
    client.get("/")  # takes the notices away, and reads the desired state once
    for name in ("overview strip", "failures"):
        asked_of(client, PAGES[name])  # reads once what a process keeps
    few = {name: asked_of(client, path) for name, path in PAGES.items()}
    troubled_fleet(30)
    many = {name: asked_of(client, path) for name, path in PAGES.items()}
    question = asked_question()
    few["question"] = many["question"] = asked_of(client, question)
    for name, listed in NARROWED_LISTS.items():
        few[name] = many[name] = asked_of(client, f"{question}?{urlencode({'list': listed})}")
        few[f"list: {name}"] = many[f"list: {name}"] = asked_of(client, f"/escalations?{listed}")
    few["post-mortem"] = many["post-mortem"] = asked_of(client, f"{question}/post-mortem")
    few["issuer"] = many["issuer"] = asked_of(signed_in(Role.ADMIN, "eve"), "/settings/access/issuer")
    assert many == few, "the number of queries grows with the fleet"
    if os.environ.get("RECOVERY_OPS_TEST_WRITE") == "1":
        COUNTS.write_text(json.dumps(few, indent=2) + "\n")
    budgets = json.loads(COUNTS.read_text())
    assert budgets.keys() == few.keys(), "run: RECOVERY_OPS_TEST_WRITE=1 python3 manage.py test with this file"
    assert {name: asked for name, asked in few.items() if asked > budgets[name]} == {}
    assert max(budgets.values()) <= 15
