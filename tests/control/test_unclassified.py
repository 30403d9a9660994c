"""The inbox of unknown failures: listed by cause, named by a proposed rule, or left unknown knowingly."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from events import keys
from events.classification import rules_of
from events.failures.unknown import matched, unknown_causes
from recovery_ops.control import actions
from recovery_ops.control.escalations.opening import open_escalations
from recovery_ops.control.models import AuditEntry, Escalation, PolicyProposal, UnknownCause
from recovery_ops.control.roles import Role
from recovery_ops.rules.classification import Match
from recovery_ops.rules.words import Category, Evidence
from tests.support.actions import asked
from tests.support.api_client import Program
from tests.support.escalations import asked as question_of
from tests.support.pages import HOSTILE, REASON, signed_in, text_of
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
    one, other = unknown_causes("dev", **WEEK).rows
    assert (one.fingerprint, one.count, len(one.runs), one.where) == (MARK, 3, 3, [("post_entry", 3)])
    assert (one.cases[0].code, one.cases[0].message) == ("e_busy", "ledger 0 is busy")
    assert (other.fingerprint, other.count) == ("cafe", 1)
    assert unknown_causes("prod", **WEEK).rows == []


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
    assert unknown_causes("dev", **WEEK).rows == []


# -- the pages ---------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("known")
def test_the_list_leads_to_a_form_with_the_narrowest_rule() -> None:
    client = signed_in()
    listed = client.get(LIST)
    assert "1 cause without a name, 3 failures in the last 7 days." in text_of(listed)
    assert "its message says “busy”. A guess from that word alone" in text_of(listed)
    assert f'href="{CAUSE}"' in listed.content.decode()
    page = client.get(CAUSE)
    for part in ('value="ledger * is busy"', 'value="acme.LedgerError"', '<option value="overloaded" selected>'):
        assert part in page.content.decode()
    assert "It would match 3 of the 3 failures of the last 7 days: 3 unknown, of 1 cause; 0 already" in text_of(page)


@pytest.mark.usefixtures("known")
def test_a_rule_is_looked_at_proposed_released_and_the_cause_has_a_name() -> None:
    client = signed_in()
    met("f00d", times=2, category=Category.SERVER_ERROR, status_code=500)
    shown = client.post(CAUSE, typed(act="preview", message="ledger*"))
    assert "It would match 5 of the 5 failures of the last 7 days: 3 unknown" in text_of(shown)
    assert "server error" in text_of(shown).lower()
    assert client.post(CAUSE, typed()).headers["Location"] == "/policies/proposals/1"
    proposal = PolicyProposal.objects.get()
    assert proposal.document["classification"] == [
        {"name": "ledger busy", "match": {"message": "ledger * is busy"}, "category": "overloaded"}
    ]
    assert "proposed" in text_of(client.get(LIST))
    assert "proposal 1 , draft" in text_of(client.get(CAUSE))
    assert client.post(CAUSE, typed()).headers["Location"] == "/policies/proposals/1"  # the same key: nothing twice
    assert PolicyProposal.objects.count() == 1
    assert "Replay" in text_of(client.get("/policies/proposals/1"))
    actions.release_proposal(**asked(number=1, key="go"))
    listed = text_of(client.get(LIST))
    assert "named by the rule ledger busy from now on" in listed
    assert "Nothing waits" in listed


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
    assert "Named with one click by its pattern: " in entry.reason
    assert "message ledger * is busy" in entry.reason
    assert client.get("/policies/proposals/1/edit").status_code == 200


def test_one_click_without_a_word_for_it_asks_for_the_category(now: Any) -> None:
    met("cafe", message="the abacus fell over")
    answer = signed_in().post(f"{LIST}/cafe", {"act": "propose_at_once"})
    assert (answer.status_code, PolicyProposal.objects.count()) == (422, 0)
    assert "choose" in text_of(answer)
    assert signed_in(Role.VIEWER, "vera").post(f"{LIST}/cafe", {"act": "propose_at_once"}).status_code == 403


@pytest.mark.usefixtures("known")
def test_the_question_leads_to_the_form_of_its_own_cause() -> None:
    Story().tell(question_of(operation="post_entry"), at=80, run=f"{MARK}-0").store()
    open_escalations("dev", NOW)
    page = signed_in().get(f"/escalations/{Escalation.objects.get().pk}").content.decode()
    assert f'href="{CAUSE}">Propose a rule for it' in page


@pytest.mark.usefixtures("known")
def test_what_arrives_goes_by_the_rules_of_what_is_released() -> None:
    rule = {"name": "busy", "match": {"message": "*busy"}, "category": "overloaded"}
    actions.propose_rule(**asked(fingerprint=MARK, rule=rule))
    assert rules_of("dev")() == ()
    actions.release_proposal(**asked(number=1))
    assert [one.name for one in rules_of("dev")()] == ["busy"]
    actions.roll_back(**asked(version=0, key="back"))
    assert rules_of("dev")() == ()


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"name": ""}, "Give the rule a name."),
        ({"category": ""}, "Choose what it is."),
        ({"category": "gremlins"}, "Choose one of these."),
        ({"message": "*"}, "This is nothing but *: leave it out."),
        ({"message": ""}, "says nothing, and would match everything"),
        ({"reason": "short"}, "Say a little more"),
    ],
)
def test_what_is_no_rule_is_told_beside_its_field_and_stays(changed: dict[str, str], says: str) -> None:
    answer = signed_in().post(CAUSE, typed(**changed))
    assert answer.status_code == 422
    assert says in text_of(answer)
    assert not PolicyProposal.objects.exists()


@pytest.mark.usefixtures("now")
def test_a_cause_that_nothing_can_be_guessed_of_is_dismissed_with_a_reason_too() -> None:
    met("plugh", message="xyzzy {}", exception_type="acme.Plugh")
    assert signed_in().post(f"{LIST}/plugh", {"act": "dismiss", "reason": ""}).status_code == 422
    assert signed_in().post(f"{LIST}/plugh", {"act": "dismiss", "reason": REASON}).headers["Location"] == LIST


@pytest.mark.usefixtures("known")
def test_a_cause_is_dismissed_with_a_reason_and_waits_again() -> None:
    client = signed_in()
    assert client.post(CAUSE, {"act": "dismiss", "reason": "short"}).status_code == 422
    assert client.post(CAUSE, {"act": "dismiss", "reason": REASON}).headers["Location"] == LIST
    listed = text_of(client.get(LIST))
    assert "Nothing waits" in listed
    assert f"{REASON} (ana," in listed
    assert client.post(CAUSE, {"act": "reopen", "reason": REASON}).headers["Location"] == LIST
    assert "1 cause without a name" in text_of(client.get(LIST))
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
    assert "Dismissed, and not seen for 7 days" in text_of(client.get(LIST))
    assert client.post(f"{LIST}/old", {"act": "reopen", "reason": REASON}).status_code == 303
    assert UnknownCause.objects.get().state == "open"


@pytest.mark.usefixtures("known")
def test_who_may_only_look_is_offered_nothing() -> None:
    viewer = signed_in(Role.VIEWER, "vera")
    assert viewer.get(LIST).status_code == 200
    assert "Propose the rule" not in text_of(viewer.get(CAUSE))
    for sent in (typed(), typed(act="preview"), {"act": "dismiss", "reason": REASON}):
        assert viewer.post(CAUSE, sent).status_code == 403
    assert signed_in().get(f"{LIST}/nobody").status_code == 404
    assert signed_in().post(f"{LIST}/nobody", {"act": "dismiss", "reason": REASON}).status_code == 404


@pytest.mark.usefixtures("now")
@pytest.mark.usefixtures("now")
def test_empty_is_said_in_its_own_words() -> None:
    Story().tell(heartbeat(), at=60).tell(heartbeat(), at=0).store()
    assert "Every failure has a name" in text_of(signed_in().get(LIST))


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
        assert len(asked_of) <= 12


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
