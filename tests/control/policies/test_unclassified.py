"""The inbox of unknown failures: listed by cause, named by a proposed rule, or left unknown knowingly."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from io import StringIO
from typing import Any
from urllib.parse import unquote

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events import keys
from events.failures.unknown import Matched, matched, unknown_causes
from events.ingest.classification import rules_of
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.policies.models.policies import PolicyProposal
from recovery_ops.control.policies.models.unclassified import UnknownCause
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.policies.services import releases
from recovery_ops.control.policies.services import unclassified as unclassified_services
from recovery_ops.control.policies.unclassified import DISMISSED, NAMED, PROPOSED, WAITING
from recovery_ops.rules.enums import Category, Evidence
from recovery_ops.rules.events import FailureClassified
from recovery_ops.rules.policy.classification_rules import Match
from recovery_ops.rules.roles import Role
from recovery_ops.wire import names
from tests.support.actions import asked
from tests.support.any_events import bare, store
from tests.support.api_client import Program
from tests.support.escalations import asked as question_of
from tests.support.html import Shown
from tests.support.pages import HOSTILE, REASON, signed_in, text_of
from tests.support.sentences import left_out
from tests.support.stories import NOW, Story, heartbeat
from tests.support.unclassified import MARK, met

pytestmark = pytest.mark.django_db
LIST = "/failures/unclassified"

CAUSE = f"{LIST}/{MARK}"

WEEK = {"start": NOW - timedelta(days=7), "end": NOW}


@pytest.fixture
def known(now: Any) -> None:
    met()


def typed(**changed: str) -> dict[str, str]:
    said = {"name": "ledger busy", "category": "overloaded", "message": "ledger * is busy", "key": "k-1"}
    return said | {"act": "propose", "reason": REASON} | changed


# -- what is found -----------------------------------------------------------------------------------------------------
def test_causes_are_put_together_with_all_that_is_told_of_them() -> None:
    met(error_code="e_busy")
    met("cafe", times=1, operation="quote", message="the abacus fell over")
    met("f00d", times=5, category=Category.OVERLOADED, evidence=Evidence.HTTP_STATUS)
    one, other = unknown_causes("dev", **WEEK)
    assert (one.fingerprint, one.count, one.runs, one.where) == (MARK, 3, 3, [("post_entry", 3)])
    assert (one.cases[0].code, one.cases[0].message) == ("e_busy", "ledger 0 is busy")
    assert (other.fingerprint, other.count) == ("cafe", 1)
    assert unknown_causes("prod", **WEEK) == []


def test_a_match_tells_unknown_from_what_is_classified_already() -> None:
    met()
    met("f00d", times=2, category=Category.SERVER_ERROR, message="ledger {} is busy", status_code=500)
    met("beef", times=1, message="the abacus fell over")
    found = matched("dev", Match(message="ledger * is busy"), **WEEK)
    assert (found.read, found.unknown, found.causes, found.known_count) == (6, 3, 1, 2)
    assert found.known == [(Category.SERVER_ERROR, "f00d", "ledger 0 is busy", 2)]


def test_what_a_rule_named_counts_as_what_it_was() -> None:
    met(category=Category.OVERLOADED, rule="busy", instead_of=Category.UNKNOWN)
    assert matched("dev", Match(message="ledger*"), **WEEK).unknown == 3
    assert unknown_causes("dev", **WEEK) == []


def counted(page: Any) -> tuple[int, int, int, int]:
    """Of the preview: what was read, unknown failures and causes that the rule fits, and what has a name already."""
    found: Matched = page.context["preview"]
    return found.read, found.unknown, found.causes, found.known_count


# -- the pages ---------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("known")
def test_the_list_leads_to_a_form_with_the_narrowest_rule() -> None:
    client = signed_in()
    listed = client.get(LIST)
    [(item, _)] = listed.context["waiting"]
    assert (item.cause.count, item.suggestion.category) == (3, Category.OVERLOADED)
    assert left_out(item.suggestion.because, "busy") == []
    assert left_out(listed.context["sentence"], "1", "3") == []
    assert all(one in text_of(listed) for one in (item.suggestion.because, listed.context["sentence"]))
    assert CAUSE in Shown(listed).links
    page = client.get(CAUSE)
    for part in ('value="ledger * is busy"', 'value="acme.LedgerError"', '<option value="overloaded" selected>'):
        assert part in page.content.decode()
    assert counted(page) == (3, 3, 1, 0)
    assert left_out(page.context["preview_words"], "3", "1", "0") == []
    assert page.context["preview_words"] in text_of(page)


@pytest.mark.usefixtures("known")
def test_file_has_each_figure_in_its_column() -> None:
    met("f00d", times=2, message="the abacus fell over", operation="quote")
    rows = csv.DictReader(StringIO(signed_in().get(f"{LIST}?format=csv").content.decode()))
    figures = ("fingerprint", "state", "failures", "runs", "instances", "operations", "suggested")
    assert [tuple(row[name] for name in figures) for row in rows] == [
        (MARK, WAITING, "3", "3", "1", "post_entry", "overloaded"),
        ("f00d", WAITING, "2", "2", "1", "quote", ""),
    ]


@pytest.mark.usefixtures("known")
def test_a_rule_is_looked_at_proposed_released_and_the_cause_has_a_name() -> None:
    client = signed_in()
    met("f00d", times=2, category=Category.SERVER_ERROR, status_code=500)
    shown = client.post(CAUSE, typed(act="preview", message="ledger*"))
    assert counted(shown) == (5, 3, 1, 2)
    assert [(one[0], one[2]) for one in shown.context["preview"].known] == [(Category.SERVER_ERROR, "ledger 0 is busy")]
    assert "/failures/f00d?from=now-7d" in Shown(shown).links
    assert client.post(CAUSE, typed()).headers["Location"] == "/policies/proposals/1"
    proposal = PolicyProposal.objects.get()
    assert proposal.document["classification"] == [
        {"name": "ledger busy", "match": {"message": "ledger * is busy"}, "category": "overloaded"}
    ]
    assert [one.state for _, one in client.get(LIST).context["others"]] == [PROPOSED]
    assert "/policies/proposals/1" in Shown(client.get(CAUSE)).links
    assert client.post(CAUSE, typed()).headers["Location"] == "/policies/proposals/1"  # the same key: nothing twice
    assert PolicyProposal.objects.count() == 1
    assert client.get("/policies/proposals/1").status_code == 200
    proposals_services.release_proposal(**asked(number=1, key="go"))
    listed = client.get(LIST)
    [(_, named)] = listed.context["others"]
    assert (named.state, named.named_by) == (NAMED, "ledger busy")
    assert "ledger busy" in text_of(listed)
    assert listed.context["waiting"] == []


@pytest.mark.usefixtures("known")
def test_one_click_of_the_list_makes_the_proposal_with_a_reason_that_names_the_pattern() -> None:
    client = signed_in()
    assert 'value="propose_at_once"' in client.get(LIST).content.decode()
    sent = {"act": "propose_at_once", "key": "k-1"}
    assert client.post(CAUSE, sent).headers["Location"] == "/policies/proposals/1"
    assert client.post(CAUSE, sent).headers["Location"] == "/policies/proposals/1", "twice is once"
    proposal = PolicyProposal.objects.get()
    [rule] = proposal.document["classification"]
    assert (rule["category"], rule["match"]["message"], proposal.state) == ("overloaded", "ledger * is busy", "draft")
    entry = AuditEntry.objects.get(verb="proposal.draft")
    assert rule["match"]["message"] in entry.reason
    assert client.get("/policies/proposals/1/edit").status_code == 200


def test_one_click_without_a_word_for_it_asks_for_the_category(now: Any) -> None:
    met("cafe", message="the abacus fell over")
    answer = signed_in().post(f"{LIST}/cafe", {"act": "propose_at_once"})
    assert (answer.status_code, PolicyProposal.objects.count()) == (422, 0)
    assert answer.context["problem"]
    assert signed_in(Role.VIEWER, "vera").post(f"{LIST}/cafe", {"act": "propose_at_once"}).status_code == 403


@pytest.mark.usefixtures("known")
def test_the_question_leads_to_the_form_of_its_own_cause() -> None:
    Story().tell(question_of(operation="post_entry"), at=80, run=f"{MARK}-0").store()
    open_escalations("dev", NOW)
    assert CAUSE in Shown(signed_in().get(f"/escalations/{Escalation.objects.get().pk}")).links


@pytest.mark.usefixtures("known")
def test_what_arrives_goes_by_the_rules_of_what_is_released() -> None:
    rule = {"name": "busy", "match": {"message": "*busy"}, "category": "overloaded"}
    unclassified_services.propose_rule(**asked(fingerprint=MARK, rule=rule))
    assert rules_of("dev")() == ()
    proposals_services.release_proposal(**asked(number=1))
    assert [one.name for one in rules_of("dev")()] == ["busy"]
    releases.roll_back(**asked(version=0, key="back"))
    assert rules_of("dev")() == ()


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({"name": ""}, {"name"}),
        ({"category": ""}, {"category"}),
        ({"category": "gremlins"}, {"category"}),
        ({"message": "*"}, {"message"}),
        ({"message": ""}, set()),
        ({"reason": "x" * 501}, {"reason"}),
    ],
)
def test_what_is_no_rule_is_told_beside_its_field_and_stays(changed: dict[str, str], fields: set[str]) -> None:
    answer = signed_in().post(CAUSE, typed(**changed))
    assert answer.status_code == 422
    errors, problem = answer.context["form"].errors, answer.context["problem"]
    assert (set(errors), bool(problem)) == (fields, not fields), "what has no field is told above them"
    assert all(one in text_of(answer) for one in (problem, *(several[0] for several in errors.values())))
    assert not PolicyProposal.objects.exists()


@pytest.mark.usefixtures("now")
def test_a_cause_that_nothing_can_be_guessed_of_is_dismissed_too() -> None:
    met("plugh", message="xyzzy {}", exception_type="acme.Plugh")
    assert signed_in().post(f"{LIST}/plugh", {"act": "dismiss", "reason": ""}).headers["Location"] == LIST


@pytest.mark.usefixtures("known")
def test_a_cause_is_dismissed_with_a_reason_and_waits_again() -> None:
    client = signed_in()
    assert client.post(CAUSE, {"act": "dismiss", "reason": "x" * 501}).status_code == 422
    assert client.post(CAUSE, {"act": "dismiss", "reason": REASON}).headers["Location"] == LIST
    listed = client.get(LIST)
    assert listed.context["waiting"] == []
    [(_, dismissed)] = listed.context["others"]
    assert (dismissed.state, dismissed.said.reason, dismissed.said.by) == (DISMISSED, REASON, "ana")
    assert REASON in text_of(listed)
    assert client.post(CAUSE, {"act": "reopen", "reason": REASON}).headers["Location"] == LIST
    assert [one.cause.fingerprint for one, _ in client.get(LIST).context["waiting"]] == [MARK]
    told = AuditEntry.objects.filter(verb__startswith="unknown.").order_by("number")
    assert [(one.verb, one.after["state"]) for one in told] == [
        ("unknown.dismiss", "dismissed"),
        ("unknown.reopen", "open"),
    ]


@pytest.mark.usefixtures("now")
def test_one_that_was_dismissed_and_came_no_more_can_still_wait_again() -> None:
    UnknownCause.objects.create(
        environment="dev", fingerprint="old", state="dismissed", reason=REASON, by="ana", at=NOW
    )
    client = signed_in()
    listed = client.get(LIST)
    assert [one.fingerprint for one in listed.context["quiet"]] == ["old"]
    assert f"{LIST}/old" in [one.attributes.get("action") for one in Shown(listed).root.all() if one.tag == "form"]
    assert client.post(f"{LIST}/old", {"act": "reopen", "reason": REASON}).status_code == 303
    assert UnknownCause.objects.get().state == "open"


@pytest.mark.usefixtures("known")
def test_who_may_only_look_is_offered_nothing() -> None:
    viewer = signed_in(Role.VIEWER, "vera")
    assert viewer.get(LIST).status_code == 200
    assert "act" not in Shown(viewer.get(CAUSE)).fields
    assert "act" in Shown(signed_in().get(CAUSE)).fields
    for sent in (typed(), typed(act="preview"), {"act": "dismiss", "reason": REASON}):
        assert viewer.post(CAUSE, sent).status_code == 403
    assert signed_in().get(f"{LIST}/nobody").status_code == 404
    assert signed_in().post(f"{LIST}/nobody", {"act": "dismiss", "reason": REASON}).status_code == 404


@pytest.mark.usefixtures("now")
@pytest.mark.usefixtures("now")
@pytest.mark.parametrize("fingerprint", [-1, {"a": [1, {"b": "c"}]}, "9" * 23, "\u200b", "/a?b=c#d%2F&e"])
def test_cause_of_any_fingerprint_has_its_pages(fingerprint: object) -> None:
    event = bare(FailureClassified) | {names.ATTRIBUTES["category"]: "unknown"}
    store(NOW, {FailureClassified: [event | {names.ATTRIBUTES["fingerprint"]: fingerprint}]})
    client = signed_in()
    [cause] = [one for one in Shown(client.get(LIST)).links if one.startswith(f"{LIST}/")]
    failure = cause.replace(LIST, "/failures")
    assert failure in Shown(client.get("/failures")).links
    assert client.get(failure).status_code == 200
    shown = client.get(cause)
    assert shown.status_code == 200
    actions = [one.attributes.get("action", "") for one in Shown(shown).root.all() if one.tag == "form"]
    assert [unquote(one) for one in actions if one.startswith(LIST)] == [unquote(cause)] * 2


@pytest.mark.usefixtures("now")
def test_cause_no_longer_unknown_has_no_data() -> None:
    met(late=10 * 86_400)
    shown = signed_in().get(CAUSE)
    assert shown.status_code == 200
    assert shown.context["empty"].href == f"/failures/{MARK}?range=30d"
    assert signed_in().get(shown.context["empty"].href).status_code == 200


@pytest.mark.usefixtures("now")
def test_empty_is_said_in_its_own_words() -> None:
    Story().tell(heartbeat(), at=60).tell(heartbeat(), at=0).store()
    assert Shown(signed_in().get(LIST)).values("why") == ["all good"]


@pytest.mark.usefixtures("now")
def test_what_comes_from_outside_is_text_and_nothing_is_asked_twice() -> None:
    for number in range(30):
        met(f"mark-{number}", times=1, message=HOSTILE, operation=HOSTILE)
    client = signed_in()
    for path in (LIST, f"{LIST}/mark-3"):
        client.get(path)
        with CaptureQueriesContext(connection) as asked_of:
            page = client.get(path).content.decode()
        assert "<img" not in page
        assert len(asked_of) <= 15


# -- programs ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def late(db: None) -> None:
    """A cause by the real clock, which the API goes by."""
    keys.forget_keys()
    met(late=(NOW - timezone.now()).total_seconds())


@pytest.mark.usefixtures("late")
def test_programs_list_preview_propose_dismiss_and_reopen() -> None:
    program = Program()
    [one] = program.get("failures/unclassified")[1]["causes"]
    assert (one["fingerprint"], one["state"], one["failures"]) == (MARK, "waiting", 3)
    assert one["suggested"]["category"] == "overloaded"
    previewed = program.post("failures/unclassified/check", {"rule": one["draft"]})[1]
    assert (previewed["unknown"], previewed["classified_otherwise"], previewed["is_cut"]) == (3, 0, False)
    why = {"reason": REASON}
    at = f"failures/unclassified/{MARK}"
    assert program.post("failures/unclassified/check", {"rule": {}})[1]["code"] == "invalid"
    assert program.post(f"{at}/propose", why)[1]["fields"] == {"category": "is missing"}
    tried = program.post(f"{at}/propose", why | {"category": "overloaded", "dry_run": True})[1]
    assert (tried["dry_run"], PolicyProposal.objects.count()) == (True, 0)
    done = program.post(f"{at}/propose", why | {"category": "server_error"})[1]
    assert done["proposal"]["number"] == 1
    [rule] = PolicyProposal.objects.get().document["classification"]
    assert (rule["category"], rule["match"]["message"]) == ("server_error", "ledger * is busy")
    assert program.get("failures/unclassified")[1]["causes"][0]["said"]["proposal"] == 1
    wrong = program.post(f"{at}/propose", why | {"rule": rule | {"match": {"region": "eu"}}})
    assert wrong[0] == 400
    assert "classification[0].match.region" in json.dumps(wrong[1]["fields"])
    assert program.post(f"{at}/dismiss", why)[1]["cause"]["state"] == "dismissed"
    assert program.post(f"{at}/dismiss", why)[1]["was_already"] is True
    assert program.post(f"{at}/reopen", why)[1]["cause"]["state"] == "open"
    assert program.post("failures/unclassified/nobody/dismiss", why)[1]["code"] == "unknown_cause"
    assert Program("read").post(f"{at}/dismiss", why)[0] == 403
