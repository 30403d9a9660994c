"""Every address of the console with every method and every act that it takes, on objects that are there.

`SAID` has what a try needs so that who asks is all that decides: what a form or body says, and for addresses of which
one takes several acts, each of them. `<kind>` stands for the object of that kind in `test_foreign_objects.world`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from events.capacity.models import CapacityEvent
from events.models import Agent
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.breakers.services.load_shedding import shed
from recovery_ops.control.core.permissions import OF_A_PART
from recovery_ops.control.demonstration.models import Demonstration
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.rules.enums import Category
from recovery_ops.rules.events import Escalated
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, asked, person
from tests.support.addresses import Address
from tests.support.foreign_objects import kind_of
from tests.support.stories import NOW, Story, ago

OF_EVERYBODY = {
    "account_login": "the door",
    "account_reauthenticate": "of nobody but the person who asks",
    "api-desired": "for keys of agents, which hold no role",
    "api-openapi": "for everybody",
    "api-policy-schema": "for everybody",
    **dict.fromkeys(("export", "export-file", "api-export", "api-export-file"), "of nobody but who asked for it"),
    "look": "for everybody: how this browser shows pages",
    "metrics": "for who knows a token",
    "mfa_authenticate": "the door",
    "mfa_login_webauthn": "the door",
    "opamp": "for keys of agents, which hold no role",
    "sign-in": "the door",
    "sign-in-again": "of nobody but the person who asks",
    "sign-out": "the door",
    "single-sign-on": "the door",
    "single-sign-on-back": "the door",
    "socialaccount_login_cancelled": "the door",
    "wall": "for who was given a link, whoever signed in",
    "wall-link": "for who was given a link, whoever signed in",
    "api/v1/<path:rest>": "nothing is there",
    "settings/": "leads to the address without the slash",
    "settings/notifications/": "leads to the address without the slash",
}
"""Addresses by which no role is asked for, and why; beside them all under /settings/you, which is everybody's own."""
OWN = ("/settings/you", "/sign-in/again")

LATER, BEFORE = (NOW + timedelta(hours=1)).isoformat(), ago(600).isoformat()
DOCUMENT = {"defaults": {"operation": {"max_retries": 5}}}
RULE = {"name": "ledger", "category": "overloaded", "match": {"exception_type": "acme.LedgerError"}}
FAILURES, EVENTS = ["<cause>", "<unknown cause>"], ["<capacity event>", "<other capacity event>"]
CHANNEL = {"name": "day", "kind": "slack", "address": "https://hooks.example.org/y"}
_CAUSE = {"fingerprint": "<cause>", "to": "rita", "for_s": "3600", "field": "operation", "value": "search_web"}
_MOVES = ("submit", "comment", "approve", "return", "reject", "schedule", "release")
_RESPONSES = ("acknowledge", "assign", "snooze", "note", "entry", "label", "merge", "resolve", "approve", "reject")
_TRIAGE = tuple(
    {"verb": one, "grouping": "<grouping>"} | _CAUSE for one in ("archive", "assign", "resolve", "split", "note")
)

SAID: Mapping[tuple[str, str], tuple[dict[str, Any], ...]] = {
    ("saved", "get"): ({"screen": "failures", "query": "range=1h"},),
    ("saved", "post"): ({"screen": "failures", "query": "range=1h", "act": "save", "name": "mine"},),
    ("reset-ramp", "post"): ({"act": "continue"}, {"act": "cancel"}),
    ("held-act", "post"): ({"act": "agree"}, {"act": "reject"}, {"act": "review"}),
    ("proposal", "post"): tuple({"move": one, "go_live_at": LATER[:16]} for one in _MOVES),
    ("rollout", "post"): ({"act": "promote"}, {"act": "extend", "minutes": "10"}, {"act": "take-back"}),
    ("release", "post"): ({"act": "roll-back"}, {"act": "review"}),
    ("feedback", "post"): ({"act": "propose", "number": "<feedback>"}, {"act": "close", "number": "<feedback>"}),
    ("intake", "post"): ({"act": "replay"}, {"act": "drop"}),
    ("unclassified-cause", "post"): tuple({"act": one} for one in ("propose", "dismiss", "reopen")),
    ("agent-settings", "get"): ({"service": "research", "instance": "r-0"},),
    ("agent-settings", "post"): (),  # it takes none, and shows itself to whoever names an instance in the address
    ("agent-label", "get"): ({"service": "research", "instance": "r-0"},),
    ("agent-label", "post"): ({"service": "research", "instance": "r-0", "labels": "vip"},),
    ("instances-act", "get"): tuple({"verb": one, "agent": "<agent>"} for one in ("label", "retire", "restore")),
    ("instances-act", "post"): tuple(
        {"verb": one, "agent": "<agent>", "labels": "vip"} for one in ("label", "restore", "retire")
    ),
    ("agents-pause", "get"): ({"agent": "<agent>"},),
    ("agents-pause", "post"): ({"agent": "<agent>", "lasts": "3600"},),
    ("agents-stop", "get"): ({"agent": "<agent>"},),
    ("agents-stop", "post"): ({"agent": "<agent>", "lasts": "3600"},),
    ("agents-resume", "get"): ({"agent": "<agent>"},),
    ("agents-resume", "post"): ({"agent": "<agent>"},),
    ("api-fleet-pause", "post"): ({"targets": [{"service": "research", "instance": "r-0"}]},),
    ("api-fleet-stop", "post"): ({"targets": [{"service": "research", "instance": "r-0"}]},),
    ("api-fleet-resume", "post"): ({"targets": [{"service": "research", "instance": "r-0"}]},),
    ("api-fleet-instances", "post"): tuple(
        {"verb": one, "instances": [{"service": "research", "instance": "r-1"}]} for one in ("restore", "retire")
    ),
    ("api-fleet-labels", "post"): ({"service": "research", "instance": "r-0", "labels": "vip"},),
    ("api-fleet-instance", "get"): ({"service": "research", "instance": "r-0"},),
    ("api-fleet-settings", "get"): ({"service": "research", "instance": "r-0"},),
    ("triage", "get"): _TRIAGE,
    ("triage", "post"): (*_TRIAGE, {"verb": "merge", "fingerprint": FAILURES}),
    ("cause-ask", "get"): ({"fingerprint": "<cause>"},),
    ("cause-ask", "post"): ({"fingerprint": "<cause>", "queue": "owners", "question": "Is that the vendor's?"},),
    ("api-failures-escalate", "post"): (
        {"fingerprint": "<cause>", "queue": "owners", "question": "Is that the vendor's?"},
    ),
    ("runs-ask", "get"): ({"run": "<run>"},),
    ("runs-ask", "post"): ({"run": "<run>"},),
    ("runs-abort", "get"): ({"run": "<run>"},),
    ("runs-abort", "post"): ({"run": "<run>"},),
    ("runs-retry", "get"): ({"run": "<run>"},),
    ("runs-retry", "post"): ({"run": "<run>"},),
    ("capacity-arrange", "get"): ({"verb": "merge", "number": "<capacity event>"},),
    ("capacity-arrange", "post"): (
        {"verb": "merge", "number": EVENTS},
        {"verb": "split", "number": EVENTS[:1]},
        {"verb": "note", "number": EVENTS[:1]},
    ),
    ("event-ask", "post"): ({"queue": "owners", "question": "Is that the vendor's?"},),
    ("api-capacity-escalate", "post"): ({"queue": "owners", "question": "Is that the vendor's?"},),
    ("respond", "get"): tuple({"verb": one, "number": "<escalation>"} for one in _RESPONSES),
    ("respond", "post"): tuple(
        {"verb": one, "number": "<escalation>", "to": "rita", "labels": "vip"} for one in _RESPONSES
    ),
    ("new-channel", "get"): ({"verb": "slack"},),
    ("new-channel", "post"): ({"verb": "slack"},),
    ("api-breakers", "post"): tuple(
        {"verb": one, "names": ["search_web"]} | ({"expires_in_s": 7200.0} if one == "extend" else {})
        for one in sorted(OF_A_PART)
    ),
    ("api-escalations", "post"): ({"verb": "resolve", "numbers": ["<escalation>"]},),
    ("api-escalation-assign", "post"): ({"to": "rita"},),
    ("api-escalation-label", "post"): ({"labels": "vip"},),
    ("api-escalation-step", "post"): ({"step": 1},),
    ("api-escalation-merge", "post"): ({"into": "<other escalation>"},),
    ("api-failures", "post"): ({"verb": "resolve", "fingerprints": ["<cause>"]},),
    ("api-failures-notes", "get"): ({"fingerprint": "<cause>"},),
    ("api-failures-notes", "post"): ({"fingerprint": "<cause>"},),
    ("api-failures-merge", "post"): ({"fingerprints": FAILURES},),
    ("api-failures-split", "post"): ({"fingerprint": "<cause>", "field": "operation", "value": "search_web"},),
    ("api-capacity-merge", "post"): ({"numbers": EVENTS},),
    ("api-capacity-split", "post"): ({"at": ago(250).isoformat()},),
    ("api-masking", "put"): ({"rules": [], "attributes": ["customer.email"]},),
    ("api-masking-check", "post"): ({"sample": "Ada"},),
    ("api-you", "patch"): ({"email": "ana@example.org"},),
    ("api-views", "post"): ({"screen": "failures", "name": "mine", "query": "range=1h"},),
    ("api-keys", "post"): ({"name": "another", "scopes": ["ingest"]},),
    ("api-accounts", "post"): ({"name": "zoe", "role": "viewer"},),
    ("api-account-role", "put"): ({"role": "responder"},),
    ("api-channels", "post"): (CHANNEL,),
    ("api-notification-rules", "post"): ({"name": "day", "channel": "<channel>", "triggers": ["capacity"]},),
    ("api-snoozes", "post"): ({"provider": "helios"},),
    ("api-chains", "post"): ({"name": "day", "steps": [{"after_s": 0, "channel": "<channel>"}]},),
    ("annotation", "post"): ({"act": "end"}, {"act": "remove"}),
    ("annotate", "post"): ({"text": "deploy 2.8.1", "lasts": "moment"},),
    ("api-demonstration-remove", "post"): ({"confirm": "dev"},),
    ("api-annotations", "post"): ({"note": "deploy 2.8.1"},),
    ("api-shed", "post"): ({"confirm": "dev"},),
    ("api-rules", "put"): ({"is_review_needed": True},),
    ("api-proposals", "post"): ({"title": "more patience", "document": DOCUMENT},),
    ("api-review-release", "post"): (),  # nothing was released alone here; the page of a release is asked that, too
    ("api-schedule", "post"): ({"go_live_at": LATER},),
    ("api-golden", "post"): ({"run": "<run>", "name": "again", "must": "it ends well"},),
    ("api-feedback", "post"): ({"operation": "search_web", "want": "retry_less"},),
    ("try-failure", "post"): ({"text": "helios says 529"},),
    ("api-failure-check", "post"): ({"text": "helios says 529"},),
    ("api-policy-check", "post"): ({"document": DOCUMENT},),
    ("api-unclassified-check", "post"): ({"rule": RULE},),
    ("api-unclassified-propose", "post"): ({"rule": RULE},),
    ("edit-runbook", "post"): ({"markdown": "- wait"},),
    ("escalation-steps", "post"): ({"undo": "x"},),
    ("api-runbook", "put"): ({"markdown": "- wait"},),
    ("api-escalation-steps", "post"): ({"step": "x", "done": False},),
    ("new-export", "get"): ({"of": "audit"},),
    ("new-export", "post"): ({"of": "audit", "format": "csv"},),
    ("api-exports", "post"): ({"list": "audit"},),
    ("api-replays", "post"): ({"proposal": "<proposal>", "start": BEFORE, "end": NOW.isoformat()},),
    ("api-operation-policy", "patch"): ({"settings": {"max_retries": 4}},),
}
_WITHOUT_REASON = {
    "api-policy-check",
    "api-failure-check",
    "api-unclassified-check",
    "api-masking-check",
    "api-quarantine-show",
    "api-run-show",
}
_CHOICES = ("verb", "act", "move")


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One question to one address. `told` names it in the table; `body` is a form where it is no API."""

    name: str
    method: str
    route: str
    path: str
    body: Mapping[str, Any]
    is_api: bool
    choice: str

    @property
    def told(self) -> str:
        """As the table has it."""
        return f"{self.method.upper()} /{self.route}{f' {self.choice}' if self.choice else ''}"

    @property
    def names_an_object(self) -> bool:
        """Whether the address says which object it is about."""
        return bool(kind_of(self.route))

    @property
    def is_deed_to_breaker(self) -> bool:
        """Whether whoever holds a role for one group may do it there."""
        start, _, verb = self.path.rpartition("/")
        is_one = verb in OF_A_PART and start.endswith("/breakers/search_web")
        return (
            is_one
            or self.name in ("breakers-bulk", "breakers-named")
            or (self.name == "api-breakers" and self.method == "post")
        )

    @property
    def is_own(self) -> bool:
        """Whether it is about nobody but the person who asks, so that no role is asked for."""
        return self.path.startswith(OWN)


def names() -> set[str]:
    """What all addresses are called, or the address where one has no name."""
    return {pattern.name or route for route, pattern in _routes()}


def tries(world: Mapping[str, str]) -> list[Try]:
    """All of them, in the order in which addresses are looked up."""
    found: dict[tuple[str, str], Try] = {}
    for route, pattern in _routes():
        address = Address(pattern.name or route, _path(route, world), pattern.callback)
        if address.name in OF_EVERYBODY:
            continue
        for method in address.methods():
            for one in _of(route, address, method, world):
                found.setdefault((one.told, address.name), one)
    return list(found.values())


def _of(route: str, address: Address, method: str, world: Mapping[str, str]) -> Iterator[Try]:
    for given in SAID.get((address.name, method), ({},)):
        said = {name: _filled(value, world) for name, value in given.items()}
        path, choice = address.path, next((str(said[name]) for name in _CHOICES if name in said), "")
        if "<str:verb>" in path or "<str:kind>" in path:
            path = re.sub(r"<str:\w+>", choice, path)
        body = (address.body(method) if address.is_api else {"reason": REASON, "key": "k-1"}) | said
        if address.name in _WITHOUT_REASON:
            body.pop("reason", None)
        yield Try(
            name=address.name,
            method=method,
            route=route,
            path=path,
            body=body,
            is_api=address.is_api,
            choice=choice,
        )


def answered(client: Client, one: Try, environment: str, **more: Any) -> int:
    """The status of one try with `more` in its body, of which nothing stays; where each is told apart, of that one."""
    cookies = copy(client.cookies)
    body = {**one.body, **more}
    with transaction.atomic():
        if one.method == "get":
            asked = {name: value for name, value in one.body.items() if name not in ("reason", "key")}
            status = client.get(one.path, asked | {"environment": environment}).status_code
        elif one.is_api:
            place = f"{one.path}?environment={environment}"
            answer = getattr(client, one.method)(place, body, "application/json")
            status = _of_each(answer) or answer.status_code
        else:
            place = f"{one.path}?environment={environment}"
            status = client.post(place, body | {"environment": environment}).status_code
        transaction.set_rollback(True)
    client.cookies = cookies
    return int(status)


def _of_each(answer: Any) -> int | None:
    """Of a list of results the status of the first, where that is a refusal."""
    results = answer.json().get("results", ()) if answer.status_code == 200 else ()
    problems = [one["problem"]["status"] for one in results if isinstance(one, dict) and "problem" in one]
    return problems[0] if problems else None


def _routes() -> Iterator[tuple[str, URLPattern]]:
    def walk(patterns: list[Any], before: str) -> Iterator[tuple[str, URLPattern]]:
        for one in patterns:
            here = before + str(one.pattern)
            if isinstance(one, URLResolver):
                yield from walk(one.url_patterns, here)
            else:
                yield here, one

    yield from walk(get_resolver().url_patterns, "")


def _path(route: str, world: Mapping[str, str]) -> str:
    if kind := kind_of(route):
        return "/" + re.sub(r"<[^>]+>", world[kind], route, count=1)
    return "/" + route.replace("<name:operation>", "search_web").replace("<number:pk>", "1").replace(
        "<str:category>", "timeout"
    )


def _filled(given: Any, world: Mapping[str, str]) -> Any:
    if isinstance(given, list):
        return [_filled(one, world) for one in given]
    if isinstance(given, dict):
        return {name: _filled(one, world) for name, one in given.items()}
    if not (isinstance(given, str) and given.startswith("<")):
        return given
    found = world[given[1:-1]]
    return int(found) if found.isdigit() else found


@pytest.fixture
def everything(world: dict[str, str], settings: Any) -> list[Try]:
    """All that can be asked, in a world with a demonstration, in which less important work is shed and a responder is
    called rita.
    """
    settings.DEMO_ENVIRONMENT = "dev"
    long_ago = NOW - timedelta(days=500)
    Demonstration.objects.create(environment="dev", history_start=long_ago, history_end=long_ago)
    rita = User.objects.create_user("rita")
    RoleGrant.objects.create(user=rita, environment="dev", role=Role.RESPONDER)
    shed(**asked(confirm="dev", by=person(Role.ADMIN, "eva"), break_glass=True))
    Agent.objects.update(group="search")
    Story().tell(Escalated(operation="refund", category=Category.UNKNOWN, queue="billing", reason="odd"), at=50).store()
    open_escalations("dev", NOW)
    world["other escalation"] = str(Escalation.objects.exclude(pk=world["escalation"]).get().pk)
    world["other capacity event"] = str(CapacityEvent.objects.exclude(pk=world["capacity event"]).latest("pk").pk)
    return tries(world)
