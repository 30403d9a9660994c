"""What people did stands beside the facts: on the page, in the figure, in files, each with the way to it."""

from __future__ import annotations

import csv
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from events.pages.window import Window
from recovery_ops.control.breakers.models.overrides import Override
from recovery_ops.control.dashboard.marks import MOST, marks_in
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.rules.roles import Role
from tests.support.html import Shown
from tests.support.pages import HOSTILE, REASON, edited, held, signed_in, troubled_fleet
from tests.support.stories import NOW

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

HOUR = Window(start=NOW - timedelta(hours=1), end=NOW + timedelta(seconds=1))
RANGE = "from=2026-11-21T13:26:19Z&to=2026-11-21T14:26:19Z"


def asked(operation: str = "search_web", **changed: Any) -> Escalation:
    given: dict[str, Any] = {
        "environment": "dev",
        "key": operation,
        "reason": "retries_exhausted",
        "operation": operation,
        "service": "research",
        "opened_at": NOW - timedelta(minutes=5),
        "seen_at": NOW,
        "acknowledge_by": NOW,
        "resolve_by": NOW,
    } | changed
    return Escalation.objects.create(**given)


def busy() -> Escalation:
    """Somebody tripped search_web and called that off, released a policy, and an escalation was opened."""
    troubled_fleet()
    client = signed_in(Role.EDITOR)
    held(client)
    edited(client, seen="1", max_retries="5")
    Override.objects.update(ended_at=NOW, ended_by="ben", end_reason="it works again")
    return asked()


def test_acts_are_read_in_two_queries_newest_first_with_their_pages() -> None:
    escalation = busy()
    with CaptureQueriesContext(connection) as queries:
        found = marks_in("dev", HOUR, "")
    assert len(queries) <= 2
    assert [one.at for one in found] == sorted((one.at for one in found), reverse=True)
    told = {one.word: (one.kind, one.by, one.why, one.href.partition("?")[0]) for one in found}
    assert told == {
        "forced open search_web": ("override", "ana", REASON, "/breakers/search_web"),
        "override cleared search_web": ("override", "ben", "it works again", "/breakers/search_web"),
        "policy 1": ("policy", "ana", told["policy 1"][2], "/policies/releases/1"),
        f"ESC-{escalation.pk} opened": ("escalation", "research", "retries exhausted", f"/escalations/{escalation.pk}"),
    }
    client = signed_in(Role.EDITOR)
    for one in found:
        assert client.get(one.href.partition("#")[0]).status_code == 200, one.href


def test_what_was_called_off_before_it_began_never_held_and_is_no_mark() -> None:
    troubled_fleet()
    held(signed_in(Role.EDITOR))
    began, called_off = NOW - timedelta(minutes=5), NOW - timedelta(minutes=10)
    Override.objects.update(starts_at=began, ended_at=called_off, ended_by="ben", end_reason="not tonight")
    assert marks_in("dev", HOUR, "") == []
    Override.objects.update(ended_at=NOW)
    assert [mark.word for mark in marks_in("dev", HOUR, "")] == [
        "override cleared search_web",
        "forced open search_web",
    ]


def test_an_answer_is_a_mark_of_its_own_and_other_environments_and_times_have_theirs() -> None:
    one = asked(resolved_at=NOW - timedelta(minutes=1), resolved_by="ben", resolution="approved")
    asked("elsewhere", environment="prod")
    asked("long ago", opened_at=NOW - timedelta(days=3))
    assert [mark.word for mark in marks_in("dev", HOUR, "")] == [f"ESC-{one.pk} approved", f"ESC-{one.pk} opened"]


def test_of_one_breaker_only_what_reaches_it_is_marked() -> None:
    busy()
    asked("calm")
    words = [one.word for one in marks_in("dev", HOUR, "calm")]
    assert [word.partition(" ")[0] for word in sorted(words)] == [sorted(words)[0].split()[0], "policy"]
    assert not [word for word in words if "search_web" in word]
    Override.objects.update(operation="*")
    assert any("every breaker" in one.word for one in marks_in("dev", HOUR, "calm"))


def test_of_one_breaker_what_was_done_to_others_takes_no_room() -> None:
    troubled_fleet()
    held(signed_in(Role.EDITOR))
    Override.objects.update(starts_at=NOW - timedelta(minutes=30))
    others = [
        Override(
            environment="dev", operation="calm", mode="disabled", reason=REASON, by="ben", revision=9, ended_by="ben",
            starts_at=NOW - timedelta(minutes=1), expires_at=NOW, ended_at=NOW - timedelta(seconds=1),
        )
        for _ in range(MOST)
    ]  # fmt: skip
    Override.objects.bulk_create(others)
    assert [one.word for one in marks_in("dev", HOUR, "search_web")] == ["forced open search_web"]


def test_the_page_draws_them_and_its_table_leads_to_them() -> None:
    escalation = busy()
    client = signed_in(Role.VIEWER)
    answer = client.get(f"/timelines?{RANGE}&view=table")
    page = unescape(answer.content.decode())
    drawing = page.partition('id="figure"')[2].partition("</figure>")[0]
    assert drawing.count('class="pin"') >= 2
    assert "url(#p-asked)" in drawing, "an escalation has a lane of its own, and no mark beside it"
    tables = [Shown(one) for one in Shown(answer).within("id", "tables").root.children]
    [acts] = [one for one in tables if "/policies/releases/1" in one.links]
    assert any(link.startswith("/breakers/search_web?") for link in acts.links)
    assert REASON in acts.root.text
    asked_of = [one for one in tables if any(link.startswith(f"/escalations/{escalation.pk}") for link in one.links)]
    assert len(asked_of) == 1
    assert acts not in asked_of
    figure = client.get(f"/timelines/figure?{RANGE}").json()["figure"]
    marks = [one for one in figure["data"] if one.get("meta") == "marks"]
    assert {one["name"] for one in marks} == {"policy", "override"}
    assert {line[3] for one in marks for said in one["customdata"] for line in said[2]} >= {"/policies/releases/1"}


def test_files_have_them_too() -> None:
    busy()
    client = signed_in(Role.VIEWER)
    said = client.get(f"/timelines?{RANGE}&format=md").content.decode()
    assert "forced open search\\_web" in said

    def rows(table: int) -> list[list[str]]:
        text = client.get(f"/timelines?{RANGE}&format=csv&table={table}").content.decode()
        return list(csv.reader(text.splitlines()))

    columns, *acts = rows(7)
    assert columns[:5] == ["At", "Kind", "What", "By", "Why"]
    assert ["override", "forced open search_web", "ana", REASON] in [act[1:5] for act in acts]
    columns, *times = rows(8)
    assert columns[:4] == ["Breaker", "State", "Time", "Seconds"]
    assert ["search_web", "closed"] in [one[:2] for one in times]
    assert any(one[2] in said for one in times if one[:2] == ["search_web", "closed"]), "how long it was so"


def test_what_was_typed_stays_text() -> None:
    busy()
    Override.objects.update(reason=HOSTILE, end_reason=HOSTILE)
    client = signed_in(Role.VIEWER)
    assert "<img" not in client.get(f"/timelines?{RANGE}&view=table").content.decode()
    assert "<img" not in str(client.get(f"/timelines/figure?{RANGE}").json())
