"""A failure that a person pastes: as what it is read, and what the live policy and a draft would do with it."""

from __future__ import annotations

import json
from html import unescape
from typing import Any

import pytest
from django.test import Client

from events import keys
from events.derived.pasted import ReadAs
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.policies.services import proposals
from recovery_ops.rules.enums import Rung
from recovery_ops.rules.roles import Role
from tests.support.actions import asked, person
from tests.support.html import Shown
from tests.support.pages import signed_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

BODY = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
RECORD = {
    "resourceLogs": [
        {
            "scopeLogs": [
                {
                    "logRecords": [
                        {
                            "attributes": [
                                {"key": "http.response.status_code", "value": {"intValue": "429"}},
                                {"key": "http.response.header.retry-after", "value": {"stringValue": "7"}},
                            ],
                            "body": {"stringValue": "slow down"},
                        }
                    ]
                }
            ]
        }
    ]
}


@pytest.fixture
def program() -> Client:
    keys.forget_keys()
    return Client(headers={"authorization": f"Bearer {keys.create_key('a', ['read'], 'dev')[1]}"})


def tried(program: Client, text: str, **more: Any) -> Any:
    body = {"text": text} | more
    return program.post("/api/v1/failures/check", body, content_type="application/json").json()


@pytest.mark.parametrize(
    ("text", "more", "read_as", "category", "retry_after_s"),
    [
        (BODY, {"status": 529}, ReadAs.BODY, "overloaded", None),
        (BODY, {}, ReadAs.BODY, "overloaded", None),
        ("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\n\r\n{}", {}, ReadAs.ANSWER, "rate_limited", 3.0),
        (json.dumps(RECORD), {}, ReadAs.RECORD, "rate_limited", 7.0),
        ("Traceback (most recent call last):\n  …\nTimeoutError: too slow", {}, ReadAs.EXCEPTION, "timeout", None),
        (f"openai.RateLimitError: Error code: 429 - {BODY}", {}, ReadAs.EXCEPTION, "overloaded", None),
        ("the moon is blue", {}, ReadAs.MESSAGE, "unknown", None),
        ("[" * 9_000, {}, ReadAs.MESSAGE, "unknown", None),
        ('{"a":' * 3_000, {}, ReadAs.MESSAGE, "unknown", None),
    ],
)
def test_what_is_pasted_is_read_for_what_it_is(
    program: Client, text: str, more: dict[str, Any], read_as: ReadAs, category: str, retry_after_s: float | None
) -> None:
    told = tried(program, text, **more)
    [live] = told["policies"]
    assert (told["read_as"], live["category"], live["retry_after_s"]) == (read_as, category, retry_after_s)


def test_the_page_tells_the_live_policy_and_a_draft_side_by_side() -> None:
    document = {"schema_version": 1, "defaults": {"operation": {"max_retries": 0, "fallback_allowed": False}}}
    made = proposals.propose(**asked(by=person(Role.EDITOR, "eva"), title="no patience", document=document)).object
    client = signed_in(Role.VIEWER)
    assert f'<option value="{made.number}"' in client.get("/policies/try").content.decode()
    before = AuditEntry.objects.count()
    given = {"text": "upstream said 503", "status": "503", "operation": "search_web", "draft": str(made.number)}
    page = client.post("/policies/try", given)
    assert page.status_code == 200
    live, draft = page.context["verdicts"]
    assert draft.name == f"draft {made.number}, no patience"
    assert live.name != draft.name
    shown = Shown(page)
    assert (shown.values("reason"), shown.values("retries")) == (["attempts", "attempts"], ["3", "0"])
    assert (Rung.FALLBACK in live.foreseen.rungs, Rung.FALLBACK in draft.foreseen.rungs) == (True, False)
    told = [
        text
        for one in (live, draft)
        for text in (one.name, *(f"{rung} {words[:1].upper()}" for rung, words in one.steps))
    ]
    assert all(one in text_of(page) for one in told)
    assert not page.context["is_same"]
    assert AuditEntry.objects.count() == before
    assert "upstream said 503" in unescape(page.content.decode())
    refused = client.post("/policies/try", given | {"text": "HTTP/1.1 451 Unavailable For Legal Reasons"})
    assert refused.context["is_same"]


def test_half_a_pair_of_surrogates_is_shown_as_something_else(program: Client) -> None:
    record = '{"attributes": [{"key": "exception.type", "value": {"stringValue": "\\ud800Error"}}]}'
    assert tried(program, record)["read_as"] == ReadAs.RECORD
    assert signed_in(Role.VIEWER).post("/policies/try", {"text": record}).status_code == 200


def test_what_cannot_be_tried_is_said_beside_its_field(program: Client) -> None:
    client = signed_in(Role.VIEWER)
    assert client.post("/policies/try", {"text": ""}).status_code == 422
    assert client.post("/policies/try", {"text": "x", "draft": "99"}).status_code == 400
    assert tried(program, " ")["fields"].keys() == {"text"}
    assert tried(program, "x", status=9)["fields"].keys() == {"status"}
    assert tried(program, "x", kind="moon")["fields"].keys() == {"kind"}
    assert tried(program, "x", draft=99)["fields"].keys() == {"draft"}
    broken = {"attributes": [{"key": "a", "value": 5}]}
    assert tried(program, json.dumps(broken))["fields"].keys() == {"text"}
