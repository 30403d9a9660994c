"""Lists that are too long for an answer: the dialog that says so, the job, its tray, its file, and whose it is."""

from __future__ import annotations

import csv
import json
import os
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from events.keys import create_key
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.audit import export as audit
from recovery_ops.control.core.jobs import NICE
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations import export as escalations
from recovery_ops.control.exports import job
from recovery_ops.control.exports.models import Export, ExportPart
from recovery_ops.control.exports.services import MOST_UNFINISHED
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.control.runs import export as runs
from recovery_ops.control.self_monitoring.retention import KEEP_EXPORTS, sweep_exports
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import RunStarted
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.escalations import act, one_open
from tests.support.html import Shown
from tests.support.long_exports import asked_for, long, written
from tests.support.pages import sent, signed_in, text_of, troubled_fleet
from tests.support.recoveries import busy
from tests.support.stories import NOW, Story, ago, failed

__all__ = ["long"]  # the fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def changes(count: int, reason: str = "the provider answers 529") -> Client:
    """Somebody who has tripped a breaker on so many instances, one by one."""
    troubled_fleet(count)
    client = signed_in(Role.ADMIN)
    for number in range(count):
        form = sent(reason=reason, seen=str(number), key=f"k-{number}", scope="instance", instance=f"r-{number}")
        assert client.post("/breakers/search_web/trip", form).status_code == 303
    return client


def content_of(answer: Any) -> str:
    assert answer.status_code == 200
    return b"".join(answer.streaming_content).decode()


def rows_in(text: str) -> list[list[str]]:
    return list(csv.reader(StringIO(text)))


# -- the dialog --------------------------------------------------------------------------------------------------------
def test_what_fits_into_an_answer_is_counted_and_comes_at_once() -> None:
    client = changes(3)
    page = client.get("/exports/new?of=audit&who=ana&from=2026-11-21T13:00:00Z&to=2026-11-21T15:00:00Z")
    said = text_of(page)
    assert "3 entries" in said
    assert "13:00:00 – 15:00:00 UTC" in said
    assert page.context["narrowed"] == [("who", "ana")]
    assert '<form class="act" method="get" action="/audit"' in page.content.decode()
    assert client.get("/exports/new?of=audit&column=who&sort=at").context["narrowed"] == []
    assert client.get("/exports/new?of=nothing").status_code == 404


@pytest.mark.parametrize("what", ["audit", "escalations", "runs"])
def test_the_pages_of_long_lists_lead_to_it(what: str) -> None:
    busy()
    client = changes(1)
    page = client.get(f"/{what}?from=2026-11-21T13:00:00Z&to=2026-11-21T15:00:00Z").content.decode()
    assert f'href="/exports/new?of={what}&amp;from=2026-11-21T13%3A00%3A00Z' in page


@pytest.mark.usefixtures("long")
def test_what_does_not_fit_says_so_and_becomes_a_job() -> None:
    client = changes(3)
    page = client.get("/exports/new?of=audit")
    assert '<form class="act" method="post" action="/exports/new"' in page.content.decode()
    assert "7 days" in text_of(page)
    export = asked_for(client, query="who=ana", format="ndjson", only=["number", "who"])
    assert (export.state, export.kind, export.query) == ("waiting", "ndjson", "who=ana")
    assert AuditEntry.objects.latest("number").verb == "export.start"
    assert Shown(client.get("/exports/1")).values("state") == ["waiting"]
    written(export)
    lines = [json.loads(line) for line in content_of(client.get("/exports/1/file")).splitlines()]
    assert lines == [{"number": number, "who": "ana"} for number in (4, 3, 2, 1)]


# -- the file ----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("long")
def test_its_rows_are_those_that_the_page_gives_at_once_and_nothing_in_them_is_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job, "PART_CHARS", 200)
    client = changes(5, reason="=HYPERLINK(1) is a reason")
    export = written(asked_for(client, query="did=breaker"))
    assert (export.state, export.rows, export.done, export.total) == ("done", 5, 5, 5)
    assert export.parts.count() > 3
    answer = client.get("/exports/1/file")
    kind, name = answer.headers["Content-Disposition"].split("; ")
    assert (kind, name) == ("attachment", 'filename="audit-dev-1.csv"')
    text = content_of(answer)
    assert len(text.encode()) == export.size_bytes == int(answer.headers["Content-Length"])
    columns, *rows = rows_in(text)
    assert columns[-1] == "http://testserver/audit?did=breaker"
    assert {row[columns.index("reason")] for row in rows} == {"'=HYPERLINK(1) is a reason"}
    monkeypatch.setattr(audit.AuditFile, "at_once_most", 50_000)
    assert rows_in(client.get("/audit?did=breaker&format=csv").content.decode())[1:] == rows


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize("query", ["show=all", "", "category=timeout"])
def test_runs_are_told_page_after_page(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story()
    for number in range(7):
        run, kind = f"run-{number}", Category.TIMEOUT if number % 2 else Category.OVERLOADED
        story.tell(RunStarted(name="due diligence"), at=100 - number, run=run)
        story.tell(failed(kind), failed(kind), at=90 - number, run=run)
    story.store()
    client = signed_in(Role.ADMIN)
    export = written(asked_for(client, "runs", f"range=1h&{query}"))
    assert (export.state, export.problem, export.done) == ("done", "", export.total)
    _, *rows = rows_in(content_of(client.get("/exports/1/file")))
    monkeypatch.setattr(runs.RunsFile, "at_once_most", 5_000)
    assert rows_in(client.get(f"/runs?range=1h&{query}&format=csv").content.decode())[1:] == rows
    assert len(rows) == export.rows == export.total == (3 if "category" in query else 7)


@pytest.mark.usefixtures("long")
def test_the_queue_is_told_page_after_page(monkeypatch: pytest.MonkeyPatch) -> None:
    busy()
    client = signed_in(Role.ADMIN)
    export = written(asked_for(client, "escalations", "tab=open"))
    columns, *rows = rows_in(content_of(client.get("/exports/1/file")))
    monkeypatch.setattr(escalations.EscalationsFile, "at_once_most", 10_000)
    assert rows_in(client.get("/escalations?tab=open&format=csv").content.decode())[1:] == rows
    assert len(rows) == export.rows == export.total > 0
    assert columns[0] == "escalation"


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(("tab", "count"), [("snoozed", 1), ("unacknowledged", 0)])
def test_file_that_waited_holds_rows_of_asking(tab: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    act("snooze", one_open(), for_s=1200.0)
    export = asked_for(signed_in(Role.ADMIN), "escalations", f"tab={tab}")
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(hours=1))
    found = written(export)
    assert (found.state, found.rows, found.total) == ("done", count, count)


@pytest.mark.usefixtures("long")
def test_a_file_ends_where_it_would_be_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    client = changes(4)
    monkeypatch.setattr(job, "MOST_ROWS", 3)
    export = written(asked_for(client))
    assert (export.rows, export.is_cut) == (3, True)
    page = client.get("/exports/1")
    assert len(Shown(page).values("cut")) == 1
    assert "3 entries" in text_of(page)


# -- how far it is -----------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("long")
def test_a_running_one_says_how_far_how_quick_and_how_long_still() -> None:
    client = changes(1)
    export = asked_for(client)
    Export.objects.filter(pk=export.pk).update(
        state="running", started_at=NOW - timedelta(seconds=10), beat_at=NOW, done=2_000, rows=2_000, total=8_000
    )
    answer = client.get("/exports/1")
    said = text_of(answer)
    assert "2,000 of 8,000 entries" in said
    line = answer.context["line"]
    assert (line.rate_per_s, line.left_s) == (200, 30)
    assert "25 %" in said
    assert [one.attributes["value"] for one in Shown(answer).root.all() if one.tag == "progress"] == ["0.250"]
    assert answer.headers["Refresh"] == "2"


@pytest.mark.usefixtures("long")
def test_it_tells_its_row_while_it_goes_on_and_stops_when_it_is_called_off() -> None:
    client = changes(5)
    waiting = asked_for(client)
    assert client.post("/exports/1").status_code == 303
    waiting.refresh_from_db()
    assert waiting.state == "cancelled"
    export = asked_for(client)
    told: list[tuple[int, int]] = []

    def clock() -> float:
        told.append(Export.objects.values_list("done", "rows").get(pk=export.pk))
        if len(told) == 4:
            client.post(f"/exports/{export.number}")
        return 5.0 * len(told)

    written(export, clock=clock)
    assert (2, 2) in told
    assert export.state == "cancelled"
    assert not ExportPart.objects.exists()
    assert client.get(f"/exports/{export.number}/file").status_code == 404


@pytest.mark.usefixtures("long")
def test_what_goes_wrong_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    client = changes(1)
    export = asked_for(client)
    monkeypatch.setattr(audit.AuditFile, "total", lambda self, wish: 1 / 0)
    written(export)
    assert (export.state, export.problem) == ("failed", "ZeroDivisionError: division by zero")
    assert "division by zero" in text_of(client.get("/exports/1"))


@pytest.mark.usefixtures("long")
def test_one_of_an_environment_waits_for_the_other_and_they_are_few() -> None:
    client = changes(1)
    made = [asked_for(client) for _ in range(MOST_UNFINISHED)]
    form = {"query": "", "format": "csv", "key": "another"}
    answer = client.post("/exports/new?of=audit", form)
    assert answer.status_code == 409
    assert f"{MOST_UNFINISHED} exports of dev" in Shown(answer).one("problem").text
    started: list[int] = []
    job.start_next(now=NOW, start=lambda one: started.append(one.pk))
    assert job.start_next(now=NOW, start=lambda one: started.append(one.pk)) is None
    assert started == [made[0].pk]


@pytest.mark.usefixtures("long")
def test_the_worker_writes_it_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    nicer: list[int] = []
    monkeypatch.setattr(os, "nice", nicer.append)  # here it is the process of all tests
    client = changes(1)
    export = asked_for(client)
    with pytest.raises(CommandError):
        call_command("export", str(export.pk))
    Export.objects.update(state="running")
    call_command("export", str(export.pk))
    export.refresh_from_db()
    assert (export.state, export.rows) == ("done", 2)
    assert nicer == [NICE]


def test_files_are_kept_for_a_time_and_few_of_them() -> None:
    for number in range(KEEP_EXPORTS + 2):
        made = Export.objects.create(
            environment="dev", number=number, what="audit", kind="csv", asked_at=ago(10), state="done",
            finished_at=ago(1000 - number),
        )  # fmt: skip
        ExportPart.objects.create(export=made, number=0, content=b"")
    old = NOW - timedelta(days=8)
    Export.objects.create(
        environment="prod", number=1, what="audit", kind="csv", asked_at=old, state="failed", finished_at=old
    )
    Export.objects.create(environment="prod", number=2, what="audit", kind="csv", asked_at=old)
    assert (sweep_exports(NOW), sweep_exports(NOW)) == (3, 0)
    assert ExportPart.objects.count() == KEEP_EXPORTS
    assert not Export.objects.filter(environment="dev", number__in=(0, 1)).exists()
    assert [one.number for one in Export.objects.filter(environment="prod")] == [2]


# -- whose it is -------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("long")
def test_a_file_is_its_owners_while_they_may_read_what_is_in_it() -> None:
    client = changes(1)
    written(asked_for(client))
    for path in ("/exports/1", "/exports/1/file", "/api/v1/exports/1/file"):
        assert client.get(path).status_code == 200
        assert signed_in(Role.ADMIN, "eve").get(path).status_code == 404
    assert signed_in(Role.ADMIN, "eve").post("/exports/1").status_code == 404
    everywhere = asked_for(superuser := _superuser(), query="chain=*")
    written(everywhere)
    assert superuser.get(f"/exports/{everywhere.number}/file").status_code == 200
    get_user_model().objects.filter(username="root").update(is_superuser=False)
    RoleGrant.objects.create(user=get_user_model().objects.get(username="root"), environment="dev", role="admin")
    assert superuser.get(f"/exports/{everywhere.number}/file").status_code == 403
    RoleGrant.objects.filter(user__username="ana").delete()
    assert client.get("/exports/1/file").status_code == 404


def _superuser() -> Client:
    user = get_user_model().objects.create_superuser("root")
    client = Client()
    client.force_login(user)
    return client


def test_who_may_not_read_the_log_of_everywhere_gets_no_file_of_it() -> None:
    client = changes(1)
    assert client.get("/exports/new?of=audit&chain=*").status_code == 403
    answer = client.post("/exports/new?of=audit", {"query": "chain=*", "format": "csv"})
    assert answer.status_code == 403
    assert not Export.objects.exists()


# -- the tray ----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("long")
def test_the_header_goes_on_telling_on_every_page_and_says_when_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    changes(1)
    client = signed_in(Role.ADMIN, "zoe")  # who has asked for nothing yet
    assert 'id="tray"' not in client.get("/capacity").content.decode()
    export = asked_for(client)
    assert 'data-poll-url="/jobs/tray"' in client.get("/capacity").content.decode()
    assert client.get("/jobs/tray").headers["Location"] == "/jobs"
    running = client.get("/jobs/tray", headers={"X-Fragment": "tray"})
    assert Shown(running).values("job-state") == ["waiting"]
    assert 'data-poll-url="/jobs/tray"' in running.content.decode()
    written(export)
    ended = client.get("/jobs/tray", headers={"X-Fragment": "tray"})
    assert 'href="/exports/1/file" download' in ended.content.decode()
    assert "data-poll-url" not in ended.content.decode()
    line = Shown(client.get("/jobs")).within("state", "done")
    assert "/exports/1" in line.links
    assert "2 entries" in line.root.text
    monkeypatch.setattr(timezone, "now", lambda: NOW + timedelta(minutes=16))
    assert Shown(client.get("/jobs/tray", headers={"X-Fragment": "tray"})).values("job-state") == []
    assert 'id="tray"' not in client.get("/capacity").content.decode()


def test_replays_of_mine_are_in_it_and_nobody_elses() -> None:
    signed_in(), signed_in(name="eve")
    for number, name in enumerate(("ana", "eve"), 1):
        Replay.objects.create(
            environment="dev", number=number, old_version="1", old_document={}, new_document={}, start_at=ago(9),
            end_at=ago(5), by=name, by_user=get_user_model().objects.get(username=name), asked_at=ago(3),
            state="running", started_at=ago(2), read_facts=100, done_facts=50, total_facts=100,
        )  # fmt: skip
    client = signed_in()
    page = Shown(client.get("/jobs"))
    line = page.within("state", "running")
    assert "/policies/replays/1" in line.links
    assert "50 of 100" in line.root.text
    assert "/policies/replays/2" not in page.links
    assert 'id="tray"' in client.get("/capacity").content.decode(), "whose work goes on has the tray from there on"


# -- programs ----------------------------------------------------------------------------------------------------------
def test_a_program_asks_watches_fetches_and_calls_off() -> None:
    changes(2)
    key = {"Authorization": f"Bearer {create_key('reader', ['read'], 'dev')[1]}"}
    body = {"reason": "for the auditors", "list": "audit", "narrowed": "did=breaker&page=9", "columns": ["number"]}
    client = Client(headers=key)
    dry = client.post("/api/v1/exports", body | {"dry_run": True}, "application/json")
    assert (dry.status_code, dry.json()["dry_run"], Export.objects.count()) == (200, True, 0)
    answer = client.post("/api/v1/exports", body, "application/json")
    assert answer.status_code == 202
    told = answer.json()["export"]
    assert (told["state"], told["narrowed"], told["file"]) == ("waiting", "did=breaker", None)
    assert told["address"] == "http://testserver/audit?did=breaker"
    assert client.get("/api/v1/exports/1/file").status_code == 409
    written(Export.objects.get())
    assert [one["state"] for one in client.get("/api/v1/exports").json()["exports"]] == ["done"]
    assert rows_in(content_of(client.get("/api/v1/exports/1/file")))[1:] == [["2"], ["1"]]
    client.post("/api/v1/exports", body, "application/json")
    assert client.delete("/api/v1/exports/2").json()["export"]["state"] == "cancelled"
    other = Client(headers={"Authorization": f"Bearer {create_key('other', ['read'], 'dev')[1]}"})
    assert other.get("/api/v1/exports/1").status_code == 404
    assert other.get("/api/v1/exports").json()["exports"] == []


@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"list": "secrets"}, {"list"}),
        ({"format": "exe"}, {"format"}),
        ({"columns": ["password"]}, {"columns"}),
        ({"list": "runs"}, {"start"}),
        ({"list": "runs", "start": "2026-11-21T00:00:00Z"}, {"end"}),
        ({"list": "runs", "start": "2026-11-21T00:00:00Z", "end": "2026-11-20T00:00:00Z"}, {"end"}),
        ({"list": "runs", "start": "2026-01-21T00:00:00Z", "end": "2026-11-20T00:00:00Z"}, {"start"}),
        ({"narrowed": "x" * 5_000}, {"narrowed"}),
    ],
)
def test_what_cannot_be_exported_is_refused_by_field(changed: dict[str, Any], fields: set[str]) -> None:
    client = Client(headers={"Authorization": f"Bearer {create_key('reader', ['read'], 'dev')[1]}"})
    answer = client.post(
        "/api/v1/exports", {"reason": "for the auditors", "list": "audit"} | changed, "application/json"
    )
    assert (answer.status_code, set(answer.json()["fields"])) == (400, fields)
    assert not Export.objects.exists()


# -- what is not to happen ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("0001-01-01T00:00:00+14:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00"),
    ],
)
def test_years_in_which_nothing_happens_are_refused(start: str, end: str) -> None:
    troubled_fleet()
    asked = {"list": "audit", "start": start, "end": end, "reason": "to have it as a file"}
    assert Program("read").post("exports", asked)[0] == 400
    assert not Export.objects.exists()


def test_half_of_a_character_is_refused() -> None:
    troubled_fleet()
    key = create_key("program", ["read"], "dev")[1]
    answer = Client().post(
        "/api/v1/exports",
        r'{"list": "audit", "narrowed": "who=\ud800", "reason": "to have it as a file"}',
        content_type="application/json",
        headers={"Authorization": f"Bearer {key}"},
    )
    assert answer.status_code == 400
    assert "surrogate" in answer.content.decode()


@pytest.mark.usefixtures("long")
def test_a_file_that_was_given_up_as_lost_is_not_written_on() -> None:
    client = changes(5)
    export = asked_for(client)
    seconds = iter(range(0, 1000, 2))

    def clock() -> float:
        Export.objects.filter(pk=export.pk).update(state=Export.FAILED)
        return float(next(seconds))

    written(export, clock=clock)
    assert (export.state, ExportPart.objects.count()) == ("failed", 0)


@pytest.mark.usefixtures("long")
def test_the_tray_stays_while_something_goes_on_in_another_environment() -> None:
    changes(2)
    client = signed_in(Role.ADMIN, "zoe")
    asked_for(client)
    Export.objects.update(environment="prod")
    assert client.get("/jobs/tray", headers={"X-Fragment": "tray"}).status_code == 200
    assert "jobs_until" in client.session
    Export.objects.update(state=Export.CANCELLED, finished_at=NOW - timedelta(hours=1))
    client.get("/jobs/tray", headers={"X-Fragment": "tray"})
    assert "jobs_until" not in client.session


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00%2B14:00", "9999-12-31T23:59:59-14:00"])
def test_addresses_with_years_in_which_nothing_happens_are_answered(moment: str) -> None:
    troubled_fleet()
    client = signed_in()
    assert client.get(f"/timelines?at={moment}").status_code == 200
    assert client.get(f"/failures?from={moment}&to=now").status_code == 200


def test_what_is_asked_for_again_when_its_file_is_swept_is_not_somebody_elses() -> None:
    troubled_fleet()
    program = Program("read")
    asked = {"list": "audit", "reason": "to have it as a file"}
    assert program.post("exports", asked, idempotency_key="k-1")[0] == 202
    Export.objects.all().delete()
    assert program.post("exports", asked, idempotency_key="k-1")[0] == 404
    assert Program("read").post("exports", asked, idempotency_key="k-2")[0] == 202
    assert program.post("exports", asked, idempotency_key="k-1")[0] == 404
