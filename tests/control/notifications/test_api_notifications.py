"""Channels, rules and chains by the API: what the pages can do, with the same checks, and no secret told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from events import keys
from recovery_ops.control.core.audit_log import verify_chain
from recovery_ops.control.core.models.audit import AuditEntry
from recovery_ops.control.notifications.models.notifications import Channel, Delivery, EscalationChain, NotificationRule
from recovery_ops.rules.roles import Role
from tests.support.api_client import Program
from tests.support.pages import signed_in
from tests.support.told import untold

pytestmark = pytest.mark.django_db

WHY = {"reason": "set up by the deployment"}
HOOK = WHY | {
    "name": "ops",
    "kind": "webhook",
    "address": "https://hooks.example.org/T0/s3cr3t-path",
    "secret": "a-signing-secret-of-ours",
}


@pytest.fixture
def program() -> Program:
    keys.forget_keys()
    return Program("read", "settings")


def made(program: Program, what: str, body: dict[str, Any]) -> dict[str, Any]:
    status, told = program.post(f"notifications/{what}s", WHY | body)
    assert status == 201, told
    found: dict[str, Any] = told[what]
    return found


def test_a_channel_is_made_changed_tested_switched_off_and_removed(program: Program) -> None:
    one = made(program, "channel", HOOK)
    assert (one["leads_to"], one["has_secret"], one["version"]) == ("hooks.example.org/…", True, 1)
    at = f"notifications/channels/{one['number']}"
    tested = program.post(f"{at}/test", WHY)[1]["delivery"]
    assert (tested["state"], tested["channel"]) == ("waiting", one["number"])
    assert program.patch(at, WHY | {"name": "operations"}, if_match='"1"')[1]["channel"]["name"] == "operations"
    assert program.patch(at, WHY | {"is_on": False}, if_match='"1"')[0] == 409
    assert program.patch(at, WHY | {"is_on": False})[1]["channel"]["is_on"] is False
    kept = Channel.objects.get()
    assert (kept.address, kept.secret) == (HOOK["address"], HOOK["secret"]), "only what was named is changed"
    assert program.post(f"{at}/test", WHY)[0] == 409
    assert program._send("DELETE", at, WHY, {})[0] == 200
    assert program.get(at)[1]["code"] == "unknown_channel"
    verbs = ["channel.save", "channel.test", "channel.save", "channel.save", "channel.remove"]
    done = AuditEntry.objects.filter(result=AuditEntry.OK).order_by("number")
    assert list(done.values_list("verb", flat=True)) == verbs
    assert verify_chain("dev").is_whole


def test_no_answer_and_no_entry_tells_an_address_or_a_secret(program: Program) -> None:
    one = made(program, "channel", HOOK)
    told = [program.get("notifications/channels"), program.get(f"notifications/channels/{one['number']}"), one]
    told.append(program.get("audit"))
    assert "s3cr3t" not in json.dumps(told)
    assert HOOK["secret"] not in json.dumps(told)


def test_a_rule_keeps_what_a_change_does_not_name(program: Program) -> None:
    channel = made(program, "channel", HOOK)["number"]
    quiet = {"quiet_from": "22:00", "quiet_to": "06:30", "quiet_zone": "Europe/Rome"}
    one = made(program, "rule", {"name": "outages", "channel": channel, "triggers": ["capacity"]} | quiet)
    assert (one["quiet_from"], one["quiet_to"], one["group_s"]) == ("22:00", "06:30", 10)
    at = f"notifications/rules/{one['number']}"
    changed = program.patch(at, WHY | {"group_s": 0, "quiet_from": None, "quiet_to": None})[1]["rule"]
    assert (changed["triggers"], changed["group_s"], changed["quiet_from"]) == (["capacity"], 0, None)
    assert set(program.patch(at, WHY | {"quiet_from": "25:00"})[1]["fields"]) == {"quiet_from"}
    assert program.patch(at, WHY | {"triggers": ["everything"]})[0] == 400
    assert program._send("DELETE", f"notifications/channels/{channel}", WHY, {})[1]["code"] == "used"
    assert program._send("DELETE", at, WHY, {})[0] == 200
    assert NotificationRule.objects.get().removed_at is not None


def test_a_chain_names_who_is_asked(program: Program) -> None:
    channel = made(program, "channel", HOOK)["number"]
    steps = [{"after_s": 0, "channel": channel}, {"after_s": 900, "channel": channel, "person": "ana"}]
    fields = program.post("notifications/chains", WHY | {"name": "*", "steps": steps})[1]["fields"]
    assert (set(fields), untold(fields["steps"], "ana")) == ({"steps"}, [])
    signed_in(Role.RESPONDER)
    one = made(program, "chain", {"name": "*", "steps": steps})
    assert [step["who"] for step in one["steps"]] == ["ops", "ana, by ops"]
    at = f"notifications/chains/{one['number']}"
    assert program.patch(at, WHY | {"is_on": False})[1]["chain"]["steps"] == one["steps"]
    assert program.get("notifications/chains")[1]["chains"][0]["is_on"] is False
    assert program._send("DELETE", at, WHY, {})[0] == 200
    assert EscalationChain.objects.get().removed_at is not None


@pytest.mark.parametrize(
    ("what", "body", "field"),
    [
        ("channels", {"name": " "}, "name"),
        ("channels", {"name": "ops\0"}, "name"),
        ("channels", {"kind": "fax"}, "kind"),
        ("channels", {"address": "https://localhost/x"}, "address"),
        ("channels", {"address": "https://hooks.example.org:22/x"}, "address"),
        ("channels", {"secret": "short"}, "secret"),
        ("channels", {"kind": "slack"}, "secret"),
        ("channels", {"kind": "email", "secret": "", "address": "ana@example.org\nBcc: all@example.org"}, "address"),
        ("rules", {"triggers": [{}]}, "triggers"),
        ("rules", {"triggers": ["escalation", ["sla"]]}, "triggers"),
        ("rules", {"triggers": []}, "triggers"),
        ("rules", {"channel": 999_999}, "channel"),
        ("rules", {"group_s": -5}, "group_s"),
        ("rules", {"within_min": 0}, "within_min"),
        ("rules", {"least_severity": "loud"}, "least_severity"),
        ("rules", {"operation": "x\0"}, "operation"),
        ("rules", {"quiet_from": "22:00"}, "quiet_from"),
        ("rules", {"quiet_from": "22:00", "quiet_to": "22:00"}, "quiet_to"),
        ("rules", {"quiet_zone": "Mars/Olympus"}, "quiet_zone"),
        ("chains", {"steps": []}, "steps"),
        ("chains", {"steps": ["now"]}, "steps"),
        ("chains", {"steps": [{"after_s": -5, "channel": 1}]}, "steps"),
        ("chains", {"steps": [{"after_s": 1e12, "channel": 1}]}, "steps"),
        ("chains", {"steps": [{"after_s": 0, "channel": 1, "persn": "ana"}]}, "steps"),
        ("chains", {"steps": [{"after_s": 0, "channel": "ops"}]}, "steps"),
        ("chains", {"name": ""}, "name"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(program: Program, what: str, body: dict[str, Any], field: str) -> None:
    to = made(program, "channel", HOOK | {"name": "there"})["number"]
    right = {
        "channels": HOOK,
        "rules": {"name": "all", "channel": to, "triggers": ["capacity"]},
        "chains": {"name": "*", "steps": [{"after_s": 0, "channel": to}]},
    }
    status, problem = program.post(f"notifications/{what}", WHY | right[what] | body)
    assert (status, list(problem["fields"])) == (400, [field])


def test_a_dry_run_checks_everything_and_makes_nothing(program: Program) -> None:
    status, told = program.post("notifications/channels", HOOK | {"dry_run": True})
    assert (status, told["dry_run"], told["channel"]["number"]) == (200, True, None)
    assert program.post("notifications/channels", HOOK | {"dry_run": True, "address": "ftp://x"})[0] == 400
    assert not Channel.objects.exists()


def test_the_same_key_makes_one(program: Program) -> None:
    first = program.post("notifications/channels", HOOK, idempotency_key="once")
    again = program.post("notifications/channels", HOOK, idempotency_key="once")
    assert (first[0], again[0], again[1]["was_already"]) == (201, 200, True)
    assert first[1]["channel"]["number"] == again[1]["channel"]["number"]


def test_the_log_is_read_in_pages_and_by_state(program: Program) -> None:
    number = made(program, "channel", HOOK)["number"]
    for _ in range(3):
        program.post(f"notifications/channels/{number}/test", WHY)
    Delivery.objects.filter(pk=Delivery.objects.latest("pk").pk).update(state="sent")
    page = program.get("notifications/deliveries", limit="2")[1]
    older = program.get(page["next"].removeprefix("/api/v1/"))[1]
    assert [len(page["deliveries"]), len(older["deliveries"]), older["next"]] == [2, 1, None]
    assert program.get("notifications/deliveries", state="lost")[0] == 400


def test_who_may_not_is_refused_and_nothing_of_another_environment_is_seen(program: Program) -> None:
    number = made(program, "channel", HOOK)["number"]
    assert Program("read").post("notifications/channels", HOOK)[0] == 403
    assert Program("read").get("notifications/channels")[0] == 200
    status, problem = Program("read", "act").post("notifications/channels", HOOK)
    assert (status, untold(problem["detail"], "settings")) == (403, []), "it could send anything anywhere"
    assert Program("read", "settings").post("escalations/1/note", WHY)[0] == 403, "and who sets up does not act"
    elsewhere = Program("read", "settings", environment="prod")
    assert elsewhere.get("notifications/channels")[1]["channels"] == []
    assert elsewhere.patch(f"notifications/channels/{number}", WHY | {"is_on": False})[0] == 404
    client = signed_in(Role.OPERATOR)
    body = json.dumps(HOOK | {"name": "another"})
    assert client.post("/api/v1/notifications/channels", body, "application/json").status_code == 403
    client = signed_in(Role.EDITOR, "eva")
    assert client.post("/api/v1/notifications/channels", body, "application/json").status_code == 201
