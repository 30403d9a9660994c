"""Masking rules at the console: seen, tried on a text, released or proposed; by page, API and command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from events.ingest.masking import cleaner_of, forget_masking
from events.keys import create_key
from events.models import HiddenTexts
from recovery_ops.control.core import rejections
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.desired_state.document import read
from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.services import releases
from recovery_ops.control.policies.services.masking import propose_masking, set_masking
from recovery_ops.rules.classification.redaction import MASK
from recovery_ops.rules.enums import Category
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.html import Shown
from tests.support.pages import REASON, signed_in, text_of, troubled_fleet
from tests.support.stories import Story, failed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

CUSTOMER = {"name": "customer", "pattern": r"CUST-\d{10}", "replacement": "[customer]"}
SECRET = "CUST-0123456789"
ADDRESS = "/settings/data/masking"
API = "/api/v1/policies/masking"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    forget_masking()
    yield
    forget_masking()


def form(act: str, *rules: dict[str, str], **rest: str) -> dict[str, str]:
    typed = {f"rule.{index}.{part}": value for index, rule in enumerate(rules) for part, value in rule.items()}
    return {"act": act, "reason": REASON, "attributes": "", **typed, **rest}


def stored_rules() -> list[str]:
    return [one["name"] for row in HiddenTexts.objects.filter(environment="dev") for one in row.section["rules"]]


class TestReleasing:
    def test_rules_go_to_agents_and_to_intake(self) -> None:
        done = set_masking(**asked(rules=[CUSTOMER], attributes=["customer.email"]))
        assert [change.split()[0] for change in done.object.summary.split(", ")] == ["customer", "customer.email"]
        forget_masking()
        assert cleaner_of("dev").text(f"of {SECRET}") == "of [customer]"
        assert cleaner_of("prod").text(SECRET) == SECRET
        assert read("dev").policy.document["masking"] == {"rules": [CUSTOMER], "attributes": ["customer.email"]}
        entry = AuditEntry.objects.get(verb="masking.set")
        assert entry.after["rules"] == [CUSTOMER]
        assert entry.before["rules"] == []

    def test_the_same_again_releases_nothing(self) -> None:
        set_masking(**asked(rules=[CUSTOMER], attributes=[]))
        again = set_masking(**asked(rules=[CUSTOMER], attributes=[]))
        assert again.was_already
        assert PolicyRelease.objects.count() == 1

    def test_rule_without_replacement_is_released_whole(self) -> None:
        short = {name: CUSTOMER[name] for name in ("name", "pattern")}
        set_masking(**asked(rules=[short], attributes=[]))
        whole = {**short, "replacement": MASK}
        assert read("dev").policy.document["masking"]["rules"] == [whole]
        for same in (short, whole):
            assert set_masking(**asked(rules=[same], attributes=[])).was_already

    def test_a_dry_run_changes_nothing(self) -> None:
        done = set_masking(**asked(rules=[CUSTOMER], attributes=[], dry_run=True))
        assert done.is_dry_run
        assert not PolicyRelease.objects.exists()
        assert stored_rules() == []

    def test_a_roll_back_brings_back_what_was_hidden_then(self) -> None:
        first = set_masking(**asked(rules=[CUSTOMER], attributes=[])).object
        set_masking(**asked(rules=[], attributes=[]))
        assert stored_rules() == []
        releases.roll_back(**asked(version=first.version))
        assert stored_rules() == ["customer"]

    @pytest.mark.parametrize(
        ("rules", "attributes", "path"),
        [
            ([{**CUSTOMER, "pattern": "(a+)+$"}], [], "rules[0].pattern"),
            ([CUSTOMER, CUSTOMER], [], "rules[1].name"),
            ([], ["session.id"], "attributes[0]"),
            (["x"], [], "rules[0]"),
        ],
    )
    def test_what_no_policy_may_say_is_refused(self, rules: Any, attributes: list[str], path: str) -> None:
        for act in (set_masking, propose_masking):
            with pytest.raises(rejections.CommandRejected) as refused:
                act(**asked(rules=rules, attributes=attributes))
            assert path in refused.value.fields
        assert not PolicyRelease.objects.exists()
        assert not PolicyProposal.objects.exists()

    def test_where_review_is_asked_for_it_is_proposed(self) -> None:
        EnvironmentRules.objects.update_or_create(environment="dev", defaults={"is_review_needed": True})
        with pytest.raises(rejections.CommandRejected) as refused:
            set_masking(**asked(rules=[CUSTOMER], attributes=[]))
        assert refused.value.code == "review_needed"
        proposal = propose_masking(**asked(rules=[CUSTOMER], attributes=[])).object
        assert proposal.document["masking"]["rules"] == [CUSTOMER]
        assert proposal.title == "Masking: customer added"
        assert stored_rules() == []

    def test_a_viewer_may_not(self) -> None:
        with pytest.raises(rejections.CommandRejected) as refused:
            set_masking(**asked(rules=[CUSTOMER], attributes=[], by=person(Role.VIEWER, "vic")))
        assert refused.value.status == 403
        assert signed_in(Role.VIEWER, "vic").post(ADDRESS, form("set", CUSTOMER)).status_code == 403
        assert AuditEntry.objects.filter(verb="masking.set").count() == 1, "the refusal is written down"
        assert stored_rules() == []


class TestPage:
    def test_a_text_is_tried_before_anything_holds(self) -> None:
        sample = f"{SECRET} sent password=hunter2hunter2"
        answer = signed_in(Role.VIEWER).post(ADDRESS, form("check", CUSTOMER, sample=sample))
        assert answer.status_code == 200
        assert list(answer.context["tested"].hidden) == [("customer", 1), ("built-in", 1)]
        marks = [one for one in Shown(answer).root.all() if one.tag == "mark"]
        assert [(one.attributes["title"], one.texts[0]) for one in marks] == [
            ("customer", "[customer]"),
            ("built-in", MASK),
        ]
        assert not PolicyRelease.objects.exists()
        assert not AuditEntry.objects.exists()

    def test_a_pattern_that_may_take_for_ever_is_told_at_its_field(self) -> None:
        answer = signed_in().post(ADDRESS, form("check", {**CUSTOMER, "pattern": "(a+)+b"}, sample="aaaa"))
        assert "rule.0.pattern-error" in Shown(answer).ids
        assert b'aria-describedby="rule.0.pattern-error"' in answer.content
        refused = signed_in().post(ADDRESS, form("set", {**CUSTOMER, "pattern": "(a+)+b"}))
        assert refused.status_code == 422
        assert not PolicyRelease.objects.exists()

    def test_a_recent_failure_is_tried(self) -> None:
        Story().tell(failed(Category.TIMEOUT, message=f"no answer for {SECRET}"), at=30, instance="r-0").store()
        client = signed_in()
        page = client.get(ADDRESS)
        [fact] = [one.fact_id for one in page.context["texts"]]
        answer = client.post(ADDRESS, form("check", CUSTOMER, fact=str(fact), sample="something else"))
        assert "no answer for [customer]" in text_of(answer)

    def test_rules_are_released_from_the_page_and_removed(self) -> None:
        client = signed_in()
        answer = client.post(
            ADDRESS, form("set", CUSTOMER, attributes="customer.email\n\n customer.phone "), follow=True
        )
        notice = Shown(answer).within("id", "toasts").root.text
        assert all(word in notice for word in ("Policy 1", "customer", "customer.email"))
        assert PolicyRelease.objects.get().version == 1
        assert stored_rules() == ["customer"]
        shown = client.get(ADDRESS).content.decode()
        assert 'value="CUST-\\d{10}"' in shown
        assert "customer.email\ncustomer.phone" in shown
        client.post(ADDRESS, form("set", {"name": "", "pattern": "", "replacement": "x"}))
        assert stored_rules() == []

    def test_a_page_that_is_stale_changes_nothing(self) -> None:
        client = signed_in()
        seen = str(client.get(ADDRESS).context["seen"])
        set_masking(**asked(rules=[CUSTOMER], attributes=[]))
        answer = client.post(ADDRESS, form("set", {**CUSTOMER, "name": "other"}, seen=seen))
        assert answer.status_code == 409
        assert stored_rules() == ["customer"]

    @pytest.mark.parametrize("seen", ["１", "one", "9" * 25])
    def test_unreadable_version_changes_nothing(self, seen: str) -> None:
        client = signed_in()
        set_masking(**asked(rules=[CUSTOMER], attributes=[]))
        answer = client.post(ADDRESS, form("set", {**CUSTOMER, "name": "other"}, seen=seen))
        assert answer.status_code in (409, 422)
        assert stored_rules() == ["customer"]

    def test_a_proposal_is_drafted(self) -> None:
        answer = signed_in().post(ADDRESS, form("propose", CUSTOMER))
        assert answer.status_code == 303
        assert PolicyProposal.objects.get().document["masking"]["rules"] == [CUSTOMER]

    def test_what_is_typed_is_shown_and_never_run(self) -> None:
        hostile = "<img src=x onerror=alert(1)>"
        rule = {"name": hostile, "pattern": "<img", "replacement": "</pre><script>"}
        answer = signed_in().post(ADDRESS, form("check", rule, sample=hostile * 2, attributes=hostile))
        assert b"<img" not in answer.content
        assert b"</pre><script>" not in answer.content


def client_of(*scopes: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {create_key('k', list(scopes), 'dev')[1]}"})


class TestApi:
    def test_it_is_read_tried_and_replaced(self) -> None:
        client = client_of("read", "act")
        assert client.get(API).json()["masking"] == {"rules": [], "attributes": []}
        body = {"rules": [CUSTOMER], "sample": f"of {SECRET}"}
        tried = client.post(f"{API}/check", body, "application/json").json()
        assert tried["text"] == "of [customer]"
        assert tried["hidden"] == [{"rule": "customer", "times": 1}]
        put = {"rules": [CUSTOMER], "attributes": [], "reason": REASON}
        dry = client.put(API, {**put, "dry_run": True}, "application/json")
        assert (dry.status_code, dry.json()["dry_run"], stored_rules()) == (200, True, [])
        assert client.put(API, put, "application/json").json()["policy"]["summary"] == "customer added"
        assert client.get(API).json()["masking"]["rules"] == [CUSTOMER]
        live = client.post(f"{API}/check", {"sample": SECRET}, "application/json").json()
        assert live["text"] == "[customer]"

    def test_faults_have_their_path(self) -> None:
        client = client_of("read", "act")
        rules = [{**CUSTOMER, "pattern": "(a|a)*b"}]
        for answer in (
            client.put(API, {"rules": rules, "attributes": [], "reason": REASON}, "application/json"),
            client.post(f"{API}/check", {"rules": rules, "sample": "x"}, "application/json"),
        ):
            assert answer.status_code == 400
            assert "rules[0].pattern" in answer.json()["fields"]
        assert client.post(f"{API}/check", {"sample": "x" * 4097}, "application/json").status_code == 400

    def test_a_key_that_reads_does_not_replace(self) -> None:
        put = {"rules": [CUSTOMER], "attributes": [], "reason": REASON}
        assert client_of("read").put(API, put, "application/json").status_code == 403
        assert stored_rules() == []

    def test_a_proposal_is_drafted(self) -> None:
        put = {"rules": [CUSTOMER], "attributes": [], "reason": REASON, "propose": True}
        found = client_of("read", "act").put(API, put, "application/json").json()
        assert found["proposal"]["title"] == "Masking: customer added"


def test_rules_hide_what_the_whole_console_shows_from_then_on() -> None:
    set_masking(**asked(rules=[CUSTOMER], attributes=[]))
    forget_masking()
    troubled_fleet(name=SECRET)
    client = signed_in(Role.ADMIN)
    for address in ("/", "/breakers", "/failures", "/runs", "/failures?format=csv", "/timelines"):
        answer = client.get(address)
        content = b"".join(answer.streaming_content) if answer.streaming else answer.content  # type: ignore[attr-defined]
        assert SECRET.encode() not in content, address
    assert "[customer]" in text_of(client.get("/breakers"))
