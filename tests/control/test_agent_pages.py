"""The fleet narrowed and counted, as a table, as cells and by version; and one instance from the inside."""

from __future__ import annotations

import re

import pytest

from events.models import Agent
from recovery_ops.control.roles import Role
from recovery_ops.rules.facts import DesiredStateApplied, DesiredStateRejected
from recovery_ops.rules.words import Category, State
from tests.control.test_api import Program
from tests.control.visiting import HOSTILE, signed_in, text_of, troubled_fleet
from tests.events.seeding import Story, failed, heartbeat, moved

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
        ("silent_s=60", ["r-1"]),
        ("q=R-", ["r-0", "r-1"]),
        ("service=research&state=draining", []),
        ("state=moon&silent_s=nan", ["r-0", "r-1", "s-0"]),
    ],
)
def test_the_fleet_is_narrowed_on_the_page_in_files_and_for_programs_alike(query: str, names: list[str]) -> None:
    fleet()
    page = signed_in(Role.VIEWER).get(f"/agents?{query}").content.decode()
    assert sorted(re.findall(r"<code>([rs]-\d)</code></a></th>", page)) == names
    told = signed_in(Role.VIEWER).get(f"/agents?{query}&format=json").json()["rows"]
    assert sorted(one["instance"] for one in told) == names
    found = Program("read").get(f"fleet?{query}")[1]["agents"]
    assert [one["instance"] for one in found] == names


def test_what_keeps_instances_out_is_named() -> None:
    fleet()
    page = signed_in().get("/agents?service=research&state=draining")
    assert 'data-why="nothing matches"' in page.content.decode()
    assert "kept out by status draining: without it there would be 2 instances" in text_of(page)


def test_the_figures_count_and_lead_to_what_they_count() -> None:
    fleet()
    page = signed_in().get("/agents")
    said = text_of(page)
    assert "Reporting 2 of 3 r-1 silent" in said
    assert "of 2 in flight none waits for an outage to end" in said
    assert 'href="?state=unreachable"' in page.content.decode()


def test_the_grid_has_a_cell_for_each_instance_that_says_how_it_stands() -> None:
    fleet()
    page = signed_in().get("/agents?view=grid&service=research").content.decode()
    labels = re.findall(r'<li><a href="/agents/settings[^"]+" title="[^"]+" aria-label="([^"]+)"', page)
    assert [label.partition(":")[0] for label in labels] == ["r-1", "r-0"]
    assert "unreachable" in labels[0]


def test_versions_are_counted_by_service() -> None:
    fleet()
    said = text_of(signed_in().get("/agents?view=versions"))
    assert "2 versions" in said
    assert re.search(r"research none said 2 1", said)
    assert re.search(r"support none said 1 1", said)


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
    assert "refused : too many retries" in said
    assert re.search(r"4 refused.* 3 applied", said), "the newest first"
    assert "no answer" in said
    assert "of another" not in said
    assert 'href="/runs/run-9"' in page.content.decode()


def test_an_instance_that_obeyed_a_higher_revision_before_says_so_in_words() -> None:
    story = Story()
    for revision, at in ((11, 90), (12, 60), (9, 30), (10, 20)):
        story.tell(DesiredStateApplied(revision=revision, config_hash="h"), at=at, instance="r-0")
    story.tell(DesiredStateApplied(revision=11, config_hash="h"), at=20, instance="r-1")
    story.tell(heartbeat(), at=5, instance="r-0").tell(heartbeat(), at=5, instance="r-1").store()
    client = signed_in(Role.VIEWER)
    said = text_of(client.get("/agents/settings?service=research&instance=r-0"))
    assert "from revision 12 to 9: the server’s data was restored, or is new." in said
    assert "Went back" not in text_of(client.get("/agents/settings?service=research&instance=r-1"))


def test_names_from_outside_are_shown_and_never_run() -> None:
    troubled_fleet(name=HOSTILE)
    Story().tell(heartbeat(), at=1, instance=HOSTILE, service=HOSTILE).store()
    for query in ("", "?view=grid", "?view=versions"):
        page = signed_in().get(f"/agents{query}")
        assert page.status_code == 200
        assert "<img" not in page.content.decode()
