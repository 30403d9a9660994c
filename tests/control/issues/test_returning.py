"""When a cause comes back that was put away until it escalates, or is resolved in the next version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from events.failures import asking
from recovery_ops.control.core import commands
from recovery_ops.control.core.actors import Actor
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.issues.models import FailureCase
from recovery_ops.control.issues.reopening import Hour, clean_in_a_row, escalates_at, is_newer
from recovery_ops.control.issues.selectors import Standing, standing_of
from recovery_ops.control.issues.services import issues as failures
from recovery_ops.control.issues.services.due import keep_failures
from recovery_ops.control.issues.services.issues import triage
from recovery_ops.rules.enums import Category, RunStatus
from recovery_ops.rules.events import RunFinished
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, counted, failed, heartbeat

stored = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
WHY = "it waits for the release of the client"


@pytest.mark.parametrize(("usual", "at"), [(0, 10), (4, 10), (5, 11), (30, 61)])
def test_what_is_usual_says_with_how_many_it_escalates(usual: int, at: int) -> None:
    assert escalates_at(usual) == at


@pytest.mark.parametrize(
    ("minutes", "more", "began", "seen"),
    [(0, 2, 0, 5), (59, 2, 0, 5), (60, 2, 60, 2), (150, 0, 120, 0), (150, 400, 120, 0), (-5, 1, 0, 4)],
)
def test_hours_follow_each_other(minutes: int, more: int, began: int, seen: int) -> None:
    hour = Hour(NOW, 3).with_more(more, NOW + timedelta(minutes=minutes))
    assert hour == (NOW + timedelta(minutes=began), seen)


@pytest.mark.parametrize(
    ("version", "known", "newer"),
    [
        ("2.8.2", ["2.8.1"], True),
        ("2.10.0", ["2.9.1", "2.8.1"], True),
        ("2.8.1", ["2.8.1"], False),
        ("2.8.0", ["2.8.1"], False),
        ("2.8.0", ["2.7.0", "2.8.1"], False),
        ("v3", ["2.8.1"], True),
        ("2.0", ["2"], False),
        ("3", [], True),
        ("", [], False),
        ("", ["2.8.1"], False),
        ("a1b2c3", ["9f8e7d"], True),
        ("9f8e7d", ["9f8e7d"], False),
        ("2.8.2", ["2.8.1", "main"], True),
        ("2.8.2-rc1", ["2.8.2"], True),
    ],
)
def test_a_newer_version_is_one_that_came_after_those_known(version: str, known: list[str], newer: bool) -> None:
    assert is_newer(version, known) is newer


@pytest.mark.parametrize(
    ("seen", "ends_s", "failed_s", "in_a_row"),
    [
        (0, [], None, 0),
        (4, [], None, 4),
        (4, [1, 2], None, 6),
        (4, [], 5, 0),
        (4, [1, 2, 7], 5, 1),
        (4, [5], 5, 0),
        (4, [6, 7, 8], 5, 3),
    ],
)
def test_a_failure_begins_the_count_of_clean_runs_anew(
    seen: int, ends_s: list[int], failed_s: int | None, in_a_row: int
) -> None:
    failed_at = None if failed_s is None else NOW + timedelta(seconds=failed_s)
    assert clean_in_a_row(seen, [NOW + timedelta(seconds=s) for s in ends_s], failed_at=failed_at) == in_a_row


def who() -> dict[str, Any]:
    by = Actor(name="ana", kind="person", channel="web", may=lambda permission, environment: True, user_id=None)
    return {"by": by, "environment": "dev", "reason": WHY, "now": NOW}


def fails(times: int, *, ago_s: float, version: str = "2.8.1", instance: str = "r-0", name: str = "one") -> None:
    told = [failed(Category.TIMEOUT, "crm.update", fingerprint=name)] * times
    Story().tell(*told, at=ago_s, instance=instance, version=version).store()


def ends(*runs: str, ago_s: float, instance: str = "r-0", status: RunStatus = RunStatus.SUCCEEDED) -> None:
    story = Story()
    for run in runs:
        story.tell(RunFinished(status=status, duration_s=1.0), at=ago_s, instance=instance, run=run)
    story.store()


def calls(*, ago_s: float, instance: str = "r-0", operation: str = "crm.update") -> None:
    Story().tell(counted(3, operation), at=ago_s, instance=instance).store()


def standings(answer: Any) -> dict[str, Standing]:
    """How the causes in a list stand, by their names."""
    rows = answer.context["rows"]
    keys = [key for key in Shown(answer).values("key") if key.startswith("failure-")]
    assert keys == [f"failure-{row.found.fingerprint}" for row in rows]
    return {row.found.fingerprint: row.standing for row in rows}


def look(after_s: float) -> int:
    return keep_failures("dev", now=NOW + timedelta(seconds=after_s))


class TestStored:
    pytestmark = stored

    def test_it_stays_away_at_its_usual_rate_and_comes_back_when_it_escalates(self) -> None:
        fails(6, ago_s=7_000)
        fails(5, ago_s=600)
        fails(40, ago_s=500, name="another")
        case = triage("archive", fingerprint="one", escalating=True, **who()).object
        assert case.archived_usual == 6
        standing = standing_of(case, last=NOW, now=NOW)
        assert (standing.state, left_out(standing.words, "13")) == ("archived", [])
        fails(12, ago_s=-10)
        assert look(20) == 0
        fails(12, ago_s=-3_700)
        assert look(3_710) == 0, "the next hour begins with none"
        fails(1, ago_s=-3_720)
        assert look(3_730) == 1
        assert look(3_731) == 0
        held = FailureCase.objects.get()
        assert (held.state, held.archived_usual) == ("open", None)
        assert left_out(held.reason, "13", "6") == []
        assert AuditEntry.objects.latest("number").verb == "failure.return"

    def test_however_much_fails_the_worst_hour_is_counted_whole(self) -> None:
        fails(5, ago_s=7_000)
        fails(9, ago_s=600, name="another")
        assert asking.busiest_hours("dev", now=NOW) == {"one": 5, "another": 9}

    def test_a_day_is_counted_before_anything_is_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fails(5, ago_s=600)
        order: list[str] = []
        counted, carried_out = asking.busiest_hours, commands.execute

        def count(*args: Any, **more: Any) -> Any:
            order.append("counted")
            return counted(*args, **more)

        def execute(*args: Any, **more: Any) -> Any:
            order.append("written")
            return carried_out(*args, **more)

        monkeypatch.setattr(failures, "busiest_hours", count)
        monkeypatch.setattr(failures, "execute", execute)
        assert triage("archive", fingerprint="one", escalating=True, **who()).object.archived_usual == 5
        assert order == ["counted", "written"]

    def test_what_the_versions_known_do_does_not_bring_it_back(self) -> None:
        fails(2, ago_s=600)
        case = triage("resolve", fingerprint="one", next_version=True, **who()).object
        assert case.versions == {"research": ["2.8.1"]}
        fails(3, ago_s=-5)
        standing = standing_of(case, last=NOW + timedelta(seconds=5), now=NOW)
        assert (standing.state, standing.is_open) == ("resolved", False)
        assert look(10) == 0
        fails(1, ago_s=-15, version="2.7.9", instance="r-old")
        assert look(20) == 0
        fails(1, ago_s=-25, version="2.9.0", instance="r-new", name="another")
        assert look(30) == 0
        fails(1, ago_s=-35, version="2.9.0", instance="r-new")
        assert look(40) == 1
        held = FailureCase.objects.get()
        assert (held.state, held.versions) == ("regressed", None)
        assert held.reason

    def test_what_the_old_one_told_just_before_it_was_replaced_is_no_failure_of_the_new_one(self) -> None:
        fails(2, ago_s=600)
        triage("resolve", fingerprint="one", next_version=True, **who())
        assert look(1) == 0
        fails(1, ago_s=-2)
        Story().tell(heartbeat(), at=-3, instance="r-0", version="2.9.0").store()
        assert look(4) == 0
        fails(1, ago_s=-5, version="2.9.0")
        assert look(6) == 1

    def test_it_is_done_with_after_clean_runs_in_a_row(self) -> None:
        fails(1, ago_s=600)
        case = triage("resolve", fingerprint="one", clean_runs=3, **who()).object
        standing = standing_of(case, last=NOW, now=NOW)
        assert (standing.state, standing.is_open, left_out(standing.words, "3")) == ("pending", True, [])
        ends("a", "b", "c", "d", ago_s=-1)
        assert look(2) == 0, "nobody is known to call it"
        calls(ago_s=-3)
        ends("e", "f", ago_s=-4)
        ends("g", "h", "i", ago_s=-4, instance="r-elsewhere")
        ends("j", ago_s=-4, status=RunStatus.FAILED)
        assert look(5) == 0
        case = FailureCase.objects.get()
        standing = standing_of(case, last=NOW, now=NOW)
        assert (standing.state, left_out(standing.words, "1")) == ("pending", [])
        told = failed(Category.TIMEOUT, "crm.update", fingerprint="one")
        Story().tell(told, at=-6, instance="r-0", run="met").store()
        ends("met", "k", "l", ago_s=-7)
        assert look(8) == 0, "the failure begins the count anew, and its run is not clean"
        assert FailureCase.objects.get().clean_seen == 2
        ends("m", ago_s=-9)
        assert look(10) == 1
        assert look(11) == 0
        held = FailureCase.objects.get()
        assert (held.state, held.clean_needed, left_out(held.reason, "3")) == ("resolved", None, [])
        assert AuditEntry.objects.latest("number").verb == "failure.resolve"
        fails(1, ago_s=-12)
        assert look(13) == 1
        assert FailureCase.objects.get().state == "regressed"

    def test_who_was_held_back_by_an_open_breaker_called_nothing(self) -> None:
        fails(1, ago_s=600)
        triage("resolve", fingerprint="one", clean_runs=1, **who())
        rejected = counted(3, "crm.update", attempts=0, successes=0, rejected=3)
        Story().tell(rejected, at=-1, instance="r-0").store()
        ends("a", "b", ago_s=-2)
        assert look(3) == 0, "no call was made"
        calls(ago_s=-4)
        ends("c", ago_s=-5)
        assert look(6) == 1

    def test_after_clean_runs_is_said_by_form_program_and_bulk(self) -> None:
        fails(1, ago_s=600)
        fails(1, ago_s=500, name="two")
        client = signed_in()
        assert "clean_runs" in Shown(client.get("/failures/act/resolve?fingerprint=one")).fields
        said = {"fingerprint": ["one", "two"], "how": "clean", "clean_runs": "12", "reason": WHY}
        assert client.post("/failures/act/resolve", said).status_code == 303
        shown = standings(client.get("/failures"))
        assert {name: (one.state, left_out(one.words, "12")) for name, one in shown.items()} == dict.fromkeys(
            ("one", "two"), ("pending", [])
        )
        assert client.post("/failures/act/resolve", said | {"fingerprint": "one", "clean_runs": ""}).status_code == 422
        body = {"reason": WHY, "verb": "resolve", "fingerprints": ["one"], "clean_runs": 5}
        assert Program().post("failures", body)[1]["refused"] == 0
        rows = {row["fingerprint"]: row for row in Program().get("failures?state=pending")[1]["failures"]}
        assert {name: row["clean_runs"] for name, row in rows.items()} == {"one": 5, "two": 12}
        both = Program().post("failures", body | {"next_version": True})[1]
        assert "clean_runs" in both["results"][0]["problem"]["fields"]

    def test_resolved_now_and_in_the_next_version_are_two_decisions(self) -> None:
        fails(1, ago_s=600)
        assert triage("resolve", fingerprint="one", **who()).object.versions is None
        again = triage("resolve", fingerprint="one", next_version=True, **who())
        assert (again.was_already, again.object.versions) == (False, {"research": ["2.8.1"]})
        assert triage("resolve", fingerprint="one", next_version=True, **who()).was_already
        assert triage("resolve", fingerprint="one", **who()).object.versions is None

    def test_without_a_version_there_is_no_next_one(self) -> None:
        fails(1, ago_s=600, version="")
        with pytest.raises(CommandRejected) as refused:
            triage("resolve", fingerprint="one", next_version=True, **who())
        assert refused.value.code == "no_version"

    def test_only_one_end_of_being_put_away_is_given(self) -> None:
        fails(1, ago_s=600)
        with pytest.raises(CommandRejected):
            triage("archive", fingerprint="one", escalating=True, more=3, **who())

    def test_the_forms_say_so_and_the_page_shows_it(self) -> None:
        fails(1, ago_s=600)
        fails(1, ago_s=500, name="two")
        client = signed_in()
        form = Shown(client.get("/failures/act/archive?fingerprint=one"))
        assert "escalating" in [one.attributes.get("value") for one in form.root.all() if one.tag == "input"]
        said = {"fingerprint": "one", "until": "escalating", "reason": WHY}
        assert client.post("/failures/act/archive", said).status_code == 303
        said = {"fingerprint": "two", "how": "next", "reason": WHY}
        assert client.post("/failures/act/resolve", said).status_code == 303
        shown = standings(client.get("/failures?tab=all"))
        assert (shown["one"].state, left_out(shown["one"].words, "10")) == ("archived", [])
        assert shown["two"].state == "resolved"
        assert FailureCase.objects.get(fingerprint="two").versions == {"research": ["2.8.1"]}

    def test_a_program_says_it_too(self) -> None:
        fails(1, ago_s=600)
        body = {"reason": WHY, "verb": "archive", "fingerprints": ["one"], "escalating": True}
        assert Program().post("failures", body)[0] == 200
        [row] = Program().get("failures")[1]["failures"]
        assert (row["state"], row["archived_usual"]) == ("archived", 1)
        body = {"reason": WHY, "verb": "resolve", "fingerprints": ["one"], "next_version": True}
        assert Program().post("failures", body)[0] == 200
        [row] = Program().get("failures")[1]["failures"]
        assert (row["state"], row["next_version_after"]) == ("resolved", {"research": ["2.8.1"]})
