"""The pages of policies: editing one document as form or JSON, its life as buttons, and the way back."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from recovery_ops.control.policies.models.policies import PolicyProposal, PolicyRelease
from recovery_ops.control.policies.services import review as review_services
from recovery_ops.control.replay.models.replays import Replay
from recovery_ops.rules.policy.model import BUILT_IN, document_of, parse_policy
from recovery_ops.rules.policy.spend_settings import NO_CAPS
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.form_faults import faults_of
from tests.support.html import Shown
from tests.support.pages import HOSTILE, REASON, signed_in, text_of, troubled_fleet
from tests.support.policy_pages import NEW, typed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


NO_MORE = "we do not need this any more"


def closed(page: Any) -> set[str]:
    """The moves that a proposal shows and does not let make."""
    buttons = (one.attributes for one in Shown(page).root.all() if one.tag == "button")
    return {one["value"] for one in buttons if one.get("name") == "move" and "disabled" in one}


def document(retries: int = 5) -> dict[str, Any]:
    rule = {"id": "search_web", "scope": {"operation": "search_web"}, "settings": {"max_retries": retries}}
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


def test_form_sets_spend_caps_and_clears_them() -> None:
    client = signed_in(Role.EDITOR)
    caps = {"spend_caps.day_cost_usd": "250", "spend_caps.action": "cheaper_model"}
    client.post(NEW, typed(client.get(NEW)) | caps | {"act": "save", "title": "caps", "reason": REASON})
    made = PolicyProposal.objects.get()
    assert made.document["spend_caps"] == {"day_cost_usd": 250, "action": "cheaper_model"}
    edit = f"/policies/proposals/{made.number}/edit"
    none = dict.fromkeys(caps, "")
    client.post(edit, typed(client.get(edit)) | none | {"act": "save", "title": "none", "reason": REASON})
    assert parse_policy(PolicyProposal.objects.latest("number").document).spend_caps == NO_CAPS


def test_it_is_saved_and_replayed_in_one_step_and_once() -> None:
    client = signed_in(Role.EDITOR)
    fields = typed(client.get(NEW)) | {"act": "replay", "title": "as it is", "reason": REASON}
    assert [client.post(NEW, fields).headers["Location"] for _ in range(2)] == ["/policies/replays/1"] * 2
    assert (PolicyProposal.objects.get().title, Replay.objects.count()) == ("as it is", 1)
    page = client.post(NEW, fields | {"reason": "x" * 501})
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
        "rules.0.add_setting": "max_retries",
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
            "settings": {"max_retries": 5},
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
    assert "too_wide" in Shown(client.post(NEW, filled | {"act": "check"})).values("finding")
    wrong = client.post(NEW, filled | {"classification.0.match.status_codes": "302", "act": "check"})
    assert Shown(wrong).values("fault") == ["classification[0].match.status_codes"]
    assert "classification.0.match.status_codes-error" in Shown(wrong).ids
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
    assert Shown(page).values("changes") == ["0"]
    assert json.loads(unescape(re.findall(r"<pre.*?>(.*?)</pre>", page.content.decode(), re.S)[0])) == document_of(
        BUILT_IN
    )
    fields = typed(page) | {"guards.turns": "7", "defaults.model.jitter": "0.5"}
    page = client.post(NEW, fields | {"act": act})
    assert Shown(page).values("change") == ["defaults.model.jitter", "guards.turns"]
    assert all(value in Shown(page).one("change", "guards.turns").text for value in ("20", "7"))
    sections = re.findall(r'href="#(\w+)-title" data-place>[^<]*</a><span class="tag">changed', page.content.decode())
    assert sections == (["defaults", "guards"] if act == "check" else [])
    page = client.post(NEW, fields | {"guards.turns": "-7", "act": "check"})
    assert Shown(page).values("changes") == ["unknown"]
    faulty = r'href="#(\w+)-title" data-place>[^<]*</a><span class="tag" data-kind="problem"'
    assert re.findall(faulty, page.content.decode()) == ["guards"]


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
    assert Shown(checked).values("finding") == ["small_quorum"]
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
        "guards.repeat_action": "ask",
    }
    checked = client.post(NEW, typed(page) | said | {"act": "check"})
    assert Shown(checked).values("fault") == ["failures.open_breakers[1]"]
    assert "failures.open_breakers-error" in Shown(checked).ids
    right = typed(checked) | {"failures.open_breakers": "network\nauth"}
    client.post(NEW, right | {"act": "save", "title": "the models", "reason": REASON})
    document = PolicyProposal.objects.get().document
    assert document["failures"] == {"open_breakers": ["network", "auth"], "close_gates": [429, "5xx"]}
    assert (document["rules"][0]["models"], document["guards"]["input_share"]) == (["small", "tiny"], 0.5)
    assert document["guards"]["repeat_action"] == "ask"
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
    rules = [{"id": name, "scope": {"operation": name}, "settings": {"jitter": 0.5}} for name in ("a", "b", "c")]
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
    assert re.search(r'name="rules.0.settings.max_retries"[^>]*value="99"[^>]*aria-invalid="true"', html)
    assert "rules.0.settings.max_retries-error" in Shown(page).ids
    again = client.post(NEW, typed(page) | {"act": "save", "title": "t", "reason": REASON})
    assert again.status_code == 400
    assert Shown(again).values("fault") == ["rules[0].settings.max_retries"]
    assert not PolicyProposal.objects.exists()


@pytest.mark.parametrize(
    ("text", "path", "named"),
    [
        ("{", "document", "line 1, column 2"),
        ("[]", "document", "JSON"),
        ('{"rules": 1}', "rules", "rules"),
        ('{"a": NaN}', "a", "number"),
        ('{"guards": {"turns": 9' + "9" * 5000 + "}}", "document", "5,001"),
        ('{"guards": {}, "guards": {"turns": 7}}', "document", "guards"),
    ],
)
def test_a_text_that_is_no_policy_is_told_where(text: str, path: str, named: str) -> None:
    page = signed_in(Role.EDITOR).post(NEW, {"mode": "json", "text": text, "title": "t", "reason": REASON})
    assert page.status_code in (400, 422)
    assert named in Shown(page).one("fault", path).text
    assert text in unescape(page.content.decode())


@pytest.mark.parametrize("act", ["json", "check", "rules.add", "save"])
def test_a_section_that_is_no_json_stays_as_it_was_typed_beside_every_other_fault(act: str) -> None:
    client = signed_in(Role.EDITOR)
    fields = typed(client.get(NEW)) | {"section.tools": '[{"tool": "pay"', "guards.turns": "abc", "act": act}
    page = client.post(NEW, fields | {"title": "t", "reason": REASON})
    assert typed(page)["section.tools"] == '[{"tool": "pay"'
    assert typed(page)["guards.turns"] == "abc"
    assert sorted(Shown(page).values("fault")) == ["guards.turns", "section.tools"]
    assert re.search(r'name="guards.turns"[^>]*aria-invalid="true"', page.content.decode())
    assert not PolicyProposal.objects.exists()


def test_the_editor_asks_about_what_is_rarely_meant() -> None:
    sent = {"mode": "json", "text": json.dumps(document(9)), "title": "t", "reason": REASON, "act": "check"}
    found = Shown(signed_in(Role.EDITOR).post(NEW, sent)).one("finding", "retry_storm")
    assert "10 attempts" in found.text


def test_title_is_needed_and_reason_is_not() -> None:
    client = signed_in(Role.EDITOR)
    page = client.post(NEW, {"mode": "json", "text": json.dumps(document()), "title": "", "reason": REASON})
    assert {"title-error"} <= Shown(page).ids
    assert "reason-error" not in Shown(page).ids
    page = client.post(NEW, {"mode": "json", "text": json.dumps(document()), "title": "t", "reason": ""})
    assert page.status_code == 303


def test_what_comes_from_outside_is_text() -> None:
    client = signed_in(Role.EDITOR)
    hostile = {
        **document(),
        "note": HOSTILE,
        "rules": [{"id": HOSTILE, "scope": {"operation": HOSTILE}, "settings": {}}],
    }
    made = drafted(client, json.dumps(hostile))
    for path in (f"/policies/proposals/{made.number}", f"/policies/proposals/{made.number}/edit"):
        assert "<img src=x" not in client.get(path).content.decode()


# -- its life ----------------------------------------------------------------------------------------------------------
def test_from_draft_to_live_by_buttons() -> None:
    review_services.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    eva, tom = signed_in(Role.EDITOR, "eva"), signed_in(Role.APPROVER, "tom")
    made = drafted(eva)
    assert move(eva, made, "submit").status_code == 303
    page = eva.get(f"/policies/proposals/{made.number}")
    assert 'value="approve"' not in page.content.decode()
    shown = Shown(tom.get(f"/policies/proposals/{made.number}"))
    assert len(shown.values("change")) == 2
    assert "5" in shown.one("change", "rules.search_web.settings.max_retries").text
    move(tom, made, "approve")
    answer = move(eva, made, "release")
    assert answer.headers["Location"] == f"/policies/proposals/{made.number}"
    release = PolicyRelease.objects.get()
    assert (release.proposal, release.is_break_glass) == (made, False)
    notes = eva.get(f"/policies/proposals/{made.number}").context["notes"]
    assert ("eva", "draft") in [(note.by, note.verb) for note in notes]


def test_who_had_a_hand_in_it_is_told_why_they_cannot_approve() -> None:
    review_services.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    tom = signed_in(Role.APPROVER, "tom")
    made = drafted(tom)
    move(tom, made, "submit")
    assert "approve" in closed(tom.get(f"/policies/proposals/{made.number}"))
    assert "approve" not in closed(signed_in(Role.APPROVER, "ben").get(f"/policies/proposals/{made.number}"))
    answer = move(tom, made, "approve")
    assert (answer.status_code, PolicyProposal.objects.get().state) == (403, "in_review")


def test_a_stale_page_is_told_what_happened_and_keeps_the_text() -> None:
    eva = signed_in(Role.EDITOR, "eva")
    made = drafted(eva)
    move(eva, made, "submit")
    answer = move(eva, made, "reject", seen="1", reason=NO_MORE)
    assert answer.status_code == 409
    assert Shown(answer).fields["seen"] == "2"
    assert NO_MORE in answer.content.decode()


def test_it_is_scheduled_for_a_moment_in_utc() -> None:
    eva = signed_in(Role.EDITOR, "eva")
    made = drafted(eva)
    assert faults_of(move(eva, made, "schedule")) == {"go_live_at": "required"}
    past = move(eva, made, "schedule", go_live_at="2026-11-20T04:00")
    assert (past.status_code, faults_of(past)) == (400, {"go_live_at": ""})
    move(eva, made, "schedule", go_live_at="2026-11-22T04:00")
    made.refresh_from_db()
    assert (made.state, str(made.go_live_at)) == ("scheduled", "2026-11-22 04:00:00+00:00")


def test_it_is_scheduled_on_the_clock_that_its_label_names() -> None:
    eva = signed_in(Role.EDITOR, "eva")
    eva.cookies[f"{settings.COOKIE_PREFIX}zone"] = "Asia/Tokyo"
    made = drafted(eva)
    page = move(eva, made, "schedule", go_live_at="soon")
    assert "JST" in page.context["form"]["go_live_at"].help_text
    assert faults_of(page) == {"go_live_at": "invalid"}
    assert "JST" in Shown(page).within("id", "go_live_at-error").root.text
    move(eva, made, "schedule", go_live_at="2026-11-22T04:00")
    made.refresh_from_db()
    assert str(made.go_live_at) == "2026-11-21 19:00:00+00:00"


def test_it_is_scheduled_for_some_first() -> None:
    eva = signed_in(Role.EDITOR, "eva")
    made = drafted(eva)
    moment = {"go_live_at": "2026-11-22T04:00", "first_minutes": "20"}
    assert faults_of(move(eva, made, "schedule", **moment, first_percent="101")) == {"first_percent": "max_value"}
    move(eva, made, "schedule", **moment, first_percent="25")
    made.refresh_from_db()
    assert made.cohort is not None
    assert (made.cohort["share"], made.cohort["for_s"]) == (0.25, 1200)
    page = text_of(eva.get(f"/policies/proposals/{made.number}"))
    assert "25 %" in page
    assert "20m 00s" in page


def test_broken_glass_is_a_box_to_tick_and_a_list_to_empty() -> None:
    review_services.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    eva, tom = signed_in(Role.EDITOR, "eva"), signed_in(Role.APPROVER, "tom")
    made = drafted(eva)
    assert move(eva, made, "release").status_code == 403
    assert not PolicyRelease.objects.exists()
    move(eva, made, "release", break_glass="yes")
    assert Shown(tom.get("/policies")).values("awaited") == ["1"]
    move(eva, drafted(eva, json.dumps(document(4))), "release", break_glass="yes")
    for version, left in ((1, ["2"]), (2, [])):
        answer = tom.post(f"/policies/releases/{version}", {"act": "review", "reason": REASON})
        assert answer.status_code == 303
        assert Shown(tom.get("/policies")).values("awaited") == left


def test_the_quick_form_proposes_where_review_is_asked_for() -> None:
    troubled_fleet()
    review_services.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
    ana = signed_in(Role.OPERATOR)
    form = Shown(ana.get("/policies/operations/search_web"))
    assert form.values("saves") == ["proposal"]
    assert "break_glass" not in form.fields
    answer = ana.post("/policies/operations/search_web", {"reason": REASON, "service": "*", "max_retries": "5"})
    made = PolicyProposal.objects.get()
    assert answer.headers["Location"] == f"/policies/proposals/{made.number}"
    assert made.state == "in_review"
    assert all(word in made.title for word in ("search_web", "max_retries", "5"))
    [rule] = made.document["rules"]
    assert (rule["scope"]["operation"], rule["settings"]["max_retries"]) == ("search_web", 5)
    assert not PolicyRelease.objects.exists()


def test_the_quick_form_breaks_glass_for_an_editor() -> None:
    troubled_fleet()
    review_services.set_rules(**asked(by=person(Role.ADMIN), is_review_needed=True))
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
    assert Shown(page).fields["act"] == "roll-back"
    answer = eva.post("/policies/releases/1", {"act": "roll-back", "reason": REASON, "seen": "2"}, follow=True)
    assert "Policy 3" in Shown(answer).within("id", "toasts").root.text
    newest = PolicyRelease.objects.latest("version")
    assert (newest.version, newest.revision, newest.returns_to) == (3, 3, 1)
    shown = Shown(eva.get("/policies/releases"))
    assert shown.values("release") == ["3", "2", "1"]
    assert shown.values("state") == ["live", "rolled back", "superseded"]


def test_the_built_in_policy_is_a_page_and_a_place_to_return_to() -> None:
    eva = signed_in(Role.EDITOR, "eva")
    move(eva, drafted(eva), "release")
    page = eva.get("/policies/releases/0")
    assert Shown(page).fields["act"] == "roll-back"
    assert json.loads(page.context["text"]) == document_of(BUILT_IN)
    eva.post("/policies/releases/0", {"act": "roll-back", "reason": REASON})
    assert PolicyRelease.objects.latest("version").returns_to == 0


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
