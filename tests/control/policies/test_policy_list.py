"""What the list of policies tells of each operation: how much it is about, how it ends, and who said it last."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest

from events.recoveries.models import RecoveryDay
from recovery_ops.control.policies import editors
from recovery_ops.control.policies.services import policies as policies_services
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, counted

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
_TODAY = (NOW.date() - date(1970, 1, 1)).days


def said_of(operation: str) -> list[str]:
    """Last edited, calls of a day and runs recovered, as the page tells them."""
    page = signed_in(Role.VIEWER).get("/policies?column=edited&column=day&column=recovered").content.decode()
    [row] = re.findall(rf'data-key="operation-{operation}".*?</tr>', page, re.DOTALL)
    cells = [re.sub(r"<[^>]+>", " ", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
    return [" ".join(cell.split()) for cell in cells[6:9]]


def edit(operation: str, retries: int, by: str, **more: Any) -> None:
    policies_services.set_operation_policy(
        **asked(by=person(Role.EDITOR, by), operation=operation, settings={"max_retries": retries}, **more)
    )


def test_each_operation_says_its_calls_of_a_day_its_recovered_runs_and_its_last_editor() -> None:
    story = Story().tell(counted(10), counted(7, "charge"), at=60)
    story.tell(counted(30), at=20 * 3_600).tell(counted(500), at=25 * 3_600).store()
    day: dict[str, Any] = {"environment": "dev", "read_us": 1, "facts": 1}
    causes = [["search_web", "timeout", 9, 6, 1], ["search_web", "overloaded", 9, 2, 1], ["plan", "timeout", 9, 9, 9]]
    RecoveryDay.objects.create(**day, day=_TODAY, causes=causes)
    RecoveryDay.objects.create(**day, day=_TODAY - 7, causes=[["search_web", "timeout", 90, 90, 90]])
    edit("search_web", 5, "eva")
    edit("search_web", 6, "tom", service="research")
    edit("plan", 6, "kim", ahead=True)
    edited, calls, recovered = said_of("search_web")
    assert edited.endswith("policy 2 by tom")
    assert (calls, recovered) == ("40", "75 % of 8")
    assert said_of("charge") == ["–", "7", "–"]


def test_what_older_releases_said_is_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    Story().tell(counted(10), counted(7, "charge"), at=60).store()
    edit("search_web", 5, "eva")
    edit("charge", 5, "tom")
    monkeypatch.setattr(editors, "RELEASES_READ", 1)
    assert said_of("search_web")[0] == "–"
    assert said_of("charge")[0].endswith("policy 2 by tom")


def test_what_runs_cost_is_of_those_that_told_it() -> None:
    Story().tell(counted(10), counted(7, "charge"), counted(7, "plan"), at=60).store()
    day: dict[str, Any] = {"environment": "dev", "read_us": 1, "facts": 1}
    causes = [["search_web", "timeout", 9, 6, 1], ["charge", "timeout", 3, 2, 0]]
    RecoveryDay.objects.create(**day, day=_TODAY, causes=causes, costs=[["search_web", 3, 0.9]])
    RecoveryDay.objects.create(**day, day=_TODAY - 1, causes=[], costs=[["search_web", 1, 0.3]])
    RecoveryDay.objects.create(**day, day=_TODAY - 2, causes=[["search_web", "timeout", 4, 4, 0]], costs=None)

    def cost_of(operation: str) -> str:
        page = signed_in(Role.VIEWER).get("/policies?column=cost").content.decode()
        [row] = re.findall(rf'data-key="operation-{operation}".*?</tr>', page, re.DOTALL)
        cells = [re.sub(r"<[^>]+>", " ", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        return " ".join(cells[9].split())

    assert cost_of("search_web") == "$0.30 of 4 runs"
    assert cost_of("charge") not in ("", "–"), "no cost was reported, which is not no run"
    assert cost_of("plan") == "–"
    by_cost = signed_in(Role.VIEWER).get("/policies?sort=-cost").content.decode()
    assert by_cost.index("operation-search_web") < by_cost.index("operation-charge")
