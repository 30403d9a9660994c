"""What an instance really goes by, beside what is desired of it: on its page, in the API and on the command line."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from events import queries
from recovery_ops.control.agents.effective_settings import InForce, Line, Why, in_force_of
from recovery_ops.control.breakers.services import overrides
from recovery_ops.control.desired_state.document import Who, read
from recovery_ops.control.policies.services import policies
from recovery_ops.rules.enums import ApplyStatus, State
from recovery_ops.rules.events import DesiredStateApplied, DesiredStateRejected, SettingsInForce
from recovery_ops.rules.policy.effective_settings import of_operation, of_process, of_settings
from recovery_ops.rules.policy.model import BUILT_IN, Settings
from recovery_ops.rules.policy.scope import Place, Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, trip
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of
from tests.support.stories import NOW, Story, heartbeat, moved

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]
PAGE = "/agents/settings?service=research&instance=r-0"


def table(**changed: Any) -> dict[str, Any]:
    """What search_web goes by where nobody but the console's built-in policy said anything."""
    place = Place(service="research", instance="r-0", operation="search_web", breaker="search_web")
    return dict(of_operation(BUILT_IN.for_operation(place), fallbacks=["cache"])) | changed


def says(revision: int = 0, at: float = 5, code: Settings | None = None, held: Any = None, **changed: Any) -> Story:
    """r-0 obeys this revision of what is desired, and says what it runs."""
    document = document_of(revision)
    fact = SettingsInForce(
        operation="search_web",
        revision=revision,
        settings=table(**changed),
        in_code=of_settings(code) if code else {},
        held=held or {},
        operation_kind="operation",
        breaker="search_web",
    )
    process = SettingsInForce(revision=revision, settings=of_process(BUILT_IN), in_code={"max_retries": 2}, count=1)
    story = Story().tell(heartbeat(revision=revision, config_hash=document), at=4, instance="r-0")
    return story.tell(process, fact, at=at, instance="r-0").store()


def document_of(revision: int) -> str:
    snapshot = read("dev")
    if revision != snapshot.revision:
        return "of an older one"
    who = Who(service="research", instance="r-0", group="")
    return str(snapshot.document(snapshot.reach(who), issued_at=0.0)["config_hash"])


def found() -> InForce:
    agent = queries.agent_named("dev", "research", "r-0", now=NOW)
    assert agent is not None
    return in_force_of(agent, queries.settings_in_force(agent.id), read("dev"), now=NOW)


def line(name: str, operation: str = "search_web") -> Line:
    [part] = [one for one in found().parts if one.operation == operation]
    return next(one for one in part.lines if one.name == name)


def edit(**settings: Any) -> None:
    policies.set_operation_policy(**asked(), operation="search_web", settings=settings, ahead=True)


def test_what_is_as_desired_is_equal() -> None:
    says()
    assert found().different == 0
    assert (line("max_retries").word, line("max_retries").by) == ("equal", "default policy")
    assert line("guards.turns", "").why is Why.SAME
    assert (line("fallbacks").why, line("ceiling.max_retries", "").why) == (Why.OWN, Why.OWN)


def test_the_codes_own_value_is_told_from_a_rule_that_is_not_obeyed_yet() -> None:
    says(code=Settings(max_retries=7), max_retries=7)
    assert line("max_retries").why is Why.CODE
    edit(max_retries=1)
    one = line("max_retries")
    assert (one.runs, one.desired, one.why) == (7, 1, Why.NOT_APPLIED)
    assert one.by.startswith("rule ")
    assert re.findall(r"\d+", one.sentence) == ["0", "1"], "the revision that it obeys, and the newest"


def test_a_ceiling_is_named_with_what_it_holds_back() -> None:
    edit(max_retries=9)
    says(revision=1, max_retries=2, held={"max_retries": 9})
    one = line("max_retries")
    assert (one.runs, one.desired, one.why) == (2, 9, Why.CEILING)
    assert "9" in one.sentence


def test_what_obeys_the_newest_and_runs_otherwise_is_found() -> None:
    edit(max_retries=9)
    says(revision=1, max_retries=4)
    assert line("max_retries").why is Why.UNEXPLAINED


def test_a_report_that_is_older_than_what_was_applied_is_on_its_way() -> None:
    says()
    edit(max_retries=9)
    Story().tell(heartbeat(revision=1, config_hash=document_of(1)), at=1, instance="r-0").store()
    assert line("max_retries").why is Why.ON_ITS_WAY


def test_a_refusal_says_why() -> None:
    says()
    edit(max_retries=9)
    refused = DesiredStateRejected(revision=1, config_hash="x", reason="the disk is full", kept_revision=0)
    Story().tell(refused, at=1, instance="r-0").store()
    assert (line("max_retries").why, "the disk is full" in line("max_retries").sentence) == (Why.REFUSED, True)


def test_an_override_is_compared_like_any_setting() -> None:
    says()
    trip()
    one = line("override")
    assert (one.runs, one.desired, one.why) == ("none", State.FORCED_OPEN.value, Why.NOT_APPLIED)


def test_what_one_side_does_not_know_is_not_called_different() -> None:
    says(of_tomorrow=5)
    assert line("of_tomorrow").why is Why.UNKNOWN_HERE
    stated = table()
    del stated["retry_budget"]
    fact = SettingsInForce(operation="search_web", revision=0, settings=stated, operation_kind="operation")
    Story().tell(fact, at=1, instance="r-0").store()
    assert (line("retry_budget").why, line("retry_budget").runs) == (Why.UNKNOWN_THERE, None)
    assert found().different == 0


def test_what_a_process_said_that_has_ended_is_not_held_against_the_next() -> None:
    says(at=600, max_retries=8)
    [_, part] = sorted(found().parts, key=lambda one: one.operation)
    assert (part.is_past, part.different, found().different) == (True, [], 0)


def test_an_instance_that_does_not_say_is_said_to_be_silent_about_it() -> None:
    Story().tell(heartbeat(revision=0), at=4, instance="r-0").store()
    page = text_of(signed_in(Role.VIEWER).get(PAGE))
    assert found().sentence in page
    assert not found().parts


def test_the_page_shows_both_sides_and_why() -> None:
    says(code=Settings(max_retries=7), max_retries=7)
    client = signed_in(Role.VIEWER)
    page = text_of(client.get(PAGE))
    assert "1 of " in page
    assert (line("max_retries").why, line("max_retries").sentence in page) == (Why.CODE, True)
    process = text_of(client.get(PAGE + "&of=(process)"))
    assert "guards.turns" in process
    assert "ceiling.max_retries" in process
    assert client.get("/agents/settings?service=research&instance=nobody").status_code == 404


def test_nothing_of_another_environment_is_shown() -> None:
    says()
    assert queries.agent_named("prod", "research", "r-0", now=NOW) is None
    agent = queries.agent_named("dev", "research", "r-0", now=NOW + timedelta(days=2))
    assert agent is not None, "however long it was silent"


def test_an_override_that_lets_this_instance_out_is_not_desired_of_it() -> None:
    says()
    overrides.trip(**asked(scope=Scope(operation="search_web", instance="r-9"), ahead=True))
    assert line("override").why is Why.SAME


def ahead(revision: int) -> None:
    """r-0 obeys a revision that this server, restored from a backup, does not know (any more)."""
    Story().tell(heartbeat(revision=revision, config_hash="x"), at=1, instance="r-0").store()


@pytest.mark.parametrize("newest", [0, 1])
def test_who_obeys_a_later_revision_than_there_is_is_said_to_believe_the_second_word(newest: int) -> None:
    says()
    for _ in range(newest):
        trip(ahead=True)
    ahead(7)
    client = signed_in(Role.VIEWER)
    page = client.get(PAGE)
    here, note = page.context["found"], page.context["note"]
    assert (here.status, here.revision, here.agent.revision) == (ApplyStatus.DRIFTED, newest, 7)
    assert re.findall(r"\d+", note) == ["7", str(newest)]
    assert note in text_of(page)
    fleet = client.get("/agents")
    head = Shown(fleet).one("ahead").data
    assert (head["ahead"], head["drifted"]) == ("1", "0")
    assert note in text_of(fleet)


def test_who_goes_on_under_a_lower_revision_that_it_believed_is_as_desired() -> None:
    says()
    trip(ahead=True)
    ahead(7)
    applied = DesiredStateApplied(revision=1, config_hash=document_of(1))
    Story().tell(applied, at=0, instance="r-0").store()
    page = signed_in(Role.VIEWER).get(PAGE)
    assert (page.context["found"].status, page.context["note"]) == (ApplyStatus.APPLIED, "")
    assert ">applied<" in signed_in(Role.VIEWER).get("/agents").content.decode()


def test_a_breakers_page_says_so_too() -> None:
    says()
    Story().tell(moved(State.OPEN), at=3, instance="r-0").store()
    trip(ahead=True)
    ahead(7)
    note = signed_in(Role.VIEWER).get(PAGE).context["note"]
    assert re.findall(r"\d+", note) == ["7", "1"]
    page = text_of(signed_in(Role.VIEWER).get("/breakers/search_web"))
    assert page.count(note.partition("7")[2]) == 2


def test_override_of_one_operation_is_desired_of_its_breaker() -> None:
    trip(scope=Scope(operation="fetch"), ahead=True)
    story = Story().tell(heartbeat(revision=1), at=4, instance="r-0")
    for name in ("search_web", "fetch"):
        fact = SettingsInForce(operation=name, revision=1, settings=table(), operation_kind="operation", breaker="b")
        story = story.tell(fact, at=5, instance="r-0")
    story.store()
    assert line("override").desired == line("override", "fetch").desired == State.FORCED_OPEN.value
