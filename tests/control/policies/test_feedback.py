"""Feedback: said of what was handled badly, answered by a proposal with one click, or laid aside."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from hypothesis import given
from hypothesis import strategies as st

from recovery_ops.celery import app
from recovery_ops.control.core.rejections import CommandRejected
from recovery_ops.control.policies.models.feedback import Feedback
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.policies.services import feedback as feedback_services
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.control.self_monitoring.retention import sweep_replays
from recovery_ops.control.tasks import sweep_old_replays
from recovery_ops.rules.policy.feedback import Want, suggested
from recovery_ops.rules.policy.model import BUILT_IN_DEFAULTS, Settings
from recovery_ops.rules.policy.settings import SETTINGS, fault_of
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, small_fleet
from tests.support.pages import REASON, signed_in, text_of
from tests.support.replays import policy
from tests.support.stories import NOW, Story, failed

pytestmark = pytest.mark.django_db


@pytest.fixture
def known(db: None) -> None:
    small_fleet()


def said(**changed: Any) -> Feedback:
    return feedback_services.say(
        **asked(operation="search_web", want="retry_less", service="research") | changed
    ).object


def rules_of(proposal: PolicyProposal) -> list[Any]:
    return [(rule["scope"], rule["settings"]) for rule in proposal.document["rules"]]


@pytest.mark.usefixtures("known")
def test_one_click_makes_a_draft_with_a_scoped_change() -> None:
    entry = said()
    made = feedback_services.propose_from(**asked(number=1, key="one click")).object
    assert rules_of(made) == [
        ({"service": "research", "operation": "search_web"}, {"max_retries": 2, "max_retries_background": 2})
    ]
    assert (made.state, made.title.partition(":")[0]) == ("draft", "search_web")
    assert re.findall(r"\d+", made.title) == ["1"], "the number of the feedback"
    assert REASON in made.notes.get().text
    entry.refresh_from_db()
    assert (entry.state, entry.proposal_id) == ("proposed", made.pk)
    with pytest.raises(CommandRejected) as again:
        feedback_services.propose_from(**asked(number=1))
    assert again.value.status == 409


@pytest.mark.usefixtures("known")
def test_dry_run_leaves_feedback_open() -> None:
    entry = said()
    tried = feedback_services.propose_from(**asked(number=1, dry_run=True))
    assert (tried.is_dry_run, PolicyProposal.objects.count()) == (True, 0)
    entry.refresh_from_db()
    assert (entry.state, entry.proposal_id, entry.ended_by) == ("open", None, "")
    assert feedback_services.propose_from(**asked(number=1)).object.number == 1


@pytest.mark.usefixtures("known")
def test_it_goes_one_step_from_what_holds_and_keeps_the_rest_of_the_rule() -> None:
    rule = {"id": "a", "scope": {"operation": "search_web"}, "settings": {"max_retries": 5, "jitter": 0.3}}
    live = proposals_services.propose(**asked(title="a", document=policy() | {"rules": [rule]})).object
    proposals_services.release_proposal(**asked(number=live.number))
    said(want="retry_more", service="")
    [(scope, settings)] = rules_of(feedback_services.propose_from(**asked(number=1)).object)
    assert (scope, settings["max_retries"], settings["jitter"]) == ({"operation": "search_web"}, 7, 0.3)


SETTING_VALUES = {
    "max_retries": st.integers(0, 20),
    "max_retries_background": st.integers(0, 20),
    "base_delay_s": st.floats(0, 3600),
    "delay_cap_s": st.floats(0.001, 3600),
    "call_deadline_s": st.floats(0, 86_400),
    "minimum_number_of_calls": st.integers(1, 10_000),
    "failure_rate_threshold": st.floats(0, 1),
}


@given(st.sampled_from(Want), st.fixed_dictionaries(SETTING_VALUES))
def test_what_is_suggested_is_always_a_policy(want: Want, held: dict[str, Any]) -> None:
    for name, value in suggested(want, Settings(**held)).items():
        assert not fault_of(SETTINGS[name], value)


@pytest.mark.parametrize("want", [want for want in Want if want not in (Want.OTHER, Want.FALSE_ALARM)])
def test_each_wish_changes_something_of_what_is_built_in(want: Want) -> None:
    held = BUILT_IN_DEFAULTS["operation"]
    assert any(getattr(held, name) != value for name, value in suggested(want, held).items())


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"want": "magic"}, "want"),
        ({"operation": "nobody"}, "operation"),
        ({"operation": "*nobody"}, "operation"),
        ({"run": "a\0"}, "run"),
        ({"run": "run-of-nobody"}, "run"),
        ({"reason": "x"}, "reason"),
    ],
)
def test_what_is_no_feedback_is_refused_by_its_field(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(CommandRejected) as refused:
        said(**changed)
    assert field in refused.value.fields


@pytest.mark.usefixtures("known", "now")
def test_on_the_pages_from_the_form_to_the_proposal() -> None:
    client = signed_in(Role.EDITOR)
    Story("dev").tell(failed(), at=5, instance="r-0", run="run-1").store()
    form = {"operation": "search_web", "want": "no_retry", "reason": REASON, "key": "k-1", "run": "run-1"}
    assert 'value="search_web"' in client.get("/feedback/new?operation=search_web").content.decode()
    assert 'value="false_alarm" selected' in client.get("/feedback/new?want=false_alarm").content.decode()
    assert client.post("/feedback/new", form | {"reason": "short"}).status_code == 422
    assert client.post("/feedback/new", form | {"operation": "nobody"}).status_code == 404
    assert client.post("/feedback/new", form).headers["Location"] == "/feedback"
    listed = client.get("/feedback")
    [(one, _)] = listed.context["waiting"]
    assert (one.operation, one.want, one.reason, one.run) == ("search_web", "no_retry", REASON, "run-1")
    assert REASON in text_of(listed)
    answer = client.post("/feedback", {"act": "propose", "number": "1", "key": "k-2"})
    assert answer.headers["Location"] == "/policies/proposals/1"
    [(answered, _)] = client.get("/feedback").context["answered"]
    assert (answered.state, answered.proposal.number) == ("proposed", 1)
    client.post("/feedback/new", form | {"key": "k-3"})
    client.post("/feedback", {"act": "close", "number": "2", "key": "k-4"})
    assert not client.get("/feedback").context["waiting"]
    assert client.post("/feedback", {"act": "close", "number": "x"}).status_code == 404
    assert signed_in(Role.VIEWER, "vera").post("/feedback/new", form).status_code == 403


def test_replays_are_kept_for_their_time() -> None:
    def replay(number: int, days: float, state: str) -> Replay:
        at = NOW - timedelta(days=days)
        return Replay.objects.create(
            environment="dev",
            number=number,
            old_version="1",
            old_document={},
            new_document={},
            start_at=at,
            end_at=at,
            by="ana",
            asked_at=at,
            state=state,
            finished_at=None if state == Replay.RUNNING else at,
        )

    limit = settings.KEEP_REPLAYS_DAYS
    replay(1, limit + 1, Replay.DONE)
    kept = [replay(2, limit - 1, Replay.DONE), replay(3, limit + 1, Replay.RUNNING)]
    assert (sweep_replays(NOW), sweep_replays(NOW)) == (1, 0)
    assert list(Replay.objects.order_by("number")) == kept


def test_the_scheduler_sweeps_replays() -> None:
    app.loader.import_default_modules()
    assert sweep_old_replays.name in {one["task"] for one in settings.CELERY_BEAT_SCHEDULE.values()}
