"""Agents that people stop: by page, program and command line, as agents read it, and shown as they report it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from events.models import Agent
from events.queries import fleet
from recovery_ops import cli
from recovery_ops.control.agents.models.pauses import WorkPause
from recovery_ops.control.agents.pause_status import Heed, HeedReason, Pauses
from recovery_ops.control.agents.services.pauses import (
    Target,
    end_expired_pauses,
    pause_work,
    resume_work,
    stop_agents,
)
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.desired_state import document as desired
from recovery_ops.rules.desired_state import Pause
from recovery_ops.rules.enums import RunStatus
from recovery_ops.rules.events import RunFinished, RunStarted
from recovery_ops.rules.roles import Role
from recovery_ops.wire import parse_desired
from tests.support.actions import asked, person
from tests.support.api_client import Program
from tests.support.command_line import Operator, operator
from tests.support.html import Shown
from tests.support.pages import signed_in
from tests.support.stories import NOW, Story, heartbeat

__all__ = ["operator"]  # the fixture

pytestmark = [pytest.mark.django_db]
WHY = "it deletes what it should read"
R0: Target = ("research", "r-0")
ALL: Target = ("research", "")


def beat(*instances: str, service: str = "research", at: float = 5, **said: Any) -> None:
    """Instances that live, and say so."""
    story = Story()
    for instance in instances:
        story.tell(heartbeat(**said), at=at, service=service, instance=instance)
    story.store()


def stopped(*targets: Target, **more: Any) -> Any:
    return stop_agents(**asked(targets=targets or (R0,), reason=WHY) | more)


def paused(*targets: Target, **more: Any) -> Any:
    return pause_work(**asked(targets=targets or (R0,), reason=WHY) | more)


def resumed(*targets: Target, **more: Any) -> Any:
    return resume_work(**asked(targets=targets or (R0,), reason="it was mended and read") | more)


def obeyed(instance: str = "r-0", **later: float) -> Pause | None:
    """What an instance of research receives, as it reads it."""
    now = NOW + timedelta(**later)
    read = parse_desired(desired.document("dev", service="research", instance=instance, now=now))
    return read.pause_of(now.timestamp(), service="research", instance=instance)


def rejected(action: Any, *targets: Target, **more: Any) -> tuple[str, int]:
    with pytest.raises(CommandRejected) as caught:
        action(*targets, **more)
    return caught.value.code, caught.value.status


# -- the command -------------------------------------------------------------------------------------------------------
def test_stop_reaches_its_instance_until_its_end() -> None:
    beat("r-0", "r-1")
    done = stopped()
    [stop] = WorkPause.objects.all()
    assert (stop.kind, stop.expires_at, done.revision) == ("stop", NOW + timedelta(hours=1), 1)
    found = obeyed()
    assert found is not None
    assert (found.is_stop, found.by, found.reason, found.expires_at) == (
        True,
        "ana",
        WHY,
        (NOW + timedelta(hours=1)).timestamp(),
    )
    assert obeyed("r-1") is None
    assert obeyed(minutes=61) is None
    entry = AuditEntry.objects.get(verb="work.stop")
    assert (entry.after or {})["names"] == ["research/r-0"]


def test_stop_of_a_service_reaches_later_instances() -> None:
    beat("r-0")
    stopped(ALL)
    found = obeyed("r-9")
    assert found is not None
    assert found.is_stop


@pytest.mark.parametrize(
    ("lasts_s", "role", "is_allowed"),
    [
        (None, Role.ADMIN, False),
        (0, Role.OPERATOR, False),
        (86_400, Role.OPERATOR, True),
        (86_401, Role.OPERATOR, False),
        (86_401, Role.ADMIN, True),
    ],
)
def test_stop_has_an_end_as_overrides(lasts_s: float | None, role: Role, is_allowed: bool) -> None:
    beat("r-0")
    if is_allowed:
        stopped(expires_in_s=lasts_s, by=person(role))
        assert WorkPause.objects.get().is_stop
    else:
        with pytest.raises(CommandRejected) as caught:
            stopped(expires_in_s=lasts_s, by=person(role))
        assert "expires_in_s" in caught.value.fields


def test_stop_replaces_a_pause_and_no_pause_replaces_a_stop() -> None:
    beat("r-0")
    paused(expires_in_s=None)
    stopped()
    assert [one.kind for one in WorkPause.objects.filter(ended_at=None)] == ["stop"]
    assert rejected(paused) == ("stopped", 409)
    assert stopped().was_already
    found = obeyed()
    assert found is not None
    assert found.is_stop
    resumed()
    assert obeyed() is None
    paused()
    assert rejected(resumed, ("research", "r-1")) == ("not_paused", 409)


def test_expired_stop_is_replaced_by_a_pause() -> None:
    beat("r-0")
    stopped(expires_in_s=60)
    paused(now=NOW + timedelta(seconds=61))
    assert [(one.kind, one.end_reason) for one in WorkPause.objects.order_by("revision")] == [
        ("stop", "expired"),
        ("pause", ""),
    ]


def test_expired_stop_is_noted_as_ended() -> None:
    beat("r-0")
    stopped(expires_in_s=60)
    assert end_expired_pauses("dev", now=NOW + timedelta(seconds=59)) == []
    [one] = end_expired_pauses("dev", now=NOW + timedelta(seconds=60))
    assert (one.kind, one.ended_by) == ("stop", "expiry")


def test_unknown_agent_and_missing_permission_are_rejected() -> None:
    beat("r-0")
    assert rejected(stopped, ("research", "r-7")) == ("unknown_instance", 404)
    assert rejected(stopped, by=person(Role.RESPONDER))[1] == 403


# -- the progress ------------------------------------------------------------------------------------------------------
def told(instance: str, **later: float) -> tuple[Heed, HeedReason]:
    now = NOW + timedelta(**later)
    [row] = [one for one in fleet("dev", now=now) if one.instance == instance]
    found = Pauses("dev", now).told(row)
    assert found is not None
    assert found.is_of_stop is not found.is_of_resume
    return found.heed, found.reason


def test_only_its_own_word_shows_an_instance_as_stopped() -> None:
    beat("r-0", takes_new_work=True, runs_in_flight=2)
    revision = stopped().revision
    assert told("r-0") == (Heed.WAITED_FOR, HeedReason.NOTHING_APPLIED)
    beat("r-0", at=4, status="draining", takes_new_work=False, runs_in_flight=2)
    assert told("r-0") == (Heed.WAITED_FOR, HeedReason.NOTHING_APPLIED), "an earlier pause is no stop"
    beat("r-0", at=3.5, status="draining", takes_new_work=False, runs_in_flight=2, revision=revision)
    assert told("r-0") == (Heed.ONLY_PAUSES, HeedReason.NOT_CONFIRMED), "a version that knows no stop"
    beat("r-0", at=3, status="stopping", takes_new_work=False, runs_in_flight=2, revision=revision)
    assert told("r-0") == (Heed.STOPPING, HeedReason.RUNS_IN_HAND)
    beat("r-0", at=2, status="stopped_by_operator", takes_new_work=False, revision=revision)
    assert told("r-0") == (Heed.STOPPED, HeedReason.NONE_LEFT)
    assert told("r-0", minutes=5) == (Heed.SILENT, HeedReason.UNREACHABLE)
    assert next(one for one in fleet("dev", now=NOW)).is_reachable, "it lives"
    resumed()
    assert told("r-0") == (Heed.WAITED_FOR, HeedReason.OLDER_REVISION)


def test_laggards_are_named() -> None:
    beat("r-0", takes_new_work=False, status="stopped_by_operator", revision=1)
    beat("r-1", takes_new_work=False, status="stopping", runs_in_flight=3, revision=1)
    beat("r-2", takes_new_work=True)
    beat("r-3", takes_new_work=False, status="drained", revision=1)
    beat("r-4", at=300, takes_new_work=True)
    stopped(ALL)
    [found] = Pauses("dev", NOW).activities(fleet("dev", now=NOW))
    assert (found.done, found.total, found.in_hand) == (1, 5, 3)
    assert {heed: [one.agent.instance for one in rows] for heed, rows in found.by_heed.items()} == {
        Heed.STOPPED: ["r-0"],
        Heed.STOPPING: ["r-1"],
        Heed.ONLY_PAUSES: ["r-3"],
        Heed.WAITED_FOR: ["r-2"],
        Heed.SILENT: ["r-4"],
    }
    assert [[one.instance for one in named] for _, named, _ in found.missing()] == [["r-1"], ["r-3"], ["r-2"], ["r-4"]]


# -- the pages ---------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("now")
def test_operator_stops_an_agent_on_its_page() -> None:
    beat("r-0", takes_new_work=True, runs_in_flight=2)
    client, [number] = signed_in(Role.OPERATOR), list(Agent.objects.values_list("pk", flat=True))
    path = "/agents/settings?service=research&instance=r-0"
    assert any(link.startswith(f"/agents/act/stop?agent={number}") for link in Shown(client.get(path)).links)
    form = client.get(f"/agents/act/stop?agent={number}")
    assert ("runs in flight", 2) in form.context["impact"]
    assert "resumed" not in [value for value, _ in form.context["form"].fields["lasts"].choices]
    answer = client.post("/agents/act/stop", {"agent": number, "reason": WHY, "lasts": "resumed", "back": path})
    assert answer.status_code == 422
    client.post("/agents/act/stop", {"agent": number, "reason": WHY, "lasts": "600", "back": path})
    assert WorkPause.objects.get().is_stop
    page = Shown(client.get(path))
    assert page.values("new-work") == ["stopped"]
    assert page.values("heed") == [HeedReason.NOTHING_APPLIED]
    assert not any(link.startswith("/agents/act/stop") for link in page.links)
    assert Shown(client.get("/agents")).one("new-work", "stopped").data["progress"] == "0/1"
    client.post("/agents/act/resume", {"agent": number, "reason": "it was mended and read"})
    assert Shown(client.get(path)).values("new-work") == []


@pytest.mark.usefixtures("now")
def test_operator_stops_a_whole_service() -> None:
    beat("r-0", "r-1", takes_new_work=True)
    client, numbers = signed_in(Role.OPERATOR), list(Agent.objects.values_list("pk", flat=True))
    client.post("/agents/act/stop", {"agent": numbers, "reason": WHY, "lasts": "600", "is_whole": "1"})
    assert [(one.name, one.kind) for one in WorkPause.objects.all()] == [("research", "stop")]


@pytest.mark.usefixtures("now")
def test_page_of_a_run_offers_to_stop_its_agent() -> None:
    beat("r-0", takes_new_work=True, runs_in_flight=1)
    story = Story()
    story.tell(RunStarted(name="due diligence"), at=30, run="run-1", service="research", instance="r-0")
    story.store()
    client = signed_in(Role.OPERATOR)
    [link] = [one for one in Shown(client.get("/runs/run-1")).links if one.startswith("/agents/act/stop")]
    form = client.get(link)
    assert form.context["title"] == "Stop research/r-0"
    [number] = Agent.objects.values_list("pk", flat=True)
    answer = client.post(
        "/agents/act/stop", {"agent": number, "reason": WHY, "lasts": "600", "back": form.context["back"]}
    )
    assert (answer.status_code, answer["Location"]) == (303, "/runs/run-1")
    assert "/agents/act/stop" not in signed_in(Role.RESPONDER).get("/runs/run-1").content.decode()


# -- programs and the command line -------------------------------------------------------------------------------------
@pytest.mark.usefixtures("now")
def test_program_stops_follows_and_resumes() -> None:
    beat("r-0", takes_new_work=False, status="stopped_by_operator", revision=1)
    program, targets = Program(), [{"service": "research", "instance": "r-0"}]
    status, done = program.post("fleet/stop", {"targets": targets, "reason": WHY, "expires_in_s": 900})
    assert (status, done["revision"], done["pauses"][0]["is_stop"]) == (200, 1, True)
    [activity] = program.get("fleet/pauses")[1]["activities"]
    assert (activity["obeying"], activity["instances"][0]["told"]) == (1, "stopped")
    assert program.get("fleet?state=stopped_by_operator")[1]["agents"][0]["instance"] == "r-0"
    assert program.post("fleet/pause", {"targets": targets, "reason": WHY})[0] == 409
    unset = [{"service": "research", "instance": ""}]
    assert program.post("fleet/stop", {"targets": unset, "reason": WHY})[0] == 400
    assert program.post("fleet/resume", {"targets": targets, "reason": WHY})[1]["pauses"][0]["ended_by"] == "deployer"


def test_operator_stops_on_the_command_line(operator: Operator) -> None:
    from django.utils import timezone

    late = (NOW - timezone.now()).total_seconds()
    beat("r-0", at=late + 5, takes_new_work=True)
    said = ("instances", "stop", "research/r-0", "--reason", WHY)
    assert operator.run(*said, "--dry-run") == cli.DONE
    assert not WorkPause.objects.exists()
    assert operator.run(*said, "--for", "2h") == cli.DONE
    [stop] = WorkPause.objects.all()
    assert stop.expires_at is not None
    assert (stop.kind, stop.expires_at - stop.at) == ("stop", timedelta(hours=2))
    assert operator.run("instances", "paused") == cli.DONE
    assert operator.said[0].startswith("0/1 stopped")
    assert operator.run("instances", "resume", "research/r-0", "--reason", "it was mended and read") == cli.DONE
    stop.refresh_from_db()
    assert stop.ended_by == "ana"


def run_story(*events: Any, at: float = 60) -> Story:
    given: dict[str, Any] = {"run": "run-1", "source": "main_agent", "is_foreground": True, "instance": "r-0"}
    return Story().tell(RunStarted(name="report"), *events, at=at, **given)


def shown_stop() -> tuple[str, list[str]] | None:
    page = Shown(signed_in(Role.VIEWER).get("/runs/run-1"))
    panels = page.having("stop")
    return (panels[0].data["stop"], page.within("stop", panels[0].data["stop"]).links) if panels else None


@pytest.mark.usefixtures("now")
def test_run_page_shows_what_a_stop_reached() -> None:
    run_story().store()
    beat("r-0", takes_new_work=True, runs_in_flight=1)
    assert shown_stop() is None
    stopped()
    assert shown_stop() == (HeedReason.NOTHING_APPLIED.value, ["/agents/settings?service=research&instance=r-0"])
    beat("r-0", at=-1, status="stopping", takes_new_work=False, runs_in_flight=1, revision=1)
    assert shown_stop() == (HeedReason.RUNS_IN_HAND.value, ["/agents/settings?service=research&instance=r-0"])
    finished = RunFinished(status=RunStatus.CANCELLED, duration_s=62.0)
    Story().tell(finished, at=-2, run="run-1", instance="r-0").store()
    assert shown_stop() == ("aborted", ["/agents/settings?service=research&instance=r-0"])


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize(
    ("target", "status", "at"),
    [
        (("research", "r-1"), RunStatus.CANCELLED, -2),
        (R0, RunStatus.SUCCEEDED, -2),
        (R0, RunStatus.CANCELLED, 10),
    ],
    ids=["another instance", "run went well", "before the stop"],
)
def test_run_that_no_stop_ended_shows_none(target: Target, status: RunStatus, at: float) -> None:
    run_story().store()
    Story().tell(RunFinished(status=status, duration_s=62.0), at=at, run="run-1", instance="r-0").store()
    beat("r-0", "r-1", at=50, takes_new_work=True)
    stopped(target)
    assert shown_stop() is None


@pytest.mark.usefixtures("now")
def test_dialog_counts_what_the_whole_service_is() -> None:
    beat("r-0", runs_in_flight=1, takes_new_work=True)
    beat("r-1", runs_in_flight=4, takes_new_work=True)
    beat("b-0", service="billing", runs_in_flight=7, takes_new_work=True)
    page = Shown(signed_in(Role.OPERATOR).get("/agents/act/stop?service=research&instance=r-0"))
    [whole] = page.having("whole-instances")
    assert (whole.data["whole-instances"], whole.data["whole-runs"]) == ("2", "5")
