"""The pages of policies: editing one document as form or JSON, its life as buttons, and the way back."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from recovery_ops.control import actions
from recovery_ops.control.actions import is_review_needed
from recovery_ops.control.models import PolicyProposal, PolicyRelease, Replay
from recovery_ops.control.roles import Role
from recovery_ops.rules.policy import BUILT_IN, document_of
from tests.support.actions import asked, person
from tests.support.pages import HOSTILE, REASON, signed_in, text_of, troubled_fleet
from tests.support.policy_pages import NEW, typed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def document(retries: int = 5) -> dict[str, Any]:
    rule = {"id": "search_web", "scope": {"operation": "search_web"}, "knobs": {"max_retries": retries}}
    return {**document_of(BUILT_IN), "rules": [rule]}


def drafted(client: Client, text: str | None = None, **changed: str) -> PolicyProposal:
    sent = {"mode": "json", "text": text or json.dumps(document()), "title": "more patience", "reason": REASON}
    answer = client.post(NEW, sent | changed)
    assert answer.status_code == 303, text_of(answer)
    return PolicyProposal.objects.latest("number")


def move(client: Client, proposal: PolicyProposal, word: str, **more: str) -> Any:
    return client.post(f"/policies/proposals/{proposal.number}", {"move": word, "reason": REASON} | more)


# -- the editor --------------------------------------------------------------------------------------------------------
def test_the_form_sent_back_untouched_is_the_same_document() -> None:
    client = signed_in(Role.EDITOR)
    page = client.get(NEW)
    client.post(NEW, typed(page) | {"act": "save", "title": "as it is", "reason": REASON})
    assert PolicyProposal.objects.get().document == document_of(BUILT_IN)


def test_it_is_saved_and_replayed_in_one_step_and_once() -> None:
    client = signed_in(Role.EDITOR)
    fields = typed(client.get(NEW)) | {"act": "replay", "title": "as it is", "reason": REASON}
    assert [client.post(NEW, fields).headers["Location"] for _ in range(2)] == ["/policies/replays/1"] * 2
    assert (PolicyProposal.objects.get().title, Replay.objects.count()) == ("as it is", 1)
    page = client.post(NEW, fields | {"reason": "short"})
    assert (page.status_code, 'data-draft="unsaved"' in page.content.decode()) == (422, True)


def test_looking_at_it_in_the_other_view_leaves_nothing_unsaved() -> None:
    client = signed_in(Role.EDITOR)
    page = client.post(NEW, typed(client.get(NEW)) | {"act": "json"})
    assert "data-draft>" in page.content.decode()
    page = client.post(NEW, typed(page) | {"act": "form", "text": "{"})
    assert 'data-draft="unsaved"' in page.content.decode()


def test_a_rule_is_added_filled_in_and_saved_without_a_script() -> None:
    client = signed_in(Role.EDITOR)
    page = client.post(NEW, typed(client.get(NEW)) | {"act": "rules.add"})
    fields = typed(page) | {
        "rules.0.id": "search",
        "rules.0.scope.operation": "search_web",
        "rules.0.add_knob": "max_retries",
        "rules.0.add_value": "5",
        "rules.0.fallbacks": "mirror\ncache",
        "act": "save",
        "title": "more patience",
        "reason": REASON,
    }
    assert client.post(NEW, fields).status_code == 303
    assert PolicyProposal.objects.get().document["rules"] == [
        {
            "id": "search",
            "scope": {"operation": "search_web"},
            "knobs": {"max_retries": 5},
            "fallbacks": ["mirror", "cache"],
        }
    ]


def test_a_classification_rule_is_added_filled_in_and_asked_about() -> None:
    client = signed_in()
    page = client.post(NEW, typed(client.get(NEW)) | {"act": "classification.add"})
    filled = typed(page) | {
        "classification.0.name": "ledger busy",
        "classification.0.match.message": "*a*",
        "classification.0.match.status_codes": "500, 503",
        "classification.0.category": "overloaded",
        "classification.0.overrides": "server_error",
    }
    assert "fits what nobody thought of" in text_of(client.post(NEW, filled | {"act": "check"}))
    wrong = client.post(NEW, filled | {"classification.0.match.status_codes": "302", "act": "check"})
    assert "Status codes is a list of HTTP statuses from 400 to 599." in text_of(wrong)
    client.post(NEW, filled | {"act": "save", "title": "a name for it", "reason": REASON})
    assert PolicyProposal.objects.latest("number").document["classification"] == [
        {
            "name": "ledger busy",
            "match": {"message": "*a*", "status_codes": [500, 503]},
            "category": "overloaded",
            "overrides": ["server_error"],
        }
    ]


def test_form_and_json_are_views_of_one_document() -> None:
    client = signed_in(Role.EDITOR)
    fields = typed(client.get(NEW)) | {"guards.turns": "7", "defaults.model.jitter": "0.5", "act": "json"}
    as_json = client.post(NEW, fields)
    shown = json.loads(typed(as_json)["text"])
    assert (shown["guards"]["turns"], shown["defaults"]["model"]["jitter"]) == (7, 0.5)
    shown["guards"]["turns"] = 9
    as_form = client.post(NEW, typed(as_json) | {"text": json.dumps(shown), "act": "form"})
    assert typed(as_form)["guards.turns"] == "9"
    assert typed(as_form)["defaults.model.jitter"] == "0.5"
    assert not PolicyProposal.objects.exists()


@pytest.mark.parametrize("act", ["check", "json"])
def test_what_changes_and_the_document_stand_beside_what_is_typed(act: str) -> None:
    client = signed_in(Role.EDITOR)
    page = client.get(NEW)
    assert "it says what the live one says" in text_of(page)
    assert json.loads(unescape(re.findall(r"<pre.*?>(.*?)</pre>", page.content.decode(), re.S)[0])) == document_of(
        BUILT_IN
    )
    fields = typed(page) | {"guards.turns": "7", "defaults.model.jitter": "0.5"}
    page = client.post(NEW, fields | {"act": act})
    said = text_of(page)
    assert "guards.turns 20 → 7" in said
    assert "defaults.model.jitter" in said
    sections = re.findall(r'href="#(\w+)-title" data-place>[^<]*</a><span class="tag">changed', page.content.decode())
    assert sections == (["defaults", "guards"] if act == "check" else [])
    page = client.post(NEW, fields | {"guards.turns": "-7", "act": "check"})
    assert "Told when nothing is at fault" in text_of(page)
    assert re.findall(r'href="#(\w+)-title" data-place>[^<]*</a><span[^>]*>at fault', page.content.decode()) == [
        "guards"
    ]


def test_a_fault_leads_to_its_place_in_either_view() -> None:
    client = signed_in(Role.EDITOR)
    fields = typed(client.get(NEW)) | {"guards.turns": "-7", "act": "check"}
    assert '<a href="#guards.turns" data-place><code>guards.turns</code>' in client.post(NEW, fields).content.decode()
    fields = typed(client.post(NEW, fields | {"guards.turns": "7", "act": "json"}))
    text = fields["text"].replace('"turns": 7', '"turns": -7')
    sent = client.post(NEW, fields | {"text": text.replace("\n", "\r\n"), "act": "check"}).content.decode()
    [place] = set(re.findall(r'data-place="(\d+ \d+)"', sent))
    # A browser sends ends of lines as two characters, and counts them as one.
    assert text[slice(*map(int, place.split()))] == '"turns": -7'


def test_a_quorum_is_added_filled_in_and_taken_away() -> None:
    client = signed_in(Role.EDITOR)
    page = client.post(NEW, typed(client.get(NEW)) | {"act": "quorum.add"})
    filled = typed(page) | {"quorum.0.operation": "model:*", "quorum.0.minimum_count": "2", "act": "check"}
    checked = client.post(NEW, filled)
    assert "one bad host is no outage" in text_of(checked)
    gone = client.post(NEW, typed(checked) | {"act": "quorum.0.remove"})
    assert "quorum.0.operation" not in typed(gone)
    client.post(NEW, typed(checked) | {"act": "save", "title": "all for one", "reason": REASON})
    assert PolicyProposal.objects.get().document["quorum"] == [
        {"operation": "model:*", "share": 0.5, "minimum_count": 2, "hold_s": 30, "expires_s": 300}
    ]


def test_lists_and_models_are_typed_and_a_fault_stands_at_its_list() -> None:
    client = signed_in(Role.EDITOR)
    page = client.post(NEW, typed(client.get(NEW)) | {"act": "rules.add"})
    said = {
        "rules.0.scope.operation": "model:*",
        "rules.0.models": "small\ntiny",
        "failures.open_breakers": "network\ngremlins",
        "failures.close_gates": "429\n5xx",
        "guards.input_share": "0.5",
    }
    checked = client.post(NEW, typed(page) | said | {"act": "check"})
    assert "1: is a category of the rules" in text_of(checked)
    right = typed(checked) | {"failures.open_breakers": "network\nauth"}
    client.post(NEW, right | {"act": "save", "title": "the models", "reason": REASON})
    document = PolicyProposal.objects.get().document
    assert document["failures"] == {"open_breakers": ["network", "auth"], "close_gates": [429, "5xx"]}
    assert (document["rules"][0]["models"], document["guards"]["input_share"]) == (["small", "tiny"], 0.5)
    path = f"/policies/proposals/{PolicyProposal.objects.get().number}/edit"
    shown = typed(client.get(path))
    assert (shown["failures.close_gates"], shown["failures.heed_retry_header"]) == ("429\n5xx", "")


def test_a_list_that_is_empty_on_purpose_stays_so_in_the_form() -> None:
    client = signed_in(Role.EDITOR)
    made = drafted(client, json.dumps({**document_of(BUILT_IN), "failures": {"close_gates": []}}))
    path = f"/policies/proposals/{made.number}/edit"
    client.post(path, typed(client.get(path)) | {"act": "save", "title": "again", "reason": REASON})
    assert PolicyProposal.objects.get().document["failures"] == {"close_gates": []}


def test_rules_change_places_and_go() -> None:
    client = signed_in(Role.EDITOR)
    rules = [{"id": name, "scope": {"operation": name}, "knobs": {"jitter": 0.5}} for name in ("a", "b", "c")]
    made = drafted(client, json.dumps({**document_of(BUILT_IN), "rules": rules}))
    path = f"/policies/proposals/{made.number}/edit"
    page = client.post(path, typed(client.get(path)) | {"act": "rules.2.up"})
    page = client.post(path, typed(page) | {"act": "rules.0.remove"})
    client.post(path, typed(page) | {"act": "save", "reason": REASON})
    assert [rule["id"] for rule in PolicyProposal.objects.get().document["rules"]] == ["c", "b"]


def test_a_fault_stands_beside_its_field_and_what_was_typed_stays() -> None:
    client = signed_in(Role.EDITOR)
    sent = {"mode": "json", "text": json.dumps(document(99)), "title": "t", "reason": REASON, "act": "form"}
    page = client.post(NEW, sent)
    html = page.content.decode()
    assert re.search(r'name="rules.0.knobs.max_retries"[^>]*value="99"[^>]*aria-invalid="true"', html)
    assert "Max retries is from 0 to 20." in text_of(page)
    again = client.post(NEW, typed(page) | {"act": "save", "title": "t", "reason": REASON})
    assert again.status_code == 400
    assert "rules[0].knobs.max_retries is from 0 to 20" in text_of(again)
    assert not PolicyProposal.objects.exists()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "is not JSON: Expecting property name enclosed in double quotes in line 1, column 2"),
        ("[]", "is a JSON object"),
        ('{"rules": 1}', "is a list"),
        ('{"a": NaN}', "is a finite number"),
        ('{"guards": {"turns": 9' + "9" * 5000 + "}}", "has a whole number of 5,001 digits; 300 are the most"),
        ('{"guards": {}, "guards": {"turns": 7}}', "says guards twice in one object: one of them would be lost"),
    ],
)
def test_a_text_that_is_no_policy_is_told_where(text: str, fault: str) -> None:
    page = signed_in(Role.EDITOR).post(NEW, {"mode": "json", "text": text, "title": "t", "reason": REASON})
    assert page.status_code in (400, 422)
    assert fault in text_of(page)
    assert text in unescape(page.content.decode())


@pytest.mark.parametrize("act", ["json", "check", "rules.add", "save"])
def test_a_section_that_is_no_json_stays_as_it_was_typed_beside_every_other_fault(act: str) -> None:
    client = signed_in(Role.EDITOR)
    fields = typed(client.get(NEW)) | {"section.tools": '[{"tool": "pay"', "guards.turns": "abc", "act": act}
    page = client.post(NEW, fields | {"title": "t", "reason": REASON})
    assert typed(page)["section.tools"] == '[{"tool": "pay"'
    assert typed(page)["guards.turns"] == "abc"
    said = text_of(page)
    assert "Tools is not JSON" in said
    assert "2 faults" in said
    assert re.search(r'name="guards.turns"[^>]*aria-invalid="true"', page.content.decode())
    assert not PolicyProposal.objects.exists()


def test_the_editor_asks_about_what_is_rarely_meant() -> None:
    sent = {"mode": "json", "text": json.dumps(document(9)), "title": "t", "reason": REASON, "act": "check"}
    assert "may become 10 attempts when all fail" in text_of(signed_in(Role.EDITOR).post(NEW, sent))


def test_a_title_and_a_reason_are_needed() -> None:
    client = signed_in(Role.EDITOR)
    page = client.post(NEW, {"mode": "json", "text": json.dumps(document()), "title": "", "reason": REASON})
    assert "The title says in a few words what changes." in text_of(page)
    page = client.post(NEW, {"mode": "json", "text": json.dumps(document()), "title": "t", "reason": ""})
    assert page.status_code == 422
    assert "Say why" in text_of(page)


def test_what_comes_from_outside_is_text() -> None:
    client = signed_in(Role.EDITOR)
    hostile = {**document(), "note": HOSTILE, "rules": [{"id": HOSTILE, "scope": {"operation": HOSTILE}, "knobs": {}}]}
    made = drafted(client, json.dumps(hostile))
    for path in (f"/policies/proposals/{made.number}", f"/policies/proposals/{made.number}/edit"):
        assert "<img src=x" not in client.get(path).content.decode()


# -- its life ----------------------------------------------------------------------------------------------------------
def test_from_draft_to_live_by_buttons() -> None:
    actions.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    eva, tom = signed_in(Role.EDITOR, "eva"), signed_in(Role.APPROVER, "tom")
    made = drafted(eva)
    assert move(eva, made, "submit").status_code == 303
    page = eva.get(f"/policies/proposals/{made.number}")
    assert 'value="approve"' not in page.content.decode()
    said = text_of(tom.get(f"/policies/proposals/{made.number}"))
    assert "It changes 2 values of the built-in policy." in said
    assert "rules.search_web.knobs.max_retries not set → 5" in said
    move(tom, made, "approve")
    answer = move(eva, made, "release")
    assert answer.headers["Location"] == f"/policies/proposals/{made.number}"
    release = PolicyRelease.objects.get()
    assert (release.proposal, release.is_break_glass) == (made, False)
    assert "eva draft" in text_of(eva.get(f"/policies/proposals/{made.number}"))


def test_who_had_a_hand_in_it_is_told_why_they_cannot_approve() -> None:
    actions.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    tom = signed_in(Role.APPROVER, "tom")
    made = drafted(tom)
    move(tom, made, "submit")
    assert "You had a hand in it; somebody else has to approve it." in text_of(
        tom.get(f"/policies/proposals/{made.number}")
    )
    answer = move(tom, made, "approve")
    assert (answer.status_code, PolicyProposal.objects.get().state) == (403, "in_review")


def test_a_stale_page_is_told_what_happened_and_keeps_the_text() -> None:
    eva = signed_in(Role.EDITOR, "eva")
    made = drafted(eva)
    move(eva, made, "submit")
    answer = move(eva, made, "reject", seen="1", reason="we do not need this any more")
    assert answer.status_code == 409
    assert "is at step 2, not 1" in text_of(answer)
    assert "we do not need this any more" in answer.content.decode()


def test_it_is_scheduled_for_a_moment_in_utc() -> None:
    eva = signed_in(Role.EDITOR, "eva")
    made = drafted(eva)
    assert "Choose when it is to go live." in text_of(move(eva, made, "schedule"))
    assert "has to be a moment to come" in text_of(move(eva, made, "schedule", go_live_at="2026-11-20T04:00"))
    move(eva, made, "schedule", go_live_at="2026-11-22T04:00")
    made.refresh_from_db()
    assert (made.state, str(made.go_live_at)) == ("scheduled", "2026-11-22 04:00:00+00:00")


def test_it_is_scheduled_on_the_clock_that_its_label_names() -> None:
    eva = signed_in(Role.EDITOR, "eva")
    eva.cookies[f"{settings.COOKIE_PREFIX}zone"] = "Asia/Tokyo"
    made = drafted(eva)
    page = text_of(move(eva, made, "schedule", go_live_at="soon"))
    assert "Goes live at JST, to schedule it" in page
    assert "Write a moment in JST, as 2026-01-31T22:00." in page
    move(eva, made, "schedule", go_live_at="2026-11-22T04:00")
    made.refresh_from_db()
    assert str(made.go_live_at) == "2026-11-21 19:00:00+00:00"


def test_it_is_scheduled_for_some_first() -> None:
    eva = signed_in(Role.EDITOR, "eva")
    made = drafted(eva)
    moment = {"go_live_at": "2026-11-22T04:00", "first_minutes": "20"}
    assert "less than or equal to 100" in text_of(move(eva, made, "schedule", **moment, first_percent="101"))
    move(eva, made, "schedule", **moment, first_percent="25")
    made.refresh_from_db()
    assert made.cohort is not None
    assert (made.cohort["share"], made.cohort["for_s"]) == (0.25, 1200)
    assert "to 25 % of the instances for 20m 00s first" in text_of(eva.get(f"/policies/proposals/{made.number}"))


def test_broken_glass_is_a_box_to_tick_and_a_list_to_empty() -> None:
    actions.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    eva, tom = signed_in(Role.EDITOR, "eva"), signed_in(Role.APPROVER, "tom")
    made = drafted(eva)
    assert "Send it to review" in text_of(move(eva, made, "release"))
    move(eva, made, "release", break_glass="yes")
    assert "Went live without approval" in text_of(tom.get("/policies"))
    answer = tom.post("/policies/releases/1", {"act": "review", "reason": REASON})
    assert answer.status_code == 303
    assert "Went live without approval" not in text_of(tom.get("/policies"))


def test_the_quick_form_proposes_where_review_is_asked_for() -> None:
    troubled_fleet()
    actions.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    ana = signed_in(Role.OPERATOR)
    said = text_of(ana.get("/policies/operations/search_web"))
    assert "Save as a proposal" in said
    assert "without approval" not in said
    answer = ana.post("/policies/operations/search_web", {"reason": REASON, "service": "*", "max_retries": "5"})
    made = PolicyProposal.objects.get()
    assert answer.headers["Location"] == f"/policies/proposals/{made.number}"
    assert (made.title, made.state) == ("search_web: max_retries not set → 5", "in_review")
    assert not PolicyRelease.objects.exists()


def test_the_quick_form_breaks_glass_for_an_editor() -> None:
    troubled_fleet()
    actions.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    form = {"reason": REASON, "service": "*", "max_retries": "5", "break_glass": "yes"}
    assert signed_in(Role.EDITOR).post("/policies/operations/search_web", form).status_code == 303
    assert PolicyRelease.objects.get().is_break_glass


# -- releases ----------------------------------------------------------------------------------------------------------
def test_the_releases_say_what_became_of_each_and_one_is_returned_to() -> None:
    troubled_fleet()
    eva = signed_in(Role.EDITOR, "eva")
    for retries in (5, 6):
        move(eva, drafted(eva, json.dumps(document(retries)), key=f"k{retries}"), "release")
    page = eva.get("/policies/releases/1")
    assert "Roll back to policy 1" in text_of(page)
    answer = eva.post("/policies/releases/1", {"act": "roll-back", "reason": REASON, "seen": "2"}, follow=True)
    assert "Policy 3 is live: revision 3. It says what policy 1 said." in text_of(answer)
    said = text_of(eva.get("/policies/releases"))
    assert "Policy 3 live" in said
    assert "Policy 2 rolled back" in said
    assert "Policy 1 superseded" in said


def test_the_built_in_policy_is_a_page_and_a_place_to_return_to() -> None:
    eva = signed_in(Role.EDITOR, "eva")
    move(eva, drafted(eva), "release")
    assert "The built-in policy" in text_of(eva.get("/policies/releases/0"))
    eva.post("/policies/releases/0", {"act": "roll-back", "reason": REASON})
    assert PolicyRelease.objects.latest("version").returns_to == 0


def test_an_admin_asks_for_review_and_others_are_not_offered_to() -> None:
    admin = signed_in(Role.ADMIN, "root")
    assert "Ask for approval" in text_of(admin.get("/policies/releases"))
    assert "Ask for approval" not in text_of(signed_in(Role.APPROVER, "tom").get("/policies/releases"))
    admin.post("/policies/rules", {"is_review_needed": "yes", "reason": REASON})
    assert is_review_needed("dev")
    assert signed_in(Role.APPROVER, "tom").post("/policies/rules", {"reason": REASON}).status_code == 403
    assert is_review_needed("dev")


# -- who sees what -----------------------------------------------------------------------------------------------------
def test_a_viewer_looks_and_is_offered_nothing() -> None:
    made = drafted(signed_in(Role.EDITOR, "eva"))
    viewer = signed_in(Role.VIEWER, "vera")
    for path in (f"/policies/proposals/{made.number}", "/policies/releases", "/policies/releases/0", "/policies"):
        page = viewer.get(path)
        assert page.status_code == 200
        assert 'method="post" action="/policies' not in page.content.decode()
    for path in (NEW, f"/policies/proposals/{made.number}/edit"):
        assert viewer.get(path).status_code == 403
    assert move(viewer, made, "reject").status_code == 403
    assert viewer.post("/policies/releases/0", {"act": "roll-back", "reason": REASON}).status_code == 403


@pytest.mark.parametrize("path", ["/policies/proposals/9", "/policies/proposals/9/edit", "/policies/releases/9"])
def test_what_is_not_there_is_not_found(path: str) -> None:
    assert signed_in(Role.EDITOR).get(path).status_code == 404


def test_nothing_of_another_environment_is_shown() -> None:
    made = drafted(signed_in(Role.EDITOR, "eva"))
    stranger = signed_in(Role.ADMIN, "sam", environment="prod")
    assert stranger.get(f"/policies/proposals/{made.number}?environment=prod").status_code in (403, 404)


def test_the_pages_hold_nothing_inline() -> None:
    client = signed_in(Role.EDITOR)
    made = drafted(client)
    for path in (NEW, f"/policies/proposals/{made.number}", "/policies/releases", "/policies/releases/0"):
        page = client.get(path).content.decode()
        assert not re.search(r"<script(?![^>]* src=)", page)
        assert not re.search(r'\s(?:style|on[a-z]+)="', page)
