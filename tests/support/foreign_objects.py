"""Objects of every kind in another environment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from events.capacity.detection import look
from events.capacity.models import CapacityArrangement, CapacityEvent
from events.capacity.reach import read_reach
from events.keys import create_key
from events.models import Agent, Fact, Quarantine
from events.queries.readings import MOVED
from recovery_ops.control.access.models import RoleGrant
from recovery_ops.control.breakers.models.ramps import ResetRamp
from recovery_ops.control.breakers.services import overrides
from recovery_ops.control.breakers.services import resets as resets_services
from recovery_ops.control.capacity.services import merge_events
from recovery_ops.control.core import actors, rejections
from recovery_ops.control.core.models.approval_requests import ApprovalRequest
from recovery_ops.control.core.models.environment_rules import EnvironmentRules
from recovery_ops.control.core.models.revisions import Revision
from recovery_ops.control.dashboard.services import annotate
from recovery_ops.control.escalations.models import Escalation
from recovery_ops.control.escalations.services.opening import open_escalations
from recovery_ops.control.issues.models import FailureGrouping
from recovery_ops.control.issues.services.issues import merge_failures
from recovery_ops.control.notifications.services.muting import snooze
from recovery_ops.control.notifications.services.settings import save_chain, save_channel, save_rule
from recovery_ops.control.policies.services import feedback as feedback_services
from recovery_ops.control.policies.services import policies as policies_services
from recovery_ops.control.policies.services import proposals as proposals_services
from recovery_ops.control.policies.services import rollouts as rollouts_services
from recovery_ops.control.replay.services import golden as golden_services
from recovery_ops.control.replay.services.replays import start_replay
from recovery_ops.rules.enums import Category, Evidence, State
from recovery_ops.rules.events import Escalated
from recovery_ops.rules.policy.scope import ANY, Scope
from recovery_ops.rules.roles import Role
from tests.support.actions import REASON, SEARCH, asked, person
from tests.support.addresses import Address, as_role
from tests.support.capacity import storm
from tests.support.deliveries import message
from tests.support.stories import NOW, Story, ago, counted, failed, heartbeat, moved

OBJECTS = {
    "resets/<number:number>": "ramp",
    "requests/<number:number>": "request",
    "breakers/<name:name>": "breaker",
    "failures/unclassified/<name:fingerprint>": "unknown cause",
    "failures/<name:fingerprint>": "cause",
    "failures/groupings/<number:number>": "grouping",
    "runs/<name:run>": "run",
    "timelines/annotations/<number:number>": "annotation",
    "annotations/<number:number>": "annotation",
    "moves/<number:fact_id>": "move",
    "quarantine/<number:number>": "quarantined record",
    "capacity/<number:number>": "capacity event",
    "capacity/events/<number:number>": "capacity event",
    "capacity/arrangements/<number:number>": "arrangement",
    "escalations/<number:number>": "escalation",
    "policies/proposals/<number:number>": "proposal",
    "policies/golden/<number:number>": "golden run",
    "policies/rollouts/<number:number>": "rollout",
    "policies/replays/<number:number>": "replay",
    "policies/releases/<number:version>": "release",
    "feedback/<number:number>": "feedback",
    "settings/keys/<str:prefix>": "key",
    "keys/<str:prefix>": "key",
    "accounts/<number:number>": "person",
    "settings/access/<number:number>": "person",
    "settings/notifications/channels/<number:number>": "channel",
    "settings/notifications/rules/<number:number>": "rule",
    "settings/notifications/chains/<number:number>": "chain",
    "settings/notifications/snoozes/<number:number>": "snooze",
    "notifications/snoozes/<number:number>": "snooze",
    "notifications/channels/<number:number>": "channel",
    "notifications/rules/<number:number>": "rule",
    "notifications/chains/<number:number>": "chain",
}
"""Without `api/v1/`, where the same objects have the same names."""


NO_OBJECTS = {
    "wall/<str:token>": "a secret, which says itself of which environment it is",
    "agents/act/<str:verb>": "a verb; what it is done to stands in the form",
    "failures/act/<str:verb>": "a verb; what it is done to stands in the form",
    "capacity/arrange/<str:verb>": "a verb; what it is done to stands in the form",
    "escalations/act/<str:verb>": "a verb; what it is done to stands in the form",
    "settings/notifications/channels/new/<str:kind>": "a kind of channel",
    "settings/you/sign-in/keys/<number:pk>/remove": "of nobody but the person who asks",
    **dict.fromkeys(
        ("policies/playbook/<str:category>", "policies/playbook/<str:category>/edit", "api/v1/runbooks/<str:category>"),
        "a class of failures, which the rules name",
    ),
    **dict.fromkeys(
        (
            *("exports/<number:number>", "exports/<number:number>/file"),
            *("api/v1/exports/<number:number>", "api/v1/exports/<number:number>/file"),
        ),
        "of nobody but who asked for it: `test_long_exports.py`",
    ),
    "policies/operations/<name:operation>": "a policy may speak of an operation that nobody has called yet",
    "api/v1/policies/operations/<name:operation>": "a policy may speak of an operation that nobody has called yet",
    "api/v1/<path:rest>": "nothing is there",
}


ACTS = {
    "/resets/": "cancel",
    "/timelines/annotations/": "end",
    "/requests/": "reject",
    "/policies/proposals/": "comment",
    "/policies/rollouts/": "promote",
    "/policies/releases/": "roll-back",
}


LATER = (NOW + timedelta(hours=1)).isoformat()


def routes() -> Iterator[tuple[str, URLPattern]]:
    """Every address that names something, as it is written down."""

    def walk(patterns: list[Any], before: str) -> Iterator[tuple[str, URLPattern]]:
        for one in patterns:
            here = before + str(one.pattern)
            if isinstance(one, URLResolver):
                yield from walk(one.url_patterns, here)
            elif one.pattern.converters:
                yield here, one

    yield from walk(get_resolver().url_patterns, "")


def kind_of(route: str) -> str:
    """Which kind of object an address names; empty where that is not written down."""
    fitting = [start for start in OBJECTS if route.removeprefix("api/v1/").startswith(start)]
    return OBJECTS[max(fitting, key=len)] if fitting else ""


@pytest.fixture
def world() -> dict[str, str]:
    """One object of each kind in `dev`, by what it is called in an address; `test` has a key and nothing else."""
    _tell_facts()
    _, secret = create_key("elsewhere", ["ingest"], "test")
    assert secret
    Revision.objects.get_or_create(environment="test", defaults={"number": 1, "changed_at": NOW})
    key, _ = create_key("research", ["ingest"], "dev")
    made: dict[str, Any] = {"key": key.prefix, "breaker": "search_web", "run": "run-1", "cause": "one"}
    made["unknown cause"] = "badcafe"
    made["move"] = Fact.objects.filter(environment="dev", event=MOVED).latest("pk").pk
    made["quarantined record"] = Quarantine.objects.create(
        environment="dev", received_us=1, reason="is broken", size_bytes=1, content="x", signal="logs"
    ).pk
    resets_services.reset(**asked(scope=SEARCH))
    made["ramp"] = ResetRamp.objects.get().number
    made["agent"] = Agent.objects.get(environment="dev", instance="r-1").pk
    made["escalation"] = Escalation.objects.latest("pk").pk
    large, small = CapacityEvent.objects.order_by("pk")[:2]
    admin = person(Role.ADMIN, "eva")
    merge_events(**asked(numbers=[large.pk, small.pk], by=admin))
    made["arrangement"], made["capacity event"] = CapacityArrangement.objects.get().pk, large.pk
    merge_failures(**asked(fingerprints=["one", "two"], by=admin))
    made["grouping"] = FailureGrouping.objects.get().pk
    made |= _policies(admin)
    made["annotation"] = annotate(**asked(text="a maintenance", goes_on=True)).object.number
    made["feedback"] = feedback_services.say(
        **asked(operation="search_web", want="retry_less", service="research")
    ).object.number
    made |= _notifications(admin)
    EnvironmentRules.objects.update_or_create(environment="dev", defaults={"is_second_needed": True})
    with pytest.raises(rejections.CommandRejected):
        overrides.trip(**asked(scope=Scope(operation="*")))
    made["request"] = ApprovalRequest.objects.get().number
    made["override"] = overrides.disable(**asked(scope=SEARCH)).object.pk
    member = User.objects.create_user("member")
    as_role(member, Role.VIEWER, "dev")
    made["person"] = member.pk
    return {kind: str(value) for kind, value in made.items()}


def _tell_facts() -> None:
    story = Story()
    for instance in ("r-0", "r-1"):
        story.tell(heartbeat(), moved(State.OPEN), counted(6), at=90, instance=instance)
    story.tell(failed(Category.TIMEOUT, fingerprint="one"), at=80, run="run-1", instance="r-0")
    story.tell(failed(Category.TIMEOUT, fingerprint="two"), at=80, run="run-1", instance="r-0")
    unknown = {"evidence": Evidence.NONE, "retryable": False, "exception_type": "acme.LedgerError"}
    story.tell(failed(Category.UNKNOWN, "post_entry", fingerprint="badcafe", **unknown), at=70, run="run-2")
    story.tell(Escalated(operation="charge", category=Category.UNKNOWN, queue="unclassified", reason="unknown"), at=60)
    story.tell(heartbeat(), at=1, instance="r-0")
    story.store()
    storm(Story(), since=400, until=300).store()
    storm(Story(), since=380, until=200, provider="atlas", model="small").store()
    look("dev", NOW)
    read_reach("dev", NOW)
    open_escalations("dev", NOW)


def _policies(admin: actors.Actor) -> dict[str, int]:
    release = policies_services.set_operation_policy(
        **asked(operation="search_web", settings={"max_retries": 5}, by=admin)
    )
    document = {"defaults": {"operation": {"max_retries": 5}}}
    proposal = proposals_services.propose(**asked(title="more patience", document=document)).object
    replay = start_replay(**asked(number=proposal.number, start=ago(3600), end=NOW)).object
    golden = golden_services.mark_golden(**asked(run="run-1", name="kept", must="it ends well")).object
    rollout = rollouts_services.start_rollout(**asked(number=proposal.number, share=0.5, for_s=600)).object
    return {
        "proposal": proposal.number,
        "release": release.object.version,
        "replay": replay.number,
        "golden run": golden.number,
        "rollout": rollout.number,
    }


def _notifications(admin: actors.Actor) -> dict[str, int]:
    by = {"by": admin, "name": "night"}
    channel = save_channel(**asked(kind="slack", address="https://hooks.example.org/x", **by)).object
    rule = save_rule(**asked(channel=channel.pk, words={"triggers": ["capacity"]}, **by)).object
    chain = save_chain(**asked(steps=[{"after_s": 0, "channel": channel.pk}], **by)).object
    message(channel, state="failed")
    held = snooze(**asked(provider="atlas", by=admin)).object.pk
    return {"channel": channel.pk, "rule": rule.pk, "chain": chain.pk, "snooze": held}


def addresses(world: dict[str, str]) -> Iterator[Address]:
    """Every address of the objects of this world."""
    for route, pattern in routes():
        kind = kind_of(route)
        if kind and route not in NO_OBJECTS:
            yield Address(
                pattern.name or route, "/" + re.sub(r"<[^>]+>", world[kind], route, count=1), pattern.callback
            )


def answered(client: Client, address: Address, method: str, environment: str) -> int:
    """The status of one try, of which nothing stays."""
    path = f"{address.path}?environment={environment}"
    with transaction.atomic():
        if method == "get":
            status = client.get(path).status_code
        elif address.is_api:
            body = {
                name: LATER if name in ("at", "go_live_at") else value for name, value in address.body(method).items()
            }
            status = getattr(client, method)(path, body, "application/json").status_code
        else:
            form = {"reason": REASON, "key": "k-1", "environment": environment}
            # A page may take more than one act, and says 404 to one that it does not know.
            act = next((one for start, one in ACTS.items() if address.path.startswith(start)), "")
            status = client.post(path, form | {"act": act, "move": act}).status_code
        transaction.set_rollback(True)
    return int(status)


def admin_of(environment: str, group: str = ANY) -> Client:
    """Somebody who is an admin there, of all agents or of one group of them."""
    return holding(Role.ADMIN, environment, group)


def holding(role: Role, environment: str, group: str = ANY) -> Client:
    """Somebody who holds this role, signed in."""
    user = User.objects.create_user(f"{role} of {group} in {environment}")
    RoleGrant.objects.create(user=user, environment=environment, group=group, role=role)
    client = Client()
    client.force_login(user)
    return client
