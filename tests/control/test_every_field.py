"""Every field of every body of the API has an effect: another value writes or answers something else.

A request is made twice, and once more with one field changed. Values that differ between the equal two are random
(keys, nonces) and are left out. The audit log is left out too: a field that is only recorded has no effect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from recovery_ops.control.api_urls import urlpatterns
from recovery_ops.control.core.api.requests import ApiView
from recovery_ops.control.core.models.bases import EVERYWHERE
from recovery_ops.rules.roles import Role
from tests.control.every_route import DOCUMENT, Try, everything
from tests.support.foreign_objects import world
from tests.support.isolated import rolled_back
from tests.support.pages import REASON, signed_in
from tests.support.retries import there
from tests.support.stories import ago

__all__ = ["everything", "world"]  # the fixtures

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("now")]

API = "/api/v1/"
Request = tuple[str, str, dict[str, Any]]
OF_ALL = {"reason", "dry_run", "break_glass", "confirm"}
"""Fields that every action takes, with tests of their own."""


@dataclass(frozen=True, slots=True)
class Case:
    """An operation, what is changed in its body one by one, and what is sent before and along."""

    name: str
    changed: Mapping[str, Any]
    also: Mapping[str, Any] = field(default_factory=dict)
    method: str = "post"
    before: tuple[Request, ...] = ()
    path: str = ""


WHERE = {"service": "research", "instance": "r-1", "group": "search"}
SPAN = {"expires_in_s": 7200.0, "starts_in_s": 600.0}
TAKE_BACK: Request = ("post", "policies/rollouts/1/take-back", {})
RELEASE: Request = ("post", "breakers/search_web/release", {})
CHAIN: Request = (
    "post",
    "notifications/chains",
    {"name": "unclassified", "steps": [{"after_s": after_s, "channel": 1} for after_s in (0, 900, 1800)]},
)
PROPOSE: Request = ("post", "policies/proposals", {"title": "more patience", "document": DOCUMENT})
STEPS: Request = ("put", "runbooks/unknown", {"markdown": "- wait\n- go"})
UNDO: Request = ("post", "capacity/arrangements/1/undo", {})
LET_PASS: Request = ("post", "shed/release", {})
CANCEL_RESET: Request = ("post", "resets/1/cancel", {})
_R0, _R1 = ({"service": "research", "instance": name} for name in ("r-0", "r-1"))
_RULE = {"name": "ledger", "category": "rate_limit", "match": {"exception_type": "acme.LedgerError"}}
_OTHER_DOCUMENT = {"defaults": {"operation": {"max_retries": 6}}}
_QUESTION = {"queue": "payments", "question": "Is it over?", "severity": "critical"}
_TOLD = {
    "is_on": False,
    "operation": "refund",
    "queue": "billing",
    "causes": ["one"],
    "providers": ["helios"],
    "least_severity": "critical",
    "failures": 7,
    "within_min": 33,
    "expiry_lead_min": 44,
    "group_s": 55,
    "quiet_from": "22:00",
    "quiet_to": "06:00",
    "quiet_zone": "Europe/Berlin",
    "quiet_passes": "info",
}
_DIGEST = {"every": "weekly", "at": "09:30", "zone": "Europe/Berlin", "tells_calm": True, "is_on": False}
_AT_ONCE = {"break_glass": True}
_PART = {"share": 0.25, "service": "research", "group": "search", "least_calls": 7, "for_s": 900.0}
_TO_SOME = {"share": 0.5, "for_s": 600.0} | _AT_ONCE
_QUIET = {"quiet_from": "21:00", "quiet_to": "07:00"}

CASES = (
    Case("api-fleet-pause", {"expires_in_s": 7200.0, "until_resumed": True, "targets": [_R1]}),
    Case("api-fleet-stop", {"expires_in_s": 7200.0, "targets": [_R1]}),
    Case("api-fleet-resume", {"targets": [_R1]}, before=(("post", "fleet/pause", {"targets": [_R0, _R1]}),)),
    Case(
        "api-fleet-instances",
        {"labels": "night", "instances": [_R0], "verb": "retire"},
        {"verb": "label"} | {"labels": "vip"},
    ),
    Case("api-fleet-labels", {"service": "other", "instance": "r-1", "labels": "night"}),
    Case("api-breakers", {"verb": "disable", "names": ["calm"]} | WHERE | SPAN, {"verb": "trip"}),
    Case("api-breakers", {"ahead": True}, {"verb": "trip", "names": ["unheard"]}),
    *(Case(f"api-{verb}", WHERE | SPAN, before=(RELEASE,)) for verb in ("trip", "disable", "observe")),
    *(Case(f"api-{verb}", {"ahead": True}, {"service": "unheard"}) for verb in ("trip", "disable", "observe")),
    Case("api-release", WHERE | {"override_id": "unknown"}),
    Case("api-extend", WHERE | {"override_id": "unknown", "expires_in_s": 9000.0}, {"expires_in_s": 18000.0}),
    Case("api-reset", WHERE, before=(CANCEL_RESET,)),
    Case("api-probe", WHERE),
    Case("api-escalations", {"verb": "acknowledge", "numbers": ["<other escalation>"]}),
    Case("api-escalations", {"to": "member"}, {"verb": "assign", "to": "rita"}),
    Case("api-escalations", {"to": "payments"}, {"verb": "escalate", "to": "sales"}),
    Case("api-escalations", {"for_s": 900.0}, {"verb": "snooze", "for_s": 3600.0}),
    Case("api-escalations", {"labels": "night"}, {"verb": "label", "labels": "vip"}),
    Case("api-escalations", {"happened_at": ago(100).isoformat()}, {"verb": "entry"}),
    Case("api-escalations", {"into": 999}, {"verb": "merge", "into": "<other escalation>"}),
    Case("api-escalations", {"text": "no"}, {"verb": "edit", "text": "yes"}),
    Case("api-escalation-assign", {"to": "member"}),
    Case("api-escalation-snooze", {"for_s": 900.0}),
    Case("api-escalation-escalate", {"to": "payments"}, {"to": "sales"}),
    Case("api-escalation-entry", {"happened_at": ago(100).isoformat()}),
    Case("api-escalation-label", {"labels": "night"}),
    Case("api-escalation-merge", {"into": 999}),
    Case("api-escalation-approve", {"text": "yes"}),
    Case("api-escalation-reject", {"text": "no"}),
    Case("api-escalation-edit", {"text": "12 EUR"}),
    Case("api-failures", {"verb": "archive", "fingerprints": ["badcafe"], "next_version": True, "clean_runs": 3}),
    Case("api-failures", {"to": "rita"}, {"verb": "assign", "to": "member"}),
    Case("api-failures", {"for_s": 7200.0}, {"verb": "archive", "for_s": 3600.0}),
    Case("api-failures", {"more": 6}, {"verb": "archive", "more": 5}),
    Case("api-failures", {"escalating": True}, {"verb": "archive"}),
    Case("api-failures-escalate", {"fingerprint": "badcafe"} | _QUESTION),
    Case("api-failures-notes", {"fingerprint": "badcafe"}),
    Case("api-failures-merge", {"fingerprints": ["badcafe"]}),
    Case("api-failures-split", {"fingerprint": "badcafe", "field": "category", "value": "charge"}),
    Case(
        "api-annotations",
        {"note": "a drill", "at": ago(100).isoformat(), "goes_on": True, "operation": "search_web"}
        | {"tags": ["drill"]},
    ),
    Case("api-annotations", {"until": ago(50).isoformat()}, {"at": ago(100).isoformat()}),
    Case("api-capacity-merge", {"numbers": ["<other capacity event>"]}, before=(UNDO,)),
    Case("api-capacity-escalate", _QUESTION),
    Case(
        "api-channels",
        {"name": "week", "address": "https://hooks.example.org/z", "secret": "s" * 20, "is_on": False},
        {"kind": "webhook", "secret": "q" * 20},
    ),
    Case("api-channels", {"kind": "webhook"}),
    Case("api-channel", {"name": "week", "address": "https://hooks.example.org/z", "is_on": False}, method="patch"),
    Case(
        "api-digest",
        {"every": "weekly", "at": "09:30", "zone": "Europe/Berlin", "tells_calm": True, "is_on": False},
        method="put",
    ),
    Case("api-digest", {"weekday": 3}, {"every": "weekly"}, method="put"),
    Case("api-notification-rules", {"name": "week", "channel": 999, "triggers": ["escalation"]} | _TOLD, _QUIET),
    Case(
        "api-notification-rule",
        {"name": "week", "channel": 999, "triggers": ["escalation"]} | _TOLD,
        _QUIET,
        method="patch",
    ),
    Case("api-chains", {"name": "week", "steps": [{"after_s": 60, "channel": "<channel>"}], "is_on": False}),
    Case(
        "api-chain",
        {"name": "week", "steps": [{"after_s": 60, "channel": "<channel>"}], "is_on": False},
        method="patch",
    ),
    Case("api-snoozes", {"provider": "third", "expires_in_s": 7200.0}),
    Case("api-shed", {"least": None, **SPAN}, before=(LET_PASS,)),
    Case("api-shed-extend", {"expires_in_s": 9000.0}),
    Case("api-shed-release", {"shed_id": "unknown"}),
    Case("api-rules", {"is_production": True, "is_review_needed": False, "is_second_needed": False}, method="put"),
    Case(
        "api-masking",
        {"attributes": ["customer.name"], "propose": True},
        {"break_glass": True},
        before=(TAKE_BACK,),
        method="put",
    ),
    Case("api-proposals", {"title": "less", "document": _OTHER_DOCUMENT}),
    Case("api-golden", {"run": "run-1", "name": "other", "must": "it fails well"}, {"run": "run-2"}),
    Case(
        "api-feedback",
        {"operation": "charge", "want": "no_retry", "service": "research", "run": "run-1"} | {"fingerprint": "one"},
    ),
    Case("api-unclassified-propose", {"rule": _RULE}),
    Case("api-extend-rollout", {"for_s": 9000.0}),
    Case("api-run-ask", {"queue": "payments"}),
    Case("api-run-retry", {"input": "{}", "instance": "r-1"}, {"instance": "r-0"}),
    Case(
        "api-replays",
        {"start": ago(500).isoformat(), "end": ago(10).isoformat(), "service": "other", "operation": "charge"},
    ),
    Case(
        "api-operation-policy",
        {"settings": {"max_retries": 3}, "service": "research"},
        _AT_ONCE,
        "patch",
        before=(TAKE_BACK,),
    ),
    Case(
        "api-exports",
        {"list": "runs", "format": "json", "columns": ["verb"], "start": ago(500).isoformat()}
        | {"end": ago(10).isoformat(), "narrowed": "did=breaker"},
    ),
    Case("api-runbook", {"markdown": "- go", "owner": "rita", "review_on": "2026-12-01"}, method="put"),
    Case("api-keys", {"name": "third", "scopes": ["read"], "days": 3, "requests_per_s": 5}),
    Case("api-key-rotate", {"overlap_s": 0.0}),
    Case("api-accounts", {"name": "yan", "role": "operator", "everywhere": True}),
    Case("api-account-role", {"role": "operator", "everywhere": True, "group": "search"}, method="put"),
    Case("api-account-role", {"everywhere": True, "group": "search"}, method="delete"),
    Case("api-capacity-split", {"at": ago(340).isoformat()}, {"at": ago(350).isoformat()}, before=(UNDO,)),
    Case("api-escalation-step", {"step": 3}, {"step": 2}, before=(CHAIN,)),
    Case("api-escalations", {"step": 3}, {"verb": "step", "step": 2}, before=(CHAIN,)),
    Case("api-escalation-steps", {"step": "go", "done": False}, {"step": "wait", "done": True}, before=(STEPS,)),
    Case("api-failures-regroup", {"into": "two"}, {"into": "badcafe"}),
    Case(
        "api-operation-policy",
        {"ahead": True},
        _AT_ONCE,
        "patch",
        before=(TAKE_BACK,),
        path="policies/operations/unheard",
    ),
    Case(
        "api-proposal",
        {"title": "less", "document": _OTHER_DOCUMENT},
        {"document": DOCUMENT},
        "put",
        before=(TAKE_BACK, PROPOSE),
        path="policies/proposals/2",
    ),
    Case("api-roll-out", _PART, _TO_SOME, before=(TAKE_BACK, PROPOSE), path="policies/proposals/2/roll-out"),
    Case("api-replays", {"proposal": 999}),
    Case("api-replays", {"document": _OTHER_DOCUMENT}, {"proposal": None, "document": DOCUMENT}),
    Case("api-runbook", {"version": 99}, method="put"),
    Case("api-quarantine-drop", {"lines": [999]}),
    Case("api-quarantine-replay", {"lines": [999]}),
    Case("api-unclassified-propose", {"category": "timeout"}),
    Case("api-you", {"email": "bob@example.org"}, method="patch"),
)

_GOLDEN = ("approve", "comment", "reject", "release-proposal", "return", "roll-out", "submit")
UNTRIED = {
    **{f"api-{name}": {"accepts_golden"} for name in _GOLDEN},
    "api-channel": {"secret"},
    "api-failures-regroup": {"field", "value"},
    "api-masking": {"rules"},
    "api-proposal": {"is_onto_live"},
    "api-schedule": {"accepts_golden", "go_live_at", *_PART},
    "api-sessions-end": {"session"},
}
"""Fields about objects that this world has not; each has a test of its own."""


class Writes:
    """What is written, statement by statement, without the audit log."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, tuple[str, ...]]] = []

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(("INSERT", "UPDATE", "DELETE")) and not re.search("audit|session|throttle", sql[:120], re.I):
            self.statements.append((sql, tuple(map(str, params or ()))))
        return execute(sql, params, many, context)


def send(client: Client, method: str, path: str, body: Mapping[str, Any]) -> None:
    getattr(client, method)(f"{path}?environment=dev", dict(body), "application/json")


def effect(client: Client, method: str, path: str, body: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """What a request writes, of which nothing stays."""
    writes = Writes()
    with rolled_back(), connection.execute_wrapper(writes):
        send(client, method, path, body)
    return writes.statements


def is_same(first: list[Any], second: list[Any], changed: list[Any]) -> bool:
    """Whether the changed request wrote what the others did, but for what differs between them."""
    if [sql for sql, _ in first] != [sql for sql, _ in changed]:
        return False
    return all(
        one == other or one != again
        for (_, row), (_, repeated), (_, rows) in zip(first, second, changed, strict=True)
        for one, again, other in zip(row, repeated, rows, strict=True)
    )


def filled(given: Mapping[str, Any], world: Mapping[str, str]) -> dict[str, Any]:
    """The objects of this world in place of their kinds."""
    text = json.dumps(given)
    return dict(json.loads(re.sub(r'"<([^"]+)>"', lambda kind: world[kind[1]], text)))


@pytest.mark.full
def test_every_field_of_a_body_has_an_effect(
    everything: list[Try], world: dict[str, str], subtests: pytest.Subtests
) -> None:
    there("r-0", "r-1", at=0.5)
    client = signed_in(Role.ADMIN, "zed", EVERYWHERE)
    for case in CASES:
        one = next(one for one in everything if (one.name, one.method) == (case.name, case.method))
        with rolled_back():
            for method, place, body in case.before:
                send(
                    client, method, API + place.replace("<escalation>", world["escalation"]), {"reason": REASON} | body
                )
            path = API + case.path if case.path else one.path
            body = {**one.body, **filled(case.also, world)}
            body = {name: value for name, value in body.items() if value is not None}
            first, second = (effect(client, one.method, path, body) for _ in range(2))
            for name, value in filled(case.changed, world).items():
                with subtests.test(operation=case.name, field=name):
                    changed = effect(client, one.method, path, body | {name: value})
                    assert first or changed, "the request is refused with either value"
                    assert not is_same(first, second, changed)


def test_no_field_is_forgotten() -> None:
    views = {pattern.name: getattr(pattern.callback, "view_class", None) for pattern in urlpatterns}
    there_are = {
        (name, method.lower(), field)
        for name, view in views.items()
        if isinstance(view, type) and issubclass(view, ApiView) and not view.is_reading
        for method, takes in view.takes.items()
        for field in {*takes.fields} - OF_ALL
    }
    tried = {(case.name, case.method, field) for case in CASES for field in case.changed}
    assert tried <= there_are
    assert {(name, field) for name, _, field in there_are - tried} == {
        (name, field) for name, fields in UNTRIED.items() for field in fields
    }
