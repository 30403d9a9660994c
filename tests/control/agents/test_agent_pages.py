"""The fleet narrowed and counted, as a table, as cells and by version; and one instance from the inside."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.test import Client

from events.models import Agent
from events.moments import to_us
from events.pages.empties import Why
from events.queries import workload
from recovery_ops.control.agents.models.labels import InstanceLabels
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.dashboard.views.tiles import Tile
from recovery_ops.rules.enums import ApplyStatus, Category, DelaySource, RunStatus, State
from recovery_ops.rules.events import (
    DesiredStateApplied,
    DesiredStateRejected,
    GateClosed,
    RetryScheduled,
    RunFinished,
    RunStarted,
)
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.html import Shown
from tests.support.pages import HOSTILE, signed_in, text_of, troubled_fleet
from tests.support.stories import Story, ago, counted, failed, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def fleet() -> None:
    """Of `research` r-0 runs and r-1 fell silent; of `support` s-0 drains, in its own group and version."""
    story = Story()
    story.tell(heartbeat(runs_in_flight=2), at=5, instance="r-0")
    story.tell(heartbeat(), at=600, received=600, instance="r-1")
    story.tell(heartbeat(status="draining"), at=5, instance="s-0", service="support")
    story.store()
    Agent.objects.filter(instance="s-0").update(group="canary")


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ["r-0", "r-1", "s-0"]),
        ("service=support", ["s-0"]),
        ("group=canary", ["s-0"]),
        ("state=reporting", ["r-0", "s-0"]),
        ("state=draining", ["s-0"]),
        ("state=unreachable", ["r-1"]),
        ("version=9", ["s-0"]),
        ("region=eu", ["r-1"]),
        ("label=VIP", ["r-0"]),
        ("silent_s=60", ["r-1"]),
        ("silent_s=600", ["r-1"]),
        ("silent_s=601", []),
        ("q=R-", ["r-0", "r-1"]),
        ("service=research&state=draining", []),
        ("state=moon&silent_s=nan", ["r-0", "r-1", "s-0"]),
    ],
)
def test_the_fleet_is_narrowed_on_the_page_in_files_and_for_programs_alike(query: str, names: list[str]) -> None:
    fleet()
    Agent.objects.filter(instance="s-0").update(version="9")
    Agent.objects.filter(instance="r-1").update(region="eu")
    labels = {"r-0": "|night|vip|", "r-1": "|vips|"}
    for instance, named in labels.items():
        InstanceLabels.objects.create(environment="dev", service="research", instance=instance, labels=named)
    InstanceLabels.objects.create(environment="test", service="support", instance="s-0", labels="|vip|")
    page = signed_in(Role.VIEWER).get(f"/agents?{query}").content.decode()
    assert sorted(set(re.findall(r"<code>([rs]-\d)</code></a>", page))) == names
    told = signed_in(Role.VIEWER).get(f"/agents?{query}&format=json").json()["rows"]
    assert sorted(one["instance"] for one in told) == names
    found = Program("read").get(f"fleet?{query}")[1]["agents"]
    assert [one["instance"] for one in found] == names


def tiles(path: str = "/agents") -> list[Tile]:
    """The figures at the top: who reports, obeys, and is off; versions, who waits, and who is young."""
    return list(signed_in(Role.VIEWER, "vera").get(path).context["tiles"])


def digits(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def test_what_silent_instances_obey_is_not_known() -> None:
    fleet()
    _, obeying, off, *_ = tiles()
    assert (obeying.unit, digits(obeying.detail)) == ("of 3", ["1"]), "so many are unreachable"
    assert (off.figure, off.unit, digits(off.detail)) == ("0", "of 3", ["1"])
    Agent.objects.update(last_seen_us=to_us(ago(600)))
    _, obeying, off, *_ = tiles()
    assert (obeying.unit, digits(obeying.detail)) == ("of 3", ["3"])
    assert (off.figure, off.unit, digits(off.detail)) == ("–", "of 3", ["3"])


def test_how_many_breakers_of_a_silent_instance_are_open_is_not_known() -> None:
    fleet()
    client = signed_in(Role.VIEWER)
    told = client.get("/agents?format=json").json()["rows"]
    assert {one["instance"]: one["breakers open"] for one in told} == {"r-0": 0, "r-1": None, "s-0": 0}
    page = client.get("/agents").content.decode()
    silent, heard = (re.search(rf"<code>{name}</code>.*?</tr>", page, re.DOTALL) for name in ("r-1", "r-0"))
    assert silent is not None
    assert heard is not None
    assert silent[0].count('<td class="num">–</td>') == heard[0].count('<td class="num">–</td>') + 1


def test_people_label_an_instance_and_find_it_again_at_every_door() -> None:
    fleet()
    where = "service=research&instance=r-0"
    client = signed_in(Role.RESPONDER)
    assert client.post(f"/agents/label?{where}", {"labels": "VIP, canary , vip"}).status_code == 303
    said = {"service": "research", "instance": "r-0", "labels": "-vip, eu", "reason": "It moved to Europe."}
    assert Program().post("fleet/labels", said)[1]["labels"] == ["canary", "eu"]
    assert AuditEntry.objects.latest("number").after == {"labels": ["canary", "eu"]}
    page = client.get("/agents?label=EU").content.decode()
    assert re.findall(r"<code>([rs]-\d)</code></a>", page) == ["r-0"]
    assert '<span class="tag">eu</span>' in page
    assert '<option value="canary">' in page
    [told] = Program("read").get("fleet?label=eu")[1]["agents"]
    assert told["labels"] == ["canary", "eu"]
    assert [one["labels"] for one in client.get("/agents?label=eu&format=json").json()["rows"]] == ["canary, eu"]
    own = client.get(f"/agents/settings?{where}").content.decode()
    assert '<a class="tag" href="/agents?label=canary">canary</a>' in own
    Story().tell(heartbeat(), at=5, instance="").store()
    assert Program().post("fleet/labels", said | {"instance": "", "labels": "nameless"})[0] == 200
    assert len(Program("read").get("fleet?label=nameless")[1]["agents"]) == 1
    assert client.post(f"/agents/label?{where}", {"labels": "a|b"}).status_code == 400
    assert client.post("/agents/label?service=research&instance=r-9", {"labels": "vip"}).status_code == 404
    assert signed_in(Role.VIEWER).post(f"/agents/label?{where}", {"labels": "vip"}).status_code == 403


def test_what_keeps_instances_out_is_named() -> None:
    fleet()
    page = signed_in().get("/agents?service=research&state=draining")
    empty = page.context["empty"]
    assert (empty.why, empty.href) == (Why.NO_MATCH, "?service=research"), "what lets go of the status"
    assert Shown(page).values("why") == [Why.NO_MATCH]
    assert "draining" in empty.text
    assert digits(empty.text) == ["2"]
    assert signed_in().get(f"/agents{empty.href}").context["matching"] == 2


def test_the_figures_count_and_lead_to_what_they_count() -> None:
    fleet()
    reporting, *_, waiting, _ = tiles()
    assert (reporting.figure, reporting.unit, reporting.href) == ("2", "of 3", "?state=unreachable")
    assert "r-1" in reporting.detail
    assert (waiting.figure, digits(waiting.unit)) == ("0", ["2"])
    assert reporting.href in Shown(signed_in().get("/agents")).links


def test_as_many_runs_wait_here_as_on_the_overview() -> None:
    fleet()
    waits = RetryScheduled(
        operation="model:large",
        attempt=2,
        delay_s=30.0,
        delay_source=DelaySource.RETRY_AFTER,
        category=Category.OVERLOADED,
    )
    story = Story().tell(waits, at=0, run="run-1", instance="r-0")
    story.tell(waits, at=600, received=600, run="run-2", instance="r-1").store()
    *_, waiting, _ = tiles()
    assert (waiting.figure, digits(waiting.unit)) == ("1", ["2"])
    [there] = [one for one in tiles("/") if one.href.partition("&")[0] == waiting.href.partition("&")[0]]
    assert (there.figure, there.title) == ("1", waiting.title)
    assert all(word in there.detail for word in ("0 s", "run-1"))


def test_of_a_fleet_that_is_silent_nothing_is_said_to_be_none() -> None:
    Story().tell(heartbeat(runs_in_flight=2), at=600, received=600, instance="r-1").store()
    *_, waiting, young = tiles()
    assert (waiting.figure, young.figure) == ("–", "–")
    assert digits(waiting.unit) == []


def test_the_grid_has_a_cell_for_each_instance_that_says_how_it_stands() -> None:
    fleet()
    page = signed_in().get("/agents?view=grid&service=research").content.decode()
    labels = re.findall(r'<li><a href="/agents/settings[^"]+" title="[^"]+" aria-label="([^"]+)"', page)
    assert [label.partition(":")[0] for label in labels] == ["r-1", "r-0"]
    assert "unreachable" in labels[0]


def common(client: Client, view: str) -> list[tuple[str, str, int, int]]:
    """Service, name, instances and how many of those report, of each row of a view."""
    page = client.get(f"/agents?view={view}")
    lines = page.context["common"]
    keys = [f"{view.removesuffix('s')}-{one.service}-{one.name}" for one in lines]
    assert [key for key in Shown(page).values("key") if key in keys] == keys
    return [(one.service, one.name, one.instances, one.reporting) for one in lines]


def test_versions_are_counted_by_service() -> None:
    fleet()
    assert common(signed_in(), "versions") == [("research", "", 2, 1), ("support", "", 1, 1)]


def test_label_form_sent_twice_changes_labels_once() -> None:
    fleet()
    typed = {"labels": "vip", "key": "k-1"}
    where = "/agents/label?service=research&instance=r-0"
    assert signed_in(Role.OPERATOR).post(where, typed).status_code == 303
    held = InstanceLabels.objects.get()
    InstanceLabels.objects.update(labels="")
    assert signed_in(Role.OPERATOR).post(where, typed).status_code == 303
    assert (held.label_names, InstanceLabels.objects.get().label_names) == (["vip"], [])


def test_who_is_in_a_group_or_has_a_label_is_counted_where_there_are_some() -> None:
    fleet()
    client = signed_in(Role.RESPONDER)
    client.post("/agents/label?service=research&instance=r-0", {"labels": "eu, vip"})
    assert common(client, "labels") == [
        *(("research", "", 1, 0), ("research", "eu", 1, 1), ("research", "vip", 1, 1)),
        ("support", "", 1, 1),
    ]
    assert "?view=table&service=research&label=eu" in Shown(client.get("/agents?view=labels")).links
    assert ("support", "canary", 1, 1) in common(client, "groups")
    assert "?view=labels" in Shown(client.get("/agents")).links
    InstanceLabels.objects.all().delete()
    assert "?view=labels" not in Shown(client.get("/agents")).links


def test_an_instance_shows_its_breakers_failures_and_revisions() -> None:
    story = Story().tell(heartbeat(), at=500, instance="r-0").tell(heartbeat(), at=5, instance="r-0")
    story.tell(moved(State.CLOSED, breaker="calm"), moved(State.OPEN), at=100, instance="r-0")
    story.tell(failed(Category.TIMEOUT, "crm.update", message="no answer"), at=90, instance="r-0", run="run-9")
    story.tell(failed(Category.BUG, "elsewhere", message="of another"), at=90, instance="r-1")
    story.tell(DesiredStateApplied(revision=3, config_hash="h"), at=80, instance="r-0")
    refused = DesiredStateRejected(revision=4, config_hash="h", reason="too many retries")
    story.tell(refused, at=70, instance="r-0").tell(heartbeat(), at=5, instance="r-1").store()
    page = signed_in(Role.VIEWER).get("/agents/settings?service=research&instance=r-0")
    said = text_of(page)
    assert re.findall(r'<a href="/breakers/([\w.]+)"><code>', page.content.decode()) == [
        "search_web",
        "calm",
        "crm.update",
    ]
    revisions = [(one.revision, one.is_refused) for one in page.context["revisions"]]
    assert revisions == [(4, True), (3, False)], "the newest first"
    assert refused.reason in said
    assert "no answer" in said
    assert "of another" not in said
    assert "/runs/run-9" in Shown(page).links


def test_an_instance_shows_how_it_stood_and_what_it_told_last() -> None:
    story = Story()
    for at, status, uptime_s in (
        *((at, "running", 5000.0 - at) for at in range(1800, 1200, -15)),  # then silence, and a new start
        (600, "starting", 1.0),
        *((at, "running", 600.0 - at) for at in range(590, 300, -15)),
        *((at, "draining", 600.0 - at) for at in range(300, 0, -15)),
    ):
        story.tell(heartbeat(status, uptime_s=uptime_s), at=at, received=at, instance="r-0")
    story.tell(GateClosed(operation="model", wait_s=90.0, category=Category.RATE_LIMITED), at=500, instance="r-0")
    story.tell(failed(Category.TIMEOUT, "crm.update", message="no answer"), at=90, instance="r-0", run="run-9")
    story.tell(failed(Category.BUG, "elsewhere"), at=90, instance="r-1").store()
    page = signed_in(Role.VIEWER).get("/agents/settings?service=research&instance=r-0&range=1h")
    said = text_of(page)
    figure = page.context["figure"]
    spans = {word: sum(one.lasted_s for one in figure.lines if one.what == word) for word in STATES}
    assert spans == {"running": 920.0, "unreachable": 570.0, "draining": 300.0, "starting": 10.0}
    told = [figure.sentence.index(f"{word} {lasted}") for word, lasted in STATES.items()]
    assert told == sorted(told), "the longest first"
    assert [one.what for one in figure.lines if one.is_so_far] == ["draining"]
    assert [one.lasted_s for one in figure.lines if one.what.startswith("model: ")] == [90.0]
    for lasted in ("5m 00s", "1m 30s", "10 s"):
        assert lasted in said
    events = [(one.event, one.operation) for one in page.context["events"]]
    assert events == [("failure_classified", "crm.update"), ("gate_closed", "model")]
    assert "elsewhere" not in said
    told = Program("read").get(f"fleet/instance?service=research&instance=r-0&from={_moment(3600)}&to={_moment(0)}")[1]
    assert [one["what"] for one in told["states"]] == ["running", "unreachable", "starting", "running", "draining"]
    assert [len(told[name]) for name in ("waits", "restarts", "events")] == [1, 1, 2]


def test_what_an_instance_said_last_before_a_range_holds_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story().tell(heartbeat("stopped"), at=7200, received=7200, instance="r-0")
    for at in (6000, 2400, 5):
        story.tell(heartbeat(interval_s=3600.0, uptime_s=9000.0 - at), at=at, received=at, instance="r-1")
    gate = GateClosed(operation="model", wait_s=1.0, category=Category.RATE_LIMITED)
    for at in range(600, 0, -100):
        story.tell(heartbeat(interval_s=100.0), gate, at=at, received=at, instance="r-2")
    story.store()
    client = signed_in(Role.VIEWER)
    pages = [client.get(f"/agents/settings?service=research&instance=r-{at}&range=1h") for at in range(2)]
    stood = [[(one.what, one.lasted_s) for one in page.context["figure"].lines] for page in pages]
    assert stood == [[("stopped", 3600.0)], [("running", 3600.0)]]
    assert all("1h 00m 00s" in page.context["figure"].sentence for page in pages)
    monkeypatch.setattr("events.queries.over_time.READ", 4)
    cut = client.get("/agents/settings?service=research&instance=r-2&range=1h").context["figure"]
    assert sum(one.lasted_s for one in cut.lines if one.what == "running") == 200.0
    assert (cut.is_cut, cut.start) == (True, ago(200))
    told = Program("read").get(f"fleet/instance?service=research&instance=r-2&from={_moment(3600)}&to={_moment(0)}")[1]
    assert told["since"] == told["states"][0]["start"]
    assert told["since"].startswith(ago(200).strftime("%Y-%m-%dT%H:%M:%S"))


def _moment(s: float) -> str:
    return ago(s).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_who_tells_no_heartbeats_is_not_said_to_have_stood_anyhow() -> None:
    Story().tell(failed(Category.TIMEOUT), at=90, instance="r-0").store()
    page = signed_in(Role.VIEWER).get("/agents/settings?service=research&instance=r-0")
    assert page.context["figure"] is None


def test_an_instance_that_obeyed_a_higher_revision_before_says_so_in_words() -> None:
    story = Story()
    for revision, at in ((11, 90), (12, 60), (9, 30), (10, 20)):
        story.tell(DesiredStateApplied(revision=revision, config_hash="h"), at=at, instance="r-0")
    story.tell(DesiredStateApplied(revision=11, config_hash="h"), at=20, instance="r-1")
    story.tell(heartbeat(), at=5, instance="r-0").tell(heartbeat(), at=5, instance="r-1").store()
    client = signed_in(Role.VIEWER)
    page = client.get("/agents/settings?service=research&instance=r-0")
    move, before = page.context["went_back"]
    assert (before, move.revision) == (12, 9)
    assert re.search(r"\b12\b\D+\b9\b", text_of(page))
    assert client.get("/agents/settings?service=research&instance=r-1").context["went_back"] is None


def test_names_from_outside_are_shown_and_never_run() -> None:
    troubled_fleet(name=HOSTILE)
    Story().tell(heartbeat(), at=1, instance=HOSTILE, service=HOSTILE).store()
    for query in ("", "?view=grid", "?view=versions"):
        page = signed_in().get(f"/agents{query}")
        assert page.status_code == 200
        assert "<img" not in page.content.decode()


def busy_fleet() -> None:
    """Of `research` b-0 is at run-2 and counts, b-1 counts no tokens, b-2 is idle; p-0 is a plain sender."""
    story = Story()
    story.tell(RunStarted(name="task"), at=300, instance="b-0", run="run-1")
    story.tell(RunStarted(name="task"), at=200, instance="b-0", run="run-2")
    story.tell(RunStarted(name="task"), at=100, instance="b-0", run="run-3")
    story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=9.0), at=90, instance="b-1", run="run-3")
    spent: dict[str, Any] = {"successes": 9, "input_tokens": 5_000, "output_tokens": 1_000}
    story.tell(counted(10, **spent), at=1_000, instance="b-0")
    story.tell(counted(10, **spent), at=800, instance="b-0").tell(counted(10, **spent), at=20, instance="b-0")
    story.tell(counted(4), at=20, instance="b-1")
    story.tell(heartbeat(runs_in_flight=1, uptime_s=3_600.0), at=5, received=2_000, instance="b-0", region="eu-west-1")
    story.tell(heartbeat(runs_in_flight=1), at=5, instance="b-1")
    # The run that it was at when its heart last beat has ended since.
    story.tell(RunStarted(name="task"), at=50, instance="b-3", run="run-5")
    story.tell(heartbeat(runs_in_flight=1), at=15, instance="b-3")
    story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=40.0), at=10, instance="b-3", run="run-5")
    # It began a run before it was started anew: that one is over, whatever was told of it.
    story.tell(RunStarted(name="task"), at=300, instance="b-2", run="run-4")
    story.tell(heartbeat(uptime_s=60.0), at=5, instance="b-2", region="us-east-1")
    story.tell(failed(), at=5, instance="p-0")
    story.store()


def test_each_instance_says_where_it_runs_and_what_it_does() -> None:
    busy_fleet()
    found = {one["instance"]: one for one in Program("read").get("fleet")[1]["agents"]}
    assert {name: (one["region"], one["current_run"]) for name, one in found.items()} == {
        "b-0": ("eu-west-1", "run-2"),
        "b-1": ("", None),
        "b-2": ("us-east-1", ""),
        "b-3": ("", ""),
        "p-0": ("", None),
    }
    # Two of its three counts are of the last quarter of an hour.
    figures = ("calls", "attempts", "successes", "tokens_per_min")
    assert {name: [one[figure] for figure in figures] for name, one in found.items()} == {
        "b-0": [20, 20, 18, 800.0],
        "b-1": [4, 4, 4, None],
        "b-2": [0, 0, 0, 0.0],
        "b-3": [0, 0, 0, 0.0],
        "p-0": [None, None, None, None],
    }
    client = signed_in(Role.VIEWER)
    [row] = client.get("/agents?region=eu-west-1&format=json").json()["rows"]
    assert [row[name] for name in ("region", "current run", "attempts", "success rate", "tokens / min")] == [
        *("eu-west-1", "run-2", 20, 0.9, 800.0)
    ]
    page = client.get("/agents?region=eu-west-1")
    assert '<a href="/runs/run-2" title="run-2"><code>run-2</code></a>' in page.content.decode()
    assert "90 % of 20" in text_of(page)
    [row] = client.get("/agents?q=p-0").context["rows"]
    assert (row.work.current_run, row.work.calls, row.work.tokens_per_min) == (None, None, None)
    assert page.context["counted_since"] is None, "all of the last 15 minutes"
    assert re.findall(r'data-key="region-research-([^"]*)"', client.get("/agents?view=regions").content.decode()) == [
        *("", "eu-west-1", "us-east-1")
    ]


def test_tokens_beyond_64_bits_are_not_counted() -> None:
    story = Story().tell(counted(4, input_tokens=1e308, output_tokens=1e308), at=20, instance="b-0")
    story.tell(counted(4, input_tokens=300), at=10, instance="b-0").store()
    [row] = Program("read").get("fleet")[1]["agents"]
    assert (row["calls"], row["tokens_per_min"]) == (8, pytest.approx(900.0))
    assert signed_in(Role.VIEWER).get("/agents").status_code == 200


def test_of_a_large_fleet_the_counts_reach_back_less_far_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "READ", 1)
    busy_fleet()
    told = Program("read").get("fleet")[1]
    assert told["counted_since"] == ago(20).isoformat(timespec="milliseconds")
    assert {one["instance"]: one["calls"] for one in told["agents"]}["b-0"] == 10
    assert signed_in(Role.VIEWER).get("/agents").context["counted_since"] == ago(20)
    # The beginnings that were read reach back to run-3 alone, which has ended: at which run it is, is not known.
    assert {one["instance"]: one["current_run"] for one in told["agents"]}["b-0"] is None


def test_counts_that_reach_back_a_few_seconds_are_of_those_and_who_has_none_among_them_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workload, "READ", 1)
    story = Story()
    for instance in ("b-0", "b-1", "b-2"):
        story.tell(heartbeat(), at=400, received=400, instance=instance).tell(heartbeat(), at=5, instance=instance)
    story.tell(counted(10, input_tokens=500, output_tokens=100), at=4, instance="b-0")
    story.tell(counted(30, input_tokens=500, output_tokens=100, interval_s=2.0), at=4, instance="b-1")
    story.tell(counted(30), at=300, instance="b-2").store()
    told = Program("read").get("fleet")[1]
    since = ago(4).isoformat(timespec="milliseconds")
    assert told["counted_since"] == since
    # The count of b-0 is about ten seconds, those of b-1 about all four that were read.
    assert {one["instance"]: (one["calls"], one["tokens_per_min"]) for one in told["agents"]} == {
        "b-0": (10, pytest.approx(3_600.0)),
        "b-1": (30, pytest.approx(9_000.0)),
        "b-2": (None, None),
    }
    rows = signed_in(Role.VIEWER).get("/agents?format=json").json()["rows"]
    assert {row["instance"]: row["attempts"] for row in rows} == {"b-0": 10, "b-1": 30, "b-2": None}
    assert {datetime.fromisoformat(row["counted since"]) for row in rows} == {ago(4)}


# -- at work -----------------------------------------------------------------------------------------------------------
STATES = {"running": "15m 20s", "unreachable": "9m 30s", "draining": "5m 00s", "starting": "10 s"}
AT_WORK = "/agents/settings?service=research&instance=r-0&range=1h&tab=runs"


def test_an_instance_shows_the_runs_it_started_and_no_others() -> None:
    story = Story()
    for instance in ("r-0", "r-1"):
        story.tell(heartbeat(), at=5, instance=instance)
        run = f"run-of-{instance}"
        story.tell(RunStarted(name="due diligence"), at=60, instance=instance, run=run)
        story.tell(failed(Category.TIMEOUT), at=50, instance=instance, run=run)
        story.tell(RunFinished(status=RunStatus.SUCCEEDED, duration_s=40.0), at=20, instance=instance, run=run)
    story.tell(RunStarted(), at=10, instance="r-0", run="goes-on").store()
    page = signed_in(Role.VIEWER).get(AT_WORK)
    runs = [
        (one.story.run, one.standing.word, one.story.failed_attempts, one.story.took) for one in page.context["runs"]
    ]
    assert runs == [("goes-on", "running", 0, None), ("run-of-r-0", "recovered", 1, timedelta(seconds=40))]
    shown = Shown(page)
    assert [key for key in shown.values("key") if key.startswith("run-")] == ["run-goes-on", "run-run-of-r-0"]
    assert all(word in shown.one("key", "run-run-of-r-0").text for word in ("due diligence", "recovered", "40 s"))
    assert "/runs/run-of-r-0" in shown.links


def test_the_breakers_of_an_instance_are_drawn_over_time_with_a_table() -> None:
    story = Story()
    for instance in ("r-0", "r-1"):
        story.tell(heartbeat(), at=1200, instance=instance)
        calm = [moved(State.CLOSED, breaker=name) for name in ("calm", "search_web")]
        story.tell(*calm, at=1190, instance=instance)
    story.tell(moved(State.OPEN, before=State.CLOSED, breaker="search_web"), at=600, instance="r-0")
    story.tell(moved(State.HALF_OPEN, before=State.OPEN, breaker="search_web"), at=540, instance="r-0")
    story.tell(moved(State.CLOSED, before=State.HALF_OPEN, breaker="search_web"), at=530, instance="r-0")
    for at in range(1190, 0, -15):
        story.tell(heartbeat(), at=at, received=at, instance="r-0")
    story.store()
    answer = signed_in(Role.VIEWER).get(AT_WORK)
    page, sentence = answer.content.decode(), answer.context["lanes"].sentence
    assert all(word in sentence for word in ("1 of 2", "search_web", "1m 10s"))
    assert sentence in page
    silent = signed_in(Role.VIEWER).get(AT_WORK.replace("r-0", "r-1")).context["lanes"]
    assert {one.breaker: one.state for one in silent.lines if one.end is None} == dict.fromkeys(
        ("calm", "search_web"), "unknown"
    )
    assert not {"open", "half_open"} & {one.state for one in silent.lines}
    assert "19m " in silent.sentence, "so long nobody knows: it fell silent"
    lanes = re.findall(r'<div class="lane"><span title="([^"]+)">', page)
    assert lanes[:2] == ["search_web", "calm"], "the most troubled first"
    table = page[page.index('aria-label="Breakers over time, table"') :].partition("</table>")[0]
    rows = [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in table.split("<tr>")[2:]]
    told = [row.split()[:2] for row in rows if row.startswith("search_web")]
    assert told == [["search_web", word] for word in ("closed", "half-open", "open", "closed")]
    assert any(row.startswith("search_web open") and row.endswith("1m 00s") for row in rows)


def test_an_instance_without_runs_or_breakers_says_so() -> None:
    Story().tell(heartbeat(), at=5, instance="r-0").store()
    page = signed_in(Role.VIEWER).get(AT_WORK)
    assert (page.context["lanes"], page.context["runs"]) == (None, [])
    assert Shown(page).values("why") == [Why.NEVER, Why.NO_MATCH]
    assert (page.context["status"], page.context["agent"].runs_in_flight) == ("running", 0)


def senders() -> None:
    """One agent that follows revisions, and two plain senders, one of which sends no more."""
    story = (
        Story()
        .tell(heartbeat(), at=5, instance="r-0")
        .tell(DesiredStateApplied(revision=1, config_hash="h"), at=5, instance="r-0")
    )
    story.tell(failed(Category.TIMEOUT), at=5, instance="p-0", service="plain")
    story.tell(failed(Category.TIMEOUT), at=600, received=600, instance="p-1", service="plain").store()


def test_who_obeys_nobody_is_not_called_pending() -> None:
    senders()
    trip = {"scope": "all", "reason": "helios is down", "expires_in_s": "3600", "seen": "0", "key": "k-1"}
    signed_in(Role.OPERATOR).post("/breakers/search_web/trip", trip)
    client = signed_in(Role.VIEWER, name="vera")
    page = client.get("/agents")
    chips = {parse_qs(one.href[1:]).get("show", [""])[0]: one.count for one in page.context["facets"]}
    assert chips == {"": 3, "drifted": 1, "only sends": 2}
    assert {row.agent.instance: row.apply for row in page.context["rows"]} == {
        "r-0": ApplyStatus.DRIFTED,
        "p-0": None,
        "p-1": None,
    }
    rows = client.get("/agents?show=only+sends").content.decode()
    assert sorted(re.findall(r"<code>(\w-\d)</code></a></th>", rows)) == ["p-0", "p-1"]
    rows = client.get("/agents?show=unreachable").content.decode()
    assert re.findall(r"<code>(\w-\d)</code></a></th>", rows) == []


def test_the_overview_says_whom_it_does_not_count() -> None:
    senders()
    for page in ("/", "/wallboard"):
        agents = tiles(page)[-1]
        assert (agents.figure, agents.unit) == ("2", "of 2")
        assert digits(agents.detail) == ["0", "1"], "runs in flight, and senders that are not counted"


def test_who_obeys_nobody_is_not_told_what_it_obeys() -> None:
    senders()
    client = signed_in(Role.VIEWER)
    for instance, service, is_follower in (("p-0", "plain", False), ("r-0", "research", True)):
        page = client.get(f"/agents/settings?service={service}&instance={instance}")
        assert page.context["agent"].is_follower is is_follower
        found = page.context["found"]
        assert found.policy
        assert (found.policy in text_of(page)) is is_follower
        assert (re.search(r"\brevision \d", text_of(page)) is not None) is is_follower
        assert found.sentence in text_of(page)


def test_of_plain_senders_nobody_is_said_to_be_on_a_revision() -> None:
    Story().tell(failed(Category.TIMEOUT), at=5, instance="p-0", service="plain").store()
    page = signed_in(Role.VIEWER).get("/agents")
    reporting, obeying, *_ = page.context["tiles"]
    assert (reporting.figure, reporting.unit) == ("1", "of 1")
    assert (obeying.figure, obeying.unit) == ("0", "of 0")
    assert digits(page.context["sentence"]) == ["1", "1"], "nothing of a revision"
