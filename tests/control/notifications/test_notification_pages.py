"""Settings → Notifications: set up and changed by an editor, audited, and never showing what is secret."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.notifications.dispatcher import send_due
from recovery_ops.control.notifications.models.notifications import Channel, Delivery, EscalationChain, NotificationRule
from recovery_ops.control.notifications.recipients import called
from recovery_ops.control.notifications.rules import tell
from recovery_ops.control.notifications.transport import fault_of_address
from recovery_ops.rules.notifications.escalation_levels import EVERYBODY
from recovery_ops.rules.roles import Role
from tests.support.channels import SECRET
from tests.support.html import Shown
from tests.support.notification_pages import HOME, new_rule
from tests.support.notifications import question
from tests.support.pages import HOSTILE, REASON, signed_in
from tests.support.stories import NOW
from tests.support.webhook_receiver import Receiver

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]


def new_channel(client: Client, inbox: Receiver, **changed: Any) -> Any:
    form = {"name": "ops", "address": inbox.url, "secret": SECRET, "is_on": "on", "reason": REASON, "key": "c-1"}
    return client.post(f"{HOME}/channels/new/webhook", form | changed)


def new_chain(client: Client, **changed: Any) -> Any:
    number = str(Channel.objects.get().pk)
    form = {"name": "*", "is_on": "on", "reason": REASON, "key": "ch-1"}
    steps = {"after_0": "0", "channel_0": number, "after_1": "15", "channel_1": number, "person_1": "eva"}
    return client.post(f"{HOME}/chains/new", form | steps | changed)


def test_from_nothing_to_a_message_that_arrived(inbox: Receiver) -> None:
    client = signed_in(Role.EDITOR, "eva")
    assert {"channels", "rules", "chains"} <= set(Shown(client.get(HOME)).values("empty"))
    assert new_channel(client, inbox).status_code == 303
    assert new_rule(client).status_code == 303
    assert new_chain(client).status_code == 303
    home = Shown(client.get(HOME))
    assert not {"channels", "rules", "chains"} & set(home.values("empty"))
    asks = home.one("key", f"chain-{EscalationChain.objects.get().pk}").text
    assert asks.index("ops") < asks.index("15m 00s") < asks.index("eva, by ops")
    one = question()
    tell("dev", NOW)
    assert send_due(now=lambda: NOW) == 2
    assert {got.said["phase"] for got in inbox.got} == {"began"}
    assert Shown(client.get(f"{HOME}/log")).values("state") == ["sent", "sent"]
    first, second = (Shown(client.get(f"/escalations/{one.pk}")).one("step", step) for step in ("1", "2"))
    assert (first.data["state"], second.data["state"]) == ("sent", "due")
    assert all(word in first.text for word in ("ops", "14:26:18"))
    assert all(word in second.text for word in ("eva, by ops", "14:41:18"))


def test_what_is_secret_is_never_shown_or_audited(inbox: Receiver) -> None:
    client = signed_in(Role.ADMIN)
    new_channel(client, inbox)
    number = Channel.objects.get().pk
    pages = [client.get(f"{HOME}{path}").content.decode() for path in ("", "/log", f"/channels/{number}")]
    pages.append(client.get("/audit").content.decode())
    for page in pages:
        assert SECRET not in page
        assert inbox.url not in page
    assert "ops" in pages[-1]
    entry = AuditEntry.objects.get(verb="channel.save")
    assert SECRET not in entry.after_text
    assert "/hook" not in entry.after_text


def test_an_empty_field_keeps_what_is_there_and_a_new_secret_is_noted(inbox: Receiver) -> None:
    client = signed_in(Role.EDITOR)
    new_channel(client, inbox)
    one = Channel.objects.get()
    form = {"name": "ops", "address": "", "secret": "", "is_on": "on", "version": "1", "reason": REASON}
    address = f"{HOME}/channels/{one.pk}"
    assert client.post(address, form | {"name": "operations", "key": "c-2"}).status_code == 303
    kept = Channel.objects.get()
    assert (kept.name, kept.address, kept.secret) == ("operations", inbox.url, SECRET)
    assert client.post(address, form | {"secret": "another-secret-of-ours", "key": "c-3"}).status_code == 409
    assert (
        client.post(address, form | {"secret": "another-secret-of-ours", "version": "2", "key": "c-4"}).status_code
        == 303
    )
    entry = AuditEntry.objects.filter(verb="channel.save").latest("number")
    assert (entry.before["credentials"], entry.after["credentials"]) == (1, 2)


@pytest.mark.parametrize(
    "address",
    [
        "http://hooks.example.org/x",
        "https://127.0.0.1/x",
        "https://[::ffff:10.0.0.1]/x",
        "https://eva:pw@hooks.example.org/",
        "ftp://hooks.example.org",
        "",
    ],
)
def test_an_address_that_cannot_be_used_is_said_beside_its_field(inbox: Receiver, address: str) -> None:
    answer = new_channel(signed_in(Role.EDITOR), inbox, address=address)
    assert answer.status_code == 400
    assert list(answer.context["form"].errors) == ["address"]
    beside = Shown(answer).within("id", "id_address_error").root.text
    assert fault_of_address(address) in beside if address else beside
    assert not Channel.objects.exists()


def test_who_may_not_is_refused(inbox: Receiver) -> None:
    new_channel(signed_in(Role.EDITOR, "eva"), inbox)
    number = Channel.objects.get().pk
    operator = signed_in(Role.OPERATOR)
    page = operator.get(HOME)
    assert page.status_code == 200
    assert f"{HOME}/channels/{number}" not in Shown(page).links
    for path in ("/channels/new/slack", f"/channels/{number}", f"/channels/{number}/test", "/rules/new", "/chains/new"):
        assert operator.get(f"{HOME}{path}").status_code == 403
        assert operator.post(f"{HOME}{path}", {"reason": REASON}).status_code == 403
    assert signed_in(Role.EDITOR, "eva").get(f"{HOME}/channels/new/fax").status_code == 404


def test_the_test_button_sends_and_the_log_says_so(inbox: Receiver) -> None:
    client = signed_in(Role.EDITOR)
    new_channel(client, inbox, name=HOSTILE[:60])
    number = Channel.objects.get().pk
    answer = client.post(f"{HOME}/channels/{number}/test", {"reason": REASON, "key": "t-1"})
    assert answer.status_code == 303
    assert client.post(f"{HOME}/channels/{number}/test", {"reason": REASON, "key": "t-1"}).status_code == 303
    assert send_due(now=lambda: NOW) == 1
    assert inbox.got[0].said["phase"] == "told"
    log = client.get(f"{HOME}/log?channel={number}")
    assert Shown(log).values("state") == ["sent"]
    assert "<small>Webhook</small>" in log.content.decode(), "in which form it went"
    assert HOSTILE[:60] not in log.content.decode()
    assert Delivery.objects.count() == 1


def test_a_chain_is_previewed_before_it_is_saved(inbox: Receiver) -> None:
    client = signed_in(Role.EDITOR, "eva")
    new_channel(client, inbox)
    shown = new_chain(client, preview="1", reason="")
    assert shown.status_code == 200
    at_once, later = shown.context["planned"]
    assert (later.who, later.due_at, later.after_s) == ("eva, by ops", NOW + timedelta(minutes=15), 900.0)
    assert (at_once.who, at_once.due_at) == ("ops", NOW)
    step = Shown(shown).one("step", "2").text
    assert all(word in step for word in ("eva, by ops", "Sat", "14:41:18", "15m 00s"))
    then = new_chain(client, preview="1", reason="", opened_at="2026-11-29T02:13", person_0="*")
    assert then.context["start"] == datetime(2026, 11, 29, 2, 13, tzinfo=UTC)
    assert (then.context["everybody"], then.context["planned"][0].is_for_everybody) == ("eva", True)
    everybody = Shown(then).one("step", "1").text
    assert all(word in everybody for word in (called(EVERYBODY), "eva", "Sun", "29 Nov", "02:13:00"))
    for never in ("9999-12-31T23:59", "0001-01-01T00:00", "1999-12-31T23:59"):
        answer = new_chain(client, preview="1", reason="", opened_at=never)
        assert list(answer.context["form"].errors) == ["opened_at"]
    assert not EscalationChain.objects.exists()
    assert new_chain(client, channel_0="", channel_1="").status_code == 400


def test_what_is_used_is_not_removed_and_what_is_removed_tells_nothing(inbox: Receiver) -> None:
    client = signed_in(Role.EDITOR, "eva")
    new_channel(client, inbox)
    new_rule(client)
    number, rule = Channel.objects.get().pk, NotificationRule.objects.get().pk
    refused = client.post(f"{HOME}/channels/{number}/remove", {"reason": REASON, "key": "x-1"})
    assert refused.status_code == 409
    assert "escalations" in Shown(refused).one("problem").text, "the rule that uses it"
    assert client.post(f"{HOME}/rules/{rule}/remove", {"reason": REASON, "key": "x-2"}).status_code == 303
    assert client.post(f"{HOME}/channels/{number}/remove", {"reason": REASON, "key": "x-3"}).status_code == 303
    gone = Channel.objects.get()
    assert (gone.address, gone.secret) == ("", "")
    question()
    assert tell("dev", NOW) == 0
    assert new_channel(client, inbox, key="c-9").status_code == 303  # its name is free again


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"triggers": []}, "triggers"),
        ({"failures": "0"}, "failures"),
        ({"quiet_from": "22:00"}, "quiet_from"),
        ({"quiet_zone": "Mars/Olympus"}, "quiet_zone"),
        ({"operation": " "}, "operation"),
        ({"triggers": ["monthly_report"], "least_severity": "warning"}, "least_severity"),
    ],
)
def test_a_rule_says_what_is_wrong_with_it(inbox: Receiver, changed: dict[str, Any], field: str) -> None:
    client = signed_in(Role.EDITOR)
    new_channel(client, inbox)
    answer = new_rule(client, **changed)
    assert answer.status_code in (400, 422)
    assert list(answer.context["form"].errors) == [field]
    assert not NotificationRule.objects.exists()


def test_budgets_stand_on_the_capacity_page() -> None:
    page = Shown(signed_in(Role.VIEWER).get("/capacity"))
    assert "budgets" in page.within("id", "budgets").values("empty")
