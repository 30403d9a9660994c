"""New work that people pause: asked for by page, program and command line, told to agents, and shown as seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from events.models import Agent
from events.queries import fleet
from events.wording import clock_text
from recovery_ops import cli
from recovery_ops.control.agents.models.pauses import WorkPause
from recovery_ops.control.agents.pause_status import Activity, Heed, HeedReason, Pauses
from recovery_ops.control.agents.services.pauses import Target, end_expired_pauses, pause_work, resume_work
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.desired_state import document as desired
from recovery_ops.rules.desired_state import Pause
from recovery_ops.rules.roles import Role
from recovery_ops.wire import parse_desired
from tests.support.actions import asked, person
from tests.support.api_client import Program
from tests.support.command_line import Operator, operator
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, heartbeat

__all__ = ["operator"]  # the fixture

pytestmark = [pytest.mark.django_db]
WHY = "the ledger moves to another host"
R0: Target = ("research", "r-0")
R1: Target = ("research", "r-1")


def beat(*instances: str, service: str = "research", at: float = 5, **said: Any) -> None:
    """Instances that live, and say so."""
    story = Story()
    for instance in instances:
        story.tell(heartbeat(**said), at=at, service=service, instance=instance)
    story.store()


def paused(*targets: Target, **more: Any) -> Any:
    return pause_work(**asked(targets=targets or (R0,), reason=WHY) | more)


def resumed(*targets: Target, **more: Any) -> Any:
    return resume_work(**asked(targets=targets or (R0,), reason="the ledger has moved") | more)


def obeyed(service: str = "research", instance: str = "r-0", **later: float) -> Pause | None:
    """What an instance is told, as it reads it."""
    now = NOW + timedelta(**later)
    read = parse_desired(desired.document("dev", service=service, instance=instance, now=now))
    return read.pause_of(now.timestamp(), service=service, instance=instance)


def told(instance: str = "r-0", **later: float) -> tuple[Heed, HeedReason] | None:
    """What the console says that an instance has said, and why."""
    now = NOW + timedelta(**later)
    [agent] = [one for one in fleet("dev", now=now, include_stopped=True) if one.instance == instance]
    found = Pauses("dev", now).told(agent)
    return None if found is None else (found.heed, found.reason)


def words(instance: str) -> str:
    """The words beside that."""
    [agent] = [one for one in fleet("dev", now=NOW) if one.instance == instance]
    found = Pauses("dev", NOW).told(agent)
    assert found is not None
    return found.words


def heard_by(activity: Activity) -> dict[Heed, list[str]]:
    """The instances by what they have said."""
    return {heed: [one.agent.instance for one in rows] for heed, rows in activity.by_heed.items()}


def notice_of(page: Any) -> str:
    """What the page tells of what was done last."""
    return str(list(page.context["messages"])[-1])


# -- the act -----------------------------------------------------------------------------------------------------------
def test_it_is_state_that_they_alone_are_told_with_who_why_and_until_when() -> None:
    beat("r-0", "r-1")
    done = paused(expires_in_s=900.0)
    wish = obeyed()
    assert wish is not None
    assert (wish.by, wish.reason, wish.revision) == ("ana", WHY, done.revision)
    assert wish.expires_at == (NOW + timedelta(seconds=900)).timestamp()
    assert obeyed(instance="r-1") is None
    assert obeyed(seconds=900) is None, "it ends without the console"
    [entry] = AuditEntry.objects.filter(verb="work.pause")
    assert (entry.object, entry.reason, entry.revision) == ("new work of research/r-0", WHY, done.revision)


def test_a_service_is_paused_with_those_that_begin_later() -> None:
    beat("r-0")
    beat("b-0", service="billing")
    paused(("research", ""), expires_in_s=None)
    wish = obeyed(instance="r-77", days=20)
    assert wish is not None
    assert wish.expires_at is None
    assert obeyed("billing", "b-0") is None


def test_several_are_one_revision_and_asked_for_twice_nothing_is_written() -> None:
    beat("r-0", "r-1")
    assert paused(R0, R1, dry_run=True).is_dry_run
    assert not WorkPause.objects.exists()
    first = paused(R0, R1)
    again = paused(R1, R0, by=person(name="ben"))
    assert (again.was_already, again.revision) == (True, first.revision)
    assert {one.revision for one in WorkPause.objects.all()} == {1}
    [entry] = AuditEntry.objects.all()
    assert entry.after is not None
    assert entry.after["names"] == ["research/r-0", "research/r-1"]


def test_pause_of_some_paused_already_reaches_all() -> None:
    beat("r-0", "r-1")
    paused(R0)
    done = paused(R0, R1)
    assert not done.was_already
    assert [getattr(obeyed(instance=name), "revision", None) for name in ("r-0", "r-1")] == [done.revision] * 2
    resumed(R0)
    assert (obeyed(), obeyed(instance="r-1") is not None) == (None, True)
    assert [one.instance for one in resumed(R0, R1).object] == ["r-1"]
    assert (obeyed(), obeyed(instance="r-1")) == (None, None)


def test_asked_for_with_another_end_the_newest_wish_holds() -> None:
    beat("r-0")
    paused()
    paused(expires_in_s=7200.0)
    assert [one.end_reason for one in WorkPause.objects.order_by("revision")] == ["replaced", ""]
    wish = obeyed(seconds=5000)
    assert wish is not None
    assert wish.revision == 2
    [before] = AuditEntry.objects.get(revision=2).before["pauses"]
    assert before["name"] == "research/r-0"


def test_a_key_stands_for_whom_and_how_long_it_was_used_for() -> None:
    beat("r-0", "r-1")
    first = paused(key="k-1")
    again = paused(key="k-1")
    assert (again.was_already, again.revision) == (True, first.revision)
    for other in ({"targets": [R1]}, {"expires_in_s": 900.0}):
        with pytest.raises(CommandRejected) as refused:
            paused(key="k-1", **other)
        assert refused.value.code == "key_used"


@pytest.mark.usefixtures("now")
def test_a_form_that_is_sent_again_when_it_holds_no_more_says_that_and_not_what_is_so_now() -> None:
    beat("r-0")
    client = signed_in(Role.OPERATOR)
    [agent] = Agent.objects.all()
    sent = {"agent": agent.pk, "reason": WHY, "lasts": "3600", "key": "k-1"}
    client.post("/agents/act/pause", sent)
    paused(expires_in_s=7200.0)
    notice = notice_of(client.post("/agents/act/pause", sent, follow=True))
    assert "research/r-0" in notice
    assert "revision 1" in notice
    assert WorkPause.objects.count() == 2
    ends = [clock_text(one.expires_at, today=NOW) for one in WorkPause.objects.all() if one.expires_at is not None]
    assert len(ends) == 2
    assert not any(end in notice for end in ends), "neither the first wish nor the one that holds is told as new"


def test_what_has_ended_by_its_time_is_told_as_over_also_before_anybody_notes_that() -> None:
    beat("r-0", "r-1", takes_new_work=False)
    paused(R0, R1, expires_in_s=60.0)
    now = NOW + timedelta(seconds=61)
    beat("r-0", at=-60, takes_new_work=True)
    beat("r-1", at=-60, takes_new_work=False)
    [found] = Pauses("dev", now).activities(fleet("dev", now=now))
    assert (found.is_over, found.done, found.total) == (True, 1, 2)
    assert heard_by(found) == {Heed.BACK: ["r-0"], Heed.WAITED_FOR: ["r-1"]}
    assert (found.first.ended_at, found.first.ended_by, found.first.end_revision) == (
        NOW + timedelta(seconds=60),
        "expiry",
        None,
    )


def test_what_is_not_known_or_not_allowed_is_refused() -> None:
    beat("r-0")
    statuses = []
    wrong: list[dict[str, Any]] = [
        {"targets": [("research", "moon")]},
        {"targets": [("moon", "")]},
        {"by": person(Role.RESPONDER)},
        {"expires_in_s": 5.0},
        {"expires_in_s": 90_000.0},
        {"targets": [("", "r-0")]},
        {"targets": []},
    ]
    for more in wrong:
        with pytest.raises(CommandRejected) as rejection:
            paused(**more)
        statuses.append(rejection.value.status)
    assert statuses == [404, 404, 403, 400, 400, 400, 400]
    with pytest.raises(CommandRejected) as held:
        resumed()
    assert (held.value.status, held.value.code) == (409, "not_paused")
    assert not WorkPause.objects.exists()


def test_resumed_nobody_is_told_any_more_and_it_can_be_paused_anew() -> None:
    beat("r-0", "r-1")
    paused(R0, R1)
    assert resumed(R0).revision == 2
    assert obeyed() is None
    assert obeyed(instance="r-1") is not None
    assert not paused().was_already


def test_who_is_paused_with_a_service_is_resumed_with_it() -> None:
    beat("r-0")
    paused(("research", ""))
    with pytest.raises(CommandRejected) as rejection:
        resumed(R0)
    assert rejection.value.code == "not_paused"
    assert all(said in rejection.value.detail for said in ("ana", "research", WHY))
    resumed(("research", ""))
    assert obeyed() is None


def test_its_end_is_noted_once_and_holds_nothing_up() -> None:
    beat("r-0", "r-1")
    paused(expires_in_s=900.0)
    paused(R1, expires_in_s=None)
    late = NOW + timedelta(seconds=901)
    assert [one.name for one in end_expired_pauses("dev", now=late)] == ["research/r-0"]
    assert end_expired_pauses("dev", now=late) == []
    [entry] = AuditEntry.objects.filter(verb="work.expire")
    assert (entry.object, entry.revision) == ("new work of research/r-0", 3)
    assert paused(now=late).revision == 4


def test_an_end_that_nobody_has_noted_is_no_pause_any_more() -> None:
    beat("r-0")
    paused(expires_in_s=900.0)
    late = NOW + timedelta(seconds=901)
    with pytest.raises(CommandRejected):
        resumed(now=late)
    assert not paused(now=late, expires_in_s=900.0).was_already
    assert [one.end_reason for one in WorkPause.objects.order_by("revision")] == ["expired", ""]


# -- what is seen of it ------------------------------------------------------------------------------------------------
def test_what_is_shown_is_what_the_instance_said() -> None:
    beat("r-0", takes_new_work=True, runs_in_flight=3)
    assert told() is None
    revision = paused().revision
    assert told() == (Heed.WAITED_FOR, HeedReason.NOTHING_APPLIED)
    Agent.objects.update(revision=revision)
    assert told() == (Heed.WAITED_FOR, HeedReason.HEARD)
    beat("r-0", at=4, status="draining", revision=revision, takes_new_work=False, runs_in_flight=3)
    assert told() == (Heed.DRAINING, HeedReason.RUNS_IN_HAND)
    assert "3 runs" in words("r-0")
    beat("r-0", at=3, status="drained", revision=revision, takes_new_work=False)
    assert told() == (Heed.DRAINED, HeedReason.NONE_LEFT)
    assert told(minutes=5) == (Heed.SILENT, HeedReason.UNREACHABLE)
    resumed()
    assert told() == (Heed.WAITED_FOR, HeedReason.OLDER_REVISION)
    assert "revision 1" in words("r-0")
    beat("r-0", at=2, revision=2, takes_new_work=True)
    assert told() is None


def test_what_an_instance_cannot_or_will_not_do_is_said() -> None:
    beat("old", revision=1)
    beat("own", revision=1, takes_new_work=True)
    beat("refuses", takes_new_work=True)
    paused(*(("research", one) for one in ("old", "own", "refuses")))
    [wish] = WorkPause.objects.filter(instance="own")
    Agent.objects.filter(instance="own").update(clamped=f'["{wish.pk}.pause"]')
    Agent.objects.filter(instance="refuses").update(rejected_us=1, rejected_revision=1, rejected_reason="no disk")
    assert told("old") == (Heed.UNTOLD, HeedReason.OLD_VERSION)
    assert told("own") == (Heed.AT_WORK, HeedReason.OWN_CEILING)
    assert told("refuses") == (Heed.AT_WORK, HeedReason.REFUSED)
    assert words("refuses").endswith("revision 1: no disk")


def test_what_was_asked_for_at_once_is_followed_with_who_is_missing_by_name() -> None:
    beat("r-0", takes_new_work=False, status="drained")
    beat("r-1", takes_new_work=False, status="draining", runs_in_flight=2)
    beat("r-2", takes_new_work=True)
    beat("r-3", at=300, takes_new_work=True)
    beat("r-4", status="stopped")
    paused(*(("research", f"r-{number}") for number in range(5)))
    [found] = Pauses("dev", NOW).activities(fleet("dev", now=NOW))
    assert (found.done, found.total, found.in_hand) == (2, 4, 2)
    assert "2/4" in found.plain
    assert heard_by(found) == {
        Heed.DRAINED: ["r-0"],
        Heed.DRAINING: ["r-1"],
        Heed.WAITED_FOR: ["r-2"],
        Heed.SILENT: ["r-3"],
    }
    named = [[one.instance for one in named] for _, named, _ in found.missing()]
    assert named == [["r-1"], ["r-2"], ["r-3"], ["research/r-4"]]
    resumed(*(("research", f"r-{number}") for number in range(5)))
    [after] = Pauses("dev", NOW).activities(fleet("dev", now=NOW))
    assert (after.done, after.total) == (1, 4)
    assert heard_by(after) == {Heed.BACK: ["r-2"], Heed.WAITED_FOR: ["r-0", "r-1"], Heed.SILENT: ["r-3"]}
    assert Pauses("dev", NOW + timedelta(minutes=16)).activities(fleet("dev", now=NOW)) == []


# -- the pages ---------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("now")
def test_an_operator_pauses_some_of_the_list_follows_them_and_resumes_them() -> None:
    beat("r-0", takes_new_work=False, status="draining", runs_in_flight=3)
    beat("r-1", takes_new_work=True)
    client = signed_in(Role.OPERATOR)
    numbers = list(Agent.objects.order_by("instance").values_list("pk", flat=True))
    form = client.get(f"/agents/act/pause?agent={numbers[0]}&agent={numbers[1]}")
    assert "2 instances in dev" in Shown(form).within("id", "act-title").root.text
    assert "is_whole" in Shown(form).fields
    assert client.post("/agents/act/pause", {"agent": numbers, "reason": "x" * 501, "lasts": "3600"}).status_code == 422
    page = client.post("/agents/act/pause", {"agent": numbers, "reason": WHY, "lasts": "3600"}, follow=True)
    assert "2 instances" in notice_of(page)
    assert {(one.name, one.revision) for one in WorkPause.objects.all()} == {("research/r-0", 1), ("research/r-1", 1)}
    answer = client.get("/agents")
    panel = Shown(answer).one("new-work", "paused")
    assert panel.data["progress"] == "1/2"
    assert all(said in panel.text for said in ("ana", f"“{WHY}”", "3 runs"))
    assert Shown(answer).values("heed") == [HeedReason.NOTHING_APPLIED]
    assert "r-0" in text_of(client.get("/agents?state=draining"))
    [row] = client.get("/audit").context["rows"]
    assert (row.entry.verb, row.entry.after["names"]) == ("work.pause", ["research/r-0", "research/r-1"])
    assert "research/r-1" in text_of(client.get("/agents/act/resume?revision=1"))
    page = client.post("/agents/act/resume", {"revision": "1", "reason": "the ledger has moved"}, follow=True)
    assert all(said in notice_of(page) for said in ("2 instances", "revision 2"))
    assert Shown(client.get("/agents")).values("new-work") == ["resumed"]


@pytest.mark.usefixtures("now")
def test_the_page_of_an_instance_tells_the_wish_apart_from_what_it_said() -> None:
    beat("r-0", takes_new_work=True, runs_in_flight=1)
    client, [number] = signed_in(Role.OPERATOR), list(Agent.objects.values_list("pk", flat=True))
    path = "/agents/settings?service=research&instance=r-0"
    assert Shown(client.get(path)).values("takes-new-work") == ["True"]
    client.post("/agents/act/pause", {"agent": number, "reason": WHY, "lasts": "resumed", "back": path})
    page = Shown(client.get(path))
    assert page.one("new-work", "paused").data["expires"] == ""
    assert page.values("heed") == [HeedReason.NOTHING_APPLIED]
    assert page.values("takes-new-work") == ["True"], "what it said stands"
    assert any(link.startswith("/agents/act/resume?agent=") for link in page.links)
    client.post("/agents/act/resume", {"agent": number, "reason": "the ledger has moved"})
    client.post("/agents/act/pause", {"agent": number, "reason": WHY, "lasts": "600", "is_whole": "1"})
    for tab in ("", "&tab=runs"):
        links = Shown(client.get(path + tab)).links
        assert any(link.startswith("/agents/act/resume?whole=research") for link in links)
    form = Shown(client.get(f"/agents/act/resume?agent={number}"))
    assert form.values("whole") == ["research"]
    assert "/agents/act/resume?whole=research" in form.links
    assert client.post("/agents/act/resume", {"agent": number, "reason": "it moved, it moved"}).status_code == 409
    assert client.post("/agents/act/resume", {"whole": "research", "reason": "it moved, it moved"}).status_code == 303


@pytest.mark.usefixtures("now")
def test_who_may_not_is_not_offered_it() -> None:
    beat("r-0")
    client = signed_in(Role.RESPONDER)
    [number] = Agent.objects.values_list("pk", flat=True)
    for path in ("/agents", "/agents/settings?service=research&instance=r-0"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "/agents/act/pause" not in answer.content.decode()
    for verb in ("pause", "resume"):
        assert client.get(f"/agents/act/{verb}?agent={number}").status_code == 403
        assert client.post(f"/agents/act/{verb}", {"agent": number, "reason": WHY}).status_code == 403


def test_many_are_typed() -> None:
    beat(*(f"r-{number}" for number in range(51)))
    numbers = list(Agent.objects.values_list("pk", flat=True))
    client, said = signed_in(Role.OPERATOR), {"agent": numbers, "reason": WHY, "lasts": "3600"}
    answer = client.post("/agents/act/pause", said)
    assert answer.status_code == 422
    assert "51" in Shown(answer).within("id", "confirm-error").root.text
    assert not WorkPause.objects.exists()
    client.post("/agents/act/pause", said | {"confirm": "51"})
    assert WorkPause.objects.count() == 51


# -- programs and the command line -------------------------------------------------------------------------------------
@pytest.mark.usefixtures("now")
def test_a_program_pauses_follows_and_resumes() -> None:
    beat("r-0", takes_new_work=False, status="drained")
    program, targets = Program(), [{"service": "research", "instance": "r-0"}]
    status, done = program.post("fleet/pause", {"targets": targets, "reason": WHY, "expires_in_s": 900})
    assert (status, done["revision"], done["pauses"][0]["by"]) == (200, 1, "deployer")
    _, found = program.get("fleet/pauses")
    [activity] = found["activities"]
    assert (activity["obeying"], activity["total"], activity["instances"][0]["told"]) == (1, 1, "drained")
    assert program.get("fleet")[1]["agents"][0]["takes_new_work"] is False
    assert program.post("fleet/resume", {"targets": targets, "reason": WHY})[1]["pauses"][0]["ended_by"] == "deployer"
    _, done = program.post("fleet/pause", {"targets": [{"service": "research"}], "reason": WHY, "until_resumed": True})
    assert (done["pauses"][0]["instance"], done["pauses"][0]["expires_at"]) == ("", None)
    unset = {"targets": [{"service": "research", "instance": ""}]}
    for wrong in ({"targets": ["r-0"]}, unset, {"targets": targets, "until_resumed": True, "expires_in_s": 900}):
        assert program.post("fleet/pause", {"reason": WHY, **wrong})[0] == 400
    assert program.post("fleet/resume", {"targets": [{"service": "moon"}], "reason": WHY})[0] == 409
    as_told = {"targets": [{"service": "research", "instance": done["pauses"][0]["instance"]}], "reason": WHY}
    assert program.post("fleet/resume", as_told)[0] == 200


def test_an_operator_pauses_on_the_command_line(operator: Operator) -> None:
    from django.utils import timezone

    late = (NOW - timezone.now()).total_seconds()
    beat("r-0", at=late + 5, takes_new_work=True)
    said = ("instances", "pause", "research/r-0", "--reason", WHY)
    assert operator.run(*said, "--until-resumed", "--dry-run") == cli.DONE
    assert "research/r-0" in operator.said[0]
    assert not WorkPause.objects.exists()
    assert operator.run(*said, "--for", "2h") == cli.DONE
    [pause] = WorkPause.objects.all()
    assert pause.expires_at is not None
    assert pause.expires_at - pause.at == timedelta(hours=2)
    [line] = operator.said
    assert all(word in line for word in ("research/r-0", f"{pause.expires_at:%Y-%m-%dT%H:%M:%S}", "revision 1"))
    assert operator.run("instances", "paused") == cli.DONE
    assert operator.said[0].startswith("0/1")
    assert operator.said[1].split(":")[0].strip() == f"research/r-0 {Heed.WAITED_FOR}"
    assert operator.run("instances", "resume", "research/r-0", "--reason", "the ledger has moved") == cli.DONE
    assert all(word in operator.said[0] for word in ("research/r-0", "revision 2"))
    pause.refresh_from_db()
    assert (pause.ended_by, pause.end_revision) == ("ana", 2)
    assert operator.run("instances", "pause", "research", "--until-resumed", "--reason", WHY) == cli.DONE
    assert "revision 3" in operator.said[0]
    [whole] = WorkPause.objects.live("dev")
    assert (whole.name, whole.expires_at, whole.revision) == ("research", None, 3)
    assert operator.run("instances", "resume", "research", "--reason", WHY) == cli.DONE
    assert not WorkPause.objects.live("dev").exists()


def test_an_instance_that_was_left_out_by_mistake_does_not_pause_its_service(operator: Operator) -> None:
    """`research/$HOST`, where nobody has set HOST."""
    from django.utils import timezone

    beat("r-0", at=(NOW - timezone.now()).total_seconds() + 5)
    for word in ("pause", "resume"):
        assert operator.run("instances", word, "research/", "--reason", WHY) == cli.REFUSED
        assert "research/" in operator.said[0]
    assert not WorkPause.objects.exists()


def test_pause_is_over_at_its_end() -> None:
    beat("r-0")
    [made] = paused(R0, R0, expires_in_s=900.0).object
    at = NOW + timedelta(seconds=900)
    with pytest.raises(CommandRejected) as refused:
        resumed(now=at)
    assert (refused.value.status, refused.value.code) == (409, "not_paused")
    assert end_expired_pauses("dev", now=at - timedelta(microseconds=1)) == []
    assert [one.pk for one in end_expired_pauses("dev", now=at)] == [made.pk]


def test_repeated_pause_names_its_newest_revision() -> None:
    beat("r-0", "r-1")
    first, second = paused(R1), paused(R0)
    again = paused(R0, R1)
    assert (again.was_already, again.revision) == (True, second.revision)
    assert second.revision > first.revision


def test_pauses_that_nobody_waits_for_are_not_followed() -> None:
    def followed() -> list[tuple[str, bool]]:
        found = Pauses("dev", NOW).activities(fleet("dev", now=NOW))
        return [(one.names[0], one.is_over) for one in found]

    beat("r-0", takes_new_work=False)
    paused(expires_in_s=900.0)
    paused(expires_in_s=1800.0)
    resumed()
    assert followed() == [("research/r-0", True)], "the one that was replaced is none"
    paused(("research", ""))
    assert followed() == [("research", False)], "it takes no new work as the other pause wants"
    resumed(("research", ""))
    beat("r-0", at=4, takes_new_work=True)
    assert followed() == []
