"""Every form of the console that is sent twice from one page, as by a double click, has one effect."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.notifications.models.notifications import Channel
from recovery_ops.rules.roles import Role
from tests.control.every_route import LATER, Try, everything
from tests.control.test_other_environment import Written, copied, wish
from tests.support.foreign_objects import world
from tests.support.html import Shown
from tests.support.isolated import rolled_back
from tests.support.pages import signed_in
from tests.support.retries import there

__all__ = ["everything", "world"]  # the fixtures

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

ONCE = r'"was_already":(?:true|false)|"(?:token|password)":(?:null|"[^"]*")'
"""What only the first answer says: that something was done, and a secret."""
OVERRIDE = {"scope": "all", "expires_in_s": "3600"}
QUESTION = {"queue": "owners", "question": "Is that the vendor's?"}
RULE = {
    "name": "day",
    "channel": "<channel>",
    "triggers": ["capacity"],
    "operation": "*",
    "queue": "*",
    "least_severity": "info",
    "failures": "100",
    "within_min": "5",
    "expiry_lead_min": "10",
    "group_s": "0",
    "quiet_zone": "UTC",
    "quiet_passes": "critical",
    "is_on": "on",
}
CHAIN = {"name": "day", "after_0": "0", "channel_0": "<channel>", "is_on": "on"}
FILLED: dict[str, dict[str, Any]] = {
    "shed": {"confirm": "dev", "least": "critical", "expires_in_s": "3600"},
    **dict.fromkeys(("breaker-trip", "breaker-disable", "breaker-observe", "breaker-reset"), OVERRIDE),
    "breaker-probe": {"scope": "instance", "instance": "r-0"},
    "triage resolve": {"clean_runs": "3"},
    "unclassified-cause propose": {"category": "timeout"},
    **dict.fromkeys(("runs-ask", "run-ask"), QUESTION),
    "golden-mark": {"name": "again", "must": "it ends well"},
    "respond snooze": {"until": LATER[:16]},
    "respond merge": {"into": "<escalation>"},
    "say-feedback": {"operation": "search_web", "want": "retry_less"},
    "policy": {"max_retries": "9", "service": "*"},
    "new-key": {"name": "another", "scopes": ["ingest"], "days": "90"},
    "rotate-key": {"overlap_s": "3600"},
    "revoke-key": {"confirm": "research"},
    "new-person": {"name": "zoe", "role": "viewer", "where": "dev"},
    "person-role": {"role": "responder", "where": "dev"},
    "snooze-notices": {"provider": "helios", "expires_in_s": "3600"},
    "new-channel slack": {"name": "day", "address": "https://hooks.example.org/y"},
    "channel-digest": {"every": "daily", "weekday": "0", "at": "08:00", "zone": "UTC"},
    **dict.fromkeys(("new-notification-rule", "edit-notification-rule"), RULE),
    **dict.fromkeys(("new-chain", "edit-chain"), CHAIN),
}
"""What a person enters beside a reason, by the name of the address and the choice."""
ALWAYS_WRITTEN = {"django_session", "control_audithead"}
"""What every request may write to: the session, and the lock of the audit log."""


def prefilled(client: Client, one: Try) -> dict[str, str]:
    """What the page of a form sends although nothing was entered."""
    asked = {name: value for name, value in one.body.items() if name not in ("reason", "key")}
    page = client.get(one.path, asked | {"environment": "dev"})
    if page.status_code != 200 or "html" not in page.headers["Content-Type"]:
        return {}
    inputs = (part.attributes for part in Shown(page).root.all() if part.tag == "input")
    typed = (part for part in inputs if part.get("type", "text") not in ("checkbox", "radio", "submit"))
    return {part["name"]: part.get("value", "") for part in typed if "name" in part}


def entered(one: Try) -> dict[str, Any]:
    """What is entered into a form."""
    numbers = {"<channel>": Channel.objects.get(name="night").pk, "<escalation>": Escalation.objects.earliest("pk").pk}
    filled = FILLED.get(one.name, FILLED.get(f"{one.name} {one.choice}", {}))
    body = {name: value for name, value in one.body.items() if name != "key"}
    return body | {
        name: numbers.get(value, value) if isinstance(value, str) else value for name, value in filled.items()
    }


def done() -> int:
    """How many changes the audit log has."""
    return AuditEntry.objects.filter(result=AuditEntry.OK).count()


@pytest.mark.full
def test_form_sent_twice_acts_once(everything: list[Try], subtests: pytest.Subtests) -> None:
    there("r-0", "r-1", at=0.5)
    client, acted = signed_in(Role.ADMIN, "zed", EVERYWHERE), 0
    for one in everything:
        if one.is_api or one.method == "get":
            continue
        with subtests.test(asked=one.told), rolled_back():
            shown = prefilled(client, one)
            if "key" not in shown and not one.choice:
                continue  # a page without a form
            body = {"key": "k-1", **shown, **entered(one), "environment": "dev"}
            before = done()
            client.post(one.path, body)
            once, written = done(), Written()
            with connection.execute_wrapper(written):
                client.post(one.path, body)
            assert done() == once
            assert once == before or written.names <= ALWAYS_WRITTEN
            acted += once > before
    assert acted > 65


def told(answer: Any) -> str:
    """What an answer says of the thing."""
    return re.sub(ONCE, "", answer.content.decode())


def test_repeated_request_is_answered_as_the_first(everything: list[Try], subtests: pytest.Subtests) -> None:
    """Other rows of each kind are there, of this environment and of another: the answer is about the row of the key."""
    there("r-0", "r-1", at=0.5)
    client, repeated = signed_in(Role.ADMIN, "zed", EVERYWHERE), 0
    wish(client)
    copied()
    for one in everything:
        if not one.is_api or one.method == "get":
            continue
        with subtests.test(asked=one.told), rolled_back():
            place, key = f"{one.path}?environment=dev", {"Idempotency-Key": "k-1"}
            first = getattr(client, one.method)(place, dict(one.body), "application/json", headers=key)
            if first.status_code >= 300:
                continue
            again = getattr(client, one.method)(place, dict(one.body), "application/json", headers=key)
            assert told(again) == told(first)
            repeated += '"was_already"' in first.content.decode()
    assert repeated > 80
